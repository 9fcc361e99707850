//! Code of recorded schedules, kept in the user's cache: a later release makes other code of their
//! traces, and times the two side by side.
//!
//! A file has what a worker needs to run the code on the cases of one task. Its name is the identity
//! of the code, so that the record of the schedule leads to it, and a digest of the cases. Kept code
//! is run by workers only: nothing embeds it, and no crate ships it.

use std::fs::{self, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_plan::database::{Cache, DatabaseError, atomic};
use tvmtune_plan::printable::shown;
use tvmtune_plan::read::{self, limit};

use super::job::{CaseSpec, Job};
use super::protocol::{CodeSpec, Frame};

/// The first word of a file. It changes with what follows, and with the way in which workers launch code.
const FORMAT: &str = "tvmtune-code-1";
/// Digits of the digest in a file's name.
const DIGEST_DIGITS: usize = 12;

/// The folder of kept code.
#[derive(Clone, Debug)]
pub struct KeptCode {
    dir: PathBuf,
}

/// The error of a file that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum KeptError {
    /// It can't be read.
    #[error("cannot read `{}`: {source}", shown(path))]
    Io {
        /// The file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// Its content is not what was written.
    #[error(
        "`{}` was damaged: its content does not have the hash that it was written with; remove it",
        shown(.0)
    )]
    Damaged(PathBuf),
}

/// The code of a file; its bytes are in the blob.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Kept {
    artifact: ArtifactId,
    /// The dynamic dimensions of each case.
    dims: Vec<Vec<i64>>,
    code: CodeSpec,
}

impl KeptCode {
    /// The size of all files together, in bytes, beyond which the oldest are removed.
    pub const MAX_BYTES: u64 = 128 << 20;

    /// Names the folder of a cache; it need not exist.
    pub fn new(cache: &Cache) -> Self {
        Self { dir: cache.code() }
    }

    /// Keeps the code of a candidate, which can be launched on these cases.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`].
    pub fn store(&self, job: &Job, cases: &[CaseSpec]) -> Result<(), DatabaseError> {
        let dims = dims_of(cases);
        // Code of a log has no identity, and is not kept.
        let Ok(artifact) = job.artifact.parse() else { return Ok(()) };
        let path = self.path(&artifact, &dims);
        let kept = Kept { artifact, dims, code: job.code.clone() };
        let mut frame = Vec::new();
        let written = Frame { message: kept, blob: job.bytes.clone() }.write(&mut frame);
        written.map_err(|it| DatabaseError::io("write", &path, it))?;
        // The hash shows if a crash of the machine left a part only.
        atomic::write_output(&path, &[header(&frame).as_bytes(), &frame].concat())?;
        atomic::set_modified(&path, SystemTime::now())
    }

    /// Loads the code of that identity for these cases; `None` if it was not kept.
    ///
    /// # Errors
    ///
    /// [`KeptError`] if there is a file that can't be used.
    pub fn load(
        &self,
        artifact: &ArtifactId,
        cases: &[CaseSpec],
    ) -> Result<Option<Job>, KeptError> {
        let dims = dims_of(cases);
        let path = self.path(artifact, &dims);
        let bytes = match read::bytes(&path, limit::CACHED) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(KeptError::Io { path, source }),
        };
        let is_it = |it: &Frame<Kept>| {
            let Kept { artifact: of, dims: at, code } = &it.message;
            of == artifact && *at == dims && code.n_bytes() == it.blob.len()
        };
        let Some(Frame { message, blob }) = decode(&bytes).filter(is_it) else {
            return Err(KeptError::Damaged(path));
        };
        Ok(Some(Job { code: message.code, bytes: blob, artifact: message.artifact.to_string() }))
    }

    /// Removes the oldest files until all others together have at most `max_bytes`.
    pub fn prune(&self, max_bytes: u64) {
        let mut files = self.files();
        files.sort_by_key(|(_, it)| it.modified().unwrap_or(SystemTime::UNIX_EPOCH));
        let mut n_bytes: u64 = files.iter().map(|(_, it)| it.len()).sum();
        for (path, metadata) in files {
            if n_bytes <= max_bytes {
                return;
            }
            // Whoever removed it before made the room as well.
            let _ = fs::remove_file(path);
            n_bytes -= metadata.len();
        }
    }

    /// Returns the files with code that no record names; `is_named` tells of which identities one does.
    pub fn orphans(&self, is_named: &dyn Fn(&ArtifactId) -> bool) -> Vec<PathBuf> {
        let artifact =
            |path: &Path| path.file_name()?.to_str()?.split_once('-')?.0.parse::<ArtifactId>().ok();
        let is_orphan = |it: &PathBuf| !artifact(it).is_some_and(|it| is_named(&it));
        let mut orphans: Vec<_> =
            self.files().into_iter().map(|it| it.0).filter(is_orphan).collect();
        orphans.sort();
        orphans
    }

    /// Returns the file of some code.
    fn path(&self, artifact: &ArtifactId, dims: &[Vec<i64>]) -> PathBuf {
        let digest = hex(&Sha256::digest(format!("{dims:?}")));
        let name = format!("{artifact}-{}", &digest[..DIGEST_DIGITS]);
        self.dir.join(&name[..2]).join(name)
    }

    /// Returns all files.
    fn files(&self) -> Vec<(PathBuf, Metadata)> {
        let entries = |it: &Path| fs::read_dir(it).into_iter().flatten().filter_map(Result::ok);
        let folders = entries(&self.dir).map(|it| it.path());
        let files = folders.flat_map(|it| entries(&it).collect::<Vec<_>>());
        files.filter_map(|it| Some((it.path(), it.metadata().ok()?))).collect()
    }
}

fn dims_of(cases: &[CaseSpec]) -> Vec<Vec<i64>> {
    cases.iter().map(|it| it.dims().to_vec()).collect()
}

/// Returns the first line of a file: its format, and the hash of the rest.
fn header(frame: &[u8]) -> String {
    format!("{FORMAT} {}\n", hex(&Sha256::digest(frame)))
}

/// Reads a file; `None` if it is damaged.
fn decode(bytes: &[u8]) -> Option<Frame<Kept>> {
    let end = bytes.iter().position(|it| *it == b'\n')? + 1;
    let (first, mut frame) = bytes.split_at(end);
    (first == header(frame).as_bytes()).then_some(())?;
    Frame::read(&mut frame).ok()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::measure::protocol::CpuSpec;

    fn cases(dims: &[i64]) -> Vec<CaseSpec> {
        let text = "tvmtune dag v1\ninput t0: f32[8]\nt1: f32[8] = t0[v0]\nreturn t1\n";
        vec![CaseSpec::new(&Arc::new(text.parse().unwrap()), dims, 1, &|_| (0.0, 0.0))]
    }

    fn job(digit: char, bytes: &[u8]) -> Job {
        let code = CodeSpec::Cpu(CpuSpec { phases: vec![bytes.len()], ..CpuSpec::default() });
        Job { code, bytes: bytes.to_vec(), artifact: digit.to_string().repeat(64) }
    }

    /// The identity of that digit alone.
    fn id(digit: &str) -> ArtifactId {
        digit.repeat(64).parse().unwrap()
    }

    fn only_file(kept: &KeptCode) -> PathBuf {
        let files = kept.files();
        assert_eq!(files.len(), 1);
        files[0].0.clone()
    }

    #[test]
    fn code_is_found_by_its_identity_and_cases() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptCode::new(&Cache::new(folder.path()));
        let job = job('a', b"code");
        assert!(kept.load(&id("a"), &cases(&[8])).unwrap().is_none());
        kept.store(&job, &cases(&[8])).unwrap();
        let loaded = kept.load(&id("a"), &cases(&[8])).unwrap().unwrap();
        assert_eq!(
            (loaded.bytes, loaded.code, loaded.artifact),
            (job.bytes, job.code, job.artifact)
        );
        for (artifact, dims) in [("a", 9), ("b", 8)] {
            assert!(kept.load(&id(artifact), &cases(&[dims])).unwrap().is_none());
        }
    }

    #[test]
    fn a_damaged_file_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptCode::new(&Cache::new(folder.path()));
        let job = job('a', b"code");
        kept.store(&job, &cases(&[8])).unwrap();
        let path = only_file(&kept);
        let good = fs::read(&path).unwrap();
        let check = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            let error = kept.load(&id("a"), &cases(&[8])).unwrap_err().to_string();
            assert!(error.contains(&path.display().to_string()), "{error}");
        };
        for n in 0..good.len() {
            check(&good[..n]);
            let mut other = good.clone();
            other[n] ^= 1;
            check(&other);
        }
        check(&[&good[..], b"more"].concat());
        kept.store(&job, &cases(&[8])).unwrap();
        let elsewhere = kept.path(&id("b"), &[vec![8]]);
        fs::create_dir_all(elsewhere.parent().unwrap()).unwrap();
        fs::copy(&path, elsewhere).unwrap();
        assert!(kept.load(&id("b"), &cases(&[8])).is_err(), "code of another identity");
    }

    #[test]
    fn the_oldest_files_are_removed_beyond_a_size() {
        let folder = tempfile::tempdir().unwrap();
        let kept = KeptCode::new(&Cache::new(folder.path()));
        for (age, digit) in ['a', 'b', 'c'].into_iter().enumerate() {
            let job = job(digit, b"code");
            kept.store(&job, &cases(&[8])).unwrap();
            let path = kept.path(&id(&digit.to_string()), &[vec![8]]);
            let time = SystemTime::now() - Duration::from_secs(60 * age as u64);
            atomic::set_modified(&path, time).unwrap();
        }
        let is_kept =
            |digit: char| kept.load(&id(&digit.to_string()), &cases(&[8])).unwrap().is_some();
        let n_bytes: u64 = kept.files().iter().map(|it| it.1.len()).sum();
        kept.prune(n_bytes);
        assert_eq!(['a', 'b', 'c'].map(is_kept), [true; 3]);
        kept.prune(n_bytes - 1);
        assert_eq!(['a', 'b', 'c'].map(is_kept), [true, true, false]);
        let orphans = kept.orphans(&|it| *it == id("a"));
        assert!(orphans.len() == 1 && orphans[0].to_string_lossy().contains("bbbb"), "{orphans:?}");
    }
}

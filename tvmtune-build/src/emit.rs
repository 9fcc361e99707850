//! Writes the plans of a build into `OUT_DIR`, incrementally.
//!
//! In: texts by workload. Out: `OUT_DIR/tvmtune/<workload id>.rs`, which the macro reads, and the
//! files that these texts include. Next:
//! [the macro](https://docs.rs/tvmtune-macros) expands.
//!
//! # Invariants
//!
//! - Nothing outside of `OUT_DIR/tvmtune` is written, and in it nothing else is kept.
//! - A file whose text stays the same isn't touched: its time is part of cargo's decisions.
//! - A plan of the manifest is reused only if its files exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind};
use crate::report::OpReport;

/// The folder that the plans of a build are in. See the [module documentation](self).
pub(crate) struct Emitter {
    dir: PathBuf,
    /// The manifest of the last run.
    previous: Manifest,
    /// The manifest of this run.
    current: Manifest,
}

/// The name of the manifest: no plan has it.
const MANIFEST: &str = "memory.toml";

/// The plans of a run, and their inputs.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Manifest {
    /// The identity of the script: another one may generate other code.
    script: String,
    /// The plans by workload.
    plans: BTreeMap<String, PlanEntry>,
}

/// One plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct PlanEntry {
    /// The digest of the inputs of the plan.
    digest: String,
    /// Its report.
    report: OpReport,
    /// The names of the files that it includes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    includes: Vec<String>,
}

impl Emitter {
    /// Reads the manifest of the last run in `out_dir`, and creates the folder of the plans.
    ///
    /// # Errors
    ///
    /// If the folder can't be made.
    pub(crate) fn open(out_dir: &Path) -> Result<Self, Error> {
        let dir = folder(out_dir);
        fs::create_dir_all(&dir).map_err(|it| ErrorKind::Io(it).of(dir.clone()))?;
        let text = fs::read_to_string(dir.join(MANIFEST)).unwrap_or_default();
        let mut previous: Manifest = toml::from_str(&text).unwrap_or_default();
        let current = Manifest { script: script_identity(), plans: BTreeMap::new() };
        if previous.script != current.script {
            previous = Manifest::default();
        }
        Ok(Self { dir, previous, current })
    }

    /// Reuses the plan of a workload if its inputs are unchanged; returns its report.
    pub(crate) fn reuse(&mut self, workload: &str, digest: &str) -> Option<OpReport> {
        let entry = self.previous.plans.get(workload).filter(|it| it.digest == digest)?.clone();
        let exists = |it: &String| self.dir.join(it).is_file();
        (self.path(workload).is_file() && entry.includes.iter().all(exists)).then(|| {
            let report = entry.report.clone();
            self.current.plans.insert(workload.to_owned(), entry);
            report
        })
    }

    /// Writes the plan of a workload, and the files that it includes, by name.
    ///
    /// # Errors
    ///
    /// If the file can't be written.
    pub(crate) fn put(
        &mut self,
        workload: &str,
        digest: String,
        text: &str,
        includes: &[(String, Vec<u8>)],
        report: &OpReport,
    ) -> Result<(), Error> {
        for (name, bytes) in includes {
            write(&self.dir.join(name), bytes)?;
        }
        write(&self.path(workload), text.as_bytes())?;
        let includes = includes.iter().map(|(name, _)| name.clone()).collect();
        let entry = PlanEntry { digest, report: report.clone(), includes };
        self.current.plans.insert(workload.to_owned(), entry);
        Ok(())
    }

    /// Removes files that are in no plan of this run, and writes the manifest.
    ///
    /// # Errors
    ///
    /// If a file can't be written or removed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |it| ErrorKind::Io(it).of(path)
        };
        let includes = self.current.plans.values().flat_map(|it| &it.includes);
        let includes = includes.map(|it| self.dir.join(it));
        let current: BTreeSet<PathBuf> =
            self.current.plans.keys().map(|it| self.path(it)).chain(includes).collect();
        for entry in fs::read_dir(&self.dir).map_err(io(&self.dir))? {
            let path = entry.map_err(io(&self.dir))?.path();
            if path.is_file() && !current.contains(&path) && !path.ends_with(MANIFEST) {
                fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        let manifest = toml::to_string(&self.current).expect("strings and numbers are TOML");
        write(&self.dir.join(MANIFEST), manifest.as_bytes())
    }

    fn path(&self, workload: &str) -> PathBuf {
        self.dir.join(format!("{workload}.rs"))
    }
}

/// Returns the folder of the plans in `OUT_DIR`.
pub(crate) fn folder(out_dir: &Path) -> PathBuf {
    out_dir.join("tvmtune")
}

/// Writes a file unless it has the same content already.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|it| it == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|it| ErrorKind::Io(it).of(path.to_owned()))
}

/// Returns the modification time and size of the running script: cheaper than a hash, and it changes
/// with the generator in it.
fn script_identity() -> String {
    let metadata = std::env::current_exe().and_then(fs::metadata).ok();
    let modified = metadata.as_ref().and_then(|it| it.modified().ok());
    let age = modified.and_then(|it| it.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{}-{}", age.as_nanos(), metadata.map_or(0, |it| it.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(emitter: &mut Emitter, workload: &str) {
        let put = emitter.put(workload, "1".to_owned(), "text", &[], &OpReport::default());
        put.expect("writable");
    }

    #[test]
    fn a_plan_is_reused_as_long_as_its_inputs_are_unchanged() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = Emitter::open(folder.path()).expect("writable");
        assert_eq!(first.reuse("w", "1"), None);
        put(&mut first, "w");
        first.finish().expect("writable");

        let mut second = Emitter::open(folder.path()).expect("writable");
        assert_eq!(second.reuse("w", "2"), None);
        assert_eq!(second.reuse("w", "1"), Some(OpReport::default()));
        fs::remove_file(second.path("w")).expect("it is there");
        assert_eq!(second.reuse("w", "1"), None);
    }

    #[test]
    fn files_of_no_plan_are_removed() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = Emitter::open(folder.path()).expect("writable");
        ["a", "b"].iter().for_each(|it| put(&mut first, it));
        first.finish().expect("writable");

        let mut second = Emitter::open(folder.path()).expect("writable");
        second.reuse("b", "1").expect("it was made from the same");
        let (a, b) = (second.path("a"), second.path("b"));
        second.finish().expect("writable");
        assert!(!a.exists());
        assert!(b.exists());
    }

    #[test]
    fn a_text_that_stays_the_same_is_not_written_again() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("file");
        write(&path, b"text").expect("writable");
        let old = UNIX_EPOCH + std::time::Duration::from_secs(1);
        let file = fs::File::options().write(true).open(&path).expect("writable");
        file.set_modified(old).expect("writable");
        let modified = || fs::metadata(&path).and_then(|it| it.modified()).expect("readable");
        write(&path, b"text").expect("writable");
        assert_eq!(modified(), old);
        write(&path, b"other").expect("writable");
        assert_ne!(modified(), old);
    }
}

//! Writes the plans of a build into `OUT_DIR`, incrementally.
//!
//! In: texts by name. Out: `OUT_DIR/tvmtune/<plan name>.rs`, which the macro reads, and the
//! files that these texts include. Next:
//! [the macro](https://docs.rs/tvmtune-macros) expands.
//!
//! # Invariants
//!
//! - Nothing outside of `OUT_DIR/tvmtune` is written, and in it nothing else is kept.
//! - A file whose text stays the same isn't touched, and others change at once: compilers of other
//!   targets may read them.
//! - A plan of the manifest is reused only if its files exist.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::{DeviceKey, GpuTarget};
use tvmtune_plan::database::{DatabaseError, atomic};
use tvmtune_plan::handoff;
use tvmtune_plan::read::{self, limit};

use crate::report::OpReport;

/// The folder that the plans of a build are in. See the [module documentation](self).
pub(crate) struct Emitter {
    dir: PathBuf,
    /// The manifest of the last run.
    previous: Manifest,
    /// The manifest of this run.
    current: Manifest,
    /// The version of the compiler for GPUs, if this run has one.
    compiler: Option<(u32, u32)>,
}

/// The name of the manifest: no plan has it.
const MANIFEST: &str = "memory.toml";

/// The name of the lock of this folder.
pub(crate) const LOCK: &str = "lock";

/// The files of the folder that belong to no plan.
const KEPT: [&str; 3] = [MANIFEST, LOCK, handoff::FILE_NAME];

/// The plans of a run, and their inputs.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Manifest {
    /// The identity of the script: another one may generate other code.
    script: String,
    /// The key of the GPU that the last session found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    gpu: Option<DeviceKey>,
    /// The plans by name.
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
    /// The version of the compiler for GPUs, if the run that wrote it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    compiler: Option<(u32, u32)>,
}

impl Emitter {
    /// Reads the manifest of the last run in `out_dir`, and creates the folder of the plans.
    ///
    /// # Errors
    ///
    /// If the folder can't be made.
    pub(crate) fn open(out_dir: &Path) -> Result<Self, DatabaseError> {
        let dir = folder(out_dir);
        fs::create_dir_all(&dir).map_err(|it| DatabaseError::io("create", &dir, it))?;
        let text = read::text(&dir.join(MANIFEST), limit::OUTPUT).unwrap_or_default();
        let mut previous: Manifest = toml::from_str(&text).unwrap_or_default();
        let mut current = Manifest { script: script_identity(), ..Manifest::default() };
        if previous.script != current.script {
            previous = Manifest::default();
        }
        current.gpu = previous.gpu.clone();
        Ok(Self { dir, previous, current, compiler: None })
    }

    /// Says that this run has a compiler for GPUs of that version.
    #[must_use]
    pub(crate) fn with_compiler(self, compiler: Option<(u32, u32)>) -> Self {
        Self { compiler, ..self }
    }

    /// Returns the GPU that the last session found.
    pub(crate) fn gpu(&self) -> Option<GpuTarget> {
        GpuTarget::from_key(self.current.gpu.as_ref()?)
    }

    /// Remembers the GPU that this session found.
    pub(crate) fn remember_gpu(&mut self, gpu: Option<GpuTarget>) {
        self.current.gpu = gpu.map(|it| it.key());
    }

    /// Keeps the plans of the last run that this one does not replace.
    pub(crate) fn keep_others(&mut self) {
        self.current.plans = self.previous.plans.clone();
    }

    /// Reuses the plan of that name if its inputs are unchanged; returns its report. Where there is a
    /// compiler, a plan that lacks code for a device is not reused, nor is one that was made by another
    /// version of the compiler.
    pub(crate) fn reuse(&mut self, name: &str, digest: &str) -> Option<OpReport> {
        let entry = self.previous.plans.get(name).filter(|it| it.digest == digest)?.clone();
        let is_other = entry.compiler.is_some_and(|it| self.compiler != Some(it));
        let lacks_code = !entry.report.missing_archs.is_empty();
        if self.compiler.is_some() && (lacks_code || is_other) {
            return None;
        }
        let exists = |it: &String| self.dir.join(it).is_file();
        (self.path(name).is_file() && entry.includes.iter().all(exists)).then(|| {
            let report = entry.report.clone();
            self.current.plans.insert(name.to_owned(), entry);
            report
        })
    }

    /// Writes the plan of that name, and the files that it includes, by name.
    ///
    /// # Errors
    ///
    /// If the file can't be written.
    pub(crate) fn put(
        &mut self,
        name: &str,
        digest: String,
        text: &str,
        includes: &[(String, Vec<u8>)],
        report: &OpReport,
    ) -> Result<(), DatabaseError> {
        for (file, bytes) in includes {
            write_content_addressed(&self.dir.join(file), bytes)?;
        }
        atomic::write_output(&self.path(name), text.as_bytes())?;
        let includes = includes.iter().map(|(name, _)| name.clone()).collect();
        let (report, compiler) = (report.clone(), self.compiler);
        let entry = PlanEntry { digest, report, includes, compiler };
        self.current.plans.insert(name.to_owned(), entry);
        Ok(())
    }

    /// Removes files that are in no plan of this run, and writes the manifest.
    ///
    /// # Errors
    ///
    /// If a file can't be written or removed.
    pub(crate) fn finish(self) -> Result<(), DatabaseError> {
        let list = |it| DatabaseError::io("list", &self.dir, it);
        let includes = self.current.plans.values().flat_map(|it| &it.includes);
        let includes = includes.map(|it| self.dir.join(it));
        let current: BTreeSet<PathBuf> =
            self.current.plans.keys().map(|it| self.path(it)).chain(includes).collect();
        for entry in fs::read_dir(&self.dir).map_err(list)? {
            let path = entry.map_err(list)?.path();
            let is_plan = |it: &str| !KEPT.contains(&it);
            let name = path.file_name().and_then(|it| it.to_str());
            if path.is_file() && name.is_some_and(is_plan) && !current.contains(&path) {
                fs::remove_file(&path).map_err(|it| DatabaseError::io("remove", &path, it))?;
            }
        }
        let manifest = toml::to_string(&self.current).expect("strings and numbers are TOML");
        atomic::write_output(&self.dir.join(MANIFEST), manifest.as_bytes())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.rs"))
    }
}

/// Returns the folder of the plans in `OUT_DIR`.
pub(crate) fn folder(out_dir: &Path) -> PathBuf {
    out_dir.join("tvmtune")
}

/// Writes a file that is named by its content, with a modification time from long ago: a session
/// writes it while a compiler runs, and cargo takes an input that is newer than the compiler for a
/// change.
fn write_content_addressed(path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
    atomic::write_output(path, bytes)?;
    atomic::set_modified(path, UNIX_EPOCH)
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

    fn put(emitter: &mut Emitter, name: &str) {
        let put = emitter.put(name, "1".to_owned(), "text", &[], &OpReport::default());
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
    fn a_plan_of_another_compiler_is_made_anew() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let open = |version| Emitter::open(folder.path()).expect("writable").with_compiler(version);
        let mut session = open(Some((12, 4)));
        put(&mut session, "w");
        session.finish().expect("writable");
        for (version, is_reused) in [(Some((12, 4)), true), (None, true), (Some((13, 0)), false)] {
            let mut emitter = open(version);
            assert_eq!(emitter.reuse("w", "1").is_some(), is_reused, "{version:?}");
            if is_reused {
                emitter.finish().expect("writable");
            }
        }
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
}

//! Writes what a build decided into `OUT_DIR`, and remembers what it was decided from.
//!
//! In: texts by workload. Out: `OUT_DIR/tvmtune/<workload id>.rs`, which the macro reads, and the
//! files that these texts include. Next:
//! [the macro](https://docs.rs/tvmtune-macros) expands.
//!
//! # Invariants
//!
//! - Nothing outside of `OUT_DIR/tvmtune` is written, and in it nothing else is kept.
//! - A file whose text stays the same isn't touched: its time is part of cargo's decisions.
//! - What the memory says is only believed if the file it speaks of is there.

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
    memory: Memory,
    kept: Memory,
}

/// The name of the memory: no plan is called that.
const MEMORY: &str = "memory.toml";

/// What the last run decided.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
struct Memory {
    /// The script that ran: another one may generate other code.
    script: String,
    /// By workload.
    plans: BTreeMap<String, Remembered>,
}

/// One plan of the last run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Remembered {
    /// Of everything the plan follows from.
    digest: String,
    /// What there is to say of it.
    report: OpReport,
    /// The names of the files that it includes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    includes: Vec<String>,
}

impl Emitter {
    /// The plans in `out_dir`, as the last run left them; makes their folder.
    ///
    /// # Errors
    ///
    /// If the folder can't be made.
    pub(crate) fn open(out_dir: &Path) -> Result<Self, Error> {
        let dir = folder(out_dir);
        fs::create_dir_all(&dir).map_err(|it| ErrorKind::Io(it).of(dir.clone()))?;
        let text = fs::read_to_string(dir.join(MEMORY)).unwrap_or_default();
        let mut memory: Memory = toml::from_str(&text).unwrap_or_default();
        let kept = Memory { script: script_identity(), plans: BTreeMap::new() };
        if memory.script != kept.script {
            memory = Memory::default();
        }
        Ok(Self { dir, memory, kept })
    }

    /// Keeps the plan of a workload if the last run made it from the same.
    pub(crate) fn keep(&mut self, workload: &str, digest: &str) -> Option<OpReport> {
        let known = self.memory.plans.get(workload).filter(|it| it.digest == digest)?.clone();
        let there = |it: &String| self.dir.join(it).is_file();
        (self.path(workload).is_file() && known.includes.iter().all(there)).then(|| {
            let report = known.report.clone();
            self.kept.plans.insert(workload.to_owned(), known);
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
        (text, includes): (&str, &[(String, Vec<u8>)]),
        report: &OpReport,
    ) -> Result<(), Error> {
        for (name, bytes) in includes {
            write(&self.dir.join(name), bytes)?;
        }
        write(&self.path(workload), text.as_bytes())?;
        let includes = includes.iter().map(|(name, _)| name.clone()).collect();
        let remembered = Remembered { digest, report: report.clone(), includes };
        self.kept.plans.insert(workload.to_owned(), remembered);
        Ok(())
    }

    /// Removes what no plan of this run is in, and remembers the run.
    ///
    /// # Errors
    ///
    /// If a file can't be written or removed.
    pub(crate) fn finish(self) -> Result<(), Error> {
        let io = |path: &Path| {
            let path = path.to_owned();
            move |it| ErrorKind::Io(it).of(path)
        };
        let includes = self.kept.plans.values().flat_map(|it| &it.includes);
        let includes = includes.map(|it| self.dir.join(it));
        let kept: BTreeSet<PathBuf> =
            self.kept.plans.keys().map(|it| self.path(it)).chain(includes).collect();
        for entry in fs::read_dir(&self.dir).map_err(io(&self.dir))? {
            let path = entry.map_err(io(&self.dir))?.path();
            if path.is_file() && !kept.contains(&path) && !path.ends_with(MEMORY) {
                fs::remove_file(&path).map_err(io(&path))?;
            }
        }
        let memory = toml::to_string(&self.kept).expect("strings and numbers are TOML");
        write(&self.dir.join(MEMORY), memory.as_bytes())
    }

    fn path(&self, workload: &str) -> PathBuf {
        self.dir.join(format!("{workload}.rs"))
    }
}

/// The folder of the plans in `OUT_DIR`.
pub(crate) fn folder(out_dir: &Path) -> PathBuf {
    out_dir.join("tvmtune")
}

/// Writes a file unless it says the same already.
fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    if fs::read(path).is_ok_and(|it| it == bytes) {
        return Ok(());
    }
    fs::write(path, bytes).map_err(|it| ErrorKind::Io(it).of(path.to_owned()))
}

/// When and how large the running script was made: cheaper than a hash of it, and it changes
/// whenever the generator in it does.
fn script_identity() -> String {
    let metadata = std::env::current_exe().and_then(fs::metadata).ok();
    let modified = metadata.as_ref().and_then(|it| it.modified().ok());
    let age = modified.and_then(|it| it.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
    format!("{}-{}", age.as_nanos(), metadata.map_or(0, |it| it.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> OpReport {
        OpReport::default()
    }

    #[test]
    fn a_plan_is_kept_as_long_as_it_follows_from_the_same() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = Emitter::open(folder.path()).expect("writable");
        assert_eq!(first.keep("w", "1"), None);
        first.put("w", "1".to_owned(), ("text", &[]), &report()).expect("writable");
        first.finish().expect("writable");

        let mut second = Emitter::open(folder.path()).expect("writable");
        assert_eq!(second.keep("w", "2"), None);
        assert_eq!(second.keep("w", "1"), Some(report()));
        fs::remove_file(second.path("w")).expect("it is there");
        assert_eq!(second.keep("w", "1"), None);
    }

    #[test]
    fn what_no_plan_of_the_run_is_in_goes_away() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut first = Emitter::open(folder.path()).expect("writable");
        for workload in ["a", "b"] {
            first.put(workload, "1".to_owned(), ("text", &[]), &report()).expect("writable");
        }
        first.finish().expect("writable");

        let mut second = Emitter::open(folder.path()).expect("writable");
        second.keep("b", "1").expect("it was made from the same");
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

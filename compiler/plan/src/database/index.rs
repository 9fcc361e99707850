//! An index of a store: which files are of which workload, by their names alone.
//!
//! In: a store. Out: the paths of the records of a workload. Next: the database opens these, and no
//! others. The folder of the program is looked into first; that of a renamed program is found among all
//! folders, whose files are listed once for all lookups.
//!
//! # Invariant
//!
//! - The number of files that are opened for a workload, and of those that are listed, has a limit. What
//!   is beyond it is left out, and a warning says so.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use tvmtune_ir::name::ProgramName;
use tvmtune_ir::workload::WorkloadId;

use super::error::DatabaseError;
use super::files::{parts, programs_in, records_in};
use crate::device;

/// Records of one workload that are opened: one for each device that it was ever measured on.
const MAX_RECORDS: usize = 256;
/// Files of a store that are listed.
const MAX_LISTED: usize = 100_000;

/// An index of one store, as far as it was needed.
#[derive(Debug, Default)]
pub(super) struct Index {
    /// The files of all folders by the digits of their workload, once they were listed.
    all: Option<BTreeMap<String, Vec<PathBuf>>>,
}

impl Index {
    /// Returns the files of the records of a workload in a store.
    pub(super) fn of_workload(
        &mut self,
        store: &Path,
        workload: &WorkloadId,
        name: &ProgramName,
        warnings: &mut Vec<DatabaseError>,
    ) -> Vec<PathBuf> {
        let id = workload.0.short();
        let is_it = |it: &PathBuf| parts(it).is_some_and(|(of, _)| of == id);
        let folder = store.join(name.folder());
        let stray = [store, &folder].into_iter().find(|it| it.is_file());
        warnings.extend(stray.map(|it| DatabaseError::NoFolder { path: it.to_owned() }));
        warnings.extend([store, &folder].into_iter().filter_map(unreadable));
        let mut paths: Vec<_> = records_in(&folder).into_iter().filter(is_it).collect();
        if paths.is_empty() {
            let all = self.all.get_or_insert_with(|| list(store, warnings));
            paths = all.get(&id).cloned().unwrap_or_default();
        }
        if paths.len() > MAX_RECORDS {
            let own = device::detect().map(|it| it.key().file_stem());
            let is_own = |it: &PathBuf| own.as_deref() == parts(it).map(|it| it.1);
            paths.sort_by_key(|it| !is_own(it));
            paths.truncate(MAX_RECORDS);
            let what = "records of one workload";
            let path = paths[0].parent().unwrap_or(store).to_owned();
            warnings.push(DatabaseError::TooMany { path, what, limit: MAX_RECORDS });
        }
        paths
    }
}

/// Returns the error of a folder that exists and can't be listed.
fn unreadable(dir: &Path) -> Option<DatabaseError> {
    let error = fs::read_dir(dir).err()?;
    let is_missing = matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory);
    (!is_missing).then(|| DatabaseError::io("list", dir, error))
}

/// Lists the records of a store by the digits of their workload.
fn list(store: &Path, warnings: &mut Vec<DatabaseError>) -> BTreeMap<String, Vec<PathBuf>> {
    let mut all: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    let files = programs_in(store).into_iter().flat_map(|it| records_in(&it));
    for (n, path) in files.enumerate() {
        if n == MAX_LISTED {
            let (path, what) = (store.to_owned(), "records");
            warnings.push(DatabaseError::TooMany { path, what, limit: MAX_LISTED });
            break;
        }
        let id = parts(&path).map(|(id, _)| id.to_owned());
        all.entry(id.unwrap_or_default()).or_default().push(path);
    }
    all
}

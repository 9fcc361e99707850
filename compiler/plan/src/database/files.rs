//! The files of a database: their names, and reading them.

use std::fs;
use std::path::{Path, PathBuf};

use tvmtune_ir::target::DeviceKey;

use super::error::DatabaseError;
use crate::record::Record;

/// Digits of a workload's id in the name of its files; the whole id is inside.
pub(super) const ID_DIGITS: usize = 12;

/// Returns the file of the record of a workload and device.
pub(super) fn file_of(dir: &Path, record: &Record) -> PathBuf {
    let DeviceKey(device) = &record.device;
    let id = &record.workload[..ID_DIGITS.min(record.workload.len())];
    // Windows allows no colon.
    dir.join(folder_name(&record.name)).join(format!("{id}.{}.toml", device.replace(':', "_")))
}

/// Returns the name of the folder of a program: `layers.linear` for `layers::linear`, since Windows
/// allows no colon.
pub fn folder_name(program: &str) -> String {
    program.replace("::", ".")
}

pub(super) fn read(path: &Path) -> Result<Record, DatabaseError> {
    let text = fs::read_to_string(path).map_err(|it| DatabaseError::io("read", path, it))?;
    Record::from_toml(&text)
        .map_err(|source| DatabaseError::Record { path: path.to_owned(), source })
}

/// Rejects a record whose workload is not that of its file name.
pub(super) fn check_identity(
    record: Record,
    workload: &str,
    dag: &str,
    path: &Path,
) -> Result<Record, DatabaseError> {
    let differs =
        [(record.workload != workload, "workload"), (record.dag != dag, "canonical text")];
    match differs.into_iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(DatabaseError::Foreign { path: path.to_owned(), what }),
        None => Ok(record),
    }
}

/// Returns the records in a folder whose names start with a prefix, sorted.
pub(super) fn files_in(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        name.starts_with(prefix) && !name.starts_with('.') && name.ends_with(".toml")
    };
    entries(dir).into_iter().filter(is_record).collect()
}

/// Returns the folders in a folder, sorted.
pub(super) fn folders_in(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|it| it.is_dir()).collect()
}

/// Returns the entries of a folder, sorted; none if it does not exist.
pub(super) fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|it| it.ok().map(|it| it.path())).collect();
    paths.sort();
    paths
}

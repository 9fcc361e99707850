//! The files of a database: their names, and reading them.
//!
//! # Invariants
//!
//! - Files and folders whose names are not of the pattern are not looked at: a name that is printed or
//!   opened has no control characters and no separators.

use std::fs;
use std::path::{Path, PathBuf};

use tvmtune_ir::digest::Digest;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::workload::WorkloadId;

use super::error::DatabaseError;
use crate::read::{self, limit};
use crate::record::Record;

/// The length of the name of a device in the name of a file.
const MAX_DEVICE_BYTES: usize = 120;

/// Returns the file of the record of a workload and device.
pub(super) fn file_of(dir: &Path, record: &Record) -> PathBuf {
    let (WorkloadId(id), device) = (&record.workload, record.device.file_stem());
    dir.join(record.name.folder()).join(format!("{}.{device}.toml", id.short()))
}

/// Returns the name of the folder of a program, as one that a record may name.
pub fn folder_name(program: &str) -> String {
    ProgramName::of(program).folder()
}

pub(super) fn read(path: &Path) -> Result<Record, DatabaseError> {
    let text = read::text(path, limit::RECORD).map_err(|it| DatabaseError::io("read", path, it))?;
    Record::from_toml(&text)
        .map_err(|source| DatabaseError::Record { path: path.to_owned(), source })
}

/// Rejects a record whose workload is not that of its file name.
pub(super) fn check_identity(
    record: Record,
    workload: &WorkloadId,
    dag: &str,
    path: &Path,
) -> Result<Record, DatabaseError> {
    let differs =
        [(record.workload != *workload, "workload"), (record.dag != dag, "canonical text")];
    match differs.into_iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(DatabaseError::Foreign { path: path.to_owned(), what }),
        None => Ok(record),
    }
}

/// Returns the digits of a workload in the name of the file of a record, and the device there; `None`
/// if it is not the name of one.
pub(super) fn parts(path: &Path) -> Option<(&str, &str)> {
    let (id, rest) = path.file_name()?.to_str()?.split_once('.')?;
    let device = rest.strip_suffix(".toml")?;
    let is_digit = |it: u8| matches!(it, b'0'..=b'9' | b'a'..=b'f');
    let is_id = id.len() == Digest::SHORT && id.bytes().all(is_digit);
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
    let is_device = (1..=MAX_DEVICE_BYTES).contains(&device.len()) && device.bytes().all(is_plain);
    (is_id && is_device).then_some((id, device))
}

/// Returns the records in a folder, sorted.
pub(super) fn records_in(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|it| parts(it).is_some()).collect()
}

/// Returns the folders of programs in a folder, sorted.
pub(super) fn programs_in(dir: &Path) -> Vec<PathBuf> {
    let is_program = |it: &PathBuf| {
        it.file_name().and_then(|it| it.to_str()).is_some_and(ProgramName::is_folder)
    };
    folders_in(dir).into_iter().filter(is_program).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_named_as_records_are_records() {
        let check = |name: &str, expected| assert_eq!(parts(Path::new(name)), expected, "{name:?}");
        check(
            "a/0123456789ab.cpu-avx2-amd_25_1-l1_32-l2_512-t2.toml",
            Some(("0123456789ab", "cpu-avx2-amd_25_1-l1_32-l2_512-t2")),
        );
        for bad in [
            "0123456789ab.toml",
            "0123456789ab..toml",
            "0123456789ab.cpu.toml.bak",
            ".0123456789ab.cpu.toml",
            ".0123456789ab.cpu.toml.12.tmp",
            "0123456789AB.cpu.toml",
            "0123456789abc.cpu.toml",
            "0123456789ab.a\ncargo::rustc-env=EVIL=1\n.toml",
            "0123456789ab.a\u{1b}[2J.toml",
            "0123456789ab.c:d.toml",
            "0123456789ab.cpu.x.toml",
            "memory.toml",
        ] {
            check(bad, None);
        }
    }
}

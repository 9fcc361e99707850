//! Records that a case begins with: the kernels of a place, tuned a little, once for each process.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use super::ledger::{Ledger, files};
use super::place::{Place, run};
use crate::section::Problem;

/// Files by their path below some folder.
type Files = BTreeMap<PathBuf, Vec<u8>>;

/// The files of a place that was tuned: of its cache, and those that its crate ships.
struct Tuned {
    cache: Files,
    shipped: Files,
}

/// Makes a place in a folder whose kernels are tuned, and whose crate ships the records.
///
/// # Errors
///
/// If tuning or accepting fails.
pub fn tuned(folder: &Path) -> Result<Place, Problem> {
    static TUNED: OnceLock<Result<Tuned, Problem>> = OnceLock::new();
    let Tuned { cache, shipped } = TUNED.get_or_init(tune).as_ref().map_err(Clone::clone)?;
    let place = Place::new(folder).map_err(io_problem)?;
    write(cache, &place.cache).map_err(io_problem)?;
    write(shipped, &place.shipped()).map_err(io_problem)?;
    Ok(place)
}

fn tune() -> Result<Tuned, Problem> {
    let folder = tempfile::Builder::new().prefix("campaign-").tempdir().map_err(io_problem)?;
    let place = Place::new(folder.path()).map_err(io_problem)?;
    run(&mut place.tvmtune(["tune", "--trials", "3"]))?.is_done("tune")?;
    run(&mut place.tvmtune(["accept"]))?.is_done("accept")?;
    if Ledger::of(&place)?.n_schedules() < 6 {
        return Err(Problem::wrong("a place that was tuned has too few schedules"));
    }
    let read = |it: &Path| read(it).map_err(io_problem);
    Ok(Tuned { cache: read(&place.cache)?, shipped: read(&place.shipped())? })
}

/// Copies a folder; times do not matter.
///
/// # Errors
///
/// If something cannot be read or written.
pub fn copy(from: &Path, to: &Path) -> io::Result<()> {
    write(&read(from)?, to)
}

fn read(folder: &Path) -> io::Result<Files> {
    let file = |path: PathBuf| {
        let relative = path.strip_prefix(folder).unwrap_or(&path).to_owned();
        Ok((relative, fs::read(path)?))
    };
    files(folder).into_iter().map(file).collect()
}

fn write(files: &Files, folder: &Path) -> io::Result<()> {
    for (relative, bytes) in files {
        let path = folder.join(relative);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(path, bytes)?;
    }
    Ok(())
}

/// Makes a problem of an error of the system, in what the campaign itself does.
pub fn io_problem(error: io::Error) -> Problem {
    Problem::wrong(format!("the campaign itself fails: {error}"))
}

//! Temporary files beside those that are written: what a process that was killed left is removed.
//!
//! In: the path of a file. Out: the path of a temporary one, in the same folder. Who writes into a
//! folder removes what others left there; `cargo tvmtune gc` does so everywhere.
//!
//! # Invariant
//!
//! - A file that somebody may be writing stays: its process lives, or it is young. Numbers of
//!   processes differ between containers that share a folder, so age alone decides in the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use super::files::entries;
use crate::process::is_gone;

/// The age from which a file is left over if its process has ended, and from which it is anyhow.
const AGE_OF_DEAD: Duration = Duration::from_secs(60);
const AGE: Duration = Duration::from_secs(3600);

/// Returns the path of a temporary file for one, of which no other thread or process has the same.
pub(super) fn path_for(path: &Path) -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or("file");
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    path.with_file_name(format!(".{name}.{}-{number}.tmp", process::id()))
}

/// Removes what other writers left in a folder.
pub(super) fn sweep(dir: &Path) {
    for path in left_in(dir) {
        // Another one may have removed it.
        let _ = fs::remove_file(path);
    }
}

/// Returns the temporary files in a folder that nobody writes any more.
pub(super) fn left_in(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|it| is_left_over(it)).collect()
}

/// Returns the temporary files below a folder that nobody writes any more, without those behind links.
pub(super) fn left_below(dir: &Path) -> Vec<PathBuf> {
    let is_folder = |it: &PathBuf| fs::symlink_metadata(it).is_ok_and(|it| it.is_dir());
    let below = entries(dir).into_iter().filter(is_folder).flat_map(|it| left_below(&it));
    left_in(dir).into_iter().chain(below).collect()
}

fn is_left_over(path: &Path) -> bool {
    let Some(process) = writer(path) else { return false };
    let Ok(metadata) = fs::symlink_metadata(path) else { return false };
    // One of the future is of a clock that was wrong: it tells nothing.
    let age = metadata.modified().ok().and_then(|it| SystemTime::now().duration_since(it).ok());
    let limit = if is_gone(process) { AGE_OF_DEAD } else { AGE };
    metadata.is_file() && age.map_or(is_gone(process), |it| it >= limit)
}

/// Returns the process that a temporary file names; `None` if it is none.
fn writer(path: &Path) -> Option<u32> {
    let name = path.file_name()?.to_str()?;
    let (_, process) = name.strip_prefix('.')?.strip_suffix(".tmp")?.rsplit_once('.')?;
    process.split_once('-').map_or(process, |it| it.0).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn only_what_nobody_writes_any_more_is_left_over() {
        let folder = tempfile::tempdir().unwrap();
        let check = |name: &str, age: Duration, expected: bool| {
            let path = folder.path().join(name);
            let file = File::create(&path).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
            assert_eq!(left_in(folder.path()).contains(&path), expected, "{name} {age:?}");
            fs::remove_file(path).unwrap();
        };
        let (gone, own) = (format!("{}", u32::MAX), process::id());
        let [now, minutes, hours] = [0, 120, 7200].map(Duration::from_secs);
        check(&format!(".a.toml.{gone}-0.tmp"), now, false);
        check(&format!(".a.toml.{gone}-0.tmp"), minutes, cfg!(target_os = "linux"));
        check(&format!(".a.toml.{gone}.tmp"), hours, true);
        check(&format!(".a.toml.{own}-3.tmp"), minutes, false);
        check(&format!(".a.toml.{own}-3.tmp"), hours, true);
        check("a.tmp", hours, false);
        check(".a.toml.tmp", hours, false);
        check("a.toml", hours, false);
        let path = folder.path().join("a.toml");
        assert_eq!(writer(&path_for(&path)), Some(own));
        assert_ne!(path_for(&path), path_for(&path));
    }

    #[test]
    fn leftovers_are_found_in_all_folders() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b").join(format!(".x.{}-0.tmp", u32::MAX));
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let file = File::create(&path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        assert_eq!(left_below(folder.path()), std::slice::from_ref(&path));
        sweep(path.parent().unwrap());
        assert!(!path.exists());
    }
}

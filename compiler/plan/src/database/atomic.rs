//! Atomic writes of files.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;
use std::time::SystemTime;

use super::error::DatabaseError;
use super::temporary;
use crate::read;

/// Writes a file atomically, and creates its folder; it survives a power failure. A file with the same
/// content is not written, so that its modification time stays.
///
/// # Errors
///
/// [`DatabaseError::Io`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
    replace(path, bytes, File::sync_all)
}

/// As [`write()`], without waiting for the disk: for files that a build makes anew.
///
/// # Errors
///
/// [`DatabaseError::Io`].
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
    replace(path, bytes, |_| Ok(()))
}

fn replace(
    path: &Path,
    bytes: &[u8],
    flush: fn(&File) -> io::Result<()>,
) -> Result<(), DatabaseError> {
    if read::bytes(path, bytes.len() as u64).is_ok_and(|it| it == bytes) {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|it| DatabaseError::io("create", dir, it))?;
    temporary::sweep(dir);
    let temporary = temporary::path_for(path);
    let write = || {
        let mut file = File::create_new(&temporary)?;
        file.write_all(bytes)?;
        flush(&file)?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        // One that remains is removed by the next writer.
        let _ = fs::remove_file(&temporary);
        DatabaseError::io("write", path, error)
    })
}

/// Sets the modification time of a file.
///
/// # Errors
///
/// [`DatabaseError::Io`].
pub fn set_modified(path: &Path, time: SystemTime) -> Result<(), DatabaseError> {
    let touch = || {
        // A pipe would wait for a reader.
        read::open(path)?;
        File::options().append(true).open(path)?.set_modified(time)
    };
    touch().map_err(|it| DatabaseError::io("touch", path, it))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    #[test]
    fn a_file_of_the_same_content_is_not_written_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("below/file");
        for write in [write, write_output] {
            write(&path, b"text").unwrap();
            let old = UNIX_EPOCH + Duration::from_secs(1);
            File::options().write(true).open(&path).unwrap().set_modified(old).unwrap();
            let modified = || fs::metadata(&path).unwrap().modified().unwrap();
            write(&path, b"text").unwrap();
            assert_eq!(modified(), old);
            write(&path, b"other").unwrap();
            assert_ne!(modified(), old);
        }
        assert_eq!(fs::read_dir(folder.path().join("below")).unwrap().count(), 1);
    }
}

//! Atomic writes of files, and locks between processes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::error::DatabaseError;

/// Writes a file atomically, and creates its folder. A file with the same content is not written, so
/// that its modification time stays.
///
/// # Errors
///
/// [`DatabaseError::Io`].
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), DatabaseError> {
    if fs::read(path).is_ok_and(|it| it == bytes) {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|it| DatabaseError::io("create", dir, it))?;
    let name = path.file_name().and_then(|it| it.to_str()).unwrap_or("record");
    let temporary = dir.join(format!(".{name}.{}.tmp", std::process::id()));
    let write = || {
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|error| {
        // A temporary file that remains does no harm.
        let _ = fs::remove_file(&temporary);
        DatabaseError::io("write", path, error)
    })
}

/// Opens a lock file; creates it and its folder. It is never removed: another process could be about
/// to lock it, and two would hold the lock.
///
/// # Errors
///
/// [`DatabaseError::Io`].
pub fn lock_file(path: &Path) -> Result<File, DatabaseError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|it| DatabaseError::io("create", dir, it))?;
    let open = File::options().create(true).truncate(false).write(true).open(path);
    open.map_err(|it| DatabaseError::io("open", path, it))
}

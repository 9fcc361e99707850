//! Files that appear whole, and locks between processes.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use super::DatabaseError;

/// Writes a file so that readers see what it said or what it says, never a part; creates its
/// folder. What is there already is not written again, so that its time stays.
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
        // Whatever is left of it is in nobody's way, and `gc` removes it.
        let _ = fs::remove_file(&temporary);
        DatabaseError::io("write", path, error)
    })
}

/// Opens a file to be locked; creates it and its folder. It stays, since removing a file that
/// another process is about to lock would give the lock to two.
pub fn lock_file(path: &Path) -> Result<File, DatabaseError> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir).map_err(|it| DatabaseError::io("create", dir, it))?;
    let open = File::options().create(true).truncate(false).write(true).open(path);
    open.map_err(|it| DatabaseError::io("open", path, it))
}

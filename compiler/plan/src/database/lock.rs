//! Locks between processes: held by one at a time, or shared by several, and free once these have ended,
//! however they ended.
//!
//! In: a file or a folder, and how long to wait. Out: a [`Lock`], or who holds it. The operating
//! system keeps the lock, so the content of a lock file says nothing, and a file that a dead process
//! left behind is free.
//!
//! The records that a crate ships are under version control, and a lock file there would be committed
//! and packaged. So [`Lock::of_folder`] locks the folder itself: that holds between users and
//! containers, and needs no cache. Where the file system locks no folders, a file in the user's
//! cache stands for it, which holds between the processes of that user.
//!
//! # Invariants
//!
//! - No wait is longer than the caller says, and clocks that are set do not change it.
//! - A lock file is never removed: another process could be about to lock it, and two would hold it.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};

use super::error::DatabaseError;
use super::holder::Holder;
use super::store::Cache;

/// A lock, which is given back when this is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: File,
}

/// The state of a wait for a lock.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// The time waited so far.
    pub waited: Duration,
    /// The process that holds the lock.
    pub holder: &'a Holder,
}

/// The time that whoever has no budget waits for a lock that others hold for an instant.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Pauses between two attempts: short at first, since most locks are free within milliseconds.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const MAX_PAUSE: Duration = Duration::from_millis(20);
/// The time of waiting from which it is told, and the time between two looks at the holder.
const WORTH_TELLING: Duration = Duration::from_millis(100);
const LOOK_AGAIN: Duration = Duration::from_secs(1);

/// Digits of the hash in the name of the file that stands for a folder.
const HASH_DIGITS: usize = 16;

impl Lock {
    /// Locks a file, which is created with its folder, within the time `patience`; `on_wait` is
    /// called again and again meanwhile.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Busy`] if it took too long, [`DatabaseError::Io`] if there can be no lock.
    pub fn acquire(
        path: &Path,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
    ) -> Result<Self, DatabaseError> {
        let file = open(path)?;
        wait_for(&file, File::try_lock, path, patience, on_wait)?;
        Ok(Self { _file: file })
    }

    /// As [`Lock::acquire`], but any number of processes may share the lock.
    ///
    /// # Errors
    ///
    /// Those of [`Lock::acquire`].
    pub fn share(
        path: &Path,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
    ) -> Result<Self, DatabaseError> {
        let file = open(path)?;
        wait_for(&file, File::try_lock_shared, path, patience, on_wait)?;
        Ok(Self { _file: file })
    }

    /// Locks a folder of records, which is created. Returns `None` where nothing can be locked, neither
    /// the folder nor a file in the user's cache.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Busy`] if it took too long, [`DatabaseError::Io`] if there is no folder.
    pub fn of_folder(dir: &Path, patience: Duration) -> Result<Option<Self>, DatabaseError> {
        let start = Instant::now();
        loop {
            fs::create_dir_all(dir).map_err(|it| DatabaseError::io("create", dir, it))?;
            let left = patience.saturating_sub(start.elapsed());
            let Ok(file) = open_folder(dir) else { return Self::in_cache(dir, left) };
            match wait_for(&file, File::try_lock, dir, left, &mut |_| ()) {
                // A lock on a folder that was replaced meanwhile locks nothing.
                Ok(()) if is_at(&file, dir) => return Ok(Some(Self { _file: file })),
                Ok(()) => {}
                Err(DatabaseError::Io { .. }) => return Self::in_cache(dir, left),
                Err(busy) => return Err(busy),
            }
        }
    }

    /// Locks the file that stands for a folder in the user's cache, if that can be written.
    fn in_cache(dir: &Path, patience: Duration) -> Result<Option<Self>, DatabaseError> {
        let Some(cache) = Cache::discover() else { return Ok(None) };
        match Self::acquire(&file_of_folder(&cache, dir), patience, &mut |_| ()) {
            Ok(lock) => Ok(Some(lock)),
            Err(DatabaseError::Io { .. }) => Ok(None),
            Err(busy) => Err(busy),
        }
    }
}

/// Returns the file that stands for a folder: all paths to the folder lead to the same one.
fn file_of_folder(cache: &Cache, dir: &Path) -> PathBuf {
    let canonical = fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    let hash = Sha256::digest(canonical.as_os_str().as_encoded_bytes());
    let hash: String = hash.iter().map(|it| format!("{it:02x}")).collect();
    cache.locks().join(format!("folder-{}.lock", &hash[..HASH_DIGITS]))
}

/// Opens a lock file. One that another user made may be locked without being writable.
fn open(path: &Path) -> Result<File, DatabaseError> {
    // Opening a pipe would wait for a reader.
    if fs::metadata(path).is_ok_and(|it| !it.is_file()) {
        let error = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
        return Err(DatabaseError::io("lock", path, error));
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    let created = fs::create_dir_all(dir);
    let writable = File::options().create(true).truncate(false).write(true).open(path);
    let opened = writable.or_else(|error| File::open(path).map_err(|_| error));
    match (opened, created) {
        (Ok(file), _) => Ok(file),
        (Err(_), Err(error)) => Err(DatabaseError::io("create", dir, error)),
        (Err(error), Ok(())) => Err(DatabaseError::io("open", path, error)),
    }
}

/// Waits until the lock of a file is free, and takes it.
fn wait_for(
    file: &File,
    try_lock: fn(&File) -> Result<(), TryLockError>,
    path: &Path,
    patience: Duration,
    on_wait: &mut dyn FnMut(Wait<'_>),
) -> Result<(), DatabaseError> {
    let start = Instant::now();
    let (mut pause, mut seen): (_, Option<(Duration, Holder)>) = (FIRST_PAUSE, None);
    loop {
        match try_lock(file) {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(DatabaseError::io("lock", path, error)),
        }
        let waited = start.elapsed();
        if waited >= patience {
            return Err(DatabaseError::Busy {
                path: path.to_owned(),
                waited,
                holder: Holder::of(file),
            });
        }
        if waited >= WORTH_TELLING {
            if seen.as_ref().is_none_or(|(at, _)| waited >= *at + LOOK_AGAIN) {
                seen = Some((waited, Holder::of(file)));
            }
            if let Some((_, holder)) = &seen {
                on_wait(Wait { waited, holder });
            }
        }
        thread::sleep(pause.min(patience - waited));
        pause = (2 * pause).min(MAX_PAUSE);
    }
}

/// Opens a folder, so that it can be locked.
#[cfg(unix)]
fn open_folder(dir: &Path) -> io::Result<File> {
    File::open(dir)
}

#[cfg(not(unix))]
fn open_folder(_: &Path) -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Tells if an open folder is still the one at this path.
#[cfg(unix)]
fn is_at(file: &File, dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;

    let identity = |it: fs::Metadata| (it.dev(), it.ino());
    match (file.metadata().map(identity), fs::metadata(dir).map(identity)) {
        (Ok(locked), Ok(there)) => locked == there,
        _ => false,
    }
}

#[cfg(not(unix))]
fn is_at(_: &File, _: &Path) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::from_millis(10);

    fn acquire(path: &Path) -> Result<Lock, DatabaseError> {
        Lock::acquire(path, NO_TIME, &mut |_| ())
    }

    #[test]
    fn a_lock_has_one_holder_who_is_named_to_those_that_wait() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks/a.lock");
        let first = acquire(&path).unwrap();
        let mut told = Vec::new();
        let patience = WORTH_TELLING + 4 * MAX_PAUSE;
        let start = Instant::now();
        let busy = Lock::acquire(&path, patience, &mut |it| told.push(it.holder.to_string()));
        assert!(start.elapsed() >= patience && start.elapsed() < patience + PATIENCE);
        let Err(DatabaseError::Busy { holder, .. }) = busy else { panic!("{busy:?}") };
        assert!(!told.is_empty() && told.iter().all(|it| *it == holder.to_string()), "{told:?}");
        if cfg!(target_os = "linux") {
            assert_eq!(holder.process(), Some(std::process::id()));
        }
        drop(first);
        acquire(&path).unwrap();
    }

    #[test]
    fn the_content_of_a_lock_file_says_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        fs::write(&path, "4194304 a process that died\n\0\x1b[2J").unwrap();
        let lock = acquire(&path).unwrap();
        let Err(DatabaseError::Busy { holder, .. }) = acquire(&path) else { panic!("it is held") };
        assert!(!holder.to_string().contains("4194304"), "{holder}");
        drop(lock);
    }

    #[test]
    fn what_cannot_be_a_lock_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let (file, below) = (folder.path().join("file"), folder.path().join("file/a.lock"));
        fs::write(&file, "").unwrap();
        for path in [below.as_path(), folder.path()] {
            let error = acquire(path).unwrap_err().to_string();
            assert!(error.contains(&folder.path().display().to_string()), "{error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_pipe_is_no_lock_and_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe.lock");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|it| it.success()), "`mkfifo` is of POSIX");
        assert!(acquire(&pipe).unwrap_err().to_string().contains("no regular file"));
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_is_locked_by_whatever_path_and_nothing_appears_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (dir, link) = (folder.path().join("crate/tvmtune"), folder.path().join("link"));
        let lock = Lock::of_folder(&dir, NO_TIME).unwrap();
        assert!(lock.is_some());
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(matches!(Lock::of_folder(&link, NO_TIME), Err(DatabaseError::Busy { .. })));
        assert_eq!(fs::read_dir(&dir).unwrap().count(), 0);
        // One that replaced it is another folder, which nobody has locked.
        fs::rename(&dir, folder.path().join("moved")).unwrap();
        assert!(Lock::of_folder(&dir, NO_TIME).unwrap().is_some());
        drop(lock);
    }

    #[test]
    fn a_file_in_the_cache_stands_for_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        let (cache, dir) = (Cache::new(folder.path()), folder.path().join("crate"));
        fs::create_dir_all(dir.join("tvmtune")).unwrap();
        let file = |it: &str| file_of_folder(&cache, &folder.path().join(it));
        assert_eq!(file("crate/tvmtune"), file("crate/../crate/tvmtune"));
        assert_ne!(file("crate/tvmtune"), file("crate"));
    }
}

//! The lock of a device: one process measures at a time.
//!
//! It is taken before cargo's jobserver tokens: two processes that held some tokens each and waited for
//! the lock would deadlock.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use std::{io, thread};

use tvmtune_ir::target::DeviceKey;

use tvmtune_plan::database::Cache;

/// The lock of a device; the system releases it when the process ends.
#[derive(Debug)]
pub struct Exclusive {
    _lock: File,
}

/// The lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ExclusiveError {
    /// Another process holds it.
    #[error(
        "another process has been measuring for {} s; `cargo tvmtune watch` names it, try again when \
         it is done",
        .0.as_secs()
    )]
    Busy(Duration),
    /// The operating system refused.
    #[error("cannot lock `{path}`: {source}")]
    Io {
        /// The lock file.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl Exclusive {
    /// Waits until no other process measures on this device, but no longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`ExclusiveError::Busy`] if it took too long, [`ExclusiveError::Io`] if there can be no lock.
    pub fn acquire(
        cache: &Cache,
        device: &DeviceKey,
        patience: Duration,
    ) -> Result<Self, ExclusiveError> {
        Self::acquire_or_tell(cache, device, patience, &mut |_| ())
    }

    /// As [`Exclusive::acquire`]; `on_wait` is called again and again with the time waited so far.
    ///
    /// # Errors
    ///
    /// Those of [`Exclusive::acquire`].
    pub fn acquire_or_tell(
        cache: &Cache,
        device: &DeviceKey,
        patience: Duration,
        on_wait: &mut dyn FnMut(Duration),
    ) -> Result<Self, ExclusiveError> {
        let path = cache.locks().join(format!("{}.lock", device.file_stem()));
        let failed = |source| ExclusiveError::Io { path: path.clone(), source };
        fs::create_dir_all(cache.locks()).map_err(failed)?;
        let open = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = open.map_err(failed)?;
        let start = Instant::now();
        loop {
            match lock.try_lock() {
                Ok(()) => return Ok(Self { _lock: lock }),
                Err(TryLockError::Error(source)) => return Err(failed(source)),
                Err(TryLockError::WouldBlock) if start.elapsed() >= patience => {
                    return Err(ExclusiveError::Busy(start.elapsed()));
                }
                Err(TryLockError::WouldBlock) => {
                    on_wait(start.elapsed());
                    thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::target::{CpuTarget, Isa};

    #[test]
    fn the_lock_has_one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let (cache, device) = (Cache::new(dir.path()), CpuTarget::generic(Isa::Avx2).key());
        let acquire = || Exclusive::acquire(&cache, &device, Duration::from_millis(10));
        let first = acquire().unwrap();
        assert!(matches!(acquire(), Err(ExclusiveError::Busy(_))));
        let other = CpuTarget::generic(Isa::Avx512).key();
        assert!(Exclusive::acquire(&cache, &other, Duration::ZERO).is_ok(), "another device");
        drop(first);
        assert!(acquire().is_ok());
    }
}

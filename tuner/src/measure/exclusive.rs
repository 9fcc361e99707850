//! The lock of a device: one process measures at a time.
//!
//! It is taken before cargo's jobserver tokens: two processes that held some tokens each and waited for
//! the lock would deadlock.

use std::time::Duration;

use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::database::{Cache, DatabaseError, Holder, Lock, Wait};

/// The lock of a device; the system releases it when the process ends.
#[derive(Debug)]
pub struct Exclusive {
    _lock: Lock,
}

/// The lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum ExclusiveError {
    /// Another process holds it.
    #[error("waited {} s for {holder}, which measures on this device; {}", .waited.as_secs(), .holder.advice())]
    Busy {
        /// The time waited.
        waited: Duration,
        /// The process that holds it.
        holder: Holder,
    },
    /// There can be no lock.
    #[error("{0}; set `TVMTUNE_CACHE` to another folder")]
    Lock(DatabaseError),
}

impl Exclusive {
    /// Waits until no other process measures on this device, but no longer than `patience`.
    ///
    /// # Errors
    ///
    /// [`ExclusiveError::Busy`] if it took too long, [`ExclusiveError::Lock`] if there can be no lock.
    pub fn acquire(
        cache: &Cache,
        device: &DeviceKey,
        patience: Duration,
    ) -> Result<Self, ExclusiveError> {
        Self::acquire_or_tell(cache, device, patience, &mut |_| ())
    }

    /// As [`Exclusive::acquire`]; `on_wait` is called again and again while it waits.
    ///
    /// # Errors
    ///
    /// Those of [`Exclusive::acquire`].
    pub fn acquire_or_tell(
        cache: &Cache,
        device: &DeviceKey,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
    ) -> Result<Self, ExclusiveError> {
        let path = cache.locks().join(format!("{}.lock", device.file_stem()));
        match Lock::acquire(&path, patience, on_wait) {
            Ok(lock) => Ok(Self { _lock: lock }),
            Err(DatabaseError::Busy { waited, holder, .. }) => {
                Err(ExclusiveError::Busy { waited, holder })
            }
            Err(error) => Err(ExclusiveError::Lock(error)),
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
        assert!(matches!(acquire(), Err(ExclusiveError::Busy { .. })));
        let other = CpuTarget::generic(Isa::Avx512).key();
        assert!(Exclusive::acquire(&cache, &other, Duration::ZERO).is_ok(), "another device");
        drop(first);
        assert!(acquire().is_ok());
    }
}

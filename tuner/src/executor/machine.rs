//! The locks of a machine: what a stage has for itself, no stage of another process has meanwhile.
//!
//! Timings on a CPU lock its cores, and everything else shares them; timings lock their device, too. A
//! process holds a lock for a stage of seconds, so that all who tune on a machine progress. Whoever
//! waits holds a second lock, the queue of the first, so that nobody who has just given a lock back
//! takes it again before those that wait: not even many who share it keep out one that wants it alone.
//!
//! Locks are taken in one order, device before cores, and nobody who has one waits for tokens of cargo's
//! jobserver, so that processes do not wait for each other in a circle.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tvmtune_ir::target::Target;
use tvmtune_plan::database::{Cache, DatabaseError, Holder, Lock, Wait};

use super::stage::Needs;
use crate::parallel::n_cores;

/// The locks of this machine, in the folder of a user's cache.
#[derive(Clone, Debug)]
pub struct MachineLocks {
    folder: PathBuf,
}

/// The locks of a stage; the system releases them when the process ends.
#[derive(Debug)]
pub struct MachineLock {
    _device: Option<Lock>,
    _cores: Option<Lock>,
}

/// A lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum MachineLockError {
    /// Another process holds it.
    #[error("waited {} s for {holder}, which measures on this machine; {}", .waited.as_secs(), .holder.advice())]
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

impl MachineLocks {
    /// Creates the locks of a user.
    pub fn new(cache: &Cache) -> Self {
        Self { folder: cache.locks() }
    }

    /// Locks what a stage needs, within the time `patience`; `on_wait` is called again and again while
    /// another process has some of it.
    ///
    /// # Errors
    ///
    /// [`MachineLockError::Busy`] if it took too long, [`MachineLockError::Lock`] if there can be no lock.
    pub fn acquire(
        &self,
        needs: &Needs,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
    ) -> Result<MachineLock, MachineLockError> {
        let clock = Instant::now();
        let device = needs.device.as_ref().map(|it| {
            let path = self.folder.join(format!("{}.lock", it.file_stem()));
            in_turn(&path, Mode::Exclusive, patience, on_wait)
        });
        let device = device.transpose()?;
        let mode = if needs.is_alone { Mode::Exclusive } else { Mode::Shared };
        let patience = patience.saturating_sub(clock.elapsed());
        let cores = needs
            .disturbs()
            .then(|| in_turn(&self.folder.join("cores.lock"), mode, patience, on_wait))
            .transpose()?;
        Ok(MachineLock { _device: device, _cores: cores })
    }
}

impl MachineLock {
    /// Locks what timing on a device takes, until this is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`MachineLocks::acquire`].
    pub fn of_device(
        cache: &Cache,
        device: &Target,
        patience: Duration,
    ) -> Result<Self, MachineLockError> {
        MachineLocks::new(cache).acquire(&Needs::timing(device, n_cores()), patience, &mut |_| ())
    }
}

impl Needs {
    /// Returns what timing on a device of this machine takes.
    pub fn timing(device: &Target, n_cores: usize) -> Self {
        match device {
            Target::Cpu(_) => Self::whole_cpu(n_cores, device.key()),
            Target::Gpu(_) => Self::gpu(device.key()),
        }
    }
}

/// A way to hold a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Exclusive,
    Shared,
}

/// Takes a lock after those that wait for it already.
fn in_turn(
    path: &Path,
    mode: Mode,
    patience: Duration,
    on_wait: &mut dyn FnMut(Wait<'_>),
) -> Result<Lock, MachineLockError> {
    let clock = Instant::now();
    let queue = Lock::acquire(&path.with_extension("queue"), patience, on_wait);
    // It is given back at the end: the next one in the queue may wait then.
    let _queue = queue.map_err(MachineLockError::from)?;
    let left = patience.saturating_sub(clock.elapsed());
    let lock = match mode {
        Mode::Exclusive => Lock::acquire(path, left, on_wait),
        Mode::Shared => Lock::share(path, left, on_wait),
    };
    Ok(lock?)
}

impl From<DatabaseError> for MachineLockError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Busy { waited, holder, .. } => Self::Busy { waited, holder },
            error => Self::Lock(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::target::{CpuTarget, DeviceKey, Isa};

    const NO_TIME: Duration = Duration::from_millis(10);

    fn key(isa: Isa) -> DeviceKey {
        CpuTarget::generic(isa).key()
    }

    #[test]
    fn a_measurement_on_the_cpu_has_it_alone() {
        let dir = tempfile::tempdir().unwrap();
        let locks = MachineLocks::new(&Cache::new(dir.path()));
        let acquire = |needs: &Needs| locks.acquire(needs, NO_TIME, &mut |_| ());
        let [alone, other] = [Isa::Avx2, Isa::Avx512].map(|it| Needs::whole_cpu(2, key(it)));
        let building = Needs::cores(2);
        let first = acquire(&alone).unwrap();
        for needs in [&alone, &other, &building] {
            assert!(matches!(acquire(needs), Err(MachineLockError::Busy { .. })), "{needs:?}");
        }
        drop(first);
        let _building = [acquire(&building).unwrap(), acquire(&building).unwrap()];
        assert!(acquire(&alone).is_err(), "others compute");
        assert!(acquire(&Needs::gpu(key(Isa::Avx2))).is_ok(), "a device beside them");
    }

    #[test]
    fn who_waits_comes_before_who_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let locks = MachineLocks::new(&Cache::new(dir.path()));
        let needs = Needs::whole_cpu(2, key(Isa::Avx2));
        let minute = Duration::from_secs(60);
        let acquire = |needs: &Needs| locks.acquire(needs, minute, &mut |_| ()).unwrap();
        let order = std::sync::Mutex::new(Vec::new());
        let mut held = Some(acquire(&needs));
        std::thread::scope(|scope| {
            let (sender, is_waiting) = std::sync::mpsc::channel();
            scope.spawn(|| {
                // Nobody listens after the first time.
                let mut on_wait = move |_: Wait<'_>| sender.send(()).unwrap_or_default();
                let _lock = locks.acquire(&needs, minute, &mut on_wait).unwrap();
                order.lock().unwrap().push("waiting");
            });
            is_waiting.recv().unwrap();
            drop(held.take());
            let _lock = acquire(&needs);
            order.lock().unwrap().push("back");
        });
        assert_eq!(order.into_inner().unwrap(), ["waiting", "back"]);
    }
}

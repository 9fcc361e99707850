//! The thread pool that runs the tasks of a launch.
//!
//! One pool for the process, made at the first launch that asks for several threads; a forked process
//! makes its own. The calling thread takes part. The caller waits only for threads that are inside a chunk of tasks.
//!
//! An idle worker spins for a while and then sleeps: waking one takes 20 to 75 us, more than many
//! launches, but a worker that spins forever takes a core from others.
//!
//! Only one launch at a time uses the pool. Others, from other threads or from within a task, run
//! on the thread that launched them: the cores are taken anyway.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use super::call::SharedClosure;
use super::modes::RustModes;
use super::task_ranges::TaskRanges;
use super::{forked, spread};

/// Time that a worker spins after its last work.
const SPIN: Duration = Duration::from_micros(300);

/// The most threads that kernels use: as many cores as Linux counts in its masks of cores
/// (`CPU_SETSIZE`), so more would share cores, and a number beyond it is a mistake.
const MAX_THREADS: usize = 1024;

/// The environment variable with the number of threads.
const VARIABLE: &str = "TVMTUNE_THREADS";

/// Sets how many threads kernels may use, the calling one included, up to 1024; 0 for the
/// default: the environment variable `TVMTUNE_THREADS` or, without it, one for each core there is for
/// this process. Fewer run where the system grants no more.
///
/// Takes effect at the next launch, in the whole process.
pub fn set_threads(threads: usize) {
    pool().limit.store(threads.min(MAX_THREADS), Ordering::Relaxed);
}

/// Threads that kernels may use, the calling one included.
pub fn threads() -> usize {
    pool().threads()
}

#[inline]
pub(crate) fn pool() -> &'static Pool {
    forked::pool()
}

pub(crate) struct Pool {
    work: SharedClosure,
    /// Number of launches so far; workers wait for a change.
    epoch: AtomicUsize,
    /// Number of workers that sleep, or are about to.
    n_asleep: AtomicUsize,
    /// The core of the thread that last woke workers; `usize::MAX` if unknown.
    caller: AtomicUsize,
    gate: Mutex<()>,
    bell: Condvar,
    /// Number of workers; locked by the launch that uses them.
    n_workers: Mutex<usize>,
    /// As set by the user; 0 for the default.
    limit: AtomicUsize,
    /// The threads, the calling one included, beyond which the system granted none.
    granted: AtomicUsize,
    /// The number of threads that have begun to run.
    n_begun: AtomicUsize,
    /// The number of forks before the process whose threads these are.
    pub(super) n_forks: usize,
}

/// Exclusive use of a pool. Other launches run on their own thread meanwhile.
pub(crate) struct Team {
    pool: &'static Pool,
    n_threads: usize,
    _workers: MutexGuard<'static, usize>,
}

impl Pool {
    pub(super) const fn new(n_forks: usize, limit: usize) -> Self {
        Self {
            work: SharedClosure::new(),
            epoch: AtomicUsize::new(0),
            n_asleep: AtomicUsize::new(0),
            caller: AtomicUsize::new(usize::MAX),
            gate: Mutex::new(()),
            bell: Condvar::new(),
            n_workers: Mutex::new(0),
            limit: AtomicUsize::new(limit),
            granted: AtomicUsize::new(usize::MAX),
            n_begun: AtomicUsize::new(0),
            n_forks,
        }
    }

    /// The number of threads that the user has set; 0 for the default.
    pub(super) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    fn threads(&self) -> usize {
        match self.limit() {
            0 => default_threads(),
            limit => limit,
        }
    }

    /// The right to use the threads, started if they are not; `None` if another launch has it or
    /// there is but one thread.
    pub(crate) fn team(&'static self) -> Option<Team> {
        // The system is not asked again and again for what it has refused.
        let wanted = self.threads().min(self.granted.load(Ordering::Relaxed));
        if wanted < 2 {
            return None;
        }
        let mut workers = match self.n_workers.try_lock() {
            Ok(workers) => workers,
            Err(TryLockError::Poisoned(workers)) => workers.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        if *workers == 0 {
            forked::count_forks();
        }
        while *workers + 1 < wanted {
            self.note_caller();
            let index = *workers;
            let name = format!("tvmtune-{}", index + 1);
            // Fewer threads than wanted is slower, not wrong.
            let start = || thread::Builder::new().name(name).spawn(move || self.work_loop(index));
            if !has_room(ROOM) || start().is_err() {
                self.granted.store(*workers + 1, Ordering::Relaxed);
                break;
            }
            *workers += 1;
            if !has_room(PLENTY) {
                self.wait_until_begun(*workers);
            }
        }
        let n_threads = wanted.min(*workers + 1);
        Some(Team { pool: self, n_threads, _workers: workers })
    }

    /// Waits until so many threads have what they need to run.
    fn wait_until_begun(&self, n: usize) {
        let since = Instant::now();
        while self.n_begun.load(Ordering::Relaxed) < n && since.elapsed() < Duration::from_secs(1) {
            thread::yield_now();
        }
    }

    fn work_loop(&'static self, index: usize) {
        let _modes = RustModes::begin();
        // The first allocation of a thread may take an arena.
        has_room(1);
        self.n_begun.fetch_add(1, Ordering::Relaxed);
        let mut seen = usize::MAX;
        spread::leave(self.caller.load(Ordering::Relaxed));
        loop {
            seen = self.wait_for_news(seen);
            if index + 1 < self.threads() {
                // A task that panics is reported by the team; the worker lives on.
                let _ = catch_unwind(AssertUnwindSafe(|| self.work.call()));
            }
        }
    }

    /// Waits until the epoch differs from `seen`.
    fn wait_for_news(&self, seen: usize) -> usize {
        let since = Instant::now();
        while since.elapsed() < SPIN {
            for _ in 0..64 {
                let epoch = self.epoch.load(Ordering::Acquire);
                if epoch != seen {
                    return epoch;
                }
                std::hint::spin_loop();
            }
        }
        // Either the launching thread sees that a worker sleeps, or the worker sees the new epoch:
        // both write before they read, in one total order.
        self.n_asleep.fetch_add(1, Ordering::SeqCst);
        let mut gate = self.gate.lock().unwrap_or_else(PoisonError::into_inner);
        let epoch = loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            if epoch != seen {
                break epoch;
            }
            gate = self.bell.wait(gate).unwrap_or_else(PoisonError::into_inner);
        };
        drop(gate);
        self.n_asleep.fetch_sub(1, Ordering::SeqCst);
        spread::leave(self.caller.load(Ordering::Relaxed));
        epoch
    }

    /// Records the core of the launching thread, for workers that wake or start.
    fn note_caller(&self) {
        self.caller.store(spread::core().unwrap_or(usize::MAX), Ordering::Relaxed);
    }

    fn announce(&self) {
        self.epoch.fetch_add(1, Ordering::SeqCst);
        if self.n_asleep.load(Ordering::SeqCst) > 0 {
            self.note_caller();
            drop(self.gate.lock());
            self.bell.notify_all();
        }
    }
}

/// Address space in bytes that has to be left where a thread is started: one that has a stack, and no room
/// for what it allocates before it runs, ends the process. A thread takes a stack of 2 MiB, and glibc reserves
/// 128 MiB for its arena where it can. Requests above 32 MiB are never served from memory that was freed, so
/// each test asks the system.
const ROOM: usize = 256 << 20;

/// Address space in bytes from which on any number of threads may begin at once: allocators give the first
/// of them an arena each.
const PLENTY: usize = 2 << 30;

fn has_room(bytes: usize) -> bool {
    let mut room: Vec<u8> = Vec::new();
    let found = room.try_reserve_exact(bytes).is_ok();
    // Memory that nobody reads need not be asked for.
    std::hint::black_box(&room);
    found
}

impl Team {
    /// Calls `work(first, end)` for ranges that together make `0..n_tasks`, on several threads,
    /// and returns when all have returned.
    ///
    /// # Panics
    ///
    /// If `work` panics, in any thread: after all others have returned.
    pub(crate) fn run(&self, n_tasks: u64, work: &(dyn Fn(u64, u64) + Sync)) {
        let (tasks, panicked) = (TaskRanges::new(n_tasks, self.n_threads), AtomicBool::new(false));
        let run_tasks = || {
            let mut guard = OnPanic(&panicked, true);
            tasks.run(work);
            guard.1 = false;
        };
        self.pool.work.share(&run_tasks, || {
            self.pool.announce();
            run_tasks();
        });
        assert!(!panicked.into_inner(), "a task panicked");
    }
}

/// Records that the scope was left by a panic.
struct OnPanic<'a>(&'a AtomicBool, bool);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if self.1 {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

fn default_threads() -> usize {
    static DEFAULT: OnceLock<usize> = OnceLock::new();
    *DEFAULT.get_or_init(|| {
        let available = thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
        let text = std::env::var_os(VARIABLE).unwrap_or_default();
        let text = text.to_string_lossy();
        let (threads, is_meant) = threads_of(&text, available);
        if !is_meant {
            let number = format!("a number from 1 to {MAX_THREADS}");
            // Standard error may be closed.
            let _ = writeln!(
                std::io::stderr(),
                "warning: {VARIABLE}={text:?} is not {number}: kernels use {threads} threads"
            );
        }
        threads
    })
}

/// Returns the number of threads that a text asks for, and whether it is one that can be had. Without
/// a text, or for 0, there are as many as cores.
fn threads_of(text: &str, available: usize) -> (usize, bool) {
    let text = text.trim();
    let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    match text.parse() {
        Ok(0) => (available, true),
        Ok(threads) => (MAX_THREADS.min(threads), threads <= MAX_THREADS),
        // Too large for a number of this machine.
        Err(_) if is_number => (MAX_THREADS, false),
        Err(_) => (available, text.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A pool of its own, as tests run at once; its threads live as long as the process.
    fn pool_of(threads: usize) -> &'static Pool {
        Box::leak(Box::new(Pool::new(0, threads)))
    }

    /// Runs so many tasks and checks that each ran once.
    #[track_caller]
    fn check(pool: &'static Pool, n_tasks: u64) {
        let runs: Vec<AtomicU32> = (0..n_tasks).map(|_| AtomicU32::new(0)).collect();
        let work = |first: u64, end: u64| {
            for run in &runs[first as usize..end as usize] {
                run.fetch_add(1, Ordering::Relaxed);
            }
        };
        match pool.team() {
            Some(team) => team.run(n_tasks, &work),
            None => work(0, n_tasks),
        }
        assert!(runs.into_iter().all(|it| it.into_inner() == 1));
    }

    #[test]
    fn each_task_runs_once_whatever_the_number_of_threads() {
        for threads in [1, 2, 3, 16] {
            let pool = pool_of(threads);
            for n_tasks in (0..100).chain([1000, 12345]) {
                check(pool, n_tasks);
            }
        }
    }

    /// Runs two tasks that wait for each other: one thread alone would never finish.
    fn run_two_at_once(pool: &'static Pool) {
        let arrived = AtomicU32::new(0);
        pool.team().unwrap().run(2, &|_, _| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 2 {
                thread::yield_now();
            }
        });
    }

    #[test]
    fn other_threads_take_part() {
        run_two_at_once(pool_of(2));
    }

    #[test]
    fn sleeping_workers_wake_up() {
        let pool = pool_of(2);
        for _ in 0..5 {
            check(pool, 4);
            while pool.n_asleep.load(Ordering::SeqCst) == 0 {
                thread::yield_now();
            }
            run_two_at_once(pool);
        }
    }

    #[test]
    fn a_launch_within_a_task_runs_alone() {
        let pool = pool_of(3);
        let inner_teams = AtomicU32::new(0);
        pool.team().unwrap().run(64, &|_, _| {
            inner_teams.fetch_add(u32::from(pool.team().is_some()), Ordering::Relaxed);
            check(pool, 10);
        });
        assert_eq!(inner_teams.into_inner(), 0);
    }

    #[test]
    fn many_threads_share_a_pool() {
        let pool = pool_of(4);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..2000).for_each(|n| check(pool, n % 40)));
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_caller_and_the_pool_lives_on() {
        let pool = pool_of(3);
        for panicking in 0..20 {
            let failed = catch_unwind(AssertUnwindSafe(|| {
                pool.team().unwrap().run(20, &|first, end| {
                    assert!(!(first..end).contains(&panicking), "as planned");
                });
            }));
            assert!(failed.is_err());
            check(pool, 20);
        }
    }

    #[test]
    fn a_thousand_threads_share_two_cores() {
        let pool = pool_of(MAX_THREADS);
        for n_tasks in [1, 2, 3000] {
            check(pool, n_tasks);
        }
    }

    #[test]
    fn a_number_of_threads_is_what_the_text_says_within_reason() {
        let check = |text: &str, expected: (usize, bool)| {
            assert_eq!(threads_of(text, 7), expected, "{text}");
        };
        check("", (7, true));
        check("0", (7, true));
        check(" 3 ", (3, true));
        check("1024", (MAX_THREADS, true));
        check("1025", (MAX_THREADS, false));
        check("1000000000", (MAX_THREADS, false));
        check("99999999999999999999999999", (MAX_THREADS, false));
        for text in ["-1", "1e9", "two", "3 4", "\u{0}", "0x10"] {
            check(text, (7, false));
        }
    }

    #[test]
    fn threads_that_the_system_refuses_are_not_asked_for_again() {
        let pool = pool_of(16);
        pool.granted.store(2, Ordering::Relaxed);
        assert_eq!(pool.team().map_or(1, |it| it.n_threads), 2);
        check(pool, 100);
    }

    #[test]
    fn the_number_of_threads_can_change_between_launches() {
        let pool = pool_of(1);
        for threads in [1, 4, 2, 1, 8, 3] {
            pool.limit.store(threads, Ordering::Relaxed);
            assert_eq!(pool.team().map_or(1, |it| it.n_threads), threads);
            check(pool, 100);
        }
    }
}

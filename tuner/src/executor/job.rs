//! The executor of this process: jobs on threads ask for a stage, and wait until they have it.

use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tvmtune_plan::database::{Holder, Wait};

use super::decide::{JobId, Jobs};
use super::ledger::Capacity;
use super::machine::{MachineLock, MachineLockError, MachineLocks};
use super::policy::{Interleaved, Policy, Sequential};
use super::stage::{Needs, Stage};
use super::timeline::{Span, Timeline};
use crate::parallel::n_cores;

/// Grants stages to the jobs of this process, and holds the machine's locks for them.
#[derive(Debug)]
pub struct Executor {
    policy: Box<dyn Policy>,
    /// `None` if whoever made this has the machine for itself.
    locks: Option<MachineLocks>,
    capacity: Capacity,
    state: Mutex<State>,
    /// Stages may have started.
    changed: Condvar,
    clock: Instant,
}

#[derive(Debug)]
struct State {
    jobs: Jobs,
    /// Jobs whose stage started, and which do not know it yet.
    started: BTreeSet<JobId>,
    n_alive: usize,
    timeline: Timeline,
}

/// A job of an executor. It ends when this is dropped.
#[derive(Debug)]
pub struct TuningJob<'lock> {
    executor: Arc<Executor>,
    id: JobId,
    lock: PhantomData<&'lock MachineLock>,
}

/// A stage that has its resources, until this is dropped.
#[derive(Debug)]
pub struct Permit<'a> {
    executor: &'a Executor,
    job: JobId,
    stage: Stage,
    needs: Needs,
    asked: Duration,
    /// `None` while it waits for another process.
    start: Option<Duration>,
    /// Given back before those that wait in this process hear of it.
    lock: Option<MachineLock>,
}

impl Capacity {
    /// Returns the resources of this machine. Sessions do not say how much memory they need, so there is no
    /// limit to it.
    pub fn of_this_machine() -> Self {
        Self { cores: n_cores(), memory: u64::MAX }
    }
}

impl Executor {
    /// Creates an executor without jobs. With `locks`, other processes have none of what its stages
    /// have.
    pub fn new(
        policy: Box<dyn Policy>,
        capacity: Capacity,
        locks: Option<MachineLocks>,
    ) -> Arc<Self> {
        let state = State {
            jobs: Jobs::new(capacity),
            started: BTreeSet::new(),
            n_alive: 0,
            timeline: Timeline::default(),
        };
        Arc::new(Self {
            policy,
            locks,
            capacity,
            state: Mutex::new(state),
            changed: Condvar::new(),
            clock: Instant::now(),
        })
    }

    /// Creates the executor of a process that shares this machine with others.
    pub fn of_this_machine(locks: MachineLocks) -> Arc<Self> {
        Self::new(Box::new(Interleaved::new()), Capacity::of_this_machine(), Some(locks))
    }

    /// Adds a job of a priority; those of higher priority come first.
    pub fn job(self: &Arc<Self>, priority: i32) -> TuningJob<'static> {
        TuningJob::of(Arc::clone(self), priority)
    }

    /// Returns the stages that have ended.
    pub fn timeline(&self) -> Timeline {
        self.state().timeline.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A job that panics gives back what it has, and others go on.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts what can start, and wakes the jobs.
    fn start(&self, state: &mut State) {
        let started = state.jobs.start(self.policy.as_ref(), self.clock.elapsed());
        if !started.is_empty() {
            state.started.extend(started);
            self.changed.notify_all();
        }
    }

    /// Waits until the stage of a job starts, within a time; tells if it did.
    fn wait(&self, job: JobId, stage: Stage, needs: Needs, patience: Duration) -> bool {
        let clock = Instant::now();
        let mut state = self.state();
        state.jobs.ask(job, stage, needs, self.clock.elapsed());
        self.start(&mut state);
        loop {
            if state.started.remove(&job) {
                return true;
            }
            let left = patience.saturating_sub(clock.elapsed());
            if left.is_zero() {
                state.jobs.withdraw(job);
                // Others may have waited behind it.
                self.start(&mut state);
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl<'lock> TuningJob<'lock> {
    /// Creates the only job of a process that has locked the device: it waits for nobody.
    pub fn holding(_lock: &'lock MachineLock) -> Self {
        Self::of(Executor::new(Box::new(Sequential), Capacity::of_this_machine(), None), 0)
    }

    /// Adds a job to an executor.
    fn of(executor: Arc<Executor>, priority: i32) -> Self {
        let mut state = executor.state();
        state.n_alive += 1;
        let id = state.jobs.add(priority);
        drop(state);
        Self { executor, id, lock: PhantomData }
    }

    /// Tells if the executor has no other job.
    pub fn is_only_one(&self) -> bool {
        self.executor.state().n_alive == 1
    }

    /// Returns the cores of the machine.
    pub fn n_cores(&self) -> usize {
        self.executor.capacity.cores
    }

    /// Waits until a stage has all that it needs, within the time `patience`; `on_wait` is called while
    /// another process has some of it.
    ///
    /// # Errors
    ///
    /// [`MachineLockError::Busy`] if it took too long, [`MachineLockError::Lock`] if there can be no lock.
    pub fn enter(
        &self,
        stage: Stage,
        needs: &Needs,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
    ) -> Result<Permit<'_>, MachineLockError> {
        let executor = &*self.executor;
        let (clock, asked) = (Instant::now(), executor.clock.elapsed());
        let needs = executor.capacity.limit(needs);
        if !executor.wait(self.id, stage, needs.clone(), patience) {
            // This process has what it waits for.
            return Err(MachineLockError::Busy {
                waited: clock.elapsed(),
                holder: Holder::default(),
            });
        }
        // From here on, dropping it gives the resources back.
        let (job, start) = (self.id, None);
        let mut permit = Permit { executor, job, stage, needs, asked, start, lock: None };
        if let Some(locks) = &executor.locks {
            let left = patience.saturating_sub(clock.elapsed());
            permit.lock = Some(locks.acquire(&permit.needs, left, on_wait)?);
        }
        permit.start = Some(executor.clock.elapsed());
        Ok(permit)
    }
}

impl Drop for TuningJob<'_> {
    fn drop(&mut self) {
        let mut state = self.executor.state();
        state.n_alive -= 1;
        state.jobs.remove(self.id);
        self.executor.start(&mut state);
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        drop(self.lock.take());
        let now = self.executor.clock.elapsed();
        let mut state = self.executor.state();
        if let Some(start) = self.start {
            let times = (self.asked, start, now);
            state.timeline.spans.push(Span::new(self.job, self.stage, &self.needs, times));
        }
        state.jobs.end(self.job, self.start.map(|start| now.saturating_sub(start)));
        self.executor.start(&mut state);
    }
}

//! The decision loop: which of the waiting stages start now.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ledger::{Capacity, Ledger, Running};
use super::policy::Policy;
use super::stage::{Needs, Stage};
use super::times::StageTimes;

/// A job of an executor, numbered in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct JobId(pub(super) u64);

/// A stage that waits for its resources.
#[derive(Clone, Debug)]
pub struct Request {
    /// The job, which has no other stage that waits or runs.
    pub job: JobId,
    /// The stage.
    pub stage: Stage,
    /// The resources, at most those of the machine.
    pub needs: Needs,
    /// The priority of the job; higher ones come first.
    pub priority: i32,
    /// The time when it began to wait.
    pub since: Duration,
    /// The time that it is expected to take.
    pub expected: Duration,
    /// The time from its start until its job can measure.
    pub to_device: Duration,
}

/// The state of all jobs of a machine. Times are since its creation, by whatever clock.
#[derive(Debug)]
pub(super) struct Jobs {
    ledger: Ledger,
    /// In order of arrival.
    waiting: Vec<Request>,
    /// Jobs that have not ended, with their priority.
    alive: BTreeMap<JobId, i32>,
    times: StageTimes,
    n_jobs: u64,
}

/// The view of the jobs that a policy chooses by.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The stages that wait, in order of arrival.
    pub waiting: &'a [Request],
    /// The resources.
    pub ledger: &'a Ledger,
    /// The first job that has not ended.
    pub first_job: Option<JobId>,
    /// The time.
    pub now: Duration,
}

impl Jobs {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            ledger: Ledger::new(capacity),
            waiting: Vec::new(),
            alive: BTreeMap::new(),
            times: StageTimes::default(),
            n_jobs: 0,
        }
    }

    /// Adds a job.
    pub(super) fn add(&mut self, priority: i32) -> JobId {
        let job = JobId(self.n_jobs);
        self.n_jobs += 1;
        self.alive.insert(job, priority);
        job
    }

    /// Removes a job, with all that it has and waits for.
    pub(super) fn remove(&mut self, job: JobId) {
        self.alive.remove(&job);
        self.ledger.release(job);
        self.withdraw(job);
        self.times.forget(job);
    }

    /// Adds a stage that waits; it needs at most what the machine has.
    pub(super) fn ask(&mut self, job: JobId, stage: Stage, needs: Needs, now: Duration) {
        self.waiting.push(Request {
            job,
            stage,
            needs,
            priority: self.alive.get(&job).copied().unwrap_or_default(),
            since: now,
            expected: self.times.expected(job, stage),
            to_device: self.times.to_device(job, stage),
        });
    }

    /// Removes a stage that waits no longer.
    pub(super) fn withdraw(&mut self, job: JobId) {
        self.waiting.retain(|it| it.job != job);
    }

    /// Takes back the resources of a stage that ended, and learns from the time that it took, if it ran.
    pub(super) fn end(&mut self, job: JobId, time: Option<Duration>) {
        if let (Some(ended), Some(time)) = (self.ledger.release(job), time) {
            self.times.observe(job, ended.stage, time);
        }
    }

    /// Starts what the policy has start now; returns the jobs.
    pub(super) fn start(&mut self, policy: &dyn Policy, now: Duration) -> BTreeSet<JobId> {
        let mut started = BTreeSet::new();
        loop {
            let first_job = self.alive.keys().next().copied();
            let view = View { waiting: &self.waiting, ledger: &self.ledger, first_job, now };
            let Some(n) = policy.next(&view) else { return started };
            let Request { job, stage, needs, expected, .. } = self.waiting.remove(n);
            self.ledger.take(job, Running { stage, needs, since: now, expected });
            started.insert(job);
        }
    }
}

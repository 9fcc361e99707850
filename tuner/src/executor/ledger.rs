//! The ledger of a machine's resources: those that there are, and the stages that have them.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decide::JobId;
use super::stage::{Needs, Stage};

/// The resources of a machine, beside its devices, of which each exists once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Cores.
    pub cores: usize,
    /// Memory for the arguments of kernels, in bytes.
    pub memory: u64,
}

/// A stage that has its resources.
#[derive(Clone, Debug)]
pub(super) struct Running {
    pub(super) stage: Stage,
    pub(super) needs: Needs,
    /// The time when it began.
    pub(super) since: Duration,
    /// The time that it is expected to take.
    pub(super) expected: Duration,
}

/// The resources of a machine, and the stages that have them.
#[derive(Clone, Debug)]
pub struct Ledger {
    capacity: Capacity,
    running: BTreeMap<JobId, Running>,
}

/// The resources for which a stage waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Missing {
    cores: bool,
    device: bool,
    memory: bool,
}

impl Capacity {
    /// Returns the part of a stage's needs that this machine can have: a stage that needs more than there
    /// is gets all that there is, and does not wait forever.
    pub(super) fn limit(&self, needs: &Needs) -> Needs {
        let (cores, memory) = (needs.cores.min(self.cores), needs.memory.min(self.memory));
        Needs { cores, memory, ..needs.clone() }
    }
}

impl Ledger {
    /// Creates the ledger of a machine on which nothing runs.
    pub fn new(capacity: Capacity) -> Self {
        Self { capacity, running: BTreeMap::new() }
    }

    pub(super) fn take(&mut self, job: JobId, running: Running) {
        self.running.insert(job, running);
    }

    pub(super) fn release(&mut self, job: JobId) -> Option<Running> {
        self.running.remove(&job)
    }

    /// Tells if all that a stage needs is free.
    pub(super) fn fits(&self, needs: &Needs) -> bool {
        self.missing(needs) == Missing::default()
    }

    fn free_cores(&self) -> usize {
        let taken: usize = self.running.values().map(|it| it.needs.cores).sum();
        self.capacity.cores.saturating_sub(taken)
    }

    fn free_memory(&self) -> u64 {
        let taken: u64 = self.running.values().map(|it| it.needs.memory).sum();
        self.capacity.memory.saturating_sub(taken)
    }

    /// Returns which of the resources that a stage needs are not free.
    fn missing(&self, needs: &Needs) -> Missing {
        let is_one_alone = self.running.values().any(|it| it.needs.is_alone);
        let is_disturbed = needs.is_alone && self.running.values().any(|it| it.needs.disturbs());
        let is_taken = |it: &Running| it.needs.device.is_some() && it.needs.device == needs.device;
        Missing {
            cores: needs.cores > self.free_cores()
                || needs.disturbs() && is_one_alone
                || is_disturbed,
            device: self.running.values().any(is_taken),
            memory: needs.memory > self.free_memory(),
        }
    }

    /// Tells if a stage that fits can start before another one that has to wait, without making it wait
    /// longer: it takes nothing of what that one lacks, and leaves it enough of the rest.
    pub(super) fn leaves_room(&self, needs: &Needs, blocked: &Needs) -> bool {
        let missing = self.missing(blocked);
        let is_cores_left = if blocked.is_alone || needs.is_alone {
            !needs.disturbs() || !blocked.disturbs()
        } else if missing.cores {
            needs.cores == 0
        } else {
            needs.cores + blocked.cores <= self.free_cores()
        };
        let is_memory_left = match missing.memory {
            true => needs.memory == 0,
            false => needs.memory + blocked.memory <= self.free_memory(),
        };
        is_cores_left
            && is_memory_left
            && (needs.device.is_none() || needs.device != blocked.device)
    }

    /// Estimates when a stage that has to wait can start, if nothing else starts before.
    pub(super) fn expected_start(&self, needs: &Needs, now: Duration) -> Duration {
        let mut ends: Vec<(Duration, JobId)> = self
            .running
            .iter()
            .map(|(job, it)| ((it.since + it.expected).max(now), *job))
            .collect();
        ends.sort_unstable();
        let mut later = self.clone();
        for (end, job) in ends {
            later.release(job);
            if later.fits(needs) {
                return end;
            }
        }
        now
    }
}

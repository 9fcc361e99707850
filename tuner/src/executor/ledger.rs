//! The ledger of a machine's resources: those that there are, and the stages that have them.

use std::collections::BTreeMap;
use std::time::Duration;

use tvmtune_ir::target::DeviceKey;

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
    taken: Taken,
}

/// The sums of what running stages have: policies ask for them more often than stages come and go.
#[derive(Clone, Debug, Default)]
struct Taken {
    cores: usize,
    memory: u64,
    /// Stages beside which nothing may run, and those that disturb them.
    n_alone: usize,
    n_disturbing: usize,
    /// The stages that have a device; more than one under policies without exclusion.
    devices: BTreeMap<DeviceKey, usize>,
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
        Self { capacity, running: BTreeMap::new(), taken: Taken::default() }
    }

    pub(super) fn take(&mut self, job: JobId, running: Running) {
        self.release(job);
        self.taken.add(&running.needs);
        self.running.insert(job, running);
    }

    pub(super) fn release(&mut self, job: JobId) -> Option<Running> {
        let running = self.running.remove(&job)?;
        self.taken.subtract(&running.needs);
        Some(running)
    }

    /// Tells if all that a stage needs is free.
    pub(super) fn fits(&self, needs: &Needs) -> bool {
        self.missing(needs) == Missing::default()
    }

    fn free_cores(&self) -> usize {
        self.capacity.cores.saturating_sub(self.taken.cores)
    }

    fn free_memory(&self) -> u64 {
        self.capacity.memory.saturating_sub(self.taken.memory)
    }

    /// Returns which of the resources that a stage needs are not free.
    fn missing(&self, needs: &Needs) -> Missing {
        let Taken { n_alone, n_disturbing, devices, .. } = &self.taken;
        Missing {
            cores: needs.cores > self.free_cores()
                || needs.disturbs() && *n_alone > 0
                || needs.is_alone && *n_disturbing > 0,
            device: needs.device.as_ref().is_some_and(|it| devices.contains_key(it)),
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
        let mut later = Self { running: BTreeMap::new(), ..self.clone() };
        for (end, job) in ends {
            later.taken.subtract(&self.running[&job].needs);
            if later.fits(needs) {
                return end;
            }
        }
        now
    }
}

impl Taken {
    fn add(&mut self, needs: &Needs) {
        self.cores += needs.cores;
        self.memory += needs.memory;
        self.n_alone += usize::from(needs.is_alone);
        self.n_disturbing += usize::from(needs.disturbs());
        if let Some(device) = &needs.device {
            *self.devices.entry(device.clone()).or_default() += 1;
        }
    }

    fn subtract(&mut self, needs: &Needs) {
        self.cores -= needs.cores;
        self.memory -= needs.memory;
        self.n_alone -= usize::from(needs.is_alone);
        self.n_disturbing -= usize::from(needs.disturbs());
        if let Some(device) = &needs.device {
            self.devices.entry(device.clone()).and_modify(|it| *it -= 1);
            self.devices.retain(|_, n| *n > 0);
        }
    }
}

//! The executor on a machine that is not there: the same decision loop, with times that were recorded or
//! made up.
//!
//! Where a policy gives out more cores than there are, all stages on cores slow down alike, as under a
//! fair scheduler of the system; a device that several jobs have is shared likewise.

use std::collections::BTreeMap;
use std::time::Duration;

use tvmtune_ir::target::DeviceKey;

use super::decide::{JobId, Jobs};
use super::ledger::Capacity;
use super::policy::Policy;
use super::stage::{Needs, Stage};
use super::timeline::{Span, Timeline};

/// A job with known stages.
#[derive(Clone, Debug, Default)]
pub struct SimulatedJob {
    /// Its priority.
    pub priority: i32,
    /// Its stages, in order.
    pub stages: Vec<SimulatedStage>,
}

/// A stage of which the time is known.
#[derive(Clone, Debug)]
pub struct SimulatedStage {
    /// The stage.
    pub stage: Stage,
    /// The resources.
    pub needs: Needs,
    /// The time that it takes with all of them.
    pub time: Duration,
}

/// A job in a simulation.
struct Progress<'a> {
    script: &'a SimulatedJob,
    /// The number of its present stage.
    n: usize,
    /// The resources for it.
    needs: Needs,
    /// The time when it asked for its stage, and when that started.
    asked: Duration,
    start: Option<Duration>,
    /// The work that is left of the stage, in seconds on a machine of its own.
    left: f64,
}

/// Seconds of work that count as none: times are rounded to nanoseconds.
const NOTHING: f64 = 1e-9;

/// Runs jobs, which all arrive at once, to their ends.
pub fn simulate(policy: &dyn Policy, capacity: Capacity, jobs: &[SimulatedJob]) -> Timeline {
    let mut state = Jobs::new(capacity);
    let mut now = Duration::ZERO;
    let mut progress: BTreeMap<JobId, Progress<'_>> = BTreeMap::new();
    for script in jobs {
        let job = state.add(script.priority);
        let of_job =
            Progress { script, n: 0, needs: Needs::default(), asked: now, start: None, left: 0.0 };
        progress.insert(job, of_job);
    }
    let mut timeline = Timeline::default();
    for (job, it) in &mut progress {
        it.ask(*job, capacity, &mut state, now);
    }
    loop {
        for job in state.start(policy, now) {
            if let Some(it) = progress.get_mut(&job) {
                it.start = Some(now);
            }
        }
        let rates = rates(&progress, capacity);
        let ends = rates.iter().map(|(job, rate)| progress[job].left / rate);
        let Some(step) = ends.reduce(f64::min) else { return timeline };
        now += Duration::from_secs_f64(step);
        for (job, rate) in rates {
            let Some(it) = progress.get_mut(&job) else { continue };
            it.left -= rate * step;
            if it.left <= NOTHING {
                timeline.spans.extend(it.span(job, now));
                state.end(job, it.start.map(|start| now.saturating_sub(start)));
                it.n += 1;
                it.ask(job, capacity, &mut state, now);
            }
        }
    }
}

impl Progress<'_> {
    /// Asks for the present stage; ends the job where there is none.
    fn ask(&mut self, job: JobId, capacity: Capacity, state: &mut Jobs, now: Duration) {
        self.start = None;
        let Some(next) = self.script.stages.get(self.n) else { return state.remove(job) };
        (self.asked, self.left) = (now, next.time.as_secs_f64());
        self.needs = capacity.limit(&next.needs);
        state.ask(job, next.stage, self.needs.clone(), now);
    }

    /// Returns the present stage as one that ends now.
    fn span(&self, job: JobId, now: Duration) -> Option<Span> {
        let stage = self.script.stages.get(self.n)?.stage;
        Some(Span::new(job, stage, &self.needs, (self.asked, self.start?, now)))
    }

    /// Returns the needs of the present stage, if it runs.
    fn running(&self) -> Option<&Needs> {
        self.start.map(|_| &self.needs)
    }
}

/// Returns the speed of each running stage: 1 on a machine of its own.
fn rates(progress: &BTreeMap<JobId, Progress<'_>>, capacity: Capacity) -> Vec<(JobId, f64)> {
    let running = || progress.iter().filter_map(|(job, it)| Some((*job, it.running()?)));
    let cores: usize = running().map(|(_, it)| it.cores).sum();
    let of_cores = (capacity.cores as f64 / cores.max(1) as f64).min(1.0);
    let mut sharers: BTreeMap<&DeviceKey, f64> = BTreeMap::new();
    for device in running().filter_map(|(_, it)| it.device.as_ref()) {
        *sharers.entry(device).or_default() += 1.0;
    }
    running()
        .map(|(job, needs)| {
            let of_cores = if needs.cores > 0 { of_cores } else { 1.0 };
            let sharers = needs.device.as_ref().and_then(|it| sharers.get(it)).unwrap_or(&1.0);
            (job, of_cores.min(1.0 / sharers))
        })
        .collect()
}

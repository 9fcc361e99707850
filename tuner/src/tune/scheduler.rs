//! The task scheduler: which task the next seconds of a run go to.
//!
//! First breadth: each task gets its default schedule and a first search, those with the highest
//! expected gain per second before others, and those that no earlier run reached before all others.
//! Then depth: the run's allocator chooses the session of each round. A task is opened
//! only if there is time for its first search too: a small budget is for few tasks, not for the default
//! schedules of all.
//!
//! # Source
//!
//! Ansor's task scheduler (Zheng et al., OSDI 2020) opens all tasks first. Opening costs, breadth and the
//! bound on them are ours.

use std::time::Duration;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_plan::record::{Entry, Tier};

use super::session::{ROUND, Session};
use super::task::Task;
use crate::allocation::expected_saving;
use tvmtune_space::work::Work;

/// A task that has no session yet.
#[derive(Clone, Debug)]
pub(super) struct WaitingTask {
    pub(super) task: Task,
    pub(super) recorded: Recorded,
    /// The latency, recorded or estimated, in ns.
    latency_ns: f64,
    /// The estimated time of opening its session: judging, and the default schedule.
    opening: Duration,
}

/// The records of a task.
#[derive(Clone, Debug, Default)]
pub(super) struct Recorded {
    /// The tier of the best schedule.
    pub(super) tier: Tier,
    /// The default schedule, if it was measured on this device for these ranges.
    pub(super) default: Option<Entry>,
    /// The best schedules, without the default one.
    pub(super) entries: Vec<Entry>,
    /// True if the first of them was measured for these ranges, and is not of this user's cache.
    pub(super) is_shipped: bool,
    /// Trials and wall time of earlier runs on this device.
    pub(super) effort: (u64, Duration),
}

/// The next step of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Opens the session of a waiting task.
    Open(usize),
    /// Runs a round of an open session.
    Round(usize),
}

/// The expected relative gain of a first search; an estimate.
const FIRST_GAIN: f64 = 0.3;
/// The time of a first search, relative to that of opening: judging and comparing take a quarter of a
/// task's time then.
pub(super) const FIRST_SEARCH: u32 = 3;
/// The least time of opening a session: starting a worker, a few launches.
const MIN_OPENING: Duration = Duration::from_millis(50);
/// Arithmetic and memory traffic of a default schedule on a CPU and on a GPU, in operations and bytes
/// per ns; a rough estimate.
const CPU_RATES: (f64, f64) = (20.0, 5.0);
const GPU_RATES: (f64, f64) = (5000.0, 500.0);
/// Bytes of arguments that are filled in a ns.
const FILL_RATE: f64 = 0.5;
/// Launches of a default schedule on the way.
const N_LAUNCHES: f64 = 8.0;

impl WaitingTask {
    /// Creates a waiting task.
    pub(super) fn new(task: Task, recorded: Recorded) -> Self {
        let dims = task.dims();
        let estimated = latency_ns(&task.dag, &dims[0], &task.target());
        let measured = recorded.entries.iter().filter_map(Entry::median_ns);
        let latency_ns = match recorded.tier {
            Tier::Exact => measured.reduce(f64::min).unwrap_or(estimated),
            Tier::SameIsa | Tier::Transferred | Tier::Predicted | Tier::Default => estimated,
        };
        let bytes: f64 = dims.iter().map(|it| Work::of(&task.dag, it).bytes).sum();
        let ns = bytes / FILL_RATE + N_LAUNCHES * estimated;
        let opening = MIN_OPENING + Duration::from_nanos(ns as u64);
        Self { task, recorded, latency_ns, opening }
    }

    /// Tells if what is recorded for it on this device is good enough.
    pub(super) fn is_good_enough(&self) -> bool {
        self.recorded.tier == Tier::Exact && self.task.is_good_enough(self.latency_ns)
    }

    /// Tells if it comes before all rounds of others: earlier runs measured nothing but its default
    /// schedule, and a first search fits into the time of a task. Instruction sets that get a share of
    /// the budget are never new.
    fn is_new(&self, per_task: Duration) -> bool {
        let is_untried = self.recorded.effort.0 <= 1;
        is_untried && self.task.share >= 1.0 && self.needed() <= per_task
    }

    /// Estimates the time for a first search of it.
    pub(super) fn needed(&self) -> Duration {
        self.opening * (1 + FIRST_SEARCH)
    }

    /// Estimates the gain of a second spent on it, in ns per run of the program.
    fn expected_gain(&self) -> f64 {
        let hope =
            FIRST_GAIN * self.latency_ns / (1.0 + self.recorded.effort.0 as f64 / ROUND as f64);
        self.task.weight * self.task.share * hope / self.needed().as_secs_f64()
    }
}

/// Estimates the latency of a program at given extents, in ns, by its arithmetic and memory traffic.
fn latency_ns(dag: &Dag, dims: &[i64], target: &Target) -> f64 {
    let (arithmetic, memory) = match target {
        Target::Cpu(_) => CPU_RATES,
        Target::Gpu(_) => GPU_RATES,
    };
    let work = Work::of(dag, dims);
    (work.flops / arithmetic).max(work.bytes / memory)
}

/// The time that is left, for all but the final rankings.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeLeft {
    /// For a task that has no session yet.
    pub(super) per_task: Duration,
    pub(super) total: Duration,
}

/// The rank of a step: tasks that no run has reached come first, then what gains most per second.
type Rank = (bool, f64);

/// Chooses the next step; `None` when nothing fits into the time that is left, or nothing is expected to gain.
/// `chosen` chooses among sessions. However small the budget, the first task of a run is opened: later runs go
/// on with it.
pub(super) fn next_step(
    waiting: &[WaitingTask],
    sessions: &[Session],
    time: TimeLeft,
    is_first: bool,
    chosen: &mut dyn FnMut() -> Option<usize>,
) -> Option<Step> {
    let TimeLeft { per_task, total } = time;
    if total.is_zero() {
        return None;
    }
    if let Some(n) = sessions.iter().position(Session::is_in_first_search) {
        return Some(Step::Round(n));
    }
    let openings = waiting
        .iter()
        .enumerate()
        .filter(|(_, it)| is_first || it.needed() <= total)
        .map(|(n, it)| ((it.is_new(per_task), it.expected_gain()), Step::Open(n)));
    let opening = best_of(openings);
    if let Some(((true, _), step)) = opening {
        return Some(step);
    }
    let gain = |it: &Session| {
        let (saving, seconds) = expected_saving(&it.state);
        it.state.weight * saving / seconds
    };
    let round = chosen().map(|n| ((false, gain(&sessions[n])), Step::Round(n)));
    best_of(opening.into_iter().chain(round)).map(|it| it.1)
}

/// Returns the step of the highest rank; of equals the first, so that tasks are taken in order.
fn best_of(steps: impl Iterator<Item = (Rank, Step)>) -> Option<(Rank, Step)> {
    steps.reduce(|best, it| if it.0 > best.0 { it } else { best })
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::dsl;
    use tvmtune_ir::target::{CpuTarget, Isa};

    use super::super::code::Builder;
    use super::super::task::{Tolerance, Workload};
    use super::*;

    /// A product of that many rows, of which earlier runs measured so many candidates.
    fn waiting(rows: u32, trials: u64, share: f64) -> WaitingTask {
        let dag = dsl::program(&format!(
            "fn mm(a: Tensor<f32, {rows}, 256>, b: Tensor<f32, 256, 256>) -> Tensor<f32, {rows}, 256> {{
                compute(|i, j| sum(0..256, |k| a[[i, k]] * b[[k, j]]))
            }}"
        ));
        let workload =
            Workload::new(dag.unwrap(), vec![Vec::new()], Tolerance { rel: 1e-4, abs: 1e-4 });
        let builder = Builder::new(CpuTarget::generic(Isa::Avx2).into(), None).unwrap();
        let task = Task { share, ..Task::new(&workload, &[], &builder) };
        let effort = (trials, Duration::ZERO);
        WaitingTask::new(task, Recorded { effort, ..Recorded::default() })
    }

    #[test]
    fn new_tasks_come_first_and_of_these_what_gains_most_per_second() {
        let hour = Duration::from_secs(3600);
        let check = |tasks: &[WaitingTask], expected: usize| {
            let time = TimeLeft { per_task: hour, total: hour };
            assert_eq!(next_step(tasks, &[], time, true, &mut || None), Some(Step::Open(expected)));
        };
        check(&[waiting(16, 0, 1.0), waiting(512, 0, 1.0)], 1);
        check(&[waiting(16, 0, 1.0), waiting(512, 40, 1.0)], 0);
        check(&[waiting(16, 1, 1.0), waiting(512, 40, 1.0)], 0);
        check(&[waiting(512, 0, 0.2), waiting(16, 0, 1.0)], 1);
        check(&[waiting(512, 40, 1.0), waiting(512, 0, 0.2)], 0);
        check(&[waiting(512, 400, 1.0), waiting(512, 0, 0.2)], 1);
        check(&[waiting(16, 0, 1.0), waiting(16, 0, 1.0)], 0);
    }

    #[test]
    fn a_task_is_opened_only_if_its_first_search_fits() {
        let tasks = [waiting(512, 0, 1.0), waiting(16, 0, 1.0)];
        let [large, small] = [0, 1].map(|it: usize| tasks[it].needed());
        assert!(small < large);
        let next = |total, is_first| {
            let time = TimeLeft { per_task: large, total };
            next_step(&tasks, &[], time, is_first, &mut || None)
        };
        assert_eq!(next(large, false), Some(Step::Open(0)));
        assert_eq!(next(small, false), Some(Step::Open(1)));
        assert_eq!(next(small / 2, false), None);
        assert_eq!(next(small / 2, true), Some(Step::Open(0)), "every run gets somewhere");
        assert_eq!(next(Duration::ZERO, true), None);
        // A search that exceeds the time of a task comes last.
        let time = TimeLeft { per_task: small, total: 2 * large };
        assert_eq!(next_step(&tasks, &[], time, true, &mut || None), Some(Step::Open(1)));
    }
}

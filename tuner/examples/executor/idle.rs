//! Measurements on the idle machine, after all jobs have ended.

use tvmtune_ir::target::CpuTarget;
use tvmtune_schedule::Instruction;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::outcome::Timing;
use tvmtune_tuner::statistics::{median, spearman};
use tvmtune_tuner::tune::{self, Bench, Bucket, Trial, Workload};

use crate::Result;
use crate::jobs::Ended;

/// The first trials of each job, whose code is measured again: they are as different as any, and nearly the
/// same under every policy.
const N_COMPARED: usize = 32;
/// Timings of each, side by side.
const ROUNDS: usize = 9;

/// The agreement of latencies that were measured while jobs ran with those on the idle machine.
pub(crate) struct Agreement {
    /// The rank correlation.
    pub(crate) correlation: f64,
    /// The median deviation of their ratios from the median ratio.
    pub(crate) scatter: f64,
}

/// The idle machine.
pub(crate) struct Idle<'a> {
    pub(crate) target: CpuTarget,
    pub(crate) lock: &'a MachineLock,
}

impl Idle<'_> {
    /// Times schedules side by side; `None` for one that fails.
    pub(crate) fn timings(
        &self,
        workload: &Workload,
        traces: &[Vec<Instruction>],
    ) -> Result<Vec<Option<Timing>>> {
        let bucket = Bucket { workload, ranges: &[] };
        let bench = Bench { bucket, dims: None, target: self.target.into(), rounds: ROUNDS };
        let worker = WorkerCommand::this_executable()?;
        let outcomes = tune::bench(&bench, traces, worker, self.lock)??;
        Ok(outcomes.iter().map(|it| it.timing().cloned()).collect())
    }

    /// Compares latencies of the first trials of a job with those on the idle machine; `None` for too few.
    pub(crate) fn agreement(&self, job: &Ended) -> Result<Option<Agreement>> {
        let timed = |it: &Trial| -> Option<(f64, Vec<Instruction>)> {
            let trace = it.trace.iter().map(|line| line.parse().ok()).collect::<Option<_>>()?;
            Some((it.outcome.timing()?.min_ns(), trace))
        };
        let first = job.trials.iter().filter_map(timed).take(N_COMPARED);
        let (in_run, traces): (Vec<f64>, Vec<_>) = first.unzip();
        let on_idle = self.timings(&job.workload, &traces)?;
        let pairs = in_run.iter().zip(&on_idle);
        let pairs = pairs.filter_map(|(run, idle)| Some((*run, idle.as_ref()?.min_ns())));
        let (in_run, on_idle): (Vec<f64>, Vec<f64>) = pairs.unzip();
        let ratios: Vec<f64> =
            in_run.iter().zip(&on_idle).map(|(run, idle)| (run / idle).ln()).collect();
        let middle = median(&ratios);
        let deviations: Vec<f64> = ratios.iter().map(|it| (it - middle).abs()).collect();
        let correlation = spearman(&in_run, &on_idle);
        Ok((in_run.len() >= 4).then(|| Agreement { correlation, scatter: median(&deviations) }))
    }
}

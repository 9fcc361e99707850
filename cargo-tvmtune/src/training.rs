//! The logged trials of a package's kernels, as programs to train on.

use anyhow::{Result, anyhow};
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_plan::database::Cache;
use tvmtune_plan::record::GENERATOR;
use tvmtune_schedule::Instruction;
use tvmtune_space::lower_bound::lower_bound_ns;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::outcome::Timing;
use tvmtune_tuner::space::Space;
use tvmtune_tuner::tune::{self, Bench, Bucket, Trial, Workload, log_file, trials};
use tvmtune_tuner::value::{Features, Measured, TrainingProgram};

use crate::records;

/// Trials of a program from which on it is trained on.
const MIN_TRIALS: usize = 16;

/// A bucket of a kernel on one instruction set, with its logged trials.
pub(crate) struct LoggedProgram {
    pub(crate) name: String,
    pub(crate) extents: String,
    pub(crate) target: CpuTarget,
    workload: Workload,
    ranges: Vec<Interval>,
    pub(crate) dag: Dag,
    pub(crate) device: Target,
    pub(crate) space: Space,
    pub(crate) trials: Vec<Measured>,
    /// The number of its kernel among those that were tuned: what one bucket teaches holds for others.
    pub(crate) group: usize,
}

/// Returns the programs of packages that were tuned on this machine.
pub(crate) fn logged_programs(
    packages: &[Package],
    cache: &Cache,
    device: CpuTarget,
    targets: &[CpuTarget],
) -> Vec<LoggedProgram> {
    let (mut programs, mut n_groups) = (Vec::new(), 0);
    for op in packages.iter().flat_map(|it| &it.ops) {
        let log = trials(&log_file(cache, op.name(), &op.id, &Target::from(device).key()));
        let n_before = programs.len();
        for target in targets {
            let of_bucket = |it: &Vec<Interval>| program(op, it, *target, &log, n_groups);
            programs.extend(op.buckets.iter().filter_map(of_bucket));
        }
        n_groups += usize::from(programs.len() > n_before);
    }
    programs
}

/// Returns a bucket of an op with its trials, if there are enough.
fn program(
    op: &Op,
    bucket: &[Interval],
    target: CpuTarget,
    log: &[Trial],
    group: usize,
) -> Option<LoggedProgram> {
    let device = Target::from(target);
    let key: Vec<(i64, i64)> = bucket.iter().map(|it| (it.lo, it.hi)).collect();
    let cold = op.cold_operands(bucket, &device);
    let is_of_program = |it: &&Trial| {
        it.generator == GENERATOR
            && it.isa == target.isa.name()
            && it.bucket == key
            && it.cold == cold
    };
    let log: Vec<&Trial> = log.iter().filter(is_of_program).collect();
    if log.len() < MIN_TRIALS {
        return None;
    }
    let dag = op.dag.specialize(bucket);
    let space = Space::new(&dag, &device);
    let largest: Vec<i64> = bucket.iter().map(|it| it.hi).collect();
    let bound_ns = lower_bound_ns(&op.dag, &largest, &device);
    let measured = |it: &Trial| {
        let ns = it.outcome.timing().map(Timing::min_ns);
        // A log may be anybody's: no launch is faster than its program can be.
        let is_possible = ns.is_none_or(|it| it.is_finite() && it >= bound_ns);
        Some((it.point(&space).filter(|_| is_possible)?, ns))
    };
    let trials: Vec<Measured> = log.into_iter().filter_map(measured).collect();
    (trials.len() >= MIN_TRIALS).then(|| LoggedProgram {
        name: op.name().to_owned(),
        extents: records::extents(op, bucket),
        target,
        workload: OpBuckets::new(op, Vec::new()).workload(),
        ranges: bucket.to_vec(),
        dag,
        device,
        space,
        trials,
        group,
    })
}

impl LoggedProgram {
    /// Returns it with the numbers of its prefixes.
    pub(crate) fn to_train(&self) -> TrainingProgram<'_> {
        let features = Features::new(&self.dag, &self.device, &self.space);
        TrainingProgram { features, trials: self.trials.clone() }
    }

    /// Times schedules side by side, so many times each; `None` for those that fail.
    pub(crate) fn times(
        &self,
        traces: &[Vec<Instruction>],
        rounds: usize,
        lock: &MachineLock,
    ) -> Result<Vec<Option<f64>>> {
        let bucket = Bucket { workload: &self.workload, ranges: &self.ranges };
        let bench = Bench { bucket, dims: None, target: self.device, rounds };
        let outcomes = tune::bench(&bench, traces, WorkerCommand::this_executable()?, lock)?;
        let outcomes = outcomes.map_err(|why| anyhow!("{}: {why}", self.name))?;
        Ok(outcomes.iter().map(|it| Some(it.timing()?.typical_ns())).collect())
    }
}

//! `cargo tvmtune train`: a value function from the logged trials of tuned kernels.
//!
//! It is trained on what was measured, improved by measuring what it would choose, and judged on kernels
//! that it was not trained on. Only a function that is faster than analysis there is written.

use std::time::Instant;

use anyhow::{Result, bail};
use tvmtune_build::package::Package;
use tvmtune_build::tune::session::provenance;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::printable::shown;
use tvmtune_schedule::Instruction;
use tvmtune_space::default;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::statistics::Ratio;
use tvmtune_tuner::value::{
    self, Analysis, DeviceNumbers, Judged, Policy, TrainedOn, TrainingProgram, ValueModel,
};

use crate::cli::Train;
use crate::device_plan::LOCK_LIMIT;
use crate::output::{eprintln, print, println};
use crate::prediction::Prediction;
use crate::render::{Table, count, latency, took};
use crate::training::{LoggedProgram, logged_programs};
use crate::{Exit, workspace};

/// Kernels that a function is trained on, at least: each is held out from some.
const MIN_KERNELS: usize = 4;
/// The use of analysis: what it misses is learned, and no more (docs/value.md).
const ANALYSIS: Analysis = Analysis::Factor;
/// Prefixes that are followed at once.
const WIDTH: usize = 16;
/// Timings of each schedule that improves a function, and of each that it is judged by.
const EXPLORING_ROUNDS: usize = 3;
const JUDGING_ROUNDS: usize = 15;
/// Schedules that are timed side by side while exploring.
const BATCH: usize = 8;

pub(crate) fn run(arguments: &Train) -> Result<Exit> {
    let started = Instant::now();
    let packages = workspace::packages(&arguments.selection)?;
    let Some(cpu) = device::detect() else {
        eprintln!("error: this machine runs no generated kernels; see `cargo tvmtune doctor`");
        return Ok(Exit::NoDevice);
    };
    let Some(cache) = Cache::discover() else {
        bail!("there is no folder of logs; set `TVMTUNE_CACHE` to one");
    };
    let isas = device::isas();
    let targets: Vec<CpuTarget> = isas.into_iter().map(|isa| CpuTarget { isa, ..cpu }).collect();
    let logged = logged_programs(&packages, &cache, cpu, &targets);
    let groups: Vec<usize> = logged.iter().map(|it| it.group).collect();
    let n_kernels = groups.last().map_or(0, |it| it + 1);
    if n_kernels < MIN_KERNELS {
        println!(
            "{} tuned on this machine, {MIN_KERNELS} are needed; run `cargo tvmtune tune`",
            count(n_kernels, "kernel")
        );
        return Ok(Exit::Refused);
    }
    let lock = match MachineLock::of_device(&cache, &Target::from(cpu), LOCK_LIMIT) {
        Ok(lock) => lock,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::NoDevice);
        }
    };
    let mut programs: Vec<TrainingProgram<'_>> =
        logged.iter().map(LoggedProgram::to_train).collect();
    for round in 0..arguments.rounds {
        improve(&logged, &mut programs, round, arguments.schedules, &lock)?;
    }
    let judged = judge(&logged, &programs, &groups, &lock)?;
    let judgement = value::best_margin(&judged).zip(value::held_out_latency(&judged));
    let Some((margin, of_default)) = judgement else { bail!("nothing was held out") };
    println!(
        "held out: {:.3} of the latency of default schedules ({:.3} to {:.3}), each kernel with the margin \
         that is best for the others; {margin} for all",
        of_default.mean, of_default.low, of_default.high,
    );
    if of_default.high >= 1.0 && !arguments.force {
        println!("no better than analysis, as far as this shows: nothing was written");
        println!("`--force` writes it, and more tuned kernels may make it better");
        return Ok(Exit::Refused);
    }
    let n_trials = programs.iter().map(|it| it.trials.len()).sum();
    let function = value::train(programs.iter(), ANALYSIS, n_cores());
    let devices = targets.iter().map(DeviceNumbers::of).collect();
    let trained_on = trained_on(programs.len(), n_trials, of_default);
    let model = ValueModel::new(function, Policy { width: WIDTH, margin }, devices, trained_on);
    write(&model, &packages)?;
    println!("trained on {} in {}", count(n_trials, "trial"), took(started.elapsed()));
    println!("`cargo tvmtune predict` chooses schedules for kernels that were not tuned");
    Ok(Exit::Done)
}

fn trained_on(n_programs: usize, n_trials: usize, held_out: Ratio) -> TrainedOn {
    let provenance = provenance();
    TrainedOn {
        tool: provenance.tool,
        host: provenance.host,
        n_programs,
        n_trials,
        held_out: [held_out.mean, held_out.low, held_out.high],
    }
}

/// Measures schedules that a function chooses, with noise, so that the next one knows where it was wrong.
fn improve(
    logged: &[LoggedProgram],
    programs: &mut [TrainingProgram<'_>],
    round: u32,
    n_schedules: usize,
    lock: &MachineLock,
) -> Result<()> {
    let function = value::train(programs.iter(), ANALYSIS, n_cores());
    let mut n_measured = 0;
    for (logged, program) in logged.iter().zip(programs) {
        let points = value::explore(&function, program, n_schedules, u64::from(round), n_cores());
        for batch in points.chunks(BATCH) {
            let traces: Vec<Vec<Instruction>> =
                batch.iter().map(|it| logged.space.instructions(it)).collect();
            let times = logged.times(&traces, EXPLORING_ROUNDS, lock)?;
            program.trials.extend(batch.iter().cloned().zip(times));
        }
        n_measured += points.len();
    }
    println!("round {}: {} measured", round + 1, count(n_measured, "schedule"));
    Ok(())
}

/// Times what functions choose for kernels that they were not trained on beside the default schedules, and
/// prints both.
fn judge(
    logged: &[LoggedProgram],
    programs: &[TrainingProgram<'_>],
    groups: &[usize],
    lock: &MachineLock,
) -> Result<Vec<Judged>> {
    let policy = Policy { width: WIDTH, margin: 0.0 };
    let mut judged = Vec::new();
    let mut table = Table::new(["kernel", "extents", "isa", "predicted", "default", "chosen"]);
    for fold in value::folds(programs, groups, ANALYSIS, n_cores()) {
        for n in fold.held_out {
            let it = &logged[n];
            let prediction = Prediction::new(&fold.function, policy, &programs[n].features);
            let (judgement, [predicted, default_time, time]) = match prediction {
                Some(Prediction { trace, gain, .. }) => {
                    let [default_ns, ns] = beside_default(it, trace, lock)?;
                    let judgement = Judged { group: it.group, gain, latency: ns / default_ns };
                    (judgement, [format!("{gain:.2}x"), latency(default_ns), latency(ns)])
                }
                None => (
                    Judged { group: it.group, gain: 1.0, latency: 1.0 },
                    ["default".to_owned(), String::new(), String::new()],
                ),
            };
            judged.push(judgement);
            table.row([
                it.name.clone(),
                it.extents.clone(),
                it.target.isa.name().to_owned(),
                predicted,
                default_time,
                time,
            ]);
        }
    }
    print!("{table}");
    Ok(judged)
}

/// Times the default schedule and another one side by side.
///
/// # Errors
///
/// If one of them fails: what a function chooses is recorded without being run, so it counts.
fn beside_default(
    logged: &LoggedProgram,
    trace: Vec<Instruction>,
    lock: &MachineLock,
) -> Result<[f64; 2]> {
    let default = default::schedule(&logged.dag, &logged.device).trace;
    match logged.times(&[default, trace], JUDGING_ROUNDS, lock)?[..] {
        [Some(default_ns), Some(ns)] => Ok([default_ns, ns]),
        _ => bail!("{}: the schedule that was chosen cannot be timed", logged.name),
    }
}

/// Writes a model into the database of each package.
fn write(model: &ValueModel, packages: &[Package]) -> Result<()> {
    for package in packages {
        let path = package.shipped().join(ValueModel::FILE_NAME);
        model.save(&path)?;
        println!("{}", shown(&path));
    }
    Ok(())
}

//! The whole loop on this machine: tuned, remembered, interrupted, resumed.
//!
//! Speeds are never asserted here but for what the loop promises by construction.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use std::{fs, thread};

use tempfile::TempDir;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_plan::database::{Cache, Database, Files, Lookup, Store, StoreKind};
use tvmtune_plan::device;
use tvmtune_plan::record::{KEPT_PER_ISA, Provenance, Record, Source, Tier};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;
use tvmtune_tests::workload;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::measure::WorkerCommand;
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::tune::{
    self, Budget, Event, Hardware, Options, Recipe, Reuse, Stage, Summary, Tolerance, Workload,
    trials,
};

const MATMUL: &str = "#[autotune(dims(M = 1..=48, N = 40, K = 56), buckets(M = [1, 48]))]
    fn matmul(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
    }";

pub(crate) const SOFTMAX: &str = "#[autotune(dims(R = 37, D = 75))]
    fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
        let m = compute(|r| max(0..D, |d| x[[r, d]]));
        let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
        let s = compute(|r| sum(0..D, |d| e[[r, d]]));
        compute(|r, d| e[[r, d]] / s[[r]])
    }";

/// More operations than are evaluated by definition in full.
const LARGE: &str = "#[autotune(dims(M = 250, N = 270, K = 300))]
    fn large(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
    }";

/// A machine with a cache of its own; `None` where no code can be generated, and nothing tuned.
pub(crate) struct Machine {
    root: TempDir,
    pub(crate) target: CpuTarget,
}

impl Machine {
    pub(crate) fn new() -> Option<Self> {
        Some(Self { root: tempfile::tempdir().unwrap(), target: device::detect()? })
    }

    pub(crate) fn cache(&self) -> Cache {
        Cache::new(self.root.path())
    }

    pub(crate) fn database(&self) -> Database {
        let store = Store { kind: StoreKind::Cache, dir: self.cache().records() };
        Database::new(vec![store], Some(self.cache()))
    }

    pub(crate) fn options(&self, trials: u64) -> Options {
        let minute = Duration::from_secs(60);
        Options {
            device: self.target.into(),
            targets: vec![self.target.into()],
            nvrtc: None,
            budget: Budget { trials, per_task: minute, total: minute },
            seed: 1,
            hardware: Hardware::Worker(WorkerCommand::new(helper())),
            n_threads: 2,
            recipe: Recipe::default(),
            scheduler: Scheduler::default(),
            reuse: Reuse::Compete,
            provenance: Provenance { tool: "tests".to_owned(), ..Provenance::default() },
        }
    }

    pub(crate) fn tune(&self, workload: &Workload, options: &Options) -> (Summary, Vec<String>) {
        let mut events = Vec::new();
        let mut on_event = |it: Event<'_>| match it {
            Event::Started { n_tasks } => events.push(format!("started {n_tasks}")),
            Event::Default { task, .. } => events.push(format!("default {task}")),
            Event::Finished { task, .. } => events.push(format!("finished {task}")),
            Event::Skipped { task, why } => events.push(format!("skipped {task}: {why}")),
            _ => {}
        };
        let workloads = std::slice::from_ref(workload);
        let lock = self.lock();
        let database = self.database();
        let summary =
            tune::run(workloads, options, &database, &TuningJob::holding(&lock), &mut on_event);
        (summary.unwrap(), events)
    }

    /// Tunes several workloads in one run.
    pub(crate) fn tune_all(&self, workloads: &[Workload], options: &Options) -> Summary {
        let (lock, database) = (self.lock(), self.database());
        tune::run(workloads, options, &database, &TuningJob::holding(&lock), &mut |_| {}).unwrap()
    }

    pub(crate) fn lock(&self) -> MachineLock {
        let target = self.target.into();
        MachineLock::of_device(&self.cache(), &target, Duration::from_secs(60)).unwrap()
    }

    pub(crate) fn get(&self, workload: &Workload) -> Lookup {
        self.database().get(&workload.id, &ProgramName::of(&workload.dag.name), &workload.text)
    }

    /// The log of the only workload.
    pub(crate) fn log(&self) -> PathBuf {
        only_file(&only_file(&self.cache().trials()))
    }
}

fn only_file(dir: &Path) -> PathBuf {
    let mut entries = fs::read_dir(dir).unwrap();
    let only = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none());
    only
}

fn helper() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_helper"))
}

/// Checks that what is recorded for each bucket can be had again, byte for byte.
#[track_caller]
pub(crate) fn check_record(machine: &Machine, workload: &Workload, isa: Isa) {
    let lookup = machine.get(workload);
    assert!(lookup.warnings.is_empty());
    for bucket in &workload.buckets {
        let choice = lookup.best(&machine.target.key(), bucket, isa).expect("it was tuned");
        assert_eq!(choice.tier, Tier::Exact);
        let entries = &choice.record.bucket(bucket).unwrap().schedules;
        assert!(entries.iter().any(|it| it.platform == isa.into() && it.source == Source::Default));
        for entry in entries.iter().filter(|it| it.platform == isa.into()) {
            let trace: Vec<Instruction> =
                entry.trace.iter().map(|it| it.parse().unwrap()).collect();
            let schedule = Schedule::replay(&workload.dag.specialize(bucket), &trace).unwrap();
            let generated = tvmtune_cpu::generate(&schedule, isa).unwrap();
            assert_eq!(generated.artifact, entry.artifact);
        }
    }
}

#[test]
fn a_program_is_tuned_and_remembered() {
    let Some(machine) = Machine::new() else { return };
    for source in [MATMUL, SOFTMAX] {
        let workload = workload(source);
        let (summary, events) = machine.tune(&workload, &machine.options(40));
        let n_tasks = workload.buckets.len();
        assert_eq!(summary.results.len(), n_tasks, "{events:?}");
        assert_eq!(events.len(), 1 + 2 * n_tasks, "{events:?}");
        assert_eq!(events[0], format!("started {n_tasks}"));
        assert!(events[1].starts_with("default "), "the default schedule comes first: {events:?}");
        for it in &summary.results {
            assert!(it.best_ns <= it.default_ns, "{it:?}");
            assert!(it.trials > 1 && it.trials <= 40, "{it:?}");
        }
        check_record(&machine, &workload, machine.target.isa);
    }
}

#[test]
fn a_search_ends_where_a_kernel_is_as_fast_as_asked_for() {
    let Some(machine) = Machine::new() else { return };
    let asked = |good_enough_ns| Workload { good_enough_ns, ..workload(SOFTMAX) };
    let (summary, _) = machine.tune(&asked(Some(1e9)), &machine.options(60));
    assert_eq!(summary.results[0].trials, 1, "the default schedule takes less than a second");
    // What is known is not measured again.
    let (summary, events) = machine.tune(&asked(Some(1e9)), &machine.options(60));
    assert_eq!((summary.results.len(), summary.met.len()), (0, 1), "{events:?}");
    assert_eq!(events, ["started 0"]);
    let (summary, _) = machine.tune(&asked(Some(1.0)), &machine.options(20));
    assert!(summary.results[0].trials > 1 && summary.met.is_empty(), "nothing is that fast");
}

#[test]
fn a_search_can_be_replayed_from_its_log_without_hardware_on_any_number_of_threads() {
    let Some(machine) = Machine::new() else { return };
    let workload = workload(MATMUL);
    let workload = Workload { buckets: workload.buckets[1..].to_vec(), ..workload };
    machine.tune(&workload, &machine.options(60));
    let log = trials(&machine.log());
    let identity =
        |it: &tune::Trial| (it.source, it.stage, it.choices.clone(), it.artifact.clone());
    let first: Vec<_> = log.iter().map(identity).collect();
    for n_threads in [1, 2, 3] {
        let elsewhere = Machine::new().unwrap();
        let hardware = Hardware::Log(tune::replay(&log));
        let options = Options { hardware, n_threads, ..machine.options(60) };
        elsewhere.tune(&workload, &options);
        let again = trials(&elsewhere.log());
        assert_eq!(first, again.iter().map(identity).collect::<Vec<_>>(), "{n_threads} threads");
    }
    let sources = |source| first.iter().filter(|it| it.0 == source).count();
    assert!(sources(Source::Droplet) > 0 && sources(Source::Evolved) > 0);
}

#[test]
fn records_of_a_similar_device_are_refined_and_not_searched_again() {
    let (Some(there), Some(here)) = (Machine::new(), Machine::new()) else { return };
    let workload = workload(MATMUL);
    let workload = Workload { buckets: workload.buckets[1..].to_vec(), ..workload };
    there.tune(&workload, &there.options(60));
    let mut record = there.get(&workload).records.remove(0).record;
    record.device = CpuTarget { l2_bytes: here.target.l2_bytes * 2, ..here.target }.key();
    here.database().put(&record, &Files::default()).unwrap();
    let options = Options { reuse: Reuse::Refine, ..here.options(200) };
    let (summary, _) = here.tune(&workload, &options);
    // A share of the budget, and the trial of the default schedule.
    assert!(summary.results[0].trials <= 200 * 15 / 100 + 1, "{summary:?}");
    let log = trials(&here.log());
    let explores = |it: &&tune::Trial| !it.sketch.is_empty() && it.parent.is_empty();
    let is_recorded = |it: &tune::Trial| {
        let mut entries = record.buckets.iter().flat_map(|it| &it.schedules);
        entries.any(|entry| entry.trace == it.trace) || it.source == Source::Transfer
    };
    assert!(
        log.iter().filter(explores).all(|it| it.source == Source::Default
            || is_recorded(it)
            || it.stage == Stage::Compare)
    );
    assert!(log.iter().any(|it| it.source == Source::Droplet));
    let lookup = here.get(&workload);
    let best = lookup.best(&here.target.key(), &workload.buckets[0], here.target.isa).unwrap();
    assert_eq!(best.tier, Tier::Exact);
}

#[test]
fn a_model_that_cannot_be_read_is_reported_and_made_anew() {
    let Some(machine) = Machine::new() else { return };
    let workload = workload(SOFTMAX);
    machine.tune(&workload, &machine.options(30));
    let model = only_file(&machine.cache().models());
    let text = fs::read_to_string(&model).unwrap();
    for other in ["garbage".to_owned(), text.replacen("\"features\":1", "\"features\":99", 1)] {
        assert_ne!(other, text);
        fs::write(&model, &other).unwrap();
        let mut warnings = Vec::new();
        let mut on_event = |it: Event<'_>| {
            if let Event::Warning { what } = it {
                warnings.push(what);
            }
        };
        let (workloads, lock) = (std::slice::from_ref(&workload), machine.lock());
        let options = machine.options(60);
        let job = TuningJob::holding(&lock);
        tune::run(workloads, &options, &machine.database(), &job, &mut on_event).unwrap();
        assert!(warnings.iter().any(|it| it.contains("starts without")), "{warnings:?}");
        assert!(fs::read_to_string(&model).unwrap().contains("\"features\":1"));
    }
}

#[test]
fn a_large_program_is_judged_by_a_kernel_that_was_judged() {
    let Some(machine) = Machine::new() else { return };
    let workload = workload(LARGE);
    let (summary, events) = machine.tune(&workload, &machine.options(6));
    assert_eq!(summary.results.len(), 1, "{events:?}");
    check_record(&machine, &workload, machine.target.isa);
}

#[test]
fn other_instruction_sets_of_the_machine_are_tuned_a_little() {
    let Some(machine) = Machine::new() else { return };
    let workload = workload(SOFTMAX);
    let target = |isa| CpuTarget { isa, ..machine.target }.into();
    let targets = device::isas().into_iter().map(target).collect();
    let options = Options { targets, ..machine.options(20) };
    let (summary, _) = machine.tune(&workload, &options);
    assert_eq!(summary.results.len(), device::isas().len());
    for isa in device::isas() {
        check_record(&machine, &workload, isa);
    }
    assert!(
        summary
            .results
            .iter()
            .all(|it| it.task.platform == machine.target.isa.into() || it.trials <= 4)
    );
}

#[test]
fn nothing_is_remembered_of_a_program_whose_default_schedule_is_wrong() {
    let Some(machine) = Machine::new() else { return };
    // Not even rounding is allowed, so every kernel is wrong to the reference oracle.
    let strict = Workload { tolerance: Tolerance { rel: 0.0, abs: 0.0 }, ..workload(SOFTMAX) };
    let (summary, events) = machine.tune(&strict, &machine.options(10));
    assert!(summary.results.is_empty());
    assert!(summary.skipped[0].1.contains("wrong"), "{events:?}");
    assert!(machine.get(&strict).records.is_empty());
}

/// Angles of thousands have few digits behind the point: a reciprocal of the factor moves their cosines beyond the
/// tolerance.
#[test]
fn rounding_errors_of_ill_conditioned_elements_are_not_taken_for_wrong_code() {
    let Some(machine) = Machine::new() else { return };
    let table = workload(
        "#[autotune(dims(T = 2048, R = 64))]
        fn table(factor: f32) -> Tensor<f32, T, R> {
            let inv: Tensor<f32, R> = compute(|r| 1.0 / powf(10000.0, r as f32 / 64.0) / factor);
            compute(|t, r| cos(t as f32 * inv[[r]]))
        }",
    );
    let (summary, events) = machine.tune(&table, &machine.options(4));
    assert_eq!(summary.results.len(), 1, "{events:?}");
    check_record(&machine, &table, machine.target.isa);
}

#[test]
fn a_session_goes_on_where_the_last_one_ended() {
    let Some(machine) = Machine::new() else { return };
    let workload = workload(MATMUL);
    let workload = Workload { buckets: workload.buckets[1..].to_vec(), ..workload };
    machine.tune(&workload, &machine.options(20));
    let first = trials(&machine.log());
    let (summary, _) = machine.tune(&workload, &machine.options(40));
    let all = trials(&machine.log());
    assert_eq!(all[..first.len()], first, "the log only grows");
    assert_eq!(summary.results[0].trials, all.len() as u64);
    assert!(all.len() > first.len() && all.len() <= 48, "{}", all.len());
    // Earlier proposals are not made again: only recorded schedules are measured anew, first of all.
    let proposed = |it: &&tune::Trial| it.stage == Stage::Screen && it.source != Source::Default;
    let traces = |it: &[tune::Trial]| -> Vec<Vec<String>> {
        it.iter().filter(proposed).map(|it| it.trace.clone()).collect()
    };
    let (before, after) = (traces(&first), traces(&all[first.len()..]));
    let n_known = after.iter().take_while(|it| before.contains(it)).count();
    assert!(n_known <= KEPT_PER_ISA, "{n_known}");
    let mut new = after[n_known..].to_vec();
    assert!(!new.is_empty() && !new.iter().any(|it| before.contains(it)));
    let n_new = new.len();
    new.sort();
    new.dedup();
    assert_eq!(new.len(), n_new);
    check_record(&machine, &workload, machine.target.isa);
}

#[test]
fn a_kill_loses_the_trial_in_flight_and_no_more() {
    let Some(machine) = Machine::new() else { return };
    let mut tuner = Command::new(helper()).arg("tune").arg(machine.root.path()).spawn().unwrap();
    let start = Instant::now();
    let records = machine.cache().records().join("long");
    let logs = machine.cache().trials().join("long");
    let n_lines = || {
        let log = fs::read_dir(&logs).ok()?.next()?.ok()?.path();
        Some(fs::read_to_string(log).ok()?.lines().count())
    };
    while n_lines().unwrap_or(0) < 50 {
        assert!(start.elapsed() < Duration::from_secs(60), "it does not get going");
        thread::yield_now();
    }
    tuner.kill().unwrap();
    tuner.wait().unwrap();
    let n_lines = n_lines().unwrap();
    assert!(trials(&only_file(&logs)).len() + 1 >= n_lines);
    let text = fs::read_to_string(only_file(&records)).unwrap();
    let record = Record::from_toml(&text).expect("a whole record");
    assert!(record.buckets[0].best(machine.target.isa).is_some());
    // The lock went with the process.
    machine.lock();
}

#[test]
fn schedules_are_timed_side_by_side() {
    let Some(machine) = Machine::new() else { return };
    let workload = workload(MATMUL);
    let bucket = &workload.buckets[1];
    let narrow = workload.dag.specialize(bucket);
    let default = default::schedule(&narrow, &machine.target.into()).trace;
    let traces = [default, Schedule::new(&narrow).trace, vec!["inline s9".parse().unwrap()]];
    let (worker, lock) = (WorkerCommand::new(helper()), machine.lock());
    let bench = tune::Bench {
        bucket: tune::Bucket { workload: &workload, ranges: bucket },
        dims: Some(&[31]),
        target: machine.target.into(),
        rounds: 12,
    };
    let outcomes = tune::bench(&bench, &traces, worker, &lock);
    let outcomes = outcomes.unwrap().unwrap();
    let n_samples = |it: &Outcome| it.timing().map(|it| it.samples_ns().len());
    assert_eq!(outcomes.iter().map(n_samples).collect::<Vec<_>>(), [Some(12), Some(12), None]);
    assert!(matches!(outcomes[2], Outcome::Invalid(_)));
}

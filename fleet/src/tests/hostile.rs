//! Texts that no machine of ours would send.

use std::fs;

use serde_json::{Value, json};
use tvmtune_ir::dsl;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{GpuTarget, Isa, Target};
use tvmtune_plan::record::{Entry, Measured, Record};
use tvmtune_tuner::tune::{Tolerance, Workload};

use super::{budget, database, device, hardware, machine, task};
use crate::{Finding, Task, TaskOutcome, Tuned, WireError, accept, execute};

/// The error of a task with a field changed.
#[track_caller]
fn check_task(field: &str, value: Value, expected: &str) {
    let mut json: Value = serde_json::from_slice(&task().to_json()).unwrap();
    json[field] = value;
    let error = Task::from_json(json.to_string().as_bytes()).unwrap_err().to_string();
    assert!(error.contains(expected), "{field}: {error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn a_task_survives_the_way_to_text_and_back() {
    let mut task = task();
    task.target_latency_ns = Some(0.1 + 0.2);
    task.tolerance.rel = 1.000_000_000_000_000_2e-5;
    let text = task.to_json();
    let read = Task::from_json(&text).unwrap();
    assert_eq!((&read, read.to_json()), (&task, text));
    assert_eq!(read.id(), task.id());
    let other = Task { seed: 8, ..task.clone() };
    assert_ne!(other.id(), task.id());
    let pretty = serde_json::to_string_pretty(&task).unwrap();
    assert_eq!(Task::from_json(pretty.as_bytes()).unwrap().id(), task.id(), "spelled otherwise");
}

#[test]
fn hostile_tasks_are_refused_and_the_field_is_named() {
    check_task("version", json!(2), "has format 2, and this tvmtune reads up to 1");
    check_task("version", json!(0), "`version` of the task");
    check_task("generator", json!(99), "is of code generator 99");
    check_task("name", json!("../../etc"), "not the name of a function");
    check_task("name", json!("x".repeat(300)), "not the name of a function");
    check_task("device", json!("cpu-avx2/../x"), "not the key of a device");
    check_task("platform", json!("sse"), "`sse` is not a platform");
    check_task("platform", json!("avx512"), "`platform` of the task is none that the device runs");
    check_task("platform", json!("sm_90a"), "`platform` of the task");
    check_task("dag", json!("tvmtune dag v1\n"), "`dag` of the task does not parse: line 2");
    check_task("dag", json!("x".repeat(1 << 17)), "`dag` of the task has more than");
    check_task("bucket", json!([[1, 49]]), "`bucket` of the task");
    check_task("bucket", json!([[0, 4]]), "`bucket` of the task");
    check_task("bucket", json!([[5, 4]]), "`bucket` of the task");
    check_task("bucket", json!([[1, 4], [1, 4]]), "`bucket` of the task");
    check_task("bucket", json!([[i64::MIN, i64::MAX]]), "`bucket` of the task");
    check_task("residence", json!(["cold"]), "`residence` of the task");
    check_task("residence", json!(["hot", null]), "`hot` is not `cold` or `warm`");
    check_task("tolerance", json!({"rel": -1.0, "abs": 0.0}), "`tolerance` of the task");
    check_task("tolerance", json!({"rel": null, "abs": 0.0}), "invalid type: null");
    check_task("reuse", json!("all"), "unknown variant");
    check_task("recipe", json!({"evil": true}), "unknown field `evil`");
    check_task("target_latency_ns", json!(0.0), "`target_latency_ns` of the task");
    check_task("records", json!(["schema = 9"]), "`records` of the task has one that is not used");
    check_task("records", json!(vec![""; 17]), "`records` of the task has more than 16");
    check_task("seconds", json!(1), "unknown field `seconds`");
    let budget = |trials: u64, seconds: f64| json!({"trials": trials, "kernel_seconds": 1.0, "total_seconds": seconds});
    check_task("budget", budget(0, 1.0), "`budget` of the task");
    check_task("budget", budget(u64::MAX, 1.0), "`budget` of the task");
    check_task("budget", budget(1, -1.0), "`budget` of the task");
    check_task("budget", budget(1, 1e300), "`budget` of the task");
}

#[test]
fn a_bucket_below_the_lower_end_of_a_dimension_is_refused() {
    let program = "#[autotune(dims(T = 1..=70, S = T + 2..=74))]
        fn f(x: Tensor<f32, S>) -> Tensor<f32, T> { compute(|t| x[[t + 2]]) }";
    let tolerance = Tolerance { rel: 0.0, abs: 0.0 };
    let workload = Workload::new(dsl::program(program).unwrap(), Vec::new(), tolerance);
    let check = |lo| {
        let bucket = [Interval { lo, hi: 74 }, Interval { lo: 5, hi: 70 }];
        let device = device();
        Task::new(&workload, &bucket, device.key(), device.platform(), budget()).check()
    };
    assert_eq!(check(7), Ok(()));
    // Indices of its code would be out of bounds.
    assert!(check(6).unwrap_err().to_string().contains("`bucket` of the task"));
}

#[test]
fn hand_written_kernels_are_sent_to_no_gpu() {
    let program = "#[autotune(template = \"f.cu\" (\"f\\n\"), kernels(f(grid = 1, block = 64)))]
        fn f(x: Tensor<f32, 8>) -> Tensor<f32, 8> { compute(|n| x[[n]]) }";
    let tolerance = Tolerance { rel: 0.0, abs: 0.0 };
    let workload = Workload::new(dsl::program(program).unwrap(), Vec::new(), tolerance);
    let check = |device: Target| {
        Task::new(&workload, &[], device.key(), device.platform(), budget()).check()
    };
    assert_eq!(check(device()), Ok(()), "a CPU runs what is generated");
    let gpu = GpuTarget::generic(Arch { sm: 90, exact: true });
    let error = check(gpu.into()).unwrap_err().to_string();
    assert!(error.contains("has hand-written kernels, and tasks carry no code"), "{error}");
}

#[test]
fn what_is_no_json_is_no_task() {
    for text in ["", "{", "[]", "\u{1b}[2J", &"[".repeat(100_000), &"9".repeat(9 << 20)] {
        let error = Task::from_json(text.as_bytes()).unwrap_err();
        assert!(matches!(error, WireError::Malformed { .. }), "{error}");
        assert!(!error.to_string().contains('\u{1b}'), "{error}");
    }
}

#[test]
fn hostile_outcomes_are_refused_when_read() {
    let outcome = Honest::new().outcome;
    let check = |pointer: &str, value: Value, expected: &str| {
        let mut json: Value = serde_json::from_slice(&outcome.to_json()).unwrap();
        *json.pointer_mut(&format!("/{pointer}")).unwrap() = value;
        let error = TaskOutcome::from_json(json.to_string().as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{pointer}: {error}");
    };
    check("version", json!(7), "the outcome has format 7");
    check("task", json!("../x"), "not 64 hexadecimal digits");
    check("worker", json!("a\u{1b}[2J"), "`worker` of the outcome");
    check("host", json!("x".repeat(1000)), "`host` of the outcome");
    check("finding", json!({"failed": {"kind": "crashed", "why": "a\nb"}}), "`why` of the outcome");
    check("finding", json!({"failed": {"kind": "won", "why": ""}}), "unknown variant");
    check("finding/tuned/record", json!("x".repeat(2 << 20)), "`record` of the outcome");
    check("finding/tuned/trials", json!(["a\nb"]), "`trials` of the outcome");
    check("finding/tuned/found/best_ns", json!(-1.0), "`found` of the outcome");
    check("finding/tuned/found/seconds", json!(-1.0), "`found` of the outcome");
    check("finding/tuned/found/times/total", json!({"secs": -1, "nanos": 0}), "invalid value");
}

/// An outcome of ours, to be changed.
struct Honest {
    outcome: TaskOutcome,
    tuned: Tuned,
}

impl Honest {
    fn new() -> Self {
        let there = tempfile::tempdir().expect("there are temporary folders");
        let outcome = execute(&task(), &machine(there.path(), hardware()), &mut |_| ());
        let tuned = outcome.tuned().expect("it is tuned").clone();
        Self { outcome, tuned }
    }

    /// Checks that a changed outcome is refused, and nothing written.
    #[track_caller]
    fn check(&self, change: &dyn Fn(&mut Tuned), expected: &str) {
        let here = tempfile::tempdir().expect("there are temporary folders");
        let (mut tuned, (_, database)) = (self.tuned.clone(), database(here.path()));
        change(&mut tuned);
        let finding = Finding::Tuned(Box::new(tuned));
        let outcome = TaskOutcome { finding, ..self.outcome.clone() };
        let error = accept(&task(), &outcome, &database).expect_err(expected).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(error.contains("of `matmul` from worker `a worker` on `a host`"), "{error}");
        let left = fs::read_dir(here.path()).expect("it can be listed").count();
        assert_eq!(left, 0, "{expected}");
    }

    #[track_caller]
    fn check_record(&self, change: &dyn Fn(&mut Record), expected: &str) {
        let edit = |it: &mut Tuned| {
            let mut record = Record::from_toml(&it.record).expect("it is a record");
            change(&mut record);
            record.schema = record.needed_schema();
            it.record = record.to_toml();
        };
        self.check(&edit, expected);
    }

    #[track_caller]
    fn check_entry(&self, change: &dyn Fn(&mut Entry), expected: &str) {
        self.check_record(&|it| change(&mut it.buckets[0].schedules[0]), expected);
    }

    #[track_caller]
    fn check_measured(&self, change: &dyn Fn(&mut Measured), expected: &str) {
        self.check_entry(&|it| it.measured.as_mut().into_iter().for_each(change), expected);
    }

    #[track_caller]
    fn check_trial(&self, field: &str, value: &Value, expected: &str) {
        let edit = |it: &mut Tuned| {
            let mut json: Value = serde_json::from_str(&it.trials[0]).expect("it is JSON");
            json[field] = value.clone();
            it.trials[0] = json.to_string();
        };
        self.check(&edit, expected);
    }
}

#[test]
fn hostile_records_are_refused_and_nothing_is_written() {
    let honest = Honest::new();
    honest.check(&|it| it.record = "x".to_owned(), "its record is none");
    let other_text = |it: &mut Tuned| it.record = it.record.replacen("d0 in 1", "d0 in 2", 1);
    honest.check(&other_text, "is not the hash of `dag`");
    honest.check_record(&|it| it.name = "other".parse().unwrap(), "another name");
    honest.check_record(&|it| it.generator = 1, "another code generator");
    let device = "cpu-avx2-l1:32-l2:512-t2";
    honest.check_record(&|it| it.device = device.parse().unwrap(), "another device");
    honest.check_record(&|it| it.buckets[0].dims[0].hi = 47, "of other extents than its bucket");
    honest.check_record(&|it| it.buckets[0].dims[0].lo = 2, "another bucket");
    honest.check_record(&|it| it.buckets.clear(), "has no schedule");
}

#[test]
fn hostile_schedules_are_refused_and_nothing_is_written() {
    let honest = Honest::new();
    let record = Record::from_toml(&honest.tuned.record).unwrap();
    let second = record.buckets[0].schedules[1].artifact;
    honest.check_entry(&|it| it.artifact = second, "makes the code");
    honest.check_entry(&|it| it.platform = Isa::Avx512.into(), "another platform");
    honest.check_entry(&|it| it.trace = vec!["inline s99".to_owned()], "does not apply");
    honest.check_entry(&|it| it.trace = vec!["rm -rf".to_owned()], "does not parse");
    honest.check_measured(&|it| it.cold = Some(vec![0, 1]), "other operands in memory");
    honest.check_measured(&|it| it.min_ns = 1e-3, "at least");
    honest.check_measured(&|it| it.median_ns = f64::INFINITY, "timings are not in order");
}

#[test]
fn hostile_trials_are_refused_and_nothing_is_written() {
    let honest = Honest::new();
    honest.check(&|it| it.trials[0] = "{}".to_owned(), "a trial is none");
    honest.check_trial("workload", &json!("ab"), "a trial is of another program");
    honest.check_trial("bucket", &json!([[1, 2]]), "a trial is of another bucket");
    honest.check_trial("isa", &json!("sse"), "a trial is of another platform");
    honest.check_trial("generator", &json!(1), "a trial is of another code generator");
    honest.check_trial("cold", &json!([0, 1]), "a trial is of another place of operands");
    honest.check_trial("slowdown", &json!(-1.0), "a trial has a time that is none");
    honest.check_trial("trace", &json!(vec!["x"; 3000]), "a trial has a trace");
    honest.check_trial("outcome", &json!({"timed": []}), "a trial has a timing that is none");
    honest.check_trial("outcome", &json!({"timed": [-5.0]}), "a trial has a timing that is none");
    honest.check_trial("outcome", &json!({"timed": [0.5]}), "a trial took");
}

#[test]
fn an_outcome_of_another_task_is_refused() {
    let (outcome, here) = (Honest::new().outcome, tempfile::tempdir().unwrap());
    let (_, database) = database(here.path());
    let error = accept(&Task { seed: 9, ..task() }, &outcome, &database).unwrap_err().to_string();
    assert!(error.contains("it is the outcome of another task"), "{error}");
}

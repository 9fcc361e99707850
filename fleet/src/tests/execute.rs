//! Tasks that are executed.

use std::fs;

use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_plan::record::{Record, Source};
use tvmtune_tuner::measure::Replay;
use tvmtune_tuner::tune::Trial;

use super::{bucket, database, hardware, machine, task, tuned_directly, workload};
use crate::{FailureKind, Finding, Progress, Task, TaskOutcome, execute};

/// The part of a trial that does not depend on the clock.
fn identity(it: &Trial) -> impl PartialEq + std::fmt::Debug + use<> {
    (it.source, it.stage, it.choices.clone(), it.artifact.clone(), it.outcome.clone())
}

/// The record without what depends on the clock: the best schedule and the default one are in every final
/// ranking, and more of them as time allows.
fn timeless(mut record: Record) -> Record {
    for bucket in &mut record.buckets {
        bucket.seconds = 0.0;
        let mut rank = 0..;
        bucket.schedules.retain(|it| rank.next() == Some(0) || it.source == Source::Default);
    }
    record
}

#[track_caller]
fn check_failure(outcome: &TaskOutcome, kind: FailureKind, expected: &str) {
    let Finding::Failed(failure) = &outcome.finding else { panic!("{outcome:?}") };
    assert_eq!(failure.kind, kind, "{failure:?}");
    assert!(failure.why.contains(expected), "{failure:?}");
}

#[test]
fn a_task_gives_what_a_direct_run_with_the_same_seed_gives() {
    let (dir, log) = (tempfile::tempdir().unwrap(), hardware());
    let direct = tuned_directly(&dir.path().join("direct"), log.clone());
    let (_, direct_database) = database(&dir.path().join("direct"));
    let workload = workload();
    let expected = direct_database.get(&workload.id, &task().name, &workload.text);
    let machine = machine(dir.path(), log);
    let mut progress = Vec::new();
    let sent = Task::from_json(&task().to_json()).unwrap();
    let outcome = execute(&sent, &machine, &mut |it| progress.push(it));
    let outcome = TaskOutcome::from_json(&outcome.to_json()).unwrap();
    let tuned = outcome.tuned().unwrap_or_else(|| panic!("{outcome:?}"));
    let record = Record::from_toml(&tuned.record).unwrap();
    assert_eq!(timeless(record), timeless(expected.records[0].record.clone()));
    let trials: Vec<Trial> =
        tuned.trials.iter().map(|it| serde_json::from_str(it).unwrap()).collect();
    let both = [&direct, &trials].map(|it| it.iter().map(identity).collect::<Vec<_>>());
    assert_eq!(both[0], both[1]);
    assert!(trials.len() > 10 && trials.iter().any(|it| it.outcome.timing().is_some()));
    let n_defaults = progress.iter().filter(|it| matches!(it, Progress::Default { .. })).count();
    assert_eq!(n_defaults, 1, "{progress:?}");
    assert!(progress.iter().any(|it| matches!(it, Progress::Trial { .. })));
    assert!(tuned.found.best_ns <= tuned.found.default_ns);
}

#[test]
fn a_task_leaves_nothing_but_the_lock_of_the_device() {
    let dir = tempfile::tempdir().unwrap();
    execute(&task(), &machine(dir.path(), hardware()), &mut |_| ());
    let left: Vec<_> =
        fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().file_name()).collect();
    assert_eq!(left, ["home"]);
}

#[test]
fn records_that_come_along_are_where_the_search_begins() {
    let (dir, log) = (tempfile::tempdir().unwrap(), hardware());
    let machine = machine(dir.path(), log);
    let first = execute(&task(), &machine, &mut |_| ());
    let record = first.tuned().unwrap().record.clone();
    let known = Record::from_toml(&record).unwrap();
    let again = Task { records: vec![record], ..task() };
    let second = execute(&again, &machine, &mut |_| ());
    let second = second.tuned().unwrap();
    let trials = known.bucket(&bucket()).unwrap().trials;
    assert!(second.found.trials >= trials, "effort adds up: {:?}", second.found);
    // Of a similar device, its schedules are tried.
    let CpuTarget { l2_bytes, .. } = CpuTarget::generic(Isa::Avx2);
    let other = CpuTarget { l2_bytes: 2 * l2_bytes, ..CpuTarget::generic(Isa::Avx2) }.key();
    let moved = Record { device: other, ..known.clone() };
    let similar = Task { records: vec![moved.to_toml()], ..task() };
    let outcome = execute(&similar, &machine, &mut |_| ());
    let best = &known.bucket(&bucket()).unwrap().schedules[0].artifact;
    let tried = &outcome.tuned().unwrap().trials;
    assert!(tried[..3].iter().any(|it| it.contains(&best.to_string())), "{tried:?}");
}

#[test]
fn records_are_added_within_limits_and_those_of_the_device_first() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = execute(&task(), &machine(dir.path(), hardware()), &mut |_| ());
    let record = Record::from_toml(&outcome.tuned().unwrap().record).unwrap();
    let of_threads = |threads| {
        let device = CpuTarget { threads, ..CpuTarget::generic(Isa::Avx2) }.key();
        Record { device, ..record.clone() }
    };
    let mut others: Vec<Record> = (10..40).map(of_threads).collect();
    others.push(record.clone());
    others.push(Record { dag: "another program".to_owned(), ..record.clone() });
    let mut task = task();
    task.add_records(others);
    assert_eq!((task.records.len(), task.check()), (16, Ok(())));
    assert_eq!(task.records[0], record.to_toml());
}

#[test]
fn what_a_machine_cannot_execute_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let machine = machine(dir.path(), Replay::default());
    let run = |task: Task| execute(&task, &machine, &mut |_| ());
    let refused = FailureKind::Refused;
    let other = CpuTarget { threads: 3, ..CpuTarget::generic(Isa::Avx2) };
    check_failure(&run(Task { device: other.key(), ..task() }), refused, "and this machine has");
    check_failure(&run(Task { generator: 1, ..task() }), refused, "code generator 1");
    check_failure(&run(Task { dag: "loop".to_owned(), ..task() }), refused, "does not parse");
    check_failure(&run(Task { bucket: vec![], ..task() }), refused, "`bucket` of the task");
}

#[test]
fn a_task_without_a_default_schedule_that_works_is_impossible() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = execute(&task(), &machine(dir.path(), Replay::default()), &mut |_| ());
    check_failure(&outcome, FailureKind::Impossible, "not in the log");
}

#[test]
fn a_budget_that_is_spent_reaches_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut spent = task();
    (spent.budget.kernel_seconds, spent.budget.total_seconds) = (0.0, 0.0);
    let outcome = execute(&spent, &machine(dir.path(), hardware()), &mut |_| ());
    check_failure(&outcome, FailureKind::Unreached, "the budget did not reach it");
}

#[test]
fn a_task_ends_where_the_kernel_is_as_fast_as_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let machine = machine(dir.path(), hardware());
    let mut asked = Task { target_latency_ns: Some(1e12), ..task() };
    let outcome = execute(&asked, &machine, &mut |_| ());
    let tuned = outcome.tuned().unwrap_or_else(|| panic!("{outcome:?}"));
    assert_eq!(tuned.found.trials, 1, "the default schedule is");
    asked.records.push(tuned.record.clone());
    let outcome = execute(&asked, &machine, &mut |_| ());
    check_failure(&outcome, FailureKind::GoodEnough, "as fast as the task asks for");
}

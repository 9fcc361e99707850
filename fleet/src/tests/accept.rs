//! Outcomes that are taken.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{database, hardware, machine, task, workload};
use crate::{Accepted, Failure, FailureKind, Finding, TaskOutcome, accept, execute};

/// Every file below a folder that is no lock, with its content.
fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.expect("it can be listed").path();
        match path.is_dir() {
            true => files.extend(self::files(&path)),
            false if path.extension().is_some_and(|it| it == "lock") => {}
            false => drop(files.insert(path.clone(), fs::read(&path).expect("it can be read"))),
        }
    }
    files
}

#[test]
fn an_outcome_is_merged_and_taking_it_again_changes_nothing() {
    let (there, here) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let outcome = execute(&task(), &machine(there.path(), hardware()), &mut |_| ());
    let (_, database) = database(here.path());
    let accepted = accept(&task(), &outcome, &database).unwrap();
    let n_trials = outcome.tuned().unwrap().trials.len();
    assert_eq!(accepted.n_trials, n_trials);
    let workload = workload();
    let lookup = database.get(&workload.id, &task().name, &workload.text);
    assert!(lookup.warnings.is_empty());
    assert_eq!(lookup.records[0].record.to_toml(), outcome.tuned().unwrap().record);
    let before = files(here.path());
    assert_eq!(before.len(), 2, "a record and a log: {before:?}");
    let again = accept(&task(), &outcome, &database).unwrap();
    assert_eq!(again, Accepted { n_trials: 0, ..accepted });
    assert_eq!(files(here.path()), before);
}

#[test]
fn a_failure_changes_nothing() {
    let here = tempfile::tempdir().unwrap();
    let failure = Failure::new(FailureKind::Crashed, "its worker\ncrashed");
    let outcome = TaskOutcome {
        version: 1,
        task: task().id(),
        worker: String::new(),
        host: String::new(),
        tool: String::new(),
        finding: Finding::Failed(failure),
    };
    let outcome = TaskOutcome::from_json(&outcome.to_json()).unwrap();
    let (_, database) = database(here.path());
    assert_eq!(accept(&task(), &outcome, &database).unwrap(), Accepted::default());
    assert!(files(here.path()).is_empty());
}

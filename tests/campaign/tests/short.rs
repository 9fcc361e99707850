//! The command that runs the campaign: every section for a few cases, and cases that go wrong.

#![expect(clippy::unwrap_used, reason = "what tests call is part of a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tvmtune_campaign::sections::ALL;

fn campaign() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_campaign"));
    command.env_remove("PROPTEST_CASES");
    command
}

#[test]
fn every_section_runs_without_findings() {
    let out = tempfile::tempdir().unwrap();
    for section in ALL {
        let mut command = campaign();
        command.arg(section.name()).args(["--cases", &section.cases_of_a_test().to_string()]);
        let output = command.arg("--out").arg(out.path()).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{text}\n{errors}");
        assert!(text.contains("seed "), "{text}");
    }
}

/// Runs `mishaps`, in which every eighth case is of one kind, mostly.
fn mishaps(out: &Path, arguments: &[&str]) -> Output {
    let mut command = campaign();
    command.args(["mishaps", "--seed", "5", "--out"]).arg(out);
    command.arg("--json").arg(out.join("report.json")).args(arguments).output().unwrap()
}

fn section(out: &Path) -> Value {
    let text = fs::read_to_string(out.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["seed"], 5);
    report["sections"][0].clone()
}

#[test]
fn cases_that_panic_hang_or_die_are_found_and_all_others_run() {
    let out = tempfile::tempdir().unwrap();
    let output = mishaps(out.path(), &["--cases", "16"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let section = section(out.path());
    assert_eq!((&section["cases"], &section["accepted"]), (&16.into(), &3.into()));
    assert_eq!((&section["rejected"], &section["skipped"]["no reason"]), (&2.into(), &2.into()));
    for (kind, n) in [("panic", 2), ("wrong", 2), ("lost", 2), ("hang", 1), ("death", 2)] {
        assert_eq!(section["found"][kind], n, "{kind}: {section}");
    }
    // Each is known by its input.
    for case in [3, 4, 5, 6, 7, 11, 12, 13, 14] {
        let input = out.path().join(format!("mishaps/{case}/number.txt"));
        assert_eq!(fs::read_to_string(input).unwrap(), case.to_string());
    }
}

#[test]
fn one_case_is_repeated_by_its_number() {
    let out = tempfile::tempdir().unwrap();
    let output = mishaps(out.path(), &["--case", "6"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let found = section(out.path());
    assert_eq!((&found["cases"], &found["found"]["death"]), (&1.into(), &1.into()));
    let output = mishaps(out.path(), &["--case", "8"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(section(out.path())["accepted"], 1);
}

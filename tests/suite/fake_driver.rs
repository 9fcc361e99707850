//! A machine whose GPU is the emulator: the acceptance of GPUs from end to end, driver and all.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tvmtune_acceptance::bundle::{self, Job, Recipe};
use tvmtune_acceptance::candidate::{Goal, Manifest};
use tvmtune_acceptance::case;
use tvmtune_acceptance::evaluation::Evaluation;
use tvmtune_acceptance::results::Results;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_plan::database::{Database, Files, Store, StoreKind};
use tvmtune_plan::record::GENERATOR;
use tvmtune_tests::nvrtc::{self, nvrtc};
use tvmtune_tests::sandbox::files;
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::tune::trials as trials_of;

use crate::devices;

/// Programs that are timed as well, at extents for which the emulator is fast enough.
const TIMED: [(&str, &str); 3] = [
    ("linear_bf16", "M = 20, N = 24, K = 32"),
    ("total_f32", "N = 700"),
    ("rms_norm_f16", "R = 3, D = 64"),
];

/// The device of the fake driver.
fn target() -> GpuTarget {
    GpuTarget::generic(Arch { sm: 90, exact: true })
}

#[test]
fn kernels_run_on_devices_as_applications_launch_them() {
    let Some(nvrtc) = nvrtc() else { return };
    let folder = tempfile::tempdir().unwrap();
    // The tests of devices once more, where there is one. Its driver knows one capture at a time.
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["devices::", "--test-threads=1"]).env(devices::FAKE_DRIVER, "yes");
    let trace = folder.path().join("trace.json");
    command.env("TVMTUNE_NVRTC", nvrtc.path()).env("TVMTUNE_TRACE", &trace);
    let output = command.env("LD_LIBRARY_PATH", driver(folder.path())).output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(stdout.contains("a_launch_can_be_captured_once_weights_are_there ... ok"), "{stdout}");
    check_trace(&trace);
}

/// Checks the events of launches on the device: timed by its clock, but for those of graphs.
#[track_caller]
fn check_trace(trace: &Path) {
    let text = fs::read_to_string(trace).unwrap();
    let event = |it: &str| serde_json::from_str(it.strip_suffix(',').unwrap()).unwrap();
    let events: Vec<Value> = text.lines().skip(1).map(event).collect();
    let of = |phase: &str| -> Vec<&Value> {
        events.iter().filter(|it| it["name"] == "test" && it["ph"] == phase).collect()
    };
    let (timed, captured) = (of("X"), of("i"));
    assert!(timed.len() >= 5, "{text}");
    for it in timed {
        let args = &it["args"];
        assert_eq!((&args["isa"], &args["bucket"]["M"]), (&"sm_90a".into(), &vec![1, 64].into()));
        assert!(
            it["dur"].as_f64().is_some_and(|it| it > 0.0) && args["gflops"].is_number(),
            "{it}"
        );
        let m = args["dims"]["M"].as_f64().unwrap();
        assert_eq!(args["mbytes"].as_f64(), Some(24.0 * m / 1e6), "{it}");
        assert!(args["threads"].is_null());
    }
    assert_eq!(captured.len(), 1, "the capture that was refused put nothing on the stream: {text}");
    assert!(captured[0]["dur"].is_null() && captured[0]["args"]["gflops"].is_null());
}

/// A bundle in a folder: a few programs, checked and timed.
fn made() -> Option<(TempDir, Manifest)> {
    let jobs = TIMED.into_iter().flat_map(|(name, dims)| {
        let case = case::named(name).unwrap();
        let check = Job { goal: Goal::Check, case, dims: case.checks[0].dims };
        [check, Job { goal: Goal::Time, case, dims }]
    });
    made_of(jobs.collect())
}

/// Makes a bundle of any jobs, with PTX, which the emulator runs.
fn made_of(jobs: Vec<Job>) -> Option<(TempDir, Manifest)> {
    let compiler = Compiler::new(nvrtc()?, None);
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("images")).unwrap();
    let recipe =
        Recipe { target: target(), only: "", sampled: bundle::SAMPLED, ranked: 0, ptx: true };
    let mut candidates = Vec::new();
    for job in jobs {
        let (made, refused) = bundle::compile_job(&job, &recipe, &compiler).unwrap();
        assert_eq!(refused, Vec::<String>::new());
        for (candidate, image) in made {
            fs::write(folder.path().join(&candidate.image), image).unwrap();
            candidates.push(candidate);
        }
    }
    let (arch, nvrtc) = (target().arch.to_string(), String::new());
    let manifest = Manifest { generator: GENERATOR, arch, nvrtc, candidates };
    manifest.write(folder.path()).unwrap();
    Some((folder, manifest))
}

/// The folder where the driver lies under the name that programs look for.
pub(crate) fn driver(folder: &Path) -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let library = tests.with_file_name("libtvmtune_fake_driver.so");
    fs::copy(&library, folder.join("libcuda.so.1")).unwrap();
    folder.to_owned()
}

/// Runs the bundle; returns the exit code and the output.
fn run(folder: &Path) -> (Option<i32>, String) {
    acceptance(folder, &["run"])
}

/// Runs a command of the bundle.
fn acceptance(folder: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_acceptance"));
    command.args(arguments).arg("--folder").arg(folder).env("LD_LIBRARY_PATH", driver(folder));
    if let Some(nvrtc) = nvrtc::optional() {
        command.env("TVMTUNE_NVRTC", nvrtc.path());
    }
    let output = command.output().unwrap();
    let text = [&output.stdout[..], &output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn evaluations(folder: &Path, manifest: &Manifest) -> Vec<Evaluation> {
    let results = Results::open(&folder.join("results")).unwrap();
    let evaluation = |it| results.evaluation(it).expect("every candidate has a result").clone();
    manifest.candidates.iter().map(evaluation).collect()
}

#[test]
fn right_code_passes_and_is_timed() {
    let Some((folder, manifest)) = made() else { return };
    let (code, output) = run(folder.path());
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains("the emulator, sm_90a, 132 multiprocessors"), "{output}");
    for (candidate, evaluation) in
        manifest.candidates.iter().zip(evaluations(folder.path(), &manifest))
    {
        match (candidate.goal, evaluation) {
            (Goal::Check, Evaluation::Right(n)) => assert!(n > 0),
            (Goal::Time, Evaluation::Timed(times)) => {
                // By the clock of this device a launch takes 1 ms, as does a copy of 1 GB.
                let kernels = candidate.predicted.as_ref().unwrap().kernels.len();
                assert!((times.median_ns() / 1e6 - kernels as f64).abs() < 1e-3, "{times:?}");
                assert!(times.copy_gbps.iter().all(|it| (it - 2e3).abs() < 1.0), "{times:?}");
                assert!(times.copy_gbps.len() == 6 && times.samples_ns.len() == 25, "{times:?}");
            }
            (_, other) => panic!("{}: {other}", candidate.title()),
        }
    }
}

#[test]
fn every_class_of_programs_is_right_as_applications_launch_it() {
    let check = |case: &'static case::Case| {
        case.checks.iter().map(move |it| Job { goal: Goal::Check, case, dims: it.dims })
    };
    let Some((folder, manifest)) = made_of(case::all().flat_map(check).collect()) else { return };
    let (code, output) = run(folder.path());
    assert_eq!(code, Some(0), "{output}");
    let right = evaluations(folder.path(), &manifest);
    assert!(right.iter().all(|it| matches!(it, Evaluation::Right(n) if *n > 0)), "{output}");
}

#[test]
fn results_are_kept_as_they_come_and_not_asked_for_again() {
    let Some((folder, manifest)) = made() else { return };
    let n_tried = || Results::open(&folder.path().join("results")).unwrap().tried().count();
    let (code, output) = acceptance(folder.path(), &["run", "--seconds", "0", "--only", "rms"]);
    assert!(code == Some(1) && output.contains("left for lack of time"), "{output}");
    assert_eq!(n_tried(), 0);
    for arguments in [&["run", "--checks"][..], &["run"], &["run"]] {
        let (code, output) = acceptance(folder.path(), arguments);
        assert_eq!(code, Some(0), "{output}");
    }
    assert_eq!(n_tried(), manifest.candidates.len());
    assert_eq!(acceptance(folder.path(), &["run", "--again", "--only", "total"]).0, Some(0));
    assert!(n_tried() > manifest.candidates.len());
}

#[test]
fn wrong_results_and_faults_are_reported_and_cost_no_other_candidate() {
    let Some((folder, manifest)) = made() else { return };
    let change = |n: usize, change: &dyn Fn(&str) -> String| {
        let path = folder.path().join(&manifest.candidates[n].image);
        fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
    };
    let is_store =
        |line: &str| line.trim_start().trim_start_matches(|c| c != 's').starts_with("st.global");
    let without_stores = |text: &str| {
        let kept = text.lines().filter(|it| !is_store(it));
        kept.map(|it| format!("{it}\n")).collect()
    };
    // `[%rd1+16]` becomes `[%rd1+1048576]`.
    let moved = |line: &str| {
        let (before, rest) = line.split_once('[').unwrap();
        let (address, after) = rest.split_once(']').unwrap();
        let register = address.split('+').next().unwrap();
        format!("{before}[{register}+1048576]{after}\n")
    };
    let stray = |text: &str| {
        let line = |it: &str| if is_store(it) { moved(it) } else { format!("{it}\n") };
        text.lines().map(line).collect()
    };
    change(0, &without_stores);
    change(1, &stray);
    change(2, &|_| "no PTX".to_owned());
    change(3, &|text| text.replace(".entry ", ".entry of_another_"));
    let (code, output) = run(folder.path());
    assert_eq!(code, Some(1), "{output}");
    let found = evaluations(folder.path(), &manifest);
    assert!(matches!(&found[0], Evaluation::Wrong(_)), "{:?}", found[0]);
    let Evaluation::Failed(why) = &found[1] else { panic!("{:?}", found[1]) };
    assert!(why.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{why}");
    assert!(matches!(&found[2], Evaluation::Skipped(_)), "{:?}", found[2]);
    assert!(!matches!(&found[3], Evaluation::Right(_) | Evaluation::Timed(_)), "{:?}", found[3]);
    assert!(
        found[4..].iter().all(|it| matches!(it, Evaluation::Right(_) | Evaluation::Timed(_))),
        "{output}"
    );
}

#[test]
fn a_session_leaves_a_log_and_records_and_goes_on_from_them() {
    let Some((folder, manifest)) = made() else { return };
    let tune = |trials| {
        let (code, output) =
            acceptance(folder.path(), &["tune", "--only", "rms_norm", "--trials", trials]);
        assert_eq!(code, Some(0), "{output}");
        assert!(output.contains("rms_norm_f16 sm_90a: "), "{output}");
        let results = folder.path().join("results");
        let log = files(&results.join("tuning/v1/trials"));
        let [log] = &log[..] else { panic!("a log for the one program") };
        trials_of(log)
    };
    let first = tune("4");
    assert!(first.len() == 4 && first.iter().any(|it| it.outcome.timing().is_some()));
    let dir = folder.path().join("results/tuning/v4/records");
    let database = Database::new(vec![Store { kind: StoreKind::Crate, dir }], None);
    let records: Vec<_> = database.list().collect();
    let [(_, path, Ok(record))] = &records[..] else { panic!("a record for each program") };
    let best = record.buckets[0].best(Arch { sm: 90, exact: true }).unwrap();
    let (files, damaged) = Files::beside(path, record);
    assert!(damaged.is_empty() && best.images.iter().all(|it| files.get(&it.sha256).is_some()));
    assert_eq!(best.images.len(), 2, "for this architecture, and for later ones");

    let results = Results::open(&folder.path().join("results")).unwrap();
    let n_of_best =
        results.tried().filter(|(it, _)| it.artifact == best.artifact.to_string()).count();
    assert!(n_of_best > 0, "beside what was timed: {}", manifest.candidates.len());
    let both = tune("6");
    assert_eq!(both[..first.len()], first, "the log grows");
    assert!(both.len() > first.len());

    let (_, page) = acceptance(folder.path(), &["curves", "--only", "rms_norm"]);
    let rows: Vec<&str> = page.lines().skip(2).collect();
    let [row] = rows[..] else { panic!("{page}") };
    let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
    assert_eq!(cells[..2], ["rms_norm_f16", "R = 3, D = 64"]);
    assert_eq!(cells.last().unwrap().parse(), Ok(both.len()), "{page}");
    let best = cells[cells.len() - 3].trim_end_matches('x').parse::<f64>().unwrap();
    assert!(best >= 1.0, "the default schedule is a trial: {page}");
}

//! Processes that tune at once on one machine: each progresses, and one measures at a time.

use std::process::{Child, Stdio};
use std::time::Duration;

use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::Source;
use tvmtune_tests::sandbox::{Sandbox, files};
use tvmtune_tuner::executor::{
    Capacity, Executor, Interleaved, MachineLocks, Needs, Policy, Predictive, TuningJob,
};
use tvmtune_tuner::tune::{self, Hardware, Options, Workload, trials};

use crate::tuning::{Machine, SOFTMAX};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

/// Rounding of the times in logs, in ms.
const ROUNDING: f64 = 2.0;

/// A product that takes long to search.
fn product(rows: u32) -> String {
    format!(
        "use tvmtune_runtime::autotune;

        #[autotune(dims(M = {rows}, N = 512, K = 512))]
        pub fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }}"
    )
}

/// The times of measurements of each workload in a cache, in ms: begin and end.
fn measurements(cache: &Cache) -> Vec<Vec<(f64, f64)>> {
    let logs = files(&cache.trials());
    let times = |log: &std::path::PathBuf| {
        let measured = trials(log).into_iter().filter(|it| it.measure_ms > 0.0);
        let times = measured.map(|it| (it.unix_ms as f64 - it.measure_ms, it.unix_ms as f64));
        times.collect()
    };
    logs.iter().map(times).collect()
}

#[test]
fn two_sessions_and_a_build_progress_at_once_and_one_measures_at_a_time() {
    if device::detect().is_none() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let sandboxes = [("first", 192), ("second", 224), ("third", 256)]
        .map(|(name, rows)| Sandbox::new(name, &product(rows)));
    let [first, second, third] = &sandboxes;
    let tune = |sandbox: &Sandbox| -> Child {
        let mut command = sandbox.command(TVMTUNE);
        let arguments = ["tune", "--budget", "8s", "--trials", "1000"];
        let command = command.args(arguments).env("TVMTUNE_CACHE", folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
    };
    let sessions = [tune(first), tune(second)];
    let cache = folder.path().to_str().unwrap();
    let variables = [("TVMTUNE", "tune"), ("TVMTUNE_BUDGET", "8s"), ("TVMTUNE_CACHE", cache)];
    let build = third.build(SCRIPT, "out", &variables);
    assert_eq!(build.code, Some(0), "{build:?}");
    for mut session in sessions {
        assert!(session.wait().unwrap().success());
    }
    let all = measurements(&Cache::new(folder.path()));
    assert_eq!(all.len(), 3, "each has a log");
    for (n, own) in all.iter().enumerate() {
        assert!(own.len() > 1, "{own:?}");
        for other in &all[n + 1..] {
            let overlap =
                |(a, b): &(&(f64, f64), &(f64, f64))| a.0 + ROUNDING < b.1 && b.0 + ROUNDING < a.1;
            let pairs = own.iter().flat_map(|a| other.iter().map(move |b| (a, b)));
            assert_eq!(pairs.filter(overlap).collect::<Vec<_>>(), [], "at once");
            // None waited for another one to end.
            let ends = |it: &[(f64, f64)]| (it[0].0, it[it.len() - 1].1);
            let (own, other) = (ends(own), ends(other));
            assert!(own.0 < other.1 && other.0 < own.1, "{own:?} {other:?}");
        }
    }
}

#[test]
fn a_process_that_ends_in_a_stage_gives_the_machine_back() {
    let Some(target) = device::detect() else { return };
    let folder = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new("sandbox", &product(48));
    let mut command = sandbox.command(TVMTUNE);
    command.args(["tune", "--budget", "60s"]).env("TVMTUNE_CACHE", folder.path());
    let mut session = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let cache = Cache::new(folder.path());
    let minute = Duration::from_secs(60);
    crate::locks::until(|| !measurements(&cache).is_empty(), "it measures");
    session.kill().unwrap();
    session.wait().unwrap();
    let needs = Needs::timing(&target.into(), 2);
    let lock = MachineLocks::new(&cache).acquire(&needs, minute, &mut |_| ());
    assert!(lock.is_ok());
}

/// A trial, without what depends on the clock.
type Identity = (Source, tune::Stage, Vec<u16>, String);

/// The trials that a job found on recorded hardware.
fn found(job: &TuningJob<'_>, workload: &Workload, log: &[tune::Trial]) -> Vec<Identity> {
    let machine = Machine::new().unwrap();
    let hardware = Hardware::Log(tune::replay(log));
    let options = Options { hardware, ..machine.options(60) };
    let workloads = std::slice::from_ref(workload);
    tune::run(workloads, &options, &machine.database(), job, &mut |_| ()).unwrap();
    identities(&trials(&machine.log()))
}

fn identities(trials: &[tune::Trial]) -> Vec<Identity> {
    let identity =
        |it: &tune::Trial| (it.source, it.stage, it.choices.clone(), it.artifact.clone());
    trials.iter().map(identity).collect()
}

#[test]
fn a_job_finds_beside_others_what_it_finds_alone() {
    let Some(machine) = Machine::new() else { return };
    let workload = tvmtune_tests::workload(SOFTMAX);
    machine.tune(&workload, &machine.options(60));
    let log = trials(&machine.log());
    let alone = identities(&log);
    let policies: [Box<dyn Policy>; 2] = [Box::new(Interleaved::new()), Box::new(Predictive)];
    for policy in policies {
        let executor = Executor::new(policy, Capacity::of_this_machine(), None);
        let jobs = [0; 3].map(|_| executor.job(0));
        let all: Vec<Vec<Identity>> = std::thread::scope(|scope| {
            let threads = jobs.map(|job| scope.spawn(|| found(&{ job }, &workload, &log)));
            threads.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!(all.iter().all(|it| *it == alone), "{:?}", all.iter().map(Vec::len));
    }
}

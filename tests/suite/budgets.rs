//! Budgets: their shares by activity, and the status of a search that a budget ended.

use std::fs;
use std::time::Duration;

use tvmtune_plan::device;
use tvmtune_plan::record::{Record, Search, SearchLimits};
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, said};
use tvmtune_tests::workload;
use tvmtune_tuner::tune::{Progress, Summary};

use crate::tuning::Machine;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

/// A product whose reference results take as long as a few hundred candidates.
fn product(name: &str, rows: u32) -> String {
    format!(
        "#[autotune(dims(M = {rows}, N = 256, K = 256))]
        fn {name}(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }}"
    )
}

/// Tunes products of several sizes, within a total.
fn tune(machine: &Machine, total: Duration) -> Summary {
    let rows = [16, 24, 32, 48, 64, 96, 128, 192];
    let workloads: Vec<_> =
        rows.iter().map(|it| workload(&product(&format!("product_{it}"), *it))).collect();
    let mut options = machine.options(1000);
    options.budget.total = total;
    machine.tune_all(&workloads, &options)
}

#[test]
fn a_budget_goes_into_searching_and_the_rest_is_accounted_for() {
    let Some(machine) = Machine::new() else { return };
    let summary = tune(&machine, Duration::from_secs(8));
    let times = summary.times;
    assert!(!summary.results.is_empty(), "{summary:?}");
    let activities = [
        times.judging,
        times.generating,
        times.measuring,
        times.proposing,
        times.comparing,
        times.waiting,
    ];
    assert_eq!(activities.iter().sum::<Duration>() + times.other(), times.total, "{times:?}");
    assert!(times.waiting > Duration::ZERO, "a worker was started: {times:?}");
    // Every kernel that was opened was searched, and what was not opened is named.
    assert!(summary.results.iter().all(|it| it.trials > 1), "{summary:?}");
    assert_eq!(summary.results.len() + summary.unreached.len() + summary.skipped.len(), 8);
    for it in &summary.results {
        assert!(it.times.searching() > it.times.judging, "{it:?}");
        assert!(it.times.total >= it.times.searching(), "{it:?}");
    }
}

#[test]
fn a_small_budget_is_for_few_kernels_and_the_next_run_begins_with_the_others() {
    let Some(machine) = Machine::new() else { return };
    let names = |it: &Summary| -> Vec<String> {
        it.results.iter().map(|it| it.task.program.clone()).collect()
    };
    let first = tune(&machine, Duration::from_millis(900));
    assert!(!first.results.is_empty(), "every run gets somewhere: {first:?}");
    assert!(!first.unreached.is_empty(), "{first:?}");
    let second = tune(&machine, Duration::from_millis(900));
    let again = names(&second).into_iter().filter(|it| names(&first).contains(it)).count();
    assert_eq!(again, 0, "{first:?} {second:?}");
}

#[test]
fn a_search_that_a_budget_ended_is_not_exact_until_it_is_complete() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let run = |trials: &str, arguments: &[&str]| -> Said {
        let said = said(sandbox.command(TVMTUNE).env("TVMTUNE_BUDGET", trials).args(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
        said
    };
    let build = |trials: &str| -> Said {
        sandbox.build(SCRIPT, "out", &[("TVMTUNE", "tune"), ("TVMTUNE_BUDGET", trials)])
    };
    assert_eq!(build("1").directives("warning"), [""; 0], "a budget of one trial was spent");
    // With the usual budget the same record is a default schedule that nothing competed with.
    let status = run("200", &["status"]);
    assert!(status.out.contains("1 kernel: 1 default confirmed"), "{status:?}");
    assert!(status.out.contains("about 40 s of search are left"), "{status:?}");
    let rows: serde_json::Value =
        serde_json::from_str(&run("200", &["status", "--json"]).out).unwrap();
    assert_eq!((&rows[0]["trials"], &rows[0]["seconds_left"]), (&1.into(), &20.0.into()));
    let search = |limits| -> Vec<Search> {
        let text = fs::read_to_string(&sandbox.records()[0]).unwrap();
        Record::from_toml(&text).unwrap().buckets.iter().map(|it| it.search(limits)).collect()
    };
    let limits = SearchLimits { trials: 200, seconds: 20.0 };
    assert_eq!(search(limits), [Search::DefaultOnly; 2]);
    // The next build goes on by itself, and ends where nothing is expected to gain.
    assert_eq!(build("6").directives("warning"), [""; 0]);
    assert_eq!(search(limits), [Search::Partial; 2]);
    assert!(run("200", &["status"]).out.contains("1 kernel: 1 unfinished"));
    assert!(run("6", &["status"]).out.contains("1 kernel: 1 exact"));
    let isa = device::isas()[0].name();
    assert!(run("6", &["tune", "--isa", isa]).out.contains("nothing to do"));
}

#[test]
fn whoever_watches_sees_what_is_tuned_and_nothing_afterwards() {
    let source = format!("use tvmtune_runtime::autotune;\n{}", product("product", 64));
    let sandbox = Sandbox::new("sandbox", &source);
    let watch = || said(sandbox.command(TVMTUNE).args(["watch", "--once"]));
    assert_eq!(watch().out, "nothing is being tuned\n");
    if device::detect().is_none() {
        return;
    }
    let mut tune = sandbox.command(TVMTUNE);
    tune.args(["tune", "--trials", "1000000"]).env("TVMTUNE_BUDGET", "60s");
    let mut tune = tune.stdout(std::process::Stdio::null()).spawn().unwrap();
    let started = std::time::Instant::now();
    let seen = loop {
        let json = said(sandbox.command(TVMTUNE).args(["watch", "--once", "--json"])).out;
        let runs: Vec<Progress> = serde_json::from_str(&json).unwrap();
        match runs.into_iter().find(|it| it.n_trials > 0) {
            Some(progress) => break progress,
            None => assert!(started.elapsed() < Duration::from_secs(60), "nothing is to be seen"),
        }
    };
    assert_eq!((seen.process, &*seen.package, seen.n_tasks), (tune.id(), "sandbox", 1));
    assert!(watch().out.starts_with("sandbox (process "));
    tune.kill().unwrap();
    tune.wait().unwrap();
    assert_eq!(watch().out, "nothing is being tuned\n", "its file was left behind");
}

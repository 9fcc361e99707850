//! Profiles of applications: what a process that was told to writes, and what is made of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::Peaks;
use tvmtune_tests::sandbox::{Said, Sandbox, said};

use crate::cargo::cargo;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// An application: what it does is its first argument.
const SOURCE: &str = r##"
use std::time::{Duration, Instant};
use tvmtune_runtime::{Cpu, Weight, autotune};

#[autotune(dims(M = 1..=64, N = 48, K = 32), buckets(M = [8, 64]))]
fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}

#[autotune(dims(N = 1..=4096), types(T in [f32, f64]))]
fn twice(x: Tensor<T, N>) -> Tensor<T, N> {
    compute(|n| x[[n]] + x[[n]])
}

fn product(m: usize, w: &Weight<f32>) {
    let mut y = vec![0.0; m * 48];
    linear(&Cpu::new().alone(), &vec![1.0; m * 32], w, &mut y).unwrap();
    assert_eq!(y[m * 48 - 1], 16.0);
}

#[cfg(unix)]
fn fork_and_launch(w: &Weight<f32>) {
    unsafe extern "C" {
        fn fork() -> i32;
        fn waitpid(process: i32, status: *mut i32, options: i32) -> i32;
    }
    product(4, w);
    let children: Vec<i32> = (0..4)
        .map(|_| {
            // SAFETY: this thread is the only one; the child launches and exits.
            let child = unsafe { fork() };
            if child == 0 {
                for _ in 0..100 {
                    product(4, w);
                }
                std::process::exit(0);
            }
            child
        })
        .collect();
    for child in children {
        // SAFETY: no status is asked for.
        unsafe { waitpid(child, std::ptr::null_mut(), 0) };
    }
}

fn main() {
    let w = Weight::new(vec![0.5; 48 * 32]);
    match std::env::args().nth(1).as_deref() {
        Some("all") => {
            for m in [4, 8, 60] {
                product(m, &w);
            }
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_millis(30) {}
            product(60, &w);
            let cpu = Cpu::new();
            twice(&cpu, &[1.0_f32; 100], &mut [0.0; 100]).unwrap();
            twice(&cpu, &[1.0_f64; 100], &mut [0.0; 100]).unwrap();
            let dims = linear::Dims { m: 3 };
            linear::reference(dims, &[1.0; 96], &w, &mut [0.0; 144]).unwrap();
            assert!(linear(&cpu, &[1.0; 5], &w, &mut [0.0; 48]).is_err());
            // A process that starts another one, which dies.
            let mut other = std::process::Command::new(std::env::current_exe().unwrap());
            assert!(!other.arg("abort").status().unwrap().success());
        }
        Some("abort") => {
            product(4, &w);
            std::process::abort();
        }
        Some("threads") => std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..200).for_each(|_| product(4, &w)));
            }
        }),
        #[cfg(unix)]
        Some("fork") => fork_and_launch(&w),
        other => panic!("{other:?}"),
    }
    println!("done");
}
"##;

/// The application, compiled.
struct Application {
    sandbox: Sandbox,
    program: PathBuf,
}

impl Application {
    fn new() -> Self {
        let sandbox = Sandbox::new("profiled", "").without_script();
        sandbox.write("src/main.rs", SOURCE);
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
        cargo(&sandbox, "", &["build"]);
        // Another test's package of this name would replace it.
        let program = sandbox.package().join("profiled");
        fs::copy(target.join("debug").join("profiled"), &program).unwrap();
        Self { sandbox, program }
    }

    /// Runs it to its end; returns its standard error.
    fn run(&self, what: &str, trace: &str) -> String {
        let mut command = Command::new(&self.program);
        command.current_dir(self.sandbox.package()).env("TVMTUNE_TRACE", trace).arg(what);
        let Said { code, out, err } = said(&mut command);
        assert_eq!((code, out.trim()), (Some(0), "done"), "{err}");
        err
    }

    fn tvmtune(&self, arguments: &[&str]) -> Said {
        said(self.sandbox.command(TVMTUNE).args(arguments))
    }

    /// The profile of a file, as JSON.
    fn profile(&self, trace: &str) -> Value {
        let Said { code, out, err } = self.tvmtune(&["profile", trace, "--json"]);
        assert_eq!(code, Some(0), "{err}");
        serde_json::from_str(&out).unwrap()
    }

    /// The events of a file, one in each line but the first.
    fn events(&self, trace: &str) -> Vec<Value> {
        let text = fs::read_to_string(self.sandbox.package().join(trace)).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("["));
        let event = |it: &str| serde_json::from_str(it.strip_suffix(',').unwrap()).unwrap();
        lines.map(event).collect()
    }
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_profile_has_all_launches_of_an_application() {
    let application = Application::new();
    let path = "trace.json";
    let begin = std::time::Instant::now();
    assert_eq!(application.run("all", path), "");
    let wall_us = begin.elapsed().as_secs_f64() * 1e6;
    let events = application.events(path);
    check_events(&events, wall_us);

    let profile = application.profile(path);
    assert_eq!((&profile["launches"], &profile["is_cut_off"]), (&8.into(), &false.into()));
    let rows = profile["kernels"].as_array().unwrap();
    let row = |name: &str, extents: &str, isa: &str| {
        let mut of = rows.iter().filter(|it| {
            let is_portable = it["isa"] == "portable";
            it["name"] == name && it["extents"] == extents && is_portable == (isa == "portable")
        });
        of.next().unwrap_or_else(|| panic!("{name} {extents} {isa}: {profile:#}")).clone()
    };
    let best = "of this machine";
    assert_eq!(row("linear", "M 1..=8", best)["launches"], 3);
    assert_eq!(row("linear", "M 9..=64", best)["launches"], 2);
    assert_eq!(row("linear", "M 1..=8", "portable")["launches"], 1);
    assert_eq!(row("twice_f32", "N 1..=4096", best)["launches"], 1);
    assert_eq!(row("twice_f64", "N 1..=4096", best)["launches"], 1);
    let sum: f64 = events.iter().map(|it| number(&it["dur"])).sum();
    assert!((number(&profile["total_us"]) / sum - 1.0).abs() < 1e-6);
    assert!((30e3..wall_us).contains(&number(&profile["idle_us"])), "{}", profile["idle_us"]);

    // The next check writes the trace anew, and those after it measure the peaks that it expects to be unknown.
    let kept = "kept.json";
    let package = application.sandbox.package();
    fs::copy(package.join(path), package.join(kept)).unwrap();
    check_text(&application, path);
    check_tuning(&application, kept);
    check_buckets(&application, kept);
}

/// Checks that tuning shares its time by the runs of a profile, and leaves out what did not run.
#[track_caller]
fn check_tuning(application: &Application, path: &str) {
    if device::detect().is_none() {
        return;
    }
    let text = fs::read_to_string(application.sandbox.package().join(path)).unwrap();
    let is_small = |it: &&str| !it.contains("\"name\"") || it.contains("\"M\":[1,8]");
    let small: String = text.lines().filter(is_small).map(|it| format!("{it}\n")).collect();
    let other = small.replacen("\"workload\":\"", "\"workload\":\"0", 1);
    application.sandbox.write("small.json", &small);
    application.sandbox.write("other.json", &other);
    let tune =
        |path: &str| application.tvmtune(&["tune", "--profile", path, "--trials", "2", "--json"]);
    let tuned = tune("other.json");
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    let unknown = "1 kernel that this package does not have as they were: `linear`";
    assert!(tuned.err.contains(unknown), "{tuned:?}");
    assert!(tuned.err.contains("left out: `twice_f32`, `twice_f64`"), "{tuned:?}");
    let report: Value = serde_json::from_str(&tuned.out).unwrap();
    let kernels = report["kernels"].as_array().unwrap();
    assert_eq!(kernels.len(), 1, "{report:#}");
    assert_eq!(
        (&kernels[0]["name"], &kernels[0]["extents"]),
        (&"linear".into(), &"M 1..=8".into())
    );
    let record = fs::read_to_string(&application.sandbox.records()[0]).unwrap();
    assert!(
        record.contains("weight = 3.0"),
        "of four launches, one is of another program: {record}"
    );
    let missing = tune("none.json");
    assert_eq!(missing.code, Some(2), "{missing:?}");
    assert!(missing.err.contains("run an application with `TVMTUNE_TRACE`"), "{missing:?}");
}

/// Checks that buckets are proposed for the extents of a profile, also of one that is damaged.
#[track_caller]
fn check_buckets(application: &Application, path: &str) {
    if device::detect().is_none() {
        return;
    }
    let text = fs::read_to_string(application.sandbox.package().join(path)).unwrap();
    // After the launch with 4 rows, a line that means nothing; the last launch took less than no time.
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.insert(2, "{\"name\":\"linear\",\"cat\":\"tvm".to_owned());
    let last = lines.last_mut().unwrap();
    *last = last.replace("\"dur\":", "\"dur\":-");
    application.sandbox.write("damaged.json", &lines.join("\n"));
    let said = application.tvmtune(&["buckets", "damaged.json", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("damaged.json: line 4: control character"), "{said:?}");
    assert!(said.err.contains("2 events left out, the others count"), "{said:?}");
    let proposals: Value = serde_json::from_str(&said.out).unwrap();
    let of = |name: &str| {
        let mut all = proposals.as_array().unwrap().iter().filter(|it| it["name"] == name);
        all.next().unwrap_or_else(|| panic!("{name}: {proposals:#}"))
    };
    assert_eq!(of("twice_f32")["ends"], Value::from(vec![100]), "where its only launch was");
    let linear = of("linear");
    assert_eq!((&linear["dim"], &linear["ends_now"]), (&"M".into(), &Value::from(vec![8, 64])));
    let buckets = linear["buckets"].as_array().unwrap();
    let extents = buckets.iter().flat_map(|it| it["extents"].as_array().unwrap());
    assert_eq!(extents.collect::<Vec<_>>(), [3, 4, 8, 60], "{linear:#}");
    let ends: Vec<&Value> = buckets.iter().map(|it| &it["range"][1]).collect();
    assert_eq!(linear["ends"].as_array().unwrap().iter().collect::<Vec<_>>(), ends);
    assert_eq!(buckets.iter().map(|it| number(&it["launches"])).sum::<f64>(), 5.0, "{linear:#}");
    assert!(buckets.iter().all(|it| (0.0..=0.05).contains(&number(&it["worst"]))), "{linear:#}");
    let [fastest, proposed] = ["fastest_us", "proposed_us"].map(|it| number(&linear[it]));
    assert!(fastest > 0.0 && (fastest..=fastest * 1.05).contains(&proposed), "{linear:#}");

    // One bucket is within any factor, and ends where launches do.
    let text = application.tvmtune(&[
        "buckets",
        path,
        "--within",
        "100000",
        "--extents",
        "3",
        "-k",
        "linear",
    ]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.out.contains("linear: buckets(M = [60]), by now [8, 64]; "), "{text:?}");
    assert!(text.out.contains("% of its time were not timed"), "{text:?}");
    let refused = application.tvmtune(&["buckets", path, "--within=-1"]);
    assert!(refused.code == Some(2) && refused.err.contains("not negative"), "{refused:?}");
}

/// Checks the events that the application writes, in microseconds.
#[track_caller]
fn check_events(events: &[Value], wall_us: f64) {
    let named =
        |it: &Value| (it["name"].as_str().unwrap().to_owned(), it["args"]["dims"].to_string());
    let expected = [
        ("linear", "{\"M\":4}"),
        ("linear", "{\"M\":8}"),
        ("linear", "{\"M\":60}"),
        ("linear", "{\"M\":60}"),
        ("twice_f32", "{\"N\":100}"),
        ("twice_f64", "{\"N\":100}"),
        ("linear", "{\"M\":3}"),
        ("linear", "{\"M\":4}"),
    ];
    let found: Vec<(String, String)> = events.iter().map(named).collect();
    assert_eq!(found, expected.map(|(name, dims)| (name.to_owned(), dims.to_owned())));
    for (n, event) in events.iter().enumerate() {
        let (dur, args) = (number(&event["dur"]), &event["args"]);
        assert!(event["ph"] == "X" && dur > 0.0 && dur < wall_us, "{event}");
        let near = |a: &Value, b: f64| assert!((number(a) / b - 1.0).abs() < 0.01, "{b}: {event}");
        if event["name"] == "linear" {
            // A bucket's range holds the dimension, and the work is that of the dimension.
            let m = number(&args["dims"]["M"]);
            let (lo, hi) = if m <= 8.0 { (1, 8) } else { (9, 64) };
            assert_eq!(args["bucket"]["M"], Value::from(vec![lo, hi]));
            let (flops, bytes) = (2.0 * m * 48.0 * 32.0, 4.0 * (m * 80.0 + 48.0 * 32.0));
            near(&args["gflop"], flops / 1e9);
            near(&args["mbytes"], bytes / 1e6);
            near(&args["gflops"], flops / (dur * 1e3));
            assert_eq!((&args["threads"], &args["tier"]), (&1.into(), &"default".into()));
        }
        // The first launches of the two processes have none before.
        assert_eq!(args["idle_us"].is_number(), n != 0 && n != 7, "{event}");
        assert_eq!(args["workload"].as_str().unwrap().len(), 64);
        assert_eq!(args["artifact"] == "", args["isa"] == "portable", "{event}");
    }
    assert!(number(&events[3]["args"]["idle_us"]) >= 30e3, "{}", events[3]);
    assert_ne!(events[0]["pid"], events[7]["pid"]);
    let times: Vec<f64> = events.iter().map(|it| number(&it["ts"])).collect();
    assert!(times.is_sorted() && times[7] - times[0] < wall_us, "{times:?}");
}

/// Checks what is printed, without peaks and with them, of a file that is cut off, and of none.
#[track_caller]
fn check_text(application: &Application, path: &str) {
    let printed = |path: &str| {
        let said = application.tvmtune(&["profile", path]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out
    };
    let before = printed(path);
    assert!(before.starts_with("kernel ") && before.contains("idle before\n"), "{before}");
    assert!(before.contains("`cargo tvmtune tune` measures them, once\n8 launches, "), "{before}");
    let package = application.sandbox.package();
    let cache = Cache::new(&application.sandbox.cache());
    if let Some(device) = device::detect() {
        let peaks = Peaks {
            product_gflops: 1e3,
            l1_gbps: 1e3,
            l2_gbps: 1e3,
            l3_gbps: 1e3,
            memory_gbps: 1e3,
        };
        cache.keep_peaks(&device.key(), &peaks).unwrap();
        let after = printed(path);
        assert!(after.contains('%') && !after.contains("measures them"), "{after}");
        let row = &application.profile(path)["kernels"][0];
        assert!((0.0..1.0).contains(&number(&row["roofline"])), "{row}");
    }
    let text = fs::read_to_string(package.join(path)).unwrap();
    fs::write(package.join("cut.json"), &text[..text.len() - 20]).unwrap();
    let cut = printed("cut.json");
    assert!(cut.contains("the last event is cut off, and left out\n7 launches, "), "{cut}");
    fs::write(package.join("wrong.json"), text.replacen("\"dur\":", "\"dur\":-", 1)).unwrap();
    for (path, why) in [
        ("wrong.json", "wrong.json: line 2: the launch of `linear`: `dur` is -"),
        ("none.json", "none.json; run an application with `TVMTUNE_TRACE` set to a file"),
    ] {
        let said = application.tvmtune(&["profile", path]);
        assert!(said.code == Some(2) && said.err.contains(why), "{said:?}");
    }

    // A run begins a file anew, and threads and forked processes share it.
    application.run("threads", path);
    let events = application.events(path);
    assert_eq!(events.len(), 800);
    let mut threads: Vec<String> = events.iter().map(|it| it["tid"].to_string()).collect();
    threads.sort();
    threads.dedup();
    assert_eq!(threads.len(), 4);
    if cfg!(unix) {
        application.run("fork", path);
        let events = application.events(path);
        assert_eq!(events.len(), 401);
        let mut processes: Vec<String> = events.iter().map(|it| it["pid"].to_string()).collect();
        processes.sort();
        processes.dedup();
        assert_eq!(processes.len(), 5);
        // A forked process has launched nothing before.
        let idle = events.iter().filter(|it| it["args"]["idle_us"].is_number()).count();
        assert_eq!(idle, 4 * 99);
    }

    // The application runs all the same if nothing can be written.
    let said = application.run("all", "no/such/folder");
    let lines: Vec<&str> = said.lines().collect();
    let [one, other] = lines[..] else { panic!("a line of each process: {said}") };
    assert!(one.starts_with("warning: TVMTUNE_TRACE: no/such/folder: "), "{said}");
    assert!(one.ends_with("; launches are not traced") && one == other, "{said}");
    assert_eq!(application.run("all", ""), "");
}

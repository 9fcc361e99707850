//! The commands: worker processes that tune real kernels, and end cleanly.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use serde_json::Value;
use tvmtune_plan::device;
use tvmtune_plan::record::Record;
use tvmtune_tests::nats::{Limits, NatsServer};
use tvmtune_tests::sandbox::{Said, Sandbox, said};
use tvmtune_tests::skip;

use crate::hardware::{PATIENCE, PAUSE};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// Ten buckets of kernels that are small in every way.
fn kernels() -> String {
    let kernel = |n: usize| {
        format!(
            "#[autotune(dims(M = 1..=64, K = {}), buckets(M = [8, 64]))]
            pub fn sum_{n}(x: Tensor<f32, M, K>) -> Tensor<f32, M> {{
                compute(|i| sum(0..K, |k| x[[i, k]] * {n}.5))
            }}\n",
            16 + 8 * n
        )
    };
    "use tvmtune_runtime::autotune;\n".to_owned() + &(0..5).map(kernel).collect::<String>()
}

/// A worker process, on some of the machine's cores.
struct WorkerProcess(Child);

impl WorkerProcess {
    fn start(sandbox: &Sandbox, url: &str, name: &str, cores: Option<&str>) -> Self {
        let mut command = match cores {
            Some(cores) => {
                let mut command = sandbox.command("taskset");
                command.args(["-c", cores, TVMTUNE]);
                command
            }
            None => sandbox.command(TVMTUNE),
        };
        command.args(["worker", "--nats", url, "--name", name, "--target", "cpu"]);
        // Workers of one machine know of each other; the one who asks is elsewhere.
        command.env("TVMTUNE_CACHE", sandbox.package().join("workers"));
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    fn signal(&self, signal: &str) {
        let _ = said(Command::new("kill").args([signal, &self.0.id().to_string()]));
    }

    /// Asks the process to end; returns its exit status.
    fn end(&mut self) -> Option<i32> {
        self.signal("-TERM");
        self.0.wait().unwrap().code()
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

fn fleet(sandbox: &Sandbox, url: &str, arguments: &[&str]) -> Said {
    let (command, rest) = arguments.split_first().unwrap();
    said(sandbox.command(TVMTUNE).args(["fleet", command, "--nats", url]).args(rest))
}

/// The fleet as `fleet status` prints it.
fn status(sandbox: &Sandbox, url: &str) -> Value {
    let said = fleet(sandbox, url, &["status", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    serde_json::from_str(&said.out).unwrap()
}

fn until(sandbox: &Sandbox, url: &str, what: &str, is_so: impl Fn(&Value) -> bool) {
    let clock = Instant::now();
    loop {
        let status = status(sandbox, url);
        if is_so(&status) {
            return;
        }
        assert!(clock.elapsed() < PATIENCE, "never: {what}: {status}");
        std::thread::sleep(PAUSE);
    }
}

fn len(value: &Value) -> usize {
    value.as_array().unwrap().len()
}

fn has_taskset() -> bool {
    Command::new("taskset").args(["-c", "0", "true"]).status().is_ok_and(|it| it.success())
}

#[test]
fn two_worker_processes_of_different_devices_tune_real_kernels() {
    if device::detect().is_none_or(|it| it.threads < 2) || !has_taskset() {
        return skip::report("no two devices: this needs AVX2, two cores and `taskset`");
    }
    let Some(server) = NatsServer::start(Limits::default()) else { return };
    let (sandbox, url) = (Sandbox::new("sandbox", &kernels()), server.url());
    let setup = fleet(&sandbox, &url, &["setup", "--lease", "20s"]);
    assert_eq!(setup.code, Some(0), "{setup:?}");
    assert!(setup.out.contains(&format!("cargo tvmtune worker --nats {url}")), "{setup:?}");
    let lonely = fleet(&sandbox, &url, &["tune"]);
    assert_eq!(lonely.code, Some(2), "{lonely:?}");
    assert!(lonely.err.contains("there is no worker to send kernels to"), "{lonely:?}");
    let mut workers = [("both cores", None), ("one core", Some("0"))]
        .map(|(name, cores)| WorkerProcess::start(&sandbox, &url, name, cores));
    until(&sandbox, &url, "two workers", |it| len(&it["workers"]) == 2);
    let clock = Instant::now();
    let tuned = fleet(&sandbox, &url, &["tune", "--trials", "2", "--budget", "2s"]);
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    assert!(tuned.out.contains("20 kernels tuned, 0 not"), "{tuned:?}");
    println!("20 tasks of real kernels by two processes: {:.1?}", clock.elapsed());
    let read = |it: &PathBuf| Record::from_toml(&std::fs::read_to_string(it).unwrap()).unwrap();
    let records: Vec<Record> = sandbox.records().iter().map(read).collect();
    assert_eq!(records.len(), 10, "a file for each of five programs on two devices");
    assert!(records.iter().all(|it| it.buckets.len() == 2));
    // The second time, what is there is taken.
    let again = fleet(&sandbox, &url, &["tune", "--trials", "2", "--budget", "2s", "--json"]);
    assert_eq!(again.code, Some(0), "{again:?}");
    let report: Value = serde_json::from_str(&again.out).unwrap();
    assert_eq!(
        (report["n_sent"].as_u64(), report["n_open"].as_u64()),
        (Some(0), Some(0)),
        "{report}"
    );
    for worker in &mut workers {
        assert_eq!(worker.end(), Some(0));
    }
    let status = fleet(&sandbox, &url, &["status"]);
    assert!(status.out.contains("0 workers, 20 outcomes, 0 set aside"), "{status:?}");
}

#[test]
fn a_process_that_is_asked_to_end_gives_its_task_back_and_one_that_is_killed_loses_it() {
    if device::detect().is_none() {
        return skip::report("this machine runs no generated kernels");
    }
    let Some(server) = NatsServer::start(Limits::default()) else { return };
    let (sandbox, url) = (Sandbox::new("sandbox", &kernels()), server.url());
    assert_eq!(fleet(&sandbox, &url, &["setup", "--lease", "1s"]).code, Some(0));
    let mut first = WorkerProcess::start(&sandbox, &url, "first", None);
    until(&sandbox, &url, "a worker", |it| len(&it["workers"]) == 1);
    let sent = ["tune", "-k", "sum_4", "--trials", "100000", "--budget", "4s", "--wait", "0s"];
    let said = fleet(&sandbox, &url, &sent);
    assert!(said.out.contains("2 kernels wait or run"), "{said:?}");
    let is_running =
        |it: &Value| it["workers"].as_array().unwrap().iter().any(|it| len(&it["running"]) > 0);
    until(&sandbox, &url, "it runs", is_running);
    assert_eq!(first.end(), Some(0));
    let after = status(&sandbox, &url);
    assert_eq!((len(&after["workers"]), &after["queues"][0]["n_tasks"]), (0, &2.into()), "{after}");
    // Another one is killed.
    let second = WorkerProcess::start(&sandbox, &url, "second", None);
    until(&sandbox, &url, "it runs again", is_running);
    second.signal("-KILL");
    let mut third = WorkerProcess::start(&sandbox, &url, "third", None);
    let clock = Instant::now();
    let done = fleet(&sandbox, &url, &sent[..7]);
    println!("a killed process: its tasks were done after {:.1?}", clock.elapsed());
    assert_eq!(done.code, Some(0), "{done:?}");
    assert!(done.out.contains("2 kernels tuned, 0 not"), "{done:?}");
    assert_eq!(third.end(), Some(0));
}

#[test]
fn commands_without_a_server_say_what_to_do() {
    let sandbox = Sandbox::new("sandbox", &kernels());
    for command in [&["status"][..], &["tune"], &["setup"]] {
        let said = fleet(&sandbox, "nats://127.0.0.1:1", command);
        assert_eq!(said.code, Some(2), "{said:?}");
        assert!(
            said.err.contains("cannot connect to the NATS server `nats://127.0.0.1:1`"),
            "{said:?}"
        );
        assert!(said.err.contains("`cargo tvmtune tune`"), "{said:?}");
    }
}

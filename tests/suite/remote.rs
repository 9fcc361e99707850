//! Kernels that are tuned on another machine, through a real ssh server.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use tvmtune_plan::device;
use tvmtune_plan::record::Record;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, said};
use tvmtune_tests::skip;
use tvmtune_tests::sshd::{Sshd, kill, wait_for};

/// A kernel whose search takes as long as it may, beside those that are tuned first or last.
const LONG: &str = "
#[autotune(dims(M = 1..=512, N = 512, K = 512))]
pub fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}
";

/// Such a kernel alone.
const LONG_ALONE: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=512, N = 512, K = 512))]
pub fn a_product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}
";

/// A package here, and a machine there; `None` where there can be none.
fn machines(source: &str) -> Option<(Sandbox, Sshd)> {
    if device::detect().is_none() {
        skip::report("no code is generated for this machine");
        return None;
    }
    match Sshd::start() {
        Ok(sshd) => Some((Sandbox::new("sandbox", source).without_script(), sshd)),
        Err(why) => {
            skip::report(&why);
            None
        }
    }
}

fn command(sandbox: &Sandbox, sshd: &Sshd, arguments: &[&str]) -> Command {
    let mut command = sandbox.command(env!("CARGO_BIN_EXE_tvmtune"));
    command.env("TVMTUNE_SSH", sshd.client());
    command.args(["tune", "--on", &sshd.address()]).args(arguments);
    command
}

/// Runs a command that must end in this way.
#[track_caller]
fn check(sandbox: &Sandbox, sshd: &Sshd, arguments: &[&str], code: i32) -> Said {
    let said = said(&mut command(sandbox, sshd, arguments));
    assert_eq!(said.code, Some(code), "{said:?}");
    said
}

/// Checks that nothing is there any more.
#[track_caller]
fn check_left_nothing(sshd: &Sshd) {
    let left = sshd.left_at_last();
    assert!(left.is_empty(), "{left:?}");
}

/// Starts a command whose standard error is read.
fn start(sandbox: &Sandbox, sshd: &Sshd, arguments: &[&str]) -> (Child, impl BufRead + use<>) {
    let mut command = command(sandbox, sshd, arguments);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = command.spawn().unwrap();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    (child, stderr)
}

/// A search that ends with its budget only.
const SEARCH: [&str; 5] = ["--trials", "100000", "--budget", "60s", "--again"];

#[test]
fn a_kernel_is_tuned_on_another_machine_and_nothing_is_left_there() {
    let Some((sandbox, sshd)) = machines(SOURCE) else { return };
    let isa = device::isas()[0].name();
    let arguments = ["--trials", "4", "--isa", isa, "--json"];
    let tuned = check(&sandbox, &sshd, &arguments, 0);
    let json: serde_json::Value = serde_json::from_str(&tuned.out).unwrap();
    assert_eq!(json["kernels"].as_array().unwrap().len(), 2, "{tuned:?}");
    assert_eq!(json["kernels"][0]["name"], "scaled_sum");
    assert_eq!(json["kernels"][1]["extents"], "M 9..=64");
    check_left_nothing(&sshd);
    let records = sandbox.records();
    let record = Record::from_toml(&fs::read_to_string(&records[0]).unwrap()).unwrap();
    assert_eq!(records.len(), 1);
    assert_eq!(record.device, device::detect().unwrap().key(), "it is this machine after all");
    assert_eq!(record.buckets.len(), 2);
    let verified = said(sandbox.command(env!("CARGO_BIN_EXE_tvmtune")).arg("verify"));
    assert_eq!(verified.code, Some(0), "{verified:?}");
    let again = check(&sandbox, &sshd, &["--isa", isa], 0);
    assert!(again.out.contains("nothing to do"), "{again:?}");
}

#[test]
fn a_connection_that_is_cut_keeps_what_arrived_and_says_what_to_do() {
    let Some((sandbox, sshd)) = machines(&format!("{SOURCE}{LONG}")) else { return };
    let (mut child, mut stderr) = start(&sandbox, &sshd, &SEARCH);
    let mut err = String::new();
    while !err.contains("scaled_sum[M=9..=64]") {
        assert_ne!(stderr.read_line(&mut err).unwrap(), 0, "{err}");
    }
    sshd.busy_worker();
    sshd.cut();
    stderr.read_to_string(&mut err).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(3), "{err}");
    assert!(err.contains("was lost"), "{err}");
    assert!(err.contains("run the same command again, it goes on with the rest"), "{err}");
    let record = fs::read_to_string(&sandbox.records()[0]).unwrap();
    assert_eq!(Record::from_toml(&record).unwrap().buckets.len(), 2, "what arrived");
    check_left_nothing(&sshd);
}

#[test]
fn a_command_that_is_interrupted_or_killed_leaves_nothing_here_and_there() {
    let Some((sandbox, sshd)) = machines(LONG_ALONE) else { return };
    let here = tempfile::tempdir().unwrap();
    let left_here = || fs::read_dir(here.path()).unwrap().count();
    // Ctrl-C is for all processes of a command, other signals for itself.
    for (signal, is_for_all) in [("INT", true), ("TERM", false), ("KILL", false)] {
        let mut command = command(&sandbox, &sshd, &SEARCH);
        command.env("TMPDIR", here.path()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.process_group(0).spawn().unwrap();
        sshd.busy_worker();
        assert_eq!(left_here(), 1, "the folder of the connection");
        let process = if is_for_all { format!("-{}", child.id()) } else { child.id().to_string() };
        kill(&process, signal);
        child.wait().unwrap();
        check_left_nothing(&sshd);
        wait_for(|| (left_here() == 0).then_some(()));
        assert_eq!(left_here(), 0, "{signal}");
    }
}

#[test]
fn a_task_over_which_workers_die_fails_and_others_go_on() {
    let small = SOURCE.replace("use tvmtune_runtime::autotune;", "");
    let Some((sandbox, sshd)) = machines(&format!("{LONG_ALONE}{small}")) else { return };
    let (mut child, mut stderr) = start(&sandbox, &sshd, &SEARCH);
    let first = sshd.busy_worker();
    kill(&first, "KILL");
    let mut second = sshd.busy_worker();
    while second == first {
        second = sshd.busy_worker();
    }
    kill(&second, "KILL");
    let (mut out, mut err) = (String::new(), String::new());
    stderr.read_to_string(&mut err).unwrap();
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1), "{err}");
    assert!(out.contains("a_product[M=1..=512]") && out.contains("died over it twice"), "{out}");
    assert!(out.contains("scaled_sum  M 9..=64"), "{out}");
    check_left_nothing(&sshd);
}

#[test]
fn machines_that_could_not_run_the_worker_are_refused_before_anything_is_sent() {
    let Some((sandbox, sshd)) = machines(SOURCE) else { return };
    // A copy begins with a folder for it.
    sshd.fake("mktemp", "touch \"$HOME/called\"; exit 1");
    sshd.fake("uname", "echo Linux sparc64");
    let other = check(&sandbox, &sshd, &[], 3);
    assert!(other.err.contains("is Linux sparc64, and this cargo-tvmtune is for"), "{other:?}");
    if cfg!(target_env = "gnu") {
        sshd.fake("uname", "PATH=/usr/bin:/bin exec uname \"$@\"");
        sshd.fake("getconf", "echo glibc 2.5");
        let older = check(&sandbox, &sshd, &[], 3);
        assert!(older.err.contains("has glibc 2.5, and this cargo-tvmtune needs"), "{older:?}");
        assert!(older.err.contains("nothing was copied; build cargo-tvmtune on"), "{older:?}");
    }
    assert!(sshd.left().is_empty(), "{:?}", sshd.left());
    sshd.fake("getconf", "PATH=/usr/bin:/bin exec getconf \"$@\"");
    let copied = check(&sandbox, &sshd, &[], 3);
    assert!(copied.err.contains("cannot copy cargo-tvmtune to"), "{copied:?}");
    assert_eq!(sshd.left().len(), 1, "that it was tried shows");
}

#[test]
fn machines_that_cannot_be_reached_are_named_with_what_to_try() {
    let Some((sandbox, sshd)) = machines(SOURCE) else { return };
    let fails = |client: &str, expected: &str| {
        let failed = said(command(&sandbox, &sshd, &[]).env("TVMTUNE_SSH", client));
        assert_eq!(failed.code, Some(3), "{failed:?}");
        assert!(failed.err.contains(expected), "{failed:?}");
    };
    fails("ssh -F none -p1", "uname` works, then run this again");
    fails("no-such-client", "install OpenSSH's client, or set `TVMTUNE_SSH` to another command");
    let client = sshd.client();
    let without_key: Vec<&str> =
        client.split_whitespace().filter(|it| !it.starts_with("-i")).collect();
    let without_key = without_key.join(" ");
    fails(&format!("{without_key} -oIdentityFile=none -oIdentityAgent=none"), "Permission denied");
}

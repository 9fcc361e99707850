//! Processes that are killed alone, interrupted, out of memory, or whose output nobody reads.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::Record;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};
use tvmtune_tests::{sample_record, skip};
use tvmtune_tuner::tune::running;

use crate::cargo::command;
use crate::locks::{PAUSE, until};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");
const HELPER: &str = env!("CARGO_BIN_EXE_helper");

/// A product that takes long to search.
const PRODUCT: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 64, N = 256, K = 256))]
pub fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}
";

/// The parent of a process; `None` once it has ended.
fn process(process: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let words: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    (words[0] != "Z").then(|| words[1].parse().unwrap())
}

/// The processes that one started, and those that these did.
fn descendants(of: u32) -> Vec<u32> {
    let number = |it: fs::DirEntry| it.file_name().to_str()?.parse().ok();
    let all: Vec<u32> = fs::read_dir("/proc").unwrap().flatten().filter_map(number).collect();
    let mut found = vec![of];
    let mut next = 0;
    while next < found.len() {
        let parent = found[next];
        found.extend(all.iter().filter(|it| process(**it) == Some(parent)));
        next += 1;
    }
    found.remove(0);
    found
}

/// Waits until a session in the cache has measured candidates; returns its process.
fn measuring(sandbox: &Sandbox) -> u32 {
    let (cache, mut seen) = (Cache::new(&sandbox.cache()), None);
    let mut look = || {
        seen = running(&cache).into_iter().find(|it| it.n_trials > 0).map(|it| it.process);
        seen.is_some()
    };
    let start = Instant::now();
    while !look() {
        assert!(start.elapsed() < Duration::from_secs(900), "nothing is tuned");
        std::thread::sleep(PAUSE);
    }
    seen.unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_and_its_workers_end_with_cargo() {
    if device::detect().is_none() {
        return;
    }
    // By itself, and behind a wrapper of compilers that is a process.
    for wrapped in [false, true] {
        let sandbox = Sandbox::new(&format!("killed_{wrapped}"), PRODUCT);
        let mut build = command(&sandbox, "", &["build"]);
        build.env("TVMTUNE_BUDGET", "120s").stderr(Stdio::null());
        if wrapped {
            let wrapper = sandbox.package().join("wrapper");
            sandbox.write("wrapper", "#!/bin/sh\n\"$@\"\nexit $?\n");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            fs::set_permissions(&wrapper, mode).unwrap();
            build.env("RUSTC_WORKSPACE_WRAPPER", wrapper);
        }
        let mut cargo = build.spawn().unwrap();
        let session = measuring(&sandbox);
        let processes = [vec![session], descendants(session)].concat();
        assert!(processes.len() > 1, "it has a worker: {processes:?}");
        cargo.kill().unwrap();
        cargo.wait().unwrap();
        let start = Instant::now();
        until(|| processes.iter().all(|it| process(*it).is_none()), "all processes end");
        // About a second, on a machine that does other things as well.
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_session_that_is_killed_leaves_no_worker() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", PRODUCT);
    let mut tune = sandbox.command(TVMTUNE);
    tune.args(["tune", "--budget", "120s"]).stderr(Stdio::null());
    let mut tune = tune.spawn().unwrap();
    let mut workers = Vec::new();
    until(
        || {
            workers = descendants(tune.id());
            !workers.is_empty()
        },
        "a worker starts",
    );
    tune.kill().unwrap();
    tune.wait().unwrap();
    let start = Instant::now();
    until(|| workers.iter().all(|it| process(*it).is_none()), "all workers end");
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// Starts a command, and terminates it once something is so of its process. Interrupts would be ignored where a
/// shell runs the tests in the background.
#[cfg(target_os = "linux")]
fn terminated(mut command: Command, wait: impl FnOnce(u32)) -> Option<i32> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait(child.id());
    // It may have ended by itself.
    let _ = said(Command::new("kill").args(["-TERM", &child.id().to_string()]));
    child.wait().unwrap().code()
}

#[cfg(target_os = "linux")]
#[test]
fn what_was_interrupted_can_be_read_and_done_again() {
    let sandbox = Sandbox::new("sandbox", PRODUCT);
    let tvmtune = |arguments: &[&str]| {
        let mut command = sandbox.command(TVMTUNE);
        command.args(arguments);
        command
    };
    if device::detect().is_some() {
        let code = terminated(tvmtune(&["tune", "--budget", "60s"]), |tune| {
            until(|| !descendants(tune).is_empty(), "a worker starts");
        });
        assert_eq!(code, None, "the signal ends it");
        let said = said(&mut tvmtune(&["tune", "--trials", "4"]));
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    let (from, into) = (sandbox.package().join("from"), sandbox.package().join("into"));
    let folders: Vec<PathBuf> = (0..40).map(|n| from.join(n.to_string())).collect();
    for (n, folder) in (0..).zip(&folders) {
        let (record, no_files) = (sample_record(n), tvmtune_plan::database::Files::default());
        tvmtune_plan::database::Database::accept(folder, &record, &no_files, 1).unwrap();
    }
    let merge = || {
        let mut command = tvmtune(&["merge"]);
        command.args(&folders).arg("--into").arg(&into);
        command
    };
    for _ in 0..8 {
        terminated(merge(), |_| until(|| !files(&into).is_empty(), "it writes"));
        let records =
            files(&into).into_iter().filter(|it| it.extension().is_some_and(|it| it == "toml"));
        for path in records {
            Record::from_toml(&fs::read_to_string(path).unwrap()).unwrap();
        }
    }
    assert_eq!(said(&mut merge()).code, Some(0));
    for arguments in [["accept"].as_slice(), &["gc", "--apply"]] {
        terminated(tvmtune(arguments), |_| ());
        let said = said(&mut tvmtune(arguments));
        assert_eq!(said.code, Some(0), "{said:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_kernel_whose_worker_has_no_memory_is_an_error_that_says_what_to_do() {
    if device::detect().is_none() {
        return;
    }
    let source = "use tvmtune_runtime::autotune;
        #[autotune(dims(N = 250_000_000))]
        pub fn large(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| x[[i]] * y[[i]])
        }";
    let sandbox = Sandbox::new("sandbox", source);
    let mut command = sandbox.command("sh");
    let script = format!("ulimit -v 1500000; exec {TVMTUNE} tune --budget 10s");
    let said = said(command.args(["-c", &script]));
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains("1 kernel of those asked for could not be tuned"), "{said:?}");
    assert!(said.out.contains("large") && said.out.contains("memory"), "{said:?}");
}

#[test]
fn a_cache_that_cannot_be_written_is_said_before_the_budget_is_spent() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    fs::create_dir_all(sandbox.cache()).unwrap();
    fs::write(sandbox.cache().join("v4"), "a file").unwrap();
    let start = Instant::now();
    let tune = said(sandbox.command(TVMTUNE).args(["tune", "--budget", "100s"]));
    assert!(tune.code == Some(2) && tune.err.contains("set `TVMTUNE_CACHE`"), "{tune:?}");
    let variables = [("TVMTUNE", "tune"), ("TVMTUNE_BUDGET", "100s")];
    let build = sandbox.build(SCRIPT, "out", &variables);
    let warnings = build.directives("warning").join("\n");
    assert!(build.code == Some(0) && warnings.contains("no result can be kept"), "{build:?}");
    assert!(!warnings.contains("the budget was spent"), "{build:?}");
    assert!(start.elapsed() < Duration::from_secs(50), "{:?}", start.elapsed());
}

/// Runs a script in a namespace of its own, where `$1` is a small disk of that size, full but for
/// some pages; `None` where that is not allowed.
fn on_small_disk(sandbox: &Sandbox, folder: &Path, options: &str, script: &str) -> Option<Said> {
    fs::create_dir_all(folder).unwrap();
    let mount = format!("mount -t tmpfs -o {options} tmpfs \"$1\" && echo mounted && {script}");
    let mut command = sandbox.command("unshare");
    command.args(["-m", "sh", "-c", &mount, "sh"]).arg(folder).env("T", TVMTUNE);
    let said = said(&mut command);
    said.out.contains("mounted").then_some(said)
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_is_full_or_read_only_is_named_and_costs_no_record() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let tune = "\"$T\" tune --budget 60s --trials 2";
    let fill = "dd if=/dev/zero of=\"$1/fill\" bs=4k 2> /dev/null;";
    for (options, prepare) in [("size=256k", fill), ("size=256k,ro", "")] {
        let (start, script) = (Instant::now(), format!("{prepare} {tune}"));
        let Some(said) = on_small_disk(&sandbox, &sandbox.cache(), options, &script) else {
            return skip::report("no disk can be mounted");
        };
        let says = said.err.contains("no result can be kept") && said.err.contains("os error");
        assert!(said.code == Some(2) && says, "{said:?}");
        assert!(start.elapsed() < Duration::from_secs(30));
    }
    // What was there before is there after a disk became full in the middle of a record.
    let tuned = said(sandbox.command("sh").args(["-c", tune]).env("T", TVMTUNE));
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    let script = format!(
        "mkdir \"$1/scaled_sum\" && echo kept > \"$1/scaled_sum/other.toml\"; {fill} \
         \"$T\" accept; echo code $?; cat \"$1/scaled_sum/other.toml\"; rm \"$1/fill\"; \
         \"$T\" accept && ls -A \"$1/scaled_sum\""
    );
    let shipped = sandbox.package().join("tvmtune");
    let said = on_small_disk(&sandbox, &shipped, "size=64k", &script).unwrap();
    assert!(said.code == Some(0) && said.out.contains("code 2\nkept"), "{said:?}");
    assert!(!said.out.lines().any(|it| it.ends_with(".tmp")), "{said:?}");
}

#[cfg(unix)]
#[test]
fn a_limit_of_files_costs_no_record() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let run = |script: &str| said(sandbox.command("sh").args(["-c", script]).env("T", TVMTUNE));
    let tuned = run("\"$T\" tune --trials 2 && \"$T\" accept");
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    let path = files(&sandbox.package().join("tvmtune")).remove(0);
    let text = fs::read_to_string(&path).unwrap();
    // Shorter than what is accepted, and nothing can be written.
    fs::write(&path, text.replace("trials = 2", "trials = 1")).unwrap();
    let before = fs::read_to_string(&path).unwrap();
    let limited = run("ulimit -f 0; exec \"$T\" accept");
    assert_ne!(limited.code, Some(0), "{limited:?}");
    assert_eq!(fs::read_to_string(&path).unwrap(), before);
}

/// Runs a command with outputs that cannot be written.
fn unread(sandbox: &Sandbox, arguments: &[&str], out: Stdio) -> Said {
    said(sandbox.command(TVMTUNE).args(arguments).stdout(out))
}

/// The end of a pipe that nobody reads.
fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn commands_whose_output_nobody_reads_do_their_work() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let has_device = device::detect().is_some();
    let commands: [(&[&str], i32); 9] = [
        (&["status"], 0),
        (&["status", "--json"], 0),
        (&["tune", "--trials", "2"], 0),
        (&["show", "scaled"], 0),
        (&["check"], 1),
        (&["accept"], 0),
        (&["verify"], 0),
        (&["gc", "--apply"], 0),
        (&["merge", "tvmtune"], 0),
    ];
    for (arguments, code) in commands {
        if !has_device {
            return;
        }
        let piped = unread(&sandbox, arguments, closed());
        assert_eq!(piped.code, Some(code), "{arguments:?} {piped:?}");
        assert!(!piped.err.contains("panicked"), "{piped:?}");
    }
    assert_eq!(files(&sandbox.package().join("tvmtune")).len(), 1, "it was accepted");
    if let Ok(full) = File::options().write(true).open("/dev/full") {
        let full = unread(&sandbox, &["status"], full.into());
        let says = full.err.contains("error: cannot write to standard output");
        assert!(full.code == Some(2) && says, "{full:?}");
    }
    // Warnings and errors have nobody to read them either.
    sandbox.write("tvmtune/scaled_sum/0123456789ab.cpu.toml", "mangled");
    for arguments in [["status"].as_slice(), &["merge", "tvmtune"], &["show", "nothing"]] {
        let mut command = sandbox.command(TVMTUNE);
        let code = command.args(arguments).stdout(closed()).stderr(closed()).status().unwrap();
        assert!(code.code().is_some_and(|it| it <= 2), "{arguments:?}: {code}");
    }
}

/// Launches kernels in a process; what it prints.
fn launched(threads: &str, limit: &str) -> Said {
    let script = format!("{limit} exec {HELPER} threads");
    said(Command::new("sh").args(["-c", &script]).env("TVMTUNE_THREADS", threads))
}

#[cfg(unix)]
#[test]
fn absurd_numbers_of_threads_are_said_once_and_kernels_run() {
    let check = |text: &str, warns: bool| {
        let said = launched(text, "");
        assert_eq!(said.code, Some(0), "{text}: {said:?}");
        let n_warnings = said.err.matches("warning: TVMTUNE_THREADS=").count();
        assert_eq!(n_warnings, usize::from(warns), "{text}: {said:?}");
        said.out
    };
    assert_eq!(check("3", false), "threads 3\n");
    assert_eq!(check("1000", false), "threads 1000\n");
    assert_eq!(check("1000000000", true), "threads 1024\n");
    for text in ["-1", "1e9", "all"] {
        assert_eq!(check(text, true), check("", false), "{text}");
    }
    assert_eq!(check("0", false), check("", false));
    // The stacks of some hundred threads, and no more.
    let few = launched("1000", "ulimit -v 1000000;");
    assert_eq!(few.code, Some(0), "{few:?}");
}

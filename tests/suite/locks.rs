//! Processes side by side on the same folders: what they write is all there, and whoever waits for
//! another one waits no longer than its budget, and says for whom.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tvmtune_plan::database::{Cache, Database, Files};
use tvmtune_plan::device;
use tvmtune_plan::record::Record;
use tvmtune_tests::sample_record;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");
const HELPER: &str = env!("CARGO_BIN_EXE_helper");

/// The time in which a process on a busy machine starts and ends, beside what it does.
const SLACK: Duration = Duration::from_secs(15);

/// The time between two looks at something that others do.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// Another process that holds a lock until this is dropped.
pub(crate) struct Holder(Child);

impl Holder {
    pub(crate) fn new(path: &Path) -> Self {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut command = Command::new(HELPER);
        command.arg("hold").arg(path).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "held\n");
        Self(child)
    }

    /// How others name it.
    fn name(&self) -> String {
        format!("`helper` (process {}", self.0.id())
    }

    fn stop(&self) {
        let process = self.0.id().to_string();
        assert_eq!(said(Command::new("kill").args(["-STOP", &process])).code, Some(0));
        let stat = format!("/proc/{process}/stat");
        until(|| fs::read_to_string(&stat).is_ok_and(|it| it.contains(") T ")), "it is stopped");
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// Looks again and again until something is so.
#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool, what: &str) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(120), "never: {what}");
        std::thread::sleep(PAUSE);
    }
}

/// The first extents of a record's buckets.
fn ranges(path: &Path) -> Vec<i64> {
    let record = Record::from_toml(&fs::read_to_string(path).unwrap()).unwrap();
    record.buckets.iter().map(|it| it.dims[0].lo).collect()
}

/// Starts all commands at once; all must succeed.
#[track_caller]
fn at_once(commands: &mut [Command]) {
    let children: Vec<Child> =
        commands.iter_mut().map(|it| it.stdout(Stdio::null()).spawn().unwrap()).collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
}

#[test]
fn merges_into_one_folder_at_once_lose_nothing() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let into = sandbox.package().join("tvmtune");
    let source = |n: u32| sandbox.package().join(format!("from-{n}"));
    for n in 0..96 {
        Database::accept(&source(n), &sample_record(n), &Files::default(), 1).unwrap();
    }
    let merge = |first: u32| {
        let mut command = sandbox.command(TVMTUNE);
        command.arg("merge").args((first..first + 12).map(source)).arg("--into").arg(&into);
        command
    };
    at_once(&mut (0..8).map(|it| merge(12 * it)).collect::<Vec<_>>());
    let [path] = &files(&into)[..] else { panic!("one record, and no lock: {:?}", files(&into)) };
    assert_eq!(ranges(path), (1..=96).collect::<Vec<_>>());
}

#[test]
fn acceptances_of_two_users_at_once_lose_nothing() {
    if device::detect().is_none() {
        return;
    }
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let tuned = said(sandbox.command(TVMTUNE).args(["tune", "--trials", "2"]));
    assert_eq!(tuned.code, Some(0), "{tuned:?}");
    let record = sandbox.records().remove(0);
    let record = Record::from_toml(&fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(record.buckets.len(), 2);
    // Each user measured one of the two buckets, in a cache of their own.
    let caches: Vec<PathBuf> = record
        .buckets
        .iter()
        .enumerate()
        .map(|(n, bucket)| {
            let cache = sandbox.cache().with_file_name(format!("cache-{n}"));
            let part = Record { buckets: vec![bucket.clone()], ..record.clone() };
            let own = Database::new(Vec::new(), Some(Cache::new(&cache)));
            own.put(&part, &Files::default()).unwrap();
            cache
        })
        .collect();
    let shipped = sandbox.package().join("tvmtune");
    for _ in 0..10 {
        let accept = |cache: &PathBuf| {
            let mut command = sandbox.command(TVMTUNE);
            command.arg("accept").env("TVMTUNE_CACHE", cache);
            command
        };
        at_once(&mut caches.iter().map(accept).collect::<Vec<_>>());
        let [path] = &files(&shipped)[..] else { panic!("one record: {:?}", files(&shipped)) };
        assert_eq!(ranges(path), [1, 9]);
        fs::remove_dir_all(&shipped).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_folder_that_another_process_has_locked_is_not_written() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let (into, from) = (sandbox.package().join("tvmtune"), sandbox.package().join("from"));
    Database::accept(&from, &sample_record(0), &Files::default(), 1).unwrap();
    fs::create_dir_all(&into).unwrap();
    let holder = Holder::new(&into);
    let mut merge = sandbox.command(TVMTUNE);
    let mut merge = merge.arg("merge").arg(&from).arg("--into").arg(&into).spawn().unwrap();
    // A file on its way would be in the folder of the program.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        assert_eq!(files(&into), Vec::<PathBuf>::new());
        assert!(merge.try_wait().unwrap().is_none(), "it waits");
        std::thread::sleep(PAUSE);
    }
    drop(holder);
    assert!(merge.wait().unwrap().success());
    assert_eq!(files(&into).len(), 1);
}

/// Tunes within two seconds; how long that took.
fn tune(sandbox: &Sandbox) -> (Said, Duration) {
    let start = Instant::now();
    let said = said(sandbox.command(TVMTUNE).args(["tune", "--budget", "2s"]));
    (said, start.elapsed())
}

/// The locks that a session takes.
fn locks(sandbox: &Sandbox) -> Option<[PathBuf; 2]> {
    let locks = Cache::new(&sandbox.cache()).locks();
    let device = device::detect()?.key().file_stem();
    Some([locks.join("records.lock"), locks.join(format!("{device}.lock"))])
}

#[test]
fn a_lock_held_elsewhere_costs_tune_its_budget_and_is_named() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let Some(locks) = locks(&sandbox) else { return };
    for lock in &locks {
        let holder = Holder::new(lock);
        let (said, took) = tune(&sandbox);
        assert!(said.code == Some(3) && said.err.contains(&holder.name()), "{said:?}");
        assert!(took >= Duration::from_secs(2) && took < SLACK, "{took:?}");
        holder.stop();
        let (said, _) = tune(&sandbox);
        let advice = format!("kill -CONT {}", holder.0.id());
        assert!(said.err.contains("which is stopped") && said.err.contains(&advice), "{said:?}");
    }
    // The holders were killed.
    let (said, _) = tune(&sandbox);
    assert_eq!((said.code, sandbox.records().len()), (Some(0), 1), "{said:?}");
}

#[test]
fn a_build_goes_on_with_what_it_has_where_a_lock_is_held() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let Some(locks) = locks(&sandbox) else { return };
    for (n, lock) in locks.iter().enumerate() {
        let holder = Holder::new(lock);
        let (start, out) = (Instant::now(), format!("out-{n}"));
        let output = sandbox.build(SCRIPT, &out, &[("TVMTUNE", "tune"), ("TVMTUNE_BUDGET", "2s")]);
        assert!(start.elapsed() < SLACK, "{:?}", start.elapsed());
        let warnings = output.directives("warning");
        let named = warnings.iter().filter(|it| it.contains(&holder.name())).count();
        assert_eq!((output.code, named, warnings.len()), (Some(0), 1, 1), "{output:?}");
        assert_eq!(sandbox.plans(&out).len(), 1, "by default");
    }
}

#[test]
fn plans_that_another_process_works_on_do_not_stop_a_build() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let variables = [("TVMTUNE", "tune"), ("TVMTUNE_BUDGET", "1s")];
    if device::detect().is_none() || sandbox.script(SCRIPT, "out", &variables).code != Some(0) {
        return;
    }
    let holder = Holder::new(&sandbox.cache().with_file_name("out").join("tvmtune/lock"));
    let start = Instant::now();
    let output = sandbox.build(SCRIPT, "out", &variables);
    assert!(start.elapsed() < SLACK + Duration::from_secs(11), "{:?}", start.elapsed());
    let warnings = output.directives("warning");
    assert!(output.code == Some(0) && warnings.len() == 1, "{output:?}");
    assert!(warnings[0].contains(&holder.name()), "{output:?}");
    assert_eq!(sandbox.plans("out").len(), 1);
}

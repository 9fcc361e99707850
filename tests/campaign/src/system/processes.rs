//! The processes that run in a place, as `/proc` lists them.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Child;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::section::Problem;

/// How long a process may outlive the one that started it.
const GRACE: Duration = Duration::from_secs(3);

/// A process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its number.
    pub pid: Pid,
    /// Its command line.
    pub command: String,
    /// Set if it is a worker of the tuner.
    pub is_worker: bool,
}

/// Returns the processes in whose environment the folder is.
pub fn of(folder: &Path) -> Vec<Process> {
    let needle = folder.as_os_str().as_bytes();
    let contains = |all: &[u8], part: &[u8]| all.windows(part.len()).any(|it| it == part);
    let process = |name: &str| {
        let pid = Pid::from_raw(name.parse().ok()?)?;
        let read = |it: &str| fs::read(format!("/proc/{name}/{it}")).ok();
        let environment = read("environ").filter(|it| contains(it, needle))?;
        let status = String::from_utf8_lossy(&read("stat")?).into_owned();
        // A zombie has ended; whoever started it has not asked.
        let is_gone = status.rsplit(") ").next().is_some_and(|it| it.starts_with(['Z', 'X']));
        let command = String::from_utf8_lossy(&read("cmdline")?).replace('\0', " ");
        let is_worker = contains(&environment, b"TVMTUNE_WORKER=");
        (!is_gone).then_some(Process { pid, command, is_worker })
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|it| process(it.file_name().to_str()?)).collect()
}

/// Kills a process and all of its group.
pub fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        // It may be gone.
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Sends a signal to a process; it may be gone.
pub fn send(process: &Process, signal: Signal) {
    let _ = kill_process(process.pid, signal);
}

/// Waits until no process runs in a place, and kills those that stay.
///
/// # Errors
///
/// If one stays longer than [`GRACE`].
pub fn are_gone(folder: &Path) -> Result<(), Problem> {
    let since = Instant::now();
    loop {
        let left = of(folder);
        if left.is_empty() {
            return Ok(());
        }
        if since.elapsed() > GRACE {
            left.iter().for_each(|it| send(it, Signal::KILL));
            let names: Vec<String> = left.iter().map(|it| it.command.clone()).collect();
            let grace = GRACE.as_secs();
            let list = names.join("\n");
            return Err(Problem::wrong(format!("processes stay for more than {grace} s\n{list}")));
        }
        thread::sleep(Duration::from_millis(5));
    }
}

//! The cargo that started this compiler: nobody waits for a session once it is gone.
//!
//! A compiler survives a cargo that was killed alone, since it learns of that only when it prints.
//! The system gives a process whose parent has ended another parent, so a change of the parents
//! between this compiler and cargo tells. There may be some: wrappers of compilers are processes,
//! too. Where they are not known, the parent alone counts.

use std::process::ChildStdin;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(100);

/// Calls `wait`, which waits for a program that was asked over this pipe. The pipe is closed, so that
/// the program ends, if cargo is gone before.
pub(crate) fn while_cargo_lives<T>(asked: Option<ChildStdin>, wait: impl FnOnce() -> T) -> T {
    let parents = parents();
    let (done, is_done) = channel::<()>();
    let asked = Mutex::new(asked);
    thread::scope(|scope| {
        let (parents, asked) = (&parents, &asked);
        let watch = move || {
            while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(PAUSE) {
                if self::parents() != *parents {
                    *asked.lock().unwrap_or_else(PoisonError::into_inner) = None;
                }
            }
        };
        // Without a watch, the program runs to its end.
        let _ = thread::Builder::new().name("parent".to_owned()).spawn_scoped(scope, watch);
        let result = wait();
        drop(done);
        result
    })
}

/// Returns the processes from the parent of this one up to cargo; the parent alone where no cargo is
/// found.
#[cfg(unix)]
fn parents() -> Vec<u32> {
    let parent = std::os::unix::process::parent_id();
    let mut chain = vec![parent];
    while let Some(process) = chain.last().copied().and_then(process::read) {
        if process.is_cargo {
            return chain;
        }
        if chain.len() == MAX_PARENTS || process.parent <= 1 {
            break;
        }
        chain.push(process.parent);
    }
    vec![parent]
}

#[cfg(not(unix))]
fn parents() -> Vec<u32> {
    Vec::new()
}

/// Processes between a compiler and cargo, at most.
#[cfg(unix)]
const MAX_PARENTS: usize = 8;

/// What Linux tells about processes; other systems tell nothing here.
#[cfg(unix)]
mod process {
    pub(super) struct Process {
        pub(super) parent: u32,
        pub(super) is_cargo: bool,
    }

    pub(super) fn read(process: u32) -> Option<Process> {
        parse(&std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
    }

    /// Parses `7 (cargo) S 1 ..`: the number of a process, its name, its state and its parent.
    pub(super) fn parse(stat: &str) -> Option<Process> {
        let (before, after) = stat.rsplit_once(')')?;
        let (_, name) = before.split_once('(')?;
        let parent = after.split_whitespace().nth(1)?.parse().ok()?;
        Some(Process { parent, is_cargo: name.starts_with("cargo") })
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_pipe_is_open_as_long_as_cargo_lives() {
        assert!(!parents().is_empty());
        assert_eq!(parents(), parents());
        let command = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
        let mut cat = command.expect("there is a cat");
        let asked = cat.stdin.take();
        let is_open = while_cargo_lives(asked, || {
            thread::sleep(3 * PAUSE);
            cat.try_wait().expect("it is ours").is_none()
        });
        assert!(is_open, "nobody is gone");
        let mut text = String::new();
        let stdout = cat.stdout.as_mut().expect("it is piped");
        stdout.read_to_string(&mut text).expect("text");
        assert!(cat.wait().expect("it is ours").success(), "the pipe is closed afterwards");
    }

    #[test]
    fn the_name_of_a_process_may_be_anything() {
        let parsed = |it: &str| process::parse(it).map(|it| (it.parent, it.is_cargo));
        assert_eq!(parsed("7 (cargo) S 12 7 7"), Some((12, true)));
        assert_eq!(parsed("7 (sh (a) b) T 13 7"), Some((13, false)));
        assert_eq!(parsed("mangled"), None);
    }
}

//! The process that tunes for a build script.
//!
//! Build scripts are compiled unoptimised, and a search is arithmetic, so the command-line tool
//! does it where one of the same version is installed; else the build script starts itself once
//! more.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tvmtune_plan::handoff::ROLE;

use super::job::{Answer, Job, MEASURING, WAITING};

/// The value of [`ROLE`] in a process that tunes.
pub(super) const ROLE_TUNE: &str = "tune";

/// Time beyond the budget, for the start, the last candidate and the end.
const GRACE: Duration = Duration::from_secs(60);

/// The error of a child without an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error(
        "this build script came without the feature `tune` of `tvmtune-build`; \
         run `cargo install cargo-tvmtune`"
    )]
    NoTuner,
    #[error("cannot run `{}`: {source}", program.display())]
    Run { program: PathBuf, source: std::io::Error },
    #[error(
        "tuning was stopped after {} s, which is beyond its budget; what it recorded counts",
        .0.as_secs()
    )]
    TimedOut(Duration),
    #[error("`{}` ended without an answer ({status})", program.display())]
    Silent { program: PathBuf, status: String },
}

impl ChildError {
    /// Tells if the process was stopped while it tuned.
    pub(super) fn is_stopped(&self) -> bool {
        matches!(self, Self::TimedOut(_))
    }
}

/// Executes a job in another process.
pub(super) fn run(job: &Job) -> Result<Answer, ChildError> {
    let tool = installed_tool();
    // Without the feature, the script would start itself forever.
    if tool.is_none() && !cfg!(feature = "tune") {
        return Err(ChildError::NoTuner);
    }
    let own = || std::env::current_exe().unwrap_or_default();
    let program = tool.clone().unwrap_or_else(own);
    let mut command = Command::new(&program);
    match tool {
        Some(_) => command.arg("job"),
        None => command.env(ROLE, ROLE_TUNE),
    };
    let failed = |source| ChildError::Run { program: program.clone(), source };
    let text = toml::to_string(job).expect("strings and numbers are TOML");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(failed)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A child that doesn't read it doesn't answer either, which is an error below.
        let _ = stdin.write_all(text.as_bytes());
    }
    let started = Instant::now();
    let limit = job.budget.total.saturating_add(GRACE);
    let (status, answer) = wait(&mut child, limit).map_err(failed)?;
    let Some(status) = status else { return Err(ChildError::TimedOut(started.elapsed())) };
    let silent = || ChildError::Silent { program, status: status.to_string() };
    toml::from_str(&answer).ok().filter(|_| status.success()).ok_or_else(silent)
}

/// Waits for a child and its output, or kills it once it took longer than the limit, less the time in
/// which it waited for other processes.
fn wait(
    child: &mut Child,
    limit: Duration,
) -> std::io::Result<(Option<std::process::ExitStatus>, String)> {
    let clock = Arc::new(Mutex::new(Stopwatch::start()));
    let (stdout, of_reader) = (child.stdout.take(), Arc::clone(&clock));
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let mut lines = stdout.map(BufReader::new);
        // Unreadable output is no answer.
        while lines.as_mut().is_some_and(|it| it.read_line(&mut text).is_ok_and(|n| n > 0)) {
            let mut clock = of_reader.lock().unwrap_or_else(PoisonError::into_inner);
            if text.ends_with(WAITING) {
                clock.stop();
            } else if text.ends_with(MEASURING) {
                clock.go_on();
            }
        }
        text
    });
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), reader.join().unwrap_or_default()));
        }
        if clock.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= limit {
            child.kill()?;
            child.wait()?;
            return Ok((None, String::new()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A clock that can be stopped for a while.
struct Stopwatch {
    elapsed: Duration,
    running_since: Option<Instant>,
}

impl Stopwatch {
    fn start() -> Self {
        Self { elapsed: Duration::ZERO, running_since: Some(Instant::now()) }
    }

    fn elapsed(&self) -> Duration {
        self.elapsed + self.running_since.map_or(Duration::ZERO, |it| it.elapsed())
    }

    fn stop(&mut self) {
        *self = Self { elapsed: self.elapsed(), running_since: None };
    }

    fn go_on(&mut self) {
        self.running_since.get_or_insert_with(Instant::now);
    }
}

/// Finds the command-line tool, if one of this version is installed.
pub fn installed_tool() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let cargo_home = std::env::var_os("CARGO_HOME").map(|it| Path::new(&it).join("bin"));
    let name: OsString = format!("cargo-tvmtune{}", std::env::consts::EXE_SUFFIX).into();
    let folders = cargo_home.into_iter().chain(std::env::split_paths(&path));
    let program = folders.map(|it| it.join(&name)).find(|it| it.is_file())?;
    let output = Command::new(&program).arg("--version").output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout);
    version.trim().ends_with(concat!(" ", env!("CARGO_PKG_VERSION"))).then_some(program)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// The output of a shell script within a limit; `None` if it was stopped.
    fn output(script: &str, limit_ms: u64) -> Option<String> {
        let mut command = Command::new("sh");
        let mut child =
            command.args(["-c", script]).stdout(Stdio::piped()).spawn().expect("there is a shell");
        let (status, text) =
            wait(&mut child, Duration::from_millis(limit_ms)).expect("it can be waited for");
        status.map(|_| text)
    }

    #[test]
    fn time_of_waiting_for_others_does_not_count() {
        let script = "echo '# waiting'; sleep 1.5; echo '# measuring'; echo 'n_tuned = 1'; echo 'failures = []'";
        let answer = output(script, 700).expect("it was not stopped");
        assert_eq!(toml::from_str::<Answer>(&answer).unwrap().n_tuned, 1);
        assert_eq!(output("exec sleep 20", 200), None);
        assert_eq!(output("echo '# waiting'; echo '# measuring'; exec sleep 20", 200), None);
    }
}

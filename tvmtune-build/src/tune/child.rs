//! The process that tunes for a build script.
//!
//! Build scripts are compiled unoptimised, and a search is arithmetic, so the command-line tool
//! does it where one of the same version is installed; else the build script starts itself once
//! more.

use std::ffi::OsString;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tvmtune_plan::handoff::ROLE;
use tvmtune_plan::request;

use super::job::{Answer, Job};

/// The value of [`ROLE`] in a process that tunes.
pub(super) const ROLE_TUNE: &str = "tune";

/// Time beyond the budget, for the start, the last candidate and the end.
const GRACE: Duration = Duration::from_secs(60);
/// The time in which a process that nobody waits for ends by itself.
const END_LIMIT: Duration = Duration::from_secs(1);

/// The error of a child without an answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChildError {
    #[error(
        "this build script came without the feature `tune` of `tvmtune-build`; \
         run `cargo install cargo-tvmtune`"
    )]
    NoTuner,
    #[error("cannot run `{}`: {source}", program.display())]
    Run { program: PathBuf, source: io::Error },
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
    let started = Instant::now();
    let asked = request::send(&mut child, &text);
    let limit = job.budget.total.saturating_add(GRACE);
    let (status, answer) = wait(&mut child, asked, limit).map_err(failed)?;
    let Some(status) = status else { return Err(ChildError::TimedOut(started.elapsed())) };
    let silent = || ChildError::Silent { program, status: status.to_string() };
    toml::from_str(&answer).ok().filter(|_| status.success()).ok_or_else(silent)
}

/// Waits for a child that was asked over a pipe, and for its output. One that takes longer than the
/// limit ends as if this process had, or is killed.
fn wait(
    child: &mut Child,
    asked: Option<ChildStdin>,
    limit: Duration,
) -> io::Result<(Option<ExitStatus>, String)> {
    let mut stdout = child.stdout.take();
    let read = move || {
        let mut text = String::new();
        // Unreadable output is no answer.
        let _ = stdout.as_mut().map(|it| it.read_to_string(&mut text));
        text
    };
    let reader = thread::Builder::new().name("answer".to_owned()).spawn(read);
    let reader = reader.inspect_err(|_| end(child))?;
    if let Some(status) = ended_within(child, limit)? {
        return Ok((Some(status), reader.join().unwrap_or_default()));
    }
    drop(asked);
    if ended_within(child, END_LIMIT)?.is_none() {
        end(child);
    }
    Ok((None, String::new()))
}

/// Returns the status of a child that ends within a limit.
fn ended_within(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let started = Instant::now();
    loop {
        match child.try_wait()? {
            None if started.elapsed() < limit => thread::sleep(Duration::from_millis(20)),
            status => return Ok(status),
        }
    }
}

fn end(child: &mut Child) {
    // Fails only if it is gone already.
    let _ = child.kill();
    let _ = child.wait();
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
        let command = command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("there is a shell");
        let asked = request::send(&mut child, "");
        let limit = Duration::from_millis(limit_ms);
        let (status, text) = wait(&mut child, asked, limit).expect("it can be waited for");
        status.map(|_| text)
    }

    #[test]
    fn an_answer_comes_within_the_limit_or_not_at_all() {
        let answer = output("echo 'n_tuned = 1'; echo 'failures = []'", 20_000);
        let answer = answer.expect("it was not stopped");
        assert_eq!(toml::from_str::<Answer>(&answer).unwrap().n_tuned, 1);
        assert_eq!(output("exec sleep 60", 200), None);
        assert_eq!(output("cat; exec sleep 60", 200), None, "it does not end with the pipe");
    }
}

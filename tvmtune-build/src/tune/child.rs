//! The process that tunes for a build script.
//!
//! Build scripts are compiled unoptimised, and a search is arithmetic, so the command-line tool
//! does it where one of the same version is installed; else the build script starts itself once
//! more.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tvmtune_plan::handoff::ROLE;

use super::job::{Answer, Job};

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
    let deadline = started.checked_add(job.budget.total.saturating_add(GRACE));
    let (status, answer) = wait(&mut child, deadline).map_err(failed)?;
    let Some(status) = status else { return Err(ChildError::TimedOut(started.elapsed())) };
    let silent = || ChildError::Silent { program, status: status.to_string() };
    toml::from_str(&answer).ok().filter(|_| status.success()).ok_or_else(silent)
}

/// Waits for a child and its output, or kills it at the deadline.
fn wait(
    child: &mut Child,
    deadline: Option<Instant>,
) -> std::io::Result<(Option<std::process::ExitStatus>, String)> {
    let mut stdout = child.stdout.take();
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        // Unreadable output is no answer.
        let _ = stdout.as_mut().map(|it| it.read_to_string(&mut text));
        text
    });
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((Some(status), reader.join().unwrap_or_default()));
        }
        if deadline.is_some_and(|it| Instant::now() >= it) {
            child.kill()?;
            child.wait()?;
            return Ok((None, String::new()));
        }
        std::thread::sleep(Duration::from_millis(20));
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

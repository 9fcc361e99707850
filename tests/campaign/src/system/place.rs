//! A place where a case runs commands: a crate with kernels, and a cache.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use tvmtune_plan::handoff::{ROLE, ROLE_EXPAND, Request};

use super::roles::{Role, VARIABLE};
use crate::section::{Kind, Problem};

/// The sources of the crate: programs that are small to read, to compile and to tune.
pub const SOURCE: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 1..=64, K = 32), buckets(M = [8, 64]))]
pub fn scaled_sum(x: Tensor<f32, M, K>) -> Tensor<f32, M> {
    compute(|i| sum(0..K, |k| x[[i, k]] * 0.5))
}

#[autotune(dims(N = 48))]
pub fn twice(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] + x[[i]])
}
";

/// A program beside [`SOURCE`], which nobody has tuned.
pub const SOURCE_OF_ANOTHER: &str = "
#[autotune(dims(N = 40))]
pub fn thrice(x: Tensor<f32, N>) -> Tensor<f32, N> {
    compute(|i| x[[i]] * 3.0)
}
";

/// How long a command may run; all that a case asks for is done in a few seconds.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The folder of a case with a package and a cache in it. Their names are a case's to choose.
#[derive(Clone, Debug)]
pub struct Place {
    /// The folder of the package.
    pub package: PathBuf,
    /// The folder that `TVMTUNE_CACHE` names.
    pub cache: PathBuf,
    /// The folder of what the build script writes.
    pub out_dir: PathBuf,
}

/// A command that has ended.
#[derive(Debug)]
pub struct Said {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub out: String,
    /// Its standard error.
    pub err: String,
}

impl Place {
    /// Makes a place in a folder, with the usual sources.
    ///
    /// # Errors
    ///
    /// Where files cannot be written.
    pub fn new(folder: &Path) -> io::Result<Self> {
        let place = Self {
            package: folder.join("package"),
            cache: folder.join("cache"),
            out_dir: folder.join("out"),
        };
        place.write_package()?;
        Ok(place)
    }

    /// Writes the files of the package.
    ///
    /// # Errors
    ///
    /// Where files cannot be written.
    pub fn write_package(&self) -> io::Result<()> {
        let campaign = Path::new(env!("CARGO_MANIFEST_DIR"));
        let checkout = campaign.ancestors().nth(2).unwrap_or(campaign);
        let dependency = |it: &str| checkout.join(it).display().to_string();
        let manifest = format!(
            "[package]\nname = \"place\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\
             [dependencies]\ntvmtune-runtime = {{ path = {:?} }}\n\
             [build-dependencies]\ntvmtune-build = {{ path = {:?} }}\n[workspace]\n",
            dependency("tvmtune-runtime"),
            dependency("tvmtune-build"),
        );
        fs::create_dir_all(self.package.join("src"))?;
        fs::write(self.package.join("Cargo.toml"), manifest)?;
        fs::write(self.package.join("build.rs"), "fn main() { tvmtune_build::run() }\n")?;
        fs::write(self.package.join("src/lib.rs"), SOURCE)
    }

    /// Returns the folder of the records that the crate ships.
    pub fn shipped(&self) -> PathBuf {
        self.package.join("tvmtune")
    }

    /// Returns a program in the environment of a place: nothing of the campaign's own decides
    /// anything. It leads a group of processes, so that a case can kill all of it.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        for (name, _) in env::vars_os() {
            let name_text = name.to_string_lossy();
            let decides = ["TVMTUNE", "CARGO_", "PROPTEST", "RUSTFLAGS", "RUST_", "DOCS_RS"];
            if name_text == "CARGO_HOME" {
                continue;
            }
            if name_text == "CI" || decides.iter().any(|it| name_text.starts_with(it)) {
                command.env_remove(&name);
            }
        }
        command.current_dir(&self.package).env("TVMTUNE_CACHE", &self.cache);
        command.env("TVMTUNE_BUDGET", "4").env("CARGO_NET_OFFLINE", "true");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.process_group(0);
        command
    }

    /// Returns the command line of tvmtune with these arguments.
    pub fn tvmtune<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut command = self.command(this_program());
        command.env(VARIABLE, Role::CommandLine.name()).args(arguments);
        command
    }

    /// Returns the build script as cargo starts it.
    pub fn script(&self) -> Command {
        let mut command = self.in_build();
        command.env("CARGO_CFG_TARGET_OS", env::consts::OS).env("HOST", "here");
        command.env("TARGET", "here");
        command
    }

    /// Returns the session that the macro asks for after the script.
    pub fn session(&self) -> Command {
        let mut command = self.in_build();
        command.env(ROLE, ROLE_EXPAND).stdin(Stdio::piped());
        command
    }

    /// Returns what a session reads from its standard input.
    pub fn request(&self) -> String {
        Request { plans: self.out_dir.join("tvmtune"), op: None }.to_toml()
    }

    fn in_build(&self) -> Command {
        let mut command = self.command(this_program());
        command.env(VARIABLE, Role::Script.name()).env("OUT_DIR", &self.out_dir);
        command.env("CARGO_MANIFEST_DIR", &self.package).env("CARGO_PKG_NAME", "place");
        command
    }
}

/// Returns this program, which plays all roles.
pub fn this_program() -> OsString {
    env::current_exe().map_or_else(|_| "campaign".into(), PathBuf::into_os_string)
}

/// Runs a command to its end.
///
/// # Errors
///
/// A hang, if it takes longer than [`PATIENCE`].
pub fn run(command: &mut Command) -> Result<Said, Problem> {
    run_with(command, "")
}

/// Runs a command to its end, with a text on its standard input.
///
/// # Errors
///
/// A hang, if it takes longer than [`PATIENCE`].
pub fn run_with(command: &mut Command, input: &str) -> Result<Said, Problem> {
    let started = start(command, input)?;
    let said = started.wait(PATIENCE)?;
    said.map_err(|it| Problem { kind: Kind::Hang, message: format!("{command:?} hangs\n{it}") })
}

/// A command that runs.
pub struct Started {
    /// The process.
    pub child: Child,
    out: thread::JoinHandle<String>,
    err: thread::JoinHandle<String>,
}

/// Starts a command.
///
/// # Errors
///
/// If the system refuses.
pub fn start(command: &mut Command, input: &str) -> Result<Started, Problem> {
    let spawned = command.spawn();
    let refused = |it: io::Error| Problem::wrong(format!("{command:?} does not start: {it}"));
    let mut child = spawned.map_err(refused)?;
    if let Some(mut stdin) = child.stdin.take() {
        // It may end before it reads.
        let _ = stdin.write_all(input.as_bytes());
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    Ok(Started {
        child,
        out: thread::spawn(move || text(out)),
        err: thread::spawn(move || text(err)),
    })
}

impl Started {
    /// Waits until it has ended; after `patience`, kills it and all of its group, and returns what it
    /// had said, as the inner error.
    ///
    /// # Errors
    ///
    /// If the system does not say how it ended.
    pub fn wait(mut self, patience: Duration) -> Result<Result<Said, String>, Problem> {
        let since = Instant::now();
        let failed = |it: io::Error| Problem::wrong(format!("cannot wait for a process: {it}"));
        let status = loop {
            match self.child.try_wait().map_err(failed)? {
                Some(status) => break Some(status),
                None if since.elapsed() > patience => break None,
                None => thread::sleep(Duration::from_millis(1)),
            }
        };
        if status.is_none() {
            super::processes::kill_group(&self.child);
            self.child.wait().map_err(failed)?;
        }
        let join = |it: thread::JoinHandle<String>| it.join().unwrap_or_default();
        let (out, err) = (join(self.out), join(self.err));
        Ok(status
            .map(|status| Said { status, out: out.clone(), err: err.clone() })
            .ok_or(out + &err))
    }
}

fn text(from: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    // What a process said before it was killed is all there is.
    let _ = from.map(|mut it| it.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

impl Said {
    /// Checks that a command ended as commands may: well, or with an error that it told.
    ///
    /// # Errors
    ///
    /// A panic, a signal, or a failure without a word.
    pub fn is_clear(&self) -> Result<(), Problem> {
        self.is_clear_of_panics()?;
        let Self { status, out, err } = self;
        let says_why = !(err.trim().is_empty() && out.trim().is_empty());
        if !status.success() && !says_why {
            return Err(Problem::wrong(format!("a command failed without a word: {status}")));
        }
        Ok(())
    }

    /// Checks that no thread of a command panicked, and that no signal ended it.
    ///
    /// # Errors
    ///
    /// A panic or a signal.
    pub fn is_clear_of_panics(&self) -> Result<(), Problem> {
        let Self { status, out, err } = self;
        let all = format!("{status}\n{err}\n{out}");
        if let Some(at) = err.lines().find(|it| it.contains("panicked at")) {
            return Err(Problem { kind: Kind::Panic, message: format!("{at}\n{all}") });
        }
        match status.signal() {
            Some(signal) => {
                let message = format!("the command died of signal {signal}\n{all}");
                Err(Problem { kind: Kind::Death, message })
            }
            None => Ok(()),
        }
    }

    /// Checks that a command ended well.
    ///
    /// # Errors
    ///
    /// What it said otherwise.
    pub fn is_done(&self, what: &str) -> Result<(), Problem> {
        self.is_clear()?;
        let Self { status, out, err } = self;
        match status.success() {
            true => Ok(()),
            false => Err(Problem::wrong(format!("{what}: {status}\n{err}\n{out}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::processes;

    fn place() -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        let place = Place::new(folder.path()).unwrap();
        (folder, place)
    }

    #[test]
    fn endings_of_commands_are_told_apart() {
        let (_folder, place) = place();
        let said = |script: &str| run(place.command("sh").args(["-c", script])).unwrap();
        let kind = |script: &str| said(script).is_clear().map_err(|it| it.kind);
        assert_eq!(kind("exit 0"), Ok(()));
        assert_eq!(kind("echo 'error: no such file' >&2; exit 1"), Ok(()));
        assert_eq!(kind("exit 1"), Err(Kind::Wrong), "without a word");
        assert_eq!(kind("kill -9 $$"), Err(Kind::Death));
        assert_eq!(kind("echo \"thread 'a' panicked at b.rs:1\" >&2"), Err(Kind::Panic));
        assert!(said("echo 'error: why' >&2; exit 1").is_done("it").is_err());
    }

    #[test]
    fn a_command_that_hangs_is_killed_with_its_group_and_what_it_said_is_known() {
        let (folder, place) = place();
        let mut command = place.command("sh");
        command.args(["-c", "echo hello; sleep 1000 & sleep 1000"]);
        let started = start(&mut command, "").unwrap();
        let hung = started.wait(Duration::from_millis(300)).unwrap();
        assert!(hung.is_err_and(|it| it.contains("hello")));
        assert_eq!(processes::are_gone(folder.path()), Ok(()));
    }

    #[test]
    fn processes_are_found_by_the_place_they_run_in() {
        let (folder, place) = place();
        let started = start(place.command("sleep").arg("1000"), "").unwrap();
        let found = processes::of(folder.path());
        assert!(found.len() == 1 && found[0].command.starts_with("sleep"), "{found:?}");
        assert!(!found[0].is_worker);
        processes::kill_group(&started.child);
        assert!(started.wait(PATIENCE).unwrap().is_ok());
        assert_eq!(processes::of(folder.path()), []);
    }
}

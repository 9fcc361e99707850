//! The probe of the other machine: its system, processor and C library, compared with those that the
//! worker needs before anything is sent.
//!
//! In: the output of `uname` and `getconf` there, and what the executable needs. Out: nothing, or the
//! error. Next: the executable is copied.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use tvmtune_plan::printable::one_line;

use super::error::RemoteError;
use super::shell::Shell;

/// Says what machine it is, with standard tools only. A shell may print something of its own first. The C
/// library is not asked for where there is none: its absence is an answer.
const SCRIPT: &str = "echo tvmtune-probe; uname -sm; getconf GNU_LIBC_VERSION 2>/dev/null || ldd \
                      --version 2>&1; exit 0";
const BEGIN: &str = "tvmtune-probe";
const LIMIT: Duration = Duration::from_secs(60);

/// The executable that serves as a worker.
#[derive(Clone, Debug)]
pub struct WorkerFile {
    /// The file.
    pub path: PathBuf,
    /// The arguments with which it serves.
    pub arguments: Vec<String>,
    /// The operating system and the architecture that it is for, as `uname -sm` prints them.
    pub platform: String,
    /// The version of glibc that it needs; `None` if it needs none.
    pub glibc: Option<Version>,
    /// The compiler for GPUs and the libraries that it loads, to be copied too: that machine need not have
    /// one.
    pub nvrtc: Vec<PathBuf>,
}

/// The version of a C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32);

impl WorkerFile {
    /// Returns the operating system and the architecture of this process, as `uname -sm` prints them.
    pub fn own_platform() -> String {
        let system = match std::env::consts::OS {
            "linux" => "Linux",
            "macos" => "Darwin",
            "freebsd" => "FreeBSD",
            other => other,
        };
        let machine = match (system, std::env::consts::ARCH) {
            ("Darwin", "aarch64") => "arm64",
            ("FreeBSD", "x86_64") => "amd64",
            (_, other) => other,
        };
        format!("{system} {machine}")
    }
}

/// Checks that the machine runs the worker.
pub(super) fn check(shell: &Shell, worker: &WorkerFile) -> Result<(), RemoteError> {
    let output = shell.output(SCRIPT, None, LIMIT).map_err(|error| match error {
        // Where the connection is not shared, this is the first one.
        RemoteError::Lost { address, why } => RemoteError::Connect { address, why },
        other => other,
    })?;
    fits(shell.address(), &output, worker)
}

/// Checks what a machine said of itself.
fn fits(address: &str, output: &str, worker: &WorkerFile) -> Result<(), RemoteError> {
    let address = address.to_owned();
    let mut lines = output.lines().skip_while(|it| it.trim() != BEGIN).skip(1);
    let Some(platform) = lines.next().map(str::trim) else {
        return Err(RemoteError::Probe { address, why: one_line(output) });
    };
    if platform != worker.platform {
        let (there, here) = (one_line(platform), worker.platform.clone());
        return Err(RemoteError::OtherPlatform { address, there, here });
    }
    let Some(needed) = worker.glibc else { return Ok(()) };
    let found = lines.next().and_then(glibc);
    match found.is_some_and(|it| it >= needed) {
        true => Ok(()),
        false => Err(RemoteError::OldLibrary { address, found, needed }),
    }
}

/// Reads the version of glibc from the first line of `getconf GNU_LIBC_VERSION` or `ldd --version`; `None`
/// of another library.
fn glibc(line: &str) -> Option<Version> {
    let words = line.split_whitespace();
    let lower = line.to_lowercase();
    let is_glibc = ["glibc", "gnu libc", "gnu c library"].iter().any(|it| lower.contains(it));
    words.last()?.parse().ok().filter(|_| is_glibc)
}

impl FromStr for Version {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split('.');
        let mut next = || parts.next().unwrap_or_default().parse();
        Ok(Self(next()?, next()?))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.0, self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(output: &str, expected: &str) {
        let worker = WorkerFile {
            path: PathBuf::new(),
            arguments: Vec::new(),
            platform: "Linux x86_64".to_owned(),
            glibc: Some(Version(2, 34)),
            nvrtc: Vec::new(),
        };
        let error = fits("me@there", output, &worker).map_err(|it| it.to_string());
        match expected {
            "" => assert_eq!(error, Ok(())),
            _ => {
                let error = error.unwrap_err();
                assert!(error.contains(expected), "{error}");
                assert!(error.contains("`me@there`"), "{error}");
            }
        }
    }

    #[test]
    fn machines_are_told_by_their_system_and_their_library() {
        check("motd\ntvmtune-probe\nLinux x86_64\nglibc 2.36\n", "");
        check("tvmtune-probe\nLinux x86_64\nglibc 2.34\n", "");
        check("tvmtune-probe\nLinux x86_64\nldd (Debian GLIBC 2.36-9+deb12u3) 2.36\n", "");
        check("tvmtune-probe\nLinux x86_64\nldd (GNU libc) 2.34\nmore\n", "");
        check(
            "tvmtune-probe\nLinux aarch64\nglibc 2.36\n",
            "is Linux aarch64, and this cargo-tvmtune is for Linux x86_64: nothing was copied",
        );
        check(
            "tvmtune-probe\nLinux x86_64\nglibc 2.9\n",
            "has glibc 2.9, and this cargo-tvmtune needs glibc 2.34: nothing was copied",
        );
        check("tvmtune-probe\nLinux x86_64\nmusl libc (x86_64)\nVersion 1.2.3\n", "has no glibc");
        check("tvmtune-probe\nLinux x86_64\n", "has no glibc");
        check("This account is closed\n\u{1b}[2J", "it is: This account is closed; \\u{1b}[2J");
        check("", "does not say what machine it is");
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let version = |it: &str| it.parse::<Version>();
        assert!(version("2.9").unwrap() < version("2.34").unwrap());
        assert_eq!(version("2.36.1"), Ok(Version(2, 36)));
        assert!(version("2").is_err() && version("").is_err());
    }
}

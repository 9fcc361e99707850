//! What people do in a place, one command each.

use std::fs;
use std::process::Command;

use super::place::{self, Place, Said};
use super::template::io_problem;
use crate::section::Problem;

/// A command that people, or builds, run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    Tune,
    Script,
    Session,
    Accept,
    Merge,
    MergeInto,
    Gc,
    Upgrade,
    Status,
    Watch,
    Check,
    Verify,
    Show,
    Doctor,
}

impl Errand {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Tune,
        Self::Script,
        Self::Session,
        Self::Accept,
        Self::Merge,
        Self::MergeInto,
        Self::Gc,
        Self::Upgrade,
        Self::Status,
        Self::Watch,
        Self::Check,
        Self::Verify,
        Self::Show,
        Self::Doctor,
    ];

    /// Returns whether the command changes nothing.
    pub fn only_reads(self) -> bool {
        use Errand::{Check, Doctor, Show, Status, Verify, Watch};
        matches!(self, Status | Watch | Check | Verify | Show | Doctor)
    }

    /// Makes work for the command.
    ///
    /// # Errors
    ///
    /// Where that fails.
    pub fn prepare(self, place: &Place) -> Result<(), Problem> {
        match self {
            Self::Session => {
                fs::create_dir_all(&place.out_dir).map_err(io_problem)?;
                // The session finds one kernel that nobody has tuned.
                let source = format!("{}{}", place::SOURCE, place::SOURCE_OF_ANOTHER);
                fs::write(place.package.join("src/lib.rs"), source).map_err(io_problem)?;
                place::run(&mut place.script())?.is_done("the build script")
            }
            Self::Script => fs::create_dir_all(&place.out_dir).map_err(io_problem),
            Self::Upgrade => {
                // Of a crate that ships nothing: what it ships is not upgraded where the cache has better.
                if place.shipped().exists() {
                    fs::remove_dir_all(place.shipped()).map_err(io_problem)?;
                }
                make_stale(place).map_err(io_problem)
            }
            _ => Ok(()),
        }
    }

    /// Returns the command, and what it reads from its standard input.
    pub fn command(self, place: &Place) -> (Command, String) {
        let shipped = place.shipped();
        let more = place.package.with_file_name("more");
        let command = match self {
            Self::Tune => place.tvmtune(["tune", "--again", "--trials", "3"]),
            Self::Script => place.script(),
            Self::Session => return (place.session(), place.request()),
            Self::Accept => place.tvmtune(["accept", "--best", "3"]),
            Self::Merge => place.tvmtune(["merge".as_ref(), shipped.as_os_str()]),
            Self::MergeInto => place.tvmtune([
                "merge".as_ref(),
                shipped.as_os_str(),
                "--into".as_ref(),
                more.as_os_str(),
            ]),
            Self::Gc => place.tvmtune(["gc", "--apply"]),
            Self::Upgrade => place.tvmtune(["upgrade"]),
            Self::Status => place.tvmtune(["status"]),
            Self::Watch => place.tvmtune(["watch", "--once"]),
            Self::Check => place.tvmtune(["check"]),
            Self::Verify => place.tvmtune(["verify"]),
            Self::Show => place.tvmtune(["show", "twice"]),
            Self::Doctor => place.tvmtune(["doctor"]),
        };
        (command, String::new())
    }

    /// Runs the command to its end.
    ///
    /// # Errors
    ///
    /// A hang.
    pub fn run(self, place: &Place) -> Result<Said, Problem> {
        let (mut command, input) = self.command(place);
        place::run_with(&mut command, &input)
    }
}

/// Returns the identity that [`Errand::Upgrade`] finds for this one.
pub fn stale_artifact(artifact: &str) -> String {
    artifact.chars().rev().collect()
}

/// Changes the identities of all code that records of the cache name, as if another release had
/// generated it.
fn make_stale(place: &Place) -> std::io::Result<()> {
    for path in super::ledger::files(&place.cache.join("v4/records")) {
        let text = fs::read_to_string(&path)?;
        let stale = |line: &str| match line.strip_prefix("artifact = \"") {
            Some(rest) => format!("artifact = {:?}\n", stale_artifact(rest.trim_end_matches('"'))),
            None => format!("{line}\n"),
        };
        fs::write(path, text.lines().map(stale).collect::<String>())?;
    }
    Ok(())
}

/// Checks that a build script told cargo nothing but directives, none of which it does not know.
///
/// # Errors
///
/// A line that is something else: a part of a path that became a directive, say.
pub fn check_directives(said: &Said) -> Result<(), Problem> {
    const KNOWN: [&str; 6] = [
        "error=",
        "rerun-if-changed=",
        "rerun-if-env-changed=",
        "rustc-env=TVMTUNE_",
        "warning=",
        "metadata=",
    ];
    let is_known = |line: &str| {
        let directive = line.strip_prefix("cargo::");
        directive.is_some_and(|it| KNOWN.iter().any(|known| it.starts_with(known)))
    };
    match said.out.lines().find(|it| !is_known(it)) {
        Some(line) => Err(Problem::wrong(format!("a build script prints a line\n{line:?}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use super::*;

    #[test]
    fn a_line_that_is_no_directive_of_ours_is_found() {
        let check = |out: &str| {
            let (status, out) = (ExitStatus::from_raw(0), out.to_owned());
            check_directives(&Said { status, out, err: String::new() })
        };
        assert_eq!(
            check("cargo::rerun-if-changed=a b\ncargo::rustc-env=TVMTUNE_PLAN_DIR=x\n"),
            Ok(())
        );
        assert!(check("cargo::rerun-if-changed=a\nb\n").is_err());
        assert!(check("cargo::rustc-env=EVIL=1\n").is_err());
        assert!(check("cargo::rustc-link-arg=-evil\n").is_err());
    }
}

//! The decision if a build may measure.
//!
//! In: [`Circumstances`], the known facts about the build. Out: a
//! [`Resolution`], the [`Mode`] with the [`Reason`] for it. Next: the build plans, and in
//! [`Mode::Tune`] first tunes kernels without a record.
//!
//! # Invariants
//!
//! - A build measures only where its result is meant to run: never for a package that came from
//!   elsewhere, never across targets, never where code is only checked.
//! - What a user asks for with `TVMTUNE` wins, but `tune` still needs a device and a source of
//!   one's own; where it can't be had, the reason says why.
//!
//! # Source
//!
//! The precedence is sqlx's `SQLX_OFFLINE` made explicit; that a dependency never tunes on the
//! machine of its user is MIOpen's lesson.

use std::fmt;
use std::str::FromStr;

/// The treatment of kernels without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Default schedules; the database is not read.
    Off,
    /// Records are used; what has none gets its default schedule and is counted in one warning.
    Use,
    /// As `Use`, after what has no record was tuned within the budget.
    Tune,
    /// As `Use`, but what has no record is an error.
    Require,
}

/// The facts about a build.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The value of `TVMTUNE`, if it is set.
    pub requested: Option<String>,
    /// The value of `TVMTUNE_PACKAGES`, if it is set: names of packages that may tune.
    pub packages: Option<String>,
    /// The name of the package that is built.
    pub package: String,
    /// Set if docs.rs builds its documentation.
    pub docs_rs: bool,
    /// Set in a continuous-integration job.
    pub ci: bool,
    /// The triple of the machine that builds.
    pub host: String,
    /// The triple of the machine that is built for.
    pub target: String,
    /// Set if the source came from a registry, a package file, a vendor folder or a checkout
    /// that cargo made.
    pub foreign_source: bool,
    /// Set if generated kernels run on this machine.
    pub device: bool,
    /// The command lines of the processes that started this one, nearest first; empty where they
    /// can't be read.
    pub ancestors: Vec<Vec<String>>,
}

/// A [`Mode`] with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The mode.
    pub mode: Mode,
    /// The reason for it.
    pub reason: Reason,
}

/// The reason for a mode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `TVMTUNE` says so.
    Requested,
    /// `TVMTUNE` has a value that is no mode.
    Unknown(String),
    /// docs.rs shows what a crate says, not how fast it is.
    DocsRs,
    /// The source is somebody else's: they tune it, and ship the records.
    ForeignSource,
    /// Kernels of the target don't run on the host.
    Cross,
    /// `TVMTUNE_PACKAGES` names others.
    OtherPackages,
    /// Nothing here runs generated kernels.
    NoDevice,
    /// A shared machine measures noise.
    Ci,
    /// The nearest cargo runs a command after which nothing is run: `check`, `doc`, `metadata`.
    Command(String),
    /// No cargo among the ancestors, or their command lines can't be read.
    NoCommand,
    /// A command whose result is run: `build`, `run`, `test`, `bench`.
    Build(String),
}

impl Resolution {
    /// Tells if the same package may tune when another cargo command builds it: then the script has
    /// to run again even if no file changes.
    pub fn may_tune_later(&self) -> bool {
        matches!(self.reason, Reason::Command(_) | Reason::NoCommand) || self.mode == Mode::Tune
    }
}

/// Decides the mode of a build.
///
/// `TVMTUNE` wins where it can be honored; else the place of the build decides.
pub fn resolve(build: &Circumstances) -> Resolution {
    let requested = build.requested.as_deref().map(str::trim).filter(|it| !it.is_empty());
    let use_because = |reason| Resolution { mode: Mode::Use, reason };
    match requested.map(Mode::from_str) {
        Some(Err(UnknownMode(text))) => return use_because(Reason::Unknown(text)),
        Some(Ok(Mode::Tune)) => {
            return match obstacle(build) {
                Some(reason) => use_because(reason),
                None => Resolution { mode: Mode::Tune, reason: Reason::Requested },
            };
        }
        Some(Ok(mode)) => return Resolution { mode, reason: Reason::Requested },
        None => {}
    }
    if build.docs_rs {
        return Resolution { mode: Mode::Off, reason: Reason::DocsRs };
    }
    if let Some(reason) = obstacle(build) {
        return use_because(reason);
    }
    if build.ci {
        return use_because(Reason::Ci);
    }
    match cargo_command(&build.ancestors) {
        None => use_because(Reason::NoCommand),
        Some(command) if is_run_afterwards(command) => {
            Resolution { mode: Mode::Tune, reason: Reason::Build(command.name.to_owned()) }
        }
        Some(command) => use_because(Reason::Command(command.name.to_owned())),
    }
}

/// Returns the reason why this package can't be tuned here even on request.
fn obstacle(build: &Circumstances) -> Option<Reason> {
    let named = |list: &String| {
        list.split([',', ' ']).any(|it| it == build.package) || list.trim().is_empty()
    };
    if build.foreign_source {
        Some(Reason::ForeignSource)
    } else if build.host != build.target {
        Some(Reason::Cross)
    } else if !build.packages.as_ref().is_none_or(named) {
        Some(Reason::OtherPackages)
    } else if !build.device {
        Some(Reason::NoDevice)
    } else {
        None
    }
}

/// The command of the nearest cargo, with its arguments.
#[derive(Clone, Copy, Debug)]
struct Command<'a> {
    name: &'a str,
    arguments: &'a [String],
}

/// Finds the nearest ancestor that is cargo running a command of its own.
///
/// The nearest counts: `cargo clippy` is a cargo that starts `cargo-clippy`, which starts
/// `cargo check`, and `cargo nextest run` ends in `cargo test --no-run`.
fn cargo_command(ancestors: &[Vec<String>]) -> Option<Command<'_>> {
    ancestors.iter().find_map(|line| {
        let (program, arguments) = line.split_first()?;
        let file_name = program.rsplit(['/', '\\']).next().unwrap_or(program);
        let is_cargo = matches!(file_name, "cargo" | "cargo.exe");
        if is_cargo { first_command(arguments) } else { None }
    })
}

/// Returns the first argument that is neither a toolchain nor an option of cargo itself.
fn first_command(arguments: &[String]) -> Option<Command<'_>> {
    let mut rest = arguments;
    while let Some((first, others)) = rest.split_first() {
        let takes_value = matches!(first.as_str(), "--color" | "--config" | "-C" | "-Z");
        if takes_value {
            rest = others.get(1..)?;
        } else if first.starts_with(['-', '+']) {
            rest = others;
        } else {
            return Some(Command { name: first, arguments: others });
        }
    }
    None
}

/// Tells if the result of a command is usually run.
fn is_run_afterwards(command: Command<'_>) -> bool {
    let builds =
        matches!(command.name, "build" | "b" | "run" | "r" | "test" | "t" | "bench" | "rustc");
    let looks_only = |it: &String| {
        matches!(it.as_str(), "--compile-time-deps" | "--unit-graph" | "--build-plan")
    };
    let cargo_options = command.arguments.iter().take_while(|it| *it != "--");
    builds && !cargo_options.into_iter().any(looks_only)
}

/// The text names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no mode; expected one of off use tune require")]
pub struct UnknownMode(pub String);

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "off" => Ok(Mode::Off),
            "use" => Ok(Mode::Use),
            "tune" => Ok(Mode::Tune),
            "require" => Ok(Mode::Require),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Requested => f.write_str("TVMTUNE is set"),
            Reason::Unknown(text) => write!(f, "{}", UnknownMode(text.clone())),
            Reason::DocsRs => f.write_str("docs.rs builds documentation"),
            Reason::ForeignSource => f.write_str("the source is a package, not a working copy"),
            Reason::Cross => f.write_str("host and target differ"),
            Reason::OtherPackages => f.write_str("TVMTUNE_PACKAGES names other packages"),
            Reason::NoDevice => f.write_str("this machine runs no generated kernels"),
            Reason::Ci => f.write_str("CI is set; TVMTUNE=tune tunes all the same"),
            Reason::Command(name) => write!(f, "`cargo {name}` never measures"),
            Reason::NoCommand => f.write_str("the cargo command can't be told"),
            Reason::Build(name) => write!(f, "`cargo {name}` in a working copy"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `cargo build` of a working copy on a machine with a device, changed by `change`.
    #[track_caller]
    fn check(change: impl FnOnce(&mut Circumstances), mode: Mode, reason: Reason) {
        let mut build = Circumstances {
            package: "model".to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            device: true,
            ancestors: vec![line("/home/me/.cargo/bin/cargo build"), line("bash")],
            ..Circumstances::default()
        };
        change(&mut build);
        assert_eq!(resolve(&build), Resolution { mode, reason });
    }

    fn line(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn command(name: &str) -> Reason {
        Reason::Command(name.to_owned())
    }

    fn build(name: &str) -> Reason {
        Reason::Build(name.to_owned())
    }

    #[test]
    fn the_place_of_a_build_decides() {
        check(|_| {}, Mode::Tune, build("build"));
        check(|it| it.docs_rs = true, Mode::Off, Reason::DocsRs);
        check(|it| it.foreign_source = true, Mode::Use, Reason::ForeignSource);
        check(|it| it.target = "aarch64-apple-darwin".to_owned(), Mode::Use, Reason::Cross);
        check(|it| it.device = false, Mode::Use, Reason::NoDevice);
        check(|it| it.ci = true, Mode::Use, Reason::Ci);
        check(|it| it.ancestors.clear(), Mode::Use, Reason::NoCommand);
    }

    #[test]
    fn only_commands_whose_result_is_run_tune() {
        let cases = [
            ("cargo build --release", Mode::Tune, build("build")),
            ("cargo +nightly -v --config a=b test --no-run", Mode::Tune, build("test")),
            ("cargo -C ../model r -- --compile-time-deps", Mode::Tune, build("r")),
            ("C:\\tools\\cargo.exe bench", Mode::Tune, build("bench")),
            ("cargo check", Mode::Use, command("check")),
            ("cargo --color always doc --open", Mode::Use, command("doc")),
            ("cargo build --compile-time-deps", Mode::Use, command("build")),
            ("cargo package", Mode::Use, command("package")),
            ("cargo --version", Mode::Use, Reason::NoCommand),
            ("cargo --config", Mode::Use, Reason::NoCommand),
            ("cargo-tvmtune tune", Mode::Use, Reason::NoCommand),
        ];
        for (text, mode, reason) in cases {
            check(|it| it.ancestors = vec![line(text)], mode, reason);
        }
    }

    #[test]
    fn the_nearest_cargo_counts() {
        let clippy = ["cargo check --all-targets", "/bin/cargo-clippy clippy", "cargo clippy"];
        check(
            |it| it.ancestors = clippy.map(line).to_vec(),
            Mode::Use,
            Reason::Command("check".to_owned()),
        );
        let nextest = ["cargo test --no-run", "cargo-nextest nextest run", "cargo nextest run"];
        check(|it| it.ancestors = nextest.map(line).to_vec(), Mode::Tune, build("test"));
        let wrapped = ["sh -c ./script", "cargo test", "make check"];
        check(|it| it.ancestors = wrapped.map(line).to_vec(), Mode::Tune, build("test"));
    }

    #[test]
    fn what_is_asked_for_wins_where_it_can_be_had() {
        let ask = |text: &'static str| {
            move |it: &mut Circumstances| {
                it.requested = Some(text.to_owned());
                it.ancestors = vec![line("cargo check")];
            }
        };
        check(ask("off"), Mode::Off, Reason::Requested);
        check(ask("use"), Mode::Use, Reason::Requested);
        check(ask("tune"), Mode::Tune, Reason::Requested);
        check(ask("require"), Mode::Require, Reason::Requested);
        check(ask(" "), Mode::Use, command("check"));
        check(ask("always"), Mode::Use, Reason::Unknown("always".to_owned()));
        let ask_and = |change: fn(&mut Circumstances)| {
            move |it: &mut Circumstances| {
                ask("tune")(it);
                change(it);
            }
        };
        check(ask_and(|it| it.ci = true), Mode::Tune, Reason::Requested);
        check(ask_and(|it| it.foreign_source = true), Mode::Use, Reason::ForeignSource);
        check(ask_and(|it| it.host.clear()), Mode::Use, Reason::Cross);
        check(ask_and(|it| it.device = false), Mode::Use, Reason::NoDevice);
    }

    #[test]
    fn packages_that_may_tune_can_be_named() {
        let name =
            |text: &'static str| move |it: &mut Circumstances| it.packages = Some(text.to_owned());
        check(name("model"), Mode::Tune, build("build"));
        check(name("other,model"), Mode::Tune, build("build"));
        check(name(""), Mode::Tune, build("build"));
        check(name("models"), Mode::Use, Reason::OtherPackages);
    }

    #[test]
    fn only_what_a_command_prevented_is_tried_again() {
        let later = |mode, reason| Resolution { mode, reason }.may_tune_later();
        assert!(later(Mode::Use, command("check")));
        assert!(later(Mode::Use, Reason::NoCommand));
        assert!(later(Mode::Tune, build("build")));
        for reason in [Reason::Requested, Reason::ForeignSource, Reason::Ci, Reason::NoDevice] {
            assert!(!later(Mode::Use, reason));
        }
    }
}

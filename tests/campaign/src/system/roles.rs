//! The roles of this program: a section starts it as the command line of tvmtune, as a build script,
//! or as an application.

use std::env;
use std::process::ExitCode;

use tvmtune_tuner::measure::worker;

use super::launcher;

/// The variable of the environment that names the role.
pub const VARIABLE: &str = "CAMPAIGN_ROLE";

/// What this program is started as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// `cargo tvmtune`.
    CommandLine,
    /// The build script of a crate, and what the macro starts again.
    Script,
    /// An application that launches.
    Application,
}

impl Role {
    const ALL: [Self; 3] = [Self::CommandLine, Self::Script, Self::Application];

    /// Returns the value of the variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::CommandLine => "command-line",
            Self::Script => "script",
            Self::Application => "application",
        }
    }
}

/// Plays the role that the environment names, or that of a worker of the tuner; returns `None` if
/// this is the campaign itself.
pub fn play() -> Option<ExitCode> {
    worker::maybe_run();
    let name = env::var(VARIABLE).ok()?;
    Some(match Role::ALL.into_iter().find(|it| it.name() == name)? {
        Role::CommandLine => cargo_tvmtune::main(),
        Role::Script => {
            tvmtune_build::run();
            ExitCode::SUCCESS
        }
        Role::Application => launcher::main(),
    })
}

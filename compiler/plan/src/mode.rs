//! The mode of a build: the treatment of kernels without a record.
//!
//! `TVMTUNE` names one. A build script resolves it against the place of the build; the macro reads
//! it where there is no build script.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The treatment of kernels without a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Default schedules; the database is not read.
    Off,
    /// Records are used; what has none gets its default schedule and is counted in one warning.
    Use,
    /// As `Use`, and when the compiler emits code, what has no record is tuned within the budget.
    Tune,
    /// As `Use`, but a kernel without a valid record is an error where it is expanded.
    Require,
}

/// The text names no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`TVMTUNE={0}` names no mode; expected `off`, `use`, `tune` or `require`")]
pub struct UnknownMode(pub String);

impl Mode {
    /// Returns the mode that a value of `TVMTUNE` asks for; `None` if it is blank.
    ///
    /// # Errors
    ///
    /// If it names no mode: a misspelt `require` must not pass for a wish to tune.
    pub fn requested(text: &str) -> Result<Option<Self>, UnknownMode> {
        match text.trim() {
            "" => Ok(None),
            name => name.parse().map(Some),
        }
    }
}

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

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Off => "off",
            Mode::Use => "use",
            Mode::Tune => "tune",
            Mode::Require => "require",
        })
    }
}

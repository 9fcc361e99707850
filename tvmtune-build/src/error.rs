//! Errors of a build: of the machine, or of the author.

use std::path::PathBuf;

use tvmtune_plan::printable::shown;

/// A build can't go on; the text ends with what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", shown(path))]
pub struct Error {
    /// The file or folder it is about.
    pub path: PathBuf,
    /// The defect; no source, since the text of the error has it.
    pub kind: ErrorKind,
}

/// The kinds of errors.
#[derive(Debug, thiserror::Error)]
pub enum ErrorKind {
    /// A file can't be read or written.
    #[error(transparent)]
    Io(std::io::Error),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(ConfigError),
}

impl ErrorKind {
    /// Creates the error of that path.
    pub fn of(self, path: PathBuf) -> Error {
        Error { path, kind: self }
    }
}

/// The error of an invalid `tvmtune.toml`.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// It isn't TOML, or a field means nothing.
    #[error("{}{}", error.to_string().trim_end(), did_you_mean(*meant))]
    Toml {
        /// The place and the reason.
        error: Box<toml::de::Error>,
        /// The key that was meant by one that is not known, if one is like it.
        meant: Option<&'static str>,
    },
    /// A newer version wrote it.
    #[error(
        "schema {schema} is newer than {supported}, which this version reads; run `cargo update`"
    )]
    Newer {
        /// The version of the file.
        schema: u32,
        /// The newest version that is supported.
        supported: u32,
    },
}

fn did_you_mean(key: Option<&str>) -> String {
    key.map_or_else(String::new, |it| format!("; did you mean `{it}`?"))
}

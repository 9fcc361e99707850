//! Errors of a build: of the machine, or of the author.

use std::path::PathBuf;

/// A build can't go on; the text ends with what to do.
#[derive(Debug, thiserror::Error)]
#[error("{}: {kind}", path.display())]
pub struct Error {
    /// The file or folder it is about.
    pub path: PathBuf,
    /// The defect.
    #[source]
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
    #[error("{}", .0.to_string().trim_end())]
    Toml(Box<toml::de::Error>),
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

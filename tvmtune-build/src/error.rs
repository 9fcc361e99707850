//! Errors of a build: of the machine, or of the author.

use std::path::PathBuf;

use crate::config::ConfigError;

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
    /// The error about that path.
    pub fn of(self, path: PathBuf) -> Error {
        Error { path, kind: self }
    }
}

//! Errors of a worker.

use std::io;

/// Why a request failed.
#[derive(Debug)]
pub(super) enum WorkerError {
    /// The request failed; later ones may succeed.
    Failed(String),
    /// The GPU context of this process is broken.
    #[cfg_attr(not(feature = "cuda"), expect(dead_code, reason = "there is no context to break"))]
    Lost(String),
}

impl From<io::Error> for WorkerError {
    fn from(error: io::Error) -> Self {
        WorkerError::Failed(error.to_string())
    }
}

/// Creates the error of an invalid request.
pub(super) fn invalid(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, reason.to_owned())
}

//! Errors of files in a database.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::holder::Holder;
use crate::record::RecordError;

/// The error of a file. Most callers show it as a warning and continue.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// An operation of the operating system, as a verb, failed.
    #[error("cannot {step} `{path}`: {source}")]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    /// The file is not a usable record.
    #[error("`{path}` is not used: {source}")]
    Record { path: PathBuf, source: RecordError },
    /// The file is of another workload than its name says: `what` differs.
    #[error("`{path}` is not used: it is of another {what}; delete it, and tune again")]
    Foreign { path: PathBuf, what: &'static str },
    /// A file stands where a folder of records belongs.
    #[error("`{path}` is not used: it is a file, and records are in folders; move it away")]
    NoFolder { path: PathBuf },
    /// A file with compiled code is not what its record says.
    #[error("`{path}` is not used: {what}; restore it, or run `cargo tvmtune compile --record`")]
    Artifact { path: PathBuf, what: &'static str },
    /// Another process held a lock for longer than there was time to wait.
    #[error(
        "waited {} s for {holder}, which has locked `{path}`; {}",
        .waited.as_secs(), .holder.advice()
    )]
    Busy { path: PathBuf, waited: Duration, holder: Holder },
    /// The file changed again and again while it was merged with.
    #[error("`{path}` was not changed: other processes write it all the time; try again later")]
    Contended { path: PathBuf },
    /// Nothing can be written to the cache.
    #[error(
        "no result can be kept in `{path}`: {source}; make room for it, or set `TVMTUNE_CACHE` to \
         another folder"
    )]
    Unwritable { path: PathBuf, source: io::Error },
    /// There is no folder for results.
    #[error("there is no cache folder to write to; set `TVMTUNE_CACHE` to one")]
    NoCache,
}

impl DatabaseError {
    /// Creates the error of a failed operation.
    pub fn io(step: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { step, path: path.to_owned(), source }
    }
}

//! Errors of files in a database.
//!
//! Names of files and texts in them are others', and are shown without control characters.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::holder::Holder;
use crate::printable::{Printable, shown};
use crate::record::RecordError;
use crate::record::accuracy::Loss;

/// The error of a file. Most callers show it as a warning and continue.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// An operation of the operating system, as a verb, failed.
    #[error("cannot {step} `{}`: {source}", shown(path))]
    Io { step: &'static str, path: PathBuf, source: io::Error },
    /// The file is not a usable record.
    #[error("`{}` is not used: {}", shown(path), Printable(source))]
    Record { path: PathBuf, source: RecordError },
    /// The file is of another workload than its name says: `what` differs.
    #[error("`{}` is not used: it is of another {what}; delete it, and tune again", shown(path))]
    Foreign { path: PathBuf, what: &'static str },
    /// A file stands where a folder of records belongs.
    #[error(
        "`{}` is not used: it is a file, and records are in folders; move it away",
        shown(path)
    )]
    NoFolder { path: PathBuf },
    /// The folder of a program leads out of the database.
    #[error(
        "`{}` is not written to: it is a link, and records stay in their database; replace it by a \
         folder",
        shown(path)
    )]
    Link { path: PathBuf },
    /// A folder has more files than are looked at.
    #[error("`{}` has more than {limit} {what}: others are not used; remove some", shown(path))]
    TooMany { path: PathBuf, what: &'static str, limit: usize },
    /// A file with compiled code is not what its record says.
    #[error(
        "`{}` is not used: {what}; restore it, or run `cargo tvmtune compile --record`",
        shown(path)
    )]
    Artifact { path: PathBuf, what: &'static str },
    /// A schedule would be replaced by one that is less accurate.
    #[error(
        "`{}` was not changed: it would have {loss}; say `--less-accurate` to take it all the same",
        shown(path)
    )]
    LessAccurate { path: PathBuf, loss: Loss },
    /// Another process held a lock for longer than there was time to wait.
    #[error(
        "waited {} s for {holder}, which has locked `{}`; {}",
        .waited.as_secs(), shown(path), .holder.advice()
    )]
    Busy { path: PathBuf, waited: Duration, holder: Holder },
    /// The file changed again and again while it was merged with.
    #[error(
        "`{}` was not changed: other processes write it all the time; try again later",
        shown(path)
    )]
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

    /// Returns the file or folder that it is about.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Io { path, .. }
            | Self::Record { path, .. }
            | Self::Foreign { path, .. }
            | Self::NoFolder { path }
            | Self::Link { path }
            | Self::TooMany { path, .. }
            | Self::LessAccurate { path, .. }
            | Self::Artifact { path, .. } => Some(path),
            // Nothing about these would change with the file.
            Self::Busy { .. }
            | Self::Contended { .. }
            | Self::Unwritable { .. }
            | Self::NoCache => None,
        }
    }
}

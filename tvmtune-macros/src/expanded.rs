//! The list of the ops that only expansions show: those that another macro wrote, that stand in an
//! included file, or behind a `cfg` that a build script cannot decide.
//!
//! In: every op that a compiler expands while it emits code. Out: a file of the target in the
//! package's folder of the cache. Next: the build script plans, tunes and counts what is listed.
//!
//! # Invariant
//!
//! - The list of a target is replaced as a whole by each compiler that emits its code, so that an op
//!   which is gone leaves it.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::Once;

use tvmtune_plan::handoff::{ExpandedOp, expanded_entry, expanded_file};

/// Reports an op; it is listed unless it stands in the sources.
///
/// Errors are ignored: an op that isn't listed is planned when it is expanded, and a build must not
/// fail for want of a cache.
pub(crate) fn report(cache: &Path, target: &str, op: &ExpandedOp, is_in_sources: bool) {
    static FIRST: Once = Once::new();
    let path = expanded_file(cache, target);
    FIRST.call_once(|| {
        let _ = fs::remove_file(&path);
    });
    if is_in_sources {
        return;
    }
    let append = || {
        fs::create_dir_all(cache)?;
        let mut file = File::options().create(true).append(true).open(&path)?;
        file.write_all(expanded_entry(op).as_bytes())
    };
    let _ = append();
}

//! Records of earlier releases, of programs that have another identity by now.
//!
//! The identity of a program is that of its text after simplification, so a release that simplifies more
//! gives some programs another one. Their records hold the text as it was: simplified by this release, it is
//! the program's of now, and what was measured serves it.
//!
//! In: the folder of a program in a store that other releases write, too. Out: its records, as those of the
//! program's identity of now.

use std::path::{Path, PathBuf};

use tvmtune_ir::dag::{Dag, print};
use tvmtune_ir::poly::Interval;

use super::Query;
use super::files::{parts, read, records_in};
use crate::record::{GENERATOR, Record};

/// Files of a folder that are opened: one for each text that the program had, and each device.
const MAX_READ: usize = 64;

/// Returns the records in a folder that earlier releases made of the program.
pub(super) fn records(folder: &Path, query: &Query<'_>) -> Vec<(Record, PathBuf)> {
    let id = query.workload.0.short();
    let is_other = |it: &PathBuf| parts(it).is_some_and(|(of, _)| of != id);
    let others = records_in(folder).into_iter().filter(is_other).take(MAX_READ);
    others.filter_map(|path| Some((renamed(read(&path).ok()?, query)?, path))).collect()
}

/// Returns a record with the program's identity of now, if it is one of the program.
fn renamed(mut record: Record, query: &Query<'_>) -> Option<Record> {
    if record.generator >= GENERATOR {
        return None;
    }
    let dag: Dag = record.dag.parse().ok()?;
    let ranges: Vec<Interval> = dag.dims.iter().map(|it| it.range).collect();
    // Over all extents of the program, this simplifies and nothing else.
    let now = print::canonical(&dag.specialize(&ranges));
    (now == query.dag).then(|| {
        record.workload = query.workload;
        record.dag = query.dag.to_owned();
        record
    })
}

//! The loops around a statement, by how they run.

use tvmtune_schedule::LoopKind;

use super::product;
use super::row::Row;
use super::site::{Loop, Site};

/// Where a loop runs, by place in the layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Position {
    Nowhere,
    InnerSpatial,
    MiddleSpatial,
    OuterSpatial,
    InnerReduce,
    MiddleReduce,
    OuterReduce,
    Mixed,
}

/// How a device runs a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Serial,
    Vectorized,
    Written,
    Parallel,
    Block,
    Thread,
    /// Written out, around threads: each thread stands for several.
    Virtual,
}

/// How a device runs each of the loops around a statement.
pub(super) fn runs(site: &Site<'_>, is_gpu: bool) -> Vec<Run> {
    let threads = site.loops.iter().rposition(|it| it.kind == LoopKind::Thread);
    let run = |(depth, it): (usize, &Loop)| match it.kind {
        LoopKind::Vectorized => Run::Vectorized,
        LoopKind::Unrolled if is_gpu && threads > Some(depth) => Run::Virtual,
        LoopKind::Unrolled | LoopKind::Tensorized => Run::Written,
        LoopKind::Parallel | LoopKind::Persistent(_) | LoopKind::StreamK(_) | LoopKind::Cluster => {
            match is_gpu {
                true => Run::Block,
                false => Run::Parallel,
            }
        }
        LoopKind::Thread if is_gpu => Run::Thread,
        LoopKind::Thread
        | LoopKind::Serial
        | LoopKind::Pipelined(_)
        | LoopKind::WarpSpecialized(_) => Run::Serial,
    };
    site.loops.iter().enumerate().map(run).collect()
}

/// Adds the groups of a statement's loops.
pub(super) fn add(row: &mut Row, site: &Site<'_>, runs: &[Run], is_gpu: bool) {
    for run in [Run::Vectorized, Run::Written, Run::Parallel] {
        let found: Vec<&Loop> = that_run(site, runs, run).collect();
        row.add(found.len() as f64);
        row.add(if found.is_empty() { 0.0 } else { product(found.iter().map(|it| it.extent)) });
        row.add(found.last().map_or(0.0, |it| it.extent));
        let mut positions = found.iter().map(|it| position(site, it));
        let first = positions.next().unwrap_or(Position::Nowhere);
        let position = if positions.all(|it| it == first) { first } else { Position::Mixed };
        row.add_choice(position as usize, Position::Mixed as usize + 1);
    }
    row.add_raw(if is_gpu { 1.0 } else { 0.0 });
    for run in [Run::Block, Run::Thread] {
        let extents: Vec<f64> = that_run(site, runs, run).map(|it| it.extent).collect();
        // The innermost is x; more than three are z together.
        let mut inner = extents.iter().rev().copied();
        let (x, y) = (inner.next(), inner.next());
        for extent in [x.unwrap_or(1.0), y.unwrap_or(1.0), product(inner)] {
            row.add(if is_gpu { extent } else { 0.0 });
        }
    }
    let copies = product(that_run(site, runs, Run::Virtual).map(|it| it.extent));
    row.add(if is_gpu { copies } else { 0.0 });
}

/// How many copies of a statement the code holds.
pub(super) fn copies(site: &Site<'_>, runs: &[Run]) -> f64 {
    let is_written = |run: &Run| matches!(run, Run::Vectorized | Run::Written | Run::Virtual);
    let loops = site.loops.iter().zip(runs).filter(|(_, run)| is_written(run));
    product(loops.map(|(it, _)| it.extent))
}

fn that_run<'a>(site: &'a Site<'_>, runs: &'a [Run], run: Run) -> impl Iterator<Item = &'a Loop> {
    site.loops.iter().zip(runs).filter(move |(_, it)| **it == run).map(|(it, _)| it)
}

/// Where a loop runs: along which dimension of what is written, or in which loop of the reduction.
fn position(site: &Site<'_>, it: &Loop) -> Position {
    let mut along = (0..site.index.len()).filter(|n| site.index[*n].mentions(it.var));
    match (along.next(), along.next()) {
        (Some(_), Some(_)) => Position::Mixed,
        (Some(n), None) if n + 1 == site.index.len() => Position::InnerSpatial,
        (Some(0), None) => Position::OuterSpatial,
        (Some(_), None) => Position::MiddleSpatial,
        (None, _) => {
            let is_reduce = |it: &&Loop| !site.writes_along(it.var);
            let reduce: Vec<&Loop> = site.loops.iter().filter(is_reduce).collect();
            if reduce.last().is_some_and(|last| last.var == it.var) {
                Position::InnerReduce
            } else if reduce.first().is_some_and(|first| first.var == it.var) {
                Position::OuterReduce
            } else {
                Position::MiddleReduce
            }
        }
    }
}

//! Features of the loops around a statement, grouped by how they execute, as in Ansor.
//!
//! In: the site of a statement in a nest. Out: numbers of its row: extents of unrolled, vectorized,
//! parallel and thread loops, and their positions.

use tvmtune_schedule::LoopKind;

use super::number::product;
use super::row::{Device, Row};
use super::site::{Loop, Site};

/// The position of a loop among the dimensions of its statement; the order is that of the layout.
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

/// The execution kind of a loop on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Serial,
    Vectorized,
    Unrolled,
    Parallel,
    Block,
    Thread,
    /// Unrolled around threads: each thread does the work of several.
    Virtual,
}

/// Returns the execution kind of each loop around a statement.
pub(super) fn runs(site: &Site<'_>, device: Device) -> Vec<Run> {
    let is_gpu = device == Device::Gpu;
    let threads = site.loops.iter().rposition(|it| it.kind == LoopKind::Thread);
    let run = |(depth, it): (usize, &Loop)| match it.kind {
        LoopKind::Vectorized => Run::Vectorized,
        LoopKind::Unrolled if is_gpu && threads > Some(depth) => Run::Virtual,
        LoopKind::Unrolled | LoopKind::Tensorized => Run::Unrolled,
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

/// Adds the groups of the layout about a statement's loops.
pub(super) fn add(row: &mut Row, site: &Site<'_>, runs: &[Run], device: Device) {
    let is_gpu = device == Device::Gpu;
    for run in [Run::Vectorized, Run::Unrolled, Run::Parallel] {
        let loops: Vec<&Loop> = loops_that(site, runs, run).collect();
        row.add(loops.len() as f64);
        row.add(if loops.is_empty() { 0.0 } else { product(loops.iter().map(|it| it.extent)) });
        row.add(loops.last().map_or(0.0, |it| it.extent));
        let mut positions = loops.iter().map(|it| position(site, it));
        let first = positions.next().unwrap_or(Position::Nowhere);
        let position = if positions.all(|it| it == first) { first } else { Position::Mixed };
        row.add_choice(position as usize, Position::Mixed as usize + 1);
    }
    row.add_raw(if is_gpu { 1.0 } else { 0.0 });
    for run in [Run::Block, Run::Thread] {
        let extents: Vec<f64> = loops_that(site, runs, run).map(|it| it.extent).collect();
        // The innermost is x; more than three are z together.
        let mut inner = extents.iter().rev().copied();
        let (x, y) = (inner.next(), inner.next());
        for extent in [x.unwrap_or(1.0), y.unwrap_or(1.0), product(inner)] {
            row.add(if is_gpu { extent } else { 0.0 });
        }
    }
    let copies = product(loops_that(site, runs, Run::Virtual).map(|it| it.extent));
    row.add(if is_gpu { copies } else { 0.0 });
}

/// Returns the number of copies of a statement in the code.
pub(super) fn copies(site: &Site<'_>, runs: &[Run]) -> f64 {
    let is_copied = |run: &Run| matches!(run, Run::Vectorized | Run::Unrolled | Run::Virtual);
    let loops = site.loops.iter().zip(runs).filter(|(_, run)| is_copied(run));
    product(loops.map(|(it, _)| it.extent))
}

/// Returns the loops of an execution kind.
fn loops_that<'a>(site: &'a Site<'_>, runs: &'a [Run], run: Run) -> impl Iterator<Item = &'a Loop> {
    site.loops.iter().zip(runs).filter(move |(_, it)| **it == run).map(|(it, _)| it)
}

/// Returns the position of a loop: among the dimensions that are written, or in the reduction.
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

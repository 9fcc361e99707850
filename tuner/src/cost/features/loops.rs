//! Features of the loops around a statement, grouped by how they execute, as in Ansor.
//!
//! In: a statement of a nest. Out: numbers of its row: extents of unrolled, vectorized,
//! parallel and thread loops, and their positions.

use tvmtune_schedule::LoopKind;

use super::row::{Row, product};
use super::statement::{Loop, Statement};
use crate::device::Device;

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

/// The annotation of a loop: how it executes on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Annotation {
    Serial,
    Vectorized,
    Unrolled,
    Parallel,
    Block,
    Thread,
    /// Unrolled around threads: each thread does the work of several.
    VirtualThread,
}

/// Returns the annotation of each loop around a statement.
pub(super) fn annotations(stmt: &Statement<'_>, device: Device) -> Vec<Annotation> {
    let is_gpu = device == Device::Gpu;
    let threads = stmt.loops.iter().rposition(|it| it.kind == LoopKind::Thread);
    let annotation = |(depth, it): (usize, &Loop)| match it.kind {
        LoopKind::Vectorized => Annotation::Vectorized,
        LoopKind::Unrolled if is_gpu && threads > Some(depth) => Annotation::VirtualThread,
        LoopKind::Unrolled | LoopKind::Tensorized => Annotation::Unrolled,
        LoopKind::Parallel | LoopKind::Persistent(_) | LoopKind::StreamK(_) | LoopKind::Cluster => {
            match is_gpu {
                true => Annotation::Block,
                false => Annotation::Parallel,
            }
        }
        LoopKind::Thread if is_gpu => Annotation::Thread,
        LoopKind::Thread
        | LoopKind::Serial
        | LoopKind::Pipelined(_)
        | LoopKind::WarpSpecialized(_) => Annotation::Serial,
    };
    stmt.loops.iter().enumerate().map(annotation).collect()
}

/// Adds the groups of the layout about a statement's loops.
pub(super) fn add(row: &mut Row, stmt: &Statement<'_>, annotations: &[Annotation], device: Device) {
    let is_gpu = device == Device::Gpu;
    for annotation in [Annotation::Vectorized, Annotation::Unrolled, Annotation::Parallel] {
        let loops: Vec<&Loop> = annotated(stmt, annotations, annotation).collect();
        row.add(loops.len() as f64);
        row.add(if loops.is_empty() { 0.0 } else { product(loops.iter().map(|it| it.extent)) });
        row.add(loops.last().map_or(0.0, |it| it.extent));
        let mut positions = loops.iter().map(|it| position(stmt, it));
        let first = positions.next().unwrap_or(Position::Nowhere);
        let position = if positions.all(|it| it == first) { first } else { Position::Mixed };
        row.add_choice(position as usize, Position::Mixed as usize + 1);
    }
    row.add_raw(if is_gpu { 1.0 } else { 0.0 });
    for annotation in [Annotation::Block, Annotation::Thread] {
        let extents: Vec<f64> =
            annotated(stmt, annotations, annotation).map(|it| it.extent).collect();
        // The innermost is x; more than three are z together.
        let mut inner = extents.iter().rev().copied();
        let (x, y) = (inner.next(), inner.next());
        for extent in [x.unwrap_or(1.0), y.unwrap_or(1.0), product(inner)] {
            row.add(if is_gpu { extent } else { 0.0 });
        }
    }
    let virtual_threads =
        product(annotated(stmt, annotations, Annotation::VirtualThread).map(|it| it.extent));
    row.add(if is_gpu { virtual_threads } else { 0.0 });
}

/// Returns the number of copies of a statement in the code.
pub(super) fn unroll_factor(stmt: &Statement<'_>, annotations: &[Annotation]) -> f64 {
    let is_copied = |annotation: &Annotation| {
        matches!(
            annotation,
            Annotation::Vectorized | Annotation::Unrolled | Annotation::VirtualThread
        )
    };
    let loops = stmt.loops.iter().zip(annotations).filter(|(_, annotation)| is_copied(annotation));
    product(loops.map(|(it, _)| it.extent))
}

/// Returns the loops with an annotation.
fn annotated<'a>(
    stmt: &'a Statement<'_>,
    annotations: &'a [Annotation],
    annotation: Annotation,
) -> impl Iterator<Item = &'a Loop> {
    stmt.loops.iter().zip(annotations).filter(move |(_, it)| **it == annotation).map(|(it, _)| it)
}

/// Returns the position of a loop: among the dimensions that are written, or in the reduction.
fn position(stmt: &Statement<'_>, it: &Loop) -> Position {
    let mut along = (0..stmt.index.len()).filter(|n| stmt.index[*n].mentions(it.var));
    match (along.next(), along.next()) {
        (Some(_), Some(_)) => Position::Mixed,
        (Some(n), None) if n + 1 == stmt.index.len() => Position::InnerSpatial,
        (Some(0), None) => Position::OuterSpatial,
        (Some(_), None) => Position::MiddleSpatial,
        (None, _) => {
            let is_reduce = |it: &&Loop| !stmt.writes_along(it.var);
            let reduce: Vec<&Loop> = stmt.loops.iter().filter(is_reduce).collect();
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

//! The buffers that a statement accesses: volume, layout and reuse.
//!
//! For each of the five with most lines: read, written or both; bytes, distinct bytes, lines of 64
//! bytes, distinct lines; whether and how elements are used again (read again by a loop, touched
//! again by another statement, not at all), after how many iterations and bytes, and how often;
//! the four sizes for each use; and how many elements the innermost loop moves on.

use super::row::{MAX, Row, product};
use super::statement::{BufferAccess, Loop, Statement, Statements};

/// Buffers in a row.
const MAX_BUFFERS: usize = 5;
/// Numbers for each.
const WIDTH: usize = 18;
const LINE_BYTES: f64 = 64.0;
/// The stride, in elements, of an access whose index depends on data.
const UNKNOWN_STRIDE: f64 = 2.0;

/// The numbers of one buffer.
#[derive(Debug)]
struct BufferFeatures {
    /// Read, written, or both.
    direction: usize,
    bytes: f64,
    unique_bytes: f64,
    lines: f64,
    unique_lines: f64,
    reuse: Reuse,
    stride: f64,
}

/// The reuse of elements.
#[derive(Clone, Copy, Debug)]
struct Reuse {
    kind: usize,
    iterations: f64,
    bytes: f64,
    times: f64,
}

/// Adds the buffers of a statement, at most [`MAX_BUFFERS`].
pub(super) fn add(row: &mut Row, stmts: &Statements<'_>, stmt: &Statement<'_>) {
    let mut all: Vec<BufferFeatures> =
        stmt.accesses.iter().map(|it| describe(stmts, stmt, it)).collect();
    all.sort_by(|a, b| b.lines.total_cmp(&a.lines).then(b.bytes.total_cmp(&a.bytes)));
    all.truncate(MAX_BUFFERS);
    for it in &all {
        it.add(row);
    }
    (all.len() * WIDTH..MAX_BUFFERS * WIDTH).for_each(|_| row.add_raw(0.0));
}

impl BufferFeatures {
    fn add(&self, row: &mut Row) {
        let sizes = [self.bytes, self.unique_bytes, self.lines, self.unique_lines];
        row.add_choice(self.direction, 3);
        sizes.iter().for_each(|it| row.add(*it));
        row.add_choice(self.reuse.kind, 3);
        row.add(self.reuse.iterations);
        row.add(self.reuse.bytes);
        row.add(self.reuse.times);
        // No reuse is worse than a single one.
        let times = if self.reuse.times > 0.0 { self.reuse.times } else { 0.5 };
        sizes.iter().for_each(|it| row.add(it / times));
        row.add(self.stride);
    }
}

fn describe(
    stmts: &Statements<'_>,
    stmt: &Statement<'_>,
    access: &BufferAccess<'_>,
) -> BufferFeatures {
    let times = stmt.times();
    let unique_bytes = access.touched[0] * access.element_bytes;
    let moving = stmt.loops.iter().rposition(|it| access.mentions(it.var));
    let stride = moving.map_or(0.0, |n| stride(stmts, access, &stmt.loops[n]));
    let lines = moving.map_or(1.0, |n| {
        let skipped = product(stmt.loops[n + 1..].iter().map(|it| it.extent));
        (times / skipped * (stride * access.element_bytes / LINE_BYTES).min(1.0)).max(1.0)
    });
    let is_innermost = moving.is_some_and(|it| it + 1 == stmt.loops.len());
    BufferFeatures {
        direction: match (access.reads, access.writes) {
            (true, true) => 2,
            (false, true) => 1,
            (_, false) => 0,
        },
        bytes: times * access.element_bytes,
        unique_bytes,
        lines,
        unique_lines: (unique_bytes / contiguous_bytes(stmts, access).min(LINE_BYTES)).max(1.0),
        reuse: reuse(stmts, stmt, access),
        stride: if is_innermost { stride } else { 0.0 },
    }
}

/// Returns the number of contiguous bytes that are all touched.
fn contiguous_bytes(stmts: &Statements<'_>, access: &BufferAccess<'_>) -> f64 {
    let widths: Vec<f64> = access.widths(&stmts.ranges, 0).collect();
    let mut bytes = access.element_bytes;
    for (width, all) in widths.iter().zip(&access.shape).rev() {
        bytes *= width;
        if width < all {
            break;
        }
    }
    bytes
}

/// Returns the stride along a loop, in elements, of the access with the smallest one.
fn stride(stmts: &Statements<'_>, access: &BufferAccess<'_>, it: &Loop) -> f64 {
    let strides = access.indices.iter().map(|index| {
        let mut stride = 0.0;
        let mut size = 1.0;
        for (subscript, extent) in index.iter().zip(&access.shape).rev() {
            let step = subscript.map(|poly| stmts.ranges.step(poly, it.var));
            stride += size * step.unwrap_or(UNKNOWN_STRIDE);
            size *= extent;
        }
        if stride == 0.0 { UNKNOWN_STRIDE } else { stride.abs() }
    });
    strides.fold(MAX, f64::min)
}

/// Finds the innermost loop that reuses elements of a buffer.
fn reuse(stmts: &Statements<'_>, stmt: &Statement<'_>, access: &BufferAccess<'_>) -> Reuse {
    let alloc_depth = stmts.alloc_depth(access.tensor);
    let mut iterations = 1.0;
    let mut bytes: f64 = stmt.accesses.iter().map(|it| it.element_bytes).sum();
    for (depth, it) in stmt.loops.iter().enumerate().rev() {
        if let Some(inside) = stmt.loops.get(depth + 1) {
            iterations *= inside.extent;
            bytes = stmts.bytes_of(inside);
        }
        if depth >= alloc_depth && !access.mentions(it.var) {
            return Reuse { kind: 0, iterations, bytes, times: it.extent };
        }
        if let Some(reuse) = reuse_by_others(stmts, stmt, access, depth) {
            return reuse;
        }
    }
    Reuse { kind: 2, iterations: 0.0, bytes: 0.0, times: 0.0 }
}

/// Returns the reuse by another statement in the same iteration of a loop.
fn reuse_by_others(
    stmts: &Statements<'_>,
    stmt: &Statement<'_>,
    access: &BufferAccess<'_>,
    depth: usize,
) -> Option<Reuse> {
    let (mut n, mut bytes, mut min_touched) = (0, 0.0, MAX);
    for other in stmts.all.iter().filter(|it| it.is_inside(stmt, depth)) {
        for it in &other.accesses {
            let touched = it.touched[depth + 1];
            bytes += touched * it.element_bytes;
            if it.tensor == access.tensor {
                n += 1;
                min_touched = min_touched.min(touched);
            }
        }
    }
    (n > 1).then(|| Reuse { kind: 1, iterations: min_touched, bytes, times: f64::from(n) - 1.0 })
}

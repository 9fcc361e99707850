//! The curve of arithmetic intensity: operations per byte touched, within more and more of the loops.
//!
//! Each level of the cache hierarchy holds the footprint of some loop, so the curve is sampled at
//! equal steps of the logarithm of the number of operations.

use super::row::{MAX, Row};
use super::statement::{Statement, Statements};

/// Samples of the curve.
const SAMPLES: usize = 10;

/// Adds the curve of a statement with that many float operations per run.
pub(super) fn add(row: &mut Row, stmts: &Statements<'_>, stmt: &Statement<'_>, operations: f64) {
    let curve = curve(stmts, stmt, operations);
    let Some(all) = curve.last().map(|it| it.0) else {
        (0..SAMPLES).for_each(|_| row.add_raw(0.0));
        return;
    };
    for sample in 1..=SAMPLES {
        row.add(interpolate(&curve, all * sample as f64 / SAMPLES as f64));
    }
}

/// Returns a point for each loop, innermost first: the logarithm of the operations inside, and the
/// operations per byte.
fn curve(stmts: &Statements<'_>, stmt: &Statement<'_>, operations: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    if operations == 0.0 {
        return points;
    }
    let mut operations = operations;
    for it in stmt.loops.iter().rev() {
        operations = (operations * it.extent).min(MAX);
        points.push((operations.log2(), operations / stmts.bytes_of(it).max(1.0)));
    }
    points
}

/// Interpolates the curve at the logarithm of a number of operations.
fn interpolate(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.iter().position(|it| it.0 >= x).unwrap_or(curve.len() - 1);
    let (x1, y1) = curve[after];
    let Some(before) = after.checked_sub(1) else { return y1 };
    let (x0, y0) = curve[before];
    if x1 > x0 { y0 + (y1 - y0) * ((x - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { y1 }
}

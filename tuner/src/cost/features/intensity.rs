//! How many operations there are for each byte touched, by more and more of the loops.
//!
//! What fits the first-level cache, the second, and so on, says where operations find what they
//! need. So the curve is sampled at powers of the number of operations, not at multiples of it.

use super::row::Row;
use super::site::{Site, Sites};

/// How often the curve is sampled.
const SAMPLES: usize = 10;

/// Adds the curve of a statement that takes so many operations on floats when it runs once.
pub(super) fn add(row: &mut Row, sites: &Sites<'_>, site: &Site<'_>, operations: f64) {
    let curve = curve(sites, site, operations);
    let Some(all) = curve.last().map(|it| it.0) else {
        (0..SAMPLES).for_each(|_| row.add_raw(0.0));
        return;
    };
    for sample in 1..=SAMPLES {
        row.add(at(&curve, all * sample as f64 / SAMPLES as f64));
    }
}

/// For each loop, innermost first: the logarithm of the operations in there, and those for a byte.
fn curve(sites: &Sites<'_>, site: &Site<'_>, operations: f64) -> Vec<(f64, f64)> {
    let mut points = Vec::new();
    if operations == 0.0 {
        return points;
    }
    let mut operations = operations;
    for it in site.loops.iter().rev() {
        operations = (operations * it.extent).min(super::MOST);
        points.push((operations.log2(), operations / sites.bytes_of(it).max(1.0)));
    }
    points
}

/// The curve at some number of operations, between its points.
fn at(curve: &[(f64, f64)], x: f64) -> f64 {
    let after = curve.iter().position(|it| it.0 >= x).unwrap_or(curve.len() - 1);
    let (x1, y1) = curve[after];
    let Some(before) = after.checked_sub(1) else { return y1 };
    let (x0, y0) = curve[before];
    if x1 > x0 { y0 + (y1 - y0) * ((x - x0) / (x1 - x0)).clamp(0.0, 1.0) } else { y1 }
}

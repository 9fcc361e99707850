//! The rows of a nest: all groups, in the order of the layout.

use std::collections::BTreeMap;

use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::nest::Scope;

use super::row::{Row, product};
use super::statement::{Statement, Statements};
use super::{WIDTH, buffer, intensity, loops, operations};
use crate::device::Device;

/// Computes the rows of all buffers that are written, in order of their ids. The last numbers of
/// each are about the whole program: its analytic cost, and that per thousand operations, which
/// compares across tasks of any size.
pub(super) fn rows(stmts: &Statements<'_>, device: Device, analytic_cost: f64) -> Vec<f32> {
    let mut written: BTreeMap<TensorId, Vec<&Statement<'_>>> = BTreeMap::new();
    for stmt in &stmts.all {
        written.entry(stmt.tensor).or_default().push(stmt);
    }
    let n_operations =
        |it: &Statement<'_>| operations::count(stmts, it).iter().sum::<f64>() * it.times();
    let operations: f64 = stmts.all.iter().map(n_operations).sum();
    let mut row = Row(Vec::with_capacity(written.len() * WIDTH));
    for of_buffer in written.values() {
        add(&mut row, stmts, of_buffer, device);
        row.add(analytic_cost);
        row.add(analytic_cost / operations.max(1.0) * 1e3);
    }
    row.0
}

/// Adds the row of a buffer.
fn add(row: &mut Row, stmts: &Statements<'_>, of_buffer: &[&Statement<'_>], device: Device) {
    let mut sums = [0.0; 16];
    for stmt in of_buffer {
        for (sum, n) in sums.iter_mut().zip(operations::count(stmts, stmt)) {
            *sum += n * stmt.times();
        }
    }
    sums.iter().for_each(|it| row.add(*it));
    // The statement that updates runs more often than the one that initializes, or as often and later.
    let Some(stmt) = of_buffer.iter().max_by(|a, b| a.times().total_cmp(&b.times())) else {
        return;
    };
    let annotations = loops::annotations(stmt, device);
    loops::add(row, stmt, &annotations, device);
    buffer::add(row, stmts, stmt);
    intensity::add(row, stmts, stmt, operations::on_floats(&operations::count(stmts, stmt)));
    add_memory(row, stmts, stmt);
    row.add(stmt.times());
    row.add(stmt.loops.len() as f64);
    row.add(loops::unroll_factor(stmt, &annotations));
}

/// Adds the size of the buffer and its number of allocations; zeros for arguments.
fn add_memory(row: &mut Row, stmts: &Statements<'_>, stmt: &Statement<'_>) {
    let access = &stmt.accesses[0];
    if stmts.nest.buffer(stmt.tensor).scope == Scope::Argument {
        (0..4).for_each(|_| row.add_raw(0.0));
        return;
    }
    let allocations =
        product(stmt.loops[..stmts.alloc_depth(stmt.tensor)].iter().map(|it| it.extent));
    let elements = product(access.shape.iter().copied());
    row.add(elements * access.element_bytes);
    row.add(elements * allocations);
    row.add(allocations);
    row.add(stmt.times() / allocations);
}

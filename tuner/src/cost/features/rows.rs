//! The rows of a nest: all groups, in the order of the layout.

use std::collections::BTreeMap;

use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::nest::Scope;

use super::program::{self, Program};
use super::row::{Device, Row};
use super::site::{Site, Sites};
use super::{buffer, intensity, loops, number::product, operations};

/// Computes the rows of all buffers that are written, in order of their ids.
pub(super) fn rows(sites: &Sites<'_>, device: Device, program: &Program) -> Vec<f32> {
    let mut written: BTreeMap<TensorId, Vec<&Site<'_>>> = BTreeMap::new();
    for site in &sites.all {
        written.entry(site.tensor).or_default().push(site);
    }
    let n_operations =
        |it: &Site<'_>| operations::count(sites, it).iter().sum::<f64>() * it.times();
    let operations = sites.all.iter().map(n_operations).sum();
    let mut row = Row(Vec::with_capacity(written.len() * (program::FROM + program::WIDTH)));
    for of_buffer in written.values() {
        add(&mut row, sites, of_buffer, device);
        program.add(&mut row, operations);
    }
    row.0
}

/// Adds the row of a buffer.
fn add(row: &mut Row, sites: &Sites<'_>, of_buffer: &[&Site<'_>], device: Device) {
    let mut sums = [0.0; 16];
    for site in of_buffer {
        for (sum, n) in sums.iter_mut().zip(operations::count(sites, site)) {
            *sum += n * site.times();
        }
    }
    sums.iter().for_each(|it| row.add(*it));
    // The statement that updates runs more often than the one that initializes, or as often and later.
    let Some(site) = of_buffer.iter().max_by(|a, b| a.times().total_cmp(&b.times())) else {
        return;
    };
    let runs = loops::runs(site, device);
    loops::add(row, site, &runs, device);
    buffer::add(row, sites, site);
    intensity::add(row, sites, site, operations::on_floats(&operations::count(sites, site)));
    add_memory(row, sites, site);
    row.add(site.times());
    row.add(site.loops.len() as f64);
    row.add(loops::copies(site, &runs));
}

/// Adds the size of the buffer and its number of allocations; zeros for arguments.
fn add_memory(row: &mut Row, sites: &Sites<'_>, site: &Site<'_>) {
    let touch = &site.touches[0];
    if sites.nest.buffer(site.tensor).scope == Scope::Argument {
        (0..4).for_each(|_| row.add_raw(0.0));
        return;
    }
    let allocations =
        product(site.loops[..sites.alloc_depth(site.tensor)].iter().map(|it| it.extent));
    let elements = product(touch.shape.iter().copied());
    row.add(elements * touch.element_bytes);
    row.add(elements * allocations);
    row.add(allocations);
    row.add(site.times() / allocations);
}

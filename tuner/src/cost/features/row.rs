//! The rows of a nest: all groups, in the order of the layout.

use std::collections::BTreeMap;

use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::nest::Scope;

use super::program::Program;
use super::site::{Site, Sites};
use super::{WIDTH, buffer, intensity, loops, operations, product, slog};

/// A row that is being put together.
#[derive(Debug)]
pub(super) struct Row(Vec<f32>);

impl Row {
    /// Adds a number that counts by its order of magnitude.
    pub(super) fn add(&mut self, number: f64) {
        self.0.push(slog(number));
    }

    /// Adds a number as it is.
    pub(super) fn add_raw(&mut self, number: f32) {
        self.0.push(number);
    }

    /// Adds which of so many it is.
    pub(super) fn add_choice(&mut self, choice: usize, n: usize) {
        (0..n).for_each(|it| self.add_raw(if it == choice { 1.0 } else { 0.0 }));
    }
}

/// The rows of all buffers that are written, in order of their ids.
pub(super) fn rows(sites: &Sites<'_>, is_gpu: bool, program: &Program) -> Vec<f32> {
    let mut written: BTreeMap<TensorId, Vec<&Site<'_>>> = BTreeMap::new();
    for site in &sites.all {
        written.entry(site.tensor).or_default().push(site);
    }
    let of_site = |it: &Site<'_>| operations::of(sites, it).iter().sum::<f64>() * it.times();
    let operations = sites.all.iter().map(of_site).sum();
    let mut row = Row(Vec::with_capacity(written.len() * WIDTH));
    for of_buffer in written.values() {
        add(&mut row, sites, of_buffer, is_gpu);
        program.add(&mut row, operations);
    }
    row.0
}

/// Adds the row of a buffer.
fn add(row: &mut Row, sites: &Sites<'_>, of_buffer: &[&Site<'_>], is_gpu: bool) {
    let mut sums = [0.0; 16];
    for site in of_buffer {
        for (sum, n) in sums.iter_mut().zip(operations::of(sites, site)) {
            *sum += n * site.times();
        }
    }
    sums.iter().for_each(|it| row.add(*it));
    // What updates runs more often than what initializes, or else as often and later.
    let Some(site) = of_buffer.iter().max_by(|a, b| a.times().total_cmp(&b.times())) else {
        return;
    };
    let runs = loops::runs(site, is_gpu);
    loops::add(row, site, &runs, is_gpu);
    buffer::add(row, sites, site);
    intensity::add(row, sites, site, operations::on_floats(&operations::of(sites, site)));
    add_memory(row, sites, site);
    row.add(site.times());
    row.add(site.loops.len() as f64);
    row.add(loops::copies(site, &runs));
}

/// Adds how much memory the buffer takes, and how often it is made anew; nothing for memory that
/// the caller gave.
fn add_memory(row: &mut Row, sites: &Sites<'_>, site: &Site<'_>) {
    let touch = &site.touches[0];
    if sites.nest.buffer(site.tensor).scope == Scope::Argument {
        (0..4).for_each(|_| row.add_raw(0.0));
        return;
    }
    let around = product(site.loops[..sites.made(site.tensor)].iter().map(|it| it.extent));
    let elements = product(touch.shape.iter().copied());
    row.add(elements * touch.element_bytes);
    row.add(elements * around);
    row.add(around);
    row.add(site.times() / around);
}

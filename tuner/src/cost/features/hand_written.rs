//! The rows of hand-written kernels on a GPU, one for each launch: the values of their knobs and the
//! numbers of the launch, since nothing says what else they do.

use tvmtune_ir::dag::kernel_template::{MAX_KNOBS, SetLaunch};
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::nest::{HandWritten, Nest};

use super::row::Row;
use super::{ANALYTIC_COST, MEMORY, THREADS, WIDTH};

/// Adds the rows; the groups that they have nothing for are zeros.
pub(super) fn rows(nest: &Nest, written: &HandWritten, analytic_cost: f64) -> Vec<f32> {
    let dims: Vec<i64> = nest.dims.iter().map(|it| it.range.hi).collect();
    let row = |launch: &SetLaunch| -> Vec<f32> {
        let mut row = Row(Vec::with_capacity(WIDTH));
        let knobs = written.values.iter().map(|it| *it as f64).chain(std::iter::repeat(0.0));
        knobs.take(MAX_KNOBS).for_each(|it| row.add(it));
        row.0.resize(THREADS, 0.0);
        row.add_raw(1.0);
        let blocks = launch.grid.each_ref().map(|it: &Poly| it.eval_dims(&dims).max(0) as f64);
        let threads = launch.block.map(f64::from);
        blocks.iter().chain(&threads).for_each(|it| row.add(*it));
        row.0.resize(MEMORY, 0.0);
        let n_blocks: f64 = blocks.iter().product();
        row.add(f64::from(launch.shared_bytes));
        row.add(f64::from(launch.shared_bytes) * n_blocks);
        row.add(n_blocks);
        row.add(f64::from(launch.n_threads()) * n_blocks);
        row.0.resize(ANALYTIC_COST, 0.0);
        row.add(analytic_cost);
        row.add(analytic_cost);
        row.0
    };
    written.launches.iter().flat_map(row).collect()
}

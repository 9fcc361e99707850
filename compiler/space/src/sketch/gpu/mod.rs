//! The rules for GPUs: what becomes blocks, what threads, and what goes through shared memory.
//!
//! - `tensor`: sums of products of narrow numbers: matrix instructions, each of a warp.
//! - `group`: the same, each of four warps.
//! - `tile`: reductions of which two operands are used more than once: tiles of accumulators in the
//!   registers of threads, operands copied to shared memory by all of them.
//! - `attention`: products with a softmax between: everything along with the second product.
//! - `attention_group`: the same by matrix instructions of four warps, fed.
//! - `rows`: reductions along memory, and what needs them: threads share a row.
//! - `columns`: long reductions across memory: rows of threads share a column.
//! - `window`: short reductions over windows that overlap: what a block needs goes through shared
//!   memory.
//! - `prefix`: prefixes of blocks: a thread has a block, and looks at each of its elements once.
//! - `running`: rows with prefixes: a block has all of a row, and each thread a block of elements.
//! - `flat`: everything else: a thread computes neighboring elements.
//! - `across`: elements that are read along another axis than they are written: tiles through shared
//!   memory.

mod across;
mod attention;
mod attention_group;
pub(super) mod chain;
mod columns;
mod flat;
mod group;
mod operand;
mod pixels;
mod prefix;
mod reads;
mod rows;
pub(super) mod running;
mod split;
mod tensor;
mod tile;
mod tile_size;
mod window;

use super::builder::Builder;
use super::group::Group;
use super::{DecisionId, DecisionKind};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// One way to schedule a group on a GPU.
pub(super) enum Way {
    Group {
        is_fed: bool,
    },
    Tensor,
    Tile,
    Rows,
    Columns,
    Window,
    Prefix,
    Running,
    Flat,
    /// All stages of a chain along with its last product: by groups of warps that are fed, or by
    /// all threads alike.
    Attention {
        is_fed: bool,
    },
    /// Along which axis something is read that is written along the last one.
    Across(usize),
}

/// Whether a reduction runs in tiles: two of its operands are used more than once.
pub(super) fn tiles(b: &Builder, stage: StageId) -> bool {
    let compute = &b.schedule.stage(stage).compute;
    let (extents, accesses) = (b.extents(stage), b.accesses(stage));
    let long = |axis: &usize| extents[*axis] > 1;
    let axes: Vec<usize> = (0..compute.n_spatial).filter(long).collect();
    let reused = |axis: &&usize| accesses.iter().any(|it| !it.depends_on(**axis));
    let differs = |a: &usize, b: &usize| {
        accesses.iter().any(|it| it.depends_on(*a) && !it.depends_on(*b))
            && accesses.iter().any(|it| it.depends_on(*b) && !it.depends_on(*a))
    };
    let shared: Vec<&usize> = axes.iter().filter(reused).collect();
    b.is_anchor(stage) && shared.iter().any(|a| shared.iter().any(|b| differs(a, b)))
}

/// Whether a stage is a piece of reductions across memory: there are pieces because there are few
/// elements, so it does not run inside of what has one for each element.
pub(super) fn is_piece(b: &Builder, stage: StageId) -> bool {
    b.is_apart(stage) && reads::reduces(b, stage) && !reads::is_along_memory(b, stage)
}

/// The program with long reductions in pieces, where there would be too few blocks.
pub(super) fn cut_reductions(start: &Builder) -> Option<Builder> {
    let mut b = start.clone();
    split::reductions(&mut b).is_ok_and(|it| it).then_some(b)
}

/// The ways to schedule a group, the most promising first.
pub(super) fn ways(b: &Builder, group: &Group) -> Vec<Way> {
    match group {
        Group::Chain(_) => {
            let ways = [true, false].into_iter().filter(|it| !it || b.gpu().arch.has_wgmma());
            ways.map(|is_fed| Way::Attention { is_fed }).collect()
        }
        Group::Tiled { anchor, .. } => {
            let suits = |is_fed: &bool| group::suits(b, *anchor, *is_fed);
            let groups = [true, false].into_iter().filter(suits);
            let groups = groups.map(|is_fed| Way::Group { is_fed });
            let tensor = tensor::product(b, *anchor).map(|_| Way::Tensor);
            groups.chain(tensor).chain([Way::Tile]).collect()
        }
        Group::Rows { root, inside, depth } => ways_of_rows(b, *root, inside, *depth),
    }
}

/// Shorter reductions are done by one thread.
const LONG: u64 = 32;

fn ways_of_rows(b: &Builder, root: StageId, inside: &[StageId], depth: usize) -> Vec<Way> {
    let n_spatial = |it: StageId| b.schedule.stage(it).compute.n_spatial;
    let stages = || inside.iter().copied().chain([root]);
    if inside.iter().any(|it| prefix::suits(b, *it)) {
        return vec![Way::Running];
    }
    if stages().any(|it| n_spatial(it) != depth) {
        return vec![Way::Rows];
    }
    // All stages have the same elements.
    let reductions: Vec<StageId> = stages().filter(|it| reads::reduces(b, *it)).collect();
    let longest = reductions.iter().map(|it| reads::length(b, *it)).max();
    let along_memory = reductions.iter().any(|it| reads::is_along_memory(b, *it));
    match longest {
        None if inside.is_empty() => {
            let across = across::axis(b, root).map(Way::Across);
            across.into_iter().chain([Way::Flat]).collect()
        }
        None => vec![Way::Flat],
        Some(_) if depth == 0 => vec![Way::Rows],
        Some(..=LONG)
            if inside.is_empty() && prefix::suits(b, root) && prefix::has_many(b, root) =>
        {
            vec![Way::Prefix, Way::Flat]
        }
        Some(..LONG) if reductions.iter().any(|it| window::read(b, *it).is_some()) => {
            vec![Way::Window, Way::Flat]
        }
        Some(..LONG) => vec![Way::Flat],
        Some(_) if along_memory => vec![Way::Rows, Way::Flat],
        Some(_) => vec![Way::Columns, Way::Flat],
    }
}

/// Applies a way.
pub(super) fn apply(b: &mut Builder, group: &Group, way: &Way) -> Result<(), ScheduleError> {
    match (group, way) {
        (Group::Chain(chain), Way::Attention { is_fed: true }) => {
            attention_group::attention(b, chain)
        }
        (Group::Chain(chain), _) => attention::attention(b, chain),
        (Group::Tiled { root, anchor }, Way::Group { is_fed }) => {
            group::group(b, *root, *anchor, *is_fed)
        }
        (Group::Tiled { root, anchor }, Way::Tensor) => tensor::tensor(b, *root, *anchor),
        (Group::Tiled { root, anchor }, _) => tile::tile(b, *root, *anchor),
        (Group::Rows { root, inside, depth }, Way::Running) => {
            running::running(b, *root, inside, *depth)
        }
        (Group::Rows { root, inside, depth }, Way::Rows) => rows::rows(b, *root, inside, *depth),
        (Group::Rows { root, .. }, Way::Across(axis)) => {
            let last = b.schedule.stage(*root).compute.n_spatial - 1;
            across::across(b, *root, (*axis, last))
        }
        (Group::Rows { root, .. }, Way::Prefix) => prefix::prefix(b, *root),
        (Group::Rows { root, inside, .. }, Way::Window) => window::window(b, *root, inside),
        (Group::Rows { root, inside, .. }, Way::Columns) => columns::columns(b, *root, inside),
        (Group::Rows { root, inside, .. }, _) => flat::flat(b, *root, inside),
    }
}

/// Orders the loops of a stage that one thread runs: `inner`, its few elements, is the innermost.
fn innermost(b: &mut Builder, stage: StageId, inner: AxisId) -> Result<(), ScheduleError> {
    /// Steps of a reduction that are written out one after the other.
    const LONGEST: u64 = 32;
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let mut order = b.schedule.stage(stage).order.clone();
    order.retain(|it| *it != inner);
    let mut written_out = 1;
    let short = |axis: &&AxisId| {
        written_out *= b.extent(stage, **axis);
        axis.0 as usize >= n_spatial && written_out <= LONGEST
    };
    let short: Vec<AxisId> = order.iter().rev().take_while(short).copied().collect();
    order.push(inner);
    b.apply(|it| it.reorder(stage, &order))?;
    for axis in short {
        b.annotate(stage, axis, LoopKind::Unrolled)?;
    }
    b.annotate(stage, inner, LoopKind::Vectorized)
}

/// A decision among powers of two from 1 to `most`; the default need not be one.
fn power(b: &mut Builder, name: String, most: u64, best: u64, group: u32) -> DecisionId {
    let options: Vec<u64> = (0..11).map(|it| 1 << it).filter(|it| *it <= most.max(1)).collect();
    b.decide(name, DecisionKind::Inner, &options, best, group)
}

/// How many elements of 16 bytes at most an access along an axis of that extent may have.
fn vector(b: &Builder, stage: StageId, extent: u64) -> u64 {
    let tensor = b.schedule.stage(stage).tensor();
    let widest = 16 / b.schedule.tensor(tensor).tensor.dtype.bytes();
    let fits = |it: &u64| *it <= widest && extent.is_multiple_of(*it);
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

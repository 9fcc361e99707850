//! The rule for reductions that use their operands more than once: tiles of accumulators in
//! registers, tiles of those for the caches, tasks of those for the threads.
//!
//! ```text
//! parallel others, y_0, u_0, v_0
//!   for y_1, u_1, v_1                    -- in an order that is a decision
//!     for k_0                            -- the reduction, computed here
//!       unrolled k_1
//!         unrolled u: vectorized v:  acc[u, v] += a[.., u, k] * b[.., k, v]
//!     unrolled u_2: vectorized v_2:  c[.., u, v] = f(acc[u, v])
//! ```
//!
//! `v` is vectorized: operands that depend on it are read as vectors, so they lie side by side
//! along it, or they are weights, which are packed so, or they are copied so. `u` is an axis on
//! which such operands do not depend. `y` is what else there is to walk over.
//!
//! # Source
//!
//! Goto and van de Geijn's layers of matrix multiplication, for any reduction with reuse.

use super::blocks::Blocks;
use super::builder::Builder;
use super::copies::{pack_by_tile, place_copy, place_padded};
use super::variant::{Copy, TileVariant};
use super::{DecisionId, DecisionKind, Factor, lift};
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// The loops of the stage that is tiled.
pub(super) struct Loops {
    /// Those that make the grid of tasks.
    pub(super) grid: Vec<AxisId>,
    /// Between the grid and the register tile, with what they walk over.
    middle: Vec<(char, AxisId)>,
    row: Option<AxisId>,
    vector: AxisId,
    /// The decision that sets the length of the vectorized tile.
    pub(super) vector_tile: DecisionId,
    /// Whether tasks pad what they read, as far as analysis can tell.
    pub(super) pad: bool,
}

/// Applies the rule: `root` is tiled, `anchor` computed in each of its tiles.
pub(super) fn tile(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    variant: &TileVariant,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    lift::apart(b, root)?;
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let copied = match variant.copied {
        Some((read, dim, place)) => {
            Some((b.apply(|it| it.cache_operand(anchor, read))?, dim, place))
        }
        None => None,
    };
    let mut padded = Vec::new();
    for it in &variant.padded {
        match b.apply(|schedule| schedule.cache_padded(it.tensor, anchor)) {
            Ok(stage) => padded.push((stage, it.stride)),
            // Where the condition is no padding, it stays.
            Err(_) if it.stride == 1 => {}
            Err(error) => return Err(error),
        }
    }
    pack_accumulators(b, anchor, variant)?;
    let loops = split_root(b, root, anchor, variant, &name)?;
    order_root(b, root, anchor, &loops, copied, &name)?;
    reduce_in_registers(b, anchor, variant, &name)?;
    for (tensor, dim) in &variant.packed {
        pack_by_tile(b, *tensor, *dim, loops.vector_tile)?;
    }
    for it in padded {
        place_padded(b, it, root, &loops, &name)?;
    }
    if let Some((stage, dim, place)) = copied {
        place_copy(b, stage, dim, place, &loops)?;
    }
    b.name.push(variant_name(b, root, variant));
    Ok(())
}

/// Lets the lanes of an accumulator lie side by side, as in a register.
fn pack_accumulators(
    b: &mut Builder,
    anchor: StageId,
    variant: &TileVariant,
) -> Result<(), ScheduleError> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    if variant.vector + 1 == n_spatial {
        return Ok(());
    }
    let others = (0..n_spatial).filter(|it| *it != variant.vector);
    let layout = Layout { splits: Vec::new(), order: others.chain([variant.vector]).collect() };
    let tensor = b.schedule.stage(anchor).tensor();
    b.apply(|it| it.pack(tensor, layout))
}

fn variant_name(b: &Builder, root: StageId, variant: &TileVariant) -> String {
    let copied = match variant.copied {
        Some((_, _, Copy::Panel)) => " panel",
        Some((_, _, Copy::Whole)) => " copy",
        None => "",
    };
    let axis = &b.schedule.stage(root).compute.axes[variant.vector].name;
    format!("{}: tile {axis}{copied}", b.stage_name(root))
}

fn split_root(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    variant: &TileVariant,
    name: &str,
) -> Result<Loops, ScheduleError> {
    let extents = b.extents(root);
    let blocks = Blocks::choose(b, anchor, variant);
    let lanes = b.lanes();
    let (mut grid, mut middle) = (Vec::new(), Vec::new());

    let walked = variant.walked(&extents);
    for (axis, extent) in extents.iter().copied().enumerate() {
        let id = AxisId(axis as u32);
        if axis == variant.vector || Some(axis) == variant.row {
            continue;
        }
        if Some(axis) == walked {
            let group = b.new_group();
            let options = sizes(extent);
            let kind = DecisionKind::Outer;
            let inner = b.decide(format!("{name} walk"), kind, &options, blocks.walk, group);
            let parts = b.split(root, id, &[Factor::Open(inner)])?;
            grid.push(parts[0]);
            middle.push(('y', parts[1]));
        } else {
            grid.push(id);
        }
    }
    let mut row = None;
    if let Some(axis) = variant.row {
        let group = b.new_group();
        let extent = extents[axis];
        let tiles: Vec<u64> = (1..=extent.min(30)).collect();
        let kind = DecisionKind::Inner;
        let inner = b.decide(format!("{name} rows"), kind, &tiles, variant.tile.rows, group);
        let options = sizes(extent.div_ceil(variant.tile.rows));
        let kind = DecisionKind::Outer;
        let outer = b.decide(format!("{name} row tiles"), kind, &options, blocks.rows, group);
        let factors = [Factor::Open(outer), Factor::Open(inner)];
        let parts = b.split(root, AxisId(axis as u32), &factors)?;
        grid.push(parts[0]);
        middle.push(('u', parts[1]));
        row = Some(parts[2]);
    }
    let group = b.new_group();
    let extent = extents[variant.vector];
    let n_vectors = extent.div_ceil(lanes);
    let tiles: Vec<u64> = (1..=n_vectors.min(12)).map(|it| it * lanes).collect();
    let best = variant.tile.vectors * lanes;
    let inner = b.decide(format!("{name} lanes"), DecisionKind::Inner, &tiles, best, group);
    let options = sizes(n_vectors.div_ceil(variant.tile.vectors));
    let kind = DecisionKind::Outer;
    let outer = b.decide(format!("{name} lane tiles"), kind, &options, blocks.vectors, group);
    let factors = [Factor::Open(outer), Factor::Open(inner)];
    let parts = b.split(root, AxisId(variant.vector as u32), &factors)?;
    grid.push(parts[0]);
    middle.push(('v', parts[1]));
    Ok(Loops { grid, middle, row, vector: parts[2], vector_tile: inner, pad: blocks.pad })
}

/// The order of the loops, and where the reduction and a panel are computed.
fn order_root(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    loops: &Loops,
    copied: Option<(StageId, usize, Copy)>,
    name: &str,
) -> Result<(), ScheduleError> {
    let panel = copied.filter(|it| it.2 == Copy::Panel).map(|it| it.0);
    let position = |order: &[(char, AxisId)], what| order.iter().position(|it| it.0 == what);
    let mut orders = permutations(&loops.middle);
    // A panel is copied for each column of tiles, and must serve all rows in it.
    orders.retain(|it| panel.is_none() || position(it, 'v') == Some(0));
    // First the order in which operands of the vectorized axis stay in the cache.
    orders.sort_by_key(|it| (position(it, 'v'), position(it, 'u').map(std::cmp::Reverse)));
    let list = |order: &Vec<(char, AxisId)>| {
        let axes = order.iter().map(|it| it.1);
        let inner = loops.row.into_iter().chain([loops.vector]);
        let all = loops.grid.iter().copied().chain(axes).chain(inner).collect();
        let last = order.last().expect("the vectorized axis has a loop here").1;
        let mut list = vec![Instruction::Reorder { stage: root, order: all }];
        list.push(Instruction::ComputeAt { stage: anchor, consumer: root, axis: last });
        list.extend(panel.map(|stage| Instruction::ComputeAt {
            stage,
            consumer: root,
            axis: order[0].1,
        }));
        list
    };
    let lists: Vec<_> = orders.iter().map(list).collect();
    let numbers: Vec<u64> = (0..lists.len() as u64).collect();
    let group = b.new_group();
    let decision = b.decide(format!("{name} order"), DecisionKind::Order, &numbers, 0, group);
    b.one_of(decision, lists)?;
    for axis in &loops.grid {
        b.annotate(root, *axis, LoopKind::Parallel)?;
    }
    if let Some(row) = loops.row {
        b.annotate(root, row, LoopKind::Unrolled)?;
    }
    b.annotate(root, loops.vector, LoopKind::Vectorized)
}

fn permutations<T: Clone>(of: &[T]) -> Vec<Vec<T>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for n in 0..of.len() {
        let mut rest = of.to_vec();
        let first = rest.remove(n);
        all.extend(permutations(&rest).into_iter().map(|mut it| {
            it.insert(0, first.clone());
            it
        }));
    }
    all
}

/// The loops of the reduction: reduce axes outside, the tile inside.
fn reduce_in_registers(
    b: &mut Builder,
    anchor: StageId,
    variant: &TileVariant,
    name: &str,
) -> Result<(), ScheduleError> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let extents = b.extents(anchor);
    let mut reduce: Vec<AxisId> = (n_spatial..extents.len()).map(|it| AxisId(it as u32)).collect();
    let tile = |it: &usize| *it == variant.vector || Some(*it) == variant.row;
    let mut order: Vec<AxisId> =
        (0..n_spatial).filter(|it| !tile(it)).map(|it| AxisId(it as u32)).collect();

    // The last reduce axis that runs more than once is unrolled: whole if it is short.
    let mut unrolled = None;
    if let Some(last) = (n_spatial..extents.len()).rev().find(|it| extents[*it] > 1) {
        let extent = extents[last];
        let stride = variant.stride();
        let is_known = |it: &u64| *it == extent || (*it < extent && it.is_multiple_of(stride));
        let options: Vec<u64> = (1..=8).filter(is_known).collect();
        let best = if extent <= 7 { extent } else { (4 / stride).max(1) * stride };
        let group = b.new_group();
        let kind = DecisionKind::Inner;
        let decision = b.decide(format!("{name} steps"), kind, &options, best, group);
        let parts = b.split(anchor, AxisId(last as u32), &[Factor::Open(decision)])?;
        let at = last - n_spatial;
        reduce[at] = parts[0];
        unrolled = Some(parts[1]);
    }
    order.extend(reduce);
    order.extend(unrolled);
    order.extend(variant.row.map(|it| AxisId(it as u32)));
    order.push(AxisId(variant.vector as u32));
    b.apply(|it| it.reorder(anchor, &order))?;
    if let Some(axis) = unrolled {
        b.annotate(anchor, axis, LoopKind::Unrolled)?;
    }
    if let Some(axis) = variant.row {
        b.annotate(anchor, AxisId(axis as u32), LoopKind::Unrolled)?;
    }
    b.annotate(anchor, AxisId(variant.vector as u32), LoopKind::Vectorized)
}

/// Sizes of blocks of an axis: 1, 2, 3, 4, 6, 8, 12, ... and the whole.
pub(super) fn sizes(extent: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..16).flat_map(|it| [1 << it, 3 << it]).collect();
    sizes.retain(|it| *it < extent);
    sizes.push(extent);
    sizes.sort_unstable();
    sizes
}

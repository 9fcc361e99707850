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

use super::builder::Builder;
use super::register_tile::{Operand, RegisterTile, choose};
use super::{DecisionId, DecisionKind, Factor};
use crate::dag::access::Access;
use crate::dag::{TensorId, TensorKind};
use crate::schedule::error::ScheduleError;
use crate::schedule::{AxisId, Instruction, Layout, LoopKind, StageId};

/// One way to apply the rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileVariant {
    /// The vectorized axis.
    vector: usize,
    /// The unrolled axis.
    row: Option<usize>,
    /// Weights to pack so that the vectorized axis comes last, with the dimension it indexes.
    packed: Vec<(TensorId, usize)>,
    /// An operand to copy, with the dimension that the vectorized axis indexes, and where.
    copied: Option<(TensorId, usize, Copy)>,
    /// What padding makes conditional is copied to where it is not.
    padded: Vec<TensorId>,
    tile: RegisterTile,
    /// Estimated cycles; variants are tried in this order.
    cost: f64,
}

/// Where an operand is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copy {
    /// In each task, as much as one column of tiles reads.
    Panel,
    /// Once, before all tasks.
    Whole,
}

/// The loops of the stage that is tiled.
struct Loops {
    /// Those that make the grid of tasks.
    grid: Vec<AxisId>,
    /// Between the grid and the register tile, with what they walk over.
    middle: Vec<(char, AxisId)>,
    row: Option<AxisId>,
    vector: AxisId,
    /// The decision that sets the length of the vectorized tile.
    vector_tile: DecisionId,
}

/// Ways that analysis finds this many times as slow as the best are not tried.
const HOPELESS: f64 = 2.5;

/// The ways to tile a reduction, the most promising first.
pub(super) fn variants(b: &Builder, anchor: StageId) -> Vec<TileVariant> {
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let mut found: Vec<TileVariant> =
        (0..n_spatial).flat_map(|axis| variants_along(b, anchor, axis)).collect();
    found.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let best = found.first().map_or(0.0, |it| it.cost);
    found.retain(|it| it.cost <= best * HOPELESS);
    found
}

fn variants_along(b: &Builder, anchor: StageId, vector: usize) -> Vec<TileVariant> {
    let compute = &b.schedule.stage(anchor).compute;
    let (extents, accesses) = (b.extents(anchor), b.accesses(anchor));
    if extents[vector] == 1 && extents[..compute.n_spatial].iter().any(|it| *it > 1) {
        return Vec::new();
    }
    let (mut packed, mut scattered, mut padded) = (Vec::new(), Vec::new(), Vec::new());
    for access in &accesses {
        if access.conditional {
            padded.push(access.tensor);
        }
        if !access.depends_on(vector) || access.is_contiguous(vector) {
            continue;
        }
        let Some(dim) = dim_along(access, vector) else { return Vec::new() };
        let list = if b.is_packable(access.tensor) { &mut packed } else { &mut scattered };
        list.push((access.tensor, dim));
    }
    if scattered.len() > 1 {
        return Vec::new();
    }
    let row = row_axis(&accesses, &extents[..compute.n_spatial], vector);
    let operands: Vec<Operand> = accesses.iter().map(|it| Operand::of(it, vector, row)).collect();
    let tile = choose(b.target.isa, &operands, row.map_or(1, |it| extents[it]), extents[vector]);
    let variant = TileVariant { vector, row, packed, copied: None, padded, tile, cost: 0.0 };
    let in_place = (accesses.iter().find(|it| is_read_in_rows(b, it, &variant, &extents)))
        .and_then(|it| Some((it.tensor, dim_along(it, vector)?)));
    let with_copy = |copied| {
        let cost = cost(b, anchor, &TileVariant { copied, ..variant.clone() });
        TileVariant { copied, cost, ..variant.clone() }
    };
    match (scattered.first(), in_place) {
        (Some((tensor, dim)), _) => {
            [Copy::Panel, Copy::Whole].map(|it| with_copy(Some((*tensor, *dim, it)))).to_vec()
        }
        (None, Some((tensor, dim))) => vec![
            with_copy(None),
            with_copy(Some((tensor, dim, Copy::Panel))),
            with_copy(Some((tensor, dim, Copy::Whole))),
        ],
        (None, None) => vec![with_copy(None)],
    }
}

/// The dimension of a tensor that an axis, and in it no other spatial one, indexes with step 1.
fn dim_along(access: &Access, axis: usize) -> Option<usize> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_none_or(|it| it[axis] != 0);
    let mut dims = access.steps.iter().enumerate().filter(|(_, it)| along(it));
    let (dim, steps) = dims.next()?;
    let steps = steps.as_ref()?;
    let alone = steps.iter().filter(|it| **it != 0).count() == 1 && steps[axis] == 1;
    (alone && dims.next().is_none()).then_some(dim)
}

/// The axis to unroll: one on which as few vector operands as possible depend; of those the
/// longest, of those the last.
fn row_axis(accesses: &[Access], extents: &[u64], vector: usize) -> Option<usize> {
    let dependent = |axis: usize| {
        accesses.iter().filter(|it| it.depends_on(vector) && it.depends_on(axis)).count()
    };
    let candidates = (0..extents.len()).filter(|it| *it != vector && extents[*it] > 1);
    candidates.min_by_key(|it| (dependent(*it), std::cmp::Reverse((extents[*it].min(28), *it))))
}

/// Whether an operand is read as vectors along rows so far apart that they fill few cache sets,
/// and often enough for a copy to pay.
fn is_read_in_rows(b: &Builder, access: &Access, variant: &TileVariant, extents: &[u64]) -> bool {
    let vector = variant.vector;
    let reused = variant.row.is_some_and(|it| !access.depends_on(it) && extents[it] >= 16);
    let input = b.schedule.tensor(access.tensor).tensor.kind != TensorKind::Weight;
    let vector_bytes = 4 * b.lanes() * variant.tile.vectors;
    let far = access.strides.iter().flatten().any(|it| b.most(it) * 4 > 4 * vector_bytes);
    access.is_contiguous(vector) && reused && input && far && !access.conditional
}

/// Estimated cycles of one thread for everything.
fn cost(b: &Builder, anchor: StageId, variant: &TileVariant) -> f64 {
    let compute = &b.schedule.stage(anchor).compute;
    let extents = b.extents(anchor);
    let tiled = [Some(variant.vector), variant.row];
    let others = extents.iter().enumerate().filter(|(n, _)| !tiled.contains(&Some(*n)));
    let steps: u64 = others.map(|(_, it)| *it).product();
    let mut cycles = variant.tile.cycles * steps as f64;
    let outputs: u64 = extents[..compute.n_spatial].iter().product();
    let n_vectors = outputs as f64 / b.lanes() as f64;
    // Elements that are stored one by one, or copied one by one.
    let scattered = variant.vector + 1 != compute.n_spatial && extents[variant.vector] > 1;
    if scattered {
        cycles += n_vectors * 20.0;
    }
    for access in b.accesses(anchor) {
        let elements = access.footprint(&extents) as f64;
        let rows = variant.row.map_or(1, |it| extents[it]) as f64;
        match variant.copied {
            Some((tensor, ..)) if tensor == access.tensor => {
                let contiguous = access.is_contiguous(variant.vector);
                cycles += elements * if contiguous { 0.2 } else { 1.3 };
            }
            _ if is_read_in_rows(b, &access, variant, &extents) => {
                // Rows far apart fall into the same sets of the caches, and pages of their own.
                cycles += elements * (rows / variant.tile.rows as f64) * 0.05;
            }
            _ => {}
        }
    }
    if matches!(variant.copied, Some((_, _, Copy::Whole))) {
        cycles += 4000.0;
    }
    cycles
}

/// Applies the rule: `root` is tiled, `anchor` computed in each of its tiles.
pub(super) fn tile(
    b: &mut Builder,
    root: StageId,
    anchor: StageId,
    variant: &TileVariant,
) -> Result<(), ScheduleError> {
    let name = b.stage_name(root).to_owned();
    let anchor = if root == anchor { b.apply(|it| it.cache_write(anchor))? } else { anchor };
    let mut padded = Vec::new();
    for tensor in &variant.padded {
        // Where the condition is no padding, it stays.
        if let Ok(stage) = b.apply(|it| it.cache_padded(*tensor, anchor)) {
            padded.push(stage);
        }
    }
    let copied = match variant.copied {
        Some((tensor, dim, place)) => {
            Some((b.apply(|it| it.cache_read(tensor, anchor))?, dim, place))
        }
        None => None,
    };
    pack_accumulators(b, anchor, variant)?;
    let loops = split_root(b, root, anchor, variant, &name)?;
    order_root(b, root, anchor, &loops, copied, &name)?;
    reduce_in_registers(b, anchor, variant, &name)?;
    for (tensor, dim) in &variant.packed {
        pack_by_tile(b, *tensor, *dim, loops.vector_tile)?;
    }
    for stage in padded {
        place_padded(b, stage, root, &loops, &name)?;
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
    let blocks = Blocks::choose(b, anchor, variant, &extents);
    let lanes = b.lanes();
    let (mut grid, mut middle) = (Vec::new(), Vec::new());

    let walked = (0..extents.len())
        .rfind(|it| *it != variant.vector && Some(*it) != variant.row && extents[*it] > 1);
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
    Ok(Loops { grid, middle, row, vector: parts[2], vector_tile: inner })
}

/// How many register tiles make a task along each axis.
struct Blocks {
    walk: u64,
    rows: u64,
    vectors: u64,
}

impl Blocks {
    /// Tasks as large as the second-level cache allows, but several for each thread.
    fn choose(b: &Builder, anchor: StageId, variant: &TileVariant, extents: &[u64]) -> Self {
        let rows = variant.row.map_or(1, |it| extents[it].div_ceil(variant.tile.rows));
        let lanes = b.lanes() * variant.tile.vectors;
        let vectors = extents[variant.vector].div_ceil(lanes);
        let fixed = |axis: usize| axis == variant.vector || Some(axis) == variant.row;
        let others: Vec<u64> =
            (0..extents.len()).filter(|it| !fixed(*it)).map(|it| extents[it]).collect();
        let walked = others.iter().copied().rfind(|it| *it > 1).unwrap_or(1);
        let outer = others.iter().product::<u64>() / walked;

        let mut it = Self { walk: walked, rows, vectors };
        let wanted = u64::from(b.target.threads) * 8;
        let n_tasks = |it: &Self| {
            outer * walked.div_ceil(it.walk) * rows.div_ceil(it.rows) * vectors.div_ceil(it.vectors)
        };
        // What the rows of a task read should stay in the cache while all its columns pass.
        let row_bytes = |it: &Self| {
            let mut tile = b.extents(anchor);
            tile[variant.vector] = lanes.min(tile[variant.vector]);
            if let Some(row) = variant.row {
                tile[row] = tile[row].min(it.rows * variant.tile.rows);
            }
            let mut one_row = tile.clone();
            for axis in 0..extents.len() {
                let of_walk = extents[axis] > 1 && !fixed(axis);
                one_row[axis] = if of_walk { it.walk.min(extents[axis]) } else { tile[axis] };
            }
            let bytes = |access: &Access| access.footprint(&one_row) * 4;
            b.accesses(anchor).iter().map(bytes).sum::<u64>()
        };
        while row_bytes(&it) > b.target.l2_bytes * 3 / 4 && (it.rows > 1 || it.walk > 1) {
            if it.walk > 1 { it.walk = it.walk.div_ceil(2) } else { it.rows = it.rows.div_ceil(2) }
        }
        while n_tasks(&it) < wanted && it.vectors > 1 {
            it.vectors = it.vectors.div_ceil(2);
        }
        while n_tasks(&it) < wanted && (it.walk > 1 || it.rows > 1) {
            if it.walk > 1 { it.walk = it.walk.div_ceil(2) } else { it.rows = it.rows.div_ceil(2) }
        }
        it
    }
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
        let options: Vec<u64> = (1..=8).filter(|it| *it <= extent).collect();
        let best = if extent <= 7 { extent } else { 4 };
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

/// Gives a tensor a layout in which the elements of one vectorized tile lie side by side.
fn pack_by_tile(
    b: &mut Builder,
    tensor: TensorId,
    dim: usize,
    tile: DecisionId,
) -> Result<(), ScheduleError> {
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    // Stored: the tile's number, the other dimensions, the element in the tile.
    let others = (0..=n_dims).filter(|it| *it != dim && *it != dim + 1);
    let order: Vec<usize> = [dim].into_iter().chain(others).chain([dim + 1]).collect();
    let list = |factor: &u64| {
        let layout = Layout { splits: vec![(dim, *factor)], order: order.clone() };
        vec![Instruction::Pack { tensor, layout }]
    };
    let lists = b.options(tile).iter().map(list).collect();
    b.one_of(tile, lists)
}

/// A padded copy: before everything, or what each task reads.
fn place_padded(
    b: &mut Builder,
    stage: StageId,
    root: StageId,
    loops: &Loops,
    name: &str,
) -> Result<(), ScheduleError> {
    let order = b.schedule.stage(stage).order.clone();
    let (Some(first), Some(last)) = (order.first().copied(), order.last().copied()) else {
        return Ok(());
    };
    let group = b.new_group();
    let decision = b.decide(format!("{name} padded copy"), DecisionKind::Choice, &[0, 1], 0, group);
    let task = *loops.grid.last().expect("the vectorized axis has a loop in the grid");
    let parallel = order.iter().copied().filter(|it| *it != last).take(2);
    let parallel =
        parallel.map(|axis| Instruction::Annotate { stage, axis, kind: LoopKind::Parallel });
    let inside = vec![Instruction::ComputeAt { stage, consumer: root, axis: task }];
    b.one_of(decision, vec![parallel.collect(), inside])?;
    if first != last || order.len() == 1 {
        let vector = b.split(stage, last, &[Factor::Fixed(4 * b.lanes())])?;
        b.annotate(stage, vector[1], LoopKind::Vectorized)?;
    }
    Ok(())
}

/// The loops and the layout of a copy along the vectorized axis.
fn place_copy(
    b: &mut Builder,
    stage: StageId,
    dim: usize,
    place: Copy,
    loops: &Loops,
) -> Result<(), ScheduleError> {
    let tensor = b.schedule.stage(stage).tensor();
    let n_dims = b.schedule.tensor(tensor).tensor.shape.len();
    let along = AxisId(dim as u32);
    let others: Vec<AxisId> = (0..n_dims as u32).map(AxisId).filter(|it| *it != along).collect();
    match place {
        Copy::Panel => {
            if dim + 1 != n_dims {
                let order = others.iter().chain([&along]).map(|it| it.0 as usize).collect();
                b.apply(|it| it.pack(tensor, Layout { splits: Vec::new(), order }))?;
            }
            let order: Vec<AxisId> = others.into_iter().chain([along]).collect();
            b.apply(|it| it.reorder(stage, &order))?;
            b.annotate(stage, along, LoopKind::Vectorized)
        }
        Copy::Whole => {
            pack_by_tile(b, tensor, dim, loops.vector_tile)?;
            let parts = b.split(stage, along, &[Factor::Open(loops.vector_tile)])?;
            let mut order = vec![parts[0]];
            order.extend(others);
            order.push(parts[1]);
            b.apply(|it| it.reorder(stage, &order))?;
            b.annotate(stage, parts[0], LoopKind::Parallel)?;
            b.annotate(stage, parts[1], LoopKind::Vectorized)
        }
    }
}

/// Sizes of blocks of an axis: 1, 2, 3, 4, 6, 8, 12, ... and the whole.
pub(super) fn sizes(extent: u64) -> Vec<u64> {
    let mut sizes: Vec<u64> = (0..16).flat_map(|it| [1 << it, 3 << it]).collect();
    sizes.retain(|it| *it < extent);
    sizes.push(extent);
    sizes.sort_unstable();
    sizes
}

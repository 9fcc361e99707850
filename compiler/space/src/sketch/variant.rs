//! The ways to tile a reduction: which axis is vectorized, which unrolled, what is packed or copied
//! so that lanes lie side by side.
//!
//! In: a reduction, its accesses and extents. Out: [`TileVariant`]s, the cheapest by a model of the
//! inner loop (`register_tile.rs`) and of what copies and scattered stores take. Next: `tile.rs`
//! applies one.
//!
//! # Source
//!
//! Goto and van de Geijn (2008) pack what is read along the wrong axis; here that is decided for any
//! access, from its strides.

use super::blocks::Blocks;
use super::builder::Builder;
use super::register_tile::{Operand, RegisterTile, choose};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{TensorId, TensorKind};
use tvmtune_schedule::StageId;

/// One way to apply the rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileVariant {
    /// The vectorized axis.
    pub(super) vector: usize,
    /// The unrolled axis.
    pub(super) row: Option<usize>,
    /// Weights to pack so that the vectorized axis comes last, with the dimension it indexes.
    pub(super) packed: Vec<(TensorId, usize)>,
    /// A read to copy, by its number, with the dimension of the copy that the vectorized axis
    /// indexes, and where.
    pub(super) copied: Option<(u32, usize, Copy)>,
    /// What padding makes conditional is copied to where it is not.
    pub(super) padded: Vec<Padded>,
    pub(super) sharing: Sharing,
    pub(super) tile: RegisterTile,
    /// Estimated cycles; variants are tried in this order.
    cost: f64,
}

/// A padded copy. It is made in any case, so that its layout is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Padded {
    pub(super) tensor: TensorId,
    /// Elements that are so many apart in the last dimension lie side by side.
    pub(super) stride: u64,
}

/// Which tasks read the same of what is padded, but for the edges of windows. Where that is one
/// task only, it may as well copy what it reads, right before it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    /// Some do, or nothing is padded.
    Any,
    /// None, however tasks are made.
    None,
    /// None, where tasks differ only in the axis that is walked over.
    NoneAlongWalk,
}

impl Sharing {
    /// Of the tasks of a variant, for axes of those extents.
    fn of(variant: &TileVariant, accesses: &[Access], extents: &[u64]) -> Self {
        let padded: Vec<&Access> = accesses.iter().filter(|it| it.conditional).collect();
        let of_all = |axis: usize| padded.iter().all(|it| it.depends_on(axis));
        let long = || (0..extents.len()).filter(|it| extents[*it] > 1);
        let tiled = |axis: &usize| [Some(variant.vector), variant.row].contains(&Some(*axis));
        let walked = variant.walked(extents);
        let is_walk = |axis: usize| Some(axis) == walked && of_all(axis);
        match () {
            () if padded.is_empty() => Sharing::Any,
            () if long().all(of_all) => Sharing::None,
            () if of_all(variant.vector) && long().all(|it| tiled(&it) || is_walk(it)) => {
                Sharing::NoneAlongWalk
            }
            () => Sharing::Any,
        }
    }
}

/// Where an operand is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Copy {
    /// In each task, as much as one column of tiles reads.
    Panel,
    /// Once, before all tasks.
    Whole,
}

impl TileVariant {
    /// Whether a padded copy of a tensor has a layout of its own.
    fn is_strided(&self, tensor: TensorId) -> bool {
        self.padded.iter().any(|it| it.tensor == tensor && it.stride > 1)
    }

    /// The largest stride of a padded copy: that many steps of the reduction are written out at
    /// least, so that it is known which of the elements side by side they read.
    pub(super) fn stride(&self) -> u64 {
        self.padded.iter().map(|it| it.stride).max().unwrap_or(1)
    }

    /// The last of the axes that are neither vectorized nor unrolled: tasks walk over it.
    pub(super) fn walked(&self, extents: &[u64]) -> Option<usize> {
        let tiled = [Some(self.vector), self.row];
        (0..extents.len()).rfind(|it| !tiled.contains(&Some(*it)) && extents[*it] > 1)
    }
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
    for (number, access) in accesses.iter().enumerate() {
        let stride = stride_along(access, compute.n_spatial, &extents, vector);
        if access.conditional {
            padded.push(Padded { tensor: access.tensor, stride: stride.unwrap_or(1) });
        }
        let is_strided_copy = access.conditional && stride.is_some();
        // A copy that is hardly larger pays: its elements lie side by side.
        let is_every_other = !access.conditional && access.is_every_other(vector);
        let is_direct =
            access.is_contiguous(vector) || (is_every_other && !can_copy(access, &extents));
        if !access.depends_on(vector) || is_direct || is_strided_copy {
            continue;
        }
        match dim_along(access, vector) {
            Some(dim) if b.is_packable(access.tensor) => packed.push((access.tensor, dim)),
            _ if can_copy(access, &extents) => scattered.push((number as u32, access)),
            _ => return Vec::new(),
        }
    }
    let has_two_layouts =
        |it: &Padded| padded.iter().any(|a| a.tensor == it.tensor && a.stride != it.stride);
    if scattered.len() > 1 || padded.iter().any(has_two_layouts) {
        return Vec::new();
    }
    let row = row_axis(&accesses, &extents[..compute.n_spatial], vector);
    let operands: Vec<Operand> =
        accesses.iter().map(|it| Operand::of(it, vector, row, b.cpu().l1_bytes)).collect();
    let tile = choose(b.cpu().isa, &operands, row.map_or(1, |it| extents[it]), extents[vector]);
    let sharing = Sharing::Any;
    let mut variant =
        TileVariant { vector, row, packed, copied: None, padded, sharing, tile, cost: 0.0 };
    variant.sharing = Sharing::of(&variant, &accesses, &extents[..compute.n_spatial]);
    for access in accesses.iter().filter(|it| b.is_packable(it.tensor)) {
        // To pack a weight costs nothing at a launch.
        if lies_in_rows(b, access, &variant)
            && let Some(dim) = dim_along(access, vector)
        {
            variant.packed.push((access.tensor, dim));
        }
    }
    let with_copy = |copied| {
        let cost = cost(b, anchor, &TileVariant { copied, ..variant.clone() });
        TileVariant { copied, cost, ..variant.clone() }
    };
    let in_rows = accesses.iter().position(|it| is_read_in_rows(b, it, &variant, &extents));
    let must = !scattered.is_empty();
    let wanted = scattered.first().map(|it| it.0).or(in_rows.map(|it| it as u32));
    let Some(number) = wanted else { return vec![with_copy(None)] };
    // The copy's dimensions are the axes on which the read depends.
    let access = &accesses[number as usize];
    let dim = (0..vector).filter(|it| access.depends_on(*it)).count();
    let copies = [Copy::Panel, Copy::Whole].map(|it| with_copy(Some((number, dim, it))));
    copies.into_iter().chain((!must).then(|| with_copy(None))).collect()
}

/// Whether a copy of what a read touches, by the axes that touch it, is hardly larger than that.
fn can_copy(access: &Access, extents: &[u64]) -> bool {
    let axes = (0..extents.len()).filter(|it| access.depends_on(*it));
    let copied: u64 = axes.map(|it| extents[it]).product();
    !access.conditional && copied <= access.footprint(extents).saturating_mul(2)
}

/// The dimension of a tensor that an axis, and in it no other spatial one, indexes with step 1.
pub(super) fn dim_along(access: &Access, axis: usize) -> Option<usize> {
    let along = |steps: &Option<Vec<i64>>| steps.as_ref().is_none_or(|it| it[axis] != 0);
    let mut dims = access.steps.iter().enumerate().filter(|(_, it)| along(it));
    let (dim, steps) = dims.next()?;
    let steps = steps.as_ref()?;
    let alone = steps.iter().filter(|it| **it != 0).count() == 1 && steps[axis] == 1;
    (alone && dims.next().is_none()).then_some(dim)
}

/// How many elements one iteration of an axis moves a read in the last dimension, if more than one,
/// and if everything else that moves it there is written out or moves it by a multiple.
fn stride_along(access: &Access, n_spatial: usize, extents: &[u64], axis: usize) -> Option<u64> {
    let (last, others) = access.steps.split_last()?;
    let steps = last.as_ref()?;
    let stride = u64::try_from(steps[axis]).ok().filter(|it| (2..=4).contains(it))?;
    let unrolled = (n_spatial..extents.len()).rfind(|it| extents[*it] > 1);
    let known = |(n, step): (usize, &i64)| {
        n == axis || Some(n) == unrolled || extents[n] == 1 || step.unsigned_abs() % stride == 0
    };
    let alone = others.iter().all(|it| it.as_ref().is_some_and(|it| it[axis] == 0));
    (alone && steps.iter().enumerate().all(known)).then_some(stride)
}

/// The axis to unroll: one on which as few vector operands as possible depend, and then as few
/// others; of those the longest, of those the last.
fn row_axis(accesses: &[Access], extents: &[u64], vector: usize) -> Option<usize> {
    let dependent = |axis: usize| {
        let all: Vec<&Access> = accesses.iter().filter(|it| it.depends_on(axis)).collect();
        let vectors = all.iter().filter(|it| it.depends_on(vector)).count();
        (vectors, all.len() - vectors)
    };
    let candidates = (0..extents.len()).filter(|it| *it != vector && extents[*it] > 1);
    candidates.min_by_key(|it| (dependent(*it), std::cmp::Reverse((extents[*it].min(28), *it))))
}

/// Whether an operand is read as vectors along rows so far apart that they fill few cache sets, and
/// pages of their own.
fn lies_in_rows(b: &Builder, access: &Access, variant: &TileVariant) -> bool {
    let vector_bytes = 4 * b.lanes() * variant.tile.vectors;
    let far = access.strides.iter().flatten().any(|it| b.most(it) * 4 > 4 * vector_bytes);
    access.is_contiguous(variant.vector) && far && !access.conditional
}

/// Whether an operand that no layout can be chosen for lies in such rows, and is read often enough
/// for a copy to pay.
fn is_read_in_rows(b: &Builder, access: &Access, variant: &TileVariant, extents: &[u64]) -> bool {
    let reused = variant.row.is_some_and(|it| !access.depends_on(it) && extents[it] >= 16);
    let input = b.schedule.tensor(access.tensor).tensor.kind != TensorKind::Weight;
    reused && input && lies_in_rows(b, access, variant)
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
    for (number, access) in b.accesses(anchor).into_iter().enumerate() {
        let elements = access.footprint(&extents) as f64;
        let rows = variant.row.map_or(1, |it| extents[it]) as f64;
        match variant.copied {
            Some((copied, _, place)) if copied as usize == number => {
                let one = if access.is_contiguous(variant.vector) { 0.3 } else { 1.3 };
                cycles += elements
                    * match place {
                        // It goes through the outer caches, out and in again.
                        Copy::Whole => one + 2.1,
                        Copy::Panel => {
                            let blocks = Blocks::choose(b, anchor, variant);
                            one * blocks.tasks_beside(variant, &access) as f64
                        }
                    };
            }
            _ if is_read_in_rows(b, &access, variant, &extents) => {
                // Rows far apart fall into the same sets of the caches, and pages of their own.
                let stays = access.footprint(&extents) * 4 <= b.cpu().l2_bytes;
                let one = if stays { 0.015 } else { 0.05 };
                cycles += elements * (rows / variant.tile.rows as f64) * one;
            }
            _ if variant.is_strided(access.tensor) => cycles += elements * 1.3,
            _ => {}
        }
    }
    if matches!(variant.copied, Some((_, _, Copy::Whole))) {
        cycles += 4000.0;
    }
    cycles
}

//! Enumerates the variants of the register tile of a reduction.
//!
//! In: a reduction, its accesses and extents. Out: [`TileVariant`]s, the cheapest first by an analytic
//! cost model: that of the inner loop (`register_tile.rs`), and the cycles of copies and scattered
//! stores. Next: `tile.rs` applies one.
//!
//! # Source
//!
//! Goto and van de Geijn (2008) pack operands that are read along the wrong axis; here that is decided
//! for any access, from its strides.

use super::blocks::Blocks;
use super::cache_sets;
use super::register_tile::{Operand, RegisterTile, Windows, choose};
use super::rows;
use super::tile::MAX_WINDOW;
use super::transposed;
use super::variant::{CopyScope, OperandCopy, Padded, ReductionBlock, Sharing, TileVariant};
use crate::sketch::Builder;
use crate::sketch::layout::{WORD_BYTES, dim_along, footprint_bytes};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{TensorId, TensorKind};
use tvmtune_ir::poly::Poly;
use tvmtune_ir::size::Size;
use tvmtune_schedule::StageId;

/// Variants that the cost model finds this many times as slow as the best are dropped; chosen by
/// judgement.
const MAX_SLOWDOWN: f64 = 2.5;

/// A copy may have this many times the elements of its operand; chosen by measurement.
const MAX_COPY_GROWTH: u64 = 2;
/// Operands that are copied, at most: the parts of two complex numbers; chosen by judgement.
const MAX_COPIES: usize = 4;
/// Reads of an element that are worth a copy; chosen by measurement.
const MIN_COPY_REUSE: u64 = 16;
/// Lengths of a tile's row by which rows are far apart; chosen by measurement.
const FAR_TILES: u64 = 4;

/// Sizes of the first-level cache of what a register tile reads along its vectors in a block of the
/// reduction; chosen by measurement: shorter blocks pay more for accumulators than for the way to the
/// second-level cache.
const BLOCK_L1_SIZES: u64 = 2;
/// Blocks of a reduction are multiples of this many iterations, and this many at least; chosen by
/// judgement.
const BLOCK_MULTIPLE: u64 = 8;
const MIN_BLOCK: u64 = 32;

/// Steps of windows that are unrolled, at most; chosen by measurement: the code of more is read from the
/// second-level cache.
const MAX_TAPS: u64 = 25;

/// The cost model of copies and stores, in cycles of one thread; chosen by measurement.
mod cost_of {
    /// A vector whose elements are stored one by one.
    pub(super) const SCATTERED_VECTOR: f64 = 20.0;
    /// An element that is copied along memory.
    pub(super) const CONTIGUOUS_ELEMENT: f64 = 0.3;
    /// An element that is copied across memory.
    pub(super) const STRIDED_ELEMENT: f64 = 1.3;
    /// The same of a row shorter than a vector, that is transposed four words at a time, and that is not.
    pub(super) const TRANSPOSED_ELEMENT: f64 = 0.6;
    pub(super) const GATHERED_ELEMENT: f64 = 1.6;
    /// An element of a copy that goes through the outer caches, out and in again.
    pub(super) const OUTER_CACHE_ELEMENT: f64 = 2.1;
    /// An element of rows so far apart that they share cache sets, in the second-level cache.
    pub(super) const ROW_ELEMENT_IN_L2: f64 = 0.015;
    /// The same element beyond the second-level cache.
    pub(super) const ROW_ELEMENT: f64 = 0.05;
    /// A phase of its own: a barrier between threads.
    pub(super) const PHASE: f64 = 4000.0;
    /// A vector that a step of a tile loads from the second-level cache, or from beyond it.
    pub(super) const STREAMED_VECTOR_FROM_L2: f64 = 0.05;
    pub(super) const STREAMED_VECTOR: f64 = 1.0;
    /// A vector of accumulators that is added to memory.
    pub(super) const ACCUMULATED_VECTOR: f64 = 3.0;
}

/// Returns the variants of a reduction, the most promising first.
pub(super) fn variants(b: &Builder, anchor: StageId) -> Vec<TileVariant> {
    let n_spatial = b.n_spatial(anchor);
    let mut found: Vec<TileVariant> =
        (0..n_spatial).flat_map(|axis| variants_along(b, anchor, axis)).collect();
    let blocked: Vec<TileVariant> = found.iter().filter_map(|it| blocked(b, anchor, it)).collect();
    found.extend(blocked);
    found.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    let best = found.first().map_or(0.0, |it| it.cost);
    found.retain(|it| it.cost <= best * MAX_SLOWDOWN);
    found
}

fn variants_along(b: &Builder, anchor: StageId, vector: usize) -> Vec<TileVariant> {
    let compute = b.compute(anchor);
    let (extents, accesses) = (b.extents(anchor), b.accesses(anchor));
    if extents[vector] == 1 && extents[..compute.n_spatial].iter().any(|it| *it > 1) {
        return Vec::new();
    }
    let (mut packed, mut scattered, mut padded) = (Vec::new(), Vec::new(), Vec::new());
    for (number, access) in accesses.iter().enumerate().filter(|it| !it.1.repeated) {
        let stride = stride_along(access, compute.n_spatial, &extents, vector);
        let is_gathered = access.is_gathered(vector);
        let is_read_in_place =
            is_gathered || access.is_contiguous(vector) && is_read_once(access, &extents);
        if access.conditional && !is_read_in_place {
            padded.push(Padded { tensor: access.tensor, stride: stride.unwrap_or(1) });
        }
        let is_strided_copy = access.conditional && stride.is_some();
        // A copy that is hardly larger pays: it is contiguous.
        let is_every_other = !access.conditional && access.is_every_other(vector);
        let is_direct = is_gathered
            || access.is_contiguous(vector)
            || (is_every_other && !can_copy(access, &extents));
        if !access.depends_on(vector) || is_direct || is_strided_copy {
            continue;
        }
        match dim_along(access, vector) {
            Some(dim) if b.is_packable(access.tensor) => {
                // Parts of one weight share its layout.
                match packed.iter().find(|it: &&(TensorId, usize)| it.0 == access.tensor) {
                    None => packed.push((access.tensor, dim)),
                    Some(it) if it.1 == dim => {}
                    Some(_) => return Vec::new(),
                }
            }
            _ if can_copy(access, &extents) => scattered.push((number as u32, access)),
            _ => return Vec::new(),
        }
    }
    if scattered.len() > 1 {
        // Real and imaginary parts that alternate are read in place.
        scattered.retain(|it| !it.1.is_every_other(vector));
    }
    let has_two_layouts =
        |it: &Padded| padded.iter().any(|a| a.tensor == it.tensor && a.stride != it.stride);
    if scattered.len() > MAX_COPIES || padded.iter().any(has_two_layouts) {
        return Vec::new();
    }
    let (row, windows, tile) = tile(b, (&accesses, &extents), compute.n_spatial, vector);
    if windows.is_some() && extents[vector] <= tile.vectors * b.lanes() {
        padded.retain(|it: &Padded| !masks_are_known(b, anchor, it.tensor, vector));
    }
    let mut variant = TileVariant {
        vector,
        row,
        packed,
        copied: Vec::new(),
        transposed: None,
        padded,
        sharing: Sharing::Any,
        tile,
        windows,
        block: None,
        cost: 0.0,
    };
    variant.sharing = Sharing::classify(&variant, &accesses, &extents[..compute.n_spatial]);
    for access in accesses.iter().filter(|it| b.is_packable(it.tensor)) {
        // Packing a weight costs nothing at a launch.
        if lies_in_rows(b, access, &variant)
            && let Some(dim) = dim_along(access, vector)
            && variant.packed.iter().all(|it| it.0 != access.tensor)
        {
            variant.packed.push((access.tensor, dim));
        }
    }
    let scattered: Vec<u32> = scattered.iter().map(|it| it.0).collect();
    with_copies(b, anchor, &variant, &scattered)
}

/// Returns a variant with each way to copy its operands: those that have to be, or are transposed, or one that lies
/// in rows and may stay where it is.
fn with_copies(
    b: &Builder,
    anchor: StageId,
    variant: &TileVariant,
    scattered: &[u32],
) -> Vec<TileVariant> {
    let (extents, accesses) = (b.extents(anchor), b.accesses(anchor));
    let with = |copied: Vec<OperandCopy>| {
        let variant = TileVariant { copied, ..variant.clone() };
        TileVariant { cost: cost(b, anchor, &variant), ..variant }
    };
    let in_rows = accesses.iter().position(|it| is_read_in_rows(b, it, variant, &extents));
    let wanted = match (scattered, in_rows) {
        ([], Some(read)) => &[read as u32][..],
        (scattered, _) => scattered,
    };
    if wanted.is_empty() {
        return vec![with(Vec::new())];
    }
    let copy = |read: u32, scope| {
        // The copy's dimensions are the axes on which the read depends.
        let access = &accesses[read as usize];
        let dim = (0..variant.vector).filter(|it| access.depends_on(*it)).count();
        OperandCopy { read, dim, scope }
    };
    let copies = [CopyScope::Panel, CopyScope::Whole]
        .map(|scope| with(wanted.iter().map(|it| copy(*it, scope)).collect()));
    let in_place = scattered.is_empty().then(|| with(Vec::new()));
    let transposed = transposed::variant(b, anchor, variant, scattered);
    let transposed = transposed.map(|it| TileVariant { cost: cost(b, anchor, &it), ..it });
    copies.into_iter().chain(in_place).chain(transposed).collect()
}

/// Returns the variant whose reduction runs block by block, where it has several blocks, and several
/// tiles read each.
fn blocked(b: &Builder, anchor: StageId, variant: &TileVariant) -> Option<TileVariant> {
    let reads_at_once =
        variant.copy_scope() == Some(CopyScope::Panel) || variant.transposed.is_some();
    if reads_at_once || !variant.padded.is_empty() {
        return None;
    }
    let (compute, extents) = (b.compute(anchor), b.extents(anchor));
    let axis = (compute.n_spatial..extents.len()).max_by_key(|it| extents[*it])?;
    let n_tiles = variant.row.map_or(1, |it| extents[it].div_ceil(variant.tile.rows));
    if n_tiles == 1 {
        return None;
    }
    let streamed = streamed_bytes(b, anchor, variant);
    let max_bytes = BLOCK_L1_SIZES * b.cpu().l1_bytes;
    let length = block_length(extents[axis], max_bytes * extents[axis] / streamed)?;
    // Accumulators go to memory and back for each block.
    let n_blocks = extents[axis].div_ceil(length) as f64;
    let outputs = extents[..compute.n_spatial].iter().size() as f64;
    let n_vectors = (outputs * n_blocks / b.lanes() as f64).ceil();
    let steps = extents[compute.n_spatial..].iter().size() as f64;
    // The first tile loads them from far in any case.
    let n_loads = (outputs * steps / (b.lanes() * variant.tile.rows) as f64).ceil();
    let n_loads = n_loads * (1.0 - 1.0 / n_tiles as f64);
    let saved = match streamed {
        bytes if bytes <= max_bytes => 0.0,
        bytes if bytes <= b.cpu().l2_bytes / 2 => cost_of::STREAMED_VECTOR_FROM_L2,
        _ => cost_of::STREAMED_VECTOR,
    };
    let cost = variant.cost - saved * n_loads + cost_of::ACCUMULATED_VECTOR * n_vectors;
    let block = Some(ReductionBlock { axis, length });
    Some(TileVariant { block, cost, ..variant.clone() })
}

/// Returns the length of the blocks of a reduction, which is at most `longest`: one that divides it, if
/// there is one that is half as long at least. `None` if there would be one block, or very short ones.
fn block_length(extent: u64, longest: u64) -> Option<u64> {
    if longest < MIN_BLOCK || longest >= extent {
        return None;
    }
    let shared = extent.div_ceil(extent.div_ceil(longest)).next_multiple_of(BLOCK_MULTIPLE);
    let lengths = (longest / 2..=longest).rev().filter(|it| it.is_multiple_of(BLOCK_MULTIPLE));
    Some(lengths.into_iter().find(|it| extent.is_multiple_of(*it)).unwrap_or(shared))
}

/// Returns the bytes of vectorized operands that a register tile reads in the whole reduction.
fn streamed_bytes(b: &Builder, anchor: StageId, variant: &TileVariant) -> u64 {
    let n_spatial = b.n_spatial(anchor);
    let tile = |(axis, extent): (usize, &u64)| match axis {
        _ if axis == variant.vector => (variant.tile.vectors * b.lanes()).min(*extent),
        _ if Some(axis) == variant.row => variant.tile.rows.min(*extent),
        _ if axis < n_spatial => 1,
        _ => *extent,
    };
    let extents: Vec<u64> = b.extents(anchor).iter().enumerate().map(tile).collect();
    let accesses = b.accesses(anchor);
    let vectors = accesses.iter().filter(|it| !it.repeated && it.depends_on(variant.vector));
    vectors.map(|it| footprint_bytes(it, &extents)).fold(0, u64::saturating_add).max(1)
}

/// Returns whether each iteration reads an element of its own: a copy of them would be read once.
fn is_read_once(access: &Access, extents: &[u64]) -> bool {
    access.footprint(extents) >= extents.iter().size()
}

/// Returns whether a copy indexed by the axes of a read is hardly larger than the elements read.
fn can_copy(access: &Access, extents: &[u64]) -> bool {
    let axes = (0..extents.len()).filter(|it| access.depends_on(*it));
    let copied: u64 = axes.map(|it| extents[it]).size();
    !access.conditional && copied <= access.footprint(extents).saturating_mul(MAX_COPY_GROWTH)
}

/// Returns the elements by which an iteration of an axis moves a read in the last dimension, if more
/// than one, and if each other axis that moves it there is unrolled or moves it by a multiple.
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

/// Returns the axis to unroll: one on which as few vector operands as possible depend, and then as few
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

/// Returns the unrolled axis of a reduction, the windows along it, and the tile of a vectorized axis with these.
fn tile(
    b: &Builder,
    (accesses, extents): (&[Access], &[u64]),
    n_spatial: usize,
    vector: usize,
) -> (Option<usize>, Option<Windows>, RegisterTile) {
    let row = row_axis(accesses, &extents[..n_spatial], vector);
    let loaded = accesses.iter().filter(|it| !it.repeated);
    let operands: Vec<Operand> =
        loaded.map(|it| Operand::new(it, vector, row, b.cpu().l1_bytes)).collect();
    let windows = row.and_then(|it| windows(accesses, extents, n_spatial, (vector, it)));
    let extent = (row.map_or(1, |it| extents[it]), extents[vector]);
    (row, windows, choose(b.simd(), &operands, windows, extent))
}

/// Returns whether a padded operand of unrolled windows, whose tiles are whole rows, is as well read in place:
/// the lanes inside of it are the same ones for each row. No results share its elements, as channels of a
/// convolution do: the unrolled axis would be that of the channels, and windows do not overlap along it.
fn masks_are_known(b: &Builder, anchor: StageId, tensor: TensorId, vector: usize) -> bool {
    let is_static = b.compute(anchor).axes[vector].extent.as_constant().is_some();
    let accesses = b.accesses(anchor);
    let mut reads = accesses.iter().filter(|it| it.tensor == tensor && it.conditional);
    is_static && reads.all(|it| it.is_contiguous(vector))
}

/// Returns the windows of an operand that overlap along the unrolled axis.
fn windows(
    accesses: &[Access],
    extents: &[u64],
    n_spatial: usize,
    (vector, row): (usize, usize),
) -> Option<Windows> {
    let last = (n_spatial..extents.len()).rfind(|it| extents[*it] > 1)?;
    let is_short = |axis: &usize| (2..=MAX_WINDOW).contains(&extents[*axis]);
    let overlapping = |rows: usize| {
        // The last axis is unrolled in any case.
        let axis = if rows == last { (n_spatial..last).rfind(is_short)? } else { rows };
        let taps = extents[axis] * extents[last];
        let of_access = |access: &Access| {
            let stride = |it: usize| access.strides[it].as_ref()?.as_constant();
            let (of_tile, of_window) = (stride(row)?, stride(rows)?);
            let step = of_tile.checked_div(of_window).filter(|it| it * of_window == of_tile)?;
            let step = u64::try_from(step).ok().filter(|it| (1..extents[rows]).contains(it))?;
            (taps <= MAX_TAPS).then_some(Windows { axis, rows: extents[rows], step, taps })
        };
        let vectors = || accesses.iter().filter(|it| it.depends_on(vector));
        // Each operand that makes vectors is read by such windows.
        vectors().map(of_access).reduce(|a, b| if a == b { a } else { None })?
    };
    is_short(&last).then(|| (n_spatial..=last).filter(is_short).find_map(overlapping))?
}

/// Returns whether an operand is read as vectors along rows so far apart that they fill few cache sets,
/// and pages of their own.
fn lies_in_rows(b: &Builder, access: &Access, variant: &TileVariant) -> bool {
    let tile_bytes = WORD_BYTES * b.lanes() * variant.tile.vectors;
    let is_far = |it: &Poly| b.max_extent(it) * WORD_BYTES > FAR_TILES * tile_bytes;
    let far = access.strides.iter().flatten().any(is_far);
    access.is_contiguous(variant.vector) && far && !access.conditional
}

/// Returns whether an operand with a given layout lies in such rows, and is read often enough for a
/// copy to pay.
fn is_read_in_rows(b: &Builder, access: &Access, variant: &TileVariant, extents: &[u64]) -> bool {
    let reused =
        variant.row.is_some_and(|it| !access.depends_on(it) && extents[it] >= MIN_COPY_REUSE);
    let input = b.schedule.tensor(access.tensor).tensor.kind != TensorKind::Weight;
    reused && input && lies_in_rows(b, access, variant)
}

/// Estimates the cycles of one thread for a reduction with its copies.
fn cost(b: &Builder, anchor: StageId, variant: &TileVariant) -> f64 {
    let compute = b.compute(anchor);
    let extents = b.extents(anchor);
    let tiled = [Some(variant.vector), variant.row];
    let others = extents.iter().enumerate().filter(|(n, _)| !tiled.contains(&Some(*n)));
    let steps: u64 = others.map(|(_, it)| *it).size();
    let mut cycles = variant.tile.cycles * steps as f64;
    let outputs: u64 = extents[..compute.n_spatial].iter().size();
    let n_vectors = outputs as f64 / b.lanes() as f64;
    let scattered = variant.vector + 1 != compute.n_spatial && extents[variant.vector] > 1;
    if scattered {
        cycles += n_vectors * cost_of::SCATTERED_VECTOR;
    }
    for (number, access) in b.accesses(anchor).into_iter().enumerate() {
        if access.repeated {
            continue;
        }
        let elements = access.footprint(&extents) as f64;
        let rows = variant.row.map_or(1, |it| extents[it]) as f64;
        let copy = variant.copied.iter().find(|it| it.read as usize == number);
        let is_shared_by_lanes = !access.depends_on(variant.vector);
        if copy.is_none() && is_shared_by_lanes && variant.lies_as_given(access.tensor) {
            cycles += cache_sets::reload_cycles(b, anchor, variant, &access);
        }
        match copy {
            Some(copy) => {
                let one = match access.is_contiguous(variant.vector) {
                    true => cost_of::CONTIGUOUS_ELEMENT,
                    false if !rows::is_short(b, anchor) => cost_of::STRIDED_ELEMENT,
                    false if steps.is_multiple_of(4) => cost_of::TRANSPOSED_ELEMENT,
                    false => cost_of::GATHERED_ELEMENT,
                };
                cycles += elements
                    * match copy.scope {
                        CopyScope::Whole => one + cost_of::OUTER_CACHE_ELEMENT,
                        CopyScope::Panel => {
                            let blocks = Blocks::choose(b, anchor, variant);
                            let spatial = &extents[..compute.n_spatial];
                            one * blocks.tasks_sharing(variant, &access, spatial) as f64
                        }
                    };
            }
            None if is_read_in_rows(b, &access, variant, &extents) => {
                let is_cached = footprint_bytes(&access, &extents) <= b.cpu().l2_bytes;
                let one = match is_cached {
                    true => cost_of::ROW_ELEMENT_IN_L2,
                    false => cost_of::ROW_ELEMENT,
                };
                cycles += elements * (rows / variant.tile.rows as f64) * one;
            }
            None if variant.is_strided(access.tensor) => {
                cycles += elements * cost_of::STRIDED_ELEMENT;
            }
            None => {}
        }
    }
    if variant.copy_scope() == Some(CopyScope::Whole) {
        cycles += cost_of::PHASE;
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::block_length;

    #[test]
    fn blocks_divide_a_reduction_or_share_it_evenly() {
        let length = |extent| block_length(extent, 682);
        assert_eq!(
            [length(600), length(682), length(1536), length(8192)],
            [None, None, Some(512), Some(512)]
        );
        // 3 blocks of 632, the last one shorter.
        assert_eq!(length(1890), Some(632));
        assert_eq!(block_length(8192, 16), None);
    }
}

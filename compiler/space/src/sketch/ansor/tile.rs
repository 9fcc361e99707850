//! The rules for stages with reuse: multi-level tiling, and fusion with an elementwise reader.
//!
//! ```text
//! for i_0, j_0                                -- S
//!   for i_1, j_1                              -- S
//!     for k_0                                 -- R
//!       for i_2, j_2                          -- S
//!         for k_1                             -- R
//!           for i_3: vectorized j_3:          -- S
//!             c[i, j] += a[i, k] * b[k, j]
//! ```
//!
//! An elementwise reader takes the outer loops, one or two levels of them, and the tiles are computed
//! inside.

use super::factors::{Level, open, product};
use super::predicates::elementwise_reader;
use super::state::{LoopNest, State, derive, needs_tiling};
use super::{Derived, Verdict, block};
use crate::sketch::layout::dim_along;
use crate::sketch::layout::pack_by_tile;
use crate::sketch::{Factor, Result};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::{AxisId, StageId};

/// Levels of loops, outermost first: of spatial axes, and of reduce axes.
const STRUCTURE: &str = "SSRSRS";
const N_SPACE: usize = 4;

/// The levels of loops that an elementwise reader may share.
const FUSED_LEVELS: [usize; 2] = [1, 2];

/// A stage in tiles: its loops by level, and the lengths of all but the outermost for each axis.
struct Tiled {
    space: Vec<Vec<AxisId>>,
    reduce: Vec<Vec<AxisId>>,
    lengths: Vec<Vec<Factor>>,
    /// The axis of the innermost loop.
    last: usize,
}

/// The stage in whose loops a tiled stage runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Host {
    /// The tiled stage runs on its own.
    None,
    /// Its elementwise reader.
    Reader,
}

/// "Multi-level tiling": a stage by itself.
pub(super) fn multi_level_tiling(state: &State, at: TensorId) -> Option<Verdict> {
    let stage = state.stage_of(at).filter(|it| needs_tiling(state, *it))?;
    Some(Verdict::ApplyAndSkipRest(derive(state, |it| {
        it.note(stage, "tile");
        if it.b.is_gpu() {
            block::tile(it, stage, None)?;
        } else {
            tile(it, stage, Host::None)?;
        }
        Ok(state.before(at))
    })))
}

/// "Multi-level tiling with fusion": a stage, and its elementwise reader.
pub(super) fn multi_level_tiling_with_fusion(state: &State, at: TensorId) -> Option<Verdict> {
    let stage = state.stage_of(at).filter(|it| needs_tiling(state, *it))?;
    let reader = elementwise_reader(state, stage).filter(|it| state.loop_nest(*it).is_none())?;
    if state.b.is_gpu() {
        return block::fused(state, stage, reader);
    }
    let fused = |level: usize| {
        derive(state, |it| {
            it.note(stage, &format!("tile, fused at {level}"));
            let tiled = tile(it, stage, Host::Reader)?;
            let axis = follow(it, reader, &tiled, level)?;
            it.b.apply(|schedule| schedule.compute_at(stage, reader, axis))?;
            Ok(state.before(at))
        })
    };
    let derived: Derived = FUSED_LEVELS.into_iter().flat_map(fused).collect();
    Some(match state.written.contains(&stage) {
        true => Verdict::ApplyAndSkipRest(derived),
        false => Verdict::Apply(derived),
    })
}

/// Tiles a stage.
fn tile(state: &mut State, stage: StageId, host: Host) -> Result<Tiled> {
    let tiled = split_axes(state, stage)?;
    let (mut n_space, mut n_reduce) = (0, 0);
    let mut order = Vec::new();
    for level in STRUCTURE.chars() {
        let (loops, next) = match level {
            'S' => (&tiled.space, &mut n_space),
            _ => (&tiled.reduce, &mut n_reduce),
        };
        order.extend(&loops[*next]);
        *next += 1;
    }
    state.b.reorder(stage, &order)?;
    let n_axes = tiled.space[0].len();
    state.loop_nests.push(LoopNest {
        stage,
        is_tiled: true,
        n_outer: if host == Host::None { 2 * n_axes } else { 0 },
        lanes: order.last().copied(),
    });
    rewrite_layouts(state, stage, &tiled)?;
    Ok(tiled)
}

/// Splits every axis into its levels.
fn split_axes(state: &mut State, stage: StageId) -> Result<Tiled> {
    let compute = state.b.compute(stage).clone();
    let extents = state.b.extents(stage);
    let n_spatial = compute.n_spatial;
    let last = (0..n_spatial).rev().find(|it| extents[*it] > 1).unwrap_or(0);
    let lanes = state.b.lanes();
    let (mut space, mut reduce) = (vec![Vec::new(); N_SPACE], vec![Vec::new(); 2]);
    let mut lengths = Vec::new();
    for axis in 0..compute.axes.len() {
        let id = AxisId(axis as u32);
        let inner = if axis == last { lanes } else { 4 };
        let own = if axis < n_spatial {
            let outer = ["S1", "S2"].map(|it| Level::outer(it, 4));
            open(state, stage, id, &[outer[0], outer[1], Level::inner("S3", inner)])
        } else {
            open(state, stage, id, &[Level::inner("R1", 16)])
        };
        let parts = state.split(stage, id, &own)?;
        let loops = if axis < n_spatial { &mut space } else { &mut reduce };
        for (level, part) in loops.iter_mut().zip(parts) {
            level.push(part);
        }
        lengths.push(own);
    }
    // Axes that run once may come after the one that is vectorized.
    for level in &mut space {
        let axis = level.remove(last);
        level.push(axis);
    }
    Ok(Tiled { space, reduce, lengths, last })
}

/// "Layout rewrite": packs a weight that is not contiguous along the vectorized axis by tiles.
fn rewrite_layouts(state: &mut State, stage: StageId, tiled: &Tiled) -> Result<()> {
    let Some(Factor::Open(lanes)) = tiled.lengths[tiled.last].last() else { return Ok(()) };
    for access in state.b.accesses(stage) {
        let is_across = access.depends_on(tiled.last) && !access.is_contiguous(tiled.last);
        if !is_across || !state.b.is_packable(access.tensor) {
            continue;
        }
        if let Some(dim) = dim_along(&access, tiled.last) {
            pack_by_tile(&mut state.b, access.tensor, dim, *lanes)?;
        }
    }
    Ok(())
}

/// "Follow tiling": gives a reader the `level` outermost levels of loops of a tiled stage; returns the
/// innermost of them.
fn follow(state: &mut State, stage: StageId, tiled: &Tiled, level: usize) -> Result<AxisId> {
    let n_axes = state.b.compute(stage).axes.len();
    let mut axes: Vec<usize> = (0..n_axes).filter(|it| *it != tiled.last).collect();
    axes.push(tiled.last);
    let (mut outer, mut inner) = (vec![Vec::new(); level], Vec::new());
    let mut lanes = None;
    for axis in axes {
        let lengths = &tiled.lengths[axis];
        let (shared, rest) = lengths.split_at(level - 1);
        let mut factors = shared.to_vec();
        if axis == tiled.last {
            // The rest in vectors as long as those that are read.
            let (vector, between) = rest.split_last().expect("a level is left");
            factors.extend([product(between), vector.clone()]);
        } else {
            factors.push(product(rest));
        }
        let mut parts = state.split(stage, AxisId(axis as u32), &factors)?;
        lanes = (axis == tiled.last).then(|| parts.pop()).flatten();
        inner.extend(parts.pop());
        for (level, part) in outer.iter_mut().zip(parts) {
            level.push(part);
        }
    }
    let outer = outer.concat();
    state.b.reorder(stage, outer.iter().copied().chain(inner).chain(lanes))?;
    state.loop_nests.push(LoopNest { stage, is_tiled: true, n_outer: outer.len(), lanes });
    Ok(*outer.last().expect("a tiled stage has axes"))
}

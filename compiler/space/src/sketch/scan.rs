//! The rule for what is reduced up to an index: prefixes of blocks in vectors, and what the blocks
//! before come to.
//!
//! ```text
//! parallel rows
//!   for b_0: unrolled k: unrolled b_1: vectorized r:  within[b, r] += if k <= r { a[b * 16 + k] }
//!   for b_0: for k: vectorized b_1:                   before[b] += if k < b { within[k, 15] }
//!   for j_0: vectorized j_1:                          c[j] = before[j_0] + within[j_0, j_1]
//! ```
//!
//! Lanes of a vector are the elements of a block: each step adds one element to those after it,
//! which takes as many instructions as elements there are, and no lane waits for another one. Where
//! the index is not the last of a tensor, lanes are what is beside it, and the rules for tiles and
//! elements apply to the parts as they are.

use super::builder::Builder;
use super::elementwise::tile_of_lanes;
use super::gpu::running;
use super::tile::sizes;
use super::{DecisionId, DecisionKind, Factor};
use tvmtune_ir::dag::access::work;
use tvmtune_schedule::error::ScheduleError;
use tvmtune_schedule::{Attach, AxisId, LoopKind, StageId};

/// More blocks than these are taken together in blocks again.
const MANY: u64 = 64;
/// Blocks of which prefixes are made at once, as sums wait for their last addition.
const AT_ONCE: u64 = 4;
/// What one more evaluation of a term may cost before it is stored instead.
const CHEAP: u64 = 3;
/// Elements of a block on GPUs.
const OF_THREADS: u64 = 16;

/// What a stage of a reduction by blocks does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Prefixes of blocks.
    Within,
    /// What the blocks before come to.
    Before,
    /// Both together.
    Last,
}

/// A stage of a reduction by blocks whose lanes are the elements of blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    stage: StageId,
    role: Role,
    /// The axis of the blocks, or of all elements.
    at: usize,
    length: DecisionId,
}

/// The program with reductions up to an index done by blocks, if it has any that are long enough;
/// on GPUs in rows of which one block has all, if there are such, or part by part.
pub(super) fn by_blocks(start: &Builder, in_rows: bool) -> Option<Builder> {
    let mut b = start.clone();
    let (mut any, mut any_row) = (false, false);
    for stage in b.schedule.order.clone() {
        let is_root = b.schedule.stage(stage).attach == Attach::Root;
        let mut next = Some(stage).filter(|_| is_root);
        while let Some(stage) = next {
            let in_row = in_rows && runs_in_row(&b, stage);
            next = scan(&mut b, stage, in_row).ok()?;
            any |= next.is_some();
            any_row |= next.is_some() && in_row;
            next = next.filter(|it| b.extents(*it).last().is_some_and(|n| *n > b.most_blocks()));
        }
    }
    (any && any_row == in_rows).then_some(b)
}

/// Whether a block of threads can have all of a row.
fn runs_in_row(b: &Builder, stage: StageId) -> bool {
    let Some([axis, _]) = b.schedule.prefix_axes(stage).filter(|_| b.is_gpu()) else {
        return false;
    };
    let extents = b.extents(stage);
    let n_spatial = b.schedule.stage(stage).compute.n_spatial;
    let n_rows = extents[..axis.0 as usize].iter().product();
    axis.0 as usize + 1 == n_spatial && running::suits(b, n_rows, extents[n_spatial - 1])
}

/// Reduces one stage by blocks; the stage of what comes before them, which may be reduced so again.
fn scan(b: &mut Builder, stage: StageId, in_row: bool) -> Result<Option<StageId>, ScheduleError> {
    let Some([axis, along]) = b.schedule.prefix_axes(stage) else { return Ok(None) };
    let block = if b.is_gpu() { OF_THREADS } else { b.lanes() };
    if b.extent(stage, along) <= 2 * block {
        return Ok(None);
    }
    let name = b.stage_name(stage).to_owned();
    let group = b.new_group();
    let options = if b.is_gpu() { [8, 16, 32] } else { [1, 2, 4].map(|it| it * block) };
    let length = b.decide(format!("{name} block"), DecisionKind::Inner, &options, block, group);
    let is_last = axis.0 as usize + 1 == b.schedule.stage(stage).compute.n_spatial;
    let parts = b.split(stage, along, &[Factor::Open(length)])?;
    let made = b.apply(|it| it.scan(stage, parts[1]))?;
    let terms = &b.schedule.stage(made.terms).compute;
    // A thread of a GPU computes each of its terms once, however many prefixes it is in.
    let most = if b.is_gpu() { CHEAP } else { 0 };
    let terms_of_row = in_row && reads_memory(b, made.terms);
    if terms.reducer.is_none() && work(&terms.body) <= most && !terms_of_row {
        b.apply(|it| it.inline(made.terms))?;
    }
    if is_last && (in_row || !b.is_gpu()) {
        let part = |stage, role| Part { stage, role, at: axis.0 as usize, length };
        b.parts.push(part(made.within, Role::Within));
        b.parts.push(part(made.before, Role::Before));
        b.parts.push(part(stage, Role::Last));
    } else {
        [made.within, made.before].into_iter().for_each(|it| b.keep_apart(it));
    }
    Ok(Some(made.before))
}

/// Whether what a stage reads comes from memory: it is brought by threads side by side, for those
/// that each have a block.
fn reads_memory(b: &Builder, stage: StageId) -> bool {
    b.accesses(stage).iter().any(|it| b.schedule.tensor(it.tensor).stage.is_none())
}

impl Builder {
    /// What a stage does in a reduction by blocks whose elements are lanes.
    pub(super) fn part(&self, stage: StageId) -> Option<Part> {
        // The last one: a stage may be `before` in one, and the result of another.
        self.parts.iter().rev().find(|it| it.stage == stage).copied()
    }

    /// The length of the blocks that a stage makes prefixes of.
    pub(super) fn block_length(&self, stage: StageId) -> Option<DecisionId> {
        self.part(stage).filter(|it| it.role == Role::Within).map(|it| it.length)
    }

    /// So many blocks are not taken together in blocks.
    fn most_blocks(&self) -> u64 {
        if self.is_gpu() { OF_THREADS } else { MANY }
    }
}

/// Runs a part on its own: rows and blocks are tasks.
pub(super) fn alone(b: &mut Builder, part: Part) -> Result<(), ScheduleError> {
    let outer = lay_out(b, part)?;
    let rows = (0..part.at as u32).map(AxisId);
    for axis in rows.chain([outer].into_iter().filter(|_| part.role != Role::Before)) {
        b.annotate(part.stage, axis, LoopKind::Parallel)?;
    }
    let name = b.stage_name(part.stage).to_owned();
    b.name.push(format!("{name}: blocks"));
    Ok(())
}

/// Orders the loops of a part inside its rows; returns the outermost of those along its blocks.
pub(super) fn lay_out(b: &mut Builder, part: Part) -> Result<AxisId, ScheduleError> {
    let Part { stage, role, at, length } = part;
    let name = b.stage_name(stage).to_owned();
    let blocks = AxisId(at as u32);
    let n_blocks = b.extents(stage)[at];
    let group = b.new_group();
    let rows = (0..at as u32).map(AxisId);
    let (order, lanes, outer) = match role {
        Role::Last => {
            let n_tiles = n_blocks.div_ceil(b.value(length)).max(1);
            let task = n_tiles.div_ceil(u64::from(b.cpu().threads) * 4).max(1);
            let kind = DecisionKind::Outer;
            let task = b.decide(format!("{name} tiles"), kind, &sizes(n_tiles), task, group);
            let factors = [Factor::Open(task), Factor::Open(length)];
            let parts = b.split(stage, blocks, &factors)?;
            (rows.chain(parts.iter().copied()).collect::<Vec<_>>(), parts[2], parts[0])
        }
        Role::Within => {
            let kind = DecisionKind::Inner;
            let n = n_blocks.min(AT_ONCE);
            let tile = b.decide(format!("{name} blocks"), kind, &[1, 2, 4, 8], n, group);
            let parts = b.split(stage, blocks, &[Factor::Open(tile)])?;
            let [elements, k] = [1, 2].map(|it| AxisId((at + it) as u32));
            b.annotate(stage, parts[1], LoopKind::Unrolled)?;
            b.annotate(stage, k, LoopKind::Unrolled)?;
            (rows.chain([parts[0], k, parts[1], elements]).collect(), elements, parts[0])
        }
        Role::Before => {
            let n_vectors = n_blocks.div_ceil(b.lanes());
            let name = format!("{name} lanes");
            let tile = tile_of_lanes(b, &name, n_vectors, n_vectors.min(AT_ONCE), group);
            let parts = b.split(stage, blocks, &[Factor::Open(tile)])?;
            let k = AxisId(at as u32 + 1);
            (rows.chain([parts[0], k, parts[1]]).collect(), parts[1], parts[0])
        }
    };
    b.apply(|it| it.reorder(stage, &order))?;
    b.annotate(stage, lanes, LoopKind::Vectorized)?;
    Ok(outer)
}

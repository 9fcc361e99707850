//! The rule for chains whose products are matrix instructions of four warps, fed by a thread that
//! copies boxes of keys and values.
//!
//! ```text
//! parallel h, i_0
//!   thread t:  q_tile[i, d] = q[i_0 + i, d]
//!   fed j_0
//!     k_tile[j, d] = k[j_0 + j, d];  v_tile[j, d] = v[j_0 + j, d]        -- by the feeder
//!     thread rows, q: unrolled d_1:                                      -- instructions
//!       tensor j_1, h, p, d_2:  s[i, j] += q_tile[i, d] * k_tile[j, d]
//!     thread rows, q:  m[i], e[i, j], l[i] as in `attention`
//!     thread rows, q: unrolled j_1:                                      -- instructions
//!       tensor d_1, d_2, h, p, j_2:  o[i, d] = o[i, d] * factor[i] + e[i, j] * v_tile[j, d]
//!   thread rows, q:  out[i, d] = o[i, d] / l[i]
//! ```
//!
//! Rows are `64 * group + 16 * u + 8 * h + g`, columns `8 * j_1 + 2 * q + p`: what `grid::group` looks
//! for. So exponentials are where the second product wants its first factor (`grid::operand`), and
//! leave registers for nothing. Rows of copies are kept in panels, as wide as instructions read.
//!
//! # Source
//!
//! FlashAttention-3 (Shah et al., 2024): a warp that feeds, groups of warps with rows of their own.

use super::attention::{Deal, Part, Places, STEP, is_tensor, products, stages_of};
use super::chain::Chain;
use super::tile::by_all_threads;
use super::{operand, power};
use crate::sketch::builder::Builder;
use crate::sketch::{DecisionId, DecisionKind, Factor};
use tvmtune_ir::dag::{BinaryOp, Expr, TensorId};
use tvmtune_schedule::error::{ErrorKind, ScheduleError};
use tvmtune_schedule::{AxisId, Instruction, LoopKind, StageId};

/// Rows of a group of warps, and its threads.
const ROWS: u64 = 64;
const THREADS: u64 = 128;
/// Bytes of operands, which are halves of one kind or the other.
const BYTES: u64 = 2;
/// Registers of a thread for scores, exponentials and sums.
const MOST_REGISTERS: u64 = 176;
/// Bytes of shared memory for barriers, and where rings start.
const RESERVE: u64 = 2048;
/// How many blocks of columns are on their way.
const SLOTS: std::ops::RangeInclusive<u64> = 2..=4;

/// How large blocks are.
struct Size {
    groups: u64,
    /// Columns of scores, of a block, and how many such blocks are on their way.
    width: u64,
    slots: u64,
}

/// A copy of an operand.
struct Copy {
    stage: StageId,
    /// Whether it is the same for all blocks of columns.
    is_row: bool,
    /// Its axis along which elements lie side by side, and how many of them a panel has.
    last: usize,
    panel: u64,
}

pub(super) fn attention(b: &mut Builder, chain: &Chain) -> Result<(), ScheduleError> {
    let name = b.stage_name(chain.root).to_owned();
    let (anchor, products) = products(b, chain)?;
    let chain = &scaled(b, chain);
    let refused = ErrorKind::NotReduction.of_stage(anchor);
    let [first, _] = products[..] else { return Err(refused) };
    let size = size(b, chain, first, anchor).ok_or(refused)?;
    let group = b.new_group();
    let kind = DecisionKind::Inner;
    let groups = b.decide(format!("{name} groups"), kind, &[1, 2, 3], size.groups, group);
    let group = b.new_group();
    let steps = power(b, format!("{name} steps"), 8, size.width / STEP, group);
    let deal = deal(groups, steps);
    let copies = copy_operands(b, chain, first, anchor)?;
    let panel = panel(b.extents(anchor)[chain.column]);
    let columns = b.extents(anchor)[chain.column].div_ceil(panel);
    let columns = [Factor::Fixed(columns), Factor::Fixed(panel / 8)];
    let at = stages_of(b, chain, anchor, (&columns, &deal), &along_panels)?;
    copies.iter().try_for_each(|it| lay(b, it, &at, groups))?;
    feed(b, at.block, size.slots, &name)?;
    // What no mask ends has all its blocks.
    let _ = b.apply(|it| it.tighten_bounds(anchor, at.block.1));
    b.name.push(format!("{name}: group attention"));
    Ok(())
}

/// Lets scores be scaled where they are read, by products: instructions of a softmax are as dear as
/// those of matrices. Returns what is left of the chain.
fn scaled(b: &mut Builder, chain: &Chain) -> Chain {
    let mut left = chain.clone();
    for stage in chain.members() {
        // Most divide by nothing.
        let _ = b.apply(|it| it.reciprocal(stage));
        let compute = &b.schedule.stage(stage).compute;
        let is_scaled = match &compute.body {
            Expr::Binary(BinaryOp::Mul, a, b) => {
                matches!(**a, Expr::Read { .. }) && matches!(**b, Expr::Const(..) | Expr::Scalar(_))
            }
            _ => false,
        };
        if is_scaled && compute.reducer.is_none() {
            // What cannot be computed where it is read has a stage of its own.
            let is_inlined = b.apply(|it| it.inline(stage)).is_ok();
            left.scores.retain(|it| it.0 != stage || !is_inlined);
        }
    }
    left
}

/// How large blocks are; `None` if the products are not for groups of warps.
fn size(b: &Builder, chain: &Chain, first: StageId, anchor: StageId) -> Option<Size> {
    let depth = b.schedule.stage(first).compute.axes.last()?.extent.as_constant()?;
    let columns = &b.schedule.stage(anchor).compute.axes[chain.column].extent;
    let (depth, columns) = (depth as u64, columns.as_constant()? as u64);
    let are_products = is_tensor(b, first) && is_tensor(b, anchor);
    let extents = b.extents(anchor);
    let rows = extents[chain.row];
    // Of fewer rows, half of each instruction is for nothing.
    if !are_products || 2 * rows <= ROWS || depth < STEP || columns < STEP {
        return None;
    }
    let padded = |n: u64| n.next_multiple_of(panel(n));
    let n_spatial = b.schedule.stage(anchor).compute.n_spatial;
    let is_outer = |it: &usize| ![chain.row, chain.column].contains(it);
    let outer: u64 = (0..n_spatial).filter(is_outer).map(|it| extents[it]).product();
    let pairs = outer * rows.div_ceil(2 * ROWS);
    let groups = if rows > ROWS && pairs >= b.gpu().multiprocessors.into() { 2 } else { 1 };
    let kept = groups * ROWS * padded(depth) * BYTES + RESERVE;
    let room = u64::from(b.gpu().arch.limits().block_shared_bytes).checked_sub(kept)?;
    let there = extents.last()?.next_power_of_two().max(STEP);
    let slots = |width: u64| room / (width * (padded(depth) + padded(columns)) * BYTES);
    let fits = |width: &u64| {
        let registers = width / 2 + width / 4 + padded(columns) / 2;
        registers <= MOST_REGISTERS && slots(*width) >= *SLOTS.start()
    };
    let width = [128, 64, 32, 16].map(|it: u64| it.min(there)).into_iter().find(fits)?;
    Some(Size { groups, width, slots: slots(width).min(*SLOTS.end()) })
}

/// Elements of the rows of panels: as many as instructions read at once, or as few as leave little
/// of the last panel empty. No loop is longer than what it walks along.
fn panel(length: u64) -> u64 {
    let widths = [64, 32, 16].into_iter().filter(|it| *it <= length);
    widths.min_by_key(|it| length.next_multiple_of(*it)).unwrap_or(STEP)
}

/// Rows and columns as the instructions deal them out.
fn deal(groups: DecisionId, steps: DecisionId) -> Deal {
    let rows = vec![
        (Factor::Open(groups), Part::Threads),
        (Factor::Fixed(4), Part::Threads),
        (Factor::Fixed(2), Part::Half),
        (Factor::Fixed(8), Part::Threads),
    ];
    let all = Factor::Times(THREADS, groups);
    Deal { rows, threads: 4, pair: 2, steps, all, is_wide: true }
}

/// Copies what the products read that is not computed for a block, if it lies as boxes and
/// instructions want it.
fn copy_operands(
    b: &mut Builder,
    chain: &Chain,
    first: StageId,
    anchor: StageId,
) -> Result<Vec<Copy>, ScheduleError> {
    let computed: Vec<TensorId> = chain.members().map(|it| b.schedule.stage(it).tensor()).collect();
    let mut copies = Vec::new();
    for reader in [first, anchor] {
        let n_axes = b.schedule.stage(reader).compute.axes.len();
        let along = if reader == anchor { chain.column } else { n_axes - 1 };
        let column = chain.scores.iter().find(|it| it.0 == reader).map(|it| it.2);
        for (n, access) in (0..).zip(b.accesses(reader)) {
            if computed.contains(&access.tensor) {
                continue;
            }
            if access.conditional || !access.is_contiguous(along) {
                return Err(ErrorKind::NotFusible.of_stage(reader));
            }
            let last = (0..along).filter(|it| access.depends_on(*it)).count();
            let is_row = column.is_some_and(|it| !access.depends_on(it));
            let panel = panel(b.extents(reader)[along]);
            let stage = b.apply(|it| it.cache_operand(reader, n))?;
            copies.push(Copy { stage, is_row, last, panel });
        }
    }
    Ok(copies)
}

/// Splits what the first product reduces: by panels, steps of each, and inside of a step.
fn along_panels(
    b: &mut Builder,
    stage: StageId,
    depth: AxisId,
) -> Result<Vec<AxisId>, ScheduleError> {
    let length = b.extent(stage, depth);
    let panel = panel(length);
    let factors = [length.div_ceil(panel), panel / STEP, STEP].map(Factor::Fixed);
    b.split(stage, depth, &factors)
}

/// Makes a copy where it is needed, in panels: of the rows by all threads, else by the feeder.
fn lay(b: &mut Builder, copy: &Copy, at: &Places, groups: DecisionId) -> Result<(), ScheduleError> {
    let (host, axis) = if copy.is_row { at.root } else { at.block };
    operand::lay_in_panels(b, (copy.stage, copy.last), host, axis, copy.panel)?;
    if copy.is_row {
        let name = b.stage_name(copy.stage).to_owned();
        by_all_threads(b, copy.stage, &name, 8, THREADS, &[groups])?;
    }
    Ok(())
}

/// Opens how many blocks of columns the feeder is ahead.
fn feed(
    b: &mut Builder,
    (stage, axis): (StageId, AxisId),
    slots: u64,
    name: &str,
) -> Result<(), ScheduleError> {
    let group = b.new_group();
    let options: Vec<u64> = SLOTS.collect();
    let decision = b.decide(format!("{name} slots"), DecisionKind::Outer, &options, slots, group);
    let fed = |depth: &u64| {
        let kind = LoopKind::WarpSpecialized(*depth as u8);
        vec![Instruction::Annotate { stage, axis, kind }]
    };
    b.one_of(decision, options.iter().map(fed).collect())
}

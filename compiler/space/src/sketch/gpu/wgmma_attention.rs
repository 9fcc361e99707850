//! The GPU template for attention by WGMMA instructions, warp-specialized: a producer warp copies keys and
//! values by TMA.
//!
//! ```text
//! parallel h, i_0
//!   thread t:  q_tile[i, d] = q[i_0 + i, d]
//!   warp-specialized j_0
//!     k_tile[j, d] = k[j_0 + j, d];  v_tile[j, d] = v[j_0 + j, d]        -- by the producer warp
//!     thread rows, q: unrolled d_1:                                      -- instructions
//!       tensor j_1, h, p, d_2:  s[i, j] += q_tile[i, d] * k_tile[j, d]
//!     thread rows, q:  m[i], e[i, j], l[i] as in `attention`
//!     thread rows, q: unrolled j_1:                                      -- instructions
//!       tensor d_1, d_2, h, p, j_2:  o[i, d] = o[i, d] * factor[i] + e[i, j] * v_tile[j, d]
//!   thread rows, q:  out[i, d] = o[i, d] / l[i]
//! ```
//!
//! Rows are `64 * warpgroup + 16 * u + 8 * h + g`, columns `8 * j_1 + 2 * q + p`: the fragment layout of
//! WGMMA. Exponentials are register operands of the second product and never leave registers. Rows of
//! copies are kept in panels, as wide as instructions read.
//!
//! # Source
//!
//! FlashAttention-3 (Shah et al., 2024): a producer warp, consumer warpgroups with rows of their own.

use super::chain_stages::{
    Blocking, ChainLayout, CopyLocations, RowLevel, STEP, is_tensorized, prepare_products,
    schedule_stages,
};
use super::operand;
use super::tile::copy_by_all_threads;
use super::wgmma::{RESERVED_BYTES, WARPGROUP_ROWS, WARPGROUP_THREADS, decide_slots};
use crate::sketch::fusion_group::Chain;
use crate::sketch::{Builder, DecisionId, DecisionKind, Factor, Result, Template, TemplateKind};
use tvmtune_ir::dag::{BinaryOp, Expr, TensorId};
use tvmtune_ir::size::Size as _;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, StageId};

/// Bytes of an element of the operands, which are 16-bit numbers.
const ELEMENT_BYTES: u64 = 2;
/// Registers of a thread for scores, exponentials and sums, of the 255 that there are.
const MAX_REGISTERS: u64 = 176;
/// Pipeline stages: blocks of columns in the circular buffer.
const PIPELINE_STAGES: std::ops::RangeInclusive<u64> = 2..=4;

/// The size of blocks.
struct Size {
    warpgroups: u64,
    /// Columns of scores of a block.
    width: u64,
    pipeline_stages: u64,
}

/// A copy of an operand.
struct OperandCopy {
    stage: StageId,
    /// It is loop-invariant along blocks of columns.
    is_row: bool,
    /// The axis along which it is contiguous.
    last: usize,
    /// Elements of a row of a panel.
    panel: u64,
}

pub(super) const TEMPLATE: Template<Chain> =
    Template { is_applicable: |b, _| b.gpu().arch.has_wgmma(), schedule };

fn schedule(b: &mut Builder, chain: &Chain) -> Result<()> {
    let name = b.stage_name(chain.root).to_owned();
    let (anchor, products) = prepare_products(b, chain)?;
    let chain = &with_scale_inlined(b, chain);
    let refused = ErrorKind::NotReduction.of_stage(anchor);
    let [first, _] = products[..] else { return Err(refused) };
    let size = size(b, chain, first, anchor).ok_or(refused)?;
    let kind = DecisionKind::Inner;
    let warpgroups = format!("{name} groups");
    let warpgroups = b.decide(warpgroups, kind, &[1, 2, 3], size.warpgroups);
    let steps = b.decide_power(format!("{name} steps"), 8, size.width / STEP);
    let layout = layout(warpgroups, steps);
    let copies = copy_operands(b, chain, first, anchor)?;
    let panel = panel(b.extents(anchor)[chain.column]);
    let columns = b.extents(anchor)[chain.column].div_ceil(panel);
    let columns = [Factor::Fixed(columns), Factor::Fixed(panel / 8)];
    let blocking = Blocking { columns: &columns, layout: &layout, split_depth: &split_depth };
    let locations = schedule_stages(b, chain, anchor, &blocking)?;
    copies.iter().try_for_each(|it| place(b, it, &locations, warpgroups))?;
    decide_slots(b, locations.block, PIPELINE_STAGES, size.pipeline_stages, &name)?;
    // Without a mask the loop keeps all its blocks.
    let _ = b.apply(|it| it.tighten_bounds(anchor, locations.block.axis));
    b.note_template(TemplateKind::WgmmaAttention, chain.root);
    Ok(())
}

/// Inlines the scaling of scores, as a multiplication: the instructions of a softmax take as long as
/// those of the products. Returns the remaining chain.
fn with_scale_inlined(b: &mut Builder, chain: &Chain) -> Chain {
    let mut left = chain.clone();
    for stage in chain.members() {
        // Most stages have no division.
        let _ = b.apply(|it| it.reciprocal(stage));
        let compute = b.compute(stage);
        let is_scaled = match &compute.body {
            Expr::Binary(BinaryOp::Mul, a, b) => {
                matches!(**a, Expr::Read { .. }) && matches!(**b, Expr::Const(..) | Expr::Scalar(_))
            }
            _ => false,
        };
        if is_scaled && compute.reducer.is_none() {
            // A stage that cannot be inlined stays in the chain.
            let is_inlined = b.apply(|it| it.inline(stage)).is_ok();
            left.scores.retain(|it| it.stage != stage || !is_inlined);
        }
    }
    left
}

/// Chooses the size of blocks; `None` if the products are not for WGMMA.
fn size(b: &Builder, chain: &Chain, first: StageId, anchor: StageId) -> Option<Size> {
    let depth = b.compute(first).axes.last()?.extent.as_constant()?;
    let columns = &b.compute(anchor).axes[chain.column].extent;
    let (depth, columns) = (depth as u64, columns.as_constant()? as u64);
    let are_products = is_tensorized(b, first) && is_tensorized(b, anchor);
    let extents = b.extents(anchor);
    let rows = extents[chain.row];
    // With fewer rows, half of each instruction is padding.
    if !are_products || 2 * rows <= WARPGROUP_ROWS || depth < STEP || columns < STEP {
        return None;
    }
    let padded = |n: u64| n.next_multiple_of(panel(n));
    let n_spatial = b.n_spatial(anchor);
    let is_outer = |it: &usize| ![chain.row, chain.column].contains(it);
    let outer: u64 = (0..n_spatial).filter(is_outer).map(|it| extents[it]).size();
    let pairs = outer * rows.div_ceil(2 * WARPGROUP_ROWS);
    let is_busy = pairs >= b.gpu().multiprocessors.into();
    let warpgroups = if rows > WARPGROUP_ROWS && is_busy { 2 } else { 1 };
    let kept = warpgroups * WARPGROUP_ROWS * padded(depth) * ELEMENT_BYTES + RESERVED_BYTES;
    let room = u64::from(b.gpu().arch.limits().block_shared_bytes).checked_sub(kept)?;
    let max_width = extents.last()?.next_power_of_two().max(STEP);
    let stages = |width: u64| room / (width * (padded(depth) + padded(columns)) * ELEMENT_BYTES);
    let fits = |width: &u64| {
        let registers = width / 2 + width / 4 + padded(columns) / 2;
        registers <= MAX_REGISTERS && stages(*width) >= *PIPELINE_STAGES.start()
    };
    let width = [128, 64, 32, 16].map(|it: u64| it.min(max_width)).into_iter().find(fits)?;
    let pipeline_stages = stages(width).min(*PIPELINE_STAGES.end());
    Some(Size { warpgroups, width, pipeline_stages })
}

/// Returns the elements of a row of a panel: as many as instructions read at once, or as few as leave
/// little padding in the last panel, and no more than the axis has.
fn panel(length: u64) -> u64 {
    let widths = [64, 32, 16].into_iter().filter(|it| *it <= length);
    widths.min_by_key(|it| length.next_multiple_of(*it)).unwrap_or(STEP)
}

/// Returns the fragment layout of WGMMA instructions.
fn layout(warpgroups: DecisionId, steps: DecisionId) -> ChainLayout {
    let rows = vec![
        (Factor::Open(warpgroups), RowLevel::Threads),
        (Factor::Fixed(4), RowLevel::Threads),
        (Factor::Fixed(2), RowLevel::Half),
        (Factor::Fixed(8), RowLevel::Threads),
    ];
    let all = Factor::Times(WARPGROUP_THREADS, warpgroups);
    ChainLayout { rows, threads: 4, pair: 2, steps, all, is_wide: true }
}

/// Copies the operands of the products that are not computed for a block, if TMA and instructions can
/// read their layouts.
fn copy_operands(
    b: &mut Builder,
    chain: &Chain,
    first: StageId,
    anchor: StageId,
) -> Result<Vec<OperandCopy>> {
    let computed: Vec<TensorId> = chain.members().map(|it| b.tensor_of(it)).collect();
    let mut copies = Vec::new();
    for reader in [first, anchor] {
        let n_axes = b.compute(reader).axes.len();
        let along = if reader == anchor { chain.column } else { n_axes - 1 };
        let column = chain.score(reader).map(|it| it.column);
        for (n, access) in (0..).zip(b.accesses(reader)) {
            if access.repeated || computed.contains(&access.tensor) {
                continue;
            }
            if access.conditional || !access.is_contiguous(along) {
                return Err(ErrorKind::NotFusible.of_stage(reader));
            }
            let last = (0..along).filter(|it| access.depends_on(*it)).count();
            let is_row = column.is_some_and(|it| !access.depends_on(it));
            let panel = panel(b.extents(reader)[along]);
            let stage = b.apply(|it| it.cache_operand(reader, n))?;
            copies.push(OperandCopy { stage, is_row, last, panel });
        }
    }
    Ok(copies)
}

/// Splits the reduced axis of the first product: by panels, by their steps, and in a step.
fn split_depth(b: &mut Builder, stage: StageId, depth: AxisId) -> Result<Vec<AxisId>> {
    let length = b.extent(stage, depth);
    let panel = panel(length);
    let factors = [length.div_ceil(panel), panel / STEP, STEP].map(Factor::Fixed);
    b.split(stage, depth, &factors)
}

/// Places a copy in panels: rows by all threads, keys and values by the producer warp.
fn place(
    b: &mut Builder,
    copy: &OperandCopy,
    locations: &CopyLocations,
    warpgroups: DecisionId,
) -> Result<()> {
    const LANES: u64 = 8;
    let location = if copy.is_row { locations.root } else { locations.block };
    operand::place_in_panels(b, copy.stage, copy.last, location, copy.panel)?;
    if copy.is_row {
        let threads = Factor::Product(WARPGROUP_THREADS, vec![warpgroups]);
        copy_by_all_threads(b, copy.stage, LANES, threads)?;
    }
    Ok(())
}

//! The GPU template for attention: one kernel, in which all stages follow the second product block by
//! block.
//!
//! ```text
//! parallel h, i_0
//!   thread t:  q_tile[i, d] = q[i_0 + i, d]
//!   pipelined j_0
//!     thread t:  k_tile[j, d] = k[j_0 + j, d];  v_tile[j, d] = v[j_0 + j, d]
//!     thread rows: thread columns:  s[i, j] += q_tile[i, d] * k_tile[j, d]
//!     thread rows: thread columns:  m[i] = max(m[i], s[i, j])                 -- online
//!     thread rows: thread columns:  e[i, j] = exp(s[i, j] - m[i])
//!     thread rows: thread columns:  l[i] = l[i] * factor[i] + e[i, j]         -- online
//!     thread rows: thread columns:  o[i, d] = o[i, d] * factor[i] + e[i, j] * v_tile[j, d]
//!   thread rows: thread columns:  out[i, d] = o[i, d] / l[i]
//! ```
//!
//! The loop over blocks ends where a mask hides all later columns from the rows of a tile.
//!
//! All stages distribute rows and columns over threads by one layout, so that values of a row stay in
//! the registers of the threads that share it. Where operands are narrow, it is the fragment layout of
//! MMA instructions, for each of the two products that allows it.
//!
//! # Source
//!
//! FlashAttention-2 (Dao, 2023): rows over warps, the loop over keys inside, only row statistics and
//! accumulators kept from one block to the next.

use super::chain_stages::{
    Blocking, ChainLayout, RowLevel, STEP, is_tensorized, prepare_products, schedule_stages,
};
use super::operand::Location;
use super::reads::ACCESS_BYTES;
use super::tile::{copy_by_all_threads, max_stages, pipeline};
use crate::sketch::fusion_group::Chain;
use crate::sketch::{Builder, DecisionId, Factor, Result, Template, TemplateKind};
use tvmtune_ir::dag::TensorId;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, StageId};

/// Rows of a block by default.
const MAX_ROWS: u64 = 64;
/// Rows of an MMA instruction.
const MMA_ROWS: u64 = 16;

pub(super) const TEMPLATE: Template<Chain> = Template { is_applicable: |_, _| true, schedule };

fn schedule(b: &mut Builder, chain: &Chain) -> Result<()> {
    let name = b.stage_name(chain.root).to_owned();
    let (anchor, products) = prepare_products(b, chain)?;
    let (width, stages) = block(b, chain, &products);
    let is_tensorized = products.iter().any(|it| is_tensorized(b, *it));
    let layout = match is_tensorized {
        true => mma_layout(b, chain, width, &name),
        false => scalar_layout(b, chain, width, &name),
    };
    let copies = copy_operands(b, chain, &products)?;
    let columns = b.extents(chain.root)[chain.column].div_ceil(layout.threads * layout.pair);
    let columns = [Factor::Fixed(columns)];
    let blocking = Blocking { columns: &columns, layout: &layout, split_depth: &split_depth };
    let locations = schedule_stages(b, chain, anchor, &blocking)?;
    for OperandCopy { stage, is_row } in copies {
        place(b, stage, if is_row { locations.root } else { locations.block }, &layout.all)?;
    }
    pipeline(b, anchor, locations.block.axis, stages, &name)?;
    // Without a mask the loop keeps all its blocks.
    let _ = b.apply(|it| it.tighten_bounds(anchor, locations.block.axis));
    b.note_template(TemplateKind::Attention, chain.root);
    Ok(())
}

/// Splits all of a reduced axis into steps of MMA instructions.
fn split_depth(b: &mut Builder, stage: StageId, depth: AxisId) -> Result<Vec<AxisId>> {
    let steps = b.extent(stage, depth).div_ceil(STEP);
    b.split(stage, depth, &[Factor::Fixed(steps), Factor::Fixed(STEP)])
}

/// Returns the rows of a block.
fn rows(b: &Builder, chain: &Chain) -> u64 {
    b.extents(chain.root)[chain.row].next_power_of_two().clamp(MMA_ROWS, MAX_ROWS)
}

/// Returns the columns of a block and the pipeline stages: the first choice that fits shared memory,
/// or half of it, so that two thread blocks are resident.
fn block(b: &Builder, chain: &Chain, products: &[StageId]) -> (u64, u64) {
    /// Resident thread blocks, columns, pipeline stages.
    const CHOICES: [(u64, u64, u64); 7] =
        [(2, 64, 3), (2, 64, 2), (1, 64, 2), (1, 64, 1), (1, 32, 2), (1, 32, 1), (1, 16, 1)];
    let limits = b.gpu().arch.limits();
    let max_stages = max_stages(b);
    let bytes = |it: &StageId| {
        let dtypes = b.accesses(*it).into_iter().map(|it| b.schedule.tensor(it.tensor));
        dtypes.map(|it| it.tensor.dtype.bytes()).max().unwrap_or(4)
    };
    let bytes = products.iter().map(bytes).max().unwrap_or(4);
    // Rows are padded.
    let row = |elements: u64| elements * bytes + 16;
    let depth = |it: &StageId| b.extents(*it).last().copied().unwrap_or(1);
    let anchor = products.last().copied().unwrap_or(chain.anchor);
    let inner = products.iter().filter(|it| **it != anchor).map(depth).max().unwrap_or(0);
    let columns = b.extents(anchor)[chain.column];
    let max_width = depth(&anchor).next_power_of_two().max(STEP);
    let fits = |(residents, width, stages): &&(u64, u64, u64)| {
        let width = (*width).min(max_width);
        let copies = width * (row(inner) + row(columns)) * stages;
        let kept = rows(b, chain) * (row(inner) + row(width));
        *stages <= max_stages && (copies + kept) * residents <= limits.block_shared_bytes.into()
    };
    let (_, width, stages) = CHOICES.iter().find(fits).copied().unwrap_or((1, STEP, 1));
    (width.min(max_width), stages)
}

/// Opens the size of blocks in the fragment layout of MMA instructions.
fn mma_layout(b: &mut Builder, chain: &Chain, width: u64, name: &str) -> ChainLayout {
    let row_threads = (rows(b, chain) / MMA_ROWS, 8);
    let [outer, tiles, steps] = decide(b, row_threads, 1, width, name);
    let rows = vec![
        (Factor::Open(outer), RowLevel::Threads),
        (Factor::Open(tiles), RowLevel::Tiles),
        (Factor::Fixed(2), RowLevel::Half),
        (Factor::Fixed(8), RowLevel::Threads),
    ];
    let all = Factor::Times(8 * 4, outer);
    ChainLayout { rows, threads: 4, pair: 2, steps, all, is_wide: false }
}

/// Opens the size of blocks where products are scalar: 16 threads share a row.
fn scalar_layout(b: &mut Builder, chain: &Chain, width: u64, name: &str) -> ChainLayout {
    const THREADS: u64 = 16;
    let rows = rows(b, chain);
    let row_threads = (THREADS.min(rows), 32);
    let [outer, tiles, steps] = decide(b, row_threads, rows.div_ceil(THREADS), width, name);
    let rows = vec![
        (Factor::Open(outer), RowLevel::Threads),
        (Factor::Open(tiles), RowLevel::Tiles),
        (Factor::Fixed(1), RowLevel::Half),
        (Factor::Fixed(1), RowLevel::Threads),
    ];
    let all = Factor::Times(THREADS, outer);
    ChainLayout { rows, threads: THREADS, pair: 1, steps, all, is_wide: false }
}

/// Opens threads and tiles of rows, and steps of columns, for a default size of blocks.
fn decide(
    b: &mut Builder,
    (row_threads, max_threads): (u64, u64),
    row_tiles: u64,
    width: u64,
    name: &str,
) -> [DecisionId; 3] {
    let threads = b.decide_power(format!("{name} row threads"), max_threads, row_threads);
    let group = b.group_of(threads);
    let tiles = b.decide_power_in(group, format!("{name} row tiles"), 8, row_tiles);
    [threads, tiles, b.decide_power(format!("{name} steps"), 8, width / STEP)]
}

/// A copy of an operand of a product.
struct OperandCopy {
    stage: StageId,
    /// It is loop-invariant along blocks of columns.
    is_row: bool,
}

/// Copies the operands of the products that are not computed for a block.
fn copy_operands(b: &mut Builder, chain: &Chain, products: &[StageId]) -> Result<Vec<OperandCopy>> {
    let computed: Vec<TensorId> = chain.members().map(|it| b.tensor_of(it)).collect();
    let mut copies = Vec::new();
    for stage in products {
        let moving = match chain.score(*stage) {
            Some(score) => score.column,
            None => b.n_spatial(*stage),
        };
        for (n, access) in (0..).zip(b.accesses(*stage)) {
            if access.repeated || computed.contains(&access.tensor) {
                continue;
            }
            // An operand that cannot be copied is read in place.
            if let Ok(copy) = b.apply(|it| it.cache_operand(*stage, n)) {
                copies.push(OperandCopy { stage: copy, is_row: !access.depends_on(moving) });
            }
        }
    }
    Ok(copies)
}

/// Copies an operand by all threads, along memory.
fn place(b: &mut Builder, stage: StageId, at: Location, threads: &Factor) -> Result<()> {
    let tensor = b.tensor_of(stage);
    let n_dims = b.n_dims(tensor);
    b.apply(|it| it.compute_at(stage, at.stage, at.axis))?;
    let accesses = b.accesses(stage);
    let contiguous = (0..n_dims).rev().find(|dim| accesses.iter().all(|it| it.is_contiguous(*dim)));
    let last_dim = n_dims.checked_sub(1).ok_or(ErrorKind::NotFusible.of_stage(stage))?;
    let last = contiguous.unwrap_or(last_dim);
    let order: Vec<usize> = (0..n_dims).filter(|it| *it != last).chain([last]).collect();
    if last != last_dim {
        b.permute(tensor, order.clone())?;
        b.reorder(stage, order.iter().map(|it| AxisId(*it as u32)))?;
    }
    let dtype = b.schedule.tensor(tensor).tensor.dtype;
    let length = b.extents(stage)[last];
    let fits = |it: &u64| *it * dtype.bytes() <= ACCESS_BYTES && length.is_multiple_of(*it);
    let best = if contiguous.is_some() { [8, 4, 2].into_iter().find(fits).unwrap_or(1) } else { 1 };
    copy_by_all_threads(b, stage, best, threads.clone())
}

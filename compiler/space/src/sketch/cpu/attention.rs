//! The CPU templates for attention: all stages run for a block of queries at a time. By one, they follow the
//! second product block by block of keys:
//!
//! ```text
//! parallel h, i_0
//!   vectorized i:  q_copy[d, i] = q[i_0 + i, d]
//!   for j_0                                                             -- blocks of keys
//!     for i_1, j_1: for d: unrolled j: vectorized i:  s[j, i] += q_copy[d, i] * k[j, d]
//!     for j: vectorized i:    m[i] = max(m[i], s[j, i])                 -- online
//!     for j: vectorized i:    e[j, i] = exp(s[j, i] - m[i])
//!     for j: vectorized i:    l[i] = l[i] * factor[i] + e[j, i]         -- online
//!     for i_1, d_1: for j: unrolled d: vectorized i:  o[d, i] = o[d, i] * factor[i] + e[j, i] * v[j, d]
//!   unrolled d: vectorized i:  out[i, d] = o[d, i] / l[i]
//! ```
//!
//! By the other, there are no blocks of keys: the scores of a block of queries with all keys come first, then
//! maxima, exponentials and sums, and the second product at last. No sum is corrected, so it serves programs
//! with fixed numerics, whose maxima and sums are partial results that are combined by halves.
//!
//! In both, lanes are queries: maxima, sums and corrections of rows need no operation between lanes, and keys and
//! values are read element by element, as they lie in memory. Only queries are copied.
//!
//! # Source
//!
//! The order of loops is that of FlashAttention-2 (Dao, 2023).

use super::register_tile::{FMA_LATENCY, FMAS_PER_CYCLE};
use crate::sketch::fusion_group::{Chain, Score};
use crate::sketch::layout::block_sizes;
use crate::sketch::{Builder, DecisionId, DecisionKind, Factor, Result, Template, TemplateKind};
use tvmtune_ir::dag::Numerics;
use tvmtune_schedule::error::ErrorKind;
use tvmtune_schedule::{AxisId, LoopKind, StageId};

/// Vectors of queries in a register tile, and in a block; chosen by measurement: row statistics of a block hide
/// the latency of an addition.
const QUERY_VECTORS: [(u64, u64); 2] = [(2, 4), (3, 3)];
/// Keys of a block for each step of the second product that is unrolled; chosen by measurement: scores of a
/// block stay in the first-level cache.
const KEYS: u64 = 32;
/// Keys or features in a register tile, at most.
const MAX_TILE: u64 = 12;
/// The number of vector registers up to which tiles of three vectors are tried, too: tiles of two vectors by four
/// keys have just enough accumulators to hide the latency of a multiply-add.
const FEW_REGISTERS: u32 = 16;
/// Cycles of a step of a product besides its multiply-adds; chosen by measurement: on a Zen 3, tiles of three
/// vectors by four keys are up to a tenth faster than tiles of two by four.
const STEP_CYCLES: f64 = 0.4;
/// Steps of a product that are unrolled by default, and at most.
const STEPS: (u64, u64) = (2, 8);

/// Keys block by block, with online reductions.
const BY_BLOCKS: Template<Chain> = Template {
    is_applicable: |b, chain| fills_lanes(b, chain) && b.schedule.dag.numerics == Numerics::Free,
    schedule: by_blocks,
};

/// All keys of a block of queries at once: no sum is corrected.
const AT_ONCE: Template<Chain> = Template { is_applicable: fills_lanes, schedule: at_once };

/// Returns the templates, the most promising first: keys that are one block anyway need no correction.
pub(super) fn templates(b: &Builder, chain: &Chain) -> [Template<Chain>; 2] {
    let n_keys = b.extents(chain.anchor).last().copied().unwrap_or(1);
    if n_keys <= KEYS { [AT_ONCE, BY_BLOCKS] } else { [BY_BLOCKS, AT_ONCE] }
}

/// Returns whether rows fill more than half of a vector: with fewer, lanes of keys and of features are faster (measured
/// with 2, 4 and 8 rows on AVX2).
fn fills_lanes(b: &Builder, chain: &Chain) -> bool {
    b.extents(chain.anchor)[chain.row] * 2 > b.lanes()
}

/// The sizes of blocks.
struct Blocks {
    /// Queries of a block.
    queries: DecisionId,
    /// Keys of a register tile.
    tile: DecisionId,
}

impl Blocks {
    /// Opens the sizes of blocks of that many queries, and of register tiles of that many keys.
    fn decide(b: &mut Builder, name: &str, n_queries: u64, n_keys: u64) -> Self {
        let n_vectors = n_queries.div_ceil(b.lanes());
        let (tile_vectors, best) = best_block(b, n_vectors, n_keys);
        let queries = b.decide_lanes(format!("{name} lanes"), n_vectors, best);
        let best = best_tile(b, tile_vectors, n_keys);
        let sizes: Vec<u64> = (1..=n_keys.min(MAX_TILE)).collect();
        let tile = b.decide(format!("{name} keys"), DecisionKind::Inner, &sizes, best);
        Self { queries, tile }
    }

    /// Opens the number of register tiles in a block of keys; returns the factor that splits keys into
    /// blocks.
    fn decide_keys(&self, b: &mut Builder, name: &str, n_keys: u64) -> Factor {
        let tile = b.value(self.tile);
        let n_tiles = n_keys.div_ceil(tile);
        let (kind, group) = (DecisionKind::Outer, b.group_of(self.tile));
        let most = n_tiles.min(1024 / tile).max(1);
        let best = (KEYS / tile).min(n_tiles).max(1);
        let name = format!("{name} key tiles");
        let tiles = b.decide_in(group, name, kind, &block_sizes(most), best);
        Factor::Product(1, vec![tiles, self.tile])
    }
}

/// Returns the numbers of vectors in a register tile and in a block of queries that may be best.
fn query_vectors(b: &Builder) -> &'static [(u64, u64)] {
    let has_few = b.cpu().isa.registers() <= FEW_REGISTERS;
    if has_few { &QUERY_VECTORS } else { &QUERY_VECTORS[..1] }
}

/// Returns the best numbers of vectors in a register tile and in a block of queries, of which there are that many
/// vectors: those that take the fewest cycles, partial blocks included.
fn best_block(b: &Builder, n_vectors: u64, n_keys: u64) -> (u64, u64) {
    let cycles = |(tile, block): (u64, u64)| {
        let width = best_tile(b, tile, n_keys);
        let step = |vectors: u64| match vectors {
            0 => 0.0,
            _ => ((vectors * width) as f64 / FMAS_PER_CYCLE).max(FMA_LATENCY) + STEP_CYCLES,
        };
        let tiles = |vectors: u64| (vectors / tile) as f64 * step(tile) + step(vectors % tile);
        ((n_vectors / block) as f64 * tiles(block) + tiles(n_vectors % block)) / width as f64
    };
    let fewest = query_vectors(b).iter().copied().min_by(|a, b| cycles(*a).total_cmp(&cycles(*b)));
    let (tile, block) = fewest.unwrap_or(QUERY_VECTORS[0]);
    (tile.min(n_vectors), block.min(n_vectors))
}

/// Returns the best width of a register tile of so many vectors: as wide as registers allow, and a
/// divisor of what it tiles if a divisor hides the latency of multiply-adds.
fn best_tile(b: &Builder, vectors: u64, extent: u64) -> u64 {
    let hides_latency = |it: u64| it as f64 >= FMA_LATENCY * FMAS_PER_CYCLE;
    let registers: u64 = b.cpu().isa.registers().into();
    // Beside the accumulators a vector of each operand, and one element.
    let most = ((registers - vectors - 1) / vectors).min(MAX_TILE).min(extent).max(1);
    let divides = |it: &u64| extent.is_multiple_of(*it) && hides_latency(*it * vectors);
    (1..=most).rev().find(divides).unwrap_or(most)
}

/// The keys that a task computes the scores of before it uses them.
#[derive(Clone, Copy, PartialEq)]
enum Keys {
    /// A block after the other.
    ByBlocks,
    /// All.
    AtOnce,
}

/// A chain whose tasks are set up, in which the second product runs; the scores do not yet.
struct Tasks {
    /// The second product.
    anchor: StageId,
    /// The innermost loop over tasks of the stage that stores the result.
    task: AxisId,
    blocks: Blocks,
    /// The loops of the second product over keys; that over blocks first, if there are some.
    keys: Vec<AxisId>,
    /// The copies of queries, each with its dimension of rows.
    copies: Vec<(StageId, usize)>,
}

fn by_blocks(b: &mut Builder, chain: &Chain) -> Result<()> {
    let Tasks { anchor, task, blocks, keys, copies } = tasks(b, chain, Keys::ByBlocks)?;
    let block = keys[0];
    for stage in b.schedule.order.clone().into_iter().rev() {
        if let Some(score) = chain.score(stage).copied() {
            schedule_score(b, score, &blocks)?;
            b.apply(|it| it.compute_at(stage, anchor, block))?;
        } else if let Some(reduction) = chain.reductions.iter().find(|it| it.stage == stage) {
            order_lanes_last(b, stage, reduction.row)?;
            b.apply(|it| it.online_reduction(stage, anchor, block))?;
        }
    }
    compute_copies(b, chain, task, &copies)?;
    // Without a mask the loop keeps all its blocks.
    let _ = b.apply(|it| it.tighten_bounds(anchor, block));
    b.note_template(TemplateKind::Attention, chain.root);
    Ok(())
}

fn at_once(b: &mut Builder, chain: &Chain) -> Result<()> {
    let tasks = tasks(b, chain, Keys::AtOnce)?;
    for stage in b.schedule.order.clone().into_iter().rev() {
        if let Some(score) = chain.score(stage).copied() {
            schedule_score(b, score, &tasks.blocks)?;
        } else if let Some(reduction) = chain.reductions.iter().find(|it| it.stage == stage) {
            order_lanes_last(b, stage, reduction.row)?;
        } else {
            continue;
        }
        b.apply(|it| it.compute_at(stage, chain.root, tasks.task))?;
    }
    compute_copies(b, chain, tasks.task, &tasks.copies)?;
    b.note_template_as(TemplateKind::Attention, chain.root, "attention at once");
    Ok(())
}

/// Computes the copies of queries in each task.
fn compute_copies(
    b: &mut Builder,
    chain: &Chain,
    task: AxisId,
    copies: &[(StageId, usize)],
) -> Result<()> {
    for (stage, row) in copies {
        order_lanes_last(b, *stage, *row)?;
        b.apply(|it| it.compute_at(*stage, chain.root, task))?;
    }
    Ok(())
}

/// Makes blocks of queries tasks, with the second product in each.
fn tasks(b: &mut Builder, chain: &Chain, keys: Keys) -> Result<Tasks> {
    let Chain { root, row, column, .. } = *chain;
    let name = b.stage_name(root).to_owned();
    let is_copied = root == chain.anchor;
    let anchor = if is_copied { b.apply(|it| it.cache_write(root))? } else { chain.anchor };
    let n_queries = b.extents(root)[row];
    let n_keys = *b.extents(anchor).last().ok_or(ErrorKind::NotReduction.of_stage(anchor))?;
    let blocks = Blocks::decide(b, &name, n_queries, n_keys);
    let block = match keys {
        Keys::ByBlocks => Some(blocks.decide_keys(b, &name, n_keys)),
        Keys::AtOnce => None,
    };
    let copies = copy_queries(b, chain)?;
    let task = order_root(b, Score { stage: root, row, column }, &blocks)?;
    let keys = schedule_second_product(b, Score { stage: anchor, row, column }, &blocks, block)?;
    b.apply(|it| it.compute_at(anchor, root, task))?;
    Ok(Tasks { anchor, task, blocks, keys, copies })
}

/// Copies the operands of the first product that depend on rows, unless they are contiguous along them
/// already; returns the copies, each with its dimension of rows.
fn copy_queries(b: &mut Builder, chain: &Chain) -> Result<Vec<(StageId, usize)>> {
    let mut copies = Vec::new();
    let products: Vec<Score> =
        chain.scores.iter().filter(|it| b.reduces(it.stage)).copied().collect();
    for Score { stage, row, .. } in products {
        for (number, access) in (0..).zip(b.accesses(stage)) {
            let is_parameter = b.schedule.tensor(access.tensor).stage.is_none();
            if is_parameter
                && !access.repeated
                && access.depends_on(row)
                && !access.is_contiguous(row)
            {
                let dim = (0..row).filter(|it| access.depends_on(*it)).count();
                copies.push((b.apply(|it| it.cache_operand(stage, number))?, dim));
            }
        }
    }
    Ok(copies)
}

/// Orders the loops of the stage that stores the result; returns the innermost loop over tasks.
fn order_root(b: &mut Builder, axes: Score, blocks: &Blocks) -> Result<AxisId> {
    let Score { stage, row, column } = axes;
    let parts = b.split(stage, AxisId(row as u32), &[Factor::Open(blocks.queries)])?;
    let mut grid = others(b, stage, &[row, column]);
    grid.push(parts[0]);
    b.reorder(stage, grid.iter().copied().chain([AxisId(column as u32), parts[1]]))?;
    b.annotate_all(stage, &grid, LoopKind::Parallel)?;
    b.annotate(stage, parts[1], LoopKind::Vectorized)?;
    Ok(parts[0])
}

/// Schedules the second product, with its loop over blocks of keys outside if there are some; returns its
/// loops over keys.
fn schedule_second_product(
    b: &mut Builder,
    axes: Score,
    blocks: &Blocks,
    block: Option<Factor>,
) -> Result<Vec<AxisId>> {
    let Score { stage, row, column } = axes;
    let name = format!("{} values", b.stage_name(stage));
    let key = AxisId(b.n_spatial(stage) as u32);
    let vectors = tile_vectors(b, blocks, &name);
    let n_columns = b.extents(stage)[column];
    let best = best_tile(b, b.value(vectors) / b.lanes(), n_columns);
    let sizes: Vec<u64> = (1..=n_columns.min(MAX_TILE)).collect();
    let width = b.decide(format!("{name} tile"), DecisionKind::Inner, &sizes, best);
    let steps = steps(b, &name);
    let is_blocked = block.is_some();
    let factors: Vec<Factor> = block.into_iter().chain([Factor::Open(steps)]).collect();
    let keys = b.split(stage, key, &factors)?;
    let (block, inside) = keys.split_at(usize::from(is_blocked));
    let outer = [block, &others(b, stage, &[row, column])].concat();
    order_product(b, axes, &outer, (vectors, width), inside)?;
    Ok(keys)
}

/// Schedules a stage with an element for each query and key of a block.
fn schedule_score(b: &mut Builder, axes: Score, blocks: &Blocks) -> Result<()> {
    let Score { stage, row, column } = axes;
    if !b.reduces(stage) {
        return order_lanes_last(b, stage, row);
    }
    let name = b.stage_name(stage).to_owned();
    let (n_spatial, n_axes) = (b.n_spatial(stage), b.compute(stage).axes.len());
    let vectors = tile_vectors(b, blocks, &name);
    let steps = steps(b, &name);
    let mut depths: Vec<AxisId> = (n_spatial..n_axes).map(|it| AxisId(it as u32)).collect();
    let depth = depths.pop().ok_or(ErrorKind::NotReduction.of_stage(stage))?;
    depths.extend(b.split(stage, depth, &[Factor::Open(steps)])?);
    order_product(b, axes, &others(b, stage, &[row, column]), (vectors, blocks.tile), &depths)
}

/// Opens the number of queries in the register tile of a product.
fn tile_vectors(b: &mut Builder, blocks: &Blocks, name: &str) -> DecisionId {
    let n_vectors = b.value(blocks.queries) / b.lanes();
    let of_block = query_vectors(b).iter().find(|it| it.1 == n_vectors);
    let best = of_block.map_or(n_vectors.min(QUERY_VECTORS[0].0), |it| it.0);
    b.decide_lanes(format!("{name} lanes"), n_vectors, best)
}

/// Opens the number of steps of a product that are unrolled.
fn steps(b: &mut Builder, name: &str) -> DecisionId {
    let (best, most) = STEPS;
    let options: Vec<u64> = (1..=most).filter(|it| it.is_power_of_two()).collect();
    b.decide(format!("{name} steps"), DecisionKind::Inner, &options, best)
}

/// Splits rows and columns of a product into register tiles, and orders its loops: reduction steps around
/// a tile, of which the last is unrolled.
fn order_product(
    b: &mut Builder,
    axes: Score,
    outer: &[AxisId],
    (vectors, width): (DecisionId, DecisionId),
    steps: &[AxisId],
) -> Result<()> {
    let Score { stage, row, column } = axes;
    rows_last(b, stage, row)?;
    let i = b.split(stage, AxisId(row as u32), &[Factor::Open(vectors)])?;
    let j = b.split(stage, AxisId(column as u32), &[Factor::Open(width)])?;
    b.reorder(stage, [outer, &[i[0], j[0]], steps, &[j[1], i[1]]].concat())?;
    b.annotate_all(stage, steps.last(), LoopKind::Unrolled)?;
    b.annotate(stage, j[1], LoopKind::Unrolled)?;
    b.annotate(stage, i[1], LoopKind::Vectorized)
}

/// Makes rows the lanes of a stage with nothing to tile.
fn order_lanes_last(b: &mut Builder, stage: StageId, row: usize) -> Result<()> {
    rows_last(b, stage, row)?;
    let n_axes = b.compute(stage).axes.len();
    let lanes = AxisId(row as u32);
    let others = (0..n_axes).map(|it| AxisId(it as u32)).filter(|it| *it != lanes);
    b.reorder(stage, others.chain([lanes]))?;
    b.annotate(stage, lanes, LoopKind::Vectorized)
}

/// Stores a tensor so that its rows are contiguous.
fn rows_last(b: &mut Builder, stage: StageId, row: usize) -> Result<()> {
    let n_spatial = b.n_spatial(stage);
    if row + 1 == n_spatial {
        return Ok(());
    }
    let order = (0..n_spatial).filter(|it| *it != row).chain([row]).collect();
    b.permute(b.tensor_of(stage), order)
}

/// Returns the axes of a stage's result except some.
fn others(b: &Builder, stage: StageId, except: &[usize]) -> Vec<AxisId> {
    let kept = (0..b.n_spatial(stage)).filter(|it| !except.contains(it));
    kept.map(|it| AxisId(it as u32)).collect()
}

//! Finds attention: two products with row statistics of the first between them (a softmax), which are
//! fused so that no stage waits for complete rows.
//!
//! In: the fusion groups of a program. Out: the groups with each chain as one. Members follow from
//! subscripts: a tensor with the rows and the reduced axis of the second product as dimensions is a
//! *score*, computed block by block; a stage that reduces scores along their columns is reduced with them.
//! A reduction by lanes, of a program with fixed numerics, is two such stages: partial results, and their
//! combination. Next: the templates for attention schedule the chain; primitives refuse those that are no
//! attention.

use super::fusion_group::{Chain, RowReduction, Score};
use super::{Builder, FusionGroup, Rows, Tiled};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{Expr, Order, Subscript};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_schedule::{ReductionOrder, StageId};

/// Columns of the result: more are too many accumulators for one thread.
const MAX_COLUMNS: u64 = 256;

/// Returns the groups with the members of each chain as one group; `None` if there is no chain.
pub(super) fn fuse_chains(b: &Builder, groups: &[FusionGroup]) -> Option<Vec<FusionGroup>> {
    // Partial results of blocks are indexed by block: they are no matrix of scores.
    if b.schedule.dag.orders.iter().any(|it| matches!(it, Order::Blocks { .. })) {
        return None;
    }
    let mut merged = groups.to_vec();
    for group in groups {
        let FusionGroup::Tiled(Tiled { root, anchor }) = group else { continue };
        let Some(chain) = chain(b, *root, *anchor) else { continue };
        let members: Vec<StageId> = chain.members().collect();
        let is_covered = |it: &FusionGroup| match it {
            FusionGroup::Tiled(Tiled { root, anchor }) => {
                [*root, *anchor].map(|it| members.contains(&it))
            }
            FusionGroup::Rows(Rows { root, inside, .. }) => {
                let own = members.contains(root);
                [own, inside.iter().all(|it| members.contains(it) == own) == own]
            }
            FusionGroup::Chain(_) => [false; 2],
        };
        let covered: Vec<[bool; 2]> = merged.iter().map(is_covered).collect();
        if covered.iter().any(|it| it[0] != it[1]) {
            continue;
        }
        let mut covered = covered.into_iter();
        merged.retain(|_| covered.next() != Some([true; 2]));
        if let Some(at) = merged.iter_mut().find(|it| *it == group) {
            *at = FusionGroup::Chain(chain);
        }
    }
    (merged != groups).then_some(merged)
}

/// Returns the chain that ends in a product.
fn chain(b: &Builder, root: StageId, anchor: StageId) -> Option<Chain> {
    let compute = b.compute(anchor);
    let [_] = &compute.axes[compute.n_spatial..] else { return None };
    let (accesses, extents) = (b.accesses(anchor), b.extents(anchor));
    let [first, second] = accesses.as_slice() else { return None };
    let alone = |own: &Access, other: &Access| {
        let is_own = |it: &usize| own.depends_on(*it) && !other.depends_on(*it);
        (0..compute.n_spatial).filter(is_own).max_by_key(|it| (extents[*it], *it))
    };
    let (row, column) = (alone(first, second)?, alone(second, first)?);
    if extents[column] > MAX_COLUMNS {
        return None;
    }
    let mut search = Search {
        b,
        anchor,
        found: Chain { root, anchor, row, column, scores: Vec::new(), reductions: Vec::new() },
    };
    search.reads(anchor, row, &axis(compute.n_spatial))?;
    let mut chain = search.found;
    let position = |it: StageId| b.schedule.order.iter().position(|other| *other == it);
    chain.scores.sort_by_key(|it| position(it.stage));
    chain.reductions.sort_by_key(|it| position(it.stage));
    (!chain.reductions.is_empty() && !chain.scores.is_empty()).then_some(chain)
}

struct Search<'a> {
    b: &'a Builder,
    anchor: StageId,
    found: Chain,
}

impl Search<'_> {
    /// Adds the stages that a stage reads for a block: its rows are an axis of the stage, its columns an
    /// axis or a sum of several.
    fn reads(&mut self, stage: StageId, row: usize, column: &Poly) -> Option<()> {
        let mut reads = Vec::new();
        self.b.compute(stage).body.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it {
                reads.push((*tensor, along(index, &axis(row)), along(index, column)));
            }
        });
        for (tensor, row, column) in reads {
            let Some(producer) = self.b.schedule.tensor(tensor).stage else { continue };
            match (row, column) {
                (Some(row), Some(column)) => self.score(producer, row, column)?,
                (Some(row), None) if self.reduces_columns(producer) => {
                    self.reduction(producer, row)?;
                }
                _ => {}
            }
        }
        Some(())
    }

    /// Adds a stage that is computed for a block.
    fn score(&mut self, stage: StageId, row: usize, column: usize) -> Option<()> {
        let schedule = &self.b.schedule;
        let tensor = schedule.stage(stage).tensor();
        let score = Score { stage, row, column };
        if self.found.scores.contains(&score) {
            return Some(());
        }
        if schedule.is_output(tensor) || self.found.score(stage).is_some() {
            return None;
        }
        self.found.scores.push(score);
        self.reads(stage, row, &axis(column))?;
        let readers: Vec<StageId> = schedule.readers(tensor).collect();
        for reader in readers {
            // The rows of partial results are those of the reduction.
            let is_partial = matches!(self.order_of(reader), ReductionOrder::Lanes { .. });
            let part = is_partial.then_some(reader);
            let reader = match part {
                Some(part) => schedule.readers(self.b.tensor_of(part)).next()?,
                None => reader,
            };
            if reader == self.anchor || self.found.members().any(|it| it == reader) {
                continue;
            }
            // The rows of the reader are its subscript of this stage's rows.
            let mut own = None;
            self.b.compute(part.unwrap_or(reader)).body.walk(&mut |it| {
                if let Expr::Read { tensor: read, index } = it
                    && *read == tensor
                {
                    own = as_axis(index.get(row));
                }
            });
            if !self.reduces_columns(reader) {
                return None;
            }
            self.reduction(reader, own?)?;
        }
        Some(())
    }

    /// Adds a stage that reduces the columns of blocks.
    fn reduction(&mut self, stage: StageId, row: usize) -> Option<()> {
        let compute = self.b.compute(stage);
        if self.b.schedule.is_output(compute.tensor) || row >= compute.n_spatial {
            return None;
        }
        let reduction = RowReduction { stage, row };
        if self.found.reductions.contains(&reduction) {
            return Some(());
        }
        self.found.reductions.push(reduction);
        let n_spatial = compute.n_spatial;
        let Some(part) = self.partial_results(stage) else {
            return self.reads(stage, row, &axis(n_spatial));
        };
        self.found.reductions.push(RowReduction { stage: part, row });
        // Lane `l` of step `k` is column `l + 64 * k`, of 64 lanes.
        let dag = &self.b.schedule.dag;
        let lanes = dag.computes.get(stage.0 as usize).and_then(|it| dag.order(it)?.lanes())?;
        let n_lanes = i64::try_from(lanes.n).ok()?;
        let column = axis(n_spatial) + axis(n_spatial + 1) * Poly::constant(n_lanes);
        self.reads(part, row, &column)
    }

    /// Returns the stage of the partial results that a stage combines, if the program fixes that order.
    fn partial_results(&self, stage: StageId) -> Option<StageId> {
        let mut found = None;
        if self.order_of(stage).is_by_halves() {
            self.b.compute(stage).body.for_each_read(&mut |tensor, _| found = Some(tensor));
        }
        self.b.schedule.tensor(found?).stage
    }

    fn order_of(&self, stage: StageId) -> ReductionOrder {
        self.b.schedule.stage(stage).reduction
    }

    /// Returns whether a stage reduces one axis as long as the one that the product reduces.
    fn reduces_columns(&self, stage: StageId) -> bool {
        let schedule = &self.b.schedule;
        let reduced = |it: StageId| {
            // Partial results are combined by a stage of the program.
            let compute = match self.order_of(it) {
                ReductionOrder::Halves { .. } => schedule.dag.computes.get(it.0 as usize)?,
                _ => self.b.compute(it),
            };
            match &compute.axes[compute.n_spatial..] {
                [only] => Some(only.extent.clone()),
                _ => None,
            }
        };
        stage != self.anchor && reduced(stage).is_some() && reduced(stage) == reduced(self.anchor)
    }
}

fn axis(axis: usize) -> Poly {
    Poly::var(VarId(axis as u32))
}

/// Returns the position of the subscript that has that value and is nothing else.
fn along(index: &[Subscript], value: &Poly) -> Option<usize> {
    index.iter().position(|it| matches!(it, Subscript::Affine(found) if found == value))
}

fn as_axis(subscript: Option<&Subscript>) -> Option<usize> {
    match subscript? {
        Subscript::Affine(poly) => poly.as_var().map(|VarId(it)| it as usize),
        Subscript::Value(_) => None,
    }
}

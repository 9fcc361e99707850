//! Finds attention: two products with row statistics of the first between them (a softmax), which are
//! fused so that no stage waits for complete rows.
//!
//! In: the fusion groups of a program. Out: the groups with each chain as one. Members follow from
//! subscripts: a tensor with the rows and the reduced axis of the second product as dimensions is a
//! *score*, computed block by block; a stage that reduces scores along their columns is reduced online.
//! Next: the
//! templates for attention schedule the chain; primitives refuse those that are no attention.

use super::fusion_group::{Chain, RowReduction, Score};
use super::{Builder, FusionGroup, Rows, Tiled};
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{Expr, Subscript};
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::StageId;

/// Columns of the result: more are too many accumulators for one thread.
const MAX_COLUMNS: u64 = 256;

/// Returns the groups with the members of each chain as one group; `None` if there is no chain.
pub(super) fn fuse_chains(b: &Builder, groups: &[FusionGroup]) -> Option<Vec<FusionGroup>> {
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
    search.reads(anchor, row, compute.n_spatial)?;
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
    /// Adds the stages that a stage reads for a block, whose rows and columns are two of its axes.
    fn reads(&mut self, stage: StageId, row: usize, column: usize) -> Option<()> {
        let mut reads = Vec::new();
        self.b.compute(stage).body.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it {
                reads.push((*tensor, along(index, row), along(index, column)));
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
        self.reads(stage, row, column)?;
        let readers: Vec<StageId> = schedule.readers(tensor).collect();
        for reader in readers {
            if reader == self.anchor || self.found.members().any(|it| it == reader) {
                continue;
            }
            // The rows of the reader are its subscript of this stage's rows.
            let mut own = None;
            self.b.compute(reader).body.walk(&mut |it| {
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
        if !self.found.reductions.contains(&reduction) {
            let column = compute.n_spatial;
            self.found.reductions.push(reduction);
            self.reads(stage, row, column)?;
        }
        Some(())
    }

    /// Returns whether a stage reduces one axis as long as the one that the product reduces.
    fn reduces_columns(&self, stage: StageId) -> bool {
        let compute = |it: StageId| self.b.compute(it);
        let reduced = |it: StageId| match &compute(it).axes[compute(it).n_spatial..] {
            [only] => Some(only.extent.clone()),
            _ => None,
        };
        stage != self.anchor && reduced(stage).is_some() && reduced(stage) == reduced(self.anchor)
    }
}

/// Returns the position of the subscript that is an axis and nothing else.
fn along(index: &[Subscript], axis: usize) -> Option<usize> {
    index.iter().position(|it| as_axis(Some(it)) == Some(axis))
}

fn as_axis(subscript: Option<&Subscript>) -> Option<usize> {
    match subscript? {
        Subscript::Affine(poly) => poly.as_var().map(|VarId(it)| it as usize),
        Subscript::Value(_) => None,
    }
}

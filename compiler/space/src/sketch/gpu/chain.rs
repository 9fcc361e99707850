//! Finds chains of two products with something between that needs whole rows of the first: what must
//! run along with the second product so that nothing waits for a row to be complete.
//!
//! In: the groups of a program. Out: those with each chain as one group. What belongs to a chain
//! follows from how stages index one another: a tensor that has the rows and what is reduced of the
//! second product as dimensions is computed block by block; what reduces such a tensor along blocks
//! is reduced along with the product. Next: [`super::attention`] schedules it, and primitives refuse
//! what is none.

use crate::sketch::builder::Builder;
use crate::sketch::group::Group;
use tvmtune_ir::dag::access::Access;
use tvmtune_ir::dag::{Expr, Subscript};
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::StageId;

/// More columns of the result are too many accumulators for one thread.
const MOST_COLUMNS: u64 = 256;

/// Stages that run along with a reduction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sketch) struct Chain {
    /// The stage that stores the result.
    pub(super) root: StageId,
    /// The second product.
    pub(super) anchor: StageId,
    /// The axis of rows of the second product, and that of its columns.
    pub(super) row: usize,
    pub(super) column: usize,
    /// What is computed for a block of rows and columns, with its axes of rows and columns; in
    /// topological order.
    pub(super) scores: Vec<(StageId, usize, usize)>,
    /// Reductions of such blocks along their columns, with their axis of rows.
    pub(super) rolling: Vec<(StageId, usize)>,
}

/// Everything with factors that do not vary moved behind sums, and the groups that makes with every
/// chain as one; `None` if there is no chain.
pub(in crate::sketch) fn chained(b: &Builder) -> Option<(Builder, Vec<Group>)> {
    let mut b = b.clone();
    for stage in b.schedule.order.clone() {
        if !super::tiles(&b, stage) {
            continue;
        }
        let mut tried = b.clone();
        let mut reads: Vec<StageId> = tried
            .accesses(stage)
            .iter()
            .filter_map(|it| tried.schedule.tensor(it.tensor).stage)
            .filter(|it| tried.schedule.stage(*it).compute.reducer.is_none())
            .collect();
        reads.sort_unstable();
        reads.dedup();
        let is_inlined = reads.into_iter().all(|it| tried.apply(|s| s.inline(it)).is_ok());
        if is_inlined && tried.apply(|it| it.factor_out(stage)).is_ok() {
            tried.inline_stages();
            b = tried;
        }
    }
    let groups = merged(&b, &b.groups())?;
    Some((b, groups))
}

/// The groups with every chain of stages that can run along with a product as one group; `None` if
/// there is none.
fn merged(b: &Builder, groups: &[Group]) -> Option<Vec<Group>> {
    let mut merged = groups.to_vec();
    for group in groups {
        let Group::Tiled { root, anchor } = group else { continue };
        let Some(chain) = chain(b, *root, *anchor) else { continue };
        let members: Vec<StageId> = chain.members().collect();
        let is_covered = |it: &Group| match it {
            Group::Tiled { root, anchor } => [*root, *anchor].map(|it| members.contains(&it)),
            Group::Rows { root, inside, .. } => {
                let own = members.contains(root);
                [own, inside.iter().all(|it| members.contains(it) == own) == own]
            }
            Group::Chain(_) => [false; 2],
        };
        let covered: Vec<[bool; 2]> = merged.iter().map(is_covered).collect();
        if covered.iter().any(|it| it[0] != it[1]) {
            continue;
        }
        let mut covered = covered.into_iter();
        merged.retain(|_| covered.next() != Some([true; 2]));
        if let Some(at) = merged.iter_mut().find(|it| *it == group) {
            *at = Group::Chain(chain);
        }
    }
    (merged != groups).then_some(merged)
}

impl Chain {
    /// Everything that runs along with the product.
    pub(super) fn members(&self) -> impl Iterator<Item = StageId> {
        let scores = self.scores.iter().map(|it| it.0);
        scores.chain(self.rolling.iter().map(|it| it.0))
    }
}

/// What must run along with a product so that it need not wait for it.
fn chain(b: &Builder, root: StageId, anchor: StageId) -> Option<Chain> {
    let compute = &b.schedule.stage(anchor).compute;
    let [_] = &compute.axes[compute.n_spatial..] else { return None };
    let (accesses, extents) = (b.accesses(anchor), b.extents(anchor));
    let [first, second] = accesses.as_slice() else { return None };
    let alone = |own: &Access, other: &Access| {
        let is = |it: &usize| own.depends_on(*it) && !other.depends_on(*it);
        (0..compute.n_spatial).filter(is).max_by_key(|it| (extents[*it], *it))
    };
    let (row, column) = (alone(first, second)?, alone(second, first)?);
    if extents[column] > MOST_COLUMNS {
        return None;
    }
    let mut search = Search {
        b,
        anchor,
        found: Chain { root, anchor, row, column, scores: Vec::new(), rolling: Vec::new() },
    };
    search.reads(anchor, row, compute.n_spatial)?;
    let mut chain = search.found;
    let place = |it: StageId| b.schedule.order.iter().position(|other| *other == it);
    chain.scores.sort_by_key(|it| place(it.0));
    chain.rolling.sort_by_key(|it| place(it.0));
    (!chain.rolling.is_empty() && !chain.scores.is_empty()).then_some(chain)
}

struct Search<'a> {
    b: &'a Builder,
    anchor: StageId,
    found: Chain,
}

impl Search<'_> {
    /// Adds what a stage reads for rows and columns of a block, which two of its axes count.
    fn reads(&mut self, stage: StageId, row: usize, column: usize) -> Option<()> {
        let mut reads = Vec::new();
        self.b.schedule.stage(stage).compute.body.walk(&mut |it| {
            if let Expr::Read { tensor, index } = it {
                reads.push((*tensor, along(index, row), along(index, column)));
            }
        });
        for (tensor, row, column) in reads {
            let Some(producer) = self.b.schedule.tensor(tensor).stage else { continue };
            match (row, column) {
                (Some(row), Some(column)) => self.score(producer, row, column)?,
                (Some(row), None) if self.reduces_columns(producer) => self.roll(producer, row)?,
                _ => {}
            }
        }
        Some(())
    }

    /// Adds a stage that is computed for a block.
    fn score(&mut self, stage: StageId, row: usize, column: usize) -> Option<()> {
        let schedule = &self.b.schedule;
        let tensor = schedule.stage(stage).tensor();
        if self.found.scores.contains(&(stage, row, column)) {
            return Some(());
        }
        if schedule.is_output(tensor) || self.found.scores.iter().any(|it| it.0 == stage) {
            return None;
        }
        self.found.scores.push((stage, row, column));
        self.reads(stage, row, column)?;
        let readers: Vec<StageId> = schedule.readers(tensor).collect();
        for reader in readers {
            if reader == self.anchor || self.found.members().any(|it| it == reader) {
                continue;
            }
            // The row of the reader is what stands where this stage has its rows.
            let mut own = None;
            self.b.schedule.stage(reader).compute.body.walk(&mut |it| {
                if let Expr::Read { tensor: read, index } = it
                    && *read == tensor
                {
                    own = as_axis(index.get(row));
                }
            });
            match self.reduces_columns(reader) {
                true => self.roll(reader, own?)?,
                false => return None,
            }
        }
        Some(())
    }

    /// Adds a stage that reduces the columns of blocks.
    fn roll(&mut self, stage: StageId, row: usize) -> Option<()> {
        let compute = &self.b.schedule.stage(stage).compute;
        if self.b.schedule.is_output(compute.tensor) || row >= compute.n_spatial {
            return None;
        }
        if !self.found.rolling.contains(&(stage, row)) {
            let column = compute.n_spatial;
            self.found.rolling.push((stage, row));
            self.reads(stage, row, column)?;
        }
        Some(())
    }

    /// Whether a stage reduces one axis as long as the one that the product reduces.
    fn reduces_columns(&self, stage: StageId) -> bool {
        let compute = |it: StageId| &self.b.schedule.stage(it).compute;
        let reduced = |it: StageId| match &compute(it).axes[compute(it).n_spatial..] {
            [only] => Some(only.extent.clone()),
            _ => None,
        };
        stage != self.anchor && reduced(stage).is_some() && reduced(stage) == reduced(self.anchor)
    }
}

/// The subscript that is an axis as it is.
fn along(index: &[Subscript], axis: usize) -> Option<usize> {
    index.iter().position(|it| as_axis(Some(it)) == Some(axis))
}

fn as_axis(subscript: Option<&Subscript>) -> Option<usize> {
    match subscript? {
        Subscript::Affine(poly) => poly.as_var().map(|VarId(it)| it as usize),
        Subscript::Value(_) => None,
    }
}

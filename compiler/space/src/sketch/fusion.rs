//! Stage fusion: inlines cheap stages, and partitions the others into fusion groups.
//!
//! - *Tiled*: a reduction whose operands are used more than once, with its elementwise epilogue, if
//!   any. It runs in tiles that fit registers.
//! - *Rows*: any other stage, with those that it needs row by row (the maximum and the sum of a
//!   softmax), computed at the loop over its rows.

use std::collections::BTreeSet;

use super::{Builder, FusionGroup, Rows, Tiled};
use super::{cpu, gpu};
use tvmtune_ir::dag::access::{leading_axes, work};
use tvmtune_ir::dag::{BinaryOp, Compute, DType, Expr, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Atom, Poly};
use tvmtune_ir::size::Size;
use tvmtune_ir::target::Target;
use tvmtune_schedule::{Attach, ReductionOrder, StageId};

/// Operations that one more evaluation of a value may take before the value is stored instead; chosen
/// by judgement.
const CHEAP: u64 = 3;
/// Nodes of a body up to which a stage is inlined of which it reads an element several times: the code
/// computes the element once, but bodies are trees; chosen by judgement.
const MAX_NODES: usize = 512;
/// Iterations of a row that one thread may as well run alone; chosen by measurement.
const SHORT_ROW: u64 = 1 << 16;

impl Builder {
    /// Computes the reductions that divide indices for each remainder on its own. On GPUs, that was not
    /// measured.
    pub(super) fn decompose_into_phases(&mut self) {
        if self.is_gpu() {
            return;
        }
        for stage in self.schedule.order.clone() {
            // Most reductions divide none.
            let _ = self.apply(|it| it.polyphase(stage));
        }
    }

    /// Computes functions of the operands of tiled reductions once for each element, as if they had been written
    /// as tensors. On GPUs, that was not measured.
    pub(super) fn hoist_operands(&mut self) {
        if self.is_gpu() {
            return;
        }
        for stage in self.schedule.order.clone() {
            if self.is_tiled(stage) {
                cpu::hoist_invariant::operands(self, stage);
            }
        }
    }

    /// Replaces divisions by constants by products: in vectors, a quotient takes as long as a dozen of these.
    /// On GPUs, that was not measured.
    pub(super) fn multiply_by_reciprocals(&mut self) {
        if self.is_gpu() {
            return;
        }
        for stage in self.schedule.order.clone() {
            // Most stages have no such division, and programs may fix how they round.
            let _ = self.apply(|it| it.reciprocal(stage));
        }
    }

    /// Inlines the stages that are cheaper to compute again than to store.
    pub(super) fn inline_stages(&mut self) {
        for stage in self.schedule.order.clone() {
            if self.should_inline(stage) {
                // A stage that cannot be inlined is computed and stored.
                let _ = self.apply(|it| it.inline(stage));
            }
        }
    }

    fn should_inline(&self, stage: StageId) -> bool {
        let compute = self.compute(stage);
        let readers: Vec<StageId> = self.schedule.readers(compute.tensor).collect();
        if compute.reducer.is_some()
            || compute.is_recurrent()
            || self.schedule.is_output(compute.tensor)
            || readers.is_empty()
        {
            return false;
        }
        let work = work(&compute.body);
        if work == 0 {
            return true;
        }
        // A reduction of a padded copy is one of an operand with padding. On GPUs, that was not measured.
        if !self.is_gpu() && readers.len() == 1 && is_padding(&compute.body) {
            return true;
        }
        // All lanes of a kernel have one width: a stored 64-bit integer would double that of its floats. On GPUs,
        // inlining it was not measured.
        if !self.is_gpu() && self.is_widened(&compute.body) {
            return true;
        }
        if readers.iter().any(|it| self.is_tiled(*it)) {
            return false;
        }
        let elements: u64 = self.extents(stage).iter().size();
        let evaluations = |reader: &StageId| {
            let n_reads = n_evaluated(compute, &self.compute(*reader).body);
            let iterations = self.n_iterations(*reader);
            n_reads * iterations.div_ceil(elements)
        };
        let evaluations: u64 = readers.iter().map(evaluations).sum();
        evaluations <= 1 || work * (evaluations - 1) <= CHEAP
    }

    /// Returns whether a value is an element of a narrower integer type, converted to `i64`, as an `argmax` is.
    fn is_widened(&self, value: &Expr) -> bool {
        let Expr::Cast(DType::I64, read) = value else { return false };
        let dtype = read.dtype(&self.schedule);
        matches!(**read, Expr::Read { .. }) && dtype.is_integer() && dtype != DType::I64
    }

    /// Returns the program with loop-invariant factors of tiled reductions moved behind the sums: two
    /// products with a softmax between them become a chain.
    pub(super) fn with_factors_out(&self) -> Builder {
        let mut b = self.clone();
        for stage in b.schedule.order.clone() {
            if !b.is_tiled_shape(stage) {
                continue;
            }
            let mut tried = b.clone();
            let mut reads: Vec<StageId> = tried
                .accesses(stage)
                .iter()
                .filter_map(|it| tried.schedule.tensor(it.tensor).stage)
                .filter(|it| !tried.reduces(*it))
                .collect();
            reads.sort_unstable();
            reads.dedup();
            let is_inlined = reads.into_iter().all(|it| tried.apply(|s| s.inline(it)).is_ok());
            if is_inlined && tried.apply(|it| it.factor_out(stage)).is_ok() {
                tried.inline_stages();
                b = tried;
            }
        }
        b
    }

    /// Partitions the stages into groups, in order of execution.
    pub(super) fn fusion_groups(&self) -> Vec<FusionGroup> {
        let mut groups: Vec<FusionGroup> = Vec::new();
        let mut member: Vec<Option<usize>> = vec![None; self.schedule.stages.len()];
        // For each member of rows, how many of its leading axes are those of the root.
        let mut depths = vec![0; self.schedule.stages.len()];
        for stage in self.schedule.order.iter().rev().copied() {
            let found = self.schedule.stage(stage);
            if found.attach == Attach::Inline {
                continue;
            }
            let at = stage.0 as usize;
            let Some((group, depth)) = self.host(stage, &groups, &member, &depths) else {
                // Partial results by lanes are no rows.
                let is_by_lanes = matches!(found.reduction, ReductionOrder::Lanes { .. });
                let depth = self.n_row_axes(stage) - usize::from(is_by_lanes);
                (member[at], depths[at]) = (Some(groups.len()), depth);
                groups.push(match self.is_tiled(stage) {
                    true => FusionGroup::Tiled(Tiled { root: stage, anchor: stage }),
                    false => FusionGroup::Rows(Rows { root: stage, inside: Vec::new(), depth }),
                });
                continue;
            };
            (member[at], depths[at]) = (Some(group), depth);
            match &mut groups[group] {
                FusionGroup::Rows(rows) if depth > 0 => {
                    rows.inside.insert(0, stage);
                    rows.depth = depth.min(rows.depth);
                }
                FusionGroup::Rows(Rows { root, .. }) | FusionGroup::Tiled(Tiled { root, .. }) => {
                    let root = *root;
                    groups[group] = FusionGroup::Tiled(Tiled { root, anchor: stage });
                }
                FusionGroup::Chain(_) => {}
            }
        }
        groups.reverse();
        groups
    }

    /// Returns the group that a stage is computed in, and how many leading axes it shares with its
    /// root (0 for a reduction in tiles); `None` if it starts its own.
    fn host(
        &self,
        stage: StageId,
        groups: &[FusionGroup],
        member: &[Option<usize>],
        depths: &[usize],
    ) -> Option<(usize, usize)> {
        let tensor = self.tensor_of(stage);
        let is_recurrent = self.compute(stage).is_recurrent() || self.scatter(stage).is_some();
        if is_recurrent || self.schedule.is_output(tensor) || self.is_fusion_forbidden(stage) {
            return None;
        }
        let readers: Vec<StageId> = self.schedule.readers(tensor).collect();
        let group = member[readers.first()?.0 as usize]?;
        let FusionGroup::Rows(Rows { root, inside, .. }) = &groups[group] else { return None };
        if self.compute(*root).is_recurrent() || self.scatter(*root).is_some() {
            return None;
        }
        if self.is_tiled(stage) {
            let is_epilogue = readers.as_slice() == [*root]
                && inside.is_empty()
                && self.follows_elementwise(*root, tensor);
            return is_epilogue.then_some((group, 0));
        }
        if self.is_gpu() && gpu::is_split_column_reduction(self, *root) {
            return None;
        }
        let shared = |it: &StageId| {
            let same = member[it.0 as usize] == Some(group);
            let compute = self.compute(*it);
            same.then(|| leading_axes(compute, tensor).min(depths[it.0 as usize]))
        };
        let mut depth = readers.iter().map(shared).min().flatten()?.min(self.n_row_axes(stage));
        // Both run in vectors along the last axis, which a stage inside of all loops would not.
        if !self.reduces(stage) && !self.reduces(*root) {
            depth = depth.min(self.n_spatial(*root).saturating_sub(1));
        }
        (depth > 0 && self.is_worth_fusing(*root, stage, depth)).then_some((group, depth))
    }

    /// Returns whether a reduction runs in tiles.
    fn is_tiled(&self, stage: StageId) -> bool {
        let is_reduction = self.reduces(stage);
        is_reduction && self.scan_stage(stage).is_none() && self.is_tiled_shape(stage)
    }

    /// Returns whether tiles pay for the accesses of a reduction on the target.
    fn is_tiled_shape(&self, stage: StageId) -> bool {
        match self.target {
            Target::Cpu(_) => cpu::is_tiled(self, stage),
            Target::Gpu(_) => gpu::benefits_from_tiling(self, stage),
        }
    }

    /// Returns whether a stage computes each element from the same element of `tensor`, without a
    /// reduction.
    fn follows_elementwise(&self, stage: StageId, tensor: TensorId) -> bool {
        let compute = self.compute(stage);
        let shape = &self.schedule.tensor(tensor).tensor.shape;
        let own = &self.schedule.tensor(compute.tensor).tensor.shape;
        compute.reducer.is_none()
            && shape == own
            && leading_axes(compute, tensor) == compute.n_spatial
    }

    /// Returns whether so many leading axes are enough rows for all threads, or rows are short anyway.
    fn is_worth_fusing(&self, root: StageId, stage: StageId, depth: usize) -> bool {
        let extents = self.extents(root);
        let rows: u64 = extents[..depth].iter().size();
        let all: u64 = extents.iter().size();
        let (all, wanted) = match self.target {
            Target::Cpu(cpu) => (all, cpu.threads),
            Target::Gpu(gpu) => (all.max(self.extents(stage).iter().size()), gpu.multiprocessors),
        };
        rows >= u64::from(wanted) || all / rows.max(1) <= SHORT_ROW
    }
}

/// Returns whether a value is an element of a tensor where indices are inside of it, and a constant elsewhere.
fn is_padding(value: &Expr) -> bool {
    let is_inside = |it: &Expr| match it {
        Expr::Read { index, .. } => index.iter().all(|it| matches!(it, Subscript::Affine(_))),
        other => is_padding(other),
    };
    let Expr::Select { condition, then, otherwise } = value else { return false };
    let parts = [(then, otherwise), (otherwise, then)];
    is_of_indices(condition)
        && parts.iter().any(|(a, b)| matches!(***b, Expr::Const(..)) && is_inside(a))
}

/// Returns whether a condition compares nothing but single indices with constants or dimensions.
fn is_of_indices(condition: &Expr) -> bool {
    let depends_on_one = |a: &Poly, b: &Poly| {
        let mut vars = BTreeSet::new();
        (a.clone() - b.clone()).for_each_leaf(&mut |atom| {
            if let Atom::Var(var) = atom {
                vars.insert(*var);
            }
        });
        vars.len() <= 1
    };
    match condition {
        Expr::Compare(_, a, b) => match (&**a, &**b) {
            (Expr::Index(a), Expr::Index(b)) => depends_on_one(a, b),
            _ => false,
        },
        Expr::Binary(BinaryOp::And | BinaryOp::Or, a, b) => is_of_indices(a) && is_of_indices(b),
        Expr::Unary(UnaryOp::Not, a) => is_of_indices(a),
        _ => false,
    }
}

/// Returns how often an element of a stage is evaluated where it is inlined into a body: reads of the same
/// element are one evaluation, by common subexpression elimination, as long as trees stay small.
fn n_evaluated(stage: &Compute, reader: &Expr) -> u64 {
    let mut reads: Vec<&[Subscript]> = Vec::new();
    reader.for_each_read(&mut |tensor, index| {
        if tensor == stage.tensor {
            reads.push(index);
        }
    });
    let n_reads = reads.len();
    let mut distinct: Vec<&[Subscript]> = Vec::new();
    for index in reads {
        if !distinct.contains(&index) {
            distinct.push(index);
        }
    }
    let is_small = n_nodes(reader) + n_reads * n_nodes(&stage.body) <= MAX_NODES;
    (if is_small { distinct.len() } else { n_reads }) as u64
}

fn n_nodes(expr: &Expr) -> usize {
    let mut n = 0;
    expr.walk(&mut |_| n += 1);
    n
}

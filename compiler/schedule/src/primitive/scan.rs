//! Blocked prefix scan: reductions up to an index, from reductions of blocks.

use super::prefix_terms::PrefixTerms;
use crate::error::{ErrorKind, ScheduleError, refuse_if};
use crate::{AxisId, Instruction, LoopKind, ReductionOrder, Relation, Schedule, Stage, StageId};
use tvmtune_ir::dag::prefix::Prefix;
use tvmtune_ir::dag::{CompareOp, Compute, ComputeAxis, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// The stages that [`Schedule::scan`] adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanStages {
    /// The operands, one for each result; those that pad the last block are the reducer's identity.
    pub terms: StageId,
    /// The scan within each block.
    pub within: StageId,
    /// The exclusive scan of the blocks' totals.
    pub before: StageId,
}

impl Schedule {
    /// Scans by blocks: `axis` is the inner part of the axis that is reduced up to an index, and as
    /// long as a block.
    ///
    /// A prefix is the reduction of the blocks before its own, and of the elements of its own block
    /// up to its index. Both are prefixes again, so this applies to the stages `before` and `within`,
    /// too.
    ///
    /// # Rewrite
    ///
    /// ```text
    /// c[i] = sum(k, if k <= i { a[k] } else { 0 })
    /// =>
    /// c_terms[t] = if t < n { a[t] } else { 0 }
    /// c_within[b, r] = sum(k, if k <= r { c_terms[b * f + k] } else { 0 })
    /// c_before[b] = sum(k, if k < b { c_within[k, f - 1] } else { 0 })
    /// c[i] = c_before[i / f] + c_within[i / f, i % f]
    /// ```
    ///
    /// A suffix, as `k >= i`, is scanned from the other end.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::NotReduction`]; [`ErrorKind::NotPrefix`] if no such condition selects the
    ///   operands, or the axis is not the inner of two parts of that axis.
    /// - [`ErrorKind::AlreadyScheduled`] if other loops were changed, [`ErrorKind::HasAttached`] if
    ///   a stage runs in it, [`ErrorKind::NotRoot`] if it reads what runs in another stage.
    /// - [`ErrorKind::FixedNumerics`] if the program fixes the order of the reduction.
    /// - [`ErrorKind::TooLarge`] if a stage could have more than 2^53 elements.
    ///
    /// # Source
    ///
    /// Blelloch, "Prefix Sums and Their Applications", 1990: scan, then propagate.
    pub fn scan(&mut self, stage: StageId, axis: AxisId) -> Result<ScanStages, ScheduleError> {
        self.free_position(stage, axis)?;
        let found = self.stage(stage).clone();
        let is_ordered = found.reduction != ReductionOrder::Any;
        refuse_if(is_ordered, ErrorKind::FixedNumerics.of_stage(stage))?;
        let Some(reducer) = found.compute.reducer else {
            return Err(ErrorKind::NotReduction.of_stage(stage));
        };
        let refused = ErrorKind::NotPrefix.of_axis(stage, axis);
        let (along, length) = inner_part(&found, axis).ok_or(refused)?;
        let serial = found.axes.iter().all(|it| it.kind == LoopKind::Serial);
        refuse_if(!serial || found.online, ErrorKind::AlreadyScheduled.of_stage(stage))?;
        refuse_if(self.has_attached(stage), ErrorKind::HasAttached.of_stage(stage))?;
        self.check_reads_roots(stage)?;
        let prefix = self.prefix(&found.compute).filter(|it| it.along == along).ok_or(refused)?;

        let (first, tensor) = self.next_ids();
        let stages = [0, 1, 2].map(|it| StageId(first.0 + it));
        let [terms, within, before] = [0, 1, 2].map(|it| TensorId(tensor.0 + it));
        let origin = self.tensor(found.tensor()).tensor.clone();
        let dtype = origin.dtype;
        let identity = Expr::Const(reducer.identity(dtype), dtype);
        let of = PrefixTerms { compute: &found.compute, prefix: &prefix, identity };
        let blocks = Blocks { of, length };
        let facts = self.dag.facts();
        let computes = [
            (blocks.terms(terms, &facts), "terms"),
            (blocks.within(within, terms, reducer, &facts), "within"),
            (blocks.before(before, within, reducer, &facts), "before"),
        ];
        let last = blocks.last(before, within, reducer, &facts);
        for (compute, _) in &computes {
            self.check_stage_size(stage, compute)?;
        }
        for (compute, role) in computes {
            self.add_stage_before(stage, compute, &origin, role);
        }
        *self.stage_mut(stage) = Stage { attach: found.attach, ..Stage::new(last) };
        self.trace.push(Instruction::Scan { stage, axis });
        Ok(ScanStages { terms: stages[0], within: stages[1], before: stages[2] })
    }

    /// Returns the spatial axis up to (or from) whose index a stage reduces, and the reduce axis that
    /// runs up to (or from) it.
    pub fn prefix_axes(&self, stage: StageId) -> Option<[AxisId; 2]> {
        let Prefix { axis, along, .. } = self.prefix(&self.stage(stage).compute)?;
        Some([axis, along].map(|it| AxisId(it as u32)))
    }

    /// Recognizes a prefix reduction.
    pub(super) fn prefix(&self, compute: &Compute) -> Option<Prefix> {
        let shape = |it: TensorId| self.tensor(it).tensor.shape.clone();
        Prefix::of(compute, &shape, self, &self.dag.facts())
    }
}

/// Returns the axis whose only split has `axis` as its inner part, and the length of that.
fn inner_part(stage: &Stage, axis: AxisId) -> Option<(usize, u64)> {
    let [Relation::Split { parent, parts, factors }] = stage.relations.as_slice() else {
        return None;
    };
    let ([_, inner], [length]) = (parts.as_slice(), factors.as_slice()) else { return None };
    (*inner == axis).then_some((parent.0 as usize, *length))
}

/// Prefixes of a compute as blocks of `length`.
struct Blocks<'a> {
    of: PrefixTerms<'a>,
    length: u64,
}

impl Blocks<'_> {
    fn length(&self) -> Poly {
        Poly::constant(self.length as i64)
    }

    fn n_blocks(&self, facts: &Facts) -> Poly {
        self.of.n_results().ceil_div(self.length as i64, facts)
    }

    /// `c_terms[t] = if 0 <= t + shift < n { a[t + shift] } else { identity }`
    fn terms(&self, tensor: TensorId, facts: &Facts) -> Compute {
        let t = Poly::var(VarId(self.of.prefix.axis as u32));
        self.of.terms(tensor, self.n_blocks(facts) * self.length(), &t, facts)
    }

    /// `c_within[b, r] = sum(k, if k <= r { c_terms[b * length + k] } else { identity })`
    fn within(
        &self,
        tensor: TensorId,
        terms: TensorId,
        reducer: Reducer,
        facts: &Facts,
    ) -> Compute {
        let at = self.of.prefix.axis as u32;
        let mut axes = self.of.spatial(&[("b", self.n_blocks(facts)), ("r", self.length())]);
        let n_spatial = axes.len();
        axes.push(ComputeAxis { name: "k".into(), extent: self.length() });
        let [block, element] = [at, at + 1].map(|it| Poly::var(VarId(it)));
        let k = Poly::var(VarId(n_spatial as u32));
        let op = if self.of.prefix.is_upward { CompareOp::Le } else { CompareOp::Ge };
        let counts = Expr::Index(k.clone()).compare(op, Expr::Index(element));
        let body = self.of.masked(counts, self.of.read(terms, 2, &[block * self.length() + k]));
        Compute { tensor, axes, n_spatial, reducer: Some(reducer), body }
    }

    /// `c_before[b] = sum(k, if k < b { c_within[k, length - 1] } else { identity })`
    fn before(
        &self,
        tensor: TensorId,
        within: TensorId,
        reducer: Reducer,
        facts: &Facts,
    ) -> Compute {
        let n_blocks = self.n_blocks(facts);
        let mut axes = self.of.spatial(&[("b", n_blocks.clone())]);
        let n_spatial = axes.len();
        axes.push(ComputeAxis { name: "k".into(), extent: n_blocks });
        let k = Poly::var(VarId(n_spatial as u32));
        let block = Expr::Index(Poly::var(VarId(self.of.prefix.axis as u32)));
        let (op, whole) = if self.of.prefix.is_upward {
            (CompareOp::Lt, self.length() - Poly::constant(1))
        } else {
            (CompareOp::Gt, Poly::default())
        };
        let counts = Expr::Index(k.clone()).compare(op, block);
        let body = self.of.masked(counts, self.of.read(within, 1, &[k, whole]));
        Compute { tensor, axes, n_spatial, reducer: Some(reducer), body }
    }

    /// `c[i] = c_before[i / length] + c_within[i / length, i % length]`
    fn last(&self, before: TensorId, within: TensorId, reducer: Reducer, facts: &Facts) -> Compute {
        let index = Poly::var(VarId(self.of.prefix.axis as u32));
        let (block, element) = index.div_mod(&self.length(), &self.of.compute.facts(facts));
        let own = self.of.read(within, 1, &[block.clone(), element]);
        let body = self.of.read(before, 1, &[block]).binary(reducer.op(), own);
        self.of.by_result(self.of.compute.tensor, body)
    }
}

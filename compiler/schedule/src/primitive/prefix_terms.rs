//! The operands of prefix reductions, one for each result: both ways to scan start from them.

use tvmtune_ir::dag::prefix::Prefix;
use tvmtune_ir::dag::{CompareOp, Compute, ComputeAxis, Expr, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};

/// The operands of a prefix reduction.
pub(super) struct PrefixTerms<'a> {
    /// The reduction.
    pub(super) compute: &'a Compute,
    /// Its prefix.
    pub(super) prefix: &'a Prefix,
    /// The identity of its reducer.
    pub(super) identity: Expr,
}

impl PrefixTerms<'_> {
    /// Returns the number of results along the axis of the prefixes.
    pub(super) fn n_results(&self) -> &Poly {
        &self.compute.axes[self.prefix.axis].extent
    }

    /// Returns a compute without a reduction, with the axes of the results.
    pub(super) fn by_result(&self, tensor: TensorId, body: Expr) -> Compute {
        let n_spatial = self.compute.n_spatial;
        let axes = self.compute.axes[..n_spatial].to_vec();
        Compute { tensor, axes, n_spatial, reducer: None, body }
    }

    /// Returns the spatial axes, with `instead` in place of that of the prefixes.
    pub(super) fn spatial(&self, instead: &[(&str, Poly)]) -> Vec<ComputeAxis> {
        let at = self.prefix.axis;
        let name = &self.compute.axes[at].name;
        let axis = |(role, extent): &(&str, Poly)| ComputeAxis {
            name: format!("{name}_{role}"),
            extent: extent.clone(),
        };
        let mut axes = self.compute.axes[..self.compute.n_spatial].to_vec();
        axes.splice(at..=at, instead.iter().map(axis));
        axes
    }

    /// Reads at the spatial axes of a compute in which `n_instead` axes replace that of the prefixes,
    /// with `index` in their place.
    pub(super) fn read(&self, tensor: TensorId, n_instead: usize, index: &[Poly]) -> Expr {
        let at = self.prefix.axis;
        let n_after = self.compute.n_spatial - at - 1;
        let axis = |it: usize| Poly::var(VarId(it as u32));
        let after = (at + n_instead..).take(n_after);
        let all = (0..at).map(axis).chain(index.iter().cloned()).chain(after.map(axis));
        Expr::read(tensor, all)
    }

    /// Returns a value, or the identity where the condition does not hold.
    pub(super) fn masked(&self, condition: Expr, then: Expr) -> Expr {
        condition.select(then, self.identity.clone())
    }

    /// Returns the operands, `n_terms` of them: those of the results `at`, an index by the axis of the
    /// prefixes.
    ///
    /// `c_terms[t] = if 0 <= at(t) + shift < n { a[at(t) + shift] } else { identity }`
    pub(super) fn terms(
        &self,
        tensor: TensorId,
        n_terms: Poly,
        at: &Poly,
        facts: &Facts,
    ) -> Compute {
        let Prefix { along, shift, value, .. } = self.prefix;
        let Compute { n_spatial, reducer, .. } = *self.compute;
        let mut axes = self.spatial(&[("t", n_terms)]);
        axes.extend(self.compute.axes[n_spatial..].iter().cloned());
        let n_values = axes.remove(*along).extent;

        let mut facts = facts.clone();
        for (n, it) in axes.iter().enumerate() {
            facts.bound_var(VarId(n as u32), it.extent.clone());
        }
        let operand = at.clone() + shift.clone();
        let moved = |var: VarId| {
            Some(match var.0 as usize {
                it if it == *along => operand.clone(),
                it if it > *along => Poly::var(VarId(var.0 - 1)),
                _ => return None,
            })
        };
        let mut body = value.substitute_vars(&moved, &facts);
        let room = n_values.clone() - operand.clone();
        if !room.is_positive(&facts) {
            let ends = Expr::Index(operand.clone()).compare(CompareOp::Lt, Expr::Index(n_values));
            body = self.masked(ends, body);
        }
        if !operand.is_nonnegative(&facts) {
            let zero = Expr::Index(Poly::default());
            body = self.masked(Expr::Index(operand).compare(CompareOp::Ge, zero), body);
        }
        let reducer = reducer.filter(|_| axes.len() > n_spatial);
        Compute { tensor, axes, n_spatial, reducer, body }
    }
}

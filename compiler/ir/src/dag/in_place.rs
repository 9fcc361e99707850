//! Results in place: a parameter, declared as `InOut`, whose memory receives a result.
//!
//! The parameter and its result are two tensors of a dag, with one memory: by definition all reads of
//! the parameter see its old elements. So that this holds under any schedule of the dag's computes,
//! one after the other, no read comes after the compute that replaces what it reads, and that compute
//! itself reads of the old elements only the one that it replaces. Schedules that interleave computes
//! have a check of their own.

use super::{Compute, ComputeId, Dag, Expr, Subscript, TensorId, TensorKind};
use crate::poly::VarId;

impl Dag {
    /// The parameters whose memory receives a result, each with that result.
    pub fn in_place(&self) -> impl Iterator<Item = (TensorId, TensorId)> {
        let replaced = self.params().filter(|it| self.tensor(*it).kind == TensorKind::InOut);
        replaced.zip(self.outputs.iter().copied())
    }

    /// The tensor in whose memory an argument lies: for a parameter that a result replaces, the result.
    pub fn home(&self, tensor: TensorId) -> TensorId {
        self.in_place().find(|(old, _)| *old == tensor).map_or(tensor, |(_, new)| new)
    }

    /// The tensors in the memory that a launch passes, in order: that of each parameter, then the
    /// results that have memory of their own.
    pub fn arguments(&self) -> Vec<TensorId> {
        let own = self.outputs.iter().skip(self.in_place().count());
        self.params().map(|it| self.home(it)).chain(own.copied()).collect()
    }
}

impl Compute {
    /// Returns whether all reads of `tensor` are of the element at the index that is computed.
    pub fn reads_own_element_only(&self, tensor: TensorId) -> bool {
        !reads_others(&self.body, tensor, &self.spatial_vars().collect::<Vec<_>>())
    }
}

/// Returns whether an expression over the axes of a tensor reads elements of `tensor` other than the
/// one at its own index.
pub(crate) fn reads_others(expr: &Expr, tensor: TensorId, axes: &[VarId]) -> bool {
    let mut others = false;
    expr.for_each_read(&mut |read, index| {
        let same = |(axis, it): (&VarId, &Subscript)| {
            matches!(it, Subscript::Affine(poly) if poly.as_var() == Some(*axis))
        };
        let is_own = || index.len() == axes.len() && axes.iter().zip(index).all(same);
        others |= read == tensor && !is_own();
    });
    others
}

/// Checks that each parameter in place has a result like it, and is read before that only.
pub(super) fn check(dag: &Dag) -> Result<(), String> {
    let n_replaced = dag.params().filter(|it| dag.tensor(*it).kind == TensorKind::InOut).count();
    if n_replaced > dag.outputs.len() {
        return Err("a parameter in place has no result".to_owned());
    }
    for (old, new) in dag.in_place() {
        let (from, to) = (dag.tensor(old), dag.tensor(new));
        if from.dtype != to.dtype || from.shape != to.shape {
            return Err(format!("`{}` is not like the parameter that it replaces", to.name));
        }
        let TensorKind::Computed(ComputeId(at)) = to.kind else { continue };
        for (n, compute) in dag.computes.iter().enumerate().skip(at as usize) {
            let is_own = n == at as usize
                && compute.reducer.is_none()
                && compute.reads_own_element_only(old);
            if compute.reads(old) && !is_own {
                return Err(format!("`{}` is read after it was replaced", from.name));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::{Dag, print::canonical};
    use crate::dsl;

    fn dag(body: &str) -> Dag {
        let source = format!(
            "#[autotune(dims(M = 1..=9, N = 8))]
            fn f(x: Tensor<f32, M, N>, y: InOut<f32, M, N>) {{ {body} }}"
        );
        dsl::program(&source).unwrap()
    }

    #[test]
    fn a_residual_is_read_where_it_is_replaced() {
        let dag = dag("y = compute(|i, j| y[[i, j]] + x[[i, j]]);");
        insta::assert_snapshot!(canonical(&dag), @r"
        tvmtune dag v1
        dim d0 in 1..=9
        input t0: f32[d0, 8]
        inout t1: f32[d0, 8]
        t2: f32[d0, 8] = add(t1[v0, v1], t0[v0, v1])
        return t2
        ");
        assert_eq!(canonical(&dag).parse::<Dag>().map(|it| canonical(&it)), Ok(canonical(&dag)));
    }

    #[test]
    fn neighbors_are_read_from_a_copy() {
        let dag = dag("y = compute(|i, j| y[[i, j]] - y.get([i, j + 1]).unwrap_or(0.0));");
        insta::assert_snapshot!(canonical(&dag), @r"
        tvmtune dag v1
        dim d0 in 1..=9
        input t0: f32[d0, 8]
        inout t1: f32[d0, 8]
        t2: f32[d0, 8] = t1[v0, v1]
        t3: f32[d0, 8] = sub(t2[v0, v1], select(lt(index(v1 + 1), index(8)), t2[v0, v1 + 1], 0.0_f32))
        return t3
        ");
    }

    #[test]
    fn sums_over_old_elements_stand_before() {
        let dag = dag("y = compute(|i, j| sum(0..=j, |k| y[[i, k]] * x[[i, k]]));");
        insta::assert_snapshot!(canonical(&dag), @r"
        tvmtune dag v1
        dim d0 in 1..=9
        input t0: f32[d0, 8]
        inout t1: f32[d0, 8]
        t2: f32[d0, 8] = sum(v2 < 8) select(lt(index(v2), index(v1 + 1)), mul(t1[v0, v2], t0[v0, v2]), 0.0_f32)
        t3: f32[d0, 8] = t2[v0, v1]
        return t3
        ");
    }

    #[test]
    fn text_that_reads_what_was_replaced_is_refused() {
        let text = canonical(&dag("y = compute(|i, j| y[[i, j]] + x[[i, j]]);"));
        for (from, to) in
            [("t1[v0, v1]", "t1[v0, 0]"), ("inout", "input"), ("f32[d0, 8]\nt2", "f32[d0, 4]\nt2")]
        {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            let refused = changed.parse::<Dag>().is_err();
            assert_eq!(refused, from != "inout", "{changed}");
        }
    }
}

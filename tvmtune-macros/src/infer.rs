//! Inference of dynamic dimensions from the lengths of arguments.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::{Atom, DimId, Poly, VarId};

use crate::operand::Operand;

/// One dimension that follows from the length of an argument: `factor * dim + rest`.
pub(crate) struct Step {
    pub(crate) dim: DimId,
    /// By position in the operands.
    pub(crate) operand: usize,
    /// Always positive; in dimensions that earlier steps found.
    pub(crate) factor: Poly,
    /// In dimensions that earlier steps found.
    pub(crate) rest: Poly,
}

/// Finds a sequence of steps that infers all dimensions; `None` if there is none.
///
/// A dimension follows from an argument whose length is linear in it and has no other dimension
/// that is still unknown.
pub(crate) fn steps(dag: &Dag, operands: &[Operand]) -> Option<Vec<Step>> {
    let mut unknown: Vec<DimId> = (0..dag.dims.len() as u32).map(DimId).collect();
    let mut steps = Vec::new();
    while !unknown.is_empty() {
        let step = operands
            .iter()
            .enumerate()
            .filter(|(_, it)| it.is_tensor())
            .find_map(|(n, it)| step(dag, n, &it.len(), &unknown))?;
        unknown.retain(|it| *it != step.dim);
        steps.push(step);
    }
    Some(steps)
}

fn step(dag: &Dag, operand: usize, len: &Poly, unknown: &[DimId]) -> Option<Step> {
    let mut found = Vec::new();
    len.for_each_leaf(&mut |leaf| {
        if let Atom::Dim(dim) = leaf
            && unknown.contains(dim)
            && !found.contains(dim)
        {
            found.push(*dim);
        }
    });
    let [dim] = found[..] else { return None };
    let facts = dag.facts();
    let variable = VarId(0);
    let as_variable = |atom: &Atom| (*atom == Atom::Dim(dim)).then(|| Poly::var(variable));
    let (factor, rest) = len.substitute(&as_variable, &facts).split_linear(variable)?;
    factor.is_positive(&facts).then_some(Step { dim, operand, factor, rest })
}

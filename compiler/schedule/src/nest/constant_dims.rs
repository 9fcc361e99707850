//! Constant folding of dimensions whose range is one value.
//!
//! Buckets often hold one extent; then tiles divide, and shapes of local buffers are constants.

use std::borrow::Cow;

use super::{Nest, Statement, Stmt};
use tvmtune_ir::poly::{Atom, Poly};

/// Replaces dimensions of one value by it.
pub fn fold_constant_dims(nest: &Nest) -> Cow<'_, Nest> {
    if !nest.dims.iter().any(|it| it.range.lo == it.range.hi) {
        return Cow::Borrowed(nest);
    }
    let facts = nest.facts();
    let constant = |atom: &Atom| match atom {
        Atom::Dim(dim) => facts.range(*dim).filter(|it| it.lo == it.hi).map(|it| it.lo.into()),
        _ => None,
    };
    let replace = |poly: &Poly| poly.substitute(&constant, &facts);
    let mut nest = nest.clone();
    for buffer in &mut nest.buffers {
        buffer.shape.iter_mut().for_each(|it| *it = replace(it));
    }
    for stmt in &mut nest.body {
        stmt.for_each_mut(&mut |it| match it {
            Stmt::For { extent, .. } => *extent = replace(extent),
            Stmt::If { guards, .. } => {
                guards.iter_mut().for_each(|it| *it = it.map_polys(replace));
            }
            Stmt::Store { index, value, .. } | Stmt::Update { index, value, .. } => {
                index.iter_mut().for_each(|it| *it = replace(it));
                *value = value.map_polys(&mut |it| replace(it));
            }
        });
    }
    Cow::Owned(nest)
}

//! Dimensions whose range is one value become that value.
//!
//! Buckets often hold one extent; then tiles divide, and shapes of local buffers are known.

use std::borrow::Cow;

use crate::nest::{Guard, Nest, Stmt};
use tvmtune_ir::poly::{Atom, DimId, Facts, Poly};

/// The nest with dimensions of one value replaced by it.
pub fn fix(nest: &Nest) -> Cow<'_, Nest> {
    if !nest.dims.iter().any(|it| it.range.lo == it.range.hi) {
        return Cow::Borrowed(nest);
    }
    let mut facts = Facts::default();
    for (n, dim) in nest.dims.iter().enumerate() {
        facts.bound_dim(DimId(n as u32), dim.range);
    }
    let fixed = |atom: &Atom| match atom {
        Atom::Dim(dim) => facts.range(*dim).filter(|it| it.lo == it.hi).map(|it| it.lo.into()),
        _ => None,
    };
    let replace = |poly: &Poly| poly.substitute(&fixed, &facts);
    let mut nest = nest.clone();
    for buffer in &mut nest.buffers {
        buffer.shape.iter_mut().for_each(|it| *it = replace(it));
    }
    stmts(&mut nest.body, &replace);
    Cow::Owned(nest)
}

fn stmts(body: &mut [Stmt], replace: &dyn Fn(&Poly) -> Poly) {
    for stmt in body {
        match stmt {
            Stmt::For { extent, body, .. } => {
                *extent = replace(extent);
                stmts(body, replace);
            }
            Stmt::If { guards, body } => {
                for Guard { value, bound } in guards {
                    (*value, *bound) = (replace(value), replace(bound));
                }
                stmts(body, replace);
            }
            Stmt::Store { index, value, .. } | Stmt::Update { index, value, .. } => {
                index.iter_mut().for_each(|it| *it = replace(it));
                *value = value.map_polys(&mut |it| replace(it));
            }
        }
    }
}

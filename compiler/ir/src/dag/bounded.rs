//! Reductions whose terms data bound: the sum of `if e >= ptr[n] && e < ptr[n + 1] { x[e] } else { 0 }` over `e` has
//! the terms of a row, and the sum of `if l < len[b] { x[b, l] } else { 0 }` over `l` those of one that is padded.

use super::{BinaryOp, CompareOp, Compute, Expr, Types};
use crate::poly::VarId;

/// A reduced axis of which data bound the iterations that count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedAxis {
    /// The axis.
    pub axis: usize,
    /// The spatial axes that the data mention: each of their iterations has other bounds.
    pub rows: Vec<usize>,
}

/// Returns the axes of a reduction that data bound: in other iterations the term is the reducer's identity.
pub fn bounded_axes(compute: &Compute, types: &dyn Types) -> Vec<BoundedAxis> {
    let Some(reducer) = compute.reducer else { return Vec::new() };
    let dtype = types.tensor(compute.tensor);
    let identity = Expr::Const(reducer.identity(dtype), dtype);
    let mut found: Vec<BoundedAxis> = Vec::new();
    let mut term = &compute.body;
    while let Expr::Select { condition, then, otherwise } = term
        && **otherwise == identity
    {
        for (axis, data) in bounds(condition, compute) {
            let at = found.iter().position(|it| it.axis == axis).unwrap_or(found.len());
            if at == found.len() {
                found.push(BoundedAxis { axis, rows: Vec::new() });
            }
            let rows = &mut found[at].rows;
            rows.extend((0..compute.n_spatial).filter(|it| data.mentions(VarId(*it as u32))));
            rows.sort_unstable();
            rows.dedup();
        }
        term = then;
    }
    found
}

/// Returns the data that a condition needs the index of a reduced axis to be below, or not to be.
fn bounds<'e>(condition: &'e Expr, compute: &Compute) -> Vec<(usize, &'e Expr)> {
    match condition {
        Expr::Binary(BinaryOp::And, a, b) => {
            bounds(a, compute).into_iter().chain(bounds(b, compute)).collect()
        }
        // One side may be a condition on rows.
        Expr::Binary(BinaryOp::Or, a, b) => {
            let mentions_none =
                |it: &Expr| reduced(compute).all(|axis| !it.mentions(VarId(axis as u32)));
            let sides = [(a, b), (b, a)].into_iter().find(|it| mentions_none(it.0));
            sides.map_or(Vec::new(), |(_, other)| bounds(other, compute))
        }
        Expr::Compare(op, a, b) if !matches!(op, CompareOp::Eq | CompareOp::Ne) => {
            let bound = |index: &Expr, data: &'e Expr| {
                let axis = axis_of(index, compute)?;
                let (mut reads, mut is_invariant) = (false, true);
                data.for_each_read(&mut |_, _| reads = true);
                reduced(compute).for_each(|it| is_invariant &= !data.mentions(VarId(it as u32)));
                (reads && is_invariant).then_some((axis, data))
            };
            bound(a, b).or_else(|| bound(b, a)).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn reduced(compute: &Compute) -> std::ops::Range<usize> {
    compute.n_spatial..compute.axes.len()
}

/// Returns the only reduced axis that an index mentions.
fn axis_of(index: &Expr, compute: &Compute) -> Option<usize> {
    let index = if let Expr::Cast(_, inner) = index { inner } else { index };
    let Expr::Index(poly) = index else { return None };
    let mut mentioned = reduced(compute).filter(|it| poly.mentions(VarId(*it as u32)));
    mentioned.next().filter(|_| mentioned.next().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the axes of the last compute of a program that data bound, each with its rows.
    fn bounded(term: &str) -> Vec<(usize, Vec<usize>)> {
        let dag = crate::dsl::program(&format!(
            "#[autotune]
             fn f(a: Tensor<i64, 7>, b: Tensor<i64, 9>, x: Tensor<f32, 9, 7, 30>) -> Tensor<f32, 9, 7> {{
                 compute(|n, d| sum(0..30, |e| {term}))
             }}"
        ))
        .unwrap();
        let compute = dag.computes.last().unwrap();
        bounded_axes(compute, &dag).into_iter().map(|it| (it.axis, it.rows)).collect()
    }

    #[test]
    fn comparisons_with_data_bound_an_axis() {
        for (condition, rows) in [
            ("(e as i64) < b[[n]]", Some(vec![0])),
            ("a[[d]] <= e as i64 && x[[n, d, e]] > 0.0", Some(vec![1])),
            ("b[[n]] > (e + 3) as i64 && (e as i64) >= a[[d]]", Some(vec![0, 1])),
            ("(n == 8 || (e as i64) < b.get([n + 1]).unwrap_or(0))", Some(vec![0])),
            ("(e as i64) == b[[n]]", None),
            ("(e as i64) < 4", None),
            ("(e as i64) < b[[e / 4]]", None),
            ("(e as i64) < b[[n]] || x[[n, d, e]] > 0.0", None),
        ] {
            let term = format!("if {condition} {{ x[[n, d, e]] }} else {{ 0.0 }}");
            let expected: Vec<(usize, Vec<usize>)> = rows.into_iter().map(|it| (2, it)).collect();
            assert_eq!(bounded(&term), expected, "{condition}");
        }
        assert_eq!(bounded("if (e as i64) < b[[n]] { x[[n, d, e]] } else { 1.0 }"), []);
    }
}

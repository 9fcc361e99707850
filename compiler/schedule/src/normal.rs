//! Normal forms of what programs write in several ways, so that templates and analyses see one of them. A
//! schedule starts with its stages in this form; results are the same, bit by bit.
//!
//! ```text
//! if k > i || k + 4 <= i { 0 } else { t }    =>   if k <= i && k + 4 > i { t } else { 0 }
//! sum(k < 9, x[i + k / 3, j + k % 3])        =>   sum((r, s) < (3, 3), x[i + r, j + s])
//! ```
//!
//! In: a compute of a dag. Out: the compute of its stage.

use std::collections::BTreeSet;

use tvmtune_ir::dag::bounds::negated;
use tvmtune_ir::dag::{BinaryOp, Compute, ComputeAxis, Dag, Expr, Numerics, UnaryOp};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// Returns a compute in normal form.
pub fn normalized(compute: &Compute, dag: &Dag) -> Compute {
    if dag.kernel_template.is_some() {
        return compute.clone();
    }
    let mut compute = Compute { body: chosen_first(&compute.body), ..compute.clone() };
    // Fixed numerics define the order of a sum by its axes, so these stay as they were written.
    if dag.numerics == Numerics::Free && compute.reducer.is_some() {
        while let Some(split) = unflattened(&compute, &dag.facts()) {
            compute = split;
        }
    }
    compute
}

/// Puts the constant of a choice by indices behind.
fn chosen_first(value: &Expr) -> Expr {
    let value = value.map_children(&mut chosen_first);
    if let Expr::Select { condition, then, otherwise } = &value
        && matches!((&**then, &**otherwise), (Expr::Const(..), it) if !matches!(it, Expr::Const(..)))
        && let Some(opposite) = opposite(condition)
    {
        return opposite.select((**otherwise).clone(), (**then).clone());
    }
    value
}

/// Returns the condition that holds where a disjunction of conditions on indices does not.
fn opposite(condition: &Expr) -> Option<Expr> {
    match condition {
        Expr::Unary(UnaryOp::Not, a) => Some((**a).clone()),
        Expr::Binary(BinaryOp::Or, a, b) => Some(opposite(a)?.binary(BinaryOp::And, opposite(b)?)),
        Expr::Compare(op, a, b) => match (&**a, &**b) {
            (Expr::Index(_), Expr::Index(_)) => {
                Some((**a).clone().compare(negated(*op), (**b).clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

/// Returns a reduction with its first flattened axis as several; `None` if there is none.
fn unflattened(compute: &Compute, dims: &Facts) -> Option<Compute> {
    compute.reduce_vars().find_map(|var| split(compute, var, &divisors(compute, var)?, dims))
}

/// Returns the numbers by which an axis is divided, each a divisor of the next; `None` if none. Where only
/// quotients are taken of it, or only remainders, it is one axis, of which elements repeat.
fn divisors(compute: &Compute, var: VarId) -> Option<Vec<i64>> {
    let extent = compute.axes[var.0 as usize].extent.as_constant()?;
    let (mut found, mut is_constant) = (BTreeSet::from([extent]), true);
    let (mut has_quotients, mut has_remainders) = (false, false);
    compute.body.for_each_poly(&mut |poly| {
        let atoms = || poly.terms().flat_map(|(atoms, _)| atoms);
        has_quotients |= atoms().any(|it| matches!(it, Atom::Div(a, _) if a.mentions(var)));
        has_remainders |= atoms().any(|it| matches!(it, Atom::Mod(a, _) if a.mentions(var)));
        poly.for_each_division(&mut |value, by| {
            // Other divisions with it, as `(y + t / 3) / 2` is `(3 * y + t) / 6`, are those of a digit or not.
            if let Some(step) = step_of(value, var) {
                let divided = by.as_constant().map(|by| step * by);
                is_constant &= divided.is_some();
                found.extend(divided.filter(|it| *it < extent));
            }
        });
    });
    let found: Vec<i64> = found.into_iter().collect();
    let are_nested = found.windows(2).all(|it| it[1] % it[0] == 0);
    let is_flat = has_quotients && has_remainders && is_constant && are_nested;
    (is_flat && found.len() > 1).then_some(found)
}

/// Returns how many iterations of an axis a step of a value takes: of `v`, `v % 9` and `v / 3`, 1, 1 and 3.
fn step_of(value: &Poly, var: VarId) -> Option<i64> {
    let mut terms = value.terms();
    let (Some(([atom], 1)), None) = (terms.next(), terms.next()) else { return None };
    match atom {
        Atom::Var(it) if *it == var => Some(1),
        Atom::Div(a, by) => Some(step_of(a, var)? * by.as_constant()?),
        Atom::Mod(a, _) => step_of(a, var),
        _ => None,
    }
}

/// Replaces an axis by those of its digits; `None` if something in them is still divided.
fn split(compute: &Compute, var: VarId, divisors: &[i64], dims: &Facts) -> Option<Compute> {
    let (mut axes, mut values) = (Vec::new(), Vec::new());
    let mut digits = Vec::new();
    for (n, axis) in compute.axes.iter().enumerate() {
        if n != var.0 as usize {
            values.push(Poly::var(VarId(axes.len() as u32)));
            axes.push(axis.clone());
            continue;
        }
        let mut value = Poly::default();
        // The slowest digit first: terms keep their order.
        for at in (0..divisors.len()).rev() {
            let step = if at == 0 { 1 } else { divisors[at - 1] };
            let digit = VarId(axes.len() as u32);
            value += Poly::var(digit) * step;
            digits.push(digit);
            let name = format!("{}_{}", axis.name, digits.len() - 1);
            axes.push(ComputeAxis { name, extent: Poly::constant(divisors[at] / step) });
        }
        values.push(value);
    }
    let mut split = Compute { axes, ..compute.clone() };
    let facts = split.facts(dims);
    split.body = compute.body.map_polys(&mut |poly| {
        poly.substitute_vars(&|it| Some(values[it.0 as usize].clone()), &facts)
    });
    // A digit may be divided with other axes, as it would be if it had been one; digits together may not.
    let mut is_open = false;
    split.body.for_each_poly(&mut |poly| {
        poly.for_each_division(&mut |value, _| {
            let n_digits = digits.iter().filter(|it| value.mentions(**it)).count();
            let is_other = |it: &VarId| !digits.contains(it) && value.mentions(*it);
            let has_others = (0..split.axes.len() as u32).map(VarId).any(|it| is_other(&it));
            is_open |= n_digits > 1 || n_digits == 1 && !has_others;
        });
    });
    (!is_open).then_some(split)
}

#[cfg(test)]
mod tests {
    use crate::Schedule;
    use tvmtune_ir::dsl;

    /// Returns the only stage of a program as text, in the variables of its axes.
    fn stage(text: &str) -> String {
        let dag = dsl::program(text).unwrap();
        let schedule = Schedule::new(&dag);
        let compute = &schedule.stages.last().unwrap().compute;
        let extents: Vec<String> = compute.axes.iter().map(|it| it.extent.to_string()).collect();
        format!("{} {:?}", extents.join(" "), compute.body)
    }

    fn conv(sum: &str) -> String {
        stage(&format!(
            "#[autotune]
             fn f(x: Tensor<f32, 4, 9, 9>, w: Tensor<f32, 8, 4, 3, 3>) -> Tensor<f32, 8, 7, 7> {{
                 compute(|o, y, p| {sum})
             }}"
        ))
    }

    #[test]
    fn flattened_axes_are_axes_of_their_own() {
        let own = conv("sum((0..4, 0..3, 0..3), |c, r, s| x[[c, y + r, p + s]] * w[[o, c, r, s]])");
        for flat in [
            "sum((0..4, 0..9), |c, t| x[[c, y + t / 3, p + t % 3]] * w[[o, c, t / 3, t % 3]])",
            "sum(0..36, |k| x[[k / 9, y + k / 3 % 3, p + k % 3]] * w[[o, k / 9, k / 3 % 3, k % 3]])",
            "sum(0..36, |k| x[[k / 9, y + k % 9 / 3, p + k % 3]] * w[[o, k / 9, k % 9 / 3, k % 3]])",
            "sum((0..12, 0..3), |q, s| x[[q / 3, y + q % 3, p + s]] * w[[o, q / 3, q % 3, s]])",
        ] {
            assert_eq!(conv(flat), own, "{flat}");
        }
    }

    #[test]
    fn taps_of_transposed_convolutions_are_axes_of_their_own() {
        let conv = |sum: &str| {
            stage(&format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 9, 9>, w: Tensor<f32, 4, 3, 3>) -> Tensor<f32, 18, 18> {{
                     compute(|y, p| {sum})
                 }}"
            ))
        };
        let own = conv(
            "sum((0..4, 0..3, 0..3), |c, r, s| if (y + 9 - r) % 2 == 0 && (p + 9 - s) % 2 == 0 {
                x.get([c, (y + 9 - r) / 2 - 4, (p + 9 - s) / 2 - 4]).unwrap_or(0.0) * w[[c, r, s]]
            } else { 0.0 })",
        );
        let flat = conv(
            "sum((0..4, 0..9), |c, t| if (y + 9 - t / 3) % 2 == 0 && (p + 9 - t % 3) % 2 == 0 {
                x.get([c, (y + 9 - t / 3) / 2 - 4, (p + 9 - t % 3) / 2 - 4]).unwrap_or(0.0)
                    * w[[c, t / 3, t % 3]]
            } else { 0.0 })",
        );
        assert_eq!(flat, own);
    }

    #[test]
    fn what_is_no_flattened_axis_stays() {
        let axes = |sum: &str| conv(sum).split(" Binary").next().unwrap_or_default().len();
        let of_two = axes("sum((0..4, 0..8), |c, t| x[[c, y, p]] * w[[o, c, 0, 0]])");
        for sum in [
            // 8 is no multiple of 3.
            "sum((0..4, 0..8), |c, t| x[[c, y + t / 3, p + t % 3]] * w[[o, c, t / 3, t % 3]])",
            // Neither of 4 and 6 divides the other.
            "sum((0..4, 0..12), |c, t| x[[c, y + t / 6, p + t / 6]] * w[[o, t / 4, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + (t + c) / 8, p]] * w[[o, c, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + t / 4, p]] * w[[o, c, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + (t % 4 + 1) / 3, p + t / 4]] * w[[o, c, 0, 0]])",
            "sum((0..4, 0..8), |c, t| x[[c, y + t % 2, p]] * w[[o, c, 0, 0]])",
        ] {
            assert!(axes(sum) <= of_two + 1, "{sum}: {}", conv(sum));
        }
    }

    #[test]
    fn choices_have_their_constant_behind() {
        let triangle = |term: &str| {
            stage(&format!(
                "#[autotune]
                 fn f(a: Tensor<f32, 8, 8>) -> Tensor<f32, 8> {{ compute(|i| sum(0..8, |k| {term})) }}"
            ))
        };
        let first = triangle("if k <= i && k + 3 > i { a[[i, k]] } else { 0.0 }");
        for term in [
            "if k > i || k + 3 <= i { 0.0 } else { a[[i, k]] }",
            "if !(k <= i && k + 3 > i) { 0.0 } else { a[[i, k]] }",
        ] {
            assert_eq!(triangle(term), first, "{term}");
        }
        // Of floats, the opposite of `<` is not `>=`.
        let by_data = "if a[[i, k]] < 1.0 { 0.0 } else { a[[i, k]] }";
        assert!(triangle(by_data).contains("Lt"), "{}", triangle(by_data));
    }
}

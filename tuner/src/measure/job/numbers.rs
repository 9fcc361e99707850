//! The numbers that parameters draw from, by the use that a program makes of them.
//!
//! Results are compared within a tolerance, which suits numbers that rounding moves little. A quotient by a sum of
//! both signs is none of these: where the sum almost cancels, so do its leading bits, and any order of summation
//! gives another result. Such a sum is one of positive numbers instead.

use std::collections::{BTreeMap, BTreeSet};

use tvmtune_ir::dag::{
    BinaryOp, CompareOp, Compute, Dag, Expr, Literal, Reducer, Subscript, TensorId, TensorKind,
    UnaryOp,
};
use tvmtune_ir::poly::{DimId, VarId};

use super::super::protocol::Numbers;

/// Returns the numbers that a parameter draws from.
pub(super) fn numbers(dag: &Dag, param: TensorId, dims: &[i64]) -> Numbers {
    let is_factor = |it: &Compute| it.reducer == Some(Reducer::Prod) && multiplies(&it.body, param);
    let rows = rows(dag, param, dims).or_else(|| indices(dag, param, dims));
    match rows.map(Numbers::Rows).or_else(|| bounds(dag, param, dims)) {
        Some(numbers) => numbers,
        None if dag.computes.iter().any(is_factor) => Numbers::Factors,
        None if cancels(dag, param) => Numbers::Positive,
        None => Numbers::Uniform,
    }
}

/// Tells if elements of a tensor are factors of a value, where a condition does not leave them out.
fn multiplies(value: &Expr, tensor: TensorId) -> bool {
    match value {
        Expr::Read { tensor: read, .. } => *read == tensor,
        Expr::Cast(_, a) | Expr::Unary(UnaryOp::Neg | UnaryOp::Abs, a) => multiplies(a, tensor),
        Expr::Binary(BinaryOp::Mul, a, b) | Expr::Select { then: a, otherwise: b, .. } => {
            multiplies(a, tensor) || multiplies(b, tensor)
        }
        _ => false,
    }
}

/// Returns the number of rows that a parameter indexes, if it indexes a tensor: of those that are `16 * x + k`, a
/// sixteenth.
fn rows(dag: &Dag, param: TensorId, dims: &[i64]) -> Option<u64> {
    let mut rows = None;
    let mut visit = |node: &Expr| {
        let Expr::Read { tensor, index } = node else { return };
        for (subscript, extent) in index.iter().zip(&dag.tensor(*tensor).shape) {
            if let Subscript::Value(value) = subscript
                && let Some(factor) = factor(value, param)
            {
                rows = Some((extent.eval_dims(dims) as f64 / factor).ceil() as u64);
            }
        }
    };
    dag.computes.iter().for_each(|it| it.body.walk(&mut visit));
    rows
}

/// Returns the number of indices that a parameter is compared with for equality, if it is: of those that `x / 16`
/// is compared with, sixteen times as many.
fn indices(dag: &Dag, param: TensorId, dims: &[i64]) -> Option<u64> {
    let mut found = None;
    for compute in &dag.computes {
        let last = |axis: VarId| compute.axes[axis.0 as usize].extent.eval_dims(dims) - 1;
        let dim = |dim: DimId| dims[dim.0 as usize];
        compute.body.walk(&mut |node| {
            let Expr::Compare(CompareOp::Eq | CompareOp::Ne, a, b) = node else { return };
            for (value, index) in [(a, b), (b, a)] {
                let index = if let Expr::Cast(_, it) = &**index { it } else { index };
                if let Expr::Index(index) = &**index
                    && index.has_vars()
                    && let Some(factor) = factor(value, param)
                {
                    let n = index.eval(&dim, &last).saturating_add(1).max(1);
                    found = Some((n as f64 / factor).ceil() as u64);
                }
            }
        });
    }
    found
}

/// Returns the numbers that bound an index, if a parameter does: ends of rows if it bounds one on both sides, as
/// offsets do, else lengths.
fn bounds(dag: &Dag, param: TensorId, dims: &[i64]) -> Option<Numbers> {
    if !dag.tensor(param).dtype.is_integer() {
        return None;
    }
    let (mut found, mut sides) = (None, BTreeSet::new());
    for compute in &dag.computes {
        let last = |axis: VarId| compute.axes[axis.0 as usize].extent.eval_dims(dims) - 1;
        let dim = |dim: DimId| dims[dim.0 as usize];
        compute.body.walk(&mut |node| {
            let Expr::Compare(op, a, b) = node else { return };
            let is_less = match op {
                CompareOp::Lt | CompareOp::Le => true,
                CompareOp::Gt | CompareOp::Ge => false,
                CompareOp::Eq | CompareOp::Ne => return,
            };
            for (value, index, is_end) in [(b, a, is_less), (a, b, !is_less)] {
                let index = if let Expr::Cast(_, it) = &**index { it } else { index };
                if let Expr::Index(index) = &**index
                    && index.has_vars()
                    && factor(value, param).is_some()
                {
                    found = Some(index.eval(&dim, &last).saturating_add(1).max(1) as u64);
                    sides.insert(is_end);
                }
            }
        });
    }
    found.map(if sides.len() == 2 { Numbers::Ends } else { Numbers::Lengths })
}

/// Returns how much a value grows, about, as the elements of a tensor in it grow by one; `None` if it has none.
fn factor(value: &Expr, tensor: TensorId) -> Option<f64> {
    let constant = |it: &Expr| match it {
        Expr::Const(Literal::Int(it), _) if *it > 0 => *it as f64,
        Expr::Index(it) => it.as_constant().filter(|it| *it > 0).map_or(1.0, |it| it as f64),
        _ => 1.0,
    };
    match value {
        Expr::Read { tensor: read, .. } => (*read == tensor).then_some(1.0),
        Expr::Binary(BinaryOp::Mul, a, b) => {
            let of = |it, other| Some(factor(it, tensor)? * constant(other));
            of(a, b).or_else(|| of(b, a))
        }
        Expr::Binary(BinaryOp::Shl, a, by) => Some(factor(a, tensor)? * constant(by).exp2()),
        Expr::Binary(BinaryOp::Div, a, by) => Some(factor(a, tensor)? / constant(by)),
        _ => value.children().into_iter().find_map(|it| factor(it, tensor)),
    }
}

/// Tells if a sum of which a parameter is a part may cancel where that is ill-conditioned, and does not if
/// parameters are positive.
fn cancels(dag: &Dag, param: TensorId) -> bool {
    let of_both_signs = Signs::new(dag, Sign::Any);
    let of_positive = Signs::new(dag, Sign::Positive);
    let mut found = false;
    for compute in &dag.computes {
        compute.body.walk(&mut |it| {
            found = found
                || sensitive_operand(it).is_some_and(|it| {
                    of_both_signs.of(it) == Sign::Any
                        && of_positive.of(it) == Sign::Positive
                        && has_sum(dag, it)
                        && depends_on(dag, it, param)
                });
        });
    }
    found
}

/// Returns the operand that may not be close to 0, by its own size.
fn sensitive_operand(value: &Expr) -> Option<&Expr> {
    match value {
        Expr::Binary(BinaryOp::Div, _, divisor) => Some(divisor),
        Expr::Binary(BinaryOp::Pow, base, _) => Some(base),
        Expr::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::Ln | UnaryOp::Log2, a) => Some(a),
        _ => None,
    }
}

/// The sign of a value; the lower ones include those above them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    Any,
    NotNegative,
    Positive,
}

/// The signs of values, for parameters of a sign.
struct Signs<'a> {
    dag: &'a Dag,
    of_params: Sign,
    /// The signs of the computed tensors.
    computed: BTreeMap<TensorId, Sign>,
}

impl<'a> Signs<'a> {
    fn new(dag: &'a Dag, of_params: Sign) -> Self {
        let mut signs = Self { dag, of_params, computed: BTreeMap::new() };
        // Each after those that it reads.
        for compute in &dag.computes {
            let sign = signs.of(&compute.body);
            signs.computed.insert(compute.tensor, sign);
        }
        signs
    }

    fn of(&self, value: &Expr) -> Sign {
        let lesser = |a: &Expr, b: &Expr| self.of(a).min(self.of(b));
        match value {
            Expr::Const(Literal::Float(it), _) if *it > 0.0 => Sign::Positive,
            Expr::Const(Literal::Float(it), _) if *it == 0.0 => Sign::NotNegative,
            // The floats among them are positive in all cases.
            Expr::Scalar(it) if self.dag.scalars[it.0 as usize].dtype.is_float() => Sign::Positive,
            Expr::Read { tensor, .. } => match self.computed.get(tensor) {
                Some(sign) => *sign,
                None if definition(self.dag, *tensor).is_some() => Sign::Any,
                None if self.dag.tensor(*tensor).dtype.is_float() => self.of_params,
                None => Sign::Any,
            },
            Expr::Unary(UnaryOp::Exp | UnaryOp::Exp2, _) => Sign::Positive,
            Expr::Unary(UnaryOp::Abs, a) => self.of(a).max(Sign::NotNegative),
            Expr::Unary(UnaryOp::Sqrt | UnaryOp::Rsqrt | UnaryOp::Tanh, a) | Expr::Cast(_, a) => {
                self.of(a)
            }
            Expr::Binary(BinaryOp::Mul, a, b) if a == b => self.of(a).max(Sign::NotNegative),
            Expr::Binary(BinaryOp::Mul | BinaryOp::Div | BinaryOp::Min, a, b) => lesser(a, b),
            Expr::Binary(BinaryOp::Max, a, b) => self.of(a).max(self.of(b)),
            Expr::Binary(BinaryOp::Add, a, b) => match lesser(a, b) {
                Sign::Any => Sign::Any,
                _ => self.of(a).max(self.of(b)),
            },
            Expr::Select { then, otherwise, .. } => lesser(then, otherwise),
            _ => Sign::Any,
        }
    }
}

/// Tells if a value is made of a sum.
fn has_sum(dag: &Dag, value: &Expr) -> bool {
    any(dag, value, &mut |dag, it| match it {
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, ..) => true,
        Expr::Read { tensor, .. } => {
            definition(dag, *tensor).is_some_and(|it| it.reducer == Some(Reducer::Sum))
        }
        _ => false,
    })
}

fn depends_on(dag: &Dag, value: &Expr, param: TensorId) -> bool {
    any(dag, value, &mut |_, it| matches!(it, Expr::Read { tensor, .. } if *tensor == param))
}

/// Tells if a part of a value, or of the definitions of what it reads, is such a one.
fn any(dag: &Dag, value: &Expr, is_one: &mut dyn FnMut(&Dag, &Expr) -> bool) -> bool {
    let (mut seen, mut found, mut bodies) = (BTreeSet::new(), false, vec![value]);
    while let Some(body) = bodies.pop() {
        body.walk(&mut |it| {
            found = found || is_one(dag, it);
            if let Expr::Read { tensor, .. } = it
                && seen.insert(*tensor)
                && let Some(compute) = definition(dag, *tensor)
            {
                bodies.push(&compute.body);
            }
        });
    }
    found
}

fn definition(dag: &Dag, tensor: TensorId) -> Option<&Compute> {
    match dag.tensor(tensor).kind {
        TensorKind::Computed(id) => Some(&dag.computes[id.0 as usize]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers_of(source: &str) -> Vec<Numbers> {
        let dag = tvmtune_ir::dsl::program(&format!("#[autotune]\n{source}")).unwrap();
        dag.params().map(|it| numbers(&dag, it, &[])).collect()
    }

    #[test]
    fn numbers_that_are_multiplied_by_thousands_are_drawn_around_one() {
        let source = "fn f(x: Tensor<f32, 8, 9>, y: Tensor<f32, 8>) -> Tensor<f32, 8> {
            compute(|i| prod(0..9, |k| -x[[i, k]] * 3.0) * y[[i]])
        }";
        assert_eq!(numbers_of(source), [Numbers::Factors, Numbers::Uniform]);
    }

    #[test]
    fn rows_that_are_computed_of_indices_are_there() {
        let chosen = |index: &str| {
            numbers_of(&format!(
                "fn f(x: Tensor<f32, 96>, at: Tensor<i64, 8>) -> Tensor<f32, 8> {{
                    compute(|i| x.get([{index}]).unwrap_or(0.0))
                }}"
            ))[1]
        };
        for (index, rows) in [
            ("at[[i]]", 96),
            ("at[[i]] * 16 + i as i64", 6),
            ("10 * at[[i]]", 10),
            ("(at[[i]] << 3) - 1", 12),
            ("at[[i]] / 2", 192),
        ] {
            assert_eq!(chosen(index), Numbers::Rows(rows), "{index}");
        }
    }

    #[test]
    fn indices_that_numbers_are_compared_with_are_there() {
        let compared = |condition: &str| {
            numbers_of(&format!(
                "fn f(x: Tensor<f32, 96>, at: Tensor<i64, 96>) -> Tensor<f32, 24> {{
                    compute(|i| sum(0..96, |k| if {condition} {{ x[[k]] }} else {{ 0.0 }}))
                }}"
            ))[1]
        };
        assert_eq!(compared("at[[k]] == i as i64"), Numbers::Rows(24));
        assert_eq!(compared("(i as i32 + 3) as i64 != at[[k]]"), Numbers::Uniform);
        assert_eq!(compared("(i + 3) as i64 != at[[k]]"), Numbers::Rows(27));
        assert_eq!(compared("at[[k]] / 4 == i as i64"), Numbers::Rows(96));
        assert_eq!(compared("at[[k]] == 3"), Numbers::Uniform);
        assert_eq!(compared("at[[k]] < i as i64"), Numbers::Lengths(24));
        assert_eq!(compared("at[[k]] <= i as i64 && (i as i64) < at[[k]]"), Numbers::Ends(24));
        assert_eq!(compared("at[[k]] < 7"), Numbers::Uniform);
    }

    #[test]
    fn sums_that_divide_are_of_positive_numbers() {
        let quotient = |divisor: &str| {
            numbers_of(&format!(
                "fn f(x: Tensor<f32, 8, 9>, y: Tensor<f32, 8>) -> Tensor<f32, 8> {{
                    let s = compute(|i| sum(0..9, |k| x[[i, k]]));
                    compute(|i| y[[i]] * {divisor})
                }}"
            ))
        };
        let positive = [Numbers::Positive, Numbers::Uniform];
        for divisor in
            ["1.0 / s[[i]]", "ln(s[[i]] + 1e-6)", "rsqrt(2.0 * s[[i]])", "s[[i]].powf(0.3)"]
        {
            assert_eq!(quotient(divisor), positive, "{divisor}");
        }
        // No sum, one that cannot cancel, and one that cancels whatever the signs are.
        for divisor in [
            "(1.0 / x[[i, 0]] + s[[i]])",
            "sqrt(sum(0..9, |k| x[[i, k]] * x[[i, k]]))",
            "(1.0 / sum(0..9, |k| exp(x[[i, k]] - s[[i]])))",
            "(1.0 / (s[[i]] - 4.0))",
        ] {
            assert_eq!(quotient(divisor), [Numbers::Uniform; 2], "{divisor}");
        }
        let both = quotient("1.0 / (s[[i]] + y[[i]])");
        assert_eq!(both, [Numbers::Positive; 2]);
    }
}

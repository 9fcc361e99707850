//! Functions of one float as operations: elementary ones, activations and `round`.

use super::call::Function;
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Literal, UnaryOp};

pub(super) fn constant(value: f64, dtype: DType) -> Expr {
    Expr::Const(Literal::Float(value), dtype)
}

/// Expands a function of a float to operations; returns the occurrences of its argument, too.
pub(super) fn expand_float(function: Function, x: Expr, dtype: DType) -> (Expr, usize) {
    let c = |value: f64| constant(value, dtype);
    let add = |a: Expr, b: Expr| a.binary(BinaryOp::Add, b);
    let mul = |a: Expr, b: Expr| a.binary(BinaryOp::Mul, b);
    let one_plus_exp_minus = |x: Expr| add(c(1.0), x.unary(UnaryOp::Neg).unary(UnaryOp::Exp));
    match function {
        Function::Unary(op) => (x.unary(op), 1),
        Function::Sigmoid => (c(1.0).binary(BinaryOp::Div, one_plus_exp_minus(x)), 1),
        Function::Recip => (c(1.0).binary(BinaryOp::Div, x), 1),
        Function::Silu => (x.clone().binary(BinaryOp::Div, one_plus_exp_minus(x)), 2),
        // x/2 * (1 + erf(x / sqrt 2))
        Function::Gelu => {
            let erf = mul(x.clone(), c(std::f64::consts::FRAC_1_SQRT_2)).unary(UnaryOp::Erf);
            (mul(mul(c(0.5), x), add(c(1.0), erf)), 2)
        }
        // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
        Function::GeluTanh => {
            let cube = mul(mul(x.clone(), x.clone()), x.clone());
            let inner = add(x.clone(), mul(c(0.044_715), cube));
            let root = (2.0 / std::f64::consts::PI).sqrt();
            let tanh = mul(c(root), inner).unary(UnaryOp::Tanh);
            (mul(mul(c(0.5), x), add(c(1.0), tanh)), 5)
        }
        // max(x, 0) + ln_1p(exp(-|x|))
        Function::Softplus => {
            let size = x.clone().unary(UnaryOp::Abs).unary(UnaryOp::Neg);
            let rest = size.unary(UnaryOp::Exp).unary(UnaryOp::Ln1p);
            (add(x.binary(BinaryOp::Max, c(0.0)), rest), 2)
        }
        Function::Mish => (mish(x, dtype), 5),
        // x * (clamp(x + 3, 0, 6) / 6): the quotient is taken first, so that no product overflows.
        Function::HardSwish => {
            let raised = add(x.clone(), c(3.0)).binary(BinaryOp::Max, c(0.0));
            let share = raised.binary(BinaryOp::Min, c(6.0)).binary(BinaryOp::Div, c(6.0));
            (mul(x, share), 2)
        }
        // clamp(x + 3, 0, 6) / 6, by comparisons, so that a NaN stays one.
        Function::HardSigmoid => {
            let raised = add(x, c(3.0));
            let is_high = raised.clone().compare(CompareOp::Gt, c(6.0));
            let lowered = is_high.select(c(6.0), raised.clone());
            let is_low = raised.compare(CompareOp::Lt, c(0.0));
            (is_low.select(c(0.0), lowered).binary(BinaryOp::Div, c(6.0)), 3)
        }
        // The fraction of the magnitude is exact, so it decides, and the sign comes last. Zeros and
        // NaNs are neither negative nor positive.
        Function::Round => {
            let magnitude = x.clone().unary(UnaryOp::Abs);
            let whole = magnitude.clone().unary(UnaryOp::Floor);
            let fraction = magnitude.binary(BinaryOp::Sub, whole.clone());
            let rounds_up = fraction.compare(CompareOp::Ge, c(0.5));
            let rounded = rounds_up.select(add(whole.clone(), c(1.0)), whole);
            let is_negative = x.clone().compare(CompareOp::Lt, c(0.0));
            let is_positive = x.clone().compare(CompareOp::Gt, c(0.0));
            let rest = is_positive.select(rounded.clone(), x);
            (is_negative.select(rounded.unary(UnaryOp::Neg), rest), 11)
        }
        Function::Abs
        | Function::Binary(_)
        | Function::Pow
        | Function::Powi
        | Function::Difference
        | Function::Clamp
        | Function::MulAdd
        | Function::Tf32
        | Function::Relu
        | Function::LeakyRelu => unreachable!("these are not of floats alone"),
    }
}

/// `x tanh(ln(1 + e^x))`, which is `x (n / (n + 2))` for `n = w (w + 2)` and `w = e^x`. From 20 on the
/// quotient is 1.
fn mish(x: Expr, dtype: DType) -> Expr {
    let c = |value: f64| constant(value, dtype);
    let exponent = x.clone().binary(BinaryOp::Min, c(20.0));
    let power = exponent.unary(UnaryOp::Exp);
    let n = power.clone().binary(BinaryOp::Mul, power.binary(BinaryOp::Add, c(2.0)));
    let share = n.clone().binary(BinaryOp::Div, n.binary(BinaryOp::Add, c(2.0)));
    x.binary(BinaryOp::Mul, share)
}

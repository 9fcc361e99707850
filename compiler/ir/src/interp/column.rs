//! Columns: the values of one expression for several lanes, and the operations on them.

use crate::dag::number::{self, holds, round, wrap};
use crate::dag::{BinaryOp, CompareOp, DType, Number, Reducer, UnaryOp};
use tvmtune_math::{fma, scalar};

/// The values of one expression, one for each lane.
#[derive(Clone, Debug)]
pub(super) enum Column {
    Float(Vec<f64>),
    Int(Vec<i64>),
    Bool(Vec<bool>),
}

impl Column {
    /// The same value in each lane.
    pub(super) fn splat(value: Number, len: usize) -> Self {
        match value {
            Number::Float(it) => Column::Float(vec![it; len]),
            Number::Int(it) => Column::Int(vec![it; len]),
            Number::Bool(it) => Column::Bool(vec![it; len]),
        }
    }

    /// The reducer's identity; for a compute without a reducer, any value of its type.
    pub(super) fn identity(reducer: Option<Reducer>, dtype: DType, len: usize) -> Self {
        let literal = reducer.unwrap_or(Reducer::Sum).identity(dtype);
        Self::splat(Number::literal(literal, dtype), len)
    }

    pub(super) fn get(&self, lane: usize) -> Number {
        match self {
            Column::Float(it) => Number::Float(it[lane]),
            Column::Int(it) => Number::Int(it[lane]),
            Column::Bool(it) => Number::Bool(it[lane]),
        }
    }

    /// Combines lane by lane as a reduction does: floats without rounding in between.
    pub(super) fn combine(&mut self, reducer: Option<Reducer>, other: Column) {
        match reducer {
            None => *self = other,
            Some(reducer) => {
                let sum = std::mem::replace(self, Column::Bool(Vec::new()));
                *self = sum.binary(reducer.op(), other, DType::F64);
            }
        }
    }

    /// Combines all lanes into one, as [`combine`](Self::combine) does.
    pub(super) fn fold(self, reducer: Option<Reducer>, dtype: DType) -> Self {
        let reducer = reducer.expect("only a reduction has lanes on a reduce axis");
        match self {
            Column::Float(it) if reducer == Reducer::Sum => {
                Column::Float(vec![it.iter().fold(0.0, |sum, it| sum + it)])
            }
            other => {
                let first = Number::literal(reducer.identity(dtype), dtype);
                let lanes = 0..other.len();
                let all =
                    lanes.fold(first, |sum, n| sum.binary(reducer.op(), other.get(n), wide(dtype)));
                Column::splat(all, 1)
            }
        }
    }

    fn len(&self) -> usize {
        match self {
            Column::Float(it) => it.len(),
            Column::Int(it) => it.len(),
            Column::Bool(it) => it.len(),
        }
    }

    pub(super) fn unary(self, op: UnaryOp, dtype: DType) -> Self {
        match self {
            Column::Float(it) => Column::Float(rounded(
                it.into_iter().map(|x| number::float_unary(op, x, dtype)).collect(),
                dtype,
            )),
            Column::Int(it) => {
                Column::Int(it.into_iter().map(|x| wrap(number::int_unary(op, x), dtype)).collect())
            }
            Column::Bool(it) => Column::Bool(it.into_iter().map(|x| !x).collect()),
        }
    }

    pub(super) fn binary(self, op: BinaryOp, other: Column, dtype: DType) -> Self {
        match (self, other) {
            (Column::Float(a), Column::Float(b)) => {
                // The operations worth a loop of their own; the others decide in each lane.
                let values = match op {
                    BinaryOp::Add => zip(a, &b, |x, y| x + y),
                    BinaryOp::Sub => zip(a, &b, |x, y| x - y),
                    BinaryOp::Mul => zip(a, &b, |x, y| x * y),
                    BinaryOp::Max => zip(a, &b, |x, y| if x > y || y.is_nan() { x } else { y }),
                    _ => zip(a, &b, |x, y| number::float_binary(op, x, y)),
                };
                Column::Float(rounded(values, dtype))
            }
            (Column::Int(a), Column::Int(b)) => {
                Column::Int(zip(a, &b, |x, y| wrap(number::int_binary(op, x, y, dtype), dtype)))
            }
            (Column::Bool(a), Column::Bool(b)) => {
                Column::Bool(zip(a, &b, |x, y| number::bool_binary(op, x, y)))
            }
            _ => unreachable!("{op:?} of values of two types"),
        }
    }

    /// `op` of `f32`, by the functions that kernels have.
    pub(super) fn unary_of_kernels(self, op: UnaryOp) -> Self {
        let function = match op {
            UnaryOp::Exp => scalar::exp,
            UnaryOp::Ln => scalar::ln,
            UnaryOp::Exp2 => scalar::exp2,
            UnaryOp::Log2 => scalar::log2,
            UnaryOp::ExpM1 => scalar::exp_m1,
            UnaryOp::Ln1p => scalar::ln_1p,
            UnaryOp::Tanh => scalar::tanh,
            UnaryOp::Erf => scalar::erf,
            UnaryOp::Sin => scalar::sin,
            UnaryOp::Cos => scalar::cos,
            UnaryOp::Atan => scalar::atan,
            _ => return self.unary(op, DType::F32),
        };
        let Column::Float(mut values) = self else { unreachable!("{op:?} of what is no float") };
        values.iter_mut().for_each(|it| *it = function(*it as f32).into());
        Column::Float(values)
    }

    /// Powers of `f32`, by the function that kernels have.
    pub(super) fn pow_of_kernels(self, other: Column) -> Self {
        let (Column::Float(a), Column::Float(b)) = (self, other) else {
            unreachable!("powers of what is no float");
        };
        Column::Float(zip(a, &b, |x, y| scalar::pow(x as f32, y as f32).into()))
    }

    /// Adds products, which are not rounded before.
    pub(super) fn add_products(self, a: Column, b: &Column) -> Self {
        let (Column::Float(mut sum), Column::Float(a), Column::Float(b)) = (self, a, b) else {
            unreachable!("products of what is no float");
        };
        for ((sum, x), y) in sum.iter_mut().zip(a).zip(b) {
            *sum = fma(x as f32, *y as f32, *sum as f32).into();
        }
        Column::Float(sum)
    }

    /// The value of one lane.
    pub(super) fn lane(&self, lane: usize) -> Self {
        Self::splat(self.get(lane), 1)
    }

    pub(super) fn compare(self, op: CompareOp, other: Column) -> Vec<bool> {
        match (self, other) {
            (Column::Float(a), Column::Float(b)) => compared(op, &a, &b),
            (Column::Int(a), Column::Int(b)) => compared(op, &a, &b),
            (Column::Bool(a), Column::Bool(b)) => compared(op, &a, &b),
            _ => unreachable!("{op:?} of values of two types"),
        }
    }

    pub(super) fn cast(self, to: DType) -> Self {
        match self {
            Column::Float(it) if to.is_float() => Column::Float(rounded(it, to)),
            other => {
                let values = (0..other.len()).map(|n| other.get(n).cast(to));
                values.collect()
            }
        }
    }

    /// The lanes of `then` where `condition` holds and those of `otherwise` elsewhere, in order.
    pub(super) fn merge(condition: &[bool], then: &Column, otherwise: &Column) -> Column {
        let (mut n_then, mut n_otherwise) = (0, 0);
        condition
            .iter()
            .map(|it| {
                let (column, n) =
                    if *it { (then, &mut n_then) } else { (otherwise, &mut n_otherwise) };
                *n += 1;
                column.get(*n - 1)
            })
            .collect()
    }
}

/// At least one value, all of one type.
impl FromIterator<Number> for Column {
    fn from_iter<T: IntoIterator<Item = Number>>(values: T) -> Self {
        let mut values = values.into_iter().peekable();
        match values.peek() {
            Some(Number::Float(_)) => Column::Float(values.map(Number::to_f64).collect()),
            Some(Number::Bool(_)) => {
                Column::Bool(values.map(|it| it == Number::Bool(true)).collect())
            }
            _ => Column::Int(values.map(Number::to_i64).collect()),
        }
    }
}

/// The type in which a reduction accumulates before it rounds once.
fn wide(dtype: DType) -> DType {
    if dtype.is_float() { DType::F64 } else { dtype }
}

fn zip<T: Copy>(mut a: Vec<T>, b: &[T], f: impl Fn(T, T) -> T) -> Vec<T> {
    for (x, y) in a.iter_mut().zip(b) {
        *x = f(*x, *y);
    }
    a
}

fn compared<T: PartialOrd>(op: CompareOp, a: &[T], b: &[T]) -> Vec<bool> {
    a.iter().zip(b).map(|(x, y)| holds(op, x.partial_cmp(y))).collect()
}

fn rounded(mut values: Vec<f64>, dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F32 => values.iter_mut().for_each(|it| *it = f64::from(*it as f32)),
        DType::F16 | DType::Bf16 => values.iter_mut().for_each(|it| *it = round(*it, dtype)),
        _ => {}
    }
    values
}

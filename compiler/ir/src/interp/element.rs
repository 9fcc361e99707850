//! Lazy evaluation of single elements of a program's results, by definition.
//!
//! Evaluating all of a [`Dag`] may take minutes; a few thousand elements of its results take a
//! second: only the elements they depend on are evaluated, each once.
//!
//! In: the same as [`super::run`]. Out: the same values, for the elements requested; of a program with fixed
//! numerics, those of [`super::run_in_order`].

use std::collections::BTreeMap;

use super::Array;
use super::column::Column;
use super::partial::PartialResults;
use crate::dag::{
    BinaryOp, Compute, DType, Dag, Expr, Number, Numerics, Order, Reducer, Subscript, TensorId,
    UnaryOp, number,
};
use crate::poly::{Poly, VarId};

/// Elements of the tensors of a program, evaluated on demand.
pub struct Elements<'a> {
    dag: &'a Dag,
    dims: &'a [i64],
    params: &'a [Array],
    scalars: Vec<Number>,
    /// The elements evaluated so far, by tensor and row-major position.
    known: BTreeMap<(TensorId, usize), Number>,
    n_evaluated: u64,
    /// The number of evaluations after which values mean nothing any more.
    limit: u64,
}

impl<'a> Elements<'a> {
    /// The elements for these extents of the dynamic dimensions, parameters, and scalars.
    ///
    /// # Panics
    ///
    /// If there is not one of each for each of the program's, or if a function of Rust defines it.
    pub fn new(dag: &'a Dag, dims: &'a [i64], params: &'a [Array], scalars: &[Number]) -> Self {
        assert!(dag.reference().is_none(), "a function of Rust defines this program");
        assert_eq!(dims.len(), dag.dims.len(), "an extent for each dynamic dimension");
        assert_eq!(params.len(), dag.params().count(), "an array for each parameter");
        assert_eq!(scalars.len(), dag.scalars.len(), "a value for each run-time scalar");
        let typed = scalars.iter().zip(&dag.scalars).map(|(it, scalar)| it.cast(scalar.dtype));
        let scalars = typed.collect();
        let known = BTreeMap::new();
        Self { dag, dims, params, scalars, known, n_evaluated: 0, limit: u64::MAX }
    }

    /// The same elements, but evaluation ends after that many evaluations of bodies: the values of elements
    /// are arbitrary once it [is exhausted](Elements::is_exhausted).
    #[must_use]
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// Returns whether the limit was reached.
    pub fn is_exhausted(&self) -> bool {
        self.n_evaluated > self.limit
    }

    /// The element of a tensor at a row-major position.
    ///
    /// # Panics
    ///
    /// If the tensor has no such element, or a read of its definition is out of bounds, which
    /// `dag::verify` excludes.
    pub fn get(&mut self, tensor: TensorId, flat: usize) -> Number {
        let Some(compute) = self.dag.producer(tensor) else {
            return self.params[tensor.0 as usize].get(flat);
        };
        if let Some(value) = self.known.get(&(tensor, flat)) {
            return *value;
        }
        let compute = self.dag.compute(compute);
        let extents: Vec<i64> =
            compute.axes.iter().map(|it| it.extent.eval_dims(self.dims)).collect();
        let mut point = unflatten(flat, &extents[..compute.n_spatial]);
        point.resize(extents.len(), 0);
        if let Some(axis) = compute.recurrent_axis() {
            let distance = extents[axis + 1..].iter().product::<i64>() as usize;
            self.steps_before(tensor, flat, (point[axis], distance));
        }
        let value = match compute.reducer {
            None => self.eval(&compute.body, &point),
            Some(reducer) => match self.dag.order(compute) {
                Some(order) => self.reduce_in_order((reducer, order), compute, &extents, point),
                None => self.reduce(reducer, compute, &extents, point),
            },
        };
        if !self.is_exhausted() {
            self.known.insert((tensor, flat), value);
        }
        value
    }

    /// Evaluates the steps of a recurrence before an element, the first one first: no step then waits for
    /// many others. Elements of neighboring steps are `distance` apart.
    fn steps_before(&mut self, tensor: TensorId, flat: usize, (n, distance): (i64, usize)) {
        let place = |back: usize| flat - back * distance;
        let n = n as usize;
        let is_known = |back: &usize| self.known.contains_key(&(tensor, place(*back)));
        let n_unknown = (1..=n).find(is_known).map_or(n, |it| it - 1);
        for back in (1..=n_unknown).rev() {
            self.get(tensor, place(back));
            if self.is_exhausted() {
                break;
            }
        }
    }

    /// The number of evaluations of the body of a compute so far.
    pub fn n_evaluated(&self) -> u64 {
        self.n_evaluated
    }

    /// The reduction of the body over all reduce axes.
    fn reduce(
        &mut self,
        reducer: Reducer,
        compute: &Compute,
        extents: &[i64],
        mut point: Vec<i64>,
    ) -> Number {
        let dtype = self.dag.tensor(compute.tensor).dtype;
        let first = compute.n_spatial;
        // Sums and products of floats round once, at the end.
        let wide = dtype.is_float() && matches!(reducer, Reducer::Sum | Reducer::Prod);
        let mut exact = if reducer == Reducer::Sum { 0.0 } else { 1.0 };
        let mut result = Number::literal(reducer.identity(dtype), dtype);
        if extents[first..].iter().all(|it| *it > 0) {
            loop {
                let value = self.eval(&compute.body, &point);
                match value {
                    Number::Float(it) if wide && reducer == Reducer::Sum => exact += it,
                    Number::Float(it) if wide => exact *= it,
                    _ => result = result.binary(reducer.op(), value, dtype),
                }
                if self.is_exhausted() || !advance(&mut point[first..], &extents[first..]) {
                    break;
                }
            }
        }
        if wide { Number::Float(number::round(exact, dtype)) } else { result }
    }

    /// The reduction of the body over all reduce axes, in the order that the program fixes.
    fn reduce_in_order(
        &mut self,
        (reducer, order): (Reducer, Order),
        compute: &Compute,
        extents: &[i64],
        mut point: Vec<i64>,
    ) -> Number {
        let first = compute.n_spatial;
        let dtype = self.dag.tensor(compute.tensor).dtype;
        let identity = Number::literal(reducer.identity(dtype), dtype);
        let combine = |a: Number, b| a.binary(reducer.op(), b, dtype);
        let mut results = PartialResults::new(order, identity, combine);
        if extents[first..].iter().all(|it| *it > 0) {
            loop {
                let value = self.term(reducer, compute, &point);
                results.add(order.place(&point, extents), |so_far| {
                    value.combined_with(so_far, reducer, dtype)
                });
                if self.is_exhausted() || !advance(&mut point[first..], &extents[first..]) {
                    break;
                }
            }
        }
        results.result()
    }

    /// The term of a reduction at a point.
    fn term(&mut self, reducer: Reducer, compute: &Compute, point: &[i64]) -> Term {
        let dtype = self.dag.tensor(compute.tensor).dtype;
        match (&compute.body, reducer) {
            (Expr::Binary(BinaryOp::Mul, a, b), Reducer::Sum) if dtype == DType::F32 => {
                Term::Product(self.eval(a, point), self.expr(b, point))
            }
            (body, _) => Term::Any(self.eval(body, point)),
        }
    }

    /// Returns whether kernels and this interpreter share the elementary functions of a type.
    fn is_of_kernels(&self, dtype: DType) -> bool {
        self.dag.numerics == Numerics::Fixed && dtype == DType::F32
    }

    fn unary(&self, op: UnaryOp, value: Number, dtype: DType) -> Number {
        match self.is_of_kernels(dtype) {
            true => Column::splat(value, 1).unary_of_kernels(op).get(0),
            false => value.unary(op, dtype),
        }
    }

    fn binary(&self, op: BinaryOp, [a, b]: [Number; 2], dtype: DType) -> Number {
        match self.is_of_kernels(dtype) && op == BinaryOp::Pow {
            true => Column::splat(a, 1).pow_of_kernels(Column::splat(b, 1)).get(0),
            false => a.binary(op, b, dtype),
        }
    }

    fn eval(&mut self, body: &Expr, point: &[i64]) -> Number {
        self.n_evaluated += 1;
        self.expr(body, point)
    }

    fn expr(&mut self, expr: &Expr, point: &[i64]) -> Number {
        match expr {
            Expr::Const(value, dtype) => Number::literal(*value, *dtype),
            Expr::Index(poly) => Number::Int(self.poly(poly, point)),
            Expr::Scalar(id) => self.scalars[id.0 as usize],
            Expr::Read { tensor, index } => {
                let flat = self.position(*tensor, index, point);
                self.get(*tensor, flat)
            }
            Expr::Unary(op, a) => {
                let value = self.expr(a, point);
                self.unary(*op, value, a.dtype(self.dag))
            }
            Expr::Binary(op, a, b) => {
                let operands = [self.expr(a, point), self.expr(b, point)];
                self.binary(*op, operands, a.dtype(self.dag))
            }
            Expr::Compare(op, a, b) => {
                let (left, right) = (self.expr(a, point), self.expr(b, point));
                Number::Bool(left.compare(*op, right))
            }
            Expr::Select { condition, then, otherwise } => {
                let holds = self.expr(condition, point) == Number::Bool(true);
                self.expr(if holds { then } else { otherwise }, point)
            }
            Expr::Cast(dtype, a) => self.expr(a, point).cast(*dtype),
        }
    }

    /// The row-major position of the element that is read.
    fn position(&mut self, tensor: TensorId, index: &[Subscript], point: &[i64]) -> usize {
        let mut flat = 0;
        for (subscript, extent) in index.iter().zip(&self.dag.tensor(tensor).shape) {
            let at = match subscript {
                Subscript::Affine(poly) => self.poly(poly, point),
                Subscript::Value(value) => self.expr(value, point).to_i64(),
            };
            let extent = extent.eval_dims(self.dims);
            assert!((0..extent).contains(&at), "{at} of {extent}: a read out of bounds");
            flat = flat * extent + at;
        }
        flat as usize
    }

    fn poly(&self, poly: &Poly, point: &[i64]) -> i64 {
        let var = |it: VarId| point[it.0 as usize];
        poly.eval(&|it| self.dims[it.0 as usize], &var)
    }
}

/// The term of a reduction whose order is fixed.
#[derive(Clone, Copy)]
enum Term {
    /// It is summed as it is, without rounding before.
    Product(Number, Number),
    Any(Number),
}

impl Term {
    fn combined_with(self, so_far: Number, reducer: Reducer, dtype: DType) -> Number {
        match self {
            Term::Product(a, b) => {
                let [sum, a, b] = [so_far, a, b].map(|it| Column::splat(it, 1));
                sum.add_products(a, &b).get(0)
            }
            Term::Any(value) => value.binary(reducer.op(), so_far, dtype),
        }
    }
}

fn unflatten(mut flat: usize, extents: &[i64]) -> Vec<i64> {
    let mut index = vec![0; extents.len()];
    for (at, extent) in index.iter_mut().zip(extents).rev() {
        *at = flat as i64 % extent;
        flat /= *extent as usize;
    }
    assert_eq!(flat, 0, "a position within the tensor");
    index
}

/// The next index in row-major order; false after the last one.
fn advance(index: &mut [i64], extents: &[i64]) -> bool {
    for (at, extent) in index.iter_mut().zip(extents).rev() {
        *at += 1;
        if *at < *extent {
            return true;
        }
        *at = 0;
    }
    false
}

//! Random programs of common kinds, with random extents.

use tvmtune_ir::dag::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Dag, Dim, Expr, Literal, Numerics,
    Reducer, Scalar, ScalarId, Subscript, Tensor, TensorId, TensorKind,
};
use tvmtune_ir::poly::{DimId, Interval, Poly, VarId};

/// A kind of program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// Matrix product, bias, activation.
    Matmul,
    /// Batched matrix product with a transposed operand, scaled by a run-time scalar.
    BatchedMatmul,
    /// Two matrix products, the second of the first.
    Mlp,
    /// Strided, dilated, padded convolution, bias and activation.
    Conv,
    /// Transposed convolution in one dimension: the terms whose place is a multiple of the stride.
    Transposed,
    /// A pooling window, of an elementwise stage.
    Pool,
    /// Rows: maximum, differences, their sum, quotient-like combination.
    Softmax,
    /// Rows: sum, centered squares, their sum, scaled and shifted.
    Layernorm,
    /// A chain of elementwise stages with transposition, reversal and broadcast.
    Chain,
    /// Rows of a table at data-dependent places, some outside, then a row sum.
    Gather,
    /// The least index of the largest element.
    Argmax,
    /// Sums or maxima up to an index, or from one on, with or without its element.
    Prefix,
    /// States along one axis, each of the one before; then themselves or sums of their rows.
    Recurrence,
    /// A parameter replaced by itself and a product, by itself and a sum of its row or column, or by
    /// itself and its mirror image; and the sums of the result's rows.
    InPlace,
}

impl Family {
    /// All of them.
    pub const ALL: [Family; 14] = [
        Family::Matmul,
        Family::BatchedMatmul,
        Family::Mlp,
        Family::Conv,
        Family::Transposed,
        Family::Pool,
        Family::Softmax,
        Family::Layernorm,
        Family::Chain,
        Family::Gather,
        Family::Argmax,
        Family::Prefix,
        Family::Recurrence,
        Family::InPlace,
    ];
}

/// Makes a program of that family from random numbers, and extents for its dynamic dimensions.
pub fn dag(family: Family, numbers: &[u32]) -> (Dag, Vec<i64>) {
    let mut it = Builder::new(family, numbers);
    it.dag.outputs = match family {
        Family::Matmul => it.matmul(),
        Family::BatchedMatmul => it.batched_matmul(),
        Family::Mlp => it.mlp(),
        Family::Conv => it.conv(),
        Family::Transposed => it.transposed(),
        Family::Pool => it.pool(),
        Family::Softmax => it.softmax(),
        Family::Layernorm => it.layernorm(),
        Family::Chain => it.chain(),
        Family::Gather => it.gather(),
        Family::Argmax => it.argmax(),
        Family::Prefix => it.prefix(),
        Family::Recurrence => it.recurrence(),
        Family::InPlace => it.in_place(),
    };
    (it.dag, it.dims)
}

struct Builder<'a> {
    dag: Dag,
    dims: Vec<i64>,
    numbers: std::iter::Cycle<std::slice::Iter<'a, u32>>,
}

fn var(n: u32) -> Poly {
    Poly::var(VarId(n))
}

fn read(tensor: TensorId, vars: &[u32]) -> Expr {
    Expr::read(tensor, vars.iter().map(|it| var(*it)))
}

fn add(a: Expr, b: Expr) -> Expr {
    a.binary(BinaryOp::Add, b)
}

fn sub(a: Expr, b: Expr) -> Expr {
    a.binary(BinaryOp::Sub, b)
}

fn mul(a: Expr, b: Expr) -> Expr {
    a.binary(BinaryOp::Mul, b)
}

fn relu(a: Expr) -> Expr {
    a.binary(BinaryOp::Max, Expr::f32(0.0))
}

/// `0 <= index < extent`.
fn inside(index: &Poly, extent: &Poly) -> Expr {
    let at = || Expr::Index(index.clone());
    let least = at().compare(CompareOp::Ge, Expr::Index(Poly::default()));
    let most = at().compare(CompareOp::Lt, Expr::Index(extent.clone()));
    least.binary(BinaryOp::And, most)
}

impl<'a> Builder<'a> {
    fn new(family: Family, numbers: &'a [u32]) -> Self {
        let dag = Dag {
            name: format!("{family:?}").to_lowercase(),
            dims: Vec::new(),
            scalars: Vec::new(),
            tensors: Vec::new(),
            computes: Vec::new(),
            outputs: Vec::new(),
            numerics: Numerics::Free,
            written_order: None,
            orders: Vec::new(),
            kernel_template: None,
        };
        Self { dag, dims: Vec::new(), numbers: numbers.iter().cycle() }
    }

    /// Returns a random number below `n`.
    fn below(&mut self, n: i64) -> i64 {
        self.numbers.next().map_or(0, |it| i64::from(*it) % n)
    }

    /// Makes a non-divisible extent: fixed, or dynamic and then often at an end of its range.
    fn extent(&mut self) -> Poly {
        const SIZES: [i64; 10] = [1, 2, 3, 4, 5, 7, 8, 11, 12, 13];
        let value = SIZES[self.below(10) as usize];
        if self.below(3) > 0 {
            return Poly::constant(value);
        }
        let (lo, hi) = match self.below(4) {
            0 => (value, value + self.below(9)),
            1 => (1, value),
            2 => (value, value),
            _ => (1, value + self.below(20)),
        };
        self.dim(Interval { lo, hi }, None, value)
    }

    /// Makes a dynamic dimension, of that extent at the launch.
    fn dim(&mut self, range: Interval, lower_end: Option<Poly>, value: i64) -> Poly {
        let dim = DimId(self.dims.len() as u32);
        self.dag.dims.push(Dim { name: format!("n{}", dim.0), range, lower_end });
        self.dims.push(value);
        Poly::dim(dim)
    }

    /// Makes room for `used`: at times more than that, known at launch, where it is dynamic.
    fn capacity(&mut self, used: &Poly) -> Poly {
        let position = (0..self.dims.len()).find(|n| *used == Poly::dim(DimId(*n as u32)));
        let Some(position) = position.filter(|_| self.below(4) == 0) else { return used.clone() };
        let (more, range) = (self.below(3), self.dag.dims[position].range);
        let value = self.dims[position] + more + [0, 0, 1, 3, 8][self.below(5) as usize];
        let hi = value.max(range.hi + more) + self.below(9);
        let end = used.clone() + more.into();
        self.dim(Interval { lo: range.lo + more, hi }, Some(end), value)
    }

    fn param(&mut self, name: &str, dtype: DType, shape: &[&Poly]) -> TensorId {
        let constant = shape.iter().all(|it| it.as_constant().is_some());
        let weight = constant && self.below(2) == 0;
        let kind = if weight { TensorKind::Weight } else { TensorKind::Input };
        let shape: Vec<Poly> = shape.iter().map(|it| self.capacity(it)).collect();
        self.tensor(name, dtype, &shape.iter().collect::<Vec<_>>(), kind)
    }

    fn tensor(&mut self, name: &str, dtype: DType, shape: &[&Poly], kind: TensorKind) -> TensorId {
        let shape = shape.iter().map(|it| (*it).clone()).collect();
        self.dag.tensors.push(Tensor { name: name.to_owned(), dtype, shape, kind });
        TensorId(self.dag.tensors.len() as u32 - 1)
    }

    /// Adds a compute over `spatial` and then `reduce` axes; returns its tensor.
    fn compute(
        &mut self,
        name: &str,
        spatial: &[&Poly],
        reduce: &[&Poly],
        reducer: Reducer,
        body: Expr,
    ) -> TensorId {
        let dtype = body.dtype(&self.dag);
        let tensor = self.computed(name, dtype, spatial);
        self.define(tensor, (spatial, reduce), reducer, body);
        tensor
    }

    /// Declares a tensor that the next compute defines.
    fn computed(&mut self, name: &str, dtype: DType, shape: &[&Poly]) -> TensorId {
        let id = ComputeId(self.dag.computes.len() as u32);
        self.tensor(name, dtype, shape, TensorKind::Computed(id))
    }

    fn define(
        &mut self,
        tensor: TensorId,
        (spatial, reduce): (&[&Poly], &[&Poly]),
        reducer: Reducer,
        body: Expr,
    ) {
        let axis = |(n, extent): (usize, &&Poly)| ComputeAxis {
            name: ["i", "j", "k", "l", "m", "n", "o"][n].to_owned(),
            extent: (*extent).clone(),
        };
        self.dag.computes.push(Compute {
            tensor,
            axes: spatial.iter().chain(reduce).enumerate().map(axis).collect(),
            n_spatial: spatial.len(),
            reducer: (!reduce.is_empty()).then_some(reducer),
            body,
        });
    }

    fn elementwise(&mut self, name: &str, shape: &[&Poly], body: Expr) -> TensorId {
        self.compute(name, shape, &[], Reducer::Sum, body)
    }

    fn sum(&mut self, name: &str, spatial: &[&Poly], reduce: &[&Poly], body: Expr) -> TensorId {
        self.compute(name, spatial, reduce, Reducer::Sum, body)
    }

    fn matmul(&mut self) -> Vec<TensorId> {
        let (m, n, k) = (self.extent(), self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&m, &k]);
        let w = self.param("w", DType::F32, &[&n, &k]);
        let b = self.param("b", DType::F32, &[&n]);
        let c = self.sum("c", &[&m, &n], &[&k], mul(read(x, &[0, 2]), read(w, &[1, 2])));
        let body = relu(add(read(c, &[0, 1]), read(b, &[1])));
        let d = self.elementwise("d", &[&m, &n], body);
        let both = self.below(4) == 0;
        if both { vec![d, c] } else { vec![d] }
    }

    fn batched_matmul(&mut self) -> Vec<TensorId> {
        let (b, m, n, k) = (self.extent(), self.extent(), self.extent(), self.extent());
        self.dag.scalars.push(Scalar { name: "scale".to_owned(), dtype: DType::F32 });
        let x = self.param("x", DType::F32, &[&b, &m, &k]);
        let y = self.param("y", DType::F32, &[&b, &k, &n]);
        let product = mul(read(x, &[0, 2, 3]), read(y, &[0, 3, 1]));
        let c = self.sum("c", &[&b, &n, &m], &[&k], product);
        let scaled = mul(read(c, &[0, 2, 1]), Expr::Scalar(ScalarId(0)));
        vec![self.elementwise("d", &[&b, &m, &n], scaled)]
    }

    fn mlp(&mut self) -> Vec<TensorId> {
        let (m, n, k, o) = (self.extent(), self.extent(), self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&m, &k]);
        let w = self.param("w", DType::F32, &[&k, &n]);
        let v = self.param("v", DType::F32, &[&n, &o]);
        let h = self.sum("h", &[&m, &n], &[&k], mul(read(x, &[0, 2]), read(w, &[2, 1])));
        let g = self.elementwise("g", &[&m, &n], relu(read(h, &[0, 1])));
        vec![self.sum("c", &[&m, &o], &[&n], mul(read(g, &[0, 2]), read(v, &[2, 1])))]
    }

    fn transposed(&mut self) -> Vec<TensorId> {
        let (c, l) = (Poly::from(1 + self.below(3)), self.extent());
        let (taps, stride) = (1 + self.below(4), 2 + self.below(2));
        let (padding, more) = (self.below(3), self.below(3));
        let x = self.param("x", DType::F32, &[&c, &l]);
        let w = self.param("w", DType::F32, &[&c, &taps.into()]);
        let n = l.clone() * stride + more.into();
        let mut facts = self.dag.facts();
        facts.bound_var(VarId(0), n.clone());
        facts.bound_var(VarId(2), taps.into());
        // Never negative.
        let place = var(0) - var(2) + (padding + stride * taps).into();
        let (quotient, remainder) = place.div_mod(&stride.into(), &facts);
        let index = quotient - taps.into();
        let zero = || Expr::f32(0.0);
        let element = inside(&index, &l).select(Expr::read(x, [var(1), index]), zero());
        let is_multiple =
            Expr::Index(remainder).compare(CompareOp::Eq, Expr::Index(Poly::default()));
        let body = is_multiple.select(mul(element, read(w, &[1, 2])), zero());
        vec![self.sum("c", &[&n], &[&c, &taps.into()], body)]
    }

    fn conv(&mut self) -> Vec<TensorId> {
        let (c, o) = (Poly::from(1 + self.below(3)), Poly::from(1 + self.below(5)));
        let (h, w) = (self.extent(), self.extent());
        let taps = Poly::from(1 + self.below(3));
        let (stride, dilation, padding) = (1 + self.below(2), 1 + self.below(2), self.below(3));
        let x = self.param("x", DType::F32, &[&c, &h, &w]);
        let k = self.param("k", DType::F32, &[&o, &c, &taps, &taps]);
        let b = self.param("b", DType::F32, &[&o]);
        let before = self.below(3) == 0;
        let x = if before {
            self.elementwise("p", &[&c, &h, &w], add(read(x, &[0, 1, 2]), Expr::f32(1.0)))
        } else {
            x
        };
        // Axes: o, y, z, c, r, s.
        let at = |a: u32, t: u32| var(a) * stride + var(t) * dilation - Poly::from(padding);
        let (y, z) = (at(1, 4), at(2, 5));
        let element = Expr::read(x, [var(3), y.clone(), z.clone()]);
        let condition = inside(&y, &h).binary(BinaryOp::And, inside(&z, &w));
        let padded = condition.select(element, Expr::f32(0.0));
        let body = mul(padded, read(k, &[0, 3, 4, 5]));
        let conv = self.sum("conv", &[&o, &h, &w], &[&c, &taps, &taps], body);
        let body = relu(add(read(conv, &[0, 1, 2]), read(b, &[0])));
        vec![self.elementwise("out", &[&o, &h, &w], body)]
    }

    fn pool(&mut self) -> Vec<TensorId> {
        let (c, h) = (self.extent(), self.extent());
        let (taps, stride) = (Poly::from(1 + self.below(3)), 1 + self.below(3));
        let wide = h.clone() * stride + taps.clone();
        let x = self.param("x", DType::F32, &[&c, &wide]);
        let y = self.param("y", DType::F32, &[&c]);
        let p = self.elementwise("p", &[&c, &wide], mul(read(x, &[0, 1]), read(y, &[0])));
        let at = var(1) * stride + var(2);
        let body = Expr::read(p, [var(0), at]);
        let pooled = self.compute("pooled", &[&c, &h], &[&taps], Reducer::Max, body);
        vec![self.elementwise("out", &[&h, &c], add(read(pooled, &[1, 0]), read(y, &[1])))]
    }

    fn softmax(&mut self) -> Vec<TensorId> {
        let (r, d) = (self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&r, &d]);
        let m = self.compute("m", &[&r], &[&d], Reducer::Max, read(x, &[0, 1]));
        let e = self.elementwise("e", &[&r, &d], sub(read(x, &[0, 1]), read(m, &[0])));
        let s = self.sum("s", &[&r], &[&d], read(e, &[0, 1]));
        let half = read(s, &[0]).binary(BinaryOp::Div, Expr::f32(2.0));
        let body = add(mul(read(e, &[0, 1]), Expr::f32(2.0)), half);
        vec![self.elementwise("out", &[&r, &d], body)]
    }

    fn layernorm(&mut self) -> Vec<TensorId> {
        let (b, r, d) = (self.extent(), self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&b, &r, &d]);
        let g = self.param("g", DType::F32, &[&d]);
        let s = self.sum("s", &[&b, &r], &[&d], read(x, &[0, 1, 2]));
        let centered = sub(read(x, &[0, 1, 2]), read(s, &[0, 1]));
        let c = self.elementwise("c", &[&b, &r, &d], centered);
        let squares = mul(read(c, &[0, 1, 2]), read(c, &[0, 1, 2]));
        let v = self.sum("v", &[&b, &r], &[&d], squares);
        let scaled = mul(read(c, &[0, 1, 2]), read(g, &[2]));
        let quarter = read(v, &[0, 1]).binary(BinaryOp::Div, Expr::f32(4.0));
        vec![self.elementwise("out", &[&b, &r, &d], add(scaled, quarter))]
    }

    fn chain(&mut self) -> Vec<TensorId> {
        let (m, n) = (self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&m, &n]);
        let y = self.param("y", DType::F32, &[&n]);
        let t = self.elementwise("t", &[&n, &m], add(read(x, &[1, 0]), read(y, &[0])));
        let last = n.clone() - Poly::from(1) - var(0);
        let reversed = Expr::read(t, [last, var(1)]);
        let index = Expr::Cast(DType::F32, Box::new(Expr::Index(var(0) * 2 + var(1))));
        let u = self.elementwise("u", &[&n, &m], add(reversed, index));
        // The tensor seen as one row, and back.
        let flat = m.clone() * n.clone();
        let facts = self.dag.facts();
        let (row, column) = var(0).div_mod(&m, &facts);
        let f = self.elementwise("f", &[&flat], Expr::read(u, [row, column]));
        let z = self.elementwise("z", &[&flat], add(read(f, &[0]), Expr::f32(1.0)));
        let both = self.below(2) == 0;
        if both { vec![z, u] } else { vec![z] }
    }

    fn gather(&mut self) -> Vec<TensorId> {
        let (m, rows, n) = (self.extent(), Poly::from(1 + self.below(3)), self.extent());
        let ids = self.param("ids", DType::I32, &[&m]);
        let table = self.param("table", DType::F32, &[&rows, &n]);
        let doubled = add(read(table, &[0, 1]), read(table, &[0, 1]));
        let t = self.elementwise("t", &[&rows, &n], doubled);
        let id = || read(ids, &[0]);
        let zero = Expr::Const(Literal::Int(0), DType::I32);
        let count = Expr::Cast(DType::I32, Box::new(Expr::Index(rows.clone())));
        let condition = id()
            .compare(CompareOp::Ge, zero)
            .binary(BinaryOp::And, id().compare(CompareOp::Lt, count));
        let index = vec![Subscript::Value(Box::new(id())), Subscript::Affine(var(1))];
        let element = Expr::Read { tensor: t, index };
        let body = condition.select(element, Expr::f32(-1.0));
        let g = self.elementwise("g", &[&m, &n], body);
        let s = self.sum("s", &[&m], &[&n], read(g, &[0, 1]));
        vec![self.elementwise("out", &[&m, &n], add(read(g, &[0, 1]), read(s, &[0])))]
    }

    fn argmax(&mut self) -> Vec<TensorId> {
        let (r, d) = (self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&r, &d]);
        let m = self.compute("m", &[&r], &[&d], Reducer::Max, read(x, &[0, 1]));
        let index = Expr::Cast(DType::I32, Box::new(Expr::Index(var(1))));
        let none = Expr::Const(Literal::Int(i64::from(i32::MAX)), DType::I32);
        let equal = read(x, &[0, 1]).compare(CompareOp::Eq, read(m, &[0]));
        let body = equal.select(index, none);
        vec![self.compute("a", &[&r], &[&d], Reducer::Min, body)]
    }

    fn prefix(&mut self) -> Vec<TensorId> {
        let (r, n, c) = (self.extent(), self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&r, &n, &c]);
        // The axis of the prefixes is `n`, whose elements are read along `k`; and `c` is reduced or
        // lies beside it.
        let both = self.below(3) == 0;
        let along = if both { var(2) } else { var(3) };
        let other = if both { var(3) } else { var(2) };
        let (op, lag) = match self.below(4) {
            0 => (CompareOp::Le, 0),
            1 => (CompareOp::Lt, 0),
            2 => (CompareOp::Ge, 0),
            _ => (CompareOp::Gt, 1),
        };
        let bound = Expr::Index(var(1) + Poly::constant(lag));
        let counts = Expr::Index(along.clone()).compare(op, bound);
        let element = Expr::read(x, [var(0), along, other]);
        let (reducer, identity) = match self.below(2) {
            0 => (Reducer::Sum, 0.0),
            _ => (Reducer::Max, f64::NEG_INFINITY),
        };
        let body = counts.select(element, Expr::Const(Literal::Float(identity), DType::F32));
        let p = if both {
            self.compute("p", &[&r, &n], &[&n, &c], reducer, body)
        } else {
            self.compute("p", &[&r, &n, &c], &[&n], reducer, body)
        };
        vec![p]
    }

    fn recurrence(&mut self) -> Vec<TensorId> {
        let (r, n, c) = (self.extent(), self.extent(), self.extent());
        let x = self.param("x", DType::F32, &[&r, &n, &c]);
        let a = self.param("a", DType::F32, &[&r, &c]);
        let input = mul(read(x, &[0, 1, 2]), Expr::f32(2.0));
        let input = self.elementwise("g", &[&r, &n, &c], input);
        // The first states are numbers, or elements of a parameter.
        let first = if self.below(2) == 0 { Expr::f32(0.5) } else { read(a, &[0, 2]) };
        let along = self.below(3) as usize;
        let states = self.computed("h", DType::F32, &[&r, &n, &c]);
        let step = |axis: usize| var(axis as u32) - Poly::constant(i64::from(axis == along));
        let is_later =
            Expr::Index(var(along as u32)).compare(CompareOp::Ge, Expr::Index(Poly::constant(1)));
        let before = is_later.select(Expr::read(states, (0..3).map(step)), first);
        let input = read(input, &[0, 1, 2]);
        // States stay small, and exact.
        let next = match self.below(3) {
            0 => add(before, input),
            1 => sub(input, before),
            _ => {
                let most = before.clone().binary(BinaryOp::Max, read(a, &[0, 2]));
                add(most, input.binary(BinaryOp::Min, before))
            }
        };
        self.define(states, (&[&r, &n, &c], &[]), Reducer::Sum, next);
        match self.below(3) {
            0 => vec![states],
            1 => {
                let term = mul(read(states, &[0, 1, 2]), read(x, &[0, 1, 2]));
                vec![self.sum("y", &[&r, &n], &[&c], term)]
            }
            _ => {
                let gated = mul(read(states, &[0, 1, 2]), read(a, &[0, 2]));
                vec![states, self.elementwise("y", &[&r, &n, &c], gated)]
            }
        }
    }

    fn in_place(&mut self) -> Vec<TensorId> {
        let (r, d, k) = (self.extent(), self.extent(), self.extent());
        let kind = self.below(5);
        let x = self.param("x", DType::F32, &[&r, &k]);
        let w = self.param("w", DType::F32, &[&k, &d]);
        let y = self.tensor("y", DType::F32, &[&r, &d], TensorKind::InOut);
        let old = read(y, &[0, 1]);
        let element = match kind {
            0 => {
                let product = mul(read(x, &[0, 2]), read(w, &[2, 1]));
                add(old, read(self.sum("h", &[&r, &d], &[&k], product), &[0, 1]))
            }
            1 => sub(old, read(self.sum("s", &[&r], &[&d], read(y, &[0, 1])), &[0])),
            2 => sub(old, read(self.sum("s", &[&d], &[&r], read(y, &[1, 0])), &[1])),
            3 => relu(sub(Expr::f32(1.0), old)),
            _ => {
                let copy = self.elementwise("copy", &[&r, &d], old);
                let last = d.clone() - Poly::from(1) - var(1);
                add(read(copy, &[0, 1]), Expr::read(copy, [var(0), last]))
            }
        };
        let new = self.elementwise("new", &[&r, &d], element);
        if self.below(3) > 0 {
            return vec![new];
        }
        vec![new, self.sum("t", &[&r], &[&d], read(new, &[0, 1]))]
    }
}

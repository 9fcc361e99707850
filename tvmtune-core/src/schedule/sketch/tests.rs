//! Which sketches there are, and that every point of them lowers.

use super::*;
use crate::dag::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Dim, Expr, Reducer, Tensor,
    TensorId, TensorKind, UnaryOp,
};
use crate::kernel::Isa;
use crate::nest;
use crate::poly::{DimId, Interval, Poly, VarId};
use crate::schedule::{Schedule, default};

/// A dag in the making, for tests that come before there is a language to write programs in.
struct Program(Dag);

impl Program {
    fn new(name: &str, dims: &[(i64, i64)]) -> Self {
        let dim =
            |(lo, hi): &(i64, i64)| Dim { name: "m".into(), range: Interval { lo: *lo, hi: *hi } };
        Self(Dag {
            name: name.into(),
            dims: dims.iter().map(dim).collect(),
            scalars: Vec::new(),
            tensors: Vec::new(),
            computes: Vec::new(),
            outputs: Vec::new(),
        })
    }

    fn tensor(&mut self, name: &str, shape: Vec<Poly>, kind: TensorKind) -> TensorId {
        self.0.tensors.push(Tensor { name: name.into(), dtype: DType::F32, shape, kind });
        TensorId(self.0.tensors.len() as u32 - 1)
    }

    fn input(&mut self, name: &str, shape: &[Poly]) -> TensorId {
        self.tensor(name, shape.to_vec(), TensorKind::Input)
    }

    fn weight(&mut self, name: &str, shape: &[Poly]) -> TensorId {
        self.tensor(name, shape.to_vec(), TensorKind::Weight)
    }

    fn compute(
        &mut self,
        name: &str,
        axes: &[Poly],
        n_spatial: usize,
        reducer: Option<Reducer>,
        body: Expr,
    ) -> TensorId {
        let id = ComputeId(self.0.computes.len() as u32);
        let shape = axes[..n_spatial].to_vec();
        let tensor = self.tensor(name, shape, TensorKind::Computed(id));
        let axis = |(n, extent): (usize, &Poly)| ComputeAxis {
            name: ["i", "j", "k", "l", "p", "q", "r"][n].into(),
            extent: extent.clone(),
        };
        let axes = axes.iter().enumerate().map(axis).collect();
        self.0.computes.push(Compute { tensor, axes, n_spatial, reducer, body });
        self.0.outputs = vec![tensor];
        tensor
    }
}

fn v(n: u32) -> Poly {
    Poly::var(VarId(n))
}

fn c(n: i64) -> Poly {
    Poly::constant(n)
}

fn times(a: Expr, b: Expr) -> Expr {
    a.binary(BinaryOp::Mul, b)
}

/// `y[i, j] = max(sum(k, x[i, k] * w[j, k]) + b[j], 0)`, for `m` rows.
fn linear(m: Poly, n: i64, k: i64, dims: &[(i64, i64)]) -> Dag {
    let mut it = Program::new("linear", dims);
    let x = it.input("x", &[m.clone(), c(k)]);
    let w = it.weight("w", &[c(n), c(k)]);
    let b = it.weight("b", &[c(n)]);
    let product = times(Expr::read(x, [v(0), v(2)]), Expr::read(w, [v(1), v(2)]));
    let axes = [m.clone(), c(n), c(k)];
    let h = it.compute("h", &axes, 2, Some(Reducer::Sum), product);
    let sum = Expr::read(h, [v(0), v(1)]).binary(BinaryOp::Add, Expr::read(b, [v(1)]));
    it.compute("y", &axes[..2], 2, None, sum.binary(BinaryOp::Max, Expr::f32(0.0)));
    it.0
}

/// `c[i, j] = sum(k, a[i, k] * b[k, j])`, or with `b[j, k]`.
fn matmul(m: i64, n: i64, k: i64, transposed: bool) -> Dag {
    let mut it = Program::new("matmul", &[]);
    let a = it.input("a", &[c(m), c(k)]);
    let b = it.input("b", &if transposed { [c(n), c(k)] } else { [c(k), c(n)] });
    let at = if transposed { [v(1), v(2)] } else { [v(2), v(1)] };
    let product = times(Expr::read(a, [v(0), v(2)]), Expr::read(b, at));
    it.compute("c", &[c(m), c(n), c(k)], 2, Some(Reducer::Sum), product);
    it.0
}

/// `y[n, o, p, q]`, a padded convolution with weights.
fn conv(channels: i64, size: i64, out: i64, window: i64) -> Dag {
    let mut it = Program::new("conv", &[]);
    let x = it.input("x", &[c(1), c(channels), c(size), c(size)]);
    let w = it.weight("w", &[c(out), c(channels), c(window), c(window)]);
    let pad = window / 2;
    let (row, column) = (v(2) + v(5) - c(pad), v(3) + v(6) - c(pad));
    let inside = |at: &Poly| {
        let index = || Expr::Index(at.clone());
        let zero = Expr::Index(c(0)).compare(CompareOp::Le, index());
        zero.binary(BinaryOp::And, index().compare(CompareOp::Lt, Expr::Index(c(size))))
    };
    let padded = Expr::Select {
        condition: Box::new(inside(&row).binary(BinaryOp::And, inside(&column))),
        then: Box::new(Expr::read(x, [v(0), v(4), row, column])),
        otherwise: Box::new(Expr::f32(0.0)),
    };
    let body = times(padded, Expr::read(w, [v(1), v(4), v(5), v(6)]));
    let axes = [c(1), c(out), c(size), c(size), c(channels), c(window), c(window)];
    it.compute("y", &axes, 4, Some(Reducer::Sum), body);
    it.0
}

fn softmax(rows: Poly, d: i64, dims: &[(i64, i64)]) -> Dag {
    let mut it = Program::new("softmax", dims);
    let x = it.input("x", &[rows.clone(), c(d)]);
    let axes = [rows, c(d)];
    let read = |it| Expr::read(it, [v(0), v(1)]);
    let m = it.compute("m", &axes, 1, Some(Reducer::Max), read(x));
    let shifted = read(x).binary(BinaryOp::Sub, Expr::read(m, [v(0)]));
    let e = it.compute("e", &axes, 2, None, shifted.unary(UnaryOp::Exp));
    let s = it.compute("s", &axes, 1, Some(Reducer::Sum), read(e));
    it.compute("y", &axes, 2, None, read(e).binary(BinaryOp::Div, Expr::read(s, [v(0)])));
    it.0
}

fn add(shape: [i64; 3]) -> Dag {
    let mut it = Program::new("add", &[]);
    let shape = shape.map(c);
    let (x, y) = (it.input("x", &shape), it.input("y", &shape));
    let read = |it| Expr::read(it, [v(0), v(1), v(2)]);
    it.compute("z", &shape, 3, None, read(x).binary(BinaryOp::Add, read(y)));
    it.0
}

fn column_sum(rows: i64, columns: i64) -> Dag {
    let mut it = Program::new("column_sum", &[]);
    let x = it.input("x", &[c(rows), c(columns)]);
    it.compute("y", &[c(columns), c(rows)], 1, Some(Reducer::Sum), Expr::read(x, [v(1), v(0)]));
    it.0
}

fn pool(channels: i64, size: i64) -> Dag {
    let mut it = Program::new("pool", &[]);
    let x = it.input("x", &[c(channels), c(size), c(size)]);
    let axes = [c(channels), c(size), c(size)];
    let s = it.compute("s", &axes, 1, Some(Reducer::Sum), Expr::read(x, [v(0), v(1), v(2)]));
    it.compute("y", &axes[..1], 1, None, times(Expr::read(s, [v(0)]), Expr::f32(0.25)));
    it.0
}

fn transpose(m: i64, n: i64) -> Dag {
    let mut it = Program::new("transpose", &[]);
    let x = it.input("x", &[c(n), c(m)]);
    it.compute("y", &[c(m), c(n)], 2, None, Expr::read(x, [v(1), v(0)]));
    it.0
}

fn names(dag: &Dag) -> Vec<String> {
    sketches(dag, &Target::generic(Isa::Avx512)).into_iter().map(|it| it.name).collect()
}

#[test]
fn sketches_follow_from_accesses() {
    assert_eq!(names(&linear(c(128), 768, 768, &[])), ["y: tile j"]);
    let all = ["c: tile j panel", "c: tile j copy", "c: tile j"];
    assert_eq!(names(&matmul(512, 512, 512, false)), all);
    assert_eq!(names(&matmul(512, 512, 512, true))[0], "c: tile j panel");
    assert_eq!(names(&softmax(c(128), 768, &[])), ["y: rows"]);
    assert_eq!(names(&add([8, 14, 14])), ["z: flat"]);
    assert_eq!(names(&column_sum(512, 512)), ["y: tile i"]);
    assert_eq!(names(&pool(64, 7)), ["y: rows"]);
    assert_eq!(names(&transpose(64, 48)), ["y: flat"]);
    assert_eq!(names(&conv(64, 56, 64, 3)), ["y: tile l", "y: tile j"]);
    assert_eq!(names(&conv(512, 7, 512, 3)), ["y: tile j", "y: tile l"]);
}

#[test]
fn the_default_of_a_product_of_matrices() {
    let dag = linear(Poly::dim(DimId(0)), 768, 384, &[(1, 512)]);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @"");
}

#[test]
fn the_default_of_a_softmax() {
    let dag = softmax(c(4096), 1000, &[]);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @"");
}

#[test]
fn the_default_of_a_convolution() {
    let dag = conv(64, 56, 64, 3);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @"");
}

//! Small programs of every family, and the reference oracle that checks schedules of them.

use crate::fits::cpu::fits;
use crate::sketch::Sketch;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Dag, Dim, Expr, Numerics, Reducer,
    Tensor, TensorId, TensorKind, UnaryOp,
};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::{DimId, Interval, Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Schedule, nest};

/// A dag in the making, for tests that come before there is a language to write programs in.
struct Program(Dag);

impl Program {
    fn new(name: &str, dims: &[(i64, i64)]) -> Self {
        let dim = |(lo, hi): &(i64, i64)| Dim {
            name: "m".into(),
            range: Interval { lo: *lo, hi: *hi },
            lower_end: None,
        };
        Self(Dag {
            name: name.into(),
            dims: dims.iter().map(dim).collect(),
            scalars: Vec::new(),
            tensors: Vec::new(),
            computes: Vec::new(),
            outputs: Vec::new(),
            numerics: Numerics::Free,
            written_order: None,
            orders: Vec::new(),
            kernel_template: None,
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

pub(super) fn c(n: i64) -> Poly {
    Poly::constant(n)
}

fn times(a: Expr, b: Expr) -> Expr {
    a.binary(BinaryOp::Mul, b)
}

/// `y[i, j] = max(sum(k, x[i, k] * w[j, k]) + b[j], 0)`, for `m` rows.
pub(super) fn linear(m: Poly, n: i64, k: i64, dims: &[(i64, i64)]) -> Dag {
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

/// The layout of the second operand of a product.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Rhs {
    RowMajor,
    Transposed,
}

/// `c[i, j] = sum(k, a[i, k] * b[k, j])`, or with `b[j, k]`.
pub(super) fn matmul(m: i64, n: i64, k: i64, rhs: Rhs) -> Dag {
    let mut it = Program::new("matmul", &[]);
    let a = it.input("a", &[c(m), c(k)]);
    let b = it.input("b", &if rhs == Rhs::Transposed { [c(n), c(k)] } else { [c(k), c(n)] });
    let at = if rhs == Rhs::Transposed { [v(1), v(2)] } else { [v(2), v(1)] };
    let product = times(Expr::read(a, [v(0), v(2)]), Expr::read(b, at));
    it.compute("c", &[c(m), c(n), c(k)], 2, Some(Reducer::Sum), product);
    it.0
}

/// `y[n, o, p, q]`, a padded convolution with weights.
pub(super) fn conv(channels: i64, size: i64, out: i64, window: i64) -> Dag {
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

pub(super) fn softmax(rows: Poly, d: i64, dims: &[(i64, i64)]) -> Dag {
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

pub(super) fn add(shape: [i64; 3]) -> Dag {
    let mut it = Program::new("add", &[]);
    let shape = shape.map(c);
    let (x, y) = (it.input("x", &shape), it.input("y", &shape));
    let read = |it| Expr::read(it, [v(0), v(1), v(2)]);
    it.compute("z", &shape, 3, None, read(x).binary(BinaryOp::Add, read(y)));
    it.0
}

pub(super) fn column_sum(rows: i64, columns: i64) -> Dag {
    let mut it = Program::new("column_sum", &[]);
    let x = it.input("x", &[c(rows), c(columns)]);
    it.compute("y", &[c(columns), c(rows)], 1, Some(Reducer::Sum), Expr::read(x, [v(1), v(0)]));
    it.0
}

pub(super) fn pool(channels: i64, size: i64) -> Dag {
    let mut it = Program::new("pool", &[]);
    let x = it.input("x", &[c(channels), c(size), c(size)]);
    let axes = [c(channels), c(size), c(size)];
    let s = it.compute("s", &axes, 1, Some(Reducer::Sum), Expr::read(x, [v(0), v(1), v(2)]));
    it.compute("y", &axes[..1], 1, None, times(Expr::read(s, [v(0)]), Expr::f32(0.25)));
    it.0
}

pub(super) fn transpose(m: i64, n: i64) -> Dag {
    let mut it = Program::new("transpose", &[]);
    let x = it.input("x", &[c(n), c(m)]);
    it.compute("y", &[c(m), c(n)], 2, None, Expr::read(x, [v(1), v(0)]));
    it.0
}

/// Small programs of every family, with extents that tiles do not divide.
pub(super) fn programs() -> Vec<(Dag, Vec<i64>)> {
    let m = || Poly::dim(DimId(0));
    vec![
        (linear(c(17), 35, 9, &[]), vec![]),
        (linear(m(), 48, 20, &[(1, 40)]), vec![23]),
        (linear(m(), 48, 20, &[(1, 40)]), vec![1]),
        (matmul(33, 40, 21, Rhs::RowMajor), vec![]),
        (matmul(20, 50, 18, Rhs::Transposed), vec![]),
        (conv(3, 9, 20, 3), vec![]),
        (conv(5, 6, 7, 1), vec![]),
        (conv(4, 10, 32, 5), vec![]),
        (softmax(c(5), 75, &[]), vec![]),
        (softmax(m(), 33, &[(1, 9)]), vec![4]),
        (add([3, 7, 7]), vec![]),
        (column_sum(19, 37), vec![]),
        (pool(5, 7), vec![]),
        (transpose(19, 33), vec![]),
    ]
}

/// A seeded source of numbers below others.
pub(super) fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed;
    move |n| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    }
}

pub(super) fn any_point(sketch: &Sketch, random: &mut impl FnMut(usize) -> usize) -> Vec<u16> {
    sketch.decisions.iter().map(|it| random(it.options.len()) as u16).collect()
}

/// A reference oracle: the results of a program on some arguments.
pub(super) struct Oracle {
    pub(super) dag: Dag,
    dims: Vec<i64>,
    params: Vec<Array>,
    expected: Vec<Array>,
}

impl Oracle {
    pub(super) fn new(dag: Dag, dims: Vec<i64>) -> Self {
        let extent = |it: &Poly| it.eval_dims(&dims) as u64;
        let array = |it: TensorId| {
            let tensor = dag.tensor(it);
            let shape: Vec<u64> = tensor.shape.iter().map(extent).collect();
            Array::whole_numbers(tensor.dtype, &shape, u64::from(it.0))
        };
        let params: Vec<Array> = dag.params().map(array).collect();
        Self::of(dag, dims, params)
    }

    /// The results of a program on these arguments.
    fn of(dag: Dag, dims: Vec<i64>, params: Vec<Array>) -> Self {
        let expected = tvmtune_ir::interp::run(&dag, &dims, &params, &[]);
        Self { dag, dims, params, expected }
    }

    /// The same on other arguments: `f` changes the parameter of that name.
    pub(super) fn with(self, name: &str, f: impl Fn(&mut Array)) -> Self {
        let Self { dag, dims, mut params, .. } = self;
        let position = dag.params().position(|it| dag.tensor(it).name == name);
        f(&mut params[position.expect("the program has such a parameter")]);
        Self::of(dag, dims, params)
    }

    /// The schedule computes the same, as loops and as vector code, or does not fit.
    pub(super) fn check(&self, schedule: &Schedule, isa: Isa) -> bool {
        let nest = nest::lower(schedule);
        let trace = || schedule.trace.iter().map(|it| format!("{it}\n")).collect::<String>();
        let shown = || format!("{:?} {:?}\n{}{nest}", self.dag.name, self.dims, trace());
        let results = tvmtune_schedule::interp::run(&nest, &self.dims, &self.params, &[])
            .unwrap_or_else(|fault| panic!("{fault}\n{}", shown()));
        self.compare(&results, &shown);
        if fits(&nest, &tvmtune_ir::target::CpuTarget::generic(isa)).is_err() {
            return false;
        }
        let kernel = vector::lower(&nest, isa).unwrap_or_else(|it| panic!("{it}\n{}", shown()));
        let shown = || format!("{}\n{kernel}", shown());
        let like = |it: &Array| Array::zeros(it.dtype, &it.shape);
        let zeros: Vec<Array> = self.expected.iter().map(like).collect();
        let results = tvmtune_cpu::interp::run(&kernel, &self.dims, &self.params, &[], &zeros)
            .unwrap_or_else(|fault| panic!("{fault}\n{}", shown()));
        self.compare(&results, &shown);
        true
    }

    fn compare(&self, results: &[Array], shown: &dyn Fn() -> String) {
        for (result, expected) in results.iter().zip(&self.expected) {
            // Schedules begin in a normal form, in which results may have other axes of the same elements.
            let result = Array::from_bytes(result.dtype, &expected.shape, &result.bytes());
            assert_eq!(result.max_error(expected, 1e-5, 1e-6), None, "{}", shown());
        }
    }
}

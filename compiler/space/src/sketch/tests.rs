//! Which sketches there are, and that every point of them lowers.

use super::*;
use crate::default;
use crate::fits::cpu::fits;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Dim, Expr, Reducer, Tensor,
    TensorId, TensorKind, UnaryOp,
};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::{DimId, Interval, Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Schedule, nest};

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
    assert_eq!(names(&linear(c(128), 768, 768, &[]))[0], "y: tile j");
    let all = names(&matmul(512, 512, 512, false));
    assert_eq!(all[..3], ["c: tile j panel", "c: tile j", "c: tile j copy"]);
    assert_eq!(names(&matmul(1024, 1024, 1024, false))[0], "c: tile j copy");
    assert_eq!(names(&matmul(512, 512, 512, true))[0], "c: tile j panel");
    assert_eq!(names(&softmax(c(128), 768, &[])), ["y: rows"]);
    assert_eq!(names(&add([8, 14, 14])), ["z: flat"]);
    assert_eq!(names(&column_sum(512, 512)), ["y: tile i"]);
    assert_eq!(names(&pool(64, 7)), ["y: rows"]);
    assert_eq!(names(&transpose(64, 48)), ["y: flat"]);
    assert_eq!(names(&conv(64, 56, 64, 3))[..2], ["y: tile j", "y: tile l"]);
    assert_eq!(names(&conv(512, 7, 512, 3))[0], "y: tile j");
}

/// Small programs of every family, with awkward extents.
pub(super) fn programs() -> Vec<(Dag, Vec<i64>)> {
    let m = || Poly::dim(DimId(0));
    vec![
        (linear(c(17), 35, 9, &[]), vec![]),
        (linear(m(), 48, 20, &[(1, 40)]), vec![23]),
        (linear(m(), 48, 20, &[(1, 40)]), vec![1]),
        (matmul(33, 40, 21, false), vec![]),
        (matmul(20, 50, 18, true), vec![]),
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

/// What a program computes on some arguments.
pub(super) struct Judge {
    pub(super) dag: Dag,
    dims: Vec<i64>,
    params: Vec<Array>,
    expected: Vec<Array>,
}

impl Judge {
    pub(super) fn new(dag: Dag, dims: Vec<i64>) -> Self {
        let extent = |it: &Poly| it.eval_dims(&dims) as u64;
        let array = |it: TensorId| {
            let shape: Vec<u64> = dag.tensor(it).shape.iter().map(extent).collect();
            Array::whole_numbers(DType::F32, &shape, u64::from(it.0))
        };
        let params: Vec<Array> = dag.params().map(array).collect();
        let expected = tvmtune_ir::interp::run(&dag, &dims, &params, &[]);
        Self { dag, dims, params, expected }
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
            assert_eq!(result.max_error(expected, 1e-5, 1e-6), None, "{}", shown());
        }
    }
}

#[test]
fn defaults_compute_what_the_program_says_and_fit() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        for (dag, dims) in programs() {
            let schedule = default::schedule(&dag, &Target::generic(isa));
            assert!(Judge::new(dag, dims).check(&schedule, isa));
        }
    }
}

#[test]
fn every_point_computes_what_the_program_says() {
    let mut state = 1_u64;
    let mut random = |n: usize| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % n
    };
    let (mut n_points, mut n_fit) = (0, 0);
    for (dag, dims) in programs() {
        let judge = Judge::new(dag, dims);
        for isa in [Isa::Avx512, Isa::Avx2] {
            for sketch in sketches(&judge.dag, &Target::generic(isa)) {
                for _ in 0..10 {
                    let options = sketch.decisions.iter().map(|it| it.options.len());
                    let choices: Vec<u16> = options.map(|it| random(it) as u16).collect();
                    let trace = sketch.instructions(&choices);
                    let schedule = Schedule::replay(&judge.dag, &trace)
                        .unwrap_or_else(|error| panic!("{}: {error:?}", sketch.name));
                    n_points += 1;
                    n_fit += usize::from(judge.check(&schedule, isa));
                }
            }
        }
    }
    assert!(n_fit * 2 > n_points, "only {n_fit} of {n_points} points fit");
}

#[test]
fn the_default_of_a_product_of_matrices() {
    let dag = linear(Poly::dim(DimId(0)), 768, 384, &[(1, 512)]);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    packed w[16, 384, 48]: f32
    local h[8, 48]: f32
    parallel i_0 in 0..(((m + 255)/(256)))
      parallel j_0 in 0..16
        for i_1 in 0..32
          unrolled i in 0..8
            vectorized j in 0..48
              if 256*i_0 + 8*i_1 + i < m
                h[i, j] = 0
          for k_0 in 0..96
            unrolled k_1 in 0..4
              unrolled i in 0..8
                vectorized j in 0..48
                  if 256*i_0 + 8*i_1 + i < m
                    h[i, j] += x[256*i_0 + 8*i_1 + i, 4*k_0 + k_1] * w[j_0, 4*k_0 + k_1, j]
          unrolled i_2 in 0..8
            vectorized j_2 in 0..48
              if 256*i_0 + 8*i_1 + i_2 < m
                y[256*i_0 + 8*i_1 + i_2, 48*j_0 + j_2] = max(h[i_2, j_2] + b[48*j_0 + j_2], 0)
    ");
}

#[test]
fn the_default_of_a_softmax() {
    let dag = softmax(c(4096), 1000, &[]);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    local m[1]: f32
    local e[1, 1000]: f32
    local s[1]: f32
    local y_same[1]: f32
    local m_part[1, 64]: f32
    local s_part[1, 64]: f32
    parallel i_0 in 0..512
      pipelined i_1 in 0..8
        vectorized j_1 in 0..64
          m_part[0, j_1] = -inf
        for j_0 in 0..16
          vectorized j_1 in 0..64
            m_part[0, j_1] max= select((64*j_0 + j_1) < 1000, x[8*i_0 + i_1, 64*j_0 + j_1], -inf)
        m[0] = -inf
        vectorized j_1 in 0..64
          m[0] max= m_part[0, j_1]
        for j_0 in 0..16
          vectorized j_1 in 0..64
            if 64*j_0 + j_1 < 1000
              e[0, 64*j_0 + j_1] = exp(x[8*i_0 + i_1, 64*j_0 + j_1] - m[0])
        vectorized j_1 in 0..64
          s_part[0, j_1] = 0
        for j_0 in 0..16
          vectorized j_1 in 0..64
            s_part[0, j_1] += select((64*j_0 + j_1) < 1000, e[0, 64*j_0 + j_1], 0)
        s[0] = 0
        vectorized j_1 in 0..64
          s[0] += s_part[0, j_1]
        y_same[0] = 1 / s[0]
        for j_0 in 0..16
          vectorized j_1 in 0..64
            if 64*j_0 + j_1 < 1000
              y[8*i_0 + i_1, 64*j_0 + j_1] = e[0, 64*j_0 + j_1] * y_same[0]
    ");
}

#[test]
fn the_default_of_a_convolution() {
    let dag = conv(64, 56, 64, 3);
    let schedule = default::schedule(&dag, &Target::generic(Isa::Avx512));
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    packed w[2, 64, 3, 3, 32]: f32
    local y_acc[1, 1, 14, 32]: f32
    workspace x_padded[1, 64, 58, 58]: f32
    parallel x0 in 0..1
      parallel x1 in 0..64
        for x2 in 0..58
          vectorized x3_1 in 0..58
            x_padded[0, x1, x2, x3_1] = select((x2 - 1) >= 0, select((x2 - 1) < 56, select((x3_1 - 1) >= 0, select((x3_1 - 1) < 56, x[0, x1, x2 - 1, x3_1 - 1], 0), 0), 0), 0)
    parallel i in 0..1
      parallel k_0 in 0..28
        parallel l_0 in 0..1
          parallel j_0 in 0..2
            for k_1 in 0..2
              for l_1 in 0..4
                unrolled l in 0..14
                  vectorized j in 0..32
                    y_acc[0, 0, l, j] = 0
                for p in 0..64
                  for q in 0..3
                    unrolled r_1 in 0..3
                      unrolled l in 0..14
                        vectorized j in 0..32
                          y_acc[0, 0, l, j] += x_padded[0, p, 2*k_0 + k_1 + q, 14*l_1 + r_1 + l] * w[j_0, p, q, r_1, j]
                unrolled l_2 in 0..14
                  vectorized j_2 in 0..32
                    y[0, 32*j_0 + j_2, 2*k_0 + k_1, 14*l_1 + l_2] = y_acc[0, 0, l_2, j_2]
    ");
}

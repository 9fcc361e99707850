//! The text of nests: one primitive or rule each.

use super::lower;
use crate::dag::{
    BinaryOp, Compute, ComputeAxis, ComputeId, DType, Dag, Dim, Expr, Reducer, Tensor, TensorId,
    TensorKind,
};
use crate::poly::{DimId, Interval, Poly, VarId};
use crate::schedule::{AxisId, LoopKind, Schedule, StageId};

const C: StageId = StageId(0);
const A: [AxisId; 12] = {
    let mut ids = [AxisId(0); 12];
    let mut n = 0;
    while n < 12 {
        ids[n] = AxisId(n as u32);
        n += 1;
    }
    ids
};

fn var(n: u32) -> Poly {
    Poly::var(VarId(n))
}

fn tensor(name: &str, shape: &[Poly], kind: TensorKind) -> Tensor {
    Tensor { name: name.into(), dtype: DType::F32, shape: shape.to_vec(), kind }
}

fn axis(name: &str, extent: &Poly) -> ComputeAxis {
    ComputeAxis { name: name.into(), extent: extent.clone() }
}

/// `c = a b`, then `d = c + a[.., 0]` if `epilogue`.
fn matmul(m: Poly, n: i64, k: i64, epilogue: bool) -> Schedule {
    let (n, k) = (Poly::from(n), Poly::from(k));
    let product = Expr::read(TensorId(0), [var(0), var(2)])
        .binary(BinaryOp::Mul, Expr::read(TensorId(1), [var(2), var(1)]));
    let mut dag = Dag {
        name: "matmul".into(),
        dims: vec![Dim { name: "m".into(), range: Interval { lo: 1, hi: 100 } }],
        scalars: vec![],
        tensors: vec![
            tensor("a", &[m.clone(), k.clone()], TensorKind::Input),
            tensor("b", &[k.clone(), n.clone()], TensorKind::Weight),
            tensor("c", &[m.clone(), n.clone()], TensorKind::Computed(ComputeId(0))),
        ],
        computes: vec![Compute {
            tensor: TensorId(2),
            axes: vec![axis("i", &m), axis("j", &n), axis("k", &k)],
            n_spatial: 2,
            reducer: Some(Reducer::Sum),
            body: product,
        }],
        outputs: vec![TensorId(2)],
    };
    if epilogue {
        dag.tensors.push(tensor("d", &[m.clone(), n.clone()], TensorKind::Computed(ComputeId(1))));
        dag.computes.push(Compute {
            tensor: TensorId(3),
            axes: vec![axis("i", &m), axis("j", &n)],
            n_spatial: 2,
            reducer: None,
            body: Expr::read(TensorId(2), [var(0), var(1)])
                .binary(BinaryOp::Add, Expr::read(TensorId(0), [var(0), Poly::default()])),
        });
        dag.outputs = vec![TensorId(3)];
    }
    Schedule::new(&dag)
}

#[test]
fn split_guards_a_tail_and_only_a_tail() {
    let mut schedule = matmul(6.into(), 8, 4, false);
    schedule.split(C, A[1], &[4]).unwrap();
    schedule.split(C, A[0], &[4]).unwrap();
    insta::assert_snapshot!(lower(&schedule), @r"
    for i_0 in 0..2
      for i_1 in 0..4
        for j_0 in 0..2
          for j_1 in 0..4
            if 4*i_0 + i_1 < 6
              c[4*i_0 + i_1, 4*j_0 + j_1] = 0
            for k in 0..4
              if 4*i_0 + i_1 < 6
                c[4*i_0 + i_1, 4*j_0 + j_1] += a[4*i_0 + i_1, k] * b[k, 4*j_0 + j_1]
    ");
}

#[test]
fn accumulators_are_computed_in_the_tile_that_writes_them() {
    let mut schedule = matmul(Poly::dim(DimId(0)), 32, 24, true);
    let d = StageId(1);
    let i = schedule.split(d, A[0], &[4]).unwrap();
    let j = schedule.split(d, A[1], &[2, 8]).unwrap();
    schedule.reorder(d, &[i[0], j[0], j[1], i[1], j[2]]).unwrap();
    schedule.annotate(d, i[0], LoopKind::Parallel).unwrap();
    schedule.annotate(d, j[2], LoopKind::Vectorized).unwrap();
    schedule.compute_at(C, d, j[1]).unwrap();
    schedule.reorder(C, &[A[2], A[0], A[1]]).unwrap();
    schedule.annotate(C, A[1], LoopKind::Vectorized).unwrap();
    insta::assert_snapshot!(lower(&schedule), @r"
    local c[4, 8]: f32
    parallel i_0 in 0..(((m + 3)/(4)))
      for j_0 in 0..2
        for j_1 in 0..2
          for i in 0..4
            vectorized j in 0..8
              if 4*i_0 + i < m
                c[i, j] = 0
          for k in 0..24
            for i in 0..4
              vectorized j in 0..8
                if 4*i_0 + i < m
                  c[i, j] += a[4*i_0 + i, k] * b[k, 16*j_0 + 8*j_1 + j]
          for i_1 in 0..4
            vectorized j_2 in 0..8
              if 4*i_0 + i_1 < m
                d[4*i_0 + i_1, 16*j_0 + 8*j_1 + j_2] = c[i_1, j_2] + a[4*i_0 + i_1, 0]
    ");
}

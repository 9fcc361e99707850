//! The text of kernels: what a schedule becomes.

use crate::vector::{VectorCode, lower, verify};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId, nest};

pub(super) const A: [AxisId; 3] = [AxisId(0), AxisId(1), AxisId(2)];

pub(super) fn program(source: &str) -> Dag {
    dsl::program(source).unwrap()
}

pub(super) fn kernel(schedule: &Schedule, isa: Isa) -> VectorCode {
    let kernel = lower(&nest::lower(schedule), isa).unwrap();
    assert_eq!(verify::verify(&kernel), []);
    kernel
}

/// `2 x 16` tiles of a product; rows guarded if `m` says so.
fn matmul(dims: &str) -> Schedule {
    let source = format!(
        "#[autotune(dims({dims}, N = 32, K = 8))]
        fn matmul(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
        }}"
    );
    let mut schedule = Schedule::new(&program(&source));
    let stage = StageId(0);
    let i = schedule.split(stage, A[0], &[2]).unwrap();
    let j = schedule.split(stage, A[1], &[8]).unwrap();
    schedule.reorder(stage, &[i[0], j[0], A[2], i[1], j[1]]).unwrap();
    schedule.annotate(stage, i[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, i[1], LoopKind::Unrolled).unwrap();
    schedule.annotate(stage, j[1], LoopKind::Vectorized).unwrap();
    schedule
}

#[test]
fn a_tile_of_a_product_stays_in_registers() {
    insta::assert_snapshot!(kernel(&matmul("M = 4"), Isa::Avx2), @r"
    kernel matmul for avx2
    t0: tensor 0
    t1: tensor 1
    t2: tensor 2
    phase v11 in 0..2
      loop v12 in 0..4
        r0 = 0
        r1 = 0
        loop v13 in 0..8
          r2 = t1[32*v12 + 128*v13].n
          r0 = fma(t0[64*v11 + 4*v13].1, r2, r0)
          r1 = fma(t0[64*v11 + 4*v13 + 32].1, r2, r1)
        t2[256*v11 + 32*v12].n = r0
        t2[256*v11 + 32*v12 + 128].n = r1
    ");
}

#[test]
fn rows_known_at_launch_are_done_in_powers_of_two() {
    insta::assert_snapshot!(kernel(&matmul("M = 1..=64"), Isa::Avx2), @r"
    kernel matmul for avx2
    t0: tensor 0
    t1: tensor 1
    t2: tensor 2
    p3: ((d0 + 1)/(2))
    p4: ((d0)%(2))
    p5: 32*d0 - 32*((d0)%(2))
    p6: 128*d0 - 128*((d0)%(2))
    p7: ((d0)/(2))
    phase v11 in 0..p3
      if v11 < p7
        loop v12 in 0..4
          r0 = 0
          r1 = 0
          loop v13 in 0..8
            r2 = t1[32*v12 + 128*v13].n
            r0 = fma(t0[64*v11 + 4*v13].1, r2, r0)
            r1 = fma(t0[64*v11 + 4*v13 + 32].1, r2, r1)
          t2[256*v11 + 32*v12].n = r0
          t2[256*v11 + 32*v12 + 128].n = r1
      else
        loop v14 in 0..p4
          loop v15 in 0..4
            r3 = 0
            loop v16 in 0..8
              r3 = fma(t0[p5 + 4*v16].1, t1[32*v15 + 128*v16].n, r3)
            t2[p6 + 32*v15].n = r3
    ");
}

#[test]
fn rows_known_before_are_exact() {
    let text = kernel(&matmul("M = 3"), Isa::Avx2).to_string();
    assert_eq!(text.matches("fma").count(), 3, "{text}");
    assert!(!text.contains('{'), "no mask is needed:\n{text}");
}

#[test]
fn tiles_beyond_the_edge_are_left_out() {
    let dag = program(
        "#[autotune(dims(M = 5, N = 40, K = 8))]
        fn matmul(a: Tensor<f32, M, K>, b: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[k, j]]))
        }",
    );
    let mut schedule = Schedule::new(&dag);
    let stage = StageId(0);
    // The second task has one tile, and three that lie beyond all columns.
    let j = schedule.split(stage, A[1], &[4, 8]).unwrap();
    schedule.reorder(stage, &[j[0], A[0], j[1], A[2], j[2]]).unwrap();
    schedule.annotate(stage, j[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, j[2], LoopKind::Vectorized).unwrap();
    insta::assert_snapshot!(kernel(&schedule, Isa::Avx512), @r"
    kernel matmul for avx512
    t0: tensor 0
    t1: tensor 1
    t2: tensor 2
    phase v8 in 0..2
      if v8 < 1
        loop v9 in 0..5
          loop v10 in 0..4
            r0 = 0
            loop v11 in 0..8
              r0 = fma(t0[32*v9 + 4*v11].1, t1[32*v10 + 160*v11].n{8}, r0)
            t2[160*v9 + 32*v10].n{8} = r0
      else
        loop v12 in 0..5
          r1 = 0
          loop v13 in 0..8
            r1 = fma(t0[32*v12 + 4*v13].1, t1[160*v13 + 128].n{8}, r1)
          t2[160*v12 + 128].n{8} = r1
    ");
}

#[test]
fn a_row_is_reduced_in_lanes_and_then_once() {
    let dag = program(
        "#[autotune(dims(R = 1..=64, D = 40))]
        fn rows(x: Tensor<f32, R, D>) -> Tensor<f32, R> {
            compute(|r| sum(0..D, |d| x[[r, d]]))
        }",
    );
    let mut schedule = Schedule::new(&dag);
    schedule.annotate(StageId(0), A[1], LoopKind::Vectorized).unwrap();
    insta::assert_snapshot!(kernel(&schedule, Isa::Avx512), @r"
    kernel rows for avx512
    t0: tensor 0
    t1: tensor 1
    p2: d0
    phase
      loop v2 in 0..p2
        t1[4*v2].1 = 0
        r0 = t0[160*v2].n
        r1 = t0[160*v2 + 64].n
        r2 = t0[160*v2 + 128].n{8}
        t1[4*v2].1 = AddF(reduce AddF(AddF(AddF(r0, r2), r1)), t1[4*v2].1)
    ");
}

#[test]
fn a_length_known_at_launch_is_masked_once() {
    let dag = program(
        "#[autotune(dims(N = 1..=1000))]
        fn double(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|i| x[[i]] + x[[i]])
        }",
    );
    let mut schedule = Schedule::new(&dag);
    let i = schedule.split(StageId(0), A[0], &[16]).unwrap();
    schedule.annotate(StageId(0), i[1], LoopKind::Vectorized).unwrap();
    insta::assert_snapshot!(kernel(&schedule, Isa::Avx512), @r"
    kernel double for avx512
    t0: tensor 0
    t1: tensor 1
    p2: ((d0)/(16))
    p3: ((d0 + 15)/(16)) - ((d0)/(16))
    p4: ((d0)%(16))
    p5: 4*d0 - 4*((d0)%(16))
    phase
      loop v2 in 0..p2
        r0 = t0[64*v2].n
        t1[64*v2].n = AddF(r0, r0)
      loop v3 in 0..p3
        r1 = t0[p5].n{p4}
        t1[p5].n{p4} = AddF(r1, r1)
    ");
}

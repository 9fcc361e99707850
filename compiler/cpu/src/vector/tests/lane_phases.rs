//! Indices that are linear in each phase of a loop.

use super::text::{A, kernel, program};
use crate::vector::VectorCode;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

/// The code of a program over one axis, which is vectorized.
fn in_lanes(dims: &str, function: &str, isa: Isa) -> VectorCode {
    let dag = program(&format!("#[autotune(dims({dims}))] fn f{function}"));
    let mut schedule = Schedule::new(&dag);
    schedule.annotate(StageId(0), A[0], LoopKind::Vectorized).unwrap();
    kernel(&schedule, isa)
}

#[test]
fn phases_are_stored_side_by_side() {
    let function = "(x: Tensor<f32, N>) -> Tensor<f32, { N * 3 }> { compute(|i| x[[i / 3]]) }";
    insta::assert_snapshot!(in_lanes("N = 28", function, Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    phase
      r0 = t0[0].n
      t1[0].+12 = r0
      t1[4].+12 = r0
      t1[8].+12 = r0
      r1 = t0[48].n
      t1[144].+12 = r1
      t1[148].+12 = r1
      t1[152].+12 = r1
    ");
    let function = "(x: Tensor<f32, N>) -> Tensor<f32, { N * 2 }> { compute(|i| x[[i / 2]]) }";
    insta::assert_snapshot!(in_lanes("N = 1..=28", function, Isa::Avx2), @r"
    kernel f for avx2
    t0: tensor 0
    t1: tensor 1
    p2: ((d0)/(8))
    p3: ((d0 + 7)/(8)) - ((d0)/(8))
    p4: ((d0)%(8))
    p5: 8*d0 - 8*((d0)%(8))
    p6: 4*d0 - 4*((d0)%(8))
    phase
      loop v5 in 0..p2
        r0 = t0[32*v5].n
        t1[64*v5].+8 = r0
        t1[64*v5 + 4].+8 = r0
      loop v6 in 0..p3
        r1 = t0[p6].n{p4}
        t1[p5].+8{p4} = r1
        t1[p5 + 4].+8{p4} = r1
    ");
}

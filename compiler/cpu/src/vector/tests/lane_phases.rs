//! Indices that are linear in each phase of a loop.

use super::text::{A, kernel, program};
use super::words::{check_program, check_scheduled};
use crate::vector::{self, VectorCode};
use tvmtune_ir::dag::{DType, Dag, Number, Numerics};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId, nest};

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

#[test]
fn elements_are_those_of_the_program_at_every_length() {
    for n in [1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 40, 70, 200] {
        for (by, element) in [
            (2, "x[[i / 2]]"),
            (2, "if i % 2 == 0 { x[[i / 2]] } else { y[[i / 2]] }"),
            (2, "x.get([(i + 1) / 2]).unwrap_or(2.0) - y.get([i / 2 - 1]).unwrap_or(3.0)"),
            (2, "x.get([i / 2 + 2 * (i % 2) - 1]).unwrap_or(y[[i / 2]])"),
            (3, "x[[i / 3]] * (i % 3) as f32"),
            (3, "if i % 3 == 1 { x[[i / 3]] } else { y[[i / 3]] }"),
            (4, "x[[i / 4]] - y.get([i / 2 - 1]).unwrap_or(0.5)"),
            (5, "x[[(i + 2) / 5 % N]]"),
            (8, "x[[i / 8]] + (i % 8) as f32"),
            (9, "x[[i / 9]]"),
            (2, "sum(0..N * 2, |k| x[[k / 2]] * (k % 3 + i) as f32)"),
        ] {
            for less in [0, 1] {
                let text = format!(
                    "#[autotune(dims(N = {n}))]
                     fn f(x: Tensor<f32, N>, y: Tensor<f32, N>) -> Tensor<f32, {{ N * {by} - {less} }}> {{
                         compute(|i| {element})
                     }}"
                );
                let arrays = [3, 8].map(|seed| numbers(n, seed));
                check_program(&text, &arrays);
                check_scheduled(&text, &arrays, &lanes_of_all);
            }
        }
    }
}

/// Small numbers, of which no sum is rounded.
fn numbers(n: u64, seed: u64) -> Array {
    Array::from_fn(DType::F32, &[n], |at| {
        Number::Float(((at as u64 * 37 + seed) % 13) as f64 - 6.0)
    })
}

/// The last loop of the last stage in lanes.
fn lanes_of_all(dag: &Dag, _: Isa) -> Schedule {
    let (mut schedule, n) = (Schedule::new(dag), dag.computes.len() as u32);
    for stage in (0..n).map(StageId) {
        let last = schedule.stage(stage).compute.axes.len() - 1;
        schedule.annotate(stage, A[last], LoopKind::Vectorized).unwrap();
    }
    schedule
}

#[test]
fn lanes_that_are_reduced_have_phases() {
    let dag = program(
        "#[autotune(dims(N = 40))]
         fn f(x: Tensor<f32, N>) -> Tensor<f32, 1> { compute(|i| sum(0..64, |k| x[[k / 2]])) }",
    );
    let mut schedule = Schedule::new(&dag);
    schedule.annotate(StageId(0), A[0], LoopKind::Vectorized).unwrap();
    let code = kernel(&schedule, Isa::Avx2).to_string();
    assert!(code.contains("t0[32].n") && !code.contains("loop"), "{code}");
    // An order that is fixed is that of the lanes.
    let mut fixed = dag.clone();
    fixed.numerics = Numerics::Fixed;
    let mut schedule = Schedule::new(&fixed);
    schedule.annotate(StageId(0), A[0], LoopKind::Vectorized).unwrap();
    assert!(vector::lower(&nest::lower(&schedule), Isa::Avx2).is_err());
}

//! Terms of reductions that conditions leave out, against the interpreter of programs.

use super::text::A;
use super::words::{check_program, check_scheduled};
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

/// Small numbers, of which no sum is rounded.
fn numbers(m: u64, seed: u64) -> Array {
    Array::from_fn(DType::F32, &[m, m], |n| {
        Number::Float(((n as u64 * 37 + seed) % 13) as f64 - 6.0)
    })
}

/// Vectors along the last axis, around four steps of the reduction at a time.
fn unrolled(dag: &Dag, isa: Isa) -> Schedule {
    let (mut schedule, stage) = (Schedule::new(dag), StageId(0));
    let lanes = schedule.split(stage, A[1], &[isa.lanes().into()]).unwrap();
    let steps = schedule.split(stage, A[2], &[4]).unwrap();
    schedule.reorder(stage, &[A[0], lanes[0], steps[0], steps[1], lanes[1]]).unwrap();
    schedule.annotate(stage, steps[1], LoopKind::Unrolled).unwrap();
    schedule.annotate(stage, lanes[1], LoopKind::Vectorized).unwrap();
    schedule
}

#[test]
fn terms_are_left_out_exactly_where_conditions_fail() {
    for m in [1, 3, 8, 9, 16, 40, 70] {
        for reduction in [
            "sum(0..=i, |k| a[[i, k]] * b[[k, j]])",
            "sum(i..M, |k| a[[i, k]] * b[[k, j]])",
            "sum(0..M, |k| if k <= j { a[[i, k]] * b[[k, j]] } else { 0.0 })",
            "sum(0..M, |k| if k >= j { a[[i, k]] * b[[k, j]] } else { 0.0 })",
            "sum(0..M, |k| if k >= i && k <= j { a[[i, k]] * b[[k, j]] } else { 0.0 })",
            "sum(0..M, |k| if k + j < M { a[[i, k]] * b[[k, j]] } else { 0.0 })",
            "sum(0..M, |k| if k <= i { if k > j { a[[i, k]] } else { 0.0 } } else { 0.0 })",
            "sum(0..M, |k| if k <= i && a[[i, k]] > 0.0 { b[[k, j]] } else { 0.0 })",
            "max(0..M, |k| if k <= i && k >= j { a[[i, k]] } else { f32::NEG_INFINITY })",
            // Another value is added where the condition fails.
            "sum(0..M, |k| if k <= i { a[[i, k]] * b[[k, j]] } else { 1.0 })",
            "max(0..M, |k| if k <= i { a[[i, k]] * b[[k, j]] } else { 0.0 })",
        ] {
            let text = format!(
                "#[autotune(dims(M = {m}))]
                 fn f(a: Tensor<f32, M, M>, b: Tensor<f32, M, M>) -> Tensor<f32, M, M> {{
                     compute(|i, j| {reduction})
                 }}"
            );
            let arrays = [numbers(m, 3), numbers(m, 8)];
            check_program(&text, &arrays);
            check_scheduled(&text, &arrays, &unrolled);
        }
    }
}

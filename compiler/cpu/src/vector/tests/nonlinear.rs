//! Indices that multiply loop variables, against the interpreter of programs.

use super::text::{A, kernel, program};
use crate::vector::{Unsupported, lower};
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId, nest};

/// Vectorizes the last axis of a program's stage, and compares with the program itself.
fn check(definition: &str) {
    let dag = program(&format!(
        "#[autotune(dims(M = 5, N = 37))]
         fn f(x: Tensor<f32, 200>) -> Tensor<f32, M, N> {{
             compute(|i, j| {definition})
         }}"
    ));
    let x = [Array::from_fn(DType::F32, &[200], |n| Number::Float(n as f64 / 8.0))];
    let want = interp::run(&dag, &[], &x, &[]);
    for isa in [Isa::Avx2, Isa::Avx512] {
        let mut schedule = Schedule::new(&dag);
        let root = StageId(dag.computes.len() as u32 - 1);
        let parts = schedule.split(root, A[1], &[isa.lanes().into()]).unwrap();
        let mut order = schedule.stage(root).order.clone();
        order.retain(|it| *it != parts[1]);
        order.push(parts[1]);
        schedule.reorder(root, &order).unwrap();
        schedule.annotate(root, parts[1], LoopKind::Vectorized).unwrap();
        let kernel = kernel(&schedule, isa);
        let text = kernel.to_string();
        assert!(text.contains("].n"), "{definition} is no vector code on {isa:?}\n{text}");
        let got = crate::interp::run(&kernel, &[], &x, &[], &want).unwrap();
        assert_eq!(got, want, "{definition} on {isa:?}");
    }
}

#[test]
fn squares_and_products_of_loop_variables_are_values() {
    check("(i * i) as f32 * x[[j]]");
    check("(i * j) as f32 - x[[j]]");
    check("((j - 9) * (j - 9) + 3 * i * j * i) as f32");
    check("if i * i + j * j < 300 { x[[j]] } else { -1.0 }");
    check("((i * j + 7) / 3 + (i * j) % 5) as f32");
    check("sum(0..4, |r| (r * r - 2 * r + i) as f32 * x[[r + j]])");
}

#[test]
fn the_lesser_of_two_loop_variables_is_a_value() {
    check("((i + 2).min(j) - (j - 4).max(0) + 1) as f32 * x[[j]]");
    check("(3 * (i * 7).min(j) + 2 * i) as f32");
    check("if (i * 7).min(j) + i < 20 { x[[j]] } else { 2.0 }");
    check("(i.min(j) * i.max(j)) as f32");
}

#[test]
fn quotients_and_remainders_of_lanes_are_values() {
    check("(j * 17 / 7) as f32 * x[[j]]");
    check("((j * 17 + i) % 7) as f32 - x[[j]]");
    check("if j >= i * 37 / 5 && j < (i * 37 + 41) / 5 { x[[j]] } else { -1.0 }");
    check("if i * 7 >= j * 5 / 3 { x[[j]] } else { 0.0 }");
    check("((j + 5) / 3 - 2 * ((j + 1) / 3) + i) as f32");
    check("sum(0..9, |r| if r >= j * 9 / 37 && r < (j * 9 + 45) / 37 { x[[r]] } else { 0.0 })");
}

#[test]
fn products_of_loop_variables_choose_elements() {
    // A triangle whose rows lie one after the other.
    check("x[[i * (i + 1) / 2 + j]]");
    check("x[[i * j + i]]");
    check("x.get([i * j * 2 - 7]).unwrap_or(-1.0)");
}

/// The lesser of a number that fits a lane and one that does not is no lesser of words.
#[test]
fn numbers_beyond_a_lane_are_not_compared_in_it() {
    let dag = program(
        "#[autotune(dims(M = 5, N = 37))]
         fn f(x: Tensor<f32, N>) -> Tensor<f32, M, N> {
             compute(|i, j| ((i.max(j) * 100000000).min(7 + i) + j) as f32 * x[[j]])
         }",
    );
    let mut schedule = Schedule::new(&dag);
    schedule.annotate(StageId(0), A[1], LoopKind::Vectorized).unwrap();
    let refused = lower(&nest::lower(&schedule), Isa::Avx2).err();
    assert_eq!(refused, Some(Unsupported::Range));
}

/// Rows that wrap around a dimension known at launch: the dividend may be negative.
#[test]
fn rows_wrap_around_an_extent_known_at_launch() {
    for (row, from) in
        [("(i + M - 1) % M", -1_i64), ("(i + 2 * M - 5) % M", -5), ("(i + 2) % M", 2)]
    {
        let dag = program(&format!(
            "#[autotune(dims(M = 3..=9, N = 16))]
             fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ compute(|i, j| x[[{row}, j]]) }}"
        ));
        let mut schedule = Schedule::new(&dag);
        schedule.annotate(StageId(0), A[1], LoopKind::Vectorized).unwrap();
        for isa in [Isa::Avx2, Isa::Avx512] {
            let kernel = kernel(&schedule, isa);
            for m in [3, 4, 5, 9] {
                let x = Array::from_fn(DType::F32, &[m, 16], |n| Number::Float(n as f64));
                let want = interp::run(&dag, &[m as i64], std::slice::from_ref(&x), &[]);
                let got = crate::interp::run(&kernel, &[m as i64], &[x], &[], &want).unwrap();
                assert_eq!(got, want, "{row} of {m} on {isa:?}");
                let first = from.rem_euclid(m as i64) * 16;
                assert_eq!(got[0].get(0), Number::Float(first as f64));
            }
        }
    }
}

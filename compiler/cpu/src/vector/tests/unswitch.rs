//! Choices that are the same in all iterations of a loop, and those that are known for each lane.

use super::text::{A, kernel, program};
use super::words::check_scheduled;
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

/// A schedule in which the first axis are tasks, and 16 elements of the last one are vectors.
fn in_tasks(dag: &Dag) -> Schedule {
    let (mut schedule, stage) = (Schedule::new(dag), StageId(0));
    let parts = schedule.split(stage, A[2], &[16]).unwrap();
    schedule.annotate(stage, A[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

/// Windows that begin two steps before the first row, and one before the first column.
const PADDED: &str = "#[autotune]
    fn f(x: Tensor<f32, 9, 3, 40>) -> Tensor<f32, 12, 3, 16> {
        compute(|i, r, j| x.get([i - 2, r, 2 * j - 1]).unwrap_or(7.0))
    }";

#[test]
fn a_loop_has_one_copy_for_each_outcome_of_a_choice_by_the_task() {
    insta::assert_snapshot!(kernel(&in_tasks(&program(PADDED)), Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    phase v3 in 0..12
      if v3 < 2
        loop v4 in 0..3
          t1[192*v3 + 64*v4].n = 7.0
      else
        if v3 < 11
          loop v5 in 0..3
            t1[192*v3 + 64*v5].n = select(lanes 0b1111111111111110, t0[480*v3 + 160*v5 + -964].+8{lanes 0b1111111111111110}, 7.0)
        else
          loop v6 in 0..3
            t1[64*v6 + 2112].n = 7.0
    ");
}

#[test]
fn comparisons_with_and_without_equality_are_decided_by_their_sign() {
    for condition in
        ["i > 4", "i <= 4", "i < 5", "i >= 5", "4 < i", "i == 0", "i != 0", "i == 11", "i != 11"]
    {
        let text = format!(
            "#[autotune]
             fn f(x: Tensor<f32, 12, 3, 16>) -> Tensor<f32, 12, 3, 16> {{
                 compute(|i, r, j| if {condition} {{ x[[i, r, j]] }} else {{ 7.0 }})
             }}"
        );
        let kernel = kernel(&in_tasks(&program(&text)), Isa::Avx2).to_string();
        assert!(kernel.contains("  if ") && !kernel.contains("select"), "{condition}: {kernel}");
    }
}

#[test]
fn choices_taken_out_of_loops_are_those_of_the_program() {
    let numbers = |shape: &[u64]| Array::whole_numbers(DType::F32, shape, 3);
    check_scheduled(PADDED, &[numbers(&[9, 3, 40])], &|dag, _| in_tasks(dag));
    // Both ends of both axes, and a choice of which only one side has another one.
    let both = "#[autotune]
        fn f(x: Tensor<f32, 6, 5, 16>) -> Tensor<f32, 9, 8, 16> {
            compute(|i, r, j| {
                let inside = x.get([i - 2, r - 1, j]).unwrap_or(-1.0);
                if i > 4 { inside } else { if i <= 1 { 3.0 } else { inside * 2.0 } }
            })
        }";
    check_scheduled(both, &[numbers(&[6, 5, 16])], &|dag, _| in_tasks(dag));
}

/// A schedule in which tasks are so many rows, and 16 elements of the last axis are vectors.
fn in_blocks_of_rows(dag: &Dag, rows: u64) -> Schedule {
    let (mut schedule, stage) = (Schedule::new(dag), StageId(0));
    let blocks = schedule.split(stage, A[1], &[rows]).unwrap();
    let parts = schedule.split(stage, A[2], &[16]).unwrap();
    schedule.annotate(stage, A[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, blocks[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

#[test]
fn tasks_between_borders_have_choices_of_their_own() {
    let x = Array::whole_numbers(DType::F32, &[2, 20, 30], 3);
    // The first and the last rows between the borders, for tasks of one row.
    for row in [2, 3, 20, 21] {
        let source = format!(
            "#[autotune]
             fn f(x: Tensor<f32, 2, 20, 30>) -> Tensor<f32, 2, 24, 34> {{
                 compute(|c, y, p| {{
                     let inside = x[[c, (y - 2).clamp(0, 19), (p - 2).clamp(0, 29)]];
                     if y == {row} {{ 100.0 }} else {{ inside }}
                 }})
             }}"
        );
        for rows in [1, 2, 4] {
            let scheduled = |dag: &Dag, _| in_blocks_of_rows(dag, rows);
            check_scheduled(&source, std::slice::from_ref(&x), &scheduled);
        }
    }
}

#[test]
fn only_the_tasks_at_the_borders_of_an_image_have_them() {
    let x = Array::whole_numbers(DType::F32, &[2, 20, 30], 3);
    let padded = |index: &str| {
        format!(
            "#[autotune]
             fn f(x: Tensor<f32, 2, 20, 30>) -> Tensor<f32, 2, 24, 34> {{
                 compute(|c, y, p| {index})
             }}"
        )
    };
    for index in [
        "x[[c, (y - 2).clamp(0, 19), (p - 2).clamp(0, 29)]]",
        "x[[c, 19 - (19 - (y - 2).abs()).abs(), 29 - (29 - (p - 2).abs()).abs()]]",
        "x.get([c, y - 2, p - 2]).unwrap_or(1.0)",
    ] {
        // Blocks that divide the rows, and ones the last of which is shorter.
        for rows in [1, 4, 6, 5, 24] {
            let scheduled = |dag: &Dag| in_blocks_of_rows(dag, rows);
            check_scheduled(&padded(index), std::slice::from_ref(&x), &|dag, _| scheduled(dag));
            let kernel = kernel(&scheduled(&program(&padded(index))), Isa::Avx512).to_string();
            assert!(!kernel.contains("index("), "{rows}, {index}: {kernel}");
        }
    }
}

#[test]
fn strided_elements_are_loaded_whatever_lanes_are_known_to_be_inside() {
    for stride in [2, 3, 5, 8, 9] {
        let extent = 16 * stride + 5;
        let x = Array::whole_numbers(DType::F32, &[4, 2, extent], 5);
        for first in ["- 1", "- 9", "- 17", "+ 3", "+ 7", "+ 30", "+ 4"] {
            let text = format!(
                "#[autotune]
                 fn f(x: Tensor<f32, 4, 2, {extent}>) -> Tensor<f32, 4, 2, 16> {{
                     compute(|i, r, j| x.get([i, r, {stride} * j {first}]).unwrap_or(-2.0))
                 }}"
            );
            check_scheduled(&text, std::slice::from_ref(&x), &|dag, _| in_tasks(dag));
        }
    }
}

/// The code of so many tasks, loops of so many rows in each, and elements of a row, which are written out.
fn in_unrolled_tasks(definition: &str, [tasks, rows, columns]: [u64; 3]) -> String {
    let dag = program(&format!(
        "#[autotune]
         fn f(x: Tensor<f32, 400>) -> Tensor<f32, {tasks}, {rows}, {columns}> {{
             compute(|i, r, j| {definition})
         }}"
    ));
    let (mut schedule, stage) = (Schedule::new(&dag), StageId(0));
    let parts = schedule.split(stage, A[2], &[16]).unwrap();
    schedule.annotate(stage, A[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, parts[0], LoopKind::Unrolled).unwrap();
    schedule.annotate(stage, parts[1], LoopKind::Vectorized).unwrap();
    kernel(&schedule, Isa::Avx512).to_string()
}

#[test]
fn loops_are_split_where_a_choice_by_the_task_as_well_is_open_for_a_few_iterations() {
    for (tasks, step, n_loops) in [(3, 1, 3), (8, 1, 3), (9, 1, 1), (12, 1, 1), (12, 3, 2)] {
        let definition = format!("if i + {step} * r < 14 {{ 7.0 }} else {{ x[[i + r + j]] }}");
        let text = in_unrolled_tasks(&definition, [tasks, 40, 16]);
        assert_eq!(text.matches("loop v").count(), n_loops, "{tasks}, {step}: {text}");
    }
}

#[test]
fn tasks_of_a_tile_with_its_windows_differ_at_borders() {
    for (columns, differ) in [(320, true), (2048, true), (2064, false)] {
        let definition = "if i < 2 { 7.0 } else { x[[i + j % 16]] }";
        let text = in_unrolled_tasks(definition, [12, 3, columns]);
        assert_eq!(text.contains("  if "), differ, "{columns}: {text}");
    }
}

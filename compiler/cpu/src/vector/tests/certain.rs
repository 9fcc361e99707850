//! Elements that are read whatever the choices of a statement are, against the interpreter of programs.

use super::text::{A, kernel, program};
use super::words::{check_scheduled, vectorized};
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

/// Vectors along the last two axes at once, the last of which ends in the middle of one.
fn flattened(dag: &Dag, _: Isa) -> Schedule {
    let (mut schedule, stage) = (Schedule::new(dag), StageId(0));
    let fused = schedule.fuse(stage, A[1], A[2]).unwrap();
    let parts = schedule.split(stage, fused, &[64]).unwrap();
    schedule.annotate(stage, parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

/// Returns how many masked loads a program has, after it was found to be right.
fn masked(definition: &str, scheduled: fn(&Dag, Isa) -> Schedule) -> usize {
    let text = format!(
        "#[autotune(dims(C = 3, H = 7, W = 28))]
         fn f(x: Tensor<f32, C, H, W>, z: Tensor<f32, C, H, W>) -> Tensor<f32, C, H, W> {{
             compute(|c, y, p| {definition})
         }}"
    );
    let arrays = [3, 8].map(|it| Array::whole_numbers(DType::F32, &[3, 7, 28], it));
    check_scheduled(&text, &arrays, &scheduled);
    let lowered = kernel(&scheduled(&program(&text), Isa::Avx512), Isa::Avx512).to_string();
    lowered.matches(".n{r").count() + lowered.matches(".n{And").count()
}

#[test]
fn they_take_no_mask() {
    for definition in [
        "if x[[c, y, p]] > 0.0 { x[[c, y, p]] } else { 2.0 * x[[c, y, p]] }",
        // The element that is written has its place in other tensors, too.
        "if p > 3 && y < 5 { x[[c, y, p]] } else { z[[c, y, p]] }",
    ] {
        assert_eq!(masked(definition, flattened), 0, "{definition}");
    }
}

#[test]
fn other_elements_do() {
    for definition in [
        "if y >= 1 && z[[c, y, p]] > 0.0 { x[[c, y - 1, p]] } else { 0.0 }",
        "if z[[c, y, p]] > 0.0 { if y < 6 { x[[c, y + 1, p]] } else { 1.0 } } else { 0.0 }",
        "if y < 6 { if x[[c, y + 1, p]] > 0.0 { x[[c, y + 1, p]] } else { 1.0 } } else { 0.0 }",
        "if (if z[[c, y, p]] > 0.0 && y < 6 { x[[c, y + 1, p]] > 0.0 } else { false }) { 2.0 } else { 1.0 }",
    ] {
        assert!(masked(definition, vectorized) > 0, "{definition}");
        masked(definition, flattened);
    }
}

#[test]
fn the_same_place_in_a_smaller_tensor_is_another_element() {
    let arrays = [
        Array::whole_numbers(DType::F32, &[3, 7, 28], 3),
        Array::whole_numbers(DType::F32, &[3, 6, 28], 8),
    ];
    for definition in [
        "if y < 6 { z[[c, y, p]] } else { 0.5 }",
        "if y < 6 { z[[c, y, p]] } else { x[[c, y, p]] }",
        // The condition reads the place in `x`.
        "if x[[c, y, p]] > 0.0 && y < 6 { z[[c, y, p]] } else { 0.5 }",
        "if x[[c, y, 27 - p]] > 0.0 { if y < 6 { z[[c, y, 27 - p]] } else { 1.5 } } else { 0.5 }",
    ] {
        let text = format!(
            "#[autotune(dims(C = 3, H = 7, W = 28))]
             fn f(x: Tensor<f32, C, H, W>, z: Tensor<f32, C, {{ H - 1 }}, W>) -> Tensor<f32, C, H, W> {{
                 compute(|c, y, p| {definition})
             }}"
        );
        check_scheduled(&text, &arrays, &flattened);
    }
}

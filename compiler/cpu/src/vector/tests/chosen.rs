//! Loops of which data choose the one iteration that counts, against the interpreter of programs.

use super::text::{A, kernel, program};
use super::words::{check_scheduled, numbers};
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId};

/// Number of terms; greater than that of elements.
const E: u64 = 70;
const S: u64 = 13;

/// Runs the last stage's reductions, then the first of its other axes in parts of `part`, and the others, the
/// last one in vectors.
fn scattered(dag: &Dag, isa: Isa, part: u64) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let last = StageId(schedule.order.len() as u32 - 1);
    let (n_axes, n_spatial) = {
        let stage = schedule.stage(last);
        (stage.order.len(), stage.compute.n_spatial)
    };
    let parts = schedule.split(last, A[0], &[part]).unwrap();
    let mut order = vec![parts[0]];
    order.extend((n_spatial..n_axes).map(|it| AxisId(it as u32)));
    order.push(parts[1]);
    if n_spatial > 1 {
        order.extend(schedule.split(last, A[1], &[isa.lanes().into()]).unwrap());
    }
    schedule.reorder(last, &order).unwrap();
    if n_spatial > 1 {
        schedule.annotate(last, order[order.len() - 1], LoopKind::Vectorized).unwrap();
    }
    schedule
}

/// Integers around the ends of `0..S`, in no order and more than once, and some that no element has.
fn segments(dtype: DType) -> Array {
    Array::from_fn(dtype, &[E], |n| Number::Int((n as i64 * 29) % 19 - 2))
}

fn rows() -> Array {
    Array::from_fn(DType::F32, &[E, 11], |n| Number::Float(((n * 37) % 23) as f64 - 11.0))
}

fn check(definition: &str, arrays: &[Array], is_chosen: bool) {
    let types: Vec<String> = arrays
        .iter()
        .zip(["a", "x"])
        .map(|(it, name)| {
            let dims = if it.shape.len() == 1 { "E" } else { "E, D" };
            format!("{name}: Tensor<{}, {dims}>", it.dtype)
        })
        .collect();
    let row = if definition.contains("D>") { ", D = 11" } else { "" };
    let text = format!(
        "#[autotune(dims(E = {E}, S = {S}{row}))]
         fn f({}) -> {definition} }}",
        types.join(", ")
    );
    for part in [S, 4] {
        let schedule = |dag: &Dag, isa| scattered(dag, isa, part);
        check_scheduled(&text, arrays, &schedule);
        let code = kernel(&schedule(&program(&text), Isa::Avx2), Isa::Avx2).to_string();
        assert_eq!(code.contains("choose v"), is_chosen, "{text} by {part}:\n{code}");
    }
}

#[test]
fn terms_are_added_to_the_element_that_data_choose() {
    for dtype in [DType::I64, DType::I32, DType::U32, DType::I8, DType::U8] {
        let index = format!("s as {dtype}");
        for (definition, has_rows) in [
            (
                "Tensor<f32, S, D> { compute(|s, d| sum(0..E, |e| if a[[e]] == INDEX { x[[e, d]] } else { 0.0 }))",
                true,
            ),
            (
                "Tensor<f32, S, D> { compute(|s, d| max(0..E, |e| if a[[e]] == INDEX && x[[e, d]] < 9.0 { x[[e, d]] } else { f32::NEG_INFINITY }))",
                true,
            ),
            (
                "Tensor<f32, S, D> { compute(|s, d| sum(0..E, |e| if x[[e, d]] > 0.0 { if INDEX == a[[e]] { x[[e, d]] * 2.0 } else { 0.0 } } else { 0.0 }))",
                true,
            ),
            (
                "Tensor<f32, S> { compute(|s| sum(0..E, |e| if a[[e]] == INDEX { 1.0 } else { 0.0 }))",
                false,
            ),
            ("Tensor<i32, S> { compute(|s| sum(0..E, |e| (a[[e]] == INDEX) as i32))", false),
            ("Tensor<bool, S> { compute(|s| any(0..E, |e| a[[e]] == INDEX))", false),
        ] {
            let mut arrays = vec![segments(dtype)];
            arrays.extend(has_rows.then(rows));
            check(&definition.replace("INDEX", &index), &arrays, true);
        }
    }
}

#[test]
fn integers_of_any_size_choose_no_element_but_theirs() {
    let any = numbers(0x9e37_79b9_7f4a_7c15);
    let ends = Array::from_fn(DType::I32, &[E], |n| {
        Number::Int(match n % 3 {
            0 => i64::from(i32::MIN) + n as i64 % 9,
            1 => i64::from(i32::MAX) - n as i64 % 9,
            _ => n as i64 % 20 - 4,
        })
    });
    let definition =
        "Tensor<i32, S> { compute(|s| sum(0..E, |e| if a[[e]] == INDEX { 1 } else { 0 }))";
    check(&definition.replace("INDEX", "s as i64"), &[any], true);
    check(&definition.replace("INDEX", "(s as i32 + 7)"), std::slice::from_ref(&ends), false);
    check(&definition.replace("INDEX", "s as i32"), &[ends], true);
}

#[test]
fn other_conditions_choose_nothing() {
    for condition in [
        "a[[e]] <= s as i64",
        "a[[e]] != s as i64",
        "a[[e]] == s as i64 || a[[e]] == 3",
        "a[[e]] == (2 * s) as i64",
        "a[[s]] == s as i64",
    ] {
        let definition = format!(
            "Tensor<f32, S> {{ compute(|s| sum(0..E, |e| if {condition} {{ 1.0 }} else {{ 0.0 }}))"
        );
        check(&definition, &[segments(DType::I64)], false);
    }
    // The other branch adds 0.5, which is not the identity of a sum.
    let definition =
        "Tensor<f32, S> { compute(|s| sum(0..E, |e| if a[[e]] == s as i64 { 1.0 } else { 0.5 }))";
    check(definition, &[segments(DType::I64)], false);
}

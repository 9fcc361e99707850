//! Reads whose place data decide, and reads in reverse and around an end, against the interpreter of programs.

use super::text::{kernel, program};
use super::words::{check_program, check_scheduled, vectorized};
use crate::vector::lower;
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Schedule, StageId, nest};

const TYPES: [DType; 7] =
    [DType::F32, DType::I32, DType::F16, DType::Bf16, DType::I8, DType::U8, DType::Bool];

fn ids(values: [i64; 6]) -> Array {
    Array::from_fn(DType::I64, &[6], |n| Number::Int(values[n]))
}

fn table(dtype: DType) -> Array {
    Array::from_fn(dtype, &[5, 40], |n| match dtype {
        DType::Bool => Number::Bool(n % 3 == 0),
        it if it.is_float() => Number::Float(n as f64),
        _ => Number::Int(n as i64 % 120),
    })
}

fn rows(dtype: DType, read: &str) -> String {
    format!(
        "#[autotune(dims(B = 6, V = 5, D = 40))]
         fn f(ids: Tensor<i64, B>, t: Tensor<{dtype}, V, D>) -> Tensor<{dtype}, B, D> {{
             compute(|b, d| {read})
         }}"
    )
}

#[test]
fn ids_look_up_rows_of_every_type() {
    let hostile = ids([4, 0, 1 << 32, -1, (1 << 33) + 2, i64::MIN]);
    for dtype in TYPES {
        let other = match dtype {
            DType::Bool => "true",
            it if it.is_float() => "-1.0",
            _ => "7",
        };
        let arrays = [hostile.clone(), table(dtype)];
        check_program(&rows(dtype, &format!("t.get([ids[[b]], d]).unwrap_or({other})")), &arrays);
        check_program(&rows(dtype, "t[[ids[[b]].clamp(0, 4), d]]"), &arrays);
    }
}

/// Returns whether the code of a program has loads with an index, and whether it has gathers.
fn loads_and_gathers(text: &str) -> (bool, bool) {
    let code = kernel(&vectorized(&program(text), Isa::Avx512), Isa::Avx512).to_string();
    (code.contains(".n[") || code.contains(".1["), code.contains("]["))
}

#[test]
fn a_row_is_loaded_and_other_elements_are_gathered() {
    let hostile = ids([4, 0, 1 << 32, -1, (1 << 33) + 2, i64::MIN]);
    let arrays = [hostile, table(DType::F32)];
    for read in [
        // The condition differs between lanes: the id is read in some of them.
        "if d > 10 { t.get([ids[[b]], d]).unwrap_or(-1.0) } else { 2.0 }",
        "t.get([ids.get([b + 1]).unwrap_or(9), d]).unwrap_or(-1.0)",
        "t.get([ids[[(b + d) % B]], d]).unwrap_or(-1.0)",
        "t.get([ids[[b]], D - 1 - d]).unwrap_or(-1.0)",
        "t.get([ids[[b]], d / 8]).unwrap_or(-1.0)",
        "t.get([ids[[b]] + d as i64 % 2, d]).unwrap_or(-1.0)",
    ] {
        check_program(&rows(DType::F32, read), &arrays);
    }
    for (read, expected) in [
        ("t.get([ids[[b]], d]).unwrap_or(-1.0)", (true, false)),
        ("t.get([ids[[b]] + 1, 3]).unwrap_or(-1.0)", (true, false)),
        ("t.get([ids.get([b + 1]).unwrap_or(9), d]).unwrap_or(-1.0)", (false, true)),
        ("t.get([ids[[b]] + d as i64 % 2, d]).unwrap_or(-1.0)", (false, true)),
    ] {
        assert_eq!(loads_and_gathers(&rows(DType::F32, read)), expected, "{read}");
    }
    let along_lanes = "#[autotune(dims(B = 6, V = 5, D = 40))]
        fn f(ids: Tensor<i64, B>, t: Tensor<f32, V, D>) -> Tensor<f32, B> {
            compute(|b| t.get([ids[[b]], b]).unwrap_or(-1.0))
        }";
    check_program(along_lanes, &arrays);
}

/// Attaches the stage before the last one to the first loop of this one.
fn attached(dag: &Dag, isa: Isa) -> Schedule {
    let mut schedule = vectorized(dag, isa);
    let last = StageId(schedule.order.len() as u32 - 1);
    let rows = schedule.stage(last).order[0];
    for n in (0..last.0).rev() {
        schedule.compute_at(StageId(n), last, rows).unwrap();
    }
    schedule
}

#[test]
fn a_row_that_a_local_index_chooses_is_loaded() {
    // The index is in a register outside of the lanes; the other one is of each lane.
    for (index, is_loaded) in [("best[[b]]", true), ("(best[[b]] + d / 39)", false)] {
        let text = format!(
            "#[autotune(dims(B = 6, V = 5, D = 40))]
             fn f(s: Tensor<f32, B, V>, t: Tensor<f32, V, D>) -> Tensor<f32, B, D> {{
                 let best = compute(|b| argmax(0..V, |v| s[[b, v]]));
                 compute(|b, d| t.get([{index}, d]).unwrap_or(-1.0))
             }}"
        );
        let scores = Array::from_fn(DType::F32, &[6, 5], |n| Number::Float(((n * 7) % 11) as f64));
        check_scheduled(&text, &[scores, table(DType::F32)], &attached);
        let code = kernel(&attached(&program(&text), Isa::Avx512), Isa::Avx512).to_string();
        assert_eq!(code.contains(".n["), is_loaded, "{code}");
        assert_eq!(code.contains("]["), !is_loaded, "{code}");
    }
}

#[test]
fn small_elements_that_data_chooses_are_read_one_by_one() {
    let hostile = ids([4, 0, 1 << 32, -1, (1 << 33) + 2, i64::MIN]);
    for dtype in TYPES.into_iter().filter(|it| it.bytes() < 4) {
        let other = match dtype {
            DType::Bool => "true",
            it if it.is_float() => "-1.0",
            _ => "7",
        };
        let along_lanes = format!(
            "#[autotune(dims(B = 6, V = 5, D = 40))]
             fn f(ids: Tensor<i64, B>, t: Tensor<{dtype}, V, D>) -> Tensor<{dtype}, B> {{
                 compute(|b| t.get([ids[[b]], b]).unwrap_or({other}))
             }}"
        );
        check_program(&along_lanes, &[hostile.clone(), table(dtype)]);
        let code = |text: &str| {
            let nest = nest::lower_for_lanes(&vectorized(&program(text), Isa::Avx2));
            lower(&nest, Isa::Avx2).unwrap().to_string()
        };
        let of_lanes = code(&along_lanes);
        assert!(of_lanes.contains(".1:") && !of_lanes.contains(".n:"), "{of_lanes}");
        // Rows that it chooses are loaded in vectors, and no instruction loads them under a mask.
        let of_rows = code(&rows(dtype, &format!("t.get([ids[[b]], d]).unwrap_or({other})")));
        assert!(of_rows.contains(".n:"), "{of_rows}");
        assert!(dtype == DType::Bool || !of_rows.contains("]{"), "{of_rows}");
    }
}

/// Numbers that tell their place.
fn numbered(shape: &[u64]) -> Array {
    Array::from_fn(DType::F32, shape, |n| Number::Float(n as f64))
}

#[test]
fn rows_are_reversed_and_rolled() {
    for n in [1, 7, 8, 16, 31, 33, 64, 100] {
        for read in [
            "x[[i, N - 1 - j]]",
            "x[[M - 1 - i, N - 1 - j]] + x[[i, j]]",
            "x[[i, (j + 5) % N]]",
            "x[[i, (j + 4 * N - 3) % N]]",
            "x[[(i + 2) % M, (j + N - 1) % N]]",
            "x[[i, (j + 5) % N]] * ((j + 5) / N) as f32 + ((j + 2) % N) as f32",
            "if (j + 5) % N < 9 { x[[i, (j + 3) % N]] } else { 0.5 }",
        ] {
            let text = format!(
                "#[autotune(dims(M = 3, N = {n}))]
                 fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{ compute(|i, j| {read}) }}"
            );
            check_program(&text, &[numbered(&[3, n])]);
        }
    }
}

#[test]
fn rolled_rows_are_vectors_of_a_length_known_at_launch() {
    let text = "#[autotune(dims(M = 3, N = 10..=100))]
        fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { compute(|i, j| x[[i, (j + 1) % N]]) }";
    let code = kernel(&vectorized(&program(text), Isa::Avx2), Isa::Avx2).to_string();
    assert!(code.contains("select(") && !code.contains(".1"), "{code}");
}

//! Loops whose iterations data bound, against the interpreter of programs.

use super::text::{A, kernel, program};
use super::words::check_scheduled;
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId};

/// Number of terms.
const E: u64 = 70;
const N: u64 = 13;
const D: u64 = 11;

/// Runs the last axis of rows in vectors, inside of the reduction.
fn in_lanes(dag: &Dag, isa: Isa) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let last = StageId(schedule.order.len() as u32 - 1);
    let parts = schedule.split(last, A[1], &[isa.lanes().into()]).unwrap();
    schedule.reorder(last, &[A[0], parts[0], A[2], parts[1]]).unwrap();
    schedule.annotate(last, parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

/// Runs the reduction in vectors, `unrolled` at a time.
fn along_lanes(dag: &Dag, isa: Isa, unrolled: u64) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let last = StageId(schedule.order.len() as u32 - 1);
    let reduced = AxisId(schedule.stage(last).compute.n_spatial as u32);
    let parts = schedule.split(last, reduced, &[unrolled, isa.lanes().into()]).unwrap();
    schedule.annotate(last, parts[1], LoopKind::Unrolled).unwrap();
    schedule.annotate(last, parts[2], LoopKind::Vectorized).unwrap();
    schedule
}

/// Integers around the ends of `0..E` and beyond, and the ends of their type.
fn bounds(dtype: DType, seed: u64) -> Array {
    let range = tvmtune_ir::dag::integer_range(dtype);
    Array::from_fn(dtype, &[N], |n| {
        let n = n as u64 + seed;
        let value = match n % 6 {
            0 => range.lo,
            1 => range.hi,
            2 => (n % 4) as i64 - 2,
            3 => E as i64 - (n % 3) as i64,
            _ => (n * 29 % (E + 9)) as i64,
        };
        Number::Int(value.clamp(range.lo, range.hi))
    })
}

fn arrays(dtype: DType) -> Vec<Array> {
    let integer = |n: u64| Number::Float(((n * 37) % 23) as f64 - 11.0);
    let x = Array::from_fn(DType::F32, &[E, D], |n| integer(n as u64));
    vec![bounds(dtype, 0), bounds(dtype, 3), x]
}

/// Checks the reduction of a term for each row, and each of its elements if `D` of them are lanes.
fn check(dtype: DType, reduction: &str, is_bounded: bool) {
    let has_rows = reduction.contains(", d]]");
    let (result, axes) = if has_rows { ("N, D", "n, d") } else { ("N", "n") };
    let text = format!(
        "#[autotune(dims(E = {E}, N = {N}, D = {D}))]
         fn f(a: Tensor<{dtype}, N>, b: Tensor<{dtype}, N>, x: Tensor<f32, E, D>)
         -> Tensor<f32, {result}> {{ compute(|{axes}| {reduction}) }}"
    )
    .replace("INDEX", &format!("(e as {dtype})"));
    let checked = |schedule: &dyn Fn(&Dag, Isa) -> Schedule| {
        check_scheduled(&text, &arrays(dtype), schedule);
        let code = kernel(&schedule(&program(&text), Isa::Avx2), Isa::Avx2).to_string();
        assert_eq!(code.contains(" in max("), is_bounded, "{text}:\n{code}");
    };
    if has_rows {
        checked(&in_lanes);
    } else {
        for unrolled in [1, 2, 3] {
            checked(&|dag, isa| along_lanes(dag, isa, unrolled));
        }
    }
}

#[test]
fn data_bound_the_terms_of_rows() {
    for dtype in [DType::I64, DType::I32, DType::I8, DType::U8] {
        for (term, otherwise, reduction) in [
            ("x[[e, 3]]", "0.0", "sum"),
            ("x[[e, d]]", "0.0", "sum"),
            ("x[[e, d]] * x[[e, 0]]", "0.0", "sum"),
            ("x[[e, d]]", "f32::NEG_INFINITY", "max"),
            ("if x[[e, d]] > 0.0 { x[[e, d]] } else { 0.0 }", "0.0", "sum"),
        ] {
            for condition in [
                "INDEX >= a[[n]] && INDEX < b[[n]]",
                "a[[n]] < INDEX && b[[n]] >= INDEX",
                "INDEX > a[[n]] && INDEX >= b[[n]]",
                "x[[e, 2]] > 0.0 && INDEX < b[[n]]",
            ] {
                let reduction = format!(
                    "{reduction}(0..E, |e| if {condition} {{ {term} }} else {{ {otherwise} }})"
                );
                check(dtype, &reduction, true);
            }
        }
    }
}

#[test]
fn an_offset_of_the_index_moves_the_bounds() {
    for condition in ["((e + 5) as i64) >= a[[n]]", "b[[n]] > (e + 2 * n) as i64"] {
        for term in ["x[[e, 3]]", "x[[e, d]]"] {
            let reduction = format!("sum(0..E, |e| if {condition} {{ {term} }} else {{ 0.0 }})");
            check(DType::I64, &reduction, true);
        }
    }
}

#[test]
fn bounds_may_be_computed_or_missing() {
    for dtype in [DType::I64, DType::I32] {
        for condition in [
            "INDEX >= a.get([n + 1]).unwrap_or(3)",
            "INDEX < (if n == 4 { E as DTYPE } else { b[[n]] })",
            "(n == 5 || INDEX < b[[n]])",
            "(INDEX >= a[[n]] || a[[n]] == b[[n]]) && (n + 1 == N || INDEX < b.get([n + 1]).unwrap_or(0))",
        ] {
            for term in ["x[[e, 3]]", "x[[e, d]]"] {
                let condition = condition.replace("DTYPE", &dtype.to_string());
                let reduction =
                    format!("sum(0..E, |e| if {condition} {{ {term} }} else {{ 0.0 }})");
                check(dtype, &reduction, true);
            }
        }
    }
}

#[test]
fn other_conditions_bound_nothing() {
    for (condition, otherwise) in [
        // Another element adds 0.5, which is not the identity of a sum.
        ("INDEX < b[[n]]", "0.5"),
        ("INDEX != b[[n]]", "0.0"),
        ("INDEX < b[[n]] || INDEX > a[[n]]", "0.0"),
        ("INDEX + a[[n]] < b[[n]]", "0.0"),
        ("INDEX < b[[e % N]] && x[[n, 0]] < 5.0", "0.0"),
    ] {
        for term in ["x[[e, 3]]", "x[[e, d]]"] {
            let reduction =
                format!("sum(0..E, |e| if {condition} {{ {term} }} else {{ {otherwise} }})");
            check(DType::I32, &reduction, false);
        }
    }
}

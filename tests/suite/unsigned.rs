//! `u32` as a type of elements: its arithmetic, conversions and use as ids, by machine code and by
//! portable code, at the ends of its range; and slices of `u64` and `usize` as ids.

use proptest::prelude::*;
use tvmtune_cpu::interp::{RaceCheck, execute, results_of, table};
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::Isa;
use tvmtune_runtime::{Cpu, Isa as Runs, autotune};
use tvmtune_schedule::arbitrary::runner;
use tvmtune_schedule::{Schedule, nest};
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;

/// Values at which signs, halves and floats change.
const EDGES: [u32; 12] = [
    0,
    1,
    2,
    7,
    0xffff,
    1 << 24,
    (1 << 24) + 1,
    (1 << 31) - 1,
    1 << 31,
    (1 << 31) + 129,
    u32::MAX - 1,
    u32::MAX,
];

/// Every pair of edges.
fn pairs() -> (Vec<u32>, Vec<u32>) {
    EDGES.iter().flat_map(|a| EDGES.iter().map(move |b| (*a, *b))).unzip()
}

#[autotune(dims(N = 1..=200))]
pub fn arithmetic(
    a: Tensor<u32, N>,
    b: Tensor<u32, N>,
    c: u32,
) -> (Tensor<u32, N>, Tensor<u32, N>, Tensor<u32, N>, Tensor<u32, N>, Tensor<u8, N>) {
    let sum = compute(|n| a[[n]] + b[[n]] * c);
    let difference = compute(|n| -(a[[n]] - b[[n]]).abs());
    let least = compute(|n| a[[n]].min(b[[n]]));
    let greatest = compute(|n| a[[n]].max(b[[n]]).max(4_000_000_000_u32));
    let compared = compute(|n| {
        (a[[n]] < b[[n]]) as u8
            + (a[[n]] <= b[[n]]) as u8 * 2
            + (a[[n]] == b[[n]]) as u8 * 4
            + (a[[n]] > c) as u8 * 8
            + (a[[n]] >= b[[n]]) as u8 * 16
            + (a[[n]] != b[[n]]) as u8 * 32
    });
    (sum, difference, least, greatest, compared)
}

#[autotune(dims(N = 1..=200))]
pub fn divided(
    a: Tensor<u32, N>,
    b: Tensor<u32, N>,
) -> (Tensor<u32, N>, Tensor<u32, N>, Tensor<u32, N>) {
    let quotient = compute(|n| a[[n]] / b[[n]]);
    let remainder = compute(|n| a[[n]] % b[[n]]);
    (quotient, remainder, compute(|n| a[[n]] / 10 % 7))
}

#[autotune(dims(N = 1..=200))]
pub fn from_unsigned(
    a: Tensor<u32, N>,
) -> (Tensor<f32, N>, Tensor<f16, N>, Tensor<i32, N>, Tensor<i8, N>) {
    (
        compute(|n| a[[n]] as f32),
        compute(|n| a[[n]] as f16),
        compute(|n| a[[n]] as i32),
        compute(|n| a[[n]] as i8),
    )
}

#[autotune(dims(N = 1..=200))]
pub fn wide(a: Tensor<u32, N>) -> (Tensor<f64, N>, Tensor<i64, N>, Tensor<u32, N>) {
    (
        compute(|n| a[[n]] as f64),
        compute(|n| a[[n]] as i64 - 1),
        compute(|n| (a[[n]] as i64 * 3) as u32),
    )
}

#[autotune(dims(N = 1..=200))]
pub fn to_unsigned(x: Tensor<f32, N>, i: Tensor<i32, N>) -> (Tensor<u32, N>, Tensor<u32, N>) {
    (compute(|n| x[[n]] as u32), compute(|n| i[[n]] as u32 + (x[[n]] > 0.0) as u32))
}

#[autotune(dims(N = 1..=200))]
pub fn reduced(
    a: Tensor<u32, N>,
) -> (Tensor<u32, 1>, Tensor<u32, 1>, Tensor<u32, 1>, Tensor<i32, 1>) {
    let greatest: Tensor<u32, 1> = compute(|_| max(0..N, |n| a[[n]]));
    let least: Tensor<u32, 1> = compute(|_| min(0..N, |n| a[[n]]));
    let place: Tensor<i32, 1> = compute(|_| argmax(0..N, |n| a[[n]]) as i32);
    let sum: Tensor<u32, 1> = compute(|_| sum(0..N, |n| a[[n]]));
    (greatest, least, sum, place)
}

#[autotune(dims(B = 1..=64, V = 10, D = 20))]
pub fn embedded(ids: Tensor<u32, B>, table: Weight<f32, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| table.get([ids[[b]], d]).unwrap_or(-1.0))
}

#[autotune(dims(B = 1..=64, V = 10, D = 20))]
pub fn embedded_where(ids: Tensor<u32, B>, table: Weight<f32, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| {
        let id = ids[[b]];
        if id < V as u32 { table[[id, d]] } else { table[[id % 10, d]] + table[[id.min(9), d]] }
    })
}

#[autotune(dims(B = 1..=64, V = 10, D = 20))]
pub fn embedded_wide(ids: Tensor<i64, B>, table: Weight<f32, V, D>) -> Tensor<f32, B, D> {
    compute(|b, d| table.get([ids[[b]], d]).unwrap_or(-1.0))
}

/// Calls an op by machine code and by portable code; both have these results.
macro_rules! check {
    ($op:ident($($input:expr),*) -> $($output:ident: $expected:expr),*    ) => {{
        let expected = ($($expected,)*);
        let ($($output,)*) = &expected;
        for isa in [Cpu::new(), Cpu::new().at_most(Runs::Portable)] {
            $(let mut $output = (stringify!($output), vec![Default::default(); $output.len()]);)*
            $op(&isa, $($input,)* $(&mut $output.1),*).unwrap();
            let found = ($($output.1,)*);
            assert_eq!(found, expected, "{isa:?}");
        }
    }};
}

#[test]
fn arithmetic_wraps_and_compares_without_a_sign() {
    let (a, b) = pairs();
    let with =
        |f: fn(u32, u32) -> u32| a.iter().zip(&b).map(|(a, b)| f(*a, *b)).collect::<Vec<_>>();
    let c = 3_000_000_000;
    let compared = |(a, b): (&u32, &u32)| {
        let holds = [a < b, a <= b, a == b, *a > 3_000_000_000, a >= b, a != b];
        holds.iter().enumerate().map(|(n, it)| u8::from(*it) << n).sum::<u8>()
    };
    check!(arithmetic(&a, &b, c) ->
        sum: with(|a, b| a.wrapping_add(b.wrapping_mul(3_000_000_000))),
        difference: with(|a, b| a.wrapping_sub(b).wrapping_neg()),
        least: with(u32::min),
        greatest: with(|a, b| a.max(b).max(4_000_000_000)),
        bits: a.iter().zip(&b).map(compared).collect::<Vec<_>>()
    );
    check!(divided(&a, &b) ->
        quotient: with(|a, b| a.checked_div(b).unwrap_or(0)),
        remainder: with(|a, b| a.checked_rem(b).unwrap_or(0)),
        digits: with(|a, _| a / 10 % 7)
    );
}

#[test]
fn conversions_are_those_of_rust() {
    let a = EDGES.to_vec();
    check!(from_unsigned(&a) ->
        float: a.iter().map(|it| *it as f32).collect::<Vec<_>>(),
        half: a.iter().map(|it| half::f16::from_f32(*it as f32)).collect::<Vec<_>>(),
        signed: a.iter().map(|it| it.cast_signed()).collect::<Vec<_>>(),
        byte: a.iter().map(|it| *it as i8).collect::<Vec<_>>()
    );
    check!(wide(&a) ->
        double: a.iter().map(|it| f64::from(*it)).collect::<Vec<_>>(),
        long: a.iter().map(|it| i64::from(*it) - 1).collect::<Vec<_>>(),
        tripled: a.iter().map(|it| it.wrapping_mul(3)).collect::<Vec<_>>()
    );
    let x = [
        0.0,
        -0.0,
        0.9,
        1.0,
        -1.0,
        16_777_217.0,
        2_147_483_520.0,
        2_147_483_648.0,
        3_000_000_000.0,
        4_294_967_040.0,
        4_294_967_296.0,
        1e30,
        -1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
    ];
    let i: Vec<i32> = (0..16).map(|n| [i32::MIN, -1, 0, i32::MAX][n % 4]).collect();
    let sum = |(x, i): (&f32, &i32)| i.cast_unsigned().wrapping_add(u32::from(*x > 0.0));
    check!(to_unsigned(&x, &i) ->
        converted: x.iter().map(|it| *it as u32).collect::<Vec<_>>(),
        sum: x.iter().zip(&i).map(sum).collect::<Vec<_>>()
    );
}

#[test]
fn reductions_have_no_sign() {
    let (a, _) = pairs();
    let sum = a.iter().fold(0_u32, |sum, it| sum.wrapping_add(*it));
    let place = a.iter().position(|it| *it == u32::MAX).unwrap() as i32;
    check!(reduced(&a) -> greatest: vec![u32::MAX], least: vec![0_u32], sum: vec![sum],
        place: vec![place]);
    check!(reduced(&a[12..36]) -> greatest: vec![2_u32], least: vec![1_u32],
        sum: vec![36_u32], place: vec![12_i32]);
}

#[test]
fn ids_beyond_the_table_are_outside_whatever_their_size() {
    let table: Vec<f32> = (0..200_u8).map(f32::from).collect();
    let ids = [0, 9, 10, 11, (1 << 31) - 1, 1 << 31, (1 << 31) + 3, u32::MAX, 5];
    let rows = |row: &dyn Fn(u32, usize) -> f32| -> Vec<f32> {
        ids.iter().flat_map(|id| (0..20).map(move |d| (*id, d))).map(|(id, d)| row(id, d)).collect()
    };
    let at = |id: u32, d: usize| table[id as usize * 20 + d];
    let inside = rows(&|id, d| if id < 10 { at(id, d) } else { -1.0 });
    check!(embedded(&ids, &table) -> rows: inside.clone());
    let other = rows(&|id, d| if id < 10 { at(id, d) } else { at(id % 10, d) + at(id.min(9), d) });
    check!(embedded_where(&ids, &table) -> rows: other);
    check!(embedded_wide(&ids.map(u64::from), &table) -> rows: inside.clone());
    check!(embedded_wide(&ids.map(|it| it as usize).to_vec(), &table) -> rows: inside);
    let far = [u64::MAX, 1 << 63, (1 << 63) + 1, 1 << 32];
    check!(embedded_wide(&far[..], &table) -> rows: vec![-1.0; 80]);
    let plan = embedded::plan(embedded::Dims { b: 9 }).unwrap();
    assert_eq!(plan.isa == Runs::Portable, Cpu::new().isa() == Runs::Portable, "{plan:?}");
}

/// The text of an expression of type `u32`, from random numbers.
fn expression(tape: &mut std::vec::IntoIter<u32>, depth: u32) -> String {
    let pick = tape.next().unwrap_or(0);
    let edge = EDGES[(pick >> 8) as usize % EDGES.len()];
    if depth == 0 {
        return match pick % 4 {
            0 => "a[[n]]".to_owned(),
            1 => "b[[n]]".to_owned(),
            2 => "(x[[n]] as u32)".to_owned(),
            _ => format!("{edge}_u32"),
        };
    }
    let mut next = || expression(tape, depth - 1);
    let (a, b) = (next(), next());
    match pick % 11 {
        0 => format!("({a} + {b})"),
        1 => format!("({a} - {b})"),
        2 => format!("({a} * {b})"),
        3 => format!("{a}.min({b})"),
        4 => format!("{a}.max({b})"),
        5 => format!("(if {a} < {b} {{ {a} }} else {{ {b} + 1 }})"),
        6 => format!("(if {a} >= {b} {{ 1_u32 }} else {{ {a} }})"),
        7 => format!("(({a} % 1000) / ({b} % 7))"),
        8 => format!("(({a} as f32 * 0.75) as u32)"),
        9 => format!("(({a} as i32) as u32 + (-(a[[n]] + {b})))"),
        _ => format!("(({a} as u8) as u32 + {b})"),
    }
}

/// A random program over boundary values, and its arguments.
fn program(tape: Vec<u32>) -> (String, Vec<Array>) {
    let n = pairs().0.len() as u64;
    let text = expression(&mut tape.into_iter(), 3);
    let source = format!(
        "#[autotune(dims(N = {n}))]
         fn f(a: Tensor<u32, N>, b: Tensor<u32, N>, x: Tensor<f32, N>) -> Tensor<u32, N> {{
             compute(|n| {text})
         }}"
    );
    let (a, b) = pairs();
    let ints = |it: Vec<u32>| Array::from_fn(DType::U32, &[n], |n| Number::Int(it[n].into()));
    let floats = [-1.5, 0.5, 3e9, 2_147_483_648.0, 5e9, f64::NAN, 77.7];
    let x = Array::from_fn(DType::F32, &[n], |n| Number::Float(floats[n % floats.len()]));
    (source, vec![ints(a), ints(b), x])
}

#[test]
fn vector_code_of_random_programs_computes_what_the_interpreter_does() {
    let lowered = std::cell::Cell::new(0);
    runner(400)
        .run(&proptest::collection::vec(any::<u32>(), 15), |tape| {
            let (source, params) = program(tape);
            let dag = dsl::program(&source).unwrap();
            let expected = interp::run(&dag, &[], &params, &[]);
            for isa in [Isa::Avx512, Isa::Avx2] {
                let Ok(kernel) = vector::lower(&nest::lower(&Schedule::new(&dag)), isa) else {
                    continue;
                };
                let mut cells = table(&kernel, &[], &params, &[], &expected);
                execute(&kernel, &mut cells, 1 << 16, RaceCheck::Off).unwrap();
                let found = results_of(&kernel, &cells, params.len(), &expected);
                let error = found[0].max_error(&expected[0], 0.0, 0.0);
                prop_assert!(error.is_none(), "{error:?}\n{source}\n{kernel}");
                lowered.set(lowered.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(lowered.get() > 400, "{} ran", lowered.get());
}

#[test]
fn cuda_code_of_random_programs_computes_what_the_interpreter_does() {
    let Some(nvrtc) = nvrtc() else { return };
    for seed in 0..12_u32 {
        let tape = (0..15).map(|n| (seed * 15 + n + 1).wrapping_mul(0x9e37_79b9) >> 7).collect();
        let (source, params) = program(tape);
        let dag = dsl::program(&source).unwrap();
        let expected = interp::run(&dag, &[], &params, &[]);
        let generated = tvmtune_cuda::generate(&Schedule::new(&dag)).unwrap();
        let ptx = crate::cuda::ptx(nvrtc, &generated.unit.source, "compute_90a");
        let module = tvmtune_emulator::Module::parse(&ptx).unwrap();
        let options = tvmtune_emulator::Options::default();
        let found = emulate::run(&generated, &module, &[], &params, &[], &options).unwrap();
        assert_eq!(found[0].max_error(&expected[0], 0.0, 0.0), None, "{source}");
    }
}

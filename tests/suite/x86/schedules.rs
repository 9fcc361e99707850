//! Machine code of random schedules computes, bit for bit, what the interpreter of vector code does,
//! on memory that ends at a guard page.

use std::cell::Cell as Count;

use proptest::prelude::*;
use tvmtune_campaign::machine;
use tvmtune_cpu::interp::{RaceCheck, execute, results_of, table};
use tvmtune_cpu::vector;
use tvmtune_cpu::x86::RegisterFile;
use tvmtune_ir::dag::{self, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_runtime::raw::Threads;
use tvmtune_schedule::arbitrary::{Case, Move, any_case, any_moves, runner, scheduled};
use tvmtune_schedule::{Instruction, Schedule, nest};

use super::run;

/// The results of machine code.
fn launch(
    kernel: &vector::VectorCode,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    results: &[Array],
) -> Vec<Array> {
    let mut cells = table(kernel, dims, params, scalars, results);
    machine::launch(kernel, dims, &mut cells, RegisterFile::of(kernel.isa), Threads::All);
    results_of(kernel, &cells, params.len(), results)
}

/// Checks the machine code of a schedule; returns whether there is any.
fn check(case: &Case, schedule: &Schedule, isa: Isa) -> Result<bool, TestCaseError> {
    let Ok(kernel) = vector::lower(&nest::lower(schedule), isa) else { return Ok(false) };
    let (params, scalars) = (case.params(), case.scalars());
    let results: Vec<Array> = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
    let mut cells = table(&kernel, &case.dims, &params, &scalars, &results);
    let scratch = kernel.scratch_bytes.eval_dims(&case.dims).max(0) as usize;
    execute(&kernel, &mut cells, scratch, RaceCheck::Off).unwrap();
    let expected = results_of(&kernel, &cells, params.len(), &results);
    let found = launch(&kernel, &case.dims, &params, &scalars, &results);
    for (found, expected) in found.iter().zip(&expected) {
        let error = found.max_error(expected, 0.0, 0.0);
        prop_assert!(error.is_none(), "{error:?} {:?} {isa:?}\n{kernel}", case.dims);
    }
    Ok(true)
}

#[test]
fn code_of_random_schedules_computes_what_the_interpreter_does() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        if !run::executes(isa) {
            continue;
        }
        let (cases, ran) = (1000, Count::new(0));
        let run = |(case, moves): (Case, Vec<Move>)| {
            let schedule = scheduled(&case.dag, &moves);
            ran.set(ran.get() + usize::from(check(&case, &schedule, isa)?));
            Ok(())
        };
        runner(cases).run(&(any_case(), any_moves(15)), run).unwrap();
        assert!(ran.get() > cases as usize * 9 / 10, "only {} of {cases} ran", ran.get());
    }
}

/// A convolution whose tile keeps every register busy: what one output needs of the padded input is
/// copied to a buffer at each channel.
#[test]
fn a_tiled_convolution_is_right() {
    let dag = dsl::program(
        "#[autotune(dims(B = 1, C = 3, H = 56, W = 56, O = 64, T = 3))]
        fn conv3x3(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, B, O, H, W> {
            compute(|n, o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
    );
    let dag = dag.unwrap();
    let trace = "cache_write s0; cache_padded t0 s1; pack t3 [] [0, 2, 3, 1]; split s0 a2 [24];\
        split s0 a3 [3, 7]; split s0 a1 [2, 16]; reorder s0 [a0, a4, a6, a9, a7, a10, a5, a8, a11];\
        compute_at s1 s0 a5; annotate s0 a0 parallel; annotate s0 a4 parallel;\
        annotate s0 a6 parallel; annotate s0 a9 parallel; annotate s0 a8 unrolled;\
        annotate s0 a11 vectorized; split s1 a6 [2]; reorder s1 [a0, a2, a4, a5, a7, a8, a3, a1];\
        annotate s1 a8 unrolled; annotate s1 a3 unrolled; annotate s1 a1 vectorized;\
        pack t1 [0:16] [0, 2, 3, 4, 1]; annotate s2 a0 parallel; annotate s2 a1 parallel;\
        split s2 a3 [64]; annotate s2 a5 vectorized";
    let trace: Vec<Instruction> = trace.split(';').map(|it| it.trim().parse().unwrap()).collect();
    let schedule = Schedule::replay(&dag, &trace).unwrap();
    let params = [
        Array::whole_numbers(dag::DType::F32, &[1, 3, 56, 56], 1),
        Array::whole_numbers(dag::DType::F32, &[64, 3, 3, 3], 2),
    ];
    let expected = tvmtune_ir::interp::run(&dag, &[], &params, &[]);
    for isa in [Isa::Avx512, Isa::Avx2] {
        if run::executes(isa) {
            let kernel = vector::lower(&nest::lower(&schedule), isa).unwrap();
            let found = launch(&kernel, &[], &params, &[], &expected);
            assert_eq!(found[0].max_error(&expected[0], 0.0, 0.0), None);
        }
    }
}

/// A program over `i` rows, the lanes, and constant numbers of words of each.
#[track_caller]
fn check_rows(function: &str, words: i64, trace: &str) {
    let dims = format!("I = 1..=70, E = {words}");
    let dag = dsl::program(&format!("#[autotune(dims({dims}))] fn rows{function}")).unwrap();
    let trace: Vec<Instruction> = trace.split(';').map(|it| it.trim().parse().unwrap()).collect();
    let schedule = Schedule::replay(&dag, &trace).unwrap();
    for isa in [Isa::Avx512, Isa::Avx2].into_iter().filter(|it| run::executes(*it)) {
        let kernel = vector::lower(&nest::lower(&schedule), isa).unwrap();
        for i in [1, 4, 7, 8, 15, 16, 17, 31, 32, 33, 64, 70] {
            let dims = [i];
            let params = tvmtune_tests::arguments(&dag, &dims, Array::whole_numbers);
            let expected = tvmtune_ir::interp::run(&dag, &dims, &params, &[]);
            let found = launch(&kernel, &dims, &params, &[], &expected);
            let error = found[0].max_error(&expected[0], 0.0, 0.0);
            assert_eq!(error, None, "{i} rows of {words}\n{kernel}");
        }
    }
}

#[test]
fn phases_of_rows_are_interleaved() {
    for words in [2, 3, 4, 5, 8] {
        let index = format!("w / {words}");
        let element = format!("x[[w % {words}, {index}]] * ({index}) as f32");
        let rows = format!(
            "(x: Tensor<f32, E, I>) -> Tensor<f32, {{ I * {words} }}> {{ compute(|w| {element}) }}"
        );
        check_rows(&rows, words, "split s0 a0 [256]; annotate s0 a2 vectorized");
        check_rows(&rows, words, "split s0 a0 [30]; annotate s0 a2 vectorized");
        check_rows(&rows, words, "annotate s0 a0 vectorized");
    }
}

#[test]
fn rows_are_transposed_into_lanes_and_back() {
    let load = "(x: Tensor<f32, I, E>) -> Tensor<f32, E, I> { compute(|e, i| x[[i, e]] + 1.0) }";
    let store = "(x: Tensor<f32, E, I>) -> Tensor<f32, I, E> { compute(|i, e| x[[e, i]] + 1.0) }";
    let both = "(x: Tensor<f32, I, E>) -> Tensor<f32, I, E> { compute(|i, e| x[[i, e]] + 1.0) }";
    let sum = "(x: Tensor<f32, I, E>) -> Tensor<f32, I> { compute(|i| sum(0..E, |e| x[[i, e]])) }";
    for words in [1, 3, 4, 5, 8, 12] {
        for kind in ["serial", "unrolled"] {
            let inside = |i: u32, e: u32| {
                format!(
                    "split s0 a{i} [32]; reorder s0 [a2, a{e}, a3]; annotate s0 a2 parallel; \
                     annotate s0 a{e} {kind}; annotate s0 a3 vectorized"
                )
            };
            check_rows(load, words, &inside(1, 0));
            check_rows(store, words, &inside(0, 1));
            check_rows(both, words, &inside(0, 1));
            check_rows(sum, words, &inside(0, 1));
        }
    }
}

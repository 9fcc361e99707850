//! Programs at extreme extents, and mutated ones: what the language accepts is scheduled for every
//! device and generated, and nothing overflows on the way.
#![expect(clippy::unwrap_used, clippy::panic, reason = "what tests call is part of a test")]

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl::mutants::{Edit, N_KINDS, SEEDS, mutant};
use tvmtune_ir::dsl::{attribute, build, check_nesting, parse, program};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::nest;
use tvmtune_space::default;
use tvmtune_space::work::WorkFunction;

/// Takes a program all the way, for the whole ranges and for the largest extents alone.
fn compile(dag: &Dag) {
    let points: Vec<Interval> = dag.dims.iter().map(|it| Interval::point(it.range.hi)).collect();
    for dag in [dag, &dag.specialize(&points)] {
        for isa in [Isa::Avx512, Isa::Avx2] {
            let schedule = default::schedule(dag, &Target::generic(isa));
            let printed = tvmtune_cpu::rust::print(&nest::lower(&schedule));
            assert!(!printed.is_empty());
            let _ = tvmtune_cpu::generate(&schedule, isa);
        }
        #[cfg(feature = "cuda")]
        for name in ["cuda:sm_80", "cuda:sm_90a"] {
            let gpu = name.parse().unwrap();
            let schedule = default::schedule(dag, &Target::Gpu(gpu));
            let _ = tvmtune_cuda::generate(&schedule);
        }
        let largest: Vec<i64> = dag.dims.iter().map(|it| it.range.hi).collect();
        let work = WorkFunction::near(dag, &largest).at(&largest);
        assert!(work.bytes > 0.0, "{work:?}");
    }
}

#[track_caller]
fn check(source: &str) {
    compile(&program(source).unwrap_or_else(|it| panic!("{it}: {source}")));
}

#[test]
fn means_over_the_first_axis_are_scheduled_beside_what_reads_them() {
    for (rows, columns) in
        [("R = 4096", "D = 512"), ("R = 1..=100000", "D = 768"), ("R = 7", "D = 1..=9")]
    {
        for last in [
            "compute(|r, d| c[[r, d]] * rsqrt(v[[d]] + 1.0))",
            "compute(|r, d| (c[[r, d]] + v[[d]]) / (v[[d]] + 1.0))",
        ] {
            check(&format!(
                "#[autotune(dims({rows}, {columns}))]
                fn standardized(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {{
                    let v = compute(|d| mean(0..R, |r| x[[r, d]]));
                    let c = compute(|r, d| x[[r, d]] - v[[d]]);
                    {last}
                }}"
            ));
        }
    }
}

#[test]
fn sums_over_several_axes_of_which_none_has_parts_for_all_threads_are_scheduled() {
    for n in ["N = 2..=40", "N = 64", "N = 1..=200", "N = 33"] {
        check(&format!(
            "#[autotune(dims({n}))]
            fn total(x: Tensor<f32, N>) -> Tensor<f32> {{
                compute(|| sum((0..N, 0..N, 0..N), |k, l, m| x[[m]] * 2.0))
            }}"
        ));
    }
}

#[test]
fn ranges_up_to_the_largest_extent_are_scheduled() {
    check(
        "#[autotune(dims(T = 1..=2147483647, C = 256))]
        fn running_mean(x: Tensor<f32, T, C>) -> Tensor<f32, T, C> {
            compute(|t, c| mean(0..=t, |k| x[[k, c]]))
        }",
    );
    check(
        "#[autotune(dims(M = 1..=2147483647, N = 2147483647))]
        fn products(x: Tensor<i8, M>, y: Tensor<i8, N>) -> Tensor<i32, 2> {
            compute(|i| sum((0..M, 0..N, 0..M, 0..N), |a, b, c, d| {
                (x[[a]] as i32) * (y[[b]] as i32) * (x[[c]] as i32) * (y[[d]] as i32)
            }))
        }",
    );
    check(
        "#[autotune(dims(M = 1..=2147483647))]
        fn numbered(x: Tensor<f32, M>) -> Tensor<f32, M> {
            compute(|i| x[[M - 1 - i]] * (i * 4194304) as f32)
        }",
    );
}

#[test]
fn mutants_that_are_programs_are_generated_for_every_device() {
    let config = ProptestConfig { failure_persistence: None, ..ProptestConfig::default() };
    let cases = config.cases;
    let accepted = Cell::new(0);
    // Mostly numbers: they leave a program that is read.
    let kind = prop_oneof![3 => Just(8_u8), 1 => 0..N_KINDS];
    let edits = proptest::collection::vec((0..10_000_i64, kind, 0..10_000_usize), 1..3);
    TestRunner::new(config)
        .run(&(0..SEEDS.len(), edits), |(seed, edits)| {
            accepted.set(accepted.get() + u32::from(read(seed, &edits)));
            Ok(())
        })
        .unwrap();
    assert!(25 * accepted.get() > cases, "{}: too few mutants are programs", accepted.get());
}

/// Compiles a mutant, if it is a program.
fn read(seed: usize, edits: &[Edit]) -> bool {
    let tokens = mutant(seed, edits);
    if check_nesting(&tokens).is_err() {
        return false;
    }
    let Ok(function) = syn::parse2::<syn::ItemFn>(tokens) else { return false };
    let Some(Ok(options)) = attribute(&function).or(Some(Ok(Default::default()))) else {
        return false;
    };
    let Ok(program) = parse(options, &function) else { return false };
    compile(&build(&program).unwrap_or_else(|it| panic!("{it}")));
    true
}

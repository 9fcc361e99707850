//! Vector code of random schedules computes what the program says, in the interpreter of vector
//! code, without accesses out of bounds, uses of undefined registers, or races.

use proptest::prelude::*;
use tvmtune_cpu::vector::{self, Unsupported};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::arbitrary::{Case, Move, any_case, any_moves, runner, scheduled};
use tvmtune_schedule::{Instruction, Schedule, nest};
use tvmtune_space::default;
use tvmtune_tests::arguments;

const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

/// Checks the vector code of a schedule; returns whether there is any.
fn check(case: &Case, schedule: &Schedule, isa: Isa) -> Result<bool, TestCaseError> {
    let nest = nest::lower(schedule);
    let kernel = match vector::lower(&nest, isa) {
        Ok(kernel) => kernel,
        Err(Unsupported::Index) | Err(Unsupported::TooLarge { .. }) => return Ok(false),
        Err(other) => {
            prop_assert!(false, "{other}\n{nest}");
            return Ok(false);
        }
    };
    let (params, scalars) = (case.params(), case.scalars());
    let expected = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
    let like = |it: &Array| Array::zeros(it.dtype, &it.shape);
    let results: Vec<Array> = expected.iter().map(like).collect();
    let shown = || format!("{:?} {:?} {isa:?}\n{nest}\n{kernel}", case.family, case.dims);
    prop_assert!(vector::verify::verify(&kernel).is_empty(), "unset registers\n{}", shown());
    match tvmtune_cpu::interp::run(&kernel, &case.dims, &params, &scalars, &results) {
        Ok(results) => prop_assert!(results == expected, "wrong result\n{}", shown()),
        Err(fault) => prop_assert!(false, "{fault}\n{}", shown()),
    }
    Ok(true)
}

fn check_moves(case: &Case, moves: &[Move]) -> Result<usize, TestCaseError> {
    let schedule = scheduled(&case.dag, moves);
    let mut n_lowered = 0;
    for isa in ISAS {
        n_lowered += usize::from(check(case, &schedule, isa)?);
    }
    Ok(n_lowered)
}

#[test]
fn kernels_of_random_schedules_are_right() {
    let (cases, lowered) = (1500, std::cell::Cell::new(0));
    let run = |(case, moves): (Case, Vec<Move>)| {
        lowered.set(lowered.get() + check_moves(&case, &moves)?);
        Ok(())
    };
    runner(cases).run(&(any_case(), any_moves(15)), run).unwrap();
    let share = lowered.get() as f64 / f64::from(2 * cases);
    assert!(share > 0.95, "only {share} of the schedules have kernels");
}

#[test]
fn kernels_of_default_schedules_are_right() {
    let run = |case: Case| {
        for isa in ISAS {
            let schedule = default::schedule(&case.dag, &Target::generic(isa));
            prop_assert!(check(&case, &schedule, isa)?, "no kernel");
        }
        Ok(())
    };
    runner(500).run(&any_case(), run).unwrap();
}

/// Runs one schedule of a program at each extent of its one dynamic dimension.
#[track_caller]
fn check_rows(program: &str, trace: &[&str], rows: &[i64]) {
    let dag = dsl::program(program).unwrap();
    let trace: Vec<Instruction> = trace.iter().map(|it| it.parse().unwrap()).collect();
    let nest = nest::lower(&Schedule::replay(&dag, &trace).unwrap());
    for isa in ISAS {
        let kernel = vector::lower(&nest, isa).unwrap();
        for rows in rows {
            let dims = [*rows];
            let params = arguments(&dag, &dims, Array::whole_numbers);
            let expected = tvmtune_ir::interp::run(&dag, &dims, &params, &[]);
            let like: Vec<Array> =
                expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
            let found = tvmtune_cpu::interp::run(&kernel, &dims, &params, &[], &like);
            let found = found.unwrap_or_else(|fault| panic!("{fault}\n{nest}\n{kernel}"));
            assert_eq!(found, expected, "{rows} rows\n{nest}\n{kernel}");
        }
    }
}

/// Two rows to a tile, and both of them tasks: where there is one row, the second task must know.
#[test]
fn tasks_behind_the_last_iteration_do_nothing() {
    let program = "#[autotune(dims(M = 1..=2, N = 3))]
        fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
            compute(|i, j| x[[i, j]] + 1.0)
        }";
    check_rows(program, &["split s0 a0 [2]", "fuse s0 a2 a3", "annotate s0 a4 parallel"], &[1, 2]);
}

/// A vector of which no lane counts: what its lanes would have in common isn't there.
#[test]
fn elements_that_no_lane_needs_are_not_read() {
    let program = "#[autotune(dims(M = 1..=13, N = 8))]
        fn f(x: Tensor<f32, M, N>, y: Tensor<f32, M>) -> Tensor<f32, M, N> {
            compute(|i, j| x[[i, j]] * y[[i]])
        }";
    let trace = ["fuse s0 a0 a1", "split s0 a2 [2, 8]", "annotate s0 a5 vectorized"];
    check_rows(program, &trace, &[1, 2, 7, 13]);
}

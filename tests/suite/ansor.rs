//! Ansor's sketches: every point computes its program, or is refused for a reason.

use std::cell::Cell;

use proptest::prelude::*;
use tvmtune_cpu::vector::{self, Unsupported};
use tvmtune_cuda::grid;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Isa};
use tvmtune_schedule::arbitrary::{Case, any_case, runner};
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::{ErrorKind, Schedule, ScheduleError};
use tvmtune_space::fits;
use tvmtune_space::fits::cpu::fits;
use tvmtune_space::sketch::{Sketch, ansor};
use tvmtune_tuner::random::Random;

const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

/// An option for each decision, all equally likely.
fn any_point(sketch: &Sketch, random: &mut Random) -> Vec<u16> {
    sketch.decisions.iter().map(|it| random.below(it.options.len()) as u16).collect()
}

/// The schedule of a point; no primitive refuses, but where old elements would be read after results
/// have replaced them: published rules know nothing of results in place.
fn replayed(dag: &Dag, sketch: &Sketch, point: &[u16]) -> Option<Schedule> {
    let trace = sketch.instructions(point);
    let text = || trace.iter().map(|it| format!("{it}\n")).collect::<String>();
    match Schedule::replay(dag, &trace) {
        Ok(schedule) => Some(schedule),
        Err(ScheduleError { kind: ErrorKind::Overwritten, .. }) => None,
        Err(error) => panic!("`{}`: {error:?}\n{}", sketch.name, text()),
    }
}

/// Returns whether a nest has a kernel; if not, it is too large, or indexed in a way that has none.
fn kernel_of(nest: &Nest, isa: Isa) -> Option<vector::VectorCode> {
    match vector::lower(nest, isa) {
        Ok(kernel) => Some(kernel),
        Err(Unsupported::Index | Unsupported::TooLarge { .. }) => None,
        Err(other) => panic!("{other}\n{nest}"),
    }
}

/// The loops of a point, and what they compute.
fn check_nest(
    case: &Case,
    sketch: &Sketch,
    point: &[u16],
) -> Result<(Nest, Vec<Array>), TestCaseError> {
    let Some(schedule) = replayed(&case.dag, sketch, point) else {
        return Err(TestCaseError::reject("a result would replace what is still read"));
    };
    let nest = nest::lower(&schedule);
    let (params, scalars) = (case.params(), case.scalars());
    let expected = tvmtune_ir::interp::run(&case.dag, &case.dims, &params, &scalars);
    let text = || schedule.trace.iter().map(|it| format!("{it}\n")).collect::<String>();
    let shown = || format!("{:?} {:?} {}\n{}{nest}", case.family, case.dims, sketch.name, text());
    match tvmtune_schedule::interp::run(&nest, &case.dims, &params, &scalars) {
        Ok(results) => prop_assert!(results == expected, "wrong result\n{}", shown()),
        Err(fault) => prop_assert!(false, "{fault}\n{}", shown()),
    }
    Ok((nest, expected))
}

/// Returns whether a point has a kernel, which then is right.
fn check(case: &Case, sketch: &Sketch, point: &[u16], isa: Isa) -> Result<bool, TestCaseError> {
    let (nest, expected) = check_nest(case, sketch, point)?;
    let (params, scalars) = (case.params(), case.scalars());
    let shown = || format!("{:?} {:?} {}\n{nest}", case.family, case.dims, sketch.name);
    let Some(kernel) = kernel_of(&nest, isa) else { return Ok(false) };
    let zeros: Vec<Array> = expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
    match tvmtune_cpu::interp::run(&kernel, &case.dims, &params, &scalars, &zeros) {
        Ok(results) => prop_assert!(results == expected, "wrong result\n{}\n{kernel}", shown()),
        Err(fault) => prop_assert!(false, "{fault}\n{}\n{kernel}", shown()),
    }
    Ok(true)
}

#[test]
fn points_compute_the_program() {
    let (n_points, n_kernels) = (Cell::new(0), Cell::new(0));
    let run = |(case, seed): (Case, u64)| {
        let mut random = Random::new(seed);
        let isa = ISAS[random.below(2)];
        for sketch in ansor(&case.dag, &CpuTarget::generic(isa).into()) {
            for point in [sketch.default.clone(), any_point(&sketch, &mut random)] {
                n_points.set(n_points.get() + 1);
                let has_kernel = check(&case, &sketch, &point, isa)?;
                n_kernels.set(n_kernels.get() + u32::from(has_kernel));
            }
        }
        Ok(())
    };
    runner(300).run(&(any_case(), any::<u64>()), run).unwrap();
    let (n_points, n_kernels) = (n_points.get(), n_kernels.get());
    assert!(n_kernels * 10 > n_points * 9, "only {n_kernels} of {n_points} points have kernels");
}

/// A GPU whose limits points are checked against.
fn gpu() -> GpuTarget {
    GpuTarget::generic(Arch { sm: 80, exact: true })
}

#[test]
fn points_for_gpus_compute_the_program_and_most_have_kernels() {
    let (n_points, n_placed) = (Cell::new(0), Cell::new(0));
    let run = |(case, seed): (Case, u64)| {
        let mut random = Random::new(seed);
        for sketch in ansor(&case.dag, &gpu().into()) {
            for point in [sketch.default.clone(), any_point(&sketch, &mut random)] {
                let nest = check_nest(&case, &sketch, &point)?.0;
                n_points.set(n_points.get() + 1);
                n_placed.set(n_placed.get() + u32::from(grid::place(&nest).is_ok()));
            }
        }
        Ok(())
    };
    runner(300).run(&(any_case(), any::<u64>()), run).unwrap();
    let (n_points, n_placed) = (n_points.get(), n_placed.get());
    assert!(n_placed * 10 > n_points * 7, "only {n_placed} of {n_points} points can be placed");
}

#[test]
fn points_of_the_library_fit_gpus_or_are_refused() {
    let mut random = Random::new(5);
    for dag in library() {
        let mut n_fit = 0;
        for sketch in ansor(&dag, &gpu().into()) {
            for n in 0..6 {
                let point =
                    if n == 0 { sketch.default.clone() } else { any_point(&sketch, &mut random) };
                let nest =
                    nest::lower(&replayed(&dag, &sketch, &point).expect("no result is in place"));
                let grid = grid::place(&nest);
                n_fit += u32::from(grid.is_ok_and(|it| fits::gpu::fits(&it, &gpu()).is_ok()));
            }
        }
        assert!(n_fit >= 1, "{}", dag.name);
    }
}

/// The programs of the library of kernels.
fn library() -> Vec<Dag> {
    let sources = [
        include_str!("../../kernels/src/conv.rs"),
        include_str!("../../kernels/src/matmul.rs"),
        include_str!("../../kernels/src/rows.rs"),
    ];
    let mut dags = Vec::new();
    for source in sources {
        for item in source.split("#[autotune").skip(1) {
            let end = item.find("\n}").expect("a function ends") + 2;
            let text = format!("#[autotune{}", &item[..end]);
            dags.push(dsl::program(&text).unwrap());
        }
    }
    dags
}

#[test]
fn points_of_the_library_have_kernels_or_do_not_fit() {
    let mut random = Random::new(5);
    let target = CpuTarget::generic(Isa::Avx512);
    for dag in library() {
        let (mut n_fit, mut n_kernels) = (0, 0);
        for sketch in ansor(&dag, &target.into()) {
            for n in 0..6 {
                let point =
                    if n == 0 { sketch.default.clone() } else { any_point(&sketch, &mut random) };
                let nest =
                    nest::lower(&replayed(&dag, &sketch, &point).expect("no result is in place"));
                if fits(&nest, &target).is_ok() {
                    n_fit += 1;
                    n_kernels += u32::from(kernel_of(&nest, Isa::Avx512).is_some());
                }
            }
        }
        assert!(n_kernels >= 1 && n_kernels == n_fit, "{}: {n_kernels} of {n_fit}", dag.name);
    }
}

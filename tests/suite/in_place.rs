//! Results in place: `y: InOut<f32, M, N>`, on CPUs and on the emulator, under any schedule.

use std::path::Path;

use half::bf16;
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_plan::source::Cfg;
use tvmtune_runtime::{Cpu, Error, Weight, autotune};
use tvmtune_schedule::{Schedule, nest};
use tvmtune_tests::workload;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use crate::cuda::points::Points;
use crate::tuning;

/// The residual stream of a transformer takes up a product.
#[autotune(dims(M = 1..=37, N = 48, K = 40), buckets(M = [1, 37]))]
fn place_residual(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, y: InOut<f32, M, N>) {
    y = compute(|i, j| y[[i, j]] + sum(0..K, |k| x[[i, k]] * w[[j, k]]));
}

#[autotune(dims(M = 1..=37, D = 72))]
fn place_norm(y: InOut<f32, M, D>, g: Weight<f32, D>, eps: f32) {
    let square = compute(|i| mean(0..D, |d| y[[i, d]] * y[[i, d]]));
    y = compute(|i, d| y[[i, d]] * rsqrt(square[[i]] + eps) * g[[d]]);
}

/// Reads of each pair both elements, of which the other one is replaced as well.
#[autotune(dims(M = 1..=37, H = 3, D = 16))]
fn place_rope(y: InOut<f32, M, H, D>, c: Tensor<f32, M, 8>, s: Tensor<f32, M, 8>) {
    y = compute(|i, h, d| {
        let other = y[[i, h, (d + 8) % 16]];
        let turned = if d < 8 { -other } else { other };
        y[[i, h, d]] * c[[i, d % 8]] + turned * s[[i, d % 8]]
    });
}

/// From its assignment on, `y` is the new tensor.
#[autotune(dims(M = 1..=37, D = 72))]
fn place_add_norm(x: Tensor<f32, M, D>, y: InOut<f32, M, D>) -> Tensor<f32, M, D> {
    y = compute(|i, d| y[[i, d]] + x[[i, d]]);
    let square = compute(|i| mean(0..D, |d| y[[i, d]] * y[[i, d]]));
    compute(|i, d| y[[i, d]] * rsqrt(square[[i]] + 1e-5))
}

/// The difference needs what the sum replaces.
#[autotune(dims(N = 1..=300))]
fn place_butterfly(a: InOut<f32, N>, b: InOut<f32, N>) {
    let total = compute(|n| a[[n]] + b[[n]]);
    let difference = compute(|n| a[[n]] - b[[n]]);
    a = total;
    b = difference;
}

#[autotune(dims(N = 1..=300), types(T in [f32, bf16, i32, f64]))]
fn place_double(y: InOut<T, N>) {
    y = compute(|n| y[[n]] + y[[n]]);
}

/// The programs of this file, as a build finds them.
fn ops() -> Vec<Op> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Package::load("tvmtune-tests", folder, None, &Cfg::of_host()).unwrap();
    package.ops.into_iter().filter(|it| it.name().starts_with("place_")).collect()
}

fn op(name: &str) -> Op {
    ops().into_iter().find(|it| it.name() == name).unwrap()
}

/// Random parameters of a program, and its results.
fn drawn(op: &Op, dims: &[i64]) -> (Vec<Array>, Vec<Number>, Vec<Array>) {
    let params = tvmtune_tests::arguments(&op.dag, dims, Array::random);
    let scalars: Vec<Number> = op.dag.scalars.iter().map(|_| Number::Float(0.25)).collect();
    let expected = interp::run(&op.dag, dims, &params, &scalars);
    (params, scalars, expected)
}

fn floats(array: &Array) -> Vec<f32> {
    (0..array.len()).map(|n| array.get(n).to_f64() as f32).collect()
}

#[track_caller]
fn check(found: &[f32], expected: &Array) {
    let found = Array::from_f32(&expected.shape, found.to_vec());
    assert_eq!(found.max_error(expected, 1e-4, 1e-5), None);
}

#[test]
fn a_launch_replaces_its_argument() {
    let cpu = Cpu::new();
    for m in [1, 2, 16, 37] {
        let (params, _, expected) = drawn(&op("place_residual"), &[m]);
        let (x, w) = (floats(&params[0]), Weight::new(floats(&params[1])));
        let mut y = floats(&params[2]);
        place_residual(&cpu, &x, &w, &mut y).unwrap();
        check(&y, &expected[0]);
        let mut y = floats(&params[2]);
        let dims = place_residual::Dims { m: m as usize };
        place_residual::reference(dims, &x, &w, &mut y).unwrap();
        check(&y, &expected[0]);

        let (params, _, expected) = drawn(&op("place_norm"), &[m]);
        let mut y = floats(&params[0]);
        place_norm(&cpu, &mut y, &floats(&params[1]), 0.25).unwrap();
        check(&y, &expected[0]);

        let (params, _, expected) = drawn(&op("place_rope"), &[m]);
        let mut y = floats(&params[0]);
        place_rope(&cpu, &mut y, &floats(&params[1]), &floats(&params[2])).unwrap();
        check(&y, &expected[0]);

        let (params, _, expected) = drawn(&op("place_add_norm"), &[m]);
        let (mut y, mut out) = (floats(&params[1]), vec![f32::NAN; expected[1].len()]);
        place_add_norm(&cpu, &floats(&params[0]), &mut y, &mut out).unwrap();
        check(&y, &expected[0]);
        check(&out, &expected[1]);
    }
}

#[test]
fn the_spec_says_which_parameters_are_replaced() {
    let marks = |spec: tvmtune_runtime::Spec| -> Vec<(&str, bool, bool)> {
        spec.params.iter().map(|it| (it.name, it.weight, it.in_place)).collect()
    };
    let residual = [("x", false, false), ("w", true, false), ("y", false, true)];
    assert_eq!(marks(place_residual::SPEC), residual);
    assert_eq!(place_residual::SPEC.outputs, []);
    assert_eq!(marks(place_add_norm::SPEC), [("x", false, false), ("y", false, true)]);
    assert_eq!(place_add_norm::SPEC.outputs.len(), 1);
}

#[test]
fn several_arguments_and_types_are_replaced() {
    let cpu = Cpu::new();
    let (mut a, mut b) = ([5.0_f32, 1.0, -2.0], [2.0_f32, 4.0, 1.0]);
    place_butterfly(&cpu, &mut a, &mut b).unwrap();
    assert_eq!((a, b), ([7.0, 5.0, -1.0], [3.0, -3.0, -3.0]));
    let (mut ints, mut small, mut wide) = ([3, -4], [bf16::from_f32(1.5); 5], [0.1_f64; 2]);
    place_double(&cpu, &mut ints).unwrap();
    place_double(&cpu, &mut small).unwrap();
    place_double(&cpu, &mut wide).unwrap();
    assert_eq!((ints, small[4].to_f32(), wide), ([6, -8], 3.0, [0.2; 2]));
}

#[test]
#[expect(unsafe_code, reason = "what is tested is for addresses")]
fn raw_addresses_of_what_is_replaced_overlap_nothing_else() {
    let mut y = [1.0_f32; 72];
    let g = [2.0_f32; 72];
    let kernel = place_norm::load(&Cpu::new()).unwrap();
    let launch = |y: *mut f32, g: *const f32| {
        // SAFETY: both are addresses of 72 elements, or refused.
        unsafe { kernel.launch_raw(&Cpu::new(), place_norm::Dims { m: 1 }, y, g, 0.0) }
    };
    let at = y.as_mut_ptr();
    let overlap = Error::Overlap { kernel: "place_norm", a: "y", b: "g" };
    assert_eq!(launch(at, at.cast_const().wrapping_add(71)), Err(overlap));
    assert_eq!(launch(at, g.as_ptr()), Ok(()));
    assert_eq!(y, [2.0; 72]);
}

/// Checks points of all sketches on a CPU: loops, vector code.
#[test]
fn all_sketches_replace_in_place_on_cpus() {
    for op in ops() {
        let target = CpuTarget::generic(Isa::Avx2).into();
        let space = Space::new(&op.dag, &target);
        let mut random = Random::new(7);
        for n in 0..40 {
            let dims: Vec<i64> = op.dag.dims.iter().map(|it| it.range.hi - n % 5 * 3).collect();
            let (params, scalars, expected) = drawn(&op, &dims);
            let instructions = space.instructions(&space.random(&mut random));
            let Ok(schedule) = Schedule::replay(&op.dag, &instructions) else { continue };
            let nest = nest::lower(&schedule);
            assert_eq!(nest::verify(&nest), [], "{nest}");
            let found = tvmtune_schedule::interp::run(&nest, &dims, &params, &scalars);
            let found = found.unwrap_or_else(|it| panic!("{it}\n{nest}"));
            let Ok(code) = vector::lower(&nest, Isa::Avx2) else { continue };
            let vectors = tvmtune_cpu::interp::run(&code, &dims, &params, &scalars, &expected);
            let vectors = vectors.unwrap_or_else(|it| panic!("{it}\n{nest}"));
            for (n, expected) in expected.iter().enumerate() {
                let (rel, abs) = tolerance(expected.dtype);
                assert_eq!(found[n].max_error(expected, rel, abs), None, "{nest}");
                assert_eq!(vectors[n].max_error(expected, rel, abs), None, "{nest}\n{code}");
            }
        }
    }
}

fn tolerance(dtype: DType) -> (f64, f64) {
    if dtype == DType::Bf16 { (2e-2, 2e-2) } else { (1e-4, 1e-4) }
}

/// Checks points of all sketches on the emulator, which reports races.
fn check_on_gpu(source: &str, dims: &[&[i64]], n_random: usize) {
    let arguments = |dag: &Dag, dims: &[i64]| tvmtune_tests::arguments(dag, dims, Array::random);
    let share = Points { source, dims, n_random, seed: 3 }.check(arguments, |found, expected| {
        let (rel, abs) = tolerance(expected.dtype);
        found.max_error(expected, rel, abs)
    });
    assert!(share.is_none_or(|it| it > 0.5), "{share:?} of all points");
}

#[test]
fn products_are_added_in_place_on_gpus() {
    for (dtype, k) in [("bf16", 64), ("f32", 40)] {
        let source = format!(
            "#[autotune(dims(M = 1..=140, N = 96, K = {k}))]
            fn residual(x: Tensor<{dtype}, M, K>, w: Weight<{dtype}, N, K>, y: InOut<{dtype}, M, N>) {{
                y = compute(|i, j| y[[i, j]] + sum(0..K, |k| x[[i, k]] * w[[j, k]]));
            }}"
        );
        check_on_gpu(&source, &[&[140], &[1], &[67]], 12);
    }
}

#[test]
fn rows_are_replaced_in_place_on_gpus() {
    let norm = "#[autotune(dims(M = 1..=9, D = 520))]
        fn norm(y: InOut<f32, M, D>, g: Weight<f32, D>) {
            let square = compute(|i| mean(0..D, |d| y[[i, d]] * y[[i, d]]));
            y = compute(|i, d| y[[i, d]] * rsqrt(square[[i]] + 1e-5) * g[[d]]);
        }";
    let rope = "#[autotune(dims(M = 1..=9, H = 3, D = 64))]
        fn rope(y: InOut<f32, M, H, D>, c: Tensor<f32, M, 32>, s: Tensor<f32, M, 32>) {
            y = compute(|i, h, d| {
                let other = y[[i, h, (d + 32) % 64]];
                let turned = if d < 32 { -other } else { other };
                y[[i, h, d]] * c[[i, d % 32]] + turned * s[[i, d % 32]]
            });
        }";
    let columns = "#[autotune(dims(M = 1..=70, D = 33))]
        fn columns(y: InOut<f32, M, D>) {
            let total = compute(|d| sum(0..M, |i| y[[i, d]]));
            y = compute(|i, d| y[[i, d]] - total[[d]]);
        }";
    // Both branches of a choice read the same element, by one load.
    let turn = rope
        .replace("rope(y: InOut<f32, M, H, D>", "turn(y: Tensor<f32, M, H, D>")
        .replace("s: Tensor<f32, M, 32>)", "s: Tensor<f32, M, 32>) -> Tensor<f32, M, H, D>")
        .replace("y = compute", "compute")
        .replace("});", "})");
    check_on_gpu(&turn, &[&[9], &[1]], 12);
    check_on_gpu(norm, &[&[9], &[1], &[4]], 12);
    check_on_gpu(rope, &[&[9], &[1], &[4]], 12);
    check_on_gpu(columns, &[&[70], &[1], &[64]], 12);
}

/// A search accepts schedules of programs that replace what they read, however often candidates run:
/// each is checked on elements as they were at first.
#[test]
fn programs_in_place_are_tuned() {
    let decay = "#[autotune(dims(M = 1..=33, D = 130))]
        fn decay(y: InOut<f32, M, D>, x: Tensor<f32, M, D>) {
            let norm = compute(|i| sum(0..D, |d| y[[i, d]] * y[[i, d]]));
            y = compute(|i, d| 0.5 * y[[i, d]] * y[[i, d]] / (norm[[i]] + 1.0) + x[[i, d]]);
        }";
    let Some(machine) = tuning::Machine::new() else { return };
    let summary = machine.tune_all(&[workload(decay)], &machine.options(30));
    assert_eq!((summary.results.len(), summary.skipped.len()), (1, 0), "{summary:?}");
}

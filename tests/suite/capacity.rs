//! Tensors with room for more than is used: `S = T..=8192`, at awkward extents, on CPUs and on the
//! emulator, under any schedule. What is beyond is NaN wherever results would show it.

use std::path::Path;

use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{Dag, Number};
use tvmtune_ir::interp::{self, Array};
use tvmtune_ir::target::{self, CpuTarget};
use tvmtune_plan::source::Cfg;
use tvmtune_runtime::{Cpu, Error, Isa, Weight, autotune};
use tvmtune_schedule::{Schedule, nest};
use tvmtune_tests::workload;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;

use crate::cuda::points::Points;
use crate::tuning;

/// Rows that are `S` apart, times a weight.
#[autotune(dims(M = 1..=9, N = 24, T = 1..=70, S = T..=131), buckets(T = [16, 70], S = [32, 131]))]
fn room_product(x: Tensor<f32, M, S>, w: Weight<f32, N, T>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..T, |k| x[[i, k]] * w[[j, k]]))
}

/// The softmax of the first elements of each row: `M` and `T` follow from the result and from `b`, and
/// `S` from `x`.
#[autotune(dims(M = 1..=9, T = 1..=70, S = T..=131))]
fn room_softmax(x: Tensor<f32, M, S>, b: Tensor<f32, T>) -> Tensor<f32, M, T> {
    let m = compute(|i| max(0..T, |t| x[[i, t]] + b[[t]]));
    let e: Tensor<f32, M, T> = compute(|i, t| exp(x[[i, t]] + b[[t]] - m[[i]]));
    let s = compute(|i| sum(0..T, |t| e[[i, t]]));
    compute(|i, t| e[[i, t]] / s[[i]])
}

/// A decode step: one query, and a cache that has room for more tokens.
#[autotune(dims(H = 3, D = 16, T = 1..=70, CAP = T..=131), buckets(T = [8, 70]))]
fn room_decode(
    q: Tensor<f32, H, D>,
    k: Tensor<f32, H, CAP, D>,
    v: Tensor<f32, H, CAP, D>,
) -> Tensor<f32, H, D> {
    let s: Tensor<f32, H, T> = compute(|h, t| sum(0..D, |d| q[[h, d]] * k[[h, t, d]]));
    let m = compute(|h| max(0..T, |t| s[[h, t]]));
    let e: Tensor<f32, H, T> = compute(|h, t| exp(s[[h, t]] - m[[h]]));
    let n = compute(|h| sum(0..T, |t| e[[h, t]]));
    compute(|h, d| sum(0..T, |t| e[[h, t]] * v[[h, t, d]]) / n[[h]])
}

/// A block of columns in the middle of a wider matrix, known at launch but for where it begins.
#[autotune(dims(M = 1..=9, D = 24, S = 2 * D..=131))]
fn room_columns(x: Tensor<f32, M, S>) -> Tensor<f32, M, D> {
    compute(|i, d| silu(x[[i, D + d]]))
}

/// Rows of whole vectors: room for `T` in fours.
#[autotune(dims(M = 1..=9, T = 1..=70, B = (T + 3) / 4..=33))]
fn room_fours(x: Tensor<f32, M, { B * 4 }>, b: Tensor<f32, T>) -> Tensor<f32, M, T> {
    compute(|i, t| x[[i, t]] * b[[t]])
}

/// Only the first elements of each row matter, and the room is replaced as it is.
#[autotune(dims(M = 1..=9, T = 1..=70, S = T..=131))]
fn room_update(y: InOut<f32, M, S>, b: Tensor<f32, T>) {
    y = compute(|i, s| if s < T { y[[i, s]] + b[[s]] } else { y[[i, s]] });
}

/// Pairs of what is used and what there is room for.
const ROWS: [(usize, usize); 11] = [
    (1, 1),
    (1, 2),
    (1, 131),
    (16, 16),
    (17, 32),
    (17, 33),
    (31, 32),
    (67, 67),
    (67, 71),
    (70, 70),
    (70, 131),
];

fn cpus() -> [Cpu; 3] {
    [Cpu::new(), Cpu::new().at_most(Isa::Avx2), Cpu::new().at_most(Isa::Portable)]
}

fn value(n: usize) -> f32 {
    (n.wrapping_mul(2_654_435_761) >> 9) as f32 % 17.0 / 8.0 - 1.0
}

/// A matrix whose rows have `used` numbers, and NaNs up to `room`.
fn rows(m: usize, used: usize, room: usize) -> Vec<f32> {
    (0..m * room).map(|n| if n % room < used { value(n) } else { f32::NAN }).collect()
}

#[track_caller]
fn check(found: &[f32], expected: &[f32], shown: impl std::fmt::Debug) {
    assert_eq!(found.len(), expected.len());
    for (n, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() <= 1e-4, "{shown:?} at {n}: {found}, {expected}");
    }
}

#[test]
fn products_of_rows_that_are_apart() {
    for (m, (t, s)) in [1, 2, 7, 9].into_iter().flat_map(|m| ROWS.map(|it| (m, it))) {
        let (x, w) = (rows(m, t, s), rows(24, t, t));
        let dot = |i: usize, j: usize| (0..t).map(|k| x[i * s + k] * w[j * t + k]).sum::<f32>();
        let expected: Vec<f32> = (0..m * 24).map(|n| dot(n / 24, n % 24)).collect();
        let w = Weight::new(w);
        for cpu in cpus() {
            let mut y = vec![f32::NAN; m * 24];
            let kernel = room_product::load(&cpu).unwrap();
            kernel.launch(&cpu, room_product::Dims { m, s, t }, &x, &w, &mut y).unwrap();
            check(&y, &expected, (m, t, s));
            // All three follow from lengths: `M` from the result, and the others from `M`.
            let mut y = vec![f32::NAN; m * 24];
            room_product(&cpu, &x, &w, &mut y).unwrap();
            check(&y, &expected, (m, t, s));
        }
    }
}

#[test]
fn softmax_and_fours_of_rows_that_are_apart() {
    for (m, (t, s)) in [1, 4, 9].into_iter().flat_map(|m| ROWS.map(|it| (m, it))) {
        let (x, b) = (rows(m, t, s), rows(1, t, t));
        let at = |i: usize, k: usize| (x[i * s + k] + b[k]).exp();
        let total = |i: usize| (0..t).map(|k| at(i, k)).sum::<f32>();
        let expected: Vec<f32> = (0..m * t).map(|n| at(n / t, n % t) / total(n / t)).collect();
        let room = t.div_ceil(4) + s % 3;
        let wide = rows(m, t, room * 4);
        let fours: Vec<f32> =
            (0..m * t).map(|n| wide[n / t * room * 4 + n % t] * b[n % t]).collect();
        for cpu in cpus() {
            let mut y = vec![f32::NAN; m * t];
            room_softmax(&cpu, &x, &b, &mut y).unwrap();
            check(&y, &expected, (m, t, s));
            y.fill(f32::NAN);
            room_fours(&cpu, &wide, &b, &mut y).unwrap();
            check(&y, &fours, (m, t, room));
        }
    }
}

#[test]
fn a_cache_with_room_and_a_block_of_columns() {
    for (t, cap) in ROWS {
        let (q, d) = (rows(1, 48, 48), 16);
        let [k, v] = [1, 2].map(|seed| {
            let used = |n: usize| n / d % cap < t;
            let element = |n: usize| if used(n) { value(n * 2 + seed) } else { f32::NAN };
            (0..3 * cap * d).map(element).collect::<Vec<f32>>()
        });
        let mut expected = Vec::new();
        for h in 0..3 {
            let row = |of: &[f32], t: usize, at: usize| of[(h * cap + t) * d + at];
            let score = |t: usize| (0..d).map(|at| q[h * d + at] * row(&k, t, at)).sum::<f32>();
            let total: f32 = (0..t).map(|t| score(t).exp()).sum();
            expected
                .extend((0..d).map(|at| {
                    (0..t).map(|t| score(t).exp() * row(&v, t, at)).sum::<f32>() / total
                }));
        }
        for cpu in cpus() {
            let mut y = vec![f32::NAN; 48];
            room_decode(&cpu, room_decode::Dims { cap, t }, &q, &k, &v, &mut y).unwrap();
            check(&y, &expected, (t, cap));
        }
    }
    for (m, s) in [(1, 48), (2, 49), (9, 127), (9, 131)] {
        let x: Vec<f32> = (0..m * s).map(value).collect();
        let silu = |it: f32| it / (1.0 + (-it).exp());
        let expected: Vec<f32> = (0..m * 24).map(|n| silu(x[n / 24 * s + 24 + n % 24])).collect();
        for cpu in cpus() {
            let mut y = vec![f32::NAN; m * 24];
            room_columns(&cpu, &x, &mut y).unwrap();
            check(&y, &expected, (m, s));
        }
    }
}

#[test]
fn the_used_part_of_a_matrix_is_replaced() {
    for (m, (t, s)) in [1, 9].into_iter().flat_map(|m| ROWS.map(|it| (m, it))) {
        let before: Vec<f32> = (0..m * s).map(value).collect();
        let b: Vec<f32> = (0..t).map(|n| value(n + 7)).collect();
        let expected: Vec<f32> =
            (0..m * s).map(|n| before[n] + b.get(n % s).copied().unwrap_or_default()).collect();
        for cpu in cpus() {
            let mut y = before.clone();
            let kernel = room_update::load(&cpu).unwrap();
            kernel.launch(&cpu, room_update::Dims { m, s, t }, &mut y, &b).unwrap();
            check(&y, &expected, (m, t, s));
        }
    }
}

#[test]
fn less_room_than_is_used_is_an_error() {
    let cpu = Cpu::new();
    let (q, cache) = ([1.0; 48], vec![1.0; 3 * 16 * 16]);
    let launch = |t, cap, cache: &[f32]| {
        room_decode(&cpu, room_decode::Dims { cap, t }, &q, cache, cache, &mut [0.0; 48])
    };
    let error = launch(17, 16, &cache).unwrap_err();
    let expected =
        Error::BelowLowerEnd { kernel: "room_decode", dim: "CAP", got: 16, end: "T", least: 17 };
    assert_eq!(error, expected);
    assert_eq!(
        error.to_string(),
        "`room_decode`: dimension `CAP` is 16, and it is at least `T`, which is 17 in this launch; \
         give the tensors room for more, or launch on less"
    );
    launch(16, 16, &cache).unwrap();
    assert!(matches!(launch(16, 17, &cache), Err(Error::Length { .. })));
    assert!(matches!(launch(16, 132, &cache), Err(Error::OutOfRange { dim: "CAP", .. })));
    assert!(matches!(launch(0, 16, &cache), Err(Error::OutOfRange { dim: "T", .. })));
    let plan = |t, cap| room_decode::plan(room_decode::Dims { cap, t }).map(|it| it.bucket);
    assert!(matches!(plan(7, 5), Err(Error::BelowLowerEnd { got: 5, least: 7, .. })));
    assert_eq!(plan(9, 9), Ok(&[(9, 131), (9, 70)][..]));
    // Inferred dimensions are checked as well: rows of 8 where 9 are used.
    let error = room_softmax(&cpu, &[1.0; 16], &[1.0; 9], &mut [0.0; 18]).unwrap_err();
    assert!(matches!(error, Error::BelowLowerEnd { dim: "S", got: 8, least: 9, .. }), "{error}");
    let error = room_fours(&cpu, &[1.0; 16], &[1.0; 9], &mut [0.0; 18]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "`room_fours`: dimension `B` is 2, and it is at least `(T + 3) / 4`, which is 3 in this \
         launch; give the tensors room for more, or launch on less"
    );
}

/// The programs of this file, as a build finds them.
fn ops() -> Vec<Op> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let package = Package::load("tvmtune-tests", folder, None, &Cfg::of_host()).unwrap();
    package.ops.into_iter().filter(|it| it.name().starts_with("room_")).collect()
}

/// Random arguments with NaN wherever the program of that name reads nothing.
fn poisoned(dag: &Dag, dims: &[i64]) -> Vec<Array> {
    let t = dag.dims.iter().position(|it| it.name == "T").map_or(0, |n| dims[n] as usize);
    let mut params = tvmtune_tests::arguments(dag, dims, Array::random);
    for (n, param) in params.iter_mut().enumerate() {
        let used = match (dag.name.as_str(), n) {
            ("room_product" | "room_softmax" | "room_fours", 0) => 0..t,
            ("room_decode" | "room_attention", 1 | 2) => 0..t,
            ("room_columns", 0) => 24..48,
            ("room_halves", 1) => 0..64,
            _ => 0..usize::MAX,
        };
        let shape = param.shape.clone();
        let inner: u64 = shape.iter().skip(2).product();
        for at in 0..param.len() {
            let second = shape.get(1).map_or(0, |room| at / inner as usize % *room as usize);
            if !used.contains(&second) {
                param.set(at, Number::Float(f64::NAN));
            }
        }
    }
    params
}

fn is_finite(array: &Array) -> bool {
    (0..array.len()).all(|n| array.get(n).to_f64().is_finite())
}

#[test]
fn buckets_hold_launches_only() {
    let ops = ops();
    let product = ops.iter().find(|it| it.name() == "room_product").unwrap();
    let ends: Vec<_> =
        product.buckets.iter().map(|it| (it[1].lo, it[1].hi, it[2].lo, it[2].hi)).collect();
    // `M`, `S`, `T`: the order in which parameters mention them.
    assert_eq!(ends, [(1, 32, 1, 16), (17, 32, 17, 32), (33, 131, 1, 16), (33, 131, 17, 70)]);
}

/// Checks points of all sketches on a CPU: loops, vector code.
#[test]
fn all_sketches_leave_the_room_alone() {
    let mut n_vectors = 0;
    for op in ops() {
        let target = CpuTarget::generic(target::Isa::Avx2).into();
        let mut random = Random::new(11);
        for bucket in &op.buckets {
            let dag = op.dag.specialize(bucket);
            let space = Space::new(&dag, &target);
            for n in 0..25_i64 {
                let inside = |(at, it): (i64, &tvmtune_ir::poly::Interval)| match (n + at) % 4 {
                    0 => it.lo,
                    1 => it.hi,
                    _ => it.lo + (n * 29 + at * 17) % (it.hi - it.lo + 1),
                };
                let dims: Vec<i64> = (0..).zip(bucket).map(inside).collect();
                let dims = dag.raised_to_lower_ends(&dims);
                let params = poisoned(&dag, &dims);
                let expected = interp::run(&dag, &dims, &params, &[]);
                assert!(expected.iter().all(is_finite), "{}", dag.name);
                let instructions = space.instructions(&space.random(&mut random));
                let Ok(schedule) = Schedule::replay(&dag, &instructions) else { continue };
                let nest = nest::lower(&schedule);
                assert_eq!(nest::verify(&nest), [], "{nest}");
                let found = tvmtune_schedule::interp::run(&nest, &dims, &params, &[]);
                let found = found.unwrap_or_else(|it| panic!("{it}\n{nest}"));
                let Ok(code) = vector::lower(&nest, target::Isa::Avx2) else { continue };
                n_vectors += 1;
                let vectors = tvmtune_cpu::interp::run(&code, &dims, &params, &[], &expected);
                let vectors = vectors.unwrap_or_else(|it| panic!("{it}\n{nest}"));
                for (n, expected) in expected.iter().enumerate() {
                    assert_eq!(found[n].max_error(expected, 1e-4, 1e-4), None, "{nest}");
                    assert_eq!(vectors[n].max_error(expected, 1e-4, 1e-4), None, "{nest}\n{code}");
                }
            }
        }
    }
    assert!(n_vectors > 150, "{n_vectors} schedules have vector code");
}

/// Checks points of all sketches on the emulator, which reports accesses out of bounds.
fn check_on_gpu(source: &str, dims: &[&[i64]], n_random: usize, abs: f64) {
    let share = Points { source, dims, n_random, seed: 5 }.check(poisoned, |found, expected| {
        assert!(is_finite(expected));
        found.max_error(expected, 1e-4, abs)
    });
    assert!(share.is_none_or(|it| it > 0.25), "{share:?} of all points");
}

#[test]
fn gpus_leave_the_room_alone() {
    let product = "#[autotune(dims(M = 1..=70, N = 48, T = 16..=70, S = T..=131))]
        fn room_product(x: Tensor<f32, M, S>, w: Tensor<f32, N, T>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..T, |k| x[[i, k]] * w[[j, k]]))
        }";
    check_on_gpu(product, &[&[1, 16, 16], &[67, 71, 67], &[70, 131, 64]], 8, 1e-4);
    // Rows of whole 16 bytes, which vectors and tensor maps need.
    let halves = "#[autotune(dims(M = 1..=140, N = 96, K = 64, B = 8..=20))]
        fn room_halves(x: Tensor<bf16, M, { B * 8 }>, w: Tensor<bf16, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] as f32 * w[[j, k]] as f32))
        }"
    .replace("x: Tensor", "b: Tensor<f32, B>, x: Tensor")
    .replace("w[[j, k]] as f32)", "w[[j, k]] as f32) + b[[0]]");
    check_on_gpu(&halves, &[&[8, 140], &[9, 67], &[20, 1]], 8, 1e-4);
    let decode = "#[autotune(dims(H = 3, D = 32, T = 1..=70, CAP = T..=131))]
        fn room_decode(q: Tensor<f32, H, D>, k: Tensor<f32, H, CAP, D>, v: Tensor<f32, H, CAP, D>)
            -> Tensor<f32, H, D>
        {
            let s: Tensor<f32, H, T> = compute(|h, t| sum(0..D, |d| q[[h, d]] * k[[h, t, d]]));
            let m = compute(|h| max(0..T, |t| s[[h, t]]));
            let e: Tensor<f32, H, T> = compute(|h, t| exp(s[[h, t]] - m[[h]]));
            let n = compute(|h| sum(0..T, |t| e[[h, t]]));
            compute(|h, d| sum(0..T, |t| e[[h, t]] * v[[h, t, d]]) / n[[h]])
        }";
    check_on_gpu(decode, &[&[131, 70], &[70, 70], &[3, 1]], 8, 1e-4);
}

/// Queries of several tokens, as a prompt has them, by tensor cores.
#[test]
fn attention_over_a_cache_on_gpus() {
    let attention =
        "#[autotune(dims(H = 2, M = 1..=70, D = 64, T = 1..=70, CAP = T..=131), tol(rel = 2e-2))]
        fn room_attention(
            q: Tensor<bf16, H, M, D>, k: Tensor<bf16, H, CAP, D>, v: Tensor<bf16, H, CAP, D>,
        ) -> Tensor<f32, H, M, D> {
            let s: Tensor<f32, H, M, T> =
                compute(|h, i, t| sum(0..D, |d| q[[h, i, d]] as f32 * k[[h, t, d]] as f32) * 0.125);
            let m = compute(|h, i| max(0..T, |t| s[[h, i, t]]));
            let e: Tensor<bf16, H, M, T> = compute(|h, i, t| exp(s[[h, i, t]] - m[[h, i]]) as bf16);
            let n = compute(|h, i| sum(0..T, |t| e[[h, i, t]] as f32));
            compute(|h, i, d| {
                sum(0..T, |t| e[[h, i, t]] as f32 * v[[h, t, d]] as f32) / n[[h, i]]
            })
        }";
    // Exponentials that lie between two halves are rounded either way.
    check_on_gpu(attention, &[&[70, 131, 70], &[67, 70, 67], &[33, 40, 17]], 4, 4e-3);
}

/// Candidates are verified at extents of launches, in each bucket that has some.
#[test]
fn programs_with_room_are_tuned() {
    let rows = "#[autotune(dims(M = 1..=9, T = 1..=70, S = T..=131), buckets(T = [16, 70], S = [32, 131]))]
        fn rows(x: Tensor<f32, M, S>, b: Tensor<f32, T>) -> Tensor<f32, M, T> {
            let m = compute(|i| max(0..T, |t| x[[i, t]]));
            compute(|i, t| x[[i, t]] - m[[i]] + b[[t]])
        }";
    let Some(machine) = tuning::Machine::new() else { return };
    let workload = workload(rows);
    let summary = machine.tune_all(std::slice::from_ref(&workload), &machine.options(40));
    assert_eq!((summary.results.len(), summary.skipped.len()), (4, 0), "{summary:?}");
    tuning::check_record(&machine, &workload, machine.target.isa);
}

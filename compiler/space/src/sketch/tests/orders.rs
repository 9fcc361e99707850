//! Programs whose author wrote an order of reductions: every schedule has the bits of the definition, in
//! vector code of each width, which is interpreted.

use std::cell::Cell;

use proptest::prelude::*;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{DType, Dag, Number, WrittenOrder, print};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::{Array, run_in_order};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::arbitrary::{Case, Move, any_case, any_moves, any_order, runner, scheduled};
use tvmtune_schedule::{LoopKind, ReductionOrder, Schedule, nest};

use super::programs::{any_point, random};
use crate::default;
use crate::sketch::sketches;

const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

const ORDERS: [&str; 7] = [
    "sequence",
    "lanes(2)",
    "lanes(32)",
    "lanes(128)",
    "blocks(8)",
    "blocks(8, lanes(32))",
    "blocks(37, lanes(16))",
];

/// Arguments of a program, with its results by definition.
struct Launch {
    dims: Vec<i64>,
    params: Vec<Array>,
    scalars: Vec<Number>,
    expected: Vec<Array>,
}

impl Launch {
    fn new(dag: &Dag, dims: &[i64], number: &mut dyn FnMut() -> f32) -> Self {
        let mut param = |id| {
            let tensor = dag.tensor(id);
            let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
            let n = shape.iter().product::<u64>();
            match tensor.dtype {
                DType::F32 => Array::from_f32(&shape, (0..n).map(|_| number()).collect()),
                dtype if dtype.is_float() => Array::random(dtype, &shape, n),
                dtype => Array::whole_numbers(dtype, &shape, n),
            }
        };
        let params: Vec<Array> = dag.params().map(&mut param).collect();
        let scalar = |it: &tvmtune_ir::dag::Scalar| Number::Float(0.5).cast(it.dtype);
        let scalars: Vec<Number> = dag.scalars.iter().map(scalar).collect();
        let expected = run_in_order(dag, dims, &params, &scalars);
        Self { dims: dims.to_vec(), params, scalars, expected }
    }

    /// Returns whether code of a schedule has the bits of the definition, with lanes that are reduced by
    /// halves as one instruction of vector code and statement by statement; `None` if there is none.
    fn has_bits(&self, schedule: &Schedule, isa: Isa) -> Option<bool> {
        let like = |it: &Array| Array::zeros(it.dtype, &it.shape);
        let like: Vec<Array> = self.expected.iter().map(like).collect();
        let mut has_bits = true;
        for nest in [nest::lower_for_lanes(schedule), nest::lower(schedule)] {
            let code = vector::lower(&nest, isa).ok()?;
            let Self { dims, params, scalars, .. } = self;
            let got = tvmtune_cpu::interp::run(&code, dims, params, scalars, &like).unwrap();
            has_bits &= bits(&got) == bits(&self.expected);
        }
        Some(has_bits)
    }
}

/// The bits of results, with one NaN for all of them: which one it is depends on the order of operands.
fn bits(results: &[Array]) -> Vec<Vec<u8>> {
    let of_float = |it: &[u8]| {
        let value = f32::from_le_bytes(it.try_into().unwrap());
        if value.is_nan() { f32::NAN.to_le_bytes() } else { value.to_le_bytes() }
    };
    let of_array = |it: &Array| match it.dtype {
        DType::F32 => it.bytes().chunks(4).flat_map(of_float).collect(),
        _ => it.bytes(),
    };
    results.iter().map(of_array).collect()
}

/// Numbers from -1 to 1.
fn ordinary(seed: u64) -> impl FnMut() -> f32 {
    let mut below = random(seed);
    move || below(1 << 24) as f32 / (1 << 23) as f32 - 1.0
}

/// Numbers that break kernels: zeros of both signs, huge and tiny ones, ones that cancel.
fn hostile(seed: u64) -> impl FnMut() -> f32 {
    let mut below = random(seed);
    let kinds: [&[f32]; 4] = [
        &[0.0, -0.0],
        &[1e38, -1e38, 1e30, 1.0],
        &[1e-45, -1e-40, 3e-39, -0.0],
        &[1e8, -1e8, 1.5, 1e-3, -1.0],
    ];
    let kind = kinds[below(kinds.len())];
    move || kind[below(kind.len())]
}

/// The default schedule, the initial one, and random points of the first sketches.
fn schedules(dag: &Dag, isa: Isa, seed: u64) -> Vec<Schedule> {
    let target = Target::generic(isa);
    let mut below = random(seed);
    let mut all = vec![Schedule::new(dag), default::schedule(dag, &target)];
    for sketch in sketches(dag, &target).into_iter().take(4) {
        let point = any_point(&sketch, &mut below);
        all.extend(Schedule::replay(dag, &sketch.instructions(&point)));
    }
    all
}

/// Checks schedules of a program with each order, for its whole range and for parts of it.
#[track_caller]
fn check(source: &str, extents: &[i64]) {
    let mut n_orders = 0;
    for order in ORDERS {
        let option = format!("autotune(order = \"{order}\", ");
        // Some orders say nothing of some programs.
        let Ok(dag) = dsl::program(&source.replacen("autotune(", &option, 1)) else { continue };
        n_orders += 1;
        let largest = dag.dims[0].range.hi;
        for extent in extents {
            let seed = *extent as u64;
            let launches = [
                Launch::new(&dag, &[*extent], &mut ordinary(seed)),
                Launch::new(&dag, &[*extent], &mut hostile(seed)),
            ];
            for (lo, hi) in [(1, largest), (*extent, *extent), (extent - extent / 4, *extent)] {
                let dag = dag.specialize(&[Interval { lo, hi }]);
                for isa in ISAS {
                    for schedule in schedules(&dag, isa, seed) {
                        for launch in &launches {
                            let found = launch.has_bits(&schedule, isa);
                            let shown = (order, isa, extent, lo..=hi, &schedule.trace);
                            assert_eq!(found, Some(true), "{shown:?}");
                        }
                    }
                }
            }
        }
    }
    assert!(n_orders >= 4, "{n_orders}");
}

/// Around 1, vectors, blocks and partial results.
const LENGTHS: [i64; 12] = [1, 2, 7, 8, 9, 31, 32, 33, 37, 38, 129, 150];

#[test]
fn rows_and_products_of_rows() {
    check(
        "#[autotune(dims(R = 3, D = 1..=150))]
        fn f(x: Tensor<f32, R, D>, y: Tensor<f32, D>) -> (Tensor<f32, R>, Tensor<f32, R>, Tensor<f32, R>) {
            let p = compute(|r, d| x[[r, d]] * y[[d]]);
            let rounded = compute(|r| sum(0..D, |d| p[[r, d]]));
            let dot = compute(|r| sum(0..D, |d| x[[r, d]] * y[[d]]));
            (rounded, dot, compute(|r| min(0..D, |d| x[[r, d]])))
        }",
        &LENGTHS,
    );
}

#[test]
fn columns_everything_and_masked_rows() {
    check(
        "#[autotune(dims(M = 1..=80, N = 13))]
        fn f(x: Tensor<f32, M, N>) -> (Tensor<f32, 1>, Tensor<f32, N>, Tensor<f32, M>, Tensor<f32, N>) {
            let all = compute(|i| sum((0..M, 0..N), |j, k| x[[j, k]]));
            let masked = compute(|i| sum(0..N, |k| if k > 2 * i { x[[i, k]] * x[[i, k]] } else { 0.0 }));
            let product = compute(|k| prod(0..M, |j| x[[j, k]] + 1.0));
            (all, compute(|k| sum(0..M, |j| x[[j, k]] * x[[j, k]])), masked, product)
        }",
        &[1, 7, 8, 9, 37, 80],
    );
}

#[test]
fn products_and_softmax() {
    check(
        "#[autotune(dims(M = 1..=20, N = 18, K = 75))]
        fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            let top = compute(|i| max(0..N, |j| h[[i, j]]));
            let e = compute(|i, j| exp(h[[i, j]] - top[[i]]));
            let total = compute(|i| sum(0..N, |j| e[[i, j]]));
            compute(|i, j| e[[i, j]] / total[[i]])
        }",
        &[1, 7, 20],
    );
}

#[test]
fn convolutions_and_attention() {
    check(
        "#[autotune(dims(C = 9, H = 1..=6, O = 3, T = 3))]
        fn f(x: Tensor<f32, C, H, 5>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, O, H, 5> {
            compute(|o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
        &[6],
    );
    check(
        "#[autotune(dims(S = 1..=20, D = 8, H = 2))]
        fn f(q: Tensor<f32, S, H, D>, k: Tensor<f32, S, H, D>, v: Tensor<f32, S, H, D>) -> Tensor<f32, S, H, D> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[i, h, d]] * k[[j, h, d]]) * 0.25);
            let m = compute(|h, i, j| if i >= j { s[[h, i, j]] } else { -1000.0 });
            let top = compute(|h, i| max(0..S, |j| m[[h, i, j]]));
            let e = compute(|h, i, j| exp(m[[h, i, j]] - top[[h, i]]));
            let n = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|i, h, d| sum(0..S, |j| e[[h, i, j]] / n[[h, i]] * v[[j, h, d]]))
        }",
        &[1, 19],
    );
}

#[test]
fn random_programs_have_the_bits_of_their_order() {
    let counts = [Cell::new(0), Cell::new(0)];
    let check = |(case, order, moves): (Case, WrittenOrder, Vec<Move>)| {
        let mut dag = case.dag.clone();
        if dag.without_fixed_order().is_some() {
            return Ok(());
        }
        dag.fix_order(order);
        let launches = [
            Launch::new(&dag, &case.dims, &mut ordinary(case.seed)),
            Launch::new(&dag, &case.dims, &mut hostile(case.seed)),
        ];
        for isa in ISAS {
            let moved = scheduled(&dag, &moves);
            // Loops that moves tighten leave out zeros of either sign.
            let moved = [(moved, &launches[..1])];
            let others = schedules(&dag, isa, case.seed).into_iter().map(|it| (it, &launches[..]));
            for (schedule, launches) in moved.into_iter().chain(others) {
                for launch in launches {
                    let found = launch.has_bits(&schedule, isa);
                    let text = print::canonical(&dag);
                    let shown = (isa, &case.dims, &schedule.trace);
                    prop_assert!(found != Some(false), "{text}{shown:?}");
                    counts[0].set(counts[0].get() + 1);
                    counts[1].set(counts[1].get() + u32::from(found.is_some()));
                }
            }
        }
        Ok(())
    };
    runner(120).run(&(any_case(), any_order(), any_moves(15)), check).unwrap();
    let [all, ran] = counts.map(|it| it.get());
    assert!(all > 1000 && ran > all * 9 / 10, "only {ran} of {all} ran");
}

#[test]
fn partial_results_are_lanes_of_default_schedules() {
    let rows = "(x: Tensor<f32, 64, 4096>) -> Tensor<f32, 64> {
        compute(|i| sum(0..4096, |k| x[[i, k]]))
    }";
    let product = "(w: Tensor<f32, 512, 4096>, x: Tensor<f32, 4096>) -> Tensor<f32, 512> {
        compute(|i| sum(0..4096, |k| w[[i, k]] * x[[k]]))
    }";
    for (order, function) in
        [("lanes(32)", rows), ("lanes(32)", product), ("blocks(256, lanes(32))", rows)]
    {
        let source = format!("#[autotune(order = \"{order}\")] fn f{function}");
        let dag = dsl::program(&source).unwrap();
        for isa in ISAS {
            let schedule = default::schedule(&dag, &Target::generic(isa));
            let is_vector = schedule.stages.iter().any(|it| {
                matches!(it.reduction, ReductionOrder::Lanes { .. })
                    && it.axes.iter().any(|it| it.kind == LoopKind::Vectorized)
            });
            assert!(is_vector, "{order} {isa:?} {:?}", schedule.trace);
        }
    }
}

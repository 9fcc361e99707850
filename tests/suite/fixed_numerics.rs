//! Fixed numerics: every schedule of a program has the bits of its definition, in vector code of each
//! width, in machine code, in portable code, in every bucket and on any number of threads.

use std::cell::Cell;

use proptest::prelude::*;
use tvmtune_campaign::machine;
use tvmtune_cpu::interp::{results_of, table};
use tvmtune_cpu::vector::{self, VectorCode};
use tvmtune_cpu::x86::RegisterFile;
use tvmtune_ir::dag::{DType, Dag, Number, Numerics, print};
use tvmtune_ir::interp::{Array, Elements, run_in_order};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_ir::{dsl, workload as identity};
use tvmtune_runtime::raw::Threads;
use tvmtune_runtime::{Cpu, Weight};
use tvmtune_schedule::arbitrary::{Case, Move, any_case, any_moves, runner, scheduled};
use tvmtune_schedule::{AxisId, ErrorKind, Schedule, nest};
use tvmtune_space::{default, sketch};
use tvmtune_tests::numerics::fixed as ops;
use tvmtune_tests::{bits, workload};
use tvmtune_tuner::outcome::Outcome;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;
use tvmtune_tuner::tune::{Tolerance, Workload, trials};

use crate::tuning::{Machine, SOFTMAX};
use crate::x86::run;

pub(crate) const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

/// Arguments of a program, with its results by definition.
pub(crate) struct Launch {
    dims: Vec<i64>,
    params: Vec<Array>,
    scalars: Vec<Number>,
    expected: Vec<Array>,
}

impl Launch {
    pub(crate) fn new(dag: &Dag, dims: &[i64], seed: u64) -> Self {
        let param = |(n, id)| {
            let tensor = dag.tensor(id);
            let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
            match tensor.dtype.is_float() {
                true => Array::random(tensor.dtype, &shape, seed + n),
                false => Array::whole_numbers(tensor.dtype, &shape, seed + n),
            }
        };
        let params: Vec<Array> = (1..).zip(dag.params()).map(param).collect();
        let scalars: Vec<Number> =
            dag.scalars.iter().map(|it| Number::Float(0.5).cast(it.dtype)).collect();
        let expected = run_in_order(dag, dims, &params, &scalars);
        Self { dims: dims.to_vec(), params, scalars, expected }
    }

    /// Replaces the parameters of floats by numbers that break kernels.
    pub(crate) fn make_hostile(&mut self, dag: &Dag, seed: u64) {
        for (n, param) in self.params.iter_mut().enumerate() {
            if param.dtype == DType::F32 {
                *param = hostile(&param.shape, seed.wrapping_add(n as u64));
            }
        }
        self.expected = run_in_order(dag, &self.dims, &self.params, &self.scalars);
    }

    /// Returns whether code of a schedule has the bits of the definition, with lanes that are reduced by
    /// halves as one instruction of vector code and statement by statement; `None` if there is none.
    pub(crate) fn has_bits(&self, schedule: &Schedule, isa: Isa) -> Option<bool> {
        let like: Vec<Array> =
            self.expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
        let Self { dims, params, scalars, expected } = self;
        let mut has_bits = true;
        for nest in [nest::lower_for_lanes(schedule), nest::lower(schedule)] {
            let code = vector::lower(&nest, isa).ok()?;
            let got = tvmtune_cpu::interp::run(&code, dims, params, scalars, &like);
            let got = got.unwrap_or_else(|it| panic!("{it:?}\n{nest}\n{code}"));
            has_bits &= bits(&got) == bits(expected);
            if run::executes(isa) {
                has_bits &= bits(&self.launch(&code, &like)) == bits(expected);
            }
        }
        Some(has_bits)
    }

    fn launch(&self, code: &VectorCode, like: &[Array]) -> Vec<Array> {
        let mut cells = table(code, &self.dims, &self.params, &self.scalars, like);
        machine::launch(code, &self.dims, &mut cells, RegisterFile::of(code.isa), Threads::All);
        results_of(code, &cells, self.params.len(), like)
    }
}

/// Numbers that break kernels: huge and tiny ones, zeros of both signs, equal ones, ones that cancel.
fn hostile(shape: &[u64], seed: u64) -> Array {
    let n = shape.iter().product::<u64>();
    let mut random = Random::new(seed);
    let kind = random.below(5);
    let value = |_| {
        let pick = |random: &mut Random, from: &[f32]| from[random.below(from.len())];
        match kind {
            0 => pick(&mut random, &[1e38, -1e38, 1e30, 1.0, -3e37]),
            1 => pick(&mut random, &[1e-45, -1e-40, 3e-39, 0.0, -0.0, 1e-38]),
            2 => 0.7,
            3 => pick(&mut random, &[1e8, -1e8, 1.5, 1e-3, -1.0]),
            _ => pick(&mut random, &[0.0, -0.0, 88.0, -104.0, 1.0, 5e-324_f64 as f32]),
        }
    };
    Array::from_f32(shape, (0..n).map(value).collect())
}

/// A program that fixes its numerics.
pub(crate) fn fixed(source: &str) -> Dag {
    let dag = dsl::program(&source.replacen("autotune(", "autotune(numerics = \"fixed\", ", 1));
    let dag = dag.unwrap();
    assert_eq!(dag.numerics, Numerics::Fixed);
    dag
}

/// Checks default schedules and some random ones, of the whole program and of ranges of its dimension.
#[track_caller]
pub(crate) fn check(source: &str, extents: &[i64]) {
    let dag = fixed(source);
    let largest = dag.dims[0].range.hi;
    for extent in extents {
        let launch = Launch::new(&dag, &[*extent], 1);
        let lo = extent - i64::from(*extent > 1);
        let ranges = [(1, largest), (*extent, *extent), (lo, largest.min(extent + 3))];
        for (lo, hi) in ranges {
            let dag = dag.specialize(&[Interval { lo, hi }]);
            for isa in ISAS {
                let target = Target::generic(isa);
                let mut schedules = vec![default::schedule(&dag, &target), Schedule::new(&dag)];
                let space = Space::new(&dag, &target);
                let mut random = Random::new(*extent as u64);
                for _ in 0..2 {
                    let trace = space.instructions(&space.random(&mut random));
                    schedules.extend(Schedule::replay(&dag, &trace));
                }
                for schedule in schedules {
                    let shown = || format!("{isa:?} {extent} in {lo}..={hi}\n{:?}", schedule.trace);
                    assert_eq!(launch.has_bits(&schedule, isa), Some(true), "{}", shown());
                }
            }
        }
    }
}

/// Around 1, a vector of either width, the partial results of a row, and twice as many.
const LENGTHS: [i64; 13] = [1, 2, 15, 16, 17, 33, 63, 64, 65, 100, 127, 129, 150];

#[test]
fn rows_of_every_length() {
    check(
        "#[autotune(dims(R = 3, D = 1..=150))]
        fn f(x: Tensor<f32, R, D>, g: Weight<f32, D>, eps: f32) -> Tensor<f32, R, D> {
            let mean = compute(|r| mean(0..D, |d| x[[r, d]]));
            let var = compute(|r| mean(0..D, |d| (x[[r, d]] - mean[[r]]) * (x[[r, d]] - mean[[r]])));
            compute(|r, d| (x[[r, d]] - mean[[r]]) * rsqrt(var[[r]] + eps) * g[[d]])
        }",
        &LENGTHS,
    );
}

#[test]
fn rows_that_are_masked_and_summed_as_products_or_as_rounded_ones() {
    check(
        "#[autotune(dims(R = 1..=40, D = 75))]
        fn f(x: Tensor<f32, R, D>, y: Tensor<f32, R, D>) -> (Tensor<f32, R>, Tensor<f32, R>, Tensor<f32, R>) {
            let p = compute(|r, d| x[[r, d]] * y[[r, d]]);
            let masked = compute(|r| sum(0..D, |d| if d > 2 * r { x[[r, d]] * y[[r, d]] } else { 0.0 }));
            (compute(|r| sum(0..D, |d| p[[r, d]])), masked, compute(|r| sum(0..D, |d| x[[r, d]] * y[[r, d]])))
        }",
        &[1, 2, 9, 37, 40],
    );
    // Of a few rows, the mask is gone.
    check(
        "#[autotune(dims(R = 1..=40, D = 75))]
        fn f(x: Tensor<f32, R, D>, y: Tensor<f32, R, D>) -> Tensor<f32, R> {
            compute(|r| sum(0..D, |d| if r < 20 { x[[r, d]] * y[[r, d]] } else { 0.0 }))
        }",
        &[1, 9, 20, 21, 40],
    );
}

#[test]
fn quotients_by_a_number_of_the_row_are_quotients() {
    check(
        "#[autotune(dims(R = 1..=40, D = 75))]
        fn f(x: Tensor<f32, R, D>, y: Tensor<f32, R>) -> Tensor<f32, R, D> {
            let m = compute(|r| max(0..D, |d| x[[r, d]]));
            let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
            let s = compute(|r| sum(0..D, |d| e[[r, d]]));
            let known = compute(|r| 2.0 + tanh(y[[r]]));
            compute(|r, d| e[[r, d]] / s[[r]] / known[[r]])
        }",
        &[1, 2, 40],
    );
}

#[test]
fn sums_of_everything_products_of_numbers_and_extremes() {
    check(
        "#[autotune(dims(M = 1..=40, N = 13))]
        fn f(x: Tensor<f32, M, N>, h: Tensor<f16, M, 50>) -> (Tensor<f32, 1>, Tensor<f32, M>, Tensor<f32, M>, Tensor<f32, N>) {
            let all = compute(|i| sum((0..M, 0..N), |j, k| x[[j, k]]));
            let product = compute(|i| prod(0..50, |k| h[[i, k]] as f32 * 1.5));
            let least = compute(|i| min(0..50, |k| h[[i, k]] as f32));
            (all, product, least, compute(|k| sum(0..M, |j| exp(x[[j, k]]))))
        }",
        &[1, 4, 5, 31, 40],
    );
}

#[test]
fn minima_of_zeros_have_the_sign_that_the_order_gives() {
    let dag = fixed(
        "#[autotune(dims(R = 40, D = 1..=150))]
        fn f(x: Tensor<f32, R, D>) -> (Tensor<f32, R>, Tensor<f32, R>) {
            (compute(|r| min(0..D, |d| x[[r, d]])), compute(|r| max(0..D, |d| x[[r, d]])))
        }",
    );
    for extent in LENGTHS {
        let mut launch = Launch::new(&dag, &[extent], 3);
        let shape = [40, extent as u64];
        let zeros = |it: &f32| if *it < 0.0 { -0.0 } else { 0.0 };
        let drawn = Array::random(DType::F32, &shape, extent as u64).bytes();
        let drawn = drawn.chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
        let drawn: Vec<f32> = drawn.map(|it| zeros(&it)).collect();
        launch.params = vec![Array::from_f32(&shape, drawn)];
        launch.expected = run_in_order(&dag, &launch.dims, &launch.params, &[]);
        for isa in ISAS {
            let schedule = default::schedule(&dag, &Target::generic(isa));
            assert_eq!(launch.has_bits(&schedule, isa), Some(true), "{isa:?}, {extent}");
        }
    }
}

#[test]
fn products_convolutions_and_attention() {
    check(
        "#[autotune(dims(M = 1..=40, N = 50, K = 300))]
        fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            compute(|i, j| gelu(h[[i, j]]))
        }",
        &[1, 7, 16, 40],
    );
    check(
        "#[autotune(dims(C = 3, H = 1..=19, W = 17, O = 20, T = 3))]
        fn f(x: Tensor<f32, C, H, W>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, O, H, W> {
            compute(|o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
        &[1, 3, 14, 19],
    );
    check(
        "#[autotune(dims(S = 1..=70, D = 24, H = 2))]
        fn f(q: Tensor<f32, S, H, D>, k: Tensor<f32, S, H, D>, v: Tensor<f32, S, H, D>) -> Tensor<f32, S, H, D> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[i, h, d]] * k[[j, h, d]]) * 0.25);
            let m = compute(|h, i, j| if i >= j { s[[h, i, j]] } else { -1000.0 });
            let top = compute(|h, i| max(0..S, |j| m[[h, i, j]]));
            let e = compute(|h, i, j| exp(m[[h, i, j]] - top[[h, i]]));
            let n = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|i, h, d| sum(0..S, |j| e[[h, i, j]] / n[[h, i]] * v[[j, h, d]]))
        }",
        &[1, 16, 33, 70],
    );
}

/// The program of attention of two heads over as many queries as keys, with that value of masked scores.
fn attention(score: &str) -> String {
    format!(
        "#[autotune(dims(S = 1..=130, D = 8, H = 2))]
        fn f(
            q: Tensor<f32, S, H, D>, k: Tensor<f32, S, H, D>, v: Tensor<f32, S, H, D>, lengths: Tensor<i32, H>
        ) -> Tensor<f32, S, H, D> {{
            let s = compute(|h, i, j| sum(0..D, |d| q[[i, h, d]] * k[[j, h, d]]) * 0.25);
            let m = compute(|h, i, j| {score});
            let top = compute(|h, i| max(0..S, |j| m[[h, i, j]]));
            let e = compute(|h, i, j| exp(m[[h, i, j]] - top[[h, i]]));
            let total = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|i, h, d| sum(0..S, |j| e[[h, i, j]] * v[[j, h, d]]) / total[[h, i]])
        }}"
    )
}

#[test]
fn attention_is_one_kernel_whose_queries_are_lanes() {
    for (score, extents) in [
        ("if (j as i32) < lengths[[h]] { s[[h, i, j]] } else { -1e30 }", [1, 17, 65]),
        ("if i >= j { s[[h, i, j]] } else { f32::NEG_INFINITY }", [2, 64, 130]),
    ] {
        let source = attention(score);
        for isa in ISAS {
            let found = sketch::sketches(&fixed(&source), &Target::generic(isa));
            assert!(found[0].name.ends_with(": attention at once"), "{}", found[0].name);
        }
        check(&source, &extents);
    }
}

#[test]
fn every_schedule_of_random_programs_has_the_bits_of_the_definition() {
    let counts = [Cell::new(0), Cell::new(0)];
    let check = |(case, moves): (Case, Vec<Move>)| {
        let mut dag = case.dag.clone();
        if dag.without_fixed_order().is_some() {
            return Ok(());
        }
        dag.fix_numerics();
        let launch = Launch::new(&dag, &case.dims, case.seed);
        for isa in ISAS {
            let target = Target::generic(isa);
            let space = Space::new(&dag, &target);
            let ansor = Space::ansor(&dag, &target);
            let mut random = Random::new(case.seed);
            let mut schedules = vec![scheduled(&dag, &moves), default::schedule(&dag, &target)];
            for space in [space, ansor] {
                let trace = space.instructions(&space.random(&mut random));
                schedules.extend(Schedule::replay(&dag, &trace));
            }
            for schedule in schedules {
                let found = launch.has_bits(&schedule, isa);
                prop_assert!(
                    found != Some(false),
                    "{isa:?} {:?}\n{}{:?}",
                    case.dims,
                    print::canonical(&dag),
                    schedule.trace
                );
                counts[0].set(counts[0].get() + 1);
                counts[1].set(counts[1].get() + u32::from(found.is_some()));
            }
        }
        Ok(())
    };
    runner(150).run(&(any_case(), any_moves(15)), check).unwrap();
    let [all, ran] = counts.map(|it| it.get());
    assert!(all > 800 && ran > all * 9 / 10, "only {ran} of {all} ran");
}

#[test]
fn hostile_numbers_have_the_bits_of_the_definition() {
    let check = |case: Case| {
        let mut dag = case.dag.clone();
        if dag.without_fixed_order().is_some() {
            return Ok(());
        }
        dag.fix_numerics();
        let mut launch = Launch::new(&dag, &case.dims, case.seed);
        launch.make_hostile(&dag, case.seed);
        for isa in ISAS {
            let target = Target::generic(isa);
            let space = Space::new(&dag, &target);
            let trace = space.instructions(&space.random(&mut Random::new(case.seed)));
            let random = Schedule::replay(&dag, &trace);
            for schedule in [Ok(default::schedule(&dag, &target)), random].into_iter().flatten() {
                let found = launch.has_bits(&schedule, isa);
                let text = print::canonical(&dag);
                prop_assert!(found != Some(false), "{isa:?}\n{text}{:?}", schedule.trace);
            }
        }
        Ok(())
    };
    runner(200).run(&any_case(), check).unwrap();
}

#[test]
fn single_elements_are_those_of_all() {
    let check = |case: Case| {
        let mut dag = case.dag.clone();
        dag.fix_numerics();
        let launch = Launch::new(&dag, &case.dims, case.seed);
        let mut elements = Elements::new(&dag, &launch.dims, &launch.params, &launch.scalars);
        for (id, result) in dag.outputs.iter().zip(&launch.expected) {
            for n in (0..result.len()).step_by(7) {
                let (got, want) = (elements.get(*id, n), result.get(n));
                let both_nan = got.to_f64().is_nan() && want.to_f64().is_nan();
                prop_assert!(got == want || both_nan, "{got:?}, {want:?}: {:?}", case.family);
            }
        }
        Ok(())
    };
    runner(150).run(&any_case(), check).unwrap();
}

/// Results of an op of `ops` for some rows, on a CPU.
type Op = fn(&Cpu, usize) -> Vec<f32>;

/// Numbers of `rows` rows of `n`, the first ones the same for any number of rows.
fn numbers(rows: usize, n: usize, seed: u64) -> Vec<f32> {
    let all = Array::random(DType::F32, &[70, n as u64], seed).bytes();
    let all = all.chunks(4).map(|it| f32::from_le_bytes(it.try_into().unwrap()));
    all.take(rows * n).collect()
}

fn weight(rows: usize, n: usize, seed: u64) -> Weight<f32> {
    Weight::new(numbers(rows, n, seed))
}

const OPS: [(&str, Op); 3] = [
    ("linear_gelu", |cpu, m| {
        let mut y = vec![0.0; m * 40];
        let (w, b) = (weight(40, 70, 2), weight(1, 40, 3));
        ops::linear_gelu(cpu, &numbers(m, 70, 1), &w, &b, &mut y).unwrap();
        y
    }),
    ("softmax", |cpu, m| {
        let mut y = vec![0.0; m * 150];
        ops::softmax(cpu, &numbers(m, 150, 4), &mut y).unwrap();
        y
    }),
    ("layernorm", |cpu, m| {
        let mut y = vec![0.0; m * 150];
        let (g, b) = (weight(1, 150, 5), weight(1, 150, 6));
        ops::layernorm(cpu, &numbers(m, 150, 7), &g, &b, &mut y).unwrap();
        y
    }),
];

#[test]
fn rows_alone_have_the_bits_of_rows_in_a_batch_on_every_cpu() {
    let bits = |it: &[f32]| -> Vec<u32> { it.iter().map(|it| it.to_bits()).collect() };
    let portable = || Cpu::new().at_most(tvmtune_runtime::Isa::Portable);
    let cpus = [Cpu::new(), Cpu::new().alone(), portable(), portable().alone()];
    for (name, run) in OPS {
        let all = run(&cpus[0], 70);
        for m in [1, 2, 15, 16, 17, 69, 70] {
            for cpu in &cpus {
                let some = run(cpu, m);
                let shown =
                    || format!("{name}, {m} rows, {}, alone: {}", cpu.isa(), cpu.is_alone());
                assert_eq!(bits(&some), bits(&all[..some.len()]), "{}", shown());
            }
        }
    }
    for m in [1, 16, 17, 70] {
        let [q, k, v] = [8, 9, 10].map(|seed| numbers(m, 24, seed));
        let results = cpus.each_ref().map(|cpu| {
            let mut y = vec![0.0; m * 24];
            ops::attention(cpu, &q, &k, &v, &mut y).unwrap();
            bits(&y)
        });
        assert!(results.iter().all(|it| *it == results[0]), "attention, {m} rows");
    }
}

#[test]
fn a_kernel_with_fixed_numerics_is_tuned_by_equality() {
    let Some(machine) = Machine::new() else { return };
    let source = SOFTMAX.replacen("autotune(", "autotune(numerics = \"fixed\", ", 1);
    let fixed = workload(&source);
    assert_eq!(fixed.tolerance, Tolerance { rel: 0.0, abs: 0.0 });
    let (summary, events) = machine.tune(&fixed, &machine.options(60));
    assert_eq!(summary.results.len(), 1, "{events:?}");
    let log = trials(&machine.log());
    let right = log.iter().filter(|it| matches!(it.outcome, Outcome::Timed(_))).count();
    let wrong = log.iter().filter(|it| matches!(it.outcome, Outcome::Wrong(_))).count();
    assert!(right > 20 && wrong == 0, "{right} of {} are right, {wrong} wrong", log.len());

    // The same without an order: the default schedule has other bits than the definition.
    let free = Workload { tolerance: fixed.tolerance, ..workload(SOFTMAX) };
    let (summary, events) = machine.tune(&free, &machine.options(4));
    assert!(summary.results.is_empty() && summary.skipped.len() == 1, "{events:?}");
}

#[test]
fn the_mode_is_part_of_the_identity_and_follows_from_the_text() {
    let source = "#[autotune(dims(M = 1..=9, D = 40))]
        fn f(x: Tensor<f32, M, D>) -> Tensor<f32, M> { compute(|i| sum(0..D, |d| x[[i, d]])) }";
    let (free, fixed) = (dsl::program(source).unwrap(), fixed(source));
    assert_ne!(identity::id(&free), identity::id(&fixed));
    let text = print::canonical(&fixed);
    assert!(text.starts_with("tvmtune dag v1\nnumerics fixed\ndim d0 in 1..=9\n"), "{text}");
    let parsed: Dag = text.parse().unwrap();
    assert_eq!((parsed.numerics, &parsed.orders), (fixed.numerics, &fixed.orders));
    assert_ne!(print::class(&free), print::class(&fixed));
    let narrow = fixed.specialize(&[Interval { lo: 1, hi: 1 }]);
    assert_eq!(narrow.orders, fixed.orders);
}

#[test]
fn what_cannot_be_fixed_is_an_error_at_the_option() {
    let refused = |options: &str, body: &str| {
        let source = format!(
            "#[autotune(dims(N = 40), {options})] fn f(x: Tensor<f32, N>) -> Tensor<f32, N> {{ {body} }}"
        );
        dsl::program(&source).unwrap_err().to_string()
    };
    let copy = "compute(|i| x[[i]])";
    let said = refused("numerics = \"fixd\"", copy);
    assert!(said.contains("expected `numerics = \"fixed\"` or `numerics = \"free\"`"), "{said}");
    let said = refused("numerics = \"fixed\"", "compute(|i| sum(i..N, |j| x[[j]]))");
    assert!(said.contains("is a sum from an index on"), "{said}");
    let said = refused("numerics = \"fixed\", tol(rel = 1e-3)", copy);
    assert!(said.contains("remove `tol(..)`"), "{said}");
    let said = refused("numerics = fixed", copy);
    assert!(said.contains("expected string literal"), "{said}");
    assert!(refused("numeric = \"fixed\"", copy).contains("did you mean `numerics`?"));
}

#[test]
fn no_stage_runs_in_the_loop_over_partial_results() {
    let source = "#[autotune(dims(M = 4, K = 200))]
        fn f(x: Tensor<f32, M, K>) -> Tensor<f32, M> { compute(|i| max(0..K, |k| x[[i, k]])) }";
    let mut schedule = Schedule::new(&fixed(source));
    let partial = schedule.order[0];
    let result = schedule.order[1];
    let refused = schedule.compute_at(partial, result, AxisId(1)).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::FixedNumerics);
    schedule.compute_at(partial, result, AxisId(0)).unwrap();
}

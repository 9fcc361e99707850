//! Online reductions: any splits, any schedule around them, masks of all kinds, in the nest and as
//! vector code.

mod examples;
mod tightened;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;
use tvmtune_cpu::vector::{self, Unsupported};
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::arbitrary::{Move, any_moves, move_by_move, runner};
use tvmtune_schedule::{Attach, AxisId, ErrorKind, Instruction, LoopKind, Schedule, StageId, nest};

use examples::{EXAMPLES, Example};

impl Example {
    fn dag(&self) -> Dag {
        dsl::program(self.text).unwrap()
    }

    /// A schedule in which all reductions share the host's loop, with random factors.
    fn scheduled(&self, dag: &Dag, picks: &[u16]) -> Schedule {
        let mut picks = picks.iter().copied().cycle();
        let mut pick = |n: usize| usize::from(picks.next().unwrap_or(0)) % n;
        let mut schedule = Schedule::new(dag);
        let root = stage(&schedule, self.root);
        if self.host == "out_sum" {
            schedule.inline(stage(&schedule, "p")).unwrap();
            schedule.factor_out(root).unwrap();
        }
        if self.text.contains("fn narrow") {
            schedule.downcast(stage(&schedule, "e"), DType::F16).unwrap();
        }
        let host = stage(&schedule, self.host);
        let mut order = [Vec::new(), Vec::new()];
        for axis in schedule.stage(root).order.clone() {
            let parts = schedule.split(root, axis, &[[1, 2, 3, 4, 7][pick(5)]]).unwrap();
            order.iter_mut().zip(parts).for_each(|(order, part)| order.push(part));
        }
        let order = order.concat();
        schedule.reorder(root, &order).unwrap();
        schedule.compute_at(host, root, order[pick(order.len())]).unwrap();
        let blocks = self.blocks(&mut schedule, host, [1, 2, 3, 4, 5, 8, 16, 40][pick(8)]);
        for other in schedule.order.clone().into_iter().rev() {
            let name = &schedule.tensor(schedule.stage(other).tensor()).tensor.name;
            if self.online.contains(&name.as_str()) {
                schedule.online_reduction(other, host, blocks).unwrap();
            } else if other != host && other != root && is_live(&schedule, other) {
                schedule.compute_at(other, host, blocks).unwrap();
            }
        }
        if pick(2) == 0 {
            // Most of the masks do not end a loop.
            let _ = schedule.tighten_bounds(host, blocks);
        }
        schedule
    }

    /// Splits the axis that all reduce; returns the loop over its blocks.
    fn blocks(&self, schedule: &mut Schedule, host: StageId, factor: u64) -> AxisId {
        let axis = AxisId(schedule.stage(host).compute.n_spatial as u32);
        let parts = schedule.split(host, axis, &[factor]).unwrap();
        let mut order = schedule.stage(host).order.clone();
        order.retain(|it| *it != parts[0]);
        order.insert(0, parts[0]);
        schedule.reorder(host, &order).unwrap();
        parts[0]
    }

    /// Random numbers; in a parameter named `mask`, zeros and infinities, whole rows among them.
    fn params(&self, dag: &Dag, dims: &[i64], seed: u64) -> Vec<Array> {
        let param = |(n, id)| {
            let tensor = dag.tensor(id);
            let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
            if !tensor.dtype.is_float() {
                return Array::whole_numbers(tensor.dtype, &shape, seed + n);
            }
            let mut array = Array::random(tensor.dtype, &shape, seed + n);
            let row = shape.last().copied().unwrap_or(1) as usize;
            for at in (0..array.len()).filter(|_| tensor.name == "mask") {
                let hash = |n: usize| (n as u64 + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60;
                let hidden = hash(at) < 6 || hash(at / 3) < 4 || hash(at / row + 77) < 2;
                array.set(at, Number::Float(if hidden { f64::NEG_INFINITY } else { 0.0 }));
            }
            array
        };
        (1..).zip(dag.params()).map(param).collect()
    }
}

fn stage(schedule: &Schedule, name: &str) -> StageId {
    let found = schedule.tensors.iter().find(|it| it.tensor.name == name);
    found.unwrap().stage.unwrap()
}

fn is_live(schedule: &Schedule, stage: StageId) -> bool {
    schedule.stage(stage).attach != Attach::Inline
}

/// An example, picks that make its schedule, moves after that, an extent, a seed.
type Case = (usize, Vec<u16>, Vec<Move>, u8, u64);

fn any_online(max_moves: usize) -> impl Strategy<Value = Case> {
    let picks = proptest::collection::vec(any::<u16>(), 12);
    (0..EXAMPLES.len(), picks, any_moves(max_moves), any::<u8>(), 0..1_u64 << 32)
}

/// The schedule of a case, and the extents it is run at.
fn made((example, picks, moves, extent, _): &Case) -> (Dag, Schedule, Vec<i64>) {
    let example = &EXAMPLES[*example];
    let dag = example.dag();
    let mut schedule = example.scheduled(&dag, picks);
    move_by_move(&mut schedule, moves, |schedule, instruction| {
        // The compute locations under test stay.
        if !matches!(instruction, Instruction::ComputeAt { .. }) {
            // Refused primitives change nothing: `semantics` tests that.
            let _ = schedule.apply(instruction);
        }
    });
    let dims = dag.dims.iter().map(|it| 1 + i64::from(*extent) % it.range.hi).collect();
    (dag, schedule, dims)
}

fn shown(schedule: &Schedule, dims: &[i64]) -> String {
    let trace: String = schedule.trace.iter().map(|it| format!("{it}\n")).collect();
    format!("{dims:?}\n{trace}\n{}", nest::lower(schedule))
}

fn compare(got: &[Array], expected: &[Array], shown: &dyn Fn() -> String) -> TestCaseResult {
    for (got, expected) in got.iter().zip(expected) {
        // Exponentials that are stored as halves are rounded before they are corrected.
        let error = match got.dtype {
            DType::F16 => got.max_error(expected, 2e-3, 4e-3),
            _ => got.max_error(expected, 1e-4, 2e-5),
        };
        prop_assert!(error.is_none(), "{error:?}:\n{}", shown());
    }
    Ok(())
}

fn check_nest(case: &Case) -> TestCaseResult {
    let (dag, schedule, dims) = made(case);
    let nest = nest::lower(&schedule);
    let params = EXAMPLES[case.0].params(&dag, &dims, case.4);
    let expected = tvmtune_ir::interp::run(&dag, &dims, &params, &[]);
    match tvmtune_schedule::interp::run(&nest, &dims, &params, &[]) {
        Ok(results) => compare(&results, &expected, &|| shown(&schedule, &dims)),
        Err(fault) => Err(TestCaseError::fail(format!("{fault}:\n{}", shown(&schedule, &dims)))),
    }
}

fn check_kernel(case: &Case, isa: Isa) -> TestCaseResult {
    let (dag, schedule, dims) = made(case);
    let nest = nest::lower(&schedule);
    let kernel = match vector::lower(&nest, isa) {
        Ok(kernel) => kernel,
        Err(Unsupported::Index | Unsupported::TooLarge { .. }) => return Ok(()),
        Err(other) => return Err(TestCaseError::fail(format!("{other}\n{nest}"))),
    };
    let params = EXAMPLES[case.0].params(&dag, &dims, case.4);
    let expected = tvmtune_ir::interp::run(&dag, &dims, &params, &[]);
    let like: Vec<Array> = expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
    let shown = || format!("{}\n{kernel}", shown(&schedule, &dims));
    prop_assert!(vector::verify::verify(&kernel).is_empty(), "unset registers\n{}", shown());
    match tvmtune_cpu::interp::run(&kernel, &dims, &params, &[], &like) {
        Ok(results) => compare(&results, &expected, &shown),
        Err(fault) => Err(TestCaseError::fail(format!("{fault}:\n{}", shown()))),
    }
}

#[test]
fn an_online_reduction_computes_the_results_of_separate_loops() {
    runner(600).run(&any_online(0), |case| check_nest(&case)).unwrap();
}

#[test]
fn other_primitives_keep_an_online_reduction_right() {
    runner(1500).run(&any_online(10), |case| check_nest(&case)).unwrap();
}

#[test]
fn vector_code_of_online_reductions_is_right() {
    runner(400)
        .run(&any_online(6), |case| {
            check_kernel(&case, Isa::Avx512)?;
            check_kernel(&case, Isa::Avx2)
        })
        .unwrap();
}

#[test]
fn traces_of_online_reductions_replay() {
    runner(200)
        .run(&any_online(8), |case| {
            let (dag, schedule, _) = made(&case);
            let lines: Vec<String> = schedule.trace.iter().map(ToString::to_string).collect();
            let trace: Vec<_> = lines.iter().map(|it| it.parse().unwrap()).collect();
            prop_assert_eq!(Schedule::replay(&dag, &trace), Ok(schedule));
            Ok(())
        })
        .unwrap();
}

/// The refusal to reduce the stage `m` online along the loop over blocks of the stage `l`.
#[track_caller]
fn refused(body: &str) -> ErrorKind {
    let text = format!(
        "#[autotune(dims(N = 7, S = 1..=33))]
        fn f(x: Tensor<f32, N, S>, y: Tensor<f32, N, S>, k: f32) -> Tensor<f32, N> {{ {body} }}"
    );
    let dag = dsl::program(&text).unwrap();
    let mut schedule = Schedule::new(&dag);
    let [m, l, out] = ["m", "l", "out"].map(|it| stage(&schedule, it));
    let inside = schedule.stage(out).order[0];
    schedule.compute_at(l, out, inside).unwrap();
    let blocks = EXAMPLES[0].blocks(&mut schedule, l, 4);
    let before = schedule.clone();
    let why = schedule.online_reduction(m, l, blocks).unwrap_err().kind;
    assert_eq!(schedule, before, "a refused primitive changes nothing");
    why
}

#[test]
fn reductions_that_no_factor_corrects_are_refused() {
    let with = |m: &str, l: &str| {
        refused(&format!(
            "let m = compute(|i| {m});
            let l = compute(|i| sum(0..S, |j| {l}));
            compute(|i| l[[i]] + m[[i]])"
        ))
    };
    let largest = "max(0..S, |j| x[[i, j]])";
    let all = [
        (largest, "exp(x[[i, j]] - m[[i]]) + 1.0"),
        (largest, "exp(x[[i, j]] - m[[i]]) + exp((x[[i, j]] - m[[i]]) * 2.0)"),
        (largest, "exp(m[[i]] - x[[i, j]])"),
        (largest, "exp(y[[i, j]] - m[[i]])"),
        (largest, "exp((x[[i, j]] - m[[i]]) * -1.0)"),
        (largest, "exp((x[[i, j]] - m[[i]]) * k)"),
        (largest, "(x[[i, j]] - m[[i]]) * (x[[i, j]] - m[[i]])"),
        (largest, "y[[i, j]] / exp(x[[i, j]] - m[[i]])"),
        (largest, "if m[[i]] > 0.0 { exp(x[[i, j]] - m[[i]]) } else { 0.0 }"),
        ("min(0..S, |j| x[[i, j]])", "exp(x[[i, j]] - m[[i]])"),
        ("sum(0..S, |j| x[[i, j]])", "exp(x[[i, j]] - m[[i]])"),
    ];
    for (m, l) in all {
        assert_eq!(with(m, l), ErrorKind::Uncorrectable, "{m}, {l}");
    }
}

#[test]
fn reductions_that_cannot_share_the_loop_are_refused() {
    let sums = "let l = compute(|i| sum(0..S, |j| y[[i, j]]));";
    let with = |m: &str, out: &str| {
        refused(&format!(
            "let m: Tensor<f32, N> = compute(|i| {m}); {sums} compute(|i| {out} + l[[i]])"
        ))
    };
    assert_eq!(with("max(0..N, |j| x[[j, 0]] + x[[i, 0]])", "m[[i]]"), ErrorKind::NotFusible);
    assert_eq!(with("x[[i, 0]]", "m[[i]]"), ErrorKind::NotReduction);
    let read_before = "let m = compute(|i| max(0..S, |j| x[[i, j]]));
        let n = compute(|i| sum(0..S, |j| x[[i, j]] * m[[i]]));
        let l = compute(|i| sum(0..S, |j| y[[i, j]] * n[[i]]));
        compute(|i| l[[i]] + 1.0)";
    assert_eq!(refused(read_before), ErrorKind::ReadersOutside);
}

#[test]
fn later_edits_keep_what_is_corrected() {
    let example = &EXAMPLES[3];
    let dag = example.dag();
    let mut schedule = example.scheduled(&dag, &[1]);
    let before = schedule.clone();
    // The maximum would be of a copy, the exponent of what was copied.
    let x = schedule.dag.params().next().unwrap();
    let why = schedule.cache_read(x, stage(&schedule, "m")).unwrap_err();
    assert_eq!(why.kind, ErrorKind::Uncorrectable);
    let host = stage(&schedule, "l");
    let blocks = schedule.stage(host).order[0];
    assert!(schedule.annotate(host, blocks, LoopKind::Thread).is_err());
    assert!(schedule.rfactor(stage(&schedule, "n"), AxisId(1)).is_err());
    assert!(schedule.cache_write(stage(&schedule, "n")).is_err());
    assert_eq!(schedule, before);
}

/// A schedule of four stages: `m`, `e` with body `e`, `l`, and `out` with body `out`.
fn three(e: &str, out: &str) -> Schedule {
    let text = format!(
        "#[autotune(dims(N = 7, S = 1..=33))]
        fn f(x: Tensor<f32, N, S>, y: Tensor<f16, N, S>, z: Tensor<f32, N, S>) -> Tensor<f32, N> {{
            let m = compute(|i| max(0..S, |j| x[[i, j]]));
            let e = compute(|i, j| {e});
            let l = compute(|i| sum(0..S, |j| x[[i, j]]));
            compute(|i| {out})
        }}"
    );
    Schedule::new(&dsl::program(&text).unwrap())
}

#[test]
fn only_probabilities_that_are_multiplied_are_downcast() {
    let why = |e: &str, out: &str, dtype| {
        let mut schedule = three(e, out);
        let e = stage(&schedule, "e");
        schedule.downcast(e, dtype).map_err(|it| it.kind)
    };
    let (weight, product) = ("exp(x[[i, j]] - m[[i]])", "sum(0..S, |j| e[[i, j]] * y[[i, j]])");
    assert_eq!(why(weight, product, DType::F16), Ok(()));
    assert_eq!(why(weight, product, DType::Bf16), Err(ErrorKind::PrecisionLoss));
    assert_eq!(why(weight, product, DType::F32), Err(ErrorKind::PrecisionLoss));
    let refused = [
        ("exp(x[[i, j]])", product),
        ("exp(z[[i, j]] - m[[i]])", product),
        ("x[[i, j]] - m[[i]]", product),
        (weight, "sum(0..S, |j| e[[i, j]] * z[[i, j]])"),
        (weight, "sum(0..S, |j| e[[i, j]])"),
        (weight, "sum(0..S, |j| e[[i, j]] * e[[i, j]] * y[[i, j]])"),
        (weight, "max(0..S, |j| e[[i, j]] * y[[i, j]])"),
    ];
    for (e, out) in refused {
        assert_eq!(why(e, out, DType::F16), Err(ErrorKind::PrecisionLoss), "{e}, {out}");
    }
}

#[test]
fn quotients_by_normal_constants_become_products() {
    let body = |e: &str| {
        let mut schedule = three(e, "sum(0..S, |j| e[[i, j]])");
        let e = stage(&schedule, "e");
        schedule.reciprocal(e).map_err(|it| it.kind)?;
        let nest = nest::lower(&schedule).to_string();
        let line = nest.lines().map(str::trim).find(|it| it.starts_with("e["));
        Ok(line.unwrap_or_default().to_owned())
    };
    let product = "e[i, j] = x[i, j] * 0.3333333432674408 - m[i]";
    assert_eq!(body("x[[i, j]] / 3.0 - m[[i]]"), Ok(product.to_owned()));
    for e in ["x[[i, j]] / m[[i]]", "x[[i, j]] / 1e-40", "x[[i, j]] / 3e38", "3.0 / x[[i, j]]"] {
        assert_eq!(body(e), Err(ErrorKind::NothingInvariant), "{e}");
    }
}

#[test]
fn only_invariant_factors_are_moved_behind_a_sum() {
    let body = |out: &str| {
        let mut schedule = three("x[[i, j]] + m[[i]]", out);
        let root = stage(&schedule, "out");
        let made = schedule.factor_out(root).map_err(|it| it.kind)?;
        let nest = nest::lower(&schedule).to_string();
        let text: Vec<&str> = nest.lines().filter(|it| it.contains("out")).map(str::trim).collect();
        assert_eq!(schedule.tensor(schedule.stage(made).tensor()).tensor.name, "out_sum");
        Ok(text[2..].join("; "))
    };
    let moved = [
        ("e[[i, j]] * l[[i]]", "out_sum[i] += e[i, j]; out[i] = out_sum[i] * l[i]"),
        (
            "l[[i]] * (e[[i, j]] / m[[i]]) * x[[i, j]]",
            "out_sum[i] += e[i, j] * x[i, j]; out[i] = out_sum[i] * l[i] / m[i]",
        ),
        ("l[[i]] / m[[i]]", "out_sum[i] += 1; out[i] = out_sum[i] * (l[i] / m[i])"),
    ];
    for (sum, expected) in moved {
        assert_eq!(body(&format!("sum(0..S, |j| {sum})")).as_deref(), Ok(expected));
    }
    let varies = "sum(0..S, |j| (e[[i, j]] + l[[i]]) * x[[i, j]] / (m[[i]] + x[[i, j]]))";
    assert_eq!(body(varies), Err(ErrorKind::NothingInvariant));
    assert_eq!(body("max(0..S, |j| e[[i, j]] * l[[i]])"), Err(ErrorKind::NotReduction));
}

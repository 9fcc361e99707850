//! Attention as one kernel, in all its forms: types, masks, heads that share keys, lengths known at
//! launch. Default schedules and sampled ones, copies completing early and late.

use tvmtune_cuda::Generated;
use tvmtune_emulator::{Completion, Module, Options, Order};
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_schedule::{Instruction, Layout, Schedule};
use tvmtune_space::default;
use tvmtune_space::fits;
use tvmtune_space::sketch::{Sketch, TemplateKind, sketches};
use tvmtune_tests::emulate;
use tvmtune_tests::nvrtc::nvrtc;
use tvmtune_tuner::cost;

use super::programs::attention;
use super::{HOPPER, Launch, check_results, generate, module, target};

/// Points of the sketch beside the default one.
const POINTS: u64 = 4;

/// Numbers; lengths from 1 on; in what is called a mask, zeros and infinities, a whole row of them.
fn params(dag: &Dag, dims: &[i64]) -> Vec<Array> {
    let param = |(seed, id)| {
        let tensor = dag.tensor(id);
        let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
        let mut array = Array::zeros(tensor.dtype, &shape);
        let row = shape.last().copied().unwrap_or(1) as usize;
        for at in 0..array.len() {
            let hidden = at / row == 2 || (at * at + 5 * at) % 7 < 3;
            match tensor.dtype {
                DType::I32 => array.set(at, Number::Int(1 + 3 * at as i64)),
                _ if tensor.name == "mask" && hidden => {
                    array.set(at, Number::Float(f64::NEG_INFINITY));
                }
                _ if tensor.name == "mask" => {}
                dtype => return Array::random(dtype, &shape, seed),
            }
        }
        array
    };
    (1..).zip(dag.params()).map(param).collect()
}

/// Points of a sketch, the default one first.
fn points(sketch: &Sketch) -> Vec<Vec<u16>> {
    let mut state = 12_345_u64;
    let mut random = |of: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        ((state >> 33) % of as u64) as u16
    };
    let mut any = || sketch.decisions.iter().map(|it| random(it.options.len())).collect();
    let sampled: Vec<Vec<u16>> = (0..POINTS).map(|_| any()).collect();
    std::iter::once(sketch.default.clone()).chain(sampled).collect()
}

/// Checks the default schedule, which is to be one kernel with so many kinds of matrix
/// instructions, and others like it; and those of warpgroups, where there are to be some.
#[track_caller]
fn check(text: &str, products: usize, dims: &[&[i64]]) {
    check_sketches(text, &[products], dims);
}

/// The same, also by MMA instructions of warpgroups, which is then the default.
#[track_caller]
fn check_groups(text: &str, dims: &[&[i64]]) {
    check_sketches(text, &[0, 2], dims);
}

/// Checks the sketches of a program that run it as one kernel: so many kinds of MMA instructions
/// of a warp has each, and those with none but the last are of warpgroups.
#[track_caller]
fn check_sketches(text: &str, products: &[usize], dims: &[&[i64]]) {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(text).unwrap();
    let target = target().into();
    let sketches = sketches(&dag, &target);
    let names: Vec<&str> = sketches.iter().map(|it| it.name.as_str()).collect();
    let is_attention =
        |it: &&Sketch| it.uses(TemplateKind::Attention) || it.uses(TemplateKind::WgmmaAttention);
    let n_sketches = sketches.iter().filter(is_attention).count();
    assert_eq!(n_sketches, products.len(), "{names:?}");
    for (sketch, products) in sketches.iter().zip(products) {
        let mut n_placed = 0;
        for point in points(sketch) {
            let schedule = Schedule::replay(&dag, &sketch.instructions(&point)).unwrap();
            let Ok(generated) = generate(&schedule, HOPPER) else { continue };
            n_placed += 1;
            assert_eq!(generated.grid.body.len(), 1, "{}", generated.nest);
            let ns = cost::gpu::estimate(&generated.grid, &super::target()).ns;
            assert!(ns.is_finite() && ns > 0.0, "{ns} ns");
            let source = &generated.unit.source;
            assert_eq!(source.matches(" mma_m16n8k16").count(), *products, "{source}");
            if sketch.uses(TemplateKind::WgmmaAttention) {
                let in_registers = source.contains("_part[0],") && !source.contains("e_operand");
                assert!(in_registers && source.contains("<0, 1>(accumulators"), "{source}");
                let is_default = point == sketch.default;
                let fits = fits::gpu::fits(&generated.grid, &super::target());
                assert!(!is_default || fits.is_ok(), "{fits:?}");
            }
            let module = module(nvrtc, &generated);
            dims.iter().enumerate().for_each(|(n, dims)| run(&dag, &generated, &module, dims, n));
        }
        assert!(n_placed > POINTS / 2, "only {n_placed} of the points are kernels");
    }
    let chosen = default::schedule(&dag, &target);
    let first = sketches[0].instructions(&sketches[0].default);
    assert_eq!(chosen.trace, first, "the default is something else");
}

fn run(dag: &Dag, generated: &Generated, module: &Module, dims: &[i64], n: usize) {
    let (params, scalars) = (&params(dag, dims), &[Number::Float(0.3)][..dag.scalars.len()]);
    let expected = &tvmtune_ir::interp::run(dag, dims, params, scalars);
    let completion = [Completion::Late, Completion::Random(5), Completion::Eager][n % 3];
    let order = [Order::Random(3), Order::Descending][n % 2];
    let options = Options { completion, order, ..Options::default() };
    let tolerance = |dtype| match dtype {
        DType::F32 => (1e-4, 1e-5),
        DType::F16 => (2e-3, 1e-3),
        _ => (1e-2, 8e-3),
    };
    let launch = Launch { dims, params, scalars, expected };
    check_results(generated, module, &launch, &options, &tolerance);
}

#[test]
fn of_single_precision_with_a_causal_mask() {
    check(
        "#[autotune(dims(H = 2, S = 1..=80, D = 24))]
        fn attention(q: Tensor<f32, H, S, D>, k: Tensor<f32, H, S, D>, v: Tensor<f32, H, S, D>, scale: f32)
            -> Tensor<f32, H, S, D> {
            let s = compute(|h, i, j| {
                let x = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]) * scale;
                if j <= i { x } else { f32::NEG_INFINITY }
            });
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]])
        }",
        0,
        &[&[1], &[17], &[64], &[65], &[80]],
    );
}

#[test]
fn of_a_packed_input_with_lengths() {
    check(
        "#[autotune(dims(B = 1..=3, S = 1..=40, H = 3, E = 32, Q = 288))]
        fn attention(qkv: Tensor<f32, B, S, Q>, lengths: Tensor<i32, B>) -> Tensor<f32, B, S, H, E> {
            let s: Tensor<f32, B, H, S, S> = compute(|b, h, i, j| {
                let dot = sum(0..E, |e| qkv[[b, i, h * 32 + e]] * qkv[[b, j, h * 32 + e + 96]]);
                if (j as i32) < lengths[[b]] { dot * 0.17677669529663687 } else { -1e30 }
            });
            let m = compute(|b, h, i| max(0..S, |j| s[[b, h, i, j]]));
            let w = compute(|b, h, i, j| exp(s[[b, h, i, j]] - m[[b, h, i]]));
            let l = compute(|b, h, i| sum(0..S, |j| w[[b, h, i, j]]));
            compute(|b, i, h, e| {
                sum(0..S, |j| w[[b, h, i, j]] * qkv[[b, j, h * 32 + e + 192]]) / l[[b, h, i]]
            })
        }",
        0,
        &[&[1, 1], &[3, 7], &[2, 40]],
    );
}

/// Every third row or so is masked wholly: its result is no number, as in the definition.
#[test]
fn of_halves_with_any_mask() {
    check_groups(
        "#[autotune(dims(H = 2, S = 1..=70, T = 1..=80, D = 32))]
        fn attention(q: Tensor<f16, H, S, D>, k: Tensor<f16, H, T, D>, v: Tensor<f16, H, T, D>,
            mask: Tensor<f32, S, T>) -> Tensor<f16, H, S, D> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]) + mask[[i, j]]);
            let m = compute(|h, i| max(0..T, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]) as f16);
            let l = compute(|h, i| sum(0..T, |j| e[[h, i, j]] as f32));
            compute(|h, i, d| sum(0..T, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]])
        }",
        &[&[1, 1], &[70, 17], &[3, 64], &[64, 65], &[65, 80]],
    );
}

/// Several heads of queries read the keys and values of one.
#[test]
fn of_brain_floats_whose_heads_share_keys() {
    check_groups(
        "#[autotune(dims(G = 2, R = 2, S = 50, D = 64))]
        fn attention(q: Tensor<bf16, G, R, S, D>, k: Tensor<bf16, G, S, D>, v: Tensor<bf16, G, S, D>)
            -> Tensor<bf16, G, R, S, D> {
            let s = compute(|g, r, i, j| sum(0..D, |d| q[[g, r, i, d]] * k[[g, j, d]]) * 0.125);
            let m = compute(|g, r, i| max(0..S, |j| s[[g, r, i, j]]));
            let e = compute(|g, r, i, j| exp(s[[g, r, i, j]] - m[[g, r, i]]) as bf16);
            let l = compute(|g, r, i| sum(0..S, |j| e[[g, r, i, j]] as f32));
            compute(|g, r, i, d| sum(0..S, |j| e[[g, r, i, j]] * v[[g, j, d]]) / l[[g, r, i]])
        }",
        &[&[]],
    );
}

/// Exponentials are stored as halves although the program keeps them as they are: that is what the
/// second product multiplies them with.
#[test]
fn of_halves_as_it_is_written() {
    let text = attention("H = 2, S = 1..=80, D = 32", "f16", "S", "dot * 0.25");
    check_groups(&text, &[&[1], &[33], &[80]]);
}

/// Attention with a mask on indices, by the name of the length of the keys.
fn masked(dtype: &str, dims: &str, keys: &str, mask: &str) -> String {
    let score = format!("if {mask} {{ dot * 0.25 }} else {{ f32::NEG_INFINITY }}");
    attention(&format!("H = 2, {dims}, D = 16"), dtype, keys, &score)
}

#[test]
fn of_halves_with_a_causal_mask() {
    let dims: &[&[i64]] = &[&[1], &[2], &[31], &[63], &[64], &[65], &[127], &[131], &[200]];
    check_groups(&masked("f16", "S = 1..=200", "S", "j <= i"), dims);
}

/// The last query sees the last key; where there are fewer keys, the first queries see none.
#[test]
fn of_more_keys_than_queries_and_fewer() {
    let dims: &[&[i64]] = &[&[1, 1], &[1, 97], &[97, 1], &[67, 64], &[64, 129], &[130, 67]];
    check(&masked("f32", "S = 1..=130, T = 1..=130", "T", "j <= i + T - S"), 0, dims);
    check_groups(&masked("bf16", "S = 1..=130, T = 1..=130", "T", "j < i + T - S"), dims);
}

#[test]
fn of_a_causal_window() {
    let dims: &[&[i64]] = &[&[1], &[37], &[128], &[131]];
    check_groups(&masked("bf16", "S = 1..=131", "S", "j <= i && i < j + 40"), dims);
}

/// Tiles that a causal mask hides wholly are not looked at.
#[test]
fn a_causal_mask_halves_the_work() {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(&masked("f16", "S = 512", "S", "j <= i")).unwrap();
    let trimmed = default::schedule(&dag, &target().into()).trace;
    let mut whole = trimmed.clone();
    whole.retain(|it| !matches!(it, Instruction::TightenBounds { .. }));
    assert_eq!(whole.len() + 1, trimmed.len());
    let instructions = |trace: &[Instruction]| -> u64 {
        let generated = tvmtune_cuda::generate(&Schedule::replay(&dag, trace).unwrap()).unwrap();
        let module = module(nvrtc, &generated);
        let (params, options) = (params(&dag, &[]), Options::default());
        let run = emulate::run_reporting(&generated, &module, &[], &params, &[], &options).unwrap();
        run.1.iter().map(|it| it.instructions).sum()
    };
    // Of eight blocks of 64 queries, 20 of 32 blocks of 128 keys, and what happens once for each.
    let share = instructions(&trimmed) as f64 / instructions(&whole) as f64;
    assert!((0.62..0.68).contains(&share), "{share}");
}

#[test]
fn blocks_with_most_keys_start_first() {
    let source = |heads: u32| {
        let score = "if j <= i { dot * 0.25 } else { f32::NEG_INFINITY }";
        let text = attention(&format!("H = {heads}, S = 512, D = 16"), "f16", "S", score);
        let schedule = default::schedule(&dsl::program(&text).unwrap(), &target().into());
        tvmtune_cuda::generate(&schedule).unwrap().unit.source
    };
    // Those of all heads, or, where there are many waves of blocks, those of a head.
    let few = source(2);
    assert!(few.contains("const Index i_0 = 7 - Index(blockIdx.x) / 2;"), "{few}");
    assert!(few.contains("for (Index j_0 = 0; j_0 < ((i_0 / 2) + 1); ++j_0)"), "{few}");
    let many = source(1000);
    assert!(many.contains("const Index i_0 = 3 - Index(blockIdx.x) % 4;"), "{many}");
    assert!(many.contains("for (Index j_0 = 0; j_0 < (i_0 + 1); ++j_0)"), "{many}");
}

/// The quotient is taken before the second product.
#[test]
fn of_probabilities() {
    check_groups(
        "#[autotune(dims(H = 2, S = 1..=80, D = 32))]
        fn attention(q: Tensor<bf16, H, S, D>, k: Tensor<bf16, H, S, D>, v: Tensor<bf16, H, S, D>)
            -> Tensor<bf16, H, S, D> {
            let s = compute(|h, i, j| {
                let x = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]);
                if j <= i { x * 0.25 } else { f32::NEG_INFINITY }
            });
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            let p = compute(|h, i, j| e[[h, i, j]] / l[[h, i]]);
            compute(|h, i, d| sum(0..S, |j| p[[h, i, j]] * v[[h, j, d]]))
        }",
        &[&[1], &[48], &[80]],
    );
}

/// Lengths around those of instructions, of blocks of keys, and of two warpgroups.
#[test]
fn of_halves_with_a_causal_mask_at_any_length() {
    let score = "if j <= i { dot / sqrt(D as f32) } else { f32::NEG_INFINITY }";
    let text = attention("H = 1, S = 1..=200, D = 128", "f16", "S", score);
    check_groups(&text, &[&[1], &[63], &[64], &[65], &[127], &[129], &[131], &[200]]);
}

/// Rows that no panel of 64 divides, values shorter than keys, heads inside of rows.
#[test]
fn of_brain_floats_with_lengths_and_odd_heads() {
    for (depth, columns) in [(80, 64), (96, 24), (48, 128)] {
        check_groups(
            &format!(
                "#[autotune(dims(B = 1..=2, S = 1..=130, T = 1..=150, H = 2, D = {depth}, E = {columns}))]
                fn attention(q: Tensor<bf16, B, S, H, D>, k: Tensor<bf16, B, T, H, D>,
                    v: Tensor<bf16, B, T, H, E>, lengths: Tensor<i32, B>) -> Tensor<bf16, B, S, H, E> {{
                    let s: Tensor<f32, B, H, S, T> = compute(|b, h, i, j| {{
                        let dot = sum(0..D, |d| q[[b, i, h, d]] * k[[b, j, h, d]]);
                        if (j as i32) < lengths[[b]] {{ dot * 0.125 }} else {{ -1e30 }}
                    }});
                    let m = compute(|b, h, i| max(0..T, |j| s[[b, h, i, j]]));
                    let e = compute(|b, h, i, j| exp(s[[b, h, i, j]] - m[[b, h, i]]));
                    let l = compute(|b, h, i| sum(0..T, |j| e[[b, h, i, j]]));
                    compute(|b, i, h, d| {{
                        sum(0..T, |j| e[[b, h, i, j]] * v[[b, j, h, d]]) / l[[b, h, i]]
                    }})
                }}"
            ),
            &[&[1, 1, 1], &[2, 130, 127], &[2, 65, 150]],
        );
    }
}

/// Values lie as no instruction of a group wants them: exponentials go through shared memory.
#[test]
fn of_halves_whose_values_are_in_no_panels() {
    let Some(nvrtc) = nvrtc() else { return };
    let dag = dsl::program(
        "#[autotune(dims(S = 1..=140, D = 128))]
        fn attention(q: Tensor<f16, S, D>, k: Tensor<f16, S, D>, v: Tensor<f16, S, D>)
            -> Tensor<f16, S, D> {
            let s = compute(|i, j| sum(0..D, |d| q[[i, d]] * k[[j, d]]) * 0.125);
            let m = compute(|i| max(0..S, |j| s[[i, j]]));
            let e = compute(|i, j| exp(s[[i, j]] - m[[i]]));
            let l = compute(|i| sum(0..S, |j| e[[i, j]]));
            compute(|i, d| sum(0..S, |j| e[[i, j]] * v[[j, d]]) / l[[i]])
        }",
    )
    .unwrap();
    let sketch = &sketches(&dag, &target().into())[0];
    let trace = sketch.instructions(&sketch.default);
    let whole = Schedule::replay(&dag, &trace).unwrap();
    let in_rows = |it: Instruction| match it {
        Instruction::Pack { tensor, layout } => {
            let is_values = whole.tensor(tensor).tensor.name == "v_operand";
            let rows = Layout { splits: Vec::new(), order: vec![1, 0] };
            Instruction::Pack { tensor, layout: if is_values { rows } else { layout } }
        }
        other => other,
    };
    let trace: Vec<Instruction> = trace.into_iter().map(in_rows).collect();
    let generated = tvmtune_cuda::generate(&Schedule::replay(&dag, &trace).unwrap()).unwrap();
    let source = &generated.unit.source;
    let is_in_registers = source.contains("_part[0],\n");
    assert!(!is_in_registers && source.contains("wgmma_f16<0, 0>("), "{source}");
    let module = module(nvrtc, &generated);
    for (n, rows) in [1, 65, 140].into_iter().enumerate() {
        run(&dag, &generated, &module, &[rows], n);
    }
}

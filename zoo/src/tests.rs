//! The networks are those that were published, and each kind of layer computes what it should.
//!
//! # Source
//!
//! Vision: the table of weights in torchvision's documentation ("Models and pre-trained weights",
//! columns Params and GFLOPS, which are multiply-adds; `num_params` in its source to the digit).
//! BERT-base: 22.5 billion operations on 128 tokens (X. Jiao et al., "TinyBERT", 2020), half of
//! them multiplications; parameters as counted in the checkpoint `bert-base-uncased`. MiniLM:
//! parameters of the checkpoint `all-MiniLM-L6-v2` without the pooler, which it does not use; its
//! multiply-adds, for which we know no publication, follow from those of one token and layer, 12
//! times the width squared, and twice tokens times width.

use std::collections::BTreeSet;

use tvmtune_ir::interp::{Array, run};
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_ir::target::{Isa, Target};
use tvmtune_space::default;

use super::*;
use crate::builder::{max_pool, same};
use crate::program::{
    Activation, Conv, Dense, Heads, Image, MaxPool, Text, global_mean, layer_norm, mean_normalized,
};

/// Checks whether a network's convolutions are normalized: by a factor and a shift for each
/// channel, of which a bias is left.
#[derive(Clone, Copy, PartialEq)]
enum Norm {
    Batch,
    None,
}

fn is_conv(layer: &Layer) -> bool {
    layer.name.starts_with("conv") || layer.name.starts_with("depthwise")
}

#[test]
fn networks_are_as_large_as_published() {
    let minilm = 6.0 * 128.0 * (12.0 * 384.0 * 384.0 + 2.0 * 128.0 * 384.0);
    let check = |name: &str, norm: Norm, parameters: u64, multiply_adds: f64| {
        let network = network(name).expect("a network");
        let channels = |it: &Layer| it.weights().find(|it| it.len() == 1).map_or(0, |it| it[0]);
        let folded = match norm {
            Norm::Batch => network.total(|it| if is_conv(it) { channels(it) } else { 0 }),
            Norm::None => 0,
        };
        assert_eq!(network.parameters() + folded, parameters, "{name}: parameters");
        let found = network.multiply_adds();
        let ratio = found as f64 / multiply_adds;
        assert!((ratio - 1.0).abs() < 0.01, "{name}: {found} multiply-adds");
    };
    check("resnet-18", Norm::Batch, 11_689_512, 1.81e9);
    check("resnet-50", Norm::Batch, 25_557_032, 4.09e9);
    check("alexnet", Norm::None, 61_100_840, 0.71e9);
    check("googlenet", Norm::Batch, 6_624_904, 1.5e9);
    check("vgg-16", Norm::None, 138_357_544, 15.47e9);
    check("squeezenet-1.1", Norm::None, 1_235_496, 0.35e9);
    check("mobilenet-v2", Norm::Batch, 3_504_872, 0.3e9);
    check("bert-base", Norm::None, 109_482_240, 11.25e9);
    check("minilm", Norm::None, 22_713_216 - 147_840, minilm);
}

#[test]
fn networks_have_the_layers_that_they_are_named_for() {
    // Products with weights, all runs of layers, and distinct layers.
    let check = |name: &str, n_products: u32, n_runs: u32, n_distinct: usize| {
        let layers = &network(name).expect("a network").layers;
        let is_product = |it: &&Layer| is_conv(it) || it.name.starts_with("dense");
        let runs = |keep: &dyn Fn(&&Layer) -> bool| {
            layers.iter().filter(keep).map(|it| it.multiplicity).sum::<u32>()
        };
        let found = (runs(&is_product), runs(&|_| true), layers.len());
        assert_eq!(found, (n_products, n_runs, n_distinct), "{name}");
    };
    // Beside the 18 and the 50, projections in three and four shortcuts.
    check("resnet-18", 18 + 3, 21 + 2, 18);
    check("resnet-50", 50 + 4, 54 + 2, 27);
    check("alexnet", 8, 8 + 3, 11);
    check("googlenet", 3 + 9 * 6 + 1, 58 + 4 + 9 + 1, 61);
    check("vgg-16", 16, 16 + 5, 9 + 5 + 3);
    check("squeezenet-1.1", 1 + 8 * 3 + 1, 26 + 3 + 1, 22);
    check("mobilenet-v2", 1 + 2 + 16 * 3 + 2, 53 + 1, 32);
    check("bert-base", 12 * 4 + 1, 1 + 12 * 9 + 1, 10);
    check("minilm", 6 * 4, 1 + 6 * 9 + 1, 10);
}

/// Every distinct layer of all networks.
fn distinct() -> Vec<&'static Layer> {
    let mut seen = BTreeSet::new();
    networks().iter().flat_map(|it| &it.layers).filter(|it| seen.insert(&it.source)).collect()
}

#[test]
fn a_name_stands_for_one_program_in_all_networks() {
    let layers = distinct();
    let names: BTreeSet<&str> = layers.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names.len(), layers.len());
    for layer in layers {
        assert_eq!(layer.dag().name, layer.name);
        assert!(layer.multiplicity > 0);
    }
}

#[test]
fn every_layer_has_code_under_its_default_schedule() {
    let arch = Arch::from_name("sm_90a").expect("an architecture");
    for layer in distinct() {
        let dag = layer.dag();
        for isa in [Isa::Avx512, Isa::Avx2] {
            let schedule = default::schedule(&dag, &Target::generic(isa));
            let code = tvmtune_cpu::generate(&schedule, isa);
            assert!(code.is_ok(), "{} on {}: {:?}", layer.name, isa.name(), code.err());
        }
        let schedule = default::schedule(&dag, &Target::Gpu(GpuTarget::generic(arch)));
        let code = tvmtune_cuda::generate(&schedule);
        assert!(code.is_ok(), "{} on a GPU: {:?}", layer.name, code.err());
    }
}

/// Runs a layer by definition on random arguments; returns those, and the result.
fn evaluate(text: Text) -> (Vec<Vec<f32>>, Vec<f32>) {
    let layer = Layer { name: text.name, multiplicity: 1, source: text.source };
    let dag = layer.dag();
    let params = dag.params().enumerate().map(|(n, it)| {
        let tensor = dag.tensor(it);
        let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(&[]) as u64).collect();
        Array::random(tensor.dtype, &shape, n as u64 + 1)
    });
    let params: Vec<Array> = params.collect();
    let result = run(&dag, &[], &params, &[]).remove(0);
    (params.iter().map(Array::to_f32_vec).collect(), result.to_f32_vec())
}

#[track_caller]
fn check(got: &[f32], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (n, (got, want)) in got.iter().zip(want).enumerate() {
        assert!((f64::from(*got) - want).abs() < 1e-5 * (1.0 + want.abs()), "{n}: {got}, {want}");
    }
}

/// The element of an image at a place of its padded self.
fn padded(x: &[f32], size: usize, padding: usize, at: [usize; 3]) -> Option<f64> {
    let [c, y, p] = at;
    let inside = |it: usize| it.checked_sub(padding).filter(|it| *it < size);
    Some(f64::from(x[(c * size + inside(y)?) * size + inside(p)?]))
}

/// Every `(channel, row, column)` of an image.
fn places(channels: usize, size: usize) -> impl Iterator<Item = [usize; 3]> {
    (0..channels * size * size).map(move |n| [n / size / size, n / size % size, n % size])
}

#[test]
fn convolutions_agree_with_loops() {
    let image = Image { channels: 3, size: 9 };
    let wide = |conv: Conv| Conv { channels: 3, depthwise: true, ..conv };
    let linear = |conv: Conv| Conv { activation: Activation::None, ..conv };
    for conv in [
        same(3, 4, 1),
        same(3, 4, 2),
        Conv { padding: 0, ..same(3, 4, 2) },
        Conv { padding: 1, ..same(5, 2, 4) },
        same(1, 4, 1),
        linear(same(1, 4, 2)),
        Conv { residual: true, ..same(3, 4, 1) },
        linear(Conv { residual: true, ..same(1, 4, 1) }),
        Conv { activation: Activation::Relu6, ..wide(same(3, 3, 1)) },
        wide(same(3, 3, 2)),
    ] {
        let (arguments, got) = evaluate(conv.text(image));
        let y = conv.result(image);
        let (size, stride) = (y.size as usize, conv.stride as usize);
        let (n_inputs, window) = (if conv.depthwise { 1 } else { 3 }, conv.window as usize);
        let (x, w, b) = (&arguments[0], &arguments[1], &arguments[2]);
        let element = |(n, [o, i, j]): (usize, [usize; 3])| {
            let mut total = f64::from(b[o]);
            for c in 0..n_inputs {
                for (r, s) in (0..window).flat_map(|r| (0..window).map(move |s| (r, s))) {
                    let channel = if conv.depthwise { o } else { c };
                    let at = [channel, i * stride + r, j * stride + s];
                    let x = padded(x, 9, conv.padding as usize, at).unwrap_or(0.0);
                    total += x * f64::from(w[((o * n_inputs + c) * window + r) * window + s]);
                }
            }
            if conv.residual {
                total += f64::from(arguments[3][n]);
            }
            activated(conv.activation, total)
        };
        let want: Vec<f64> = places(y.channels as usize, size).enumerate().map(element).collect();
        check(&got, &want);
    }
}

fn activated(activation: Activation, value: f64) -> f64 {
    match activation {
        Activation::None => value,
        Activation::Relu => value.max(0.0),
        Activation::Relu6 => value.clamp(0.0, 6.0),
        // The form with the error function, here by its definition as an integral.
        Activation::Gelu => {
            let steps = 2000;
            let step = value / f64::from(steps);
            let density = |it: f64| (-0.5 * it * it).exp() / std::f64::consts::TAU.sqrt();
            let middle = |n: i32| density((f64::from(n) + 0.5) * step) * step;
            value * (0.5 + (0..steps).map(middle).sum::<f64>())
        }
        Activation::Tanh => value.tanh(),
    }
}

#[test]
fn pools_agree_with_loops() {
    let partial = MaxPool { partial: true, ..max_pool(3, 2) };
    let padded_pool = MaxPool { padding: 1, ..max_pool(3, 2) };
    // In torchvision 112 becomes 56 and 13 becomes 6, rounding up; 9 becomes 4, rounding down.
    let sizes = [(partial, 112, 56), (partial, 13, 6), (partial, 14, 7), (max_pool(2, 2), 9, 4)];
    for (pool, size, want) in sizes.into_iter().chain([(padded_pool, 112, 56)]) {
        assert_eq!(pool.result(Image { channels: 1, size }).size, want);
    }
    for size in [8, 9] {
        let image = Image { channels: 2, size };
        for pool in [partial, padded_pool, max_pool(2, 2), MaxPool { padding: 1, ..max_pool(3, 1) }]
        {
            let (arguments, got) = evaluate(pool.text(image));
            let stride = pool.stride as usize;
            let element = |[c, i, j]: [usize; 3]| {
                let window = (0..pool.window as usize)
                    .flat_map(|r| (0..pool.window as usize).map(move |s| (r, s)));
                let at = |(r, s)| [c, i * stride + r, j * stride + s];
                window
                    .filter_map(|it| {
                        padded(&arguments[0], size as usize, pool.padding as usize, at(it))
                    })
                    .fold(f64::NEG_INFINITY, f64::max)
            };
            let want: Vec<f64> = places(2, pool.result(image).size as usize).map(element).collect();
            assert!(want.iter().all(|it| it.is_finite()), "no window is empty");
            check(&got, &want);
        }
    }
    let (arguments, got) = evaluate(global_mean(Image { channels: 3, size: 4 }));
    let mean = |it: &[f32]| it.iter().map(|it| f64::from(*it)).sum::<f64>() / 16.0;
    check(&got, &arguments[0].chunks(16).map(mean).collect::<Vec<_>>());
}

#[test]
fn dense_layers_agree_with_loops() {
    let (inputs, outputs) = (7, 5);
    for activation in [Activation::None, Activation::Relu, Activation::Gelu, Activation::Tanh] {
        for (rows, residual) in [(1, false), (3, false), (3, true)] {
            let dense = Dense { rows, inputs, outputs, residual, activation };
            let (arguments, got) = evaluate(dense.text());
            let row = |x: &[f32], w: &[f32]| {
                x.iter().zip(w).map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>()
            };
            let n_outputs = outputs as usize;
            let want = (0..rows as usize * n_outputs).map(|n| {
                let x = arguments[0].chunks(7).nth(n / n_outputs).expect("a row");
                let w = arguments[1].chunks(7).nth(n % n_outputs).expect("a row");
                let rest = if residual { f64::from(arguments[3][n]) } else { 0.0 };
                activated(activation, row(x, w) + f64::from(arguments[2][n % n_outputs]) + rest)
            });
            check(&got, &want.collect::<Vec<_>>());
        }
    }
}

#[test]
fn attention_agrees_with_loops() {
    let shape = Heads { tokens: 5, heads: 2, features: 3 };
    let (n, heads, features, width) = (5, 2, 3, 6);
    let at = |qkv: &[f32], token: usize, part: usize, a: usize, e: usize| {
        f64::from(qkv[token * 3 * width + part * width + a * features + e])
    };
    let (arguments, got) = evaluate(shape.scores());
    let score = |[a, i, j]: [usize; 3]| {
        let of = |e| at(&arguments[0], i, 0, a, e) * at(&arguments[0], j, 1, a, e);
        (0..features).map(of).sum::<f64>() / 3.0_f64.sqrt()
    };
    check(&got, &places(heads, n).map(score).collect::<Vec<_>>());

    let (arguments, got) = evaluate(shape.softmax());
    let share = |row: &[f32]| {
        let e: Vec<f64> = row.iter().map(|it| f64::from(*it).exp()).collect();
        let total: f64 = e.iter().sum();
        e.into_iter().map(move |it| it / total).collect::<Vec<_>>()
    };
    check(&got, &arguments[0].chunks(n).flat_map(share).collect::<Vec<_>>());

    let (arguments, got) = evaluate(shape.context());
    let mixed = |k: usize| {
        let (i, a, e) = (k / width, k / features % heads, k % features);
        let of = |j| f64::from(arguments[0][(a * n + i) * n + j]) * at(&arguments[1], j, 2, a, e);
        (0..n).map(of).sum::<f64>()
    };
    check(&got, &(0..n * width).map(mixed).collect::<Vec<_>>());
}

/// Rows brought to mean 0 and variance 1, scaled and shifted.
fn normalized(x: &[f64], gamma: &[f32], beta: &[f32]) -> Vec<f64> {
    let n = gamma.len();
    let row = |row: &[f64]| {
        let mean = row.iter().sum::<f64>() / n as f64;
        let variance = row.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n as f64;
        let scaled = row.iter().map(|it| (it - mean) / variance.sqrt());
        let shifted = scaled.zip(gamma).zip(beta);
        shifted.map(|((it, g), b)| it * f64::from(*g) + f64::from(*b)).collect::<Vec<_>>()
    };
    x.chunks(n).flat_map(row).collect()
}

#[test]
fn normalizations_agree_with_loops() {
    let (arguments, got) = evaluate(layer_norm(4, 7));
    let x: Vec<f64> = arguments[0].iter().map(|it| f64::from(*it)).collect();
    check(&got, &normalized(&x, &arguments[1], &arguments[2]));

    let (arguments, got) = evaluate(mean_normalized(4, 7));
    let of = |d: usize| (0..4).map(|i| f64::from(arguments[0][i * 7 + d])).sum::<f64>() / 4.0;
    let mean: Vec<f64> = (0..7).map(of).collect();
    let length = mean.iter().map(|it| it * it).sum::<f64>().sqrt();
    check(&got, &mean.iter().map(|it| it / length).collect::<Vec<_>>());
}

#[test]
fn embeddings_agree_with_loops() {
    let (tokens, vocabulary, features) = (6, 11, 5);
    let text = program::embedding(tokens, vocabulary, 8, features);
    let (arguments, got) = evaluate(text);
    let [ids, words, positions, segments, gamma, beta] = &arguments[..] else { panic!("six") };
    let d = features as usize;
    let element = |n: usize| {
        let id = ids[n / d];
        let is_word = (0.0..f64::from(vocabulary) as f32).contains(&id);
        let word = if is_word { f64::from(words[id as usize * d + n % d]) } else { 0.0 };
        word + f64::from(positions[n]) + f64::from(segments[n % d])
    };
    let x: Vec<f64> = (0..tokens as usize * d).map(element).collect();
    check(&got, &normalized(&x, gamma, beta));
}

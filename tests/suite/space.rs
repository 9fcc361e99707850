//! Points of schedule spaces compute their program; the analytic cost model ranks them.

use tvmtune_cpu::vector;
use tvmtune_ir::dag::{Dag, TensorId};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_schedule::{Schedule, Threads, nest};
use tvmtune_space::default;
use tvmtune_space::fits::cpu::fits;
use tvmtune_tuner::cost::analytic::AnalyticModel;
use tvmtune_tuner::random::Random;
use tvmtune_tuner::search::Score;
use tvmtune_tuner::space::Space;

/// A product of matrices with that many rows.
fn product(m: u64) -> Dag {
    let dag = dsl::program(&format!(
        "#[autotune(dims(M = {m}, N = 256, K = 256))]
        fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }}"
    ));
    dag.unwrap()
}

/// The analytic cost of the default point of the first sketch, with the decisions of some names changed.
fn draft(dag: &Dag, choose: impl Fn(&str) -> Option<u64>) -> f64 {
    let target = CpuTarget::generic(Isa::Avx512);
    let space = Space::new(dag, &target.into());
    let last_word = |name: &str| choose(name.rsplit(' ').next()?);
    let point = space.nearest(0, &|name, _| last_word(name));
    AnalyticModel::new(dag, target.into(), 1).score(&space, &[point])[0]
}

#[test]
fn small_tiles_are_worse_than_the_default() {
    let dag = product(256);
    let best = draft(&dag, |_| None);
    assert!(best.is_finite());
    for (name, value, times) in [("rows", 1, 2.0), ("lanes", 16, 1.0), ("steps", 1, 1.0)] {
        let worse = draft(&dag, |it| (it == name).then_some(value));
        assert!(worse >= best * times, "{name}: {worse} < {times} * {best}");
    }
}

#[test]
fn tiles_that_spill_rank_last() {
    let largest = |it: &str| matches!(it, "rows" | "lanes").then_some(1000);
    assert_eq!(draft(&product(256), largest), f64::INFINITY);
}

#[test]
fn more_work_takes_longer() {
    let cycles = [64, 128, 256, 512].map(|it| draft(&product(it), |_| None));
    assert!(cycles.is_sorted(), "{cycles:?}");
}

/// Every sketch of a program, at random points, agrees with the reference oracle: as loops, and as
/// vector code for each instruction set that it fits.
fn check(source: &str, dims: &[i64]) {
    let dag = dsl::program(source).unwrap();
    let param = |(n, id): (u64, TensorId)| {
        let tensor = dag.tensor(id);
        let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
        Array::whole_numbers(tensor.dtype, &shape, n)
    };
    let params: Vec<Array> = (1..).zip(dag.params()).map(param).collect();
    let expected = tvmtune_ir::interp::run(&dag, dims, &params, &[]);
    let zeros: Vec<Array> = expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
    let mut random = Random::new(7);
    for isa in [Isa::Avx512, Isa::Avx2] {
        let target = CpuTarget::generic(isa);
        let space = Space::new(&dag, &target.into());
        for sketch in 0..space.sketches.len() as u16 {
            let mut n_fit = 0;
            for _ in 0..8 {
                let trace = space.instructions(&space.random_of(sketch, &mut random));
                let schedule = Schedule::replay(&dag, &trace).unwrap();
                let nest = nest::lower(&schedule);
                let text: String = trace.iter().map(|it| format!("{it}\n")).collect();
                let compare = |results: Result<Vec<Array>, String>, shown: &str| {
                    let results = results.unwrap_or_else(|it| panic!("{it}\n{text}\n{shown}"));
                    for (result, expected) in results.iter().zip(&expected) {
                        let error = result.max_error(expected, 2e-5, 2e-5);
                        assert!(error.is_none(), "{error:?}\n{text}\n{shown}");
                    }
                };
                let results = tvmtune_schedule::interp::run(&nest, dims, &params, &[]);
                compare(results.map_err(|it| it.to_string()), &nest.to_string());
                if fits(&nest, &target).is_ok() {
                    n_fit += 1;
                    let kernel = vector::lower(&nest, isa).unwrap();
                    let results = tvmtune_cpu::interp::run(&kernel, dims, &params, &[], &zeros);
                    compare(results.map_err(|it| it.to_string()), &format!("{nest}\n{kernel}"));
                }
            }
            assert!(
                n_fit >= 2,
                "{isa:?}: {n_fit} points of `{}` fit",
                space.sketches[sketch as usize].name
            );
        }
    }
}

/// The loops of a program's default schedule for AVX-512, as text.
fn default_nest(source: &str) -> String {
    let dag = dsl::program(source).unwrap();
    let schedule = default::schedule(&dag, &CpuTarget::generic(Isa::Avx512).into());
    nest::lower(&schedule).to_string()
}

#[test]
fn points_of_a_normalization() {
    check(
        "#[autotune(dims(R = 1..=20, D = 50))]
        fn norm(x: Tensor<f32, R, D>, g: Weight<f32, D>) -> Tensor<f32, R, D> {
            let center = compute(|i| mean(0..D, |j| x[[i, j]]));
            let spread = compute(|i| mean(0..D, |j| (x[[i, j]] - center[[i]]) * (x[[i, j]] - center[[i]])));
            compute(|i, j| (x[[i, j]] - center[[i]]) * rsqrt(spread[[i]] + 1e-5) * g[[j]])
        }",
        &[11],
    );
}

#[test]
fn points_of_prefix_sums() {
    check(
        "#[autotune(dims(R = 1..=20, N = 300))]
        fn sums(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|i, j| sum(0..=j, |k| x[[i, k]]))
        }",
        &[5],
    );
    check(
        "#[autotune(dims(N = 1..=2100))]
        fn sums(x: Tensor<f32, N>) -> Tensor<f32, N> {
            compute(|j| max(j + 1..N, |k| x[[k]].abs()))
        }",
        &[2091],
    );
    check(
        "#[autotune(dims(T = 70, C = 19))]
        fn sums(x: Tensor<f32, T, C>) -> Tensor<f32, T, C> {
            compute(|t, c| sum(0..t, |k| x[[k, c]]))
        }",
        &[],
    );
}

#[test]
fn points_of_a_strided_convolution() {
    check(
        "#[autotune(dims(C = 3, H = 9, O = 10))]
        fn conv(x: Tensor<f32, C, H, H>, w: Weight<f32, O, C, 3, 3>) -> Tensor<f32, O, 5, 5> {
            compute(|o, y, p| sum((0..C, 0..3, 0..3), |c, r, s| {
                x.get([c, 2 * y + r - 1, 2 * p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
        &[],
    );
}

#[test]
fn a_stride_along_lanes_becomes_the_layout_of_the_padded_copy() {
    let text = default_nest(
        "#[autotune(dims(C = 3, H = 224, O = 64))]
        fn stem(x: Tensor<f32, C, H, H>, w: Weight<f32, O, C, 7, 7>) -> Tensor<f32, O, 112, 112> {
            compute(|o, y, p| sum((0..C, 0..7, 0..7), |c, r, s| {
                x.get([c, 2 * y + r - 3, 2 * p + s - 3]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
    );
    for part in ["local x_padded[3, 19, 2, 115]", "((s_1)%(2)), p + ((s_1)/(2))]"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn weights_whose_rows_lie_far_apart_are_packed_by_tile() {
    let text = default_nest(
        "#[autotune(dims(M = 128, N = 3072, K = 768))]
        fn linear(x: Tensor<f32, M, K>, w: Weight<f32, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[k, j]]))
        }",
    );
    assert!(text.contains("packed w[64, 768, 48]"), "{text}");
}

#[test]
fn row_scans_go_by_blocks_of_lanes() {
    let text = default_nest(
        "#[autotune(dims(R = 64, N = 1024))]
        fn sums(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|i, j| sum(0..=j, |k| x[[i, k]]))
        }",
    );
    for part in ["local out_within[1, 64, 16]", "vectorized j_r in 0..16", "k <= j_r"] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn rows_of_any_depth_are_prefetched() {
    let softmax = |s: u32| {
        default_nest(&format!(
            "#[autotune(dims(B = 2, H = 12, S = {s}))]
            fn softmax(x: Tensor<f32, B, H, S, S>) -> Tensor<f32, B, H, S, S> {{
                let m = compute(|b, h, i| max(0..S, |j| x[[b, h, i, j]]));
                let e = compute(|b, h, i, j| exp(x[[b, h, i, j]] - m[[b, h, i]]));
                let t = compute(|b, h, i| sum(0..S, |j| e[[b, h, i, j]]));
                compute(|b, h, i, j| e[[b, h, i, j]] / t[[b, h, i]])
            }}"
        ))
    };
    assert!(softmax(512).contains("pipelined"), "{}", softmax(512));
    // All of it stays in the second-level cache.
    assert!(!softmax(32).contains("pipelined"), "{}", softmax(32));
}

#[test]
fn channel_invariants_are_hoisted_into_a_phase_of_their_own() {
    let text = default_nest(
        "#[autotune(dims(C = 64, H = 56))]
        fn norm(x: Tensor<f32, C, H, H>, m: Tensor<f32, C>, v: Tensor<f32, C>)
            -> Tensor<f32, C, H, H> {
            compute(|c, i, j| (x[[c, i, j]] - m[[c]]) * rsqrt(v[[c]] + 1e-5))
        }",
    );
    assert!(text.contains("out_same[c] = rsqrt(v[c] + 0.00001)"), "{text}");
}

#[test]
fn invariants_of_few_elements_are_not_hoisted() {
    let text = default_nest(
        "#[autotune(dims(C = 64, H = 4))]
        fn norm(x: Tensor<f32, C, H>, v: Tensor<f32, C>) -> Tensor<f32, C, H> {
            compute(|c, i| x[[c, i]] * rsqrt(v[[c]] + 1e-5))
        }",
    );
    assert!(!text.contains("_same"), "{text}");
}

#[test]
fn points_of_a_product_with_a_normalization() {
    check(
        "#[autotune(dims(C = 2, O = 41, H = 25))]
        fn conv(x: Tensor<f32, C, H, H>, w: Weight<f32, O, C>, m: Weight<f32, O>, v: Tensor<f32, O>)
            -> Tensor<f32, O, H, H> {
            let y = compute(|o, i, j| sum(0..C, |c| x[[c, i, j]] * w[[o, c]]));
            compute(|o, i, j| relu((y[[o, i, j]] - m[[o]]) / sqrt(abs(v[[o]]) + 1e-5)))
        }",
        &[],
    );
}

#[test]
fn points_of_a_pool_with_a_stride() {
    check(
        "#[autotune(dims(C = 5, H = 39))]
        fn pool(x: Tensor<f32, C, H, H>) -> Tensor<f32, C, 19, 19> {
            compute(|c, y, p| max((0..3, 0..3), |r, s| x[[c, 2 * y + r, 2 * p + s]]))
        }",
        &[],
    );
}

#[test]
fn every_other_element_is_read_where_it_lies() {
    let text = default_nest(
        "#[autotune(dims(C = 64, H = 55))]
        fn pool(x: Tensor<f32, C, H, H>) -> Tensor<f32, C, 27, 27> {
            compute(|c, y, p| max((0..3, 0..3), |r, s| x[[c, 2 * y + r, 2 * p + s]]))
        }",
    );
    assert!(text.contains("max= x[32*c_0 + 8*c_1 + c, 2*y_0 + r, s_1 + 2*p]"), "{text}");
}

#[test]
fn distances_are_tiled_like_products() {
    let text = default_nest(
        "#[autotune(dims(M = 256, N = 256, D = 64))]
        fn distances(x: Tensor<f32, M, D>, y: Tensor<f32, N, D>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..D, |d| (x[[i, d]] - y[[j, d]]) * (x[[i, d]] - y[[j, d]])))
        }",
    );
    // The second operand lies along the reduction: one copy of it serves both factors.
    assert_eq!(text.matches("local y_operand").count(), 1, "{text}");
    assert!(text.contains("unrolled i in"), "{text}");
}

#[test]
fn sums_of_elements_that_data_chooses_are_tiled() {
    let source = |ids: &str, element: &str, zero: &str| {
        format!(
            "#[autotune(dims(C = 11, S = 50, P = 37))]
            fn sample(x: Tensor<{element}, C, S>, at: Tensor<{ids}, P, 4>, w: Tensor<f32, P, 4>)
                -> Tensor<f32, C, P> {{
                compute(|c, p| {{
                    sum(0..4, |k| w[[p, k]] * x.get([c, at[[p, k]]]).unwrap_or({zero}) as f32)
                }})
            }}"
        )
    };
    let text = default_nest(&source("i64", "f32", "0.0"));
    for expected in ["local at_operand", "local w_operand", "vectorized p in", "unrolled c in"] {
        assert!(text.contains(expected), "no {expected}:\n{text}");
    }
    for (ids, element, zero) in [("i64", "f32", "0.0"), ("i32", "f16", "0.0"), ("u8", "i8", "0")] {
        check(&source(ids, element, zero), &[]);
    }
}

#[test]
fn what_is_read_once_under_a_condition_is_read_in_place() {
    let text = default_nest(
        "#[autotune(dims(B = 8, T = 256, D = 384))]
        fn pool(x: Tensor<f32, B, T, D>) -> Tensor<f32, B, { 2 * D }> {
            compute(|b, d| {
                if d < D { x[[b, 0, d]] } else { sum(0..T, |t| x.get([b, t, d - D]).unwrap_or(0.0)) }
            })
        }",
    );
    assert!(text.contains("+= ") && !text.contains("x_padded"), "{text}");
}

#[test]
fn short_last_axes_are_phases_of_the_axis_before() {
    let of = |extent: u64| {
        default_nest(&format!(
            "#[autotune(dims(N = 96, E = {extent}))]
            fn scaled(x: Tensor<f32, N, E>, s: Tensor<f32, E>) -> Tensor<f32, N, E> {{
                compute(|i, e| x[[i, e]] * s[[e]])
            }}"
        ))
    };
    for extent in [2, 3, 4] {
        let text = of(extent);
        assert!(text.contains(&format!("s[((i_e_2)%({extent}))]")), "{text}");
    }
    assert!(of(5).contains("vectorized e_2 in 0..5"), "{}", of(5));
}

#[test]
fn a_strided_product_is_vectorized_along_its_channels() {
    let dag = dsl::program(
        "#[autotune(dims(B = 1, C = 256, H = 56, W = 56, O = 512, R = 1, Y = 28, P = 28))]
        fn conv(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, R, R>) -> Tensor<f32, B, O, Y, P> {
            compute(|n, o, y, p| sum(0..C, |c| x[[n, c, 2 * y, 2 * p]] * w[[o, c, 0, 0]]))
        }",
    );
    let target = CpuTarget { threads: 2, l1_bytes: 48 << 10, ..CpuTarget::generic(Isa::Avx512) };
    let schedule = default::schedule(&dag.unwrap(), &target.into());
    let text = nest::lower(&schedule).to_string();
    assert!(text.contains("vectorized o in 0..32") && !text.contains("vectorized p"), "{text}");
}

#[test]
fn points_of_a_depthwise_convolution() {
    check(
        "#[autotune(dims(C = 5, H = 10))]
        fn conv(x: Tensor<f32, C, H, H>, w: Tensor<f32, C, 3, 3>) -> Tensor<f32, C, H, H> {
            compute(|c, y, p| sum((0..3, 0..3), |r, s| {
                x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[c, r, s]]
            }))
        }",
        &[],
    );
}

#[test]
fn points_of_attention_over_one_tensor() {
    check(
        "#[autotune(dims(S = 1..=12, Q = 48, H = 2, E = 8))]
        fn attention(qkv: Tensor<f32, S, Q>) -> Tensor<f32, S, H, E> {
            let scores: Tensor<f32, H, S, S> = compute(|h, i, j| {
                sum(0..E, |e| qkv[[i, h * 8 + e]] * qkv[[j, h * 8 + e + 16]]) * 0.01
            });
            let peak = compute(|h, i| max(0..S, |j| scores[[h, i, j]]));
            let weight = compute(|h, i, j| exp(scores[[h, i, j]] - peak[[h, i]]));
            let total = compute(|h, i| sum(0..S, |j| weight[[h, i, j]]));
            compute(|i, h, e| {
                sum(0..S, |j| weight[[h, i, j]] * qkv[[j, h * 8 + e + 32]]) / total[[h, i]]
            })
        }",
        &[7],
    );
}

#[test]
fn points_of_a_gather_and_of_the_largest_element() {
    check(
        "#[autotune(dims(R = 9, V = 6, D = 20))]
        fn embed(ids: Tensor<i32, R>, table: Tensor<f32, V, D>) -> Tensor<f32, R, D> {
            compute(|i, j| table.get([ids[[i]], j]).unwrap_or(0.0))
        }",
        &[],
    );
    check(
        "#[autotune(dims(R = 5, D = 37))]
        fn best(x: Tensor<f32, R, D>) -> Tensor<i32, R> {
            compute(|i| argmax(0..D, |j| x[[i, j]]) as i32)
        }",
        &[],
    );
}

/// The number of threads of the default schedule of a product and a normalization.
fn threads(rows: u64) -> Threads {
    let dag = dsl::program(&format!(
        "#[autotune(dims(R = {rows}, K = 256, D = 128))]
        fn f(x: Tensor<f32, R, K>, w: Weight<f32, D, K>) -> Tensor<f32, R, D> {{
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]));
            let all = compute(|i| sum(0..D, |j| h[[i, j]] * h[[i, j]]));
            compute(|i, j| h[[i, j]] * rsqrt(all[[i]]))
        }}"
    ));
    let target = CpuTarget { threads: 4, ..CpuTarget::generic(Isa::Avx512) };
    default::schedule(&dag.unwrap(), &target.into()).threads
}

#[test]
fn the_number_of_threads_follows_from_all_of_the_work() {
    // The normalization alone is too little for several.
    assert_eq!(threads(64), Threads::All);
    assert_eq!(threads(1), Threads::One);
}

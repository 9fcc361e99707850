//! Whole programs under their default schedules, at extents around the sizes of tiles and vectors: vector
//! code against the reference interpreter.

use tvmtune_cpu::vector;
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::{Instruction, Schedule, nest};
use tvmtune_space::default;

/// Runs the program at each extent of its one dynamic dimension. Returns whether its results have the bits
/// of the definition in which sums are taken in order.
pub(crate) fn check(source: &str, extents: &[i64]) -> bool {
    let mut has_bits = true;
    let dag = dsl::program(source).unwrap();
    for isa in [Isa::Avx512, Isa::Avx2] {
        let schedule = default::schedule(&dag, &Target::generic(isa));
        let nest = nest::lower(&schedule);
        let kernel = vector::lower(&nest, isa).unwrap_or_else(|it| panic!("{it}\n{nest}"));
        assert_eq!(vector::verify::verify(&kernel), []);
        for extent in extents {
            let dims = &[*extent][..dag.dims.len()];
            let param = |(n, id)| {
                let tensor = dag.tensor(id);
                let shape: Vec<u64> =
                    tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
                match tensor.dtype.is_float() {
                    true => Array::random(tensor.dtype, &shape, n),
                    false => Array::whole_numbers(tensor.dtype, &shape, n),
                }
            };
            let params: Vec<Array> = (1..).zip(dag.params()).map(param).collect();
            let half = |it: &tvmtune_ir::dag::Scalar| Number::Float(0.5).cast(it.dtype);
            let scalars: Vec<Number> = dag.scalars.iter().map(half).collect();
            let expected = tvmtune_ir::interp::run(&dag, dims, &params, &scalars);
            let like: Vec<Array> =
                expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
            let shown = || format!("{isa:?} at {extent}\n{nest}\n{kernel}");
            let got = tvmtune_cpu::interp::run(&kernel, dims, &params, &scalars, &like)
                .unwrap_or_else(|fault| panic!("{fault}: {}", shown()));
            for (got, expected) in got.iter().zip(&expected) {
                let error = got.max_error(expected, 2e-5, 2e-5);
                assert!(error.is_none(), "{error:?}: {}", shown());
            }
            let in_order = tvmtune_ir::interp::run_in_order(&dag, dims, &params, &scalars);
            let bits = |it: &[Array]| -> Vec<Vec<u8>> { it.iter().map(Array::bytes).collect() };
            has_bits &= bits(&got) == bits(&in_order);
        }
    }
    has_bits
}

#[test]
fn pointwise_programs_and_products_have_the_bits_of_the_definition() {
    let programs = [
        "#[autotune(dims(M = 1..=40, N = 33))]
        fn pointwise(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
            let a = compute(|i, j| gelu(x[[i, j]]) * sigmoid(y[[i, j]]) + exp(x[[i, j]] * 20.0));
            let b = compute(|i, j| tanh(x[[i, j]]) / (2.0 + sin(y[[i, j]])) - x[[i, j]] * y[[i, j]]);
            compute(|i, j| a[[i, j]].max(0.0).min(b[[i, j]]) + 0.0.max(y[[i, j]]) * pow(2.0, x[[i, j]]))
        }",
        "#[autotune(dims(M = 1..=40, N = 100, K = 37))]
        fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            compute(|i, j| gelu(h[[i, j]]))
        }",
        "#[autotune(dims(M = 1..=40, N = 40, K = 3000))]
        fn long_product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }",
        "#[autotune(dims(M = 1..=40, N = 24, K = 50))]
        fn halves(x: Tensor<bf16, M, K>, w: Weight<bf16, K, N>) -> Tensor<f16, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[k, j]]))
        }",
        "#[autotune(dims(M = 1..=40, N = 48))]
        fn sums_of_exponentials(x: Tensor<f32, 33, M, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..33, |k| exp(x[[k, i, j]] * 4.0 - 92.0)))
        }",
    ];
    for source in programs {
        assert!(check(source, &[1, 2, 9, 16, 40]), "{source}");
    }
}

/// Around 1, the rows of a tile, a vector, and the largest.
const ROWS: [i64; 11] = [1, 2, 5, 7, 8, 9, 15, 16, 17, 31, 40];

#[test]
fn terms_of_a_split_loop_are_added_in_order() {
    let dag = dsl::program(
        "#[autotune(dims(M = 9, N = 40, K = 64))]
        fn f(x: Tensor<f32, M, K>, w: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[k, j]]))
        }",
    );
    let dag = dag.unwrap();
    // A block of the sum for all elements, then the next one.
    let trace = ["split s0 a2 [16]", "reorder s0 [a3, a0, a4, a1]", "annotate s0 a1 vectorized"];
    let trace: Vec<Instruction> = trace.iter().map(|it| it.parse().unwrap()).collect();
    let nest = nest::lower(&Schedule::replay(&dag, &trace).unwrap());
    let params = [Array::random(DType::F32, &[9, 64], 1), Array::random(DType::F32, &[64, 40], 2)];
    let expected = tvmtune_ir::interp::run_in_order(&dag, &[], &params, &[]);
    for isa in [Isa::Avx512, Isa::Avx2] {
        let kernel = vector::lower(&nest, isa).unwrap();
        let like = [Array::zeros(DType::F32, &[9, 40])];
        let got = tvmtune_cpu::interp::run(&kernel, &[], &params, &[], &like).unwrap();
        assert_eq!(got[0].bytes(), expected[0].bytes(), "{isa:?}\n{kernel}");
    }
}

#[test]
fn a_product_with_bias_and_activation() {
    let _ = check(
        "#[autotune(dims(M = 1..=40, N = 100, K = 37))]
        fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
            compute(|i, j| gelu(h[[i, j]]))
        }",
        &ROWS,
    );
}

#[test]
fn a_product_of_rounded_numbers() {
    let _ = check(
        "#[autotune(dims(M = 1..=40, N = 100, K = 37))]
        fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| tf32(x[[i, k]]) * tf32(w[[j, k]])))
        }",
        &ROWS,
    );
}

#[test]
fn products_whose_columns_or_depth_are_known_at_launch() {
    let _ = check(
        "#[autotune(dims(M = 9, N = 1..=40, K = 16))]
        fn f(x: Tensor<f32, M, K>, y: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * y[[k, j]]))
        }",
        &ROWS,
    );
    let _ = check(
        "#[autotune(dims(M = 9, N = 33, K = 1..=40))]
        fn f(x: Tensor<f32, M, K>, y: Tensor<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * y[[j, k]]))
        }",
        &ROWS,
    );
}

#[test]
fn masked_attention_scores() {
    let _ = check(
        "#[autotune(dims(S = 1..=40, D = 24, H = 2))]
        fn f(q: Tensor<f32, S, H, D>, k: Tensor<f32, S, H, D>, scale: f32) -> Tensor<f32, H, S, S> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[i, h, d]] * k[[j, h, d]]) * scale);
            let m = compute(|h, i, j| if i >= j { s[[h, i, j]] } else { -1000.0 });
            let top = compute(|h, i| max(0..S, |j| m[[h, i, j]]));
            let e = compute(|h, i, j| exp(m[[h, i, j]] - top[[h, i]]));
            let n = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            compute(|h, i, j| e[[h, i, j]] / n[[h, i]])
        }",
        &[1, 2, 7, 16, 17, 40],
    );
}

#[test]
fn rows_of_every_length() {
    let _ = check(
        "#[autotune(dims(R = 3, D = 1..=150))]
        fn f(x: Tensor<f32, R, D>, g: Weight<f32, D>, eps: f32) -> Tensor<f32, R, D> {
            let mean = compute(|r| mean(0..D, |d| x[[r, d]]));
            let var = compute(|r| mean(0..D, |d| (x[[r, d]] - mean[[r]]) * (x[[r, d]] - mean[[r]])));
            compute(|r, d| (x[[r, d]] - mean[[r]]) * rsqrt(var[[r]] + eps) * g[[d]])
        }",
        &[1, 2, 15, 16, 17, 63, 64, 65, 100, 127, 128, 129, 150],
    );
}

#[test]
fn a_padded_convolution() {
    let _ = check(
        "#[autotune(dims(C = 3, H = 1..=19, W = 17, O = 20, T = 3))]
        fn f(x: Tensor<f32, C, H, W>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, O, H, W> {
            compute(|o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
                x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
            }))
        }",
        &[1, 2, 3, 8, 14, 19],
    );
}

#[test]
fn rows_of_a_table_and_a_transposition() {
    let _ = check(
        "#[autotune(dims(N = 1..=40, V = 11, D = 20))]
        fn f(ids: Tensor<i32, N>, table: Weight<f32, V, D>) -> Tensor<f32, D, N> {
            compute(|d, n| table.get([ids[[n]], d]).unwrap_or(-1.0))
        }",
        &ROWS,
    );
}

#[test]
fn the_place_of_the_largest() {
    let _ = check(
        "#[autotune(dims(R = 1..=40, D = 33))]
        fn f(x: Tensor<f32, R, D>) -> Tensor<i32, R> {
            compute(|r| argmax(0..D, |d| x[[r, d]]) as i32)
        }",
        &[1, 3, 16, 40],
    );
}

#[test]
fn small_integers_wrap_and_saturate() {
    let _ = check(
        "#[autotune(dims(N = 1..=40))]
        fn f(x: Tensor<i8, N>, y: Tensor<u8, N>, z: Tensor<i32, N>) -> (Tensor<i8, N>, Tensor<u8, N>, Tensor<i32, N>, Tensor<bool, N>) {
            let a = compute(|i| x[[i]] * x[[i]] * x[[i]] + (z[[i]] as i8));
            let b = compute(|i| (x[[i]] as f32 * 100.5) as u8 + y[[i]] * y[[i]]);
            let c = compute(|i| z[[i]] * 1000 / (x[[i]] as i32) + z[[i]] % 3);
            let d = compute(|i| x[[i]] as i32 > z[[i]] || y[[i]] == 2);
            (a, b, c, d)
        }",
        &ROWS,
    );
}

#[test]
fn halves_round_where_they_are_stored() {
    let _ = check(
        "#[autotune(dims(N = 1..=40))]
        fn f(x: Tensor<f16, N>, y: Tensor<bf16, N>) -> (Tensor<f16, N>, Tensor<bf16, N>, Tensor<f32, N>) {
            let a = compute(|i| (x[[i]] as f32 * 3.1 + y[[i]] as f32) as f16);
            let b = compute(|i| (a[[i]] as f32 * 0.7) as bf16);
            let c = compute(|i| (x[[i]] as f32 * 1.001) as bf16 as f32 + a[[i]] as f32);
            (a, b, c)
        }",
        &ROWS,
    );
}

/// Around 1, a block, several, and as many as are taken together in blocks again.
const LENGTHS: [i64; 10] = [1, 15, 16, 17, 33, 64, 65, 257, 1023, 1300];

#[test]
fn sums_up_to_each_element_of_a_row() {
    let _ = check(
        "#[autotune(dims(N = 1..=1300))]
        fn f(x: Tensor<f32, 3, N>) -> (Tensor<f32, 3, N>, Tensor<f32, 3, N>) {
            let up = compute(|i, j| sum(0..=j, |k| x[[i, k]]) / (j + 1) as f32);
            let down = compute(|i, j| max(j + 1..N, |k| x[[i, k]] * x[[i, k]]));
            (up, down)
        }",
        &LENGTHS,
    );
}

#[test]
fn products_before_each_element_of_one_row_of_integers() {
    let _ = check(
        "#[autotune(dims(N = 1..=1300))]
        fn f(x: Tensor<i32, N>, h: Tensor<f16, N>) -> (Tensor<i32, N>, Tensor<f32, N>) {
            let p = compute(|j| prod(0..j, |k| x[[k]]));
            (p, compute(|j| sum(j..N, |k| h[[k]]) * 0.01))
        }",
        &LENGTHS,
    );
}

#[test]
fn sums_up_to_each_step_beside_channels() {
    let _ = check(
        "#[autotune(dims(T = 1..=1300))]
        fn f(x: Tensor<f32, T, 21>, y: Tensor<f32, T, 4>) -> (Tensor<f32, T, 21>, Tensor<f32, T>) {
            let s = compute(|t, c| sum(0..=t, |k| x[[k, c]]) / (t + 1) as f32);
            (s, compute(|t| sum((0..t, 0..4), |k, c| y[[k, c]]) * 0.01))
        }",
        &LENGTHS,
    );
}

#[test]
fn sums_up_to_each_of_a_fixed_number() {
    let _ = check(
        "#[autotune(dims(R = 1..=40, N = 4096))]
        fn f(x: Tensor<f32, R, N>) -> Tensor<f32, R, N> {
            compute(|i, j| sum(0..=j, |k| x[[i, k]]) / (j + 1) as f32)
        }",
        &[1, 3],
    );
}

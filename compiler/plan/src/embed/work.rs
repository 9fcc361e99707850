//! The work of a launch as Rust: what a profile divides by its time.
//!
//! In: a [`Dag`], and the ranges of a bucket. Out: a function from the dimensions to the arithmetic and
//! the bytes of a launch, as [`WorkFunction`] has them. Code of all kinds shares it: a program has the same
//! work on every device.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::Interval;
use tvmtune_space::work::{Product, Traffic, WorkFunction};

use super::dims_poly;

/// Returns the name of the function of bucket `n`.
pub(super) fn name(n: usize) -> String {
    format!("bucket_{n}_work")
}

/// Prints the function of bucket `n`.
pub(super) fn print(text: &mut String, dag: &Dag, n: usize, ranges: &[Interval]) {
    let largest: Vec<i64> = ranges.iter().map(|it| it.hi).collect();
    let work = WorkFunction::near(dag, &largest);
    let flops = sum(work.flops.iter().map(product));
    let bytes = sum(work.bytes.iter().map(traffic));
    let name = name(n);
    *text += &format!(
        "fn {name}(dims: &[i64]) -> [f64; 2] {{\n    [\n        {flops},\n        {bytes},\n    ]\n}}\n"
    );
}

fn sum(terms: impl Iterator<Item = String>) -> String {
    let terms: Vec<String> = terms.collect();
    if terms.is_empty() { "0.0".to_owned() } else { terms.join(" + ") }
}

fn product(product: &Product) -> String {
    let extents = product.extents.iter().map(|it| format!("{} as f64", dims_poly(it).operand()));
    let factors: Vec<String> =
        std::iter::once(format!("{:?}", product.factor)).chain(extents).collect();
    factors.join(" * ")
}

fn traffic(traffic: &Traffic) -> String {
    let all = product(&traffic.all);
    match traffic.gathered.as_slice() {
        [] => all,
        gathered => format!("f64::min({}, {all})", sum(gathered.iter().map(product))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dsl;

    #[track_caller]
    fn printed(source: &str, ranges: &[(i64, i64)]) -> String {
        let ranges: Vec<Interval> = ranges.iter().map(|&(lo, hi)| Interval { lo, hi }).collect();
        let mut text = String::new();
        print(&mut text, &dsl::program(source).unwrap(), 1, &ranges);
        assert!(syn::parse_file(&text).is_ok(), "{text}");
        text
    }

    #[test]
    fn extents_that_are_known_are_numbers() {
        let linear = "#[autotune(dims(M = 1..=40, N = 24, K = 10))]
            fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, s: f32) -> Tensor<f32, M, N> {
                compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) * s)
            }";
        insta::assert_snapshot!(printed(linear, &[(2, 40)]), @"
        fn bucket_1_work(dims: &[i64]) -> [f64; 2] {
            [
                504.0 * dims[0] as f64,
                40.0 * dims[0] as f64 + 960.0 + 96.0 * dims[0] as f64,
            ]
        }
        ");
    }

    #[test]
    fn gathered_elements_are_at_most_the_table() {
        let embed = "#[autotune(dims(S = 1..=4096, V = 100, D = 8))]
            fn embed(ids: Tensor<u32, S>, table: Weight<f32, V, D>) -> Tensor<f32, S, D> {
                compute(|s, d| table.get([ids[[s]], d]).unwrap_or(0.0))
            }";
        insta::assert_snapshot!(printed(embed, &[(1, 4096)]), @"
        fn bucket_1_work(dims: &[i64]) -> [f64; 2] {
            [
                0.0,
                4.0 * dims[0] as f64 + f64::min(32.0 * dims[0] as f64, 3200.0) + 32.0 * dims[0] as f64,
            ]
        }
        ");
    }

    #[test]
    fn masks_leave_the_part_of_the_largest_extents() {
        let lower = "#[autotune(dims(S = 1..=64, T = S..=128))]
            fn lower(x: Tensor<f32, S, T>) -> Tensor<f32, S> {
                compute(|i| sum(0..T, |j| if j <= i + T - S { x[[i, j]] * x[[i, j]] } else { 0.0 }))
            }";
        insta::assert_snapshot!(printed(lower, &[(1, 64), (1, 128)]), @"
        fn bucket_1_work(dims: &[i64]) -> [f64; 2] {
            [
                1.5078125 * dims[0] as f64 * dims[1] as f64,
                4.0 * dims[0] as f64 * dims[1] as f64 + 4.0 * dims[0] as f64,
            ]
        }
        ");
    }
}

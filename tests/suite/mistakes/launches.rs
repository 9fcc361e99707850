//! Mistakes that a launch refuses.

use tvmtune_runtime::{Cpu, Error, Weight, autotune};

use super::Row;

#[autotune(dims(T = 1..=64, CAP = T..=128, D = 8))]
fn total(k: Tensor<f32, CAP, D>) -> Tensor<f32, D> {
    compute(|d| sum(0..T, |t| k[[t, d]]))
}

#[autotune(dims(M = 1..=64, K = 8))]
fn linear(x: Tensor<f32, M, K>, w: Weight<f32, K, K>) -> Tensor<f32, M, K> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}

/// Launches with arguments of these lengths; returns the error.
fn row(mistake: &'static str, x: usize, w: usize, out: usize) -> Row {
    let (values, w, mut y) = (vec![1.0; x], Weight::new(vec![1.0; w]), vec![0.0; out]);
    let said = linear(&Cpu::new(), &values, &w, &mut y);
    let written = format!("linear(&cpu, &x[..{x}], &w[..{}], &mut y[..{out}])", w.len());
    answered(mistake, written, said)
}

fn answered(mistake: &'static str, written: String, said: Result<(), Error>) -> Row {
    Row { mistake, written, printed: vec![said.expect_err(mistake).to_string()] }
}

pub(super) fn rows() -> Vec<Row> {
    let kernel = linear::load(&Cpu::new()).expect("there is code for every CPU");
    let (x, w, mut y) = ([1.0; 16], [1.0; 64], [0.0; 16]);
    let passed = kernel.launch(&Cpu::new(), linear::Dims { m: 3 }, &x, &w, &mut y);
    vec![
        row("an input that holds no whole rows", 15, 64, 16),
        row("a weight of another length", 16, 63, 16),
        row("a result that is too short", 16, 64, 8),
        row("more rows than the range allows", 65 * 8, 64, 65 * 8),
        row("an empty input", 0, 64, 0),
        answered(
            "`Dims` that the arguments do not have",
            "kernel.launch(&cpu, linear::Dims { m: 3 }, &x[..16], &w[..64], &mut y[..16])"
                .to_owned(),
            passed,
        ),
        answered(
            "a cache with less room than is used",
            "total(&cpu, total::Dims { cap: 9, t: 10 }, &k[..72], &mut y[..8])".to_owned(),
            total(&Cpu::new(), total::Dims { cap: 9, t: 10 }, &[1.0; 72], &mut [0.0; 8]),
        ),
        answered(
            "a slice of rows that are apart which ends with the last element that is used",
            "total(&cpu, total::Dims { cap: 9, t: 8 }, &k[..64], &mut y[..8])".to_owned(),
            total(&Cpu::new(), total::Dims { cap: 9, t: 8 }, &[1.0; 64], &mut [0.0; 8]),
        ),
    ]
}

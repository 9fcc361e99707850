//! The smallest program that uses tvmtune: one layer of a neural network.

#![forbid(unsafe_code)]

use tvmtune_runtime::{Cpu, Weight, autotune};

/// `gelu(x w^T + b)`, for a batch of up to 512 rows.
#[autotune(dims(M = 1..=512, N = 256, K = 64), buckets(M = [1, 16, 512]))]
pub fn linear_gelu(
    x: Tensor<f32, M, K>,
    w: Weight<f32, N, K>,
    b: Weight<f32, N>,
) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
    compute(|i, j| gelu(h[[i, j]]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (m, n, k) = (16, 256, 64);
    let x: Vec<f32> = (0..m * k).map(|it| (it % 13) as f32 / 13.0 - 0.5).collect();
    let w: Weight<f32> = (0..n * k).map(|it| (it % 7) as f32 / 7.0 - 0.5).collect();
    let b: Weight<f32> = (0..n).map(|it| it as f32 / n as f32).collect();
    let mut y = vec![0.0; m * n];

    let cpu = Cpu::new();
    linear_gelu(&cpu, &x, &w, &b, &mut y)?;

    // The same by hand, for one element.
    let (row, column) = (3, 5);
    let dot: f32 = (0..k).map(|it| x[row * k + it] * w[column * k + it]).sum();
    let want = gelu(f64::from(dot + b[column])) as f32;
    let got = y[row * n + column];
    println!("y[{row}, {column}] = {got}, by hand {want}");

    let plan = linear_gelu::plan(linear_gelu::Dims { m })?;
    println!("{} code for {}, {} tier", linear_gelu::SPEC.name, plan.isa, plan.tier);
    if (got - want).abs() > 1e-5 {
        return Err("the kernel is wrong".into());
    }
    Ok(())
}

/// `x / 2 * (1 + erf(x / sqrt(2)))`, the integral of the bell curve computed the slow way.
fn gelu(x: f64) -> f64 {
    let n_steps = 10_000;
    let step = x / f64::from(n_steps);
    let density = |t: f64| (-t * t / 2.0).exp() / std::f64::consts::TAU.sqrt();
    let area: f64 = (0..n_steps).map(|it| density((f64::from(it) + 0.5) * step) * step).sum();
    x * (0.5 + area)
}

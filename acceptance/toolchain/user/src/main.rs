//! A user's program: one layer on the GPU, beside the same on the CPU.

use tvmtune_runtime::cuda::Device;
use tvmtune_runtime::{Cpu, Tier, Weight, autotune};

/// `gelu(x w^T + b)`, for a batch of up to 64 rows.
#[autotune(dims(M = 1..=64, N = 256, K = 128), buckets(M = [1, 64]))]
fn linear_gelu(
    x: Tensor<f32, M, K>,
    w: Weight<f32, N, K>,
    b: Weight<f32, N>,
) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
    compute(|i, j| gelu(h[[i, j]]))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let stream = Device::open(0)?.stream()?;
    let kernel = linear_gelu::load(&stream)?;
    let w: Weight<f32> = (0..256 * 128).map(|it| (it % 7) as f32 / 7.0 - 0.5).collect();
    let b: Weight<f32> = (0..256).map(|it| it as f32 / 256.0).collect();
    for m in [1, 7, 64] {
        let x: Vec<f32> = (0..m * 128).map(|it| (it % 13) as f32 / 13.0 - 0.5).collect();
        let mut on_cpu = vec![0.0; m * 256];
        linear_gelu(&Cpu::new(), &x, &w, &b, &mut on_cpu)?;

        let x = stream.clone_htod(&x)?;
        let mut y = stream.alloc_zeros::<f32>(m * 256)?;
        let dims = linear_gelu::Dims { m };
        kernel.launch(&stream, dims, &x, &w, &b, &mut y)?;
        let on_gpu = stream.clone_dtoh(&y)?;

        let differs = |(a, b): (&f32, &f32)| (a - b).abs() > 1e-4;
        if let Some(at) = on_gpu.iter().zip(&on_cpu).position(differs) {
            return Err(format!("{} is not {} at {at}", on_gpu[at], on_cpu[at]).into());
        }
        let plan = kernel.plan(dims)?;
        println!("{m} rows: right, by code for {}, {} tier", plan.isa, plan.tier);
        if plan.tier == Tier::Default {
            return Err("the build did not tune for this GPU".into());
        }
    }
    Ok(())
}

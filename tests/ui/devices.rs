use tvmtune_runtime::cuda::Stream;
use tvmtune_runtime::{Cpu, Weight, autotune};

#[autotune(dims(N = 1..=8))]
pub fn twice(x: Tensor<f32, N>, w: Weight<f32, N>) -> Tensor<f32, N> {
    compute(|n| x[[n]] * w[[n]])
}

fn calls(stream: &Stream, w: &Weight<f32>, x: Vec<f32>, mut y: Vec<f32>) {
    let _ = twice(stream, &x, w, &mut y);
    let kernel: twice::Kernel = twice::load(stream).unwrap();
    let _ = kernel.launch(&Cpu::new(), twice::Dims { n: 1 }, &x, w, &mut y);
}

fn main() {}

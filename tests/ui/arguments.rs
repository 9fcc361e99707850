//! Arguments are checked by type: the errors point at the argument.

use tvmtune_runtime::{Cpu, Weight, autotune};

#[autotune(dims(M = 1..=8, K = 4))]
pub fn scale(x: Tensor<f32, M, K>, w: Weight<f32, K>, by: f32) -> Tensor<f32, M, K> {
    compute(|i, k| x[[i, k]] * w[[k]] * by)
}

fn main() {
    let cpu = Cpu::new();
    let (x, w, mut out) = (vec![0.0_f32; 4], Weight::new([0.0_f32; 4]), vec![0.0_f32; 4]);
    let _ = scale(&cpu, &vec![0.0_f64; 4], &w, 1.0, &mut out);
    let _ = scale(&cpu, &x, &Weight::new([0_i8; 4]), 1.0, &mut out);
    let _ = scale(&cpu, &x, &w, 1.0, &out);
    let _ = scale(&cpu, &x, &w, 1.0, &mut vec![0_i32; 4]);
    let _ = scale(&cpu, &x, &w, &mut out);
    let _ = scale::load(&cpu).unwrap().launch(&cpu, scale::Dims { n: 1 }, &x, &w, 1.0, &mut out);
}

//! All mistakes are reported at once, where they are; the call at the end gets no error.

use tvmtune_runtime::{Cpu, Error, autotune};

#[autotune(dims(M = 1..=8, K = 4), bucket(M = [2]))]
pub fn wrong(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, t: Tensor<f16, M>) -> Tensor<f32, M, K> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k, 0]] * wt[[j, k]] + foo(x[[i, k]])));
    compute(|i, j| h[[i, j]] + t[[i]] + x[[i, j + 1]])
}

fn main() -> Result<(), Error> {
    let (x, w, t, mut out) = ([0.0; 4], [0.0; 4], [0.0; 1], [0.0; 4]);
    wrong(&Cpu::new(), &x, &w, &t, &mut out)?;
    let kernel = wrong::load(&Cpu::new())?;
    kernel.prepare(&w)?;
    kernel.launch(&Cpu::new(), wrong::Dims { m: 1 }, &x, &w, &t, &mut out)
}

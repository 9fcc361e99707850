//! Counts the values of a wave, on a CPU.

use custom_kernel::histogram;
use tvmtune_runtime::{Cpu, Error};

fn main() -> Result<(), Error> {
    let wave: Vec<f32> = (0..10_000).map(|it| (it as f32 * 0.01).sin()).collect();
    let mut counts = vec![0_i32; 256];
    histogram(&Cpu::new(), &wave, -1.0, 128.0, &mut counts)?;
    println!("{} values: {} at the low end, {} in the middle", wave.len(), counts[0], counts[128]);
    Ok(())
}

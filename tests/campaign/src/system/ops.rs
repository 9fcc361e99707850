//! Kernels that the application of the campaign launches, and what they must give, bit by bit.

use std::sync::OnceLock;

use tvmtune_runtime::{Cpu, Error, Isa, Weight, autotune};
use tvmtune_tuner::random::Random;

/// Elements of the longest input.
const ROWS: usize = 96;
const K: usize = 64;
const N: usize = 128;

#[autotune(dims(M = 1..=96, N = 128, K = 64), buckets(M = [1, 16, 96]))]
fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}

#[autotune(dims(M = 1..=96, K = 64))]
fn softmax(x: Tensor<f32, M, K>) -> Tensor<f32, M, K> {
    let m = compute(|i| max(0..K, |k| x[[i, k]]));
    let e = compute(|i, k| exp(x[[i, k]] - m[[i]]));
    let s = compute(|i| sum(0..K, |k| e[[i, k]]));
    compute(|i, k| e[[i, k]] / s[[i]])
}

/// Products so small that modes which flush denormals to zero show.
#[autotune(dims(M = 1..=96, K = 64))]
fn tiny(x: Tensor<f32, M, K>) -> Tensor<f32, M, K> {
    compute(|i, k| x[[i, k]] * 2e-38)
}

/// A function without machine code.
#[autotune(dims(M = 1..=96, K = 64))]
fn portable(x: Tensor<f64, M, K>) -> Tensor<f64, M, K> {
    compute(|i, k| erf(x[[i, k]]) / 3.0 + 1e-310)
}

/// The inputs, and the results of launches on one thread, made before anything happens.
#[derive(Debug)]
pub struct Ops {
    x: Vec<f32>,
    x64: Vec<f64>,
    weight: Weight<f32>,
    /// By instruction set: portable code may round otherwise than machine code.
    expected: Vec<(Isa, Expected)>,
}

#[derive(Debug, Default)]
struct Expected {
    linear: Vec<f32>,
    softmax: Vec<f32>,
    tiny: Vec<f32>,
    portable: Vec<f64>,
}

impl Ops {
    /// Returns the one of this process.
    ///
    /// # Panics
    ///
    /// If a launch on one thread fails.
    pub fn get() -> &'static Self {
        static OPS: OnceLock<Ops> = OnceLock::new();
        OPS.get_or_init(|| Self::new().expect("launches on one thread succeed"))
    }

    fn new() -> Result<Self, Error> {
        let mut random = Random::new(7);
        let x: Vec<f32> = (0..ROWS * K).map(|_| random.unit() as f32 - 0.5).collect();
        let x64 = x.iter().copied().map(f64::from).collect();
        let weight = (0..N * K).map(|_| random.unit() as f32 - 0.5).collect();
        let mut ops = Self { x, x64, weight, expected: Vec::new() };
        for isa in [Isa::Portable, Isa::Avx2, Isa::Avx512] {
            let cpu = Cpu::new().at_most(isa).alone();
            let mut expected = Expected {
                linear: vec![0.0; ROWS * N],
                softmax: vec![0.0; ROWS * K],
                tiny: vec![0.0; ROWS * K],
                portable: vec![0.0; ROWS * K],
            };
            linear(&cpu, &ops.x, &ops.weight, &mut expected.linear)?;
            softmax(&cpu, &ops.x, &mut expected.softmax)?;
            tiny(&cpu, &ops.x, &mut expected.tiny)?;
            portable(&cpu, &ops.x64, &mut expected.portable)?;
            ops.expected.push((isa, expected));
        }
        Ok(ops)
    }

    /// Launches a kernel on some rows, and checks the result; the error says what differs.
    ///
    /// # Errors
    ///
    /// If the launch fails, or an element differs.
    pub fn launch(&self, cpu: &Cpu, random: &mut Random) -> Result<(), String> {
        let rows = 1 + random.below(ROWS);
        let isa = cpu.isa();
        let expected = self.expected.iter().find(|it| it.0 >= isa).map(|it| &it.1);
        let expected = expected.ok_or("no expected results")?;
        let failed = |it: Error| it.to_string();
        match random.below(4) {
            0 => {
                let mut y = vec![0.0; rows * N];
                // A weight of the launch alone is packed in it, and gone afterwards.
                let own = random.chance(0.1).then(|| Weight::new(self.weight.to_vec()));
                let weight = own.as_ref().unwrap_or(&self.weight).clone();
                linear(cpu, &self.x[..rows * K], &weight, &mut y).map_err(failed)?;
                differs("linear", rows, &y, &expected.linear)
            }
            1 => {
                let mut y = vec![0.0; rows * K];
                softmax(cpu, &self.x[..rows * K], &mut y).map_err(failed)?;
                differs("softmax", rows, &y, &expected.softmax)
            }
            2 => {
                let mut y = vec![0.0; rows * K];
                tiny(cpu, &self.x[..rows * K], &mut y).map_err(failed)?;
                differs("tiny", rows, &y, &expected.tiny)
            }
            _ => {
                let mut y = vec![0.0; rows * K];
                portable(cpu, &self.x64[..rows * K], &mut y).map_err(failed)?;
                differs("portable", rows, &y, &expected.portable)
            }
        }
    }
}

/// An element whose bits are compared: comparisons of numbers depend on modes, too.
trait Bits: Copy {
    fn bits(self) -> u64;
}

impl Bits for f32 {
    fn bits(self) -> u64 {
        self.to_bits().into()
    }
}

impl Bits for f64 {
    fn bits(self) -> u64 {
        self.to_bits()
    }
}

fn differs<T: Bits>(op: &str, rows: usize, got: &[T], expected: &[T]) -> Result<(), String> {
    let pairs = got.iter().zip(expected);
    match pairs.enumerate().find(|(_, (got, expected))| got.bits() != expected.bits()) {
        Some((at, (got, expected))) => {
            let (got, expected) = (got.bits(), expected.bits());
            Err(format!("`{op}` of {rows} rows: element {at} is {got:#x}, not {expected:#x}"))
        }
        None => Ok(()),
    }
}

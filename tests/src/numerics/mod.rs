//! The functions of the language over all of their arguments: what each may be wrong by, and where it
//! is wrong by most.
//!
//! In: functions as `#[autotune]` compiles them ([`ops`]), by machine code and by portable code, and
//! what they are in double precision. Out: the greatest error ([`Worst`]) over arguments: all 2^32
//! of them by `cargo run -p tvmtune-tests --bin numerics`, a sample in the suite.

pub mod error;
pub mod fixed;
mod functions;
pub mod ops;
mod sample;

use std::ops::Range;
use std::thread;

pub use functions::{FUNCTIONS, PAIRS};
use ops::LEN;
pub use sample::{pairs, sample};
use tvmtune_runtime::Cpu;

/// A function of one argument of 32 bits or fewer.
pub struct Function {
    /// The name in reports.
    pub name: &'static str,
    /// The program, as an expression of `x[[i]]`.
    pub expression: &'static str,
    /// The types of the argument and the result.
    pub types: [&'static str; 2],
    /// The number of arguments: bit patterns from 0 on.
    pub n_arguments: u64,
    /// Computes [`LEN`] results, both as bit patterns.
    pub run: fn(&Cpu, &[u32], &mut [u32]),
    /// The error of a result at an argument.
    pub error: fn(u32, u32) -> f64,
    /// Whether a result is a NaN.
    pub is_nan: fn(u32) -> bool,
    /// What the error is counted in.
    pub unit: &'static str,
    /// The error that the language promises.
    pub limit: f64,
}

/// A function of two floats.
pub struct PairFunction {
    /// The name in reports.
    pub name: &'static str,
    /// Computes [`LEN`] results.
    pub run: fn(&Cpu, &[f32], &[f32], &mut [f32]),
    /// The error of a result at a pair of arguments.
    pub error: fn(f32, f32, f32) -> f64,
    /// What the error is counted in.
    pub unit: &'static str,
    /// What the language promises.
    pub limit: f64,
}

/// The greatest error of a function, and where it occurs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst<Argument> {
    pub error: f64,
    pub at: Argument,
    pub got: u32,
}

impl<Argument: Copy + Default> Worst<Argument> {
    fn none() -> Self {
        Self { error: 0.0, at: Argument::default(), got: 0 }
    }

    fn join(self, other: Self) -> Self {
        if other.error > self.error { other } else { self }
    }
}

/// The greatest error over some arguments.
pub fn worst(function: &Function, cpu: &Cpu, arguments: &[u32]) -> Worst<u32> {
    let mut worst = Worst::none();
    let mut results = vec![0; LEN];
    for chunk in arguments.chunks(LEN) {
        let mut padded = chunk.to_vec();
        padded.resize(LEN, 0);
        (function.run)(cpu, &padded, &mut results);
        for (at, got) in chunk.iter().zip(&results) {
            let error = (function.error)(*at, *got);
            worst = worst.join(Worst { error, at: *at, got: *got });
        }
    }
    worst
}

/// The greatest error over pairs of arguments.
pub fn worst_pair(
    function: &PairFunction,
    cpu: &Cpu,
    arguments: &[(f32, f32)],
) -> Worst<(f32, f32)> {
    let mut worst = Worst::none();
    let mut results = vec![0.0; LEN];
    for chunk in arguments.chunks(LEN) {
        let (mut a, mut b): (Vec<f32>, Vec<f32>) = chunk.iter().copied().unzip();
        a.resize(LEN, 0.0);
        b.resize(LEN, 0.0);
        (function.run)(cpu, &a, &b, &mut results);
        for (at, got) in chunk.iter().zip(&results) {
            let error = (function.error)(at.0, at.1, *got);
            worst = worst.join(Worst { error, at: *at, got: got.to_bits() });
        }
    }
    worst
}

/// The greatest error over all arguments, by two threads.
pub fn worst_of_all(function: &Function, cpu: &Cpu) -> Worst<u32> {
    let half = function.n_arguments / 2;
    let over = |range: Range<u64>| {
        let starts = range.step_by(LEN);
        starts.fold(Worst::none(), |sum: Worst<u32>, start| {
            let end = (start + LEN as u64).min(function.n_arguments);
            let arguments: Vec<u32> = (start..end).map(|it| it as u32).collect();
            sum.join(worst(function, cpu, &arguments))
        })
    };
    thread::scope(|scope| {
        let other = scope.spawn(|| over(half..function.n_arguments));
        let mine = over(0..half);
        mine.join(other.join().expect("no error is computed by a panic"))
    })
}

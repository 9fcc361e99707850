//! Elementary functions of `f32` that are the same everywhere: each is one sequence of operations on
//! lanes of 32 bits, every one of which is exact or rounded once. Those of `f64` ([`double`]) are for vector
//! code with lanes of 64 bits.
//!
//! ```text
//! elementary, exponential, trig, double  --(Arithmetic)-->  vector code of any width, constants, Rust
//! ```
//!
//! In: a number, as a value of whatever does the arithmetic ([`Arithmetic`]): a graph of vector
//! operations, or [`scalar`] code. Out: the function's value, bit for bit the same from all of them.
//! A NaN is a NaN, and its payload is not promised.
//!
//! # Invariants
//!
//! - It depends on nothing: applications link it, and compilers fold constants by it.
//! - No operation depends on the instruction set. [`Arithmetic::scales`] chooses between two sequences
//!   with the same results.

#![forbid(unsafe_code)]

pub mod arc;
pub mod double;
pub mod elementary;
pub mod exponential;
mod fma;
pub mod lane;
pub mod lane64;
pub mod scalar;
pub mod trig;

pub use fma::fma;

use lane::{Binary, Compare, Unary, Width};

/// Arithmetic on values that stand for lanes of 32 bits, or of 64.
pub trait Arithmetic {
    /// A value: a lane, or a vector of them.
    type Value: Copy;

    /// Returns the bits of a lane.
    fn width(&self) -> Width;

    /// Returns whether [`Binary::ScaleF`] is an instruction.
    fn scales(&self) -> bool;

    /// Returns the bits of a value that is known to be the same in all lanes.
    fn constant_bits(&self, value: Self::Value) -> Option<u64>;

    /// Makes a value with these bits in all lanes; lanes of 32 bits have the low ones.
    fn splat(&mut self, bits: u64) -> Self::Value;

    /// Computes an operation on one value.
    fn unary(&mut self, op: Unary, x: Self::Value) -> Self::Value;

    /// Computes an operation on two values.
    fn binary(&mut self, op: Binary, x: Self::Value, y: Self::Value) -> Self::Value;

    /// Computes `x * y + z`, rounded once.
    fn fma(&mut self, x: Self::Value, y: Self::Value, z: Self::Value) -> Self::Value;

    /// Compares two values.
    fn compare(&mut self, op: Compare, x: Self::Value, y: Self::Value) -> Self::Value;

    /// Selects between two values, lane by lane.
    fn select(
        &mut self,
        condition: Self::Value,
        then: Self::Value,
        otherwise: Self::Value,
    ) -> Self::Value;

    /// Replaces the usual value where a fallback of `x` is needed.
    fn with_fallback(
        &mut self,
        usual: Self::Value,
        fallback: Fallback,
        x: Self::Value,
    ) -> Self::Value;

    /// Makes an `f32`.
    #[inline(always)]
    fn float(&mut self, value: f32) -> Self::Value {
        self.splat(value.to_bits().into())
    }

    /// Makes an `f64`.
    #[inline(always)]
    fn double(&mut self, value: f64) -> Self::Value {
        self.splat(value.to_bits())
    }

    /// Makes an `i32`.
    #[inline(always)]
    fn int(&mut self, value: i32) -> Self::Value {
        self.splat(value.cast_unsigned().into())
    }

    /// Inverts a truth value.
    #[inline(always)]
    fn not(&mut self, x: Self::Value) -> Self::Value {
        let all = match self.width() {
            Width::Bits32 => lane::TRUE.into(),
            Width::Bits64 => lane64::TRUE,
        };
        let all = self.splat(all);
        self.binary(Binary::Xor, x, all)
    }

    /// Adds floats.
    #[inline(always)]
    fn add(&mut self, x: Self::Value, y: Self::Value) -> Self::Value {
        self.binary(Binary::AddF, x, y)
    }

    /// Subtracts floats.
    #[inline(always)]
    fn sub(&mut self, x: Self::Value, y: Self::Value) -> Self::Value {
        self.binary(Binary::SubF, x, y)
    }

    /// Multiplies floats.
    #[inline(always)]
    fn mul(&mut self, x: Self::Value, y: Self::Value) -> Self::Value {
        self.binary(Binary::MulF, x, y)
    }

    /// Divides floats.
    #[inline(always)]
    fn div(&mut self, x: Self::Value, y: Self::Value) -> Self::Value {
        self.binary(Binary::DivF, x, y)
    }

    /// Computes `x * y + z`, rounded once, by a constant.
    #[inline(always)]
    fn fma_by(&mut self, x: Self::Value, y: f32, z: Self::Value) -> Self::Value {
        let y = self.float(y);
        self.fma(x, y, z)
    }
}

/// A function that stands in where the usual way to compute a value does not hold: it is several times
/// as long, and few arguments need it, so vector code has it behind a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fallback {
    /// `sin(x + quarter_turns * pi / 2)` of a large `x`.
    Sine {
        /// Quarter turns to add.
        quarter_turns: i32,
    },
}

impl Fallback {
    /// Returns where `x` needs it, as a truth value.
    #[inline(always)]
    pub fn condition<A: Arithmetic>(self, ops: &mut A, x: A::Value) -> A::Value {
        match self {
            Fallback::Sine { .. } => match ops.width() {
                Width::Bits32 => trig::is_large_angle(ops, x),
                Width::Bits64 => double::trig::is_large_angle(ops, x),
            },
        }
    }

    /// Computes it.
    #[inline(always)]
    pub fn value<A: Arithmetic>(self, ops: &mut A, x: A::Value) -> A::Value {
        match self {
            Fallback::Sine { quarter_turns } => match ops.width() {
                Width::Bits32 => trig::sine_of_large(ops, x, quarter_turns),
                Width::Bits64 => double::trig::sine_of_large(ops, x, quarter_turns),
            },
        }
    }
}

//! The error function of `f64`, as a sequence of operations on lanes of 64 bits.
//!
//! A polynomial approximates it near 0. Beyond, another one approximates what it lacks to 1, without the factors
//! `exp(-x^2)` and `1 / (x + 2.5)`: it takes that quotient for its argument, so there is one division. Both are
//! evaluated, as neighboring lanes may need the other one.
//!
//! # Source
//!
//! The argument for all sizes is that of Shepherd and Laframboise (1981). The polynomials are minimax
//! approximations (Remez) of the absolute error of the results, computed in 50 digits.

use super::{clamp, exp, polynomial};
use crate::Arithmetic;
use crate::lane::{Binary, Compare};

/// The first polynomial is that of smaller sizes.
const NEAR_0: f64 = 0.843_75;
/// From there on, the function is 1.
const ONE: f64 = 6.0;

/// `erf(x) / x - 1` up to 0.84375, in powers of `x^2`, highest first.
const NEAR_0_P: [f64; 11] = [
    1.073_087_516_301_943_2e-8,
    -1.571_599_358_491_767_2e-7,
    1.640_186_174_503_892_7e-6,
    -1.492_214_102_649_067_7e-5,
    0.000_120_552_009_267_307_25,
    -0.000_854_832_382_206_318_9,
    0.005_223_977_576_967_765_5,
    -0.026_866_170_640_844_553,
    0.112_837_916_709_356_72,
    -0.376_126_389_031_834_1,
    0.128_379_167_095_512_56,
];

/// Added to a size before the division.
const SHIFT: f64 = 2.5;
/// `1 / (x + 2.5)` in -1..1 for the sizes from 0.84375 to 6, as `SCALE / (x + 2.5) + OFFSET`.
const SCALE: f64 = 11.024_242_424_242_424;
const OFFSET: f64 = -2.296_969_696_969_697;

/// `erfc(x) exp(x^2) (x + 2.5)` in powers of that argument, highest first.
const BEYOND_P: [f64; 12] = [
    6.059_614_211_846_589e-9,
    -3.747_168_539_370_357_6e-8,
    -8.577_843_920_641_688e-8,
    1.205_808_704_207_521_8e-6,
    2.641_764_158_744_029e-6,
    -4.053_012_334_906_494_4e-5,
    -0.000_183_893_759_529_156_58,
    0.001_120_615_952_167_332_5,
    0.016_404_969_416_744_054,
    0.097_847_182_401_746_84,
    0.382_560_068_327_052_3,
    1.088_456_098_242_793,
];

/// Computes the error function.
pub fn erf<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let sign = ops.double(-0.0);
    let sign = ops.binary(Binary::And, x, sign);
    let size = ops.binary(Binary::Xor, x, sign);
    let size = clamp(ops, size, 0.0, ONE);
    let square = ops.mul(size, size);
    let near_0 = polynomial(ops, square, &NEAR_0_P);
    let near_0 = ops.fma(size, near_0, size);

    let [one, shift, scale, offset] = [1.0, SHIFT, SCALE, OFFSET].map(|it| ops.double(it));
    let shifted = ops.add(size, shift);
    let inverse = ops.div(one, shifted);
    let at = ops.fma(inverse, scale, offset);
    let lacking = polynomial(ops, at, &BEYOND_P);
    // Its part of the result is small, so roundings of the exponent are.
    let zero = ops.double(0.0);
    let exponent = ops.sub(zero, square);
    let power = exp(ops, exponent);
    let factor = ops.mul(power, inverse);
    let lacking = ops.mul(lacking, factor);
    let beyond = ops.sub(one, lacking);

    let end = ops.double(NEAR_0);
    let is_near_0 = ops.compare(Compare::LtF, size, end);
    let value = ops.select(is_near_0, near_0, beyond);
    ops.binary(Binary::Or, value, sign)
}

//! The arc tangent of `f64`, as a sequence of operations on lanes of 64 bits: as [`crate::arc`], with more
//! digits.
//!
//! # Source
//!
//! The polynomial is a minimax approximation (Remez) of the relative error, computed in 60 digits.

use super::polynomial;
use crate::{Arithmetic, arc};

/// `(atan(x) / x - 1) / x^2` up to 1 in powers of `x^2`, highest first.
const P: [f64; 21] = [
    -8.654_142_620_933_603e-6,
    1.038_711_497_147_388e-4,
    -5.928_891_869_250_551e-4,
    2.151_574_433_393_623_2e-3,
    -5.612_356_029_075_857e-3,
    1.131_759_811_248_139_4e-2,
    -1.861_413_330_164_174e-2,
    2.615_160_431_253_356_2e-2,
    -3.278_538_323_147_028e-2,
    3.821_003_820_052_921e-2,
    -4.286_389_772_880_413e-2,
    4.744_925_716_627_519e-2,
    -5.259_433_680_138_299e-2,
    5.881_716_131_519_905e-2,
    -6.666_583_719_294_714e-2,
    7.692_299_711_375_31e-2,
    -9.090_908_547_222_457e-2,
    1.111_111_108_644_551_6e-1,
    -1.428_571_428_503_656_3e-1,
    1.999_999_999_999_044_6e-1,
    -3.333_333_333_333_328_5e-1,
];

/// `pi / 2` less its nearest `f64`.
const QUARTER_TURN_LOW: f64 = 6.123_233_995_736_766e-17;

/// Computes the arc tangent, in `[-pi / 2, pi / 2]`.
pub fn atan<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let constants = [-0.0, 1.0].map(|it| ops.double(it));
    let reduced = arc::reduced(ops, x, constants);
    let p = polynomial(ops, reduced.square, &P);
    let quarter = [std::f64::consts::FRAC_PI_2, QUARTER_TURN_LOW].map(|it| ops.double(it));
    arc::angle(ops, &reduced, p, quarter)
}

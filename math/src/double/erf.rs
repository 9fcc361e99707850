//! The error function of `f64`, as a sequence of operations on lanes of 64 bits.
//!
//! Four quotients of polynomials approximate it, or the logarithm of what it lacks to 1, in as many intervals.
//! All are evaluated, as neighboring lanes may need others, and one division gives the quotient of each lane.
//!
//! # Source
//!
//! The intervals and polynomials of fdlibm (Sun Microsystems, 1993).

use super::{clamp, exp, polynomial};
use crate::Arithmetic;
use crate::lane::{Binary, Compare};

/// The ends of intervals; from the last on, the function is 1.
const NEAR_0: f64 = 0.843_75;
const NEAR_1: f64 = 1.25;
const MIDDLE: f64 = 1.0 / 0.35;
const ONE: f64 = 6.0;

/// The error function of 1, rounded to the digits that an `f32` has.
const ERF_OF_1: f64 = 0.845_062_911_510_467_5;

/// `(erf(x) / x - 1) Q` up to 0.84375, in powers of `x^2`, highest first; `Q` is the next.
const NEAR_0_P: [f64; 5] = [
    -2.376_301_665_665_016_3e-5,
    -0.005_770_270_296_489_442,
    -0.028_481_749_575_598_51,
    -0.325_042_107_247_001_5,
    0.128_379_167_095_512_56,
];

/// See above.
const NEAR_0_Q: [f64; 6] = [
    -3.960_228_278_775_368e-6,
    0.000_132_494_738_004_321_64,
    0.005_081_306_281_875_766,
    0.065_022_249_988_767_3,
    0.397_917_223_959_155_35,
    1.0,
];

/// `(erf(x) - ERF_OF_1) Q` from there to 1.25, in powers of `x - 1`.
const NEAR_1_P: [f64; 7] = [
    -0.002_166_375_594_868_791,
    0.035_478_304_325_618_236,
    -0.110_894_694_282_396_68,
    0.318_346_619_901_161_75,
    -0.372_207_876_035_701_3,
    0.414_856_118_683_748_33,
    -0.002_362_118_560_752_659_4,
];

/// See above.
const NEAR_1_Q: [f64; 7] = [
    0.011_984_499_846_799_107,
    0.013_637_083_912_029_05,
    0.126_171_219_808_761_64,
    0.071_828_654_414_196_27,
    0.540_397_917_702_171,
    0.106_420_880_400_844_23,
    1.0,
];

/// `(ln(x erfc(x)) + x^2 + 0.5625) Q` from there to 1 / 0.35, in powers of `x^-2`.
const MIDDLE_P: [f64; 8] = [
    -9.814_329_344_169_145,
    -81.287_435_506_306_6,
    -184.605_092_906_711_04,
    -162.396_669_462_573_47,
    -62.375_332_450_326_006,
    -10.558_626_225_323_291,
    -0.693_858_572_707_181_8,
    -0.009_864_944_034_847_148,
];

/// See above.
const MIDDLE_Q: [f64; 9] = [
    -0.060_424_415_214_858_1,
    6.570_249_770_319_282,
    108.635_005_541_779_44,
    429.008_140_027_567_83,
    645.387_271_733_267_9,
    434.565_877_475_229_23,
    137.657_754_143_519_04,
    19.651_271_667_439_257,
    1.0,
];

/// The same from there on.
const FAR_P: [f64; 7] = [
    -483.519_191_608_651_4,
    -1_025.095_131_611_077_2,
    -637.566_443_368_389_6,
    -160.636_384_855_821_92,
    -17.757_954_917_754_752,
    -0.799_283_237_680_523,
    -0.009_864_942_924_700_1,
];

/// See above.
const FAR_Q: [f64; 8] = [
    -22.440_952_446_585_82,
    474.528_541_206_955_37,
    2_553.050_406_433_164_4,
    3_199.858_219_508_595_5,
    1_536.729_586_084_437,
    325.792_512_996_573_9,
    30.338_060_743_482_46,
    1.0,
];

/// Computes the error function.
pub fn erf<A: Arithmetic>(ops: &mut A, x: A::Value) -> A::Value {
    let sign = ops.double(-0.0);
    let sign = ops.binary(Binary::And, x, sign);
    let size = ops.binary(Binary::Xor, x, sign);
    let size = clamp(ops, size, 0.0, ONE);
    let [is_near_0, is_near_1, is_middle] = [NEAR_0, NEAR_1, MIDDLE].map(|end| {
        let end = ops.double(end);
        ops.compare(Compare::LtF, size, end)
    });
    let square = ops.mul(size, size);
    let one = ops.double(1.0);
    let from_1 = ops.sub(size, one);
    let inverse = ops.div(one, square);
    let mut quotient = |at, p, q| [polynomial(ops, at, p), polynomial(ops, at, q)];
    let near_0 = quotient(square, &NEAR_0_P[..], &NEAR_0_Q[..]);
    let near_1 = quotient(from_1, &NEAR_1_P, &NEAR_1_Q);
    let middle = quotient(inverse, &MIDDLE_P, &MIDDLE_Q);
    let far = quotient(inverse, &FAR_P, &FAR_Q);
    let [p, q] = [0, 1].map(|n| {
        let beyond = ops.select(is_middle, middle[n], far[n]);
        let beyond = ops.select(is_near_1, near_1[n], beyond);
        ops.select(is_near_0, near_0[n], beyond)
    });
    let quotient = ops.div(p, q);

    let near_0 = ops.fma(size, quotient, size);
    let base = ops.double(ERF_OF_1);
    let near_1 = ops.add(base, quotient);
    // Its part of the result is small, so roundings of the exponent are.
    let offset = ops.double(-0.5625);
    let exponent = ops.add(quotient, offset);
    let exponent = ops.sub(exponent, square);
    let power = exp(ops, exponent);
    let lacking = ops.div(power, size);
    let beyond = ops.sub(one, lacking);
    let value = ops.select(is_near_1, near_1, beyond);
    let value = ops.select(is_near_0, near_0, value);
    ops.binary(Binary::Or, value, sign)
}

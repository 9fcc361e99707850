//! Arithmetic that takes more than one instruction: comparisons, division of integers, minima of
//! numbers and NaNs, conversions that saturate or round.

use super::graph::{Graph, Id, Op};
use super::{VectorBinary, VectorCompare, VectorUnary};
use tvmtune_ir::dag::CompareOp;

impl Graph {
    /// The smaller or larger; of a number and a NaN, the number.
    ///
    /// The instruction gives its second operand where either is a NaN.
    pub(super) fn number(&mut self, op: VectorBinary, a: Id, b: Id) -> Id {
        if self.is_number(b) {
            return self.binary(op, a, b);
        }
        if self.is_number(a) {
            return self.binary(op, b, a);
        }
        let chosen = self.binary(op, a, b);
        let is_number = self.compare(VectorCompare::EqF, b, b);
        self.select(is_number, chosen, a)
    }

    /// The nearest number whose lower 13 bits are 0, ties to even; a NaN stays one.
    pub(super) fn tf32(&mut self, x: Id) -> Id {
        let rounded = self.round_bits(x, 13);
        let is_number = self.compare(VectorCompare::EqF, x, x);
        self.select(is_number, rounded, x)
    }

    /// Whether a value is never a NaN.
    fn is_number(&self, id: Id) -> bool {
        match self.op(id) {
            Op::Splat(bits) => !f32::from_bits(bits).is_nan(),
            Op::Unary(VectorUnary::IntToFloat, _) => true,
            Op::Binary(VectorBinary::MinF | VectorBinary::MaxF, _, b) => self.is_number(b),
            _ => false,
        }
    }

    pub(super) fn compare_float(&mut self, op: CompareOp, a: Id, b: Id) -> Id {
        match op {
            CompareOp::Lt => self.compare(VectorCompare::LtF, a, b),
            CompareOp::Le => self.compare(VectorCompare::LeF, a, b),
            CompareOp::Gt => self.compare(VectorCompare::LtF, b, a),
            CompareOp::Ge => self.compare(VectorCompare::LeF, b, a),
            CompareOp::Eq => self.compare(VectorCompare::EqF, a, b),
            CompareOp::Ne => self.compare(VectorCompare::NeF, a, b),
        }
    }

    pub(super) fn compare_int(&mut self, op: CompareOp, a: Id, b: Id) -> Id {
        let less = |graph: &mut Self, a, b| graph.compare(VectorCompare::LtI, a, b);
        match op {
            CompareOp::Lt => less(self, a, b),
            CompareOp::Gt => less(self, b, a),
            CompareOp::Le => {
                let above = less(self, b, a);
                self.not(above)
            }
            CompareOp::Ge => {
                let below = less(self, a, b);
                self.not(below)
            }
            CompareOp::Eq => self.compare(VectorCompare::EqI, a, b),
            CompareOp::Ne => {
                let equal = self.compare(VectorCompare::EqI, a, b);
                self.not(equal)
            }
        }
    }

    /// Quotient towards zero and remainder of `i32`; both 0 where the divisor is. `small` says
    /// that both fit 24 bits.
    ///
    /// The quotient of the rounded floats is right where both are exact. Else it is off by a few
    /// hundred at most; dividing what is left corrects it to one, and a look at the remainder to none.
    /// Everything wraps, so that quotients of 2^31 come out as they should.
    pub(super) fn divide(&mut self, a: Id, b: Id, small: bool) -> (Id, Id) {
        let float_b = self.unary(VectorUnary::IntToFloat, b);
        let mut quotient = self.int(0);
        let mut rest = a;
        for _ in 0..if small { 1 } else { 2 } {
            let float_rest = self.unary(VectorUnary::IntToFloat, rest);
            let part = self.binary(VectorBinary::DivF, float_rest, float_b);
            let part = self.unary(VectorUnary::FloatToInt, part);
            let product = self.binary(VectorBinary::MulI, part, b);
            quotient = self.binary(VectorBinary::AddI, quotient, part);
            rest = self.binary(VectorBinary::SubI, rest, product);
        }
        if !small {
            (quotient, rest) = self.settle(a, b, quotient, rest);
        }
        let zero = self.int(0);
        let none = self.compare(VectorCompare::EqI, b, zero);
        (self.select(none, zero, quotient), self.select(none, zero, rest))
    }

    /// Corrects a quotient that is off by one: the remainder has the sign of `a`, or is 0, and is
    /// smaller than `b`.
    fn settle(&mut self, a: Id, b: Id, quotient: Id, rest: Id) -> (Id, Id) {
        let zero = self.int(0);
        let sign_a = self.unary(VectorUnary::ShiftRightSigned(31), a);
        let sign_b = self.unary(VectorUnary::ShiftRightSigned(31), b);
        let one = self.int(1);
        let opposite = self.binary(VectorBinary::Xor, sign_a, sign_b);
        // What a step adds to the quotient, and to the remainder taken off.
        let unit = self.binary(VectorBinary::Or, opposite, one);
        let step = self.binary(VectorBinary::MulI, unit, b);
        // Too far: the remainder has the other sign.
        let sign_rest = self.unary(VectorUnary::ShiftRightSigned(31), rest);
        let differs = self.binary(VectorBinary::Xor, sign_rest, sign_a);
        let is_zero = self.compare(VectorCompare::EqI, rest, zero);
        let not_zero = self.not(is_zero);
        let too_far = self.binary(VectorBinary::And, differs, not_zero);
        let back = self.binary(VectorBinary::And, unit, too_far);
        let quotient = self.binary(VectorBinary::SubI, quotient, back);
        let back = self.binary(VectorBinary::And, step, too_far);
        let rest = self.binary(VectorBinary::AddI, rest, back);
        // Not far enough: compared below zero, where -2^31 has a place.
        let (low_rest, low_b) = (self.below_zero(rest), self.below_zero(b));
        let enough = self.compare(VectorCompare::LtI, low_b, low_rest);
        let too_near = self.not(enough);
        let more = self.binary(VectorBinary::And, unit, too_near);
        let quotient = self.binary(VectorBinary::AddI, quotient, more);
        let more = self.binary(VectorBinary::And, step, too_near);
        (quotient, self.binary(VectorBinary::SubI, rest, more))
    }

    /// `-|x|`
    fn below_zero(&mut self, x: Id) -> Id {
        let zero = self.int(0);
        let negative = self.binary(VectorBinary::SubI, zero, x);
        self.binary(VectorBinary::MinI, x, negative)
    }

    /// `f32` to `i32`: saturates, and NaN becomes 0.
    pub(super) fn float_to_int(&mut self, x: Id) -> Id {
        let value = self.unary(VectorUnary::FloatToInt, x);
        let (limit, most) = (self.float(2_147_483_648.0), self.int(i32::MAX));
        let above = self.compare(VectorCompare::LeF, limit, x);
        let value = self.select(above, most, value);
        self.zero_of_nan(x, value)
    }

    /// `f32` to an integer within bounds that a float holds; NaN becomes 0.
    pub(super) fn float_to_byte(&mut self, x: Id, low: f32, high: f32) -> Id {
        let (least, most) = (self.float(low), self.float(high));
        let value = self.binary(VectorBinary::MaxF, x, least);
        let value = self.binary(VectorBinary::MinF, value, most);
        let value = self.unary(VectorUnary::FloatToInt, value);
        // Of a NaN the larger was the bound.
        if low == 0.0 { value } else { self.zero_of_nan(x, value) }
    }

    fn zero_of_nan(&mut self, x: Id, value: Id) -> Id {
        let is_number = self.compare(VectorCompare::EqF, x, x);
        self.binary(VectorBinary::And, value, is_number)
    }

    /// The upper half of an `f32`, rounded to nearest, ties to even.
    pub(super) fn round_to_bf16(&mut self, x: Id) -> Id {
        let rounded = self.round_bits(x, 16);
        self.unless_nan(x, rounded)
    }

    /// The nearest binary16, ties to even, as an `f32`.
    pub(super) fn round_to_f16(&mut self, x: Id) -> Id {
        let magnitude = self.splat(i32::MAX as u32);
        let size = self.binary(VectorBinary::And, x, magnitude);
        let rounded = self.round_bits(size, 13);
        // What rounds to 2^16 is infinite.
        let (limit, infinity) = (self.int(0x477f_ffff), self.float(f32::INFINITY));
        let overflows = self.compare(VectorCompare::LtI, limit, rounded);
        let rounded = self.select(overflows, infinity, rounded);
        // Below 2^-14 the distance is 2^-24, which is that of floats at 1/2.
        let (half, least) = (self.float(0.5), self.float(1.0 / 16384.0));
        let shifted = self.binary(VectorBinary::AddF, size, half);
        let small = self.binary(VectorBinary::SubF, shifted, half);
        let is_small = self.compare(VectorCompare::LtF, size, least);
        let rounded = self.select(is_small, small, rounded);
        let sign = self.splat(1 << 31);
        let sign = self.binary(VectorBinary::And, x, sign);
        let rounded = self.binary(VectorBinary::Or, rounded, sign);
        self.unless_nan(x, rounded)
    }

    /// Rounds the lowest bits away, to nearest, ties to even.
    fn round_bits(&mut self, x: Id, bits: u8) -> Id {
        let (one, half) = (self.int(1), self.int((1 << (bits - 1)) - 1));
        let last = self.unary(VectorUnary::ShiftRight(bits), x);
        let last = self.binary(VectorBinary::And, last, one);
        let sum = self.binary(VectorBinary::AddI, x, half);
        let sum = self.binary(VectorBinary::AddI, sum, last);
        let kept = self.int(-1 << bits);
        self.binary(VectorBinary::And, sum, kept)
    }

    fn unless_nan(&mut self, x: Id, value: Id) -> Id {
        let (is_number, nan) = (self.compare(VectorCompare::EqF, x, x), self.float(f32::NAN));
        self.select(is_number, value, nan)
    }
}

//! Legalization: expansion of operations without an instruction. Comparisons, integer division,
//! `minNum` and `maxNum` of NaNs, conversions that saturate or round.

use super::numbering::{Op, ValueGraph, ValueId};
use super::{Storage, VectorBinary, VectorCompare, VectorUnary};
use tvmtune_ir::dag::{CompareOp, DType};
use tvmtune_math::lane::Width;

impl ValueGraph {
    /// Returns a value before it was wrapped to a byte, if it was: stores of bytes keep the low one of any.
    pub(super) fn before_wrap(&self, value: ValueId, storage: Storage) -> ValueId {
        let unwrapped = match (storage, self.op(value)) {
            (Storage::I8 | Storage::I32, Op::Unary(VectorUnary::ShiftRightSigned(by), high)) => {
                let kept = i64::from(self.simd.width.bits() - u32::from(by));
                match self.op(high) {
                    Op::Unary(VectorUnary::ShiftLeft(other), low)
                        if other == by && kept == 8 * storage.bytes() =>
                    {
                        Some(low)
                    }
                    _ => None,
                }
            }
            // Stores round.
            (Storage::F32, Op::Unary(VectorUnary::SingleF, wide)) => Some(wide),
            (Storage::U8, Op::Binary(VectorBinary::And, low, byte)) => {
                (self.constant_bits(byte) == Some(255)).then_some(low)
            }
            _ => None,
        };
        unwrapped.unwrap_or(value)
    }

    /// Expands `minNum` or `maxNum` of IEEE 754-2008: of a number and a NaN, the number; of equal
    /// numbers, which may be zeros of different signs, the second.
    ///
    /// The instruction returns its second operand if either is a NaN, or if they are equal.
    pub(super) fn min_max_num(&mut self, op: VectorBinary, a: ValueId, b: ValueId) -> ValueId {
        if self.is_number(b) {
            return self.binary(op, a, b);
        }
        if self.is_nonzero_number(a) {
            return self.binary(op, b, a);
        }
        let chosen = self.binary(op, a, b);
        let is_number = self.compare(VectorCompare::EqF, b, b);
        self.select(is_number, chosen, a)
    }

    /// Rounds to TF32: to the nearest number whose lower 13 bits are 0, ties to even; NaN stays NaN.
    pub(super) fn tf32(&mut self, x: ValueId) -> ValueId {
        let rounded = self.round_bits(x, 13);
        let is_number = self.compare(VectorCompare::EqF, x, x);
        self.select(is_number, rounded, x)
    }

    /// Shifts an integer of a type by an amount modulo its bits.
    pub(super) fn shift(
        &mut self,
        op: VectorBinary,
        a: ValueId,
        by: ValueId,
        dtype: DType,
    ) -> ValueId {
        let last = self.int(8 * dtype.bytes() as i32 - 1);
        let by = self.binary(VectorBinary::And, by, last);
        let Some(known) = self.constant_bits(by) else { return self.binary(op, a, by) };
        let known = known as u8;
        let unary = match op {
            VectorBinary::ShiftLeftBy => VectorUnary::ShiftLeft(known),
            VectorBinary::ShiftRightBy => VectorUnary::ShiftRight(known),
            _ => VectorUnary::ShiftRightSigned(known),
        };
        self.unary(unary, a)
    }

    fn is_nonzero_number(&self, id: ValueId) -> bool {
        let float = self.constant_bits(id).map(|it| self.float_of(it));
        float.is_some_and(|it| !it.is_nan() && it != 0.0)
    }

    /// Returns the float of a lane's bits.
    fn float_of(&self, bits: u64) -> f64 {
        match self.simd.width {
            Width::Bits32 => f32::from_bits(bits as u32).into(),
            Width::Bits64 => f64::from_bits(bits),
        }
    }

    fn is_number(&self, id: ValueId) -> bool {
        match self.op(id) {
            Op::Splat(bits) => !self.float_of(bits).is_nan(),
            Op::Unary(VectorUnary::IntToFloat, _) => true,
            Op::Binary(VectorBinary::MinF | VectorBinary::MaxF, _, b) => self.is_number(b),
            _ => false,
        }
    }

    pub(super) fn compare_float(&mut self, op: CompareOp, a: ValueId, b: ValueId) -> ValueId {
        match op {
            CompareOp::Lt => self.compare(VectorCompare::LtF, a, b),
            CompareOp::Le => self.compare(VectorCompare::LeF, a, b),
            CompareOp::Gt => self.compare(VectorCompare::LtF, b, a),
            CompareOp::Ge => self.compare(VectorCompare::LeF, b, a),
            CompareOp::Eq => self.compare(VectorCompare::EqF, a, b),
            CompareOp::Ne => self.compare(VectorCompare::NeF, a, b),
        }
    }

    pub(super) fn compare_int(&mut self, op: CompareOp, a: ValueId, b: ValueId) -> ValueId {
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

    /// The bit of a float's sign.
    pub(super) fn sign_bit(&mut self) -> ValueId {
        match self.simd.width {
            Width::Bits32 => self.int(i32::MIN),
            Width::Bits64 => self.long(i64::MIN),
        }
    }

    /// Compares `u32`.
    pub(super) fn compare_unsigned(&mut self, op: CompareOp, a: ValueId, b: ValueId) -> ValueId {
        // In lanes of 64 bits, the integers of both are positive.
        if matches!(op, CompareOp::Eq | CompareOp::Ne) || self.simd.width == Width::Bits64 {
            return self.compare_int(op, a, b);
        }
        let sign = self.splat(1 << 31);
        let [a, b] = [a, b].map(|it| self.binary(VectorBinary::Xor, it, sign));
        self.compare_int(op, a, b)
    }

    /// Divides integers towards zero and returns quotient and remainder; both are 0 if the divisor is.
    /// `small` states that both operands are exact as floats.
    ///
    /// The float quotient is exact if both operands are. Else it is off by a few thousand at most: a
    /// second division, of the remainder, leaves an error of one, which `correct_quotient` removes.
    /// All operations wrap, so that the quotient of the least integer by -1 is right.
    pub(super) fn divide(&mut self, a: ValueId, b: ValueId, small: bool) -> (ValueId, ValueId) {
        let float_b = self.int_to_float(b);
        let mut quotient = self.int(0);
        let mut rest = a;
        for _ in 0..if small { 1 } else { 2 } {
            let float_rest = self.int_to_float(rest);
            let part = self.binary(VectorBinary::DivF, float_rest, float_b);
            let part = self.float_to_wrapped(part);
            let product = self.binary(VectorBinary::MulI, part, b);
            quotient = self.binary(VectorBinary::AddI, quotient, part);
            rest = self.binary(VectorBinary::SubI, rest, product);
        }
        if !small {
            (quotient, rest) = self.correct_quotient(a, b, quotient, rest);
        }
        let zero = self.int(0);
        let none = self.compare(VectorCompare::EqI, b, zero);
        (self.select(none, zero, quotient), self.select(none, zero, rest))
    }

    fn int_to_float(&mut self, x: ValueId) -> ValueId {
        match self.simd.width {
            Width::Bits32 => self.unary(VectorUnary::IntToFloat, x),
            Width::Bits64 => self.long_to_double(x, false),
        }
    }

    /// Converts a float towards zero; one that is no integer of the lanes' width becomes anything.
    fn float_to_wrapped(&mut self, x: ValueId) -> ValueId {
        match self.simd.width {
            Width::Bits32 => self.unary(VectorUnary::FloatToInt, x),
            Width::Bits64 => self.double_to_wrapped(x),
        }
    }

    /// Corrects a quotient that is off by one, until the remainder has the sign of `a`, or is 0, and
    /// its magnitude is below that of `b`.
    fn correct_quotient(
        &mut self,
        a: ValueId,
        b: ValueId,
        quotient: ValueId,
        rest: ValueId,
    ) -> (ValueId, ValueId) {
        let zero = self.int(0);
        let last = VectorUnary::ShiftRightSigned(self.simd.width.bits() as u8 - 1);
        let [sign_a, sign_b] = [a, b].map(|it| self.unary(last, it));
        let one = self.int(1);
        let opposite = self.binary(VectorBinary::Xor, sign_a, sign_b);
        // One step of the quotient, and the product to subtract from the remainder.
        let unit = self.binary(VectorBinary::Or, opposite, one);
        let step = self.binary(VectorBinary::MulI, unit, b);
        // The quotient is too large: the remainder has the other sign.
        let sign_rest = self.unary(last, rest);
        let differs = self.binary(VectorBinary::Xor, sign_rest, sign_a);
        let is_zero = self.compare(VectorCompare::EqI, rest, zero);
        let not_zero = self.not(is_zero);
        let overshoots = self.binary(VectorBinary::And, differs, not_zero);
        let back = self.binary(VectorBinary::And, unit, overshoots);
        let quotient = self.binary(VectorBinary::SubI, quotient, back);
        let back = self.binary(VectorBinary::And, step, overshoots);
        let rest = self.binary(VectorBinary::AddI, rest, back);
        // The quotient is too small: compare negated magnitudes, as that of the least integer is none.
        let (low_rest, low_b) = (self.negative_abs(rest), self.negative_abs(b));
        let enough = self.compare(VectorCompare::LtI, low_b, low_rest);
        let undershoots = self.not(enough);
        let more = self.binary(VectorBinary::And, unit, undershoots);
        let quotient = self.binary(VectorBinary::AddI, quotient, more);
        let more = self.binary(VectorBinary::And, step, undershoots);
        (quotient, self.binary(VectorBinary::SubI, rest, more))
    }

    fn negative_abs(&mut self, x: ValueId) -> ValueId {
        let zero = self.int(0);
        let negative = self.binary(VectorBinary::SubI, zero, x);
        self.binary(VectorBinary::MinI, x, negative)
    }

    /// Converts `f32` to `i32`: saturates, and NaN becomes 0.
    pub(super) fn float_to_int(&mut self, x: ValueId) -> ValueId {
        let value = self.unary(VectorUnary::FloatToInt, x);
        let (limit, most) = (self.float(2_147_483_648.0), self.int(i32::MAX));
        let above = self.compare(VectorCompare::LeF, limit, x);
        let value = self.select(above, most, value);
        self.zero_of_nan(x, value)
    }

    /// Converts `f32` to `u32` as `as` does: in two halves, as there are instructions for `i32`.
    pub(super) fn float_to_unsigned(&mut self, x: ValueId) -> ValueId {
        let (zero, half) = (self.float(0.0), self.float(2_147_483_648.0));
        // The maximum of a NaN and the bound is the bound.
        let x = self.binary(VectorBinary::MaxF, x, zero);
        let low = self.unary(VectorUnary::FloatToInt, x);
        let rest = self.binary(VectorBinary::SubF, x, half);
        let rest = self.unary(VectorUnary::FloatToInt, rest);
        let sign = self.splat(1 << 31);
        let high = self.binary(VectorBinary::Xor, rest, sign);
        let is_high = self.compare(VectorCompare::LeF, half, x);
        let value = self.select(is_high, high, low);
        let (limit, most) = (self.float(4_294_967_296.0), self.splat(u32::MAX.into()));
        let above = self.compare(VectorCompare::LeF, limit, x);
        self.select(above, most, value)
    }

    /// Converts `u32` to `f32`: both halves are exact, so their sum rounds once.
    pub(super) fn unsigned_to_float(&mut self, x: ValueId) -> ValueId {
        let low = self.splat(0xffff);
        let low = self.binary(VectorBinary::And, x, low);
        let high = self.unary(VectorUnary::ShiftRight(16), x);
        let [low, high] = [low, high].map(|it| self.unary(VectorUnary::IntToFloat, it));
        let scale = self.float(65536.0);
        let high = self.binary(VectorBinary::MulF, high, scale);
        self.binary(VectorBinary::AddF, high, low)
    }

    /// Rounds integers of more than 24 digits to odd multiples of 2^8, others not at all: converted to
    /// `f32`, and then to a type of fewer than 16 digits, these are rounded once.
    pub(super) fn odd(&mut self, x: ValueId, dtype: DType) -> ValueId {
        let zero = self.int(0);
        // A sum of 2^24 and what is between -2^24 and 2^24 has no higher digits than the 25th.
        let (offset, digits) = if dtype == DType::U32 { (0, 24) } else { (1 << 24, 25) };
        let offset = self.int(offset);
        let shifted = self.binary(VectorBinary::AddI, x, offset);
        let high = self.unary(VectorUnary::ShiftRight(digits), shifted);
        let is_small = self.compare(VectorCompare::EqI, high, zero);
        let (low, rest, unit) = (self.int(0xff), self.int(!0xff), self.int(1 << 8));
        let low = self.binary(VectorBinary::And, x, low);
        let is_multiple = self.compare(VectorCompare::EqI, low, zero);
        let rest = self.binary(VectorBinary::And, x, rest);
        let odd = self.binary(VectorBinary::Or, rest, unit);
        let is_exact = self.binary(VectorBinary::Or, is_small, is_multiple);
        self.select(is_exact, x, odd)
    }

    /// Converts `f32` to an integer clamped to `[low, high]`; NaN becomes 0.
    pub(super) fn float_to_byte(&mut self, x: ValueId, low: f32, high: f32) -> ValueId {
        let (least, most) = (self.float(low), self.float(high));
        let value = self.binary(VectorBinary::MaxF, x, least);
        let value = self.binary(VectorBinary::MinF, value, most);
        let value = self.unary(VectorUnary::FloatToInt, value);
        // The maximum of a NaN and the bound is the bound.
        if low == 0.0 { value } else { self.zero_of_nan(x, value) }
    }

    pub(super) fn zero_of_nan(&mut self, x: ValueId, value: ValueId) -> ValueId {
        let is_number = self.compare(VectorCompare::EqF, x, x);
        self.binary(VectorBinary::And, value, is_number)
    }

    /// Rounds to bfloat16, to nearest, ties to even; the result is an `f32`.
    pub(super) fn round_to_bf16(&mut self, x: ValueId) -> ValueId {
        let rounded = self.round_bits(x, 16);
        self.unless_nan(x, rounded)
    }

    /// Rounds to binary16, to nearest, ties to even; the result is an `f32`.
    pub(super) fn round_to_f16(&mut self, x: ValueId) -> ValueId {
        let magnitude = self.int(i32::MAX);
        let size = self.binary(VectorBinary::And, x, magnitude);
        let rounded = self.round_bits(size, 13);
        // Magnitudes that round to 2^16 overflow.
        let (limit, infinity) = (self.int(0x477f_ffff), self.float(f32::INFINITY));
        let overflows = self.compare(VectorCompare::LtI, limit, rounded);
        let rounded = self.select(overflows, infinity, rounded);
        // Subnormals are 2^-24 apart, as floats at 1/2 are.
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

    /// Rounds to a multiple of 2^`bits` of the bit pattern, to nearest, ties to even.
    fn round_bits(&mut self, x: ValueId, bits: u8) -> ValueId {
        let (one, half) = (self.int(1), self.int((1 << (bits - 1)) - 1));
        let last = self.unary(VectorUnary::ShiftRight(bits), x);
        let last = self.binary(VectorBinary::And, last, one);
        let sum = self.binary(VectorBinary::AddI, x, half);
        let sum = self.binary(VectorBinary::AddI, sum, last);
        let kept = self.int(-1 << bits);
        self.binary(VectorBinary::And, sum, kept)
    }

    fn unless_nan(&mut self, x: ValueId, value: ValueId) -> ValueId {
        let (is_number, nan) = (self.compare(VectorCompare::EqF, x, x), self.float(f32::NAN));
        self.select(is_number, value, nan)
    }
}

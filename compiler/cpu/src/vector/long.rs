//! Lanes of 64 bits: conversions, divisions and functions in them.
//!
//! Numbers narrower than a lane are widened where they are loaded and rounded, or wrapped, after each
//! operation: an `f32` is the `f64` of the same value, an `i32` the `i64`. A sum, difference, product, quotient
//! or root of two `f32`, rounded to 53 digits and then to 24, is the one rounded once.
//!
//! # Source
//!
//! Figueroa, "When is double rounding innocuous?", SIGNUM Newsletter 30 (1995).

use super::context::Lowering;
use super::numbering::{Op, ValueGraph, ValueId};
use super::tree::Term;
use super::{ScalarBits, Unsupported, VectorBinary, VectorCompare, VectorUnary};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Numerics, ScalarId, UnaryOp, integer_range};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Isa;
use tvmtune_math::double;
use tvmtune_math::lane::Width;

/// 1.5 * 2^52: a sum with a small integral number has its integer in the low bits.
const ALIGNER: f64 = 6_755_399_441_055_744.0;
/// Integers whose floats have the integer in the low bits once they are aligned: those below 2^51.
const SMALL: i64 = 1 << 51;
/// The digits of an integer below the first 53 of 64.
const DROPPED: i64 = (1 << 11) - 1;
/// 2^32.
const WORDS: f64 = 4_294_967_296.0;
/// 2^63.
const LONGS: f64 = 9_223_372_036_854_775_808.0;

pub(super) fn is_small(range: Interval) -> bool {
    -SMALL < range.lo && range.hi < SMALL
}

impl Lowering<'_> {
    pub(super) fn is_long(&self) -> bool {
        self.simd.width == Width::Bits64
    }

    /// Computes a function of floats. Where the program fixes bits, functions are those of a library, which
    /// portable code calls.
    pub(super) fn function_of_long(
        &mut self,
        op: UnaryOp,
        dtype: DType,
        a: ValueId,
    ) -> Result<ValueId, Unsupported> {
        if dtype != DType::F64 || self.tree.nest.numerics == Numerics::Fixed {
            return Err(Unsupported::Function(op, dtype));
        }
        let graph = self.graph();
        Ok(match op {
            UnaryOp::Exp => double::exp(graph, a),
            UnaryOp::Exp2 => double::exp2(graph, a),
            UnaryOp::ExpM1 => double::exp_m1(graph, a),
            UnaryOp::Ln => double::ln(graph, a),
            UnaryOp::Ln1p => double::ln_1p(graph, a),
            UnaryOp::Log2 => double::log2(graph, a),
            UnaryOp::Erf => double::erf(graph, a),
            UnaryOp::Sin => double::sin(graph, a),
            UnaryOp::Cos => double::cos(graph, a),
            UnaryOp::Atan => double::atan(graph, a),
            UnaryOp::Tanh => double::tanh(graph, a),
            _ => return Err(Unsupported::Function(op, dtype)),
        })
    }

    /// Converts as Rust's `as` does.
    pub(super) fn cast_long(
        &mut self,
        value: ValueId,
        from: &Term,
        to: DType,
    ) -> Result<ValueId, Unsupported> {
        let range = self.range_of(from);
        let from = from.dtype;
        if from == to || from.is_float() && to == DType::F64 {
            return Ok(value);
        }
        let graph = self.graph();
        if from == DType::Bool {
            let one = if to.is_float() { graph.float(1.0) } else { graph.int(1) };
            return Ok(graph.binary(VectorBinary::And, value, one));
        }
        Ok(match (from.is_float(), to) {
            (_, DType::F16 | DType::Bf16) => return Err(Unsupported::Type(to)),
            (true, DType::F32) => graph.unary(VectorUnary::SingleF, value),
            (true, DType::Bool) => {
                let zero = graph.float(0.0);
                graph.compare(VectorCompare::NeF, value, zero)
            }
            (true, DType::I64) => graph.double_to_long(value),
            (true, _) => graph.double_to_int(value, to),
            (false, DType::Bool) => {
                let zero = graph.int(0);
                graph.compare_int(CompareOp::Ne, value, zero)
            }
            (false, DType::F64) => graph.long_to_double(value, is_small(range)),
            (false, DType::F32) => {
                let is_small = is_small(range);
                let value = if is_small { value } else { graph.odd_digits(value) };
                let float = graph.long_to_double(value, is_small);
                graph.unary(VectorUnary::SingleF, float)
            }
            (false, _) => self.wrap(value, to),
        })
    }

    /// Divides integers towards zero, or returns the remainder; both are 0 if the divisor is. A quotient of
    /// small numbers, rounded to a float, is not rounded up to an integer.
    pub(super) fn divide_long(
        &mut self,
        op: BinaryOp,
        [a, b]: [ValueId; 2],
        are_small: bool,
    ) -> ValueId {
        let graph = self.graph();
        if !are_small {
            let (quotient, rest) = graph.divide(a, b, false);
            return if op == BinaryOp::Div { quotient } else { rest };
        }
        let [x, y] = [a, b].map(|it| graph.long_to_double(it, true));
        let quotient = graph.binary(VectorBinary::DivF, x, y);
        let quotient = graph.truncate(quotient);
        let zero = graph.int(0);
        let by_zero = graph.compare(VectorCompare::EqI, b, zero);
        let quotient = graph.select(by_zero, zero, quotient);
        let quotient = graph.small_double_to_long(quotient);
        if op == BinaryOp::Div {
            return quotient;
        }
        let product = graph.binary(VectorBinary::MulI, quotient, b);
        let rest = graph.binary(VectorBinary::SubI, a, product);
        graph.select(by_zero, zero, rest)
    }

    /// Reads a scalar from its entry of the table, which has the bits of its type; see
    /// [`super::TableEntry::Scalar`].
    pub(super) fn scalar_of_long(&mut self, scalar: ScalarId, dtype: DType) -> ValueId {
        let entry = self.table.scalar(scalar, dtype);
        let graph = self.graph();
        let bits = graph.node(Op::Scalar(entry, ScalarBits::Low));
        match dtype {
            DType::F64 | DType::I64 => bits,
            DType::F32 | DType::F16 | DType::Bf16 => graph.widen(bits),
            DType::U32 => graph.low_word(bits),
            DType::Bool => {
                let (low, zero) = (graph.low_word(bits), graph.int(0));
                graph.compare(VectorCompare::LtI, zero, low)
            }
            DType::I32 | DType::I8 | DType::U8 => graph.sign_extended(bits, 32),
        }
    }
}

impl ValueGraph {
    fn double(&mut self, value: f64) -> ValueId {
        self.splat(value.to_bits())
    }

    fn low_word(&mut self, bits: ValueId) -> ValueId {
        let low = self.splat(u32::MAX.into());
        self.binary(VectorBinary::And, bits, low)
    }

    /// Returns the integer in the low bits of a lane.
    pub(super) fn sign_extended(&mut self, value: ValueId, bits: u32) -> ValueId {
        let by = (self.simd.width.bits() - bits) as u8;
        let high = self.unary(VectorUnary::ShiftLeft(by), value);
        self.unary(VectorUnary::ShiftRightSigned(by), high)
    }

    /// Returns the `f64` of an `f32` in the low word: its exponent and digits, moved to where those of an `f64`
    /// are, are 2^896 times too small.
    fn widen(&mut self, bits: ValueId) -> ValueId {
        let (magnitude, sign) = (self.long(0x7fff_ffff), self.long(1 << 31));
        let size = self.binary(VectorBinary::And, bits, magnitude);
        let sign = self.binary(VectorBinary::And, bits, sign);
        let sign = self.unary(VectorUnary::ShiftLeft(32), sign);
        let moved = self.unary(VectorUnary::ShiftLeft(29), size);
        let scale = self.double(f64::from_bits((1023 + 896) << 52));
        let scaled = self.binary(VectorBinary::MulF, moved, scale);
        let endless = self.splat(f64::INFINITY.to_bits());
        let special = self.binary(VectorBinary::Or, moved, endless);
        let largest = self.long(0x7f7f_ffff);
        let is_special = self.compare(VectorCompare::LtI, largest, size);
        let value = self.select(is_special, special, scaled);
        self.binary(VectorBinary::Or, value, sign)
    }

    /// Rounds a float towards zero; NaN stays NaN.
    fn truncate(&mut self, x: ValueId) -> ValueId {
        let [down, up] = [VectorUnary::FloorF, VectorUnary::CeilF].map(|it| self.unary(it, x));
        let zero = self.double(0.0);
        let is_negative = self.compare(VectorCompare::LtF, x, zero);
        self.select(is_negative, up, down)
    }

    /// Converts an integral float below 2^51.
    fn small_double_to_long(&mut self, x: ValueId) -> ValueId {
        let aligner = self.double(ALIGNER);
        let sum = self.binary(VectorBinary::AddF, x, aligner);
        self.binary(VectorBinary::SubI, sum, aligner)
    }

    /// Converts a float to an integer of at most 32 bits: it saturates, and NaN becomes 0.
    fn double_to_int(&mut self, x: ValueId, to: DType) -> ValueId {
        let range = integer_range(to);
        let (least, most) = (self.double(range.lo as f64), self.double(range.hi as f64));
        let bounded = self.binary(VectorBinary::MaxF, x, least);
        let bounded = self.binary(VectorBinary::MinF, bounded, most);
        let whole = self.truncate(bounded);
        let value = self.small_double_to_long(whole);
        self.zero_of_nan(x, value)
    }

    /// Converts a float to an `i64`: it saturates, and NaN becomes 0.
    fn double_to_long(&mut self, x: ValueId) -> ValueId {
        let value = self.double_to_wrapped(x);
        let (least, limit) = (self.double(-LONGS), self.double(LONGS));
        let (lowest, highest) = (self.long(i64::MIN), self.long(i64::MAX));
        let below = self.compare(VectorCompare::LtF, x, least);
        let value = self.select(below, lowest, value);
        let above = self.compare(VectorCompare::LeF, limit, x);
        let value = self.select(above, highest, value);
        self.zero_of_nan(x, value)
    }

    /// Converts a float towards zero; one that is no `i64` becomes anything.
    pub(super) fn double_to_wrapped(&mut self, x: ValueId) -> ValueId {
        if self.simd.isa == Isa::Avx512 {
            return self.unary(VectorUnary::FloatToInt, x);
        }
        // The high word and the low one are small numbers.
        let whole = self.truncate(x);
        let part = self.double(1.0 / WORDS);
        let high = self.binary(VectorBinary::MulF, whole, part);
        let high = self.unary(VectorUnary::FloorF, high);
        let words = self.double(-WORDS);
        let low = self.fma(high, words, whole);
        let [high, low] = [high, low].map(|it| self.small_double_to_long(it));
        let high = self.unary(VectorUnary::ShiftLeft(32), high);
        self.binary(VectorBinary::AddI, high, low)
    }

    /// Rounds an integer of more than 53 digits to odd ones, of which an `f64` has all: rounded again, to an
    /// `f32`, it is as if it were rounded once.
    fn odd_digits(&mut self, x: ValueId) -> ValueId {
        let (dropped, bound) = (self.long(DROPPED), self.long(1 << 53));
        let rest = self.binary(VectorBinary::And, x, dropped);
        // A carry into the last digit that is kept, unless all others are 0.
        let carried = self.binary(VectorBinary::AddI, rest, dropped);
        let odd = self.binary(VectorBinary::Or, carried, x);
        let kept = self.long(!DROPPED);
        let odd = self.binary(VectorBinary::And, odd, kept);
        let shifted = self.binary(VectorBinary::AddI, x, bound);
        let above = self.unary(VectorUnary::ShiftRight(54), shifted);
        let zero = self.int(0);
        let fits = self.compare(VectorCompare::EqI, above, zero);
        self.select(fits, x, odd)
    }

    /// Converts an integer to a float, rounded once.
    pub(super) fn long_to_double(&mut self, x: ValueId, is_small: bool) -> ValueId {
        if is_small {
            let aligner = self.double(ALIGNER);
            let sum = self.binary(VectorBinary::AddI, x, aligner);
            return self.binary(VectorBinary::SubF, sum, aligner);
        }
        if self.simd.isa == Isa::Avx512 {
            return self.unary(VectorUnary::IntToFloat, x);
        }
        // The words in the low bits of 2^84 and of 2^52; the sign bit of the high one, inverted, makes it
        // 2^31 larger.
        let (of_high, of_low) =
            (self.splat(0x4530_0000_8000_0000), self.double(WORDS * 1_048_576.0));
        let high = self.unary(VectorUnary::ShiftRight(32), x);
        let high = self.binary(VectorBinary::Xor, high, of_high);
        let low = self.low_word(x);
        let low = self.binary(VectorBinary::Or, low, of_low);
        let offset = self.double(LONGS * 2_097_152.0 + LONGS + WORDS * 1_048_576.0);
        let high = self.binary(VectorBinary::SubF, high, offset);
        self.binary(VectorBinary::AddF, high, low)
    }
}

//! 64-bit integers: two words each, in lanes of 32 bits.
//!
//! A value that range analysis proves to fit 32 bits is one word like any other integer. The rest,
//! as elements of tensors are, can be copied, compared, chosen, added, and converted by words. Products and
//! quotients of them take lanes of 64 bits (see [`super::long`]), but for those by small constants, and so do
//! reductions, but for sums where most of a program is made of narrower numbers (see [`super::width`]).

use super::context::{ElementRef, LaneCondition, Lowering, Predicate, PredicateCause};
use super::cse::PendingStmt;
use super::numbering::{MaskRef, MemRef, Op, ValueGraph, ValueId};
use super::tree::{Access, Term, TermKind, Write};
use super::{
    LaneStride, ScalarBits, Storage, Unsupported, VectorBinary, VectorCompare, VectorUnary,
};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Reducer, UnaryOp};
use tvmtune_math::lane::Width;

/// 2^32.
const WORD: f32 = 4_294_967_296.0;
/// 2^63.
const LONGS: f32 = 9_223_372_036_854_775_808.0;

/// The greatest divisor of words.
const MAX_DIVISOR: u16 = 1 << 15;

/// The low word and the high one.
type Words = [ValueId; 2];

impl Lowering<'_> {
    /// Returns whether a 64-bit integer takes two words.
    pub(super) fn is_wide(&self, term: &Term) -> bool {
        let range = self.range_of(term);
        let is_split = self.simd.width == Width::Bits32;
        let fits = i32::try_from(range.lo).is_ok() && i32::try_from(range.hi).is_ok();
        is_split && term.dtype == DType::I64 && !fits
    }

    /// Returns whether an operand of a 64-bit integer takes two words.
    pub(super) fn has_wide_operand(&self, term: &Term) -> bool {
        match &term.kind {
            TermKind::Unary(_, a) => self.is_wide(a),
            TermKind::Binary(_, a, b) => self.is_wide(a) || self.is_wide(b),
            TermKind::Select(parts) => self.is_wide(&parts[1]) || self.is_wide(&parts[2]),
            _ => false,
        }
    }

    /// Lowers an integer to one word: the nearest that fits, but some negative number for any below 0.
    pub(super) fn clamped_to_word(&mut self, term: &Term) -> Result<ValueId, Unsupported> {
        if !self.is_wide(term) && !self.has_wide_operand(term) {
            return self.term(term);
        }
        let words = self.words(term)?;
        Ok(self.graph().clamped_to_word(words))
    }

    /// Lowers a 64-bit integer to its words.
    pub(super) fn words(&mut self, term: &Term) -> Result<Words, Unsupported> {
        if !self.is_wide(term) && !self.has_wide_operand(term) {
            let low = self.term(term)?;
            return Ok([low, self.graph().sign(low)]);
        }
        match &term.kind {
            TermKind::Read(access) => self.read_words(access),
            TermKind::Scalar(scalar) => {
                let entry = self.table.scalar(*scalar, term.dtype);
                let word = |bits| self.graph().node(Op::Scalar(entry, bits));
                Ok([ScalarBits::Low, ScalarBits::HighWord].map(word))
            }
            TermKind::Cast(a) if a.dtype == DType::U32 => Ok([self.term(a)?, self.graph().int(0)]),
            TermKind::Cast(a) if a.dtype.is_float() => {
                let value = self.term(a)?;
                Ok(self.graph().float_to_words(value))
            }
            TermKind::Unary(op, a) => {
                let a = self.words(a)?;
                self.graph().unary_words(*op, a)
            }
            TermKind::Binary(op, a, b) => {
                // In lanes of their own, products of 64 bits take fewer instructions.
                if let Some((words, factor)) = self.product_with_constant(*op, a, b)
                    && self.is_lane_invariant(words)?
                {
                    let words = self.words(words)?;
                    return Ok(self.graph().product_of_words(words, factor));
                }
                if let BinaryOp::Div | BinaryOp::Rem = op
                    && let Some(by) = self.divisor_of_words(b)
                    && (self.tree.divides_words || self.is_lane_invariant(a)?)
                {
                    let a = self.words(a)?;
                    let (quotient, rest) = self.graph().divide_words(a, by);
                    return Ok(if *op == BinaryOp::Div { quotient } else { rest });
                }
                let (a, b) = (self.words(a)?, self.words(b)?);
                self.graph().binary_words(*op, a, b)
            }
            TermKind::Select(parts) => self.select_words(parts),
            _ => Err(Unsupported::Range),
        }
    }

    /// Returns the operands of a product with a natural constant of 16 bits, as of a row's number with its length.
    fn product_with_constant<'t>(
        &self,
        op: BinaryOp,
        a: &'t Term,
        b: &'t Term,
    ) -> Option<(&'t Term, u16)> {
        let constant = |it: &Term| {
            let range = self.range_of(it);
            (range.lo == range.hi).then(|| u16::try_from(range.lo).ok()).flatten()
        };
        match op {
            BinaryOp::Mul => {
                constant(b).map(|it| (a, it)).or_else(|| constant(a).map(|it| (b, it)))
            }
            BinaryOp::Shl => Some((a, 1_u16.checked_shl(constant(b)?.into())?)),
            _ => None,
        }
    }

    /// Returns a constant by which words are divided, as the length of a page or of a circular buffer.
    fn divisor_of_words(&self, term: &Term) -> Option<u16> {
        let range = self.range_of(term);
        let constant = (range.lo == range.hi).then(|| u16::try_from(range.lo).ok()).flatten();
        constant.filter(|it| (1..=MAX_DIVISOR).contains(it))
    }

    /// Compares 64-bit integers of which one takes two words.
    pub(super) fn compare_words(
        &mut self,
        op: CompareOp,
        a: &Term,
        b: &Term,
    ) -> Result<ValueId, Unsupported> {
        let is_equality = matches!(op, CompareOp::Eq | CompareOp::Ne);
        let is_natural = |it: &Term| !self.is_wide(it) && self.range_of(it).lo >= 0;
        // The words of what is equal in all lanes become one before they are compared with each lane.
        if is_equality && (is_natural(a) || is_natural(b)) {
            let (wide, natural) = if is_natural(b) { (a, b) } else { (b, a) };
            let (words, natural) = (self.words(wide)?, self.term(natural)?);
            let graph = self.graph();
            let word = graph.natural_or_negative(words);
            return Ok(graph.compare_int(op, word, natural));
        }
        // Clamping keeps the order relative to any word below the greatest one.
        let is_below = |it: &Term| is_natural(it) && self.range_of(it).hi < i32::MAX.into();
        if is_below(a) || is_below(b) {
            let (a, b) = (self.clamped_to_word(a)?, self.clamped_to_word(b)?);
            return Ok(self.graph().compare_int(op, a, b));
        }
        let (a, b) = (self.words(a)?, self.words(b)?);
        Ok(self.graph().compare_words(op, a, b))
    }

    /// Converts a 64-bit integer of two words as `as` does.
    pub(super) fn narrow_words(&mut self, term: &Term, to: DType) -> Result<ValueId, Unsupported> {
        let words = self.words(term)?;
        match to {
            DType::Bool => {
                let zero = self.graph().int(0);
                Ok(self.graph().compare_words(CompareOp::Ne, words, [zero; 2]))
            }
            to if to.is_integer() => Ok(self.wrap(words[0], to)),
            DType::F64 => Err(Unsupported::Type(to)),
            to => self.words_to_float(words, to),
        }
    }

    /// Converts to a float, rounded once.
    fn words_to_float(&mut self, words: Words, to: DType) -> Result<ValueId, Unsupported> {
        let [low, high] = words;
        let narrow = self.cast(low, DType::I32, to)?;
        let graph = self.graph();
        let (digits, scale) = graph.leading_digits(words);
        let digits = if to == DType::Bf16 { graph.odd(digits, DType::I32) } else { digits };
        let digits = graph.unary(VectorUnary::IntToFloat, digits);
        let wide = graph.binary(VectorBinary::MulF, digits, scale);
        let wide = self.cast(wide, DType::F32, to)?;
        let graph = self.graph();
        let sign = graph.sign(low);
        let fits = graph.compare(VectorCompare::EqI, high, sign);
        Ok(graph.select(fits, narrow, wide))
    }

    fn read_words(&mut self, access: &Access) -> Result<Words, Unsupported> {
        if !access.gather.is_empty() {
            return Err(Unsupported::Type(DType::I64));
        }
        let (tensor, words, lanes) = match self.element_ref(access, false)? {
            ElementRef::Words { tensor, words, lanes } => (tensor, words, lanes),
            ElementRef::Register(_) | ElementRef::Memory { .. } => {
                return Err(Unsupported::Type(DType::I64));
            }
        };
        let mask = self.read_mask(access, lanes == LaneStride::Uniform)?;
        let epoch = self.epochs[tensor.0 as usize];
        Ok(words.map(|address| {
            let place = MemRef { address, storage: Storage::Word, mask, epoch };
            self.graph().node(Op::Load(place, lanes))
        }))
    }

    fn select_words(&mut self, parts: &[Term; 3]) -> Result<Words, Unsupported> {
        let [condition, then, otherwise] = parts;
        let condition = self.term(condition)?;
        match self.graph().known_truth(condition) {
            Some(false) => return self.words(otherwise),
            Some(true) => return self.words(then),
            None => {}
        }
        let then = self.under(condition, |it| it.words(then))?;
        let opposite = self.graph().not(condition);
        let otherwise = self.under(opposite, |it| it.words(otherwise))?;
        Ok(self.graph().select_words(condition, then, otherwise))
    }

    /// Lowers a part of a select under a mask: other lanes access no memory.
    pub(super) fn under<T>(
        &mut self,
        condition: ValueId,
        lower: impl FnOnce(&mut Self) -> Result<T, Unsupported>,
    ) -> Result<T, Unsupported> {
        let limit = LaneCondition::True(condition);
        self.masks.push(Predicate { limit, cause: PredicateCause::Condition });
        let value = lower(self);
        self.masks.pop();
        value
    }

    /// Adds a 64-bit integer to the element of a write, one for each lane, or those of all lanes to one.
    fn add_words(
        &mut self,
        write: &Write,
        (addresses, lanes): ([u32; 2], LaneStride),
    ) -> Result<Words, Unsupported> {
        let tensor = write.target.tensor;
        let mut words = self.words(&write.value)?;
        let is_of_lanes = self.lane.is_some_and(|lane| {
            !self.tree.mentions(&write.target.offset, lane)
                && !self.allocations.scope_loops(tensor).contains(&lane)
        });
        if is_of_lanes {
            let mask = self.mask(&|_, _| true)?;
            if mask != MaskRef::All {
                let (condition, zero) = (self.truth(mask)?, self.graph().int(0));
                words = self.graph().select_words(condition, words, [zero; 2]);
            }
            words = self.graph().sum_of_lanes(words);
        }
        if write.overwrites {
            return Ok(words);
        }
        let (mask, epoch) = (self.memory_mask(lanes)?, self.epochs[tensor.0 as usize]);
        let old = addresses.map(|address| {
            let place = MemRef { address, storage: Storage::Word, mask, epoch };
            self.graph().node(Op::Load(place, lanes))
        });
        self.graph().binary_words(BinaryOp::Add, words, old)
    }

    /// Stores a 64-bit integer.
    pub(super) fn assign_words(
        &mut self,
        write: &Write,
        addresses: [u32; 2],
        lanes: LaneStride,
    ) -> Result<(), Unsupported> {
        let [low, high] = match write.reducer {
            Some(Reducer::Sum) if self.tree.adds_words => {
                self.add_words(write, (addresses, lanes))?
            }
            Some(_) => return Err(Unsupported::Type(DType::I64)),
            None => self.words(&write.value)?,
        };
        // Before the low word is stored: it may follow from an element in the same place.
        let reg = self.new_reg();
        self.set(reg, high, MaskRef::All)?;
        let high = self.reg(reg);
        let mask = self.memory_mask(lanes)?;
        for (address, value) in addresses.into_iter().zip([low, high]) {
            let storage = Storage::Word;
            self.push(PendingStmt::Store { address, lanes, storage, value, mask })?;
        }
        self.epochs[write.target.tensor.0 as usize] += 1;
        Ok(())
    }
}

impl ValueGraph {
    /// Returns the high word of an integer that fits the low one.
    fn sign(&mut self, low: ValueId) -> ValueId {
        self.unary(VectorUnary::ShiftRightSigned(31), low)
    }

    /// Returns the low word of an integer that is natural and fits it, and some negative number for any other.
    pub(super) fn natural_or_negative(&mut self, [low, high]: Words) -> ValueId {
        let (zero, negative) = (self.int(0), self.int(-1));
        let fits = self.compare(VectorCompare::EqI, high, zero);
        self.select(fits, low, negative)
    }

    /// Returns the low word of a natural number that fits it, the greatest one for any other, and some negative one for
    /// any negative integer.
    fn clamped_to_word(&mut self, [low, high]: Words) -> ValueId {
        let [zero, negative, greatest] = [0, -1, i32::MAX].map(|it| self.int(it));
        let is_negative = self.compare(VectorCompare::LtI, high, zero);
        let beyond = self.select(is_negative, negative, greatest);
        let is_great = self.compare(VectorCompare::LtI, low, zero);
        let natural = self.select(is_great, greatest, low);
        let is_word = self.compare(VectorCompare::EqI, high, zero);
        self.select(is_word, natural, beyond)
    }

    /// Returns `x / 2^n` as a word and the float `2^n`, for the least `n` of 1 and more for which the quotient
    /// fits the word. Of an integer that does not fit a word, the quotient has at least 30 digits below its
    /// sign; the last one is 1 if any digit behind it was, so that rounding the quotient to 24 digits rounds the
    /// integer.
    fn leading_digits(&mut self, [low, high]: Words) -> (ValueId, ValueId) {
        let sign = self.sign(high);
        let size = self.binary(VectorBinary::Xor, high, sign);
        // Clearing the second digit keeps the conversion from rounding up to the next power of two.
        let behind = self.unary(VectorUnary::ShiftRight(1), size);
        let behind = self.not(behind);
        let first = self.binary(VectorBinary::And, size, behind);
        let float = self.unary(VectorUnary::IntToFloat, first);
        let exponent = self.unary(VectorUnary::ShiftRight(23), float);
        // The digits of the high word below its sign, `n - 1`.
        let [bias, zero, most] = [126, 0, 31].map(|it| self.int(it));
        let n_digits = self.binary(VectorBinary::SubI, exponent, bias);
        let n_digits = self.binary(VectorBinary::MaxI, n_digits, zero);
        let n_signs = self.binary(VectorBinary::SubI, most, n_digits);
        let upper = self.binary(VectorBinary::ShiftLeftBy, high, n_signs);
        let lower = self.binary(VectorBinary::ShiftRightBy, low, n_digits);
        let lower = self.unary(VectorUnary::ShiftRight(1), lower);
        let digits = self.binary(VectorBinary::Or, upper, lower);
        let rest = self.binary(VectorBinary::ShiftLeftBy, low, n_signs);
        let is_exact = self.compare(VectorCompare::EqI, rest, zero);
        let one = self.int(1);
        let last = self.select(is_exact, zero, one);
        let bias = self.int(128);
        let scale = self.binary(VectorBinary::AddI, n_digits, bias);
        let scale = self.unary(VectorUnary::ShiftLeft(23), scale);
        (self.binary(VectorBinary::Or, digits, last), scale)
    }

    /// Converts `f32` to `i64` as `as` does: it saturates, and NaN becomes 0.
    fn float_to_words(&mut self, x: ValueId) -> Words {
        let sign = self.splat(1 << 31);
        let magnitude = self.splat(i32::MAX.cast_unsigned().into());
        let size = self.binary(VectorBinary::And, x, magnitude);
        let whole = self.unary(VectorUnary::FloorF, size);
        // A float that is not negative has fewer digits than a word, so both parts are exact.
        let (part, word) = (self.float(1.0 / WORD), self.float(-WORD));
        let high = self.binary(VectorBinary::MulF, whole, part);
        let high = self.unary(VectorUnary::FloorF, high);
        let low = self.fma(high, word, whole);
        let positive = [self.float_to_unsigned(low), self.float_to_int(high)];
        let (zero, limit) = (self.int(0), self.float(LONGS));
        let negative = self.difference_of_words([zero; 2], positive);
        let is_negative = self.compare(VectorCompare::LtI, x, zero);
        let [low, high] = self.select_words(is_negative, negative, positive);
        let saturates = self.compare(VectorCompare::LeF, limit, size);
        let [all, most] = [u32::MAX, i32::MAX.cast_unsigned()].map(|it| self.splat(it.into()));
        let saturated = self.select_words(is_negative, [zero, sign], [all, most]);
        self.select_words(saturates, saturated, [low, high]).map(|it| self.zero_of_nan(x, it))
    }

    fn unary_words(&mut self, op: UnaryOp, a: Words) -> Result<Words, Unsupported> {
        let zero = self.int(0);
        match op {
            UnaryOp::Not => Ok(a.map(|it| self.not(it))),
            UnaryOp::Neg => Ok(self.difference_of_words([zero; 2], a)),
            UnaryOp::Abs => {
                let negative = self.difference_of_words([zero; 2], a);
                let is_negative = self.compare(VectorCompare::LtI, a[1], zero);
                Ok(self.select_words(is_negative, negative, a))
            }
            _ => Ok(a),
        }
    }

    fn binary_words(&mut self, op: BinaryOp, a: Words, b: Words) -> Result<Words, Unsupported> {
        let [(a_low, a_high), (b_low, b_high)] = [(a[0], a[1]), (b[0], b[1])];
        Ok(match op {
            BinaryOp::Add => {
                let low = self.binary(VectorBinary::AddI, a_low, b_low);
                let carries = self.compare_unsigned(CompareOp::Lt, low, a_low);
                let one = self.int(1);
                let carry = self.binary(VectorBinary::And, one, carries);
                let high = self.binary(VectorBinary::AddI, a_high, b_high);
                [low, self.binary(VectorBinary::AddI, high, carry)]
            }
            BinaryOp::Sub => self.difference_of_words(a, b),
            BinaryOp::Min | BinaryOp::Max => {
                let less = self.compare_words(CompareOp::Lt, a, b);
                let (then, otherwise) = if op == BinaryOp::Min { (a, b) } else { (b, a) };
                self.select_words(less, then, otherwise)
            }
            BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor => {
                let word = match op {
                    BinaryOp::BitAnd => VectorBinary::And,
                    BinaryOp::BitOr => VectorBinary::Or,
                    _ => VectorBinary::Xor,
                };
                [self.binary(word, a_low, b_low), self.binary(word, a_high, b_high)]
            }
            _ => return Err(Unsupported::Operation(op)),
        })
    }

    /// Adds the integers of all lanes. Sums of halves of the low words fit a word, so that the carry is exact.
    fn sum_of_lanes(&mut self, [low, high]: Words) -> Words {
        let half = self.int(0xffff);
        let upper_half = |graph: &mut Self, it| graph.unary(VectorUnary::ShiftRight(16), it);
        let lower = self.binary(VectorBinary::And, low, half);
        let upper = upper_half(self, low);
        let [lower, upper, high] =
            [lower, upper, high].map(|it| self.reduce(VectorBinary::AddI, it));
        let carry = upper_half(self, lower);
        let upper = self.binary(VectorBinary::AddI, upper, carry);
        let lower = self.binary(VectorBinary::And, lower, half);
        let low = self.unary(VectorUnary::ShiftLeft(16), upper);
        let carry = upper_half(self, upper);
        [self.binary(VectorBinary::Or, low, lower), self.binary(VectorBinary::AddI, high, carry)]
    }

    /// Multiplies by a constant. The halves of the low word have products of one word, so that the carry is exact.
    fn product_of_words(&mut self, [low, high]: Words, factor: u16) -> Words {
        let (factor, half) = (self.int(factor.into()), self.int(0xffff));
        let upper_half = |graph: &mut Self, it| graph.unary(VectorUnary::ShiftRight(16), it);
        let product = |graph: &mut Self, it| graph.binary(VectorBinary::MulI, it, factor);
        let lower = self.binary(VectorBinary::And, low, half);
        let lower = product(self, lower);
        let lower = upper_half(self, lower);
        let upper = upper_half(self, low);
        let upper = product(self, upper);
        let upper = self.binary(VectorBinary::AddI, upper, lower);
        let carry = upper_half(self, upper);
        let high = product(self, high);
        [product(self, low), self.binary(VectorBinary::AddI, high, carry)]
    }

    /// Divides by a constant of up to 2^15 towards zero; returns the quotient and the remainder.
    fn divide_words(&mut self, a: Words, by: u16) -> (Words, Words) {
        let zero = self.int(0);
        let negated = |graph: &mut Self, it| graph.difference_of_words([zero; 2], it);
        let is_negative = self.compare(VectorCompare::LtI, a[1], zero);
        let opposite = negated(self, a);
        let magnitude = self.select_words(is_negative, opposite, a);
        let (quotient, rest) = match by.is_power_of_two() {
            true => self.shift_words(magnitude, by.trailing_zeros() as u8),
            false => self.divide_digits(magnitude, by),
        };
        let rest = [rest, zero];
        let [quotient, rest] = [quotient, rest].map(|it| {
            let opposite = negated(self, it);
            self.select_words(is_negative, opposite, it)
        });
        (quotient, rest)
    }

    /// Divides a natural number by `2^n`, for `n` up to 15.
    fn shift_words(&mut self, [low, high]: Words, n: u8) -> (Words, ValueId) {
        let mask = self.int((1 << n) - 1);
        let rest = self.binary(VectorBinary::And, low, mask);
        if n == 0 {
            return ([low, high], rest);
        }
        let (lower, upper) = (VectorUnary::ShiftRight(n), VectorUnary::ShiftLeft(32 - n));
        let (kept, carried) = (self.unary(lower, low), self.unary(upper, high));
        let low = self.binary(VectorBinary::Or, kept, carried);
        ([low, self.unary(lower, high)], rest)
    }

    /// Divides a natural number digit by digit, to the base of 2^8: dividends stay below 2^23, so that a float
    /// holds them.
    fn divide_digits(&mut self, [low, high]: Words, by: u16) -> (Words, ValueId) {
        let (by, digits) = (self.int(by.into()), self.int(0xff));
        let mut rest = self.int(0);
        let [high, low] = [high, low].map(|word| {
            [24, 16, 8, 0].into_iter().fold(self.int(0), |quotient, at| {
                let digit = match at {
                    0 => word,
                    at => self.unary(VectorUnary::ShiftRight(at), word),
                };
                let digit = self.binary(VectorBinary::And, digit, digits);
                let [dividend, quotient] =
                    [rest, quotient].map(|it| self.unary(VectorUnary::ShiftLeft(8), it));
                let dividend = self.binary(VectorBinary::Or, dividend, digit);
                let (part, left) = self.divide(dividend, by, true);
                rest = left;
                self.binary(VectorBinary::Or, quotient, part)
            })
        });
        ([low, high], rest)
    }

    fn difference_of_words(&mut self, a: Words, b: Words) -> Words {
        let borrows = self.compare_unsigned(CompareOp::Lt, a[0], b[0]);
        let one = self.int(1);
        let borrow = self.binary(VectorBinary::And, one, borrows);
        let [low, high] = [0, 1].map(|it| self.binary(VectorBinary::SubI, a[it], b[it]));
        [low, self.binary(VectorBinary::SubI, high, borrow)]
    }

    fn compare_words(&mut self, op: CompareOp, a: Words, b: Words) -> ValueId {
        match op {
            CompareOp::Lt => {
                let above = self.compare(VectorCompare::LtI, a[1], b[1]);
                let same = self.compare(VectorCompare::EqI, a[1], b[1]);
                let below = self.compare_unsigned(CompareOp::Lt, a[0], b[0]);
                let below = self.binary(VectorBinary::And, same, below);
                self.binary(VectorBinary::Or, above, below)
            }
            CompareOp::Eq => {
                let [low, high] = [0, 1].map(|it| self.compare(VectorCompare::EqI, a[it], b[it]));
                self.binary(VectorBinary::And, low, high)
            }
            CompareOp::Gt => self.compare_words(CompareOp::Lt, b, a),
            CompareOp::Ge | CompareOp::Le | CompareOp::Ne => {
                let opposite = match op {
                    CompareOp::Ge => CompareOp::Lt,
                    CompareOp::Le => CompareOp::Gt,
                    _ => CompareOp::Eq,
                };
                let opposite = self.compare_words(opposite, a, b);
                self.not(opposite)
            }
        }
    }

    fn select_words(&mut self, condition: ValueId, then: Words, otherwise: Words) -> Words {
        [0, 1].map(|it| self.select(condition, then[it], otherwise[it]))
    }
}

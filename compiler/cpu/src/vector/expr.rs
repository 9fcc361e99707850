//! Lowering of expressions to nodes: typed arithmetic in lanes.
//!
//! Floating-point arithmetic keeps the program's rounding: only sums are contracted and
//! reassociated, as the program leaves their order open (see [`super::store`]). 8-bit integers wrap
//! after each operation. `u32` are the same bits as `i32`: what depends on the sign compares them with
//! the highest bit flipped, and divisions of large ones are refused.
//! Elements whose place data decide are in `gather.rs`.
//! In lanes of 32 bits, 64-bit integers are narrowed where range analysis proves that they fit; others are two
//! words (see [`super::words`]). Lanes of 64 bits have all numbers (see [`super::long`]).

use super::context::{ElementRef, Lowering, PredicateCause};
use super::long::is_small;
use super::numbering::{MaskRef, MemRef, Op, ValueId};
use super::tree::{Access, Term, TermKind};
use super::{LaneStride, ScalarBits, Unsupported, VectorBinary, VectorCompare, VectorUnary};
use tvmtune_ir::dag::bounds::bits_of_both;
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, UnaryOp, integer_range};
use tvmtune_ir::poly::Interval;
use tvmtune_math::{arc, elementary, exponential, trig};

impl Lowering<'_> {
    /// Lowers an expression to its value in each lane.
    pub(super) fn term(&mut self, term: &Term) -> Result<ValueId, Unsupported> {
        if self.is_wide(term) {
            return Err(Unsupported::Range);
        }
        if term.dtype == DType::I64 && self.has_wide_operand(term) {
            return match self.saturates(term) {
                true => self.saturated(term),
                false => Ok(self.words(term)?[0]),
            };
        }
        match &term.kind {
            TermKind::Bits(bits) => Ok(self.graph().splat(*bits)),
            TermKind::Index(form) => self.index_value(form),
            TermKind::Scalar(scalar) => self.scalar(*scalar, term.dtype),
            TermKind::Read(access) => self.read(access),
            TermKind::Unary(op, a) => {
                let value = self.term(a)?;
                self.unary(*op, term.dtype, value)
            }
            TermKind::Binary(op, a, b) => {
                let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem);
                let small = divides && self.is_small(a) && self.is_small(b);
                if let Some(product) = self.product_of_halves(*op, a, b)? {
                    return Ok(product);
                }
                let (a, b) = (self.term(a)?, self.term(b)?);
                self.binary(*op, term.dtype, a, b, small)
            }
            TermKind::Compare(op, a, b) => self.compare(*op, a, b),
            TermKind::Select(parts) => self.select(parts),
            TermKind::Cast(a) if self.is_wide(a) => self.narrow_words(a, term.dtype),
            TermKind::Cast(a) => {
                let value = self.term(a)?;
                match self.is_long() {
                    true => self.cast_long(value, a, term.dtype),
                    false => self.cast(value, a.dtype, term.dtype),
                }
            }
        }
    }

    fn scalar(
        &mut self,
        scalar: tvmtune_ir::dag::ScalarId,
        dtype: DType,
    ) -> Result<ValueId, Unsupported> {
        if self.is_long() {
            return Ok(self.scalar_of_long(scalar, dtype));
        }
        if matches!(dtype, DType::I64 | DType::F64) {
            return Err(Unsupported::Type(dtype));
        }
        let entry = self.table.scalar(scalar, dtype);
        let value = self.graph().node(Op::Scalar(entry, ScalarBits::Low));
        if dtype != DType::Bool {
            return Ok(value);
        }
        let zero = self.graph().int(0);
        Ok(self.graph().compare(VectorCompare::LtI, zero, value))
    }

    fn read(&mut self, access: &Access) -> Result<ValueId, Unsupported> {
        if !access.gather.is_empty() {
            return self.gather(access);
        }
        let (tensor, address, lanes, storage) = match self.element_ref(access, false)? {
            ElementRef::Register(reg) => return Ok(self.reg(reg)),
            ElementRef::Memory { tensor, address, lanes, storage } => {
                (tensor, address, lanes, storage)
            }
            ElementRef::Words { .. } => return Err(Unsupported::Range),
        };
        let mask = self.read_mask(access, lanes == LaneStride::Uniform)?;
        let epoch = self.epochs[tensor.0 as usize];
        Ok(self.graph().node(Op::Load(MemRef { address, storage, mask, epoch }, lanes)))
    }

    /// The lanes in which a read accesses memory.
    pub(super) fn read_mask(
        &mut self,
        access: &Access,
        uniform: bool,
    ) -> Result<MaskRef, Unsupported> {
        // An element that is in bounds only where conditions hold is masked by all that makes a lane
        // active: beyond an extent the condition may hold as well, so it alone keeps nothing inside.
        // `j < i`, `i < n` and the lanes of a row together keep `x[j + 1]` inside.
        //
        // Any other uniform element is in bounds if any lane is active, so only a guard that may hold
        // in no lane and restricts the element's index has to mask it.
        self.mask(&|this, cause| match cause {
            _ if !access.in_bounds => true,
            PredicateCause::Condition => false,
            PredicateCause::Guard { id, may_be_empty: true } if uniform => {
                let leaves = this.tree.leaves(&this.tree.guards[id]);
                leaves.into_iter().any(|it| this.tree.mentions(&access.offset, it))
            }
            PredicateCause::Extent(_) | PredicateCause::Guard { .. } => !uniform,
        })
    }

    fn unary(&mut self, op: UnaryOp, dtype: DType, a: ValueId) -> Result<ValueId, Unsupported> {
        let is_long = self.is_long();
        let graph = self.graph();
        if !dtype.is_float() {
            let zero = graph.int(0);
            let negative = graph.binary(VectorBinary::SubI, zero, a);
            let value = match op {
                UnaryOp::Not => graph.not(a),
                UnaryOp::Neg => negative,
                UnaryOp::Abs if dtype.is_unsigned() => a,
                UnaryOp::Abs => graph.binary(VectorBinary::MaxI, a, negative),
                _ => a,
            };
            return Ok(self.wrap(value, dtype));
        }
        Ok(match op {
            UnaryOp::Neg | UnaryOp::Not => {
                let sign = graph.sign_bit();
                graph.binary(VectorBinary::Xor, a, sign)
            }
            UnaryOp::Abs => {
                let sign = graph.sign_bit();
                let rest = graph.not(sign);
                graph.binary(VectorBinary::And, a, rest)
            }
            UnaryOp::Sqrt => self.root(a, dtype),
            UnaryOp::Rsqrt => {
                let root = self.root(a, dtype);
                let one = self.graph().float(1.0);
                let value = self.graph().binary(VectorBinary::DivF, one, root);
                self.wrap(value, dtype)
            }
            UnaryOp::Floor => graph.unary(VectorUnary::FloorF, a),
            UnaryOp::Ceil => graph.unary(VectorUnary::CeilF, a),
            UnaryOp::Round => graph.unary(VectorUnary::RoundF, a),
            _ if is_long => self.function_of_long(op, dtype, a)?,
            UnaryOp::Tf32 => graph.tf32(a),
            UnaryOp::Exp => elementary::exp(graph, a),
            UnaryOp::Ln => elementary::ln(graph, a),
            UnaryOp::Exp2 => exponential::exp2(graph, a),
            UnaryOp::Log2 => exponential::log2(graph, a),
            UnaryOp::ExpM1 => exponential::exp_m1(graph, a),
            UnaryOp::Ln1p => exponential::ln_1p(graph, a),
            UnaryOp::Tanh => elementary::tanh(graph, a),
            UnaryOp::Erf => elementary::erf(graph, a),
            UnaryOp::Sin => trig::sin(graph, a),
            UnaryOp::Cos => trig::cos(graph, a),
            UnaryOp::Atan => arc::atan(graph, a),
        })
    }

    /// Multiplies integers of 16 bits, which takes half the time of whole products.
    fn product_of_halves(
        &mut self,
        op: BinaryOp,
        a: &Term,
        b: &Term,
    ) -> Result<Option<ValueId>, Unsupported> {
        let halves = Interval { lo: i16::MIN.into(), hi: i16::MAX.into() };
        let (of_a, of_b) = (self.range_of(a), self.range_of(b));
        let is_constant = |it: &Term| matches!(it.kind, TermKind::Bits(_));
        if op != BinaryOp::Mul
            || !matches!(a.dtype, DType::I32 | DType::U32 | DType::I64)
            || self.is_long()
            || is_constant(a)
            || is_constant(b)
            || !halves.includes(of_a)
            || !halves.includes(of_b)
        {
            return Ok(None);
        }
        // The instruction adds the product of the high halves, so one operand needs a high half of 0.
        let swaps = match (of_a.lo < 0, of_b.lo < 0) {
            (true, false) => true,
            // The vector operand is masked: a register tile has fewer vectors than broadcast elements.
            (true, true) => self.is_lane_invariant(a)?,
            _ => false,
        };
        let (natural, other) = if swaps { (b, a) } else { (a, b) };
        let is_natural = self.range_of(natural).lo >= 0;
        let (mut natural, other) = (self.term(natural)?, self.term(other)?);
        let graph = self.graph();
        if !is_natural {
            let half = graph.int(0xffff);
            natural = graph.binary(VectorBinary::And, natural, half);
        }
        Ok(Some(graph.binary(VectorBinary::DotHalves, natural, other)))
    }

    fn binary(
        &mut self,
        op: BinaryOp,
        dtype: DType,
        a: ValueId,
        b: ValueId,
        small: bool,
    ) -> Result<ValueId, Unsupported> {
        let divides = matches!(op, BinaryOp::Div | BinaryOp::Rem) && !dtype.is_float();
        if divides && self.is_long() {
            let value = self.divide_long(op, [a, b], small);
            return Ok(self.wrap(value, dtype));
        }
        if divides && dtype == DType::U32 && !small {
            return Err(Unsupported::Operation(op));
        }
        let is_long = self.is_long();
        let graph = self.graph();
        let value = match (op, vector_op(op, dtype)) {
            (BinaryOp::Min | BinaryOp::Max, None) => {
                let less = graph.compare_unsigned(CompareOp::Lt, a, b);
                let (then, otherwise) = if op == BinaryOp::Min { (a, b) } else { (b, a) };
                graph.select(less, then, otherwise)
            }
            (BinaryOp::Min | BinaryOp::Max, Some(op)) if dtype.is_float() => {
                // Exact: there is nothing to round.
                return Ok(graph.min_max_num(op, a, b));
            }
            (BinaryOp::Shl | BinaryOp::Shr, Some(op)) => graph.shift(op, a, b, dtype),
            (_, Some(op)) => graph.binary(op, a, b),
            (BinaryOp::Pow, None) if dtype.is_float() && !is_long => elementary::pow(graph, a, b),
            (BinaryOp::Div, None) => graph.divide(a, b, small).0,
            (BinaryOp::Rem, None) if !dtype.is_float() => graph.divide(a, b, small).1,
            (op, None) => return Err(Unsupported::Operation(op)),
        };
        Ok(self.wrap(value, dtype))
    }

    /// Computes a square root, rounded to its type.
    fn root(&mut self, a: ValueId, dtype: DType) -> ValueId {
        let root = self.graph().unary(VectorUnary::SqrtF, a);
        self.wrap(root, dtype)
    }

    /// Wraps an integer to the range of its type, or rounds a float to its digits, if it is narrower than a
    /// lane.
    pub(super) fn wrap(&mut self, value: ValueId, dtype: DType) -> ValueId {
        let is_long = self.is_long();
        let graph = self.graph();
        match dtype {
            DType::I8 => graph.sign_extended(value, 8),
            DType::U8 => {
                let byte = graph.int(255);
                graph.binary(VectorBinary::And, value, byte)
            }
            DType::I32 if is_long => graph.sign_extended(value, 32),
            DType::U32 if is_long => {
                let word = graph.long(u32::MAX.into());
                graph.binary(VectorBinary::And, value, word)
            }
            DType::F32 if is_long => graph.unary(VectorUnary::SingleF, value),
            _ => value,
        }
    }

    fn compare(&mut self, op: CompareOp, a: &Term, b: &Term) -> Result<ValueId, Unsupported> {
        if let (TermKind::Index(a), TermKind::Index(b)) = (&a.kind, &b.kind)
            && let Some(difference) = self.difference(a, b)?
        {
            let range = self.interval(&difference);
            if let Some(known) = decide(op, range) {
                return Ok(self.graph().truth(known));
            }
            let value = self.index(difference)?;
            let zero = self.graph().int(0);
            return Ok(self.graph().compare_int(op, value, zero));
        }
        if self.is_wide(a) || self.is_wide(b) {
            return self.compare_words(op, a, b);
        }
        let dtype = a.dtype;
        let (a, b) = (self.term(a)?, self.term(b)?);
        let graph = self.graph();
        Ok(match dtype {
            DType::Bool => {
                let differ = graph.binary(VectorBinary::Xor, a, b);
                if op == CompareOp::Ne { differ } else { graph.not(differ) }
            }
            it if it.is_float() => graph.compare_float(op, a, b),
            DType::U32 => graph.compare_unsigned(op, a, b),
            _ => graph.compare_int(op, a, b),
        })
    }

    fn select(&mut self, parts: &[Term; 3]) -> Result<ValueId, Unsupported> {
        let [condition, then, otherwise] = parts;
        let condition = self.term(condition)?;
        match self.graph().known_truth(condition) {
            Some(false) => return self.term(otherwise),
            Some(true) => return self.term(then),
            None => {}
        }
        let then = self.masked_term(then, condition)?;
        let opposite = self.graph().not(condition);
        let otherwise = self.masked_term(otherwise, opposite)?;
        Ok(self.graph().select(condition, then, otherwise))
    }

    /// Lowers a branch of a select under a mask: other lanes access no memory.
    fn masked_term(&mut self, term: &Term, condition: ValueId) -> Result<ValueId, Unsupported> {
        self.under(condition, |it| it.term(term))
    }

    /// Converts as Rust's `as` does.
    pub(super) fn cast(
        &mut self,
        value: ValueId,
        from: DType,
        to: DType,
    ) -> Result<ValueId, Unsupported> {
        let graph = self.graph();
        if from == to || (from.is_float() && to == DType::F32) {
            return Ok(value);
        }
        if from == DType::Bool {
            let one = if to.is_float() { graph.float(1.0) } else { graph.int(1) };
            return Ok(graph.binary(VectorBinary::And, value, one));
        }
        Ok(match (from.is_float(), to) {
            (true, DType::F16) => graph.round_to_f16(value),
            (true, DType::Bf16) => graph.round_to_bf16(value),
            // An `i64` of one word fits it.
            (true, DType::I32 | DType::I64) => graph.float_to_int(value),
            (true, DType::U32) => graph.float_to_unsigned(value),
            (true, DType::I8) => graph.float_to_byte(value, -128.0, 127.0),
            (true, DType::U8) => graph.float_to_byte(value, 0.0, 255.0),
            (true, DType::Bool) => {
                let zero = graph.float(0.0);
                graph.compare(VectorCompare::NeF, value, zero)
            }
            (true, _) => return Err(Unsupported::Type(to)),
            (false, DType::Bool) => {
                let zero = graph.int(0);
                graph.compare_int(CompareOp::Ne, value, zero)
            }
            (false, DType::F64) => return Err(Unsupported::Type(to)),
            (false, it) if it.is_float() => {
                let float = match from {
                    DType::U32 => {
                        let value = if it == DType::Bf16 { graph.odd(value, from) } else { value };
                        graph.unsigned_to_float(value)
                    }
                    DType::I32 | DType::I64 if it == DType::Bf16 => {
                        let value = graph.odd(value, from);
                        graph.unary(VectorUnary::IntToFloat, value)
                    }
                    _ => graph.unary(VectorUnary::IntToFloat, value),
                };
                return self.cast(float, DType::F32, to);
            }
            (false, _) => self.wrap(value, to),
        })
    }

    /// Returns whether quotients of an integer expression are exact as floats of the lanes' width.
    fn is_small(&self, term: &Term) -> bool {
        let range = self.range_of(term);
        if self.is_long() {
            return is_small(range);
        }
        -(1 << 24) < range.lo && range.hi < 1 << 24
    }

    /// Bounds an integer expression.
    pub(super) fn range_of(&self, term: &Term) -> Interval {
        let of_type = integer_range(term.dtype);
        match &term.kind {
            TermKind::Bits(bits) if self.is_long() || term.dtype == DType::U32 => {
                Interval::point(bits.cast_signed())
            }
            TermKind::Bits(bits) => Interval::point(i64::from(*bits as i32)),
            TermKind::Index(form) => self.tree.interval(form),
            TermKind::Cast(a) if a.dtype == DType::Bool => Interval { lo: 0, hi: 1 },
            TermKind::Cast(a) if a.dtype.is_integer() => {
                let range = self.range_of(a);
                if of_type.includes(range) { range } else { of_type }
            }
            TermKind::Cast(a) => match self.converted_range(a) {
                Some(range) if of_type.includes(range) => range,
                _ => of_type,
            },
            TermKind::Select(parts) => self.range_of(&parts[1]).join(self.range_of(&parts[2])),
            TermKind::Unary(UnaryOp::Neg, a) => {
                let range = self.range_of(a).times(Interval::point(-1));
                if of_type.includes(range) { range } else { of_type }
            }
            TermKind::Binary(op, a, b) if term.dtype.is_integer() => {
                let (a, b) = (self.range_of(a), self.range_of(b));
                let range = match op {
                    BinaryOp::Add => a.plus(b),
                    BinaryOp::Sub => a.plus(b.times(Interval::point(-1))),
                    BinaryOp::Mul => a.times(b),
                    BinaryOp::Min => a.lesser(b),
                    BinaryOp::Max => a.greater(b),
                    BinaryOp::BitAnd => bits_of_both(a, b),
                    BinaryOp::Shr if b.lo == b.hi && (0..64).contains(&b.lo) => {
                        Interval { lo: a.lo >> b.lo, hi: a.hi >> b.lo }
                    }
                    BinaryOp::Div if b.lo > 0 => Interval { lo: a.lo.min(0), hi: a.hi.max(0) },
                    BinaryOp::Rem if b.lo > 0 => Interval {
                        lo: (1 - b.hi).min(0).max(a.lo.min(0)),
                        hi: (b.hi - 1).min(a.hi.max(0)),
                    },
                    _ => of_type,
                };
                if of_type.includes(range) { range } else { of_type }
            }
            _ => of_type,
        }
    }
}

/// Returns the vector operation that is an operation on values of a type, up to NaNs and wrapping.
pub(super) fn vector_op(op: BinaryOp, dtype: DType) -> Option<VectorBinary> {
    if dtype == DType::U32 && matches!(op, BinaryOp::Min | BinaryOp::Max) {
        return None;
    }
    Some(match (op, dtype.is_float()) {
        (BinaryOp::Add, true) => VectorBinary::AddF,
        (BinaryOp::Sub, true) => VectorBinary::SubF,
        (BinaryOp::Mul, true) => VectorBinary::MulF,
        (BinaryOp::Div, true) => VectorBinary::DivF,
        (BinaryOp::Min, true) => VectorBinary::MinF,
        (BinaryOp::Max, true) => VectorBinary::MaxF,
        (BinaryOp::Add, false) => VectorBinary::AddI,
        (BinaryOp::Sub, false) => VectorBinary::SubI,
        (BinaryOp::Mul, false) => VectorBinary::MulI,
        (BinaryOp::Min, false) => VectorBinary::MinI,
        (BinaryOp::Max, false) => VectorBinary::MaxI,
        (BinaryOp::And | BinaryOp::BitAnd, false) => VectorBinary::And,
        (BinaryOp::Or | BinaryOp::BitOr, false) => VectorBinary::Or,
        (BinaryOp::BitXor, false) => VectorBinary::Xor,
        (BinaryOp::Shl, false) => VectorBinary::ShiftLeftBy,
        (BinaryOp::Shr, false) if dtype.is_unsigned() => VectorBinary::ShiftRightBy,
        (BinaryOp::Shr, false) => VectorBinary::ShiftRightSignedBy,
        _ => return None,
    })
}

/// Decides `value op 0`, if all values in the range agree.
pub(super) fn decide(op: CompareOp, range: Interval) -> Option<bool> {
    let (below, above) = (range.hi < 0, range.lo > 0);
    let (at_most, at_least) = (range.hi <= 0, range.lo >= 0);
    let (holds, fails) = match op {
        CompareOp::Lt => (below, at_least),
        CompareOp::Le => (at_most, above),
        CompareOp::Gt => (above, at_most),
        CompareOp::Ge => (at_least, below),
        CompareOp::Eq => (at_most && at_least, below || above),
        CompareOp::Ne => (below || above, at_most && at_least),
    };
    if holds { Some(true) } else { fails.then_some(false) }
}

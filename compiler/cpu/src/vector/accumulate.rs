//! Lowering of updates: the value of a write reduced with the old one, where products are contracted.

use super::context::Lowering;
use super::expr::vector_op;
use super::numbering::{Op, ValueId};
use super::tree::{Term, TermKind, Write};
use super::{LaneStride, Unsupported, VectorBinary};
use tvmtune_ir::dag::{BinaryOp, DType, Numerics, Reducer};

impl Lowering<'_> {
    /// Computes `reducer(value, old)` for the value of a write. Sums of products are contracted; where the
    /// program leaves bits open, also of products that count under a condition, and of several products in one
    /// term, each of which is added for itself. The program says what a product is: functions end in
    /// multiplications on some machines.
    pub(super) fn accumulate(
        &mut self,
        write: &Write,
        reducer: Reducer,
        value: ValueId,
        old: ValueId,
    ) -> Result<ValueId, Unsupported> {
        let dtype = self.tree.buffers[write.target.tensor.0 as usize].dtype;
        let is_free = self.tree.nest.numerics == Numerics::Free;
        if reducer == Reducer::Sum
            && is_free
            && self.is_float_of_lanes(dtype)
            && has_product(&write.value)
        {
            return self.add_terms(&write.value, old, Sign::Plus);
        }
        let term = match &write.value.kind {
            TermKind::Select(parts) if is_free => &parts[1].kind,
            term => term,
        };
        let contracts = reducer == Reducer::Sum
            && matches!(term, TermKind::Binary(BinaryOp::Mul, ..))
            && (dtype != DType::F64 || is_free);
        let sum = if contracts { self.add_product(value, old, Sign::Plus) } else { None };
        Ok(sum.unwrap_or_else(|| self.combine(reducer, dtype, value, old)))
    }

    /// Adds the terms of a sum or difference to `old`, one after the other.
    fn add_terms(&mut self, term: &Term, old: ValueId, sign: Sign) -> Result<ValueId, Unsupported> {
        if let TermKind::Binary(op @ (BinaryOp::Add | BinaryOp::Sub), a, b) = &term.kind {
            let sum = self.add_terms(a, old, sign)?;
            let is_added = *op == BinaryOp::Add;
            return self.add_terms(b, sum, if is_added { sign } else { sign.opposite() });
        }
        let value = self.term(term)?;
        if is_product(term)
            && let Some(sum) = self.add_product(value, old, sign)
        {
            return Ok(sum);
        }
        let op = if sign == Sign::Plus { VectorBinary::AddF } else { VectorBinary::SubF };
        Ok(self.graph().binary(op, old, value))
    }

    /// Adds or subtracts a product of floats, or one that is 0 where a condition fails; `None` if the value is
    /// none.
    fn add_product(&mut self, value: ValueId, old: ValueId, sign: Sign) -> Option<ValueId> {
        let graph = self.graph();
        match graph.op(value) {
            Op::Binary(VectorBinary::MulF, a, b) => Some(self.multiply_add(a, b, old, sign)),
            Op::Select(condition, then, otherwise) if graph.op(otherwise) == Op::Splat(0) => {
                let Op::Binary(VectorBinary::MulF, a, b) = graph.op(then) else { return None };
                let sum = self.multiply_add(a, b, old, sign);
                Some(self.graph().select(condition, sum, old))
            }
            _ => None,
        }
    }

    /// Computes `a * b + sum` or `sum - a * b`. A factor that is the same in all lanes is negated before one that
    /// is not: several vectors share it.
    fn multiply_add(&mut self, a: ValueId, b: ValueId, sum: ValueId, sign: Sign) -> ValueId {
        let graph = self.graph();
        if sign == Sign::Plus {
            return graph.fma(a, b, sum);
        }
        let is_uniform = matches!(graph.op(b), Op::Load(_, LaneStride::Uniform));
        let (negated, other) = if is_uniform { (b, a) } else { (a, b) };
        let sign_bit = graph.sign_bit();
        let negated = graph.binary(VectorBinary::Xor, negated, sign_bit);
        graph.fma(negated, other, sum)
    }

    /// Computes `reducer(value, old)`. `old` is no NaN but in sums, as `reducing_op` returns its second
    /// operand for NaNs.
    pub(super) fn combine(
        &mut self,
        reducer: Reducer,
        dtype: DType,
        value: ValueId,
        old: ValueId,
    ) -> ValueId {
        let graph = self.graph();
        let sum = graph.binary(reducing_op(reducer, dtype), value, old);
        self.wrap(sum, dtype)
    }
}

/// The sign by which a term counts in a sum.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Minus,
}

impl Sign {
    fn opposite(self) -> Sign {
        match self {
            Sign::Plus => Sign::Minus,
            Sign::Minus => Sign::Plus,
        }
    }
}

/// Returns whether a term is a product, or one that counts under a condition.
fn is_product(term: &Term) -> bool {
    match &term.kind {
        TermKind::Binary(BinaryOp::Mul, ..) => true,
        TermKind::Select(parts) => {
            is_product(&parts[1]) && matches!(parts[2].kind, TermKind::Bits(0))
        }
        _ => false,
    }
}

/// Returns whether a sum or difference has a product among its terms.
fn has_product(sum: &Term) -> bool {
    let TermKind::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) = &sum.kind else { return false };
    [a, b].into_iter().any(|it| is_product(it) || has_product(it))
}

/// Returns the vector operation of a reducer.
pub(super) fn reducing_op(reducer: Reducer, dtype: DType) -> VectorBinary {
    vector_op(reducer.op(), dtype).expect("a type is refused that lacks the operation")
}

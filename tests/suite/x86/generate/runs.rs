//! Random runs of statements that machine code takes together: transpositions side by side, and stores of
//! bytes.

use super::{Generator, Kind};
use tvmtune_cpu::vector::{
    Address, Base, EntryId, LaneStride, Linear, Stmt, Storage, Value, VectorBinary, VectorUnary,
};

impl Generator<'_> {
    /// Strided loads of up to 20 consecutive words, as of whole cache lines.
    pub(super) fn many_loads(&mut self) -> Vec<Stmt> {
        let (bytes, storage) = (self.bytes(), self.storage());
        let offset = self.scaled_linear(50, bytes);
        let lanes = LaneStride::Strided(self.scaled(2, [2, 30], bytes));
        let n = self.tape.pick(&[8, 16, 12, 7, 20]);
        let load = |at: i64| {
            let offset = Linear { constant: offset.constant + at * bytes, ..offset.clone() };
            let address = Address { base: Base::Table(EntryId(0)), offset };
            let value = Value::Load { address, lanes, storage, mask: None };
            Stmt::Set { reg: self.assigned(Kind::Float), value, mask: None }
        };
        (0..n).map(load).collect()
    }

    /// Stores of one value of bytes at places one vector apart, or nearly so.
    pub(super) fn byte_stores(&mut self) -> Vec<Stmt> {
        let (to, storage) = self.tape.pick(&[(4, Storage::I8), (5, Storage::U8)]);
        let offset = self.linear(100);
        let value = self.bytes_value(3);
        let n = self.tape.pick(&[4, 1, 2, 3, 5]);
        let apart = if self.tape.one_in(8) { 1 } else { 0 };
        let store = |at: i64| {
            let by = at * self.simd.lanes();
            let moved = Linear { constant: offset.constant + by, ..offset.clone() };
            Stmt::Store {
                address: Address { base: Base::Table(EntryId(to)), offset: moved },
                lanes: LaneStride::Contiguous,
                storage,
                value: further(&value, by + apart * at),
                mask: None,
            }
        };
        (0..n).map(store).collect()
    }

    fn bytes_value(&mut self, depth: u32) -> Value {
        if depth == 0 || self.tape.one_in(4) {
            return match self.tape.below(4) {
                0 => Value::Splat(self.tape.pick(&[1, 127, 200, 255, self.ones(), 0])),
                _ => {
                    let places = [(4, Storage::I8), (5, Storage::U8)];
                    let (entry, storage) = self.tape.pick(&places);
                    let lanes = self.tape.pick(&[
                        LaneStride::Contiguous,
                        LaneStride::Contiguous,
                        LaneStride::Uniform,
                    ]);
                    let address =
                        Address { base: Base::Table(EntryId(entry)), offset: self.linear(100) };
                    Value::Load { address, lanes, storage, mask: None }
                }
            };
        }
        let operand = |this: &mut Self| Box::new(this.bytes_value(depth - 1));
        let by = (self.simd.width.bits() - 8) as u8;
        match self.tape.below(9) {
            0 => {
                let shifted = Value::Unary(VectorUnary::ShiftLeft(by), operand(self));
                Value::Unary(VectorUnary::ShiftRightSigned(by), Box::new(shifted))
            }
            1 => Value::Binary(VectorBinary::And, operand(self), Box::new(Value::Splat(255))),
            2 => Value::Binary(VectorBinary::MulI, operand(self), operand(self)),
            _ => {
                let op = self.tape.pick(&[
                    VectorBinary::AddI,
                    VectorBinary::MinI,
                    VectorBinary::MaxI,
                    VectorBinary::SubI,
                    VectorBinary::Xor,
                    VectorBinary::Or,
                    VectorBinary::And,
                ]);
                Value::Binary(op, operand(self), operand(self))
            }
        }
    }
}

/// The value of contiguous elements that are so many bytes further on.
fn further(value: &Value, by: i64) -> Value {
    match value {
        Value::Load { address, lanes: LaneStride::Contiguous, storage, mask } => {
            let constant = address.offset.constant + by;
            let offset = Linear { constant, ..address.offset.clone() };
            Value::Load {
                address: Address { base: address.base, offset },
                lanes: LaneStride::Contiguous,
                storage: *storage,
                mask: mask.clone(),
            }
        }
        Value::Unary(op, a) => Value::Unary(*op, Box::new(further(a, by))),
        Value::Binary(op, a, b) => {
            Value::Binary(*op, Box::new(further(a, by)), Box::new(further(b, by)))
        }
        other => other.clone(),
    }
}

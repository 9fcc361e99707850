//! Random stores of bytes that machine code takes together.

use super::{Generator, Kind};
use tvmtune_cpu::vector::{
    Address, Base, EntryId, LaneStride, Linear, Reg, Stmt, Storage, Value, VectorBinary,
    VectorCompare, VectorUnary,
};

impl Generator<'_> {
    /// Stores of one value of bytes at places one vector apart, or nearly so, each after assignments to
    /// registers.
    pub(super) fn byte_stores(&mut self) -> Vec<Stmt> {
        let places = [(4, Storage::I8), (5, Storage::U8), (6, Storage::Bool)];
        let (to, storage) = self.tape.pick(&places);
        let offset = self.linear(100);
        let n_sets = self.tape.below(3);
        let mut sets = Vec::new();
        for _ in 0..n_sets {
            let kind = self.tape.pick(&[Kind::Int, Kind::Truth]);
            let value = self.bytes_of(kind, &sets, 2);
            sets.push((kind, value));
        }
        let kind = if storage == Storage::Bool { Kind::Truth } else { Kind::Int };
        let value = self.bytes_of(kind, &sets, 3);
        let n = self.tape.pick(&[4, 1, 2, 3, 5]);
        let apart = i64::from(self.tape.one_in(8));
        let mut stmts = Vec::new();
        for at in 0..n {
            let by = at * self.simd.lanes();
            let regs: Vec<Reg> = sets.iter().map(|it| self.register(it.0)).collect();
            for (reg, (_, value)) in regs.iter().zip(&sets) {
                let value = further(value, by + apart * at, &regs);
                stmts.push(Stmt::Set { reg: *reg, value, mask: None });
            }
            let moved = Linear { constant: offset.constant + by, ..offset.clone() };
            stmts.push(Stmt::Store {
                address: Address { base: Base::Table(EntryId(to)), offset: moved },
                lanes: LaneStride::Contiguous,
                storage,
                value: further(&value, by + apart * at, &regs),
                mask: None,
            });
        }
        stmts
    }

    /// A register that nothing else uses, or, now and then, one that may have a value already.
    fn register(&mut self, kind: Kind) -> Reg {
        if self.tape.one_in(6) {
            return self.assigned(kind);
        }
        self.kinds.push(kind);
        Reg(self.kinds.len() as u32 - 1)
    }

    /// A value that bytes determine. Register `n` stands for the assignment `n`.
    fn bytes_of(&mut self, kind: Kind, sets: &[(Kind, Value)], depth: u32) -> Value {
        let known: Vec<u32> = (0..).zip(sets).filter(|it| it.1.0 == kind).map(|it| it.0).collect();
        if !known.is_empty() && self.tape.one_in(3) {
            return Value::Reg(Reg(self.tape.pick(&known)));
        }
        match kind {
            Kind::Truth => self.truth_of_bytes(sets, depth),
            _ => self.byte(sets, depth),
        }
    }

    fn loaded(&mut self, places: &[(u32, Storage)]) -> Value {
        let (entry, storage) = self.tape.pick(places);
        let lanes = [LaneStride::Contiguous, LaneStride::Contiguous, LaneStride::Uniform];
        let lanes = self.tape.pick(&lanes);
        let address = Address { base: Base::Table(EntryId(entry)), offset: self.linear(100) };
        Value::Load { address, lanes, storage, mask: None }
    }

    fn byte(&mut self, sets: &[(Kind, Value)], depth: u32) -> Value {
        if depth == 0 || self.tape.one_in(4) {
            return match self.tape.below(4) {
                0 => Value::Splat(self.tape.pick(&[1, 127, 200, 255, self.ones(), 0])),
                _ => self.loaded(&[(4, Storage::I8), (5, Storage::U8)]),
            };
        }
        let mut operand = |kind| Box::new(self.bytes_of(kind, sets, depth - 1));
        let (a, b) = (operand(Kind::Int), operand(Kind::Int));
        let by = (self.simd.width.bits() - 8) as u8;
        match self.tape.below(11) {
            0 => {
                let shifted = Value::Unary(VectorUnary::ShiftLeft(by), a);
                Value::Unary(VectorUnary::ShiftRightSigned(by), Box::new(shifted))
            }
            1 => Value::Binary(VectorBinary::And, a, Box::new(Value::Splat(255))),
            2 => Value::Binary(VectorBinary::MulI, a, b),
            3 | 4 => {
                let condition = Box::new(self.bytes_of(Kind::Truth, sets, depth - 1));
                Value::Select { condition, then: a, otherwise: b }
            }
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
                Value::Binary(op, a, b)
            }
        }
    }

    fn truth_of_bytes(&mut self, sets: &[(Kind, Value)], depth: u32) -> Value {
        if depth == 0 {
            return self.loaded(&[(6, Storage::Bool)]);
        }
        let kind = self.tape.pick(&[Kind::Int, Kind::Truth]);
        let mut operand = |kind| Box::new(self.bytes_of(kind, sets, depth - 1));
        let (a, b) = (operand(kind), operand(kind));
        match (kind, self.tape.below(6)) {
            (Kind::Int, n) => {
                let op = if n < 4 { VectorCompare::LtI } else { VectorCompare::EqI };
                Value::Compare(op, a, b)
            }
            (_, 0) => Value::Binary(VectorBinary::Xor, a, Box::new(Value::Splat(self.ones()))),
            (_, 1) => {
                let condition = Box::new(self.bytes_of(Kind::Truth, sets, depth - 1));
                Value::Select { condition, then: a, otherwise: b }
            }
            _ => {
                let ops = [VectorBinary::And, VectorBinary::Or, VectorBinary::Xor];
                Value::Binary(self.tape.pick(&ops), a, b)
            }
        }
    }
}

/// The value of contiguous elements that are so many bytes further on; register `n` is that one.
fn further(value: &Value, by: i64, regs: &[Reg]) -> Value {
    let moved = |it: &Value| Box::new(further(it, by, regs));
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
        Value::Reg(reg) => Value::Reg(regs[reg.0 as usize]),
        Value::Unary(op, a) => Value::Unary(*op, moved(a)),
        Value::Binary(op, a, b) => Value::Binary(*op, moved(a), moved(b)),
        Value::Compare(op, a, b) => Value::Compare(*op, moved(a), moved(b)),
        Value::Select { condition, then, otherwise } => Value::Select {
            condition: moved(condition),
            then: moved(then),
            otherwise: moved(otherwise),
        },
        other => other.clone(),
    }
}

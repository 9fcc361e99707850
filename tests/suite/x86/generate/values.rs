//! Random expressions of vector code.

use super::{Generator, Kind, N_PARAMS};
use tvmtune_cpu::vector::{
    Address, Base, Count, EntryId, LaneStride, Reg, ScalarBits, Value, VectorBinary, VectorCompare,
    VectorUnary, Width,
};

impl Generator<'_> {
    fn boxed(&mut self, kind: Kind, depth: u32) -> Box<Value> {
        Box::new(self.value(kind, depth))
    }

    /// The negative of a float.
    fn negative(&self, value: Box<Value>) -> Box<Value> {
        let sign_bit = match self.simd.width {
            Width::Bits32 => 1 << 31,
            Width::Bits64 => 1 << 63,
        };
        Box::new(Value::Binary(VectorBinary::Xor, value, Box::new(Value::Splat(sign_bit))))
    }

    pub(super) fn value(&mut self, kind: Kind, depth: u32) -> Value {
        if depth == 0 || self.tape.one_in(4) {
            return self.leaf(kind);
        }
        let depth = depth - 1;
        match (self.tape.below(8), kind) {
            (0, _) => self.leaf(kind),
            (1, _) => Value::Select {
                condition: self.boxed(Kind::Truth, depth),
                then: self.boxed(kind, depth),
                otherwise: self.boxed(kind, depth),
            },
            (_, Kind::Float) => self.float(depth),
            (_, Kind::Int) => self.int(depth),
            (_, Kind::Truth) => self.truth(depth),
        }
    }

    fn leaf(&mut self, kind: Kind) -> Value {
        let known: Vec<Reg> = self.regs.iter().filter(|it| it.1 == kind).map(|it| it.0).collect();
        match self.tape.below(6) {
            0 => match kind {
                Kind::Float => Value::Splat(self.float_bits()),
                Kind::Int => Value::Splat(self.int_bits()),
                Kind::Truth => Value::Splat(self.tape.pick(&[0, self.ones()])),
            },
            1 if kind == Kind::Float => Value::Scalar(EntryId(8 + 5 * N_PARAMS), ScalarBits::Low),
            1 if kind == Kind::Int => {
                let bits = match self.simd.width {
                    Width::Bits32 => self.tape.pick(&[ScalarBits::Low, ScalarBits::HighWord]),
                    Width::Bits64 => ScalarBits::Low,
                };
                Value::Scalar(EntryId(9 + 5 * N_PARAMS), bits)
            }
            1 if kind == Kind::Truth => {
                Value::Lanes(self.tape.below(1 << self.simd.lanes()) as u16)
            }
            2 if kind == Kind::Int => {
                let step = self.tape.pick(&[1, 0, -3, 4]);
                Value::Index { base: self.linear(100), step }
            }
            1..5 if !known.is_empty() => Value::Reg(self.tape.pick(&known)),
            _ => self.load(kind),
        }
    }

    fn load(&mut self, kind: Kind) -> Value {
        let (mut address, storage, _) = self.place(Some(kind));
        let lanes = self.lanes(address.base, storage);
        if address.base == Base::Scratch {
            return Value::Load { address, lanes, storage, mask: self.mask(1) };
        }
        match self.tape.below(6) {
            4 if storage == self.storage() => {
                address.offset.constant += self.bytes() * self.simd.lanes();
                let lanes = LaneStride::Strided(Count::Const(-self.bytes()));
                Value::Load { address, lanes, storage, mask: self.mask(1) }
            }
            5 if !matches!(lanes, LaneStride::Strided(_)) => {
                let (index, few) = (Box::new(self.leaf(Kind::Int)), Box::new(Value::Splat(31)));
                let index = Box::new(Value::Binary(VectorBinary::And, index, few));
                Value::LoadAt { address, index, lanes, storage, mask: self.mask(1) }
            }
            _ => Value::Load { address, lanes, storage, mask: self.mask(1) },
        }
    }

    fn float(&mut self, depth: u32) -> Value {
        const UNARY: [VectorUnary; 5] = [
            VectorUnary::SqrtF,
            VectorUnary::RoundF,
            VectorUnary::FloorF,
            VectorUnary::CeilF,
            VectorUnary::SingleF,
        ];
        const BINARY: [VectorBinary; 7] = [
            VectorBinary::AddF,
            VectorBinary::MulF,
            VectorBinary::MinF,
            VectorBinary::MaxF,
            VectorBinary::SubF,
            VectorBinary::DivF,
            VectorBinary::ScaleF,
        ];
        let n_binary = if self.simd.scales() { 7 } else { 6 };
        match self.tape.below(8) {
            0..3 => {
                let op = self.tape.pick(&BINARY[..n_binary]);
                Value::Binary(op, self.boxed(Kind::Float, depth), self.boxed(Kind::Float, depth))
            }
            3 | 4 => {
                let [a, b, c] = [(); 3].map(|()| self.boxed(Kind::Float, depth));
                let a = if self.tape.one_in(3) { self.negative(a) } else { a };
                let b = if self.tape.one_in(5) { self.negative(b) } else { b };
                Value::Fma(a, b, c)
            }
            5 => match self.tape.below(4) {
                0 if self.converts() => {
                    Value::Unary(VectorUnary::IntToFloat, self.boxed(Kind::Int, depth))
                }
                1 => {
                    let op = VectorBinary::And;
                    let (x, y) = (self.boxed(Kind::Truth, depth), self.boxed(Kind::Float, depth));
                    Value::Binary(op, x, y)
                }
                _ => {
                    let n = if self.simd.width == Width::Bits64 { 5 } else { 4 };
                    let op = self.tape.pick(&UNARY[..n]);
                    Value::Unary(op, self.boxed(Kind::Float, depth))
                }
            },
            6 => Value::Reduce(self.tape.pick(&BINARY[..4]), self.boxed(Kind::Float, depth)),
            _ => {
                let index = Value::Binary(
                    VectorBinary::And,
                    self.boxed(Kind::Int, depth),
                    Box::new(Value::Splat(31)),
                );
                let (bytes, storage) = (self.bytes(), self.storage());
                let offset = self.scaled_linear(25, bytes);
                let address = Address { base: Base::Table(EntryId(0)), offset };
                let mask = self.mask(depth);
                Value::Gather { address, index: Box::new(index), storage, mask }
            }
        }
    }

    fn int(&mut self, depth: u32) -> Value {
        const BINARY: [VectorBinary; 8] = [
            VectorBinary::AddI,
            VectorBinary::MulI,
            VectorBinary::MinI,
            VectorBinary::MaxI,
            VectorBinary::And,
            VectorBinary::Or,
            VectorBinary::Xor,
            VectorBinary::SubI,
        ];
        match self.tape.below(7) {
            0..3 => {
                let op = match self.tape.pick(&BINARY) {
                    VectorBinary::MulI
                        if self.simd.width == Width::Bits32 && self.tape.one_in(2) =>
                    {
                        VectorBinary::DotHalves
                    }
                    op => op,
                };
                Value::Binary(op, self.boxed(Kind::Int, depth), self.boxed(Kind::Int, depth))
            }
            3 => {
                let by = self.tape.below(self.simd.width.bits() + 4) as u8;
                let op = self.tape.pick(&[
                    VectorUnary::ShiftLeft(by),
                    VectorUnary::ShiftRight(by),
                    VectorUnary::ShiftRightSigned(by),
                ]);
                Value::Unary(op, self.boxed(Kind::Int, depth))
            }
            4 if self.converts() => {
                Value::Unary(VectorUnary::FloatToInt, self.boxed(Kind::Float, depth))
            }
            5 => Value::Reduce(self.tape.pick(&BINARY[..7]), self.boxed(Kind::Int, depth)),
            _ => Value::Binary(
                VectorBinary::MinF,
                self.boxed(Kind::Float, depth),
                Box::new(Value::Splat(self.float_of(2.5))),
            ),
        }
    }

    fn truth(&mut self, depth: u32) -> Value {
        const FLOATS: [VectorCompare; 4] =
            [VectorCompare::LtF, VectorCompare::LeF, VectorCompare::EqF, VectorCompare::NeF];
        match self.tape.below(5) {
            0 => {
                let op = self.tape.pick(&FLOATS);
                Value::Compare(op, self.boxed(Kind::Float, depth), self.boxed(Kind::Float, depth))
            }
            1 => {
                let op = self.tape.pick(&[VectorCompare::LtI, VectorCompare::EqI]);
                Value::Compare(op, self.boxed(Kind::Int, depth), self.boxed(Kind::Int, depth))
            }
            2 => {
                let all = match self.simd.width {
                    Width::Bits32 => u32::MAX.into(),
                    Width::Bits64 => u64::MAX,
                };
                let all = Box::new(Value::Splat(all));
                Value::Binary(VectorBinary::Xor, self.boxed(Kind::Truth, depth), all)
            }
            _ => {
                let ops = [VectorBinary::And, VectorBinary::Or, VectorBinary::Xor];
                let op = self.tape.pick(&ops);
                Value::Binary(op, self.boxed(Kind::Truth, depth), self.boxed(Kind::Truth, depth))
            }
        }
    }
}

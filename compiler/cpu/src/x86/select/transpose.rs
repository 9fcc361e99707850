//! Selection of four strided loads, or four strided stores, of consecutive words as a transposition.
//!
//! ```text
//! r0 = t0[p].+s; r1 = t0[p + 4].+s; r2 = t0[p + 8].+s; r3 = t0[p + 12].+s
//!     =>   16 bytes of each row, 4 words of one lane, and a 4x4 transposition in each 128-bit lane
//! ```
//!
//! A gather or scatter takes a cycle or more for each lane; a row takes one access for four vectors.
//! Both touch the same words. [`crate::vector`] puts such statements side by side.

use super::super::encode::Width;
use super::super::induction::is_scatter;
use super::super::inst::{Inst, IntOperand, MemBase, MemOperand, Operand, VectorInst, VirtReg};
use super::super::opcode;
use super::Selector;
use crate::vector::transpose::{
    N_VECTORS, are_consecutive, is_transposable_load, is_transposable_store,
};
use crate::vector::{Address, Base, Count, LaneStride, Reg, Stmt, Storage, Value};

/// Displacements of the rows up to which they need no pointer of their own.
const MAX_DISPLACEMENT: u64 = 1 << 29;

/// Four strided accesses of consecutive words: the first address, the stride, and what is loaded or
/// stored.
struct Transposition<'a, T> {
    address: &'a Address,
    stride: Count,
    vectors: [T; N_VECTORS],
}

/// The rows of a transposition: the lanes of its accesses.
struct Rows {
    /// The first row, or the row that the pointer has reached.
    place: MemOperand,
    /// The distance of rows in displacements; 0 where a pointer advances.
    step: i32,
    /// The pointer, and its increment from row to row.
    advance: Option<(VirtReg, IntOperand)>,
}

impl<'a, T: Copy> Transposition<'a, T> {
    /// Combines four accesses if they have one stride and their addresses are consecutive words.
    fn of(accesses: [(&'a Address, LaneStride, T); N_VECTORS]) -> Option<Self> {
        let (address, lanes, _) = accesses[0];
        let LaneStride::Strided(stride) = lanes else { return None };
        let same = accesses.iter().all(|it| it.1 == lanes);
        let consecutive = are_consecutive(accesses.map(|it| it.0));
        let vectors = accesses.map(|it| it.2);
        (same && consecutive).then_some(Self { address, stride, vectors })
    }
}

/// Matches four loads.
fn loads(stmts: &[Stmt]) -> Option<Transposition<'_, Reg>> {
    let [a, b, c, d, ..] = stmts else { return None };
    let load = |stmt| match stmt {
        &Stmt::Set {
            reg,
            value: Value::Load { ref address, lanes, storage, mask: None },
            mask: None,
        } if is_transposable_load(lanes, storage) => Some((address, lanes, reg)),
        _ => None,
    };
    Transposition::of([load(a)?, load(b)?, load(c)?, load(d)?])
}

/// Matches four stores whose values are the same whether or not the earlier ones have been stored.
fn stores(stmts: &[Stmt]) -> Option<Transposition<'_, &Value>> {
    let [a, b, c, d, ..] = stmts else { return None };
    let store = |stmt| match stmt {
        &Stmt::Store { ref address, lanes, storage, ref value, mask: None }
            if is_transposable_store(lanes, storage) =>
        {
            Some((address, lanes, value))
        }
        _ => None,
    };
    let found = Transposition::of([store(a)?, store(b)?, store(c)?, store(d)?])?;
    let aliases = found.vectors[1..].iter().any(|it| reads(it, found.address.base));
    (!aliases).then_some(found)
}

/// Returns whether a value reads memory from a base.
fn reads(value: &Value, base: Base) -> bool {
    let here = match value {
        Value::Load { address, .. }
        | Value::Gather { address, .. }
        | Value::LoadAt { address, .. } => address.base == base,
        _ => false,
    };
    here || value.operands().any(|it| reads(it, base))
}

impl Selector<'_> {
    /// Selects the first four statements as one transposition, if they are, and returns the others.
    pub(super) fn transposed<'a>(&mut self, stmts: &'a [Stmt]) -> Option<&'a [Stmt]> {
        if let Some(found) = loads(stmts) {
            self.load_transposed(&found);
        } else {
            self.store_transposed(&stores(stmts)?);
        }
        Some(&stmts[N_VECTORS..])
    }

    fn load_transposed(&mut self, found: &Transposition<'_, Reg>) {
        let place = self.unindexed_operand(found.address);
        let rows = self.rows(place, found.stride);
        // Each 128-bit lane of a collected vector is a row: of vector `n`, rows `n`, `n + 4`, ...
        let mut collected = [VirtReg(0); N_VECTORS];
        for row in 0..self.isa.lanes() as usize {
            let b = Some(Operand::Mem(self.row(&rows, row)));
            let dst = self.new_vector();
            let last = &mut collected[row % N_VECTORS];
            let inst = if row < N_VECTORS {
                VectorInst { dst: Some(dst), b, ..VectorInst::new(opcode::MOVUPS, Width::W128) }
            } else {
                let (a, imm) = (Some(*last), Some((row / N_VECTORS) as u8));
                let inst = VectorInst::new(opcode::INSERT128, self.width());
                VectorInst { dst: Some(dst), a, b, imm, ..inst }
            };
            self.push(Inst::Vector(inst));
            *last = dst;
        }
        self.transpose(collected, found.vectors.map(|it| self.regs[it.0 as usize]));
    }

    fn store_transposed(&mut self, found: &Transposition<'_, &Value>) {
        let values = found.vectors.map(|it| self.vector(it));
        let collected = [(); N_VECTORS].map(|()| self.new_vector());
        self.transpose(values, collected);
        let place = match is_scatter(self.isa, LaneStride::Strided(found.stride), Storage::Word) {
            true => self.unindexed_operand(found.address),
            false => self.mem_operand(found.address),
        };
        let rows = self.rows(place, found.stride);
        for row in 0..self.isa.lanes() as usize {
            let (a, b) =
                (Some(collected[row % N_VECTORS]), Some(Operand::Mem(self.row(&rows, row))));
            let inst = if row < N_VECTORS {
                VectorInst::new(opcode::MOVUPS_STORE, Width::W128)
            } else {
                let imm = Some((row / N_VECTORS) as u8);
                VectorInst { imm, ..VectorInst::new(opcode::EXTRACT128_STORE, self.width()) }
            };
            self.push(Inst::Vector(VectorInst { a, b, ..inst }));
        }
    }

    /// Begins a walk over the rows, the first of which is at `place`.
    fn rows(&mut self, place: MemOperand, stride: Count) -> Rows {
        let stride = self.count(stride);
        let reach = |step: i64| step.unsigned_abs().saturating_mul(self.isa.lanes().into());
        match (stride, place.base) {
            (IntOperand::Const(step), _) if reach(step) <= MAX_DISPLACEMENT => {
                Rows { place, step: step as i32, advance: None }
            }
            (_, MemBase::Int(base)) => {
                let pointer = self.new_int();
                self.push(Inst::Copy { dst: pointer, src: IntOperand::Reg(base) });
                let place = MemOperand { base: MemBase::Int(pointer), ..place };
                Rows { place, step: 0, advance: Some((pointer, stride)) }
            }
            (_, MemBase::Frame(_) | MemBase::Pool(_)) => {
                unreachable!("addresses have a register for their base")
            }
        }
    }

    /// Returns the memory operand of a row; rows come in order.
    fn row(&mut self, rows: &Rows, row: usize) -> MemOperand {
        if let Some((dst, src)) = rows.advance
            && row > 0
        {
            self.push(Inst::Add { dst, src });
        }
        MemOperand { disp: rows.place.disp + row as i32 * rows.step, ..rows.place }
    }

    /// Transposes the 4x4 words in each 128-bit lane of four vectors.
    fn transpose(&mut self, [a, b, c, d]: [VirtReg; N_VECTORS], targets: [VirtReg; N_VECTORS]) {
        let halves = [
            (opcode::UNPCKLPS, a, b),
            (opcode::UNPCKLPS, c, d),
            (opcode::UNPCKHPS, a, b),
            (opcode::UNPCKHPS, c, d),
        ];
        let [low, low_too, high, high_too] = halves.map(|(op, first, second)| {
            let half = self.new_vector();
            self.binary(op, half, first, Operand::Reg(second));
            half
        });
        let pairs = [(low, low_too), (high, high_too)];
        for (n, dst) in targets.into_iter().enumerate() {
            let (first, second) = pairs[n / 2];
            let inst = self.inst(opcode::SHUFPS, dst, Operand::Reg(second));
            // The lower pairs of both, or the upper ones.
            let imm = Some(if n % 2 == 0 { 0b01_00_01_00 } else { 0b11_10_11_10 });
            self.push(Inst::Vector(VectorInst { a: Some(first), imm, ..inst }));
        }
    }
}

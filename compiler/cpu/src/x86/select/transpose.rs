//! Selection of four strided loads, or four strided stores, of consecutive words as a transposition, and of
//! two or three stores that fill memory as an interleaving.
//!
//! ```text
//! r0 = t0[p].+s; r1 = t0[p + 4].+s; r2 = t0[p + 8].+s; r3 = t0[p + 12].+s
//!     =>   16 bytes of each row, 4 words of one lane, and a 4x4 transposition in each 128-bit lane
//! ```
//!
//! Several fours of loads whose rows follow one another take all of a row at once, so that its cache line is
//! needed once.
//!
//! A gather or scatter takes a cycle or more for each lane; a row takes one access for four vectors.
//! Both touch the same words. [`crate::vector`] puts such statements side by side.

use tvmtune_ir::target::Isa;

use super::super::encode::Width;
use super::super::induction::{ActiveLanes, is_gather, is_scatter};
use super::super::inst::{Inst, IntOperand, MemBase, MemOperand, Operand, VectorInst, VirtReg};
use super::super::opcode::{self, Opcode};
use super::Selector;
use crate::vector::transpose::{
    N_VECTORS, are_consecutive, fills_memory, is_transposable_load, is_transposable_store,
};
use crate::vector::{Address, Base, Count, LaneStride, Reg, Stmt, Storage, Value};

/// Displacements of the rows up to which they need no pointer of their own.
const MAX_DISPLACEMENT: u64 = 1 << 29;

/// Strided accesses of consecutive words: the first address, the stride, and what is loaded or stored.
struct Group<'a, T, const N: usize> {
    address: &'a Address,
    stride: Count,
    vectors: [T; N],
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

impl<'a, T: Copy, const N: usize> Group<'a, T, N> {
    /// Combines accesses if they have one stride and their addresses are consecutive words.
    fn of(accesses: [(&'a Address, LaneStride, T); N]) -> Option<Self> {
        let (address, lanes, _) = accesses[0];
        let LaneStride::Strided(stride) = lanes else { return None };
        let same = accesses.iter().all(|it| it.1 == lanes);
        let consecutive = are_consecutive(&accesses.map(|it| it.0));
        let vectors = accesses.map(|it| it.2);
        (same && consecutive).then_some(Self { address, stride, vectors })
    }
}

/// Matches four loads.
fn loads(stmts: &[Stmt]) -> Option<Group<'_, Reg, N_VECTORS>> {
    let [a, b, c, d, ..] = stmts else { return None };
    let load = |stmt| match stmt {
        &Stmt::Set {
            reg,
            value: Value::Load { ref address, lanes, storage, mask: None },
            mask: None,
        } if is_transposable_load(lanes, storage) => Some((address, lanes, reg)),
        _ => None,
    };
    Group::of([load(a)?, load(b)?, load(c)?, load(d)?])
}

/// Matches so many fours of loads at most, all of consecutive words.
fn load_run(stmts: &[Stmt], most: usize) -> Vec<Group<'_, Reg, N_VECTORS>> {
    let mut found: Vec<Group<'_, Reg, N_VECTORS>> = Vec::new();
    for four in stmts.chunks(N_VECTORS).take(most) {
        let Some(next) = loads(four) else { break };
        let is_next = |last: &Group<'_, Reg, N_VECTORS>| {
            let words = N_VECTORS as i64 * Storage::Word.bytes();
            let mut expected = last.address.clone();
            expected.offset.constant += words;
            expected == *next.address && last.stride == next.stride
        };
        if !found.last().is_none_or(is_next) {
            break;
        }
        found.push(next);
    }
    found
}

/// Matches stores whose values are the same whether or not the earlier ones have been stored.
fn stores<const N: usize>(
    stmts: &[Stmt],
    is_wanted: fn(LaneStride, Storage) -> bool,
) -> Option<Group<'_, &Value, N>> {
    let store = |stmt| match stmt {
        &Stmt::Store { ref address, lanes, storage, ref value, mask: None }
            if is_wanted(lanes, storage) =>
        {
            Some((address, lanes, value))
        }
        _ => None,
    };
    let stores: Option<Vec<_>> = stmts.first_chunk::<N>()?.iter().map(store).collect();
    let found = Group::of(stores?.try_into().ok()?)?;
    let aliases = found.vectors[1..].iter().any(|it| reads(it, found.address.base));
    (!aliases).then_some(found)
}

/// Returns whether a value reads memory from a base.
pub(super) fn reads(value: &Value, base: Base) -> bool {
    let here = match value {
        Value::Load { address, .. }
        | Value::Gather { address, .. }
        | Value::LoadAt { address, .. } => address.base == base,
        _ => false,
    };
    here || value.operands().any(|it| reads(it, base))
}

impl Selector<'_> {
    /// Selects the first statements as one transposition or interleaving, if they are, and returns the others.
    pub(super) fn transposed<'a>(&mut self, stmts: &'a [Stmt]) -> Option<&'a [Stmt]> {
        let runs = load_run(stmts, self.simd.isa.lanes() as usize / N_VECTORS);
        if !runs.is_empty() {
            self.load_transposed(&runs);
            return Some(&stmts[runs.len() * N_VECTORS..]);
        }
        if let Some(found) = stores(stmts, is_transposable_store) {
            self.store_transposed(&found);
        } else if let Some(found) = stores(stmts, |lanes, it| fills_memory(3, lanes, it)) {
            self.store_three(&found);
            return Some(&stmts[3..]);
        } else {
            self.store_two(&stores(stmts, |lanes, it| fills_memory(2, lanes, it))?);
            return Some(&stmts[2..]);
        }
        Some(&stmts[N_VECTORS..])
    }

    /// Loads fours of vectors whose rows follow one another: a row of all of them, then the next.
    fn load_transposed(&mut self, fours: &[Group<'_, Reg, N_VECTORS>]) {
        let Group { address, stride, .. } = fours[0];
        let lanes = LaneStride::Strided(stride);
        let place = match is_gather(self.simd, lanes, Storage::Word, ActiveLanes::All) {
            true => self.unindexed_operand(address),
            false => self.mem_operand(address),
        };
        let rows = self.rows(place, stride);
        // Each 128-bit lane of a collected vector is a row: of vector `n`, rows `n`, `n + 4`, ...
        let mut collected = vec![[VirtReg(0); N_VECTORS]; fours.len()];
        for row in 0..self.simd.isa.lanes() as usize {
            let first = self.row(&rows, row);
            for (n, collected) in (0..).zip(&mut collected) {
                let words = n * N_VECTORS as i32 * 4;
                let b = Some(Operand::Mem(MemOperand { disp: first.disp + words, ..first }));
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
        }
        for (four, collected) in fours.iter().zip(collected) {
            self.transpose(collected, four.vectors.map(|it| self.regs[it.0 as usize]));
        }
    }

    /// Stores two vectors, a word of each in turn.
    fn store_two(&mut self, found: &Group<'_, &Value, 2>) {
        let [a, b] = found.vectors.map(|it| self.vector(it));
        let [low, high] = [opcode::UNPCKLPS, opcode::UNPCKHPS].map(|op| {
            let dst = self.new_vector();
            self.binary(op, dst, a, Operand::Reg(b));
            dst
        });
        let place = self.strided_operand(found.address, found.stride);
        // In each 128-bit lane, `low` has the first words of both, and `high` the others.
        for half in 0..2 {
            let dst = self.new_vector();
            match self.simd.isa {
                Isa::Avx512 => {
                    let pairs = self.new_vector();
                    let lanes = if half == 0 { 0b01_00_01_00 } else { 0b11_10_11_10 };
                    self.shuffle(opcode::SHUFF32X4, pairs, [low, high], lanes);
                    self.shuffle(opcode::SHUFF32X4, dst, [pairs; 2], 0b11_01_10_00);
                }
                _ => {
                    let lanes = if half == 0 { 0x20 } else { 0x31 };
                    self.shuffle(opcode::PERM2F128, dst, [low, high], lanes);
                }
            }
            let disp = place.disp + half * self.simd.isa.lanes() as i32 * 4;
            let b = Some(Operand::Mem(MemOperand { disp, ..place }));
            let inst = VectorInst::new(opcode::MOVUPS_STORE, self.width());
            self.push(Inst::Vector(VectorInst { a: Some(dst), b, ..inst }));
        }
    }

    fn shuffle(&mut self, op: Opcode, dst: VirtReg, [a, b]: [VirtReg; 2], imm: u8) {
        let inst = self.inst(op, dst, Operand::Reg(b));
        self.push(Inst::Vector(VectorInst { a: Some(a), imm: Some(imm), ..inst }));
    }

    /// Stores three vectors, a word of each in turn: rows of four words, of which the next row replaces the
    /// last word. The last row has three.
    fn store_three(&mut self, found: &Group<'_, &Value, 3>) {
        let [a, b, c] = found.vectors.map(|it| self.vector(it));
        let place = self.strided_operand(found.address, found.stride);
        let rows = self.rows(place, found.stride);
        let n_rows = self.simd.isa.lanes() as usize - 1;
        let collected = self.store_rows([a, b, c, c], &rows, n_rows);
        let last = self.new_vector();
        match self.simd.isa {
            Isa::Avx512 => self.shuffle(opcode::SHUFF32X4, last, [collected[3]; 2], 0b11_11_11_11),
            _ => self.shuffle(opcode::PERM2F128, last, [collected[3]; 2], 0x11),
        }
        let place = self.row(&rows, n_rows);
        for word in 0..3 {
            let a = self.new_vector();
            self.immediate(opcode::PERMILPS, a, Operand::Reg(last), word);
            let b =
                Some(Operand::Mem(MemOperand { disp: place.disp + 4 * i32::from(word), ..place }));
            let inst = VectorInst::new(opcode::MOVSS_STORE, Width::W128);
            self.push(Inst::Vector(VectorInst { a: Some(a), b, ..inst }));
        }
    }

    fn store_transposed(&mut self, found: &Group<'_, &Value, N_VECTORS>) {
        let values = found.vectors.map(|it| self.vector(it));
        let place = self.strided_operand(found.address, found.stride);
        let rows = self.rows(place, found.stride);
        self.store_rows(values, &rows, self.simd.isa.lanes() as usize);
    }

    /// Returns the place of the first word of strided stores.
    fn strided_operand(&mut self, address: &Address, stride: Count) -> MemOperand {
        match is_scatter(self.simd, LaneStride::Strided(stride), Storage::Word) {
            true => self.unindexed_operand(address),
            false => self.mem_operand(address),
        }
    }

    /// Stores the first rows of four vectors; returns all: each 128-bit lane of vector `n` is a row, `n`,
    /// `n + 4`, ...
    fn store_rows(
        &mut self,
        values: [VirtReg; N_VECTORS],
        rows: &Rows,
        n_rows: usize,
    ) -> [VirtReg; N_VECTORS] {
        let collected = [(); N_VECTORS].map(|()| self.new_vector());
        self.transpose(values, collected);
        for row in 0..n_rows {
            let (a, b) =
                (Some(collected[row % N_VECTORS]), Some(Operand::Mem(self.row(rows, row))));
            let inst = if row < N_VECTORS {
                VectorInst::new(opcode::MOVUPS_STORE, Width::W128)
            } else {
                let imm = Some((row / N_VECTORS) as u8);
                VectorInst { imm, ..VectorInst::new(opcode::EXTRACT128_STORE, self.width()) }
            };
            self.push(Inst::Vector(VectorInst { a, b, ..inst }));
        }
        collected
    }

    /// Begins a walk over the rows, the first of which is at `place`.
    fn rows(&mut self, place: MemOperand, stride: Count) -> Rows {
        let stride = self.count(stride);
        let reach = |step: i64| step.unsigned_abs().saturating_mul(self.simd.isa.lanes().into());
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

//! `wgmma`: the asynchronous matrix products of a warpgroup.

use super::mma::{each_a, to_float, to_integer};
use super::warp::{Flow, State};
use super::{Machine, Result};
use crate::code::{Accumulator, Multiplicand, OperandA, Wgmma, WgmmaGroup, WgmmaRegisters};
use crate::fault::FaultKind;
use crate::race::{self, Actor, VectorClock};
use crate::registers::{LANES, Slot};
use crate::space::{Region, SHARED_BASE};
use crate::tensor_map::Swizzle;
use std::collections::BTreeMap;

/// Warps of a warpgroup.
const WARPS: usize = 4;

/// The state of a warpgroup's four warps.
#[derive(Clone, Debug, Default)]
pub(super) struct Warpgroup {
    /// The warps that have arrived at an instruction, and its index.
    arrived: Vec<usize>,
    pc: usize,
    /// Groups that each warp has committed and waited for, and whether it has uncommitted `wgmma`.
    committed: [u32; WARPS],
    waited: [u32; WARPS],
    uncommitted: [bool; WARPS],
    /// Warps that have executed `wgmma.fence` since their last access to registers of `wgmma`.
    fenced: [bool; WARPS],
    /// For each warp, the group of the last `wgmma` that accumulates into a register.
    accumulators: [BTreeMap<Slot, u32>; WARPS],
    /// For each warp, the group of the last `wgmma` that reads a register as A.
    multiplicands: [BTreeMap<Slot, u32>; WARPS],
    /// The agent of the race detector that reads shared memory for it.
    agent: Option<usize>,
}

/// A matrix in shared memory, from its descriptor.
#[derive(Clone, Copy, Debug)]
struct SharedMatrix {
    start: u32,
    leading: u32,
    stride: u32,
    swizzle: Swizzle,
    bytes: u32,
    transposed: bool,
}

impl SharedMatrix {
    fn new(descriptor: u64, type_: Multiplicand, transposed: bool) -> Option<Self> {
        let field = |at: u32| ((descriptor >> at & 0x3FFF) as u32) << 4;
        let swizzle = match descriptor >> 62 {
            0 => Swizzle::None,
            1 => Swizzle::Bytes128,
            2 => Swizzle::Bytes64,
            _ => Swizzle::Bytes32,
        };
        let base_offset = descriptor >> 49 & 7;
        (base_offset == 0).then(|| Self {
            start: field(0),
            leading: field(16),
            stride: field(32),
            swizzle,
            bytes: type_.bytes() as u32,
            transposed,
        })
    }

    /// Returns the address of an element: `row` counts along M or N.
    fn at(&self, row: u32, k: u32) -> u32 {
        let line = match self.swizzle {
            Swizzle::None => 16,
            Swizzle::Bytes32 => 32,
            Swizzle::Bytes64 => 64,
            Swizzle::Bytes128 => 128,
        };
        let (stride, leading) = (self.stride, self.leading);
        let inside = match (self.transposed, self.swizzle) {
            (false, Swizzle::None) => {
                let byte = k * self.bytes;
                row % 8 * 16 + row / 8 * stride + byte / 16 * leading + byte % 16
            }
            (false, _) => row % 8 * line + row / 8 * stride + k * self.bytes,
            (true, Swizzle::None) => row % 8 * 2 + row / 8 * stride + k % 8 * 16 + k / 8 * leading,
            (true, _) => {
                let n = line / 2;
                row % n * 2 + row / n * leading + k % 8 * line + k / 8 * stride
            }
        };
        self.swizzle.apply(self.start + inside)
    }

    /// Returns the 16-byte chunks of `rows` by `k`: their first row and column, and the address.
    fn chunks_of(self, rows: usize, k: usize) -> impl Iterator<Item = (usize, usize, u32)> {
        let n = 16 / self.bytes as usize;
        let (down, right) = if self.transposed { (n, 1) } else { (1, n) };
        (0..rows).step_by(down).flat_map(move |row| {
            (0..k).step_by(right).map(move |k| (row, k, self.at(row as u32, k as u32)))
        })
    }

    /// Visits the elements of `rows` by `k`: row, column, bits.
    fn each(self, shared: &[u8], rows: usize, k: usize, mut visit: impl FnMut(usize, usize, u32)) {
        let bytes = self.bytes as usize;
        for (row, k, at) in self.chunks_of(rows, k) {
            let piece = &shared[(at - SHARED_BASE as u32) as usize..][..16];
            for (n, element) in piece.chunks_exact(bytes).enumerate() {
                let bits = element.iter().rev().fold(0, |all, byte| all << 8 | u32::from(*byte));
                let (down, right) = if self.transposed { (n, 0) } else { (0, n) };
                visit(row + down, k + right, bits);
            }
        }
    }
}

impl Machine<'_> {
    fn warpgroup_of(&mut self, warp: usize) -> (&mut Warpgroup, usize) {
        let it = &self.warps[warp];
        let (cta, number) = (it.cta, it.number as usize);
        (&mut self.ctas[cta].warpgroups[number / WARPS], number % WARPS)
    }

    pub(super) fn wgmma_group(
        &mut self,
        warp: usize,
        active: u32,
        group: WgmmaGroup,
    ) -> Result<Flow> {
        if !self.whole_warp(warp, active)? {
            return Ok(Flow::Again(State::Collective));
        }
        let (it, n) = self.warpgroup_of(warp);
        match group {
            WgmmaGroup::Fence => it.fenced[n] = true,
            WgmmaGroup::Commit => {
                it.committed[n] += 1;
                it.uncommitted[n] = false;
            }
            WgmmaGroup::Wait(pending) => {
                let done = it.committed[n].saturating_sub(pending);
                it.waited[n] = it.waited[n].max(done);
                let agent = it.agent;
                if let (Some(race), Some(agent)) = (&mut self.race, agent) {
                    race.agent_done(warp, active, agent, done);
                }
            }
        }
        Ok(Flow::Next)
    }

    pub(super) fn wgmma(&mut self, warp: usize, active: u32, wgmma: &Wgmma) -> Result<Flow> {
        if !self.whole_warp(warp, active)? {
            return Ok(Flow::Again(State::Collective));
        }
        let pc = self.at.1;
        let n_warps = self.n_warps() as usize;
        let (it, n) = self.warpgroup_of(warp);
        if !it.fenced[n] {
            return Err(self.fault(FaultKind::BadInstruction, 0, "`wgmma` before a `wgmma.fence`"));
        }
        if !it.arrived.is_empty() && it.pc != pc {
            let message = "warps of a warpgroup run different `wgmma`";
            return Err(self.fault(FaultKind::DivergentCollective, 0, message));
        }
        it.pc = pc;
        it.uncommitted[n] = true;
        let group = it.committed[n] + 1;
        it.accumulators[n].extend(wgmma.to.iter().map(|slot| (*slot, group)));
        if let OperandA::Registers(slots) = &wgmma.a {
            it.multiplicands[n].extend(slots.iter().map(|slot| (*slot, group)));
        }
        it.arrived.push(warp);
        if it.arrived.len() < WARPS {
            if self.warps[warp].number as usize / WARPS * WARPS + WARPS > n_warps {
                let message = "a warpgroup of fewer than four warps";
                return Err(self.fault(FaultKind::DivergentCollective, 0, message));
            }
            return Ok(Flow::Wait(State::Warpgroup));
        }
        it.arrived.clear();
        let first = warp - n;
        self.multiply(first, wgmma)?;
        for other in (first..first + WARPS).filter(|it| *it != warp) {
            self.warps[other].wake(State::Warpgroup);
        }
        Ok(Flow::Next)
    }

    /// Checks an ordinary instruction's access to registers of `wgmma`.
    pub(super) fn check_wgmma_registers(
        &mut self,
        warp: usize,
        registers: &WgmmaRegisters,
    ) -> Result<()> {
        let check = self.options.check;
        let (it, n) = self.warpgroup_of(warp);
        it.fenced[n] = false;
        let waited = it.waited[n];
        let is_pending = |of: &BTreeMap<Slot, u32>, slots: &[Slot]| {
            slots.iter().any(|slot| of.get(slot).is_some_and(|group| *group > waited))
        };
        let message = if is_pending(&it.accumulators[n], &registers.accumulators) {
            "an accumulator is used before a wait for `wgmma`"
        } else if is_pending(&it.multiplicands[n], &registers.multiplicands) {
            "an operand is overwritten before a wait for `wgmma`"
        } else {
            return Ok(());
        };
        if check { Err(self.fault(FaultKind::Race, 0, message)) } else { Ok(()) }
    }

    /// Returns a value that all threads of a warpgroup must agree on.
    fn agreed(&self, first: usize, slot: Slot, operand: &str) -> Result<u64> {
        let row = |warp: usize| self.warps[warp].registers.doubles[slot as usize];
        let value = row(first)[0];
        match (first..first + WARPS).find(|it| row(*it) != [value; LANES]) {
            None => Ok(value),
            Some(_) => {
                let message = format!("threads of a warpgroup name different {operand}");
                Err(self.fault(FaultKind::BadInstruction, 0, message))
            }
        }
    }

    fn shared_matrix(
        &self,
        descriptor: u64,
        type_: Multiplicand,
        transposed: bool,
        rows: usize,
        k: usize,
    ) -> Result<SharedMatrix> {
        let Some(matrix) = SharedMatrix::new(descriptor, type_, transposed) else {
            let message = "a matrix descriptor with a base offset";
            return Err(self.fault(FaultKind::Unsupported, 0, message));
        };
        let size = self.ctas[self.warps[self.at.0].cta].shared.len();
        let inside = |at: u32| {
            (at as usize).checked_sub(SHARED_BASE as usize).is_some_and(|it| it + 16 <= size)
        };
        match matrix.chunks_of(rows, k).map(|it| it.2).find(|it| !inside(*it)) {
            None => Ok(matrix),
            Some(at) => {
                let at = i64::from(at) - SHARED_BASE as i64;
                let message = format!("a matrix that reaches shared{at:+} of {size}");
                Err(self.fault(FaultKind::OutOfBounds, 0, message))
            }
        }
    }

    fn multiply(&mut self, first: usize, wgmma: &Wgmma) -> Result<()> {
        let Wgmma { n, k, .. } = *wgmma;
        let right = self.agreed(first, wgmma.b, "descriptors")?;
        let right = self.shared_matrix(right, wgmma.multiplicands.1, wgmma.transposed[1], n, k)?;
        let left = match &wgmma.a {
            OperandA::Registers(_) => None,
            OperandA::Shared(slot) => {
                let left = self.agreed(first, *slot, "descriptors")?;
                Some(self.shared_matrix(left, wgmma.multiplicands.0, wgmma.transposed[0], 64, k)?)
            }
        };
        let adds = (first..first + WARPS).map(|it| wgmma.add.lanes(&self.warps[it].registers));
        let add = match adds.clone().all(|it| it == u32::MAX) {
            true => true,
            false if adds.clone().all(|it| it == 0) => false,
            false => {
                let message = "threads of a warpgroup disagree about accumulators";
                return Err(self.fault(FaultKind::BadInstruction, 0, message));
            }
        };
        self.check_wgmma_reads(first, wgmma, left, right)?;
        if wgmma.multiplicands.0.is_integer() {
            self.multiply_integers(first, wgmma, left, right, add);
        } else {
            self.multiply_floats(first, wgmma, left, right, add);
        }
        Ok(())
    }

    /// Visits the elements of A: row, column, bits.
    fn each_a_element(
        &self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<SharedMatrix>,
        mut visit: impl FnMut(usize, usize, u32),
    ) {
        if let Some(left) = left {
            left.each(&self.ctas[self.warps[first].cta].shared, 64, wgmma.k, visit);
        } else if let OperandA::Registers(slots) = &wgmma.a {
            for quarter in 0..WARPS {
                let words = &self.warps[first + quarter].registers.words;
                let rows: Vec<[u32; LANES]> = slots.iter().map(|it| words[*it as usize]).collect();
                each_a(&rows, wgmma.multiplicands.0.bytes(), |row, k, bits| {
                    visit(16 * quarter + row, k, bits);
                });
            }
        }
    }

    fn multiply_floats(
        &mut self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<SharedMatrix>,
        right: SharedMatrix,
        add: bool,
    ) {
        let Wgmma { n, k, scales, .. } = *wgmma;
        let (a_type, b_type) = wgmma.multiplicands;
        let mut a = vec![[0f32; 16]; 64];
        self.each_a_element(first, wgmma, left, |row, k, bits| {
            a[row][k] = to_float(a_type, bits) * scales[0];
        });
        // One row for each k, so that the innermost loop runs along N.
        let mut b = vec![[0f32; 256]; k];
        right.each(&self.ctas[self.warps[first].cta].shared, n, k, |column, k, bits| {
            b[k][column] = to_float(b_type, bits) * scales[1];
        });
        for (quarter, a) in a.chunks(16).enumerate() {
            let words = &mut self.warps[first + quarter].registers.words;
            let mut sums = [[0f32; 256]; 16];
            if add {
                each_accumulator(wgmma, |row, column, slot, lane, part| {
                    let bits = words[slot as usize][lane];
                    sums[row][column] = match wgmma.accumulator {
                        Accumulator::F16 => to_float(Multiplicand::F16, bits >> (16 * part)),
                        _ => f32::from_bits(bits),
                    };
                });
            }
            for (sums, a) in sums.iter_mut().zip(a) {
                for (a, b) in a.iter().zip(&b) {
                    for (sum, b) in sums[..n].iter_mut().zip(&b[..n]) {
                        *sum += a * b;
                    }
                }
            }
            each_accumulator(wgmma, |row, column, slot, lane, part| {
                let word = &mut words[slot as usize][lane];
                *word = match wgmma.accumulator {
                    Accumulator::F16 => {
                        let half = u32::from(half::f16::from_f32(sums[row][column]).to_bits());
                        *word & !(0xFFFF << (16 * part)) | half << (16 * part)
                    }
                    _ => sums[row][column].to_bits(),
                };
            });
        }
    }

    fn multiply_integers(
        &mut self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<SharedMatrix>,
        right: SharedMatrix,
        add: bool,
    ) {
        let Wgmma { n, k, .. } = *wgmma;
        let (a_type, b_type) = wgmma.multiplicands;
        let (mut a, mut b) = (vec![[0i32; 32]; 64], vec![[0i32; 32]; n]);
        self.each_a_element(first, wgmma, left, |row, k, bits| {
            a[row][k] = to_integer(a_type, bits);
        });
        right.each(&self.ctas[self.warps[first].cta].shared, n, k, |column, k, bits| {
            b[column][k] = to_integer(b_type, bits);
        });
        let saturate = matches!(wgmma.accumulator, Accumulator::S32 { saturate: true });
        for (quarter, a) in a.chunks(16).enumerate() {
            let words = &mut self.warps[first + quarter].registers.words;
            each_accumulator(wgmma, |row, column, slot, lane, _| {
                let word = &mut words[slot as usize][lane];
                let old = if add { i64::from(*word as i32) } else { 0 };
                let products: i32 = a[row].iter().zip(&b[column]).map(|(a, b)| a * b).sum();
                let sum = old + i64::from(products);
                let limited = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                *word = if saturate { limited as u32 } else { sum as u32 };
            });
        }
    }

    /// Checks reads of `wgmma` for races: all threads of the warpgroup must have seen the writes.
    fn check_wgmma_reads(
        &mut self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<SharedMatrix>,
        right: SharedMatrix,
    ) -> Result<()> {
        let cta = self.warps[first].cta;
        let made = self.race_access(first, Actor::Agent(0), 0);
        let number = self.warps[first].number as usize / WARPS;
        let Some(race) = &mut self.race else { return Ok(()) };
        let group = &mut self.ctas[cta].warpgroups[number];
        let agent = *group
            .agent
            .get_or_insert_with(|| race.agent(format!("`wgmma` of warpgroup {number}")));
        let view: VectorClock = race.meet(first..first + WARPS);
        let (actor, clock) = (Actor::Agent(agent), group.committed[0] + 1);
        let access = race::Access { actor, clock, ..made };
        let matrices = [(Some(right), wgmma.n), (left, 64)];
        for (matrix, rows) in matrices {
            let Some(matrix) = matrix else { continue };
            for (_, _, at) in matrix.chunks_of(rows, wgmma.k) {
                let offset = at - SHARED_BASE as u32;
                if let Some(conflict) = race.span(cta, access, (1, Some(&view)), (offset, 16)) {
                    return Err(self.conflict(Region::Shared(cta), "read of `wgmma`", &conflict));
                }
            }
        }
        Ok(())
    }

    /// Checks that a warp which exits has waited for its `wgmma`.
    pub(super) fn check_wgmma_waited(&mut self, warp: usize) -> Result<()> {
        let check = self.options.check;
        let (it, n) = self.warpgroup_of(warp);
        if check && (it.uncommitted[n] || it.committed[n] > it.waited[n]) {
            let message = "the end before a wait for `wgmma`";
            return Err(self.fault(FaultKind::ExitWhilePending, 0, message));
        }
        Ok(())
    }
}

/// Visits the accumulators of a warp: row, column, register, lane, and half of the register.
fn each_accumulator(wgmma: &Wgmma, mut visit: impl FnMut(usize, usize, Slot, usize, usize)) {
    let parts = if wgmma.accumulator == Accumulator::F16 { 2 } else { 1 };
    for (n, slot) in wgmma.to.iter().enumerate() {
        for lane in 0..LANES {
            for part in 0..parts {
                let i = n * parts + part;
                let row = lane / 4 + 8 * (i >> 1 & 1);
                visit(row, i / 4 * 8 + lane % 4 * 2 + (i & 1), *slot, lane, part);
            }
        }
    }
}

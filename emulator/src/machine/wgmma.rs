//! Products of a warpgroup: four warps, whose factors are in shared memory.

use std::collections::BTreeMap;

use super::access::Region;
use super::matrix::{each_a, float, integer};
use super::step::Flow;
use super::warp::State;
use super::{Machine, Result};
use crate::code::{Factor, Left, Sum, Touched, Wgmma, WgmmaGroup};
use crate::fault::FaultKind;
use crate::race::{self, Actor, Clock};
use crate::registers::{LANES, Slot};
use crate::space::SHARED_BASE;
use crate::tensor_map::Swizzle;

/// Warps of a warpgroup.
const WARPS: usize = 4;

/// What the four warps do together.
#[derive(Clone, Debug, Default)]
pub(super) struct Warpgroup {
    /// The product that some of them wait in.
    arrived: Vec<usize>,
    pc: usize,
    /// Groups that each warp has committed and waited for, and whether it has products since.
    committed: [u32; WARPS],
    waited: [u32; WARPS],
    open: [bool; WARPS],
    /// Whether each has had a fence since accumulators were touched, or factors written.
    fenced: [bool; WARPS],
    /// Of each warp, the group of the last product that adds to a register.
    adding: [BTreeMap<Slot, u32>; WARPS],
    /// The same of the last one that has a register as a factor.
    reading: [BTreeMap<Slot, u32>; WARPS],
    /// Who reads shared memory on its behalf, for the race detector.
    agent: Option<usize>,
}

/// A matrix in shared memory, as its descriptor says.
#[derive(Clone, Copy, Debug)]
struct Matrix {
    start: u32,
    leading: u32,
    stride: u32,
    swizzle: Swizzle,
    bytes: u32,
    transposed: bool,
}

impl Matrix {
    fn new(descriptor: u64, factor: Factor, transposed: bool) -> Option<Self> {
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
            bytes: factor.bytes() as u32,
            transposed,
        })
    }

    /// The address of an element: `row` counts along M or N.
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

    /// The 16-byte pieces of `rows` by `k`: their first row and column, and the address.
    fn pieces(self, rows: usize, k: usize) -> impl Iterator<Item = (usize, usize, u32)> {
        let n = 16 / self.bytes as usize;
        let (down, right) = if self.transposed { (n, 1) } else { (1, n) };
        (0..rows).step_by(down).flat_map(move |row| {
            (0..k).step_by(right).map(move |k| (row, k, self.at(row as u32, k as u32)))
        })
    }

    /// Visits the elements of `rows` by `k`: row, column, bits.
    fn each(self, shared: &[u8], rows: usize, k: usize, mut visit: impl FnMut(usize, usize, u32)) {
        let bytes = self.bytes as usize;
        for (row, k, at) in self.pieces(rows, k) {
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
    fn group_of(&mut self, warp: usize) -> (&mut Warpgroup, usize) {
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
        let (it, n) = self.group_of(warp);
        match group {
            WgmmaGroup::Fence => it.fenced[n] = true,
            WgmmaGroup::Commit => {
                it.committed[n] += 1;
                it.open[n] = false;
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
        let (it, n) = self.group_of(warp);
        if !it.fenced[n] {
            let what = "`wgmma` before a `wgmma.fence`";
            return Err(self.fault(FaultKind::BadInstruction, 0, what));
        }
        if !it.arrived.is_empty() && it.pc != pc {
            let what = "warps of a warpgroup run different `wgmma`";
            return Err(self.fault(FaultKind::DivergentCollective, 0, what));
        }
        it.pc = pc;
        it.open[n] = true;
        let group = it.committed[n] + 1;
        it.adding[n].extend(wgmma.to.iter().map(|slot| (*slot, group)));
        if let Left::Registers(slots) = &wgmma.left {
            it.reading[n].extend(slots.iter().map(|slot| (*slot, group)));
        }
        it.arrived.push(warp);
        if it.arrived.len() < WARPS {
            if self.warps[warp].number as usize / WARPS * WARPS + WARPS > n_warps {
                let what = "a warpgroup of fewer than four warps";
                return Err(self.fault(FaultKind::DivergentCollective, 0, what));
            }
            return Ok(Flow::Wait(State::Warpgroup));
        }
        it.arrived.clear();
        let first = warp - n;
        self.multiply(first, wgmma)?;
        for other in (first..first + WARPS).filter(|it| *it != warp) {
            for split in &mut self.warps[other].splits {
                if split.state == State::Warpgroup {
                    split.state = State::Ready;
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Registers of products are used by an instruction of the threads themselves.
    pub(super) fn touch(&mut self, warp: usize, touched: &Touched) -> Result<()> {
        let check = self.options.check;
        let (it, n) = self.group_of(warp);
        it.fenced[n] = false;
        let waited = it.waited[n];
        let is_pending = |of: &BTreeMap<Slot, u32>, slots: &[Slot]| {
            slots.iter().any(|slot| of.get(slot).is_some_and(|group| *group > waited))
        };
        let what = if is_pending(&it.adding[n], &touched.sums) {
            "an accumulator is used before a wait for `wgmma`"
        } else if is_pending(&it.reading[n], &touched.factors) {
            "a factor is overwritten before a wait for `wgmma`"
        } else {
            return Ok(());
        };
        if check { Err(self.fault(FaultKind::Race, 0, what)) } else { Ok(()) }
    }

    /// A value that all threads of a warpgroup agree on.
    fn agreed(&self, first: usize, slot: Slot, what: &str) -> Result<u64> {
        let row = |warp: usize| self.warps[warp].registers.doubles[slot as usize];
        let value = row(first)[0];
        match (first..first + WARPS).find(|it| row(*it) != [value; LANES]) {
            None => Ok(value),
            Some(_) => {
                let what = format!("threads of a warpgroup name different {what}");
                Err(self.fault(FaultKind::BadInstruction, 0, what))
            }
        }
    }

    fn matrix(
        &self,
        descriptor: u64,
        factor: Factor,
        transposed: bool,
        rows: usize,
        k: usize,
    ) -> Result<Matrix> {
        let Some(matrix) = Matrix::new(descriptor, factor, transposed) else {
            let what = "a matrix descriptor with a base offset";
            return Err(self.fault(FaultKind::Unsupported, 0, what));
        };
        let size = self.ctas[self.warps[self.at.0].cta].shared.len();
        let inside = |at: u32| {
            (at as usize).checked_sub(SHARED_BASE as usize).is_some_and(|it| it + 16 <= size)
        };
        match matrix.pieces(rows, k).map(|it| it.2).find(|it| !inside(*it)) {
            None => Ok(matrix),
            Some(at) => {
                let at = i64::from(at) - SHARED_BASE as i64;
                let what = format!("a matrix that reaches shared{at:+} of {size}");
                Err(self.fault(FaultKind::OutOfBounds, 0, what))
            }
        }
    }

    fn multiply(&mut self, first: usize, wgmma: &Wgmma) -> Result<()> {
        let Wgmma { n, k, .. } = *wgmma;
        let right = self.agreed(first, wgmma.right, "descriptors")?;
        let right = self.matrix(right, wgmma.factors.1, wgmma.transposed[1], n, k)?;
        let left = match &wgmma.left {
            Left::Registers(_) => None,
            Left::Shared(slot) => {
                let left = self.agreed(first, *slot, "descriptors")?;
                Some(self.matrix(left, wgmma.factors.0, wgmma.transposed[0], 64, k)?)
            }
        };
        let adds = (first..first + WARPS).map(|it| wgmma.add.of(&self.warps[it].registers));
        let add = match adds.clone().all(|it| it == u32::MAX) {
            true => true,
            false if adds.clone().all(|it| it == 0) => false,
            false => {
                let what = "threads of a warpgroup disagree about adding";
                return Err(self.fault(FaultKind::BadInstruction, 0, what));
            }
        };
        self.watch_wgmma(first, wgmma, left, right)?;
        if wgmma.factors.0.is_integer() {
            self.multiply_integers(first, wgmma, left, right, add);
        } else {
            self.multiply_floats(first, wgmma, left, right, add);
        }
        Ok(())
    }

    /// Visits the elements of the first factor: row, column, bits.
    fn each_left(
        &self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<Matrix>,
        mut visit: impl FnMut(usize, usize, u32),
    ) {
        if let Some(left) = left {
            left.each(&self.ctas[self.warps[first].cta].shared, 64, wgmma.k, visit);
        } else if let Left::Registers(slots) = &wgmma.left {
            for quarter in 0..WARPS {
                let words = &self.warps[first + quarter].registers.words;
                let rows: Vec<[u32; LANES]> = slots.iter().map(|it| words[*it as usize]).collect();
                each_a(&rows, wgmma.factors.0.bytes(), |row, k, bits| {
                    visit(16 * quarter + row, k, bits);
                });
            }
        }
    }

    fn multiply_floats(
        &mut self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<Matrix>,
        right: Matrix,
        add: bool,
    ) {
        let Wgmma { n, k, scales, .. } = *wgmma;
        let (a_factor, b_factor) = wgmma.factors;
        let mut a = vec![[0f32; 16]; 64];
        self.each_left(first, wgmma, left, |row, k, bits| {
            a[row][k] = float(a_factor, bits) * scales[0];
        });
        // One row for each k, so that the innermost loop runs along N.
        let mut b = vec![[0f32; 256]; k];
        right.each(&self.ctas[self.warps[first].cta].shared, n, k, |column, k, bits| {
            b[k][column] = float(b_factor, bits) * scales[1];
        });
        for (quarter, a) in a.chunks(16).enumerate() {
            let words = &mut self.warps[first + quarter].registers.words;
            let mut sums = [[0f32; 256]; 16];
            if add {
                each_sum(wgmma, |row, column, slot, lane, part| {
                    let bits = words[slot as usize][lane];
                    sums[row][column] = match wgmma.sum {
                        Sum::F16 => float(Factor::F16, bits >> (16 * part)),
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
            each_sum(wgmma, |row, column, slot, lane, part| {
                let word = &mut words[slot as usize][lane];
                *word = match wgmma.sum {
                    Sum::F16 => {
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
        left: Option<Matrix>,
        right: Matrix,
        add: bool,
    ) {
        let Wgmma { n, k, .. } = *wgmma;
        let (a_factor, b_factor) = wgmma.factors;
        let (mut a, mut b) = (vec![[0i32; 32]; 64], vec![[0i32; 32]; n]);
        self.each_left(first, wgmma, left, |row, k, bits| a[row][k] = integer(a_factor, bits));
        right.each(&self.ctas[self.warps[first].cta].shared, n, k, |column, k, bits| {
            b[column][k] = integer(b_factor, bits);
        });
        let saturate = matches!(wgmma.sum, Sum::S32 { saturate: true });
        for (quarter, a) in a.chunks(16).enumerate() {
            let words = &mut self.warps[first + quarter].registers.words;
            each_sum(wgmma, |row, column, slot, lane, _| {
                let word = &mut words[slot as usize][lane];
                let old = if add { i64::from(*word as i32) } else { 0 };
                let products: i32 = a[row].iter().zip(&b[column]).map(|(a, b)| a * b).sum();
                let sum = old + i64::from(products);
                let limited = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                *word = if saturate { limited as u32 } else { sum as u32 };
            });
        }
    }

    /// Looks for races of what the product reads, which all threads of the warpgroup must have seen.
    fn watch_wgmma(
        &mut self,
        first: usize,
        wgmma: &Wgmma,
        left: Option<Matrix>,
        right: Matrix,
    ) -> Result<()> {
        let (cta, place) = (self.warps[first].cta, self.place());
        let in_grid = self.linear_cta(cta);
        let number = self.warps[first].number as usize / WARPS;
        let Some(race) = &mut self.race else { return Ok(()) };
        let group = &mut self.ctas[cta].warpgroups[number];
        let agent = *group
            .agent
            .get_or_insert_with(|| race.agent(format!("`wgmma` of warpgroup {number}")));
        let view: Clock = race.meet(first..first + WARPS);
        let access = race::Access {
            actor: Actor::Agent(agent),
            clock: group.committed[0] + 1,
            write: false,
            atomic: false,
            place,
            warp: first,
            cta: in_grid,
        };
        let matrices = [(Some(right), wgmma.n), (left, 64)];
        for (matrix, rows) in matrices {
            let Some(matrix) = matrix else { continue };
            for (_, _, at) in matrix.pieces(rows, wgmma.k) {
                let offset = at - SHARED_BASE as u32;
                if let Some(conflict) = race.span(cta, access, (1, Some(&view)), (offset, 16)) {
                    return Err(self.conflict(Region::Shared(cta), "read of `wgmma`", &conflict));
                }
            }
        }
        Ok(())
    }

    /// That warps which end have waited for their products.
    pub(super) fn check_products(&mut self, warp: usize) -> Result<()> {
        let check = self.options.check;
        let (it, n) = self.group_of(warp);
        if check && (it.open[n] || it.committed[n] > it.waited[n]) {
            let what = "the end before a wait for `wgmma`";
            return Err(self.fault(FaultKind::ExitWhilePending, 0, what));
        }
        Ok(())
    }
}

/// Visits the sums of a warp: row, column, register, lane, and part of the register.
fn each_sum(wgmma: &Wgmma, mut visit: impl FnMut(usize, usize, Slot, usize, usize)) {
    let parts = if wgmma.sum == Sum::F16 { 2 } else { 1 };
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

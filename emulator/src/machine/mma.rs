//! `mma.sync`, and `ldmatrix` and `stmatrix`, which move its fragments.

use super::access::{Access, Wanted};
use super::warp::{Flow, State};
use super::{Machine, Result};
use crate::code::{Accumulator, LdStMatrix, Mma, Multiplicand, Strength};
use crate::fault::FaultKind;
use crate::registers::{FULL, LANES, first_lane};
use crate::space::{Region, Space};
use half::{bf16, f16};

impl Machine<'_> {
    /// Returns whether all lanes have converged, for instructions that need a whole warp.
    pub(super) fn whole_warp(&self, warp: usize, active: u32) -> Result<bool> {
        let live = self.warps[warp].live;
        if live != FULL {
            let message = format!("{} threads; it takes a whole warp", live.count_ones());
            return Err(self.fault(FaultKind::DivergentCollective, first_lane(active), message));
        }
        Ok(active == FULL)
    }

    pub(super) fn ld_st_matrix(
        &mut self,
        warp: usize,
        active: u32,
        matrix: &LdStMatrix,
    ) -> Result<Flow> {
        if !self.whole_warp(warp, active)? {
            return Ok(Flow::Again(State::Collective));
        }
        let n = matrix.registers.len();
        // Addresses of further lanes are ignored.
        let mask = if n == 4 { FULL } else { (1 << (8 * n)) - 1 };
        let addresses = self.addresses(warp, matrix.address);
        let access = if matrix.load { Access::Read } else { Access::Write };
        let wanted = Wanted { space: Space::Generic, mask, bytes: 16, align: 16, access };
        let found = self.locate(warp, wanted, &self.shared_or_generic(&addresses))?;
        let [located] = found.as_slice() else {
            let message = "rows of a matrix in several memories";
            return Err(self.fault(FaultKind::BadInstruction, 0, message));
        };
        let Region::Shared(cta) = located.region else {
            let message = "a matrix that is not in shared memory";
            return Err(self.fault(FaultKind::BadInstruction, 0, message));
        };
        self.check_access(warp, located, 16, access, Strength::default())?;
        let (registers, shared) = (&mut self.warps[warp].registers, &mut self.ctas[cta].shared);
        for (n, slot) in matrix.registers.iter().enumerate() {
            let row = &mut registers.words[*slot as usize];
            for (lane, word) in row.iter_mut().enumerate() {
                let mut halves = [*word as u16, (*word >> 16) as u16];
                for (h, half) in halves.iter_mut().enumerate() {
                    let (r, c) = if matrix.transposed {
                        (lane % 4 * 2 + h, lane / 4)
                    } else {
                        (lane / 4, lane % 4 * 2 + h)
                    };
                    let at = located.offsets[n * 8 + r] as usize + c * 2;
                    if matrix.load {
                        *half = u16::from_le_bytes([shared[at], shared[at + 1]]);
                    } else {
                        shared[at..at + 2].copy_from_slice(&half.to_le_bytes());
                    }
                }
                if matrix.load {
                    *word = u32::from(halves[0]) | u32::from(halves[1]) << 16;
                }
            }
        }
        Ok(Flow::Next)
    }

    /// Returns generic addresses for those in shared memory, which `ldmatrix` takes as well.
    fn shared_or_generic(&self, addresses: &[u64; LANES]) -> [u64; LANES] {
        addresses.map(|it| {
            if it < crate::space::WINDOW_BYTES { it + crate::space::SHARED_WINDOW } else { it }
        })
    }

    pub(super) fn mma(&mut self, warp: usize, active: u32, mma: &Mma) -> Result<Flow> {
        if !self.whole_warp(warp, active)? {
            return Ok(Flow::Again(State::Collective));
        }
        let words = &mut self.warps[warp].registers.words;
        let rows = |slots: &[u32]| -> Vec<[u32; LANES]> {
            slots.iter().map(|it| words[*it as usize]).collect()
        };
        let (a, b, c) = (rows(&mma.a), rows(&mma.b), rows(&mma.c));
        let out = match mma.accumulator {
            Accumulator::S32 { saturate } => multiply_integers(mma, &a, &b, &c, saturate),
            _ => multiply_floats(mma, &a, &b, &c),
        };
        for (slot, row) in mma.to.iter().zip(out) {
            words[*slot as usize] = row;
        }
        Ok(Flow::Next)
    }
}

/// Converts an element to a float.
pub(super) fn to_float(type_: Multiplicand, bits: u32) -> f32 {
    match type_ {
        Multiplicand::F16 => f16::from_bits(bits as u16).to_f32(),
        Multiplicand::Bf16 => bf16::from_bits(bits as u16).to_f32(),
        // Tensor cores ignore the lower bits.
        _ => f32::from_bits(bits & 0xFFFF_E000),
    }
}

/// Converts an element to an integer.
pub(super) fn to_integer(type_: Multiplicand, bits: u32) -> i32 {
    match type_ {
        Multiplicand::S8 => i32::from(bits as i8),
        _ => i32::from(bits as u8),
    }
}

/// Visits the elements of A: row, column, bits. Four lanes share a row, and each
/// register holds the next four words of rows 0 to 7 or 8 to 15.
pub(super) fn each_a(
    registers: &[[u32; LANES]],
    bytes: usize,
    mut visit: impl FnMut(usize, usize, u32),
) {
    let n = 4 / bytes;
    for (i, row) in registers.iter().enumerate() {
        for (lane, word) in row.iter().enumerate() {
            for h in 0..n {
                let k = lane % 4 * n + 4 * n * (i >> 1) + h;
                visit(lane / 4 + 8 * (i & 1), k, extract(*word, h, bytes));
            }
        }
    }
}

/// Visits the elements of B: row, column, bits.
fn each_b(registers: &[[u32; LANES]], bytes: usize, mut visit: impl FnMut(usize, usize, u32)) {
    let n = 4 / bytes;
    for (i, row) in registers.iter().enumerate() {
        for (lane, word) in row.iter().enumerate() {
            for h in 0..n {
                visit(lane % 4 * n + 4 * n * i + h, lane / 4, extract(*word, h, bytes));
            }
        }
    }
}

/// Extracts an element of a word.
fn extract(word: u32, n: usize, bytes: usize) -> u32 {
    if bytes == 4 { word } else { word >> (8 * bytes * n) & ((1 << (8 * bytes)) - 1) }
}

/// Returns the row and column of a 32-bit accumulator by its register and lane.
fn accumulator_position(register: usize, lane: usize) -> (usize, usize) {
    (lane / 4 + 8 * (register >> 1), lane % 4 * 2 + (register & 1))
}

fn multiply_floats(
    mma: &Mma,
    a: &[[u32; LANES]],
    b: &[[u32; LANES]],
    c: &[[u32; LANES]],
) -> Vec<[u32; LANES]> {
    let (mut left, mut right, mut sums) = ([[0f32; 32]; 16], [[0f32; 8]; 32], [[0f32; 8]; 16]);
    let (first, second) = mma.multiplicands;
    each_a(a, first.bytes(), |row, k, bits| left[row][k] = to_float(first, bits));
    each_b(b, second.bytes(), |k, column, bits| right[k][column] = to_float(second, bits));
    let halves = mma.accumulator == Accumulator::F16;
    for (i, row) in c.iter().enumerate() {
        for (lane, word) in row.iter().enumerate() {
            if halves {
                let (r, column) = (lane / 4 + 8 * i, lane % 4 * 2);
                sums[r][column] = to_float(Multiplicand::F16, *word);
                sums[r][column + 1] = to_float(Multiplicand::F16, *word >> 16);
            } else {
                let (r, column) = accumulator_position(i, lane);
                sums[r][column] = f32::from_bits(*word);
            }
        }
    }
    for (sums, left) in sums.iter_mut().zip(&left) {
        for (a, right) in left.iter().zip(&right).take(mma.k) {
            for (sum, b) in sums.iter_mut().zip(right) {
                *sum += a * b;
            }
        }
    }
    (0..c.len())
        .map(|i| {
            std::array::from_fn(|lane| {
                if halves {
                    let (r, column) = (lane / 4 + 8 * i, lane % 4 * 2);
                    let bits = |n| u32::from(f16::from_f32(sums[r][column + n]).to_bits());
                    return bits(0) | bits(1) << 16;
                }
                let (r, column) = accumulator_position(i, lane);
                sums[r][column].to_bits()
            })
        })
        .collect()
}

fn multiply_integers(
    mma: &Mma,
    a: &[[u32; LANES]],
    b: &[[u32; LANES]],
    c: &[[u32; LANES]],
    saturate: bool,
) -> Vec<[u32; LANES]> {
    let (mut left, mut right) = ([[0i32; 32]; 16], [[0i32; 8]; 32]);
    let (first, second) = mma.multiplicands;
    each_a(a, 1, |row, k, bits| left[row][k] = to_integer(first, bits));
    each_b(b, 1, |k, column, bits| right[k][column] = to_integer(second, bits));
    (0..4)
        .map(|i| {
            std::array::from_fn(|lane| {
                let (row, column) = accumulator_position(i, lane);
                let products = (0..mma.k).map(|k| left[row][k] * right[k][column]).sum::<i32>();
                let sum = i64::from(c[i][lane] as i32) + i64::from(products);
                let limited = sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX));
                if saturate { limited as u32 } else { sum as u32 }
            })
        })
        .collect()
}

//! Loads and stores: every way lanes lie in memory, every storage, every mask.
//!
//! What has no instruction goes element by element through a part of the frame: strided accesses
//! of less than a word, masked ones on AVX2, scatters on AVX2. Those are rare, and never touch
//! memory of lanes that are masked off.

use super::super::address::{load_gathers, load_halves, store_scatters, straighten};
use super::super::inst::{FrameSlot, Inst, LaneCopy, LaneMask, Operand, Place, VectorInst, Virt};
use super::super::opcode;
use super::{Hoisted, Select};
use crate::kernel::{Address, Count, Lanes, Mask, Storage, Value};

impl Select<'_> {
    pub(super) fn load(
        &mut self,
        address: &Address,
        lanes: Lanes,
        storage: Storage,
        mask: Option<&Mask>,
        dst: Virt,
    ) {
        let mask = self.lane_mask(mask);
        match (straighten(lanes, storage), mask) {
            (Lanes::Uniform, None) => {
                let place = self.place(address);
                self.load_uniform(place, storage, dst);
            }
            (Lanes::Contiguous, None) => {
                let place = self.place(address);
                self.load_packed(place, storage, None, dst);
            }
            (Lanes::Uniform, Some(mask)) if self.is_avx512() && storage == Storage::Word => {
                let b = Operand::Place(self.place(address));
                self.masked(opcode::BROADCASTSS, dst, b, mask);
            }
            (Lanes::Contiguous, Some(mask)) if self.is_avx512() => {
                let place = self.place(address);
                self.load_packed(place, storage, Some(mask), dst);
            }
            (Lanes::Contiguous, Some(mask)) if storage == Storage::Word => {
                let b = Operand::Place(self.place(address));
                self.binary(opcode::MASKMOVPS, dst, mask, b);
            }
            (lanes, mask) if load_halves(self.isa, lanes, storage, mask.is_some()) => {
                let place = self.place(address);
                if self.is_avx512() {
                    self.load_every_other(place, mask, dst);
                } else {
                    self.shuffle_every_other(place, dst);
                }
            }
            (lanes, mask) if load_gathers(self.isa, lanes, storage, mask.is_some()) => {
                let step = step_of(lanes, storage);
                let index = self.hoist(Hoisted::Strided(step));
                let place = self.indexed_place(address, (index, 1));
                self.gather(place, mask, dst);
            }
            (lanes, mask) => {
                let packed = self.copy_lanes(address, lanes, storage, mask, false);
                self.load_packed(Place::frame(packed), storage, None, dst);
            }
        }
    }

    /// Every other word from a place on, of two vectors; AVX-512 only.
    fn load_every_other(&mut self, low: Place, mask: Option<Virt>, dst: Virt) {
        let lanes = self.isa.lanes();
        // What is read ends with the last word that is wanted: the upper vector begins with an odd
        // one.
        let high = Place { disp: low.disp + 4 * (lanes as i32 - 1), ..low };
        let number = |lane| if 2 * lane < lanes { 2 * lane } else { 2 * lane + 1 };
        let (first, high) = match mask {
            None => {
                let first = self.vector_virt();
                self.unary(opcode::MOVUPS, first, Operand::Place(low));
                (first, Operand::Place(high))
            }
            Some(mask) => {
                let words = self.vector_virt();
                self.unary(opcode::PMOVM2D, words, Operand::Reg(mask));
                let halves = [(low, 0), (high, lanes - 1)].map(|(place, start)| {
                    let mask = self.mask_every_other(words, start);
                    let half = self.vector_virt();
                    self.masked(opcode::MOVUPS, half, Operand::Place(place), mask);
                    half
                });
                (halves[0], Operand::Reg(halves[1]))
            }
        };
        let picked = self.pick(number, first, high);
        self.unary(opcode::MOVAPS, dst, Operand::Reg(picked));
    }

    /// Which of the words from number `start` on are wanted, where word `2 * n` is if lane `n` is.
    fn mask_every_other(&mut self, lanes: Virt, start: u32) -> Virt {
        let spread = self.pick(|word| (start + word) / 2, lanes, Operand::Reg(lanes));
        let is_even = |word: u32| if (start + word).is_multiple_of(2) { u32::MAX } else { 0 };
        let evens = Operand::Place(Place::pool(self.constant_lanes(is_even)));
        let mask = self.mask_virt();
        self.binary(opcode::PTESTMD, mask, spread, evens);
        mask
    }

    /// For each lane an element of two vectors, by its number; AVX-512 only.
    fn pick(&mut self, number: impl Fn(u32) -> u32, first: Virt, second: Operand) -> Virt {
        let picked = self.vector_virt();
        let numbers = Place::pool(self.constant_lanes(number));
        self.unary(opcode::MOVUPS, picked, Operand::Place(numbers));
        let inst = self.inst(opcode::PERMI2PS, picked, second);
        self.push(Inst::Vector(VectorInst { updates: true, a: Some(first), ..inst }));
        picked
    }

    /// Every other word from a place on, of two vectors; AVX2 only.
    fn shuffle_every_other(&mut self, low: Place, dst: Virt) {
        let high = Place { disp: low.disp + 4 * (self.isa.lanes() as i32 - 1), ..low };
        let first = self.vector_virt();
        self.unary(opcode::MOVUPS, first, Operand::Place(low));
        // In each half the words 0 and 2 of the lower vector and 1 and 3 of the upper one, and then
        // the pairs 0, 2, 1, 3.
        let picked = self.vector_virt();
        let inst = self.inst(opcode::SHUFPS, picked, Operand::Place(high));
        let (a, imm) = (Some(first), Some(0b11_01_10_00));
        self.push(Inst::Vector(VectorInst { a, imm, ..inst }));
        self.immediate(opcode::PERMQ, dst, Operand::Reg(picked), 0b11_01_10_00);
    }

    /// A gather or strided load: the index of the place is a vector.
    pub(super) fn gather(&mut self, place: Place, mask: Option<Virt>, dst: Virt) {
        let spent = self.spent_mask(mask);
        let gathered = self.vector_virt();
        self.push(Inst::Zero { dst: gathered });
        let inst = self.inst(opcode::GATHERDPS, gathered, Operand::Place(place));
        let (a, mask) = if self.is_avx512() { (None, Some(spent)) } else { (Some(spent), None) };
        self.push(Inst::Vector(VectorInst { updates: true, a, mask, ..inst }));
        self.unary(opcode::MOVAPS, dst, Operand::Reg(gathered));
    }

    pub(super) fn store(
        &mut self,
        address: &Address,
        lanes: Lanes,
        storage: Storage,
        value: &Value,
        mask: Option<&Mask>,
    ) {
        let value = self.vector(value);
        let mask = self.lane_mask(mask);
        match (straighten(lanes, storage), mask) {
            (Lanes::Contiguous, mask) if self.is_avx512() || mask.is_none() => {
                let place = self.place(address);
                self.store_packed(place, storage, mask, value);
            }
            (Lanes::Contiguous, mask) if storage == Storage::Word => {
                let inst = self.store_inst(opcode::MASKMOVPS_STORE, value, self.width());
                let b = Some(Operand::Place(self.place(address)));
                self.push(Inst::Vector(VectorInst { b, c: mask, ..inst }));
            }
            (Lanes::Uniform, mask)
                if storage == Storage::Word && (self.is_avx512() || mask.is_none()) =>
            {
                let place = self.place(address);
                self.store_masked(opcode::MOVSS_STORE, place, mask, value, self.narrower(true));
            }
            (Lanes::Strided(step), mask) if store_scatters(self.isa, lanes, storage) => {
                let index = self.hoist(Hoisted::Strided(step));
                let spent = self.spent_mask(mask);
                let place = self.indexed_place(address, (index, 1));
                let width = self.width();
                self.store_masked(opcode::SCATTERDPS, place, Some(spent), value, width);
            }
            (lanes, mask) => {
                let (packed, _) = self.copy_slots();
                self.store_packed(Place::frame(packed), storage, None, value);
                self.copy_lanes(address, lanes, storage, mask, true);
            }
        }
    }

    /// Parts of the frame for lane-by-lane copies: one vector, and one bit for each lane.
    fn copy_slots(&mut self) -> (FrameSlot, FrameSlot) {
        if let Some(slots) = self.copy_slots {
            return slots;
        }
        let slots = (self.code.slot(64), self.code.slot(8));
        self.copy_slots = Some(slots);
        slots
    }

    fn copy_lanes(
        &mut self,
        address: &Address,
        lanes: Lanes,
        storage: Storage,
        mask: Option<Virt>,
        stores: bool,
    ) -> FrameSlot {
        let (packed, bits) = self.copy_slots();
        let n = if stores && lanes == Lanes::Uniform { 1 } else { self.isa.lanes() };
        let copy = LaneCopy {
            packed,
            strided: self.place(address),
            step: self.count(step_of(lanes, storage)),
            size: storage.bytes() as u8,
            lanes: n,
            mask: mask.map_or(LaneMask::All, LaneMask::Where),
            bits,
            stores,
        };
        self.push(Inst::LaneCopy(copy));
        packed
    }
}

/// Bytes between lanes.
fn step_of(lanes: Lanes, storage: Storage) -> Count {
    match lanes {
        Lanes::Uniform => Count::Const(0),
        Lanes::Contiguous => Count::Const(storage.bytes()),
        Lanes::Strided(count) => count,
    }
}

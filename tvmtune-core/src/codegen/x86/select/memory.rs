//! Loads and stores: every way lanes lie in memory, every storage, every mask.
//!
//! What has no instruction goes element by element through a part of the frame: strided accesses
//! of less than a word, masked ones on AVX2, scatters on AVX2. Those are rare, and never touch
//! memory of lanes that are masked off.

use super::super::address::{load_gathers, store_scatters, straighten};
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

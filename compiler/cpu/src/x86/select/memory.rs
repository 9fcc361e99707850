//! Selection of loads and stores, for all lane strides, formats and masks.
//!
//! Accesses without an instruction are scalarized through a stack slot: strided accesses of less than
//! a word, masked ones and scatters on AVX2. They do not touch memory of lanes that are masked off.

use super::super::encode::Width;
use super::super::induction::{
    ActiveLanes, canonical_lanes, is_gather, is_scatter, loads_reversed, permuted_stride,
    shuffled_bytes,
};
use super::super::inst::{
    Inst, LaneCopy, LaneMask, MemOperand, Operand, StackSlot, VectorInst, VirtReg,
};
use super::super::opcode;
use super::{PhaseConstant, Selector};
use crate::vector::{Address, Count, LaneStride, Mask, Storage, Value};
use tvmtune_ir::target::Isa;

/// An element in memory: at an address, or as many elements behind it as a register says.
#[derive(Clone, Copy)]
pub(super) struct Element<'a> {
    pub(super) address: &'a Address,
    pub(super) index: Option<VirtReg>,
}

impl Selector<'_> {
    pub(super) fn load(
        &mut self,
        element: Element<'_>,
        (lanes, storage): (LaneStride, Storage),
        mask: Option<&Mask>,
        dst: VirtReg,
    ) {
        let active = ActiveLanes::of(mask, self.simd);
        let is_at_address = element.index.is_none();
        let is_of_lanes = storage == self.ops.storage;
        let canonical = canonical_lanes(lanes, storage);
        if let Some(words) = permuted_stride(self.simd.isa, canonical, storage, active) {
            let first = self.mem_operand(element.address);
            return match (self.simd.isa, words) {
                (Isa::Avx512, _) => self.load_strided(first, words, active, dst),
                (Isa::Avx2, 2) => self.load_every_other(first, active, dst),
                (Isa::Avx2, _) => self.load_odd_stride(first, words, active, dst),
            };
        }
        if let Some(bytes) = shuffled_bytes(self.simd, canonical, storage, active) {
            let first = self.element_operand(element, storage);
            let packed = self.load_bytes_apart(first, bytes);
            return self.load_packed(Operand::Reg(packed), storage, None, dst);
        }
        let mask = self.mask_register(active);
        if let (LaneStride::Uniform, Some(mask)) = (canonical, mask)
            && is_of_lanes
            && !self.is_avx512()
            && self.broadcast_where(element, active, mask, dst)
        {
            return;
        }
        match (canonical, mask) {
            (LaneStride::Uniform, None) => {
                let place = self.element_operand(element, storage);
                self.load_uniform(place, storage, dst);
            }
            (LaneStride::Uniform, Some(mask)) if self.is_avx512() && is_of_lanes => {
                let b = Operand::Mem(self.element_operand(element, storage));
                self.masked(self.ops.broadcast, dst, b, mask);
            }
            (LaneStride::Contiguous, mask) if self.is_avx512() || mask.is_none() => {
                let place = self.element_operand(element, storage);
                self.load_packed(Operand::Mem(place), storage, mask, dst);
            }
            (LaneStride::Contiguous, Some(mask)) if is_of_lanes => {
                let b = Operand::Mem(self.element_operand(element, storage));
                self.binary(self.ops.masked_load, dst, mask, b);
            }
            (lanes, _) if loads_reversed(lanes, storage, active) => {
                let last = self.mem_operand(element.address);
                self.load_reversed(last, dst);
            }
            (lanes, mask) if is_at_address && is_gather(self.simd, lanes, storage, active) => {
                let step = step_of(lanes, storage);
                let index = self.phase_constant(PhaseConstant::Strided(step));
                let place = self.gather_operand(element.address, (index, 1));
                self.gather(place, mask, dst);
            }
            (lanes, mask) => {
                let place = self.element_operand(element, storage);
                let packed = self.copy_lanes(place, (lanes, storage), mask, false);
                let packed = Operand::Mem(MemOperand::frame(packed));
                self.load_packed(packed, storage, None, dst);
            }
        }
    }

    pub(super) fn element_operand(&mut self, element: Element<'_>, storage: Storage) -> MemOperand {
        match element.index {
            None => self.mem_operand(element.address),
            Some(index) => self.gather_operand(element.address, (index, storage.bytes() as u8)),
        }
    }

    /// Returns the integer in lane 0 of a value.
    pub(super) fn first_lane(&mut self, value: &Value) -> VirtReg {
        let (src, dst) = (self.vector(value), self.new_int());
        self.push(Inst::FirstLane { dst, src });
        dst
    }

    /// Loads a vector of words that ends with that one, and reverses it.
    fn load_reversed(&mut self, last: MemOperand, dst: VirtReg) {
        let first = MemOperand { disp: last.disp - 4 * (self.simd.lanes() as i32 - 1), ..last };
        let swapped = self.new_vector();
        if self.is_avx512() {
            let quarters = self.new_vector();
            self.unary(opcode::MOVUPS, quarters, Operand::Mem(first));
            let inst = self.inst(opcode::SHUFF32X4, swapped, Operand::Reg(quarters));
            let (a, imm) = (Some(quarters), Some(0b00_01_10_11));
            self.push(Inst::Vector(VectorInst { a, imm, ..inst }));
        } else {
            self.immediate(opcode::PERMQ, swapped, Operand::Mem(first), 0b01_00_11_10);
        }
        self.immediate(opcode::PERMILPS, dst, Operand::Reg(swapped), 0b00_01_10_11);
    }

    /// Selects a gather; the index of the memory operand is a vector.
    pub(super) fn gather(&mut self, place: MemOperand, mask: Option<VirtReg>, dst: VirtReg) {
        let spent = self.clobbered_mask(mask);
        let gathered = self.new_vector();
        self.push(Inst::Zero { dst: gathered });
        let inst = self.inst(self.ops.gather, gathered, Operand::Mem(place));
        let (a, mask) = if self.is_avx512() { (None, Some(spent)) } else { (Some(spent), None) };
        self.push(Inst::Vector(VectorInst { updates: true, a, mask, ..inst }));
        self.unary(opcode::MOVAPS, dst, Operand::Reg(gathered));
    }

    pub(super) fn store(
        &mut self,
        address: &Address,
        lanes: LaneStride,
        storage: Storage,
        value: &Value,
        mask: Option<&Mask>,
    ) {
        let value = self.vector(value);
        let mask = self.lane_mask(mask);
        let is_of_lanes = storage == self.ops.storage;
        match (canonical_lanes(lanes, storage), mask) {
            (LaneStride::Contiguous, mask) if self.is_avx512() || mask.is_none() => {
                let place = self.mem_operand(address);
                self.store_packed(place, storage, mask, value);
            }
            (LaneStride::Contiguous, mask) if is_of_lanes => {
                let inst = VectorInst::new(self.ops.masked_store, self.width());
                let (a, b) = (Some(value), Some(Operand::Mem(self.mem_operand(address))));
                self.push(Inst::Vector(VectorInst { a, b, c: mask, ..inst }));
            }
            (LaneStride::Uniform, mask) if is_of_lanes && (self.is_avx512() || mask.is_none()) => {
                let place = self.mem_operand(address);
                self.store_masked(self.ops.store_first, place, mask, value, Width::W128);
            }
            (LaneStride::Strided(step), mask) if is_scatter(self.simd, lanes, storage) => {
                let index = self.phase_constant(PhaseConstant::Strided(step));
                let spent = self.clobbered_mask(mask);
                let place = self.gather_operand(address, (index, 1));
                let width = self.width();
                self.store_masked(self.ops.scatter, place, Some(spent), value, width);
            }
            (lanes, mask) => {
                let (packed, _) = self.copy_slots();
                self.store_packed(MemOperand::frame(packed), storage, None, value);
                let place = self.mem_operand(address);
                self.copy_lanes(place, (lanes, storage), mask, true);
            }
        }
    }

    /// Returns the stack slots of scalarized accesses: one vector, and one bit per lane.
    fn copy_slots(&mut self) -> (StackSlot, StackSlot) {
        if let Some(slots) = self.copy_slots {
            return slots;
        }
        let slots = (self.code.new_stack_slot(64), self.code.new_stack_slot(8));
        self.copy_slots = Some(slots);
        slots
    }

    fn copy_lanes(
        &mut self,
        strided: MemOperand,
        (lanes, storage): (LaneStride, Storage),
        mask: Option<VirtReg>,
        stores: bool,
    ) -> StackSlot {
        let (packed, bits) = self.copy_slots();
        let n = if stores && lanes == LaneStride::Uniform { 1 } else { self.simd.lanes() as u32 };
        let copy = LaneCopy {
            packed,
            strided,
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

/// Returns the lane stride, in bytes.
fn step_of(lanes: LaneStride, storage: Storage) -> Count {
    match lanes {
        LaneStride::Uniform => Count::Const(0),
        LaneStride::Contiguous => Count::Const(storage.bytes()),
        LaneStride::Strided(count) => count,
    }
}

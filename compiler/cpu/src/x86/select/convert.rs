//! Selection of packed loads and stores with conversion between memory formats and lanes.

use super::super::encode::Width;
use super::super::inst::{Inst, MemOperand, Operand, RegClass, VectorInst, VirtReg};
use super::super::opcode::{self, Opcode};
use super::Selector;
use crate::vector::Storage;

/// An element narrower than a lane.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Narrow {
    Bits8,
    Bits16,
    Bits32,
}

impl Narrow {
    fn bytes(self) -> i64 {
        match self {
            Narrow::Bits8 => 1,
            Narrow::Bits16 => 2,
            Narrow::Bits32 => 4,
        }
    }
}

impl Selector<'_> {
    /// Loads contiguous elements; with a mask (AVX-512 only), 0 in lanes masked off.
    pub(super) fn load_packed(
        &mut self,
        b: Operand,
        storage: Storage,
        mask: Option<VirtReg>,
        dst: VirtReg,
    ) {
        let op = match storage {
            Storage::Word | Storage::Long => self.ops.load,
            Storage::F32 => opcode::CVTPS2PD,
            Storage::I32 => opcode::PMOVSXDQ,
            Storage::U32 => opcode::PMOVZXDQ,
            Storage::F16 => opcode::CVTPH2PS,
            Storage::Bf16 => opcode::PMOVZXWD,
            Storage::I8 => self.ops.load_i8,
            Storage::U8 | Storage::Bool => self.ops.load_u8,
        };
        let finish = matches!(storage, Storage::Bf16 | Storage::Bool);
        let words = if finish { self.new_vector() } else { dst };
        match mask {
            Some(mask) => self.masked(op, words, b, mask),
            None => self.unary(op, words, b),
        }
        match storage {
            Storage::Bf16 => self.immediate(opcode::PSLLD, dst, Operand::Reg(words), 16),
            Storage::Bool => self.expand_bool(words, dst),
            _ => {}
        }
    }

    /// Expands a bool, 0 or 1, to all bits of its lane.
    fn expand_bool(&mut self, words: VirtReg, dst: VirtReg) {
        if self.is_avx512() {
            let mask = self.code.new_virt_reg(RegClass::Mask);
            self.binary(self.ops.test, mask, words, Operand::Reg(words));
            self.unary(self.ops.expand_mask, dst, Operand::Reg(mask));
        } else {
            let zero = self.new_vector();
            self.push(Inst::Zero { dst: zero });
            self.binary(self.ops.greater, dst, words, Operand::Reg(zero));
        }
    }

    /// Loads one element into all lanes.
    pub(super) fn load_uniform(&mut self, place: MemOperand, storage: Storage, dst: VirtReg) {
        let b = Operand::Mem(place);
        let (op, shift, by) = match storage {
            Storage::Word | Storage::Long => return self.unary(self.ops.broadcast, dst, b),
            Storage::F32 => return self.widen((opcode::BROADCASTSS, opcode::CVTPS2PD), b, 4, dst),
            Storage::I32 => return self.widen((opcode::BROADCASTSS, opcode::PMOVSXDQ), b, 4, dst),
            Storage::U32 => return self.widen((opcode::BROADCASTSS, opcode::PMOVZXDQ), b, 4, dst),
            Storage::F16 => return self.widen((opcode::PBROADCASTW, opcode::CVTPH2PS), b, 2, dst),
            Storage::I8 if self.ops.storage == Storage::Long => {
                return self.widen((opcode::PBROADCASTB, opcode::PMOVSXBQ), b, 1, dst);
            }
            Storage::U8 if self.ops.storage == Storage::Long => {
                return self.widen((opcode::PBROADCASTB, opcode::PMOVZXBQ), b, 1, dst);
            }
            Storage::Bool if self.ops.storage == Storage::Long => {
                let longs = self.new_vector();
                self.widen((opcode::PBROADCASTB, opcode::PMOVZXBQ), b, 1, longs);
                return self.expand_bool(longs, dst);
            }
            // Each word holds two or four copies of the element: a shift leaves one.
            Storage::Bf16 => (opcode::PBROADCASTW, opcode::PSLLD, 16),
            Storage::I8 => (opcode::PBROADCASTB, opcode::PSRAD, 24),
            Storage::U8 | Storage::Bool => (opcode::PBROADCASTB, opcode::PSRLD, 24),
        };
        let copies = self.new_vector();
        self.unary(op, copies, b);
        let words = if storage == Storage::Bool { self.new_vector() } else { dst };
        self.immediate(shift, words, Operand::Reg(copies), by);
        if storage == Storage::Bool {
            self.expand_bool(words, dst);
        }
    }

    /// Copies an element of `bytes` bytes to as many places as there are lanes, and widens these.
    fn widen(
        &mut self,
        (copy, widen): (Opcode, Opcode),
        element: Operand,
        bytes: i64,
        dst: VirtReg,
    ) {
        let copies = self.new_vector();
        let inst = self.inst(copy, copies, element);
        let width = self.packed_width(bytes);
        self.push(Inst::Vector(VectorInst { width, ..inst }));
        self.unary(widen, dst, Operand::Reg(copies));
    }

    pub(super) fn store_masked(
        &mut self,
        op: Opcode,
        place: MemOperand,
        mask: Option<VirtReg>,
        value: VirtReg,
        width: Width,
    ) {
        let (a, b) = (Some(value), Some(Operand::Mem(place)));
        self.push(Inst::Vector(VectorInst { a, b, mask, ..VectorInst::new(op, width) }));
    }

    /// Stores contiguous elements; with a mask (AVX-512 only), only its lanes.
    pub(super) fn store_packed(
        &mut self,
        place: MemOperand,
        storage: Storage,
        mask: Option<VirtReg>,
        value: VirtReg,
    ) {
        let full = self.width();
        match storage {
            Storage::Word | Storage::Long => {
                self.store_masked(self.ops.store, place, mask, value, full);
            }
            Storage::F32 => {
                let singles = self.new_vector();
                self.unary(opcode::CVTPD2PS, singles, Operand::Reg(value));
                self.store_narrow(singles, Narrow::Bits32, place, mask);
            }
            Storage::I32 | Storage::U32 => self.store_words(value, Narrow::Bits32, place, mask),
            Storage::F16 => {
                let halves = self.narrow(opcode::CVTPS2PH, value, Some(0));
                self.store_narrow(halves, Narrow::Bits16, place, mask);
            }
            Storage::Bf16 => {
                let words = self.round_to_bf16(value);
                self.store_words(words, Narrow::Bits16, place, mask);
            }
            Storage::I8 | Storage::U8 => self.store_words(value, Narrow::Bits8, place, mask),
            Storage::Bool => {
                let ones = self.new_vector();
                let (by, shift) = (self.simd.width.bits() - 1, self.ops.shift_right);
                self.immediate(shift, ones, Operand::Reg(value), by as u8);
                self.store_words(ones, Narrow::Bits8, place, mask);
            }
        }
    }

    /// A narrowing move to a register.
    fn narrow(&mut self, op: Opcode, value: VirtReg, imm: Option<u8>) -> VirtReg {
        let dst = self.new_vector();
        let inst = VectorInst::new(op, self.width());
        self.push(Inst::Vector(VectorInst { dst: Some(dst), a: Some(value), imm, ..inst }));
        dst
    }

    /// Stores packed elements of a register.
    fn store_narrow(
        &mut self,
        packed: VirtReg,
        element: Narrow,
        place: MemOperand,
        mask: Option<VirtReg>,
    ) {
        let width = self.packed_width(element.bytes());
        let op = match (mask, element) {
            (Some(_), Narrow::Bits8) => opcode::MOVDQU8_STORE,
            (Some(_), Narrow::Bits16) => opcode::MOVDQU16_STORE,
            (Some(_), Narrow::Bits32) => opcode::MOVUPS_STORE,
            (None, _) => match self.simd.lanes() * element.bytes() {
                4 => opcode::MOVSS_STORE,
                8 => opcode::MOVQ_STORE,
                _ => opcode::MOVUPS_STORE,
            },
        };
        self.store_masked(op, place, mask, packed, width);
    }

    /// Stores the low bits of each lane.
    fn store_words(
        &mut self,
        words: VirtReg,
        element: Narrow,
        place: MemOperand,
        mask: Option<VirtReg>,
    ) {
        if self.is_avx512() {
            let op = match (element, self.ops.storage) {
                (Narrow::Bits8, Storage::Long) => opcode::PMOVQB,
                (Narrow::Bits8, _) => opcode::PMOVDB,
                (Narrow::Bits16, _) => opcode::PMOVDW,
                (Narrow::Bits32, _) => opcode::PMOVQD,
            };
            let packed = self.narrow(op, words, None);
            self.store_narrow(packed, element, place, mask);
            return;
        }
        if self.ops.storage == Storage::Long {
            return self.store_words_of_longs(words, element, place, mask);
        }
        // Packing saturates, so upper bits are cleared; and it works within 128-bit halves, so the
        // quarters with elements are permuted together.
        let kept = match element {
            Narrow::Bits8 => 0xff,
            Narrow::Bits16 | Narrow::Bits32 => 0xffff,
        };
        let kept = Operand::Mem(MemOperand::pool(self.constant_lanes(|_| kept)));
        let low = self.new_vector();
        self.binary(opcode::PAND, low, words, kept);
        let halves = self.new_vector();
        self.binary(opcode::PACKUSDW, halves, low, Operand::Reg(low));
        let mut packed = self.new_vector();
        self.immediate(opcode::PERMQ, packed, Operand::Reg(halves), 0x08);
        if element == Narrow::Bits8 {
            let halves = packed;
            packed = self.new_vector();
            self.binary(opcode::PACKUSWB, packed, halves, Operand::Reg(halves));
        }
        self.store_narrow(packed, element, place, mask);
    }

    /// Stores the low word of each lane of 64 bits, or its low byte; AVX2 only.
    fn store_words_of_longs(
        &mut self,
        longs: VirtReg,
        element: Narrow,
        place: MemOperand,
        mask: Option<VirtReg>,
    ) {
        let numbers = self.new_vector();
        let low = MemOperand::pool(self.constant_words(|at| 2 * (at % 4)));
        self.unary(opcode::MOVUPS, numbers, Operand::Mem(low));
        let mut packed = self.new_vector();
        self.binary(opcode::PERMD, packed, numbers, Operand::Reg(longs));
        if element == Narrow::Bits8 {
            let words = packed;
            packed = self.new_vector();
            let low = MemOperand::pool(self.constant_words(|_| 0x0c08_0400));
            self.binary(opcode::PSHUFB, packed, words, Operand::Mem(low));
        }
        self.store_narrow(packed, element, place, mask);
    }

    /// Rounds floats to bfloat16, nearest even, in the lower half of each word.
    fn round_to_bf16(&mut self, value: VirtReg) -> VirtReg {
        let splat =
            |select: &mut Self, bits: u64| select.operand(&crate::vector::Value::Splat(bits));
        let [upper, odd, bias, rounded, quiet, chosen, result] =
            std::array::from_fn(|_| self.new_vector());
        // Adds 0x7fff, or 0x8000 if the truncated result is odd.
        self.immediate(opcode::PSRLD, upper, Operand::Reg(value), 16);
        let one = splat(self, 1);
        self.binary(opcode::PAND, odd, upper, one);
        let half = splat(self, 0x7fff);
        self.binary(opcode::PADDD, bias, odd, half);
        self.binary(opcode::PADDD, rounded, bias, Operand::Reg(value));
        // A NaN must not round to infinity: it is quieted.
        let quiet_bit = splat(self, 0x0040_0000);
        self.binary(opcode::POR, quiet, value, quiet_bit);
        let class = if self.is_avx512() { RegClass::Mask } else { RegClass::Vector };
        let nan = self.code.new_virt_reg(class);
        let unordered = self.inst(opcode::CMPPS, nan, Operand::Reg(value));
        self.push(Inst::Vector(VectorInst { a: Some(value), imm: Some(3), ..unordered }));
        let blend = VectorInst {
            a: Some(rounded),
            ..self.inst(opcode::BLENDVPS, chosen, Operand::Reg(quiet))
        };
        self.push(Inst::Vector(if self.is_avx512() {
            VectorInst { op: opcode::BLENDMPS, mask: Some(nan), ..blend }
        } else {
            VectorInst { c: Some(nan), ..blend }
        }));
        self.immediate(opcode::PSRLD, result, Operand::Reg(chosen), 16);
        result
    }
}

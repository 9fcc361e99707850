//! Selection of loads whose elements are a few words apart: contiguous loads, and permutations of them on
//! AVX-512, shuffles or blends of them on AVX2.
//!
//! ```text
//! x[3 * n]  =>   a = x[0..16], b = x[16..32], c = x[30..46]
//!                r = words 0, 3, .. 30 of a and b; r = words of r, and 33, 36, .. 45 of c
//! ```
//!
//! The last load ends with the last element, so that nothing behind it is read. Words between two elements are
//! in bounds; where lanes are masked off, only those between two active ones are known to be.

use super::super::induction::ActiveLanes;
use super::super::inst::{Inst, MemOperand, Operand, VectorInst, VirtReg};
use super::super::opcode;
use super::{PhaseConstant, Selector};

/// A contiguous load: the number of its first word, and that of words between elements.
#[derive(Clone, Copy)]
struct Part {
    start: u32,
    words: u32,
}

impl Part {
    /// Returns the lane whose element a word of the load is.
    fn lane(self, word: u32) -> Option<u32> {
        let at = self.start + word;
        at.is_multiple_of(self.words).then_some(at / self.words)
    }
}

impl Selector<'_> {
    /// Loads elements that many words apart; AVX-512 only.
    pub(super) fn load_strided(
        &mut self,
        first: MemOperand,
        words: u32,
        active: ActiveLanes<'_>,
        dst: VirtReg,
    ) {
        let lanes = self.simd.isa.lanes();
        let span = words * (lanes - 1) + 1;
        let n_parts = span.div_ceil(lanes);
        let active_words = self.words_of(active);
        let mut result: Option<VirtReg> = None;
        for n in 0..n_parts {
            let is_last = n + 1 == n_parts;
            let start = if is_last { span - lanes } else { n * lanes };
            let place = MemOperand { disp: first.disp + 4 * start as i32, ..first };
            let part = Part { start, words };
            let loaded = match (active, active_words) {
                (ActiveLanes::Known(bits), _) => self.load_known(place, part, bits),
                (_, Some(mask)) => self.load_masked(place, part, mask),
                _ => Operand::Mem(place),
            };
            let Some(before) = result else {
                result = Some(self.in_register(loaded));
                continue;
            };
            // Elements that were picked before are in their lanes, those of the first load are not.
            let of_part = |lane: u32| (words * lane / lanes).min(n_parts - 1);
            let number = |lane: u32| match of_part(lane) {
                it if it == n => lanes + words * lane - start,
                0 if n == 1 => words * lane,
                _ => lane,
            };
            result = Some(self.permute(number, before, loaded));
        }
        if let Some(result) = result {
            self.unary(opcode::MOVAPS, dst, Operand::Reg(result));
        }
    }

    /// Loads every other word by two loads and a shuffle; AVX2 only.
    pub(super) fn load_every_other(
        &mut self,
        first: MemOperand,
        active: ActiveLanes<'_>,
        dst: VirtReg,
    ) {
        let lanes = self.simd.isa.lanes();
        // The second load ends with the last word that is needed, so it begins with an odd one.
        let [low, high] = [0, lanes - 1].map(|start| {
            let place = MemOperand { disp: first.disp + 4 * start as i32, ..first };
            match active {
                ActiveLanes::Known(bits) => self.load_known(place, Part { start, words: 2 }, bits),
                _ => Operand::Mem(place),
            }
        });
        let low = self.in_register(low);
        // In each half the words 0 and 2 of the lower vector and 1 and 3 of the upper one, and then
        // the pairs 0, 2, 1, 3.
        let picked = self.new_vector();
        let inst = self.inst(opcode::SHUFPS, picked, high);
        let (a, imm) = (Some(low), Some(0b11_01_10_00));
        self.push(Inst::Vector(VectorInst { a, imm, ..inst }));
        self.immediate(opcode::PERMQ, dst, Operand::Reg(picked), 0b11_01_10_00);
    }

    /// Loads elements an odd number of words apart, which lie in lanes of their own: in those of one vector after
    /// blends, and in order after a permutation; AVX2 only.
    pub(super) fn load_odd_stride(
        &mut self,
        first: MemOperand,
        words: u32,
        active: ActiveLanes<'_>,
        dst: VirtReg,
    ) {
        let lanes = self.simd.isa.lanes();
        let bits = match active {
            ActiveLanes::Known(bits) => bits,
            _ => u16::MAX,
        };
        let mut blended: Option<VirtReg> = None;
        for n in 0..words {
            let start = n * lanes;
            let place = MemOperand { disp: first.disp + 4 * start as i32, ..first };
            let part = Part { start, words };
            let loaded = self.load_known(place, part, bits);
            let Some(before) = blended else {
                blended = Some(self.in_register(loaded));
                continue;
            };
            let elements = (0..lanes).filter(|it| part.lane(*it).is_some()).map(|it| 1 << it);
            let both = self.new_vector();
            let inst = self.inst(opcode::BLENDPS, both, loaded);
            let (a, imm) = (Some(before), Some(elements.sum()));
            self.push(Inst::Vector(VectorInst { a, imm, ..inst }));
            blended = Some(both);
        }
        let places = MemOperand::pool(self.constant_words(|lane| words * lane % lanes));
        let places = self.in_register(Operand::Mem(places));
        if let Some(blended) = blended {
            self.binary(opcode::PERMD, dst, places, Operand::Reg(blended));
        }
    }

    fn in_register(&mut self, operand: Operand) -> VirtReg {
        match operand {
            Operand::Reg(reg) => reg,
            place => {
                let loaded = self.new_vector();
                self.unary(opcode::MOVUPS, loaded, place);
                loaded
            }
        }
    }

    /// Loads a part of which the lanes are known.
    fn load_known(&mut self, place: MemOperand, part: Part, bits: u16) -> Operand {
        let lanes = self.simd.isa.lanes();
        let is_active = |lane: u32| bits >> lane & 1 == 1;
        let around = part.start / part.words..=(part.start + lanes - 1).div_ceil(part.words);
        if around.into_iter().all(|lane| lane < lanes && is_active(lane)) {
            return Operand::Mem(place);
        }
        let is_element =
            |word: &u32| part.lane(*word).is_some_and(|it| it < lanes && is_active(it));
        let wanted: u16 = (0..lanes).filter(is_element).map(|it| 1 << it).sum();
        let loaded = self.new_vector();
        if wanted == 0 {
            self.push(Inst::Zero { dst: loaded });
            return Operand::Reg(loaded);
        }
        let mask = self.phase_constant(PhaseConstant::Lanes(wanted));
        if self.is_avx512() {
            self.masked(opcode::MOVUPS, loaded, Operand::Mem(place), mask);
        } else {
            self.binary(self.ops.masked_load, loaded, mask, Operand::Mem(place));
        }
        Operand::Reg(loaded)
    }

    /// Returns a vector of words whose bits are set in active lanes, if these are known at run time only.
    fn words_of(&mut self, active: ActiveLanes<'_>) -> Option<VirtReg> {
        if !matches!(active, ActiveLanes::First(_) | ActiveLanes::Where(_)) {
            return None;
        }
        let mask = self.mask_register(active)?;
        let words = self.new_vector();
        self.unary(opcode::PMOVM2D, words, Operand::Reg(mask));
        Some(words)
    }

    /// Loads a part under a mask of lanes, of which each word has the lane of its element.
    fn load_masked(&mut self, place: MemOperand, part: Part, lanes: VirtReg) -> Operand {
        let n_lanes = self.simd.isa.lanes();
        let lane_of = |word| part.lane(word).filter(|it| *it < n_lanes);
        let spread = self.permute(|word| lane_of(word).unwrap_or(0), lanes, Operand::Reg(lanes));
        let is_element = |word| if lane_of(word).is_some() { u32::MAX } else { 0 };
        let elements = Operand::Mem(MemOperand::pool(self.constant_words(is_element)));
        let mask = self.new_mask();
        self.binary(opcode::PTESTMD, mask, spread, elements);
        let loaded = self.new_vector();
        self.masked(opcode::MOVUPS, loaded, Operand::Mem(place), mask);
        Operand::Reg(loaded)
    }

    /// Permutes the elements of two vectors: lane `n` is element `number(n)`; AVX-512 only.
    fn permute(&mut self, number: impl Fn(u32) -> u32, first: VirtReg, second: Operand) -> VirtReg {
        let picked = self.new_vector();
        let numbers = MemOperand::pool(self.constant_words(number));
        self.unary(opcode::MOVUPS, picked, Operand::Mem(numbers));
        let inst = self.inst(opcode::PERMI2PS, picked, second);
        self.push(Inst::Vector(VectorInst { updates: true, a: Some(first), ..inst }));
        picked
    }
}

//! Spill code for vectors.
//!
//! ```text
//! v1 = add v2, v3   =>   v2, v3 spilled: t = load [s2]; v1 = add t, [s3]
//!                        v1 spilled:     t = add v2, v3; store [s1], t
//! ```
//!
//! A spilled source is folded into a memory operand where the instruction takes one, else reloaded
//! just before; a spilled target is stored just after.

use super::encode::Width;
use super::inst::{
    Inst, LaneMask, MachineFunction, MemOperand, Operand, RegClass, StackSlot, VectorInst, VirtReg,
};
use super::liveness::LiveInterval;
use super::opcode::{self, Form, Tuple};

/// Stack slots, reused when an interval ends (stack slot coloring).
#[derive(Default)]
pub(super) struct StackSlots {
    ends: Vec<u32>,
}

/// Inserts spill code for intervals, in stack slots of `bytes` each.
pub(super) fn rewrite(code: &mut MachineFunction, spilled: &[LiveInterval], bytes: u32) {
    let mut slots = StackSlots::default();
    let slots_of: Vec<u32> = spilled.iter().map(|it| slots.take(it)).collect();
    let first = code.frame.len() as u32;
    code.frame.extend((0..slots.len()).map(|_| bytes));
    let insts = std::mem::take(&mut code.insts);
    let mut rewrite = SpillRewriter {
        spilled: vec![None; code.classes.len()],
        out: Vec::with_capacity(insts.len() + 4 * spilled.len()),
        width: if bytes == 64 { Width::W512 } else { Width::W256 },
        code,
    };
    let mut coming = spilled.iter().zip(&slots_of).peekable();
    for (at, mut inst) in insts.into_iter().enumerate() {
        let now = 2 * at as u32;
        let mut start_intervals = |rewrite: &mut SpillRewriter<'_>, until: u32| {
            while let Some((interval, spilled)) = coming.next_if(|it| it.0.start <= until) {
                let slot = StackSlot(first + spilled);
                rewrite.spilled[interval.virt.0 as usize] = Some((slot, interval.end));
            }
        };
        start_intervals(&mut rewrite, now);
        let updated = rewrite.sources(&mut inst, now);
        start_intervals(&mut rewrite, now + 1);
        rewrite.target(inst, updated, now + 1);
    }
    code.insts = rewrite.out;
}

impl StackSlots {
    /// Returns a slot that is free throughout an interval. Intervals come by start.
    pub(super) fn take(&mut self, interval: &LiveInterval) -> u32 {
        let free = self.ends.iter().position(|end| *end < interval.start);
        let at = free.unwrap_or(self.ends.len());
        if at == self.ends.len() {
            self.ends.push(0);
        }
        self.ends[at] = interval.end;
        at as u32
    }

    pub(super) fn len(&self) -> u32 {
        self.ends.len() as u32
    }
}

struct SpillRewriter<'a> {
    code: &'a mut MachineFunction,
    /// The slot and end of each register's latest spilled interval.
    spilled: Vec<Option<(StackSlot, u32)>>,
    out: Vec<Inst>,
    width: Width,
}

impl SpillRewriter<'_> {
    fn slot(&self, virt: VirtReg, now: u32) -> Option<StackSlot> {
        let (slot, end) = (*self.spilled.get(virt.0 as usize)?)?;
        (now <= end).then_some(slot)
    }

    fn temporary(&mut self) -> VirtReg {
        self.code.new_virt_reg(RegClass::Vector)
    }

    /// Reloads a register if it is spilled.
    fn reload(&mut self, virt: &mut VirtReg, now: u32) {
        if let Some(slot) = self.slot(*virt, now) {
            let dst = self.temporary();
            let b = Some(Operand::Mem(MemOperand::frame(slot)));
            let load = VectorInst::new(opcode::MOVUPS, self.width);
            self.out.push(Inst::Vector(VectorInst { dst: Some(dst), b, ..load }));
            *virt = dst;
        }
    }

    /// Rewrites a source that may be in memory; folds a spilled register if `fold` permits it.
    fn reload_operand(&mut self, operand: &mut Operand, fold: bool, now: u32) {
        match operand {
            Operand::Reg(virt) => match self.slot(*virt, now) {
                Some(slot) if fold => *operand = Operand::Mem(MemOperand::frame(slot)),
                _ => self.reload(virt, now),
            },
            Operand::Mem(MemOperand { index: Some((index, _)), .. }) => self.reload(index, now),
            Operand::Mem(_) | Operand::Broadcast(_) => {}
        }
    }

    /// Rewrites sources; returns the reloaded register of a target that is read too.
    fn sources(&mut self, inst: &mut Inst, now: u32) -> Option<VirtReg> {
        match inst {
            Inst::Vector(it) => {
                let updated = it.dst.filter(|_| it.updates).map(|mut virt| {
                    self.reload(&mut virt, now);
                    virt
                });
                // Both sources may be one register: reload it once.
                let same = it.a.map(Operand::Reg) == it.b;
                it.a.iter_mut().chain(&mut it.c).for_each(|virt| self.reload(virt, now));
                if let Some(b) = &mut it.b {
                    if same && let Some(a) = it.a {
                        *b = Operand::Reg(a);
                    }
                    self.reload_operand(b, takes_memory(it.op, it.width == self.width), now);
                    if it.op == opcode::MOVAPS && matches!(b, Operand::Mem(_)) {
                        it.op = opcode::MOVUPS;
                    }
                }
                updated
            }
            Inst::Fma { a, b, c, .. } => {
                let in_memory = |it: &&mut Operand| !matches!(it, Operand::Reg(_));
                let mut sources = [b, a, c];
                let mut fold = sources.iter().all(|it| !in_memory(it));
                for source in &mut sources {
                    self.reload_operand(source, fold, now);
                    fold &= !in_memory(source);
                }
                None
            }
            Inst::LaneCopy(it) => {
                if let LaneMask::Where(mask) = &mut it.mask {
                    self.reload(mask, now);
                }
                None
            }
            Inst::IfAnyBegin { mask: src } | Inst::FirstLane { src, .. } => {
                self.reload(src, now);
                None
            }
            _ => None,
        }
    }

    /// Stores the target if it is spilled.
    fn target(&mut self, mut inst: Inst, updated: Option<VirtReg>, now: u32) {
        let slot = inst.def().and_then(|(virt, _)| self.slot(virt, now));
        let (
            Some(slot),
            Inst::Vector(VectorInst { dst: Some(dst), .. })
            | Inst::Fma { dst, .. }
            | Inst::Zero { dst }
            | Inst::Splat { dst, .. }
            | Inst::SplatEntry { dst, .. },
        ) = (slot, &mut inst)
        else {
            self.out.push(inst);
            return;
        };
        let temporary = updated.unwrap_or_else(|| self.temporary());
        *dst = temporary;
        self.out.push(inst);
        let b = Some(Operand::Mem(MemOperand::frame(slot)));
        let store = VectorInst::new(opcode::MOVUPS_STORE, self.width);
        self.out.push(Inst::Vector(VectorInst { a: Some(temporary), b, ..store }));
    }
}

/// Returns whether the last source of an instruction may be a full vector in memory.
fn takes_memory(op: opcode::Opcode, full: bool) -> bool {
    let of_registers = [opcode::PMOVD2M, opcode::PMOVQ2M];
    full && op.form == Form::Rvm && op.tuple == Tuple::Full && !of_registers.contains(&op)
}

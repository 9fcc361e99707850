//! Rewrites instructions whose vectors moved to the frame.
//!
//! A source in the frame becomes a memory operand where the instruction takes one, else it is
//! loaded just before; a target is stored just after.

use super::encode::Width;
use super::inst::{Class, Code, FrameSlot, Inst, LaneMask, Operand, Place, VectorInst, Virt};
use super::liveness::Interval;
use super::opcode::{self, Form, Tuple};
use super::stack::Slots;

/// Moves the intervals to the frame, in parts of `bytes` each.
pub(super) fn rewrite(code: &mut Code, spilled: &[Interval], bytes: u32) {
    let mut slots = Slots::default();
    let homes: Vec<u32> = spilled.iter().map(|it| slots.take(it)).collect();
    let first = code.frame.len() as u32;
    code.frame.extend((0..slots.len()).map(|_| bytes));
    let insts = std::mem::take(&mut code.insts);
    let mut rewrite = Rewrite {
        home: vec![None; code.classes.len()],
        out: Vec::with_capacity(insts.len() + 4 * spilled.len()),
        width: if bytes == 64 { Width::W512 } else { Width::W256 },
        code,
    };
    let mut coming = spilled.iter().zip(&homes).peekable();
    for (at, mut inst) in insts.into_iter().enumerate() {
        let now = 2 * at as u32;
        let mut moved = |rewrite: &mut Rewrite<'_>, until: u32| {
            while let Some((interval, home)) = coming.next_if(|it| it.0.start <= until) {
                let slot = FrameSlot(first + home);
                rewrite.home[interval.virt.0 as usize] = Some((slot, interval.end));
            }
        };
        moved(&mut rewrite, now);
        let kept = rewrite.sources(&mut inst, now);
        moved(&mut rewrite, now + 1);
        rewrite.target(inst, kept, now + 1);
    }
    let out = rewrite.out;
    code.insts = out;
}

struct Rewrite<'a> {
    code: &'a mut Code,
    /// Where each register's latest interval in the frame is, and when it ends.
    home: Vec<Option<(FrameSlot, u32)>>,
    out: Vec<Inst>,
    width: Width,
}

impl Rewrite<'_> {
    fn slot(&self, virt: Virt, now: u32) -> Option<FrameSlot> {
        let (slot, end) = (*self.home.get(virt.0 as usize)?)?;
        (now <= end).then_some(slot)
    }

    fn temporary(&mut self) -> Virt {
        self.code.virt(Class::Vector)
    }

    fn moved(&self, op: opcode::Opcode) -> VectorInst {
        VectorInst {
            op,
            width: self.width,
            dst: None,
            updates: false,
            a: None,
            b: None,
            c: None,
            mask: None,
            zeroing: false,
            imm: None,
        }
    }

    /// Has a register loaded if it is in the frame.
    fn reload(&mut self, virt: &mut Virt, now: u32) {
        if let Some(slot) = self.slot(*virt, now) {
            let dst = self.temporary();
            let b = Some(Operand::Place(Place::frame(slot)));
            self.out.push(Inst::Vector(VectorInst {
                dst: Some(dst),
                b,
                ..self.moved(opcode::MOVUPS)
            }));
            *virt = dst;
        }
    }

    fn reload_index(&mut self, operand: &mut Operand, now: u32) {
        if let Operand::Place(Place { index: Some((index, _)), .. }) = operand {
            self.reload(index, now);
        }
    }

    /// A source that is in memory, or that becomes so if `fold` allows it.
    fn reload_operand(&mut self, operand: &mut Operand, fold: bool, now: u32) {
        match operand {
            Operand::Reg(virt) => match self.slot(*virt, now) {
                Some(slot) if fold => *operand = Operand::Place(Place::frame(slot)),
                _ => self.reload(virt, now),
            },
            _ => self.reload_index(operand, now),
        }
    }

    /// Rewrites sources. Returns what stands for a target that is updated.
    fn sources(&mut self, inst: &mut Inst, now: u32) -> Option<Virt> {
        match inst {
            Inst::Vector(it) => {
                let updated = it.dst.filter(|_| it.updates).map(|mut virt| {
                    self.reload(&mut virt, now);
                    virt
                });
                // Two sources may be the same register: load it once.
                let same = it.a.map(Operand::Reg) == it.b;
                if let Some(a) = &mut it.a {
                    self.reload(a, now);
                }
                if let Some(c) = &mut it.c {
                    self.reload(c, now);
                }
                if let Some(b) = &mut it.b {
                    if same && let Some(a) = it.a {
                        *b = Operand::Reg(a);
                    }
                    self.reload_operand(b, takes_memory(it.op, it.width == self.width), now);
                    if it.op == opcode::MOVAPS && matches!(b, Operand::Place(_)) {
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
            _ => None,
        }
    }

    /// Has the target stored if it is in the frame.
    fn target(&mut self, mut inst: Inst, updated: Option<Virt>, now: u32) {
        let slot = inst.target().and_then(|(virt, _)| self.slot(virt, now));
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
        let temporary = match updated {
            Some(virt) => virt,
            None => self.temporary(),
        };
        *dst = temporary;
        self.out.push(inst);
        let b = Some(Operand::Place(Place::frame(slot)));
        let store = VectorInst { a: Some(temporary), b, ..self.moved(opcode::MOVUPS_STORE) };
        self.out.push(Inst::Vector(store));
    }
}

/// Whether the last source of an instruction may be a whole vector in memory.
fn takes_memory(op: opcode::Opcode, full: bool) -> bool {
    full && op.form == Form::Rvm && op.tuple == Tuple::Full && op != opcode::PMOVD2M
}

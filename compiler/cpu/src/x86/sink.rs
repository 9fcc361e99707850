//! Code sinking: values that are computed before the first task move into the branches that use them.
//!
//! ```text
//! m = mask; for task { if .. { a } else { b(m) } }   =>   for task { if .. { a } else { m = mask; b(m) } }
//! ```
//!
//! A live interval has no holes: such a value would occupy a register in the other branch, too, where
//! the inner loops are those that nearly all tasks run. Computing it again in each task costs an
//! instruction or two, so this is done where vectors would be spilled, and only there.

use std::collections::{BTreeMap, BTreeSet};

use super::inst::{Inst, MachineFunction, MemBase, Operand, VirtReg};

/// A side of a branch, by the position of the instruction that begins it.
type Side = usize;

/// The place of a use.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Side(Side),
    Elsewhere,
}

/// Moves values into the sides of the outermost branches of a task that use them; returns whether there
/// were any.
pub(super) fn sink(code: &mut MachineFunction) -> bool {
    let is_task_loop = |it: &Inst| matches!(it, Inst::LoopBegin { .. });
    let Some(n_prologue) = code.insts.iter().position(is_task_loop) else { return false };
    let places = places(&code.insts[n_prologue..], n_prologue);
    let mut uses: BTreeMap<VirtReg, BTreeSet<Place>> = BTreeMap::new();
    let mut n_definitions = vec![0_usize; code.classes.len()];
    for (inst, place) in code.insts[n_prologue..].iter().zip(&places) {
        inst.for_each_use(&mut |virt| {
            uses.entry(virt).or_default().insert(*place);
        });
    }
    for inst in &code.insts {
        inst.def().into_iter().for_each(|(virt, _)| n_definitions[virt.0 as usize] += 1);
    }
    let mut sunk: BTreeMap<Side, Vec<Inst>> = BTreeMap::new();
    let mut kept = Vec::new();
    // Users first, so that what they use can follow them.
    for inst in code.insts[..n_prologue].iter().rev() {
        let target = inst.def().filter(|(virt, updates)| {
            is_pure(inst) && !updates && n_definitions[virt.0 as usize] == 1
        });
        let users = target.and_then(|(virt, _)| uses.get(&virt)).cloned().unwrap_or_default();
        let stays = users.is_empty() || users.contains(&Place::Elsewhere);
        if stays {
            kept.push(*inst);
        }
        let places = if stays { BTreeSet::from([Place::Elsewhere]) } else { users };
        for place in &places {
            if let Place::Side(side) = place {
                sunk.entry(*side).or_default().push(*inst);
            }
        }
        inst.for_each_use(&mut |virt| uses.entry(virt).or_default().extend(&places));
    }
    if sunk.is_empty() {
        return false;
    }
    kept.reverse();
    let body = code.insts.split_off(n_prologue);
    code.insts = kept;
    for (at, inst) in (n_prologue..).zip(body) {
        code.insts.push(inst);
        code.insts.extend(sunk.remove(&at).into_iter().flatten().rev());
    }
    true
}

/// Returns the place of each instruction of the loop over tasks, which starts at `first`.
fn places(body: &[Inst], first: usize) -> Vec<Place> {
    let (mut n_loops, mut n_branches) = (0, 0);
    let mut place = Place::Elsewhere;
    let mut places = Vec::with_capacity(body.len());
    for (at, inst) in (first..).zip(body) {
        let mut own = place;
        match inst {
            Inst::LoopBegin { .. } => n_loops += 1,
            Inst::LoopEnd { .. } => n_loops -= 1,
            Inst::IfBegin { .. } => {
                n_branches += 1;
                if (n_loops, n_branches) == (1, 1) {
                    place = Place::Side(at);
                }
            }
            Inst::Else if (n_loops, n_branches) == (1, 1) => {
                place = Place::Side(at);
                own = Place::Elsewhere;
            }
            Inst::IfEnd => {
                n_branches -= 1;
                if (n_loops, n_branches) == (1, 0) {
                    (place, own) = (Place::Elsewhere, Place::Elsewhere);
                }
            }
            _ => {}
        }
        places.push(own);
    }
    places
}

/// Returns whether an instruction computes a register from registers, constants and the argument table.
fn is_pure(inst: &Inst) -> bool {
    match inst {
        Inst::Vector(it) => match &it.b {
            Some(Operand::Mem(place) | Operand::Broadcast(place)) => {
                matches!(place.base, MemBase::Pool(_))
            }
            Some(Operand::Reg(_)) | None => true,
        },
        Inst::Splat { .. }
        | Inst::MaskBits { .. }
        | Inst::LoadEntry { .. }
        | Inst::SplatEntry { .. }
        | Inst::Zero { .. } => true,
        _ => false,
    }
}

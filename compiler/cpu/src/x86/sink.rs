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
            Inst::IfBegin { .. } | Inst::IfAnyBegin { .. } => {
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

#[cfg(test)]
mod tests {
    use super::super::inst::{IntOperand, RegClass};
    use super::*;

    const COUNTER: VirtReg = VirtReg(0);

    fn entry(dst: u32) -> Inst {
        Inst::LoadEntry { dst: VirtReg(dst), entry: dst }
    }

    fn splat(dst: u32, src: u32) -> Inst {
        Inst::Splat { dst: VirtReg(dst), src: VirtReg(src) }
    }

    fn add(dst: u32, src: u32) -> Inst {
        Inst::Add { dst: VirtReg(dst), src: IntOperand::Reg(VirtReg(src)) }
    }

    fn branch() -> Inst {
        let zero = IntOperand::Const(0);
        Inst::IfBegin { value: zero, plus: 0, bound: zero }
    }

    /// Sinks the values of a prologue into the branches of a task; returns whether any was, and the
    /// code, an instruction or a bracket each.
    fn sunk(prologue: &[Inst], task: &[Inst]) -> (bool, String) {
        let begin = Inst::LoopBegin { counter: COUNTER, runs: true };
        let end = Inst::LoopEnd { counter: COUNTER };
        let insts = [prologue, &[begin], task, &[end]].concat();
        let classes = vec![RegClass::Int; 20];
        let mut code = MachineFunction { insts, classes, frame: Vec::new() };
        let is_sunk = sink(&mut code);
        let shown = code.insts.iter().map(|it| match it {
            Inst::LoadEntry { dst, .. } => format!("v{} = entry", dst.0),
            Inst::Splat { dst, src } => format!("v{} = splat v{}", dst.0, src.0),
            Inst::Add { dst, src: IntOperand::Reg(src) } => format!("v{} += v{}", dst.0, src.0),
            Inst::LoopBegin { .. } => "for {".to_owned(),
            Inst::IfBegin { .. } => "if {".to_owned(),
            Inst::Else => "} else {".to_owned(),
            Inst::LoopEnd { .. } | Inst::IfEnd => "}".to_owned(),
            other => panic!("{other:?} is not expected"),
        });
        (is_sunk, shown.collect::<Vec<_>>().join("; "))
    }

    #[test]
    fn a_value_moves_into_the_branch_that_uses_it_behind_what_it_needs() {
        let prologue = [entry(1), splat(2, 1), splat(3, 2)];
        let task = [branch(), Inst::Else, add(9, 3), Inst::IfEnd];
        let code =
            "for {; if {; } else {; v1 = entry; v2 = splat v1; v3 = splat v2; v9 += v3; }; }";
        assert_eq!(sunk(&prologue, &task), (true, code.to_owned()));
    }

    #[test]
    fn a_value_of_both_branches_is_computed_in_each() {
        let task = [branch(), add(9, 1), Inst::Else, add(8, 1), Inst::IfEnd];
        let code = "for {; if {; v1 = entry; v9 += v1; } else {; v1 = entry; v8 += v1; }; }";
        assert_eq!(sunk(&[entry(1)], &task), (true, code.to_owned()));
    }

    #[test]
    fn values_that_are_used_elsewhere_stay() {
        let around: [&[Inst]; 3] = [
            &[branch(), add(9, 1), Inst::IfEnd, add(8, 1)],
            &[add(8, 1), branch(), add(9, 1), Inst::IfEnd],
            &[branch(), branch(), add(9, 1), Inst::IfEnd, Inst::IfEnd, add(8, 1)],
        ];
        for task in around {
            let (is_sunk, code) = sunk(&[entry(1)], task);
            assert!(!is_sunk && code.starts_with("v1 = entry; for {"), "{code}");
        }
    }

    #[test]
    fn operands_of_values_that_stay_do_too() {
        let task = [branch(), add(9, 1), Inst::IfEnd, add(8, 2)];
        let (is_sunk, code) = sunk(&[entry(1), splat(2, 1)], &task);
        assert!(!is_sunk && code.starts_with("v1 = entry; v2 = splat v1; for {"), "{code}");
    }

    #[test]
    fn values_that_change_stay() {
        let task = [branch(), add(9, 1), Inst::IfEnd];
        let (is_sunk, code) = sunk(&[entry(1), entry(2), add(1, 2)], &task);
        assert!(!is_sunk && code.starts_with("v1 = entry; v2 = entry; v1 += v2; for {"), "{code}");
        let updated = [branch(), add(1, 1), Inst::IfEnd];
        assert!(!sunk(&[entry(1)], &updated).0);
    }
}

//! Branches, calls, barriers, fences, and hints that compute nothing.

use super::site::Site;
use crate::code::{Barrier, CtaBarrier, Fence, Op, Reduce, Reduction, SetRegisters, Warp};
use crate::parse::{Operand, Result};
use crate::registers::{Class, Register};

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.opcode.base {
        "bra" => {
            let uniform = site.opcode.take("uni");
            let Operand::Targets(targets) = site.operand(0)? else {
                return Err(site.error("expected a label"));
            };
            let target = site.frame.target(targets[0]);
            Ok(if uniform { Op::UniformBranch(target) } else { Op::Branch(target) })
        }
        "brx" => {
            site.opcode.take("idx");
            site.opcode.take("uni");
            let index = site.source(Class::Word, site.operand(0)?)?;
            match site.operand(1)? {
                Operand::Targets(targets) => {
                    let targets = targets.iter().map(|it| site.frame.target(*it)).collect();
                    Ok(Op::BranchIndexed(index, targets))
                }
                _ => Err(site.error("expected a table of labels")),
            }
        }
        "call" => {
            site.opcode.take("uni");
            site.frame.call(site.operands).map_err(|it| site.error(it))
        }
        "ret" => {
            site.opcode.take("uni");
            Ok(Op::Return)
        }
        "exit" => Ok(Op::Exit),
        "trap" | "brkpt" => Ok(Op::Trap),
        "bar" | "barrier" => barrier(site),
        "fence" | "membar" => fence(site),
        "setmaxnreg" => set_registers(site),
        // Hints, and what only matters where kernels overlap.
        _ => {
            site.opcode.clear();
            Ok(Op::Nop)
        }
    }
}

fn set_registers(site: &mut Site<'_, '_>) -> Result<Op> {
    let grows = site.opcode.take_any(&["inc", "dec"]) == Some("inc");
    site.opcode.take("sync");
    site.opcode.take("aligned");
    site.take_type()?;
    match site.immediate(0)? {
        registers @ 24..=256 if registers % 8 == 0 => {
            Ok(Op::SetRegisters(SetRegisters { grows, registers: registers as u32 }))
        }
        _ => Err(site.error("expected a multiple of 8 from 24 to 256")),
    }
}

fn barrier(site: &mut Site<'_, '_>) -> Result<Op> {
    let bar = site.opcode.base == "bar";
    if site.opcode.take("warp") {
        site.opcode.take("sync");
        let members = site.source(Class::Word, site.operand(0)?)?;
        return Ok(Op::Warp(members, Warp::Sync));
    }
    let in_cluster = site.opcode.take("cluster");
    site.opcode.take("cta");
    let aligned = site.opcode.take("aligned") | bar;
    let action = site.opcode.take_any(&["sync", "arrive", "wait", "red"]);
    if in_cluster {
        site.opcode.take_any(&["release", "relaxed", "acquire"]);
        return Ok(Op::Barrier(match action {
            Some("arrive") => Barrier::ClusterArrive { aligned },
            _ => Barrier::ClusterWait { aligned },
        }));
    }
    let (mut reduce, mut operands) = (None, site.operands);
    if action == Some("red") {
        let op = match site.opcode.take_any(&["popc", "and", "or"]) {
            Some("popc") => Reduction::Count,
            Some("and") => Reduction::And,
            _ => Reduction::Or,
        };
        let class = site.take_type()?.class();
        let to = Register { class, slot: site.destination(class, site.operand(0)?)? };
        let [_, barrier @ .., predicate] = operands else {
            return Err(site.error("an operand is missing"));
        };
        reduce = Some(Reduce { op, to, predicate: site.flag(predicate)? });
        operands = barrier;
    }
    let [id, count @ ..] = operands else {
        return Err(site.error("an operand is missing"));
    };
    let id = site.source(Class::Word, id)?;
    let threads = match count.first() {
        Some(count) => Some(site.source(Class::Word, count)?),
        None => None,
    };
    let wait = action != Some("arrive");
    Ok(Op::Barrier(Barrier::Cta(CtaBarrier { id, threads, wait, aligned, reduce })))
}

fn fence(site: &mut Site<'_, '_>) -> Result<Op> {
    let proxy = site.opcode.take("proxy");
    let asynchronous = site.opcode.take("async");
    if site.opcode.take("mbarrier_init") {
        site.opcode.clear();
        return Ok(Op::Fence(Fence::MbarrierInit));
    }
    site.opcode.clear();
    match (proxy, asynchronous) {
        (true, true) => Ok(Op::Fence(Fence::ProxyAsync)),
        (true, false) => Ok(Op::Nop),
        _ => Ok(Op::Fence(Fence::Memory)),
    }
}

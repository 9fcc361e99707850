//! Barriers in shared memory, and addresses in the shared memory of other CTAs.

use super::memory::take_space;
use super::site::Site;
use crate::code::{Arrive, Mbarrier, MbarrierOp, Op, Phase, Wait};
use crate::parse::{Operand, Result, Special};
use crate::registers::{Class, Lanewise, Register, binary};
use crate::space::{RANK_SHIFT, SHARED_WINDOW};

/// The operations on an mbarrier.
const OPERATIONS: &[&str] = &[
    "init",
    "inval",
    "arrive",
    "arrive_drop",
    "expect_tx",
    "complete_tx",
    "test_wait",
    "try_wait",
    "pending_count",
];

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let operation = site.opcode.take_any(OPERATIONS);
    let operation = operation.ok_or_else(|| site.error("unknown operation"))?;
    let relaxed = site.opcode.take("relaxed");
    site.opcode.take_any(&["release", "acquire"]);
    site.opcode.take_any(&["cta", "cluster"]);
    let expect = site.opcode.take("expect_tx");
    let no_complete = site.opcode.take("noComplete");
    let parity = site.opcode.take("parity");
    let space = take_space(site)?;
    site.opcode.take("b64");
    if no_complete || operation == "pending_count" {
        return Err(site.error("this form is not known"));
    }
    let address_at = usize::from(matches!(operation, "test_wait" | "try_wait"))
        + usize::from(
            matches!(operation, "arrive" | "arrive_drop")
                && site.operands.len() > 1
                && !matches!(site.operands[0], Operand::Address(..)),
        );
    let address = site.address(site.operand(address_at)?)?;
    let mut word = |n: usize| site.source(Class::Word, site.operand(n)?);
    let op = match operation {
        "init" => MbarrierOp::Init(word(1)?),
        "inval" => MbarrierOp::Invalidate,
        "expect_tx" => MbarrierOp::ExpectTx(word(1)?),
        "complete_tx" => MbarrierOp::CompleteTx(word(1)?),
        "arrive" | "arrive_drop" => {
            let operands = site.operands;
            let argument = match operands.get(address_at + 1) {
                Some(it) => Some(site.source(Class::Word, it)?),
                None => None,
            };
            let state = match (address_at, &operands[0]) {
                (0, _) | (_, Operand::Sink) => None,
                (_, to) => Some(site.destination(Class::Double, to)?),
            };
            let (count, bytes) = if expect { (None, argument) } else { (argument, None) };
            MbarrierOp::Arrive(Arrive {
                state,
                count,
                bytes,
                drop: operation == "arrive_drop",
                release: !relaxed,
            })
        }
        _ => {
            let to = site.destination(Class::Predicate, site.operand(0)?)?;
            let phase = match parity {
                true => Phase::Parity(site.source(Class::Word, site.operand(2)?)?),
                false => Phase::State(site.source(Class::Double, site.operand(2)?)?),
            };
            MbarrierOp::Wait(Wait {
                to,
                phase,
                suspend: operation == "try_wait",
                acquire: !relaxed,
            })
        }
    };
    Ok(Op::Mbarrier(Mbarrier { space, address, op }))
}

/// `mapa`: the address of the same variable in another CTA.
pub(super) fn map_address(site: &mut Site<'_, '_>) -> Result<Op> {
    take_space(site)?;
    let class = site.take_type()?.class();
    let inside = (1u64 << RANK_SHIFT) - 1;
    let mapped =
        move |address: u64, rank: u32| address & inside | (u64::from(rank) + 1) << RANK_SHIFT;
    match class {
        Class::Double => site.binary(move |a: u64, rank: u32| mapped(a, rank) + SHARED_WINDOW),
        _ => site.binary(move |a: u32, rank: u32| mapped(u64::from(a), rank) as u32),
    }
}

/// `getctarank`: whose shared memory an address is in.
pub(super) fn rank_of_address(site: &mut Site<'_, '_>) -> Result<Op> {
    take_space(site)?;
    site.take_type()?;
    let to = site.destination(Class::Word, site.operand(0)?)?;
    let address: Register = site.any(Class::Word, site.operand(1)?)?;
    let own = site.source(Class::Word, &Operand::Special(Special::RankInCluster))?;
    let rank = |address: u64, own: u32| match (address >> RANK_SHIFT) as u32 & 0xFF {
        0 => own,
        other => other - 1,
    };
    let rows: Lanewise = match address.class {
        Class::Double => binary(move |a: u64, own: u32| rank(a, own)),
        _ => binary(move |a: u32, own: u32| rank(u64::from(a), own)),
    };
    Ok(Op::Lanewise(rows, [to, address.slot, own, 0, 0]))
}

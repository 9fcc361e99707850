//! Warp-level collectives: shuffles, votes, matches, reductions.

use super::site::Site;
use super::types::Type;
use crate::code::{Op, Shuffle, Vote, Warp};
use crate::parse::{Operand, Result};
use crate::registers::{Class, Register, Slot};

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    if site.opcode.base == "activemask" {
        site.take_type()?;
        let to = site.destination(Class::Word, site.operand(0)?)?;
        let everyone = site.source(Class::Word, &Operand::Number(u64::from(u32::MAX)))?;
        return Ok(Op::Warp(everyone, Warp::ActiveMask(to)));
    }
    if !site.opcode.take("sync") {
        return Err(site.error("only the forms with `.sync` are known"));
    }
    let last = site.operands.len().saturating_sub(1);
    let members = site.source(Class::Word, site.operand(last)?)?;
    let op = match site.opcode.base {
        "shfl" => shuffle(site)?,
        "vote" => vote(site)?,
        "match" => matching(site)?,
        "redux" => reduce(site)?,
        _ => {
            let (leader, to) = both(site, Class::Word)?;
            let to = to.ok_or_else(|| site.error("expected two destinations"))?;
            Warp::Elect { leader, to }
        }
    };
    Ok(Op::Warp(members, op))
}

/// The first operand: a register, perhaps with a predicate.
fn both(site: &mut Site<'_, '_>, class: Class) -> Result<(Slot, Option<Slot>)> {
    match site.operand(0)? {
        Operand::Both(both) => Ok((
            site.destination(class, &both.0)?,
            Some(site.destination(Class::Predicate, &both.1)?),
        )),
        to => Ok((site.destination(class, to)?, None)),
    }
}

fn shuffle(site: &mut Site<'_, '_>) -> Result<Warp> {
    let mode = match site.opcode.take_any(&["up", "down", "bfly", "idx"]) {
        Some("up") => Shuffle::Up,
        Some("down") => Shuffle::Down,
        Some("bfly") => Shuffle::Butterfly,
        Some(_) => Shuffle::Index,
        None => return Err(site.error("no mode")),
    };
    site.take_type()?;
    let (to, valid) = both(site, Class::Word)?;
    let mut word = |n| site.source(Class::Word, site.operand(n)?);
    Ok(Warp::Shuffle { mode, to, valid, from: word(1)?, lane: word(2)?, clamp: word(3)? })
}

fn vote(site: &mut Site<'_, '_>) -> Result<Warp> {
    let vote = match site.opcode.take_any(&["all", "any", "uni", "ballot"]) {
        Some("all") => Vote::All,
        Some("any") => Vote::Any,
        Some("uni") => Vote::Uniform,
        Some(_) => Vote::Ballot,
        None => return Err(site.error("no mode")),
    };
    let class = site.take_type()?.class();
    let to = Register { class, slot: site.destination(class, site.operand(0)?)? };
    Ok(Warp::Vote(vote, to, site.flag(site.operand(1)?)?))
}

fn matching(site: &mut Site<'_, '_>) -> Result<Warp> {
    let all = site.opcode.take_any(&["any", "all"]) == Some("all");
    let class = site.take_type()?.class();
    let (to, valid) = both(site, Class::Word)?;
    let value = Register { class, slot: site.source(class, site.operand(1)?)? };
    Ok(Warp::Match { to, all: all.then_some(valid), value })
}

fn reduce(site: &mut Site<'_, '_>) -> Result<Warp> {
    let how = site.opcode.take_any(&["add", "min", "max", "and", "or", "xor"]);
    let signed = site.take_type()? == Type::S32;
    let with: fn(u32, u32) -> u32 = match (how, signed) {
        (Some("add"), _) => u32::wrapping_add,
        (Some("min"), true) => |a, b| (a as i32).min(b as i32) as u32,
        (Some("min"), false) => |a, b| a.min(b),
        (Some("max"), true) => |a, b| (a as i32).max(b as i32) as u32,
        (Some("max"), false) => |a, b| a.max(b),
        (Some("and"), _) => |a, b| a & b,
        (Some("or"), _) => |a, b| a | b,
        (Some("xor"), _) => |a, b| a ^ b,
        _ => return Err(site.error("no operation")),
    };
    let to = site.destination(Class::Word, site.operand(0)?)?;
    Ok(Warp::Reduce { to, from: site.source(Class::Word, site.operand(1)?)?, with })
}

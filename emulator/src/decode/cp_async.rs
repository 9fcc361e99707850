//! Asynchronous copies of threads.

use super::site::Site;
use crate::code::{CpAsync, CpAsyncArrive, CpAsyncGroup, Op};
use crate::parse::{Operand, Result};
use crate::registers::Class;

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    site.opcode.take("async");
    if site.opcode.take("commit_group") {
        return Ok(Op::CpAsyncGroup(CpAsyncGroup::Commit));
    }
    if site.opcode.take("wait_group") {
        return Ok(Op::CpAsyncGroup(CpAsyncGroup::Wait(site.immediate(0)? as u32)));
    }
    if site.opcode.take("wait_all") {
        return Ok(Op::CpAsyncGroup(CpAsyncGroup::WaitAll));
    }
    if site.opcode.take("mbarrier") {
        site.opcode.take("arrive");
        let counted = site.opcode.take("noinc");
        site.opcode.take_any(&["shared", "shared::cta"]);
        site.opcode.take("b64");
        let address = site.address(site.operand(0)?)?;
        return Ok(Op::CpAsyncArrive(CpAsyncArrive { address, counted }));
    }
    let hinted = site.opcode.has("L2::cache_hint");
    while site.opcode.take_prefix("L2::").is_some() {}
    site.opcode.take_any(&["ca", "cg"]);
    site.opcode.take_any(&["shared", "shared::cta"]);
    site.opcode.take("global");
    let to = site.address(site.operand(0)?)?;
    let from = site.address(site.operand(1)?)?;
    let bytes = site.immediate(2)? as u32;
    if !matches!(bytes, 4 | 8 | 16) {
        return Err(site.error("4, 8 or 16 bytes can be copied"));
    }
    let n = site.operands.len() - usize::from(hinted);
    let (mut source_bytes, mut ignored) = (None, None);
    match site.operands.get(3).filter(|_| n > 3) {
        Some(it @ (Operand::Register(Class::Predicate, _) | Operand::Not(_))) => {
            ignored = Some(site.flag(it)?);
        }
        Some(it) => source_bytes = Some(site.source(Class::Word, it)?),
        None => {}
    }
    Ok(Op::CpAsync(CpAsync { to, from, bytes, source_bytes, ignored }))
}

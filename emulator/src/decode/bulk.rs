//! Decodes `cp.async.bulk`, `cp.async.bulk.tensor` (TMA) and their reductions and groups.

use super::site::Site;
use super::types::Type;
use crate::code::{Bulk, BulkCompletion, BulkGroup, BulkShape, BulkSpace, Op};
use crate::parse::{Operand, Result};
use crate::registers::Class;
use crate::tensor_map::Element;

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let reduce = site.opcode.take("reduce");
    site.require(&["async", "bulk"])?;
    if site.opcode.take("commit_group") {
        return Ok(Op::BulkGroup(BulkGroup::Commit));
    }
    if site.opcode.take("wait_group") {
        // Waiting for the reads is enough to use the memory again.
        site.opcode.take("read");
        return Ok(Op::BulkGroup(BulkGroup::Wait(site.immediate(0)? as u32)));
    }
    let hinted = site.opcode.take("L2::cache_hint");
    let tensor = site.opcode.take("tensor");
    let dimensions = site.opcode.take_any(&["1d", "2d", "3d", "4d", "5d"]);
    site.opcode.take("tile");
    if site.opcode.take("prefetch") {
        site.opcode.clear();
        return Ok(Op::Nop);
    }
    let spaces = [take_space(site)?, take_space(site)?];
    let multicast = site.opcode.take("multicast::cluster");
    let on_mbarrier = site.opcode.take("mbarrier::complete_tx::bytes");
    if !on_mbarrier && !site.opcode.take("bulk_group") {
        return Err(site.error("no way to complete"));
    }
    let add = match reduce {
        true => Some(take_reduction_type(site, tensor)?),
        false => None,
    };
    let mut operands = site.operands;
    if hinted {
        operands = operands.split_last().map_or(operands, |it| it.1);
    }
    let completion = if on_mbarrier {
        let mask = match multicast {
            true => Some(site.source(Class::Word, operands.last().unwrap_or(&Operand::Sink))?),
            false => None,
        };
        let mut from_last = operands.iter().rev().skip(usize::from(multicast));
        let barrier = from_last.next().ok_or_else(|| site.error("no mbarrier is named"))?;
        BulkCompletion::Mbarrier { address: site.address(barrier)?, mask }
    } else {
        BulkCompletion::Group
    };
    let [to, from] = spaces;
    let global = if from == BulkSpace::Global { 1 } else { 0 };
    let shape = if tensor {
        let Some(Operand::Address(map, 0, coordinates)) = operands.get(global) else {
            return Err(site.error("expected a tensor and coordinates"));
        };
        if dimensions.and_then(|it| it[..1].parse().ok()) != Some(coordinates.len()) {
            return Err(site.error("as many coordinates as dimensions are needed"));
        }
        let slots = site.sources(Class::Word, coordinates)?;
        let map = site.source(Class::Double, map)?;
        let shared = site.address(site.operand(1 - global)?)?;
        BulkShape::Tensor { map, coordinates: slots, shared }
    } else {
        let (to, from) = (site.address(site.operand(0)?)?, site.address(site.operand(1)?)?);
        BulkShape::Linear { to, from, bytes: site.source(Class::Word, site.operand(2)?)? }
    };
    Ok(Op::Bulk(Bulk { to, from, shape, completion, add }))
}

/// Takes a modifier that names a state space: of the destination, then of the source.
fn take_space(site: &mut Site<'_, '_>) -> Result<BulkSpace> {
    match site.opcode.take_any(&["global", "shared::cta", "shared::cluster"]) {
        Some("global") => Ok(BulkSpace::Global),
        Some(_) => Ok(BulkSpace::Shared),
        None => Err(site.error("no state space")),
    }
}

/// Takes the element type of a bulk reduction; `None` for tensor copies, whose tensor map has it.
fn take_reduction_type(site: &mut Site<'_, '_>, is_tensor: bool) -> Result<Option<Element>> {
    if !site.opcode.take("add") {
        return Err(site.error("only `.add` is known"));
    }
    site.opcode.take("noftz");
    if is_tensor {
        return Ok(None);
    }
    Ok(Some(match site.take_type()? {
        Type::F16 => Element::F16,
        Type::Bf16 => Element::Bf16,
        Type::F32 => Element::F32,
        Type::F64 => Element::F64,
        Type::U32 => Element::U32,
        Type::S32 => Element::I32,
        Type::U64 => Element::U64,
        _ => return Err(site.error("no such type")),
    }))
}

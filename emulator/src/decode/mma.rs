//! `mma`, `wgmma`, `ldmatrix` and `stmatrix`.

use super::memory::take_space;
use super::site::Site;
use super::types::Type;
use crate::code::{Accumulator, LdStMatrix, Mma, Multiplicand, Op, OperandA, Wgmma, WgmmaGroup};
use crate::parse::{Operand, Result};
use crate::registers::{Class, Slot};

/// `ldmatrix` and `stmatrix`.
pub(super) fn ld_st_matrix(site: &mut Site<'_, '_>) -> Result<Op> {
    site.require(&["sync", "aligned", "m8n8", "b16"])?;
    let n = match site.opcode.take_any(&["x1", "x2", "x4"]) {
        Some("x2") => 2,
        Some("x4") => 4,
        _ => 1,
    };
    let transposed = site.opcode.take("trans");
    take_space(site)?;
    let load = site.opcode.base == "ldmatrix";
    let (rows, address) = if load { (0, 1) } else { (1, 0) };
    let parts = Site::parts(site.operand(rows)?);
    let registers = match load {
        true => site.destinations(Class::Word, parts)?,
        false => site.sources(Class::Word, parts)?,
    };
    if registers.len() != n {
        return Err(site.error(format!("expected {n} registers")));
    }
    let address = site.address(site.operand(address)?)?;
    Ok(Op::LdStMatrix(LdStMatrix { load, transposed, registers, address }))
}

/// Returns the multiplicand of a type.
pub(super) fn multiplicand(type_: Type) -> Option<Multiplicand> {
    Some(match type_ {
        Type::F16 => Multiplicand::F16,
        Type::Bf16 => Multiplicand::Bf16,
        Type::Tf32 => Multiplicand::Tf32,
        Type::S8 => Multiplicand::S8,
        Type::U8 => Multiplicand::U8,
        _ => return None,
    })
}

/// `mma.sync`.
pub(super) fn mma(site: &mut Site<'_, '_>) -> Result<Op> {
    site.require(&["sync", "aligned", "row", "col"])?;
    let saturate = site.opcode.take("satfinite");
    let k = match site.opcode.take_any(&["m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32"]) {
        Some("m16n8k4") => 4,
        Some("m16n8k8") => 8,
        Some("m16n8k16") => 16,
        Some(_) => 32,
        None => return Err(site.error("an unknown shape")),
    };
    let types = [site.take_type()?, site.take_type()?, site.take_type()?, site.take_type()?];
    let [d, a, b, c] = types;
    let (Some(a), Some(b)) = (multiplicand(a), multiplicand(b)) else {
        return Err(site.error("unknown types"));
    };
    let accumulator = match (d, c) {
        (Type::F32, Type::F32) => Accumulator::F32,
        (Type::F16, Type::F16) => Accumulator::F16,
        (Type::S32, Type::S32) => Accumulator::S32 { saturate },
        _ => return Err(site.error("unknown types")),
    };
    let n_accumulators = if accumulator == Accumulator::F16 { 2 } else { 4 };
    let n_multiplicands = k * a.bytes() / 8;
    let mut row = |n: usize, count: usize, to: bool| -> Result<Vec<Slot>> {
        let parts = Site::parts(site.operand(n)?);
        if parts.len() != count {
            return Err(site.error(format!("expected {count} registers in operand {n}")));
        }
        match to {
            true => site.destinations(Class::Word, parts),
            false => site.sources(Class::Word, parts),
        }
    };
    Ok(Op::Mma(Mma {
        k,
        to: row(0, n_accumulators, true)?,
        a: row(1, n_multiplicands, false)?,
        b: row(2, n_multiplicands / 2, false)?,
        c: row(3, n_accumulators, false)?,
        multiplicands: (a, b),
        accumulator,
    }))
}

/// Decodes `wgmma`.
pub(super) fn wgmma(site: &mut Site<'_, '_>) -> Result<Op> {
    let operation = site.opcode.take_any(&["mma_async", "fence", "commit_group", "wait_group"]);
    site.opcode.take("sync");
    site.opcode.take("aligned");
    match operation {
        Some("fence") => return Ok(Op::WgmmaGroup(WgmmaGroup::Fence)),
        Some("commit_group") => return Ok(Op::WgmmaGroup(WgmmaGroup::Commit)),
        Some("wait_group") => {
            return Ok(Op::WgmmaGroup(WgmmaGroup::Wait(site.immediate(0)? as u32)));
        }
        Some(_) => {}
        None => return Err(site.error("unknown operation")),
    }
    let saturate = site.opcode.take("satfinite");
    let shape = site.opcode.take_prefix("m64n").unwrap_or("");
    let sizes = shape.strip_prefix("m64n").and_then(|it| it.split_once('k'));
    let (Some(n), Some(k)) = (
        sizes.and_then(|it| it.0.parse::<usize>().ok()),
        sizes.and_then(|it| it.1.parse::<usize>().ok()),
    ) else {
        return Err(site.error("an unknown shape"));
    };
    let (d, a, b) = (site.take_type()?, site.take_type()?, site.take_type()?);
    let (Some(a_type), Some(b_type)) = (multiplicand(a), multiplicand(b)) else {
        return Err(site.error("unknown types"));
    };
    let accumulator = match d {
        Type::F32 => Accumulator::F32,
        Type::F16 => Accumulator::F16,
        Type::S32 => Accumulator::S32 { saturate },
        _ => return Err(site.error("unknown types")),
    };
    if k * a_type.bytes() != 32 || n % 8 != 0 || n > 256 {
        return Err(site.error("an unknown shape"));
    }
    let n_accumulators = if accumulator == Accumulator::F16 { n / 4 } else { n / 2 };
    let to = site.destinations(Class::Word, Site::parts(site.operand(0)?))?;
    if to.len() != n_accumulators {
        return Err(site.error(format!("expected {n_accumulators} accumulators")));
    }
    let a = match site.operand(1)? {
        Operand::Vector(parts) => OperandA::Registers(site.sources(Class::Word, parts)?),
        descriptor => OperandA::Shared(site.source(Class::Double, descriptor)?),
    };
    let b = site.source(Class::Double, site.operand(2)?)?;
    let add = site.flag(site.operand(3)?)?;
    let numbers = (4..site.operands.len()).map(|n| site.immediate(n).map(|it| it as i64));
    let numbers = numbers.collect::<Result<Vec<i64>>>()?;
    let scales = [0, 1].map(|n| numbers.get(n).copied().unwrap_or(1) as f32);
    // Only 16-bit types can be transposed; where A is in registers, only B.
    let transposed = match (&a, numbers.get(2..).unwrap_or(&[])) {
        (_, []) => [false, false],
        (OperandA::Registers(_), [b]) => [false, *b != 0],
        (OperandA::Shared(_), [a, b]) => [*a != 0, *b != 0],
        _ => return Err(site.error("operands")),
    };
    let multiplicands = (a_type, b_type);
    Ok(Op::Wgmma(Wgmma { n, k, to, a, b, add, scales, transposed, multiplicands, accumulator }))
}

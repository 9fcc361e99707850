//! Products of small matrices, and how their operands get into registers.

use super::memory::take_space;
use super::site::Site;
use super::types::Type;
use crate::code::{Factor, Left, Mma, MoveMatrix, Op, Sum, Wgmma, WgmmaGroup};
use crate::parse::{Operand, Result};
use crate::registers::{Class, Slot};

/// `ldmatrix` and `stmatrix`.
pub(super) fn moves(site: &mut Site<'_, '_>) -> Result<Op> {
    for part in ["sync", "aligned", "m8n8", "b16"] {
        if !site.opcode.take(part) {
            return Err(site.error(format!("only the form with `.{part}` is known")));
        }
    }
    let n = match site.opcode.take_any(&["x1", "x2", "x4"]) {
        Some("x2") => 2,
        Some("x4") => 4,
        _ => 1,
    };
    let transposed = site.opcode.take("trans");
    take_space(site)?;
    let load = site.opcode.base == "ldmatrix";
    let (rows, address) = if load { (0, 1) } else { (1, 0) };
    let mut registers = Vec::new();
    for part in Site::parts(site.operand(rows)?) {
        registers.push(if load {
            site.destination(Class::Word, part)?
        } else {
            site.source(Class::Word, part)?
        });
    }
    if registers.len() != n {
        return Err(site.error(format!("expected {n} registers")));
    }
    let address = site.address(site.operand(address)?)?;
    Ok(Op::MoveMatrix(MoveMatrix { load, transposed, registers, address }))
}

/// The factors that a type stands for.
pub(super) fn factor(type_: Type) -> Option<Factor> {
    Some(match type_ {
        Type::F16 => Factor::F16,
        Type::Bf16 => Factor::Bf16,
        Type::Tf32 => Factor::Tf32,
        Type::S8 => Factor::S8,
        Type::U8 => Factor::U8,
        _ => return None,
    })
}

/// `mma.sync`.
pub(super) fn product(site: &mut Site<'_, '_>) -> Result<Op> {
    for part in ["sync", "aligned", "row", "col"] {
        if !site.opcode.take(part) {
            return Err(site.error(format!("only the form with `.{part}` is known")));
        }
    }
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
    let (Some(a), Some(b)) = (factor(a), factor(b)) else {
        return Err(site.error("unknown types"));
    };
    let sum = match (d, c) {
        (Type::F32, Type::F32) => Sum::F32,
        (Type::F16, Type::F16) => Sum::F16,
        (Type::S32, Type::S32) => Sum::S32 { saturate },
        _ => return Err(site.error("unknown types")),
    };
    let n_sums = if sum == Sum::F16 { 2 } else { 4 };
    let n_factors = k * a.bytes() / 8;
    let mut row = |n: usize, count: usize, to: bool| -> Result<Vec<Slot>> {
        let parts = Site::parts(site.operand(n)?);
        if parts.len() != count {
            return Err(site.error(format!("expected {count} registers in operand {n}")));
        }
        let slot = |it| match to {
            true => site.destination(Class::Word, it),
            false => site.source(Class::Word, it),
        };
        parts.iter().map(slot).collect()
    };
    Ok(Op::Mma(Mma {
        k,
        to: row(0, n_sums, true)?,
        a: row(1, n_factors, false)?,
        b: row(2, n_factors / 2, false)?,
        c: row(3, n_sums, false)?,
        factors: (a, b),
        sum,
    }))
}

/// `wgmma`: products of a warpgroup.
pub(super) fn group_product(site: &mut Site<'_, '_>) -> Result<Op> {
    let what = site.opcode.take_any(&["mma_async", "fence", "commit_group", "wait_group"]);
    site.opcode.take("sync");
    site.opcode.take("aligned");
    match what {
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
    let (Some(a), Some(b)) = (factor(a), factor(b)) else {
        return Err(site.error("unknown types"));
    };
    let sum = match d {
        Type::F32 => Sum::F32,
        Type::F16 => Sum::F16,
        Type::S32 => Sum::S32 { saturate },
        _ => return Err(site.error("unknown types")),
    };
    if k * a.bytes() != 32 || n % 8 != 0 || n > 256 {
        return Err(site.error("an unknown shape"));
    }
    let n_sums = if sum == Sum::F16 { n / 4 } else { n / 2 };
    let mut to = Vec::new();
    for part in Site::parts(site.operand(0)?) {
        to.push(site.destination(Class::Word, part)?);
    }
    if to.len() != n_sums {
        return Err(site.error(format!("expected {n_sums} sums")));
    }
    let left = match site.operand(1)? {
        Operand::Vector(parts) => {
            let rows: Result<Vec<Slot>> =
                parts.iter().map(|it| site.source(Class::Word, it)).collect();
            Left::Registers(rows?)
        }
        descriptor => Left::Shared(site.source(Class::Double, descriptor)?),
    };
    let right = site.source(Class::Double, site.operand(2)?)?;
    let add = site.flag(site.operand(3)?)?;
    let mut numbers = Vec::new();
    for n in 4..site.operands.len() {
        numbers.push(site.immediate(n)? as i64);
    }
    let scales = [0, 1].map(|n| numbers.get(n).copied().unwrap_or(1) as f32);
    // Only halves may lie the other way round; where A is in registers, only B.
    let transposed = match (&left, numbers.get(2..).unwrap_or(&[])) {
        (_, []) => [false, false],
        (Left::Registers(_), [b]) => [false, *b != 0],
        (Left::Shared(_), [a, b]) => [*a != 0, *b != 0],
        _ => return Err(site.error("operands")),
    };
    Ok(Op::Wgmma(Wgmma { n, k, to, left, right, add, scales, transposed, factors: (a, b), sum }))
}

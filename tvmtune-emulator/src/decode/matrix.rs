//! Products of small matrices, and how their operands get into registers.

use super::memory::take_space;
use super::site::Site;
use super::types::Type;
use crate::code::{Factor, Mma, MoveMatrix, Op, Sum};
use crate::parse::Result;
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

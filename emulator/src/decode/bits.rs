//! Operations on bits: logic, shifts, fields, and what permutes.

use super::site::Site;
use super::types::{Type, bits, integers, with_type};
use crate::code::{BoolOp, Logic, Op};
use crate::parse::Result;
use crate::registers::Class;

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.opcode.base {
        "shf" => return funnel(site),
        "lop3" => return lop3(site),
        "prmt" => return permute(site),
        "bfind" => return find(site),
        "and" | "or" | "xor" | "not" if site.type_()? == Type::Predicate => return logic(site),
        _ => {}
    }
    let type_ = site.take_type()?;
    match site.opcode.base {
        "and" => bits!(site, type_, T => site.binary(|a: T, b: T| a & b)),
        "or" => bits!(site, type_, T => site.binary(|a: T, b: T| a | b)),
        "xor" => bits!(site, type_, T => site.binary(|a: T, b: T| a ^ b)),
        "not" => bits!(site, type_, T => site.unary(|a: T| !a)),
        "cnot" => bits!(site, type_, T => site.unary(|a: T| T::from(a == 0))),
        "shl" => {
            bits!(site, type_, T => site.binary(|a: T, by: u32| a.checked_shl(by).unwrap_or(0)))
        }
        "shr" => integers!(site, type_, T => site.binary(|a: T, by: u32| {
            let last = T::BITS - 1;
            if by <= last { a >> by } else { a >> last >> 1 }
        })),
        "popc" => bits!(site, type_, T => site.unary(|a: T| a.count_ones())),
        "clz" => bits!(site, type_, T => site.unary(|a: T| a.leading_zeros())),
        "brev" => bits!(site, type_, T => site.unary(|a: T| a.reverse_bits())),
        "bfe" => extract(site, type_),
        "bfi" => match type_.bytes() {
            4 => site.quaternary(|a: u32, b: u32, at: u32, n: u32| {
                insert(u64::from(a), u64::from(b), at, n, 32) as u32
            }),
            _ => site.quaternary(|a: u64, b: u64, at: u32, n: u32| insert(a, b, at, n, 64)),
        },
        "bmsk" => {
            let clamp = site.opcode.take_any(&["clamp", "wrap"]) == Some("clamp");
            site.binary(move |at: u32, n: u32| {
                let (at, n) = if clamp { (at, n) } else { (at & 31, n & 31) };
                let ones = if n >= 32 { u32::MAX } else { (1 << n) - 1 };
                if at >= 32 { 0 } else { ones << at }
            })
        }
        "szext" => {
            let clamp = site.opcode.take_any(&["clamp", "wrap"]) == Some("clamp");
            let signed = type_.is_signed();
            site.binary(move |a: u32, n: u32| {
                sign_or_zero(a, if clamp { n } else { n & 31 }, signed)
            })
        }
        _ => Err(site.error("unknown instruction")),
    }
}

fn sign_or_zero(a: u32, n: u32, signed: bool) -> u32 {
    match n {
        0 => 0,
        1..=31 if signed => ((a << (32 - n)) as i32 >> (32 - n)) as u32,
        1..=31 => a << (32 - n) >> (32 - n),
        _ => a,
    }
}

/// `shf`: 32 bits out of 64.
fn funnel(site: &mut Site<'_, '_>) -> Result<Op> {
    let left = site.opcode.take_any(&["l", "r"]) == Some("l");
    let clamp = site.opcode.take_any(&["clamp", "wrap"]) == Some("clamp");
    site.take_type()?;
    site.ternary(move |low: u32, high: u32, by: u32| {
        let by = if clamp { by.min(32) } else { by & 31 };
        let both = u64::from(high) << 32 | u64::from(low);
        if left { (both << by >> 32) as u32 } else { (both >> by) as u32 }
    })
}

/// `lop3`: any function of three bits, by its truth table.
fn lop3(site: &mut Site<'_, '_>) -> Result<Op> {
    site.take_type()?;
    let table = site.immediate(4)?;
    site.operands = &site.operands[..4];
    let rows: [u32; 8] = std::array::from_fn(|n| if table >> n & 1 == 1 { u32::MAX } else { 0 });
    site.ternary(move |a: u32, b: u32, c: u32| {
        let low = rows[0] & !b & !c | rows[1] & !b & c | rows[2] & b & !c | rows[3] & b & c;
        let high = rows[4] & !b & !c | rows[5] & !b & c | rows[6] & b & !c | rows[7] & b & c;
        !a & low | a & high
    })
}

/// `prmt`: four bytes picked out of eight.
fn permute(site: &mut Site<'_, '_>) -> Result<Op> {
    site.take_type()?;
    let mode = site.opcode.take_any(&["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"]);
    site.ternary(move |a: u32, b: u32, c: u32| {
        let bytes = (u64::from(b) << 32 | u64::from(a)).to_le_bytes();
        let n = c & 3;
        let selector = |at: u32| match mode {
            None => c >> (4 * at) & 15,
            Some("f4e") => (n + at) & 7,
            Some("b4e") => n.wrapping_sub(at) & 7,
            Some("rc8") => n,
            Some("ecl") => n.max(at),
            Some("ecr") => n.min(at),
            _ => (n & 1) * 2 + (at & 1),
        };
        u32::from_le_bytes(std::array::from_fn(|at| {
            let selector = selector(at as u32);
            let byte = bytes[(selector & 7) as usize];
            if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 }
        }))
    })
}

/// `bfind`: the highest bit that differs from the sign.
fn find(site: &mut Site<'_, '_>) -> Result<Op> {
    let shift = site.opcode.take("shiftamt");
    let type_ = site.take_type()?;
    let signed = type_.is_signed();
    bits!(site, type_, T => site.unary(move |a: T| {
        let last = T::BITS - 1;
        let a = if signed && a >> last == 1 { !a } else { a };
        let zeros = a.leading_zeros();
        match shift {
            _ if a == 0 => u32::MAX,
            true => zeros,
            false => last - zeros,
        }
    }))
}

/// `bfe`: bits of a number, extended by zeros or by the sign.
fn extract(site: &mut Site<'_, '_>, type_: Type) -> Result<Op> {
    let (width, signed) = (u32::from(type_.bytes()) * 8, type_.is_signed());
    let field = move |a: u64, at: u32, n: u32| {
        let (at, n) = (at & 0xFF, n & 0xFF);
        if n == 0 {
            return 0;
        }
        let sign_at = (at + n - 1).min(width - 1);
        let sign = if signed && a >> sign_at & 1 == 1 { u64::MAX } else { 0 };
        let value = a.checked_shr(at).unwrap_or(0);
        let kept = n.min(width.saturating_sub(at));
        let mask = if kept >= 64 { u64::MAX } else { (1 << kept) - 1 };
        value & mask | sign & !mask
    };
    if width == 32 {
        return site.ternary(move |a: u32, at: u32, n: u32| field(u64::from(a), at, n) as u32);
    }
    site.ternary(field)
}

/// `bfi`: bits of `a` put into `b`.
fn insert(a: u64, b: u64, at: u32, n: u32, width: u32) -> u64 {
    let (at, n) = (at & 0xFF, (n & 0xFF).min(width));
    if at >= width {
        return b;
    }
    let ones = if n >= 64 { u64::MAX } else { (1 << n) - 1 };
    let mask = ones << at;
    b & !mask | a << at & mask
}

/// Operations on predicates.
fn logic(site: &mut Site<'_, '_>) -> Result<Op> {
    site.take_type()?;
    let to = site.destination(Class::Predicate, site.operand(0)?)?;
    let mut a = site.flag(site.operand(1)?)?;
    let with = match site.opcode.base {
        "and" => BoolOp::And,
        "or" => BoolOp::Or,
        "xor" => BoolOp::Xor,
        _ => {
            a.negated = !a.negated;
            return Ok(Op::Logic(Logic::Copy(to, a)));
        }
    };
    let b = site.flag(site.operand(2)?)?;
    Ok(Op::Logic(Logic::Binary(to, with, a, b)))
}

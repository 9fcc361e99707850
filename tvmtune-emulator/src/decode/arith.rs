//! Integer arithmetic and bits.

use super::site::Site;
use super::types::Type;
use crate::code::{Combine, Logic, Op};
use crate::parse::Result;
use crate::registers::Class;

/// The same expression for each integer type: `$t` is the Rust type of the operands.
macro_rules! integers {
    ($site:ident, $type:expr, $t:ident => $make:expr) => {
        match $type {
            Type::U16 | Type::B16 => {
                type $t = u16;
                $make
            }
            Type::S16 => {
                type $t = i16;
                $make
            }
            Type::U32 | Type::B32 => {
                type $t = u32;
                $make
            }
            Type::S32 => {
                type $t = i32;
                $make
            }
            Type::U64 | Type::B64 => {
                type $t = u64;
                $make
            }
            Type::S64 => {
                type $t = i64;
                $make
            }
            _ => Err($site.error("no such type")),
        }
    };
}

/// The same for types without a sign.
macro_rules! bits {
    ($site:ident, $type:expr, $t:ident => $make:expr) => {
        match $type.bytes() {
            2 => {
                type $t = u16;
                $make
            }
            4 => {
                type $t = u32;
                $make
            }
            8 => {
                type $t = u64;
                $make
            }
            _ => Err($site.error("no such type")),
        }
    };
}

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.opcode.base {
        "mul" | "mad" => return product(site),
        "mul24" | "mad24" => return product24(site),
        "shf" => return funnel(site),
        "lop3" => return lop3(site),
        "prmt" => return permute(site),
        "bfind" => return find(site),
        "dp4a" | "dp2a" => return dot(site),
        "and" | "or" | "xor" | "not" if site.type_()? == Type::Predicate => return logic(site),
        _ => {}
    }
    let type_ = site.take_type()?;
    let saturate = type_ == Type::S32 && site.opcode.take("sat");
    match site.opcode.base {
        "add" if saturate => site.binary(i32::saturating_add),
        "sub" if saturate => site.binary(i32::saturating_sub),
        "add" => bits!(site, type_, T => site.binary(|a: T, b: T| a.wrapping_add(b))),
        "sub" => bits!(site, type_, T => site.binary(|a: T, b: T| a.wrapping_sub(b))),
        // What hardware gives for a division by zero: all bits set, and the dividend.
        "div" => integers!(site, type_, T => site.binary(|a: T, b: T| {
            if b == 0 { !0 } else { a.wrapping_div(b) }
        })),
        "rem" => integers!(site, type_, T => site.binary(|a: T, b: T| {
            if b == 0 { a } else { a.wrapping_rem(b) }
        })),
        "min" => integers!(site, type_, T => site.binary(|a: T, b: T| a.min(b))),
        "max" => integers!(site, type_, T => site.binary(|a: T, b: T| a.max(b))),
        "neg" => bits!(site, type_, T => site.unary(|a: T| a.wrapping_neg())),
        "abs" => match type_ {
            Type::S16 => site.unary(i16::wrapping_abs),
            Type::S32 => site.unary(i32::wrapping_abs),
            Type::S64 => site.unary(i64::wrapping_abs),
            _ => Err(site.error("no such type")),
        },
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
        "sad" => integers!(site, type_, T => site.ternary(|a: T, b: T, c: T| {
            c.wrapping_add(if a > b { a.wrapping_sub(b) } else { b.wrapping_sub(a) })
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

/// `mul` and `mad`: low half, high half, or wide.
fn product(site: &mut Site<'_, '_>) -> Result<Op> {
    let part = site.opcode.take_any(&["lo", "hi", "wide"]);
    let type_ = site.take_type()?;
    let add = site.opcode.base == "mad";
    if part == Some("wide") {
        macro_rules! wide {
            ($narrow:ty, $wide:ty) => {
                if add {
                    site.ternary(|a: $narrow, b: $narrow, c: $wide| {
                        (<$wide>::from(a) * <$wide>::from(b)).wrapping_add(c)
                    })
                } else {
                    site.binary(|a: $narrow, b: $narrow| <$wide>::from(a) * <$wide>::from(b))
                }
            };
        }
        return match type_ {
            Type::U16 => wide!(u16, u32),
            Type::S16 => wide!(i16, i32),
            Type::U32 => wide!(u32, u64),
            Type::S32 => wide!(i32, i64),
            _ => Err(site.error("no such type")),
        };
    }
    if part == Some("hi") {
        macro_rules! high {
            ($type:ty, $wide:ty) => {{
                let high = |a: $type, b: $type| {
                    (<$wide>::from(a) * <$wide>::from(b) >> <$type>::BITS) as $type
                };
                if add {
                    site.ternary(move |a: $type, b: $type, c: $type| high(a, b).wrapping_add(c))
                } else {
                    site.binary(high)
                }
            }};
        }
        return match type_ {
            Type::U16 => high!(u16, u32),
            Type::S16 => high!(i16, i32),
            Type::U32 => high!(u32, u64),
            Type::S32 => high!(i32, i64),
            Type::U64 => high!(u64, u128),
            Type::S64 => high!(i64, i128),
            _ => Err(site.error("no such type")),
        };
    }
    if add {
        return bits!(site, type_, T => site.ternary(|a: T, b: T, c: T| {
            a.wrapping_mul(b).wrapping_add(c)
        }));
    }
    bits!(site, type_, T => site.binary(|a: T, b: T| a.wrapping_mul(b)))
}

/// Products of the low 24 bits.
fn product24(site: &mut Site<'_, '_>) -> Result<Op> {
    let high = site.opcode.take_any(&["lo", "hi"]) == Some("hi");
    let signed = site.take_type()?.is_signed();
    let product = move |a: u32, b: u32| {
        let wide = |it: u32| {
            if signed { i64::from((it << 8) as i32 >> 8) } else { i64::from(it & 0xFF_FFFF) }
        };
        (wide(a) * wide(b) >> if high { 16 } else { 0 }) as u32
    };
    if site.opcode.base == "mad24" {
        return site.ternary(move |a, b, c: u32| product(a, b).wrapping_add(c));
    }
    site.binary(product)
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
            Some("f4e") => n + at & 7,
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
    match type_.bytes() {
        4 => site.unary(move |a: u32| {
            let a = if signed && a >> 31 == 1 { !a } else { a };
            let zeros = a.leading_zeros();
            if a == 0 {
                u32::MAX
            } else if shift {
                zeros
            } else {
                31 - zeros
            }
        }),
        _ => site.unary(move |a: u64| {
            let a = if signed && a >> 63 == 1 { !a } else { a };
            let zeros = a.leading_zeros();
            if a == 0 {
                u32::MAX
            } else if shift {
                zeros
            } else {
                63 - zeros
            }
        }),
    }
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

/// Sums of products of bytes.
fn dot(site: &mut Site<'_, '_>) -> Result<Op> {
    let four = site.opcode.base == "dp4a";
    let high = site.opcode.take_any(&["lo", "hi"]) == Some("hi");
    let (a_signed, b_signed) = (site.take_type()?.is_signed(), site.take_type()?.is_signed());
    let part = |word: u32, at: usize, bytes: usize, signed: bool| {
        let (bits, shift) = (8 * bytes as u32, 8 * (bytes * at) as u32);
        let value = word >> shift << (32 - bits);
        if signed { value as i32 >> (32 - bits) } else { (value >> (32 - bits)) as i32 }
    };
    site.ternary(move |a: u32, b: u32, c: i32| {
        let n = if four { 4 } else { 2 };
        (0..n).fold(c, |sum, at| {
            let (a_bytes, b_at) = if four { (1, at) } else { (2, at + 2 * usize::from(high)) };
            sum.wrapping_add(
                part(a, at, a_bytes, a_signed).wrapping_mul(part(b, b_at, 1, b_signed)),
            )
        })
    })
}

/// Operations on predicates.
fn logic(site: &mut Site<'_, '_>) -> Result<Op> {
    site.take_type()?;
    let operands = site.operands;
    let to = site.destination(Class::Predicate, site.operand(0)?)?;
    let mut a = site.flag(&operands[1])?;
    let with = match site.opcode.base {
        "and" => Combine::And,
        "or" => Combine::Or,
        "xor" => Combine::Xor,
        _ => {
            a.negated = !a.negated;
            return Ok(Op::Logic(Logic::Copy(to, a)));
        }
    };
    let b = site.flag(site.operand(2)?)?;
    Ok(Op::Logic(Logic::Two(to, with, a, b)))
}

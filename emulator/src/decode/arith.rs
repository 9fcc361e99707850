//! Integer arithmetic.

use super::site::Site;
use super::types::{Type, bits, integers, with_type};
use crate::code::Op;
use crate::parse::Result;

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.opcode.base {
        "mul" | "mad" => return product(site),
        "mul24" | "mad24" => return product24(site),
        "dp4a" | "dp2a" => return dot(site),
        _ => {}
    }
    let type_ = site.take_type()?;
    let saturate = type_ == Type::S32 && site.opcode.take("sat");
    match site.opcode.base {
        "add" if saturate => site.binary(i32::saturating_add),
        "sub" if saturate => site.binary(i32::saturating_sub),
        "add" => bits!(site, type_, T => site.binary(|a: T, b: T| a.wrapping_add(b))),
        "sub" => bits!(site, type_, T => site.binary(|a: T, b: T| a.wrapping_sub(b))),
        // Hardware returns all bits set for a division by zero, and the dividend for its remainder.
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
        "sad" => integers!(site, type_, T => site.ternary(|a: T, b: T, c: T| {
            c.wrapping_add(if a > b { a.wrapping_sub(b) } else { b.wrapping_sub(a) })
        })),
        _ => Err(site.error("unknown instruction")),
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
        ((wide(a) * wide(b)) >> if high { 16 } else { 0 }) as u32
    };
    if site.opcode.base == "mad24" {
        return site.ternary(move |a, b, c: u32| product(a, b).wrapping_add(c));
    }
    site.binary(product)
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

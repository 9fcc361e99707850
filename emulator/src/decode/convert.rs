//! Conversions between all types.

use half::{bf16, f16};

use super::site::Site;
use super::types::Type;
use crate::code::Op;
use crate::number::{
    Half, Rounding, f32_to_odd, flush, integral, saturate, to_f32, to_half, to_tf32,
};
use crate::parse::{Operand, Result};
use crate::registers::{Class, Lane, Pair};

/// The modifiers of a `cvt`.
#[derive(Clone, Copy)]
struct How {
    /// Of results that are floats.
    rounding: Rounding,
    /// To an integer, or to a float that is one.
    integral: Option<Rounding>,
    flush: bool,
    saturate: bool,
    saturate_finite: bool,
    relu: bool,
}

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let integral = site.opcode.take_any(&["rni", "rzi", "rmi", "rpi"]).map(|it| match it {
        "rni" => Rounding::Nearest,
        "rzi" => Rounding::Zero,
        "rmi" => Rounding::Down,
        _ => Rounding::Up,
    });
    let how = How {
        rounding: site.take_rounding().unwrap_or(Rounding::Nearest),
        integral,
        flush: site.opcode.take("ftz"),
        saturate: site.opcode.take("sat"),
        saturate_finite: site.opcode.take("satfinite"),
        relu: site.opcode.take("relu"),
    };
    let (to, from) = (site.take_type()?, site.take_type()?);
    match (to, from) {
        (Type::F16x2, Type::F32) => pack::<f16>(site, how),
        (Type::Bf16x2, Type::F32) => pack::<bf16>(site, how),
        (Type::Tf32, Type::F32) => site.unary(move |a: f32| {
            let a = if how.relu && a < 0.0 { 0.0 } else { a };
            to_tf32(a, how.rounding)
        }),
        _ if to.is_integer() && from.is_integer() => between_integers(site, to, from, how),
        _ if to.is_integer() => to_integer(site, to, from, how),
        _ if from.is_integer() => from_integer(site, to, from, how),
        _ => between_floats(site, to, from, how),
    }
}

/// Two floats to a pair of halves: the first becomes the upper one.
fn pack<T: Half>(site: &mut Site<'_, '_>, how: How) -> Result<Op>
where
    Pair<T>: Lane,
{
    site.binary(move |high: f32, low: f32| Pair(half_of::<T>(low, how), half_of::<T>(high, how)))
}

fn half_of<T: Half>(value: f32, how: How) -> T {
    let value = if how.flush { flush(value) } else { value };
    let value = if how.relu && value < 0.0 { 0.0 } else { value };
    let value = if how.saturate { saturate(value) } else { value };
    let half = to_half::<T>(value, how.rounding);
    if how.saturate_finite && half.wide().is_infinite() {
        return T::from_bits(half.bits() & 0x8000 | (T::INFINITE - 1));
    }
    half
}

/// The value of an integer type in the low bits of a register.
fn widen(bits: u64, type_: Type) -> i128 {
    let shift = 64 - 8 * u32::from(type_.bytes());
    if type_.is_signed() {
        i128::from((bits << shift) as i64 >> shift)
    } else {
        i128::from(bits << shift >> shift)
    }
}

/// The bits of an integer in a type, wrapped or saturated; a narrow signed one is extended to its
/// register.
fn fit(value: i128, type_: Type, saturate: bool) -> u64 {
    let bits = 8 * u32::from(type_.bytes());
    let (least, most) = if type_.is_signed() {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    let value = if saturate { value.clamp(least, most) } else { value };
    widen(value as u64, type_) as u64
}

/// The class of the register that an operand is, or of its type.
fn class_of(site: &Site<'_, '_>, operand: usize, type_: Type) -> Class {
    match site.operands.get(operand) {
        Some(Operand::Register(class, _)) => *class,
        _ => type_.class(),
    }
}

fn between_integers(site: &mut Site<'_, '_>, to: Type, from: Type, how: How) -> Result<Op> {
    let saturate = how.saturate;
    match (class_of(site, 0, to), class_of(site, 1, from), to.bytes(), saturate) {
        // The common ones, without 128 bits.
        (Class::Double, Class::Word, 8, false) if from == Type::S32 => {
            site.unary(|a: i32| i64::from(a))
        }
        (Class::Double, Class::Word, 8, false) if from == Type::U32 => {
            site.unary(|a: u32| u64::from(a))
        }
        (Class::Word, Class::Double, 4, false) if from.bytes() == 8 => {
            site.unary(|a: u64| a as u32)
        }
        (Class::Word, ..) => of_integer(site, from, move |it| fit(it, to, saturate) as u32),
        _ => of_integer(site, from, move |it| fit(it, to, saturate)),
    }
}

/// An operation on an integer of a type in a register of either class.
fn of_integer<R: Lane>(
    site: &mut Site<'_, '_>,
    from: Type,
    f: impl Fn(i128) -> R + Send + Sync + 'static,
) -> Result<Op> {
    match class_of(site, 1, from) {
        Class::Double => site.unary(move |a: u64| f(widen(a, from))),
        _ => site.unary(move |a: u32| f(widen(u64::from(a), from))),
    }
}

/// Floats are clamped to the range of the integer; NaN becomes 0, except in 64 bits.
fn to_integer(site: &mut Site<'_, '_>, to: Type, from: Type, how: How) -> Result<Op> {
    let rounding = how.integral.ok_or_else(|| site.error("no rounding"))?;
    let convert = move |value: f64| {
        if value.is_nan() {
            return match to {
                Type::U64 | Type::S64 => 1 << 63,
                _ => 0,
            };
        }
        // `as` saturates.
        fit(integral(value, rounding) as i128, to, true)
    };
    let flushed = move |it: f32| f64::from(if how.flush { flush(it) } else { it });
    let wide = class_of(site, 0, to) == Class::Double;
    match from {
        Type::F32 => unary(site, wide, move |a: f32| convert(flushed(a))),
        Type::F64 => unary(site, wide, convert),
        Type::F16 => unary(site, wide, move |a: f16| convert(a.to_f64())),
        Type::Bf16 => unary(site, wide, move |a: bf16| convert(a.to_f64())),
        _ => Err(site.error("no such conversion")),
    }
}

/// An operation on one operand with a result of 64 bits, or the low 32 of them.
fn unary<A: Lane>(
    site: &mut Site<'_, '_>,
    wide: bool,
    f: impl Fn(A) -> u64 + Send + Sync + 'static,
) -> Result<Op> {
    if wide { site.unary(f) } else { site.unary(move |a| f(a) as u32) }
}

/// An integer as a double that was rounded to odd: exact below 2^53.
fn wide_odd(value: i128) -> f64 {
    let magnitude = value.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(53);
    let lost = magnitude & ((1 << excess) - 1) != 0;
    let kept = (magnitude >> excess | u128::from(lost)) << excess;
    let wide = kept as f64;
    if value < 0 { -wide } else { wide }
}

fn from_integer(site: &mut Site<'_, '_>, to: Type, from: Type, how: How) -> Result<Op> {
    let rounding = how.rounding;
    let is_plain = class_of(site, 1, from) != Class::Double && rounding == Rounding::Nearest;
    match to {
        Type::F32 if is_plain && from == Type::S32 => site.unary(|a: i32| a as f32),
        Type::F32 => of_integer(site, from, move |it| to_f32(wide_odd(it), rounding)),
        Type::F64 if rounding == Rounding::Nearest => of_integer(site, from, |it| it as f64),
        Type::F16 => of_integer(site, from, move |it| half_of_integer::<f16>(it, rounding)),
        Type::Bf16 => of_integer(site, from, move |it| half_of_integer::<bf16>(it, rounding)),
        _ => Err(site.error("no such conversion")),
    }
}

fn half_of_integer<T: Half>(value: i128, rounding: Rounding) -> T {
    to_half(f32_to_odd(wide_odd(value)), rounding)
}

fn between_floats(site: &mut Site<'_, '_>, to: Type, from: Type, how: How) -> Result<Op> {
    let before = move |it: f32| if how.flush { flush(it) } else { it };
    let round = move |it: f64| how.integral.map_or(it, |rounding| integral(it, rounding));
    let after = move |it: f32| {
        let it = if how.flush { flush(it) } else { it };
        if how.saturate { saturate(it) } else { it }
    };
    match (to, from) {
        (Type::F32, Type::F32) => {
            site.unary(move |a: f32| after(round(f64::from(before(a))) as f32))
        }
        (Type::F64, Type::F64) => site.unary(move |a: f64| {
            let a = round(a);
            if how.saturate { a.max(0.0).clamp(0.0, 1.0) } else { a }
        }),
        (Type::F64, Type::F32) => site.unary(move |a: f32| f64::from(before(a))),
        (Type::F32, Type::F64) => site.unary(move |a: f64| after(to_f32(a, how.rounding))),
        (Type::F32, Type::F16) => site.unary(move |a: f16| after(a.to_f32())),
        (Type::F32, Type::Bf16) => site.unary(move |a: bf16| after(a.to_f32())),
        (Type::F64, Type::F16) => site.unary(move |a: f16| a.to_f64()),
        (Type::F64, Type::Bf16) => site.unary(move |a: bf16| a.to_f64()),
        (Type::F16, Type::F32) => site.unary(move |a: f32| half_of::<f16>(a, how)),
        (Type::Bf16, Type::F32) => site.unary(move |a: f32| half_of::<bf16>(a, how)),
        (Type::F16, Type::F64) => site.unary(move |a: f64| half_of::<f16>(f32_to_odd(a), how)),
        (Type::Bf16, Type::F64) => site.unary(move |a: f64| half_of::<bf16>(f32_to_odd(a), how)),
        (Type::F16, Type::F16) => {
            site.unary(move |a: f16| half_of::<f16>(round(f64::from(a.to_f32())) as f32, how))
        }
        (Type::Bf16, Type::Bf16) => {
            site.unary(move |a: bf16| half_of::<bf16>(round(f64::from(a.to_f32())) as f32, how))
        }
        (Type::Bf16, Type::F16) => site.unary(move |a: f16| half_of::<bf16>(a.to_f32(), how)),
        (Type::F16, Type::Bf16) => site.unary(move |a: bf16| half_of::<f16>(a.to_f32(), how)),
        _ => Err(site.error("no such conversion")),
    }
}

//! Comparisons, and choices by them.

use half::{bf16, f16};

use super::site::Site;
use super::types::Type;
use crate::code::{BoolOp, Compare, Op};
use crate::number::{Half, flush};
use crate::parse::{Operand, Result};
use crate::registers::{Class, Pair, Relation, relation, select};

/// A comparison operator.
#[derive(Clone, Copy)]
struct Test {
    less: bool,
    equal: bool,
    greater: bool,
    /// If one is NaN.
    unordered: bool,
}

impl Test {
    fn parse(name: &str) -> Option<Self> {
        let test = |less, equal, greater, unordered| Some(Self { less, equal, greater, unordered });
        match name {
            "eq" => test(false, true, false, false),
            "ne" => test(true, false, true, false),
            "lt" | "lo" => test(true, false, false, false),
            "le" | "ls" => test(true, true, false, false),
            "gt" | "hi" => test(false, false, true, false),
            "ge" | "hs" => test(false, true, true, false),
            "equ" => test(false, true, false, true),
            "neu" => test(true, false, true, true),
            "ltu" => test(true, false, false, true),
            "leu" => test(true, true, false, true),
            "gtu" => test(false, false, true, true),
            "geu" => test(false, true, true, true),
            "num" => test(true, true, true, false),
            "nan" => test(false, false, false, true),
            _ => None,
        }
    }

    #[inline(always)]
    fn of<T: PartialOrd>(self, a: T, b: T) -> bool {
        let (less, equal, greater) = (a < b, a == b, a > b);
        self.less & less
            | self.equal & equal
            | self.greater & greater
            | self.unordered & !(less | equal | greater)
    }
}

const TESTS: &[&str] = &[
    "eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs", "equ", "neu", "ltu", "leu", "gtu",
    "geu", "num", "nan",
];

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.opcode.base {
        "selp" => choose(site),
        "slct" => choose_by_sign(site),
        _ => {
            let name = site.opcode.take_any(TESTS).unwrap_or("");
            let test = Test::parse(name).ok_or_else(|| site.error("no comparison"))?;
            let combine = match site.opcode.take_any(&["and", "or", "xor"]) {
                None => None,
                Some("and") => Some(BoolOp::And),
                Some("or") => Some(BoolOp::Or),
                Some(_) => Some(BoolOp::Xor),
            };
            let ftz = site.opcode.take("ftz");
            if site.opcode.base == "set" {
                return set(site, test, combine);
            }
            let type_ = site.take_type()?;
            if matches!(type_, Type::F16x2 | Type::Bf16x2) {
                return Err(site.error("comparisons of pairs are not known"));
            }
            let relation = of_type(site, test, type_, ftz)?;
            compare(site, relation, type_.class(), 2, combine)
        }
    }
}

/// A relation of two rows, specialized for the common questions about integers.
fn of_type(site: &Site<'_, '_>, test: Test, type_: Type, ftz: bool) -> Result<Relation> {
    macro_rules! by {
        ($type:ty) => {
            match (test.less, test.equal, test.greater) {
                (false, true, false) => relation(|a: $type, b: $type| a == b),
                (true, false, true) => relation(|a: $type, b: $type| a != b),
                (true, false, false) => relation(|a: $type, b: $type| a < b),
                (true, true, false) => relation(|a: $type, b: $type| a <= b),
                (false, false, true) => relation(|a: $type, b: $type| a > b),
                _ => relation(|a: $type, b: $type| a >= b),
            }
        };
    }
    Ok(match type_ {
        Type::U16 | Type::B16 => by!(u16),
        Type::S16 => by!(i16),
        Type::U32 | Type::B32 => by!(u32),
        Type::S32 => by!(i32),
        Type::U64 | Type::B64 => by!(u64),
        Type::S64 => by!(i64),
        Type::F32 if ftz => relation(move |a: f32, b: f32| test.of(flush(a), flush(b))),
        Type::F32 => relation(move |a: f32, b: f32| test.of(a, b)),
        Type::F64 => relation(move |a: f64, b: f64| test.of(a, b)),
        Type::F16 => relation(move |a: f16, b: f16| test.of(a.wide(), b.wide())),
        Type::Bf16 => relation(move |a: bf16, b: bf16| test.of(a.wide(), b.wide())),
        _ => return Err(site.error("no such type")),
    })
}

/// An instruction that sets predicates: `p|q, a, b, c`, with `n` operands that are compared.
pub(super) fn compare(
    site: &mut Site<'_, '_>,
    relation: Relation,
    class: Class,
    n: usize,
    combine: Option<BoolOp>,
) -> Result<Op> {
    let (to, negated) = match site.operand(0)? {
        Operand::Both(both) => (
            site.destination(Class::Predicate, &both.0)?,
            Some(site.destination(Class::Predicate, &both.1)?),
        ),
        to => (site.destination(Class::Predicate, to)?, None),
    };
    let a = site.source(class, site.operand(1)?)?;
    let b = if n == 2 { site.source(class, site.operand(2)?)? } else { a };
    let with = match combine {
        Some(combine) => Some((combine, site.flag(site.operand(n + 1)?)?)),
        None => None,
    };
    Ok(Op::Compare(Compare { relation, a, b, to, negated, with }))
}

/// `set`: the comparison as a number.
fn set(site: &mut Site<'_, '_>, test: Test, combine: Option<BoolOp>) -> Result<Op> {
    if combine.is_some() {
        return Err(site.error("combinations are not known"));
    }
    let (to, from) = (site.take_type()?, site.take_type()?);
    let one = match to {
        Type::F32 => 1.0f32.to_bits(),
        Type::U32 | Type::S32 => u32::MAX,
        Type::F16 => 0x3C00,
        Type::Bf16 => 0x3F80,
        _ => return Err(site.error("no such type")),
    };
    let choose = move |holds: bool| if holds { one } else { 0 };
    match from {
        Type::U32 | Type::B32 => site.binary(move |a: u32, b: u32| choose(test.of(a, b))),
        Type::S32 => site.binary(move |a: i32, b: i32| choose(test.of(a, b))),
        Type::U64 | Type::B64 => site.binary(move |a: u64, b: u64| choose(test.of(a, b))),
        Type::S64 => site.binary(move |a: i64, b: i64| choose(test.of(a, b))),
        Type::F32 => site.binary(move |a: f32, b: f32| choose(test.of(a, b))),
        Type::F64 => site.binary(move |a: f64, b: f64| choose(test.of(a, b))),
        Type::F16 => site.binary(move |a: f16, b: f16| choose(test.of(a.wide(), b.wide()))),
        Type::Bf16 => site.binary(move |a: bf16, b: bf16| choose(test.of(a.wide(), b.wide()))),
        Type::F16x2 => site.binary(move |a: Pair<f16>, b: Pair<f16>| {
            pair_of(to, test.of(a.0.wide(), b.0.wide()), test.of(a.1.wide(), b.1.wide()))
        }),
        Type::Bf16x2 => site.binary(move |a: Pair<bf16>, b: Pair<bf16>| {
            pair_of(to, test.of(a.0.wide(), b.0.wide()), test.of(a.1.wide(), b.1.wide()))
        }),
        _ => Err(site.error("no such type")),
    }
}

fn pair_of(to: Type, low: bool, high: bool) -> u32 {
    let one = match to {
        Type::F16x2 | Type::F16 => 0x3C00,
        Type::Bf16x2 | Type::Bf16 => 0x3F80,
        _ => 0xFFFF,
    };
    (u32::from(low) * one) | (u32::from(high) * (one << 16))
}

/// `selp`.
fn choose(site: &mut Site<'_, '_>) -> Result<Op> {
    let class = site.take_type()?.class();
    let rows = if class == Class::Double { select::<u64>() } else { select::<u32>() };
    let operands = site.operands;
    let [to, a, b, by] = operands else { return Err(site.error("expected 4 operands")) };
    let (mut a, mut b) = (site.source(class, a)?, site.source(class, b)?);
    let by = site.flag(by)?;
    if by.negated {
        std::mem::swap(&mut a, &mut b);
    }
    let to = site.destination(class, to)?;
    Ok(Op::Lanewise(rows, [to, a, b, by.slot, 0]))
}

/// `slct`: by whether the third operand is negative.
fn choose_by_sign(site: &mut Site<'_, '_>) -> Result<Op> {
    let ftz = site.opcode.take("ftz");
    let class = site.take_type()?.class();
    let by_float = site.take_type()? == Type::F32;
    let positive = move |it: u32| {
        if !by_float {
            return it as i32 >= 0;
        }
        let value = f32::from_bits(it);
        if ftz { flush(value) >= 0.0 } else { value >= 0.0 }
    };
    match class {
        Class::Double => {
            site.ternary(move |a: u64, b: u64, c: u32| if positive(c) { a } else { b })
        }
        _ => site.ternary(move |a: u32, b: u32, c: u32| if positive(c) { a } else { b }),
    }
}

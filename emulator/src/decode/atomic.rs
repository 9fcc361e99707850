//! Atomic operations on memory, with and without the old value.

use half::{bf16, f16};

use super::memory::{take_space, take_strength, take_vector};
use super::site::Site;
use super::types::Type;
use crate::code::{Atomic, AtomicFn, Op, Strength};
use crate::number::{self, Half};
use crate::parse::Result;

const OPERATIONS: &[&str] = &["add", "min", "max", "and", "or", "xor", "exch", "cas", "inc", "dec"];

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let with_result = site.opcode.base == "atom";
    let strength = Strength { strong: true, ..take_strength(site) };
    let space = take_space(site)?;
    let operation = site.opcode.take_any(OPERATIONS).ok_or_else(|| site.error("no operation"))?;
    site.opcode.take("noftz");
    let n = take_vector(site);
    let type_ = site.take_type()?;
    let combine = combination(site, operation, type_)?;
    let first = usize::from(with_result);
    let address = site.address(site.operand(first)?)?;
    let to = match with_result {
        true => site.any_destination_of_each(type_.class(), Site::parts(site.operand(0)?))?,
        false => Vec::new(),
    };
    let from = site.any_of_each(type_.class(), Site::parts(site.operand(first + 1)?))?;
    if from.len() != n || with_result && to.len() != n {
        return Err(site.error(format!("expected {n} values")));
    }
    let swap = match operation {
        "cas" => Some(site.any(type_.class(), site.operand(first + 2)?)?),
        _ => None,
    };
    let bytes = type_.bytes();
    Ok(Op::Atomic(Atomic { space, address, bytes, to, from, swap, combine, strength }))
}

/// Returns the function of the old value and the operand.
fn combination(site: &Site<'_, '_>, operation: &str, type_: Type) -> Result<AtomicFn> {
    let known: Option<fn(u64, u64) -> u64> = match (operation, type_) {
        ("exch" | "cas", _) => Some(|_, b| b),
        ("and", _) => Some(|a, b| a & b),
        ("or", _) => Some(|a, b| a | b),
        ("xor", _) => Some(|a, b| a ^ b),
        ("add", it) if it.is_integer() => Some(u64::wrapping_add),
        ("min", Type::U32 | Type::U64) => Some(u64::min),
        ("max", Type::U32 | Type::U64) => Some(u64::max),
        ("min", Type::S32) => Some(|a, b| (a as i32).min(b as i32) as u64),
        ("max", Type::S32) => Some(|a, b| (a as i32).max(b as i32) as u64),
        ("min", Type::S64) => Some(|a, b| (a as i64).min(b as i64) as u64),
        ("max", Type::S64) => Some(|a, b| (a as i64).max(b as i64) as u64),
        ("inc", Type::U32) => Some(|a, b| if a >= b { 0 } else { a + 1 }),
        ("dec", Type::U32) => Some(|a, b| if a == 0 || a > b { b } else { a - 1 }),
        ("add", Type::F32) => Some(|a, b| {
            let sum = f32::from_bits(a as u32) + f32::from_bits(b as u32);
            u64::from(sum.to_bits())
        }),
        ("add", Type::F64) => Some(|a, b| (f64::from_bits(a) + f64::from_bits(b)).to_bits()),
        (_, Type::F16 | Type::F16x2) => halves::<f16>(operation),
        (_, Type::Bf16 | Type::Bf16x2) => halves::<bf16>(operation),
        _ => None,
    };
    known.ok_or_else(|| site.error("no such operation on this type"))
}

fn halves<T: Half>(operation: &str) -> Option<AtomicFn> {
    fn each<T: Half>(a: u64, b: u64, f: fn(f32, f32) -> f32) -> u64 {
        let half = |shift: u32| {
            let (a, b) = (T::from_bits((a >> shift) as u16), T::from_bits((b >> shift) as u16));
            u64::from(T::narrow(f(a.wide(), b.wide())).bits()) << shift
        };
        half(0) | half(16)
    }
    Some(match operation {
        "add" => |a, b| each::<T>(a, b, |a, b| a + b),
        "min" => |a, b| each::<T>(a, b, number::min),
        "max" => |a, b| each::<T>(a, b, number::max),
        _ => return None,
    })
}

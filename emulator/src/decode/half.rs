//! Arithmetic of 16-bit floats, alone and in pairs: computed wider, rounded once.

use half::{bf16, f16};

use super::site::Site;
use super::types::Type;
use crate::code::Op;
use crate::number::{self, Half, sum_to_odd};
use crate::parse::Result;
use crate::registers::{Lane, Pair};

/// Modifiers of the results.
#[derive(Clone, Copy)]
struct Finish {
    flush: bool,
    saturate: bool,
    relu: bool,
    nan: bool,
}

impl Finish {
    fn after<T: Half>(self, value: T) -> T {
        let wide = value.wide();
        if self.relu && wide <= 0.0 {
            return T::from_bits(0);
        }
        if self.saturate && !(0.0..=1.0).contains(&wide) {
            return T::narrow(if wide > 1.0 { 1.0 } else { 0.0 });
        }
        self.before(value)
    }

    fn before<T: Half>(self, value: T) -> T {
        let bits = value.bits();
        let subnormal = bits & T::INFINITE == 0;
        if self.flush && subnormal { T::from_bits(bits & 0x8000) } else { value }
    }
}

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    site.opcode.take("rn");
    site.opcode.take("approx");
    let finish = Finish {
        flush: site.opcode.take("ftz"),
        saturate: site.opcode.take("sat"),
        relu: site.opcode.take("relu"),
        nan: site.opcode.take("NaN"),
    };
    match site.take_type()? {
        Type::F16 => alone::<f16>(site, finish),
        Type::Bf16 => alone::<bf16>(site, finish),
        Type::F16x2 => paired::<f16>(site, finish),
        _ => paired::<bf16>(site, finish),
    }
}

/// An operation of up to three halves.
type Function<T> = fn(T, T, T, Finish) -> T;

/// The operation of an opcode, and how many operands it has.
fn function<T: Half>(base: &str) -> Option<(usize, Function<T>)> {
    Some(match base {
        "add" => (2, |a, b, _, _| T::narrow(a.wide() + b.wide())),
        "sub" => (2, |a, b, _, _| T::narrow(a.wide() - b.wide())),
        "mul" => (2, |a, b, _, _| T::narrow(a.wide() * b.wide())),
        "fma" => (3, |a, b, c, _| {
            let product = f64::from(a.wide()) * f64::from(b.wide());
            T::narrow_odd(sum_to_odd(product, f64::from(c.wide())))
        }),
        "min" => (2, |a, b, _, finish| pick(a, b, finish, number::min)),
        "max" => (2, |a, b, _, finish| pick(a, b, finish, number::max)),
        "neg" => (1, |a, _, _, _| T::from_bits(a.bits() ^ 0x8000)),
        "abs" => (1, |a, _, _, _| T::from_bits(a.bits() & 0x7FFF)),
        "ex2" => (1, |a, _, _, _| T::narrow_odd(f64::from(a.wide()).exp2())),
        "tanh" => (1, |a, _, _, _| T::narrow_odd(f64::from(a.wide()).tanh())),
        _ => return None,
    })
}

fn pick<T: Half>(a: T, b: T, finish: Finish, of: fn(f32, f32) -> f32) -> T {
    if finish.nan && (a.wide().is_nan() || b.wide().is_nan()) {
        return T::narrow(f32::NAN);
    }
    T::narrow(of(a.wide(), b.wide()))
}

fn alone<T: Half + Lane>(site: &mut Site<'_, '_>, finish: Finish) -> Result<Op> {
    let Some((n, f)) = function::<T>(site.opcode.base) else {
        return Err(site.error("unknown instruction"));
    };
    let zero = T::from_bits(0);
    let apply = move |a: T, b: T, c: T| {
        finish.after(f(finish.before(a), finish.before(b), finish.before(c), finish))
    };
    match n {
        1 => site.unary(move |a: T| apply(a, zero, zero)),
        2 => site.binary(move |a: T, b: T| apply(a, b, zero)),
        _ => site.ternary(apply),
    }
}

fn paired<T: Half>(site: &mut Site<'_, '_>, finish: Finish) -> Result<Op>
where
    Pair<T>: Lane,
{
    let Some((n, f)) = function::<T>(site.opcode.base) else {
        return Err(site.error("unknown instruction"));
    };
    let zero = Pair(T::from_bits(0), T::from_bits(0));
    let one = move |a: T, b: T, c: T| {
        finish.after(f(finish.before(a), finish.before(b), finish.before(c), finish))
    };
    let apply =
        move |a: Pair<T>, b: Pair<T>, c: Pair<T>| Pair(one(a.0, b.0, c.0), one(a.1, b.1, c.1));
    match n {
        1 => site.unary(move |a: Pair<T>| apply(a, zero, zero)),
        2 => site.binary(move |a: Pair<T>, b: Pair<T>| apply(a, b, zero)),
        _ => site.ternary(apply),
    }
}

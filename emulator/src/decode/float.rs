//! Arithmetic of single and double precision.

use super::site::Site;
use super::types::Type;
use crate::code::Op;
use crate::number::{
    NAN, Rounding, flush, fma_fast, fma_in_doubt, max, min, quotient_to_odd, root_to_odd, saturate,
    sum_to_odd, to_f32,
};
use crate::parse::Result;
use crate::registers::{Class, LANES, Lane, Lanewise};

/// Modifiers of operands and results.
#[derive(Clone, Copy)]
struct Finish {
    flush: bool,
    saturate: bool,
}

impl Finish {
    fn before(self, value: f32) -> f32 {
        if self.flush { flush(value) } else { value }
    }

    fn after(self, value: f32) -> f32 {
        let value = if self.flush { flush(value) } else { value };
        if self.saturate { saturate(value) } else { value }
    }

    fn is_plain(self) -> bool {
        !self.flush && !self.saturate
    }

    fn unary(
        self,
        site: &mut Site<'_, '_>,
        f: impl Fn(f32) -> f32 + Send + Sync + 'static,
    ) -> Result<Op> {
        site.unary(move |a: f32| self.after(f(self.before(a))))
    }

    fn binary(
        self,
        site: &mut Site<'_, '_>,
        f: impl Fn(f32, f32) -> f32 + Send + Sync + 'static,
    ) -> Result<Op> {
        if self.is_plain() {
            return site.binary(f);
        }
        site.binary(move |a: f32, b: f32| self.after(f(self.before(a), self.before(b))))
    }
}

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.type_()? {
        Type::F64 => double(site),
        _ => single(site),
    }
}

fn single(site: &mut Site<'_, '_>) -> Result<Op> {
    let rounding = site.take_rounding().unwrap_or(Rounding::Nearest);
    let finish = Finish { flush: site.opcode.take("ftz"), saturate: site.opcode.take("sat") };
    let approximate = site.opcode.take_any(&["approx", "full"]).is_some();
    let nan = site.opcode.take("NaN");
    let xorsign = site.opcode.take("xorsign");
    let by_magnitude = xorsign && site.opcode.take("abs");
    if site.opcode.base == "testp" {
        return test(site);
    }
    site.take_type()?;
    let nearest = rounding == Rounding::Nearest;
    let round = move |value: f64| to_f32(value, rounding);
    match site.opcode.base {
        "add" if nearest => finish.binary(site, |a, b| a + b),
        "add" => finish.binary(site, move |a, b| round(sum_to_odd(f64::from(a), f64::from(b)))),
        "sub" if nearest => finish.binary(site, |a, b| a - b),
        "sub" => finish.binary(site, move |a, b| round(sum_to_odd(f64::from(a), -f64::from(b)))),
        "mul" if nearest => finish.binary(site, |a, b| a * b),
        "mul" => finish.binary(site, move |a, b| round(f64::from(a) * f64::from(b))),
        "div" if nearest || approximate => finish.binary(site, |a, b| a / b),
        "div" => {
            finish.binary(site, move |a, b| round(quotient_to_odd(f64::from(a), f64::from(b))))
        }
        "fma" | "mad" if nearest => {
            site.rows(fused(finish), Class::Word, &[Class::Word, Class::Word, Class::Word])
        }
        "fma" | "mad" => site.ternary(move |a: f32, b: f32, c: f32| {
            let (a, b, c) = (finish.before(a), finish.before(b), finish.before(c));
            finish.after(round(sum_to_odd(f64::from(a) * f64::from(b), f64::from(c))))
        }),
        "rcp" => finish.unary(site, move |a| round(quotient_to_odd(1.0, f64::from(a)))),
        "sqrt" => finish.unary(site, move |a| round(root_to_odd(f64::from(a)))),
        "rsqrt" => finish.unary(site, |a| (1.0 / f64::from(a).sqrt()) as f32),
        "ex2" => finish.unary(site, |a| f64::from(a).exp2() as f32),
        "lg2" => finish.unary(site, |a| f64::from(a).log2() as f32),
        "sin" => finish.unary(site, |a| f64::from(a).sin() as f32),
        "cos" => finish.unary(site, |a| f64::from(a).cos() as f32),
        "tanh" => finish.unary(site, |a| f64::from(a).tanh() as f32),
        // Signs change in NaN and in subnormal numbers too.
        "neg" => finish.unary(site, |a| -a),
        "abs" => finish.unary(site, f32::abs),
        "copysign" => site.binary(|a: f32, b: f32| b.copysign(a)),
        "min" | "max" => {
            let pick = if site.opcode.base == "min" { min } else { max };
            finish.binary(site, move |a, b| {
                if nan && (a.is_nan() || b.is_nan()) {
                    return NAN;
                }
                if !by_magnitude {
                    return pick(a, b);
                }
                let sign = (a.to_bits() ^ b.to_bits()) & 1 << 31;
                f32::from_bits(pick(a.abs(), b.abs()).to_bits() | sign)
            })
        }
        _ => Err(site.error("unknown instruction")),
    }
}

/// Fused products, fast where the rounding is beyond doubt in all lanes.
fn fused(finish: Finish) -> Lanewise {
    Box::new(move |registers, mask, slots| {
        let row = |n: usize| f32::row(registers, slots[n]);
        let (a, b, c) = (row(1), row(2), row(3));
        let mut out = [0; LANES];
        let mut doubt = !finish.is_plain();
        if !doubt {
            for (((out, a), b), c) in out.iter_mut().zip(a).zip(b).zip(c) {
                let sum = fma_fast(f32::of(*a), f32::of(*b), f32::of(*c));
                doubt |= fma_in_doubt(sum);
                *out = (sum as f32).to_bits();
            }
        }
        if doubt {
            for lane in 0..LANES {
                let get = |row: &[u32; LANES]| finish.before(f32::from_bits(row[lane]));
                out[lane] = finish.after(get(a).mul_add(get(b), get(c))).to_bits();
            }
        }
        registers.write::<f32>(slots[0], mask, &out);
    })
}

fn double(site: &mut Site<'_, '_>) -> Result<Op> {
    let rounding = site.take_rounding().unwrap_or(Rounding::Nearest);
    let approximate = site.opcode.take("approx");
    if site.opcode.base == "testp" {
        return test(site);
    }
    site.take_type()?;
    if rounding != Rounding::Nearest {
        return Err(site.error("double precision rounds to nearest only"));
    }
    if approximate {
        site.opcode.take("ftz");
    }
    match site.opcode.base {
        "add" => site.binary(|a: f64, b: f64| a + b),
        "sub" => site.binary(|a: f64, b: f64| a - b),
        "mul" => site.binary(|a: f64, b: f64| a * b),
        "div" => site.binary(|a: f64, b: f64| a / b),
        "fma" | "mad" => site.ternary(|a: f64, b: f64, c: f64| a.mul_add(b, c)),
        // The approximate ones know 20 bits of the mantissa.
        "rcp" if approximate => site.unary(|a: f64| coarse(1.0 / a)),
        "rsqrt" if approximate => site.unary(|a: f64| coarse(1.0 / a.sqrt())),
        "rcp" => site.unary(|a: f64| 1.0 / a),
        "sqrt" => site.unary(f64::sqrt),
        "neg" => site.unary(|a: f64| -a),
        "abs" => site.unary(f64::abs),
        "copysign" => site.binary(|a: f64, b: f64| b.copysign(a)),
        "min" => site.binary(|a: f64, b: f64| pick(a, b, a < b, |x, y| x | y)),
        "max" => site.binary(|a: f64, b: f64| pick(a, b, a > b, |x, y| x & y)),
        _ => Err(site.error("unknown instruction")),
    }
}

fn coarse(value: f64) -> f64 {
    f64::from_bits(value.to_bits() & 0xFFFF_FFFF_0000_0000)
}

/// `a` if it is first, else `b`; a number beats NaN; of two zeros, what the bits say.
fn pick(a: f64, b: f64, first: bool, of_equal: fn(u64, u64) -> u64) -> f64 {
    if a.is_nan() || b.is_nan() {
        return if a.is_nan() { b } else { a };
    }
    if a == b {
        return f64::from_bits(of_equal(a.to_bits(), b.to_bits()));
    }
    if first { a } else { b }
}

/// `testp`: what kind of number it is.
fn test(site: &mut Site<'_, '_>) -> Result<Op> {
    let kinds = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
    let kind = site.opcode.take_any(&kinds);
    let type_ = site.take_type()?;
    let holds = move |a: f64, subnormal: bool, normal: bool| match kind {
        Some("finite") => a.is_finite(),
        Some("infinite") => a.is_infinite(),
        Some("number") => !a.is_nan(),
        Some("notanumber") => a.is_nan(),
        Some("normal") => normal,
        _ => subnormal,
    };
    let relation = match type_ {
        Type::F32 => crate::registers::relation(move |a: f32, _: f32| {
            holds(f64::from(a), a.is_subnormal(), a.is_normal())
        }),
        _ => crate::registers::relation(move |a: f64, _: f64| {
            holds(a, a.is_subnormal(), a.is_normal())
        }),
    };
    super::compare::compare(site, relation, type_.class(), 1, None)
}

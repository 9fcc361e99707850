//! Arithmetic with carries, of which long integers are made.

use super::site::Site;
use crate::code::Op;
use crate::parse::Result;
use crate::registers::{Class, LANES, Register, Registers, Slot};

/// The sum of an instruction: `a + b`, `a - b`, or a half of `a * b` and `c`.
#[derive(Clone, Copy)]
enum Sum {
    Add,
    Subtract,
    Low,
    High,
}

/// Returns whether an opcode reads or writes the carry.
pub(super) fn is_carried(site: &Site<'_, '_>) -> bool {
    matches!(site.opcode.base, "addc" | "subc" | "madc") || site.opcode.has("cc")
}

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let operation = match (site.opcode.base, site.opcode.take_any(&["lo", "hi"])) {
        ("add" | "addc", None) => Sum::Add,
        ("sub" | "subc", None) => Sum::Subtract,
        ("mad" | "madc", Some("lo")) => Sum::Low,
        ("mad" | "madc", Some("hi")) => Sum::High,
        _ => return Err(site.error("unknown instruction")),
    };
    let reads = site.opcode.base.ends_with('c');
    let writes = site.opcode.take("cc");
    let type_ = site.take_type()?;
    let (class, signed) = (type_.class(), type_.is_signed());
    let carry = site.carry();
    let to = site.destination(class, site.operand(0)?)?;
    let from = site.sources(class, &site.operands[1..])?;
    if from.len() != if matches!(operation, Sum::Add | Sum::Subtract) { 2 } else { 3 } {
        return Err(site.error("operands"));
    }
    let rows = Box::new(move |registers: &mut Registers, mask: u32, _: &[Slot; 5]| {
        let before = if reads { registers.predicate(carry) } else { 0 };
        let (mut values, mut after) = ([0u64; LANES], 0);
        for (lane, value) in values.iter_mut().enumerate() {
            let operand = |n: usize| registers.get(Register { class, slot: from[n] }, lane);
            let all: [u64; 3] =
                std::array::from_fn(|n| if n < from.len() { operand(n) } else { 0 });
            let (sum, carried) = one(operation, all, before >> lane & 1 == 1, class, signed);
            *value = sum;
            after |= u32::from(carried) << lane;
        }
        registers.set_lanes(Register { class, slot: to }, mask, &values);
        if writes {
            registers.set_predicate(carry, mask, after);
        }
    });
    Ok(Op::Lanewise(rows, [0; 5]))
}

/// The result and the carry, or for differences the borrow.
fn one(
    operation: Sum,
    [a, b, c]: [u64; 3],
    carry: bool,
    class: Class,
    signed: bool,
) -> (u64, bool) {
    let bits = if class == Class::Double { 64 } else { 32 };
    let mask = u64::MAX >> (64 - bits);
    let carry = u128::from(carry);
    let (x, y) = match operation {
        Sum::Add | Sum::Subtract => (a, b),
        Sum::Low => (a.wrapping_mul(b) & mask, c),
        Sum::High if signed => {
            let wide = |it: u64| i128::from((it << (64 - bits)) as i64 >> (64 - bits));
            (((wide(a) * wide(b)) >> bits) as u64 & mask, c)
        }
        Sum::High => (((u128::from(a) * u128::from(b)) >> bits) as u64 & mask, c),
    };
    let sum = match operation {
        Sum::Subtract => u128::from(x).wrapping_sub(u128::from(y) + carry),
        _ => u128::from(x) + u128::from(y) + carry,
    };
    (sum as u64 & mask, sum >> bits & 1 == 1)
}

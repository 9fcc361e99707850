//! Moves, loads, stores, and conversions of addresses.

use super::site::Site;
use super::types::Type;
use crate::code::{Load, Logic, Op, Store, Strength};
use crate::parse::{Operand, Result, Special};
use crate::registers::{Class, Register, Registers};
use crate::space::Space;
use crate::space::{LOCAL_WINDOW, PARAMETER_WINDOW, SHARED_WINDOW};

/// `mov`, also between a register and the parts of one.
pub(super) fn decode_move(site: &mut Site<'_, '_>) -> Result<Op> {
    let type_ = site.take_type()?;
    let [to, from] = site.operands else { return Err(site.error("expected 2 operands")) };
    match (to, from) {
        (_, Operand::Special(Special::Clock)) => {
            Ok(Op::Clock(site.any_destination(type_.class(), to)?))
        }
        (Operand::Vector(parts), _) => unpack(site, type_, parts, from),
        (_, Operand::Vector(parts)) => pack(site, type_, to, parts),
        _ if type_ == Type::Predicate => {
            let to = site.destination(Class::Predicate, to)?;
            match from {
                Operand::Number(value) => Ok(Op::Logic(Logic::Constant(to, *value != 0))),
                _ => Ok(Op::Logic(Logic::Copy(to, site.flag(from)?))),
            }
        }
        _ if type_.class() == Class::Double => site.unary(|a: u64| a),
        _ => site.unary(|a: u32| a),
    }
}

fn unpack<'a>(
    site: &mut Site<'_, 'a>,
    type_: Type,
    parts: &[Operand<'a>],
    from: &Operand<'a>,
) -> Result<Op> {
    let from = Register { class: type_.class(), slot: site.source(type_.class(), from)? };
    let bits = 8 * usize::from(type_.bytes()) / parts.len();
    let class = if bits == 64 { Class::Double } else { Class::Word };
    let to = site.destinations(class, parts)?;
    let rows = Box::new(move |registers: &mut Registers, mask: u32, _: &[u32; 5]| {
        // All parts are read before any is written: a part may be the source itself.
        let values: [u64; 32] = std::array::from_fn(|lane| registers.get(from, lane));
        for (n, to) in to.iter().enumerate() {
            let part = values.map(|it| (it >> (n * bits) & ((1 << bits) - 1)) as u32);
            registers.write::<u32>(*to, mask, &part);
        }
    });
    Ok(Op::Lanewise(rows, [0; 5]))
}

fn pack<'a>(
    site: &mut Site<'_, 'a>,
    type_: Type,
    to: &Operand<'a>,
    parts: &[Operand<'a>],
) -> Result<Op> {
    let bits = 8 * usize::from(type_.bytes()) / parts.len();
    let to = Register { class: type_.class(), slot: site.destination(type_.class(), to)? };
    let from = site.any_of_each(Class::Word, parts)?;
    let rows = Box::new(move |registers: &mut Registers, mask: u32, _: &[u32; 5]| {
        let values: [u64; 32] = std::array::from_fn(|lane| {
            from.iter().enumerate().fold(0, |all, (n, part)| {
                all | (registers.get(*part, lane) & ((1 << bits) - 1)) << (n * bits)
            })
        });
        registers.set_lanes(to, mask, &values);
    });
    Ok(Op::Lanewise(rows, [0; 5]))
}

pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    match site.opcode.base {
        "cvta" => convert_address(site),
        "isspacep" => {
            let space = take_space(site)?;
            let to = site.destination(Class::Predicate, site.operand(0)?)?;
            let address = site.any(Class::Double, site.operand(1)?)?;
            Ok(Op::IsSpace(to, address, space))
        }
        "st" => store(site),
        _ => load(site),
    }
}

/// Takes the state space of an access out.
pub(super) fn take_space(site: &mut Site<'_, '_>) -> Result<Space> {
    let spaces = [
        "global",
        "const",
        "local",
        "param",
        "param::entry",
        "param::func",
        "shared",
        "shared::cta",
        "shared::cluster",
    ];
    Ok(match site.opcode.take_any(&spaces) {
        None => Space::Generic,
        Some("global") => Space::Global,
        Some("const") => Space::Constant,
        Some("local") => Space::Local,
        // Parameters of kernels have a space of their own; those of functions are local.
        Some("param" | "param::entry" | "param::func") => Space::Parameter,
        Some(_) => Space::Shared,
    })
}

/// Takes out what an access promises, and drops hints about caches.
pub(super) fn take_strength(site: &mut Site<'_, '_>) -> Strength {
    let order = site.opcode.take_any(&[
        "weak", "relaxed", "acquire", "release", "acq_rel", "volatile", "mmio", "seq_cst",
    ]);
    site.opcode.take_any(&["cta", "cluster", "gpu", "sys"]);
    site.opcode.take_any(&["ca", "cg", "cs", "lu", "cv", "wb", "wt"]);
    while site.opcode.take_prefix("L1::").or_else(|| site.opcode.take_prefix("L2::")).is_some() {}
    Strength {
        strong: !matches!(order, None | Some("weak")),
        release: matches!(order, Some("release" | "acq_rel" | "seq_cst")),
    }
}

/// Parameters of functions, and what callers put together for them, are in local memory.
fn space_of(site: &Site<'_, '_>, space: Space, address: &Operand<'_>) -> Space {
    match address {
        Operand::Address(base, ..) if space == Space::Parameter => match **base {
            Operand::Variable(n) if !site.frame.is_kernel_parameter(n) => Space::Local,
            _ => space,
        },
        _ => space,
    }
}

/// Takes out how many elements an access has.
pub(super) fn take_vector(site: &mut Site<'_, '_>) -> usize {
    match site.opcode.take_any(&["v2", "v4", "v8"]) {
        Some("v2") => 2,
        Some("v4") => 4,
        Some(_) => 8,
        None => 1,
    }
}

fn load(site: &mut Site<'_, '_>) -> Result<Op> {
    let hinted = site.opcode.has("L2::cache_hint");
    let space = take_space(site)?;
    let strength = take_strength(site);
    site.opcode.take_any(&["nc", "unified"]);
    let n = take_vector(site);
    let type_ = site.take_type()?;
    if site.operands.len() != 2 + usize::from(hinted) {
        return Err(site.error("expected 2 operands"));
    }
    let parts = Site::parts(site.operand(0)?);
    if parts.len() != n {
        return Err(site.error(format!("expected {n} destinations")));
    }
    let to = site.any_destination_of_each(type_.class(), parts)?;
    let from = site.operand(1)?;
    let space = space_of(site, space, from);
    let mut address = site.address(from)?;
    let (bytes, signed) = (type_.bytes(), type_.is_signed());
    let align = to.len() as u32;
    // A load may be wider than what is wanted of it: the rest is as if it had not been read.
    let is_used = |n: usize| {
        let element = ((1u64 << bytes) - 1) as u32;
        site.used().is_none_or(|it| it >> (n * usize::from(bytes)) & element != 0)
    };
    let first = (0..to.len()).position(is_used).unwrap_or(0);
    let last = (0..to.len()).rposition(is_used).unwrap_or(to.len() - 1);
    let to = to[first..=last].to_vec();
    let align = u32::from(bytes) * if first == 0 { align } else { 1 };
    address.offset += first as i64 * i64::from(bytes);
    Ok(Op::Load(Load { space, address, bytes, signed, to, align, strength }))
}

fn store(site: &mut Site<'_, '_>) -> Result<Op> {
    let hinted = site.opcode.has("L2::cache_hint");
    if site.opcode.base == "st" && site.opcode.has("async") {
        return Err(site.error("asynchronous stores are not known"));
    }
    let space = take_space(site)?;
    let strength = take_strength(site);
    let n = take_vector(site);
    let type_ = site.take_type()?;
    if site.operands.len() != 2 + usize::from(hinted) {
        return Err(site.error("expected 2 operands"));
    }
    let parts = Site::parts(site.operand(1)?);
    if parts.len() != n {
        return Err(site.error(format!("expected {n} values")));
    }
    let from = site.any_of_each(type_.class(), parts)?;
    let to = site.operand(0)?;
    let space = space_of(site, space, to);
    let address = site.address(to)?;
    Ok(Op::Store(Store { space, address, bytes: type_.bytes(), from, strength }))
}

/// `cvta`: windows of the generic address space begin where their spaces have zero.
fn convert_address(site: &mut Site<'_, '_>) -> Result<Op> {
    let back = site.opcode.take("to");
    let window = match take_space(site)? {
        Space::Shared => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Parameter => PARAMETER_WINDOW,
        _ => 0,
    };
    let type_ = site.take_type()?;
    if type_.class() == Class::Word {
        return Err(site.error("32-bit addresses are not known"));
    }
    if back {
        site.unary(move |a: u64| a.wrapping_sub(window))
    } else {
        site.unary(move |a: u64| a.wrapping_add(window))
    }
}

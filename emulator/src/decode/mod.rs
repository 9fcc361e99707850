//! Statements to instructions the machine runs: every modifier understood, every operand a row.
//!
//! A modifier that nobody asked for is an error, so that nothing is run by half its meaning.

mod arith;
mod atomic;
mod bits;
mod bulk;
mod carry;
mod compare;
mod control;
mod convert;
mod copy;
mod float;
mod half;
mod link;
mod matrix;
mod mbarrier;
mod memory;
mod site;
mod types;
mod warp;

pub(crate) use link::{Layout, Linked, link};

use site::Site;

use crate::code::Op;
use crate::parse::Result;

/// Decodes one statement.
fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let op = match site.opcode.base {
        _ if carry::is_carried(site) => carry::decode(site),
        "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "neg" | "abs" | "fma"
        | "sqrt" | "rsqrt" | "rcp" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
        | "testp" => match site.type_()? {
            types::Type::F32 | types::Type::F64 => float::decode(site),
            it if it.is_half() => half::decode(site),
            _ => arith::decode(site),
        },
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "lop3" | "prmt" | "bfe"
        | "bfi" | "popc" | "clz" | "brev" | "bfind" | "szext" | "bmsk" => bits::decode(site),
        "sad" | "mul24" | "mad24" | "dp4a" | "dp2a" => arith::decode(site),
        "setp" | "set" | "selp" | "slct" => compare::decode(site),
        "mov" => memory::decode_move(site),
        "cvt" => convert::decode(site),
        "cvta" | "isspacep" | "ld" | "ldu" | "st" => memory::decode(site),
        "cp" if site.opcode.has("bulk") => bulk::decode(site),
        "cp" => copy::decode(site),
        "mbarrier" => mbarrier::decode(site),
        "mapa" => mbarrier::map_address(site),
        "getctarank" => mbarrier::rank_of_address(site),
        "wgmma" => matrix::group_product(site),
        "ldmatrix" | "stmatrix" => matrix::moves(site),
        "mma" => matrix::product(site),
        "atom" | "red" => atomic::decode(site),
        "shfl" | "vote" | "match" | "redux" | "elect" | "activemask" => warp::decode(site),
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" | "bar" | "barrier"
        | "fence" | "membar" | "nanosleep" | "griddepcontrol" | "setmaxnreg" | "prefetch"
        | "prefetchu" | "discard" | "applypriority" | "createpolicy" => control::decode(site),
        _ => Err(site.error("unknown instruction")),
    }?;
    site.finish()?;
    Ok(op)
}

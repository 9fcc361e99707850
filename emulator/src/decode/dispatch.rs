//! The decoder of each opcode.

use super::site::Site;
use super::types::Type;
use super::{
    arith, atomic, bits, bulk, carry, compare, control, convert, cp_async, float, half, mbarrier,
    memory, mma, warp,
};
use crate::code::Op;
use crate::parse::Result;

/// Decodes one statement.
pub(super) fn decode(site: &mut Site<'_, '_>) -> Result<Op> {
    let op = match site.opcode.base {
        _ if carry::is_carried(site) => carry::decode(site),
        "add" | "sub" | "mul" | "mad" | "div" | "rem" | "min" | "max" | "neg" | "abs" | "fma"
        | "sqrt" | "rsqrt" | "rcp" | "ex2" | "lg2" | "sin" | "cos" | "tanh" | "copysign"
        | "testp" => match site.type_()? {
            Type::F32 | Type::F64 => float::decode(site),
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
        "cp" => cp_async::decode(site),
        "mbarrier" => mbarrier::decode(site),
        "mapa" => mbarrier::map_address(site),
        "getctarank" => mbarrier::rank_of_address(site),
        "wgmma" => mma::wgmma(site),
        "ldmatrix" | "stmatrix" => mma::ld_st_matrix(site),
        "mma" => mma::mma(site),
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

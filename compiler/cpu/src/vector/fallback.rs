//! Fallbacks: values that few arguments need, computed behind a branch.
//!
//! ```text
//! r = sin(x) by a short reduction; if any lane of x is large { r = select(x is large, sin(x) by the long one, r) }
//! ```
//!
//! Vector code is free of branches on data otherwise: they cost more than the few instructions that
//! they would skip. A fallback is several times as long as what it stands in for, and hardly ever
//! entered, so that a test and a jump are all that it costs.
//!
//! A fallback is a function of one vector, in a value graph of its own: nothing that it computes is
//! shared with code around it, which has to be right on both paths.

use super::numbering::{Op, ValueGraph, ValueId};
use super::{Reg, Simd};
use tvmtune_math::Fallback;

/// Returns a graph, and in it the value in `usual` replaced in the lanes that need the fallback.
pub(super) fn graph(fallback: Fallback, simd: Simd, x: Reg, usual: Reg) -> (ValueGraph, ValueId) {
    let mut graph = ValueGraph::new(simd);
    let (x, usual) = (graph.node(Op::Reg(x, 0)), graph.node(Op::Reg(usual, 0)));
    let condition = fallback.condition(&mut graph, x);
    let value = fallback.value(&mut graph, x);
    let value = graph.select(condition, value, usual);
    (graph, value)
}

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

use super::Reg;
use super::numbering::{Op, ValueGraph, ValueId};
use tvmtune_ir::target::Isa;

/// A function that stands in where the usual way to compute a value does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fallback {
    /// `sin(x + quarter_turns * pi / 2)` of a large `x`.
    Sine { quarter_turns: i32 },
}

impl Fallback {
    /// Returns a graph, and in it the value in `usual` replaced in the lanes that need it.
    pub(super) fn graph(self, isa: Isa, x: Reg, usual: Reg) -> (ValueGraph, ValueId) {
        let mut graph = ValueGraph::new(isa);
        let (x, usual) = (graph.node(Op::Reg(x, 0)), graph.node(Op::Reg(usual, 0)));
        let condition = self.condition(&mut graph, x);
        let value = self.value(&mut graph, x);
        let value = graph.select(condition, value, usual);
        (graph, value)
    }

    fn condition(self, graph: &mut ValueGraph, x: ValueId) -> ValueId {
        match self {
            Fallback::Sine { .. } => graph.is_large_angle(x),
        }
    }

    fn value(self, graph: &mut ValueGraph, x: ValueId) -> ValueId {
        match self {
            Fallback::Sine { quarter_turns } => graph.sine_of_large(x, quarter_turns),
        }
    }
}

impl ValueGraph {
    /// Makes a value that is the usual one but where its fallback is needed.
    pub(super) fn with_fallback(
        &mut self,
        usual: ValueId,
        fallback: Fallback,
        x: ValueId,
    ) -> ValueId {
        let condition = fallback.condition(self, x);
        match self.constant_bits(condition) {
            Some(super::ops::FALSE) => usual,
            Some(_) => fallback.value(self, x),
            None => self.node(Op::Fallback { fallback, condition, x, usual }),
        }
    }
}

//! The stages of a program with fixed numerics, before any primitive: a reduction by lanes is one into
//! partial results, and one of these by halves. A reduction in blocks is one of each block, and one of these.
//!
//! ```text
//! c[i] = sum(k, a[i, k])
//! =>
//! c_part[i, l] = sum(k_0, a[i, k_0 * 64 + l])         -- lanes
//! c[i] = sum(l, c_part[i, l])                         -- by halves
//!
//! c_part[i, b] = sum(k, a[i, b * 256 + k])            -- blocks: a sequence, or by lanes in turn
//! c[i] = sum(b, c_part[i, b])                         -- a sequence
//! ```
//!
//! So a schedule cannot do without these orders; primitives refuse what would change them.

use crate::error::ScheduleError;
use crate::{AxisId, ReductionOrder, Schedule, StageId};
use tvmtune_ir::dag::chosen::chosen_axes;
use tvmtune_ir::dag::order::Lanes;
use tvmtune_ir::dag::{BinaryOp, Compute, Expr, Order, Reducer};

/// Counts the conditions around a value, outermost first.
fn conditions(value: &Expr) -> usize {
    match value {
        Expr::Select { then, .. } => 1 + conditions(then),
        _ => 0,
    }
}

/// Returns whether a compute sums products, which are not rounded before; those behind the end may be under
/// conditions.
fn is_sum_of_products(compute: &Compute) -> bool {
    let mut term = &compute.body;
    while let Expr::Select { then, .. } = term {
        term = then;
    }
    compute.reducer == Some(Reducer::Sum) && matches!(term, Expr::Binary(BinaryOp::Mul, ..))
}

impl Schedule {
    /// Gives each reduction its order, where the program fixes that.
    pub(crate) fn fix_orders(&mut self) {
        for n in 0..self.dag.computes.len() {
            let stage = StageId(n as u32);
            let Some(order) = self.dag.order(&self.dag.computes[n]) else { continue };
            // The primitives below are legal: no tensor of partial results has more than 2^46 bytes.
            let is_factored = match order {
                Order::Sequence => false,
                // In whatever order, a sum of one number is that number.
                Order::Lanes(_) if self.has_one_term(stage) => false,
                Order::Lanes(lanes) => self.reduce_by_lanes(stage, lanes, 0).is_ok(),
                Order::Blocks { axis, size, lanes } => {
                    self.reduce_by_blocks(stage, AxisId(axis as u32), size, lanes).is_ok()
                }
            };
            debug_assert!(
                is_factored || order == Order::Sequence || self.has_one_term(stage),
                "{order:?}"
            );
            if !is_factored {
                self.stage_mut(stage).reduction = ReductionOrder::Sequence;
            }
        }
        // These steps follow from the program: they are in no trace.
        self.trace.clear();
    }

    /// Returns whether data choose the only term of a reduction that is not the reducer's identity.
    fn has_one_term(&self, stage: StageId) -> bool {
        let compute = &self.stage(stage).compute;
        let chosen = chosen_axes(compute, self);
        let is_chosen = |axis: usize| chosen.iter().any(|it| it.0 == axis);
        let mut reduced = compute.n_spatial..compute.axes.len();
        reduced.all(|it| compute.axes[it].extent.as_constant() == Some(1) || is_chosen(it))
    }

    /// Factors the reduction of a stage over the axes from the first on into partial results by lanes. There
    /// are `n_tails` conditions around its body.
    fn reduce_by_lanes(
        &mut self,
        stage: StageId,
        Lanes { first, n }: Lanes,
        n_tails: usize,
    ) -> Result<(), ScheduleError> {
        let compute = &self.stage(stage).compute;
        let (n_axes, adds_zero) = (compute.axes.len(), is_sum_of_products(compute));
        let mut run = AxisId(first as u32);
        for axis in first + 1..n_axes {
            run = self.fuse(stage, run, AxisId(axis as u32))?;
        }
        let parts = self.split(stage, run, &[n])?;
        let (partial, n_more) = self.factor(stage, parts[1])?;
        self.stage_mut(partial).reduction = ReductionOrder::Lanes { n_tails: n_tails + n_more };
        self.stage_mut(stage).reduction = ReductionOrder::Halves { adds_zero };
        Ok(())
    }

    /// Factors the reduction of a stage into results of blocks of an axis, each a sequence or by lanes.
    fn reduce_by_blocks(
        &mut self,
        stage: StageId,
        axis: AxisId,
        size: u64,
        lanes: Option<Lanes>,
    ) -> Result<(), ScheduleError> {
        let parts = self.split(stage, axis, &[size])?;
        let (block, n_tails) = self.factor(stage, parts[0])?;
        self.stage_mut(stage).reduction = ReductionOrder::Sequence;
        match lanes {
            // The axis of blocks comes before those that a block reduces.
            Some(it) => {
                self.reduce_by_lanes(block, Lanes { first: it.first + 1, ..it }, n_tails)?;
            }
            None => self.stage_mut(block).reduction = ReductionOrder::Blocks { n_tails },
        }
        Ok(())
    }

    /// Factors an axis of a reduction out. Returns the stage of the partial results, and the number of
    /// conditions that keep its body from terms behind the end.
    fn factor(&mut self, stage: StageId, axis: AxisId) -> Result<(StageId, usize), ScheduleError> {
        let before = conditions(&self.stage(stage).compute.body);
        let partial = self.rfactor(stage, axis)?;
        let after = conditions(&self.stage(partial).compute.body);
        Ok((partial, after.saturating_sub(before)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;
    use crate::{Instruction, LoopKind, nest};
    use tvmtune_ir::dag::{Dag, Numerics};
    use tvmtune_ir::dsl;

    fn dag(function: &str) -> Dag {
        let more = if function.contains(", K>") { ", K = 20" } else { "" };
        let source = format!(
            "#[autotune(dims(M = 1..=9, N = 150{more}), numerics = \"fixed\")] fn f{function}"
        );
        dsl::program(&source).unwrap()
    }

    fn rows() -> Dag {
        dag("(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
            compute(|i| sum(0..N, |j| x[[i, j]] * x[[i, j]]))
        }")
    }

    /// The refusal of a primitive; `None` if it is legal.
    fn refused(dag: &Dag, lines: &[&str]) -> Option<ErrorKind> {
        let trace: Vec<Instruction> = lines.iter().map(|it| it.parse().unwrap()).collect();
        Schedule::replay(dag, &trace).err().map(|it| it.kind)
    }

    #[test]
    fn a_sum_along_rows_is_one_by_lanes_and_one_by_halves() {
        let schedule = Schedule::new(&rows());
        let orders: Vec<ReductionOrder> = schedule.stages.iter().map(|it| it.reduction).collect();
        let lanes = ReductionOrder::Lanes { n_tails: 1 };
        assert_eq!(orders, [ReductionOrder::Halves { adds_zero: true }, lanes]);
        assert!(schedule.trace.is_empty());
        let text = nest::lower(&schedule).to_string();
        // The product is summed as it stands, in the lanes that have a term.
        assert!(text.contains("if j_1 + 64*j_0 < 150"), "{text}");
        assert!(text.contains("+= x[i, j_1 + 64*j_0] * x[i, j_1 + 64*j_0]"), "{text}");
        assert_eq!(text.matches("vectorized half").count(), 3, "{text}");
    }

    /// A sum of rows in an order that its author wrote.
    fn written(order: &str) -> Dag {
        let mut dag = rows();
        dag.fix_order(order.parse().unwrap());
        dag
    }

    #[test]
    fn blocks_are_stages_of_their_own() {
        let orders = |order: &str| -> Vec<ReductionOrder> {
            Schedule::new(&written(order)).stages.iter().map(|it| it.reduction).collect()
        };
        let (sequence, halves) =
            (ReductionOrder::Sequence, ReductionOrder::Halves { adds_zero: true });
        assert_eq!(orders("sequence"), [sequence]);
        assert_eq!(orders("blocks(64)"), [sequence, ReductionOrder::Blocks { n_tails: 1 }]);
        assert_eq!(orders("blocks(50)"), [sequence, ReductionOrder::Blocks { n_tails: 0 }]);
        let lanes = |n_tails| ReductionOrder::Lanes { n_tails };
        assert_eq!(orders("lanes(32)"), [halves, lanes(1)]);
        assert_eq!(orders("blocks(64, lanes(16))"), [sequence, halves, lanes(1)]);
        assert_eq!(orders("blocks(50, lanes(16))"), [sequence, halves, lanes(1)]);
        assert_eq!(orders("blocks(40, lanes(16))"), [sequence, halves, lanes(2)]);
        let text = nest::lower(&Schedule::new(&written("blocks(40, lanes(16))"))).to_string();
        let guards = "if j_1_1 + 16*j_1_0 < 40 && 40*j_0 + j_1_1 + 16*j_1_0 < 150";
        assert!(text.contains(guards), "{text}");
    }

    #[test]
    fn what_would_change_the_order_of_blocks_is_refused() {
        let fixed = Some(ErrorKind::FixedNumerics);
        let blocks = written("blocks(64)");
        for line in ["rfactor s1 a2", "annotate s1 a2 vectorized", "rfactor s0 a1"] {
            assert_eq!(refused(&blocks, &[line]), fixed, "{line}");
        }
        assert_eq!(refused(&blocks, &["annotate s0 a1 vectorized"]), fixed);
        assert_eq!(refused(&blocks, &["split s1 a2 [8]", "reorder s1 [a4, a3]"]), fixed);
        // Blocks are independent of each other, and may be computed where they are combined.
        assert_eq!(refused(&blocks, &["reorder s1 [a1, a0, a2]"]), None);
        assert_eq!(refused(&blocks, &["compute_at s1 s0 a1"]), None);
    }

    #[test]
    fn rows_are_lanes_of_a_reduction_by_halves() {
        let lines = ["pack t2 [] [1, 0]", "reorder s0 [a1, a0]", "annotate s0 a0 vectorized"];
        let trace: Vec<Instruction> = lines.iter().map(|it| it.parse().unwrap()).collect();
        let schedule = Schedule::replay(&rows(), &trace).unwrap();
        let text = nest::lower(&schedule).to_string();
        assert_eq!(text.matches("for half").count(), 3, "{text}");
        assert_eq!(text.matches("vectorized i").count(), 4, "{text}");
        assert!(text.contains("[half, i] ="), "{text}");
    }

    #[test]
    fn what_would_change_an_order_is_refused() {
        let fixed = Some(ErrorKind::FixedNumerics);
        let rows = rows();
        assert_eq!(refused(&rows, &["split s0 a1 [8]"]), fixed);
        assert_eq!(refused(&rows, &["annotate s0 a1 vectorized"]), fixed);
        // One loop may be inside that of partial results, which is written out.
        assert_eq!(refused(&rows, &["reorder s0 [a1, a0]", "annotate s0 a0 vectorized"]), None);
        // A stage must not run in a loop inside of it either.
        let attached = ["compute_at s1 s0 a0", "reorder s0 [a1, a0]"];
        assert_eq!(refused(&rows, &attached[..1]), None);
        assert_eq!(refused(&rows, &attached), fixed);
        let two_inside = ["split s0 a0 [4]", "reorder s0 [a1, a2, a3]"];
        assert_eq!(refused(&rows, &two_inside), fixed);
        assert_eq!(refused(&rows, &["rfactor s1 a2"]), fixed);
        assert_eq!(refused(&rows, &["annotate s1 a2 vectorized"]), fixed);
        // Lanes are independent of each other, and steps may be split.
        assert_eq!(refused(&rows, &["reorder s1 [a2, a1]", "annotate s1 a1 vectorized"]), None);
        assert_eq!(refused(&rows, &["split s1 a2 [2]", "annotate s1 a4 unrolled"]), None);

        let product =
            dag("(x: Tensor<f32, M, N, K>, w: Weight<f32, N, K, K>) -> Tensor<f32, M, K> {
            compute(|i, j| sum((0..N, 0..K), |k, l| x[[i, k, l]] * w[[k, l, j]]))
        }");
        assert_eq!(refused(&product, &["reorder s0 [a3, a2]"]), fixed);
        assert_eq!(refused(&product, &["rfactor s0 a3"]), fixed);
        assert_eq!(refused(&product, &["split s0 a2 [8]", "reorder s0 [a5, a4]"]), fixed);
        assert_eq!(
            refused(&product, &["split s0 a2 [8]", "reorder s0 [a4, a0, a5, a3, a1]"]),
            None
        );
        assert_eq!(refused(&product, &["cache_write s0", "reorder s1 [a3, a2]"]), fixed);
        // A loop of one iteration has no order.
        assert_eq!(refused(&product, &["split s0 a2 [150]", "reorder s0 [a5, a4]"]), None);
    }

    #[test]
    fn what_would_round_otherwise_is_refused() {
        let quotients = dag("(x: Tensor<f32, M, N>, y: Tensor<f32, M>) -> Tensor<f32, M, N> {
            let known = compute(|i| 2.0 + tanh(y[[i]]));
            compute(|i, j| x[[i, j]] / known[[i]] / 3.0)
        }");
        let mut free = quotients.clone();
        (free.numerics, free.orders) = (Numerics::Free, Vec::new());
        for (line, why) in [
            ("reciprocal s1", ErrorKind::FixedNumerics),
            ("hoist_invariant s1", ErrorKind::NothingInvariant),
        ] {
            assert_eq!(refused(&quotients, &[line]), Some(why));
            assert_eq!(refused(&free, &[line]), None);
        }
        let factor = dag(
            "(x: Tensor<f32, M, N>, w: Tensor<f32, N, K>, s: Tensor<f32, M>) -> Tensor<f32, M, K> {
            compute(|i, j| sum(0..N, |k| x[[i, k]] * w[[k, j]] * s[[i]]))
        }",
        );
        assert_eq!(refused(&factor, &["factor_out s0"]), Some(ErrorKind::FixedNumerics));
    }

    #[test]
    fn a_product_that_is_rounded_stays_rounded_when_it_is_inlined() {
        let source = dag("(x: Tensor<f32, M, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M> {
            let p = compute(|i, j| x[[i, j]] * y[[i, j]]);
            compute(|i| sum(0..N, |j| p[[i, j]]))
        }");
        let schedule = Schedule::replay(&source, &["inline s0".parse().unwrap()]).unwrap();
        let body = &schedule.stage(StageId(2)).compute.body;
        assert!(matches!(body, Expr::Select { then, .. } if matches!(**then, Expr::Cast(..))));
        assert_eq!(schedule.stage(StageId(1)).axis(AxisId(1)).kind, LoopKind::Serial);
    }
}

//! Writes out what reductions that share a loop do beside reducing: what they are so far is kept
//! from one block to the next, and sums are corrected when a maximum grows.
//!
//! ```text
//! m[i] = -inf; l[i] = 0; o[i, d] = 0              start_rolling
//! for j_0
//!   m_before[i] = m[i]                            roll
//!   for j_1: m[i] max= x[i, j]
//!   m_factor[i] = exp(max(m_before[i], least) - max(m[i], least))
//!   l[i] *= m_factor[i]                           roll, corrected
//!   for j_1: l[i] += exp(x[i, j] - max(m[i], least))
//!   o[i, d] *= m_factor[i]                        corrected
//!   for j_1: o[i, d] += exp(x[i, j] - max(m[i], least)) * v[j, d]
//! m_factor[i] = exp(max(m[i], least) - m[i])      finish_rolling
//! l[i] *= m_factor[i]; o[i, d] *= m_factor[i]
//! ```
//!
//! The least finite number stands for a maximum of nothing: differences to it are numbers, and what
//! is masked so far adds 0. The last factor is 1, or undefined if everything was masked.

use super::lower::{Lowering, Running};
use super::{Buffer, Scope, Stmt};
use crate::online::Correction;
use crate::{AxisId, StageId};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal, Reducer, TensorId, UnaryOp};
use tvmtune_ir::poly::Poly;

/// A loop along with which others than its own stage are reduced.
pub(super) struct Rolling {
    /// Those others, in topological order.
    stages: Vec<StageId>,
    /// How each of them, and the loop's own stage, is corrected.
    corrections: Vec<(StageId, Vec<Correction>)>,
    leaders: Vec<Leader>,
}

/// A maximum that sums depend on while it runs.
#[derive(Clone)]
struct Leader {
    stage: StageId,
    dtype: DType,
    /// What it was before the block.
    before: TensorId,
    /// By what sums are multiplied: the scale of the exponent, and where the factor lies.
    factors: Vec<(f64, TensorId)>,
}

impl<'a> Lowering<'a> {
    /// Lets everything start that is reduced along with a loop, which opens next.
    pub(super) fn start_rolling(&mut self, host: StageId, axis: AxisId) -> Vec<Stmt> {
        let stages: Vec<StageId> = self.schedule.rolling_at(host, axis).collect();
        let corrections: Vec<(StageId, Vec<Correction>)> = stages
            .iter()
            .chain([&host])
            // Primitives refuse what cannot be corrected.
            .map(|it| (*it, self.schedule.corrections(*it, host, axis).unwrap_or_default()))
            .collect();
        let mut stmts = Vec::new();
        let mut leaders = Vec::new();
        for id in &stages {
            let run = self.whole(*id);
            stmts.extend(self.start(&run, 0));
            let followers = corrections.iter().flat_map(|(_, it)| it);
            let mut scales: Vec<f64> =
                followers.filter(|it| it.leader == *id).map(|it| it.scale).collect();
            scales.sort_by(f64::total_cmp);
            scales.dedup();
            if !scales.is_empty() {
                let before = self.add_buffer(&run, "before");
                let factors =
                    scales.into_iter().map(|it| (it, self.add_buffer(&run, "factor"))).collect();
                let dtype = self.schedule.tensor(run.stage.tensor()).tensor.dtype;
                leaders.push(Leader { stage: *id, dtype, before, factors });
            }
        }
        self.rolling.push(Rolling { stages, corrections, leaders });
        stmts
    }

    /// One block of a stage that is reduced along with the open loop.
    pub(super) fn roll(&mut self, run: &mut Running<'a>) -> Vec<Stmt> {
        let mut stmts = self.corrected(run, 0);
        let Some(leader) = self.leader(run.id) else {
            stmts.extend(self.loops(run, 0));
            return stmts;
        };
        stmts.extend(self.for_each_element(run, 0, |lowering, run, values| Stmt::Store {
            tensor: leader.before,
            index: lowering.in_region(run, values),
            value: lowering.so_far(run, values),
        }));
        stmts.extend(self.loops(run, 0));
        for (scale, factor) in &leader.factors {
            stmts.extend(self.for_each_element(run, 0, |lowering, run, values| {
                let index = lowering.in_region(run, values);
                let before = Expr::read(leader.before, index.iter().cloned());
                let [before, now] =
                    [before, lowering.so_far(run, values)].map(|it| finite(it, leader.dtype));
                let value = factor_between(before, now, *scale, leader.dtype);
                Stmt::Store { tensor: *factor, index, value }
            }));
        }
        stmts
    }

    /// Multiplies what a stage has so far by its factors.
    pub(super) fn corrected(&mut self, run: &Running<'a>, place: usize) -> Vec<Stmt> {
        let Some(rolling) = self.rolling.last() else { return Vec::new() };
        let of = |it: &&(StageId, Vec<Correction>)| it.0 == run.id;
        let corrections = rolling.corrections.iter().find(of).map(|it| it.1.clone());
        let mut stmts = Vec::new();
        for correction in corrections.unwrap_or_default() {
            let Some(leader) = self.leader(correction.leader) else { continue };
            let same = |it: &&(f64, TensorId)| it.0 == correction.scale;
            let Some((_, factor)) = leader.factors.iter().find(same).copied() else { continue };
            stmts.extend(self.for_each_element(run, place, |lowering, run, values| {
                let tensor = run.stage.tensor();
                let maximum = lowering.schedule.stage(leader.stage).tensor();
                let at = lowering.places.region_index(
                    maximum,
                    &correction.index,
                    values,
                    &lowering.facts,
                );
                Stmt::Update {
                    tensor,
                    index: lowering.written(run, values),
                    reducer: Reducer::Prod,
                    value: Expr::read(factor, at),
                }
            }));
        }
        stmts
    }

    /// Corrects what has been added up when its loop has closed: maxima of nothing are what the
    /// definition says they are.
    pub(super) fn finish_rolling(&mut self, host: &Running<'a>, place: usize) -> Vec<Stmt> {
        let Some(rolling) = self.rolling.last() else { return Vec::new() };
        let (stages, leaders) = (rolling.stages.clone(), rolling.leaders.clone());
        let mut stmts = Vec::new();
        for leader in leaders {
            let run = self.whole(leader.stage);
            for (scale, factor) in &leader.factors {
                stmts.extend(self.for_each_element(&run, 0, |lowering, run, values| {
                    let now = lowering.so_far(run, values);
                    let from = finite(now.clone(), leader.dtype);
                    let value = factor_between(from, now, *scale, leader.dtype);
                    Stmt::Store { tensor: *factor, index: lowering.in_region(run, values), value }
                }));
            }
        }
        for stage in stages {
            let run = self.whole(stage);
            stmts.extend(self.corrected(&run, 0));
        }
        stmts.extend(self.corrected(host, place));
        self.rolling.pop();
        stmts
    }

    /// A value in which maxima that still run are finite.
    pub(super) fn with_running(&self, value: Expr) -> Expr {
        if self.rolling.is_empty() {
            return value;
        }
        value.replace_reads(&mut |tensor, index| {
            let stage = self.schedule.tensors.get(tensor.0 as usize)?.stage?;
            let leader = self.leader(stage)?;
            Some(finite(Expr::Read { tensor, index: index.to_vec() }, leader.dtype))
        })
    }

    fn leader(&self, stage: StageId) -> Option<Leader> {
        self.rolling.iter().flat_map(|it| &it.leaders).find(|it| it.stage == stage).cloned()
    }

    /// A stage for all of its tensor that is kept while the loop runs.
    fn whole(&mut self, id: StageId) -> Running<'a> {
        let region = self.around.last().and_then(|it| it.get(&id)).cloned();
        self.running(id, region.as_deref())
    }

    /// Memory beside that of a stage's tensor, of the same shape.
    fn add_buffer(&mut self, run: &Running<'a>, role: &str) -> TensorId {
        let tensor = &self.schedule.tensor(run.stage.tensor()).tensor;
        let id = TensorId((self.schedule.tensors.len() + self.added.len()) as u32);
        self.added.push(Buffer {
            name: format!("{}_{role}", tensor.name),
            dtype: tensor.dtype,
            shape: run.extents.of[..run.stage.compute.n_spatial].to_vec(),
            scope: Scope::Local,
            layout: None,
        });
        id
    }

    /// Where an element of a stage lies in such memory.
    fn in_region(&self, run: &Running<'a>, values: &[Poly]) -> Vec<Poly> {
        let n_spatial = run.stage.compute.n_spatial;
        let from_first = |(value, first): (&Poly, &Poly)| value.clone() - first.clone();
        values[..n_spatial].iter().zip(&run.firsts).map(from_first).collect()
    }

    /// What a stage has so far.
    fn so_far(&self, run: &Running<'a>, values: &[Poly]) -> Expr {
        Expr::read(run.stage.tensor(), self.written(run, values))
    }
}

/// A maximum that is a number: of nothing, the least.
fn finite(maximum: Expr, dtype: DType) -> Expr {
    let least = if dtype == DType::F64 { f64::MIN } else { f32::MIN.into() };
    maximum.binary(BinaryOp::Max, Expr::Const(Literal::Float(least), dtype))
}

/// `exp(scale * (from - to))`
fn factor_between(from: Expr, to: Expr, scale: f64, dtype: DType) -> Expr {
    let difference = from.binary(BinaryOp::Sub, to);
    let exponent = match scale {
        1.0 => difference,
        _ => difference.binary(BinaryOp::Mul, Expr::Const(Literal::Float(scale), dtype)),
    };
    exponent.unary(UnaryOp::Exp)
}

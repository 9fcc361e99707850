//! Lowers online reductions: partial results are kept from block to block, and partial sums are
//! rescaled when a running maximum grows.
//!
//! ```text
//! m[i] = -inf; l[i] = 0; o[i, d] = 0              begin_online
//! for j_0
//!   m_before[i] = m[i]                            online_block
//!   for j_1: m[i] max= x[i, j]
//!   m_factor[i] = exp(max(m_before[i], least) - max(m[i], least))
//!   l[i] *= m_factor[i]                           online_block, rescale
//!   for j_1: l[i] += exp(x[i, j] - max(m[i], least))
//!   o[i, d] *= m_factor[i]                        rescale
//!   for j_1: o[i, d] += exp(x[i, j] - max(m[i], least)) * v[j, d]
//! m_factor[i] = exp(max(m[i], least) - m[i])      end_online
//! l[i] *= m_factor[i]; o[i, d] *= m_factor[i]
//! ```
//!
//! The least finite number stands for a maximum of no elements: differences to it are numbers, and
//! elements masked so far add 0. The last factor is 1, or undefined if everything was masked.

use super::lower::{Instance, Lowering};
use super::{Buffer, Scope, Stmt};
use crate::online::Correction;
use crate::{AxisId, StageId};
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Literal, Reducer, TensorId, UnaryOp};
use tvmtune_ir::poly::Poly;

/// A loop along which other stages than its own are reduced online.
pub(super) struct OnlineLoop {
    /// Those other stages, in topological order.
    stages: Vec<StageId>,
    /// The corrections of each of them, and of the loop's own stage.
    corrections: Vec<(StageId, Vec<Correction>)>,
    maxima: Vec<RunningMax>,
}

/// A running maximum that partial sums depend on.
#[derive(Clone)]
struct RunningMax {
    stage: StageId,
    dtype: DType,
    /// The buffer of its value before the block.
    before: TensorId,
    factors: Vec<Factor>,
}

/// The factor of sums that depend on a running maximum.
#[derive(Clone, Copy)]
struct Factor {
    /// The scale of the exponent.
    scale: f64,
    buffer: TensorId,
}

impl<'a> Lowering<'a> {
    /// Initializes the online reductions of a loop, which opens next.
    pub(super) fn begin_online(&mut self, host: StageId, axis: AxisId) -> Vec<Stmt> {
        let stages: Vec<StageId> = self.schedule.online_at(host, axis).collect();
        let corrections: Vec<(StageId, Vec<Correction>)> = stages
            .iter()
            .chain([&host])
            // Primitives refuse reductions that cannot be corrected.
            .map(|it| (*it, self.schedule.corrections(*it, host, axis).unwrap_or_default()))
            .collect();
        let mut stmts = Vec::new();
        let mut maxima = Vec::new();
        for id in &stages {
            let instance = self.whole_instance(*id);
            stmts.extend(self.initialize(&instance, 0));
            let dependents = corrections.iter().flat_map(|(_, it)| it);
            let mut scales: Vec<f64> =
                dependents.filter(|it| it.maximum == *id).map(|it| it.scale).collect();
            scales.sort_by(f64::total_cmp);
            scales.dedup();
            if !scales.is_empty() {
                let before = self.add_buffer(&instance, "before");
                let factor = |scale| Factor { scale, buffer: self.add_buffer(&instance, "factor") };
                let factors = scales.into_iter().map(factor).collect();
                let dtype = self.schedule.tensor(instance.stage.tensor()).tensor.dtype;
                maxima.push(RunningMax { stage: *id, dtype, before, factors });
            }
        }
        self.online_loops.push(OnlineLoop { stages, corrections, maxima });
        stmts
    }

    /// Lowers one block of a stage that is reduced online along the open loop.
    pub(super) fn online_block(&mut self, instance: &mut Instance<'a>) -> Vec<Stmt> {
        let mut stmts = self.rescale(instance, 0);
        let Some(maximum) = self.running_max(instance.id) else {
            stmts.extend(self.loops(instance, 0));
            return stmts;
        };
        stmts.extend(self.for_each_element(instance, 0, |lowering, instance, values| {
            Stmt::Store {
                tensor: maximum.before,
                index: lowering.region_offset(instance, values),
                value: lowering.partial(instance, values),
            }
        }));
        stmts.extend(self.loops(instance, 0));
        for Factor { scale, buffer } in &maximum.factors {
            stmts.extend(self.for_each_element(instance, 0, |lowering, instance, values| {
                let index = lowering.region_offset(instance, values);
                let before = Expr::read(maximum.before, index.iter().cloned());
                let [before, now] = [before, lowering.partial(instance, values)]
                    .map(|it| finite(it, maximum.dtype));
                let value = factor_between(before, now, *scale, maximum.dtype);
                Stmt::Store { tensor: *buffer, index, value }
            }));
        }
        stmts
    }

    /// Multiplies the partial result of a stage by its factors.
    pub(super) fn rescale(&mut self, instance: &Instance<'a>, depth: usize) -> Vec<Stmt> {
        let Some(online) = self.online_loops.last() else { return Vec::new() };
        let is_own = |it: &&(StageId, Vec<Correction>)| it.0 == instance.id;
        let corrections = online.corrections.iter().find(is_own).map(|it| it.1.clone());
        let mut stmts = Vec::new();
        for correction in corrections.unwrap_or_default() {
            let Some(maximum) = self.running_max(correction.maximum) else { continue };
            let same_scale = |it: &&Factor| it.scale == correction.scale;
            let Some(factor) = maximum.factors.iter().find(same_scale).copied() else { continue };
            stmts.extend(self.for_each_element(instance, depth, |lowering, instance, values| {
                let tensor = instance.stage.tensor();
                let maximum = lowering.schedule.stage(maximum.stage).tensor();
                let index = lowering.addressing.region_index(
                    maximum,
                    &correction.index,
                    values,
                    &lowering.facts,
                );
                Stmt::Update {
                    tensor,
                    index: lowering.written_index(instance, values),
                    reducer: Reducer::Prod,
                    value: Expr::read(factor.buffer, index),
                }
            }));
        }
        stmts
    }

    /// Rescales sums once their loop has closed, from the least finite number to the maximum that
    /// the definition has where no element was unmasked.
    pub(super) fn end_online(&mut self, host: &Instance<'a>, depth: usize) -> Vec<Stmt> {
        let Some(online) = self.online_loops.last() else { return Vec::new() };
        let (stages, maxima) = (online.stages.clone(), online.maxima.clone());
        let mut stmts = Vec::new();
        for maximum in maxima {
            let instance = self.whole_instance(maximum.stage);
            for Factor { scale, buffer } in &maximum.factors {
                stmts.extend(self.for_each_element(&instance, 0, |lowering, instance, values| {
                    let now = lowering.partial(instance, values);
                    let from = finite(now.clone(), maximum.dtype);
                    let value = factor_between(from, now, *scale, maximum.dtype);
                    Stmt::Store {
                        tensor: *buffer,
                        index: lowering.region_offset(instance, values),
                        value,
                    }
                }));
            }
        }
        for stage in stages {
            let instance = self.whole_instance(stage);
            stmts.extend(self.rescale(&instance, 0));
        }
        stmts.extend(self.rescale(host, depth));
        self.online_loops.pop();
        stmts
    }

    /// Clamps the running maxima that a value reads to finite numbers.
    pub(super) fn with_finite_maxima(&self, value: Expr) -> Expr {
        if self.online_loops.is_empty() {
            return value;
        }
        value.replace_reads(&mut |tensor, index| {
            let stage = self.schedule.tensors.get(tensor.0 as usize)?.stage?;
            let maximum = self.running_max(stage)?;
            Some(finite(Expr::Read { tensor, index: index.to_vec() }, maximum.dtype))
        })
    }

    fn running_max(&self, stage: StageId) -> Option<RunningMax> {
        self.online_loops.iter().flat_map(|it| &it.maxima).find(|it| it.stage == stage).cloned()
    }

    /// Instantiates a stage for the whole region that is kept while the loop runs.
    fn whole_instance(&mut self, id: StageId) -> Instance<'a> {
        let region = self.enclosing.last().and_then(|it| it.get(&id)).cloned();
        self.instance(id, region.as_deref())
    }

    /// Adds a local buffer of the shape of a stage's region.
    fn add_buffer(&mut self, instance: &Instance<'a>, role: &str) -> TensorId {
        let tensor = &self.schedule.tensor(instance.stage.tensor()).tensor;
        let id = TensorId((self.schedule.tensors.len() + self.added.len()) as u32);
        self.added.push(Buffer {
            name: format!("{}_{role}", tensor.name),
            dtype: tensor.dtype,
            shape: instance.extents.by_axis[..instance.stage.compute.n_spatial].to_vec(),
            scope: Scope::Local,
            layout: None,
            is_partial: false,
        });
        id
    }

    /// Returns the index of an element in such a buffer.
    fn region_offset(&self, instance: &Instance<'a>, values: &[Poly]) -> Vec<Poly> {
        let n_spatial = instance.stage.compute.n_spatial;
        let from_first = |(value, first): (&Poly, &Poly)| value.clone() - first.clone();
        values[..n_spatial].iter().zip(&instance.origins).map(from_first).collect()
    }

    /// Reads the partial result of a stage.
    fn partial(&self, instance: &Instance<'a>, values: &[Poly]) -> Expr {
        Expr::read(instance.stage.tensor(), self.written_index(instance, values))
    }
}

/// Clamps a maximum to finite numbers: the least one for a maximum of no elements.
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

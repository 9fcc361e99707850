//! How much of each tensor one iteration of a loop needs.
//!
//! At a loop of a stage (the host) at which others run, every axis of the host spans what the loops
//! further in make of it. From there, readers before what they read, each stage that runs inside
//! must compute the hull of what its readers read.
//!
//! A hull is the full tile, not cut off at the end of a tensor: tails are guarded where elements
//! are computed. Dimensions whose hull is unknown fall back to that of an enclosing loop, else to
//! the whole; so the hull at a loop always holds those at the loops inside it, and what is
//! computed further out is enough for what reads it further in.

use std::collections::BTreeMap;

use crate::relation::Extents;
use crate::{Attach, AxisId, Relation, Schedule, Stage, StageId};
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_ir::span::Span;

/// For each stage that runs inside a loop, and its host: what its compute's axes span, spatial
/// ones first. For all but the host that is the region it computes.
pub type Hulls = BTreeMap<StageId, Vec<Span>>;

/// A loop of a stage that is being written out.
pub struct Host<'a> {
    /// The stage.
    pub id: StageId,
    /// The extents of its axes where it runs.
    pub extents: &'a Extents,
    /// Where its region starts, for each spatial axis.
    pub firsts: &'a [Poly],
    /// The values of its loops, as far as they are open.
    pub loops: &'a [Poly],
    /// How many of its loops are open.
    pub n_open: usize,
}

/// The hulls of the host and of every stage that runs inside its innermost open loop.
pub fn hulls(schedule: &Schedule, host: &Host<'_>, around: &[Hulls], facts: &Facts) -> Hulls {
    let mut hulls = Hulls::new();
    let mut wanted = Wanted { fixed: schedule.has_threads(), ..Wanted::default() };
    let mut own = host_spans(schedule.stage(host.id), host, facts);
    let open = host.n_open.checked_sub(1).and_then(|it| schedule.stage(host.id).order.get(it));
    let is_rolling =
        |it: &Stage| it.rolling && open.is_some_and(|axis| it.attach == Attach::At(host.id, *axis));
    let rolls = schedule.stages.iter().any(is_rolling);
    let block = open.filter(|_| rolls).and_then(|it| whole_block(schedule, host, *it, &mut own));
    for id in schedule.order.iter().rev().copied() {
        let stage = schedule.stage(id);
        let spans = if id == host.id {
            own.clone()
        } else if let Some(block) = block.as_ref().filter(|_| is_rolling(stage)) {
            rolling_region(stage, around.iter().rev().find_map(|it| it.get(&id)), block)
        } else if matches!(stage.attach, Attach::At(..))
            && schedule.runs_inside(id, host.id, host.n_open - 1)
        {
            let enclosing = around.iter().rev().find_map(|it| it.get(&id));
            wanted.region(stage, enclosing, facts)
        } else {
            continue;
        };
        wanted.add_reads(stage, &spans, facts);
        hulls.insert(id, spans);
    }
    hulls
}

/// The block that the open loop of a stage counts, where others are reduced along with it: no tile
/// further in sticks out of what all of them span.
fn whole_block(
    schedule: &Schedule,
    host: &Host<'_>,
    axis: AxisId,
    spans: &mut [Span],
) -> Option<Span> {
    let stage = schedule.stage(host.id);
    for (n, span) in spans.iter_mut().take(stage.compute.n_spatial).enumerate() {
        *span = Span { first: host.firsts[n].clone(), size: host.extents.of[n].clone() };
    }
    let split = stage.relations.iter().zip(&host.extents.strides).find_map(|(it, strides)| {
        let Relation::Split { parts, .. } = it else { return None };
        (parts.first() == Some(&axis)).then(|| strides.first().copied()).flatten()
    });
    let length = split.unwrap_or(1);
    let span = spans.get_mut(schedule.counted_axis(host.id, axis)?)?;
    let first = host.loops[axis.0 as usize].clone() * length;
    *span = Span { first, size: Poly::constant(length) };
    Some(span.clone())
}

/// What a stage that is reduced along with the host's loop spans: all that is read of it anywhere,
/// and of its own reduce axis the block.
fn rolling_region(stage: &Stage, enclosing: Option<&Vec<Span>>, block: &Span) -> Vec<Span> {
    let axes = stage.compute.axes.iter().enumerate();
    let span = |(n, axis): (usize, &tvmtune_ir::dag::ComputeAxis)| match n {
        _ if n >= stage.compute.n_spatial => block.clone(),
        _ => enclosing
            .and_then(|it| it.get(n).cloned())
            .unwrap_or_else(|| Span::whole(axis.extent.clone())),
    };
    axes.map(span).collect()
}

/// What the host's axes span: loops that are open stand still, the others run.
fn host_spans(stage: &Stage, host: &Host<'_>, facts: &Facts) -> Vec<Span> {
    let mut spans: Vec<Option<Span>> = vec![None; stage.axes.len()];
    for (place, axis) in stage.order.iter().enumerate() {
        let axis = axis.0 as usize;
        spans[axis] = Some(if place < host.n_open {
            Span::point(host.loops[axis].clone())
        } else {
            Span::whole(host.extents.of[axis].clone())
        });
    }
    for (relation, strides) in stage.relations.iter().zip(&host.extents.strides).rev() {
        match relation {
            Relation::Split { parent, parts, .. } => {
                let parts = parts.iter().map(|it| spans[it.0 as usize].as_ref());
                spans[parent.0 as usize] = weighted_sum(parts, strides);
            }
            Relation::Fuse { outer, inner, fused } => {
                let extent = host.extents.get(*inner);
                let span = spans[fused.0 as usize].take();
                spans[outer.0 as usize] = span.as_ref().and_then(|it| it.divided(extent, facts));
                spans[inner.0 as usize] = span.as_ref().and_then(|it| it.remainder(extent, facts));
            }
        }
    }
    let global = |(n, axis): (usize, Option<Span>)| {
        let mut span = axis.unwrap_or_else(|| Span::whole(host.extents.of[n].clone()));
        if let Some(first) = host.firsts.get(n) {
            span.first += first.clone();
        }
        span
    };
    spans.truncate(stage.compute.axes.len());
    spans.into_iter().enumerate().map(global).collect()
}

fn weighted_sum<'a>(
    parts: impl Iterator<Item = Option<&'a Span>>,
    strides: &[i64],
) -> Option<Span> {
    let mut sum = Span::point(Poly::default());
    for (part, stride) in parts.zip(strides) {
        let part = part?;
        sum.first += part.first.clone() * *stride;
        sum.size += (part.size.clone() - Poly::constant(1)) * *stride;
    }
    Some(sum)
}

/// What has been seen to be read, by tensor.
#[derive(Default)]
struct Wanted {
    reads: BTreeMap<TensorId, Vec<Option<Span>>>,
    /// Whether a region of constant size is kept where it sticks out of its axis: the memory of a
    /// block has a constant size, and tiles of threads whole rows.
    fixed: bool,
}

impl Wanted {
    /// Adds what a stage reads while its axes span `spans`.
    fn add_reads(&mut self, stage: &Stage, spans: &[Span], facts: &Facts) {
        let of = |var: VarId| spans.get(var.0 as usize).cloned();
        stage.compute.body.walk(&mut |expr| {
            let Expr::Read { tensor, index } = expr else { return };
            let read = index.iter().map(|it| match it {
                Subscript::Affine(poly) => Span::of(poly, &of, facts),
                Subscript::Value(_) => None,
            });
            match self.reads.get_mut(tensor) {
                None => drop(self.reads.insert(*tensor, read.collect())),
                Some(before) => {
                    for (before, read) in before.iter_mut().zip(read) {
                        *before = match (before.as_ref(), read) {
                            (Some(a), Some(b)) => a.hull(&b, facts),
                            _ => None,
                        };
                    }
                }
            }
        });
    }

    /// What a stage and its reduce axes must span for what was read.
    fn region(&self, stage: &Stage, enclosing: Option<&Vec<Span>>, facts: &Facts) -> Vec<Span> {
        let read = self.reads.get(&stage.tensor());
        let span = |(n, axis): (usize, &tvmtune_ir::dag::ComputeAxis)| {
            let whole = || Span::whole(axis.extent.clone());
            if n >= stage.compute.n_spatial {
                return whole();
            }
            let fallback = || enclosing.and_then(|it| it.get(n)).cloned().unwrap_or_else(whole);
            let known = read
                .and_then(|it| it.get(n)?.clone())
                .filter(|it| !it.size.has_vars() && it.first.is_nonnegative(facts));
            match known {
                None => fallback(),
                Some(it) if self.fixed && it.size.as_constant().is_some() => it,
                Some(it) if (it.size.clone() - axis.extent.clone()).is_nonnegative(facts) => {
                    whole()
                }
                Some(it) => it,
            }
        };
        stage.compute.axes.iter().enumerate().map(span).collect()
    }
}

//! Bounds inference: the region of each tensor that one iteration of a loop needs.
//!
//! At a loop at which stages run, every axis of the loop's own stage (the host) spans the values that
//! the loops further in give it. From there, readers before the tensors they read, each stage that runs
//! inside must compute the hull of the regions that its readers read.
//!
//! A region is the full tile, not clipped to the tensor: tails are guarded where elements are computed.
//! Dimensions whose hull is unknown fall back to the region at an enclosing loop, else to the whole; so
//! the region at a loop always contains those at the loops inside it.
//!
//! # Source
//!
//! Halide's bounds inference.

use std::collections::BTreeMap;

use crate::relation::Extents;
use crate::{Attach, AxisId, Relation, Schedule, Stage, StageId};
use tvmtune_ir::dag::{Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_ir::span::Span;

/// For each stage that runs inside a loop, and its host: the spans of its compute's axes, spatial
/// ones first. For all but the host that is the region it computes.
pub type Regions = BTreeMap<StageId, Vec<Span>>;

/// The innermost open loop of a stage that is being lowered, the host.
pub struct OpenLoop<'a> {
    /// The stage.
    pub id: StageId,
    /// The extents of its axes where it runs.
    pub extents: &'a Extents,
    /// The origin of its region, for each spatial axis.
    pub origins: &'a [Poly],
    /// The values of its loops, as far as they are open.
    pub loops: &'a [Poly],
    /// Number of its open loops.
    pub n_open: usize,
}

/// Infers the regions of the host and of every stage that runs inside its innermost open loop.
pub fn infer_bounds(
    schedule: &Schedule,
    host: &OpenLoop<'_>,
    enclosing: &[Regions],
    facts: &Facts,
) -> Regions {
    let mut regions = Regions::new();
    let mut required = Required { keep_full_tiles: schedule.has_threads(), ..Required::default() };
    let outer = enclosing.iter().rev().find_map(|it| it.get(&host.id));
    let mut own = host_spans(schedule.stage(host.id), host, outer, facts);
    let open = host.n_open.checked_sub(1).and_then(|it| schedule.stage(host.id).order.get(it));
    let is_online =
        |it: &Stage| it.online && open.is_some_and(|axis| it.attach == Attach::At(host.id, *axis));
    let has_online = schedule.stages.iter().any(is_online);
    let block =
        open.filter(|_| has_online).and_then(|it| whole_block(schedule, host, *it, &mut own));
    for id in schedule.order.iter().rev().copied() {
        let stage = schedule.stage(id);
        let spans = if id == host.id {
            own.clone()
        } else if let Some(block) = block.as_ref().filter(|_| is_online(stage)) {
            online_region(stage, enclosing.iter().rev().find_map(|it| it.get(&id)), block)
        } else if matches!(stage.attach, Attach::At(..))
            && schedule.runs_inside(id, host.id, host.n_open - 1)
        {
            let outer = enclosing.iter().rev().find_map(|it| it.get(&id));
            required.region(stage, outer, facts)
        } else {
            continue;
        };
        required.add_reads(stage, &spans, facts);
        regions.insert(id, spans);
    }
    regions
}

/// The block of one iteration of an online loop; the host's spatial axes span its whole region, so
/// that no tile further in exceeds it.
fn whole_block(
    schedule: &Schedule,
    host: &OpenLoop<'_>,
    axis: AxisId,
    spans: &mut [Span],
) -> Option<Span> {
    let stage = schedule.stage(host.id);
    for (n, span) in spans.iter_mut().take(stage.compute.n_spatial).enumerate() {
        *span = Span { first: host.origins[n].clone(), size: host.extents.by_axis[n].clone() };
    }
    let split = stage.relations.iter().zip(&host.extents.strides).find_map(|(it, strides)| {
        let Relation::Split { parts, .. } = it else { return None };
        (parts.first() == Some(&axis)).then(|| strides.first().copied()).flatten()
    });
    let length = split.unwrap_or(1);
    let span = spans.get_mut(schedule.blocked_axis(host.id, axis)?)?;
    let first = host.loops[axis.0 as usize].clone() * length;
    *span = Span { first, size: Poly::constant(length) };
    Some(span.clone())
}

/// The region of a stage that is reduced online along the host's loop: all that is read of it
/// anywhere, and the block of its own reduce axis.
fn online_region(stage: &Stage, enclosing: Option<&Vec<Span>>, block: &Span) -> Vec<Span> {
    let axes = stage.compute.axes.iter().enumerate();
    let span = |(n, axis): (usize, &tvmtune_ir::dag::ComputeAxis)| match n {
        _ if n >= stage.compute.n_spatial => block.clone(),
        _ => enclosing
            .and_then(|it| it.get(n).cloned())
            .unwrap_or_else(|| Span::whole(axis.extent.clone())),
    };
    axes.map(span).collect()
}

/// The spans of the host's axes: open loops have one value, the others run. Axes whose span is unknown
/// have that of the loop around, `outer`, whose iteration this one is part of.
fn host_spans(
    stage: &Stage,
    host: &OpenLoop<'_>,
    outer: Option<&Vec<Span>>,
    facts: &Facts,
) -> Vec<Span> {
    let mut spans: Vec<Option<Span>> = vec![None; stage.axes.len()];
    for (place, axis) in stage.order.iter().enumerate() {
        let axis = axis.0 as usize;
        spans[axis] = Some(if place < host.n_open {
            Span::point(host.loops[axis].clone())
        } else {
            Span::whole(host.extents.by_axis[axis].clone())
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
        if let (None, Some(outer)) = (&axis, outer.and_then(|it| it.get(n))) {
            return outer.clone();
        }
        let mut span = axis.unwrap_or_else(|| Span::whole(host.extents.by_axis[n].clone()));
        if let Some(first) = host.origins.get(n) {
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

/// The region of a tile that covers a dynamic axis: as long as the axis may be at most, so that its
/// loops have a constant extent and can be unrolled. `None` unless the tile's size is constant.
fn largest(tile: Span, extent: &Poly, facts: &Facts) -> Option<Span> {
    let size = tile.size.as_constant()?;
    extent.as_constant().is_none().then(|| {
        let size = size.min(extent.interval(facts).hi);
        Span { size: Poly::constant(size), ..tile }
    })
}

/// The regions that readers require, by tensor.
#[derive(Default)]
struct Required {
    reads: BTreeMap<TensorId, Vec<Option<Span>>>,
    /// True if a region of constant size keeps it where it exceeds its axis: shared memory has a
    /// constant size, and tiles of threads whole rows.
    keep_full_tiles: bool,
}

impl Required {
    /// Adds the regions that a stage reads while its axes span `spans`.
    fn add_reads(&mut self, stage: &Stage, spans: &[Span], facts: &Facts) {
        let axis_span = |var: VarId| spans.get(var.0 as usize).cloned();
        stage.compute.body.for_each_read(&mut |tensor, index| {
            let read = index.iter().map(|it| match it {
                Subscript::Affine(poly) => Span::of(poly, &axis_span, facts),
                Subscript::Value(_) => None,
            });
            match self.reads.get_mut(&tensor) {
                None => drop(self.reads.insert(tensor, read.collect())),
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

    /// The spans of a stage's axes that cover the reads.
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
                Some(it) if self.keep_full_tiles && it.size.as_constant().is_some() => it,
                Some(it) if (it.size.clone() - axis.extent.clone()).is_nonnegative(facts) => {
                    largest(it, &axis.extent, facts).unwrap_or_else(whole)
                }
                Some(it) => it,
            }
        };
        stage.compute.axes.iter().enumerate().map(span).collect()
    }
}

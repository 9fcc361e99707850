//! Trace transfer: replays a trace on another dag, of the same class with other extents, or with only
//! the anchor in common.
//!
//! The trace is replayed on both dags side by side. Factors of loops whose extents differ change by a
//! [`FactorPolicy`]; instructions that do not apply are dropped, with all that use an id that they
//! would have handed out. Dags that differ in more than extents are paired by the roles of their stages
//! ([`Anchor`](tvmtune_ir::dag::anchor::Anchor)), and the rest of the trace is dropped.
//!
//! # Source
//!
//! Inner factors as they are, the outermost from the rest: Gibson and Cano, "Transfer-Tuning", 2022.
//! `MetaSchedule`'s trace application with `remove_postproc` and its `PerfectTile` resampling; the
//! distance is ours: the radius in which search should look around the transferred schedule.

mod ids;
mod pairing;
mod policy;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::ids::{Ids, Outcome};
use self::pairing::Writeback;
use self::policy::Extent;
use super::{AxisId, Instruction, Layout, Schedule, ScheduleError, StageId};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::{Facts, Poly};

pub use self::policy::{FactorPolicy, octaves};

/// A schedule made from a trace of another dag.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// The schedule; its trace replays exactly.
    pub schedule: Schedule,
    /// The distance from the original: for each factor the binary logarithm of its ratio, and
    /// [`DROPPED`] for each dropped instruction. 0 if the trace applied unchanged.
    pub distance: f64,
}

/// The distance of a dropped instruction: that of a tile that shrank to an eighth.
pub const DROPPED: f64 = 3.0;

/// Replays a trace of `original` on `dag`, as much of it as applies, with factors lowered until
/// they fit: see [`FactorPolicy::Shrink`].
///
/// # Errors
///
/// The error of the first primitive that refuses on `original`: the trace was not made there.
pub fn repair(trace: &[Instruction], original: &Dag, dag: &Dag) -> Result<Repaired, ScheduleError> {
    repair_by(FactorPolicy::Shrink, trace, original, dag)
}

/// Replays a trace of `original` on `dag`, as much of it as applies. On `original` itself no
/// policy changes it.
///
/// # Errors
///
/// The error of the first primitive that refuses on `original`: the trace was not made there.
pub fn repair_by(
    policy: FactorPolicy,
    trace: &[Instruction],
    original: &Dag,
    dag: &Dag,
) -> Result<Repaired, ScheduleError> {
    let mut repair = Repair {
        policy,
        from: Schedule::new(original),
        to: Schedule::new(dag),
        facts: [original.facts(), dag.facts()],
        ids: Ids::default(),
        writeback: None,
        tiles: BTreeMap::new(),
        distance: 0.0,
    };
    repair.pair_up();
    for instruction in trace {
        repair.step(instruction)?;
    }
    Ok(Repaired { schedule: repair.to, distance: repair.distance })
}

struct Repair {
    policy: FactorPolicy,
    from: Schedule,
    to: Schedule,
    /// The ranges of the dimensions of either dag.
    facts: [Facts; 2],
    ids: Ids,
    /// Set while the original's anchor writes its own result back, but another stage does so in the
    /// new dag.
    writeback: Option<Writeback>,
    /// The adapted lengths of tiles, by both extents and the original length: layouts follow them.
    tiles: BTreeMap<(Extent, Extent, u64), u64>,
    distance: f64,
}

impl Repair {
    fn step(&mut self, instruction: &Instruction) -> Result<(), ScheduleError> {
        if self.try_skip_cache_write(instruction)? {
            return Ok(());
        }
        let adapted = self.ids.translated(instruction).map(|it| self.adapted(instruction, it));
        self.from.apply(instruction)?;
        let applied = adapted.filter(|(it, _)| self.to.apply(it).is_ok());
        match (applied, instruction) {
            (Some((_, distance)), _) => {
                self.distance += distance;
                self.ids.reset(instruction, &self.from, Outcome::Applied);
                self.ids.note(&self.from, &self.to);
            }
            // A stage without a counterpart needs no inlining.
            (None, Instruction::Inline { stage }) if !self.ids.stages.contains_key(stage) => {}
            (None, _) => {
                self.distance += DROPPED;
                self.ids.reset(instruction, &self.from, Outcome::Dropped);
                self.ids.skip(&self.from);
            }
        }
        Ok(())
    }

    /// Adapts the factors of an instruction to the new extents; returns the distance moved.
    fn adapted(&mut self, old: &Instruction, mut new: Instruction) -> (Instruction, f64) {
        let mut distance = 0.0;
        match (old, &mut new) {
            (
                Instruction::Split { stage, axis, .. },
                Instruction::Split { stage: to, axis: at, factors },
            ) => {
                let was = extent(&self.from, *stage, *axis, &self.facts[0]);
                let is = extent(&self.to, *to, *at, &self.facts[1]);
                if let (Some(was), Some(is)) = (was, is) {
                    distance += self.fit_tiles(factors, was, is);
                }
            }
            (Instruction::Pack { tensor, .. }, Instruction::Pack { tensor: to, layout }) => {
                let was = self.from.tensors.get(tensor.0 as usize).map(|it| &it.tensor.shape);
                let is = self.to.tensors.get(to.0 as usize).map(|it| &it.tensor.shape);
                if let (Some(was), Some(is)) = (was, is)
                    && layout.fits(is.len())
                    && layout.fits(was.len())
                {
                    let shapes = [was.clone(), is.clone()];
                    distance += self.fit_layout(layout, shapes);
                }
            }
            (Instruction::SetKnobs { values: old }, Instruction::SetKnobs { values }) => {
                let template = |it: &Schedule| it.dag.kernel_template.clone();
                if let Some((was, is)) = template(&self.from).zip(template(&self.to)) {
                    *values = is.nearest(&was, old);
                    let pairs = old.iter().zip(values.iter());
                    distance += pairs.map(|(old, new)| octaves(*old, *new)).sum::<f64>();
                }
            }
            _ => {}
        }
        (new, distance)
    }

    /// Adapts the factors of a split, and records the lengths of its tiles.
    fn fit_tiles(&mut self, factors: &mut [u64], was: Extent, is: Extent) -> f64 {
        let old = factors.to_vec();
        let distance = self.policy.fit(factors, was, is);
        let (mut length, mut fitted) = (1_u64, 1_u64);
        for (old, new) in old.iter().zip(factors.iter()).rev() {
            (length, fitted) = (length.saturating_mul(*old), fitted.saturating_mul(*new));
            self.tiles.entry((was, is, length)).or_insert(fitted);
        }
        distance
    }

    /// Adapts the splits of a layout: as the tile of that length, or each on its own.
    fn fit_layout(&self, layout: &mut Layout, mut shapes: [Vec<Poly>; 2]) -> f64 {
        let mut distance = 0.0;
        for (dim, factor) in &mut layout.splits {
            let [was, is] = [0, 1].map(|it| Extent::of(&shapes[it][*dim], &self.facts[it]));
            let old = *factor;
            match self.tiles.get(&(was, is, old)) {
                Some(fitted) => {
                    *factor = *fitted;
                    distance += octaves(old, *fitted);
                }
                None => distance += self.policy.fit(std::slice::from_mut(factor), was, is),
            }
            for (shape, factor) in shapes.iter_mut().zip([old, *factor]) {
                let factor = factor as i64;
                let parts = [
                    shape[*dim].ceil_div(factor.max(1), &Facts::default()),
                    Poly::constant(factor),
                ];
                shape.splice(*dim..=*dim, parts);
            }
        }
        distance
    }
}

fn extent(schedule: &Schedule, stage: StageId, axis: AxisId, facts: &Facts) -> Option<Extent> {
    let stage = schedule.stages.get(stage.0 as usize)?;
    Some(Extent::of(&stage.axes.get(axis.0 as usize)?.extent, facts))
}

//! Replaying a trace where it was not made: on a dag of the same class with other extents, or on
//! one that has only its anchor in common.
//!
//! The trace is replayed on both dags side by side. Factors of what is longer or shorter there
//! change as a [`Policy`] says; what does not apply is left out, with whatever uses an id that it
//! would have handed out. Dags that differ in more than extents are paired up by what their stages
//! are there for ([`Anchor`]), and the rest of the trace is left out.
//!
//! # Source
//!
//! Inner factors as they are, the outermost from what is left: Gibson and Cano, "Transfer-Tuning",
//! 2022. `MetaSchedule`'s trace application with `remove_postproc` and its `PerfectTile`
//! resampling; the distance is ours: how far search should look around what transfer found.

mod fit;
mod ids;
mod role;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use self::fit::Extent;
use self::ids::Ids;
use super::{AxisId, Instruction, Layout, Schedule, ScheduleError, StageId};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::poly::{Facts, Poly};

pub use self::fit::{Policy, octaves};

/// A schedule made from a trace of another dag.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// What became of it; its trace replays exactly.
    pub schedule: Schedule,
    /// How far it moved: for each factor the binary logarithm of how much it grew or shrank, and
    /// [`DROPPED`] for each instruction left out. 0 if the trace applied as it was.
    pub distance: f64,
}

/// What an instruction that had to be left out adds to the distance: as much as a tile that shrank
/// to an eighth.
pub const DROPPED: f64 = 3.0;

/// Replays a trace of `original` on `dag`, as much of it as applies, with factors that are lowered
/// until they fit: see [`Policy::Shrink`].
///
/// # Errors
///
/// That of the first primitive which refuses on `original`: then the trace was not made there.
pub fn repair(trace: &[Instruction], original: &Dag, dag: &Dag) -> Result<Repaired, ScheduleError> {
    repair_by(Policy::Shrink, trace, original, dag)
}

/// Replays a trace of `original` on `dag`, as much of it as applies. On `original` itself it stays
/// as it is, whatever the policy.
///
/// # Errors
///
/// That of the first primitive which refuses on `original`: then the trace was not made there.
pub fn repair_by(
    policy: Policy,
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
        apart: None,
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
    policy: Policy,
    from: Schedule,
    to: Schedule,
    /// What is known of the dimensions of either dag.
    facts: [Facts; 2],
    ids: Ids,
    /// The original's anchor, which stores what it comes to, with anchor and root of a dag in which
    /// another stage does that.
    apart: Option<(StageId, [StageId; 2])>,
    /// What became of tiles of a length, by both extents that were tiled: layouts go along.
    tiles: BTreeMap<(Extent, Extent, u64), u64>,
    distance: f64,
}

impl Repair {
    fn step(&mut self, instruction: &Instruction) -> Result<(), ScheduleError> {
        if self.is_apart_already(instruction)? {
            return Ok(());
        }
        let fitting = self.ids.translated(instruction).map(|it| self.fitting(instruction, it));
        self.from.apply(instruction)?;
        let applied = fitting.filter(|(it, _)| self.to.apply(it).is_ok());
        match (applied, instruction) {
            (Some((_, distance)), _) => {
                self.distance += distance;
                self.ids.reset(instruction, &self.from, true);
                self.ids.note(&self.from, &self.to);
            }
            // What is not there needs no place.
            (None, Instruction::Inline { stage }) if !self.ids.stages.contains_key(stage) => {}
            (None, _) => {
                self.distance += DROPPED;
                self.ids.reset(instruction, &self.from, false);
                self.ids.skip(&self.from);
            }
        }
        Ok(())
    }

    /// The instruction with factors that fit the new extents, and how far they moved.
    fn fitting(&mut self, old: &Instruction, mut new: Instruction) -> (Instruction, f64) {
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
            _ => {}
        }
        (new, distance)
    }

    /// Fits the factors of a split, and remembers what became of its tiles.
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

    /// Fits the splits of a layout, each on its own, or as the tile of that length.
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

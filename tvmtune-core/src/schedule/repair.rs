//! Replaying a trace where it was not made: on a dag of the same class with other extents.
//!
//! The trace is replayed on both dags side by side. Factors that tiled an axis without a tail on
//! the original are lowered until they do so again; what does not apply is left out, with whatever
//! uses an id that it would have handed out.
//!
//! # Source
//!
//! `MetaSchedule`'s trace application with `remove_postproc` and its `PerfectTile` resampling; the
//! distance is ours: how far search should look around what transfer found.

use std::collections::BTreeMap;

use super::{AxisId, Instruction, Layout, Schedule, ScheduleError, StageId};
use crate::dag::{Dag, TensorId};
use crate::poly::{Facts, Poly};

/// A schedule made from a trace of another dag.
#[derive(Clone, Debug, PartialEq)]
pub struct Repaired {
    /// What became of it; its trace replays exactly.
    pub schedule: Schedule,
    /// How far it moved: for each factor the binary logarithm of how much it shrank, and
    /// [`DROPPED`] for each instruction left out. 0 if the trace applied as it was.
    pub distance: f64,
}

/// What an instruction that had to be left out adds to the distance: as much as a tile that shrank
/// to an eighth.
pub const DROPPED: f64 = 3.0;

/// Replays a trace of `original` on `dag`, as much of it as applies, with factors that fit.
///
/// # Errors
///
/// That of the first primitive which refuses on `original`: then the trace was not made there.
pub fn repair(trace: &[Instruction], original: &Dag, dag: &Dag) -> Result<Repaired, ScheduleError> {
    let mut repair = Repair {
        from: Schedule::new(original),
        to: Schedule::new(dag),
        ids: Ids::default(),
        distance: 0.0,
    };
    repair.ids.note(&repair.from, &repair.to);
    for instruction in trace {
        repair.step(instruction)?;
    }
    Ok(Repaired { schedule: repair.to, distance: repair.distance })
}

struct Repair {
    from: Schedule,
    to: Schedule,
    ids: Ids,
    distance: f64,
}

impl Repair {
    fn step(&mut self, instruction: &Instruction) -> Result<(), ScheduleError> {
        let fitting = self.ids.translated(instruction).map(|it| self.fitting(instruction, it));
        self.from.apply(instruction)?;
        let applied = fitting.filter(|(it, _)| self.to.apply(it).is_ok());
        match applied {
            Some((_, distance)) => {
                self.distance += distance;
                self.ids.reset(instruction, &self.from, true);
                self.ids.note(&self.from, &self.to);
            }
            None => {
                self.distance += DROPPED;
                self.ids.reset(instruction, &self.from, false);
                self.ids.skip(&self.from);
            }
        }
        Ok(())
    }

    /// The instruction with factors that fit the new extents, and how far they moved.
    fn fitting(&self, old: &Instruction, mut new: Instruction) -> (Instruction, f64) {
        let mut distance = 0.0;
        match (old, &mut new) {
            (
                Instruction::Split { stage, axis, .. },
                Instruction::Split { stage: to, axis: at, factors },
            ) => {
                let extents = (extent(&self.from, *stage, *axis), extent(&self.to, *to, *at));
                if let (Some(was), Some(is)) = extents {
                    distance += fit(factors.iter_mut().rev(), was, is);
                }
            }
            (Instruction::Pack { tensor, .. }, Instruction::Pack { tensor: to, layout }) => {
                let was = self.from.tensors.get(tensor.0 as usize).map(|it| &it.tensor.shape);
                let is = self.to.tensors.get(to.0 as usize).map(|it| &it.tensor.shape);
                if let (Some(was), Some(is)) = (was, is)
                    && layout.fits(is.len())
                {
                    distance += fit_layout(layout, was, is);
                }
            }
            _ => {}
        }
        (new, distance)
    }
}

fn extent(schedule: &Schedule, stage: StageId, axis: AxisId) -> Option<i64> {
    let stage = schedule.stages.get(stage.0 as usize)?;
    stage.axes.get(axis.0 as usize)?.extent.as_constant()
}

/// Lowers factors, innermost first, until they divide `is` if they divided `was`, and none is
/// longer than what is left to tile. Returns how far they moved.
fn fit<'a>(factors: impl Iterator<Item = &'a mut u64>, was: i64, is: i64) -> f64 {
    let (mut was, mut left) = (was.unsigned_abs(), is.unsigned_abs().max(1));
    let mut distance = 0.0;
    for factor in factors {
        let wanted = (*factor).max(1);
        let perfect = was.is_multiple_of(wanted);
        let most = wanted.min(left);
        let fits = |it: &u64| !perfect || left.is_multiple_of(*it);
        let found = (1..=most).rev().find(fits).unwrap_or(1);
        distance += (wanted as f64 / found as f64).log2();
        was = was.div_ceil(wanted);
        left = left.div_ceil(found);
        *factor = found;
    }
    distance
}

/// [`fit`] for the splits of a layout, each on its own.
fn fit_layout(layout: &mut Layout, was: &[Poly], is: &[Poly]) -> f64 {
    let (mut was, mut is) = (was.to_vec(), is.to_vec());
    let mut distance = 0.0;
    let facts = Facts::default();
    for (dim, factor) in &mut layout.splits {
        let old = *factor;
        if let (Some(was), Some(is)) = (was[*dim].as_constant(), is[*dim].as_constant()) {
            distance += fit(std::iter::once(&mut *factor), was, is);
        }
        for (shape, factor) in [(&mut was, old), (&mut is, *factor)] {
            let factor = factor as i64;
            let parts = [shape[*dim].ceil_div(factor.max(1), &facts), Poly::constant(factor)];
            shape.splice(*dim..=*dim, parts);
        }
    }
    distance
}

/// Which id of the new schedule stands for which of the original's.
#[derive(Default)]
struct Ids {
    stages: BTreeMap<StageId, StageId>,
    tensors: BTreeMap<TensorId, TensorId>,
    axes: BTreeMap<(StageId, AxisId), AxisId>,
    /// How many of the original's stages, tensors, and axes of each stage, were looked at.
    n_stages: usize,
    n_tensors: usize,
    n_axes: BTreeMap<StageId, usize>,
}

impl Ids {
    /// Pairs up the ids that an instruction which applied to both handed out.
    fn note(&mut self, from: &Schedule, to: &Schedule) {
        // New ids are the last ones on both sides.
        let twin = |n: usize, of: usize, others: usize| (n + others).checked_sub(of);
        for n in self.n_stages..from.stages.len() {
            if let Some(twin) = twin(n, from.stages.len(), to.stages.len()) {
                self.stages.insert(StageId(n as u32), StageId(twin as u32));
            }
        }
        for n in self.n_tensors..from.tensors.len() {
            if let Some(twin) = twin(n, from.tensors.len(), to.tensors.len()) {
                self.tensors.insert(TensorId(n as u32), TensorId(twin as u32));
            }
        }
        for (stage, counterpart) in &self.stages {
            let (mine, theirs) = (&from.stage(*stage).axes, &to.stage(*counterpart).axes);
            let seen = self.n_axes.get(stage).copied().unwrap_or(0);
            for n in seen..mine.len() {
                if let Some(twin) = twin(n, mine.len(), theirs.len()) {
                    self.axes.insert((*stage, AxisId(n as u32)), AxisId(twin as u32));
                }
            }
        }
        self.skip(from);
    }

    /// Leaves the ids that an instruction handed out on the original without a twin.
    fn skip(&mut self, from: &Schedule) {
        self.n_stages = from.stages.len();
        self.n_tensors = from.tensors.len();
        let count = |(n, it): (usize, &super::Stage)| (StageId(n as u32), it.axes.len());
        self.n_axes = from.stages.iter().enumerate().map(count).collect();
    }

    /// Forgets the axes of a stage whose loops the instruction made anew; where it was left out,
    /// the spatial axes are still the same ones.
    fn reset(&mut self, instruction: &Instruction, from: &Schedule, applied: bool) {
        let (Instruction::CacheWrite { stage }
        | Instruction::Hoist { stage }
        | Instruction::Rfactor { stage, .. }) = instruction
        else {
            return;
        };
        self.axes.retain(|(it, _), _| it != stage);
        self.n_axes.insert(*stage, 0);
        if !applied {
            let n_spatial = from.stage(*stage).compute.n_spatial as u32;
            for axis in (0..n_spatial).map(AxisId) {
                self.axes.insert((*stage, axis), axis);
            }
        }
    }

    /// The instruction about the new schedule's ids; `None` if one of them has no twin there.
    fn translated(&self, instruction: &Instruction) -> Option<Instruction> {
        let stage = |it: &StageId| self.stages.get(it).copied();
        let tensor = |it: &TensorId| self.tensors.get(it).copied();
        let axis = |of: &StageId, it: &AxisId| self.axes.get(&(*of, *it)).copied();
        Some(match instruction {
            Instruction::Split { stage: s, axis: a, factors } => {
                Instruction::Split { stage: stage(s)?, axis: axis(s, a)?, factors: factors.clone() }
            }
            Instruction::Fuse { stage: s, outer, inner } => Instruction::Fuse {
                stage: stage(s)?,
                outer: axis(s, outer)?,
                inner: axis(s, inner)?,
            },
            Instruction::Reorder { stage: s, order } => Instruction::Reorder {
                stage: stage(s)?,
                order: order.iter().map(|it| axis(s, it)).collect::<Option<_>>()?,
            },
            Instruction::Annotate { stage: s, axis: a, kind } => {
                Instruction::Annotate { stage: stage(s)?, axis: axis(s, a)?, kind: *kind }
            }
            Instruction::ComputeAt { stage: s, consumer, axis: a } => Instruction::ComputeAt {
                stage: stage(s)?,
                consumer: stage(consumer)?,
                axis: axis(consumer, a)?,
            },
            Instruction::RollingUpdate { stage: s, host, axis: a } => Instruction::RollingUpdate {
                stage: stage(s)?,
                host: stage(host)?,
                axis: axis(host, a)?,
            },
            Instruction::Hoist { stage: s } => Instruction::Hoist { stage: stage(s)? },
            Instruction::Narrow { stage: s, dtype } => {
                Instruction::Narrow { stage: stage(s)?, dtype: *dtype }
            }
            Instruction::Inline { stage: s } => Instruction::Inline { stage: stage(s)? },
            Instruction::CacheRead { tensor: t, reader } => {
                Instruction::CacheRead { tensor: tensor(t)?, reader: stage(reader)? }
            }
            Instruction::CacheOperand { reader, read } => {
                Instruction::CacheOperand { reader: stage(reader)?, read: *read }
            }
            Instruction::CachePadded { tensor: t, reader } => {
                Instruction::CachePadded { tensor: tensor(t)?, reader: stage(reader)? }
            }
            Instruction::CacheWrite { stage: s } => Instruction::CacheWrite { stage: stage(s)? },
            Instruction::Rfactor { stage: s, axis: a } => {
                Instruction::Rfactor { stage: stage(s)?, axis: axis(s, a)? }
            }
            Instruction::Pack { tensor: t, layout } => {
                Instruction::Pack { tensor: tensor(t)?, layout: layout.clone() }
            }
            Instruction::Threads { threads } => Instruction::Threads { threads: *threads },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dag::{
        BinaryOp, Compute, ComputeAxis, ComputeId, DType, Expr, Reducer, Tensor, TensorKind,
    };
    use crate::poly::VarId;

    /// `c[i, j] = sum(k, a[i, k] * b[j, k])`, padded at the left by `padding` if that is not 0.
    fn matmul(m: i64, n: i64, k: i64) -> Dag {
        let extents = [m, n, k].map(Poly::from);
        let [m, n, k] = &extents;
        let var = |n| Poly::var(VarId(n));
        let tensor = |name: &str, shape: [&Poly; 2], kind| Tensor {
            name: name.into(),
            dtype: DType::F32,
            shape: shape.map(Poly::clone).to_vec(),
            kind,
        };
        let axis = |(name, extent): (&str, &Poly)| ComputeAxis {
            name: name.into(),
            extent: extent.clone(),
        };
        let [a, b] = [TensorId(0), TensorId(1)];
        Dag {
            name: "matmul".into(),
            dims: vec![],
            scalars: vec![],
            tensors: vec![
                tensor("a", [m, k], TensorKind::Input),
                tensor("b", [n, k], TensorKind::Weight),
                tensor("c", [m, n], TensorKind::Computed(ComputeId(0))),
            ],
            computes: vec![Compute {
                tensor: TensorId(2),
                axes: ["i", "j", "k"].into_iter().zip(&extents).map(axis).collect(),
                n_spatial: 2,
                reducer: Some(Reducer::Sum),
                body: Expr::read(a, [var(0), var(2)])
                    .binary(BinaryOp::Mul, Expr::read(b, [var(1), var(2)])),
            }],
            outputs: vec![TensorId(2)],
        }
    }

    /// What a trace of a 64 x 96 x 32 matmul becomes on one of other extents.
    #[track_caller]
    fn check(extents: (i64, i64, i64), trace: &str, expected: &str, distance: f64) {
        let lines = |it: &str| -> Vec<Instruction> {
            it.lines()
                .filter(|it| !it.trim().is_empty())
                .map(|it| it.trim().parse().unwrap())
                .collect()
        };
        let dag = matmul(extents.0, extents.1, extents.2);
        let repaired = repair(&lines(trace), &matmul(64, 96, 32), &dag).unwrap();
        assert_eq!(repaired.schedule.trace, lines(expected));
        assert_eq!(Schedule::replay(&dag, &repaired.schedule.trace), Ok(repaired.schedule));
        assert!((repaired.distance - distance).abs() < 1e-9, "{}", repaired.distance);
    }

    const TILED: &str = "
        cache_write s0
        split s0 a0 [8]
        split s0 a1 [3, 16]
        reorder s0 [a2, a4, a3, a5, a6]
        pack t1 [0:48] [0, 2, 1]
        compute_at s1 s0 a4";

    #[test]
    fn a_trace_that_fits_stays_as_it_is() {
        check((64, 96, 32), TILED, TILED, 0.0);
        check((128, 480, 7), TILED, TILED, 0.0);
    }

    #[test]
    fn factors_without_a_tail_shrink_until_they_divide_again() {
        let expected = "
            cache_write s0
            split s0 a0 [6]
            split s0 a1 [2, 16]
            reorder s0 [a2, a4, a3, a5, a6]
            pack t1 [0:32] [0, 2, 1]
            compute_at s1 s0 a4";
        let distance = (8.0_f64 / 6.0).log2() + 2.0 * 1.5_f64.log2();
        check((6, 64, 32), TILED, expected, distance);
    }

    #[test]
    fn factors_that_had_a_tail_may_keep_one() {
        check((63, 96, 32), "split s0 a0 [24]", "split s0 a0 [24]", 0.0);
        check((10, 96, 32), "split s0 a0 [24]", "split s0 a0 [10]", 2.4_f64.log2());
    }
}

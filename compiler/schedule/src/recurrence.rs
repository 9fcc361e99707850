//! Schedules of recurrences: steps run in order, one after the other.
//!
//! A step reads what the one before stored, so loops that run along the recurrent axis are serial and keep
//! their order, and the stage runs on its own, from its first step on. All other loops are free: elements of
//! a step are independent of one another.

use super::error::{ErrorKind, ScheduleError, refuse_if};
use super::{AxisId, Relation, Schedule, Stage, StageId};

impl Stage {
    /// Returns the loops that run the steps of a recurrence, in the order in which these follow one
    /// another; none if it is no recurrence.
    pub fn recurrent_loops(&self) -> Vec<AxisId> {
        self.steps().0
    }

    /// Returns whether a loop that runs steps of a recurrence runs along another axis as well.
    pub(crate) fn fuses_steps(&self) -> bool {
        self.steps().1
    }

    /// The loops that run steps, and whether one of them was fused with another.
    fn steps(&self) -> (Vec<AxisId>, bool) {
        let Some(axis) = self.compute.recurrent_axis() else { return (Vec::new(), false) };
        let (mut steps, mut is_fused) = (vec![AxisId(axis as u32)], false);
        for relation in &self.relations {
            match relation {
                Relation::Split { parent, parts, .. } => {
                    if let Some(at) = steps.iter().position(|it| it == parent) {
                        steps.splice(at..=at, parts.iter().copied());
                    }
                }
                Relation::Fuse { outer, inner, fused } => {
                    // Loops of both are neighbors.
                    if let Some(at) = steps.iter().position(|it| it == outer || it == inner) {
                        steps[at] = *fused;
                        steps.retain(|it| it != outer && it != inner);
                        is_fused = true;
                    }
                }
            }
        }
        (steps, is_fused)
    }
}

impl Schedule {
    /// Refuses unless the loops that run steps of a stage follow one another and run in order.
    pub(crate) fn check_steps(&self, id: StageId) -> Result<(), ScheduleError> {
        let stage = self.stage(id);
        let steps = stage.recurrent_loops();
        let found = stage.order.iter().filter(|it| steps.contains(*it));
        refuse_if(!found.eq(&steps), ErrorKind::Recurrent.of_stage(id))?;
        let is_unordered = |it: &&AxisId| !stage.axis(**it).kind.is_in_order();
        let unordered = steps.iter().find(is_unordered);
        unordered.map_or(Ok(()), |it| Err(ErrorKind::Recurrent.of_axis(id, *it)))
    }

    /// Refuses a stage whose elements depend on others of the same tensor.
    pub(crate) fn check_not_recurrent(&self, id: StageId) -> Result<(), ScheduleError> {
        refuse_if(self.stage(id).compute.is_recurrent(), ErrorKind::Recurrent.of_stage(id))
    }
}

#[cfg(test)]
mod tests {
    use crate::nest::tests::tried;

    const DECAY: &str = "
        #[autotune(dims(B = 2..=6, T = 1..=100, D = 12))]
        fn decay(x: Tensor<f32, B, T, D>) -> Tensor<f32, B, D> {
            let h: Tensor<f32, B, T, D> =
                compute(|b, t, d| scan(0..=t, 1.0, |h, s| 0.5 * h + x[[b, s, d]]));
            compute(|b, d| sum(0..T, |t| h[[b, t, d]]))
        }";

    #[track_caller]
    fn check(trace: &str, is_legal: bool) {
        let refused = tried(DECAY, trace).err().map(|it| it.to_string());
        let expected =
            "each step needs the one before: steps run in order, in a stage of their own";
        let starts = refused.as_ref().map(|it| it.starts_with(expected));
        assert_eq!(starts, (!is_legal).then_some(true), "{trace}: {refused:?}");
    }

    #[test]
    fn other_loops_are_free() {
        check("annotate s0 a0 parallel\nannotate s0 a2 vectorized\nannotate s0 a1 unrolled", true);
        check("reorder s0 [a2, a0, a1]", true);
        check("reorder s0 [a0, a2, a1]\nannotate s0 a0 parallel\nannotate s0 a2 parallel", true);
    }

    #[test]
    fn steps_are_neither_parallel_nor_lanes() {
        check("reorder s0 [a1, a0, a2]\nannotate s0 a1 parallel", false);
        check("reorder s0 [a0, a2, a1]\nannotate s0 a1 vectorized", false);
        check("fuse s0 a0 a1\nannotate s0 a3 parallel", false);
        check("fuse s0 a1 a2\nannotate s0 a3 vectorized", false);
    }

    #[test]
    fn steps_keep_their_order() {
        check("split s0 a1 [4]\nreorder s0 [a3, a0, a4, a2]", true);
        check("split s0 a1 [4]\nreorder s0 [a4, a3]", false);
        check("split s0 a1 [4]\nfuse s0 a4 a2\nsplit s0 a5 [3]\nreorder s0 [a7, a6]", false);
        check("split s0 a1 [4]\nfuse s0 a3 a4\nannotate s0 a5 parallel", false);
    }

    #[test]
    fn a_recurrence_runs_on_its_own() {
        check("compute_at s0 s1 a0", false);
        check("inline s0", false);
        check("cache_read t1 s0", false);
        check("cache_read t0 s0\ncompute_at s2 s0 a1", true);
        check("cache_read t1 s1", true);
    }
}

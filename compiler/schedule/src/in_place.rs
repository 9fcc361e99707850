//! Schedules of results in place: a stage that reads what another one replaces is done before.
//!
//! The stage that replaces a parameter stores each element once. Whatever else reads the parameter's
//! old elements runs before it, as a stage of its own, or in its loops: then an iteration of the loops
//! around may read only the elements that it replaces itself. For that, each of these loops walks along
//! dimensions whose index is the same in the read and in what is replaced, and together they walk in
//! blocks of neighbors: rows of a normalization, tiles of rows, but no part of a row.

use super::error::{ErrorKind, ScheduleError};
use super::{Attach, AxisId, AxisRole, Relation, Schedule, Stage, StageId};
use tvmtune_ir::dag::{Compute, Expr, Subscript, TensorId};
use tvmtune_ir::poly::VarId;

/// The loops that stand around a part of a stage, among those that an axis was replaced by.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Around {
    /// All of them: one iteration of the axis.
    All,
    /// None: all iterations.
    None,
    /// The outer ones: a block of neighbors.
    Outer,
    /// None, and some of them run along another axis as well: then regions of the axis are not known.
    Fused,
    /// Others: iterations that are no block.
    Scattered,
}

impl Schedule {
    /// Returns whether a parameter's memory receives a result.
    pub(crate) fn is_in_place(&self) -> bool {
        self.dag.in_place().next().is_some()
    }

    /// Refuses unless all stages read the old elements of parameters in place, wherever they run.
    pub(crate) fn check_in_place(&self) -> Result<(), ScheduleError> {
        for (old, new) in self.dag.in_place() {
            let Some(root) = self.tensor(new).stage else { continue };
            for reader in self.readers(old) {
                if !self.reads_before(reader, old, root) {
                    return Err(ErrorKind::Overwritten.of_stage(reader));
                }
            }
        }
        Ok(())
    }

    /// Returns whether a stage reads elements of `old` before `root` replaces them.
    fn reads_before(&self, reader: StageId, old: TensorId, root: StageId) -> bool {
        let compute = &self.stage(reader).compute;
        if reader == root {
            return compute.reducer.is_none() && compute.reads_own_element_only(old);
        }
        let place = |it: StageId| self.order.iter().position(|other| *other == it);
        let mut host = reader;
        while let Attach::At(next, axis) = self.stage(host).attach {
            if next == root {
                return self.reads_own_block(reader, old, root, axis);
            }
            host = next;
        }
        place(host) < place(root)
    }

    /// Returns whether a stage that runs in a loop of `root` reads only elements of `old` that the
    /// same iteration of that loop replaces, and is done before.
    fn reads_own_block(&self, reader: StageId, old: TensorId, root: StageId, at: AxisId) -> bool {
        let stage = self.stage(root);
        let Some(depth) = stage.order.iter().position(|it| *it == at) else { return false };
        let around = &stage.order[..=depth];
        // A reduction stores its first value before its loops.
        if around.iter().any(|it| stage.axis(*it).role == AxisRole::Reduce) {
            return false;
        }
        let walked = loops_around(stage, around);
        (0..stage.compute.n_spatial).all(|dim| match walked[dim] {
            Around::None | Around::Fused => true,
            Around::Scattered => false,
            Around::All | Around::Outer => {
                let tied = self.tied(reader, root, dim);
                let index_is = |index: &[Subscript]| axis_of(index, dim).is_some_and(|it| tied[it]);
                all_reads(&self.stage(reader).compute, old, &index_is)
            }
        })
    }

    /// For each axis of a stage that runs in `root`: whether its value is the index along `dim` of
    /// whatever element of `root` it is computed for.
    fn tied(&self, stage: StageId, root: StageId, dim: usize) -> Vec<bool> {
        let compute = &self.stage(stage).compute;
        if stage == root {
            return (0..compute.axes.len()).map(|it| it == dim).collect();
        }
        let mut tied = vec![false; compute.axes.len()];
        tied[..compute.n_spatial].fill(true);
        for reader in self.readers(compute.tensor) {
            let of_reader = self.tied(reader, root, dim);
            for (axis, tied) in tied[..compute.n_spatial].iter_mut().enumerate() {
                let same =
                    |index: &[Subscript]| axis_of(index, axis).is_some_and(|it| of_reader[it]);
                *tied &= all_reads(&self.stage(reader).compute, compute.tensor, &same);
            }
        }
        tied
    }
}

/// The axis whose value is the subscript of that number, if it is one.
fn axis_of(index: &[Subscript], n: usize) -> Option<usize> {
    let VarId(axis) = index.get(n)?.affine()?.as_var()?;
    Some(axis as usize)
}

/// Returns whether all reads of a tensor have such an index.
fn all_reads(compute: &Compute, tensor: TensorId, is: &dyn Fn(&[Subscript]) -> bool) -> bool {
    !compute.body.any(
        &mut |it| matches!(it, Expr::Read { tensor: read, index } if *read == tensor && !is(index)),
    )
}

/// For each axis of a stage, the loops `around` that it was replaced by.
fn loops_around(stage: &Stage, around: &[AxisId]) -> Vec<Around> {
    let loop_state = |n: u32| {
        let is_around = around.contains(&AxisId(n));
        if is_around { Around::All } else { Around::None }
    };
    let mut state: Vec<Around> = (0..stage.axes.len() as u32).map(loop_state).collect();
    let is_single = |it: AxisId| stage.axis(it).extent.as_constant() == Some(1);
    for relation in stage.relations.iter().rev() {
        match relation {
            Relation::Split { parent, parts, .. } => {
                let counts =
                    |it: &&AxisId| !is_single(**it) || state[it.0 as usize] == Around::Fused;
                let parts: Vec<Around> =
                    parts.iter().filter(counts).map(|it| state[it.0 as usize]).collect();
                state[parent.0 as usize] = block(&parts);
            }
            Relation::Fuse { outer, inner, fused } => {
                let whole = match state[fused.0 as usize] {
                    Around::All => Around::All,
                    Around::None | Around::Fused => Around::Fused,
                    // A block of the fused axis is no block of the two.
                    Around::Outer | Around::Scattered => Around::Scattered,
                };
                state[outer.0 as usize] = whole;
                state[inner.0 as usize] = whole;
            }
        }
    }
    state
}

/// The iterations of a split axis, from those of its parts, outermost first.
fn block(parts: &[Around]) -> Around {
    let whole = parts.iter().take_while(|it| **it == Around::All).count();
    match &parts[whole..] {
        [] => Around::All,
        rest if whole == 0 && rest.iter().all(|it| *it == Around::None) => Around::None,
        rest if whole == 0 && rest.iter().all(|it| matches!(it, Around::None | Around::Fused)) => {
            Around::Fused
        }
        [Around::Outer | Around::None, rest @ ..] if rest.iter().all(|it| *it == Around::None) => {
            Around::Outer
        }
        _ => Around::Scattered,
    }
}

#[cfg(test)]
mod tests {
    use crate::nest::tests::{scheduled, tried};

    const NORM: &str = "
        #[autotune(dims(M = 1..=100, K = 12))]
        fn norm(y: InOut<f32, M, K>) {
            let s = compute(|i| sum(0..K, |k| y[[i, k]] * y[[i, k]]));
            y = compute(|i, k| y[[i, k]] / s[[i]]);
        }";

    #[track_caller]
    fn check(trace: &str, expected: Option<&str>) {
        let refused = tried(NORM, trace).err().map(|it| it.to_string());
        assert_eq!(refused.as_deref(), expected, "{trace}");
    }

    const LATE: Option<&str> =
        Some("a stage reads elements that a result has replaced, or may have (s0)");

    #[test]
    fn rows_are_normalized_one_by_one_or_in_tiles() {
        scheduled(NORM, "");
        check("compute_at s0 s1 a0", None);
        check("split s1 a0 [4]\ncompute_at s0 s1 a2", None);
        check("split s1 a0 [4]\ncompute_at s0 s1 a3", None);
        check("split s1 a0 [4, 2]\nreorder s1 [a2, a1, a3, a4]", None);
        check("split s1 a0 [4]\nsplit s1 a1 [3]\ncompute_at s0 s1 a3", None);
    }

    #[test]
    fn parts_of_rows_are_not() {
        check("compute_at s0 s1 a1", LATE);
        check("split s1 a1 [4]\ncompute_at s0 s1 a2", LATE);
        check("reorder s1 [a1, a0]\ncompute_at s0 s1 a0", LATE);
        check("compute_at s0 s1 a0\nreorder s1 [a1, a0]", LATE);
        check("fuse s1 a0 a1\ncompute_at s0 s1 a2", LATE);
    }

    #[test]
    fn rows_that_are_no_neighbors_are_not() {
        check("split s1 a0 [4]\nreorder s1 [a3, a2, a1]\ncompute_at s0 s1 a3", LATE);
        check("split s1 a0 [4]\nreorder s1 [a3, a2, a1]\ncompute_at s0 s1 a2", None);
    }

    #[test]
    fn blocks_of_fused_axes_are_not() {
        let norm = NORM
            .replace("dims(M = 1..=100,", "dims(M = 1..=100, B = 3,")
            .replace("f32, M, K", "f32, M, B, K")
            .replace("|i|", "|i, b|")
            .replace("|i, k|", "|i, b, k|")
            .replace("[[i", "[[i, b");
        assert_eq!(tried(&norm, "fuse s1 a0 a1\ncompute_at s0 s1 a3").err(), None);
        let refused = tried(&norm, "fuse s1 a0 a1\nsplit s1 a3 [4]\ncompute_at s0 s1 a4");
        assert_eq!(refused.err().map(|it| it.to_string()).as_deref(), LATE);
    }

    #[test]
    fn parts_of_axes_are_not_fused_with_others_below() {
        let fused = "split s1 a0 [4]\ncompute_at s0 s1 a2\nfuse s1 a3 a1";
        let refused = tried(NORM, fused).err().map(|it| it.to_string());
        assert_eq!(refused.as_deref(), LATE);
        check("fuse s1 a0 a1", None);
    }

    #[test]
    fn a_reduction_starts_after_all_that_it_replaces_was_read() {
        let mix = "
            #[autotune(dims(M = 1..=100, K = 12))]
            fn mix(w: Tensor<f32, K, K>, y: InOut<f32, M, K>) {
                let t = compute(|i, k| y[[i, k]] * 2.0);
                y = compute(|i, j| sum(0..K, |k| t[[i, k]] * w[[k, j]]));
            }";
        assert_eq!(tried(mix, "compute_at s0 s1 a0").err(), None);
        let refused = tried(mix, "reorder s1 [a0, a2, a1]\ncompute_at s0 s1 a2");
        assert_eq!(refused.err().map(|it| it.to_string()).as_deref(), LATE);
        assert!(tried(mix, "inline s0").is_err());
    }

    #[test]
    fn what_was_replaced_is_read_by_no_later_stage() {
        let turn = "
            #[autotune(dims(N = 12))]
            fn turn(a: InOut<f32, N>, b: InOut<f32, N>) {
                let d = compute(|n| a[[n]] - b[[n]]);
                a = compute(|n| a[[n]] + b[[n]]);
                b = compute(|n| d[[n]]);
            }";
        let refused = tried(turn, "inline s0").unwrap_err().to_string();
        assert_eq!(refused, "a stage reads elements that a result has replaced, or may have (s2)");
    }

    #[test]
    fn neighbors_stay_in_a_copy() {
        let shift = "
            #[autotune(dims(M = 1..=100, K = 12))]
            fn shift(y: InOut<f32, M, K>) {
                y = compute(|i, k| y.get([i, k + 1]).unwrap_or(0.0));
            }";
        let refused = tried(shift, "inline s0").unwrap_err().to_string();
        assert_eq!(refused, "a stage reads elements that a result has replaced, or may have (s1)");
        assert_eq!(tried(shift, "compute_at s0 s1 a0").err(), None);
        assert!(tried(shift, "compute_at s0 s1 a1").is_err());
    }
}

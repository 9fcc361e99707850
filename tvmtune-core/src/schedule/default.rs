//! The schedule used where nothing was measured.
//!
//! In: a [`Dag`] and a [`Target`]. Out: the first sketch of the dag with the options that analysis
//! chose: tiles from a model of registers and ports, blocks from cache sizes, threads from an
//! estimate of the work. Search starts from the same point.

use super::Schedule;
use super::sketch::sketches;
use crate::dag::Dag;
use crate::target::Target;

/// A schedule that is good with no measurement. Never fails: where no rule applies, loops run as
/// the program wrote them.
pub fn schedule(dag: &Dag, target: &Target) -> Schedule {
    let from =
        |it: &super::sketch::Sketch| Schedule::replay(dag, &it.instructions(&it.default)).ok();
    sketches(dag, target).iter().find_map(from).unwrap_or_else(|| Schedule::new(dag))
}

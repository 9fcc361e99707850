//! The schedule space of a task.
//!
//! In: a [`Dag`] and a [`Target`]. Out: a [`Space`]: the sketches of the dag, with operators that sample,
//! mutate and cross over points. Next: [`Space::instructions`] turns a point into a trace, which
//! `Schedule::replay` applies. Other traces become points by [`Space::import_trace`].
//!
//! # Invariants
//!
//! - A point has one option number for each decision of its sketch.
//! - Sketches are only appended, so points stay valid.
//! - Nothing here depends on anything but its arguments: the same random numbers give the same
//!   points.

mod import_trace;
mod mutate;
mod sample;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;
use tvmtune_schedule::Instruction;
use tvmtune_space::sketch::{self, Decision, Sketch};

/// All sketches of a dag on a target.
#[derive(Clone, Debug, PartialEq)]
pub struct Space {
    /// At least one; the first holds the default schedule.
    pub sketches: Vec<Sketch>,
    /// Search starts from the points that the analytic cost model prefers; false for Ansor's space.
    pub is_analytic: bool,
}

/// A point near another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbor {
    /// The point.
    pub point: Point,
    /// The changed decision: if a factor moved between two tile levels, the one whose factor grew.
    pub decision: u16,
    /// True if the decision has a later option than before.
    pub is_later: bool,
}

/// An option for each decision of one sketch.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Point {
    /// The sketch, by position in [`Space::sketches`].
    pub sketch: u16,
    /// Option numbers, one for each decision.
    pub choices: Vec<u16>,
}

impl Space {
    /// The space of a dag on a target.
    pub fn new(dag: &Dag, target: &Target) -> Self {
        Self::from_sketches(sketch::sketches(dag, target))
    }

    /// The space in which Ansor searches, without an analytic cost model.
    pub fn ansor(dag: &Dag, target: &Target) -> Self {
        Self { is_analytic: false, ..Self::from_sketches(sketch::ansor(dag, target)) }
    }

    /// The space of these sketches, at least one.
    pub fn from_sketches(sketches: Vec<Sketch>) -> Self {
        Self { sketches, is_analytic: true }
    }

    /// The sketch of a point.
    pub fn sketch(&self, point: &Point) -> &Sketch {
        &self.sketches[point.sketch as usize]
    }

    /// The decisions of a point.
    pub fn decisions(&self, point: &Point) -> &[Decision] {
        &self.sketch(point).decisions
    }

    /// The trace of a point.
    pub fn instructions(&self, point: &Point) -> Vec<Instruction> {
        self.sketch(point).instructions(&point.choices)
    }

    /// The points that the analytic cost model prefers: one of each sketch, the default first.
    pub fn defaults(&self) -> Vec<Point> {
        if !self.is_analytic {
            return Vec::new();
        }
        let point =
            |(n, it): (usize, &Sketch)| Point { sketch: n as u16, choices: it.default.clone() };
        self.sketches.iter().enumerate().map(point).collect()
    }

    /// The decisions that differ between points of a sketch, as text: `c rows 8 -> 6` for the tile
    /// factor `rows` of stage `c`.
    pub fn describe_differences(&self, from: &Point, to: &Point) -> Vec<String> {
        let choices = from.choices.iter().zip(&to.choices);
        let changed = self.decisions(from).iter().zip(choices).filter(|(_, (a, b))| a != b);
        let describe = |(decision, (a, b)): (&Decision, (&u16, &u16))| {
            let value = |it: &u16| decision.options[*it as usize];
            format!("{} {} -> {}", decision.name, value(a), value(b))
        };
        if from.sketch == to.sketch { changed.map(describe).collect() } else { Vec::new() }
    }

    /// Counts the points; saturates.
    pub fn n_points(&self) -> u64 {
        self.sketches.iter().fold(0, |n, it| n.saturating_add(it.n_points()))
    }
}

#[cfg(test)]
mod tests;

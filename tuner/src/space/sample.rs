//! Random points.

use tvmtune_space::sketch::{Decision, Sketch};

use super::{Point, Space};
use crate::random::Random;

/// Probability that a random point keeps the default of a decision: of many uniform choices, at least
/// one is nearly always bad.
const KEEP_DEFAULT: f64 = 0.4;

impl Space {
    /// A point of any sketch, each as likely.
    pub fn random(&self, random: &mut Random) -> Point {
        let sketch = random.below(self.sketches.len());
        self.random_of(sketch as u16, random)
    }

    /// A point of one sketch: each decision has any of its options, with more weight on its default.
    pub fn random_of(&self, sketch: u16, random: &mut Random) -> Point {
        let Sketch { decisions, default, .. } = &self.sketches[sketch as usize];
        let keep = if self.is_analytic { KEEP_DEFAULT } else { 0.0 };
        let choose = |(Decision { options, .. }, best): (&_, &u16)| {
            if random.chance(keep) { *best } else { random.below(options.len()) as u16 }
        };
        Point { sketch, choices: decisions.iter().zip(default).map(choose).collect() }
    }
}

//! The schedule that a value function chooses, beside the one that analysis prefers.

use serde::{Deserialize, Serialize};

use super::beam::beam_search;
use super::function::{Features, ValueFunction};
use super::prefix::Prefix;
use crate::space::Point;

/// The width of the search, and the gain that it takes to leave the default schedule.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// The number of prefixes that are followed at once; one is a greedy search.
    pub width: usize,
    /// The predicted gain over the default schedule, as a share of its speed, up to which that is kept:
    /// predictions err, and the default schedule is rarely bad.
    pub margin: f64,
}

/// A schedule that was chosen without a measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// The schedule.
    pub point: Point,
    /// Its predicted speed relative to that of the default schedule: 1 if it is the default one, or if that
    /// does not run.
    pub gain: f64,
}

impl Policy {
    /// Returns the schedule of the highest value that a beam search finds, or the default one of the space
    /// if that is predicted to be about as fast; `None` if none runs. The result does not depend on the
    /// number of threads.
    pub fn choose(
        self,
        value: &ValueFunction,
        features: &Features<'_>,
        n_threads: usize,
    ) -> Option<Chosen> {
        let space = features.space;
        let values = |it: &[Prefix]| value.values(features, it, n_threads);
        let found = beam_search(space, self.width, values).into_iter().next();
        let default = space.defaults().into_iter().next();
        let (found, default) = match (found, default) {
            (Some(found), Some(default)) => (found, default),
            (found, default) => {
                return found.or(default).map(|point| Chosen { point, gain: 1.0 });
            }
        };
        let both = values(&[Prefix::complete(&found), Prefix::complete(&default)]);
        let gain = both[0] / both[1].max(MIN_VALUE);
        match gain > 1.0 + self.margin {
            true => Some(Chosen { point: found, gain }),
            false => Some(Chosen { point: default, gain: 1.0 }),
        }
    }
}

/// The smallest value of a schedule that runs: what is predicted below it is noise.
const MIN_VALUE: f64 = 1e-2;

//! Outcomes and timings of candidates.

use std::fmt;

use serde::{Deserialize, Serialize};
use tvmtune_plan::record::Measured;

use crate::statistics;

/// The outcome of measuring a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Its results are right; here is its timing.
    Timed(Timing),
    /// Its results are wrong.
    Wrong(String),
    /// Its worker crashed, or violated the protocol.
    Crashed(String),
    /// It exceeded the time limit.
    TimedOut,
    /// It has no code, or none that can be launched.
    Invalid(String),
}

/// The latency of one launch, in ns, over repeats; at least one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timing {
    samples_ns: Vec<f64>,
}

impl Timing {
    /// Creates a timing; `None` without samples, or if some are not positive.
    pub fn new(samples_ns: Vec<f64>) -> Option<Self> {
        let valid = |it: &f64| it.is_finite() && *it > 0.0;
        (!samples_ns.is_empty() && samples_ns.iter().all(valid)).then_some(Self { samples_ns })
    }

    /// Returns the samples in the order in which they were taken.
    pub fn samples_ns(&self) -> &[f64] {
        &self.samples_ns
    }

    /// Returns the minimum, by which screening ranks candidates.
    pub fn min_ns(&self) -> f64 {
        statistics::min(&self.samples_ns)
    }

    /// Returns the median of the faster half, by which finalists are ranked.
    pub fn typical_ns(&self) -> f64 {
        statistics::median(&statistics::faster_half(&self.samples_ns))
    }

    /// Returns the median.
    pub fn median_ns(&self) -> f64 {
        statistics::median(&self.samples_ns)
    }

    /// Tells if this is faster than another timing, taken side by side, by at least the share
    /// `min_gain`, at significance level `p`.
    pub fn beats(&self, other: &Timing, p: f64, min_gain: f64) -> bool {
        let [a, b] = [self, other].map(|it| statistics::faster_half(&it.samples_ns));
        let enough = self.typical_ns() < other.typical_ns() * (1.0 - min_gain);
        enough && statistics::p_not_faster(&a, &b) < p
    }

    /// Divides all samples by a speed.
    #[must_use]
    pub fn scaled(&self, speed: f64) -> Self {
        Self { samples_ns: self.samples_ns.iter().map(|it| it / speed).collect() }
    }

    /// Returns the timing as a record has it, to a tenth of a ns; `conditions` has the rest.
    pub fn to_measured(&self, conditions: Measured) -> Measured {
        let quantile =
            |share| (statistics::quantile(&self.samples_ns, share) * 10.0).round() / 10.0;
        Measured {
            median_ns: quantile(0.5),
            min_ns: quantile(0.0),
            p10_ns: quantile(0.1),
            p90_ns: quantile(0.9),
            samples: self.samples_ns.len() as u32,
            ..conditions
        }
    }
}

impl Outcome {
    /// Returns the timing of a candidate that works.
    pub fn timing(&self) -> Option<&Timing> {
        match self {
            Outcome::Timed(timing) => Some(timing),
            _ => None,
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Timed(timing) => write!(f, "{:.0} ns", timing.min_ns()),
            Outcome::Wrong(why) => write!(f, "wrong: {why}"),
            Outcome::Crashed(why) => write!(f, "crashed: {why}"),
            Outcome::TimedOut => f.write_str("timed out"),
            Outcome::Invalid(why) => write!(f, "invalid: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timing_beats_another_only_by_a_significant_gain() {
        let beats = |a: &Timing, b: &Timing| a.beats(b, 0.05, 0.005);
        let timing = |ns: f64, noise: f64| {
            let sample = |n: i32| ns * (1.0 + noise * f64::from(n * 7 % 15) / 15.0);
            Timing::new((0..15).map(sample).collect()).unwrap()
        };
        let slower = timing(100.0, 0.01);
        assert!(beats(&timing(95.0, 0.01), &slower));
        assert!(!beats(&timing(99.9, 0.0001), &timing(100.0, 0.0001)), "too little");
        assert!(!beats(&timing(98.0, 0.5), &timing(100.0, 0.5)), "by chance");
        assert!(!beats(&slower, &timing(95.0, 0.01)));
    }
}

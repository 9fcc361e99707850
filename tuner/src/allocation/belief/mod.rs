//! A belief about the future of a curve: how fast a task may become in the next trials.
//!
//! ```text
//! latencies -> speeds -> last segment -> least squares -> ensemble sampler -> prediction -> improvement
//!              (1 now)   (after a jump)  (the start)      (parameters)        (mean, deviation)
//! ```
//!
//! The speed so far is thought of as a curve of one of the [families](Family), whose parameters are known but
//! roughly. Curves that fall below the present speed are excluded, and those that exceed what the device can
//! do.
//!
//! # Source
//!
//! Zhang et al., "`DynaTune`" (ICLR 2021), which takes families and sampler from Domhan et al., "Speeding up
//! automatic hyperparameter optimization of deep neural networks by extrapolation of learning curves" (IJCAI
//! 2015).

mod family;
mod fit;
mod points;
mod sampler;

pub use family::Family;
pub use sampler::{Ensemble, Sampled};

use crate::random::Random;
use fit::minimum;
use points::{Point, last_segment, thinned};

/// The largest speed that is thought possible, relative to the present one, if no bound is known.
const LARGEST: f64 = 10.0;
/// The range of the deviation of observations from a curve, relative to the present speed.
const NOISE: (f64, f64) = (1e-3, 0.3);

/// A belief about a curve.
#[derive(Clone, Debug)]
pub struct Belief {
    family: Family,
    /// Observations of the last segment.
    n_observed: usize,
    /// Parameters of curves, as likely as they occur.
    drawn: Vec<Vec<f64>>,
    /// The share of accepted steps of the sampler, and the first step that was near its stationary density.
    pub acceptance: f64,
    pub stationary_from: usize,
}

/// A predicted speed, relative to the present one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Its mean.
    pub mean: f64,
    /// Its standard deviation.
    pub deviation: f64,
}

impl Belief {
    /// Forms a belief from the best latency after each trial, finite or not, and a lower bound on it; `None`
    /// if no trial worked.
    pub fn new(
        family: Family,
        best_ns: &[f64],
        bound_ns: f64,
        ensemble: Ensemble,
        seed: u64,
    ) -> Option<Self> {
        let now = best_ns.last().copied().filter(|it| it.is_finite() && *it > 0.0)?;
        let speeds: Vec<f64> =
            best_ns.iter().filter(|it| it.is_finite()).map(|it| now / it).collect();
        let segment = last_segment(&speeds);
        let points = thinned(segment);
        let largest = if bound_ns > 0.0 && bound_ns <= now { now / bound_ns } else { LARGEST };
        let posterior = Posterior { family, points: &points, largest };
        let start = posterior.start();
        let sampled =
            ensemble.sample(&|it| posterior.log_density(it), &start, &mut Random::new(seed));
        Some(Self {
            family,
            n_observed: segment.len(),
            drawn: sampled.states,
            acceptance: sampled.acceptance,
            stationary_from: sampled.stationary_from,
        })
    }

    /// Predicts the speed after so many more trials, relative to the present one.
    pub fn predict(&self, ahead: f64) -> Prediction {
        let ln_x = (self.n_observed as f64 + ahead.max(0.0)).ln();
        let speeds: Vec<f64> = self.drawn.iter().map(|it| self.family.value(ln_x, it)).collect();
        let n = speeds.len().max(1) as f64;
        let mean = speeds.iter().sum::<f64>() / n;
        let variance = speeds.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n;
        Prediction { mean, deviation: variance.sqrt() }
    }
}

impl Prediction {
    /// Returns the expected improvement over the present speed, which is 1.
    pub fn improvement(self) -> f64 {
        let gain = self.mean - 1.0;
        if self.deviation < 1e-12 {
            return gain.max(0.0);
        }
        let q = gain / self.deviation;
        let density = (-q * q / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
        (gain * normal(q) + self.deviation * density).max(0.0)
    }
}

/// Returns the cumulative distribution of the standard normal distribution.
fn normal(q: f64) -> f64 {
    0.5 * libm::erfc(-q / std::f64::consts::SQRT_2)
}

/// The density of parameters, given observations. The last parameter is the logarithm of the noise.
struct Posterior<'a> {
    family: Family,
    points: &'a [Point],
    largest: f64,
}

impl Posterior<'_> {
    /// Returns the logarithm of the density, but for a constant; `None` where it is zero.
    fn log_density(&self, parameters: &[f64]) -> Option<f64> {
        let (ln_noise, curve) = parameters.split_last()?;
        let noise = ln_noise.exp();
        if !(NOISE.0..=NOISE.1).contains(&noise) || !self.is_possible(curve) {
            return None;
        }
        let n: f64 = self.points.iter().map(|it| it.weight).sum();
        let errors = self.squared_error(curve);
        let log_density = -errors / (2.0 * noise * noise) - n * ln_noise;
        log_density.is_finite().then_some(log_density)
    }

    /// Tells if a curve neither falls below the present speed nor exceeds the largest.
    fn is_possible(&self, curve: &[f64]) -> bool {
        let Some(last) = self.points.last() else { return false };
        let next = self.family.value(last.ln_x + LOOK_AHEAD, curve);
        let far = self.family.value(last.ln_x + FAR, curve);
        self.family.is_inside(curve) && next >= 1.0 && far >= next && far <= self.largest.max(1.0)
    }

    /// Returns the weighted sum of squared errors.
    fn squared_error(&self, curve: &[f64]) -> f64 {
        let error = |it: &Point| it.weight * (self.family.value(it.ln_x, curve) - it.speed).powi(2);
        self.points.iter().map(error).sum()
    }

    /// Returns the most likely parameters, by least squares.
    fn start(&self) -> Vec<f64> {
        let penalized = |it: &[f64]| match self.is_possible(it) {
            true => self.squared_error(it),
            false => f64::INFINITY,
        };
        let guesses = self.family.guesses(self.points, self.largest);
        let fits = guesses.into_iter().map(|it| minimum(&penalized, it));
        let mut best =
            fits.reduce(|best, it| if it.1 < best.1 { it } else { best }).unwrap_or_default();
        let n: f64 = self.points.iter().map(|it| it.weight).sum();
        let noise = (best.1 / n).sqrt().clamp(NOISE.0 * 1.1, NOISE.1 / 1.1);
        best.0.push(noise.ln());
        best.0
    }
}

/// The logarithms of the factors of trials at which curves must not be below the present speed, and at which
/// they must not exceed the largest.
const LOOK_AHEAD: f64 = 0.01;
const FAR: f64 = 2.3;

#[cfg(test)]
mod tests;

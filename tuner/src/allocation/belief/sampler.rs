//! A sampler of densities that are known but for a factor.
//!
//! # Source
//!
//! The stretch move of Goodman and Weare, "Ensemble samplers with affine invariance" (2010), on two halves of
//! the ensemble in turn, as in the `emcee` package (Foreman-Mackey et al., 2013).

use crate::random::Random;

/// The size of an ensemble, and of its run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ensemble {
    /// The number of walkers: even, and more than twice the number of parameters.
    pub n_walkers: usize,
    /// Steps of each walker.
    pub n_steps: usize,
    /// The first steps, which are not used.
    pub n_burned: usize,
    /// The number of states that are kept of the others, evenly spaced, at most.
    pub n_kept: usize,
}

/// A run of an ensemble.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// States of walkers after the steps that are used.
    pub states: Vec<Vec<f64>>,
    /// The share of accepted steps.
    pub acceptance: f64,
    /// The first step whose mean logarithm of the density is within a deviation of that of the second half.
    pub stationary_from: usize,
}

/// The largest stretch.
const STRETCH: f64 = 2.0;
/// The radius of the ball around the start in which walkers begin, relative to its coordinates.
const BALL: f64 = 1e-2;
/// Draws of a first position, at most, that have a density.
const MAX_DRAWS: usize = 20;

impl Ensemble {
    /// The ensemble of the paper: 10 walkers, 500 steps, of which 100 lead to stationarity.
    pub const DYNATUNE: Self = Self { n_walkers: 10, n_steps: 500, n_burned: 100, n_kept: 200 };

    /// Samples a density, given by its logarithm, from a start at which it is not zero.
    pub fn sample(
        self,
        log_density: &dyn Fn(&[f64]) -> Option<f64>,
        start: &[f64],
        random: &mut Random,
    ) -> Sampled {
        let mut walkers: Vec<(Vec<f64>, f64)> =
            (0..self.n_walkers).map(|_| first(log_density, start, random)).collect();
        let (half, mut n_accepted) = (self.n_walkers / 2, 0_usize);
        let n_used = self.n_steps.saturating_sub(self.n_burned) * self.n_walkers;
        // Coprime to the number of walkers, so that each has its share of what is kept.
        let least = n_used.div_ceil(self.n_kept.max(1)).max(1);
        let stride = (least..).find(|it| gcd(*it, self.n_walkers) == 1).unwrap_or(least);
        let (mut states, mut means) = (Vec::new(), Vec::new());
        let mut moved = vec![0.0; start.len()];
        for step in 0..self.n_steps {
            for n in 0..self.n_walkers {
                let other = if n < half {
                    half + random.below(self.n_walkers - half)
                } else {
                    random.below(half)
                };
                let scale = ((STRETCH - 1.0) * random.unit() + 1.0).powi(2) / STRETCH;
                let (walker, anchor) = (&walkers[n], &walkers[other].0);
                for ((it, y), x) in moved.iter_mut().zip(anchor).zip(&walker.0) {
                    *it = y + scale * (x - y);
                }
                let Some(density) = log_density(&moved) else { continue };
                let dimensions = start.len() as f64;
                let log_ratio = (dimensions - 1.0) * scale.ln() + density - walker.1;
                if log_ratio >= 0.0 || random.unit() < log_ratio.exp() {
                    walkers[n].0.copy_from_slice(&moved);
                    walkers[n].1 = density;
                    n_accepted += 1;
                }
            }
            means.push(walkers.iter().map(|it| it.1).sum::<f64>() / self.n_walkers as f64);
            if let Some(step) = step.checked_sub(self.n_burned) {
                let kept = walkers
                    .iter()
                    .enumerate()
                    .filter(|(n, _)| (step * self.n_walkers + n).is_multiple_of(stride));
                states.extend(kept.map(|(_, it)| it.0.clone()));
            }
        }
        let acceptance = n_accepted as f64 / (self.n_steps * self.n_walkers).max(1) as f64;
        Sampled { states, acceptance, stationary_from: stationary_from(&means) }
    }
}

/// Returns the greatest common divisor.
fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Draws the first position of a walker, near the start.
fn first(
    log_density: &dyn Fn(&[f64]) -> Option<f64>,
    start: &[f64],
    random: &mut Random,
) -> (Vec<f64>, f64) {
    for _ in 0..MAX_DRAWS {
        let near: Vec<f64> =
            start.iter().map(|it| it + BALL * it.abs().max(0.1) * gaussian(random)).collect();
        if let Some(density) = log_density(&near) {
            return (near, density);
        }
    }
    (start.to_vec(), log_density(start).unwrap_or(f64::MIN))
}

/// Draws from the standard normal distribution (Box and Muller).
fn gaussian(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * random.unit()).cos()
}

/// Returns the first step whose density is within a deviation of the mean of the second half.
fn stationary_from(means: &[f64]) -> usize {
    let late = &means[means.len() / 2..];
    let n = late.len().max(1) as f64;
    let mean = late.iter().sum::<f64>() / n;
    let deviation = (late.iter().map(|it| (it - mean).powi(2)).sum::<f64>() / n).sqrt();
    means.iter().position(|it| (it - mean).abs() <= deviation).unwrap_or(means.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretched_normal_distribution_is_sampled() {
        // Deviations 1 and 100 with correlation 0.9: a sampler with steps of one size gets nowhere.
        let log_density = |it: &[f64]| {
            let (x, y) = (it[0] - 3.0, (it[1] + 50.0) / 100.0);
            Some(-(x * x - 1.8 * x * y + y * y) / (2.0 * (1.0 - 0.81)))
        };
        let ensemble =
            Ensemble { n_walkers: 10, n_steps: 20_000, n_burned: 1000, n_kept: usize::MAX };
        let sampled = ensemble.sample(&log_density, &[0.0, 0.0], &mut Random::new(1));
        let n = sampled.states.len() as f64;
        let mean =
            |f: &dyn Fn(&[f64]) -> f64| sampled.states.iter().map(|it| f(it)).sum::<f64>() / n;
        let (x, y) = (mean(&|it| it[0]), mean(&|it| it[1]));
        let of = |f: &dyn Fn(f64, f64) -> f64| mean(&|it| f(it[0] - x, it[1] - y));
        let (xx, yy, xy) = (of(&|a, _| a * a), of(&|_, b| b * b), of(&|a, b| a * b));
        assert!((x - 3.0).abs() < 0.1 && (y + 50.0).abs() < 10.0, "{x} {y}");
        assert!((xx.sqrt() - 1.0).abs() < 0.1 && (yy.sqrt() - 100.0).abs() < 10.0, "{xx} {yy}");
        assert!((xy / (xx * yy).sqrt() - 0.9).abs() < 0.03, "{xy}");
        assert!((0.5..0.85).contains(&sampled.acceptance), "{}", sampled.acceptance);
        assert!(sampled.stationary_from < 1000, "{}", sampled.stationary_from);
    }

    #[test]
    fn no_state_lies_where_the_density_is_zero() {
        let log_density = |it: &[f64]| (it[0] >= 0.0).then_some(-it[0]);
        let ensemble = Ensemble { n_walkers: 10, n_steps: 5000, n_burned: 500, n_kept: usize::MAX };
        let sampled = ensemble.sample(&log_density, &[0.5], &mut Random::new(2));
        assert!(sampled.states.iter().all(|it| it[0] >= 0.0));
        let mean = sampled.states.iter().map(|it| it[0]).sum::<f64>() / sampled.states.len() as f64;
        assert!((mean - 1.0).abs() < 0.1, "{mean}");
    }
}

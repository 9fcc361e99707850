//! Statistics of latency samples.
//!
//! Noise is multiplicative, so tests work on logarithms. While screening, the minimum of few
//! samples ranks candidates best; when deciding, the faster half of many interleaved samples does.
//!
//! # Source
//!
//! B. L. Welch, "The generalization of Student's problem when several different population
//! variances are involved" (Biometrika, 1947). The incomplete beta function: Lentz's continued
//! fraction, as in "Numerical Recipes", 6.4. Intervals of ratios: the percentile bootstrap, B. Efron,
//! "Nonparametric standard errors and confidence intervals" (Canadian Journal of Statistics, 1981),
//! in two stages where samples come in groups.

use crate::random::Random;

/// Returns a quantile, interpolated; NaN without samples.
pub fn quantile(samples: &[f64], share: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let rank = share.clamp(0.0, 1.0) * last as f64;
    let (low, high) = (sorted[rank.floor() as usize], sorted[rank.ceil() as usize]);
    low + (high - low) * rank.fract()
}

/// Returns the median; NaN without samples.
pub fn median(samples: &[f64]) -> f64 {
    quantile(samples, 0.5)
}

/// Returns the faster half of the samples, the median included. Disturbances only add to a timing, so
/// on a busy machine this half tells candidates apart where all samples do not.
pub fn faster_half(samples: &[f64]) -> Vec<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.truncate(samples.len().div_ceil(2));
    sorted
}

/// Returns the minimum; infinite without samples.
pub fn min(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::INFINITY, f64::min)
}

/// An estimated ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// The geometric mean.
    pub mean: f64,
    /// The 2.5 % quantile of the bootstrap means.
    pub low: f64,
    /// The 97.5 % quantile.
    pub high: f64,
    /// The number of samples.
    pub n: usize,
}

impl Ratio {
    /// Tells if there are enough samples for a conclusion.
    pub fn is_enough(&self) -> bool {
        self.n >= MIN_SAMPLES
    }

    /// Tells if it differs significantly from 1.
    pub fn is_effect(&self) -> bool {
        self.is_enough() && (self.low > 1.0 || self.high < 1.0)
    }
}

/// Fewer samples than that lie on the same side of 1 by chance more often than once in 32 times.
const MIN_SAMPLES: usize = 6;
/// Bootstrap resamples of an interval.
const DRAWS: usize = 4000;

/// Returns the geometric mean; NaN without values.
pub fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|it| it.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Estimates the mean of groups of ratios, such as those of several seeds for each of several
/// networks, with equal weights of groups; `None` without ratios.
///
/// The bootstrap has two stages: groups are resampled, and from each its ratios.
pub fn ratio(groups: &[Vec<f64>], seed: u64) -> Option<Ratio> {
    let logs: Vec<Vec<f64>> = groups
        .iter()
        .filter(|it| !it.is_empty())
        .map(|it| it.iter().map(|it| it.ln()).collect())
        .collect();
    if logs.is_empty() {
        return None;
    }
    let average = |it: &[f64]| it.iter().sum::<f64>() / it.len() as f64;
    let means: Vec<f64> = logs.iter().map(|it| average(it)).collect();
    let mut random = Random::new(seed);
    let draw = |_| {
        let group = |random: &mut Random| {
            let group = &logs[random.below(logs.len())];
            let sum: f64 = (0..group.len()).map(|_| group[random.below(group.len())]).sum();
            sum / group.len() as f64
        };
        let drawn: Vec<f64> = (0..logs.len()).map(|_| group(&mut random)).collect();
        average(&drawn)
    };
    let drawn: Vec<f64> = (0..DRAWS).map(draw).collect();
    let [low, high] = [0.025, 0.975].map(|it| quantile(&drawn, it).exp());
    let n = logs.iter().map(Vec::len).sum();
    Some(Ratio { mean: average(&means).exp(), low, high, n })
}

/// Returns the p-value of the null hypothesis that `faster` is not faster than `slower`: one-sided
/// Welch's t-test on logarithms. 1 with fewer than two samples of either.
pub fn p_not_faster(faster: &[f64], slower: &[f64]) -> f64 {
    if faster.len() < 2 || slower.len() < 2 {
        return 1.0;
    }
    let moments = |samples: &[f64]| {
        let n = samples.len() as f64;
        let logs = samples.iter().map(|it| it.ln());
        let mean = logs.clone().sum::<f64>() / n;
        let variance = logs.map(|it| (it - mean).powi(2)).sum::<f64>() / (n - 1.0);
        (mean, variance / n, n - 1.0)
    };
    let ((m1, v1, d1), (m2, v2, d2)) = (moments(faster), moments(slower));
    let variance = v1 + v2;
    if variance == 0.0 {
        return if m1 < m2 { 0.0 } else { 1.0 };
    }
    let t = (m2 - m1) / variance.sqrt();
    let freedom = variance.powi(2) / (v1.powi(2) / d1 + v2.powi(2) / d2);
    let tail = 0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t));
    if t > 0.0 { tail } else { 1.0 - tail }
}

/// Computes the regularised incomplete beta function.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let front = a * x.ln() + b * (1.0 - x).ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b);
    // The fraction converges quickly on this side only.
    if x < (a + 1.0) / (a + b + 2.0) {
        front.exp() * beta_fraction(a, b, x) / a
    } else {
        1.0 - front.exp() * beta_fraction(b, a, 1.0 - x) / b
    }
}

/// Computes the continued fraction of the incomplete beta function.
fn beta_fraction(a: f64, b: f64, x: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let away_from_zero = |it: f64| if it.abs() < TINY { TINY } else { it };
    let mut c = 1.0;
    let mut d = 1.0 / away_from_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut fraction = d;
    for m in 1..300 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        for numerator in [even, odd] {
            d = 1.0 / away_from_zero(1.0 + numerator * d);
            c = away_from_zero(1.0 + numerator / c);
            fraction *= c * d;
        }
        if (c * d - 1.0).abs() < 1e-14 {
            break;
        }
    }
    fraction
}

/// Computes the logarithm of the gamma function, for positive arguments: Stirling's series after shifting
/// the argument up.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut shift) = (x, 0.0);
    while x < 10.0 {
        shift += x.ln();
        x += 1.0;
    }
    let half_ln_two_pi = 0.5 * std::f64::consts::TAU.ln();
    let series = 1.0 / (12.0 * x) - 1.0 / (360.0 * x.powi(3)) + 1.0 / (1260.0 * x.powi(5));
    (x - 0.5) * x.ln() - x + half_ln_two_pi + series - shift
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&samples), 2.5);
        assert_eq!((quantile(&samples, 0.0), quantile(&samples, 1.0)), (1.0, 4.0));
        assert_eq!(min(&samples), 1.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    /// Half of the tail of Student's distribution, from tables.
    #[test]
    fn tails_agree_with_tables() {
        let tail = |t: f64, freedom: f64| {
            0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
        };
        for (t, freedom, p) in
            [(6.3138, 1.0, 0.05), (2.0150, 5.0, 0.05), (2.7638, 10.0, 0.01), (1.6449, 1e6, 0.05)]
        {
            assert!((tail(t, freedom) - p).abs() < 1e-5, "{t} {freedom}: {}", tail(t, freedom));
        }
    }

    #[test]
    fn a_clear_difference_is_significant_and_none_is_not() {
        let slow = [100.0, 101.0, 99.0, 100.5, 99.5];
        let fast = [90.0, 91.0, 89.5, 90.5, 89.0];
        assert!(p_not_faster(&fast, &slow) < 1e-4);
        assert!(p_not_faster(&slow, &fast) > 0.999);
        assert!((p_not_faster(&slow, &slow) - 0.5).abs() < 1e-9);
        assert_eq!(p_not_faster(&[1.0], &slow), 1.0);
        assert_eq!(p_not_faster(&[1.0, 1.0], &[2.0, 2.0]), 0.0);
    }

    #[test]
    fn the_faster_half_is_not_disturbed_by_what_comes_between() {
        let disturbed = [100.0, 900.0, 101.0, 100.5, 700.0, 99.0, 100.2];
        assert_eq!(faster_half(&disturbed), [99.0, 100.0, 100.2, 100.5]);
        assert!(faster_half(&[]).is_empty());
        let slower = [104.0, 105.0, 104.5, 300.0, 104.2, 106.0, 900.0];
        assert!(p_not_faster(&disturbed, &slower) > 0.05, "all samples do not tell");
        assert!(p_not_faster(&faster_half(&disturbed), &faster_half(&slower)) < 0.01);
    }

    #[test]
    fn a_ratio_is_an_effect_only_if_samples_agree_on_it() {
        let check = |groups: &[&[f64]], mean: f64, is_effect: bool| {
            let groups: Vec<Vec<f64>> = groups.iter().map(|it| it.to_vec()).collect();
            let estimate = ratio(&groups, 7).unwrap();
            assert!((estimate.mean - mean).abs() < 1e-9, "{estimate:?}");
            assert!(
                estimate.low <= estimate.mean && estimate.mean <= estimate.high,
                "{estimate:?}"
            );
            assert_eq!(estimate.is_effect(), is_effect, "{estimate:?}");
            assert_eq!(ratio(&groups, 7), Some(estimate), "the same seed, the same interval");
        };
        check(&[&[0.8, 0.82, 0.78, 0.8, 0.8, 0.8 * 0.8 / 0.82 * 0.8 / 0.78]], 0.8, true);
        check(&[&[0.8, 0.8, 0.8, 0.8, 0.8]], 0.8, false);
        check(&[&[0.5, 2.0, 0.8, 1.25]], 1.0, false);
        check(&[&[2.0, 2.0], &[0.5, 0.5]], 1.0, false);
        // Many seeds of one network say little of others: groups count, not samples.
        check(&[&[0.25; 50], &[4.0]], 1.0, false);
        check(&[&[], &[2.0, 8.0, 2.0, 8.0, 2.0, 8.0]], 4.0, true);
        assert_eq!(ratio(&[Vec::new()], 7), None);
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    }

    /// Of a hundred intervals, some five miss what is true; fewer if there are several groups.
    #[test]
    fn intervals_hold_what_is_true_as_often_as_they_say() {
        let mut random = Random::new(3);
        let mut noise = || (0..12).map(|_| random.unit() - 0.5).sum::<f64>();
        for (n_groups, n_samples, min_held) in [(1, 20, 178), (3, 5, 184)] {
            let holds = |seed: &u64| {
                let mut group = || (0..n_samples).map(|_| (0.3 + 0.2 * noise()).exp()).collect();
                let groups: Vec<Vec<f64>> = (0..n_groups).map(|_| group()).collect();
                let estimate = ratio(&groups, *seed).unwrap();
                estimate.low < 0.3_f64.exp() && 0.3_f64.exp() < estimate.high
            };
            let n_held = (0..200).filter(holds).count();
            assert!((min_held..200).contains(&n_held), "{n_held} of 200");
        }
    }

    #[test]
    fn gamma_of_whole_numbers_is_a_factorial() {
        let factorial = (1..=9).product::<u32>();
        assert!((ln_gamma(10.0) - f64::from(factorial).ln()).abs() < 1e-10);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-10);
    }
}

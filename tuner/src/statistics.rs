//! Statistics of latency samples.
//!
//! Noise is multiplicative, so tests work on logarithms. While screening, the minimum of few
//! samples ranks candidates best; when deciding, the faster half of many interleaved samples does.
//!
//! # Source
//!
//! B. L. Welch, "The generalization of Student's problem when several different population
//! variances are involved" (Biometrika, 1947). The incomplete beta function: Lentz's continued
//! fraction, as in "Numerical Recipes", 6.4. Intervals of ratios: Student, "The probable error of a
//! mean" (Biometrika, 1908), on the means of groups where samples come in groups.

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
    /// The lower end of the interval; 0 if there is one independent value only.
    pub low: f64,
    /// The upper end; infinite if there is one independent value only.
    pub high: f64,
    /// The number of independent values: groups, or the samples of a single group.
    pub n: usize,
}

impl Ratio {
    /// Tells if there are enough independent values for a conclusion: with fewer than three, the spread
    /// is that of a single difference.
    pub fn is_enough(&self) -> bool {
        self.n >= 3
    }

    /// Tells if it differs significantly from 1.
    pub fn is_effect(&self) -> bool {
        self.is_enough() && (self.low > 1.0 || self.high < 1.0)
    }
}

/// Returns the geometric mean; NaN without values.
pub fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|it| it.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Estimates the mean of groups of ratios, such as those of several seeds for each of several
/// networks, with equal weights of groups; `None` without ratios.
///
/// The interval is Student's for the logarithms of the means of groups, since samples of a group have
/// in common what makes groups differ. A single group is all that is spoken of: its samples are
/// independent then.
pub fn ratio(groups: &[Vec<f64>]) -> Option<Ratio> {
    let logs = |it: &Vec<f64>| it.iter().map(|it| it.ln()).collect::<Vec<_>>();
    let groups: Vec<Vec<f64>> = groups.iter().filter(|it| !it.is_empty()).map(logs).collect();
    let values = match groups.as_slice() {
        [] => return None,
        [samples] => samples.clone(),
        groups => groups.iter().map(|it| Moments::of(it.iter().copied()).mean).collect(),
    };
    let Moments { n, mean, variance } = Moments::of(values.into_iter());
    let margin = if n < 2.0 { f64::INFINITY } else { t_quantile(n - 1.0) * (variance / n).sqrt() };
    let [mean, low, high] = [mean, mean - margin, mean + margin].map(f64::exp);
    Some(Ratio { mean, low, high, n: n as usize })
}

/// The moments of a sample.
struct Moments {
    n: f64,
    mean: f64,
    /// The unbiased estimate of the variance; NaN of fewer than two values.
    variance: f64,
}

impl Moments {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let n = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / n;
        let variance = values.map(|it| (it - mean).powi(2)).sum::<f64>() / (n - 1.0);
        Self { n, mean, variance }
    }
}

/// Returns Spearman's rank correlation; equal values have their mean rank. NaN where all values are equal.
pub fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let ranks = |values: &[f64]| -> Vec<f64> {
        let rank = |it: &f64| {
            let below = values.iter().filter(|other| *other < it).count() as f64;
            below + 0.5 * values.iter().filter(|other| *other == it).count() as f64
        };
        values.iter().map(rank).collect()
    };
    let (a, b) = (ranks(a), ranks(b));
    let mean = |it: &[f64]| it.iter().sum::<f64>() / it.len() as f64;
    let (mean_a, mean_b) = (mean(&a), mean(&b));
    let product = |x: &[f64], mx: f64, y: &[f64], my: f64| -> f64 {
        x.iter().zip(y).map(|(x, y)| (x - mx) * (y - my)).sum()
    };
    let (ab, aa) = (product(&a, mean_a, &b, mean_b), product(&a, mean_a, &a, mean_a));
    ab / (aa * product(&b, mean_b, &b, mean_b)).sqrt()
}

/// Returns the p-value of the null hypothesis that `faster` is not faster than `slower`: one-sided
/// Welch's t-test on logarithms. 1 with fewer than two samples of either.
pub fn p_not_faster(faster: &[f64], slower: &[f64]) -> f64 {
    if faster.len() < 2 || slower.len() < 2 {
        return 1.0;
    }
    let moments = |samples: &[f64]| Moments::of(samples.iter().map(|it| it.ln()));
    let (a, b) = (moments(faster), moments(slower));
    let [v1, v2] = [&a, &b].map(|it| it.variance / it.n);
    let variance = v1 + v2;
    if variance == 0.0 {
        return if a.mean < b.mean { 0.0 } else { 1.0 };
    }
    let t = (b.mean - a.mean) / variance.sqrt();
    let freedom = variance.powi(2) / (v1.powi(2) / (a.n - 1.0) + v2.powi(2) / (b.n - 1.0));
    let tail = upper_tail(t.abs(), freedom);
    if t > 0.0 { tail } else { 1.0 - tail }
}

/// Returns the probability that a value of Student's distribution is above `t`, which is not negative.
fn upper_tail(t: f64, freedom: f64) -> f64 {
    0.5 * incomplete_beta(freedom / 2.0, 0.5, freedom / (freedom + t * t))
}

/// Returns the value of Student's distribution that 2.5 % are above, by bisection.
fn t_quantile(freedom: f64) -> f64 {
    // One degree of freedom, which has the heaviest tail, has 12.7.
    let (mut low, mut high) = (1.0, 16.0);
    for _ in 0..60 {
        let middle = 0.5 * (low + high);
        let is_low = upper_tail(middle, freedom) > 0.025;
        *(if is_low { &mut low } else { &mut high }) = middle;
    }
    high
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
    use crate::random::Random;

    #[test]
    fn quantiles_interpolate() {
        let samples = [4.0, 1.0, 3.0, 2.0];
        assert_eq!(median(&samples), 2.5);
        assert_eq!((quantile(&samples, 0.0), quantile(&samples, 1.0)), (1.0, 4.0));
        assert_eq!(min(&samples), 1.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn tails_and_quantiles_agree_with_tables() {
        for (t, freedom, p) in
            [(6.3138, 1.0, 0.05), (2.0150, 5.0, 0.05), (2.7638, 10.0, 0.01), (1.6449, 1e6, 0.05)]
        {
            let tail = upper_tail(t, freedom);
            assert!((tail - p).abs() < 1e-5, "{t} {freedom}: {tail}");
        }
        for (freedom, t) in [(1.0, 12.7062), (2.0, 4.3027), (3.0, 3.1824), (8.0, 2.3060)] {
            assert!((t_quantile(freedom) - t).abs() < 1e-4, "{freedom}: {}", t_quantile(freedom));
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
    fn a_ratio_is_an_effect_only_if_groups_agree_on_it() {
        let check = |groups: &[&[f64]], mean: f64, n: usize, is_effect: bool| {
            let groups: Vec<Vec<f64>> = groups.iter().map(|it| it.to_vec()).collect();
            let it = ratio(&groups).unwrap();
            assert!((it.mean - mean).abs() < 1e-9, "{it:?}");
            assert!(it.low <= it.mean && it.mean <= it.high, "{it:?}");
            assert_eq!((it.n, it.is_effect()), (n, is_effect), "{it:?}");
        };
        check(&[&[0.8, 0.82, 0.78, 0.8 * 0.8 / 0.82 * 0.8 / 0.78]], 0.8, 4, true);
        check(&[&[0.5, 2.0, 0.8, 1.25]], 1.0, 4, false);
        check(&[&[0.8, 0.8], &[0.8, 0.8]], 0.8, 2, false);
        check(&[&[0.8, 0.8], &[0.81, 0.81], &[0.8 * 0.8 / 0.81; 2]], 0.8, 3, true);
        check(&[&[2.0, 2.0], &[0.5, 0.5], &[1.0]], 1.0, 3, false);
        // Many seeds of one network say little of others: groups count, not samples.
        check(&[&[0.25; 50], &[4.0]], 1.0, 2, false);
        check(&[&[], &[2.0, 8.0, 2.0, 8.0, 2.0, 8.0]], 4.0, 6, true);
        let one = ratio(&[vec![0.5]]).unwrap();
        assert_eq!((one.mean, one.low, one.high, one.n), (0.5, 0.0, f64::INFINITY, 1));
        assert_eq!(ratio(&[Vec::new()]), None);
        assert!((geometric_mean(&[1.0, 4.0]) - 2.0).abs() < 1e-12);
    }

    /// Of a hundred intervals, five miss what is true: for samples of one group, and for groups that
    /// differ by more than their samples do.
    #[test]
    fn intervals_hold_what_is_true_as_often_as_they_say() {
        const N: usize = 2000;
        let mut random = Random::new(3);
        let mut noise = || (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
        for (n_groups, n_samples) in [(1, 5), (3, 5), (4, 3), (9, 2)] {
            let holds = |_: &usize| {
                let mut group = || {
                    let mean = 0.3 + if n_groups == 1 { 0.0 } else { 0.2 * noise() };
                    (0..n_samples).map(|_| (mean + 0.1 * noise()).exp()).collect()
                };
                let groups: Vec<Vec<f64>> = (0..n_groups).map(|_| group()).collect();
                let it = ratio(&groups).unwrap();
                it.low < 0.3_f64.exp() && 0.3_f64.exp() < it.high
            };
            let held = (0..N).filter(holds).count() as f64 / N as f64;
            assert!((0.935..0.965).contains(&held), "{n_groups} of {n_samples}: {held}");
        }
    }

    #[test]
    fn ranks_correlate_whatever_the_scale() {
        let (up, down) = ([1.0, 2.0, 10.0, 11.0], [5.0, 4.0, 3.0, -90.0]);
        assert!((spearman(&up, &up) - 1.0).abs() < 1e-12);
        assert!((spearman(&up, &down) + 1.0).abs() < 1e-12);
        // Of the ranks 1 2 3 4 and 1.5 1.5 3 4.
        assert!((spearman(&up, &[0.0, 0.0, 1.0, 2.0]) - 4.5 / 22.5_f64.sqrt()).abs() < 1e-12);
        assert!(spearman(&up, &[1.0; 4]).is_nan());
    }

    #[test]
    fn gamma_of_whole_numbers_is_a_factorial() {
        let factorial = (1..=9).product::<u32>();
        assert!((ln_gamma(10.0) - f64::from(factorial).ln()).abs() < 1e-10);
        assert!((ln_gamma(0.5) - std::f64::consts::PI.sqrt().ln()).abs() < 1e-10);
    }
}

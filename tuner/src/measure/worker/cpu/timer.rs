//! The timer of launches on the CPU.
//!
//! # Source
//!
//! The minimum of three samples ranks candidates as well as that of ten does, the median does not
//! (measured on 150 candidates of a matrix product). Early stopping is ours: Ansor's `LocalRunner` spends
//! most of its time on slow candidates.

use std::time::{Duration, Instant};

use super::super::super::protocol::Policy;

/// The maximum number of launches of a sample.
const MAX_LAUNCHES: u32 = 1 << 20;
/// The latency of a first launch, relative to the limit, above which a candidate is given up.
const COLD_FACTOR: f64 = 4.0;
/// The latency from which a cold cache costs a launch little of its time: its first sample counts.
pub(super) const LONG_LAUNCH_NS: f64 = 20e6;
/// The time after which a candidate that takes long is timed no more.
const MAX_TIME_NS: f64 = 200e6;

/// Launches after which arguments that a launch replaces are restored: few enough that numbers neither
/// grow to infinities nor shrink to denormals, which take longer.
const LAUNCHES_OF_ONE_RESTORE: u32 = 8;

/// A launch that is timed.
pub(super) trait Launch {
    fn run(&mut self);

    /// Restores the arguments that launches replaced; returns whether there are any.
    fn restore(&mut self) -> bool {
        false
    }
}

impl<F: FnMut()> Launch for F {
    fn run(&mut self) {
        self();
    }
}

/// Times `launch`, which was called before, by a policy; returns at least one sample, in ns per launch.
pub(super) fn time(launch: &mut dyn Launch, policy: &Policy) -> Vec<f64> {
    let hopeless = policy.best_ns.map_or(f64::INFINITY, |it| it * policy.hopeless);
    // Caches and branch predictors are cold: only very slow candidates are given up here.
    let cold = sample(launch, 1);
    if cold > hopeless * COLD_FACTOR {
        return vec![cold];
    }
    let (n_launches, first) = match cold >= LONG_LAUNCH_NS {
        true => (1, cold),
        false => calibrate(launch, policy.min_sample_ns),
    };
    let (mut samples, mut spent_ns) = (vec![first], first * f64::from(n_launches));
    while samples.len() < policy.repeats
        && samples[samples.len() - 1] <= hopeless
        && spent_ns < MAX_TIME_NS
    {
        let ns = sample(launch, n_launches);
        spent_ns += ns * f64::from(n_launches);
        samples.push(ns);
    }
    samples
}

/// Finds the number of launches of a sample that is long enough; returns it with that sample.
pub(super) fn calibrate(launch: &mut dyn Launch, min_sample_ns: f64) -> (u32, f64) {
    let mut n_launches = 1;
    loop {
        let ns = sample(launch, n_launches);
        let total = ns * f64::from(n_launches);
        if total >= min_sample_ns || n_launches >= MAX_LAUNCHES {
            return (n_launches, ns);
        }
        // A little more than needed; growth is bounded, as the first launch may have been quick.
        let wanted = (1.2 * min_sample_ns / ns.max(1.0)).ceil() as u32;
        n_launches = wanted.clamp(n_launches + 1, n_launches * 16);
    }
}

/// Returns the mean of `n_launches` in ns, at least 0.001, so that it is positive.
pub(super) fn sample(launch: &mut dyn Launch, n_launches: u32) -> f64 {
    let mut elapsed = Duration::ZERO;
    let mut left = n_launches;
    while left > 0 {
        let n = if launch.restore() { left.min(LAUNCHES_OF_ONE_RESTORE) } else { left };
        let start = Instant::now();
        for _ in 0..n {
            launch.run();
        }
        elapsed += start.elapsed();
        left -= n;
    }
    (elapsed.as_nanos() as f64 / f64::from(n_launches)).max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of launches and of samples of something that takes `us`.
    fn launches(us: u64, policy: &Policy) -> (usize, usize) {
        let mut n = 0;
        let mut launch = || {
            n += 1;
            let start = Instant::now();
            while start.elapsed().as_micros() < u128::from(us) {
                std::hint::spin_loop();
            }
        };
        let n_samples = time(&mut launch, policy).len();
        (n, n_samples)
    }

    #[test]
    fn short_launches_are_repeated_until_a_sample_is_long_enough() {
        let policy = Policy { min_sample_ns: 100_000.0, ..Policy::default() };
        let (n, n_samples) = launches(5, &policy);
        assert_eq!(n_samples, 3);
        // At least 3 samples of 20, at most twice that with the calibration, but for hiccups.
        assert!((20..=200).contains(&n), "{n}");
    }

    #[test]
    fn what_launches_replace_is_restored_every_few_of_them() {
        struct Decay(f32, f32);
        impl Launch for Decay {
            fn run(&mut self) {
                self.0 *= 0.5;
                self.1 = self.1.min(self.0);
            }
            fn restore(&mut self) -> bool {
                self.0 = 1.0;
                true
            }
        }
        let mut decay = Decay(1.0, 1.0);
        sample(&mut decay, 1000);
        assert_eq!(decay.1, 0.5_f32.powi(8));
    }

    #[test]
    fn a_slow_candidate_is_given_up_early() {
        let policy = Policy { best_ns: Some(1000.0), ..Policy::default() };
        assert_eq!(launches(200, &policy), (1, 1));
        let slow = Policy { best_ns: Some(110_000.0), ..policy };
        assert_eq!(launches(200, &slow), (2, 1));
    }

    #[test]
    fn a_long_launch_is_timed_a_few_times_without_a_warm_up() {
        assert_eq!(launches(30_000, &Policy::default()), (3, 3));
        assert_eq!(launches(150_000, &Policy::default()), (2, 2));
        assert_eq!(launches(250_000, &Policy::default()), (1, 1));
    }
}

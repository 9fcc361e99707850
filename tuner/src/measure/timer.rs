//! How long a launch takes.
//!
//! # Source
//!
//! The minimum of three samples ranks candidates as well as that of ten does, the median does not
//! (measured on 150 candidates of a matrix product). Stopping early: Ansor's `LocalRunner` has no
//! such thing, and spends most of its time on candidates that never had a chance.

use std::time::Instant;

use super::protocol::Policy;

/// Times `launch`, which ran before, by a policy; at least one sample, in ns for one launch.
pub(super) fn time(launch: &mut dyn FnMut(), policy: &Policy) -> Vec<f64> {
    let hopeless = policy.best_ns.map_or(f64::INFINITY, |it| it * policy.hopeless);
    // Caches and predictors are cold, so this decides only what is far off.
    let cold = sample(launch, 1);
    if cold > hopeless * 4.0 {
        return vec![cold];
    }
    let (n_launches, first) = calibrate(launch, policy.min_sample_ns);
    let mut samples = vec![first];
    while samples.len() < policy.repeats && samples[samples.len() - 1] <= hopeless {
        samples.push(sample(launch, n_launches));
    }
    samples
}

/// How many launches make a sample that is long enough, and that sample.
pub(super) fn calibrate(launch: &mut dyn FnMut(), min_sample_ns: f64) -> (u32, f64) {
    let mut n_launches = 1;
    loop {
        let ns = sample(launch, n_launches);
        let total = ns * f64::from(n_launches);
        if total >= min_sample_ns || n_launches >= 1 << 20 {
            return (n_launches, ns);
        }
        // A little more than needed, but not carried away by a first launch that was quick.
        let wanted = (1.2 * min_sample_ns / ns.max(1.0)).ceil() as u32;
        n_launches = wanted.clamp(n_launches + 1, n_launches * 16);
    }
}

/// The mean of so many launches, in ns; at least a thousandth, as no launch takes no time.
pub(super) fn sample(launch: &mut dyn FnMut(), n_launches: u32) -> f64 {
    let start = Instant::now();
    for _ in 0..n_launches {
        launch();
    }
    (start.elapsed().as_nanos() as f64 / f64::from(n_launches)).max(0.001)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often something that takes `us` is launched, and how many samples there are.
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
    fn what_is_hopeless_is_given_up_early() {
        let policy = Policy { best_ns: Some(1000.0), ..Policy::default() };
        assert_eq!(launches(200, &policy), (1, 1));
        let slow = Policy { best_ns: Some(110_000.0), ..policy };
        assert_eq!(launches(200, &slow), (2, 1));
    }
}

//! Beliefs about curves whose future is known.

use super::*;
use crate::random::Random;

/// Parameters of each family with which curves rise between 1 and 200 trials.
fn example(family: Family) -> &'static [f64] {
    match family {
        Family::LogPower => &[0.9, 2.0, -0.8],
        Family::Pow2 => &[0.2, 0.25],
        Family::Pow3 => &[0.6, 0.5, 0.9],
        Family::Pow4 => &[0.5, 1.0, 1.2, 0.3],
        Family::LogLinear => &[0.12, 0.2],
        Family::LogLogLinear => &[0.2, 1.2],
    }
}

/// Returns the best latency after each trial, for speeds on a curve with relative noise.
fn latencies(family: Family, n: usize, noise: f64, unit_ns: f64) -> Vec<f64> {
    let mut random = Random::new(5);
    let mut best = f64::INFINITY;
    let mut latency = |it: usize| {
        let speed = family.value((it as f64).ln(), example(family));
        best = best.min(unit_ns / (speed * (1.0 - noise * random.unit())));
        best
    };
    (1..=n).map(&mut latency).collect()
}

#[test]
fn each_family_predicts_its_own_curves() {
    for family in Family::ALL {
        let best = latencies(family, 64, 0.02, 1e6);
        let belief = Belief::new(family, &best, 0.0, Ensemble::DYNATUNE, 1).unwrap();
        let now = 1e6 / best[63];
        let expected = family.value(128_f64.ln(), example(family)) / now;
        let predicted = belief.predict(64.0);
        assert!(
            (predicted.mean - expected).abs() < 0.05,
            "{family:?}: {predicted:?}, expected {expected}"
        );
        assert!(
            predicted.mean >= 1.0 && predicted.improvement() > 0.0,
            "{family:?}: {predicted:?}"
        );
        assert!((0.2..0.9).contains(&belief.acceptance), "{family:?}: {}", belief.acceptance);
    }
}

#[test]
fn the_sampler_is_stationary_before_its_states_are_used() {
    let mut random = Random::new(9);
    let mut late = 0;
    for seed in 0..20 {
        let slope = 0.3 + random.unit();
        let mut best = f64::INFINITY;
        let mut latency = |it: usize| {
            let speed = 1.0 - 0.8 * (it as f64).powf(-slope);
            best = best.min(1e5 / (speed * (1.0 - 0.03 * random.unit())));
            best
        };
        let best: Vec<f64> = (1..=96).map(&mut latency).collect();
        let belief = Belief::new(Family::LogPower, &best, 5e4, Ensemble::DYNATUNE, seed).unwrap();
        late += usize::from(belief.stationary_from > Ensemble::DYNATUNE.n_burned);
        assert!((0.25..0.8).contains(&belief.acceptance), "{}", belief.acceptance);
    }
    assert!(late <= 1, "{late} of 20 were not");
}

#[test]
fn beliefs_have_no_unit() {
    let of = |unit: f64| {
        let best = latencies(Family::LogPower, 40, 0.02, unit);
        let bound = 0.8 * best[39];
        let belief = Belief::new(Family::LogPower, &best, bound, Ensemble::DYNATUNE, 3).unwrap();
        belief.predict(32.0)
    };
    let (small, large) = (of(1.0), of(1024.0));
    assert!((small.mean - large.mean).abs() < 1e-9, "{small:?} {large:?}");
}

#[test]
fn a_plateau_promises_less_than_a_slope_and_less_the_longer_it_is() {
    let improvement = |best: &[f64]| {
        let belief = Belief::new(Family::LogPower, best, 10.0, Ensemble::DYNATUNE, 2).unwrap();
        belief.predict(32.0).improvement()
    };
    let plateau = |n: usize| [vec![110.0; 4], vec![100.0; n]].concat();
    let slope: Vec<f64> = (1..=64).map(|it| 100.0 + 100.0 / f64::from(it).sqrt()).collect();
    let [short, long] = [8, 300].map(|n| improvement(&plateau(n)));
    assert!(long < short && long < 0.01 && improvement(&slope) > 2.0 * long, "{short} {long}");
}

#[test]
fn curves_end_at_what_the_device_can_do() {
    let best: Vec<f64> = (1..=32).map(|it| 1000.0 / f64::from(it).sqrt()).collect();
    let of = |bound: f64| {
        let belief = Belief::new(Family::LogPower, &best, bound, Ensemble::DYNATUNE, 2).unwrap();
        belief.predict(64.0).mean
    };
    let near = 0.97 * best[31];
    assert!(of(near) <= 1.0 / 0.97 && of(best[31] / 3.0) > 1.0 / 0.97);
}

#[test]
fn observations_before_a_jump_do_not_count() {
    let speeds = [0.1, 0.11, 0.5, 0.52, 0.55, 0.8, 0.81];
    assert_eq!(last_segment(&speeds), [0.8, 0.81]);
    assert_eq!(last_segment(&speeds[2..5]), [0.5, 0.52, 0.55]);
    assert_eq!(last_segment(&[1.0]), [1.0]);
}

#[test]
fn points_stand_for_all_observations() {
    for n in [1, 2, 23, 24, 25, 100, 512, 5000] {
        let speeds: Vec<f64> = (0..n).map(|it| it as f64).collect();
        let points = thinned(&speeds);
        assert!(points.len() <= n.min(60), "{n}: {}", points.len());
        assert_eq!(points.iter().map(|it| it.weight).sum::<f64>(), n as f64);
        assert!(points.is_sorted_by(|a, b| a.ln_x < b.ln_x && a.speed < b.speed));
    }
}

#[test]
fn the_expected_improvement_is_that_of_a_normal_distribution() {
    let mut random = Random::new(4);
    for (mean, deviation) in [(1.1, 0.05), (1.0, 0.2), (0.8, 0.3)] {
        let draw = |random: &mut Random| {
            let sum: f64 = (0..12).map(|_| random.unit()).sum::<f64>() - 6.0;
            (mean + deviation * sum - 1.0_f64).max(0.0)
        };
        let drawn = (0..200_000).map(|_| draw(&mut random)).sum::<f64>() / 200_000.0;
        let computed = Prediction { mean, deviation }.improvement();
        assert!((computed - drawn).abs() < 2e-3, "{computed} {drawn}");
    }
    assert_eq!(Prediction { mean: 1.5, deviation: 0.0 }.improvement(), 0.5);
    assert_eq!(Prediction { mean: 0.5, deviation: 0.0 }.improvement(), 0.0);
}

#[test]
fn nothing_is_believed_of_a_task_that_never_worked() {
    let new = |best: &[f64]| Belief::new(Family::LogPower, best, 1.0, Ensemble::DYNATUNE, 1);
    assert!(new(&[]).is_none() && new(&[f64::INFINITY; 3]).is_none());
    assert!(new(&[f64::INFINITY, 5.0]).is_some());
}

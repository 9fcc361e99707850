//! Strategies on played hardware: they reach known optima within a stated number of trials.

use std::sync::Arc;

use tvmtune_core::record::Source;
use tvmtune_core::schedule::sketch::{Decision, DecisionKind, Sketch};
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::search::{Chain, Evolutionary, Proposal, Random, Score, Strategy};
use tvmtune_tuner::space::{Point, Space};

/// Two sketches: one of five decisions with eight options each, and one of a single decision.
fn space() -> Arc<Space> {
    let decision = |n: u32| Decision {
        name: format!("d{n}"),
        kind: if n < 4 { DecisionKind::Inner } else { DecisionKind::Choice },
        options: (0..8).map(|it| 1 << it).collect(),
        group: n / 2,
    };
    let large = Sketch::new("large", (0..5).map(decision).collect(), vec![0; 5], Vec::new());
    let small = Sketch::new("small", vec![decision(0)], vec![3], Vec::new());
    Arc::new(Space { sketches: vec![large, small] })
}

/// The best point of the space, of 32,776.
const BEST: [u16; 5] = [5, 2, 6, 1, 7];

/// Hardware that is fastest at `BEST`, twice as slow for each option away from it in an even
/// decision, half as much in an odd one, and that refuses some points.
fn hardware(point: &Point) -> Outcome {
    let latency = |ns: f64| Outcome::Timed(Timing::new(vec![ns * 1.01, ns]).unwrap());
    if point.sketch == 1 {
        return latency(3000.0 + f64::from(point.choices[0]));
    }
    if point.choices[0] + point.choices[1] == 12 {
        return Outcome::Crashed("played".to_owned());
    }
    let far = |(n, (a, b)): (usize, (&u16, &u16))| {
        let steps = f64::from(a.abs_diff(*b));
        if n % 2 == 0 { 1.0 + steps } else { 1.0 + steps / 2.0 }
    };
    latency(100.0 * point.choices.iter().zip(&BEST).enumerate().map(far).product::<f64>())
}

/// Proposals, in batches of 16, until `n` were measured or nothing is left.
fn play(strategy: &mut dyn Strategy, n: usize) -> Vec<(Proposal, Outcome)> {
    let mut played = Vec::new();
    while played.len() < n {
        let batch = strategy.propose(16.min(n - played.len()));
        if batch.is_empty() {
            break;
        }
        for it in batch {
            let outcome = hardware(&it.point);
            strategy.observe(&it.point, &outcome);
            played.push((it, outcome));
        }
    }
    played
}

/// How many trials it took until a latency below `ns` was seen.
fn trials_until(strategy: &mut dyn Strategy, ns: f64) -> usize {
    let good = |it: &(Proposal, Outcome)| it.1.timing().is_some_and(|it| it.min_ns() < ns);
    play(strategy, 4000).iter().position(good).map_or(usize::MAX, |it| it + 1)
}

#[test]
fn evolution_finds_the_optimum_of_a_large_space_in_few_trials() {
    for seed in 0..8 {
        let trials = trials_until(&mut Evolutionary::new(space(), seed, None), 101.0);
        assert!(trials <= 400, "seed {seed}: {trials} trials");
    }
}

#[test]
fn evolution_gets_further_than_random_search_with_the_same_trials() {
    let best = |strategy: &mut dyn Strategy| {
        let played = play(strategy, 200);
        let times = played.iter().filter_map(|it| it.1.timing()).map(Timing::min_ns);
        times.fold(f64::INFINITY, f64::min).ln()
    };
    let evolved: f64 = (0..8).map(|it| best(&mut Evolutionary::new(space(), it, None))).sum();
    let random: f64 = (0..8).map(|it| best(&mut Random::new(space(), it))).sum();
    assert!((random - evolved) / 8.0 > 1.5_f64.ln(), "a geometric mean of 1.5 better");
}

/// A score that knows the hardware.
struct Oracle;

impl Score for Oracle {
    fn score(&self, points: &[Point]) -> Vec<f64> {
        points.iter().map(|it| hardware(it).timing().map_or(1e9, Timing::min_ns)).collect()
    }
}

#[test]
fn a_good_score_saves_most_of_the_trials() {
    for seed in 0..4 {
        let mut guided = Evolutionary::new(space(), seed, Some(Box::new(Oracle)));
        let trials = trials_until(&mut guided, 101.0);
        assert!(trials <= 120, "seed {seed}: {trials} trials");
    }
}

#[test]
fn the_same_seed_makes_the_same_proposals() {
    let proposals = |seed| play(&mut Evolutionary::new(space(), seed, None), 300);
    assert_eq!(proposals(7), proposals(7));
    assert_ne!(proposals(7), proposals(8));
}

#[test]
fn nothing_is_proposed_twice_and_a_space_runs_dry() {
    let tiny = || {
        let Space { sketches } = (*space()).clone();
        Arc::new(Space { sketches: sketches[1..].to_vec() })
    };
    let strategies: [Box<dyn Strategy>; 3] = [
        Box::new(Random::new(tiny(), 1)),
        Box::new(Evolutionary::new(tiny(), 1, None)),
        Box::new(Chain::new(vec![
            (Box::new(Random::new(tiny(), 1)), 3),
            (Box::new(Evolutionary::new(tiny(), 1, None)), usize::MAX),
        ])),
    ];
    for mut strategy in strategies {
        let mut options: Vec<u16> = Vec::new();
        loop {
            let batch = strategy.propose(3);
            if batch.is_empty() {
                break;
            }
            for it in batch {
                strategy.observe(&it.point, &Outcome::TimedOut);
                options.push(it.point.choices[0]);
            }
        }
        options.sort_unstable();
        assert_eq!(options, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn what_was_measured_before_is_learned_from_and_not_proposed_again() {
    let mut strategy = Evolutionary::new(space(), 3, None);
    let near = Point { sketch: 0, choices: vec![5, 2, 6, 2, 7] };
    strategy.observe(&near, &hardware(&near));
    let played = play(&mut strategy, 400);
    assert!(played.iter().all(|it| it.0.point != near));
    let best = |it: &(Proposal, Outcome)| it.0.point.choices == BEST;
    let found = played.iter().position(best).expect("it is one step away");
    assert_eq!(played[found].0.source, Source::Evolved);
    assert!(found < 150, "{found}");
}

#[test]
fn a_chain_hands_over_when_a_share_is_used_up() {
    let mut chain = Chain::new(vec![
        (Box::new(Random::new(space(), 1)), 20),
        (Box::new(Evolutionary::new(space(), 2, None)), usize::MAX),
    ]);
    let played = play(&mut chain, 100);
    assert_eq!(played.len(), 100);
    assert!(played[..20].iter().all(|it| it.0.source == Source::Random));
    assert!(played[20..].iter().any(|it| it.0.source == Source::Evolved));
}

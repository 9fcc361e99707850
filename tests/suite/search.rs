//! Search strategies on simulated hardware: they reach known optima within a number of trials.

use tvmtune_plan::record::Source;
use tvmtune_space::sketch::{Decision, DecisionKind, Sketch};
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::search::{
    Allocation, Annealing, Ansor, Chain, Combined, Droplet, Effort, Evolutionary, Genetic, Grid,
    HillClimbing, Proposal, Random, Score, SearchContext, Strategy, Transferred,
};
use tvmtune_tuner::space::{Point, Space};

/// Two sketches: one of five decisions with eight options each, and one of a single decision.
fn space() -> Space {
    let decision = |n: u32| Decision {
        name: format!("d{n}"),
        kind: if n < 4 { DecisionKind::Inner } else { DecisionKind::Choice },
        options: (0..8).map(|it| 1 << it).collect(),
        group: n / 2,
    };
    let large = Sketch::new("large", (0..5).map(decision).collect(), vec![0; 5], Vec::new());
    let small = Sketch::new("small", vec![decision(0)], vec![3], Vec::new());
    Space::from_sketches(vec![large, small])
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
        return Outcome::Crashed("simulated".to_owned());
    }
    let far = |(n, (a, b)): (usize, (&u16, &u16))| {
        let steps = f64::from(a.abs_diff(*b));
        if n % 2 == 0 { 1.0 + steps } else { 1.0 + steps / 2.0 }
    };
    latency(100.0 * point.choices.iter().zip(&BEST).enumerate().map(far).product::<f64>())
}

/// Proposals, in batches of 16, until `n` were measured or nothing is left. Finalists are timed by
/// the same hardware.
fn run_in(
    context: &SearchContext<'_>,
    strategy: &mut dyn Strategy,
    n: usize,
) -> Vec<(Proposal, Outcome)> {
    let mut measured = Vec::new();
    while measured.len() < n {
        let batch = strategy.propose(context, 16.min(n - measured.len()));
        if batch.is_empty() {
            break;
        }
        for it in batch {
            let outcome = hardware(&it.point);
            strategy.observe(&it.point, &outcome);
            measured.push((it, outcome));
        }
        let timed = |point: Point| {
            let ns = hardware(&point).timing()?.min_ns();
            let samples = (0..8).map(|it| ns * (1.0 + f64::from(it) / 1e4)).collect();
            Some((point, Timing::new(samples)?))
        };
        let timings: Vec<_> = strategy.finalists().into_iter().filter_map(timed).collect();
        strategy.compared(&timings);
    }
    measured
}

/// The same without cost models.
fn run(strategy: &mut dyn Strategy, n: usize) -> Vec<(Proposal, Outcome)> {
    run_in(&SearchContext::without_models(&space()), strategy, n)
}

fn evolution(seed: u64) -> Evolutionary {
    Evolutionary::new(seed, Effort::QUICK)
}

/// The least latency that was seen.
fn best(measured: &[(Proposal, Outcome)]) -> f64 {
    let times = measured.iter().filter_map(|it| it.1.timing()).map(Timing::min_ns);
    times.fold(f64::INFINITY, f64::min)
}

/// Counts the trials until a latency below `ns` was seen.
fn trials_until(measured: &[(Proposal, Outcome)], ns: f64) -> usize {
    let good = |it: &(Proposal, Outcome)| it.1.timing().is_some_and(|it| it.min_ns() < ns);
    measured.iter().position(good).map_or(usize::MAX, |it| it + 1)
}

#[test]
fn evolution_finds_the_optimum_of_a_large_space_in_few_trials() {
    for seed in 0..8 {
        let trials = trials_until(&run(&mut evolution(seed), 1000), 101.0);
        assert!(trials <= 400, "seed {seed}: {trials} trials");
    }
}

#[test]
fn every_search_gets_further_than_random_points_and_those_further_than_a_grid() {
    let mean = |strategy: &dyn Fn(u64) -> Box<dyn Strategy>| {
        let runs = (0..8).map(|seed| best(&run(&mut *strategy(seed), 300)).ln());
        (runs.sum::<f64>() / 8.0).exp()
    };
    let random = mean(&|seed| Box::new(Random::new(seed)));
    assert!(mean(&|_| Box::<Grid>::default()) > random);
    assert!(mean(&|seed| Box::new(evolution(seed))) * 1.5 < random);
    assert!(mean(&|seed| Box::new(Genetic::new(seed))) < random);
    assert!(mean(&|seed| Box::new(HillClimbing::new(seed))) * 1.2 < random);
}

/// A score that knows the hardware.
struct PerfectScore;

impl Score for PerfectScore {
    fn score(&self, _space: &Space, points: &[Point]) -> Vec<f64> {
        points.iter().map(|it| hardware(it).timing().map_or(1e9, Timing::min_ns)).collect()
    }
}

#[test]
fn a_good_score_saves_most_of_the_trials() {
    let space = space();
    let context =
        SearchContext { analytic: Some(&PerfectScore), ..SearchContext::without_models(&space) };
    for seed in 0..4 {
        let evolved = run_in(&context, &mut evolution(seed), 400);
        let annealed = run_in(&context, &mut Annealing::new(seed), 400);
        let published = run_in(&context, &mut Ansor::new(seed), 400);
        for (measured, max_trials) in [(evolved, 96), (annealed, 96), (published, 96)] {
            let trials = trials_until(&measured, 101.0);
            assert!(trials <= max_trials, "seed {seed}: {trials} trials");
        }
    }
}

#[test]
fn a_sketch_that_a_score_dislikes_is_tried_all_the_same() {
    let space = space();
    let context =
        SearchContext { analytic: Some(&PerfectScore), ..SearchContext::without_models(&space) };
    let measured = run_in(&context, &mut evolution(1), 64);
    assert!(measured.iter().any(|it| it.0.point.sketch == 1));
}

#[test]
fn droplet_descends_to_the_optimum_from_afar_within_a_few_sweeps() {
    let space = space();
    for choices in [vec![0, 0, 0, 0, 7], vec![7, 4, 1, 7, 0]] {
        let start = Point { sketch: 0, choices };
        let mut droplet = Droplet::default();
        droplet.observe(&start, &hardware(&start));
        let measured = run_in(&SearchContext::without_models(&space), &mut droplet, 4000);
        let trials = trials_until(&measured, 101.0);
        // Five decisions of eight options each.
        assert!(trials <= 5 * 8 * 6, "{start:?}: {trials} of {}", measured.len());
        assert!(droplet.n_steps() >= 5);
        assert!(measured.iter().all(|it| it.0.source == Source::Droplet && it.0.parent.is_some()));
        // And it ends there.
        assert!(run_in(&SearchContext::without_models(&space), &mut droplet, 10).is_empty());
    }
}

#[test]
fn droplet_does_not_move_for_what_may_be_noise() {
    let space = space();
    let start = Point { sketch: 0, choices: vec![5, 2, 6, 1, 6] };
    let timed = |ns: f64| Timing::new((0..8).map(|it| ns * (1.0 + f64::from(it) / 20.0)).collect());
    let mut droplet = Droplet::default();
    droplet.observe(&start, &Outcome::Timed(timed(100.0).unwrap()));
    let batch = droplet.propose(&SearchContext::without_models(&space), 64);
    assert!(!batch.is_empty());
    for it in &batch {
        droplet.observe(&it.point, &Outcome::Timed(timed(99.0).unwrap()));
    }
    let finalists = droplet.finalists();
    assert_eq!(finalists.len(), 4, "the incumbent and the most promising");
    assert_eq!(finalists[0], start);
    let timings: Vec<_> = finalists.iter().map(|it| (it.clone(), timed(99.0).unwrap())).collect();
    droplet.compared(&timings);
    assert_eq!(droplet.n_steps(), 0);
}

#[test]
fn offered_points_are_tried_once_and_the_most_promising_first() {
    let space = space();
    let context =
        SearchContext { model: Some(&PerfectScore), ..SearchContext::without_models(&space) };
    let mut transferred = Transferred::default();
    assert!(transferred.propose(&context, 4).is_empty());
    let point = |n| Point { sketch: 0, choices: vec![n, 2, 6, 1, 7] };
    let impossible = Point { sketch: 0, choices: vec![7, 5, 0, 0, 0] };
    transferred.offer(&[point(1), point(4), impossible, point(3), point(4)]);
    let first: Vec<Point> =
        transferred.propose(&context, 2).into_iter().map(|it| it.point).collect();
    assert_eq!(first, [point(4), point(3)]);
    transferred.offer(&[point(3)]);
    let rest: Vec<Point> =
        transferred.propose(&context, 9).into_iter().map(|it| it.point).collect();
    assert_eq!(rest[0], point(1));
    assert!(transferred.propose(&context, 9).is_empty());
}

#[test]
fn the_same_seed_makes_the_same_proposals() {
    let proposals = |seed| run(&mut evolution(seed), 300);
    assert_eq!(proposals(7), proposals(7));
    assert_ne!(proposals(7), proposals(8));
}

#[test]
fn nothing_is_proposed_twice_and_a_space_runs_dry() {
    let tiny = Space::from_sketches(space().sketches[1..].to_vec());
    let context = SearchContext::without_models(&tiny);
    let strategies: [Box<dyn Strategy>; 8] = [
        Box::new(Random::new(1)),
        Box::<Grid>::default(),
        Box::new(Annealing::new(1)),
        Box::new(Ansor::new(1)),
        Box::new(Genetic::new(1)),
        Box::new(HillClimbing::new(1)),
        Box::new(evolution(1)),
        Box::new(Chain::new(vec![
            (Box::new(Random::new(1)), 3),
            (Box::new(evolution(1)), usize::MAX),
        ])),
    ];
    for mut strategy in strategies {
        let mut options: Vec<u16> = Vec::new();
        loop {
            let batch = strategy.propose(&context, 3);
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
fn earlier_measurements_are_learned_from_and_not_proposed_again() {
    let mut strategy = evolution(3);
    let near = Point { sketch: 0, choices: vec![5, 2, 6, 2, 7] };
    strategy.observe(&near, &hardware(&near));
    let measured = run(&mut strategy, 400);
    assert!(measured.iter().all(|it| it.0.point != near));
    let best = |it: &(Proposal, Outcome)| it.0.point.choices == BEST;
    let index = measured.iter().position(best).expect("it is one step away");
    assert_eq!(measured[index].0.source, Source::Evolved);
    assert!(index < 150, "{index}");
}

#[test]
fn a_chain_hands_over_when_a_share_is_used_up() {
    let mut chain =
        Chain::new(vec![(Box::new(Random::new(1)), 20), (Box::new(evolution(2)), usize::MAX)]);
    let measured = run(&mut chain, 100);
    assert_eq!(measured.len(), 100);
    assert!(measured[..20].iter().all(|it| it.0.source == Source::Random));
    assert!(measured[20..].iter().any(|it| it.0.source == Source::Evolved));
}

/// Shares of the proposals by source, among the first `n`.
fn shares(strategy: &mut dyn Strategy, n: usize) -> [usize; 2] {
    let measured = run(strategy, n);
    let count = |droplet: bool| {
        measured.iter().filter(|it| (it.0.source == Source::Droplet) == droplet).count()
    };
    [count(false), count(true)]
}

#[test]
fn combined_strategies_get_their_shares_and_learn_from_one_another() {
    let arms = || -> Vec<(Box<dyn Strategy>, f64)> {
        vec![(Box::new(evolution(4)), 0.7), (Box::<Droplet>::default(), 0.3)]
    };
    let [explored, refined] = shares(&mut Combined::new(arms(), Allocation::Fixed), 160);
    assert!(explored >= 96 && refined >= 24, "{explored} explored, {refined} refined");
    let combined = best(&run(&mut Combined::new(arms(), Allocation::Fixed), 250));
    assert!(combined <= 101.0, "together they get to the optimum: {combined}");
}

#[test]
fn a_bandit_turns_to_whoever_gains() {
    /// Proposes one point of its sketch, for ever.
    struct Stubborn(u16);
    impl Strategy for Stubborn {
        fn propose(&mut self, _: &SearchContext<'_>, _: usize) -> Vec<Proposal> {
            let point = Point { sketch: self.0, choices: vec![0; 5] };
            vec![Proposal::new(Source::Random, point)]
        }
        fn observe(&mut self, _: &Point, _: &Outcome) {}
    }
    let space = space();
    let arm = |sketch| -> (Box<dyn Strategy>, f64) { (Box::new(Stubborn(sketch)), 0.5) };
    let mut bandit = Combined::new(vec![arm(0), arm(1)], Allocation::Bandit);
    let mut turns = |gainful: u16, n: usize| {
        let mut turns = [0; 2];
        for _ in 0..n {
            let sketch = bandit.propose(&SearchContext::without_models(&space), 4)[0].point.sketch;
            turns[usize::from(sketch)] += 1;
            bandit.reward(if sketch == gainful { 0.1 } else { 0.0 }, 1.0);
        }
        turns
    };
    let first = turns(1, 60);
    assert!(first[1] > 2 * first[0], "{first:?}");
    assert!(first[0] >= 3, "but asks the other one now and then: {first:?}");
    let second = turns(0, 60);
    assert!(second[0] > 2 * second[1], "and forgets: {second:?}");
}

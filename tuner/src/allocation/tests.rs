//! All allocators on curves that are made up.

use super::allocator::TaskState;
use super::belief::Family;
use super::dynatune::Settings;
use super::history::History;
use super::replay::{InOrder, RecordedTask, RecordedTrial, Replayed, SlotLength, curves, replay};
use super::{Scheduler, hindsight};
use crate::random::Random;

const SLOT: SlotLength = SlotLength::Trials(16);

/// A network whose tasks rise along log-power curves to different heights.
fn network(seed: u64, n_tasks: usize, n_trials: usize) -> Vec<RecordedTask> {
    let mut random = Random::new(seed);
    (0..n_tasks).map(|n| task(&mut random, n, n_trials)).collect()
}

fn task(random: &mut Random, n: usize, n_trials: usize) -> RecordedTask {
    let flops = 1e6 * (8.0 * random.unit()).exp();
    let (top, middle) = (0.2 + 0.7 * random.unit(), 4.0 * random.unit());
    let (slope, seconds) = (-0.4 - 1.6 * random.unit(), 0.01 + 0.05 * random.unit());
    let trial = |it: usize, random: &mut Random| {
        let speed = Family::LogPower.value((it as f64 + 1.0).ln(), &[top, middle, slope]);
        // Most candidates are slower than the curve.
        let ns = flops / (100.0 * speed) * (1.0 + random.unit().powi(2));
        RecordedTrial { ns: (!random.chance(0.1)).then_some(ns), seconds }
    };
    RecordedTask {
        name: format!("task {n}"),
        weight: 1.0 + random.below(4) as f64,
        flops,
        bound_ns: flops / 100.0,
        group: Some(n as u64 % 3),
        opening_seconds: 0.1,
        trials: (0..n_trials).map(|it| trial(it, random)).collect(),
    }
}

fn run(scheduler: Scheduler, tasks: &[RecordedTask]) -> Replayed {
    replay(tasks, scheduler.allocator(1).as_mut(), SLOT)
}

fn order(replayed: &Replayed) -> Vec<usize> {
    replayed.steps.iter().map(|it| it.task).collect()
}

#[test]
fn every_allocator_ends_and_passes_over_what_is_over() {
    let tasks = network(1, 4, 80);
    for scheduler in Scheduler::all() {
        let replayed = run(scheduler, &tasks);
        let all = 4 * 5;
        assert!(replayed.steps.len() <= all, "{scheduler}");
        // Tasks end before 200 trials without a gain are over.
        assert_eq!(replayed.steps.len(), all, "{scheduler}");
        assert!(replayed.last_ns().is_finite(), "{scheduler}");
        assert!(replayed.steps[3..].is_sorted_by(|a, b| a.total_ns >= b.total_ns), "{scheduler}");
    }
}

#[test]
fn choices_depend_on_the_seed_and_on_no_unit() {
    let tasks = network(2, 4, 96);
    let scaled = |ns: f64, weight: f64| {
        let scale = |it: &RecordedTask| RecordedTask {
            weight: it.weight * weight,
            bound_ns: it.bound_ns * ns,
            trials: it
                .trials
                .iter()
                .map(|it| RecordedTrial { ns: it.ns.map(|it| it * ns), ..*it })
                .collect(),
            ..it.clone()
        };
        tasks.iter().map(scale).collect::<Vec<_>>()
    };
    let scaled = scaled(1024.0, 0.25);
    for scheduler in Scheduler::all() {
        let expected = order(&run(scheduler, &tasks));
        assert_eq!(order(&run(scheduler, &tasks)), expected, "{scheduler}");
        // Operations per ns change with the unit of time, but the bound by similar tasks does not.
        assert_eq!(order(&run(scheduler, &scaled)), expected, "{scheduler}");
    }
}

#[test]
fn tasks_that_never_work_and_weights_that_are_nonsense_get_little() {
    let mut tasks = network(3, 5, 160);
    tasks[1].trials.iter_mut().for_each(|it| it.ns = None);
    (tasks[2].weight, tasks[3].weight) = (0.0, f64::NAN);
    for scheduler in Scheduler::all() {
        let order = order(&run(scheduler, &tasks));
        let n_slots = |task: usize| order.iter().filter(|it| **it == task).count();
        assert!(n_slots(1) <= 128 / 16 + 1, "{scheduler}: {}", n_slots(1));
        assert_eq!((n_slots(2), n_slots(3)), (1, 1), "{scheduler}: the first slots only");
        assert!(n_slots(0) > 3 && n_slots(4) > 3, "{scheduler}: {order:?}");
    }
}

#[test]
fn static_allocators_keep_their_order() {
    let mut tasks = network(4, 3, 96);
    for (it, flops) in tasks.iter_mut().zip([6.0, 3.0, 1.0]) {
        (it.flops, it.weight) = (flops * 1e6, 1.0);
    }
    let of = |it: Scheduler| order(&run(it, &tasks))[3..].to_vec();
    assert_eq!(of(Scheduler::Sequential), [[0; 5], [1; 5], [2; 5]].concat());
    assert_eq!(of(Scheduler::RoundRobin), [0, 1, 2].repeat(5));
    let linear = of(Scheduler::Linear);
    let n_slots = |task: usize| linear[..7].iter().filter(|it| **it == task).count() + 1;
    assert_eq!([0, 1, 2].map(n_slots), [6, 3, 1]);
    let mut random = of(Scheduler::Random);
    random.sort_unstable();
    assert_eq!(random, of(Scheduler::Sequential));
}

#[test]
fn early_termination_passes_over_plateaus() {
    let mut tasks = network(5, 2, 640);
    tasks[0].trials.iter_mut().skip(20).for_each(|it| it.ns = Some(1e9));
    for scheduler in [Scheduler::SequentialStopping, Scheduler::RoundRobinStopping] {
        let order = order(&run(scheduler, &tasks));
        let n_slots = order.iter().filter(|it| **it == 0).count();
        assert!((13..=15).contains(&n_slots), "{scheduler}: {n_slots}");
    }
}

/// A task with these latencies after its slots of one second.
fn history(ns: &[f64]) -> History {
    let mut history = History::default();
    for it in ns {
        history.add_trial(Some(*it));
        history.end_slot(1.0);
    }
    history
}

#[test]
fn gradients_are_those_of_the_publications() {
    // Slopes over three slots: 10, and 0; latencies per slot: 70 / 4, and 60 / 2.
    let histories = [history(&[100.0, 90.0, 80.0, 70.0]), history(&[60.0, 60.0])];
    let view = |n: usize, flops: f64, group: Option<u64>| TaskState {
        weight: 1.0,
        flops,
        bound_ns: 0.0,
        group,
        history: histories[n].clone(),
    };
    let next = |scheduler: Scheduler, tasks: &[TaskState]| {
        scheduler.allocator(1).next(&tasks.iter().collect::<Vec<_>>()).unwrap().task
    };
    let alone = [view(0, 1e3, None), view(1, 1e3, None)];
    // 0.2 * 10 + 0.8 * 17.5 = 16 is less than 0.8 * 30 = 24.
    assert_eq!(next(Scheduler::MetaSchedule, &alone), 1);
    assert_eq!(next(Scheduler::AnsorWithoutGroups, &alone), 1);
    // The second has as many operations per ns as the first: it may become twice as slow, hopes for nothing.
    let alike = [view(0, 70e3, Some(7)), view(1, 70e3 * 60.0 / 70.0 / 2.5, Some(7))];
    assert_eq!(next(Scheduler::Ansor, &alike), 1, "2.5 times as slow as the first");
    let alike = [view(0, 70e3, Some(7)), view(1, 4.0 * 60e3, Some(7))];
    assert_eq!(next(Scheduler::Ansor, &alike), 0, "4 times as fast as the first");
    assert_eq!(next(Scheduler::AnsorWithoutGroups, &alike), 1);
}

#[test]
fn beliefs_find_the_tasks_that_still_gain() {
    let mut sum = [0.0; 3];
    let n_networks = 4;
    for seed in 0..n_networks {
        let tasks = network(100 + seed, 6, 256);
        let of = |scheduler| run(scheduler, &tasks);
        let mut oracle = InOrder::new(hindsight::least_area(&curves(&tasks, SLOT)));
        let best = replay(&tasks, &mut oracle, SLOT);
        let (start, end) = (best.steps[5].seconds, best.steps.last().unwrap().seconds);
        let area = |it: &Replayed| it.mean_between(start, end, best.last_ns()).ln();
        let belief = Scheduler::DynaTune(Settings::PAPER);
        let others = [of(Scheduler::Sequential), of(Scheduler::RoundRobin), of(belief)];
        for (sum, it) in sum.iter_mut().zip(&others) {
            *sum += area(it) - area(&best);
            assert!(area(it) >= area(&best) - 1e-9, "nothing is better than the oracle");
        }
    }
    let [sequential, round_robin, belief] = sum.map(|it| it / n_networks as f64);
    assert!(belief < 0.8 * round_robin && belief < 0.2 * sequential, "{sum:?}");
}

//! What a study of recorded curves compares: schedulers and oracles, on networks as recorded from a seed.

use std::collections::BTreeMap;

use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::allocation::hindsight::{self, Curve, Step};
use tvmtune_tuner::allocation::replay::{
    InOrder, RecordedTask, Replayed, SlotLength, curves, replay,
};

use crate::curves::{Curves, Network};
use crate::synthetic;
use crate::variant::Variant;

/// A network as recorded from a seed.
pub(crate) struct Case {
    pub(crate) network: String,
    pub(crate) seed: u64,
    /// Tasks of which some candidate worked.
    pub(crate) tasks: Vec<RecordedTask>,
    /// The same tasks as recorded from other seeds.
    others: Vec<Vec<RecordedTask>>,
}

/// A way to give away slots.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Arm {
    /// The order with the least area under the latency, in hindsight.
    LeastArea,
    /// The paper's oracle, in hindsight.
    Myopic,
    /// The order with the least area for the mean curves of the same tasks from other seeds: all that can be
    /// known before, and the time that each slot will take.
    OtherSeeds,
    /// The mean curve with the history of each task, by the strength of the former.
    OwnHistory(f64),
    Scheduler(Scheduler),
}

impl Case {
    /// Returns all cases of a recording: each network from each seed, and, of more than two networks, all as
    /// one. Networks that were not recorded to their end are left out.
    pub(crate) fn all(curves: &Curves) -> Vec<Self> {
        let mut cases = Vec::new();
        let mut whole: BTreeMap<u64, Vec<Vec<RecordedTask>>> = BTreeMap::new();
        let networks = curves.networks();
        for (name, seeds) in &networks {
            let n_tasks = seeds.values().map(Vec::len).max().unwrap_or(0);
            let seeds = seeds.iter().filter(|it| it.1.len() == n_tasks);
            let seeds: BTreeMap<u64, Vec<RecordedTask>> =
                seeds.map(|(seed, it)| (*seed, usable(it))).collect();
            for (seed, tasks) in &seeds {
                whole.entry(*seed).or_default().push(tasks.clone());
            }
            cases.extend(of_seeds(name, seeds));
        }
        let n_networks = whole.values().map(Vec::len).max().unwrap_or(0);
        if n_networks > 2 {
            let whole = whole.into_iter().filter(|it| it.1.len() == n_networks);
            let together = whole.map(|(seed, it)| (seed, it.concat())).collect();
            cases.extend(of_seeds(TOGETHER, together));
        }
        cases.extend(of_seeds(SYNTHETIC, synthetic::networks()));
        cases
    }

    /// Tells if it counts as one of the networks of means over networks.
    pub(crate) fn is_network(name: &str) -> bool {
        name != TOGETHER && name != SYNTHETIC
    }
}

/// The names of all networks as one, and of made-up ones.
const TOGETHER: &str = "together";
const SYNTHETIC: &str = "synthetic";

fn of_seeds(name: &str, seeds: BTreeMap<u64, Vec<RecordedTask>>) -> Vec<Case> {
    let case = |seed: &u64| Case {
        network: name.to_owned(),
        seed: *seed,
        tasks: seeds[seed].clone(),
        others: seeds.iter().filter(|it| it.0 != seed).map(|it| it.1.clone()).collect(),
    };
    seeds.keys().map(case).collect()
}

/// Returns the tasks of a network of which some candidate worked.
fn usable(network: &Network<'_>) -> Vec<RecordedTask> {
    let works = |it: &&&RecordedTask| it.trials.iter().any(|it| it.ns.is_some());
    network.iter().filter(works).map(|it| (*it).clone()).collect()
}

impl Arm {
    /// Returns all, the oracle of the least area first.
    pub(crate) fn all() -> Vec<Self> {
        let schedulers = Scheduler::all().into_iter().map(Self::Scheduler);
        let mut all = vec![Self::LeastArea, Self::Myopic, Self::OtherSeeds];
        all.extend([0.0, 0.1, 0.3, 1.0, 3.0].map(Self::OwnHistory));
        all.extend(schedulers);
        all
    }

    pub(crate) fn name(self) -> String {
        match self {
            Self::LeastArea => "oracle of the least area".to_owned(),
            Self::Myopic => "myopic oracle".to_owned(),
            Self::OtherSeeds => "curves of other seeds".to_owned(),
            Self::OwnHistory(strength) => format!("own history, strength {strength}"),
            Self::Scheduler(it) => it.to_string(),
        }
    }

    /// Tells if a claim is made about it.
    pub(crate) fn is_ours(self) -> bool {
        match self {
            Self::Scheduler(Scheduler::DynaTune(it)) => it.family.is_some(),
            Self::Scheduler(it) => it == Scheduler::MeanCurve,
            _ => false,
        }
    }

    /// Tells if claims are about what is better than it.
    pub(crate) fn is_baseline(self) -> bool {
        matches!(self, Self::Scheduler(it) if it != Scheduler::MeanCurve)
            && !matches!(self, Self::Scheduler(Scheduler::DynaTune(_)))
    }

    /// Runs it; `None` if it needs what was not recorded.
    pub(crate) fn replay(self, case: &Case, slot: SlotLength) -> Option<Replayed> {
        let tasks = &case.tasks;
        let in_order = |order: Vec<usize>| replay(tasks, &mut InOrder::new(order), slot);
        Some(match self {
            Self::LeastArea => in_order(hindsight::least_area(&curves(tasks, slot))),
            Self::Myopic => in_order(hindsight::myopic(&curves(tasks, slot))),
            Self::OtherSeeds => in_order(hindsight::least_area(&expected(case, slot)?)),
            Self::OwnHistory(strength) => replay(tasks, &mut Variant::of_strength(strength), slot),
            Self::Scheduler(it) => replay(tasks, it.allocator(case.seed).as_mut(), slot),
        })
    }
}

/// Returns the curves of a case with the mean latencies of other seeds; `None` if there are none.
fn expected(case: &Case, slot: SlotLength) -> Option<Vec<Curve>> {
    let others: Vec<Vec<RecordedTask>> = case.others.clone();
    let own = curves(&case.tasks, slot);
    let all = own.into_iter().zip(&case.tasks).map(|(curve, task)| {
        let same = others.iter().filter_map(|it| it.iter().find(|it| it.name == task.name));
        let same: Vec<RecordedTask> = same.cloned().collect();
        let same = curves(&same, slot);
        let mean = |n: usize| {
            let at = same.iter().filter_map(|it| it.steps.get(n).or(it.steps.last()));
            let finite: Vec<f64> = at.map(|it| it.ns).filter(|it| it.is_finite()).collect();
            (!finite.is_empty()).then(|| finite.iter().sum::<f64>() / finite.len() as f64)
        };
        let step = |(n, it): (usize, &Step)| Some(Step { ns: mean(n)?, ..*it });
        let steps = curve.steps.iter().enumerate().map(step).collect::<Option<Vec<Step>>>()?;
        Some(Curve { steps, ..curve })
    });
    all.collect()
}

/// Returns the best latency of a network, the time of the first slots, and that of all trials.
pub(crate) fn limits(tasks: &[RecordedTask], slot: SlotLength) -> (f64, f64, f64) {
    let curves = curves(tasks, slot);
    let last = |it: &Curve| it.steps.last().map_or((f64::NAN, 0.0), |it| (it.ns, it.seconds));
    let best = curves.iter().map(|it| it.weight * last(it).0).sum();
    let first = curves.iter().filter_map(|it| Some(it.steps.first()?.seconds)).sum();
    (best, first, curves.iter().map(|it| last(it).1).sum())
}

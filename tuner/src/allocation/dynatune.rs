//! `DynaTune`: bandits whose rewards are what a belief about each task's curve expects of a slot.
//!
//! The rules and beliefs of the paper are settings. A variant of ours takes the highest expected saving per
//! second over one slot or several; docs/allocation.md has the figures.

use serde::{Deserialize, Serialize};

use super::allocator::{Allocator, Choice, TaskState, unvisited};
use super::belief::{Belief, Ensemble, Family};
use super::fixed::EarlyStop;
use crate::random::Random;

/// The settings of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Settings {
    /// The choice among expected savings.
    pub rule: Rule,
    /// The curves of the belief; without, the last slot's saving is expected of the next one.
    pub family: Option<Family>,
    /// The unit of expectations.
    pub pace: Pace,
    /// The slots that expectations look ahead, at most, in powers of two.
    pub horizon: u32,
}

/// The choice among expected savings.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rule {
    /// The highest upper confidence bound: savings, as shares of the network's latency, and
    /// `sqrt(c ln t / n)` for a task with `n` of all `t` slots.
    Ucb {
        /// The weight of exploration.
        c: f64,
    },
    /// The highest saving, but a random task with that probability.
    EpsilonGreedy {
        /// The probability.
        epsilon: f64,
    },
    /// A random task, with probabilities that rise exponentially with savings.
    Softmax {
        /// The saving, as a share of the highest, that makes a task `e` times as probable.
        temperature: f64,
    },
}

/// The unit of expectations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// Savings per slot, whatever it takes.
    Slot,
    /// Savings per second: slow kernels have longer slots.
    Second,
}

impl Settings {
    /// The paper's.
    pub const PAPER: Self = Self {
        rule: Rule::Ucb { c: 0.2 },
        family: Some(Family::LogPower),
        pace: Pace::Slot,
        horizon: 1,
    };
    /// Our variant: per second, over up to eight slots.
    pub const OURS: Self =
        Self { rule: Rule::Ucb { c: 0.0 }, pace: Pace::Second, horizon: 8, ..Self::PAPER };
}

/// The scheduler.
#[derive(Debug)]
pub(super) struct DynaTune {
    settings: Settings,
    seed: u64,
    random: Random,
    /// The belief about each task, and the number of trials that it is from.
    beliefs: Vec<Option<(usize, Option<Belief>)>>,
}

impl DynaTune {
    pub(super) fn new(settings: Settings, seed: u64) -> Self {
        Self { settings, seed, random: Random::new(seed), beliefs: Vec::new() }
    }

    /// Forms beliefs anew about tasks that had a slot since.
    fn observe(&mut self, tasks: &[&TaskState]) {
        let Some(family) = self.settings.family else { return };
        self.beliefs.resize(tasks.len(), None);
        for (n, (it, belief)) in tasks.iter().zip(&mut self.beliefs).enumerate() {
            let best = it.history.best();
            if belief.as_ref().is_none_or(|it| it.0 != best.len()) {
                let seed = Random::new(self.seed).fork(n as u64).fork(best.len() as u64).bits();
                let formed = Belief::new(family, best, it.bound_ns, Ensemble::DYNATUNE, seed);
                *belief = Some((best.len(), formed));
            }
        }
    }

    /// Returns the saving that is expected of a slot of a task, in ns of a run of the network: the highest
    /// mean per slot over the horizons. If seconds count, it is scaled to a slot of `mean_seconds`.
    fn saving(&self, n: usize, task: &TaskState, mean_seconds: f64) -> f64 {
        let Some((trials, seconds)) = task.history.expected_slot() else { return f64::INFINITY };
        let scale = match self.settings.pace {
            Pace::Slot => 1.0,
            Pace::Second => mean_seconds / seconds.max(1e-3 * mean_seconds).max(f64::MIN_POSITIVE),
        };
        let per_slot = match self.beliefs.get(n).and_then(|it| it.as_ref()) {
            Some((_, Some(belief))) => {
                let horizons = (0..32).map(|it| 1_u32 << it);
                let horizons = horizons.take_while(|it| *it <= self.settings.horizon.max(1));
                let of = |slots: u32| {
                    let gain = belief.predict(trials * f64::from(slots)).improvement();
                    gain / (1.0 + gain) / f64::from(slots)
                };
                task.history.best_ns() * horizons.map(of).fold(0.0, f64::max)
            }
            _ => last_saving(task),
        };
        task.weight * per_slot * scale
    }

    /// Chooses by the rule among open tasks with their savings; returns the position.
    fn choose(&mut self, open: &[usize], savings: &[f64], tasks: &[&TaskState]) -> Option<usize> {
        let highest = |scores: &[f64]| {
            let scores = scores.iter().enumerate().filter(|it| !it.1.is_nan());
            scores.reduce(|best, it| if it.1 > best.1 { it } else { best }).map(|it| it.0)
        };
        match self.settings.rule {
            Rule::Ucb { c } => {
                let total: f64 =
                    tasks.iter().map(|it| it.weighted_ns()).filter(|it| it.is_finite()).sum();
                let n_slots = |it: usize| tasks[it].history.slots().len() as f64;
                let t: f64 = (0..tasks.len()).map(n_slots).sum();
                let bonus = |it: usize| (c * t.max(1.0).ln() / n_slots(it).max(1.0)).sqrt();
                let bound = |(it, saving): (&usize, &f64)| {
                    saving / total.max(f64::MIN_POSITIVE) + bonus(*it)
                };
                highest(&open.iter().zip(savings).map(bound).collect::<Vec<_>>())
            }
            Rule::EpsilonGreedy { epsilon } if self.random.chance(epsilon) => {
                Some(self.random.below(open.len()))
            }
            Rule::EpsilonGreedy { .. } => highest(savings),
            Rule::Softmax { temperature } => {
                let finite = savings.iter().copied().filter(|it| it.is_finite());
                let scale = temperature * finite.fold(f64::MIN_POSITIVE, f64::max);
                let weights: Vec<f64> =
                    savings.iter().map(|it| (it / scale).min(700.0).exp()).collect();
                let mut drawn = self.random.unit() * weights.iter().sum::<f64>();
                let passed = |it: &f64| {
                    drawn -= it;
                    drawn < 0.0
                };
                weights.iter().position(passed).or_else(|| highest(savings))
            }
        }
    }
}

/// Returns the saving of the last slot; the latency itself after the first slot, so that there is a second.
fn last_saving(task: &TaskState) -> f64 {
    let (history, n) = (&task.history, task.history.slots().len());
    let before = history.best_after(n - 1);
    if before.is_finite() { before - history.best_ns() } else { history.best_ns() }
}

impl Allocator for DynaTune {
    fn next(&mut self, tasks: &[&TaskState]) -> Option<Choice> {
        if let Some(task) = unvisited(tasks) {
            return Some(Choice::of(task));
        }
        self.observe(tasks);
        let is_open = |it: &usize| EarlyStop::DYNATUNE.is_open(tasks[*it]);
        let open: Vec<usize> = (0..tasks.len()).filter(is_open).collect();
        if open.is_empty() {
            return None;
        }
        let seconds = open.iter().filter_map(|it| Some(tasks[*it].history.expected_slot()?.1));
        let mean_seconds = seconds.sum::<f64>() / open.len() as f64;
        let savings: Vec<f64> =
            open.iter().map(|it| self.saving(*it, tasks[*it], mean_seconds)).collect();
        let n = self.choose(&open, &savings, tasks)?;
        let task = open[n];
        let saving_ns = Some(savings[n] / tasks[task].weight).filter(|it| it.is_finite());
        Some(Choice { task, saving_ns })
    }
}

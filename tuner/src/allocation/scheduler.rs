//! The names of all allocators.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::allocator::Allocator;
use super::belief::Family;
use super::dynatune::{DynaTune, Pace, Rule, Settings};
use super::fixed::{EarlyStop, Linear, RandomTask, RoundRobin, Sequential};
use super::gradient::{Ansor, MetaSchedule};
use super::greedy::{LatencyGreedy, RecentGain, RecentSlope};
use super::mean_curve::MeanCurve;

/// An allocator, by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// One task after the other, each until it is over.
    Sequential,
    /// One task after the other, each until it has not improved for long.
    SequentialStopping,
    /// Random tasks.
    Random,
    /// Random tasks among those that still improve.
    RandomStopping,
    /// All tasks in turn.
    RoundRobin,
    /// The tasks that still improve, in turn.
    RoundRobinStopping,
    /// Slots in proportion to arithmetic.
    Linear,
    /// The task that takes most of the network's time, among those that still improve.
    LatencyGreedy,
    /// The task whose last slots gained most.
    RecentSlope,
    /// The task that gained most per second in its last slot, or may still gain.
    RecentGain,
    /// The task that is expected to save most per second by the mean curve of all tasks.
    #[default]
    MeanCurve,
    /// Ansor's gradient, with groups of similar tasks.
    Ansor,
    /// Ansor's gradient, without groups.
    AnsorWithoutGroups,
    /// `MetaSchedule`'s gradient.
    MetaSchedule,
    /// `DynaTune`, with its rules and beliefs.
    DynaTune(Settings),
}

impl Scheduler {
    /// Returns all that a study compares: the baselines, `DynaTune` with its variants, and ours.
    pub fn all() -> Vec<Self> {
        let mut all = vec![
            Self::Sequential,
            Self::SequentialStopping,
            Self::Random,
            Self::RandomStopping,
            Self::RoundRobin,
            Self::RoundRobinStopping,
            Self::Linear,
            Self::LatencyGreedy,
            Self::RecentSlope,
            Self::RecentGain,
            Self::MeanCurve,
            Self::Ansor,
            Self::AnsorWithoutGroups,
            Self::MetaSchedule,
        ];
        let paper = Settings::PAPER;
        let rules = [
            Rule::Ucb { c: 2.0 },
            Rule::Ucb { c: 0.2 },
            Rule::Ucb { c: 0.02 },
            Rule::Ucb { c: 2e-4 },
            Rule::Ucb { c: 0.0 },
            Rule::EpsilonGreedy { epsilon: 0.05 },
            Rule::Softmax { temperature: 0.2 },
        ];
        for rule in rules {
            all.push(Self::DynaTune(Settings { rule, ..paper }));
            all.push(Self::DynaTune(Settings { rule, family: None, ..paper }));
        }
        let others = Family::ALL.into_iter().filter(|it| Some(*it) != paper.family);
        let greedy = Rule::Ucb { c: 0.0 };
        all.extend(
            others.map(|it| Self::DynaTune(Settings { family: Some(it), rule: greedy, ..paper })),
        );
        let per_second = Settings { pace: Pace::Second, rule: greedy, ..paper };
        all.push(Self::DynaTune(per_second));
        all.push(Self::DynaTune(Settings { family: None, ..per_second }));
        all.push(Self::DynaTune(Settings { horizon: 4, ..per_second }));
        all.push(Self::DynaTune(Settings::OURS));
        all
    }

    /// Creates the allocator.
    pub fn allocator(self, seed: u64) -> Box<dyn Allocator> {
        let (stop, never) = (EarlyStop::DYNATUNE, EarlyStop::NEVER);
        match self {
            Self::Sequential => Box::new(Sequential(never)),
            Self::SequentialStopping => Box::new(Sequential(stop)),
            Self::Random => Box::new(RandomTask::new(never, seed)),
            Self::RandomStopping => Box::new(RandomTask::new(stop, seed)),
            Self::RoundRobin => Box::new(RoundRobin::new(never)),
            Self::RoundRobinStopping => Box::new(RoundRobin::new(stop)),
            Self::Linear => Box::new(Linear),
            Self::LatencyGreedy => Box::new(LatencyGreedy(stop)),
            Self::RecentSlope => Box::new(RecentSlope),
            Self::RecentGain => Box::new(RecentGain),
            Self::MeanCurve => Box::new(MeanCurve),
            Self::Ansor => Box::new(Ansor::new(true, seed)),
            Self::AnsorWithoutGroups => Box::new(Ansor::new(false, seed)),
            Self::MetaSchedule => Box::new(MetaSchedule::new(seed)),
            Self::DynaTune(settings) => Box::new(DynaTune::new(settings, seed)),
        }
    }
}

impl fmt::Display for Scheduler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let settings = match self {
            Self::Sequential => return f.write_str("sequential"),
            Self::SequentialStopping => return f.write_str("sequential, stopping"),
            Self::Random => return f.write_str("random"),
            Self::RandomStopping => return f.write_str("random, stopping"),
            Self::RoundRobin => return f.write_str("round-robin"),
            Self::RoundRobinStopping => return f.write_str("round-robin, stopping"),
            Self::Linear => return f.write_str("linear in operations"),
            Self::LatencyGreedy => return f.write_str("greedy by latency"),
            Self::RecentSlope => return f.write_str("recent slope"),
            Self::RecentGain => return f.write_str("recent gain"),
            Self::MeanCurve => return f.write_str("mean curve"),
            Self::Ansor => return f.write_str("Ansor"),
            Self::AnsorWithoutGroups => return f.write_str("Ansor without groups"),
            Self::MetaSchedule => return f.write_str("MetaSchedule"),
            Self::DynaTune(settings) => settings,
        };
        match settings.rule {
            Rule::Ucb { c } => write!(f, "DynaTune C={c}")?,
            Rule::EpsilonGreedy { epsilon } => write!(f, "DynaTune epsilon={epsilon}")?,
            Rule::Softmax { temperature } => write!(f, "DynaTune softmax={temperature}")?,
        }
        match settings.family {
            None => f.write_str(", without belief")?,
            Some(Family::LogPower) => {}
            Some(family) => write!(f, ", {family:?}")?,
        }
        if settings.pace == Pace::Second {
            f.write_str(", per second")?;
        }
        match settings.horizon {
            0 | 1 => Ok(()),
            n => write!(f, ", {n} ahead"),
        }
    }
}

//! How a task is searched: which strategies, started from what, guided by what.
//!
//! The default is what `cargo tvmtune tune` does. Everything else is there so that studies can take
//! one part away and see what it was worth.

use serde::{Deserialize, Serialize};

use crate::search::{
    Allocation, Annealing, Chain, Combined, Droplet, Effort, Evolutionary, Genetic, Grid,
    HillClimbing, Random, Strategy, Transferred,
};

/// How a task is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// What explores.
    pub search: Search,
    /// Which schedules exist.
    pub space: Rules,
    /// Whether it starts from the schedules that analysis chose.
    pub analytic: bool,
    /// Whether analysis guesses how points rank until a model is trained.
    pub draft: bool,
    /// Whether a model learns from measurements how points rank.
    pub model: bool,
    /// Whether evolution mates.
    pub crossover: bool,
    /// When the best points are refined.
    pub droplet: When,
    /// When schedules of other programs are tried.
    pub transfer: When,
    /// How strategies that are interleaved share the trials.
    pub allocation: Sharing,
}

/// What explores a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Evolution.
    #[default]
    Evolution,
    /// Nothing: only what transfer and droplet find.
    None,
    /// Random points.
    Random,
    /// All points in order.
    Grid,
    /// Simulated annealing on guesses.
    Annealing,
    /// A genetic algorithm on measurements.
    Genetic,
    /// Hill climbing with restarts.
    HillClimbing,
}

/// Whose rules say which schedules exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// Ours.
    #[default]
    Tvmtune,
    /// Ansor's, as published.
    Ansor,
}

/// When a strategy has its turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Not at all.
    Never,
    /// Transfer before anything is explored, droplet with the last fifth of the trials.
    Once,
    /// Again and again, between bursts of exploration.
    #[default]
    Interleaved,
}

/// How strategies that are interleaved share the trials.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sharing {
    /// In fixed proportions.
    #[default]
    Fixed,
    /// By what each gained of late.
    Bandit,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            search: Search::default(),
            space: Rules::default(),
            analytic: true,
            draft: true,
            model: true,
            crossover: true,
            droplet: When::default(),
            transfer: When::default(),
            allocation: Sharing::default(),
        }
    }
}

/// The shares of exploring, refining and transferring where they are interleaved.
const EXPLORE: f64 = 0.7;
const REFINE: f64 = 0.2;
const TRANSFER: f64 = 0.1;
/// The share of the trials that are left for refining at the end.
const LAST: f64 = 0.2;

impl Recipe {
    /// Only refines what was found for near devices and ranges.
    pub const REFINE: Self = Self {
        search: Search::None,
        space: Rules::Tvmtune,
        analytic: true,
        draft: true,
        model: true,
        crossover: false,
        droplet: When::Interleaved,
        transfer: When::Once,
        allocation: Sharing::Fixed,
    };

    /// The strategy that follows the recipe within so many trials.
    pub fn strategy(&self, seed: u64, trials: u64) -> Box<dyn Strategy> {
        let mut before: Vec<(Box<dyn Strategy>, usize)> = Vec::new();
        let mut arms: Vec<(Box<dyn Strategy>, f64)> = Vec::new();
        let mut after: Vec<(Box<dyn Strategy>, usize)> = Vec::new();
        match self.transfer {
            When::Never => {}
            When::Once => before.push((Box::new(Transferred::new()), usize::MAX)),
            When::Interleaved => arms.push((Box::new(Transferred::new()), TRANSFER)),
        }
        arms.extend(self.explorer(seed).map(|it| (it, EXPLORE)));
        match self.droplet {
            When::Never => {}
            When::Once => after.push((Box::new(Droplet::new()), usize::MAX)),
            When::Interleaved => arms.push((Box::new(Droplet::new()), REFINE)),
        }
        let share = if after.is_empty() { 1.0 } else { 1.0 - LAST };
        let exploring = (trials as f64 * share) as usize;
        let allocation = match self.allocation {
            Sharing::Fixed => Allocation::Fixed,
            Sharing::Bandit => Allocation::Bandit,
        };
        let middle: Option<Box<dyn Strategy>> = match arms.len() {
            0 => None,
            1 => Some(arms.remove(0).0),
            _ => Some(Box::new(Combined::new(arms, allocation))),
        };
        match middle {
            Some(middle) if before.is_empty() && after.is_empty() => return middle,
            middle => before.extend(middle.map(|it| (it, exploring))),
        }
        before.extend(after);
        Box::new(Chain::new(before))
    }

    fn explorer(&self, seed: u64) -> Option<Box<dyn Strategy>> {
        Some(match self.search {
            Search::None => return None,
            Search::Evolution => {
                let evolution = Evolutionary::new(seed, Effort::QUICK);
                let evolution =
                    if self.crossover { evolution } else { evolution.without_crossover() };
                Box::new(evolution)
            }
            Search::Random => Box::new(Random::new(seed)),
            Search::Grid => Box::new(Grid::new()),
            Search::Annealing => Box::new(Annealing::new(seed)),
            Search::Genetic => Box::new(Genetic::new(seed)),
            Search::HillClimbing => Box::new(HillClimbing::new(seed)),
        })
    }
}

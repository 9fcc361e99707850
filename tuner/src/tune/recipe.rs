//! The recipe of a search: strategies, start points and cost models.
//!
//! The default is that of `cargo tvmtune tune`. Others are for ablation studies.

use serde::{Deserialize, Serialize};
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Target;

use crate::search::{
    Allocation, Annealing, Ansor, Chain, Combined, Droplet, Effort, Evolutionary, Genetic, Grid,
    HillClimbing, Random, Strategy, Transferred,
};
use crate::space::Space;

/// The recipe of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// The strategy that explores.
    pub search: Search,
    /// The rules that generate the sketches.
    pub space: Rules,
    /// Starts from the default points of sketches.
    pub analytic: bool,
    /// Uses the analytic cost model.
    #[serde(rename = "draft")]
    pub analytic_model: bool,
    /// Uses a cost model that is trained on measurements.
    #[serde(rename = "model")]
    pub learned_model: bool,
    /// The new samples after which that model is trained anew; a fifth more than before, if not set.
    #[serde(rename = "train-every", skip_serializing_if = "Option::is_none")]
    pub train_every: Option<u32>,
    /// Evolution uses crossover.
    pub crossover: bool,
    /// The schedule of droplet search.
    pub droplet: When,
    /// The trials of exploration before droplet search, if that comes once; four fifths of all, if not
    /// set.
    #[serde(rename = "droplet-after", skip_serializing_if = "Option::is_none")]
    pub droplet_after: Option<u64>,
    /// The schedule of transfer.
    pub transfer: When,
    /// The allocation of trials to interleaved strategies.
    pub allocation: Allocation,
}

/// A strategy that explores a space.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Search {
    /// Evolution.
    #[default]
    Evolution,
    /// Ansor's evolution, as published.
    Ansor,
    /// None: only transfer and droplet search.
    None,
    /// Random points.
    Random,
    /// All points in order.
    Grid,
    /// Simulated annealing on a cost model.
    Annealing,
    /// A genetic algorithm on measurements.
    Genetic,
    /// Hill climbing with restarts.
    HillClimbing,
}

/// The rules that generate sketches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rules {
    /// Ours.
    #[default]
    Tvmtune,
    /// Ansor's, as published.
    Ansor,
}

/// The schedule of a strategy.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum When {
    /// Not at all.
    Never,
    /// Transfer before exploration, droplet search with the last fifth of the trials.
    Once,
    /// Again and again, between bursts of exploration.
    #[default]
    Interleaved,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            search: Search::default(),
            space: Rules::default(),
            analytic: true,
            analytic_model: true,
            learned_model: true,
            train_every: None,
            crossover: true,
            droplet: When::default(),
            droplet_after: None,
            transfer: When::default(),
            allocation: Allocation::default(),
        }
    }
}

/// The shares of exploration, refinement and transfer if interleaved; estimates.
const EXPLORE: f64 = 0.7;
const REFINE: f64 = 0.2;
const TRANSFER: f64 = 0.1;
/// The share of the trials for refinement at the end.
const FINAL_REFINE: f64 = 0.2;

impl Recipe {
    /// Refines recorded schedules of similar devices and ranges, without exploration.
    pub fn refine() -> Self {
        let (search, transfer) = (Search::None, When::Once);
        Self { search, transfer, crossover: false, ..Self::default() }
    }

    /// Returns the space of a program.
    pub(super) fn space_of(&self, dag: &Dag, target: &Target) -> Space {
        let space = match self.space {
            Rules::Tvmtune => Space::new(dag, target),
            Rules::Ansor => Space::ansor(dag, target),
        };
        let is_analytic = space.is_analytic && self.analytic;
        Space { is_analytic, ..space }
    }

    /// Creates the strategy for a number of trials.
    pub fn strategy(&self, seed: u64, trials: u64) -> Box<dyn Strategy> {
        let mut before: Vec<(Box<dyn Strategy>, usize)> = Vec::new();
        let mut arms: Vec<(Box<dyn Strategy>, f64)> = Vec::new();
        let mut after: Vec<(Box<dyn Strategy>, usize)> = Vec::new();
        match self.transfer {
            When::Never => {}
            When::Once => before.push((Box::<Transferred>::default(), usize::MAX)),
            When::Interleaved => arms.push((Box::<Transferred>::default(), TRANSFER)),
        }
        arms.extend(self.explorer(seed).map(|it| (it, EXPLORE)));
        match self.droplet {
            When::Never => {}
            When::Once => after.push((Box::<Droplet>::default(), usize::MAX)),
            When::Interleaved => arms.push((Box::<Droplet>::default(), REFINE)),
        }
        let exploring = match self.droplet_after {
            _ if after.is_empty() => trials,
            Some(trials) => trials,
            None => (trials as f64 * (1.0 - FINAL_REFINE)) as u64,
        } as usize;
        let middle: Option<Box<dyn Strategy>> = match arms.len() {
            0 => None,
            1 => Some(arms.remove(0).0),
            _ => Some(Box::new(Combined::new(arms, self.allocation))),
        };
        match middle {
            Some(middle) if before.is_empty() && after.is_empty() => return middle,
            middle => before.extend(middle.map(|it| (it, exploring))),
        }
        before.extend(after);
        Box::new(Chain::new(before))
    }

    /// Creates the strategy that explores.
    fn explorer(&self, seed: u64) -> Option<Box<dyn Strategy>> {
        Some(match self.search {
            Search::None => return None,
            Search::Evolution => {
                let evolution = Evolutionary::new(seed, Effort::QUICK);
                let evolution =
                    if self.crossover { evolution } else { evolution.without_crossover() };
                Box::new(evolution)
            }
            Search::Ansor => Box::new(Ansor::new(seed)),
            Search::Random => Box::new(Random::new(seed)),
            Search::Grid => Box::<Grid>::default(),
            Search::Annealing => Box::new(Annealing::new(seed)),
            Search::Genetic => Box::new(Genetic::new(seed)),
            Search::HillClimbing => Box::new(HillClimbing::new(seed)),
        })
    }
}

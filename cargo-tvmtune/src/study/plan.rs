//! What a study says: networks, ways to search, seeds, budgets; and the cells that follow.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tvmtune_tuner::tune::{Recipe, When};

/// A study, as its file says.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Study {
    /// Its name; folders are called by it.
    pub(crate) name: String,
    /// What it is to answer.
    pub(crate) question: String,
    /// Networks of the zoo.
    #[serde(default)]
    pub(crate) networks: Vec<String>,
    /// Packages whose kernels are tuned together, as if they were a network.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// If there are any, only layers whose name contains one of these.
    #[serde(default)]
    pub(crate) layers: Vec<String>,
    /// Of each cell; the same for all arms.
    pub(crate) seeds: Vec<u64>,
    /// Of each cell; the same for all arms.
    pub(crate) budget: Budget,
    /// Whether any arm may start from the schedules that analysis chose.
    #[serde(default = "yes")]
    pub(crate) analytic: bool,
    /// The arm that others are compared with.
    pub(crate) baseline: String,
    /// The arm that finds as much as can be found: others are said to reach a share of it.
    #[serde(default)]
    pub(crate) full: Option<String>,
    /// Whose records arms that transfer are given.
    #[serde(default)]
    pub(crate) donors: Option<Donors>,
    /// What is compared.
    #[serde(rename = "arm")]
    pub(crate) arms: Vec<Arm>,
}

/// What a cell may spend; whichever is reached first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budget {
    /// Candidates measured for each layer.
    #[serde(default = "unlimited")]
    pub(crate) trials: u64,
    /// Wall time for the network.
    #[serde(default = "long")]
    pub(crate) seconds: f64,
}

/// Seconds that no cell takes: where a study sets no limit.
pub(super) const LONG: f64 = 7.0 * 24.0 * 3600.0;

/// Whose records arms that transfer are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Donors {
    /// Which networks give to which.
    pub(crate) pairs: Pairs,
    /// How a donor is tuned, once.
    #[serde(default)]
    pub(crate) recipe: Recipe,
    /// What that may cost.
    pub(crate) budget: Budget,
}

/// Which networks give to which.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pairs {
    /// Each to each other, one at a time.
    EveryOrderedPair,
}

/// A way to search.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arm {
    /// Its name.
    pub(crate) name: String,
    /// What it does; what it leaves out is as in `cargo tvmtune tune`.
    #[serde(default)]
    pub(crate) recipe: Recipe,
}

/// Which cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    /// From which all random choices follow.
    pub(crate) seed: u64,
    /// What is tuned.
    pub(crate) target: String,
    /// Whose records are at hand.
    pub(crate) donor: Option<String>,
    /// How it is tuned; [`Study::DONOR`] for donors.
    pub(crate) arm: String,
}

fn yes() -> bool {
    true
}

fn unlimited() -> u64 {
    u64::MAX
}

fn long() -> f64 {
    LONG
}

impl Study {
    /// The arm of cells that tune donors.
    pub(crate) const DONOR: &str = "donor";

    /// Reads a study.
    ///
    /// # Errors
    ///
    /// If there is no such file, or it contradicts itself.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let name = || format!("study `{}`", path.display());
        let text = std::fs::read_to_string(path).with_context(name)?;
        text.parse().with_context(name)
    }

    fn check(&self) -> Result<()> {
        ensure!(!self.seeds.is_empty(), "`seeds` names none");
        ensure!(!self.targets().is_empty(), "there is nothing to tune: name `networks`");
        let names: BTreeSet<&str> = self.arms.iter().map(|it| it.name.as_str()).collect();
        ensure!(names.len() == self.arms.len(), "two arms have the same name");
        ensure!(!names.contains(Self::DONOR), "an arm is called `{}`", Self::DONOR);
        for name in [Some(&self.baseline), self.full.as_ref()].into_iter().flatten() {
            ensure!(names.contains(name.as_str()), "no arm is called `{name}`");
        }
        for name in &self.networks {
            if tvmtune_zoo::network(name).is_none() {
                let known: Vec<&str> = tvmtune_zoo::networks().iter().map(|it| it.name).collect();
                bail!("no network is called `{name}`; expected one of {}", known.join(", "));
            }
        }
        Ok(())
    }

    /// What is tuned.
    pub(crate) fn targets(&self) -> Vec<&str> {
        self.networks.iter().chain(&self.packages).map(String::as_str).collect()
    }

    /// As `self`, but so small that it is over in seconds: whether everything works, not what it
    /// says.
    pub(crate) fn smoke(mut self) -> Self {
        self.name += "-smoke";
        self.networks.truncate(2);
        self.seeds.truncate(1);
        self.budget = Budget { trials: 3, ..self.budget };
        if let Some(donors) = &mut self.donors {
            donors.budget = self.budget;
        }
        self
    }

    /// The cells that tune donors; they come before all others.
    pub(crate) fn donors(&self) -> Vec<Key> {
        let key = |target: &&str| Key {
            seed: self.seeds[0],
            target: (*target).to_owned(),
            donor: None,
            arm: Self::DONOR.to_owned(),
        };
        if self.donors.is_none() { Vec::new() } else { self.targets().iter().map(key).collect() }
    }

    /// The cells of all arms, in the order in which they run: those that are compared one after the
    /// other, each arm as often first as any other.
    pub(crate) fn cells(&self) -> Vec<Key> {
        let mut cells = Vec::new();
        for seed in &self.seeds {
            for target in self.targets() {
                let from = cells.len();
                for arm in &self.arms {
                    for donor in self.donors_of(arm, target) {
                        let (target, arm) = (target.to_owned(), arm.name.clone());
                        cells.push(Key { seed: *seed, target, donor, arm });
                    }
                }
                let block = &mut cells[from..];
                block.rotate_left(*seed as usize % block.len());
            }
        }
        cells
    }

    /// The donors for cells of an arm; one that is none if it takes nothing from others.
    fn donors_of(&self, arm: &Arm, target: &str) -> Vec<Option<String>> {
        match &self.donors {
            Some(Donors { pairs: Pairs::EveryOrderedPair, .. })
                if arm.recipe.transfer != When::Never =>
            {
                let others = self.targets().into_iter().filter(|it| *it != target);
                others.map(|it| Some(it.to_owned())).collect()
            }
            _ => vec![None],
        }
    }

    /// How a cell is tuned, and what that may cost; `None` for cells of another study.
    pub(crate) fn terms(&self, key: &Key) -> Option<(Recipe, Budget)> {
        let (recipe, budget) = match &self.donors {
            Some(donors) if key.arm == Self::DONOR => (donors.recipe, donors.budget),
            _ => (self.arms.iter().find(|it| it.name == key.arm)?.recipe, self.budget),
        };
        Some((Recipe { analytic: recipe.analytic && self.analytic, ..recipe }, budget))
    }
}

impl std::str::FromStr for Study {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let study: Self = toml::from_str(text)?;
        study.check()?;
        Ok(study)
    }
}

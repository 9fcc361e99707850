//! The file of a study: networks, arms, seeds, budgets; and the cells that follow from it.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::tune::{Recipe, When};

/// A study.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Study {
    /// Its name, which is that of its folder.
    pub(crate) name: String,
    /// The question that it answers.
    pub(crate) question: String,
    /// Networks of the zoo.
    #[serde(default)]
    pub(crate) networks: Vec<String>,
    /// Packages whose kernels are tuned together, as if they were a network.
    #[serde(default)]
    pub(crate) packages: Vec<String>,
    /// Only layers whose name contains one of these, if there are any.
    #[serde(default)]
    pub(crate) layers: Vec<String>,
    /// The seeds of the cells of each arm.
    pub(crate) seeds: Vec<u64>,
    /// The budget of each cell of an arm.
    pub(crate) budget: Budget,
    /// Allows arms to start from the default points of sketches.
    #[serde(default = "yes")]
    pub(crate) analytic: bool,
    /// The arm that others are compared with.
    pub(crate) baseline: String,
    /// The arm of full tuning, of which others reach a share.
    #[serde(default)]
    pub(crate) full: Option<String>,
    /// The choice of the layer of each round, where an arm states none.
    #[serde(default)]
    pub(crate) scheduler: Scheduler,
    /// The transfer sources of arms that transfer.
    #[serde(default, rename = "donors")]
    pub(crate) sources: Option<SourceNetworks>,
    /// The recipes that are compared.
    #[serde(rename = "arm")]
    pub(crate) arms: Vec<Arm>,
    /// Only so many layers of each network, those with the least work, in a smoke test.
    #[serde(skip)]
    pub(crate) smallest_layers: Option<usize>,
}

/// The limits of a cell; the first one that is reached ends it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Budget {
    /// Candidates measured for each layer.
    #[serde(default = "unlimited")]
    pub(crate) trials: u64,
    /// Wall time for the network.
    #[serde(default = "no_limit")]
    pub(crate) seconds: f64,
}

/// The time limit of a cell if a study sets none: a week.
pub(super) const NO_LIMIT: f64 = 7.0 * 24.0 * 3600.0;

/// The networks whose records arms that transfer are given.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SourceNetworks {
    /// The pairs of a source and a tuned network.
    pub(crate) pairs: Pairs,
    /// The recipe by which a source is tuned, once from each seed.
    #[serde(default)]
    pub(crate) recipe: Recipe,
    /// Its budget.
    pub(crate) budget: Budget,
}

/// Pairs of a source and a tuned network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Pairs {
    /// Every ordered pair of two networks.
    EveryOrderedPair,
    /// All other networks together, as the database of a user has them.
    Pooled,
}

/// An arm: a recipe with a name.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Arm {
    /// Its name.
    pub(crate) name: String,
    /// The recipe; omitted fields are as in `cargo tvmtune tune`.
    #[serde(default)]
    pub(crate) recipe: Recipe,
    /// The choice of the layer of each round, if it is not that of the study.
    #[serde(default)]
    pub(crate) scheduler: Option<Scheduler>,
}

/// The terms by which a cell is tuned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Terms {
    pub(crate) recipe: Recipe,
    pub(crate) scheduler: Scheduler,
    pub(crate) budget: Budget,
}

/// The identity of a cell.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Key {
    /// The seed of all random choices.
    pub(crate) seed: u64,
    /// The network that is tuned.
    pub(crate) target: String,
    /// The network whose records are the transfer sources; [`Study::OTHERS`] for all others.
    #[serde(rename = "donor")]
    pub(crate) source: Option<String>,
    /// The arm; [`Study::SOURCE`] for sources.
    pub(crate) arm: String,
}

fn yes() -> bool {
    true
}

fn unlimited() -> u64 {
    u64::MAX
}

fn no_limit() -> f64 {
    NO_LIMIT
}

impl Study {
    /// The arm of cells that tune sources, as stored.
    pub(crate) const SOURCE: &str = "donor";
    /// The source that is all other networks.
    pub(crate) const OTHERS: &str = "others";

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

    /// Checks that the study is consistent.
    fn check(&self) -> Result<()> {
        ensure!(!self.seeds.is_empty(), "`seeds` names none");
        ensure!(!self.targets().is_empty(), "there is nothing to tune: name `networks`");
        let names: BTreeSet<&str> = self.arms.iter().map(|it| it.name.as_str()).collect();
        ensure!(names.len() == self.arms.len(), "two arms have the same name");
        ensure!(!names.contains(Self::SOURCE), "an arm is called `{}`", Self::SOURCE);
        for name in [Some(&self.baseline), self.full.as_ref()].into_iter().flatten() {
            ensure!(names.contains(name.as_str()), "no arm is called `{name}`");
        }
        for name in &self.networks {
            if tvmtune_zoo::network(name).is_none() {
                let names: Vec<&str> = tvmtune_zoo::networks().iter().map(|it| it.name).collect();
                bail!("no network is called `{name}`; expected one of {}", names.join(", "));
            }
        }
        Ok(())
    }

    /// Returns the networks that are tuned.
    pub(crate) fn targets(&self) -> Vec<&str> {
        self.networks.iter().chain(&self.packages).map(String::as_str).collect()
    }

    /// Reduces the study to a smoke test of some seconds.
    pub(crate) fn smoke(mut self) -> Self {
        self.name += "-smoke";
        self.networks.truncate(2);
        self.seeds.truncate(1);
        self.smallest_layers = Some(2);
        self.budget = Budget { trials: 3, ..self.budget };
        if let Some(sources) = &mut self.sources {
            sources.budget = self.budget;
        }
        self
    }

    /// Returns the cells that tune sources, afresh from each seed: else all cells of a pair would share the luck
    /// of one session.
    pub(crate) fn source_cells(&self) -> Vec<Key> {
        let of_seed = |seed: &u64| {
            let key = |target: &&str| Key {
                seed: *seed,
                target: (*target).to_owned(),
                source: None,
                arm: Self::SOURCE.to_owned(),
            };
            self.targets().iter().map(key).collect::<Vec<_>>()
        };
        if self.sources.is_none() {
            return Vec::new();
        }
        self.seeds.iter().flat_map(of_seed).collect()
    }

    /// Returns the cells whose records a cell is given.
    pub(crate) fn sources_of_cell(&self, key: &Key) -> Vec<Key> {
        let is_given = |it: &Key| match key.source.as_deref() {
            Some(Self::OTHERS) => it.target != key.target,
            source => Some(it.target.as_str()) == source,
        };
        let all = self.source_cells().into_iter();
        all.filter(|it| it.seed == key.seed && is_given(it)).collect()
    }

    /// Returns the cells of all arms, in the order in which they run: those that are compared one
    /// after the other, with the arms rotated by the seed.
    pub(crate) fn cells(&self) -> Vec<Key> {
        let mut cells = Vec::new();
        for seed in &self.seeds {
            for target in self.targets() {
                let from = cells.len();
                for arm in &self.arms {
                    for source in self.sources_of(arm, target) {
                        let (target, arm) = (target.to_owned(), arm.name.clone());
                        cells.push(Key { seed: *seed, target, source, arm });
                    }
                }
                let block = &mut cells[from..];
                block.rotate_left(*seed as usize % block.len());
            }
        }
        cells
    }

    /// Returns the sources for cells of an arm; a single `None` if it does not transfer.
    fn sources_of(&self, arm: &Arm, target: &str) -> Vec<Option<String>> {
        match &self.sources {
            Some(it) if arm.recipe.transfer != When::Never => match it.pairs {
                Pairs::EveryOrderedPair => {
                    let others = self.targets().into_iter().filter(|it| *it != target);
                    others.map(|it| Some(it.to_owned())).collect()
                }
                Pairs::Pooled => vec![Some(Self::OTHERS.to_owned())],
            },
            _ => vec![None],
        }
    }

    /// Returns the terms of a cell; `None` for cells of another study.
    pub(crate) fn terms(&self, key: &Key) -> Option<Terms> {
        let (recipe, scheduler, budget) = match &self.sources {
            Some(it) if key.arm == Self::SOURCE => (it.recipe, self.scheduler, it.budget),
            _ => {
                let arm = self.arms.iter().find(|it| it.name == key.arm)?;
                (arm.recipe, arm.scheduler.unwrap_or(self.scheduler), self.budget)
            }
        };
        let recipe = Recipe { analytic: recipe.analytic && self.analytic, ..recipe };
        Some(Terms { recipe, scheduler, budget })
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

//! What a bundle times, each program once, whatever candidates there are of it.

use anyhow::{Result, anyhow};
use tvmtune_ir::dag::print;
use tvmtune_ir::target::GpuTarget;
use tvmtune_ir::workload;
use tvmtune_tuner::tune::Workload;

use crate::item::{Goal, Item, Manifest};
use crate::problem::Problem;
use crate::roofline::Roofline;

/// A program of a bundle.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The name of its case.
    pub case: String,
    /// Its extents, as `dims(..)` has them.
    pub dims: String,
    /// What it computes.
    pub problem: Problem,
}

impl Subject {
    /// The programs that a bundle times, whose name contains that.
    ///
    /// # Errors
    ///
    /// If the bundle has a case that this program does not know.
    pub fn all(manifest: &Manifest, only: &str) -> Result<Vec<Self>> {
        let mut subjects: Vec<Self> = Vec::new();
        for item in
            manifest.items.iter().filter(|it| it.goal == Goal::Time && it.case.contains(only))
        {
            if !subjects.iter().any(|it| it.is_of(item)) {
                let (_, problem) = item.problem().map_err(|it| anyhow!(it))?;
                let (case, dims) = (item.case.clone(), item.dims.clone());
                subjects.push(Self { case, dims, problem });
            }
        }
        Ok(subjects)
    }

    /// Whether that is a candidate of it.
    pub fn is_of(&self, item: &Item) -> bool {
        self.case == item.case && self.dims == item.dims
    }

    /// As the tuner has it. What there is to gain counts relative to what it takes at least.
    pub fn workload(&self, target: &GpuTarget) -> Workload {
        let Problem { dag, tolerance, .. } = &self.problem;
        Workload {
            id: workload::id(dag).to_string(),
            text: print::canonical(dag),
            buckets: vec![Vec::new()],
            weight: 1.0 / Roofline::of(&self.problem, target).ns,
            ..Workload::new((**dag).clone(), Vec::new(), *tolerance)
        }
    }
}

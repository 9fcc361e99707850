//! The benchmarks of a bundle: each program that it times, once for all its candidates.

use anyhow::{Result, anyhow};
use tvmtune_ir::dag::print;
use tvmtune_ir::target::GpuTarget;
use tvmtune_ir::workload;
use tvmtune_tuner::tune::Workload;

use crate::candidate::{Candidate, Goal, Manifest};
use crate::problem::Problem;
use crate::roofline::Roofline;

/// A program that a bundle times.
#[derive(Clone, Debug)]
pub struct Benchmark {
    /// The name of its case.
    pub case: String,
    /// Its extents, as `dims(..)` has them.
    pub dims: String,
    /// The case at these extents.
    pub problem: Problem,
}

impl Benchmark {
    /// Returns the programs that a bundle times, whose name contains `only`.
    ///
    /// # Errors
    ///
    /// If the bundle has a case that this program does not know.
    pub fn all(manifest: &Manifest, only: &str) -> Result<Vec<Self>> {
        let mut benchmarks: Vec<Self> = Vec::new();
        for candidate in
            manifest.candidates.iter().filter(|it| it.goal == Goal::Time && it.case.contains(only))
        {
            if !benchmarks.iter().any(|it| it.is_of(candidate)) {
                let (_, problem) = candidate.problem().map_err(|it| anyhow!(it))?;
                let (case, dims) = (candidate.case.clone(), candidate.dims.clone());
                benchmarks.push(Self { case, dims, problem });
            }
        }
        Ok(benchmarks)
    }

    /// Returns whether a candidate is of this program.
    pub fn is_of(&self, candidate: &Candidate) -> bool {
        self.case == candidate.case && self.dims == candidate.dims
    }

    /// Returns the tuner's workload, weighted by the roofline.
    pub fn workload(&self, target: &GpuTarget) -> Workload {
        let Problem { dag, tolerance, .. } = &self.problem;
        Workload {
            id: workload::id(dag),
            text: print::canonical(dag),
            buckets: vec![Vec::new()],
            weight: 1.0 / Roofline::of(&self.problem, target).ns,
            ..Workload::new((**dag).clone(), Vec::new(), *tolerance)
        }
    }
}

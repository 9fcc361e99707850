//! Tunes what a build lacks, in another process, on the CPU and on the GPU.
//!
//! In: ops whose plan is a makeshift. Out: records in the user's cache, and a
//! [`Tuning`] that says what became of it. Next: the build looks the records up like any other.
//!
//! `child.rs` starts that process, `job.rs` is what the two say to each other, and `session.rs`
//! is what happens there; `cargo tvmtune tune` goes through the same session.

mod child;
mod job;
#[cfg(feature = "tune")]
mod quiet;
#[cfg(feature = "tune")]
pub mod session;

use tvmtune_ir::target::{DeviceKey, GpuTarget};
use tvmtune_plan::database::Lookup;
use tvmtune_plan::record::Tier;

use crate::config::Budget;
use crate::cuda;
use crate::op::Op;
use crate::package::Package;
use crate::plan::{self, Aim};
use crate::report::OpReport;
use crate::script::Script;

pub use child::installed_engine;
use job::{Answer, Job, Wanted};

/// What tuning did for a build.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    answer: Answer,
    trouble: Option<String>,
}

impl Tuning {
    /// Whether that op can't be tuned, whatever the budget.
    pub(crate) fn failed(&self, name: &str) -> bool {
        self.trouble.is_some() || self.answer.failures.iter().any(|it| it.name == name)
    }

    /// The line for the user; `None` if all went well.
    pub(crate) fn warning(&self) -> Option<String> {
        if let Some(trouble) = &self.trouble {
            let what = if self.answer.n_tuned == 0 { "nothing" } else { "not everything" };
            return Some(format!("tvmtune: {what} was tuned: {trouble}"));
        }
        let first = self.answer.failures.first()?;
        let more = match self.answer.failures.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        Some(format!("tvmtune: `{}` was not tuned: {}{more}", first.name, first.why))
    }
}

/// The GPU of this machine; an error says why there is none, or none that can be asked.
pub(crate) fn gpu() -> Result<GpuTarget, String> {
    let answer = child::run(&Job::about_gpu()).map_err(|it| it.to_string())?;
    let target = answer.gpu.and_then(|it| GpuTarget::from_key(&DeviceKey(it)));
    target.ok_or_else(|| answer.no_gpu.unwrap_or_default())
}

/// Tunes the kernels of a package that the reports call missing, for the devices of `aim`, and
/// refines those whose schedules are of a near one.
pub(crate) fn misses(
    script: &Script,
    package: &Package,
    lookups: &[Lookup],
    reports: &[OpReport],
    aim: &Aim,
) -> Tuning {
    let mut wanted = (Vec::new(), Vec::new());
    for ((op, lookup), report) in package.ops.iter().zip(lookups).zip(reports) {
        if report.cpu.wants_tuning() {
            wanted.0.push(Wanted::new(op, missing_on_cpu(op, lookup, aim)));
        }
        if let (Some(standing), Some(gpu)) = (report.gpu, aim.gpu)
            && standing.wants_tuning()
        {
            wanted.1.push(Wanted::new(op, missing_on_gpu(op, lookup, gpu)));
        }
    }
    let mut budget = Budget::BUILD.limited(&package.config.budget);
    if let Some(text) = script.variable("TVMTUNE_BUDGET") {
        match budget.overridden(text) {
            Ok(other) => budget = other,
            Err(error) => {
                let trouble = Some(format!("TVMTUNE_BUDGET: {error}"));
                return Tuning { trouble, ..Tuning::default() };
            }
        }
    }
    let workspace = package.workspace_dir.as_deref();
    let job = Job::new(&package.manifest_dir, workspace, budget, wanted);
    match child::run(&job) {
        Ok(answer) => Tuning { trouble: answer.trouble.clone(), answer },
        Err(error) => Tuning { trouble: Some(error.to_string()), ..Tuning::default() },
    }
}

fn missing_on_cpu(op: &Op, lookup: &Lookup, aim: &Aim) -> Vec<usize> {
    let slots = plan::slots(op, lookup, aim);
    missing(slots.iter().filter(|it| it.isa == aim.isa()).map(plan::Slot::tier))
}

fn missing_on_gpu(op: &Op, lookup: &Lookup, gpu: GpuTarget) -> Vec<usize> {
    missing(cuda::slots(op, lookup, &[gpu]).iter().map(cuda::Slot::tier))
}

/// The positions of the buckets without a record of this device, by what each has; of all, if there
/// is one for each and it is of no use.
fn missing(tiers: impl Iterator<Item = Tier> + Clone) -> Vec<usize> {
    let missing = tiers.clone().enumerate().filter(|(_, it)| *it != Tier::Exact);
    let missing: Vec<usize> = missing.map(|(n, _)| n).collect();
    if missing.is_empty() { (0..tiers.count()).collect() } else { missing }
}

#[cfg(test)]
mod tests {
    use super::job::Failure;
    use super::*;

    #[test]
    fn what_went_wrong_is_one_line() {
        let failure = |name: &str| Failure { name: name.to_owned(), why: "too large".to_owned() };
        let check = |names: &[&str], trouble: Option<&str>, expected: Option<&str>| {
            let failures = names.iter().map(|it| failure(it)).collect();
            let answer = Answer { failures, ..Answer::default() };
            let tuning = Tuning { answer, trouble: trouble.map(str::to_owned) };
            assert_eq!(tuning.warning().as_deref(), expected);
        };
        check(&[], None, None);
        check(&["a"], None, Some("tvmtune: `a` was not tuned: too large"));
        check(&["a", "b"], None, Some("tvmtune: `a` was not tuned: too large (and 1 more)"));
        check(&[], Some("no engine"), Some("tvmtune: nothing was tuned: no engine"));
    }
}

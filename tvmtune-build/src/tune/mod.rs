//! Tunes the kernels of a build that have no record, in another process, on the CPU and on the GPU.
//!
//! In: ops without a record of this device. Out: records in the user's cache, and the result, a
//! [`Tuning`]. Next: the build looks the records up.
//!
//! `child.rs` starts that process, `job.rs` is the protocol between the two, and `session.rs` runs
//! there; `cargo tvmtune tune` has the same session.

mod child;
mod job;
#[cfg(feature = "tune")]
mod jobserver;
#[cfg(feature = "tune")]
pub mod session;

use tvmtune_ir::target::{DeviceKey, GpuTarget};
use tvmtune_plan::database::Lookup;
use tvmtune_plan::record::Tier;

use crate::config::Budget;
use crate::cuda;
use crate::op::Op;
use crate::package::Package;
use crate::plan::{self, PlanTarget};
use crate::report::OpReport;
use crate::script::Script;

pub use child::installed_tool;
use job::{Answer, Job, Wanted};

/// The result of tuning for a build.
#[derive(Debug, Default)]
pub(crate) struct Tuning(Answer);

impl Tuning {
    /// Tells if that op can't be tuned, with any budget.
    pub(crate) fn failed(&self, name: &str) -> bool {
        self.0.trouble.is_some() || self.0.failures.iter().any(|it| it.name == name)
    }

    /// Returns the line for the user; `None` without errors.
    pub(crate) fn warning(&self) -> Option<String> {
        let Self(answer) = self;
        if let Some(trouble) = &answer.trouble {
            let what = if answer.n_tuned == 0 { "nothing" } else { "not everything" };
            return Some(format!("tvmtune: {what} was tuned: {trouble}"));
        }
        let first = answer.failures.first()?;
        let more = match answer.failures.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        Some(format!("tvmtune: `{}` was not tuned: {}{more}", first.name, first.why))
    }
}

/// Detects the GPU of this machine, in another process; the error says why there is none.
pub(crate) fn gpu() -> Result<GpuTarget, String> {
    let answer = child::run(&Job::about_gpu()).map_err(|it| it.to_string())?;
    let target = answer.gpu.and_then(|it| GpuTarget::from_key(&DeviceKey(it)));
    target.ok_or_else(|| answer.no_gpu.unwrap_or_default())
}

/// Tunes the kernels of a package whose report is a miss, for the devices of `plan_target`, and refines
/// those whose schedules are of a similar device.
pub(crate) fn misses(
    script: &Script,
    package: &Package,
    lookups: &[Lookup],
    reports: &[OpReport],
    plan_target: &PlanTarget,
) -> Tuning {
    let (mut cpu, mut gpu) = (Vec::new(), Vec::new());
    let ops = package.ops.iter().zip(lookups).zip(reports);
    for ((op, lookup), report) in ops.filter(|((op, _), _)| op.is_current()) {
        if report.cpu.wants_tuning() {
            cpu.push(Wanted::new(op, missing_on_cpu(op, lookup, plan_target)));
        }
        if let (Some(status), Some(target)) = (report.gpu, plan_target.gpu)
            && status.wants_tuning()
        {
            gpu.push(Wanted::new(op, missing_on_gpu(op, lookup, target)));
        }
    }
    let failed = |why| Tuning(Answer { trouble: Some(why), ..Answer::default() });
    let mut budget = Budget::BUILD.limited(&package.config.budget);
    if let Some(text) = script.variable("TVMTUNE_BUDGET") {
        match budget.overridden(text) {
            Ok(other) => budget = other,
            Err(error) => return failed(format!("TVMTUNE_BUDGET: {error}")),
        }
    }
    let (workspace, asks_for_gpu) = (package.workspace_dir.clone(), false);
    let package = package.manifest_dir.clone();
    let job = Job { package, workspace, asks_for_gpu, budget, cpu, gpu };
    child::run(&job).map_or_else(|error| failed(error.to_string()), Tuning)
}

fn missing_on_cpu(op: &Op, lookup: &Lookup, plan_target: &PlanTarget) -> Vec<usize> {
    let variant_specs = plan::variant_specs(op, lookup, plan_target);
    let of_isa = variant_specs.iter().filter(|it| it.isa == plan_target.isa());
    missing(of_isa.map(|it| plan::best_tier(&it.choices)))
}

fn missing_on_gpu(op: &Op, lookup: &Lookup, gpu: GpuTarget) -> Vec<usize> {
    let specs = cuda::variant_specs(op, lookup, &[gpu]);
    missing(specs.iter().map(|it| plan::best_tier(&it.choices)))
}

/// Returns the positions of the buckets without a record of this device, given the tier of each; all
/// positions if each has one, which is stale then.
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
            let trouble = trouble.map(str::to_owned);
            let tuning = Tuning(Answer { failures, trouble, ..Answer::default() });
            assert_eq!(tuning.warning().as_deref(), expected);
        };
        check(&[], None, None);
        check(&["a"], None, Some("tvmtune: `a` was not tuned: too large"));
        check(&["a", "b"], None, Some("tvmtune: `a` was not tuned: too large (and 1 more)"));
        check(&[], Some("no engine"), Some("tvmtune: nothing was tuned: no engine"));
    }
}

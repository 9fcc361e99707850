//! Tunes the kernels of a build that have no record, in another process, on the CPU and on the GPU.
//!
//! In: ops without a record of this device. Out: records in the user's cache, and the result, a
//! [`Tuning`]. Next: the build looks the records up.
//!
//! `child.rs` starts that process, `job.rs` is the protocol between the two, and `session.rs` runs
//! there; `cargo tvmtune tune` has the same session.

mod child;
#[cfg(feature = "tune")]
mod heartbeat;
mod job;
#[cfg(feature = "tune")]
mod jobserver;
#[cfg(feature = "tune")]
pub mod session;

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::GpuTarget;
use tvmtune_plan::database::{Choice, Lookup};
use tvmtune_plan::record::{Search, SearchLimits};

use crate::config::{Budget, Config, UnknownSpan};
use crate::cuda;
use crate::op::Op;
use crate::package::Package;
use crate::plan::{self, PlanTarget};
use crate::report::OpReport;
use crate::script::Script;

pub use child::installed_tool;
use job::{Answer, Job, SlowerRecord, Wanted};

/// Seconds of waiting for another process from which a build says so.
const WORTH_SAYING: f64 = 1.0;

/// The result of tuning for a build.
#[derive(Debug, Default)]
pub(crate) struct Tuning {
    answer: Answer,
    /// Set if the process was stopped: what it recorded until then counts.
    is_stopped: bool,
}

impl Tuning {
    /// Returns the result of a process without an answer.
    fn failed_with(trouble: String, is_stopped: bool) -> Self {
        Self { answer: Answer { trouble: Some(trouble), ..Answer::default() }, is_stopped }
    }

    /// Tells if that op can't be tuned, with any budget.
    pub(crate) fn failed(&self, name: &str) -> bool {
        let Answer { trouble, failures, .. } = &self.answer;
        // The next build may find the device free.
        let is_over = trouble.is_some() && !self.is_stopped && !self.answer.is_busy;
        is_over || failures.iter().any(|it| it.name == name)
    }

    /// Returns what stopped tuning before its budget was spent.
    pub(crate) fn trouble(&self) -> Option<&str> {
        self.answer.trouble.as_deref()
    }

    /// Returns the line about shipped schedules that are slower here than the default ones; `None`
    /// without any.
    pub(crate) fn slower_records(&self) -> Option<String> {
        let slower = &self.answer.slower;
        let SlowerRecord { name, ratio } =
            slower.iter().max_by(|a, b| a.ratio.total_cmp(&b.ratio))?;
        let more = match slower.len() - 1 {
            0 => String::new(),
            n => format!(", and {n} more are slower"),
        };
        Some(format!(
            "tvmtune: the shipped schedule of `{name}` takes {ratio:.1} times as long here as the \
             default one{more}; this build takes what it measured"
        ))
    }

    /// Returns the line about waiting for another process; `None` if there was none to wait for, or if
    /// that took the whole budget, which is said as what stopped tuning.
    pub(crate) fn waited(&self) -> Option<String> {
        let Answer { waited_seconds, waited_for, is_busy, .. } = &self.answer;
        let whom = waited_for.as_deref().unwrap_or("another process");
        (*waited_seconds >= WORTH_SAYING && !is_busy).then(|| {
            format!(
                "tvmtune: waited {waited_seconds:.0} s of its budget for {whom}: one process \
                 measures at a time"
            )
        })
    }

    /// Returns the line about ops that can't be tuned; `None` without any.
    pub(crate) fn warning(&self) -> Option<String> {
        let failures = &self.answer.failures;
        let first = failures.first()?;
        let more = match failures.len() - 1 {
            0 => String::new(),
            n => format!(" (and {n} more)"),
        };
        Some(format!("tvmtune: `{}` was not tuned: {}{more}", first.name, first.why))
    }
}

/// Returns the budget of a build: the environment goes before the author, and that before the default.
pub(crate) fn budget(script: &Script, config: &Config) -> Result<Budget, UnknownSpan> {
    Budget::BUILD.resolved(&config.budget, script.variable("TVMTUNE_BUDGET"))
}

/// Detects the GPU of this machine, in another process; the error says why there is none.
pub(crate) fn gpu() -> Result<GpuTarget, String> {
    let answer = child::run(&Job::about_gpu()).map_err(|it| it.to_string())?;
    let target = answer.gpu.and_then(|it| GpuTarget::from_key(&it));
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
            gpu.push(Wanted::new(op, missing_on_gpu(op, lookup, plan_target, target)));
        }
    }
    let budget = match budget(script, &package.config) {
        Ok(budget) => budget,
        Err(error) => return Tuning::failed_with(format!("TVMTUNE_BUDGET: {error}"), false),
    };
    let (workspace, asks_for_gpu) = (package.workspace_dir.clone(), false);
    let (name, package) = (package.name.clone(), package.manifest_dir.clone());
    let job = Job { name, package, workspace, asks_for_gpu, budget, cpu, gpu };
    match child::run(&job) {
        Ok(answer) => Tuning { answer, is_stopped: false },
        Err(error) => Tuning::failed_with(error.to_string(), error.is_stopped()),
    }
}

fn missing_on_cpu(op: &Op, lookup: &Lookup, plan_target: &PlanTarget) -> Vec<usize> {
    let variant_specs = plan::variant_specs(op, lookup, plan_target);
    let of_isa = variant_specs.iter().filter(|it| it.isa == plan_target.isa());
    let is_tuned = |it: &plan::VariantSpec<'_>| {
        let variant = plan::realize(op, it, plan_target);
        variant.is_ok_and(|it| !it.status(plan_target.limits).wants_tuning())
    };
    missing(of_isa.map(is_tuned))
}

fn missing_on_gpu(
    op: &Op,
    lookup: &Lookup,
    plan_target: &PlanTarget,
    gpu: GpuTarget,
) -> Vec<usize> {
    let specs = cuda::variant_specs(op, lookup, &[gpu]);
    let limits = plan_target.limits;
    missing(specs.iter().map(|it| is_searched(it.choices.first(), it.bucket, limits)))
}

/// Tells if the search of a bucket on this device is complete.
fn is_searched(best: Option<&Choice<'_>>, bucket: &[Interval], limits: SearchLimits) -> bool {
    plan::effort(best.copied(), bucket, limits).search == Search::Complete
}

/// Returns the positions of the buckets whose search goes on; all positions if each is complete, with
/// a record that is stale then.
fn missing(searched: impl Iterator<Item = bool>) -> Vec<usize> {
    let searched: Vec<bool> = searched.collect();
    let is_stale = searched.iter().all(|it| *it);
    (0..searched.len()).filter(|it| is_stale || !searched[*it]).collect()
}

#[cfg(test)]
mod tests {
    use super::job::Failure;
    use super::*;

    #[test]
    fn what_went_wrong_is_one_line() {
        let failure = |name: &str| Failure { name: name.to_owned(), why: "too large".to_owned() };
        let check = |names: &[&str], expected: Option<&str>| {
            let failures = names.iter().map(|it| failure(it)).collect();
            let answer = Answer { failures, ..Answer::default() };
            let tuning = Tuning { answer, is_stopped: false };
            assert_eq!(tuning.warning().as_deref(), expected);
        };
        check(&[], None);
        check(&["a"], Some("tvmtune: `a` was not tuned: too large"));
        check(&["a", "b"], Some("tvmtune: `a` was not tuned: too large (and 1 more)"));
    }

    #[test]
    fn what_stopped_the_process_does_not_make_an_op_hopeless() {
        let failed = |is_stopped| Tuning::failed_with("why".to_owned(), is_stopped).failed("op");
        assert!(failed(false) && !failed(true));
    }

    #[test]
    fn buckets_go_on_until_their_search_is_complete() {
        assert_eq!(missing([true, false, true, false].into_iter()), [1, 3]);
        assert_eq!(missing([true, true].into_iter()), [0, 1], "their records are stale");
    }
}

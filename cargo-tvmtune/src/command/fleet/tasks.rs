//! The tasks of a package: kernels and buckets that another session would improve on a device.
//!
//! Tasks bring along the records that the crate ships, and none of the user's cache: what arrives there must
//! not change the tasks that still wait, or they would be other ones and be tuned twice.

use tvmtune_build::config::Budget;
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::report::TuningStatus;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_fleet::{Task, TaskBudget};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Platform, Target};
use tvmtune_plan::database::{CacheUse, Lookup};

use crate::cli::FleetTune;
use crate::device_plan;
use crate::output::eprintln;
use crate::records::PackageRecords;

/// Returns the tasks of a package for some devices.
pub(super) fn of_package(
    package: &Package,
    devices: &[DeviceKey],
    arguments: &FleetTune,
) -> Vec<Task> {
    let records = PackageRecords::discover(package, CacheUse::Include);
    let shipped = PackageRecords::discover(package, CacheUse::Exclude);
    let budget = budget(package, arguments);
    let mut tasks = Vec::new();
    for device in devices {
        let Some(target) = Target::from_key(device) else { continue };
        if matches!(target, Target::Gpu(_)) && !records.wants_gpu() {
            continue;
        }
        for ((op, lookup), (_, shipped)) in records.ops().zip(shipped.ops()) {
            for (bucket, platform) in open(op, lookup, target, budget, arguments.again) {
                tasks.push(task(op, &bucket, (device, platform), budget, shipped));
            }
        }
    }
    tasks
}

/// Returns the buckets of an op that another session would improve.
fn open(
    op: &Op,
    lookup: &Lookup,
    device: Target,
    budget: Budget,
    is_again: bool,
) -> Vec<(Vec<Interval>, Platform)> {
    let isas: Vec<_> = match device {
        Target::Cpu(cpu) => vec![cpu.isa],
        Target::Gpu(_) => Vec::new(),
    };
    let variants = device_plan::variants(op, lookup, device, &isas, budget.search_limits());
    let is_open = |status: TuningStatus| match status {
        TuningStatus::Portable => false,
        TuningStatus::Exact => is_again,
        _ => true,
    };
    let open = variants.iter().filter(|it| is_open(it.status));
    open.map(|it| (it.bucket.to_vec(), it.platform)).collect()
}

fn task(
    op: &Op,
    bucket: &[Interval],
    (device, platform): (&DeviceKey, Platform),
    budget: Budget,
    shipped: &Lookup,
) -> Task {
    let workload = OpBuckets::new(op, Vec::new()).workload();
    let budget = TaskBudget {
        trials: budget.trials,
        kernel_seconds: budget.per_kernel.as_secs_f64(),
        total_seconds: budget.total.as_secs_f64(),
    };
    let mut task = Task::new(&workload, bucket, device.clone(), platform, budget);
    task.add_records(shipped.records.iter().map(|it| it.record.clone()).collect());
    if let Err(why) = task.check() {
        // Of another release, say; the search begins without.
        eprintln!("warning: {}: {why}", op.name());
        task.records.clear();
    }
    task
}

/// Returns the budget of each task: the command line goes before the environment, and that before the
/// author's.
fn budget(package: &Package, arguments: &FleetTune) -> Budget {
    let limits = &package.config.budget;
    let variable = std::env::var("TVMTUNE_BUDGET").ok();
    let budget = Budget::COMMAND.resolved(limits, variable.as_deref());
    let budget = budget.unwrap_or_else(|error| {
        eprintln!("warning: TVMTUNE_BUDGET: {error}");
        Budget::COMMAND.limited(limits)
    });
    let per_kernel = arguments.budget.map_or(budget.per_kernel, |it| it.0);
    let trials = arguments.trials.unwrap_or(budget.trials);
    // Waiting for others on its machine is no reason to give up within the first minutes.
    Budget { trials, per_kernel, total: budget.total.max(2 * per_kernel) }
}

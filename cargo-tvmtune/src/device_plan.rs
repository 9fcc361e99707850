//! The code that a build would embed, device by device: shared by `tune`, `bench` and `status`.

use std::time::Duration;

use anyhow::{Result, bail};
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, NoCode, PlanTarget};
use tvmtune_build::report::TuningStatus;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{GpuTarget, Isa, Platform, Target};
use tvmtune_plan::database::{CacheUse, Choice, Database, Lookup};
use tvmtune_plan::device;
use tvmtune_plan::record::{Bucket, Effort, SearchLimits};
use tvmtune_schedule::Instruction;

use crate::cli::{Device, Selection};
use crate::output::eprintln;
use crate::records::{self, PackageRecords};
use crate::{Exit, workspace};

/// The time that `bench`, which has no budget, waits for the lock of a device: some builds' budgets.
pub(crate) const LOCK_LIMIT: Duration = Duration::from_secs(120);

/// The code of one bucket of a kernel on one platform.
pub(crate) struct PlannedVariant<'a> {
    pub(crate) bucket: &'a [Interval],
    pub(crate) platform: Platform,
    pub(crate) status: TuningStatus,
    /// The trace of its schedule, if there is a recorded or default one with code; the error says
    /// why there is no code.
    pub(crate) trace: Result<Option<Vec<Instruction>>, NoCode>,
    /// The recorded schedule that it runs by; `None` if that is the default one.
    pub(crate) choice: Option<Choice<'a>>,
    /// The latency of this code, if it was measured.
    pub(crate) median_ns: Option<f64>,
    /// The effort of finding it.
    pub(crate) effort: Effort,
    choices: Vec<Choice<'a>>,
}

impl PlannedVariant<'_> {
    /// Returns the bucket of the best record.
    pub(crate) fn recorded(&self) -> Option<&Bucket> {
        self.choices.first().and_then(|it| it.record.bucket(self.bucket))
    }
}

/// Calls `run` for each package of a selection and each of its devices, until it is not done.
pub(crate) fn for_each_device(
    selection: &Selection,
    device: Option<Device>,
    mut run: impl FnMut(&PackageRecords<'_>, &Database, Target) -> Result<Exit>,
) -> Result<Exit> {
    for package in &workspace::packages(selection)? {
        let database = Database::discover(&package.search_dirs(CacheUse::Include));
        let records = PackageRecords::new(package, &database);
        let devices = match records.devices(device) {
            Ok(devices) => devices,
            Err(why) => {
                eprintln!("error: {why}");
                return Ok(Exit::NoDevice);
            }
        };
        for device in devices {
            match run(&records, &database, device)? {
                Exit::Done => {}
                other => return Ok(other),
            }
        }
    }
    Ok(Exit::Done)
}

/// Returns an instruction set that was asked for.
///
/// # Errors
///
/// If this machine does not run it.
pub(crate) fn runnable(isa: Option<Isa>) -> Result<Option<Isa>> {
    let isas = device::isas();
    if let Some(isa) = isa.filter(|it| !isas.contains(it)) {
        let names: Vec<&str> = isas.iter().map(|it| it.name()).collect();
        bail!("this machine does not run {}; it runs {}", isa.name(), names.join(", "));
    }
    Ok(isa)
}

/// Returns the code of an op on a device, bucket by bucket; of a CPU, for some instruction sets.
pub(crate) fn variants<'a>(
    op: &'a Op,
    lookup: &'a Lookup,
    device: Target,
    isas: &[Isa],
    limits: SearchLimits,
) -> Vec<PlannedVariant<'a>> {
    match device {
        Target::Cpu(cpu) => {
            let plan_target = PlanTarget { device: Some(cpu), gpu: None, limits };
            on_cpu(op, lookup, &plan_target, isas)
        }
        Target::Gpu(gpu) => on_gpus(op, lookup, &[gpu], limits),
    }
}

/// Returns the code of an op for some instruction sets; the status is portable where there is none.
pub(crate) fn on_cpu<'a>(
    op: &'a Op,
    lookup: &'a Lookup,
    plan_target: &PlanTarget,
    isas: &[Isa],
) -> Vec<PlannedVariant<'a>> {
    let planned = |spec: plan::VariantSpec<'a>| {
        let variant = plan::realize(op, &spec, plan_target);
        let status = variant.as_ref().ok().map(|it| it.status(plan_target.limits));
        let effort = variant.as_ref().ok().map(|it| it.effort(plan_target.limits));
        PlannedVariant {
            bucket: spec.bucket,
            platform: spec.isa.into(),
            status: status.unwrap_or(TuningStatus::Portable),
            choice: variant.as_ref().ok().and_then(|it| it.choice),
            effort: effort.unwrap_or_default(),
            median_ns: variant.as_ref().ok().and_then(plan::Variant::median_ns),
            trace: variant.map(|it| Some(it.schedule.trace)),
            choices: spec.choices,
        }
    };
    let specs = plan::variant_specs(op, lookup, plan_target).into_iter();
    specs.filter(|it| isas.contains(&it.isa)).map(planned).collect()
}

/// Returns the code of an op on some GPUs; there is no trace where records have no code.
pub(crate) fn on_gpus<'a>(
    op: &'a Op,
    lookup: &'a Lookup,
    gpus: &[GpuTarget],
    limits: SearchLimits,
) -> Vec<PlannedVariant<'a>> {
    let planned = |spec: cuda::VariantSpec<'a>| {
        let variant = records::realize_cuda(op, &spec, lookup);
        let status = variant.as_ref().map(|it| it.status(limits));
        let effort = variant.as_ref().map(|it| it.effort(limits));
        PlannedVariant {
            bucket: spec.bucket,
            platform: spec.arch().into(),
            status: status.unwrap_or_default(),
            choice: variant.as_ref().and_then(|it| it.choice),
            effort: effort.unwrap_or_default(),
            median_ns: variant.as_ref().and_then(cuda::Variant::median_ns),
            trace: Ok(variant.map(|it| it.schedule.trace)),
            choices: spec.choices,
        }
    };
    cuda::variant_specs(op, lookup, gpus).into_iter().map(planned).collect()
}

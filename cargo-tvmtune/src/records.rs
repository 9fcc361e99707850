//! The records of the kernels of a package.

use std::path::Path;
use std::time::{Duration, SystemTime};

use tvmtune_build::config::Budget;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::plan::{self, NoCode, PlanTarget, Variant, VariantSpec};
use tvmtune_build::report::TuningStatus;
use tvmtune_build::tune::session;
use tvmtune_ir::dag::Dim;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, GpuTarget, Target};
use tvmtune_plan::database::{CacheUse, Database, Lookup};
use tvmtune_plan::device;
use tvmtune_plan::record::{Bucket, End, Entry, GENERATOR, Record, SearchLimits, schema};

use crate::cli::Device;
use crate::output::eprintln;

/// The records of each kernel of a package, in its order.
pub(crate) struct PackageRecords<'a> {
    pub(crate) package: &'a Package,
    lookups: Vec<Lookup>,
}

impl<'a> PackageRecords<'a> {
    /// Looks up every kernel in the databases of the package.
    pub(crate) fn discover(package: &'a Package, cache: CacheUse) -> Self {
        Self::new(package, &Database::discover(&package.search_dirs(cache)))
    }

    /// Looks up every kernel; prints warnings about invalid files to standard error.
    pub(crate) fn new(package: &'a Package, database: &Database) -> Self {
        let queries: Vec<_> = package.ops.iter().map(Op::query).collect();
        let lookups = database.get_all(&queries);
        for warning in lookups.iter().flat_map(|it| &it.warnings) {
            eprintln!("warning: {warning}");
        }
        for name in package.unknown_weights() {
            eprintln!(
                "warning: `[weights]` of tvmtune.toml names `{name}`, which is no kernel of `{}`",
                package.name
            );
        }
        Self { package, lookups }
    }

    /// Returns whether the package has code for GPUs.
    pub(crate) fn wants_gpu(&self) -> bool {
        cuda::is_wanted(&self.package.config, &self.lookups)
    }

    /// Detects the GPU of this machine, if the package has code for GPUs: else no driver is loaded.
    pub(crate) fn gpu(&self) -> Option<GpuTarget> {
        self.wants_gpu().then(session::gpu)?.ok()
    }

    /// Returns what the search of one kernel may take; a variable that means nothing counts as none.
    pub(crate) fn limits(&self) -> SearchLimits {
        let variable = std::env::var("TVMTUNE_BUDGET").ok();
        let limits = &self.package.config.budget;
        let budget = Budget::COMMAND.resolved(limits, variable.as_deref());
        budget.unwrap_or(Budget::COMMAND.limited(limits)).search_limits()
    }

    /// Returns the devices of a command: the one that its command line names, else those of this
    /// machine that the package is for.
    ///
    /// # Errors
    ///
    /// The reason why there is none.
    pub(crate) fn devices(&self, named: Option<Device>) -> Result<Vec<Target>, String> {
        let cpu = || {
            let why = "this machine runs no generated kernels; see `cargo tvmtune doctor`";
            device::detect().map(Target::from).ok_or_else(|| why.to_owned())
        };
        Ok(match named {
            Some(Device::Cpu) => vec![cpu()?],
            Some(Device::Cuda) => vec![session::gpu()?.into()],
            None => match self.gpu() {
                Some(gpu) => cpu().into_iter().chain([gpu.into()]).collect(),
                None => vec![cpu()?],
            },
        })
    }

    /// Returns each kernel with its records.
    pub(crate) fn ops(&self) -> impl Iterator<Item = (&'a Op, &Lookup)> {
        self.package.ops.iter().zip(&self.lookups)
    }
}

/// Returns the code that a build would embed for a spec, and its status; the error says why there is none.
pub(crate) fn realize<'a>(
    op: &Op,
    spec: &VariantSpec<'a>,
    plan_target: &PlanTarget,
) -> (TuningStatus, Result<Variant<'a>, NoCode>) {
    let variant = plan::realize(op, spec, plan_target);
    let status = variant.as_ref().map(|it| it.status(plan_target.limits));
    (status.unwrap_or(TuningStatus::Portable), variant)
}

/// Returns the code for CUDA devices that a build would embed for a spec without compiling.
pub(crate) fn realize_cuda<'a>(
    op: &Op,
    spec: &cuda::VariantSpec<'a>,
    lookup: &Lookup,
) -> Option<cuda::Variant<'a>> {
    let sources = cuda::Sources { known: &lookup.images, compiler: None };
    cuda::realize(op, spec, &sources, &mut None).ok()
}

/// Returns a record of this machine's release, for what was found without measuring.
pub(crate) fn unmeasured(
    op: &Op,
    device: DeviceKey,
    bucket: &[Interval],
    entries: Vec<Entry>,
) -> Record {
    Record {
        schema: schema(&device),
        workload: op.id,
        name: ProgramName::of(op.name()),
        device,
        generator: GENERATOR,
        dag: op.text.clone(),
        provenance: session::provenance(),
        buckets: vec![Bucket { dims: bucket.to_vec(), schedules: entries, ..Bucket::default() }],
        end: End {},
    }
}

/// Returns whether a bucket of an op contains these extents; dimensions that the op lacks do not count.
pub(crate) fn contains(op: &Op, bucket: &[Interval], extents: &[(String, i64)]) -> bool {
    let in_range = |(dim, range): (&Dim, &Interval)| {
        extents.iter().all(|(name, it)| *name != dim.name || (range.lo..=range.hi).contains(it))
    };
    op.dag.dims.iter().zip(bucket).all(in_range)
}

/// Formats the ranges of a bucket: `M 17..=64`; a dash if nothing is dynamic.
pub(crate) fn extents(op: &Op, bucket: &[Interval]) -> String {
    ranges(op.dag.dims.iter().map(|it| it.name.as_str()).zip(bucket.iter().copied()))
}

/// Formats the ranges of some dimensions.
pub(crate) fn ranges<'a>(dims: impl Iterator<Item = (&'a str, Interval)>) -> String {
    let range = |(name, Interval { lo, hi }): (&str, Interval)| match lo == hi {
        true => format!("{name} {lo}"),
        false => format!("{name} {lo}..={hi}"),
    };
    let ranges: Vec<String> = dims.map(range).collect();
    if ranges.is_empty() { "-".to_owned() } else { ranges.join(", ") }
}

/// Returns the time since a record was modified.
pub(crate) fn age(path: &Path) -> Option<Duration> {
    let modified = std::fs::metadata(path).and_then(|it| it.modified()).ok()?;
    SystemTime::now().duration_since(modified).ok()
}

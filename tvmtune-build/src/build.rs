//! The package of a build, from its sources to plans and a handoff.
//!
//! In: a [`Script`]. Out: the plan of each op in `OUT_DIR`, and of each an [`OpReport`]. Next:
//! [`crate::run`] decides what is done about the reports.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::target::{CpuTarget, GpuTarget, Isa, Platform};
use tvmtune_plan::contain::{Panicked, contained};
use tvmtune_plan::database::{CacheUse, Database, DatabaseError, Lookup, PackageCache, StoreKind};
use tvmtune_plan::device;
use tvmtune_plan::handoff::{Handoff, OpState};
use tvmtune_plan::source::Cfg;

use crate::config::Budget;
use crate::cuda::{self, Compiler, Sources};
use crate::emit::{self, Emitter};
use crate::error::Error;
use crate::mode::{self, Mode, Reason, Resolution, UnknownMode};
use crate::op::{Op, Origin};
use crate::package::{Package, workspace_of};
use crate::plan::{self, Digest, NoCode, PlanTarget};
use crate::report::{OpReport, TuningStatus};
use crate::require;
use crate::script::{DECLARED, Directive, Script};
use crate::tune;

/// The error that stops a build.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BuildError {
    #[error(transparent)]
    Mode(#[from] UnknownMode),
    #[error(transparent)]
    Package(#[from] Error),
    #[error(transparent)]
    Handoff(#[from] DatabaseError),
}

/// The package of a run, and all that its plans follow from.
pub(crate) struct Build<'a> {
    pub(crate) script: &'a Script,
    pub(crate) package: Package,
    pub(crate) resolution: Resolution,
    /// This machine, if it runs what is built.
    device: Option<CpuTarget>,
    database: Database,
}

impl<'a> Build<'a> {
    pub(crate) fn open(script: &'a Script) -> Result<Self, BuildError> {
        let cfg = Cfg::from_variables(script.variables());
        let manifest_dir = &script.manifest_dir;
        let workspace = workspace_of(manifest_dir);
        let name = script.variable("CARGO_PKG_NAME").unwrap_or_default();
        let mut circumstances = script.circumstances();
        let device = device::detect().filter(|_| circumstances.host == circumstances.target);
        circumstances.device = device.is_some();
        let resolution = mode::resolve(&circumstances)?;
        let package = Package::load(name, manifest_dir, workspace.as_deref(), &cfg)?;
        let cache = match resolution.mode {
            Mode::Require => CacheUse::Exclude,
            Mode::Off | Mode::Use | Mode::Tune => CacheUse::Include,
        };
        let database = Database::discover(&package.search_dirs(cache));
        Ok(Self { script, package, resolution, device, database })
    }

    /// Returns the machine that kernels are planned for, without its GPU; none where results must be
    /// reproducible.
    pub(crate) fn plan_target(&self) -> PlanTarget {
        let device = self.device.filter(|_| self.resolution.mode != Mode::Require);
        let budget = tune::budget(self.script, &self.package.config).unwrap_or(Budget::BUILD);
        PlanTarget { device, gpu: None, limits: budget.search_limits() }
    }

    /// Returns the platforms by which kernels are judged: the instruction sets of this machine's
    /// device, or those that the author requires; none stand for any.
    fn required(&self) -> (Vec<Isa>, Vec<Arch>) {
        if let Some(device) = self.plan_target().device {
            return (vec![device.isa], Vec::new());
        }
        let (mut isas, mut archs) = (Vec::new(), Vec::new());
        if self.resolution.mode == Mode::Require {
            for platform in &self.package.config.policy.require {
                match platform {
                    Platform::Cpu(isa) => isas.push(*isa),
                    Platform::Cuda(arch) => archs.push(*arch),
                }
            }
        }
        (isas, archs)
    }

    /// Looks up each op in the database.
    pub(crate) fn look_up(&self) -> Vec<Lookup> {
        let ops = self.package.ops.iter();
        match self.resolution.mode {
            Mode::Off => ops.map(|_| Lookup::default()).collect(),
            Mode::Use | Mode::Tune | Mode::Require => {
                self.database.get_all(&ops.map(Op::query).collect::<Vec<_>>())
            }
        }
    }

    /// Returns whether kernels are planned for the GPU of this machine.
    pub(crate) fn wants_gpu(&self, lookups: &[Lookup]) -> bool {
        self.resolution.mode == Mode::Tune && cuda::is_wanted(&self.package.config, lookups)
    }

    /// Returns whether a session would improve a plan.
    pub(crate) fn wants_session(
        &self,
        lookups: &[Lookup],
        reports: &[OpReport],
        gpu: Option<GpuTarget>,
    ) -> bool {
        let lacks_code = |it: &OpReport| !it.missing_archs.is_empty();
        let reports = self.counted(reports);
        // The user waits for an error, and one of the two kernels is a mistake.
        self.resolution.mode == Mode::Tune
            && !self.package.has_clash
            && (reports.iter().any(wants_tuning)
                || self.wants_gpu(lookups) && (gpu.is_none() || reports.iter().any(lacks_code)))
    }

    /// Returns the reports of the ops that are in the sources as they are now.
    pub(crate) fn counted(&self, reports: &[OpReport]) -> Vec<OpReport> {
        let reports = self.package.ops.iter().zip(reports);
        reports.filter(|(op, _)| op.is_current()).map(|(_, report)| report.clone()).collect()
    }

    /// Writes the plan of each op, unless an earlier run wrote the same.
    pub(crate) fn plan(
        &self,
        lookups: &[Lookup],
        gpu: Option<GpuTarget>,
        compiler: Option<&Compiler>,
        emitter: Emitter,
    ) -> Result<Vec<OpReport>, BuildError> {
        let mut emitter = emitter.with_compiler(compiler.map(Compiler::version));
        let plan_target = PlanTarget { gpu, ..self.plan_target() };
        let (isas, archs) = self.required();
        let mut reports = Vec::new();
        for (op, lookup) in self.package.ops.iter().zip(lookups) {
            let mut targets = match self.resolution.mode {
                Mode::Off => Vec::new(),
                Mode::Use | Mode::Tune | Mode::Require => {
                    cuda::targets(&self.package.config, lookup, gpu)
                }
            };
            let is_planned = |arch| targets.iter().any(|it| it.arch == arch);
            let others: Vec<Arch> = archs.iter().copied().filter(|it| !is_planned(*it)).collect();
            targets.extend(others.into_iter().map(GpuTarget::generic));
            let cpu = plan::variant_specs(op, lookup, &plan_target);
            let cuda = cuda::variant_specs(op, lookup, &targets);
            let sources = Sources { known: &lookup.images, compiler };
            let mut digest = Digest::new(op, &cpu, &plan_target);
            cuda::add_to_digest(&mut digest, &cuda, lookup);
            isas.iter().for_each(|it| digest.add(it.name()));
            let (name, digest) = (op.plan_name(), digest.finish());
            let report = match emitter.reuse(&name, &digest) {
                Some(report) => report,
                None => match plan_op(op, &cpu, &cuda, &plan_target, &isas, &sources) {
                    Ok((text, includes, report)) => {
                        emitter.put(&name, digest, &text, &includes, &report)?;
                        report
                    }
                    // It has no plan; where it expands, the macro reports it.
                    Err(why) => OpReport::broken(op.name(), &why),
                },
            };
            reports.push(report);
        }
        emitter.finish()?;
        Ok(reports)
    }

    /// Returns the state of each op, by the name of its plan.
    pub(crate) fn states(&self, reports: &[OpReport]) -> BTreeMap<String, OpState> {
        let may_tune = self.resolution.mode == Mode::Tune;
        let state = |(op, report): (&Op, &OpReport)| {
            let state = OpState {
                status: report.status().to_string(),
                in_sources: op.origin == Origin::Sources,
                waits: may_tune && !op.is_current() && wants_tuning(report),
                refusal: require::refusal(report),
            };
            (op.plan_name(), state)
        };
        self.package.ops.iter().zip(reports).map(state).collect()
    }

    /// Leaves to the macro what it cannot know.
    pub(crate) fn hand_off(
        &self,
        reports: &[OpReport],
        wants_session: bool,
    ) -> Result<(), BuildError> {
        let plans = emit::folder(&self.script.out_dir);
        let mut handoff = Handoff::new(self.resolution.mode, self.script.program());
        handoff.unbound.clone_from(&self.package.unbound);
        handoff.wants_session = wants_session;
        // One whose name is no text is not handed over.
        let cache = self.cache().filter(|it| it.dir().to_str().is_some());
        handoff.cache = cache.map(|it| it.dir().to_owned());
        handoff.variables = self.script.handed_over();
        handoff.ops = self.states(reports);
        Ok(handoff.write(&plans)?)
    }

    /// Returns the package's folder in the user's cache; none for a package from elsewhere.
    fn cache(&self) -> Option<PackageCache> {
        let is_foreign = self.resolution.reason == Reason::ForeignSource;
        self.package.cache().filter(|_| !is_foreign)
    }

    /// Lets the next cargo command run the script again. Where the cache can't be written, that would
    /// find nothing new in it, and the session says so.
    pub(crate) fn plan_again(&self) {
        let _ = self.cache().map(|it| it.touch());
    }

    /// Returns the files and variables that the plans follow from.
    ///
    /// Records in the cache are not among them: sessions write those after the script ran. Their
    /// writers touch the stamp of the package where it has to plan anew.
    pub(crate) fn inputs(&self, lookups: &[Lookup]) -> Vec<Directive> {
        let package = &self.package;
        let mut files: Vec<PathBuf> = package.watched.iter().cloned().collect();
        let fixed = ["Cargo.toml", crate::config::FILE_NAME, "build.rs"];
        files.extend(fixed.map(|it| package.manifest_dir.join(it)));
        files.push(package.shipped());
        let records = lookups.iter().flat_map(|it| &it.records);
        let records = records.filter(|it| it.store != StoreKind::Cache);
        files.extend(records.map(|it| it.path.clone()));
        files.extend(lookups.iter().flat_map(|it| &it.images.paths).cloned());
        let warnings = lookups.iter().flat_map(|it| &it.warnings);
        files.extend(warnings.filter_map(|it| it.path().map(Path::to_owned)));
        if let Some(cache) = self.database.cache() {
            let folders: Vec<PathBuf> =
                std::iter::once(cache.records()).chain(cache.former_records()).collect();
            files.retain(|it| !folders.iter().any(|folder| it.starts_with(folder)));
        }
        if let Some(cache) = self.cache() {
            // Where the cache can't be written, nothing appears in it either.
            let _ = cache.create();
            files.push(cache.stamp());
        }
        files.retain(|it| it.exists());
        files.sort();
        files.dedup();
        let variables = DECLARED.map(Directive::RerunIfEnvChanged).into_iter();
        let files = files.into_iter().map(Directive::RerunIfChanged);
        let missing = package.missing.iter().cloned().map(Directive::RunAgain);
        variables.chain(files).chain(missing).collect()
    }
}

/// Returns whether a session tunes an op.
pub(crate) fn wants_tuning(report: &OpReport) -> bool {
    report.cpu.wants_tuning() || report.gpu.is_some_and(TuningStatus::wants_tuning)
}

/// Returns the status of the worst bucket. Each is judged by the worst of some instruction sets; if none
/// is named, by the best of any.
fn worst_bucket(statuses: &[(&[Interval], Isa, TuningStatus)], isas: &[Isa]) -> TuningStatus {
    let mut of_buckets: BTreeMap<Vec<(i64, i64)>, TuningStatus> = BTreeMap::new();
    for (bucket, isa, status) in statuses {
        let bucket = bucket.iter().map(|it| (it.lo, it.hi)).collect();
        let entry = of_buckets.entry(bucket);
        if isas.is_empty() {
            entry.and_modify(|it| *it = (*it).min(*status)).or_insert(*status);
        } else if isas.contains(isa) {
            entry.and_modify(|it| *it = (*it).max(*status)).or_insert(*status);
        }
    }
    of_buckets.into_values().max().unwrap_or(TuningStatus::Exact)
}

/// The text of a plan, the files that it includes, by name, and the report.
type Planned = (String, Vec<(String, Vec<u8>)>, OpReport);

/// Plans an op, and judges it by its code for some instruction sets; returns the text of the plan, the
/// files that it includes, by name, and the report.
///
/// # Errors
///
/// If the compiler panics.
fn plan_op(
    op: &Op,
    cpu: &[plan::VariantSpec<'_>],
    cuda: &[cuda::VariantSpec<'_>],
    plan_target: &PlanTarget,
    isas: &[Isa],
    sources: &Sources<'_>,
) -> Result<Planned, Panicked> {
    let plan = || plan_uncontained(op, cpu, cuda, plan_target, isas, sources);
    contained(op.name(), || op.text.clone(), plan)?
}

fn plan_uncontained(
    op: &Op,
    cpu: &[plan::VariantSpec<'_>],
    cuda: &[cuda::VariantSpec<'_>],
    plan_target: &PlanTarget,
    isas: &[Isa],
    sources: &Sources<'_>,
) -> Result<Planned, Panicked> {
    let limits = plan_target.limits;
    let (mut variants, mut statuses, mut seconds_left) = (Vec::new(), Vec::new(), 0.0);
    let (mut flawed, mut outdated) = (None, None);
    for spec in cpu {
        let variant = match plan::realize(op, spec, plan_target) {
            Ok(variant) => Some(variant),
            Err(NoCode::Unsupported(_)) => None,
            Err(NoCode::Panicked(why)) => return Err(why),
        };
        let status = variant.as_ref().map(|it| it.status(limits));
        statuses.push((spec.bucket, spec.isa, status.unwrap_or(TuningStatus::Portable)));
        if isas.is_empty() || isas.contains(&spec.isa) {
            outdated = outdated.or(variant.as_ref().and_then(|it| it.outdated));
        }
        if spec.isa == plan_target.isa() {
            let left = |it: &plan::Variant<'_>| it.effort(limits).seconds_left(limits);
            seconds_left += variant.as_ref().map_or(0.0, left);
        }
        flawed = flawed.or(variant.as_ref().and_then(|it| it.flawed));
        variants.extend(variant);
    }
    let cpu = worst_bucket(&statuses, isas);
    let planned = cuda::plan(op, cuda, plan_target, sources, &mut flawed);
    let text = plan::text(op, &variants, limits) + &planned.text;
    let [flawed, outdated] = [flawed, outdated].map(|it| it.map(Path::to_owned));
    let report = OpReport {
        name: op.name().to_owned(),
        cpu,
        gpu: planned.gpu,
        seconds_left: seconds_left + planned.seconds_left,
        flawed,
        outdated,
        missing_archs: planned.missing_archs,
        broken: None,
    };
    Ok((text, planned.includes, report))
}

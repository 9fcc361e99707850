//! One run of a build script, from cargo's variables to cargo's directives.
//!
//! In: a [`Script`]. Out: plans in `OUT_DIR`, and [`Directive`]s. Next: the macro expands.
//!
//! # Invariants
//!
//! - The same inputs give the same files and the same lines.
//! - A record that can't be used costs its kernel the record, and the user one line.
//! - While a kernel is left untuned that a later build may tune, the script runs at every build.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::mode::{self, Mode, Resolution};
use tvmtune_plan::database::{CacheUse, Database, DatabaseError, Lookup};
use tvmtune_plan::device;

use crate::config::Budget;
use crate::cuda::{self, Compiler, Sources};
use crate::emit::{self, Emitter};
use crate::error::Error;
use crate::op::Op;
use crate::package::{Package, workspace_of};
use crate::plan::{self, Digest, PlanTarget};
use crate::report::{self, OpReport, TuningStatus};
use crate::scan::Cfg;
use crate::script::{DECLARED, Directive, Script};
use crate::tune::{self, Tuning};

/// Plans the package of a build script; returns what to tell cargo, in order.
///
/// # Errors
///
/// If the configuration means nothing or `OUT_DIR` can't be written.
pub(crate) fn run(script: &Script) -> Result<Vec<Directive>, Error> {
    let started = SystemTime::now();
    let cfg = Cfg::from_variables(script.variables());
    let manifest_dir = &script.manifest_dir;
    let workspace = workspace_of(manifest_dir);
    let name = script.variable("CARGO_PKG_NAME").unwrap_or_default();
    let package = Package::load(name, manifest_dir, workspace.as_deref(), &cfg)?;

    let mut circumstances = script.circumstances();
    let here = device::detect().filter(|_| circumstances.host == circumstances.target);
    circumstances.device = here.is_some();
    let resolution = mode::resolve(&circumstances);

    let reproducible = resolution.mode == Mode::Require;
    let cache = if reproducible { CacheUse::Exclude } else { CacheUse::Include };
    let database = Database::discover(&package.search_dirs(cache));
    let mut lookups = look_up(&package.ops, &database, &resolution);
    // Other builds load no driver, and compile nothing.
    let wants_gpu = resolution.mode == Mode::Tune && cuda::is_wanted(&package.config, &lookups);
    let gpu = wants_gpu.then(tune::gpu);
    let plan_target = PlanTarget {
        device: here.filter(|_| !reproducible),
        gpu: gpu.as_ref().and_then(|it| it.as_ref().ok()).copied(),
        limits: tune::budget(script, &package).unwrap_or(Budget::BUILD).search_limits(),
    };
    let compiler = wants_gpu.then(Compiler::find).flatten();
    let planner =
        Planner { script, package: &package, plan_target, mode: resolution.mode, compiler };
    let mut reports = planner.plan(&lookups)?;
    let bad = bad_records(&lookups, &reports);
    let mut tuning = Tuning::default();
    if resolution.mode == Mode::Tune && reports.iter().any(wants_tuning) {
        tuning = tune::misses(script, &package, &lookups, &reports, &plan_target);
        lookups = look_up(&package.ops, &database, &resolution);
        reports = planner.plan(&lookups)?;
    }

    let plans = emit::folder(&script.out_dir);
    let mut directives = inputs(&package, &lookups, started);
    let is_open = |it: &OpReport| it.status().is_untuned() || it.status().is_unfinished();
    let waits = |it: &&OpReport| is_open(it) && !tuning.failed(&it.name);
    if resolution.may_tune_later() && reports.iter().any(|it| waits(&it)) {
        directives.push(Directive::RunAgain(plans.join("untuned")));
    }
    directives.push(Directive::Env("TVMTUNE_PLAN_DIR", plans));
    // New measurements have replaced records in the cache.
    let healed = bad_records(&lookups, &reports).is_none();
    let bad = bad.map(|it| if healed { format!("{it} (this build did)") } else { it });
    directives.extend(bad.map(Directive::Warning));
    directives.extend(tuning.warning().map(Directive::Warning));
    let is_native = package.config.targets.cuda.as_ref().is_some_and(|it| it.native);
    if let (true, Some(Err(why))) = (is_native, &gpu) {
        let what = format!("tvmtune: `native` in `tvmtune.toml` is no GPU here: {why}");
        directives.push(Directive::Warning(what));
    }
    let lacking = report::lacking(&reports);
    if reproducible {
        directives.extend(report::refusal(&reports).map(Directive::Error));
        directives.extend(lacking.map(Directive::Error));
    } else {
        let line = report::warning(&reports, &resolution, tuning.trouble());
        directives.extend(line.map(Directive::Warning));
        directives.extend(lacking.map(Directive::Warning));
    }
    Ok(directives)
}

/// Looks up each op in the database.
fn look_up(ops: &[Op], database: &Database, resolution: &Resolution) -> Vec<Lookup> {
    let get = |op: &Op| match resolution.mode {
        Mode::Off => Lookup::default(),
        Mode::Use | Mode::Tune | Mode::Require => {
            database.get(&op.id.to_string(), op.name(), &op.text)
        }
    };
    ops.iter().map(get).collect()
}

/// Returns whether a build that may measure does so for an op.
fn wants_tuning(report: &OpReport) -> bool {
    report.cpu.wants_tuning() || report.gpu.is_some_and(TuningStatus::wants_tuning)
}

/// The inputs that all plans of a run share.
struct Planner<'a> {
    script: &'a Script,
    package: &'a Package,
    plan_target: PlanTarget,
    mode: Mode,
    compiler: Option<Compiler>,
}

impl Planner<'_> {
    /// Writes the plan of each op, unless the last run wrote the same.
    fn plan(&self, lookups: &[Lookup]) -> Result<Vec<OpReport>, Error> {
        let mut emitter = Emitter::open(&self.script.out_dir)?;
        let mut reports = Vec::new();
        for (op, lookup) in self.package.ops.iter().zip(lookups) {
            let targets = match self.mode {
                Mode::Off => Vec::new(),
                _ => cuda::targets(&self.package.config, lookup, self.plan_target.gpu),
            };
            let cpu = plan::variant_specs(op, lookup, &self.plan_target);
            let cuda = cuda::variant_specs(op, lookup, &targets);
            let sources = Sources { known: &lookup.images, compiler: self.compiler.as_ref() };
            let mut digest = Digest::new(op, &cpu, &self.plan_target);
            cuda::add_to_digest(&mut digest, &cuda, lookup, sources.compiler);
            let (workload, digest) = (op.id.to_string(), digest.finish());
            let report = match emitter.reuse(&workload, &digest) {
                Some(report) => report,
                None => {
                    let (text, includes, report) =
                        plan_op(op, &cpu, &cuda, &self.plan_target, &sources);
                    emitter.put(&workload, digest, &text, &includes, &report)?;
                    report
                }
            };
            reports.push(report);
        }
        emitter.finish()?;
        Ok(reports)
    }
}

/// Plans an op; returns the text of the plan, the files that it includes, by name, and the report.
fn plan_op(
    op: &Op,
    cpu: &[plan::VariantSpec<'_>],
    cuda: &[cuda::VariantSpec<'_>],
    plan_target: &PlanTarget,
    sources: &Sources<'_>,
) -> (String, Vec<(String, Vec<u8>)>, OpReport) {
    let (mut variants, mut worst, mut flawed) = (Vec::new(), TuningStatus::Exact, None);
    let mut left = 0.0;
    for spec in cpu {
        let variant = plan::realize(op, spec, plan_target).ok();
        let status = variant.as_ref().map(|it| it.status(plan_target.limits));
        if spec.isa == plan_target.isa() {
            left += variant
                .as_ref()
                .map_or(0.0, |it| it.effort(plan_target.limits).seconds_left(plan_target.limits));
            worst = worst.max(status.unwrap_or(TuningStatus::Portable));
        }
        flawed = flawed.or(variant.as_ref().and_then(|it| it.flawed));
        variants.extend(variant);
    }
    let cuda::Planned { text, includes, gpu, seconds_left, missing_archs } =
        cuda::plan(op, cuda, plan_target, sources, &mut flawed);
    let text = plan::text(op, &variants, plan_target.limits) + &text;
    let flawed = flawed.map(Path::to_owned);
    let name = op.name().to_owned();
    let seconds_left = seconds_left + left;
    let report = OpReport { name, cpu: worst, gpu, seconds_left, flawed, missing_archs };
    (text, includes, report)
}

/// The files and variables that the plan follows from.
///
/// Cargo compares a file with the moment the script started, so records that this run wrote are
/// left out: they would make cargo run the script again for what it just did.
fn inputs(package: &Package, lookups: &[Lookup], started: SystemTime) -> Vec<Directive> {
    let mut files: Vec<PathBuf> = package.watched.iter().cloned().collect();
    let fixed = ["Cargo.toml", crate::config::FILE_NAME, "build.rs"];
    files.extend(fixed.map(|it| package.manifest_dir.join(it)));
    files.push(package.shipped());
    let is_older = |path: &Path| {
        fs::metadata(path).and_then(|it| it.modified()).is_ok_and(|modified| modified < started)
    };
    let records = lookups.iter().flat_map(|it| &it.records).map(|it| &it.path);
    files.extend(records.filter(|it| is_older(it)).cloned());
    let images = lookups.iter().flat_map(|it| &it.images.paths);
    files.extend(images.filter(|it| is_older(it)).cloned());
    files.extend(lookups.iter().flat_map(|it| &it.warnings).filter_map(path_of));
    files.retain(|it| it.exists());
    files.sort();
    files.dedup();
    let variables = DECLARED.map(Directive::RerunIfEnvChanged).into_iter();
    let files = files.into_iter().map(Directive::RerunIfChanged);
    variables.chain(files).chain(package.missing.iter().cloned().map(Directive::RunAgain)).collect()
}

fn path_of(error: &DatabaseError) -> Option<PathBuf> {
    match error {
        DatabaseError::Io { path, .. }
        | DatabaseError::Record { path, .. }
        | DatabaseError::Artifact { path, .. }
        | DatabaseError::Foreign { path, .. } => Some(path.clone()),
        DatabaseError::NoCache => None,
    }
}

/// One line for all files that should have been records, or hold schedules that do not apply.
fn bad_records(lookups: &[Lookup], reports: &[OpReport]) -> Option<String> {
    let flawed = |path: &PathBuf| {
        format!(
            "`{}` is used in part: a schedule in it does not apply; delete the file, or restore \
             it, and tune again",
            path.display()
        )
    };
    let unread = lookups.iter().flat_map(|it| &it.warnings).map(ToString::to_string);
    let mut warnings = unread.chain(reports.iter().filter_map(|it| it.flawed.as_ref()).map(flawed));
    let first = warnings.next()?;
    let more = match warnings.count() {
        0 => String::new(),
        n => format!(" (and {n} more)"),
    };
    Some(format!("tvmtune: {first}{more}"))
}

//! The three runs of a build script's program: to plan, to tune what was planned, and to plan one op
//! more.
//!
//! In: a [`Script`]. Out: plans in `OUT_DIR` and a [`Handoff`] beside them; to cargo [`Directive`]s,
//! to the macro lines for the user. Next: the macro expands.
//!
//! Cargo starts the first run, and cannot say if the plans will run. The macro starts the others:
//! a [`session`] when the compiler emits code and kernels wait to be tuned, [`plan_expanded`] for an
//! op that no source shows.
//!
//! # Invariants
//!
//! - The same inputs give the same files and the same lines.
//! - A record that can't be used costs its kernel the record, and the user one line.
//! - The first run measures nothing and loads no driver; it runs again only if an input changed.
//! - What one session leaves, the next cargo command goes on with.

use std::path::PathBuf;
use std::time::Duration;

use tvmtune_plan::database::Lookup;
use tvmtune_plan::handoff::{Handoff, OpSource};
use tvmtune_plan::printable::{one_line, shown};

use crate::build::{Build, BuildError, wants_tuning};
use crate::config::{Budget, Config};
use crate::cuda::Compiler;
use crate::emit::{self, Emitter};
use crate::mode::Mode;
use crate::op::{Op, Origin};
use crate::plan::PlanTarget;
use crate::report::{self, OpReport};
use crate::script::{Directive, Script};
use crate::tune::{self, Tuning};

/// Plans the package of a build script; returns what to tell cargo, in order.
///
/// # Errors
///
/// If the mode or the configuration means nothing, or `OUT_DIR` can't be written.
pub(crate) fn run(script: &Script) -> Result<Vec<Directive>, BuildError> {
    let build = Build::open(script)?;
    let lookups = build.look_up();
    let emitter = Emitter::open(&script.out_dir)?;
    let gpu = emitter.gpu().filter(|_| build.wants_gpu(&lookups));
    let reports = build.plan(&lookups, gpu, None, emitter)?;
    let wants_session = build.wants_session(&lookups, &reports, gpu);
    build.hand_off(&reports, wants_session)?;
    let mut directives = build.inputs(&lookups);
    directives.push(Directive::Env("TVMTUNE_PLAN_DIR", emit::folder(&script.out_dir)));
    if !wants_session {
        // Else the session says what it leaves.
        let lines = lines(&build, &lookups, &reports, &Tuning::default(), None);
        directives.extend(lines.into_iter().map(Directive::Warning));
    }
    Ok(directives)
}

/// Tunes the kernels that a session improves, and plans the package anew; returns lines for the user.
///
/// # Errors
///
/// As those of [`run`].
pub(crate) fn session(script: &Script) -> Result<Vec<String>, BuildError> {
    let build = Build::open(script)?;
    let mut lookups = build.look_up();
    let wants_gpu = build.wants_gpu(&lookups);
    let found = wants_gpu.then(tune::gpu);
    let gpu = found.as_ref().and_then(|it| it.as_ref().ok()).copied();
    let compiler = wants_gpu.then(Compiler::find).flatten();
    let plan = |lookups: &[Lookup]| {
        let mut emitter = Emitter::open(&script.out_dir)?;
        emitter.remember_gpu(gpu);
        build.plan(lookups, gpu, compiler.as_ref(), emitter)
    };
    let mut reports = plan(&lookups)?;
    let bad = bad_records(&lookups, &reports);
    let mut tuning = Tuning::default();
    if build.counted(&reports).iter().any(wants_tuning) {
        let plan_target = PlanTarget { gpu, ..build.plan_target() };
        tuning = tune::misses(script, &build.package, &lookups, &reports, &plan_target);
        lookups = build.look_up();
        reports = plan(&lookups)?;
    }
    build.hand_off(&reports, false)?;
    let waits = |it: &OpReport| wants_tuning(it) && !tuning.failed(&it.name);
    if build.counted(&reports).iter().any(waits) {
        build.plan_again();
    }
    let mut lines = lines(&build, &lookups, &reports, &tuning, bad);
    let is_native = build.package.config.targets.cuda.as_ref().is_some_and(|it| it.native);
    if let (true, Some(Err(why))) = (is_native, &found) {
        lines.push(format!("tvmtune: `native` in `tvmtune.toml` is no GPU here: {why}"));
    }
    Ok(lines.iter().map(|it| one_line(it)).collect())
}

/// Returns the time that a session of the package may take.
pub(crate) fn session_limit(script: &Script) -> Duration {
    let config = Config::read(&script.manifest_dir).unwrap_or_default();
    tune::budget(script, &config).unwrap_or(Budget::BUILD).total
}

/// Plans an op that no run of the script saw; the plans of others stay. Returns a line for the user if
/// a session would improve it.
///
/// # Errors
///
/// As those of [`run`].
pub(crate) fn plan_expanded(script: &Script, source: &OpSource) -> Result<Vec<String>, BuildError> {
    let mut build = Build::open(script)?;
    let Some(op) = Op::from_source(source, &script.manifest_dir) else { return Ok(Vec::new()) };
    build.package.ops = vec![Op { origin: Origin::Expansion, ..op }];
    let lookups = build.look_up();
    let mut emitter = Emitter::open(&script.out_dir)?;
    emitter.keep_others();
    let gpu = emitter.gpu().filter(|_| build.wants_gpu(&lookups));
    let reports = build.plan(&lookups, gpu, None, emitter)?;
    let plans = emit::folder(&script.out_dir);
    if let Some(mut handoff) = Handoff::read(&plans) {
        handoff.ops.extend(build.states(&reports));
        handoff.write(&plans)?;
    }
    let waits = build.resolution.mode == Mode::Tune && reports.iter().any(wants_tuning);
    if waits {
        build.plan_again();
    }
    let line = |it: &OpReport| {
        format!(
            "tvmtune: `{}` stands in no source that the build script reads: a macro wrote it, or \
             it is included, or behind a `cfg`; the next build tunes it",
            it.name
        )
    };
    Ok(reports.first().filter(|_| waits).map(line).into_iter().collect())
}

/// Returns the lines for the user, `bad` being that about records at the start.
fn lines(
    build: &Build<'_>,
    lookups: &[Lookup],
    reports: &[OpReport],
    tuning: &Tuning,
    bad: Option<String>,
) -> Vec<String> {
    let now = bad_records(lookups, reports);
    // New measurements have replaced records in the cache.
    let healed = || bad.filter(|_| now.is_none()).map(|it| format!("{it} (this build did)"));
    let mut lines: Vec<String> = now.clone().or_else(healed).into_iter().collect();
    lines.extend(tuning.warning());
    lines.extend(tuning.slower_records());
    lines.extend(tuning.waited());
    let reports = build.counted(reports);
    lines.extend(reports.iter().filter_map(|it| it.broken.clone()));
    // A clash is for the compiler to report.
    if build.resolution.mode != Mode::Require && !build.package.has_clash {
        lines.extend(report::warning(&reports, &build.resolution, tuning.trouble()));
        lines.extend(report::lacking(&reports));
    }
    lines
}

/// One line for all files that should have been records, or hold schedules that do not apply.
fn bad_records(lookups: &[Lookup], reports: &[OpReport]) -> Option<String> {
    let flawed = |path: &PathBuf| {
        format!(
            "`{}` is used in part: a schedule in it does not apply; delete the file, or restore \
             it, and tune again",
            shown(path)
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

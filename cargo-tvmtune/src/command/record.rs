//! `cargo tvmtune compile --record`: kernels for a GPU that need not be here, prepared to be shipped.

use anyhow::Result;
use tvmtune_build::cuda::{self, Compiler, Sources, Variant, VariantSpec};
use tvmtune_build::op::Op;
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_plan::database::{CacheUse, Choice, Database, Files, Images, Lookup};
use tvmtune_plan::record::{Entry, Record, Source, Tier};
use tvmtune_tuner::compile::{self, Nvrtc};
use tvmtune_tuner::parallel::on_all_cores;

use super::compile::{Compiled, choose};
use crate::cli::Compile;
use crate::output::{eprintln, println};
use crate::records::{self, PackageRecords};
use crate::render::count;
use crate::{Exit, workspace};

/// Compiles what a build would embed, by measured schedules, or by those that the model ranks first
/// if so many are asked for, or by default ones, and puts it into the user's cache.
pub(crate) fn run(arguments: &Compile) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let compiler = match Nvrtc::get() {
        Ok(_) => Compiler::find(),
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(Exit::NoDevice);
        }
    };
    let arch = arguments.target.arch;
    let (mut n_recorded, mut n_kept, mut n_failed) = (0, 0, 0);
    for package in &packages {
        let database = Database::discover(&package.search_dirs(CacheUse::Include));
        let records = PackageRecords::new(package, &database);
        let ops: Vec<(&Op, &Lookup)> = records.ops().collect();
        let targets = [GpuTarget::generic(arch)];
        let variant_specs: Vec<(&Op, &Lookup, VariantSpec<'_>)> = ops
            .iter()
            .flat_map(|(op, lookup)| {
                let specs = cuda::variant_specs(op, lookup, &targets);
                specs.into_iter().map(|spec| (*op, *lookup, spec))
            })
            .collect();
        let recorded = |(op, lookup, spec): &(&Op, &Lookup, VariantSpec<'_>)| {
            record(op, lookup, spec, compiler.as_ref(), arguments)
        };
        for result in on_all_cores(&variant_specs, recorded) {
            match result {
                Ok(None) => n_kept += 1,
                Ok(Some((record, files))) => {
                    database.put(&record, &files)?;
                    n_recorded += 1;
                }
                Err(why) => {
                    eprintln!("error: {why}");
                    n_failed += 1;
                }
            }
        }
        package.plan_again()?;
    }
    println!("{} recorded for {arch}", count(n_recorded, "schedule"));
    if n_kept > 0 {
        let kept = count(n_kept, "schedule");
        println!("{kept} kept: measured with code that another version of NVRTC made");
    }
    if n_failed > 0 {
        return Ok(Exit::Refused);
    }
    println!("`cargo tvmtune accept` moves them into the crate");
    Ok(Exit::Done)
}

/// Returns a record with the code of a variant spec, and its files; `None` if the code that was measured
/// is at hand, and this NVRTC makes other code. The error names the spec and the reason if there is no
/// code to record.
fn record(
    op: &Op,
    lookup: &Lookup,
    spec: &VariantSpec<'_>,
    compiler: Option<&Compiler>,
    arguments: &Compile,
) -> Result<Option<(Record, Files)>, String> {
    // Images that are known already are made again: this is also how damaged ones are mended.
    let sources = Sources { known: &Images::default(), compiler };
    let extents = records::extents(op, spec.bucket);
    let failed = |why: &str| format!("{} [{extents}] on {}: {why}", op.name(), spec.arch());
    let is_measured = spec.choices.iter().any(|it| it.entry.measured.is_some());
    let mut variant = match arguments.best.filter(|_| !is_measured) {
        Some(_) => ranked_first(op, spec, &sources, arguments),
        None => cuda::realize(op, spec, &sources, &mut None),
    }
    .map_err(|it| failed(&it))?;
    if is_recompiled(&variant) {
        return match has_measured_code(&variant, lookup) {
            true => Ok(None),
            false => Err(failed(
                "another version of NVRTC made the code that was measured; `cargo tvmtune tune` \
                 measures that of this one",
            )),
        };
    }
    let mut files = Files::default();
    let generated = &variant.generated;
    files.add_source(&generated.artifact, &generated.unit.source);
    for it in &mut variant.images {
        files.add(std::mem::take(&mut it.bytes));
    }
    let measured_on = variant.choice.map(|it| it.record.device.clone());
    let device = measured_on.unwrap_or_else(|| spec.target.key());
    let source = if arguments.best.is_some() { Source::Random } else { Source::Default };
    let entries = vec![entry(variant, spec.arch(), source)];
    let record = records::unmeasured(op, device, spec.bucket, entries);
    Ok(Some((record, files)))
}

/// Returns whether the source that was measured was compiled to other code.
fn is_recompiled(variant: &Variant<'_>) -> bool {
    let artifact = variant.generated.artifact;
    let is_same = |it: &Choice<'_>| it.entry.artifact == artifact && !it.entry.is_replayed();
    variant.stale && variant.choice.as_ref().is_some_and(is_same)
}

/// Returns whether a record has the code that was measured.
fn has_measured_code(variant: &Variant<'_>, lookup: &Lookup) -> bool {
    let images = lookup.images.of(variant.arch, &variant.generated.artifact);
    variant.choice.is_some_and(|it| it.entry.was_measured_by(images.iter().map(|it| &it.image)))
}

/// Compiles a variant spec by the schedule that the model ranks first.
fn ranked_first<'a>(
    op: &Op,
    spec: &VariantSpec<'a>,
    sources: &Sources<'_>,
    arguments: &Compile,
) -> Result<Variant<'a>, String> {
    let nvrtc = Nvrtc::get().map_err(|it| it.to_string())?;
    let compiler = compile::Compiler::new(nvrtc, None);
    let dag = op.dag.specialize(spec.bucket);
    let Compiled { schedule, generated, .. } = choose(op.name(), &dag, &compiler, arguments)?;
    let images = sources.images(op, spec.arch(), &generated)?;
    let (bucket, arch, tier) = (spec.bucket, spec.arch(), Tier::Default);
    Ok(Variant { bucket, arch, tier, stale: false, choice: None, schedule, generated, images })
}

/// Returns the entry of a variant: a measured one unchanged, with its images; any other one unmeasured,
/// with that source.
fn entry(variant: Variant<'_>, arch: Arch, source: Source) -> Entry {
    let images = variant.images.into_iter().map(|it| it.image).collect();
    let same = variant.choice.filter(|it| !variant.stale && it.tier != Tier::Transferred);
    if let Some(choice) = same {
        return Entry { images, ..choice.entry.clone() };
    }
    let source = variant.choice.map_or(source, |_| Source::Transfer);
    let artifact = variant.generated.artifact;
    let entry = Entry::unmeasured(arch.into(), artifact, source, &variant.schedule.trace);
    Entry { images, ..entry }
}

//! `cargo tvmtune predict`: schedules for kernels that were not tuned, by a value function, measuring nothing.

use std::path::Path;

use anyhow::{Result, bail};
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::plan::ISAS;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Platform, Target};
use tvmtune_plan::contain::contained;
use tvmtune_plan::database::{CacheUse, Database, Lookup, StoreKind, StoredRecord};
use tvmtune_plan::device;
use tvmtune_plan::printable::shown;
use tvmtune_plan::record::{Entry, Source};
use tvmtune_tuner::space::Space;
use tvmtune_tuner::value::{Features, ValueModel};

use crate::cli::Predict;
use crate::device_plan;
use crate::output::{eprintln, print, println};
use crate::prediction::Prediction;
use crate::records::{self, PackageRecords};
use crate::render::{Table, count};
use crate::{Exit, workspace};

pub(crate) fn run(arguments: &Predict) -> Result<Exit> {
    let Some(cpu) = device::detect() else {
        eprintln!("error: this machine runs no generated kernels; see `cargo tvmtune doctor`");
        return Ok(Exit::NoDevice);
    };
    let isas: Vec<Isa> = match arguments.variants.isa {
        Some(isa) => vec![isa],
        None => ISAS.to_vec(),
    };
    let (mut table, mut n_predicted) = (Table::new(["kernel", "extents", "isa", "chosen"]), 0);
    for package in &workspace::packages(&arguments.selection)? {
        let model = model(package, arguments.model.as_deref())?;
        for isa in isas.iter().filter(|it| !model.knows(&CpuTarget { isa: **it, ..cpu }.into())) {
            println!(
                "{}: the value function knows no device like this one; analysis chooses",
                isa.name()
            );
        }
        n_predicted += predict(package, &model, cpu, &isas, arguments, &mut table)?;
        package.plan_again()?;
    }
    print!("{table}");
    println!("{} chosen against analysis", count(n_predicted, "schedule"));
    if n_predicted > 0 {
        println!("`cargo tvmtune accept` moves them into the crate");
    }
    Ok(Exit::Done)
}

/// Reads the value function of a package, or of a file.
fn model(package: &Package, named: Option<&Path>) -> Result<ValueModel> {
    let shipped = package.shipped().join(ValueModel::FILE_NAME);
    let path = named.unwrap_or(&shipped);
    if named.is_none() && !path.exists() {
        bail!(
            "package `{}` has no value function, `{}`; `cargo tvmtune train` makes one",
            package.name,
            shown(path)
        );
    }
    Ok(ValueModel::load(path)?)
}

/// Records what a value function chooses for the kernels of a package that nobody measured, in place of
/// earlier predictions; returns how many schedules differ from the default ones.
fn predict(
    package: &Package,
    model: &ValueModel,
    cpu: CpuTarget,
    isas: &[Isa],
    arguments: &Predict,
    table: &mut Table,
) -> Result<usize> {
    let database = Database::discover(&package.search_dirs(CacheUse::Include));
    let records = PackageRecords::new(package, &database);
    let mut n_predicted = 0;
    for (op, lookup) in records.ops() {
        let variants = device_plan::variants(op, lookup, Target::Cpu(cpu), isas, records.limits());
        let extents = &arguments.variants.bucket;
        let asked = variants.iter().filter(|it| records::contains(op, it.bucket, extents));
        for it in asked.filter(|it| it.status.is_miss()) {
            let isa = isas.iter().copied().find(|isa| it.platform == (*isa).into());
            let Some(target) = isa.map(|isa| CpuTarget { isa, ..cpu }) else { continue };
            let prediction = match model.knows(&target.into()) {
                true => prediction(op, it.bucket, target, model)?,
                false => None,
            };
            table.row([
                op.name().to_owned(),
                records::extents(op, it.bucket),
                target.isa.name().to_owned(),
                prediction.as_ref().map_or("default".to_owned(), |it| format!("{:.2}x", it.gain)),
            ]);
            n_predicted += usize::from(prediction.is_some());
            keep(&database, op, lookup, (it.bucket, target), prediction)?;
        }
    }
    Ok(n_predicted)
}

/// Returns the choice for a bucket; `None` if the default schedule is kept.
fn prediction(
    op: &Op,
    bucket: &[Interval],
    target: CpuTarget,
    model: &ValueModel,
) -> Result<Option<Prediction>> {
    let choose = || {
        let (dag, device) = (op.dag.specialize(bucket), Target::from(target));
        let space = Space::new(&dag, &device);
        Prediction::new(&model.function, model.policy, &Features::new(&dag, &device, &space))
    };
    Ok(contained(op.name(), || op.text.clone(), choose)?)
}

/// Puts a prediction into the cache, in place of an earlier one for the bucket, which goes also if the default
/// schedule is kept. One that the crate ships stays, and is named.
fn keep(
    database: &Database,
    op: &Op,
    lookup: &Lookup,
    (ranges, target): (&[Interval], CpuTarget),
    prediction: Option<Prediction>,
) -> Result<()> {
    let platform = Platform::from(target.isa);
    let is_earlier = |it: &Entry| it.platform == platform && it.is_prediction();
    let has_earlier = |it: &&StoredRecord| {
        let bucket = it.record.bucket(ranges);
        bucket.is_some_and(|it| it.schedules.iter().any(is_earlier))
    };
    let earlier = |kind| lookup.records.iter().filter(has_earlier).find(|it| it.store == kind);
    if prediction.is_none()
        && let Some(shipped) = earlier(StoreKind::Crate)
    {
        eprintln!(
            "warning: `{}` ships an earlier prediction for {}; delete that schedule to go back to analysis",
            shown(&shipped.path),
            op.name()
        );
    }
    if prediction.is_none() && earlier(StoreKind::Cache).is_none() {
        return Ok(());
    }
    let entry = prediction
        .map(|it| Entry::unmeasured(platform, it.generated.artifact, Source::Predicted, &it.trace));
    // Records of a CPU are those of its best instruction set, whatever their code is for.
    let device = device::detect().unwrap_or(target).key();
    let mut fresh = records::unmeasured(op, device, ranges, Vec::new());
    fresh.provenance.peaks = database.cache().and_then(|it| it.peaks(&fresh.device));
    database.update(&fresh, |stored| {
        let bucket = stored.bucket_mut(ranges);
        bucket.schedules.retain(|it| !is_earlier(it));
        entry.into_iter().for_each(|it| bucket.add(it));
    })?;
    Ok(())
}

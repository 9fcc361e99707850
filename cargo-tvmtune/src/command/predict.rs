//! `cargo tvmtune predict`: schedules for kernels that were not tuned, by a value function, measuring nothing.

use std::path::Path;

use anyhow::{Result, bail};
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::plan::ISAS;
use tvmtune_build::tune::session::provenance;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_plan::contain::contained;
use tvmtune_plan::database::{CacheUse, Database, Files};
use tvmtune_plan::device;
use tvmtune_plan::printable::shown;
use tvmtune_plan::record::{Bucket, End, Entry, GENERATOR, Record, Source, schema};
use tvmtune_schedule::Schedule;
use tvmtune_tuner::parallel::n_cores;
use tvmtune_tuner::space::Space;
use tvmtune_tuner::value::{Features, ValueModel};

use crate::cli::Predict;
use crate::device_plan;
use crate::output::{eprintln, print, println};
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

/// Records what a value function chooses for the kernels of a package that nobody measured; returns how many
/// schedules differ from the default ones.
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
            let entry = match model.knows(&target.into()) {
                true => entry(op, it.bucket, target, model)?,
                false => None,
            };
            let chosen = entry.as_ref().map_or("default".to_owned(), |it| format!("{:.2}x", it.1));
            table.row([
                op.name().to_owned(),
                records::extents(op, it.bucket),
                target.isa.name().to_owned(),
                chosen,
            ]);
            if let Some((entry, _)) = entry {
                database.put(&record(op, it.bucket, cpu, entry), &Files::default())?;
                n_predicted += 1;
            }
        }
    }
    Ok(n_predicted)
}

/// Returns the chosen schedule with its predicted gain; `None` if the default one is chosen.
fn entry(
    op: &Op,
    bucket: &[Interval],
    target: CpuTarget,
    model: &ValueModel,
) -> Result<Option<(Entry, f64)>> {
    let choose = || {
        let (dag, device) = (op.dag.specialize(bucket), Target::from(target));
        let space = Space::new(&dag, &device);
        let features = Features::new(&dag, &device, &space);
        let chosen = model.policy.choose(&model.function, &features, n_cores())?;
        let trace = space.instructions(&chosen.point);
        let schedule = Schedule::replay(&dag, &trace).ok().filter(|_| chosen.gain > 1.0)?;
        let generated = tvmtune_cpu::generate(&schedule, target.isa).ok()?;
        let entry = Entry {
            platform: target.isa.into(),
            artifact: generated.artifact,
            measured_code: None,
            source: Source::Predicted,
            trace: trace.iter().map(ToString::to_string).collect(),
            measured: None,
            lineage: Vec::new(),
            images: Vec::new(),
        };
        Some((entry, chosen.gain))
    };
    Ok(contained(op.name(), || op.text.clone(), choose)?)
}

fn record(op: &Op, bucket: &[Interval], cpu: CpuTarget, entry: Entry) -> Record {
    let device = Target::from(cpu).key();
    let buckets =
        vec![Bucket { dims: bucket.to_vec(), schedules: vec![entry], ..Bucket::default() }];
    Record {
        schema: schema(&device),
        workload: op.id,
        name: ProgramName::of(op.name()),
        device,
        generator: GENERATOR,
        dag: op.text.clone(),
        provenance: provenance(),
        buckets,
        end: End {},
    }
}

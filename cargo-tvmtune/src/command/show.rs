//! `cargo tvmtune show NAME`: a kernel's program, schedules and code.

use anyhow::Result;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, NoCode, PlanTarget, VariantSpec};
use tvmtune_ir::poly::Interval;
use tvmtune_plan::database::{CacheUse, Choice, ImageFile, Lookup};
use tvmtune_plan::device;
use tvmtune_plan::record::SearchLimits;
use tvmtune_schedule::Schedule;

use crate::cli::{Selection, Show};
use crate::output::{print, println};
use crate::records::{self, PackageRecords};
use crate::render::{Table, count, latency, took};
use crate::{Exit, workspace};
use tvmtune_plan::printable::shown;

pub(crate) fn run(arguments: &Show) -> Result<Exit> {
    let selection = Selection {
        package: arguments.package.clone(),
        kernel: Some(arguments.name.clone()),
        manifest_path: arguments.manifest_path.clone(),
        features: arguments.features.clone(),
    };
    for package in &workspace::packages(&selection)? {
        let records = PackageRecords::discover(package, CacheUse::Include);
        let (gpu, limits) = (records.gpu(), records.limits());
        let plan_target = PlanTarget { device: device::detect(), gpu, limits };
        for (op, lookup) in records.ops() {
            println!("{} in {}\nworkload {}\n", op.name(), op.file.display(), op.id);
            println!("{}", op.text.trim_end());
            let variant_specs = plan::variant_specs(op, lookup, &plan_target);
            let isa = arguments.variants.isa.unwrap_or(plan_target.isa());
            let is_shown = |it: &[Interval]| records::contains(op, it, &arguments.variants.bucket);
            let of_isa = variant_specs.iter().filter(|it| it.isa == isa && is_shown(it.bucket));
            for spec in of_isa {
                show(op, spec, &plan_target);
            }
            let targets = cuda::targets(&package.config, lookup, plan_target.gpu);
            let variant_specs = cuda::variant_specs(op, lookup, &targets);
            for spec in variant_specs.iter().filter(|it| is_shown(it.bucket)) {
                show_cuda(op, spec, lookup, limits);
            }
        }
    }
    Ok(Exit::Done)
}

fn show(op: &Op, spec: &VariantSpec<'_>, plan_target: &PlanTarget) {
    let (status, variant) = records::realize(op, spec, plan_target);
    let isa = spec.isa.name();
    println!("\n== {} on {isa}: {status}", records::extents(op, spec.bucket));
    let variant = match variant {
        Ok(variant) => variant,
        Err(NoCode::Unsupported(_)) => {
            println!("no machine code can be generated; it runs as portable Rust");
            return;
        }
        Err(NoCode::Panicked(why)) => {
            println!("error: {why}");
            return;
        }
    };
    if let Some(choice) = spec.choices.first() {
        let bucket = choice.record.bucket(spec.bucket);
        let (trials, seconds) = bucket.map_or((0, 0.0), |it| (it.trials, it.seconds));
        let spent = took(std::time::Duration::from_secs_f64(seconds.max(0.0)));
        println!("{} in {spent}, on {}", count(trials as usize, "trial"), choice.record.device);
        println!("{}", shown(choice.path));
    }
    print_schedule(&spec.choices, variant.choice.as_ref(), &variant.schedule);
    println!("\n{}", variant.generated.nest.to_string().trim_end());
}

fn show_cuda(op: &Op, spec: &cuda::VariantSpec<'_>, lookup: &Lookup, limits: SearchLimits) {
    let title = format!("{} on {}", records::extents(op, spec.bucket), spec.arch());
    let Some(variant) = records::realize_cuda(op, spec, lookup) else {
        println!("\n== {title}: no code; `cargo tvmtune compile --record` makes some");
        return;
    };
    println!("\n== {title}: {}", variant.status(limits));
    for ImageFile { image, .. } in &variant.images {
        let (kind, kib) = (image.format.extension(), image.bytes.div_ceil(1024));
        println!("{kind} for {}, {kib} KiB", image.arch);
    }
    print_schedule(&spec.choices, variant.choice.as_ref(), &variant.schedule);
    println!("\n{}", variant.generated.unit.source.trim_end());
}

/// Prints the known schedules, and of the one in use its lineage and trace.
fn print_schedule(choices: &[Choice<'_>], choice: Option<&Choice<'_>>, schedule: &Schedule) {
    print!("{}", schedules(choices));
    print_lineage(choice);
    println!("\ntrace");
    for instruction in &schedule.trace {
        println!("  {instruction}");
    }
}

/// Prints the lineage of the schedule in use.
fn print_lineage(choice: Option<&Choice<'_>>) {
    let Some(entry) = choice.map(|it| it.entry).filter(|it| !it.lineage.is_empty()) else { return };
    println!("\nderived from");
    for ancestor in &entry.lineage {
        let mut line = format!("{}, {}", ancestor.source, latency(ancestor.median_ns));
        if let Some(workload) = &ancestor.workload {
            line += &format!(", of workload {}", workload.0.short());
        }
        if let Some(device) = &ancestor.device {
            line += &format!(", on {device}");
        }
        println!("  {line}");
        for it in &ancestor.moves {
            println!("    {it}");
        }
    }
}

fn schedules(choices: &[Choice<'_>]) -> Table {
    let mut table = Table::new(["", "tier", "latency", "p10 to p90", "found by"]);
    for (n, choice) in choices.iter().enumerate() {
        let measured = choice.entry.measured.as_ref();
        let dash = || "-".to_owned();
        table.row([
            format!("{}", n + 1),
            choice.tier.to_string(),
            measured.map_or_else(dash, |it| latency(it.median_ns)),
            measured.map_or_else(dash, |it| {
                format!("{} to {}", latency(it.p10_ns), latency(it.p90_ns))
            }),
            choice.entry.source.to_string(),
        ]);
    }
    table
}

//! `cargo tvmtune check`: checks that shipped records are complete. Needs no device.

use anyhow::Result;
use tvmtune_build::config::Budget;
use tvmtune_build::cuda;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, ISAS, PlanTarget};
use tvmtune_build::report::TuningStatus;
use tvmtune_ir::target::{GpuTarget, Isa, Platform};
use tvmtune_plan::database::{CacheUse, Files, Lookup, StoreKind};

use crate::cli::Check;
use crate::output::println;
use crate::records::{self, PackageRecords};
use crate::render::count;
use crate::{Exit, workspace};

pub(crate) fn run(arguments: &Check) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let plan_target =
        PlanTarget { device: None, gpu: None, limits: Budget::COMMAND.search_limits() };
    let (mut misses, mut n_kernels) = (Vec::new(), 0);
    for package in &packages {
        let required = match arguments.require.as_slice() {
            [] => &package.config.policy.require,
            given => given,
        };
        let records = PackageRecords::discover(package, CacheUse::Exclude);
        for (op, lookup) in records.ops() {
            n_kernels += 1;
            let isa = |it: &Platform| match it {
                Platform::Cpu(isa) => Some(*isa),
                Platform::Cuda(_) => None,
            };
            let isas: Vec<Isa> = required.iter().filter_map(isa).collect();
            if required.is_empty() || !isas.is_empty() {
                misses.extend(missing(op, lookup, &isas, &plan_target));
            }
            let mut targets = cuda::targets(&package.config, lookup, None);
            let target = |it: &Platform| match it {
                Platform::Cpu(_) => None,
                Platform::Cuda(arch) => Some(GpuTarget::generic(*arch)),
            };
            targets.extend(required.iter().filter_map(target));
            targets.sort_unstable_by_key(|it| it.arch);
            targets.dedup();
            misses.extend(missing_code(op, lookup, &targets));
            misses.extend(damaged(lookup));
        }
    }
    let kernels = count(n_kernels, "kernel");
    if misses.is_empty() {
        println!("{kernels}: everything required is there");
        return Ok(Exit::Done);
    }
    for miss in &misses {
        println!("{miss}");
    }
    println!("\n{kernels}: {} missing", count(misses.len(), "record"));
    println!("run `cargo tvmtune tune` and `cargo tvmtune accept`, and commit `tvmtune/`");
    Ok(Exit::Refused)
}

/// Returns a line for each bucket without compiled code for each of these architectures.
fn missing_code(op: &Op, lookup: &Lookup, targets: &[GpuTarget]) -> Vec<String> {
    let variant_specs = cuda::variant_specs(op, lookup, targets);
    let lacking = variant_specs.iter().filter(|it| records::realize_cuda(op, it, lookup).is_none());
    let line = |it: &cuda::VariantSpec<'_>| {
        format!("{} [{}]: {}: no code", op.name(), records::extents(op, it.bucket), it.arch())
    };
    lacking.map(line).collect()
}

/// Returns a line for each file of the crate that is not what its record says.
fn damaged(lookup: &Lookup) -> Vec<String> {
    let shipped = lookup.records.iter().filter(|it| it.store == StoreKind::Crate);
    let warnings = shipped.flat_map(|it| Files::beside(&it.path, &it.record).1);
    warnings.map(|it| it.to_string()).collect()
}

/// Returns a line for each bucket without a valid record of each required instruction set; of any one, if
/// none is required by name.
fn missing(op: &Op, lookup: &Lookup, required: &[Isa], plan_target: &PlanTarget) -> Vec<String> {
    let variant_specs = plan::variant_specs(op, lookup, plan_target);
    let mut misses = Vec::new();
    for bucket in &op.buckets {
        let status = |isa: Isa| {
            let spec = variant_specs.iter().find(|it| it.isa == isa && it.bucket == *bucket);
            spec.map_or(TuningStatus::Default, |it| records::realize(op, it, plan_target).0)
        };
        let title = || format!("{} [{}]", op.name(), records::extents(op, bucket));
        let bad = required.iter().map(|it| (it.name(), status(*it)));
        let bad: Vec<_> = match required {
            [] => ISAS.map(status).into_iter().min().map(|it| ("any", it)).into_iter().collect(),
            _ => bad.collect(),
        };
        let bad = bad.into_iter().filter(|(_, it)| it.is_miss() || *it == TuningStatus::Replayed);
        misses.extend(bad.map(|(isa, it)| format!("{}: {isa}: {it}", title())));
    }
    misses
}

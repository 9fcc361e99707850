//! `cargo tvmtune check`: whether what the crate ships is complete. Needs no device.

use anstream::println;
use anyhow::Result;
use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, Aim, ISAS};
use tvmtune_build::report::Standing;
use tvmtune_core::kernel::Isa;
use tvmtune_tuner::database::{Database, Lookup};

use crate::Exit;
use crate::cli::Check;
use crate::known::{self, Known};
use crate::render::count;
use crate::workspace;

pub(crate) fn run(arguments: &Check) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let aim = Aim { device: None };
    let (mut misses, mut n_kernels) = (Vec::new(), 0);
    for package in &packages {
        let required = match arguments.require.as_slice() {
            [] => &package.config.policy.require,
            given => given,
        };
        let known = Known::new(package, &Database::discover(&package.places(true)));
        for (op, lookup) in known.ops() {
            n_kernels += 1;
            misses.extend(missing(op, lookup, required, &aim));
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

/// A line for each bucket without a valid record of each required instruction set; of any one, if
/// none is required by name.
fn missing(op: &Op, lookup: &Lookup, required: &[Isa], aim: &Aim) -> Vec<String> {
    let slots = plan::slots(op, lookup, aim);
    let mut misses = Vec::new();
    for bucket in &op.buckets {
        let standing = |isa: Isa| {
            let slot = slots.iter().find(|it| it.isa == isa && it.bucket == *bucket);
            slot.map_or(Standing::Default, |it| known::realize(op, it, aim).0)
        };
        let place = || format!("{} [{}]", op.name(), known::extents(op, bucket));
        let bad = required.iter().map(|it| (it.name(), standing(*it)));
        let bad: Vec<_> = match required {
            [] => ISAS.map(standing).into_iter().min().map(|it| ("any", it)).into_iter().collect(),
            _ => bad.collect(),
        };
        let bad = bad.into_iter().filter(|(_, it)| it.is_miss());
        misses.extend(bad.map(|(isa, it)| format!("{}: {isa}: {it}", place())));
    }
    misses
}

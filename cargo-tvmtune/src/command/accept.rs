//! `cargo tvmtune accept`: from the user's cache into the crate.

use anyhow::Result;
use tvmtune_build::package::Package;
use tvmtune_plan::database::{CacheUse, Database, Files, StoreKind};
use tvmtune_plan::printable::shown;
use tvmtune_plan::read::{self, limit};

use crate::cli::Accept;
use crate::output::{eprintln, println};
use crate::records::PackageRecords;
use crate::render::count;
use crate::{Exit, workspace};

pub(crate) fn run(arguments: &Accept) -> Result<Exit> {
    let mut n_accepted = 0;
    for package in &workspace::packages(&arguments.selection)? {
        n_accepted += accept(package, arguments.best)?;
    }
    match n_accepted {
        0 => println!("nothing new in your cache; run `cargo tvmtune tune` to measure"),
        n => println!("{} changed; review with `git diff`, and commit", count(n, "record")),
    }
    Ok(Exit::Done)
}

/// Copies the best `n_kept` schedules of a package's kernels from the cache; returns the number of
/// changed files.
fn accept(package: &Package, n_kept: usize) -> Result<usize> {
    let records = PackageRecords::discover(package, CacheUse::Include);
    let mut n_changed = 0;
    for (_, lookup) in records.ops() {
        for stored in lookup.records.iter().filter(|it| it.store == StoreKind::Cache) {
            let shipped = lookup.records.iter().find(|it| {
                it.store == StoreKind::Crate && it.record.device == stored.record.device
            });
            let before = shipped.map(|it| it.record.to_toml());
            let (files, warnings) = Files::beside(&stored.path, &stored.record);
            warnings.iter().for_each(|it| eprintln!("warning: {it}"));
            let path = Database::accept(&package.shipped(), &stored.record, &files, n_kept)?;
            let after = read::text(&path, limit::RECORD)?;
            if before.as_ref() != Some(&after) {
                println!("{}", shown(&path));
                n_changed += 1;
            }
        }
    }
    if n_changed > 0 {
        // Cargo does not track a folder that did not exist at the last build.
        if let Err(error) = package.plan_again() {
            eprintln!("warning: {error}; `touch build.rs` lets the next build use what is new");
        }
    }
    Ok(n_changed)
}

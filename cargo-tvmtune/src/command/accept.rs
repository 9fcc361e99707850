//! `cargo tvmtune accept`: from the user's cache into the crate.

use anyhow::Result;
use tvmtune_build::package::Package;
use tvmtune_plan::database::{CacheUse, Database, DatabaseError, Files, StoreKind};
use tvmtune_plan::printable::shown;
use tvmtune_plan::read::{self, limit};
use tvmtune_plan::record::accuracy::Errors;
use tvmtune_plan::record::{Class, Record};

use crate::cli::Accept;
use crate::output::{eprintln, println};
use crate::records::PackageRecords;
use crate::render::count;
use crate::{Exit, workspace};

/// The number of files that changed, and of those that did not although their records differ.
#[derive(Default)]
struct Outcome {
    changed: usize,
    refused: usize,
}

pub(crate) fn run(arguments: &Accept) -> Result<Exit> {
    let mut all = Outcome::default();
    for package in &workspace::packages(&arguments.selection)? {
        let Outcome { changed, refused } = accept(package, arguments)?;
        all.changed += changed;
        all.refused += refused;
    }
    match all.changed {
        0 if all.refused > 0 => {}
        0 => println!("nothing new in your cache; run `cargo tvmtune tune` to measure"),
        n => println!("{} changed; review with `git diff`, and commit", count(n, "record")),
    }
    Ok(if all.refused == 0 { Exit::Done } else { Exit::Refused })
}

/// Copies the best schedules of a package's kernels from the cache.
fn accept(package: &Package, arguments: &Accept) -> Result<Outcome> {
    let accept = match arguments.less_accurate {
        true => Database::accept_less_accurate,
        false => Database::accept,
    };
    let records = PackageRecords::discover(package, CacheUse::Include);
    let mut outcome = Outcome::default();
    for (_, lookup) in records.ops() {
        for stored in lookup.records.iter().filter(|it| it.store == StoreKind::Cache) {
            let shipped = lookup.records.iter().find(|it| {
                it.store == StoreKind::Crate && it.record.device == stored.record.device
            });
            let before = shipped.map(|it| it.record.to_toml());
            let (files, warnings) = Files::beside(&stored.path, &stored.record);
            warnings.iter().for_each(|it| eprintln!("warning: {it}"));
            match accept(&package.shipped(), &stored.record, &files, arguments.best) {
                Ok(path) => {
                    let after = read::text(&path, limit::RECORD)?;
                    if before.as_ref() != Some(&after) {
                        println!("{}{}", shown(&path), errors(&stored.record));
                        outcome.changed += 1;
                    }
                }
                Err(error @ DatabaseError::LessAccurate { .. }) => {
                    eprintln!("error: {error}");
                    outcome.refused += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    if outcome.changed > 0 {
        // Cargo does not track a folder that did not exist at the last build.
        if let Err(error) = package.plan_again() {
            eprintln!("warning: {error}; `touch build.rs` lets the next build use what is new");
        }
    }
    Ok(outcome)
}

/// Formats the largest errors of the best schedules of a record; empty if they were not measured.
fn errors(record: &Record) -> String {
    let best = record.buckets.iter().filter_map(|it| it.schedules.first());
    let worst = best.filter_map(|it| it.accuracy.as_ref()?.worst());
    let worst = worst.max_by(|(_, a), (_, b)| a.by_severity(b));
    let text = |(class, errors): (Class, Errors)| {
        format!(": errors of {errors} roundings on {class} numbers at most")
    };
    worst.map_or_else(String::new, text)
}

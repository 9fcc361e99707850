//! `cargo tvmtune migrate`: records of earlier releases get the identities of this one.

use anstream::println;
use anyhow::Result;
use tvmtune_plan::database::{CacheUse, Database};
use tvmtune_plan::migrate::{Migrated, migrate};

use crate::cli::Migrate;
use crate::records::PackageRecords;
use crate::render::count;
use crate::{Exit, workspace};

pub(crate) fn run(arguments: &Migrate) -> Result<Exit> {
    let (mut n_records, mut total) = (0, Migrated::default());
    for package in &workspace::packages(&arguments.selection)? {
        let cache = if arguments.shipped { CacheUse::Exclude } else { CacheUse::Include };
        let database = Database::discover(&package.search_dirs(cache));
        for (op, lookup) in PackageRecords::new(package, &database).ops() {
            for found in &lookup.records {
                let mut migrated = None;
                database.rewrite(&found.path, |record| {
                    migrated = migrate(record, &op.dag);
                    migrated.is_some()
                })?;
                let Some(Migrated { carried, stale }) = migrated else { continue };
                n_records += 1;
                total.carried += carried;
                total.stale += stale;
                if stale > 0 {
                    println!("{}: {} stale", found.path.display(), count(stale, "schedule"));
                }
            }
        }
        package.plan_again()?;
    }
    let (records, carried) = (count(n_records, "record"), count(total.carried, "schedule"));
    println!("{records}: {carried} carried over, {} stale", total.stale);
    if total.stale > 0 {
        println!("run `cargo tvmtune tune --again` to measure stale schedules anew");
    }
    Ok(Exit::Done)
}

//! `cargo tvmtune gc`: shipped records whose kernel no longer exists, and compiled code of no record.

use std::path::PathBuf;

use anstream::println;
use anyhow::{Context, Result};
use tvmtune_build::package::Package;
use tvmtune_plan::database::{Database, Store, StoreKind};

use crate::cli::Gc;
use crate::render::count;
use crate::{Exit, workspace};

pub(crate) fn run(arguments: &Gc) -> Result<Exit> {
    let packages = workspace::packages_of_any_features(&arguments.selection)?;
    let orphans: Vec<PathBuf> = packages.iter().flat_map(orphans).collect();
    for path in &orphans {
        println!("{}", path.display());
        if arguments.apply {
            remove(path)?;
        }
    }
    let (records, files): (Vec<_>, Vec<_>) =
        orphans.iter().partition(|it| it.extension().is_some_and(|it| it == "toml"));
    let mut found = count(records.len(), "record");
    if !files.is_empty() {
        found += &format!(" and {} of compiled code", count(files.len(), "file"));
    }
    match (orphans.len(), arguments.apply) {
        (0, _) => println!("every record belongs to a kernel"),
        (_, true) => println!("{found} removed"),
        (_, false) => println!("{found} of no kernel; `cargo tvmtune gc --apply` removes them"),
    }
    Ok(Exit::Done)
}

/// Files that are of no kernel, or of no use.
fn orphans(package: &Package) -> Vec<PathBuf> {
    let store = Store { kind: StoreKind::Crate, dir: package.shipped() };
    let is_known = |workload: &str| package.ops.iter().any(|it| it.id.to_string() == workload);
    let database = Database::new(vec![store], None);
    let files = database.list().into_iter();
    let orphan =
        |(_, path, record): (StoreKind, PathBuf, Result<tvmtune_plan::record::Record, _>)| {
            match record {
                Ok(record) if is_known(&record.workload) => None,
                Ok(_) | Err(_) => Some(path),
            }
        };
    let compiled = database.orphans(&|it| is_known(&it.workload));
    files.filter_map(orphan).chain(compiled).collect()
}

/// Removes a file, and its folder if that was the last one in it.
fn remove(path: &PathBuf) -> Result<()> {
    std::fs::remove_file(path).with_context(|| format!("cannot remove `{}`", path.display()))?;
    if let Some(folder) = path.parent() {
        // Fails where others are left, which is as it should be.
        let _ = std::fs::remove_dir(folder);
    }
    Ok(())
}

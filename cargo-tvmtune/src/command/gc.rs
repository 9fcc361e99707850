//! `cargo tvmtune gc`: shipped records whose kernel no longer exists, compiled code of no record, and
//! what the user's cache has of packages that are gone, of schedules that no record names, and of
//! writers that were killed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::{Context, Result};
use tvmtune_build::package::Package;
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::workload::WorkloadId;
use tvmtune_plan::database::{
    Cache, CacheUse, Database, Lock, PATIENCE, SearchDirs, Store, StoreKind,
};
use tvmtune_plan::printable::shown;
use tvmtune_tuner::measure::KeptCode;

use crate::cli::Gc;
use crate::output::println;
use crate::render::count;
use crate::{Exit, workspace};

pub(crate) fn run(arguments: &Gc) -> Result<Exit> {
    let packages = workspace::packages_of_any_features(&arguments.selection)?;
    shipped(&packages, arguments.apply)?;
    if let Some(cache) = Cache::discover() {
        cached(&cache, &packages, arguments.apply)?;
    }
    Ok(Exit::Done)
}

/// Lists or removes what packages ship in vain.
fn shipped(packages: &[Package], apply: bool) -> Result<()> {
    let mut orphans = Vec::new();
    for package in packages {
        // Compiled code is written before the record that names it.
        let _lock = match package.shipped() {
            dir if apply && dir.is_dir() => Lock::of_folder(&dir, PATIENCE)?,
            _ => None,
        };
        let mut found = self::orphans(package);
        // Packages of a workspace share its records.
        found.retain(|it| !orphans.contains(it));
        for path in &found {
            println!("{}", shown(path));
            if apply {
                remove(path)?;
            }
        }
        orphans.extend(found);
    }
    let (records, files): (Vec<_>, Vec<_>) =
        orphans.iter().partition(|it| it.extension().is_some_and(|it| it == "toml"));
    let mut found = count(records.len(), "record");
    if !files.is_empty() {
        found += &format!(" and {} of compiled code", count(files.len(), "file"));
    }
    match (orphans.len(), apply) {
        (0, _) => println!("every record belongs to a kernel"),
        (_, true) => println!("{found} removed"),
        (_, false) => println!("{found} of no kernel; `cargo tvmtune gc --apply` removes them"),
    }
    Ok(())
}

/// Lists or removes what the user's cache has in vain; says nothing where that is nothing.
fn cached(cache: &Cache, packages: &[Package], apply: bool) -> Result<()> {
    // A session keeps code after the record that names it.
    let _lock = match apply && cache.locks().is_dir() {
        true => Some(cache.lock_records(PATIENCE, &mut |_| ())?),
        false => None,
    };
    let gone = cache.packages_gone();
    for (folder, package) in &gone {
        println!("{} (of `{}`, which is gone)", shown(folder), shown(package));
        if apply {
            let failed = || format!("cannot remove `{}`", shown(folder));
            unless_gone(fs::remove_dir_all(folder)).with_context(failed)?;
        }
    }
    let named = artifacts(packages);
    let code = KeptCode::new(cache).orphans(&|it| named.contains(it));
    let shipped = packages.iter().map(|it| it.search_dirs(CacheUse::Exclude));
    let shipped = shipped.flat_map(|it| Database::discover(&it).left_over());
    let left_over: BTreeSet<PathBuf> = cache.left_over().into_iter().chain(shipped).collect();
    for path in code.iter().chain(&left_over) {
        println!("{}", shown(path));
        if apply {
            remove(path)?;
        }
    }
    let found = [
        (gone.len(), "folder", "in the cache of packages that are gone"),
        (code.len(), "file", "of code that no record names"),
        (left_over.len(), "temporary file", "of writers that were killed"),
    ];
    for (n, what, whose) in found.into_iter().filter(|it| it.0 > 0) {
        let end = if apply { " removed" } else { "; `cargo tvmtune gc --apply` removes them" };
        println!("{} {whose}{end}", count(n, what));
    }
    Ok(())
}

/// Returns the identities of all code that records of the cache and of these packages name.
fn artifacts(packages: &[Package]) -> BTreeSet<ArtifactId> {
    let dirs = packages.iter().map(|it| it.search_dirs(CacheUse::Exclude));
    let databases = dirs.chain([SearchDirs::default()]).map(|it| Database::discover(&it));
    let mut artifacts = BTreeSet::new();
    for database in databases {
        for record in database.list().filter_map(|(_, _, record)| record.ok()) {
            let schedules = record.buckets.iter().flat_map(|it| &it.schedules);
            artifacts.extend(schedules.map(|it| it.timed_code()));
        }
    }
    artifacts
}

/// Returns files that are of no kernel, or of no use.
fn orphans(package: &Package) -> Vec<PathBuf> {
    let store = Store { kind: StoreKind::Crate, dir: package.shipped() };
    let is_known = |workload: &WorkloadId| package.ops.iter().any(|it| it.id == *workload);
    let database = Database::new(vec![store], None);
    let files = database.list();
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
fn remove(path: &Path) -> Result<()> {
    let failed = || format!("cannot remove `{}`", shown(path));
    unless_gone(fs::remove_file(path)).with_context(failed)?;
    if let Some(folder) = path.parent() {
        // Fails where others are left, which is as it should be.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}

/// Another process may have removed the same.
fn unless_gone(removed: io::Result<()>) -> io::Result<()> {
    removed.or_else(|it| if it.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(it) })
}

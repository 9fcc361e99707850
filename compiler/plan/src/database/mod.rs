//! Step 9 of 12: records in files.
//!
//! In: a workload and a device. Out: the recorded schedules for it, ranked by tier. Next: the build
//! plan, or a tuning session for workloads without a record.
//!
//! A database is a folder with one file for each workload and device,
//! `<program>/<first 12 digits of the workload id>.<device>.toml`. Several are searched, in
//! order of precedence: records of this machine go before those that a crate ships. Beside a record
//! of a GPU lie files with compiled code: see [`Files`].
//!
//! # Invariants
//!
//! - A file that cannot be used is a miss and one warning, never an error of a build. What is not
//!   named as a record is, is not looked at; a build opens the files of its own workloads.
//! - Files appear and change at once, whole; concurrent writers lose nothing.
//! - Nothing but [`Database::accept`] writes outside of the user's cache.
//!
//! # Source
//!
//! Two tiers, user over shipped: `MIOpen`. One file an entry, invalid entries are misses:
//! `FlashInfer`'s second format. The tier is reported: Kernel Launcher.

mod artifact;
pub mod atomic;
mod error;
mod files;
mod index;
mod lookup;
mod package;
mod store;
mod temporary;

use std::fs;
use std::path::{Path, PathBuf};

use crate::migrate::migrate;
use crate::record::{Conflict, Record};
use files::{check_identity, file_of, programs_in, read, records_in};
use index::Index;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::workload::WorkloadId;

pub use crate::record::Tier;
pub use artifact::{Files, ImageFile, Images};
pub use error::DatabaseError;
pub use files::folder_name;
pub use lookup::{Choice, Lookup, StoredRecord, device_distance};
pub use package::PackageCache;
pub use store::{Cache, CacheUse, SearchDirs, Store, StoreKind};

/// Stores of records, in order of precedence. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Database {
    stores: Vec<Store>,
    cache: Option<Cache>,
}

/// A workload that is looked up.
#[derive(Clone, Debug)]
pub struct Query<'a> {
    /// Its identity.
    pub workload: WorkloadId,
    /// The name of its program.
    pub name: ProgramName,
    /// Its canonical text.
    pub dag: &'a str,
}

impl Database {
    /// Creates a database of stores in order of precedence; results are written to the cache, which
    /// should be among them.
    pub fn new(stores: Vec<Store>, cache: Option<Cache>) -> Self {
        Self { stores, cache }
    }

    /// Creates the database of a package, as the environment configures it.
    pub fn discover(dirs: &SearchDirs) -> Self {
        let cache = Cache::discover();
        Self::new(dirs.stores(cache.as_ref()), cache)
    }

    /// Returns the stores, in order of precedence.
    pub fn stores(&self) -> &[Store] {
        &self.stores
    }

    /// Returns the cache, if there is one.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Looks up a workload by its id, its program's name, and its canonical text.
    pub fn get(&self, workload: &WorkloadId, name: &ProgramName, dag: &str) -> Lookup {
        let query = Query { workload: *workload, name: name.clone(), dag };
        self.get_all(&[query]).pop().unwrap_or_default()
    }

    /// Looks up several workloads; returns what was found of each.
    pub fn get_all(&self, queries: &[Query<'_>]) -> Vec<Lookup> {
        let mut indices: Vec<Index> = self.stores.iter().map(|_| Index::default()).collect();
        queries.iter().map(|it| self.look_up(it, &mut indices)).collect()
    }

    fn look_up(&self, query: &Query<'_>, indices: &mut [Index]) -> Lookup {
        let Query { workload, name, dag } = query;
        let mut lookup = Lookup { cache: self.cache.clone(), ..Lookup::default() };
        for (store, index) in self.stores.iter().zip(indices) {
            for path in index.of_workload(&store.dir, workload, name, &mut lookup.warnings) {
                match read(&path).and_then(|it| check_identity(it, workload, dag, &path)) {
                    Ok(record) => {
                        lookup.records.push(StoredRecord { record, path, store: store.kind });
                    }
                    Err(warning) => lookup.warnings.push(warning),
                }
            }
        }
        lookup.read_images();
        lookup
    }

    /// Reads every record of every store, one after the other.
    pub fn list(
        &self,
    ) -> impl Iterator<Item = (StoreKind, PathBuf, Result<Record, DatabaseError>)> {
        let files = |store: &Store| {
            let (kind, folders) = (store.kind, programs_in(&store.dir).into_iter());
            folders.flat_map(|it| records_in(&it)).map(move |it| (kind, it))
        };
        let files = self.stores.iter().flat_map(files);
        files.map(|(kind, path)| (kind, path.clone(), read(&path)))
    }

    /// Returns the temporary files that writers which were killed left in the stores.
    pub fn left_over(&self) -> Vec<PathBuf> {
        self.stores.iter().flat_map(|it| temporary::left_below(&it.dir)).collect()
    }

    /// Updates a record in the user's cache; returns the file.
    ///
    /// Under a lock between processes, `update` gets the stored record, or `fresh` without buckets if
    /// there is none.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::NoCache`], or [`DatabaseError::Io`] where the cache cannot be written.
    pub fn update(
        &self,
        fresh: &Record,
        update: impl FnOnce(&mut Record),
    ) -> Result<PathBuf, DatabaseError> {
        self.update_with(fresh, &Files::default(), update)
    }

    /// As [`Database::update`], where `files` are those that the update adds.
    ///
    /// # Errors
    ///
    /// As [`Database::update`].
    pub fn update_with(
        &self,
        fresh: &Record,
        files: &Files,
        update: impl FnOnce(&mut Record),
    ) -> Result<PathBuf, DatabaseError> {
        let cache = self.cache.as_ref().ok_or(DatabaseError::NoCache)?;
        let dir = cache.records();
        let path = file_of(&dir, fresh);
        let _lock = cache.lock_records()?;
        let former = || read(&file_of(&cache.former_records(), fresh));
        let stored = read(&path).or_else(|_| former()).ok();
        let is_same = |it: &Record| it.workload == fresh.workload && it.dag == fresh.dag;
        let mut record = stored.filter(is_same).unwrap_or_else(|| {
            let buckets = Vec::new();
            Record { buckets, ..fresh.clone() }
        });
        // Of an earlier release: what makes the same code goes by its identity of now, and the traces of
        // the rest are replayed until they are measured again.
        if let Ok(dag) = record.dag.parse() {
            migrate(&mut record, &dag);
        }
        record.provenance = fresh.provenance.clone();
        update(&mut record);
        write(&path, &record, files)?;
        Ok(path)
    }

    /// Merges a record into the user's cache; returns the file. Compiled code is merged
    /// only if `files` has it.
    ///
    /// # Errors
    ///
    /// Those of [`Database::update`].
    pub fn put(&self, record: &Record, files: &Files) -> Result<PathBuf, DatabaseError> {
        let mut record = record.clone();
        files.restrict(&mut record);
        self.update_with(&record, files, |stored| {
            for bucket in &record.buckets {
                stored.bucket_mut(&bucket.dims).merge(bucket.clone());
            }
        })
    }

    /// Merges a record into the database of a crate, its `tvmtune` folder, and keeps the best `n_kept`
    /// schedules of each platform and bucket; returns the file. Compiled code is merged only if `files`
    /// has it.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`] where the folder cannot be written, and an error if the
    /// existing file is not a record of the same workload: it is not overwritten.
    pub fn accept(
        dir: &Path,
        record: &Record,
        files: &Files,
        n_kept: usize,
    ) -> Result<PathBuf, DatabaseError> {
        let path = file_of(dir, record);
        let mut merged = record.clone();
        files.restrict(&mut merged);
        if path.exists() {
            let mut stored = read(&path)?;
            // The author accepts what was measured last, and as it was measured.
            for bucket in &merged.buckets {
                let stored = stored.bucket_mut(&bucket.dims);
                bucket.schedules.iter().for_each(|it| stored.drop_measured_otherwise(it));
            }
            let foreign = |Conflict(what)| DatabaseError::Foreign { path: path.clone(), what };
            stored.merge(merged).map_err(foreign)?;
            merged = stored;
        }
        merged.keep_best(n_kept);
        write(&path, &merged, files)?;
        Ok(path)
    }

    /// Changes a record in its file; `update` returns whether anything changed.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the file can't be read or written.
    pub fn rewrite(
        &self,
        path: &Path,
        update: impl FnOnce(&mut Record) -> bool,
    ) -> Result<bool, DatabaseError> {
        let lock = match self.cache.as_ref().filter(|it| path.starts_with(it.records())) {
            Some(cache) => Some(cache.lock_records()?),
            None => None,
        };
        let before = read(path)?;
        let mut record = before.clone();
        let changed = update(&mut record);
        if changed {
            let (mut files, _) = Files::beside(path, &before);
            files.restamp(&before, &record);
            write(path, &record, &files)?;
        }
        drop(lock);
        Ok(changed)
    }

    /// Returns the files with compiled code that no record for which `is_kept` holds names.
    pub fn orphans(&self, is_kept: &dyn Fn(&Record) -> bool) -> Vec<PathBuf> {
        let folders = self.stores.iter().flat_map(|it| programs_in(&it.dir));
        folders.flat_map(|it| artifact::orphans(&it, is_kept)).collect()
    }
}

/// Writes a record and its files, and removes those that it no longer names. Files are written first:
/// a record must not name a missing file.
fn write(path: &Path, record: &Record, files: &Files) -> Result<(), DatabaseError> {
    let record = Record { schema: record.needed_schema(), ..record.clone() };
    let folder = path.parent().unwrap_or(Path::new("."));
    if fs::symlink_metadata(folder).is_ok_and(|it| it.is_symlink()) {
        return Err(DatabaseError::Link { path: folder.to_owned() });
    }
    files.write(path, &record)?;
    atomic::write(path, record.to_toml().as_bytes())?;
    for orphan in artifact::left_by(path, &record) {
        // An extra file does no harm; `gc` lists it.
        let _ = fs::remove_file(orphan);
    }
    Ok(())
}

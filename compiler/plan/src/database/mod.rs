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
//! - Files appear and change at once, whole; concurrent writers lose nothing: a file is read, changed
//!   and written under the lock of its folder ([`Lock`]).
//! - No wait for a lock is longer than its caller says.
//! - Nothing but [`Database::accept`] and [`Database::rewrite`] writes outside of the user's cache.
//!
//! # Source
//!
//! Two tiers, user over shipped: `MIOpen`. One file an entry, invalid entries are misses:
//! `FlashInfer`'s second format. The tier is reported: Kernel Launcher.

mod artifact;
pub mod atomic;
mod error;
mod files;
mod former;
mod holder;
mod index;
mod lock;
mod lookup;
mod numerics;
mod package;
mod store;
mod temporary;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::migrate::migrate;
use crate::record::{Conflict, Record};
use files::{check_identity, file_of, programs_in, read, records_in};
use index::Index;
use numerics::FixedProgram;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::workload::WorkloadId;

pub use crate::record::Tier;
pub use artifact::{Files, ImageFile, Images};
pub use error::DatabaseError;
pub use files::folder_name;
pub use holder::Holder;
pub use lock::{Lock, PATIENCE, Wait};
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
        for (store, index) in self.stores.iter().zip(indices.iter_mut()) {
            let paths = index.of_workload(&store.dir, workload, name, &mut lookup.warnings);
            if paths.is_empty() && !self.is_own(store) {
                let found = former::records(&store.dir.join(name.folder()), query).into_iter();
                let stored = |(record, path)| StoredRecord { record, path, store: store.kind };
                lookup.records.extend(found.map(stored));
            }
            for path in paths {
                match read(&path).and_then(|it| check_identity(it, workload, dag, &path)) {
                    Ok(record) => {
                        lookup.records.push(StoredRecord { record, path, store: store.kind });
                    }
                    Err(warning) => lookup.warnings.push(warning),
                }
            }
        }
        if lookup.records.is_empty() {
            self.adopt(query, indices, &mut lookup);
        }
        lookup.read_images();
        lookup
    }

    /// Adds the records of the same program with free numerics, if the query is for one with fixed ones.
    fn adopt(&self, query: &Query<'_>, indices: &mut [Index], lookup: &mut Lookup) {
        let Some(program) = FixedProgram::new(query.dag) else { return };
        for (store, index) in self.stores.iter().zip(indices) {
            let (free, text) = (&program.free, &program.free_text);
            // Files that cannot be read are reported where the free program is looked up.
            let paths = index.of_workload(&store.dir, free, &query.name, &mut Vec::new());
            for path in paths {
                let checked = read(&path).and_then(|it| check_identity(it, free, text, &path));
                let Ok(record) = checked else { continue };
                let (record, n_left_out) = program.adopted(record, (query.workload, query.dag));
                lookup.n_left_out += n_left_out;
                lookup.records.push(StoredRecord { record, path, store: store.kind });
            }
        }
    }

    /// Returns whether no other release writes records to a store.
    fn is_own(&self, store: &Store) -> bool {
        self.cache.as_ref().is_some_and(|it| it.records() == store.dir)
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
        self.update_with(fresh, &Files::default(), PATIENCE, &mut |_| (), update)
    }

    /// As [`Database::update`], where `files` are those that the update adds. It waits for other
    /// processes for the time `patience`, and tells `on_wait`.
    ///
    /// # Errors
    ///
    /// As [`Database::update`].
    pub fn update_with(
        &self,
        fresh: &Record,
        files: &Files,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
        update: impl FnOnce(&mut Record),
    ) -> Result<PathBuf, DatabaseError> {
        let cache = self.cache.as_ref().ok_or(DatabaseError::NoCache)?;
        let dir = cache.records();
        let path = file_of(&dir, fresh);
        let _lock = cache.lock_records(patience, on_wait)?;
        let folders = std::iter::once(dir).chain(cache.former_records());
        let stored = folders.into_iter().find_map(|it| read(&file_of(&it, fresh)).ok());
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
        self.update_with(&record, files, PATIENCE, &mut |_| (), |stored| {
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
    /// [`DatabaseError::Io`] where the folder cannot be written, [`DatabaseError::Busy`] where another
    /// process has locked it, [`DatabaseError::LessAccurate`] where a schedule would be replaced by one
    /// whose results are further from exact ones, and an error if the existing file is not a record of the
    /// same workload: it is not overwritten.
    pub fn accept(
        dir: &Path,
        record: &Record,
        files: &Files,
        n_kept: usize,
    ) -> Result<PathBuf, DatabaseError> {
        let check = |before: Option<&Record>, after: &Record, path: &Path| {
            let loss = before.and_then(|it| after.loss_of_accuracy(it));
            let path = path.to_owned();
            loss.map_or(Ok(()), |loss| Err(DatabaseError::LessAccurate { path, loss }))
        };
        Self::accept_checked(dir, record, files, (n_kept, &check))
    }

    /// Merges a record as [`Database::accept`] does, however accurate its schedules are.
    ///
    /// # Errors
    ///
    /// The same as [`Database::accept`], but for [`DatabaseError::LessAccurate`].
    pub fn accept_less_accurate(
        dir: &Path,
        record: &Record,
        files: &Files,
        n_kept: usize,
    ) -> Result<PathBuf, DatabaseError> {
        Self::accept_checked(dir, record, files, (n_kept, &|_, _, _| Ok(())))
    }

    /// Merges a record unless a check of what was and what would be refuses it.
    fn accept_checked(
        dir: &Path,
        record: &Record,
        files: &Files,
        (n_kept, check): (usize, &Check<'_>),
    ) -> Result<PathBuf, DatabaseError> {
        let path = file_of(dir, record);
        let mut fresh = record.clone();
        files.restrict(&mut fresh);
        let _lock = Lock::of_folder(dir, PATIENCE)?;
        // Where other hosts do not see the lock, the file may have changed since it was read.
        for _ in 0..MAX_ATTEMPTS {
            let stored = read_if_exists(&path)?;
            let merged = accepted(stored.clone(), &fresh, n_kept, &path)?;
            check(stored.as_ref(), &merged, &path)?;
            if read_if_exists(&path)? == stored {
                write(&path, &merged, files)?;
                return Ok(path);
            }
        }
        Err(DatabaseError::Contended { path })
    }

    /// Changes a record in its file; `update` returns whether anything changed. A record whose program has
    /// another identity after that has a file of that name; the former one stays for the releases that wrote it
    /// in the user's cache, and goes in the database of a crate.
    ///
    /// # Errors
    ///
    /// [`DatabaseError`] if the file can't be locked, read or written.
    pub fn rewrite(
        &self,
        path: &Path,
        update: impl FnOnce(&mut Record) -> bool,
    ) -> Result<bool, DatabaseError> {
        let _lock = self.lock_of(path)?;
        let before = read(path)?;
        let mut record = before.clone();
        let changed = update(&mut record);
        if changed {
            let (mut files, _) = Files::beside(path, &before);
            files.restamp(&before, &record);
            let folder = path.parent().unwrap_or(Path::new("."));
            let to = folder.join(file_of(folder, &record).file_name().unwrap_or_default());
            let to = if record.workload == before.workload { path.to_owned() } else { to };
            write(&to, &record, &files)?;
            if to != path && !self.is_of_cache(path) {
                fs::remove_file(path).map_err(|it| DatabaseError::io("remove", path, it))?;
            }
        }
        Ok(changed)
    }

    /// Returns whether a file is in the user's cache, of this release or an earlier one.
    fn is_of_cache(&self, path: &Path) -> bool {
        let is_in = |it: &Store| it.kind == StoreKind::Cache && path.starts_with(&it.dir);
        self.stores.iter().any(is_in)
    }

    /// Locks the folder that a record is in: the cache, or that of a crate.
    fn lock_of(&self, path: &Path) -> Result<Option<Lock>, DatabaseError> {
        if let Some(cache) = self.cache.as_ref().filter(|it| path.starts_with(it.records())) {
            return cache.lock_records(PATIENCE, &mut |_| ()).map(Some);
        }
        let store = self.stores.iter().find(|it| path.starts_with(&it.dir));
        store.map_or(Ok(None), |it| Lock::of_folder(&it.dir, PATIENCE))
    }

    /// Returns the files with compiled code that no record for which `is_kept` holds names.
    pub fn orphans(&self, is_kept: &dyn Fn(&Record) -> bool) -> Vec<PathBuf> {
        let folders = self.stores.iter().flat_map(|it| programs_in(&it.dir));
        folders.flat_map(|it| artifact::orphans(&it, is_kept)).collect()
    }
}

/// A check of a record that is to be written: what the file has now, if there is one, what it would have, and its
/// path.
type Check<'a> = dyn Fn(Option<&Record>, &Record, &Path) -> Result<(), DatabaseError> + 'a;

/// Times that a record is merged anew because its file changed meanwhile.
const MAX_ATTEMPTS: usize = 100;

/// Reads a record; `None` if there is no file.
fn read_if_exists(path: &Path) -> Result<Option<Record>, DatabaseError> {
    match read(path) {
        Ok(record) => Ok(Some(record)),
        Err(DatabaseError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns what a crate ships once a record is accepted: the best of it and of the stored one.
fn accepted(
    stored: Option<Record>,
    fresh: &Record,
    n_kept: usize,
    path: &Path,
) -> Result<Record, DatabaseError> {
    let mut merged = match stored {
        Some(mut stored) => {
            // The author accepts what was measured last, and as it was measured.
            for bucket in &fresh.buckets {
                let stored = stored.bucket_mut(&bucket.dims);
                bucket.schedules.iter().for_each(|it| stored.drop_measured_otherwise(it));
            }
            let foreign = |Conflict(what)| DatabaseError::Foreign { path: path.to_owned(), what };
            stored.merge(fresh.clone()).map_err(foreign)?;
            stored
        }
        None => fresh.clone(),
    };
    merged.keep_best(n_kept);
    Ok(merged)
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

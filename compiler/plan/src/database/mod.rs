//! Step 9 of 12: records in files.
//!
//! In: a workload and a device. Out: the schedules that are known for it, and from how close they
//! come. Next: the build plan, or a tuning session for what is missing.
//!
//! A database is a folder with one file for each workload and device,
//! `<program>/<first 12 digits of the workload id>.<device>.toml`. Several are looked at, in layers:
//! what was measured on this machine counts more than what a crate was shipped with. Beside a record
//! of a GPU lie files with compiled code: see [`Files`].
//!
//! # Invariants
//!
//! - A file that cannot be used is a miss and one warning, never an error of a build.
//! - Files appear and change at once, whole; concurrent writers lose nothing.
//! - Nothing but [`Database::accept`] writes outside of the user's cache.
//!
//! # Source
//!
//! Two tiers, user over shipped: `MIOpen`. One file an entry, invalid entries are misses:
//! `FlashInfer`'s second format. The tier is told: Kernel Launcher.

mod artifact;
pub mod atomic;
mod layer;
mod tier;

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::record::{Conflict, Record, RecordError};
use tvmtune_ir::target::DeviceKey;

pub use crate::record::Tier;
pub use artifact::{Files, ImageFile, Images};
pub use layer::{Cache, Layer, LayerKind, Places};
pub use tier::devices_apart;
pub use tier::{Choice, Lookup};

/// Folders of records, in order of precedence. See the [module documentation](self).
#[derive(Clone, Debug)]
pub struct Database {
    layers: Vec<Layer>,
    cache: Option<Cache>,
}

/// A record and where it was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// What the file says.
    pub record: Record,
    /// The file.
    pub path: PathBuf,
    /// Which kind of database it lies in.
    pub layer: LayerKind,
}

/// What went wrong with a file. Most callers show it as a warning and go on.
#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    /// The operating system refused.
    #[error("cannot {step} `{path}`: {source}")]
    Io {
        /// What was tried, as a verb.
        step: &'static str,
        /// With which file or folder.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// The file is no usable record.
    #[error("`{path}` is not used: {source}")]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: RecordError,
    },
    /// The file speaks of another workload than its name says.
    #[error("`{path}` is not used: it is of another {what}; delete it, and tune again")]
    Foreign {
        /// The file.
        path: PathBuf,
        /// What differs.
        what: &'static str,
    },
    /// A file with compiled code is not what its record says.
    #[error("`{path}` is not used: {what}; restore it, or run `cargo tvmtune compile --record`")]
    Artifact {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: &'static str,
    },
    /// There is no folder for results.
    #[error("there is no cache folder to write to; set `TVMTUNE_CACHE` to one")]
    NoCache,
}

impl DatabaseError {
    /// The error of a step that failed.
    pub fn io(step: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { step, path: path.to_owned(), source }
    }
}

impl Database {
    /// A database of these layers, the first counting most; results are written to the cache,
    /// which should be among them.
    pub fn new(layers: Vec<Layer>, cache: Option<Cache>) -> Self {
        Self { layers, cache }
    }

    /// The database that the environment and the place of a package ask for.
    pub fn discover(places: &Places) -> Self {
        let cache = Cache::discover();
        Self::new(places.layers(cache.as_ref()), cache)
    }

    /// The layers, in order of precedence.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The folder for results, if there is one.
    pub fn cache(&self) -> Option<&Cache> {
        self.cache.as_ref()
    }

    /// Everything known of a workload: by its id (64 hexadecimal digits), its program's name, and
    /// its canonical text.
    ///
    /// The program's folder is tried first; a program that was renamed is found by looking into
    /// all others.
    pub fn get(&self, workload: &str, name: &str, dag: &str) -> Lookup {
        let mut lookup = Lookup::default();
        for layer in &self.layers {
            let prefix = format!("{}.", &workload[..ID_DIGITS.min(workload.len())]);
            let mut paths = files_in(&layer.dir.join(name), &prefix);
            if paths.is_empty() {
                paths =
                    folders_in(&layer.dir).iter().flat_map(|it| files_in(it, &prefix)).collect();
            }
            for path in paths {
                match read(&path).and_then(|it| check_identity(it, workload, dag, &path)) {
                    Ok(record) => lookup.records.push(Found { record, path, layer: layer.kind }),
                    Err(warning) => lookup.warnings.push(warning),
                }
            }
        }
        lookup.read_images();
        lookup
    }

    /// Every file of every layer, and what it says.
    pub fn list(&self) -> Vec<(LayerKind, PathBuf, Result<Record, DatabaseError>)> {
        let files = |layer: &Layer| -> Vec<_> {
            let paths = folders_in(&layer.dir).into_iter().flat_map(|it| files_in(&it, ""));
            paths.map(|path| (layer.kind, path.clone(), read(&path))).collect()
        };
        self.layers.iter().flat_map(files).collect()
    }

    /// Puts what was measured into the user's cache; returns the file.
    ///
    /// Under a lock that other processes respect, `update` gets the record as it stands there, and
    /// a new one that differs from `fresh` in having no buckets where there is none.
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
        let known = path.exists().then(|| read(&path).ok()).flatten();
        let same = |it: &Record| {
            it.workload == fresh.workload && it.dag == fresh.dag && it.generator == fresh.generator
        };
        let mut record = known.filter(same).unwrap_or_else(|| {
            let buckets = Vec::new();
            Record { buckets, ..fresh.clone() }
        });
        record.provenance = fresh.provenance.clone();
        update(&mut record);
        write(&path, &record, files)?;
        Ok(path)
    }

    /// Merges a record into the user's cache; returns the file. Of what was compiled it takes over
    /// what `files` has, so that without any only schedules are.
    ///
    /// # Errors
    ///
    /// Those of [`Database::update`].
    pub fn put(&self, record: &Record, files: &Files) -> Result<PathBuf, DatabaseError> {
        let mut record = record.clone();
        files.restrict(&mut record);
        self.update_with(&record, files, |known| {
            for bucket in &record.buckets {
                known.bucket_mut(&bucket.dims).merge(bucket.clone());
            }
        })
    }

    /// Merges a record into the database of a crate, its `tvmtune` folder; returns the file. Of
    /// what was compiled it takes over what `files` has.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`] where the folder cannot be written, and the error of the file that
    /// stands there already if it is of something else: it is not overwritten.
    pub fn accept(dir: &Path, record: &Record, files: &Files) -> Result<PathBuf, DatabaseError> {
        let path = file_of(dir, record);
        let mut merged = record.clone();
        files.restrict(&mut merged);
        if path.exists() {
            let mut known = read(&path)?;
            let foreign = |Conflict(what)| DatabaseError::Foreign { path: path.clone(), what };
            known.merge(merged).map_err(foreign)?;
            merged = known;
        }
        write(&path, &merged, files)?;
        Ok(path)
    }

    /// Changes a record where it lies; `update` says whether anything changed.
    ///
    /// # Errors
    ///
    /// That of the file, if it can't be read or written.
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

    /// Files with compiled code that no record names which is kept, in every layer.
    pub fn orphans(&self, is_kept: &dyn Fn(&Record) -> bool) -> Vec<PathBuf> {
        let folders = self.layers.iter().flat_map(|it| folders_in(&it.dir));
        folders.flat_map(|it| artifact::orphans(&it, is_kept)).collect()
    }
}

/// Writes a record and its files, and removes those that it named before. Files go first: a record
/// must not name what is not there.
fn write(path: &Path, record: &Record, files: &Files) -> Result<(), DatabaseError> {
    let record = Record { schema: record.needed_schema(), ..record.clone() };
    files.write(path, &record)?;
    atomic::write(path, record.to_toml().as_bytes())?;
    for orphan in artifact::left_by(path, &record) {
        // A file too many does no harm; `gc` lists it.
        let _ = fs::remove_file(orphan);
    }
    Ok(())
}

/// Digits of a workload's id in the name of its files; the whole id is inside.
const ID_DIGITS: usize = 12;

/// Where the record of a workload and device lies in a database.
fn file_of(dir: &Path, record: &Record) -> PathBuf {
    let DeviceKey(device) = &record.device;
    let id = &record.workload[..ID_DIGITS.min(record.workload.len())];
    // A colon means something else to Windows.
    dir.join(&record.name).join(format!("{id}.{}.toml", device.replace(':', "_")))
}

fn read(path: &Path) -> Result<Record, DatabaseError> {
    let text = fs::read_to_string(path).map_err(|it| DatabaseError::io("read", path, it))?;
    Record::from_toml(&text)
        .map_err(|source| DatabaseError::Record { path: path.to_owned(), source })
}

fn check_identity(
    record: Record,
    workload: &str,
    dag: &str,
    path: &Path,
) -> Result<Record, DatabaseError> {
    let differs =
        [(record.workload != workload, "workload"), (record.dag != dag, "canonical text")];
    match differs.into_iter().find(|(differs, _)| *differs) {
        Some((_, what)) => Err(DatabaseError::Foreign { path: path.to_owned(), what }),
        None => Ok(record),
    }
}

/// The records in a folder whose names start like that, sorted.
fn files_in(dir: &Path, prefix: &str) -> Vec<PathBuf> {
    let is_record = |path: &PathBuf| {
        let name = path.file_name().and_then(|it| it.to_str()).unwrap_or_default();
        name.starts_with(prefix) && !name.starts_with('.') && name.ends_with(".toml")
    };
    entries(dir).into_iter().filter(is_record).collect()
}

fn folders_in(dir: &Path) -> Vec<PathBuf> {
    entries(dir).into_iter().filter(|it| it.is_dir()).collect()
}

/// What a folder holds, sorted; a folder that is missing holds nothing.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<_> = entries.filter_map(|it| it.ok().map(|it| it.path())).collect();
    paths.sort();
    paths
}

//! The folders of records that are searched, and their precedence.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use etcetera::BaseStrategy;

use super::atomic;
use super::error::DatabaseError;
use super::files::folders_in;
use super::package::{PackageCache, STAMP};

/// A folder of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    /// The kind of the store.
    pub kind: StoreKind,
    /// The folder; it need not exist.
    pub dir: PathBuf,
}

/// The kinds of stores, in order of precedence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreKind {
    /// The cache of this user: records of this machine.
    Cache,
    /// The folder that `TVMTUNE_DB` names: an application's, for all of its crates.
    Overlay,
    /// The `tvmtune` folder that the crate ships.
    Crate,
    /// The `tvmtune` folder of the crate's workspace.
    Workspace,
}

/// The user's cache: `TVMTUNE_CACHE`, or `tvmtune` in the platform's folder for caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// The folders in which records of a package are searched.
#[derive(Clone, Debug, Default)]
pub struct SearchDirs {
    /// The folder of its manifest.
    pub package: Option<PathBuf>,
    /// The folder of the manifest of its workspace.
    pub workspace: Option<PathBuf>,
    /// The use of the user's cache.
    pub cache: CacheUse,
}

/// The use of the user's cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CacheUse {
    /// It is searched.
    #[default]
    Include,
    /// It is not searched, so that results are reproducible.
    Exclude,
}

impl Cache {
    /// Creates the cache of a folder.
    pub fn new(dir: &Path) -> Self {
        // The version of the layout.
        Self { root: dir.join("v1") }
    }

    /// Finds the cache that the environment configures; `None` if there is no folder for one.
    pub fn discover() -> Option<Self> {
        if let Some(dir) = env::var_os("TVMTUNE_CACHE").filter(|it| !it.is_empty()) {
            return Some(Self::new(Path::new(&dir)));
        }
        let strategy = etcetera::choose_base_strategy().ok()?;
        Some(Self::new(&strategy.cache_dir().join("tvmtune")))
    }

    /// Returns the folder of the records.
    pub fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    /// Returns the folder of the logs of all trials.
    pub fn trials(&self) -> PathBuf {
        self.root.join("trials")
    }

    /// Returns the folder of the cost models, a file for each device.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// Returns the folder of compiled code.
    pub fn compiled(&self) -> PathBuf {
        self.root.join("compiled")
    }

    /// Returns the folder of the progress of runs, a file for each process.
    pub fn progress(&self) -> PathBuf {
        self.root.join("progress")
    }

    /// Returns the folder of the locks.
    pub fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    /// Returns the folder that belongs to the package whose manifest is in `manifest_dir`.
    pub fn package(&self, manifest_dir: &Path) -> PackageCache {
        PackageCache::new(&self.root.join("packages"), manifest_dir)
    }

    /// Lets every package plan anew at its next build: for a change of records of any of them.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`].
    pub fn touch_packages(&self) -> Result<(), DatabaseError> {
        let packages = folders_in(&self.root.join("packages"));
        let mut stamps = packages.iter().map(|it| it.join(STAMP)).filter(|it| it.exists());
        stamps.try_for_each(|it| atomic::set_modified(&it, SystemTime::now()))
    }

    /// Waits until no other process writes records; none does until the file is dropped.
    pub(super) fn lock_records(&self) -> Result<File, DatabaseError> {
        let lock = atomic::lock_file(&self.locks().join("records.lock"))?;
        lock.lock().map_err(|it| DatabaseError::io("lock", &self.locks(), it))?;
        Ok(lock)
    }
}

impl SearchDirs {
    /// Returns the stores for this package, in order of precedence, without duplicates.
    pub(super) fn stores(&self, cache: Option<&Cache>) -> Vec<Store> {
        let overlay = env::var_os("TVMTUNE_DB").filter(|it| !it.is_empty()).map(PathBuf::from);
        let shipped = |dir: &Option<PathBuf>| dir.as_ref().map(|it| it.join("tvmtune"));
        let stores = [
            (
                StoreKind::Cache,
                cache.filter(|_| self.cache == CacheUse::Include).map(Cache::records),
            ),
            (StoreKind::Overlay, overlay),
            (StoreKind::Crate, shipped(&self.package)),
            (StoreKind::Workspace, shipped(&self.workspace)),
        ];
        let mut distinct: Vec<Store> = Vec::new();
        for (kind, dir) in stores {
            let Some(dir) = dir else { continue };
            if !distinct.iter().any(|it| it.dir == dir) {
                distinct.push(Store { kind, dir });
            }
        }
        distinct
    }
}

//! Where databases lie, and which counts more.

use std::env;
use std::fs::File;
use std::path::{Path, PathBuf};

use etcetera::BaseStrategy;

use super::{DatabaseError, atomic};

/// A folder of records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layer {
    /// What kind of database it is.
    pub kind: LayerKind,
    /// The folder; it need not exist.
    pub dir: PathBuf,
}

/// The kinds of databases, the ones that count more first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LayerKind {
    /// What was measured by this user.
    Cache,
    /// What `TVMTUNE_DB` names: an application's, for all crates it is made of.
    Overlay,
    /// What the crate was shipped with, its `tvmtune` folder.
    Crate,
    /// What lies in the `tvmtune` folder of the workspace that the crate is a member of.
    Workspace,
}

/// The user's cache: `TVMTUNE_CACHE`, or `tvmtune` in the platform's folder for caches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    root: PathBuf,
}

/// Where a package lies.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// The folder of its manifest.
    pub package: Option<PathBuf>,
    /// The folder of the manifest of its workspace.
    pub workspace: Option<PathBuf>,
    /// Whether what this user measured counts. It must not where a result has to be reproducible.
    pub without_cache: bool,
}

impl Cache {
    /// A cache in that folder.
    pub fn new(dir: &Path) -> Self {
        // The version of the layout: a change of it must not meet old files.
        Self { root: dir.join("v1") }
    }

    /// The cache that the environment names; `None` if there is no place for one.
    pub fn discover() -> Option<Self> {
        if let Some(dir) = env::var_os("TVMTUNE_CACHE").filter(|it| !it.is_empty()) {
            return Some(Self::new(Path::new(&dir)));
        }
        let strategy = etcetera::choose_base_strategy().ok()?;
        Some(Self::new(&strategy.cache_dir().join("tvmtune")))
    }

    /// The folder of the database.
    pub fn records(&self) -> PathBuf {
        self.root.join("records")
    }

    /// The folder of the logs of all trials.
    pub fn trials(&self) -> PathBuf {
        self.root.join("trials")
    }

    /// The folder of what cost models learned, a file for each device.
    pub fn models(&self) -> PathBuf {
        self.root.join("models")
    }

    /// The folder of what was compiled.
    pub fn compiled(&self) -> PathBuf {
        self.root.join("compiled")
    }

    /// The folder of the locks.
    pub fn locks(&self) -> PathBuf {
        self.root.join("locks")
    }

    /// Waits until no other process writes records; until the file is dropped, none does.
    pub(super) fn lock_records(&self) -> Result<File, DatabaseError> {
        let lock = atomic::lock_file(&self.locks().join("records.lock"))?;
        lock.lock().map_err(|it| DatabaseError::io("lock", &self.locks(), it))?;
        Ok(lock)
    }
}

impl Places {
    /// The layers for this package, in order of precedence, none twice.
    pub(super) fn layers(&self, cache: Option<&Cache>) -> Vec<Layer> {
        let overlay = env::var_os("TVMTUNE_DB").filter(|it| !it.is_empty()).map(PathBuf::from);
        let shipped = |dir: &Option<PathBuf>| dir.as_ref().map(|it| it.join("tvmtune"));
        let layers = [
            (LayerKind::Cache, cache.filter(|_| !self.without_cache).map(Cache::records)),
            (LayerKind::Overlay, overlay),
            (LayerKind::Crate, shipped(&self.package)),
            (LayerKind::Workspace, shipped(&self.workspace)),
        ];
        let mut found: Vec<Layer> = Vec::new();
        for (kind, dir) in layers {
            let Some(dir) = dir else { continue };
            if !found.iter().any(|it| it.dir == dir) {
                found.push(Layer { kind, dir });
            }
        }
        found
    }
}

//! The folders of records that are searched, and their precedence.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use std::{env, fs, io};

use etcetera::BaseStrategy;

use super::atomic;
use super::error::DatabaseError;
use super::files::folders_in;
use super::lock::{Lock, Wait};
use super::package::{PackageCache, STAMP};
use super::temporary;
use crate::read::{self, limit};
use crate::record::{Peaks, SCHEMA};
use tvmtune_ir::target::DeviceKey;

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
    dir: PathBuf,
    /// The part that all releases so far share.
    root: PathBuf,
}

/// The size of a file that is written to see if records can be: several records of usual size.
const PROBE_BYTES: usize = 16 << 10;

const _: () = assert!(SCHEMA == 6, "records of a new schema have a folder of their own");

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
        Self { dir: dir.to_owned(), root: dir.join("v1") }
    }

    /// Finds the cache that the environment configures; `None` if there is no folder for one.
    pub fn discover() -> Option<Self> {
        if let Some(dir) = env::var_os("TVMTUNE_CACHE").filter(|it| !it.is_empty()) {
            return Some(Self::new(Path::new(&dir)));
        }
        let strategy = etcetera::choose_base_strategy().ok()?;
        Some(Self::new(&strategy.cache_dir().join("tvmtune")))
    }

    /// Returns the folder of the records. Releases that read another schema do not look there: they
    /// would write over what they can't read.
    pub fn records(&self) -> PathBuf {
        self.dir.join("v4").join("records")
    }

    /// Returns the folders of the records of releases before schema 6, the latest first: they are only read.
    pub fn former_records(&self) -> [PathBuf; 3] {
        let of_version = |it: &str| self.dir.join(it).join("records");
        [of_version("v3"), of_version("v2"), self.root.join("records")]
    }

    /// Returns what this machine does at most, where that was measured.
    pub fn peaks(&self, device: &DeviceKey) -> Option<Peaks> {
        toml::from_str(&read::text(&self.peaks_file(device), limit::SMALL).ok()?).ok()
    }

    /// Remembers what this machine does at most.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`].
    pub fn keep_peaks(&self, device: &DeviceKey, peaks: &Peaks) -> Result<(), DatabaseError> {
        let Peaks { product_gflops, l1_gbps, l2_gbps, l3_gbps, memory_gbps } = peaks;
        let text = format!(
            "product_gflops = {product_gflops:?}\nl1_gbps = {l1_gbps:?}\nl2_gbps = {l2_gbps:?}\n\
             l3_gbps = {l3_gbps:?}\nmemory_gbps = {memory_gbps:?}\n"
        );
        atomic::write(&self.peaks_file(device), text.as_bytes())
    }

    fn peaks_file(&self, device: &DeviceKey) -> PathBuf {
        self.root.join("machines").join(format!("{}.toml", device.file_stem()))
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

    /// Returns the folder of the code of recorded schedules, kept for later releases.
    pub fn code(&self) -> PathBuf {
        self.root.join("code")
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

    /// Returns the folders of packages whose own folder no longer exists, with that.
    pub fn packages_gone(&self) -> Vec<(PathBuf, PathBuf)> {
        let folders = folders_in(&self.root.join("packages")).into_iter();
        let gone = folders.filter_map(|it| {
            let manifest_dir = PackageCache::manifest_dir_of(&it)?;
            (!manifest_dir.exists()).then_some((it, manifest_dir))
        });
        gone.collect()
    }

    /// Returns the temporary files that writers which were killed left in the cache.
    pub fn left_over(&self) -> Vec<PathBuf> {
        temporary::left_below(&self.dir)
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

    /// Waits until no other process writes records, but no longer than `patience`; none does until the
    /// lock is dropped.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Busy`] if it took too long, [`DatabaseError::Io`] if there can be no lock.
    pub fn lock_records(
        &self,
        patience: Duration,
        on_wait: &mut dyn FnMut(Wait<'_>),
    ) -> Result<Lock, DatabaseError> {
        Lock::acquire(&self.locks().join("records.lock"), patience, on_wait)
    }

    /// Checks that records can be written, before work is done whose results would be lost.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Unwritable`].
    pub fn check_writable(&self) -> Result<(), DatabaseError> {
        let dir = self.records();
        let probe = || -> io::Result<()> {
            fs::create_dir_all(&dir)?;
            let path = dir.join(format!(".probe.{}.tmp", std::process::id()));
            let written = fs::write(&path, [b'\n'; PROBE_BYTES]);
            // One that could not be written may be there all the same.
            let removed = fs::remove_file(&path);
            written.and(removed)
        };
        probe().map_err(|source| DatabaseError::Unwritable { path: dir.clone(), source })
    }
}

impl SearchDirs {
    /// Returns the stores for this package, in order of precedence, without duplicates.
    pub(super) fn stores(&self, cache: Option<&Cache>) -> Vec<Store> {
        let overlay = env::var_os("TVMTUNE_DB").filter(|it| !it.is_empty()).map(PathBuf::from);
        let shipped = |dir: &Option<PathBuf>| dir.as_ref().map(|it| it.join("tvmtune"));
        let cache = cache.filter(|_| self.cache == CacheUse::Include);
        let of_cache = |it: &Cache| std::iter::once(it.records()).chain(it.former_records());
        let of_cache = cache.into_iter().flat_map(of_cache).map(|it| (StoreKind::Cache, it));
        let others = [
            (StoreKind::Overlay, overlay),
            (StoreKind::Crate, shipped(&self.package)),
            (StoreKind::Workspace, shipped(&self.workspace)),
        ];
        let others = others.into_iter().filter_map(|(kind, dir)| Some((kind, dir?)));
        let mut distinct: Vec<Store> = Vec::new();
        for (kind, dir) in of_cache.chain(others) {
            if !distinct.iter().any(|it| it.dir == dir) {
                distinct.push(Store { kind, dir });
            }
        }
        distinct
    }
}

//! A package with kernels: its configuration, sources, and folders of records.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use tvmtune_plan::database::{Cache, CacheUse, DatabaseError, PackageCache, SearchDirs};
use tvmtune_plan::handoff;
use tvmtune_plan::read::{self, limit};
use tvmtune_plan::source::{self, Cfg, Header};

use crate::bindings;
use crate::config::Config;
use crate::error::Error;
use crate::op::{self, InvalidOp, Op, Origin};

/// A package with kernels.
pub struct Package {
    /// The package's name.
    pub name: String,
    /// The folder of its manifest.
    pub manifest_dir: PathBuf,
    /// The folder of the manifest of its workspace.
    pub workspace_dir: Option<PathBuf>,
    /// Its `tvmtune.toml`.
    pub config: Config,
    /// Its kernels, in order of appearance, each plan once; then those that no source shows,
    /// found by earlier expansions.
    pub ops: Vec<Op>,
    /// Source files whose change may change the kernels.
    pub watched: BTreeSet<PathBuf>,
    /// Source files that don't exist yet.
    pub missing: BTreeSet<PathBuf>,
    /// True if the compiler will refuse the sources, for two kernels of one name in one module.
    pub has_clash: bool,
    /// The reasons why headers have no bindings, by the first line that these would have; the kernels that
    /// mention them are not among the ops.
    pub unbound: BTreeMap<String, String>,
    /// Annotated functions that are no programs as far as the sources tell, and that no expansion found: the
    /// compiler refuses them, or gets what they lack from another crate.
    pub invalid: Vec<InvalidOp>,
}

impl Package {
    /// Reads a package's configuration and sources.
    ///
    /// # Errors
    ///
    /// If its `tvmtune.toml` means nothing. Sources that mean nothing are for the compiler.
    pub fn load(
        name: &str,
        manifest_dir: &Path,
        workspace_dir: Option<&Path>,
        cfg: &Cfg,
    ) -> Result<Self, Error> {
        let config = Config::read(manifest_dir)?;
        let unbound = RefCell::new(BTreeMap::new());
        let make = |header: Header, why| {
            let wanted = header.first_line();
            let made = bindings::make(manifest_dir, header, why);
            made.inspect_err(|it| {
                unbound.borrow_mut().insert(wanted, it.clone());
            })
        };
        let scan = source::scan_with(manifest_dir, cfg, &make);
        let unbound = unbound.into_inner();
        let mut seen = BTreeSet::new();
        let (mut ops, mut invalid) = (Vec::new(), Vec::new());
        for found in scan.functions.into_iter().flat_map(Op::all) {
            match found {
                Ok(op) if seen.insert(op.plan_name()) => ops.push(op),
                Ok(_) => {}
                Err(it) if invalid.contains(&it) => {}
                Err(it) => invalid.push(it),
            }
        }
        let mut package = Self {
            name: name.to_owned(),
            manifest_dir: manifest_dir.to_owned(),
            workspace_dir: workspace_dir.map(Path::to_owned),
            config,
            ops,
            watched: scan.watched,
            missing: scan.missing,
            has_clash: scan.has_clash,
            unbound,
            invalid,
        };
        let expanded = package.expanded_ops();
        package.ops.extend(expanded.into_iter().filter(|it| seen.insert(it.plan_name())));
        let is_expanded = |it: &InvalidOp| {
            let function = it.path.rsplit("::").next();
            package.ops.iter().any(|op| !op.is_scanned() && function == Some(op.name()))
        };
        package.invalid.retain(|it| !is_expanded(it));
        op::tell_apart(&mut package.ops);
        for op in &mut package.ops {
            op.weight = package.config.weights.get(op.name()).copied().unwrap_or(op.weight);
        }
        Ok(package)
    }

    /// Returns the names in `[weights]` of `tvmtune.toml` that no kernel has.
    pub fn unknown_weights(&self) -> Vec<&str> {
        let is_known = |name: &str| self.ops.iter().any(|it| it.name() == name);
        self.config.weights.keys().map(String::as_str).filter(|it| !is_known(it)).collect()
    }

    /// Returns the ops that expansions found, those of the present sources first.
    fn expanded_ops(&self) -> Vec<Op> {
        let Some(cache) = self.cache() else { return Vec::new() };
        let modified = |it: &Path| fs::metadata(it).and_then(|it| it.modified()).ok();
        let edited = self.watched.iter().filter_map(|it| modified(it)).max();
        let edited = edited.unwrap_or(SystemTime::UNIX_EPOCH);
        let mut ops = Vec::new();
        for (path, expanded) in handoff::expanded_ops(cache.dir()) {
            let is_current = modified(&path).is_some_and(|it| it >= edited);
            let origin = if is_current { Origin::Expansion } else { Origin::OlderExpansion };
            let op = |source| Some(Op { origin, ..Op::from_source(source, &self.manifest_dir)? });
            ops.extend(expanded.iter().filter_map(|it| op(&it.source)));
        }
        ops.sort_by_key(|it| !it.is_current());
        ops
    }

    /// Returns the folder of the package in the user's cache; `None` if there is no cache.
    pub fn cache(&self) -> Option<PackageCache> {
        Some(Cache::discover()?.package(&self.manifest_dir))
    }

    /// Lets the next build of the package plan anew: for a change of its records.
    ///
    /// # Errors
    ///
    /// If the user's cache can't be written.
    pub fn plan_again(&self) -> Result<(), DatabaseError> {
        self.cache().map_or(Ok(()), |it| it.touch())
    }

    /// Returns the folders in which records of this package are searched.
    pub fn search_dirs(&self, cache: CacheUse) -> SearchDirs {
        SearchDirs {
            package: Some(self.manifest_dir.clone()),
            workspace: self.workspace_dir.clone(),
            cache,
        }
    }

    /// Returns the folder of the records that the package ships.
    pub fn shipped(&self) -> PathBuf {
        self.manifest_dir.join("tvmtune")
    }
}

/// Finds the folder of the workspace of a package: the nearest one above whose manifest declares a
/// workspace.
pub fn workspace_of(manifest_dir: &Path) -> Option<PathBuf> {
    let is_workspace = |it: &&Path| {
        let manifest = read::text(&it.join("Cargo.toml"), limit::SMALL).unwrap_or_default();
        manifest.lines().any(|it| it.trim_start().starts_with("[workspace"))
    };
    manifest_dir.ancestors().find(is_workspace).map(Path::to_owned)
}

//! A package with kernels: its configuration, sources, and folders of records.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use tvmtune_plan::database::{CacheUse, SearchDirs};

use crate::config::Config;
use crate::error::Error;
use crate::op::{self, Op};
use crate::scan::{self, Cfg};

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
    /// Its kernels, in order of appearance, each workload once.
    pub ops: Vec<Op>,
    /// Source files whose change may change the kernels.
    pub watched: BTreeSet<PathBuf>,
    /// Source files that don't exist yet.
    pub missing: BTreeSet<PathBuf>,
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
        let scan = scan::scan(manifest_dir, cfg);
        let mut seen = BTreeSet::new();
        let ops = scan.functions.into_iter().flat_map(Op::all);
        let mut ops: Vec<Op> = ops.filter(|it| seen.insert(it.id.clone())).collect();
        op::tell_apart(&mut ops);
        Ok(Self {
            name: name.to_owned(),
            manifest_dir: manifest_dir.to_owned(),
            workspace_dir: workspace_dir.map(Path::to_owned),
            config,
            ops,
            watched: scan.watched,
            missing: scan.missing,
        })
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
        let manifest = std::fs::read_to_string(it.join("Cargo.toml")).unwrap_or_default();
        manifest.lines().any(|it| it.trim_start().starts_with("[workspace"))
    };
    manifest_dir.ancestors().find(is_workspace).map(Path::to_owned)
}

//! The packages and kernels that a command selects.

use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::scan::Cfg;
use tvmtune_ir::similar;

use crate::cli::Selection;

/// Loads the packages that a selection names, with the kernels that it names.
///
/// # Errors
///
/// If cargo can't read the manifest, a package doesn't exist, or no kernel is left.
pub(crate) fn packages(selection: &Selection) -> Result<Vec<Package>> {
    let metadata = metadata(selection, Scope::Members)?;
    let is_member = |name: &String| metadata.packages.iter().any(|it| it.name.as_str() == name);
    // Dependencies are resolved only if one is named: their sources may have to be downloaded.
    let metadata = match selection.package.iter().all(is_member) {
        true => metadata,
        false => self::metadata(selection, Scope::WithDependencies)?,
    };
    let mut packages = Vec::new();
    for it in &metadata.packages {
        let asked = selection.package.iter().any(|name| it.name.as_str() == name);
        if asked || selection.package.is_empty() {
            let manifest_dir = it.manifest_path.parent().context("a manifest has a folder")?;
            let root = metadata.workspace_root.as_std_path();
            let package = package(&it.name, manifest_dir.as_std_path(), root)?;
            packages.push(package);
        }
    }
    for name in &selection.package {
        if !packages.iter().any(|it| it.name == *name) {
            let known = metadata.packages.iter().map(|it| it.name.as_str());
            match similar::suggestion(name, known) {
                Some(meant) => bail!("there is no package `{name}` here{meant}"),
                None => bail!(
                    "there is no package `{name}` here; `cargo metadata` lists those there are"
                ),
            }
        }
    }
    let names: Vec<String> = packages
        .iter()
        .flat_map(|it| &it.ops)
        .flat_map(|it| [it.name().to_owned(), it.path.clone()])
        .collect();
    for package in &mut packages {
        package.ops.retain(|it| is_selected(it, selection.kernel.as_deref()));
    }
    packages.retain(|it| !it.ops.is_empty());
    if packages.is_empty() {
        match &selection.kernel {
            Some(name) => {
                let meant = similar::suggestion(name, names.iter().map(String::as_str));
                let meant = meant.unwrap_or_else(|| "; run `cargo tvmtune status`".to_owned());
                bail!("no kernel is called `{name}`{meant}")
            }
            None => bail!("no function here is annotated with `#[autotune]`"),
        }
    }
    Ok(packages)
}

fn is_selected(op: &Op, kernel: Option<&str>) -> bool {
    let function = op.path.rsplit("::").next().unwrap_or_default();
    kernel.is_none_or(|it| if it.contains("::") { &op.path } else { function }.contains(it))
}

fn package(name: &str, manifest_dir: &Path, workspace_dir: &Path) -> Result<Package> {
    let package = Package::load(name, manifest_dir, Some(workspace_dir), &Cfg::of_host());
    package.with_context(|| format!("package `{name}`"))
}

/// The packages of the metadata.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Scope {
    Members,
    WithDependencies,
}

/// Asks cargo for the metadata of the workspace.
fn metadata(selection: &Selection, scope: Scope) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    if let Some(path) = &selection.manifest_path {
        command.manifest_path(path);
    }
    if scope == Scope::Members {
        command.no_deps();
    }
    command.exec().context("cargo can't describe the workspace; run `cargo metadata` to see why")
}

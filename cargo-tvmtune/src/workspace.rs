//! Which packages and kernels a command is about.

use std::path::Path;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};
use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_build::scan::Cfg;

use crate::cli::Selection;

/// The packages that a selection names, with the kernels that it names.
///
/// # Errors
///
/// If cargo can't read the manifest, a package doesn't exist, or no kernel is left.
pub(crate) fn packages(selection: &Selection) -> Result<Vec<Package>> {
    let metadata = metadata(selection, true)?;
    let known = |name: &String| metadata.packages.iter().any(|it| it.name.as_str() == name);
    // Dependencies are looked for only when asked for: that may need their sources downloaded.
    let metadata = match selection.package.iter().all(known) {
        true => metadata,
        false => self::metadata(selection, false)?,
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
            bail!("there is no package `{name}` here; `cargo metadata` lists those there are");
        }
    }
    for package in &mut packages {
        package.ops.retain(|it| is_selected(it, selection.kernel.as_deref()));
    }
    packages.retain(|it| !it.ops.is_empty());
    if packages.is_empty() {
        match &selection.kernel {
            Some(name) => bail!("no kernel is called `{name}`; run `cargo tvmtune status`"),
            None => bail!("no function here is annotated with `#[autotune]`"),
        }
    }
    Ok(packages)
}

fn is_selected(op: &Op, kernel: Option<&str>) -> bool {
    kernel.is_none_or(|it| op.name().contains(it))
}

fn package(name: &str, manifest_dir: &Path, workspace_dir: &Path) -> Result<Package> {
    let package = Package::load(name, manifest_dir, Some(workspace_dir), &Cfg::of_host());
    package.with_context(|| format!("package `{name}`"))
}

fn metadata(selection: &Selection, members_only: bool) -> Result<Metadata> {
    let mut command = MetadataCommand::new();
    if let Some(path) = &selection.manifest_path {
        command.manifest_path(path);
    }
    if members_only {
        command.no_deps();
    }
    command.exec().context("cargo can't describe the workspace; run `cargo metadata` to see why")
}

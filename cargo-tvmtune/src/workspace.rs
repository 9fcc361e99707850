//! The packages and kernels that a command selects.

use std::collections::BTreeSet;

use anyhow::{Context, Result, bail};
use cargo_metadata::{Metadata, MetadataCommand};
use tvmtune_build::op::InvalidOp;
use tvmtune_build::package::Package;
use tvmtune_ir::similar;
use tvmtune_plan::source::Cfg;

use crate::cli::{Features, Selection};
use crate::output::eprintln;

/// Loads the packages that a selection names, with the kernels that it names, as far as its features
/// have them.
///
/// # Errors
///
/// If cargo can't read the manifest, a package or feature doesn't exist, or no kernel is left.
pub(crate) fn packages(selection: &Selection) -> Result<Vec<Package>> {
    load(selection, |package| Cfg::of_host().with_features(enabled(package, &selection.features)))
}

/// Loads the same packages with the kernels of any features.
///
/// # Errors
///
/// As those of [`packages`].
pub(crate) fn packages_of_any_features(selection: &Selection) -> Result<Vec<Package>> {
    load(selection, |_| Cfg::of_host())
}

fn load(
    selection: &Selection,
    cfg: impl Fn(&cargo_metadata::Package) -> Cfg,
) -> Result<Vec<Package>> {
    let metadata = metadata(selection, Scope::Members)?;
    let is_member = |name: &String| metadata.packages.iter().any(|it| it.name.as_str() == name);
    // Dependencies are resolved only if one is named: their sources may have to be downloaded.
    let metadata = match selection.package.iter().all(is_member) {
        true => metadata,
        false => self::metadata(selection, Scope::WithDependencies)?,
    };
    let (mut packages, mut features) = (Vec::new(), BTreeSet::new());
    for it in &metadata.packages {
        let asked = selection.package.iter().any(|name| it.name.as_str() == name);
        if asked || selection.package.is_empty() {
            let manifest_dir = it.manifest_path.parent().context("a manifest has a folder")?;
            let root = metadata.workspace_root.as_std_path();
            let package = Package::load(&it.name, manifest_dir.as_std_path(), Some(root), &cfg(it));
            let package = package.with_context(|| format!("package `{}`", it.name))?;
            package.unbound.values().for_each(|it| eprintln!("warning: {it}"));
            packages.push(package);
            features.extend(it.features.keys().cloned());
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
    for name in selection.features.names() {
        let name = name.rsplit('/').next().unwrap_or_default();
        if !features.contains(name) {
            let meant = similar::suggestion(name, features.iter().map(String::as_str));
            bail!("no package here has a feature `{name}`{}", meant.unwrap_or_default());
        }
    }
    let names: Vec<String> = packages
        .iter()
        .flat_map(|it| &it.ops)
        .flat_map(|it| [it.name().to_owned(), it.path.clone()])
        .collect();
    let kernel = selection.kernel.as_deref();
    for package in &mut packages {
        package.ops.retain(|it| is_selected(&it.path, kernel));
        package.invalid.retain(|it| is_selected(&it.path, kernel));
    }
    let invalid: Vec<String> =
        packages.iter().flat_map(|it| &it.invalid).map(InvalidOp::to_string).collect();
    packages.retain(|it| !it.ops.is_empty());
    if let (true, Some((last, others))) = (packages.is_empty(), invalid.split_last()) {
        others.iter().for_each(|it| eprintln!("warning: {it}"));
        bail!("{last}");
    }
    invalid.iter().for_each(|it| eprintln!("warning: {it}"));
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

fn is_selected(path: &str, kernel: Option<&str>) -> bool {
    let function = path.rsplit("::").next().unwrap_or_default();
    kernel.is_none_or(|it| if it.contains("::") { path } else { function }.contains(it))
}

/// Returns the features of a package that are on, with those that they enable.
fn enabled(package: &cargo_metadata::Package, asked: &Features) -> BTreeSet<String> {
    if asked.all_features {
        return package.features.keys().cloned().collect();
    }
    let of_package = |it: &str| match it.split_once('/') {
        Some((name, feature)) => (package.name.as_str() == name).then(|| feature.to_owned()),
        None => Some(it.to_owned()),
    };
    let mut open: Vec<String> = asked.names().filter_map(of_package).collect();
    if !asked.no_default_features {
        open.push("default".to_owned());
    }
    let mut enabled = BTreeSet::new();
    while let Some(name) = open.pop() {
        let Some(others) = package.features.get(&name) else { continue };
        if enabled.insert(name) {
            // `dep:name` and `name/feature` are about dependencies.
            open.extend(others.iter().filter(|it| !it.contains([':', '/'])).cloned());
        }
    }
    enabled
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

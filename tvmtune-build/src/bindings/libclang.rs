//! The search for libclang: by the environment, in the system's folders, in the Python package `libclang`.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A libclang.
pub(super) enum Library {
    /// The one that `LIBCLANG_PATH` names, which `bindgen` reads by itself.
    Named,
    /// A file.
    File(PathBuf),
}

impl Library {
    /// The file, unless the environment names it.
    pub(super) fn path(&self) -> Option<&Path> {
        match self {
            Library::Named => None,
            Library::File(path) => Some(path),
        }
    }
}

/// Folders in which systems keep libraries.
const FOLDERS: [&str; 7] = [
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/opt/homebrew/opt/llvm/lib",
    "/usr/local/opt/llvm/lib",
];

/// Prints the folder of the Python package `clang`.
const PYTHON: &str = "import importlib.util as u; s = u.find_spec('clang'); \
                      print(list(s.submodule_search_locations)[0] if s else '')";

/// Returns a libclang, if there is one.
pub(super) fn find() -> Option<Library> {
    if std::env::var_os("LIBCLANG_PATH").is_some_and(|it| !it.is_empty()) {
        return Some(Library::Named);
    }
    let of_system = versions().into_iter().chain(FOLDERS.map(PathBuf::from));
    let mut folders = of_system.chain(of_python());
    folders.find_map(|it| in_folder(&it)).map(Library::File)
}

/// The folders of the versions of LLVM that Debian and its kin install beside each other, newest first.
fn versions() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    let number = |it: &Path| it.file_name()?.to_str()?.strip_prefix("llvm-")?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|it| Some((number(&it.path())?, it.path().join("lib")))).collect();
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The folder of the library in the Python package.
fn of_python() -> Option<PathBuf> {
    let output = Command::new("python3").args(["-c", PYTHON]).output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    let folder = folder.trim();
    (!folder.is_empty()).then(|| Path::new(folder).join("native"))
}

/// A libclang in a folder, the file without a version first.
fn in_folder(folder: &Path) -> Option<PathBuf> {
    let is_library = |name: &str| {
        let ends = name.ends_with(".so") || name.contains(".so.") || name.ends_with(".dylib");
        ends && (name.starts_with("libclang.") || name.starts_with("libclang-"))
            && !name.starts_with("libclang-cpp")
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|it| it.file_name().into_string().ok())
        .filter(|it| is_library(it))
        .collect();
    names.sort_by_key(|it| (it.len(), it.clone()));
    names.first().map(|it| folder.join(it))
}

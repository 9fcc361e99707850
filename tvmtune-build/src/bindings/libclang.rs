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

/// The folder in which Debian and its kin keep versions of LLVM beside each other.
const VERSIONS: &str = "/usr/lib";

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
    let folders = FOLDERS.map(Path::new);
    search(Path::new(VERSIONS), &folders, || of_python("python3")).map(Library::File)
}

/// Looks in the versions of LLVM first, then in the system's folders, then in that of the Python package,
/// for which Python is asked only then.
fn search(
    versions_in: &Path,
    folders: &[&Path],
    of_python: impl FnOnce() -> Option<PathBuf>,
) -> Option<PathBuf> {
    let versions = versions(versions_in);
    let mut of_system = versions.iter().map(PathBuf::as_path).chain(folders.iter().copied());
    of_system.find_map(in_folder).or_else(|| in_folder(&of_python()?))
}

/// The folders of the versions of LLVM in a folder, newest first.
fn versions(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |it: &Path| it.file_name()?.to_str()?.strip_prefix("llvm-")?.parse::<u32>().ok();
    let mut found: Vec<(u32, PathBuf)> =
        entries.filter_map(|it| Some((number(&it.path())?, it.path().join("lib")))).collect();
    found.sort_by_key(|(number, _)| std::cmp::Reverse(*number));
    found.into_iter().map(|(_, path)| path).collect()
}

/// The folder of the library in the Python package.
fn of_python(program: &str) -> Option<PathBuf> {
    let output = Command::new(program).args(["-c", PYTHON]).output().ok()?;
    of_package(&String::from_utf8(output.stdout).ok()?)
}

/// The folder of the library in the package that Python printed; nothing is printed without the package.
fn of_package(printed: &str) -> Option<PathBuf> {
    let folder = printed.trim();
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
    // A link of a development package may lead nowhere.
    let mut names: Vec<String> = entries
        .filter(|it| it.path().is_file())
        .filter_map(|it| it.file_name().into_string().ok())
        .filter(|it| is_library(it))
        .collect();
    names.sort_by_key(|it| (it.len(), it.clone()));
    names.first().map(|it| folder.join(it))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    /// A folder with these files.
    fn root(files: &[&str]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        root
    }

    /// The file that is found in a root whose folders of libraries are `lib` and `local`, relative to it.
    fn found(files: &[&str], python: Option<&str>) -> Option<String> {
        let root = root(files);
        let at = |it: &str| root.path().join(it);
        let (lib, local) = (at("lib"), at("local"));
        let found = search(&lib, &[&lib, &local], || python.map(at))?;
        Some(found.strip_prefix(root.path()).unwrap().to_str().unwrap().to_owned())
    }

    #[test]
    fn the_newest_version_comes_first_and_versions_before_other_folders() {
        let files =
            ["lib/libclang.so", "lib/llvm-9/lib/libclang.so.1", "lib/llvm-19/lib/libclang.so.1"];
        assert_eq!(found(&files, None).unwrap(), "lib/llvm-19/lib/libclang.so.1");
        assert_eq!(found(&files[..2], None).unwrap(), "lib/llvm-9/lib/libclang.so.1");
        assert_eq!(found(&files[..1], None).unwrap(), "lib/libclang.so");
    }

    #[test]
    fn a_version_without_the_library_is_passed_over() {
        let files =
            ["lib/llvm-20/lib/libLLVM.so", "lib/llvm-x/lib/libclang.so", "local/libclang.dylib"];
        assert_eq!(found(&files, None).unwrap(), "local/libclang.dylib");
    }

    #[test]
    fn the_file_without_a_version_comes_first_in_a_folder() {
        let files = ["lib/libclang-18.so.18", "lib/libclang.so.18.1.1", "lib/libclang.so.18"];
        assert_eq!(found(&files, None).unwrap(), "lib/libclang.so.18");
        let files = [files[0], files[1], "lib/libclang.so"];
        assert_eq!(found(&files, None).unwrap(), "lib/libclang.so");
    }

    #[test]
    fn names_that_only_resemble_it_are_no_library() {
        let files = [
            "lib/libclang.a",
            "lib/libclang-cpp.so.18",
            "lib/libclangBasic.so",
            "lib/libclang.so/folder",
            "lib/libclang.sock",
        ];
        assert_eq!(found(&files, None), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_that_leads_nowhere_is_no_library() {
        let root = root(&["lib/libclang.so.1"]);
        let lib = root.path().join("lib");
        std::os::unix::fs::symlink("libclang.so.2", lib.join("libclang.so")).unwrap();
        assert_eq!(search(root.path(), &[&lib], || None), Some(lib.join("libclang.so.1")));
    }

    #[test]
    fn python_is_asked_last_and_only_if_nothing_else_is_there() {
        let package = "clang/native/libclang.so";
        assert_eq!(found(&[package], Some("clang/native")).unwrap(), package);
        assert_eq!(found(&[package], Some("elsewhere")), None);
        let root = root(&["libclang.so"]);
        let asks = || unreachable!("it was found before");
        assert!(search(Path::new("nowhere"), &[root.path()], asks).is_some());
    }

    #[test]
    fn the_package_is_where_python_says() {
        assert_eq!(of_package("packages/clang\n"), Some("packages/clang/native".into()));
        assert_eq!(of_package("\n"), None, "there is no such package");
        assert_eq!(of_python("no-such-python"), None, "there is no Python");
    }
}

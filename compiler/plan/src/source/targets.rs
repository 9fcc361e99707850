//! The root files of a package's targets: cargo's automatic discovery, and those of the manifest.

use std::path::{Path, PathBuf};

use toml::{Table, Value};

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RootKind {
    /// The library, or a binary.
    Main,
    /// A test, example or benchmark.
    Trial,
}

/// The root file of a target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Root {
    /// The kind of the target.
    pub kind: RootKind,
    /// The file; it exists.
    pub path: PathBuf,
}

impl Root {
    /// The path of the root module in names of kernels: nothing for a library, else the target's
    /// name, which is that of the file, or of its folder where the file is `main.rs`.
    pub(super) fn module(&self) -> Vec<String> {
        let name = |path: &Path| Some(path.file_stem()?.to_string_lossy().replace('-', "_"));
        let folder = || self.path.parent().and_then(name).filter(|it| it != "src");
        match name(&self.path).as_deref() {
            Some("lib") | None => Vec::new(),
            Some("main") => vec![folder().unwrap_or_else(|| "main".to_owned())],
            Some(other) => vec![other.to_owned()],
        }
    }
}

/// The roots of all targets of the package in `manifest_dir`, sorted, each once.
///
/// A manifest that can't be read names no target; cargo has reported it long before.
pub fn roots(manifest_dir: &Path) -> Vec<Root> {
    use RootKind::{Main, Trial};
    let text = std::fs::read_to_string(manifest_dir.join("Cargo.toml")).unwrap_or_default();
    let manifest = text.parse::<Table>().unwrap_or_default();
    let mut roots = Vec::new();
    let mut add = |kind, path: PathBuf| {
        if path.is_file() {
            roots.push(Root { kind, path });
        }
    };
    for default in ["src/lib.rs", "src/main.rs"] {
        add(Main, manifest_dir.join(default));
    }
    let folders = [("src/bin", Main), ("examples", Trial), ("tests", Trial), ("benches", Trial)];
    for (folder, kind) in folders {
        for path in discovered(&manifest_dir.join(folder)) {
            add(kind, path);
        }
    }
    let tables = [("bin", Main), ("example", Trial), ("test", Trial), ("bench", Trial)];
    if let Some(path) = manifest.get("lib").and_then(path_of) {
        add(Main, manifest_dir.join(path));
    }
    for (name, kind) in tables {
        let targets = manifest.get(name).and_then(Value::as_array);
        for path in targets.into_iter().flatten().filter_map(path_of) {
            add(kind, manifest_dir.join(path));
        }
    }
    roots.sort();
    roots.dedup_by(|a, b| a.path == b.path);
    roots
}

fn path_of(target: &Value) -> Option<&str> {
    target.get("path")?.as_str()
}

/// `folder/*.rs` and `folder/*/main.rs`.
fn discovered(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let root = |path: PathBuf| match path.extension() {
        Some(extension) if extension == "rs" => path,
        _ => path.join("main.rs"),
    };
    entries.filter_map(|entry| Some(root(entry.ok()?.path()))).collect()
}

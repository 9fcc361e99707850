//! The tree against its own rules: headers, sizes, the map of ARCHITECTURE.md, who may use whom.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Lines a source file may have at most.
const MAX_LINES: usize = 600;

/// Which crates of ours each crate may depend on. A new edge needs an ADR.
const EDGES: &[(&str, &[&str])] = &[
    ("tvmtune-core", &[]),
    ("tvmtune-macros", &["tvmtune-core"]),
    ("tvmtune-runtime", &["tvmtune-macros"]),
    ("tvmtune-device", &[]),
    ("tvmtune-tuner", &["tvmtune-core", "tvmtune-device", "tvmtune-runtime"]),
    ("tvmtune-build", &["tvmtune-core", "tvmtune-tuner"]),
    ("tvmtune-zoo", &["tvmtune-core"]),
    ("cargo-tvmtune", &["tvmtune-build", "tvmtune-core", "tvmtune-tuner", "tvmtune-zoo"]),
    ("tvmtune-emulator", &[]),
];

/// Uses of later modules in the core, with the reason that each has.
const FORWARD: &[(&str, &str)] = &[
    // Reading a program proves its reads, in the terms of the dag it becomes.
    ("dsl", "dag"),
    // Folding constants is evaluating them.
    ("dag", "interp"),
    // Embedded code says which tier its schedule has.
    ("codegen", "record"),
    // Tiles are as large as the registers of the instruction set allow.
    ("schedule", "kernel"),
    // The default schedule of a GPU is one that can be placed.
    ("schedule", "nest"),
    ("schedule", "grid"),
    ("target", "grid"),
    ("target", "kernel"),
    ("target", "nest"),
    ("target", "schedule"),
];

/// Names that the pure core must not mention.
const IMPURE: &[&str] = &["std::fs", "std::env", "std::process", "std::thread", "std::time"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every file below the root that is not built or versioned by others, relative, sorted.
fn files() -> Vec<PathBuf> {
    fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                let built = name == "target" && path.join("CACHEDIR.TAG").is_file();
                if !built && name != ".git" {
                    walk(&path, found);
                }
            } else {
                found.push(path);
            }
        }
    }
    let (root, mut found) = (root(), Vec::new());
    walk(&root, &mut found);
    let mut relative: Vec<PathBuf> =
        found.iter().map(|it| it.strip_prefix(&root).unwrap().to_owned()).collect();
    relative.sort();
    relative
}

fn rust_files() -> impl Iterator<Item = (String, String)> {
    files().into_iter().filter(|it| it.extension().is_some_and(|it| it == "rs")).map(|it| {
        (it.to_str().unwrap().replace('\\', "/"), fs::read_to_string(root().join(&it)).unwrap())
    })
}

/// Fails with all findings at once.
#[track_caller]
fn check(findings: Vec<String>) {
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

#[test]
fn every_source_file_opens_with_its_place() {
    let cases = |path: &str| path.starts_with("tests/ui/") || path.starts_with("tests/programs/");
    check(
        rust_files()
            .filter(|(path, text)| !cases(path) && !text.starts_with("//!"))
            .map(|(path, _)| format!("{path}: no header; say where the file stands"))
            .collect(),
    );
}

#[test]
fn no_source_file_is_too_long() {
    check(
        rust_files()
            .map(|(path, text)| (path, text.lines().count()))
            .filter(|(_, n_lines)| *n_lines > MAX_LINES)
            .map(|(path, n_lines)| format!("{path}: {n_lines} lines; at most {MAX_LINES}"))
            .collect(),
    );
}

#[test]
fn the_map_in_the_architecture_is_the_tree() {
    let mapped = map_of(&fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap());
    let is_source = |path: &str| path.contains("/src/") || path.starts_with("tests/suite/");
    let existing: BTreeSet<String> =
        rust_files().map(|(path, _)| path).filter(|it| is_source(it)).collect();
    let missing = existing.difference(&mapped).map(|it| format!("{it}: not in ARCHITECTURE.md"));
    let stale = mapped.difference(&existing).map(|it| format!("{it}: mapped, but gone"));
    check(missing.chain(stale).collect());
}

/// The files that fenced blocks of the document list: an unindented folder that ends in `/`, then
/// indented lines that begin with a file's path below it.
fn map_of(document: &str) -> BTreeSet<String> {
    let (mut mapped, mut folder, mut fenced) = (BTreeSet::new(), "", false);
    for line in document.lines() {
        let first = line.split_whitespace().next().unwrap_or("");
        if line.starts_with("```") {
            (fenced, folder) = (!fenced, "");
        } else if fenced && !line.starts_with(' ') && first.ends_with('/') {
            folder = first;
        } else if fenced && line.starts_with("  ") && first.ends_with(".rs") && !folder.is_empty() {
            mapped.insert(format!("{folder}{first}"));
        }
    }
    mapped
}

#[test]
fn crates_depend_on_each_other_only_where_allowed() {
    let mut findings = Vec::new();
    for (name, allowed) in EDGES {
        let folder = if *name == "tvmtune-device" { "kernels/device" } else { name };
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let normal = manifest.split("[dev-dependencies]").next().unwrap();
        for (other, _) in EDGES.iter().filter(|(other, _)| other != name) {
            let depends = normal.lines().any(|line| {
                line.strip_prefix(other).is_some_and(|rest| rest.starts_with([' ', '.', '=']))
            });
            if depends && !allowed.contains(other) {
                findings.push(format!("{name} depends on {other}"));
            }
        }
    }
    check(findings);
}

#[test]
fn the_core_is_pure_and_its_steps_use_earlier_steps_only() {
    let lib = fs::read_to_string(root().join("tvmtune-core/src/lib.rs")).unwrap();
    let order: BTreeMap<&str, usize> = lib
        .lines()
        .filter_map(|line| line.strip_prefix("pub mod ")?.split(';').next())
        .enumerate()
        .map(|(n, module)| (module, n))
        .collect();
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let Some(inside) = path.strip_prefix("tvmtune-core/src/") else { continue };
        let module = inside.split(['/', '.']).next().unwrap();
        if inside.contains("tests/") || inside.ends_with("tests.rs") {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|it| !it.trim_start().starts_with("//")) {
            findings.extend(
                IMPURE.iter().filter(|it| line.contains(*it)).map(|it| format!("{path}: {it}")),
            );
            let used = line.trim_start().strip_prefix("use crate::");
            let Some(used) = used.and_then(|it| it.split([':', ';']).next()) else { continue };
            if let (Some(here), Some(there)) = (order.get(module), order.get(used))
                && there > here
                && !FORWARD.contains(&(module, used))
            {
                findings.push(format!("{path}: uses `{used}`, a later step"));
            }
        }
    }
    check(findings);
}

#[test]
fn the_readme_shows_the_quickstart() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    let quickstart =
        |path| fs::read_to_string(root().join("examples/quickstart").join(path)).unwrap();
    let mut shown = readme.split("```rust\n").skip(1).filter_map(|it| it.split("```").next());
    let op = shown.next().unwrap();
    assert!(op.contains("#[autotune("), "the first example is an op:\n{op}");
    assert!(quickstart("src/main.rs").contains(op), "not in the quickstart:\n{op}");
    let script = shown.next().and_then(|it| it.strip_prefix("// build.rs\n")).unwrap();
    assert!(quickstart("build.rs").contains(script), "not in the quickstart:\n{script}");
}

#[test]
fn unsafe_code_is_where_the_rules_allow_it() {
    // The macro writes `unsafe` into expansions, where a compiler checks nothing of ours.
    let allowed = |path: &str| {
        [
            "tvmtune-runtime/src/cpu/",
            "tvmtune-runtime/src/cuda/",
            "tvmtune-runtime/src/candle/queue.rs",
            "tvmtune-macros/src/emit/",
            "tests/driver/src/",
        ]
        .iter()
        .any(|it| path.starts_with(it))
            || path.contains("/tests/")
    };
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let opens = |line: &str| {
            let code = line.trim_start();
            !code.starts_with("//") && code.contains("unsafe {") && !code.contains('"')
        };
        if !allowed(&path) && path.contains("/src/") && text.lines().any(opens) {
            findings.push(format!("{path}: unsafe block"));
        }
    }
    check(findings);
}

#[test]
fn no_file_names_a_path_of_one_machine() {
    let text_file = |path: &Path| {
        matches!(
            path.extension().and_then(|it| it.to_str()),
            Some("rs" | "md" | "toml" | "py" | "sh")
        )
    };
    let mut findings = Vec::new();
    for path in files().iter().filter(|it| text_file(it)) {
        let text = fs::read_to_string(root().join(path)).unwrap();
        for place in text.lines().flat_map(absolute_paths).filter(|it| !EVERYWHERE.contains(it)) {
            findings.push(format!("{}: a path below /{place}", path.display()));
        }
    }
    check(findings);
}

/// Folders that every machine has, and the first parts of what looks like a path and is none:
/// sources within a package, and the home of nobody in examples.
const EVERYWHERE: [&str; 11] =
    ["bin", "dev", "etc", "home", "opt", "proc", "src", "sys", "tests", "tmp", "usr"];

/// The first folder of each absolute path in a line.
fn absolute_paths(line: &str) -> Vec<&str> {
    let starts = line.match_indices('/').filter(|(at, _)| {
        let before = line[..*at].chars().next_back();
        before.is_none_or(|it| it.is_whitespace() || "\"'`(=<[,".contains(it))
    });
    let folder = |(at, _)| {
        let (name, _) = line[at + 1..].split_once('/')?;
        let is_name = !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric());
        is_name.then_some(name)
    };
    starts.filter_map(folder).collect()
}

#[test]
fn absolute_paths_are_found() {
    let found = absolute_paths("see `/etc/a`, \"/proc/b\" and a/b/c; https://x.y/z/, 1 / 2 / 3");
    assert_eq!(found, ["etc", "proc"]);
}

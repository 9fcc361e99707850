//! The tree against its own rules: headers, sizes, documents, dependencies between crates.

use std::fs;
use std::path::{Path, PathBuf};

/// Lines a source file may have at most.
const MAX_LINES: usize = 600;

/// The folder of each crate in walking order, and the crates it may depend on: none that comes
/// later, but for the runtime, which launches what the tuner measures. A new edge needs an ADR.
const CRATES: &[(&str, &[&str])] = &[
    ("math", &[]),
    ("compiler/ir", &["math"]),
    ("compiler/schedule", &["ir"]),
    ("compiler/cpu", &["ir", "schedule", "math"]),
    ("compiler/cuda", &["ir", "schedule"]),
    ("compiler/space", &["ir", "schedule", "cpu", "cuda"]),
    ("compiler/plan", &["ir", "schedule", "cpu", "cuda", "space"]),
    ("tvmtune-macros", &["ir", "cpu", "plan"]),
    ("tvmtune-runtime", &["macros", "math"]),
    ("kernels/device", &[]),
    ("tuner", &["ir", "schedule", "cpu", "cuda", "space", "plan", "device", "runtime"]),
    ("tvmtune-build", &["ir", "schedule", "cpu", "cuda", "space", "plan", "tuner"]),
    ("fleet", &["ir", "schedule", "cpu", "cuda", "space", "plan", "tuner", "build"]),
    ("zoo", &["ir"]),
    ("emulator", &[]),
    ("acceptance", &["ir", "schedule", "cuda", "space", "plan", "runtime", "tuner"]),
    (
        "cargo-tvmtune",
        &[
            "ir", "schedule", "cpu", "cuda", "space", "plan", "tuner", "build", "fleet", "zoo",
            "emulator",
        ],
    ),
];

/// Crates that touch nothing but their arguments.
const PURE: &[&str] = &[
    "math",
    "compiler/ir",
    "compiler/schedule",
    "compiler/cpu",
    "compiler/cuda",
    "compiler/space",
];

/// Names that pure crates must not mention.
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
    let cases = |path: &str| {
        path.starts_with("tests/ui/")
            || path.starts_with("tests/programs/")
            // Written by `bindgen`.
            || path.contains("tvmtune/bindings/")
            // Included in modules.
            || path.starts_with("examples/custom_kernel/kernels/")
    };
    check(
        rust_files()
            .filter(|(path, text)| !cases(path) && !text.starts_with("//!"))
            .map(|(path, _)| format!("{path}: no header; say where the file stands"))
            .collect(),
    );
}

/// Files that read what is not of others: sources of the crate, the system's own files, folders and files
/// that are locked and not read, and files that a user names on the command line.
const READERS: &[&str] = &[
    "compiler/plan/src/read.rs",
    "compiler/plan/src/device.rs",
    "compiler/plan/src/process.rs",
    "compiler/plan/src/database/holder.rs",
    "compiler/plan/src/database/lock.rs",
    "compiler/plan/src/source/",
    "tvmtune-macros/src/compiler.rs",
    "tvmtune-macros/src/parent.rs",
    "tvmtune-build/src/tune/session.rs",
    "cargo-tvmtune/src/command/doctor.rs",
    "cargo-tvmtune/src/command/profile.rs",
    "cargo-tvmtune/src/profile/runs.rs",
    "cargo-tvmtune/src/study/",
];

#[test]
fn files_of_others_are_read_through_one_function() {
    let crates = [
        "compiler/plan/",
        "tvmtune-macros/",
        "tvmtune-build/",
        "tuner/src/",
        "fleet/src/",
        "cargo-tvmtune/",
    ];
    let reads = ["fs::read(", "fs::read_to_string(", "File::open("];
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let is_ours = crates.iter().any(|it| path.starts_with(it)) && !path.contains("tests");
        if !is_ours || READERS.iter().any(|it| path.starts_with(it)) {
            continue;
        }
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let found = code.lines().filter(|line| reads.iter().any(|it| line.contains(it)));
        findings.extend(found.map(|it| format!("{path}: {}: use `tvmtune_plan::read`", it.trim())));
    }
    check(findings);
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
fn the_architecture_has_a_paragraph_for_each_crate_and_stays_short() {
    let document = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let n_lines = document.lines().count();
    assert!(n_lines <= 250, "ARCHITECTURE.md: {n_lines} lines; at most 250");
    let members = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let members = members.split("members = [").nth(1).unwrap().split(']').next().unwrap();
    let folders = members.split(',').map(|it| it.trim().trim_matches('"'));
    let folders = folders.filter(|it| !it.is_empty());
    let missing = folders.filter(|it| !document.contains(&format!("**`{it}`**")));
    check(missing.map(|it| format!("{it}: no paragraph in ARCHITECTURE.md")).collect());
}

#[test]
fn paths_in_documents_exist() {
    let mut findings = Vec::new();
    for document in ["ARCHITECTURE.md", "CONTRIBUTING.md", "GLOSSARY.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        for quoted in text.split('`').skip(1).step_by(2) {
            let is_path = quoted.contains('/')
                && (quoted.ends_with(".rs") || quoted.ends_with('/'))
                && quoted.chars().all(|it| it.is_ascii_alphanumeric() || "_-./".contains(it));
            if is_path && !quoted.starts_with('/') && !root().join(quoted).exists() {
                findings.push(format!("{document}: `{quoted}` does not exist"));
            }
        }
    }
    check(findings);
}

#[test]
fn crates_depend_on_each_other_only_where_allowed() {
    let names: Vec<String> = CRATES
        .iter()
        .map(|(folder, _)| folder.rsplit('/').next().unwrap())
        .map(|it| it.strip_prefix("tvmtune-").unwrap_or(it).to_owned())
        .collect();
    let mut findings = Vec::new();
    for (folder, allowed) in CRATES {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml")).unwrap();
        let normal = manifest.split("[dev-dependencies]").next().unwrap();
        let keys = normal.lines().filter_map(|it| it.strip_prefix("tvmtune-"));
        let used = keys.filter_map(|it| it.split([' ', '.', '=']).next());
        findings.extend(
            used.filter(|it| names.iter().any(|name| name == it) && !allowed.contains(it))
                .map(|it| format!("{folder} depends on {it}")),
        );
    }
    check(findings);
}

#[test]
fn compiler_crates_touch_nothing_but_their_arguments() {
    let mut findings = Vec::new();
    for (path, text) in rust_files() {
        let is_test = path.contains("tests");
        if is_test || !PURE.iter().any(|it| path.starts_with(&format!("{it}/src/"))) {
            continue;
        }
        let code = text.split("#[cfg(test)]").next().unwrap();
        for line in code.lines().filter(|it| !it.trim_start().starts_with("//")) {
            let impure = IMPURE.iter().filter(|it| line.contains(*it));
            findings.extend(impure.map(|it| format!("{path}: {it}")));
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
            "tests/campaign/src/system/alien.rs",
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

/// Lines before an unsafe block in which its reason begins.
const REASON_LINES: usize = 6;

#[test]
fn unsafe_code_says_why_it_is_sound() {
    // Clippy sees no blocks in the text that macros write, nor in what tests compile.
    let opens = |line: &str| {
        let code = line.trim_start();
        let is_code = !code.starts_with("//") && !code.contains('"');
        is_code && (code.contains("unsafe {") || code.contains("unsafe impl"))
    };
    let mut findings = Vec::new();
    // Programs of users who were told that theirs may have none.
    for (path, text) in rust_files().filter(|(path, _)| !path.contains("dsl/tests/")) {
        let lines: Vec<&str> = text.lines().collect();
        for (n, _) in lines.iter().enumerate().filter(|(_, line)| opens(line)) {
            let before = &lines[n.saturating_sub(REASON_LINES)..n];
            if !before.iter().any(|it| it.contains("SAFETY: ")) {
                findings.push(format!("{path}:{}: no `SAFETY` comment", n + 1));
            }
        }
    }
    check(findings);
}

#[test]
fn tests_that_documents_name_exist() {
    let code: String = rust_files().map(|(_, text)| text).collect();
    let mut findings = Vec::new();
    for document in ["docs/safety.md", "docs/security.md", "docs/reliability.md"] {
        let text = fs::read_to_string(root().join(document)).unwrap();
        // Without blocks of commands.
        let prose: String = text.split("```").step_by(2).collect();
        for name in prose.split('`').skip(1).step_by(2) {
            let is_path = name.contains('/')
                && !name.ends_with('/')
                && (name.contains(".rs") || !name.contains(' '));
            let is_test = name.matches('_').count() > 2 && !name.contains(['/', ':']);
            let missing = is_test && !code.contains(&format!("fn {name}()"));
            if missing || is_path && !root().join(name).exists() {
                findings.push(format!("{document}: there is no `{name}`"));
            }
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

//! What a crate takes on that enables nothing but the defaults: docs/dependencies.md and deny.toml, held to
//! cargo's own answer.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// A platform that the page speaks of, whatever machine runs the test.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

/// A row of the page: name, license, and `yes` if a build script runs.
type Row = [String; 3];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).current_dir(root()).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the crates of others below a package, as `name version`.
fn crates_below(package: &str) -> BTreeSet<String> {
    let tree = cargo(&[
        "tree",
        "-p",
        package,
        "-e",
        "normal,build",
        "--target",
        PLATFORM,
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--offline",
    ]);
    // Crates of the workspace have a path behind their version.
    let is_foreign = |it: &&str| !it.contains('/');
    let name = |it: &str| it.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    tree.lines().filter(|it| !it.is_empty()).filter(is_foreign).map(name).collect()
}

/// Returns what cargo knows of each crate, by `name version`.
fn known() -> BTreeMap<String, Row> {
    let text = cargo(&["metadata", "--format-version", "1", "--filter-platform", PLATFORM]);
    let metadata: Value = serde_json::from_str(&text).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let row = |package: &Value| {
        let text = |key: &str| package[key].as_str().unwrap_or_default().to_owned();
        let targets = package["targets"].as_array().unwrap();
        let is_script =
            |it: &Value| it["kind"].as_array().unwrap().contains(&"custom-build".into());
        let script = if targets.iter().any(is_script) { "yes" } else { "" };
        let key = format!("{} v{}", text("name"), text("version"));
        (key, [text("name"), text("license"), script.to_owned()])
    };
    packages.iter().map(row).collect()
}

#[test]
fn the_page_of_dependencies_lists_what_a_user_takes_on() {
    let known = known();
    let taken_on: Vec<&Row> = crates_below("quickstart").iter().map(|it| &known[it]).collect();
    let page = std::fs::read_to_string(root().join("docs/dependencies.md")).unwrap();
    let rows = page.lines().filter_map(|it| it.strip_prefix("| ")).skip(1);
    let listed: Vec<Row> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            [cells[0], cells[1], cells[2]].map(str::to_owned)
        })
        .collect();
    assert_eq!(listed.iter().collect::<Vec<_>>(), taken_on, "docs/dependencies.md is out of date");
}

#[test]
fn a_user_takes_on_one_version_of_each_crate() {
    for package in ["quickstart", "tvmtune-build", "tvmtune-runtime"] {
        let crates = crates_below(package);
        let names: BTreeSet<&str> = crates.iter().filter_map(|it| it.split(' ').next()).collect();
        assert_eq!(names.len(), crates.len(), "{package}: {crates:?}");
    }
}

#[test]
fn an_application_links_few_crates() {
    // `{p}` of a crate that runs at build time only ends so.
    let tree = cargo(&[
        "tree",
        "-p",
        "quickstart",
        "-e",
        "normal,no-proc-macro",
        "--target",
        PLATFORM,
        "--prefix",
        "none",
        "--format",
        "{p}",
        "--offline",
    ]);
    let names: BTreeSet<&str> = tree.lines().filter_map(|it| it.split(' ').next()).collect();
    let expected = [
        "bitflags",
        "libm",
        "linux-raw-sys",
        "quickstart",
        "rustix",
        "thiserror",
        "tvmtune-math",
        "tvmtune-runtime",
    ];
    assert_eq!(names, BTreeSet::from(expected));
}

#[test]
fn the_licenses_of_what_a_user_takes_on_are_allowed() {
    let config = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let config: toml::Table = config.parse().unwrap();
    let allowed = config["licenses"]["allow"].as_array().unwrap();
    let allowed: Vec<&str> = allowed.iter().filter_map(|it| it.as_str()).collect();
    let is_allowed = |license: &str| {
        let choice = |it: &str| it.split(" OR ").any(|it| allowed.contains(&it));
        license.replace(['(', ')'], "").split(" AND ").all(choice)
    };
    let known = known();
    for [name, license, _] in crates_below("quickstart").iter().map(|it| &known[it]) {
        assert!(is_allowed(license), "{name}: {license}");
    }
}

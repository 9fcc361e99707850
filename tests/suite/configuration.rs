//! `docs/configuration.md` names the keys of `tvmtune.toml`: all of them, and no others.

use std::fs;
use std::path::Path;

use tvmtune_build::config::{self, Config};

/// The part of the page that is about the file, not about variables.
fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/configuration.md");
    let page = fs::read_to_string(path).unwrap();
    page.split("\n## ").next().map(str::to_owned).unwrap_or_default()
}

/// Reads a text as the `tvmtune.toml` of a package.
#[track_caller]
fn read(text: &str) -> Config {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join(config::FILE_NAME), text).unwrap();
    Config::read(folder.path()).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

/// The keys of the table, `budget.trials`, each with its example.
fn documented() -> Vec<(String, String)> {
    let cells = |line: &str| -> Option<(String, String)> {
        let mut cells = line.strip_prefix("| `")?.split("` | ");
        let (key, example) = (cells.next()?, cells.next()?);
        Some((key.to_owned(), example.trim_matches('`').to_owned()))
    };
    document().lines().filter_map(cells).collect()
}

#[test]
fn every_key_is_documented() {
    let keys = config::keys();
    let known = keys.iter().flat_map(|(section, keys)| {
        keys.iter().map(move |key| match *section {
            "" => (*key).to_owned(),
            section => format!("{section}.{key}"),
        })
    });
    // Keys of sections without any are names of kernels: the page has one as an example.
    let named = keys.iter().filter(|it| it.1.is_empty()).map(|it| format!("{}.mlp_down", it.0));
    let mut known: Vec<String> = known.chain(named).collect();
    let mut documented: Vec<String> = documented().into_iter().map(|(key, _)| key).collect();
    known.sort();
    documented.sort();
    assert_eq!(documented, known);
}

#[test]
fn every_documented_key_is_read_and_its_example_is_not_the_default() {
    for (key, example) in documented() {
        let text = format!("{key} = {example}\n");
        let config = read(&text);
        assert_ne!(config, Config::default(), "{text}");
    }
}

#[test]
fn the_documented_file_is_read() {
    let document = document();
    let file = document.split("```toml\n").nth(1).and_then(|it| it.split("```").next()).unwrap();
    let config = read(file);
    for (key, _) in documented() {
        let name = key.rsplit('.').next().unwrap();
        assert!(file.contains(&format!("{name} = ")), "{key} is not in the example");
    }
    assert_eq!(config.policy.require.len(), 2);
}

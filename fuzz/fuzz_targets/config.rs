//! `tvmtune.toml`: read as a build reads it, or an error that says why not.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use tvmtune_build::config::{Config, FILE_NAME};

static FOLDER: LazyLock<TempDir> =
    LazyLock::new(|| tempfile::tempdir().expect("a temporary folder"));

fuzz_target!(|text: &[u8]| {
    std::fs::write(FOLDER.path().join(FILE_NAME), text).expect("room for a file");
    if let Err(error) = Config::read(FOLDER.path()) {
        assert!(!error.to_string().is_empty());
    }
});

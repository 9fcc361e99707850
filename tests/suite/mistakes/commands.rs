//! Mistakes in `tvmtune.toml` and on the command line.

use tvmtune_tests::sandbox::{SOURCE, Sandbox, said};

use super::Row;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");

/// Runs a command; returns its standard error, without the folder of the package.
fn row(mistake: &'static str, sandbox: &Sandbox, written: &str, arguments: &[&str]) -> Row {
    let said = said(sandbox.command(TVMTUNE).args(arguments));
    assert_eq!(said.code, Some(2), "{mistake}: {said:?}");
    let folder = format!("{}/", sandbox.package().display());
    // Not the quotation of a file, which begins with numbers of lines.
    let is_quoted = |it: &&str| it.trim_start_matches([' ', '0', '1', '2', '3']).starts_with('|');
    let lines = said.err.lines().filter(|it| !it.is_empty() && !is_quoted(it));
    let lines = lines.map(|it| it.replace(&folder, "").trim().to_owned());
    Row { mistake, written: written.to_owned(), printed: lines.collect() }
}

/// Runs a command in a package with this `tvmtune.toml`.
fn toml(mistake: &'static str, text: &str) -> Row {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    sandbox.write("tvmtune.toml", text);
    row(mistake, &sandbox, text, &["status"])
}

pub(super) fn configuration() -> Vec<Row> {
    vec![
        toml("a misspelt key", "[budget]\ntrails = 200"),
        toml("a misspelt section", "[budgets]\ntrials = 200"),
        toml("a time without a unit", "[budget]\ntotal = \"600\""),
        toml("a number where a time belongs", "[budget]\nper_kernel = 20"),
        toml("an instruction set that does not exist", "[policy]\nrequire = [\"sse\"]"),
        toml("an architecture that does not exist", "[targets]\ncuda = [\"sm_91\"]"),
    ]
}

pub(super) fn rows() -> Vec<Row> {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let command = |mistake, written: &str| {
        let arguments: Vec<&str> = written.split(' ').skip(2).collect();
        row(mistake, &sandbox, written, &arguments)
    };
    vec![
        command("a misspelt command", "cargo tvmtune tun"),
        command("a misspelt option", "cargo tvmtune tune --trails 100"),
        command("a misspelt package", "cargo tvmtune status -p sandbx"),
        command("a misspelt kernel", "cargo tvmtune status -k scaled_summ"),
        command("a time without a unit", "cargo tvmtune tune --budget 600"),
        command("a GPU without `cuda:`", "cargo tvmtune compile --target sm_90a"),
        command("an instruction set that does not exist", "cargo tvmtune check --require sse"),
    ]
}

//! Mistakes of builds: in modes, build scripts, budgets and records.

use std::fs;

use tvmtune_tests::sandbox::{SOURCE, Sandbox, said};

use super::Row;
use crate::cargo::command;

/// Runs `cargo check` in a package; returns what tvmtune prints, with its folder left out.
fn check(mistake: &'static str, sandbox: &Sandbox, variable: (&str, &str), written: &str) -> Row {
    let (name, value) = variable;
    let output = said(command(sandbox, "", &["check"]).env(name, value));
    // With mode `use`, mistakes are warnings.
    assert_eq!(output.code == Some(0), value == "use", "{mistake}: {output:?}");
    let folder = format!("{}/", sandbox.package().display());
    let is_ours = |it: &&str| it.contains("tvmtune:") || it.contains("TVMTUNE");
    let lines = output.err.lines().filter(is_ours).map(|it| it.replace(&folder, ""));
    let lines = lines.map(|it| it.trim_start_matches("error: ").to_owned());
    Row { mistake, written: written.to_owned(), printed: lines.collect() }
}

/// The variables of a command in front of it, as one types them.
fn typed((name, value): (&str, &str)) -> String {
    format!("{name}={value} cargo check")
}

pub(super) fn rows() -> Vec<Row> {
    const REQUIRE: (&str, &str) = ("TVMTUNE", "require");
    const UNSEEN: &str = "macro_rules! kernels { ($name:ident) => {
            #[tvmtune_runtime::autotune(dims(N = 8))]
            pub fn $name(x: Tensor<f32, N>) -> Tensor<f32, N> { compute(|n| x[[n]] * 2.0) }
        } }
        kernels! { twice }
        ";
    let row = |mistake, name: &str, source: &str, variable: (&str, &str)| {
        let sandbox = Sandbox::new(name, source);
        check(mistake, &sandbox, variable, &typed(variable))
    };
    let without_script = |mistake, name: &str, variable: (&str, &str), file: Option<&str>| {
        let sandbox = Sandbox::new(name, SOURCE).without_script();
        if let Some(file) = file {
            sandbox.write(file, "schema = 1\n");
        }
        let written = file.map_or_else(|| typed(variable), |it| format!("touch {it}"));
        check(mistake, &sandbox, variable, &written)
    };
    vec![
        row("a misspelt mode", "misspelt", SOURCE, ("TVMTUNE", "requre")),
        without_script(
            "a misspelt mode without a build script",
            "bare",
            ("TVMTUNE", "requre"),
            None,
        ),
        row("records are required, and there are none", "unrecorded", SOURCE, REQUIRE),
        row("and an op that a macro writes has none", "written", UNSEEN, REQUIRE),
        without_script("and there is no build script", "scriptless_too", REQUIRE, None),
        without_script(
            "a configuration without a build script",
            "configured",
            ("TVMTUNE", "use"),
            Some("tvmtune.toml"),
        ),
        folder_that_is_a_file(),
    ]
}

/// Where the records of a kernel should lie is something else.
fn folder_that_is_a_file() -> Row {
    let sandbox = Sandbox::new("flat", SOURCE);
    sandbox.write("tvmtune/scaled_sum", "");
    let variable = ("TVMTUNE", "use");
    let row = check("a file where records belong", &sandbox, variable, "touch tvmtune/scaled_sum");
    assert!(fs::metadata(sandbox.package().join("tvmtune/scaled_sum")).is_ok());
    row
}

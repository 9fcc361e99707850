//! Mistakes that users make, and what they are told: the table in `docs/mistakes.md`.
//!
//! A case is a text with one mistake. Cases of the language are modules of a few crates, which cargo
//! checks in one run; others run a command, or a launch. The output must be one error for each
//! mistake, and that of `docs/mistakes.md`: `TVMTUNE_WRITE_FIXTURES=1` writes that file anew.
//!
//! To add a case, add it to the list of its kind: [`language`] for what rustc and the macro refuse,
//! [`builds`] for what builds refuse, [`launches`] for errors of launches, [`commands`] for `tvmtune.toml` and the command line. A kind
//! of its own is a function here that returns [`Row`]s, and a line in [`sections`].

mod beyond;
mod builds;
mod commands;
mod language;
mod launches;
mod room;
mod rustc;

use std::fmt::Write;
use std::fs;
use std::path::Path;

/// One mistake, and what is printed.
struct Row {
    /// In words.
    mistake: &'static str,
    /// As written.
    written: String,
    /// All that is printed about it, one line for each error.
    printed: Vec<String>,
}

const HEADER: &str = "\
# Mistakes, and what they are answered

Each line is a mistake that is easy to make, as somebody would write it, and what is printed. \
The first part of an answer is the text that the error points at.
The file is written by the test that makes the mistakes, `tests/suite/mistakes`: \
`TVMTUNE_WRITE_FIXTURES=1 cargo test -p tvmtune-tests --test suite mistakes`.
`#[autotune]` cannot see what is around its function: what rustc says of a missing `use`, or of a \
function without `self` inside of an `impl` (move it out), is rustc's.
";

/// The parts of the table.
fn sections() -> Vec<(&'static str, Vec<Row>)> {
    let mut sections = rustc::rows(&language::sections());
    sections.push(("In a build", builds::rows()));
    sections.push(("At a launch", launches::rows()));
    sections.push(("In `tvmtune.toml`", commands::configuration()));
    sections.push(("On the command line", commands::rows()));
    sections
}

#[test]
fn each_mistake_is_answered_once_and_as_the_documentation_says() {
    let sections = sections();
    let n_rows: usize = sections.iter().map(|(_, rows)| rows.len()).sum();
    assert!(n_rows >= 45, "{n_rows} mistakes");
    let text = document(&sections);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/mistakes.md");
    if std::env::var_os("TVMTUNE_WRITE_FIXTURES").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    let differing = text.lines().filter(|it| !written.lines().any(|other| other == *it));
    let differing: Vec<&str> = differing.collect();
    assert!(
        written == text,
        "docs/mistakes.md differs; `TVMTUNE_WRITE_FIXTURES=1` writes it anew. New lines:\n{}",
        differing.join("\n")
    );
}

/// The text of `docs/mistakes.md`.
fn document(sections: &[(&str, Vec<Row>)]) -> String {
    let mut text = HEADER.to_owned();
    for (title, rows) in sections {
        write!(text, "\n## {title}\n\n| mistake | written | printed |\n|---|---|---|\n").unwrap();
        for Row { mistake, written, printed } in rows {
            let written = written.lines().map(|it| code(it.trim())).collect::<Vec<_>>();
            let printed: Vec<String> = printed.iter().map(|it| escaped(it)).collect();
            let (written, printed) = (written.join("<br>"), printed.join("<br>"));
            writeln!(text, "| {mistake} | {written} | {printed} |").unwrap();
        }
    }
    text
}

/// A text as code in a cell of a table.
fn code(text: &str) -> String {
    let fence = if text.contains('`') { "``" } else { "`" };
    format!("{fence}{}{fence}", text.replace('|', "\\|"))
}

/// A message in a cell of a table: its own quotes are code, the rest is text.
fn escaped(message: &str) -> String {
    let outside = |it: &str| it.replace('<', "&lt;").replace('*', "\\*").replace('_', "\\_");
    let parts = message.replace('|', "\\|");
    let parts = parts.split('`').enumerate();
    let parts: Vec<String> =
        parts.map(|(n, it)| if n % 2 == 0 { outside(it) } else { it.to_owned() }).collect();
    parts.join("`").replace('\n', " ")
}

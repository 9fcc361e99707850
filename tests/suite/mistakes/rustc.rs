//! Cases of the language: crates whose modules have one mistake each, checked by cargo.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tvmtune_tests::sandbox::{Sandbox, said};

use super::Row;

/// A stage of the compiler, which stops after one with errors: so each stage is a crate.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Rust's grammar: rustc has errors of its own, before those of the macro.
    Syntax,
    /// Names of macros: without one, rustc knows no name of the program either.
    Names,
    /// The macro.
    Expansion,
    /// The types of arguments.
    Types,
}

/// A module with one mistake.
pub(super) struct Case {
    pub(super) mistake: &'static str,
    /// The part of the source that the table shows.
    pub(super) written: String,
    pub(super) source: String,
    pub(super) stage: Stage,
}

/// A file of hand-written kernels that the crates have: one kernel `f`, which reads the macro `BLOCK`.
pub(super) const KERNELS: &str = "kernels/f.cu";

/// Compiles all cases; returns what is printed about each.
pub(super) fn rows(sections: &[(&'static str, Vec<Case>)]) -> Vec<(&'static str, Vec<Row>)> {
    let sandbox = Sandbox::new("mistakes", "").without_script();
    sandbox.write(KERNELS, "extern \"C\" __global__ void f() { static_assert(BLOCK > 0); }\n");
    let all: Vec<&Case> = sections.iter().flat_map(|(_, cases)| cases).collect();
    for stage in [Stage::Syntax, Stage::Names, Stage::Expansion, Stage::Types] {
        let mut root = String::from("fn main() {}\n");
        for (n, case) in all.iter().enumerate().filter(|(_, it)| it.stage == stage) {
            // What is long is shown with `..` in the place of most of it.
            let mut parts = case.written.split("..").map(str::trim);
            let is_shown = case.source.contains(&case.written)
                || case.written.contains(".. ") && parts.all(|it| case.source.contains(it));
            assert!(is_shown, "{}", case.mistake);
            root += &format!("mod case_{n};\n");
            sandbox.write(&format!("src/bin/{}/case_{n}.rs", stage.name()), &case.source);
        }
        sandbox.write(&format!("src/bin/{}/main.rs", stage.name()), &root);
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
    let mut cargo = sandbox.cargo("", &target);
    let output = said(cargo.args(["check", "--bins", "--keep-going", "--message-format=json"]));
    let mut printed = printed(&output.out);
    let (mut number, mut findings) = (0, Vec::new());
    let mut row = |case: &Case| {
        let lines = printed.remove(&number).unwrap_or_default();
        number += 1;
        let n_expected = match case.stage {
            Stage::Expansion => 1..=1,
            // Here rustc decides.
            Stage::Syntax | Stage::Names | Stage::Types => 1..=6,
        };
        if !n_expected.contains(&lines.len()) {
            findings.push(format!("{}: {} errors: {lines:#?}", case.mistake, lines.len()));
        }
        Row { mistake: case.mistake, written: case.written.clone(), printed: lines }
    };
    let rows = sections
        .iter()
        .map(|(title, cases)| (*title, cases.iter().map(&mut row).collect()))
        .collect();
    assert!(findings.is_empty(), "{}\n{}", findings.join("\n"), output.err);
    assert!(printed.is_empty(), "errors of no case: {printed:#?}");
    rows
}

impl Stage {
    fn name(self) -> &'static str {
        match self {
            Stage::Syntax => "syntax",
            Stage::Names => "names",
            Stage::Expansion => "expansion",
            Stage::Types => "types",
        }
    }
}

/// The errors in cargo's output, by the number of the case, in order of place.
fn printed(output: &str) -> BTreeMap<usize, Vec<String>> {
    let mut found: BTreeMap<usize, Vec<(u64, String)>> = BTreeMap::new();
    for line in output.lines() {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { continue };
        let message = &line.get("message").unwrap_or(&Value::Null);
        let spans = message["spans"].as_array().map_or(&[][..], Vec::as_slice);
        let Some(span) = spans.iter().find(|it| it["is_primary"] == true) else { continue };
        if message["level"] != "error" {
            continue;
        }
        let span = outermost(span);
        let file = span["file_name"].as_str().unwrap_or_default();
        let number = file.rsplit("case_").next().and_then(|it| it.split('.').next());
        let Some(number) = number.and_then(|it| it.parse().ok()) else {
            panic!("an error outside of the cases: {message:#}");
        };
        let label = span["label"].as_str().map_or_else(String::new, |it| format!(" ({it})"));
        let said = message["message"].as_str().unwrap_or_default();
        let place = span["byte_start"].as_u64().unwrap_or_default();
        // The names of the cases are nobody else's.
        let module = format!("case_{number}::");
        let line = format!("`{}`: {said}{label}", pointed_at(span)).replace(&module, "");
        found.entry(number).or_default().push((place, line));
    }
    let in_order = |mut lines: Vec<(u64, String)>| {
        lines.sort();
        lines.into_iter().map(|(_, line)| line).collect()
    };
    found.into_iter().map(|(case, lines)| (case, in_order(lines))).collect()
}

/// The place in a case that a span in the expansion of a macro stands for.
fn outermost(span: &Value) -> &Value {
    match &span["expansion"]["span"] {
        Value::Object(_) if !is_case(span) => outermost(&span["expansion"]["span"]),
        _ => span,
    }
}

fn is_case(span: &Value) -> bool {
    span["file_name"].as_str().is_some_and(|it| it.contains("case_"))
}

/// The text that a span covers, without its middle lines.
fn pointed_at(span: &Value) -> String {
    let lines = span["text"].as_array().map_or(&[][..], Vec::as_slice);
    let part = |line: &Value| {
        let text: Vec<char> = line["text"].as_str().unwrap_or_default().chars().collect();
        let at = |name: &str| line[name].as_u64().unwrap_or(1) as usize - 1;
        let (start, end) = (at("highlight_start"), at("highlight_end").min(text.len()));
        text[start.min(end)..end].iter().collect::<String>().trim().to_owned()
    };
    match lines {
        [] => String::new(),
        [one] => part(one),
        [first, .., last] => format!("{} .. {}", part(first), part(last)),
    }
}

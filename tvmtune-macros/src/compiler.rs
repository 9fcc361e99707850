//! The process that expands: a compiler that emits code, one that only checks, or none.
//!
//! Cargo has no way to say what a build is for. The compiler's arguments do: `cargo check` and
//! `clippy` ask for metadata, `cargo build`, `test` and `run` for something to link. Editors expand
//! in a server of their own, and documentation is made by `rustdoc`: neither is a compiler here.

use std::path::{Path, PathBuf};

/// A compiler, by its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Compiler {
    /// The target that it compiles, as a file name: `model-lib`, `model-lib-test`.
    pub(crate) target: String,
    /// The result.
    pub(crate) output: Output,
}

/// The result of a compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Metadata: nothing runs.
    Metadata,
    /// Machine code.
    Code,
    /// None: Miri runs the program itself, and knows no machine code.
    Interpreted,
}

impl Compiler {
    /// Returns the compiler that this process is; `None` in an editor's server and in `rustdoc`.
    pub(crate) fn this_process() -> Option<Self> {
        Self::parse(&arguments())
    }

    fn parse(arguments: &[String]) -> Option<Self> {
        let (program, arguments) = arguments.split_first()?;
        let program = Path::new(program).file_stem()?.to_str()?;
        let name = values(arguments, "--crate-name").next()?;
        if program == "rustdoc" {
            return None;
        }
        let mut types: Vec<&str> = values(arguments, "--crate-type").collect();
        types.sort_unstable();
        let is_test = arguments.iter().any(|it| it == "--test");
        let target = [name].into_iter().chain(types).chain(is_test.then_some("test"));
        let output = match emits_code(arguments) {
            true if program == "miri" => Output::Interpreted,
            true => Output::Code,
            false => Output::Metadata,
        };
        Some(Self { target: target.collect::<Vec<_>>().join("-"), output })
    }

    /// Returns whether its result is meant to run on this machine.
    pub(crate) fn emits_code(&self) -> bool {
        self.output == Output::Code
    }

    /// Returns whether nothing of what is expanded will run.
    pub(crate) fn only_checks(&self) -> bool {
        self.output == Output::Metadata
    }
}

/// Returns the file at which this compiler, or `rustdoc`, begins; `None` in other processes.
pub(crate) fn root_file() -> Option<PathBuf> {
    root_of(&arguments())
}

fn root_of(arguments: &[String]) -> Option<PathBuf> {
    values(arguments, "--crate-name").next()?;
    let is_file = |it: &&String| !it.starts_with('-') && it.ends_with(".rs");
    arguments.iter().skip(1).find(is_file).map(PathBuf::from)
}

/// Returns whether this compiler may compile for another machine.
pub(crate) fn has_target() -> bool {
    values(&arguments(), "--target").next().is_some()
}

/// Returns what is configured on the command line: `feature="fast"`, `test`.
pub(crate) fn cfg_arguments() -> Vec<String> {
    let arguments = arguments();
    let is_test = arguments.iter().any(|it| it == "--test").then_some("test");
    values(&arguments, "--cfg").chain(is_test).map(str::to_owned).collect()
}

fn arguments() -> Vec<String> {
    let arguments = std::env::args_os().map(|it| it.to_string_lossy().into_owned());
    expanded(arguments.collect())
}

/// Returns whether one of the emitted kinds is code; without any named, a compiler links.
fn emits_code(arguments: &[String]) -> bool {
    let kinds: Vec<&str> = values(arguments, "--emit").flat_map(|it| it.split(',')).collect();
    let is_code = |kind: &str| {
        let kind = kind.split('=').next().unwrap_or(kind);
        ["link", "obj", "asm", "llvm-bc", "llvm-ir"].contains(&kind)
    };
    kinds.is_empty() || kinds.into_iter().any(is_code)
}

/// Returns the values of an option, spelled `--option value` or `--option=value`.
fn values<'a>(arguments: &'a [String], option: &'a str) -> impl Iterator<Item = &'a str> {
    arguments.iter().enumerate().filter_map(move |(n, it)| match it.strip_prefix(option)? {
        "" => arguments.get(n + 1).map(String::as_str),
        rest => rest.strip_prefix('='),
    })
}

/// Replaces `@path` by the lines of that file: so cargo passes arguments that are too long for the
/// system.
fn expanded(arguments: Vec<String>) -> Vec<String> {
    let lines = |it: String| match it.strip_prefix('@').map(std::fs::read_to_string) {
        Some(Ok(text)) => text.lines().map(str::to_owned).collect(),
        _ => vec![it],
    };
    arguments.into_iter().flat_map(lines).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, expected: Option<(&str, Output)>) {
        let arguments: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let expected =
            expected.map(|(target, output)| Compiler { target: target.to_owned(), output });
        assert_eq!(Compiler::parse(&arguments), expected, "{line}");
    }

    #[test]
    fn the_arguments_say_if_code_is_emitted() {
        use Output::{Code, Interpreted, Metadata};
        let rustc = |rest: &str| format!("/bin/rustc --crate-name model --edition=2024 {rest}");
        let lib = "--crate-type lib --emit=dep-info,metadata";
        check(&rustc(lib), Some(("model-lib", Metadata)));
        check(&rustc(&format!("{lib},link -C opt-level=3")), Some(("model-lib", Code)));
        check(&rustc("--emit=dep-info,link --test"), Some(("model-test", Code)));
        check(&rustc("--emit=metadata --emit asm=out.s"), Some(("model", Code)));
        check(&rustc("--crate-type=rlib --crate-type cdylib"), Some(("model-cdylib-rlib", Code)));
        let other = |program: &str| rustc(lib).replace("/bin/rustc", program);
        check(&other("clippy-driver"), Some(("model-lib", Metadata)));
        check(&format!("{},link", other("miri")), Some(("model-lib", Interpreted)));
        check(&other("rustdoc"), None);
        check("rust-analyzer-proc-macro-srv", None);
    }

    #[test]
    fn the_arguments_name_the_root_file() {
        let root = |line: &str| root_of(&line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let rustc = "/bin/rustc --crate-name model --edition=2024 src/lib.rs --crate-type lib";
        assert_eq!(root(rustc), Some("src/lib.rs".into()));
        assert_eq!(root("rustdoc --crate-name model src/lib.rs -o doc"), Some("src/lib.rs".into()));
        assert_eq!(root("rust-analyzer-proc-macro-srv"), None);
    }
}

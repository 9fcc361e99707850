//! Mutated programs: read or refused as the macro reads them, without a panic, and soon.

use std::time::Duration;

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::ItemFn;
use tvmtune_ir::dsl;

use crate::case::Case;
use crate::corpus::PROGRAMS;
use crate::mutate::{self, Material};
use crate::program;
use crate::section::{Problem, Section, Verdict};

/// Words of the language, and some that belong elsewhere in Rust.
const WORDS: &[&str] = &[
    "compute",
    "sum",
    "prod",
    "min",
    "max",
    "any",
    "all",
    "mean",
    "argmax",
    "argmin",
    "argtop",
    "logsumexp",
    "scan",
    "get",
    "unwrap_or",
    "if",
    "else",
    "let",
    "as",
    "f32",
    "f16",
    "bf16",
    "f64",
    "i8",
    "u8",
    "i32",
    "u32",
    "i64",
    "bool",
    "usize",
    "Tensor",
    "Weight",
    "InOut",
    "dims",
    "buckets",
    "types",
    "accum",
    "tol",
    "rel",
    "abs",
    "cold",
    "warm",
    "exp",
    "ln",
    "sqrt",
    "tanh",
    "erf",
    "gelu",
    "exp2",
    "&",
    "^",
    "<<",
    ">>",
    "ln_1p",
    "softplus",
    "leaky_relu",
    "powi",
    "pow",
    "clamp",
    "mul_add",
    "tf32",
    "round",
    "true",
    "false",
    "return",
    "loop",
    "match",
    "fn",
    "_",
    "dyn",
    "i",
    "j",
    "k",
    "x",
    "w",
    "M",
    "N",
    "K",
    "T",
    "1..=512",
    "0..K",
    "1.5",
    "-0.0",
    "1_000",
    "f32::INFINITY",
    "i32::MIN",
    "x[[i, j]]",
    "|k|",
    "sum(0..K, |k| ",
    "compute(|i, j| ",
];

/// The section.
pub(super) struct Mutants;

impl Section for Mutants {
    fn name(&self) -> &'static str {
        "mutants"
    }

    fn about(&self) -> &'static str {
        "mutated programs of the library, networks and examples: read or refused"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(10)
    }

    fn cases_of_a_test(&self) -> u64 {
        1000
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let text = mutant(case);
        case.input("program.rs", text.as_str());
        let Ok(tokens) = text.parse::<TokenStream>() else {
            case.count("no tokens");
            return Ok(Verdict::Rejected);
        };
        let function = match dsl::function(tokens) {
            Ok(function) => function,
            Err(unreadable) => {
                case.count("no function");
                return refused(&unreadable.error);
            }
        };
        read(case, &function)
    }
}

/// A program of the corpus with some edits.
fn mutant(case: &mut Case) -> String {
    let text = case.pick(&PROGRAMS).clone();
    let other = case.pick(&PROGRAMS).clone();
    let material = Material { words: WORDS, other: &other };
    if case.random.chance(0.9) {
        mutate::tokens(&text, material, &mut case.random)
    } else {
        let bytes = mutate::bytes(text.as_bytes(), material, &mut case.random);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// Reads every program of a function.
fn read(case: &mut Case, function: &ItemFn) -> Result<Verdict, Problem> {
    let options = match dsl::attribute(function).unwrap_or_else(|| Ok(TokenStream::new())) {
        Ok(options) => options,
        Err(error) => return refused(&error),
    };
    let options = dsl::with_constants(options, &mut |path| match path.segments.len() {
        1..=2 => Ok(16),
        _ => Err(format!("there is no `{}`", path.to_token_stream())),
    });
    let instances = match dsl::instances(options, function) {
        Ok(instances) => instances,
        Err(error) => return refused(&error),
    };
    let mut verdict = Verdict::Rejected;
    for instance in &instances {
        match dsl::parse(instance.options.clone(), &instance.item) {
            Ok(read) => {
                let dag = dsl::build(&read).map_err(Problem::wrong)?;
                program::check_text(&dag)?;
                verdict = Verdict::Accepted;
            }
            Err(error) => {
                case.count("no program");
                refused(&error)?;
            }
        }
    }
    Ok(verdict)
}

/// A refusal says why, and is no complaint of tvmtune about itself.
fn refused(error: &syn::Error) -> Result<Verdict, Problem> {
    let messages: Vec<String> = error.clone().into_iter().map(|it| it.to_string()).collect();
    match messages.iter().find(|it| it.is_empty() || it.contains("please report")) {
        Some(message) => Err(Problem::wrong(format!("refused with `{message}`"))),
        None if messages.is_empty() => Err(Problem::wrong("refused without an error")),
        None => Ok(Verdict::Rejected),
    }
}

//! Panics of the compiler, kept to the op that was compiled: they are mistakes of tvmtune, and other ops
//! go on.
//!
//! Whoever compiles the ops of a package one by one does it in [`contained`]. What the standard library
//! prints about a panic still goes to standard error, with the place in tvmtune's sources.
//!
//! A program whose profile has `panic = "abort"` ends instead; build scripts and macros never do.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The compiler panicked over an op.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "tvmtune stopped at `{name}`: {message}; this is a mistake of tvmtune, not of the program: please \
     report it, with the program: {program}"
)]
pub struct Panicked {
    name: String,
    message: String,
    /// The canonical text, on one line.
    program: String,
}

/// Compiles an op, by its name.
///
/// # Errors
///
/// If `compile` panics; `text` says then what was compiled.
pub fn contained<T>(
    name: &str,
    text: impl FnOnce() -> String,
    compile: impl FnOnce() -> T,
) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(compile)).map_err(|payload| Panicked {
        name: name.to_owned(),
        message: message(&*payload),
        program: text().lines().collect::<Vec<_>>().join("; "),
    })
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|it| (*it).to_owned());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "it panicked".to_owned()).replace('\n', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_that_names_the_op_and_the_program() {
        let text = || "tvmtune dag v1\nreturn t0\n".to_owned();
        let indices: Vec<u32> = std::iter::once(0).collect();
        let at = indices.len();
        let found = contained("mean", text, || indices[at]).expect_err("it panics").to_string();
        let message = "index out of bounds: the len is 1 but the index is 1";
        assert!(found.starts_with(&format!("tvmtune stopped at `mean`: {message};")), "{found}");
        assert!(
            found.ends_with("report it, with the program: tvmtune dag v1; return t0"),
            "{found}"
        );
        assert_eq!(contained("sum", text, || 3), Ok(3));
    }
}

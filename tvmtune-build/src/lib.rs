//! Step 10 of 12: plans a build.
//!
//! ```text
//! ... -> measure -> record -> [plan] -> expand -> launch
//! ```
//!
//! A crate with kernels calls [`run`] from its build script:
//!
//! ```no_run
//! tvmtune_build::run();
//! ```
//!
//! In: the crate's sources, its `tvmtune.toml`, and databases. Out: a plan for each kernel in
//! `OUT_DIR`, and one line for the user where something is to be done. Next: `#[autotune]` expands
//! to what the plan holds.
//!
//! [`crate::mode`] decides if kernels without a record may be tuned: by `TVMTUNE`, and where that
//! isn't set by the place of the build. They are when the compiler emits code: the macro, which
//! knows, starts the program of the script once more ([`tvmtune_plan::handoff`]).
//!
//! With the feature `tune` (default), the script brings the tuner along, for machines where the
//! command-line tool isn't installed. Without it, the script only reads.
//!
//! The modules are declared in the order in which a build walks through them. They are public for
//! `cargo tvmtune`, and no promise.

#![forbid(unsafe_code)]

pub mod script; // variables and directives of cargo
pub mod mode; // the decision to measure
pub mod config; // tvmtune.toml
#[cfg(feature = "templates")]
pub mod bindings; // of C headers
#[cfg(not(feature = "templates"))]
#[path = "no_bindings.rs"]
mod bindings;
pub mod op; // the programs of its annotated functions
pub mod package; // both, of one package
pub mod plan; // their schedules
pub mod cuda; // the same for CUDA devices, with compiled code
pub mod tune; // measurement of kernels without a record
mod emit; // plans in OUT_DIR
pub mod report; // one line for the user
mod require; // kernels that may not be built
mod build; // all of it, for one package
mod run; // to plan, to tune, to plan one op more
mod expansion; // the same, for the macro

mod error;

pub use error::{Error, ErrorKind};

use script::{Directive, Script};

/// Plans the kernels of the package whose build script calls this; tunes some first where that is
/// allowed. To be called once, from `main`.
///
/// Errors are reported to cargo, which then fails the build. The process succeeds all the same: of one
/// that fails, cargo prints all output once more.
pub fn run() {
    #[cfg(feature = "templates")]
    if bindings::serve_if_asked() {
        return;
    }
    #[cfg(feature = "tune")]
    if tune::session::serve_if_asked() {
        return;
    }
    if expansion::serve_if_asked() {
        return;
    }
    let outcome = match Script::from_environment() {
        Some(script) => run::run(&script).map_err(|it| it.to_string()),
        None => Err("`tvmtune_build::run` belongs into a build script; run `cargo build`".into()),
    };
    let directives =
        outcome.unwrap_or_else(|error| vec![Directive::Error(format!("tvmtune: {error}"))]);
    for directive in &directives {
        println!("{directive}");
    }
}

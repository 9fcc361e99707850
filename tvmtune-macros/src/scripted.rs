//! Preparation of a plan by the crate's build script, before the macro reads it.
//!
//! In: the folder of the plans, and an op. Out: the op's plan in that folder, as far as there can be
//! one, or the reason why mode `require` refuses the op. Next: `plan.rs` reads the plan.
//!
//! # Invariants
//!
//! - In an editor, and where documentation is made, nothing is started, written or refused.
//! - A session runs at most once in a compiler, and only if that emits code.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, Once, PoisonError};

use tvmtune_plan::handoff::{ExpandedOp, Handoff};
use tvmtune_plan::mode::Mode;

use crate::compiler::Compiler;
use crate::{expanded, script};

/// Lets the build script tune what it planned, when code is emitted, and plan an op that it did not
/// see; the error says why the op is refused.
pub(crate) fn prepare(plans: &Path, op: &ExpandedOp) -> Result<(), String> {
    let Some(compiler) = Compiler::this_process() else { return Ok(()) };
    let Some(mut handoff) = handoff(plans) else {
        return other_version(requested()?);
    };
    if compiler.emits_code() {
        if handoff.wants_session {
            static ONCE: Once = Once::new();
            ONCE.call_once(|| script::tune(plans, &handoff));
            handoff = reread(plans).unwrap_or(handoff);
        }
        let is_in_sources = handoff.ops.get(&op.plan).is_some_and(|it| it.in_sources);
        if let Some(cache) = &handoff.cache {
            expanded::report(cache, &compiler.target, op, is_in_sources);
        }
    }
    let is_required = handoff.mode == Mode::Require;
    let mut why = "no build script planned it".to_owned();
    let is_unplanned = handoff.ops.get(&op.plan).is_none_or(|it| it.waits);
    if is_unplanned && (compiler.emits_code() || is_required) {
        match script::plan(plans, &handoff, &op.source) {
            Ok(()) => handoff = reread(plans).unwrap_or(handoff),
            Err(error) if is_required => why = error,
            Err(error) => {
                static ONCE: Once = Once::new();
                ONCE.call_once(|| eprintln!("warning: tvmtune: {error}"));
            }
        }
    }
    match handoff.ops.get(&op.plan) {
        _ if !is_required => Ok(()),
        Some(state) => state.refusal.clone().map_or(Ok(()), Err),
        None => Err(format!("`TVMTUNE=require` refuses this function: {why}")),
    }
}

/// Checks what a crate without a build script may do: it runs default schedules. Says so once, where
/// there is something that a build script would use.
pub(crate) fn check_without() -> Result<(), String> {
    if Compiler::this_process().is_none() {
        return Ok(());
    }
    let mode = requested()?;
    let add = "add a `build.rs` with `fn main() { tvmtune_build::run() }`, and `tvmtune-build` to \
               `[build-dependencies]`";
    if mode == Some(Mode::Require) {
        return Err(format!(
            "`TVMTUNE=require` refuses this function: the crate has no build script that plans \
             it; {add}"
        ));
    }
    let manifest_dir = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let unused = ["tvmtune.toml", "tvmtune"].map(|it| manifest_dir.join(it));
    if let Some(unused) = unused.iter().find(|it| it.exists()) {
        static ONCE: Once = Once::new();
        let unused = unused.display();
        ONCE.call_once(|| {
            eprintln!(
                "warning: tvmtune: `{unused}` is not used, and every kernel runs its default \
                 schedule, for want of a build script; {add}"
            );
        });
    }
    Ok(())
}

/// Returns the mode that the environment asks for.
fn requested() -> Result<Option<Mode>, String> {
    let text = std::env::var("TVMTUNE").unwrap_or_default();
    Mode::requested(&text).map_err(|it| it.to_string())
}

/// A script of another version planned nothing that this macro can read.
fn other_version(mode: Option<Mode>) -> Result<(), String> {
    match mode {
        Some(Mode::Require) => Err("`TVMTUNE=require` refuses this function: `tvmtune-build` and \
                                    `tvmtune-runtime` are of different versions; run `cargo update`"
            .to_owned()),
        _ => Ok(()),
    }
}

/// The handoff that was read last: a crate has one, and many expansions.
static LAST: Mutex<Option<(PathBuf, Handoff)>> = Mutex::new(None);

/// Returns the handoff beside some plans, as it was read before.
fn handoff(plans: &Path) -> Option<Handoff> {
    let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
    last.filter(|(path, _)| path == plans).map(|(_, it)| it).or_else(|| reread(plans))
}

/// Reads the handoff beside some plans.
fn reread(plans: &Path) -> Option<Handoff> {
    let handoff = Handoff::read(plans)?;
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    *last = Some((plans.to_owned(), handoff.clone()));
    Some(handoff)
}

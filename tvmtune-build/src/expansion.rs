//! The program of a build script, started by the macro: it answers a [`Request`].
//!
//! In: a request on standard input, from an expansion. Out: plans and a handoff, rewritten, and an
//! [`Answer`] on standard output. Next: the macro reads the plan.
//!
//! # Invariant
//!
//! - One process at a time works on the plans of a package. A second one that asks for the same
//!   session finds it done. It waits for as long as a session may take, and then goes on without.

use std::io::Write;
use std::time::Duration;

use tvmtune_plan::database::{DatabaseError, Lock};
use tvmtune_plan::handoff::{Answer, Handoff, ROLE, ROLE_EXPAND, Request};
use tvmtune_plan::request;

use crate::emit::LOCK;
use crate::run;
use crate::script::Script;

/// The time beyond its budget in which a session ends: the last candidate, records, and plans.
const END_OF_SESSION: Duration = Duration::from_secs(10);

/// Answers a request, if this process was started for that; tells if it was.
pub(crate) fn serve_if_asked() -> bool {
    let asked = std::env::var_os(ROLE).is_some_and(|it| it == ROLE_EXPAND);
    if asked && let Err(error) = serve() {
        eprintln!("{error}");
        std::process::exit(1);
    }
    asked
}

fn serve() -> Result<(), Box<dyn std::error::Error>> {
    let text = request::receive(|| ())?;
    let request = Request::from_toml(&text).ok_or("the macro is of another version")?;
    std::io::stdout().write_all(answer(&request)?.to_toml().as_bytes())?;
    Ok(())
}

fn answer(request: &Request) -> Result<Answer, Box<dyn std::error::Error>> {
    let none = "no build script of this version ran";
    let handoff = Handoff::read(&request.plans).ok_or(none)?;
    let script = Script::resume(&request.plans, &handoff).ok_or("no cargo started this")?;
    // Who holds the lock tunes the same package, within the same budget.
    let patience = run::session_limit(&script).saturating_add(END_OF_SESSION);
    let _lock = match Lock::acquire(&request.plans.join(LOCK), patience, &mut |_| ()) {
        Ok(lock) => lock,
        Err(busy @ DatabaseError::Busy { .. }) if request.op.is_none() => {
            let line = format!("tvmtune: {busy}; this build goes on with what was planned before");
            return Ok(Answer { lines: vec![line] });
        }
        Err(error) => return Err(error.into()),
    };
    // Another process may have written it anew.
    let handoff = Handoff::read(&request.plans).ok_or(none)?;
    let lines = match &request.op {
        Some(source) => run::plan_expanded(&script, source)?,
        None if handoff.wants_session => run::session(&script)?,
        None => Vec::new(),
    };
    Ok(Answer { lines })
}

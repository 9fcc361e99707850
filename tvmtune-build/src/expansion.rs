//! The program of a build script, started by the macro: it answers a [`Request`].
//!
//! In: a request on standard input, from an expansion. Out: plans and a handoff, rewritten, and an
//! [`Answer`] on standard output. Next: the macro reads the plan.
//!
//! # Invariant
//!
//! - One process at a time works on the plans of a package. A second one that asks for the same
//!   session finds it done.

use std::io::{Read, Write};

use tvmtune_plan::database::atomic;
use tvmtune_plan::handoff::{Answer, Handoff, ROLE, ROLE_EXPAND, Request};

use crate::emit::LOCK;
use crate::run;
use crate::script::Script;

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
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    let request = Request::from_toml(&text).ok_or("the macro is of another version")?;
    std::io::stdout().write_all(answer(&request)?.to_toml().as_bytes())?;
    Ok(())
}

fn answer(request: &Request) -> Result<Answer, Box<dyn std::error::Error>> {
    let lock = atomic::lock_file(&request.plans.join(LOCK))?;
    lock.lock()?;
    let handoff = Handoff::read(&request.plans).ok_or("no build script of this version ran")?;
    let script = Script::resume(&request.plans, &handoff).ok_or("no cargo started this")?;
    let lines = match &request.op {
        Some(source) => run::plan_expanded(&script, source)?,
        None if handoff.wants_session => run::session(&script)?,
        None => Vec::new(),
    };
    Ok(Answer { lines })
}

//! Requests to the program of the crate's build script.
//!
//! In: a [`Handoff`] that the script left. Out: plans and a handoff that it has written anew. Next:
//! the plan is read.

use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Once;

use tvmtune_plan::handoff::{Answer, Handoff, OpSource, ROLE, ROLE_EXPAND, Request};
use tvmtune_plan::request;

use crate::parent::while_cargo_lives;

/// Asks for a session, which tunes, and prints what it says: cargo shows what compilers print.
pub(crate) fn tune(plans: &Path, handoff: &Handoff) {
    let answer = ask(plans, handoff, None);
    for line in answer.unwrap_or_else(|why| vec![format!("tvmtune: nothing was tuned: {why}")]) {
        eprintln!("warning: {line}");
    }
}

/// Asks for the plan of an op that the script did not see; the error says why there is none. The first
/// such op is named to the user, and stands for the others.
pub(crate) fn plan(plans: &Path, handoff: &Handoff, source: &OpSource) -> Result<(), String> {
    let lines = ask(plans, handoff, Some(source.clone()))?;
    static ONCE: Once = Once::new();
    if let Some(line) = lines.first() {
        ONCE.call_once(|| eprintln!("warning: {line}"));
    }
    Ok(())
}

/// Sends a request, and waits for the answer: lines for the user.
fn ask(plans: &Path, handoff: &Handoff, op: Option<OpSource>) -> Result<Vec<String>, String> {
    let program = plans.join(&handoff.program);
    let failed = |error: String| {
        let program = program.display();
        format!("cannot ask the build script `{program}`: {error}; run `touch build.rs`")
    };
    let request = Request { plans: plans.to_owned(), op }.to_toml();
    let run = || {
        let mut command = Command::new(&program);
        command.env(ROLE, ROLE_EXPAND).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let asked = request::send(&mut child, &request);
        while_cargo_lives(asked, || child.wait_with_output())
    };
    let output = run().map_err(|it| failed(it.to_string()))?;
    if !output.status.success() {
        return Err(failed(format!("it ended with {}", output.status)));
    }
    let answer = String::from_utf8_lossy(&output.stdout);
    let answer = Answer::from_toml(&answer).ok_or_else(|| failed("no answer".to_owned()))?;
    Ok(answer.lines)
}

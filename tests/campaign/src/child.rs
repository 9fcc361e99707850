//! Runs cases one after the other, and tells the parent of each before and after it.

use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::io::Write;
use std::panic::{self, AssertUnwindSafe};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::case::{self, Case};
use crate::protocol::{End, Line, Share};
use crate::section::{Kind, Problem, Section, Verdict};

/// Frames of a panic that its finding has.
const FRAMES: usize = 8;
/// Folders with sources of others: of the toolchain, and of crates.
const OF_OTHERS: [&str; 3] = ["rustc", "registry", "library"];

thread_local! {
    /// Where the last panic of this thread was, and how it came there, as the hook saw it.
    static PANICKED_AT: RefCell<(String, String)> =
        const { RefCell::new((String::new(), String::new())) };
}

/// The cases that a child runs, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// The seed of the campaign.
    pub seed: u64,
    /// Which cases.
    pub share: Share,
    /// After that time no case begins.
    pub time: Option<Duration>,
    /// Where inputs of findings are saved, in a folder for each case.
    pub out: &'a Path,
    /// Whether inputs are saved before it is known what comes of them.
    pub save_all: bool,
}

/// Runs the cases.
///
/// # Errors
///
/// Where the parent cannot be told.
pub fn run(section: &dyn Section, task: Task<'_>, to: &mut dyn Write) -> std::io::Result<()> {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let trace = Backtrace::force_capture().to_string();
        PANICKED_AT.set((place, own_frames(&trace)));
    }));
    let started = Instant::now();
    for number in task.share.cases() {
        if task.time.is_some_and(|it| started.elapsed() >= it) {
            break;
        }
        tell(to, &Line::Start(number))?;
        let folder = folder(task.out, section, number);
        let save_to = task.save_all.then(|| folder.clone());
        let mut case = Case::new(section.name(), task.seed, number, save_to);
        let result = check(section, &mut case);
        if result.is_err() {
            for input in case.inputs() {
                case::save(&folder, input)?;
            }
        }
        tell(to, &Line::End(End { case: number, result, counts: case.counts().clone() }))?;
    }
    Ok(())
}

/// Checks a case; a panic is a problem like others.
///
/// # Errors
///
/// What is wrong.
pub fn check(section: &dyn Section, case: &mut Case) -> Result<Verdict, Problem> {
    // A case is dropped after it panicked: nothing of it is seen but its input and counts.
    let result = panic::catch_unwind(AssertUnwindSafe(|| section.check(case)));
    result.unwrap_or_else(|payload| {
        let (place, frames) = PANICKED_AT.take();
        let message = format!("{place}: {}\n{frames}", message(payload.as_ref()));
        Err(Problem { kind: Kind::Panic, message })
    })
}

/// Returns the folder of a case's input.
pub fn folder(out: &Path, section: &dyn Section, number: u64) -> std::path::PathBuf {
    out.join(section.name()).join(number.to_string())
}

/// The innermost frames of a backtrace that lie in sources of the workspace.
fn own_frames(trace: &str) -> String {
    let places = trace.lines().filter_map(|it| it.trim_start().strip_prefix("at "));
    let own = places.filter(|it| {
        let is_code = it.contains("/src/") && !it.contains("/tests/campaign/");
        is_code && !OF_OTHERS.iter().any(|folder| it.contains(&format!("/{folder}/")))
    });
    own.take(FRAMES).map(|it| format!("{it}\n")).collect()
}

fn message(payload: &(dyn Any + Send)) -> &str {
    match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(text), _) => text,
        (None, Some(text)) => text,
        (None, None) => "a panic without a message",
    }
}

fn tell(to: &mut dyn Write, line: &Line) -> std::io::Result<()> {
    let mut text = serde_json::to_string(line)?;
    text.push('\n');
    to.write_all(text.as_bytes())?;
    to.flush()
}

//! Cases that go wrong in every way, so that the campaign itself can be tested.

use std::time::Duration;

use crate::case::Case;
use crate::section::{Problem, Section, Verdict};

/// The section, which no campaign runs unless it is named.
pub(super) struct Mishaps;

impl Section for Mishaps {
    fn name(&self) -> &'static str {
        "mishaps"
    }

    fn about(&self) -> &'static str {
        "cases that panic, hang, die, and lose things on purpose"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(6)
    }

    #[expect(clippy::panic, reason = "a panic is what is caught")]
    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        case.input("number.txt", case.number.to_string());
        case.count("a mishap");
        match case.number % 16 {
            0 | 8 | 15 => Ok(Verdict::Accepted),
            1 | 9 => Ok(Verdict::Rejected),
            2 | 10 => Ok(Verdict::Skipped("no reason".to_owned())),
            3 | 11 => Err(Problem::wrong("2 is not 3")),
            4 | 12 => Err(Problem::lost("1 file")),
            5 | 13 => panic!("at the disco"),
            6 | 14 => std::process::abort(),
            _ => loop {
                std::thread::park();
            },
        }
    }
}

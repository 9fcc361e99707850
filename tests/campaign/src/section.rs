//! A section of the campaign: what cases it draws, and what must hold of each.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::case::Case;

/// One kind of cases.
pub trait Section: Sync {
    /// Returns the name on the command line.
    fn name(&self) -> &'static str;

    /// Returns what is checked, in half a line.
    fn about(&self) -> &'static str;

    /// Returns how long a case may take: the process of one that takes longer is killed, and the case
    /// counts as hung.
    fn limit(&self) -> Duration {
        Duration::from_secs(20)
    }

    /// Returns how many cases a test of the workspace runs.
    fn cases_of_a_test(&self) -> u64 {
        10
    }

    /// Returns how many processes may run cases side by side; `None` where the machine decides.
    fn n_processes(&self) -> Option<usize> {
        None
    }

    /// Returns how much address space a process of the section may have, so that a case that takes all
    /// memory ends itself instead of the machine; `None` for no limit.
    fn memory_bytes(&self) -> Option<u64> {
        Some(8 << 30)
    }

    /// Draws a case and checks it.
    ///
    /// # Errors
    ///
    /// What is wrong. A panic is a finding, too, and so is the end of the process.
    fn check(&self, case: &mut Case) -> Result<Verdict, Problem>;
}

/// How a case without a finding ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// The input is right, and all that follows from it is.
    Accepted,
    /// The input was refused, with an error that says why.
    Rejected,
    /// The machine cannot run the case, for this reason.
    Skipped(String),
}

/// The kinds of findings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Code panicked.
    Panic,
    /// A result differs from the reference, or a rule was broken.
    Wrong,
    /// Something that was to be kept is gone.
    Lost,
    /// The time limit of a case passed.
    Hang,
    /// The process died: of a signal, a stack that ran over, memory that ran out.
    Death,
}

impl Kind {
    /// All kinds, in the order of reports.
    pub const ALL: [Self; 5] = [Self::Panic, Self::Wrong, Self::Lost, Self::Hang, Self::Death];

    /// Returns the plural, as reports have it.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Panic => "panics",
            Self::Wrong => "wrong",
            Self::Lost => "lost",
            Self::Hang => "hangs",
            Self::Death => "deaths",
        }
    }
}

/// What is wrong with a case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// Its kind.
    pub kind: Kind,
    /// For readers; the first line tells one problem from another, with digits left out.
    pub message: String,
}

impl Problem {
    /// Returns the problem that a result or a rule is broken.
    pub fn wrong(message: impl fmt::Display) -> Self {
        Self { kind: Kind::Wrong, message: message.to_string() }
    }

    /// Returns the problem that something is gone.
    pub fn lost(message: impl fmt::Display) -> Self {
        Self { kind: Kind::Lost, message: message.to_string() }
    }

    /// Returns what problems of one cause have in common: the kind, and the first line without digits.
    pub fn signature(&self) -> String {
        let line = self.message.lines().next().unwrap_or_default();
        let mut text = format!("{}: ", self.kind.plural());
        text.extend(line.chars().filter(|it| !it.is_ascii_digit()).take(160));
        text
    }
}

/// Returns a refusal without the names and numbers in it, so that those of one kind count as one.
pub fn without_names(refusal: &str) -> String {
    let outside = refusal.lines().next().unwrap_or_default().split('`').step_by(2);
    let text = outside.collect::<Vec<_>>().join("_");
    text.chars().filter(|it| !it.is_ascii_digit()).take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn problems_of_one_cause_have_one_signature() {
        let [a, b] = ["index 7 of 3\nx", "index 12 of 9\ny"].map(Problem::wrong);
        assert_eq!(a.signature(), b.signature());
        assert_ne!(a.signature(), Problem::lost("index 7 of 3").signature());
    }

    #[test]
    fn refusals_of_one_kind_count_as_one() {
        let [a, b] = ["`x` has rank 2", "`y1` has rank 13\nmore"].map(without_names);
        assert_eq!((a.as_str(), b.as_str()), ("_ has rank ", "_ has rank "));
    }
}

//! What came of a section: counts, findings, and how to repeat each.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::protocol::End;
use crate::section::{Kind, Problem, Verdict};

/// Findings of one cause that are kept; the others are counted.
const KEPT: usize = 3;

/// What came of a campaign, as JSON has it.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// The sections, in the order they ran.
    pub sections: Vec<SectionReport>,
}

/// What came of one section.
#[derive(Debug, Default, Serialize)]
pub struct SectionReport {
    /// The name of the section.
    pub section: String,
    /// Wall time.
    pub seconds: f64,
    /// Cases that began.
    pub cases: u64,
    /// Inputs that were right.
    pub accepted: u64,
    /// Inputs that were refused.
    pub rejected: u64,
    /// Cases that this machine cannot run, by the reason.
    pub skipped: BTreeMap<String, u64>,
    /// What cases counted.
    pub counts: BTreeMap<String, u64>,
    /// Findings by kind.
    pub found: BTreeMap<Kind, u64>,
    /// Causes, by what their findings have in common.
    pub causes: BTreeMap<String, Cause>,
}

/// Findings that look like one cause.
#[derive(Debug, Default, Serialize)]
pub struct Cause {
    /// How many cases found it.
    pub cases: u64,
    /// The first of them.
    pub findings: Vec<Finding>,
}

/// One finding.
#[derive(Debug, Serialize)]
pub struct Finding {
    /// The number of the case.
    pub case: u64,
    /// What is wrong.
    pub problem: Problem,
    /// The folder with the input.
    pub input: PathBuf,
    /// The command that runs just this case.
    pub repeat: String,
}

impl Report {
    /// Returns whether anything was found.
    pub fn has_findings(&self) -> bool {
        self.sections.iter().any(|it| !it.causes.is_empty())
    }
}

impl SectionReport {
    /// Adds a case that ended; `finding` makes the finding of a problem, where it is kept.
    pub fn add(&mut self, end: End, finding: impl FnOnce(u64, Problem) -> Finding) {
        self.cases += 1;
        for (what, n) in end.counts {
            *self.counts.entry(what).or_default() += n;
        }
        match end.result {
            Ok(Verdict::Accepted) => self.accepted += 1,
            Ok(Verdict::Rejected) => self.rejected += 1,
            Ok(Verdict::Skipped(reason)) => *self.skipped.entry(reason).or_default() += 1,
            Err(problem) => {
                *self.found.entry(problem.kind).or_default() += 1;
                let cause = self.causes.entry(problem.signature()).or_default();
                cause.cases += 1;
                if cause.findings.len() < KEPT {
                    cause.findings.push(finding(end.case, problem));
                }
            }
        }
    }
}

impl fmt::Display for SectionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.cases as f64 / self.seconds.max(1e-3);
        let Self { section, cases, seconds, accepted, rejected, .. } = self;
        write!(f, "{section}: {cases} cases in {seconds:.1} s ({rate:.1} a second): ")?;
        write!(f, "{accepted} accepted, {rejected} rejected")?;
        for kind in Kind::ALL {
            let n = self.found.get(&kind).copied().unwrap_or_default();
            write!(f, ", {n} {}", kind.plural())?;
        }
        for (reason, n) in &self.skipped {
            write!(f, "\n  skipped {n}: {reason}")?;
        }
        for (what, n) in &self.counts {
            let share = 100.0 * *n as f64 / (self.cases.max(1)) as f64;
            write!(f, "\n  {n:>9} {share:5.1} %  {what}")?;
        }
        for cause in self.causes.values() {
            write!(f, "{cause}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(Finding { case, problem, input, repeat }) = self.findings.first() else {
            return Ok(());
        };
        let lines: Vec<&str> = problem.message.lines().take(12).collect();
        write!(f, "\n  FOUND in {} cases, first in case {case}: ", self.cases)?;
        write!(f, "{:?}: {}", problem.kind, lines.join("\n    "))?;
        write!(f, "\n    input: {}\n    repeat: {repeat}", input.display())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(case: u64, result: Result<Verdict, Problem>) -> End {
        End { case, result, counts: BTreeMap::from([("drawn".to_owned(), 2)]) }
    }

    fn finding(case: u64, problem: Problem) -> Finding {
        Finding { case, problem, input: PathBuf::from("folder"), repeat: "run it".to_owned() }
    }

    #[test]
    fn findings_of_one_cause_are_counted_and_the_first_kept() {
        let mut report = SectionReport { section: "s".to_owned(), ..SectionReport::default() };
        report.add(end(0, Ok(Verdict::Accepted)), finding);
        for case in 1..9 {
            report.add(end(case, Err(Problem::wrong(format!("{case} of 3")))), finding);
        }
        assert_eq!((report.cases, report.accepted, report.causes.len()), (9, 1, 1));
        assert_eq!(report.counts["drawn"], 18);
        let cause = report.causes.values().next().unwrap();
        assert_eq!((cause.cases, cause.findings.len()), (8, KEPT));
        let text = report.to_string();
        assert!(text.contains("8 wrong") && text.contains("repeat: run it"), "{text}");
    }
}

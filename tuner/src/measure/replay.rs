//! Replay of logged measurements: a search can be repeated with other strategies or seeds, without
//! hardware.

use std::collections::{BTreeMap, VecDeque};

use super::interface::{Measure, MeasureError};
use super::job::{CaseSpec, Job};
use super::protocol::Policy;
use crate::outcome::{Outcome, Timing};

/// The outcome of code in a log.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayedOutcome {
    /// Of screening.
    Screened(Outcome),
    /// Of a comparison side by side.
    Compared(Outcome),
}

/// Logged outcomes, by the identity of the code.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    screened: BTreeMap<String, Outcome>,
    /// Timings taken side by side, in the order of the log.
    compared: BTreeMap<String, VecDeque<Timing>>,
    n_missing: usize,
}

impl Replay {
    /// Creates a replay of outcomes with the identities of their code. Of several screened outcomes
    /// of the same code, the first timing counts; comparisons are replayed in order.
    pub fn new(outcomes: impl IntoIterator<Item = (String, ReplayedOutcome)>) -> Self {
        let mut log = Self::default();
        for (artifact, outcome) in outcomes {
            match outcome {
                ReplayedOutcome::Compared(Outcome::Timed(timing)) => {
                    log.compared.entry(artifact).or_default().push_back(timing);
                }
                ReplayedOutcome::Compared(outcome) | ReplayedOutcome::Screened(outcome) => {
                    let earlier = log.screened.get(&artifact);
                    if earlier.is_none_or(|it| it.timing().is_none()) {
                        log.screened.insert(artifact, outcome);
                    }
                }
            }
        }
        log
    }

    /// Returns the number of requests for code that is not in the log.
    pub fn n_missing(&self) -> usize {
        self.n_missing
    }
}

impl Measure for Replay {
    fn runs_code(&self) -> bool {
        false
    }

    fn set_up(&mut self, _: &[CaseSpec], _: Option<&[u8]>) -> Result<(), MeasureError> {
        Ok(())
    }

    fn evaluate(&mut self, _: &Job, _: usize) -> Result<Result<Vec<u8>, Outcome>, MeasureError> {
        Ok(Err(Outcome::Invalid("a log has no results".to_owned())))
    }

    fn measure(&mut self, job: &Job, _: &Policy) -> Result<Outcome, MeasureError> {
        Ok(self.screened.get(&job.artifact).cloned().unwrap_or_else(|| {
            self.n_missing += 1;
            Outcome::Invalid("it is not in the log".to_owned())
        }))
    }

    fn compare(
        &mut self,
        jobs: &[&Job],
        _: usize,
        _: &Policy,
    ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError> {
        let is_comparison = jobs.len() > 1;
        let timing = |it: &&Job| {
            let compared = self.compared.get_mut(&it.artifact).filter(|_| is_comparison);
            let next = compared.and_then(VecDeque::pop_front);
            next.or_else(|| self.screened.get(&it.artifact)?.timing().cloned())
        };
        let missing = || Outcome::Invalid("it is not in the log".to_owned());
        Ok(jobs.iter().map(timing).collect::<Option<_>>().ok_or_else(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logged_outcomes_are_replayed_and_missing_ones_counted() {
        let timed = |ns| Outcome::Timed(Timing::new(vec![ns]).unwrap());
        let job = |artifact: &str| Job { artifact: artifact.to_owned(), ..Job::default() };
        let (screened, compared) = (ReplayedOutcome::Screened, ReplayedOutcome::Compared);
        let entries = [
            ("a", screened(Outcome::TimedOut)),
            ("a", screened(timed(5.0))),
            ("a", screened(timed(7.0))),
            ("b", screened(timed(1.0))),
            ("a", compared(timed(6.0))),
        ];
        let mut log = Replay::new(entries.map(|(artifact, it)| (artifact.to_owned(), it)));
        let policy = Policy::default();
        assert_eq!(log.measure(&job("a"), &policy).unwrap(), timed(5.0));
        assert!(log.measure(&job("c"), &policy).unwrap().timing().is_none());
        assert_eq!(log.n_missing(), 1);
        let mut compare = || {
            let timings = log.compare(&[&job("b"), &job("a")], 5, &policy).unwrap().unwrap();
            (timings[0].min_ns(), timings[1].min_ns())
        };
        assert_eq!(compare(), (1.0, 6.0));
        assert_eq!(compare(), (1.0, 5.0), "when all comparisons were told");
        assert!(log.compare(&[&job("b"), &job("c")], 5, &policy).unwrap().is_err());
    }
}

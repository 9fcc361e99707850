//! Replay of logged measurements: a search can be repeated with other strategies or seeds, without
//! hardware.

use std::collections::{BTreeMap, VecDeque};

use super::interface::{Measure, MeasureError};
use super::job::{CaseSpec, Job};
use super::protocol::Policy;
use crate::outcome::{Outcome, Timing};

/// Logged outcomes, by the identity of the code.
#[derive(Clone, Debug, Default)]
pub struct Replay {
    screened: BTreeMap<String, Outcome>,
    /// Timings taken side by side, in the order of the log.
    compared: BTreeMap<String, VecDeque<Timing>>,
}

impl Replay {
    /// Adds the outcome of screening code of that identity. Of several the first timing counts.
    pub fn add_screened(&mut self, artifact: &str, outcome: &Outcome) {
        if self.screened.get(artifact).is_none_or(|it| it.timing().is_none()) {
            self.screened.insert(artifact.to_owned(), outcome.clone());
        }
    }

    /// Adds the timing of code of that identity beside others; these are replayed in order.
    pub fn add_compared(&mut self, artifact: &str, timing: &Timing) {
        self.compared.entry(artifact.to_owned()).or_default().push_back(timing.clone());
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
        let missing = || Outcome::Invalid("it is not in the log".to_owned());
        Ok(self.screened.get(&job.artifact).cloned().unwrap_or_else(missing))
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
    fn logged_outcomes_are_replayed_and_missing_ones_invalid() {
        let timing = |ns| Timing::new(vec![ns]).unwrap();
        let timed = |ns| Outcome::Timed(timing(ns));
        let job = |artifact: &str| Job { artifact: artifact.to_owned(), ..Job::default() };
        let mut log = Replay::default();
        for (artifact, outcome) in
            [("a", Outcome::TimedOut), ("a", timed(5.0)), ("a", timed(7.0)), ("b", timed(1.0))]
        {
            log.add_screened(artifact, &outcome);
        }
        log.add_compared("a", &timing(6.0));
        let policy = Policy::default();
        assert_eq!(log.measure(&job("a"), &policy).unwrap(), timed(5.0));
        assert!(log.measure(&job("c"), &policy).unwrap().timing().is_none());
        let mut compare = || {
            let timings = log.compare(&[&job("b"), &job("a")], 5, &policy).unwrap().unwrap();
            (timings[0].min_ns(), timings[1].min_ns())
        };
        assert_eq!(compare(), (1.0, 6.0));
        assert_eq!(compare(), (1.0, 5.0), "when all comparisons were told");
        assert!(log.compare(&[&job("b"), &job("c")], 5, &policy).unwrap().is_err());
    }
}

//! Measurements from a log instead of a device: what was tried once can be searched again, by other
//! strategies or with other seeds, where there is no hardware.

use std::collections::BTreeMap;

use super::{CaseSpec, Job, Measure, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};

/// What became of code, by its identity.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    outcomes: BTreeMap<String, Outcome>,
    n_missing: usize,
}

impl Replayed {
    /// Answers by these outcomes; of several of the same code, the first that is timed counts.
    pub fn new(outcomes: impl IntoIterator<Item = (String, Outcome)>) -> Self {
        let mut known: BTreeMap<String, Outcome> = BTreeMap::new();
        for (artifact, outcome) in outcomes {
            if known.get(&artifact).is_none_or(|it| it.timing().is_none()) {
                known.insert(artifact, outcome);
            }
        }
        Self { outcomes: known, n_missing: 0 }
    }

    /// How often something was asked for that the log does not have.
    pub fn n_missing(&self) -> usize {
        self.n_missing
    }
}

impl Measure for Replayed {
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
        Ok(self.outcomes.get(&job.artifact).cloned().unwrap_or_else(|| {
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
        let timing = |it: &&Job| self.outcomes.get(&it.artifact)?.timing().cloned();
        let missing = || Outcome::Invalid("it is not in the log".to_owned());
        Ok(jobs.iter().map(timing).collect::<Option<_>>().ok_or_else(missing))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_in_the_log_is_answered_and_the_rest_is_counted() {
        let timed = |ns| Outcome::Timed(Timing::new(vec![ns]).unwrap());
        let job = |artifact: &str| Job { artifact: artifact.to_owned(), ..Job::default() };
        let entries =
            [("a", Outcome::TimedOut), ("a", timed(5.0)), ("a", timed(7.0)), ("b", timed(1.0))];
        let mut log = Replayed::new(entries.map(|(a, it)| (a.to_owned(), it)));
        let policy = Policy::default();
        assert_eq!(log.measure(&job("a"), &policy).unwrap(), timed(5.0));
        assert!(log.measure(&job("c"), &policy).unwrap().timing().is_none());
        assert_eq!(log.n_missing(), 1);
        let timings = log.compare(&[&job("b"), &job("a")], 5, &policy).unwrap().unwrap();
        assert_eq!((timings[0].min_ns(), timings[1].min_ns()), (1.0, 5.0));
        assert!(log.compare(&[&job("b"), &job("c")], 5, &policy).unwrap().is_err());
    }
}

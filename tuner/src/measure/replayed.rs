//! Measurements from a log instead of a device: what was tried once can be searched again, by other
//! strategies or with other seeds, where there is no hardware.

use std::collections::{BTreeMap, VecDeque};

use super::{CaseSpec, Job, Measure, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};

/// What became of code, by its identity.
#[derive(Clone, Debug, Default)]
pub struct Replayed {
    screened: BTreeMap<String, Outcome>,
    /// Timings taken side by side, in the order in which they were.
    compared: BTreeMap<String, VecDeque<Timing>>,
    n_missing: usize,
}

impl Replayed {
    /// Answers by these outcomes, those among them that are from comparisons being marked. Of several
    /// of the same code, the first that is timed counts; comparisons are answered one after the
    /// other.
    pub fn new(outcomes: impl IntoIterator<Item = (String, Outcome, bool)>) -> Self {
        let mut log = Self::default();
        for (artifact, outcome, is_compared) in outcomes {
            match outcome {
                Outcome::Timed(timing) if is_compared => {
                    log.compared.entry(artifact).or_default().push_back(timing);
                }
                outcome => {
                    let known = log.screened.get(&artifact);
                    if known.is_none_or(|it| it.timing().is_none()) {
                        log.screened.insert(artifact, outcome);
                    }
                }
            }
        }
        log
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
    fn what_is_in_the_log_is_answered_and_the_rest_is_counted() {
        let timed = |ns| Outcome::Timed(Timing::new(vec![ns]).unwrap());
        let job = |artifact: &str| Job { artifact: artifact.to_owned(), ..Job::default() };
        let entries = [
            ("a", Outcome::TimedOut, false),
            ("a", timed(5.0), false),
            ("a", timed(7.0), false),
            ("b", timed(1.0), false),
            ("a", timed(6.0), true),
        ];
        let mut log = Replayed::new(entries.map(|(a, it, side)| (a.to_owned(), it, side)));
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

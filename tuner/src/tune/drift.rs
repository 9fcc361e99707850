//! The drift baseline: a candidate that is timed again and again, to notice when the machine slows down.

use std::time::Duration;

use super::session::Candidate;
use crate::measure::{Measure, MeasureError, Policy};
use crate::outcome::{Outcome, Timing};

/// A candidate whose first timing is compared with later ones.
#[derive(Clone, Debug)]
pub(super) struct DriftBaseline {
    candidate: Candidate,
    policy: Policy,
    /// Set after the first warning.
    has_warned: bool,
}

/// The slowdown up to which timings are not corrected. Virtual cores that share one of the host, and
/// thermal throttling, cause larger ones for seconds at a time.
const TOLERATED: f64 = 1.25;
/// The change of speed in the course of a batch from which its timings are not believed.
const DISTURBED: f64 = TOLERATED;
/// The minimum latency of a baseline: shorter ones are dominated by the wake-up of threads.
const MIN_NS: f64 = 20_000.0;
/// Samples of each timing, at most, and their time; the fastest counts.
const MAX_SAMPLES: usize = 5;
const SAMPLES_NS: f64 = 50e6;
/// Retries after a slow timing, and the pause before each.
const RETRIES: usize = 1;
const PAUSE: Duration = Duration::from_millis(100);

impl DriftBaseline {
    /// Creates a baseline of a candidate that works; `None` if its latency is too short.
    pub(super) fn new(candidate: Candidate, policy: Policy) -> Option<Self> {
        let is_long = candidate.timing.min_ns() >= MIN_NS;
        is_long.then_some(Self { candidate, policy, has_warned: false })
    }

    /// Returns the ratio of its latency now to that at first; waits and retries if it is large.
    /// `None` if it no longer runs.
    pub(super) fn slowdown(
        &mut self,
        measurer: &mut dyn Measure,
    ) -> Result<Option<f64>, MeasureError> {
        for retry in 0..=RETRIES {
            let Some(now) = self.time(measurer)? else { return Ok(None) };
            let ratio = now.min_ns() / self.candidate.timing.min_ns();
            if ratio < TOLERATED || retry == RETRIES || !measurer.runs_code() {
                return Ok(Some(ratio));
            }
            std::thread::sleep(PAUSE);
        }
        Ok(None)
    }

    /// Returns a warning about the first large slowdown.
    pub(super) fn warning(&mut self, slowdown: f64) -> Option<String> {
        if slowdown < TOLERATED || self.has_warned {
            return None;
        }
        self.has_warned = true;
        Some(format!(
            "this machine takes {slowdown:.1} times as long as when tuning began; \
             timings of now are scaled, and the best are compared again at the end",
        ))
    }

    /// Scales a timing by the slowdown of the machine when it was taken. Small ones are noise of the
    /// baseline itself.
    pub(super) fn corrected(outcome: Outcome, slowdown: f64) -> Outcome {
        let is_same = (1.0 / TOLERATED..TOLERATED).contains(&slowdown);
        match outcome {
            Outcome::Timed(timing) if !is_same => Outcome::Timed(timing.scaled(slowdown)),
            other => other,
        }
    }

    /// Times the candidate.
    fn time(&self, measurer: &mut dyn Measure) -> Result<Option<Timing>, MeasureError> {
        let samples = (SAMPLES_NS / self.candidate.timing.min_ns()) as usize;
        let samples = samples.clamp(1, MAX_SAMPLES);
        let timings = measurer.compare(&[&self.candidate.job], samples, &self.policy)?;
        Ok(timings.ok().and_then(|it| it.into_iter().next()))
    }
}

/// Tells if the machine was disturbed between two slowdowns.
pub(super) fn is_disturbed(before: f64, after: f64) -> bool {
    after / before >= DISTURBED || before / after >= DISTURBED
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::{CaseSpec, Job};
    use tvmtune_ir::artifact::ArtifactId;
    use tvmtune_plan::record::Source;

    fn timing(ns: f64) -> Timing {
        Timing::new(vec![ns]).unwrap()
    }

    /// A measurer that answers every comparison with the next of some latencies.
    struct FakeMeasurer(Vec<f64>);

    impl Measure for FakeMeasurer {
        fn runs_code(&self) -> bool {
            // No pauses in tests.
            false
        }
        fn set_up(&mut self, _: &[CaseSpec], _: Option<&[u8]>) -> Result<(), MeasureError> {
            Ok(())
        }
        fn evaluate(
            &mut self,
            _: &Job,
            _: usize,
        ) -> Result<Result<Vec<u8>, Outcome>, MeasureError> {
            Ok(Err(Outcome::TimedOut))
        }
        fn measure(&mut self, _: &Job, _: &Policy) -> Result<Outcome, MeasureError> {
            Ok(Outcome::TimedOut)
        }
        fn compare(
            &mut self,
            jobs: &[&Job],
            _: usize,
            _: &Policy,
        ) -> Result<Result<Vec<Timing>, Outcome>, MeasureError> {
            assert_eq!(jobs.len(), 1);
            Ok(self.0.pop().map(|ns| vec![timing(ns)]).ok_or(Outcome::TimedOut))
        }
    }

    #[test]
    fn a_machine_that_slows_down_is_noticed_once_and_accounted_for() {
        let candidate = Candidate {
            point: None,
            trace: Vec::new(),
            artifact: ArtifactId::of([]),
            source: Source::Default,
            threads: 1,
            job: Job::default(),
            timing: timing(100e3),
            is_verified: true,
            error: None,
            accuracy: None,
        };
        let baseline = |candidate| DriftBaseline::new(candidate, Policy::default());
        let mut drift = baseline(candidate.clone()).unwrap();
        let mut machine = FakeMeasurer(vec![300e3, 200e3, 104e3]);
        let mut slowdown = || drift.slowdown(&mut machine).unwrap();
        let seen = [slowdown(), slowdown(), slowdown(), slowdown()];
        assert_eq!(seen, [Some(1.04), Some(2.0), Some(3.0), None]);
        assert!(baseline(Candidate { timing: timing(5e3), ..candidate }).is_none());
        assert!(drift.warning(1.04).is_none());
        assert!(drift.warning(2.0).is_some_and(|it| it.contains("2.0 times")));
        assert!(drift.warning(3.0).is_none(), "once is enough");
        assert!(!is_disturbed(2.0, 2.1), "slow all the time");
        assert!(is_disturbed(1.0, 1.3) && is_disturbed(1.3, 1.0));
        let corrected =
            |slowdown| DriftBaseline::corrected(Outcome::Timed(timing(100.0)), slowdown);
        assert_eq!(corrected(2.0), Outcome::Timed(timing(50.0)));
        assert_eq!(corrected(0.5), Outcome::Timed(timing(200.0)));
        assert_eq!(corrected(1.04), Outcome::Timed(timing(100.0)));
        assert_eq!(corrected(0.96), Outcome::Timed(timing(100.0)));
    }
}

//! The times that stages took, by which the executor expects those of the next.

use std::collections::BTreeMap;
use std::time::Duration;

use super::decide::JobId;
use super::stage::Stage;

/// The weight of the latest time in an average.
const LATEST: f64 = 0.3;
/// The expected time of a stage of which none was seen.
const UNKNOWN: Duration = Duration::from_secs(1);

/// Exponential averages of the times of stages: of each job, and of all.
#[derive(Clone, Debug, Default)]
pub(super) struct StageTimes {
    of_job: BTreeMap<(JobId, Stage), Duration>,
    of_all: BTreeMap<Stage, Duration>,
}

impl StageTimes {
    /// Takes the time of a stage into account.
    pub(super) fn observe(&mut self, job: JobId, stage: Stage, time: Duration) {
        let average = |known: &mut Duration| {
            *known = known.mul_f64(1.0 - LATEST) + time.mul_f64(LATEST);
        };
        self.of_job.entry((job, stage)).and_modify(average).or_insert(time);
        self.of_all.entry(stage).and_modify(average).or_insert(time);
    }

    /// Forgets a job that has ended; its times count for others.
    pub(super) fn forget(&mut self, job: JobId) {
        self.of_job.retain(|(it, _), _| *it != job);
    }

    /// Returns the time that a stage of a job is expected to take.
    pub(super) fn expected(&self, job: JobId, stage: Stage) -> Duration {
        let own = self.of_job.get(&(job, stage));
        own.or_else(|| self.of_all.get(&stage)).copied().unwrap_or(UNKNOWN)
    }

    /// Returns the expected time from the start of a stage until its job can measure.
    pub(super) fn to_device(&self, job: JobId, stage: Stage) -> Duration {
        let stages: &[Stage] = match stage {
            Stage::Measure | Stage::Rank => &[],
            Stage::Build => &[Stage::Build],
            Stage::Propose => &[Stage::Propose, Stage::Build],
            Stage::Judge | Stage::Learn => &[stage, Stage::Propose, Stage::Build],
        };
        stages.iter().map(|it| self.expected(job, *it)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_a_job_go_before_those_of_all() {
        let ms = Duration::from_millis;
        let [first, second] = [JobId(0), JobId(1)];
        let mut times = StageTimes::default();
        assert_eq!(times.expected(first, Stage::Build), UNKNOWN);
        times.observe(first, Stage::Build, ms(100));
        assert_eq!(times.expected(second, Stage::Build), ms(100));
        times.observe(second, Stage::Build, ms(200));
        assert_eq!(times.expected(first, Stage::Build), ms(100));
        assert_eq!(times.expected(second, Stage::Build), ms(200));
        assert_eq!(times.expected(JobId(2), Stage::Build), ms(130));
        times.observe(first, Stage::Propose, ms(10));
        assert_eq!(times.to_device(first, Stage::Propose), ms(110));
        assert_eq!(times.to_device(first, Stage::Measure), Duration::ZERO);
        times.forget(first);
        assert_eq!(times.expected(first, Stage::Build), ms(130));
    }
}

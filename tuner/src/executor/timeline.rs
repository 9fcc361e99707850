//! The stages that ran, when and beside what: real ones, or simulated ones.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::decide::JobId;
use super::stage::{Needs, Stage};

/// A stage that ran.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// The number of its job.
    pub job: u64,
    /// The stage.
    pub stage: Stage,
    /// Cores that it had.
    pub cores: usize,
    /// True if nothing should have run beside it.
    pub is_alone: bool,
    /// The device that it had.
    pub device: Option<String>,
    /// The time when it began to wait for its resources.
    pub asked: Duration,
    /// The time when it had them.
    pub start: Duration,
    /// The time when it gave them back.
    pub end: Duration,
}

/// Stages that ran on one machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    /// The stages, in the order in which they ended.
    pub spans: Vec<Span>,
}

impl Span {
    /// Creates the span of a stage that asked, started and ended at these times.
    pub(super) fn new(
        job: JobId,
        stage: Stage,
        needs: &Needs,
        (asked, start, end): (Duration, Duration, Duration),
    ) -> Self {
        let device = needs.device.as_ref().map(ToString::to_string);
        let (cores, is_alone) = (needs.cores, needs.is_alone);
        Self { job: job.0, stage, cores, is_alone, device, asked, start, end }
    }
}

impl Timeline {
    /// Returns the time until the last stage ended.
    pub fn makespan(&self) -> Duration {
        self.spans.iter().map(|it| it.end).max().unwrap_or_default()
    }

    /// Returns the mean time until a job's last stage ended.
    pub fn mean_completion(&self) -> Duration {
        let mut ends: BTreeMap<u64, Duration> = BTreeMap::new();
        for it in &self.spans {
            let end = ends.entry(it.job).or_default();
            *end = (*end).max(it.end);
        }
        ends.values().sum::<Duration>() / ends.len().max(1) as u32
    }

    /// Returns the share of the makespan in which a core was in use, as the mean over `cores` cores.
    pub fn core_use(&self, cores: usize) -> f64 {
        let busy = self.spans.iter().map(|it| (it.end - it.start).as_secs_f64() * it.cores as f64);
        busy.sum::<f64>() / (self.makespan().as_secs_f64() * cores as f64).max(f64::MIN_POSITIVE)
    }

    /// Returns the share of all stages' time that one kind of stage took.
    pub fn share_of(&self, stage: Stage) -> f64 {
        let time = |it: &Span| (it.end - it.start).as_secs_f64();
        let of_stage = self.spans.iter().filter(|it| it.stage == stage).map(time);
        of_stage.sum::<f64>() / self.spans.iter().map(time).sum::<f64>().max(f64::MIN_POSITIVE)
    }

    /// Returns the share of the makespan in which a device measured, as the mean over the devices that
    /// were used.
    pub fn device_use(&self) -> f64 {
        let mut busy: BTreeMap<&str, Vec<(Duration, Duration)>> = BTreeMap::new();
        for it in self.spans.iter().filter(|it| it.stage.is_timed()) {
            if let Some(device) = &it.device {
                busy.entry(device).or_default().push((it.start, it.end));
            }
        }
        let all = busy.len().max(1) as f64 * self.makespan().as_secs_f64();
        busy.into_values().map(covered).sum::<f64>() / all.max(f64::MIN_POSITIVE)
    }

    /// Returns the share of the time of timed stages in which another stage had what they should have had
    /// for themselves: the cores, or the device.
    pub fn disturbed(&self) -> f64 {
        let mut time = 0.0;
        let mut disturbed = 0.0;
        for (n, it) in self.spans.iter().enumerate().filter(|(_, it)| it.stage.is_timed()) {
            time += (it.end - it.start).as_secs_f64();
            let disturbs = |other: &Span| {
                it.is_alone && other.cores > 0 || it.device.is_some() && it.device == other.device
            };
            let others = self.spans.iter().enumerate().filter(|(other, _)| *other != n);
            let overlaps = others
                .filter(|(_, other)| disturbs(other))
                .map(|(_, other)| (other.start.max(it.start), other.end.min(it.end)))
                .filter(|(start, end)| start < end);
            disturbed += covered(overlaps.collect());
        }
        if time > 0.0 { disturbed / time } else { 0.0 }
    }
}

/// Returns the time that is in at least one of some spans, in seconds.
fn covered(mut spans: Vec<(Duration, Duration)>) -> f64 {
    spans.sort_unstable();
    let mut end = Duration::ZERO;
    let mut time = 0.0;
    for span in spans {
        time += span.1.saturating_sub(span.0.max(end)).as_secs_f64();
        end = end.max(span.1);
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(job: u64, stage: Stage, start: u64, end: u64) -> Span {
        let second = Duration::from_secs;
        let device = stage.is_timed().then(|| "cpu".to_owned());
        let (start, end, is_alone) = (second(start), second(end), stage.is_timed());
        Span { job, stage, cores: 1, is_alone, device, asked: start, start, end }
    }

    fn seconds((start, end): (u64, u64)) -> (Duration, Duration) {
        (Duration::from_secs(start), Duration::from_secs(end))
    }

    #[test]
    fn shares_are_of_the_makespan() {
        let timeline = Timeline {
            spans: vec![
                span(0, Stage::Build, 0, 2),
                span(1, Stage::Build, 1, 4),
                span(0, Stage::Measure, 2, 6),
                span(1, Stage::Measure, 6, 8),
            ],
        };
        assert_eq!(timeline.makespan(), Duration::from_secs(8));
        assert_eq!(timeline.mean_completion(), Duration::from_secs(7));
        assert_eq!(timeline.core_use(2), 11.0 / 16.0);
        assert_eq!(timeline.device_use(), 6.0 / 8.0);
        assert_eq!(timeline.share_of(Stage::Build), 5.0 / 11.0);
        assert_eq!(covered([(0, 2), (1, 3), (5, 6)].map(seconds).to_vec()), 4.0);
        assert_eq!(timeline.disturbed(), 2.0 / 6.0, "a build ran beside a measurement");
        let on_gpu = |it: &Span| Span { is_alone: false, ..it.clone() };
        let on_gpu = Timeline { spans: timeline.spans.iter().map(on_gpu).collect() };
        assert_eq!(on_gpu.disturbed(), 0.0);
        assert_eq!(Timeline::default().core_use(2), 0.0);
    }
}

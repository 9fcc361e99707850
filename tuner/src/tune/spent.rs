//! The time of a run or of a task, by what it was spent on.

use std::time::Duration;

use super::session::Context;

/// An activity of a tuner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Activity {
    /// Computing expected results, and checking them against the definition.
    Judging,
    /// Generating code of candidates.
    Generating,
    /// Verifying and timing candidates.
    Measuring,
    /// Choosing candidates: strategies, features and training of the cost model.
    Proposing,
    /// Timing finalists side by side.
    Comparing,
}

/// The time that was spent, by activity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeSpent {
    /// Computing expected results, and checking them against the definition.
    pub judging: Duration,
    /// Generating code of candidates.
    pub generating: Duration,
    /// Verifying and timing candidates.
    pub measuring: Duration,
    /// Choosing candidates: strategies, features and training of the cost model.
    pub proposing: Duration,
    /// Timing finalists side by side.
    pub comparing: Duration,
    /// Waiting for locks, and for workers to start.
    pub waiting: Duration,
    /// All activities, and the rest: records, arguments of workers.
    pub total: Duration,
}

impl TimeSpent {
    /// Returns the time of the search proper.
    pub fn searching(&self) -> Duration {
        self.generating + self.measuring + self.proposing
    }

    /// Returns the time that is none of the activities.
    pub fn other(&self) -> Duration {
        self.total.saturating_sub(self.activities())
    }

    /// Returns the time of all activities.
    pub(super) fn activities(&self) -> Duration {
        self.searching() + self.judging + self.comparing + self.waiting
    }

    /// Adds the activities of another span; the total is for the caller, who has a clock.
    pub fn add(&mut self, other: &Self) {
        self.judging += other.judging;
        self.generating += other.generating;
        self.measuring += other.measuring;
        self.proposing += other.proposing;
        self.comparing += other.comparing;
        self.waiting += other.waiting;
    }

    /// Adds time to an activity.
    pub(super) fn spend(&mut self, activity: Activity, time: Duration) {
        *match activity {
            Activity::Judging => &mut self.judging,
            Activity::Generating => &mut self.generating,
            Activity::Measuring => &mut self.measuring,
            Activity::Proposing => &mut self.proposing,
            Activity::Comparing => &mut self.comparing,
        } += time;
    }
}

impl Context<'_> {
    /// Calls `f` and adds its time to an activity, less that of waiting and of starting workers. Calls do
    /// not nest: time would count twice.
    pub(super) fn timed<R>(&mut self, activity: Activity, f: impl FnOnce(&mut Self) -> R) -> R {
        let (clock, starting) = (self.clock(), self.measurer.start_time());
        let result = f(self);
        self.times.waiting += self.measurer.start_time().saturating_sub(starting);
        let time = self.since(clock);
        self.times.spend(activity, time);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_activity_is_the_rest() {
        let ms = Duration::from_millis;
        let mut times = TimeSpent { total: ms(100), waiting: ms(7), ..TimeSpent::default() };
        let activities = [
            Activity::Judging,
            Activity::Generating,
            Activity::Measuring,
            Activity::Proposing,
            Activity::Comparing,
        ];
        activities.into_iter().for_each(|it| times.spend(it, ms(10)));
        assert_eq!((times.searching(), times.other()), (ms(30), ms(43)));
        let mut both = times;
        both.add(&times);
        assert_eq!((both.searching(), both.total), (ms(60), ms(100)));
        assert_eq!(both.other(), Duration::ZERO, "two spans do not fit into one");
    }
}

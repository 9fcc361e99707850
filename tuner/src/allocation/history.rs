//! The history of a task: the latency of each trial, and the slots in which they were made.

/// The trials of a task so far.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct History {
    /// The latency of each trial in ns; infinite for those that failed.
    latencies: Vec<f64>,
    /// The best latency after each trial.
    best: Vec<f64>,
    /// The slots, in order.
    slots: Vec<Slot>,
    is_over: bool,
}

/// A slot that a task was given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slot {
    /// The number of trials after it, of earlier slots too.
    pub trials: usize,
    /// The seconds that the task had after it, in earlier slots too.
    pub seconds: f64,
}

impl History {
    /// Adds a trial; `None` if the candidate failed.
    pub fn add_trial(&mut self, latency_ns: Option<f64>) {
        let latency = latency_ns.filter(|it| *it > 0.0).unwrap_or(f64::INFINITY);
        self.best.push(self.best_ns().min(latency));
        self.latencies.push(latency);
    }

    /// Ends a slot that took so many seconds.
    pub fn end_slot(&mut self, seconds: f64) {
        let before = self.slots.last().map_or(0.0, |it| it.seconds);
        let seconds = if seconds.is_finite() { seconds.max(0.0) } else { 0.0 };
        self.slots.push(Slot { trials: self.latencies.len(), seconds: before + seconds });
    }

    /// Ends the task: there is nothing more to measure.
    pub fn end(&mut self) {
        self.is_over = true;
    }

    /// Tells if there is nothing more to measure.
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns the latency of each trial; infinite for those that failed.
    pub fn latencies(&self) -> &[f64] {
        &self.latencies
    }

    /// Returns the best latency after each trial; infinite before the first one that worked.
    pub fn best(&self) -> &[f64] {
        &self.best
    }

    /// Returns the best latency; infinite if nothing worked.
    pub fn best_ns(&self) -> f64 {
        self.best.last().copied().unwrap_or(f64::INFINITY)
    }

    /// Returns the slots.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    /// Returns the best latency after so many slots; infinite after none.
    pub fn best_after(&self, n_slots: usize) -> f64 {
        let trials =
            n_slots.checked_sub(1).and_then(|it| self.slots.get(it)).map_or(0, |it| it.trials);
        trials.checked_sub(1).map_or(f64::INFINITY, |it| self.best[it])
    }

    /// Returns the number of trials since the best one; all, if none worked.
    pub fn n_stale(&self) -> usize {
        let best = self.best_ns();
        let first =
            if best.is_finite() { self.best.partition_point(|it| *it > best) + 1 } else { 0 };
        self.best.len() - first
    }

    /// Returns the trials and the seconds that the next slot is expected to take, by the last ones; `None`
    /// before the first.
    pub fn expected_slot(&self) -> Option<(f64, f64)> {
        let last = self.slots.last()?;
        let n = self.slots.len().min(EXPECTED_FROM);
        let before = self.slots.len().checked_sub(n + 1).map(|it| self.slots[it]);
        let (trials, seconds) = before.map_or((0, 0.0), |it| (it.trials, it.seconds));
        Some(((last.trials - trials) as f64 / n as f64, (last.seconds - seconds) / n as f64))
    }
}

/// The slots by whose mean the next one is estimated.
const EXPECTED_FROM: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_known_after_each_trial_and_slot() {
        let mut history = History::default();
        assert_eq!((history.best_ns(), history.n_stale()), (f64::INFINITY, 0));
        assert_eq!(history.expected_slot(), None);
        [None, None].iter().for_each(|it| history.add_trial(*it));
        assert_eq!((history.n_stale(), history.best_after(1)), (2, f64::INFINITY));
        history.end_slot(2.0);
        for ns in [9.0, 12.0, 7.0, 7.0, 8.0] {
            history.add_trial(Some(ns));
        }
        history.end_slot(4.0);
        assert_eq!(history.best()[2..], [9.0, 9.0, 7.0, 7.0, 7.0]);
        assert_eq!((history.n_stale(), history.best_after(2)), (2, 7.0));
        assert_eq!((history.best_after(0), history.best_after(1)), (f64::INFINITY, f64::INFINITY));
        assert_eq!(history.expected_slot(), Some((3.5, 3.0)));
        history.add_trial(Some(0.0));
        assert_eq!(history.best_ns(), 7.0, "no time at all is no latency");
    }
}

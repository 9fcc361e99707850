//! Success statistics of transfers: a penalty for sources that did not help, and the classes that
//! are given up.

use std::collections::BTreeMap;

use tvmtune_ir::workload::{ClassId, WorkloadId};

/// Transfers in a row that did not improve on the best latency, after which a class is given up:
/// several sources, each by all policies.
const GIVE_UP: u64 = 24;

/// The result of measuring a transferred schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferResult {
    /// It was faster than all schedules measured for the task before.
    Improved,
    /// It was not, or it failed.
    NoBetter,
}

/// Counts of transfers that succeeded and failed.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    sources: BTreeMap<(WorkloadId, ClassId), Counts>,
    /// Failures since the last success.
    failed_in_a_row: BTreeMap<ClassId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    succeeded: u64,
    failed: u64,
}

impl History {
    /// Counts one transfer.
    pub(super) fn count(&mut self, source: &WorkloadId, class: &ClassId, result: TransferResult) {
        let counts = self.sources.entry((*source, *class)).or_default();
        let in_a_row = self.failed_in_a_row.entry(*class).or_default();
        if result == TransferResult::Improved {
            counts.succeeded += 1;
            *in_a_row = 0;
        } else {
            counts.failed += 1;
            *in_a_row += 1;
        }
    }

    /// Returns the addition to the distance of a source for its success rate in a class: 0 without
    /// trials, negative if most of them succeeded.
    pub(super) fn penalty(&self, source: &WorkloadId, class: &ClassId) -> f64 {
        let counts = self.sources.get(&(*source, *class)).copied().unwrap_or_default();
        let Counts { succeeded, failed } = counts;
        // Posterior mean of the success rate under a uniform prior (Laplace's rule of succession).
        let rate = (succeeded as f64 + 1.0) / ((succeeded + failed) as f64 + 2.0);
        -(2.0 * rate).ln()
    }

    /// Tells if transfers within the class are no longer tried.
    pub(super) fn is_given_up(&self, class: &ClassId) -> bool {
        self.failed_in_a_row.get(class).is_some_and(|it| *it >= GIVE_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_that_helped_come_nearer_and_others_recede() {
        let (source, other) = (WorkloadId::of("a"), WorkloadId::of("b"));
        let class = ClassId(WorkloadId::of("c").0);
        let mut history = History::default();
        assert_eq!(history.penalty(&source, &class), 0.0);
        history.count(&source, &class, TransferResult::Improved);
        assert!(history.penalty(&source, &class) < 0.0);
        for n in 0..GIVE_UP {
            assert!(!history.is_given_up(&class), "after {n}");
            history.count(&source, &class, TransferResult::NoBetter);
        }
        assert!(history.penalty(&source, &class) > 1.5);
        assert!(history.is_given_up(&class));
        assert_eq!(history.penalty(&other, &class), 0.0);
        history.count(&other, &class, TransferResult::Improved);
        assert!(!history.is_given_up(&class));
    }
}

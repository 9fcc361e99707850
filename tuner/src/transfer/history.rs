//! How transfers did so far: which donors are worth another try, and which classes are not.

use std::collections::BTreeMap;

use tvmtune_ir::workload::{ClassId, WorkloadId};

/// Transfers in a row that were no better than what there was, after which a class is given up:
/// several donors, each by all policies.
const GIVE_UP: u64 = 24;

/// What became of transfers.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    donors: BTreeMap<(WorkloadId, ClassId), Counts>,
    /// Failures since the last success.
    failed_in_a_row: BTreeMap<ClassId, u64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    succeeded: u64,
    failed: u64,
}

impl History {
    pub(super) fn tell(&mut self, donor: &WorkloadId, class: &ClassId, succeeded: bool) {
        let counts = self.donors.entry((donor.clone(), class.clone())).or_default();
        let in_a_row = self.failed_in_a_row.entry(class.clone()).or_default();
        if succeeded {
            counts.succeeded += 1;
            *in_a_row = 0;
        } else {
            counts.failed += 1;
            *in_a_row += 1;
        }
    }

    /// What a donor's past in a class adds to its distance: nothing where nothing is known, less
    /// than that for one that mostly helped.
    pub(super) fn penalty(&self, donor: &WorkloadId, class: &ClassId) -> f64 {
        let counts = self.donors.get(&(donor.clone(), class.clone())).copied().unwrap_or_default();
        let Counts { succeeded, failed } = counts;
        // The mean of the rate of success, where any was as likely before.
        let rate = (succeeded as f64 + 1.0) / ((succeeded + failed) as f64 + 2.0);
        -(2.0 * rate).ln()
    }

    pub(super) fn is_given_up(&self, class: &ClassId) -> bool {
        self.failed_in_a_row.get(class).is_some_and(|it| *it >= GIVE_UP)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_helped_comes_nearer_and_what_did_not_goes_away() {
        let (donor, other) = (WorkloadId("a".into()), WorkloadId("b".into()));
        let class = ClassId("c".into());
        let mut history = History::default();
        assert_eq!(history.penalty(&donor, &class), 0.0);
        history.tell(&donor, &class, true);
        assert!(history.penalty(&donor, &class) < 0.0);
        for n in 0..GIVE_UP {
            assert!(!history.is_given_up(&class), "after {n}");
            history.tell(&donor, &class, false);
        }
        assert!(history.penalty(&donor, &class) > 1.5);
        assert!(history.is_given_up(&class));
        assert_eq!(history.penalty(&other, &class), 0.0);
        history.tell(&other, &class, true);
        assert!(!history.is_given_up(&class));
    }
}

//! The state of the search of a bucket, and the one rule that decides if it goes on.
//!
//! A search is complete if it ended by itself, or if it has had what one kernel may take, over all
//! sessions together: then nothing is expected to gain. Anything else is for the next session.

use super::Bucket;

/// The limits of the search of one kernel, over all sessions together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchLimits {
    /// Candidates.
    pub trials: u64,
    /// Wall time.
    pub seconds: f64,
}

/// The state of the search of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Search {
    /// To the end: nothing is expected to gain.
    Complete,
    /// Until a budget ended.
    Partial,
    /// The default schedule was measured, and nothing else.
    DefaultOnly,
    /// Nothing was measured for this device and these ranges.
    #[default]
    None,
}

/// The effort of finding a schedule.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Effort {
    /// Candidates measured.
    pub trials: u64,
    /// Wall time spent on them.
    pub seconds: f64,
    /// The state of the search.
    pub search: Search,
}

/// The share of its time after which a search counts as complete: a session ends before the time is
/// over, so that it can rank its best candidates.
const COMPLETE_SHARE: f64 = 0.85;
/// The time, relative to that of a search, after which a kernel is given up of which nothing but the
/// default schedule could be measured.
const HOPELESS: f64 = 3.0;

impl Bucket {
    /// Returns how far the search got, within limits for all sessions together.
    pub fn search(&self, limits: SearchLimits) -> Search {
        let share = if self.trials > 1 { COMPLETE_SHARE } else { HOPELESS };
        let is_spent = self.trials >= limits.trials || self.seconds >= share * limits.seconds;
        match self.trials {
            _ if self.complete || is_spent => Search::Complete,
            0..=1 => Search::DefaultOnly,
            _ => Search::Partial,
        }
    }

    /// Has the search go on: the next build or `cargo tvmtune tune` tries more than the default schedule.
    pub fn begin_anew(&mut self) {
        (self.trials, self.seconds, self.complete) = (2, 0.0, false);
    }

    /// Returns the effort so far.
    pub fn effort(&self, limits: SearchLimits) -> Effort {
        Effort { trials: self.trials, seconds: self.seconds, search: self.search(limits) }
    }
}

impl Effort {
    /// Returns the time that the rest of the search may take, in seconds.
    pub fn seconds_left(&self, limits: SearchLimits) -> f64 {
        match self.search {
            Search::Complete => 0.0,
            Search::Partial => (limits.seconds - self.seconds).max(0.0),
            Search::DefaultOnly | Search::None => limits.seconds,
        }
    }
}

impl Search {
    /// The spelling in expansions.
    pub(crate) fn literal(self) -> &'static str {
        match self {
            Search::Complete => "Complete",
            Search::Partial => "Partial",
            Search::DefaultOnly => "DefaultOnly",
            Search::None => "None",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_complete_if_it_ended_by_itself_or_had_its_time() {
        let limits = SearchLimits { trials: 100, seconds: 20.0 };
        let check = |trials, seconds, complete, search: Search, left: f64| {
            let bucket = Bucket { trials, seconds, complete, ..Bucket::default() };
            let effort = bucket.effort(limits);
            assert_eq!((effort.search, effort.seconds_left(limits)), (search, left));
        };
        check(0, 0.0, false, Search::DefaultOnly, 20.0);
        check(1, 46.0, false, Search::DefaultOnly, 20.0);
        check(1, 60.0, false, Search::Complete, 0.0);
        check(1, 0.1, true, Search::Complete, 0.0);
        check(33, 5.0, false, Search::Partial, 15.0);
        check(33, 16.9, false, Search::Partial, 20.0 - 16.9);
        check(33, 17.0, false, Search::Complete, 0.0);
        check(100, 1.0, false, Search::Complete, 0.0);
        check(33, 1.0, true, Search::Complete, 0.0);
        assert_eq!(Effort::default().seconds_left(limits), 20.0, "what was never measured");
    }
}

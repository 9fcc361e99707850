//! The lines by which a child tells its parent what it does.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::section::{Problem, Verdict};

/// One line of a child's standard output, as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Line {
    /// The case with this number begins.
    Start(u64),
    /// It ended.
    End(End),
}

/// The end of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct End {
    /// The number of the case.
    pub case: u64,
    /// How it ended.
    pub result: Result<Verdict, Problem>,
    /// What was counted.
    pub counts: BTreeMap<String, u64>,
}

/// The cases of one child: every `step`-th from `first` on, below `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The first case.
    pub first: u64,
    /// The distance between two cases.
    pub step: u64,
    /// The end; `None` where time ends the campaign.
    pub end: Option<u64>,
}

impl Share {
    /// Returns the numbers of the cases.
    pub fn cases(self) -> impl Iterator<Item = u64> {
        let end = self.end.unwrap_or(u64::MAX);
        (0..).map_while(move |n: u64| {
            let case = self.first.checked_add(n.checked_mul(self.step)?)?;
            (case < end).then_some(case)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_have_each_case_once() {
        let share = |first| Share { first, step: 3, end: Some(8) }.cases();
        let mut all: Vec<u64> = (0..3).flat_map(share).collect();
        all.sort_unstable();
        assert_eq!(all, (0..8).collect::<Vec<_>>());
    }
}

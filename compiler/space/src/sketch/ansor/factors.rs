//! Lengths of tiles: the divisors of an axis, and powers of two where there are few.

use super::state::State;
use crate::sketch::{DecisionKind, Factor};
use tvmtune_schedule::{AxisId, StageId};

/// Innermost tiles are no longer than this.
const INNERMOST: u64 = 64;

/// One level of tiles of a loop.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    /// Its name.
    pub(super) name: &'static str,
    pub(super) kind: DecisionKind,
    /// About how long its tiles are by default.
    pub(super) wanted: u64,
    /// The longest tiles.
    pub(super) max: u64,
}

impl Level {
    /// A level of tiles of any length, which groups smaller ones.
    pub(super) fn outer(name: &'static str, wanted: u64) -> Self {
        Self { name, kind: DecisionKind::Outer, wanted, max: u64::MAX }
    }

    /// The innermost level.
    pub(super) fn inner(name: &'static str, wanted: u64) -> Self {
        Self { name, kind: DecisionKind::Inner, wanted, max: INNERMOST }
    }

    pub(super) fn at_most(self, max: u64) -> Self {
        Self { max, ..self }
    }
}

/// Opens how long the tiles of a loop are, level by level.
pub(super) fn open(
    state: &mut State,
    stage: StageId,
    axis: AxisId,
    levels: &[Level],
) -> Vec<Factor> {
    let b = &mut state.b;
    let group = b.new_group();
    let found = b.schedule.stage(stage).axis(axis);
    let name = format!("{} {}", b.stage_name(stage), found.name);
    let (extent, constant) = (b.max_extent(&found.extent), found.extent.as_constant());
    let factor = |level: &Level| {
        let max = extent.min(level.max);
        let options = if constant.is_some() { lengths(extent, max) } else { powers(max) };
        if options.len() == 1 {
            return Factor::Fixed(options[0]);
        }
        let name = format!("{name} {}", level.name);
        let best = nearest(&options, level.wanted);
        Factor::Open(b.decide_in(group, name, level.kind, &options, best))
    };
    levels.iter().map(factor).collect()
}

/// The divisors of an extent up to `max`; with the powers of two if those are more.
fn lengths(extent: u64, max: u64) -> Vec<u64> {
    let mut options: Vec<u64> = (1..=max).filter(|it| extent.is_multiple_of(*it)).collect();
    let powers = powers(max);
    if options.len() < powers.len() {
        options.extend(powers);
        options.sort_unstable();
        options.dedup();
    }
    options
}

fn powers(max: u64) -> Vec<u64> {
    (0..64).map(|it| 1 << it).take_while(|it| *it <= max).collect()
}

/// The option with the least ratio to what is wanted; of two the smaller.
fn nearest(options: &[u64], wanted: u64) -> u64 {
    let ratio = |it: &&u64| (**it as f64 / wanted as f64).ln().abs();
    *options.iter().min_by(|a, b| ratio(a).total_cmp(&ratio(b))).unwrap_or(&1)
}

/// So many times all of those lengths.
pub(super) fn product(factors: &[Factor]) -> Factor {
    let (mut fixed, mut open) = (1, Vec::new());
    for factor in factors {
        match factor {
            Factor::Fixed(times) => fixed *= times,
            Factor::Open(decision) => open.push(*decision),
            Factor::Times(times, decision) => {
                fixed *= times;
                open.push(*decision);
            }
            Factor::Product(times, decisions) => {
                fixed *= times;
                open.extend(decisions);
            }
        }
    }
    if open.is_empty() { Factor::Fixed(fixed) } else { Factor::Product(fixed, open) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_with_few_divisors_have_tails() {
        assert_eq!(lengths(512, 64), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(lengths(56, 56), [1, 2, 4, 7, 8, 14, 28, 56]);
        assert_eq!(lengths(13, 13), [1, 2, 4, 8, 13]);
        assert_eq!(lengths(1009, 64), [1, 2, 4, 8, 16, 32, 64]);
        assert_eq!(lengths(1, 1), [1]);
    }

    #[test]
    fn the_middle_is_by_ratio() {
        assert_eq!(nearest(&[1, 3], 16), 3);
        assert_eq!(nearest(&[1, 2, 7, 14], 4), 7);
        assert_eq!(nearest(&[2, 8], 4), 2);
    }
}

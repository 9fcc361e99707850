//! Which lengths tiles may have: the divisors of an axis, and powers of two where there are few.

use super::state::State;
use crate::schedule::sketch::{DecisionKind, Factor};
use crate::schedule::{AxisId, StageId};

/// Innermost tiles are no longer than this.
const INNERMOST: u64 = 64;

/// The length of an innermost tile of a loop.
pub(super) fn innermost(state: &mut State, stage: StageId, axis: AxisId, what: &str) -> Factor {
    let group = state.b.new_group();
    open(state, (stage, axis), what, DecisionKind::Inner, 16, group)
}

/// One level of the tiles of a loop; by default about `wanted`.
pub(super) fn open(
    state: &mut State,
    (stage, axis): (StageId, AxisId),
    what: &str,
    kind: DecisionKind,
    wanted: u64,
    group: u32,
) -> Factor {
    let b = &mut state.b;
    let extent = &b.schedule.stage(stage).axis(axis).extent;
    let most = b.most(extent);
    let least = if kind == DecisionKind::Inner { most.min(INNERMOST) } else { most };
    let options = match extent.as_constant() {
        Some(_) => lengths(most, least),
        None => powers(least),
    };
    if options.len() == 1 {
        return Factor::Fixed(options[0]);
    }
    let name =
        format!("{} {} {what}", b.stage_name(stage), b.schedule.stage(stage).axis(axis).name);
    let best = nearest(&options, wanted);
    Factor::Open(b.decide(name, kind, &options, best, group))
}

/// The divisors of an extent up to `most`; with the powers of two if those are more.
fn lengths(extent: u64, most: u64) -> Vec<u64> {
    let mut options: Vec<u64> = (1..=most).filter(|it| extent.is_multiple_of(*it)).collect();
    let powers = powers(most);
    if options.len() < powers.len() {
        options.extend(powers);
        options.sort_unstable();
        options.dedup();
    }
    options
}

fn powers(most: u64) -> Vec<u64> {
    (0..64).map(|it| 1 << it).take_while(|it| *it <= most).collect()
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

//! Functions judged on programs that they were not trained on, and the margin that follows from it.

use super::function::{Analysis, ValueFunction};
use super::train::{TrainingProgram, train};
use crate::statistics::{Ratio, ratio};

/// Parts of which each is held out once.
const N_FOLDS: usize = 5;
/// The margins that are considered.
const MARGINS: [f64; 6] = [0.0, 0.02, 0.05, 0.1, 0.2, 0.4];

/// A function with the numbers of the programs that it was not trained on.
#[derive(Clone, Debug)]
pub struct Fold {
    /// The function.
    pub function: ValueFunction,
    /// The numbers of the programs that were held out.
    pub held_out: Vec<usize>,
}

/// The schedule that a function chose for a program that was held out, timed beside the default one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The number of the group of the program: programs of a group are held out together.
    pub group: usize,
    /// The predicted speed in that of the default schedule; 1 if that was chosen.
    pub gain: f64,
    /// The measured latency in that of the default schedule.
    pub latency: f64,
}

/// Trains functions of which each has not seen some groups of programs: `groups` has the number of the group
/// of each program. Every program is held out once, if there are two groups or more.
pub fn folds(
    programs: &[TrainingProgram<'_>],
    groups: &[usize],
    analysis: Analysis,
    n_threads: usize,
) -> Vec<Fold> {
    let mut distinct = groups.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let n_folds = distinct.len().min(N_FOLDS);
    if n_folds < 2 {
        return Vec::new();
    }
    let place = |group: &usize| distinct.iter().position(|it| it == group).unwrap_or(0);
    let fold = |n: usize| {
        let is_held_out = |it: &usize| place(&groups[*it]) % n_folds == n;
        let (held_out, trained): (Vec<usize>, Vec<usize>) =
            (0..programs.len()).partition(is_held_out);
        let function = train(trained.iter().map(|it| &programs[*it]), analysis, n_threads);
        Fold { function, held_out }
    };
    (0..n_folds).map(fold).collect()
}

/// Returns the margin with which the choices for programs that were held out are fastest, the largest of those
/// that are equally good; `None` if nothing was judged.
pub fn best_margin(judged: &[Judged]) -> Option<f64> {
    let mean = |margin: f64| Some((margin, ratio(&latencies(judged, |_| margin))?.mean));
    let best = |best: Option<(f64, f64)>, it: (f64, f64)| match best {
        Some(best) if best.1 < it.1 => Some(best),
        _ => Some(it),
    };
    Some(MARGINS.into_iter().filter_map(mean).fold(None, best)?.0)
}

/// Returns the latency of choices in that of the default schedules, over groups, each with the margin that is
/// best for the others: a margin that was chosen by the latencies that it is judged on would flatter them.
pub fn held_out_latency(judged: &[Judged]) -> Option<Ratio> {
    let margin = |group: usize| {
        let others: Vec<Judged> = judged.iter().copied().filter(|it| it.group != group).collect();
        best_margin(&others).unwrap_or(f64::INFINITY)
    };
    ratio(&latencies(judged, margin))
}

/// Returns the latencies of choices by group, each with the margin of its group.
fn latencies(judged: &[Judged], margin: impl Fn(usize) -> f64) -> Vec<Vec<f64>> {
    let n_groups = judged.iter().map(|it| it.group + 1).max().unwrap_or(0);
    let of_group = |group: usize| {
        let least = 1.0 + margin(group);
        let latency = |it: &Judged| if it.gain > least { it.latency } else { 1.0 };
        judged.iter().filter(|it| it.group == group).map(latency).collect()
    };
    (0..n_groups).map(of_group).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(group: usize, gain: f64, latency: f64) -> Judged {
        Judged { group, gain, latency }
    }

    #[test]
    fn a_margin_keeps_default_schedules_where_small_gains_are_wrong() {
        let all = [
            judged(0, 1.5, 0.7),
            judged(1, 1.04, 1.2),
            judged(2, 1.0, 1.0),
            judged(3, 1.08, 1.3),
            judged(4, 1.6, 0.8),
        ];
        assert_eq!(best_margin(&all), Some(0.4));
        let expected = (0.7_f64 * 0.8).powf(0.2);
        let found = held_out_latency(&all).unwrap();
        assert!((found.mean - expected).abs() < 1e-12, "{found:?}");
        assert!(best_margin(&[]).is_none() && held_out_latency(&[]).is_none());
    }

    #[test]
    fn predictions_that_only_harm_are_not_followed() {
        let harmful: Vec<Judged> = (0..4).map(|it| judged(it, 1.3, 1.5)).collect();
        assert_eq!(best_margin(&harmful), Some(0.4));
        assert_eq!(held_out_latency(&harmful).unwrap().mean, 1.0);
    }

    /// The largest prediction is wrong, and no margin of the others keeps the default schedule there.
    #[test]
    fn a_group_does_not_choose_the_margin_that_it_is_judged_with() {
        let all =
            [judged(0, 1.15, 0.8), judged(1, 1.15, 0.8), judged(2, 1.15, 0.8), judged(3, 1.3, 2.0)];
        let flattered = |margin| ratio(&latencies(&all, |_| margin)).unwrap().mean;
        assert_eq!(best_margin(&all), Some(0.4));
        assert_eq!(flattered(0.4), 1.0);
        let expected = 2.0_f64.powf(0.25);
        assert!((held_out_latency(&all).unwrap().mean - expected).abs() < 1e-12);
    }
}

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
/// that are equally good, with their latency in that of the default schedules over groups; `None` if nothing
/// was judged.
pub fn best_margin(judged: &[Judged]) -> Option<(f64, Ratio)> {
    let with = |margin: f64| Some((margin, latency(judged, margin)?));
    let best = |best: Option<(f64, Ratio)>, it: (f64, Ratio)| match best {
        Some(best) if best.1.mean < it.1.mean => Some(best),
        _ => Some(it),
    };
    MARGINS.into_iter().filter_map(with).fold(None, best)
}

/// Returns the latency of choices with a margin, in that of the default schedules, over groups.
pub fn latency(judged: &[Judged], margin: f64) -> Option<Ratio> {
    let n_groups = judged.iter().map(|it| it.group + 1).max().unwrap_or(0);
    let mut groups = vec![Vec::new(); n_groups];
    for it in judged {
        groups[it.group].push(if it.gain > 1.0 + margin { it.latency } else { 1.0 });
    }
    ratio(&groups)
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
        let (margin, of_default) = best_margin(&all).unwrap();
        assert_eq!(margin, 0.4);
        let expected = (0.7_f64 * 0.8).powf(0.2);
        assert!((of_default.mean - expected).abs() < 1e-12, "{of_default:?}");
        assert!(latency(&all, 0.0).unwrap().mean > of_default.mean);
        assert!(best_margin(&[]).is_none());
    }

    #[test]
    fn predictions_that_only_harm_are_not_followed() {
        let harmful: Vec<Judged> = (0..4).map(|it| judged(it, 1.3, 1.5)).collect();
        let (margin, of_default) = best_margin(&harmful).unwrap();
        assert_eq!((margin, of_default.mean), (0.4, 1.0));
    }
}

//! The fewest buckets that cost little: contiguous ranges of extents, each with one schedule that is good
//! enough at all of them.
//!
//! In: the time of each schedule at each extent. Out: a partition of the extents. It is exact, by dynamic
//! programming over the end of the last bucket: a partition of extents up to `j` whose last bucket begins at
//! `i` is as good as the best one up to `i` allows.

/// A bucket of consecutive extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    /// The position of its first extent.
    pub(crate) first: usize,
    /// The position of its last extent.
    pub(crate) last: usize,
    /// The position of its schedule.
    pub(crate) schedule: usize,
}

/// The best partition of the extents up to one.
#[derive(Clone, Copy)]
struct Best {
    n_parts: usize,
    /// The time of all runs.
    ns: f64,
    /// Its last bucket; none of no extents.
    last: Option<Part>,
}

/// Returns the fewest buckets in which the time at each extent is at most `1 + tolerance` times that of the
/// fastest schedule there; among partitions of as many, one with the least time of all runs.
///
/// `times_ns[schedule][extent]` is infinite where a schedule does not work, `runs[extent]` the number of
/// launches. Returns `None` if no schedule works at some extent.
pub(crate) fn fewest_buckets(
    times_ns: &[Vec<f64>],
    runs: &[f64],
    tolerance: f64,
) -> Option<Vec<Part>> {
    let fastest = fastest(times_ns, runs.len());
    if fastest.iter().any(|it| !it.is_finite()) {
        return None;
    }
    let mut best = vec![Best { n_parts: 0, ns: 0.0, last: None }];
    for last in 0..runs.len() {
        // Schedules that are good enough at all extents from `first` on, with the time of their runs.
        let mut left: Vec<(usize, f64)> = (0..times_ns.len()).map(|it| (it, 0.0)).collect();
        let mut chosen: Option<Best> = None;
        for first in (0..=last).rev() {
            left.retain(|it| times_ns[it.0][first] <= fastest[first] * (1.0 + tolerance));
            left.iter_mut().for_each(|it| it.1 += runs[first] * times_ns[it.0][first]);
            let Some((schedule, ns)) = left.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1))
            else {
                break;
            };
            let before = best[first];
            let (n_parts, ns) = (before.n_parts + 1, before.ns + ns);
            if chosen.is_none_or(|it| n_parts < it.n_parts || n_parts == it.n_parts && ns < it.ns) {
                chosen = Some(Best { n_parts, ns, last: Some(Part { first, last, schedule }) });
            }
        }
        // The fastest schedule of an extent is always good enough there.
        best.push(chosen?);
    }
    let mut parts = Vec::new();
    let mut end = runs.len();
    while let Some(part) = best[end].last {
        parts.push(part);
        end = part.first;
    }
    parts.reverse();
    Some(parts)
}

/// Returns the time of the fastest schedule at each extent.
pub(crate) fn fastest(times_ns: &[Vec<f64>], n_extents: usize) -> Vec<f64> {
    let at = |extent: usize| times_ns.iter().map(move |it| it[extent]);
    (0..n_extents).map(|extent| at(extent).fold(f64::INFINITY, f64::min)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const INF: f64 = f64::INFINITY;

    /// The number of buckets and the time of all runs of a partition, if it is good enough.
    fn cost(
        parts: &[Part],
        times: &[Vec<f64>],
        runs: &[f64],
        tolerance: f64,
    ) -> Option<(usize, f64)> {
        let fastest = fastest(times, runs.len());
        let mut ns = 0.0;
        for part in parts {
            for extent in part.first..=part.last {
                let time = times[part.schedule][extent];
                if time > fastest[extent] * (1.0 + tolerance) {
                    return None;
                }
                ns += runs[extent] * time;
            }
        }
        Some((parts.len(), ns))
    }

    /// The best number and time over all partitions and all schedules of each part.
    fn by_force(times: &[Vec<f64>], runs: &[f64], tolerance: f64) -> Option<(usize, f64)> {
        let mut best: Option<(usize, f64)> = None;
        for cuts in 0_u32..1 << (runs.len() - 1) {
            let (mut parts, mut first) = (Vec::new(), 0);
            for last in 0..runs.len() {
                if last + 1 == runs.len() || cuts >> last & 1 == 1 {
                    let part = |schedule| Part { first, last, schedule };
                    let good = (0..times.len()).map(part).filter_map(|it| {
                        Some((cost(&[it], times, runs, tolerance)?.1, it.schedule))
                    });
                    parts.push(good.min_by(|a, b| a.0.total_cmp(&b.0)).map(|it| part(it.1)));
                    first = last + 1;
                }
            }
            let Some(parts) = parts.into_iter().collect::<Option<Vec<Part>>>() else { continue };
            let Some(it) = cost(&parts, times, runs, tolerance) else { continue };
            if best.is_none_or(|best| it.0 < best.0 || it.0 == best.0 && it.1 < best.1) {
                best = Some(it);
            }
        }
        best
    }

    /// Compares the buckets of some times with those of brute force.
    #[track_caller]
    fn check(times: &[Vec<f64>], runs: &[f64], tolerance: f64) {
        let parts = fewest_buckets(times, runs, tolerance);
        let is_possible = fastest(times, runs.len()).iter().all(|it| it.is_finite());
        assert_eq!(parts.is_some(), is_possible, "{times:?}");
        let Some(parts) = parts else { return };
        let is_whole = parts[0].first == 0 && parts[parts.len() - 1].last + 1 == runs.len();
        assert!(is_whole && parts.windows(2).all(|it| it[0].last + 1 == it[1].first), "{parts:?}");
        let found = cost(&parts, times, runs, tolerance).unwrap();
        let best = by_force(times, runs, tolerance).unwrap();
        assert_eq!(found.0, best.0, "{times:?}");
        assert!((found.1 - best.1).abs() < 1e-6, "{times:?}: {found:?} {best:?}");
    }

    #[test]
    fn buckets_are_those_of_brute_force() {
        // All times of this many schedules at this many extents.
        for (n_schedules, n_extents) in [(1, 4), (2, 4), (3, 3)] {
            for code in 0..3_usize.pow(n_schedules * n_extents) {
                let time = |n: u32| [10.0, 11.0, INF][code / 3_usize.pow(n) % 3];
                let row = |it: u32| (0..n_extents).map(|n| time(it * n_extents + n)).collect();
                let times: Vec<Vec<f64>> = (0..n_schedules).map(row).collect();
                let runs = [3.0, 1.0, 7.0, 2.0];
                let tolerance = if code % 2 == 0 { 0.05 } else { 0.2 };
                check(&times, &runs[..n_extents as usize], tolerance);
            }
        }
    }

    #[test]
    fn one_schedule_serves_what_it_is_good_enough_for() {
        // The first schedule is good at small extents, the second at large ones; at the third extent both are.
        let times = [vec![10.0, 20.0, 31.0, 90.0], vec![40.0, 40.0, 30.0, 60.0]];
        let ends = |tolerance: f64, runs: [f64; 4]| {
            let parts = fewest_buckets(&times, &runs, tolerance).unwrap();
            parts.iter().map(|it| (it.last, it.schedule)).collect::<Vec<_>>()
        };
        assert_eq!(ends(0.05, [1.0; 4]), [(1, 0), (3, 1)]);
        assert_eq!(ends(0.0, [1.0; 4]), [(1, 0), (3, 1)]);
        assert_eq!(ends(0.4, [1.0; 4]), [(1, 0), (3, 1)]);
        assert_eq!(ends(0.5, [1.0; 4]), [(3, 0)], "90 is as much as half more than 60");
        assert_eq!(ends(3.0, [100.0, 1.0, 1.0, 1.0]), [(3, 0)]);
        assert_eq!(ends(3.0, [1.0, 1.0, 1.0, 100.0]), [(3, 1)]);
        assert_eq!(fewest_buckets(&[vec![INF, 1.0]], &[1.0, 1.0], 0.05), None);
        assert_eq!(fewest_buckets(&[], &[], 0.05), Some(Vec::new()));
    }
}

//! Metrics of a cost model: how well its predictions rank schedules of one task.

/// The prediction for a schedule, higher is better, and its measured latency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// The prediction; no unit.
    pub predicted: f64,
    /// The measurement.
    pub latency_ns: f64,
}

/// Returns the share of pairs of schedules that predictions order as measurements do; a tie counts
/// half. Pairs whose latencies differ by less than the share `noise` do not count. `None` without
/// pairs.
pub fn pairwise_accuracy(predictions: &[Prediction], noise: f64) -> Option<f64> {
    let (mut n_pairs, mut n_right) = (0.0, 0.0);
    for (n, a) in predictions.iter().enumerate() {
        for b in &predictions[n + 1..] {
            let (fast, slow) = if a.latency_ns < b.latency_ns { (a, b) } else { (b, a) };
            if slow.latency_ns <= fast.latency_ns * (1.0 + noise) {
                continue;
            }
            n_pairs += 1.0;
            n_right += match fast.predicted.total_cmp(&slow.predicted) {
                std::cmp::Ordering::Greater => 1.0,
                std::cmp::Ordering::Equal => 0.5,
                std::cmp::Ordering::Less => 0.0,
            };
        }
    }
    (n_pairs > 0.0).then(|| n_right / n_pairs)
}

/// Returns the regret of the top `k` predictions: how much slower the best of them is than the best
/// of all. 0 is no loss, 1 is half as fast. `None` without schedules, or if `k` is 0.
pub fn regret(predictions: &[Prediction], k: usize) -> Option<f64> {
    let mut sorted = predictions.to_vec();
    // Of ties the slower first: a constant prediction must not look good.
    sorted.sort_by(|a, b| {
        b.predicted.total_cmp(&a.predicted).then(b.latency_ns.total_cmp(&a.latency_ns))
    });
    let best = |some: &[Prediction]| some.iter().map(|it| it.latency_ns).min_by(f64::total_cmp);
    Some(best(&sorted[..k.min(sorted.len())])? / best(&sorted)? - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn predictions(pairs: &[(f64, f64)]) -> Vec<Prediction> {
        let predictions = |it: &(f64, f64)| Prediction { predicted: it.0, latency_ns: it.1 };
        pairs.iter().map(predictions).collect()
    }

    #[test]
    fn accuracy_is_the_share_of_pairs_in_order() {
        let right = predictions(&[(3.0, 1.0), (2.0, 2.0), (1.0, 3.0)]);
        assert_eq!(pairwise_accuracy(&right, 0.0), Some(1.0));
        let one_wrong = predictions(&[(3.0, 1.0), (1.0, 2.0), (2.0, 3.0)]);
        assert_eq!(pairwise_accuracy(&one_wrong, 0.0), Some(2.0 / 3.0));
        let constant = predictions(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]);
        assert_eq!(pairwise_accuracy(&constant, 0.0), Some(0.5));
        assert_eq!(pairwise_accuracy(&right[..1], 0.0), None);
    }

    #[test]
    fn pairs_within_noise_do_not_count() {
        let close = predictions(&[(1.0, 100.0), (2.0, 101.0), (0.0, 200.0)]);
        assert_eq!(pairwise_accuracy(&close, 0.0), Some(2.0 / 3.0));
        assert_eq!(pairwise_accuracy(&close, 0.02), Some(1.0));
        assert_eq!(pairwise_accuracy(&close[..2], 0.02), None);
    }

    #[test]
    fn regret_is_what_the_first_lose() {
        let some = predictions(&[(3.0, 150.0), (2.0, 120.0), (1.0, 100.0)]);
        let percent = |k| regret(&some, k).map(|it| (it * 100.0).round());
        assert_eq!(
            [percent(0), percent(1), percent(2), percent(3), percent(9)],
            [None, Some(50.0), Some(20.0), Some(0.0), Some(0.0)]
        );
        assert_eq!(regret(&[], 3), None);
        let constant = predictions(&[(1.0, 100.0), (1.0, 300.0)]);
        assert_eq!(regret(&constant, 1), Some(2.0));
    }
}

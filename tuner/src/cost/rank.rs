//! How well predictions rank schedules of one task: what matters of a cost model.

/// A schedule: how good it was said to be, higher is better, and how long it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Judged {
    /// The prediction; no unit.
    pub predicted: f64,
    /// The measurement.
    pub latency_ns: f64,
}

/// The share of pairs of schedules that predictions order as measurements do; a pair that is
/// predicted the same counts half. Pairs within that share of each other, such as 0.02, are no
/// pairs: noise orders them. `None` if there are no pairs.
pub fn pairwise_accuracy(judged: &[Judged], noise: f64) -> Option<f64> {
    let (mut n_pairs, mut n_right) = (0.0, 0.0);
    for (n, a) in judged.iter().enumerate() {
        for b in &judged[n + 1..] {
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

/// How much slower than the best of all the best of the `k` schedules is that are predicted best:
/// 0 is no loss, 1 is half as fast. `None` if there are no schedules, or `k` is 0.
pub fn regret(judged: &[Judged], k: usize) -> Option<f64> {
    let mut sorted = judged.to_vec();
    // Of equals the slower first: a prediction that says nothing is no help.
    sorted.sort_by(|a, b| {
        b.predicted.total_cmp(&a.predicted).then(b.latency_ns.total_cmp(&a.latency_ns))
    });
    let best = |of: &[Judged]| of.iter().map(|it| it.latency_ns).min_by(f64::total_cmp);
    Some(best(&sorted[..k.min(sorted.len())])? / best(&sorted)? - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(pairs: &[(f64, f64)]) -> Vec<Judged> {
        let judged = |it: &(f64, f64)| Judged { predicted: it.0, latency_ns: it.1 };
        pairs.iter().map(judged).collect()
    }

    #[test]
    fn accuracy_is_the_share_of_pairs_in_order() {
        let right = judged(&[(3.0, 1.0), (2.0, 2.0), (1.0, 3.0)]);
        assert_eq!(pairwise_accuracy(&right, 0.0), Some(1.0));
        let one_wrong = judged(&[(3.0, 1.0), (1.0, 2.0), (2.0, 3.0)]);
        assert_eq!(pairwise_accuracy(&one_wrong, 0.0), Some(2.0 / 3.0));
        let says_nothing = judged(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]);
        assert_eq!(pairwise_accuracy(&says_nothing, 0.0), Some(0.5));
        assert_eq!(pairwise_accuracy(&right[..1], 0.0), None);
    }

    #[test]
    fn what_noise_orders_is_no_pair() {
        let close = judged(&[(1.0, 100.0), (2.0, 101.0), (0.0, 200.0)]);
        assert_eq!(pairwise_accuracy(&close, 0.0), Some(2.0 / 3.0));
        assert_eq!(pairwise_accuracy(&close, 0.02), Some(1.0));
        assert_eq!(pairwise_accuracy(&close[..2], 0.02), None);
    }

    #[test]
    fn regret_is_what_the_first_lose() {
        let some = judged(&[(3.0, 150.0), (2.0, 120.0), (1.0, 100.0)]);
        let of = |k| regret(&some, k).map(|it| (it * 100.0).round());
        assert_eq!(
            [of(0), of(1), of(2), of(3), of(9)],
            [None, Some(50.0), Some(20.0), Some(0.0), Some(0.0)]
        );
        assert_eq!(regret(&[], 3), None);
        let says_nothing = judged(&[(1.0, 100.0), (1.0, 300.0)]);
        assert_eq!(regret(&says_nothing, 1), Some(2.0));
    }
}

//! The best allocations in hindsight, of curves that are known to their ends.
//!
//! Every task had one slot already: before, the network has no latency.
//!
//! # Source
//!
//! Shares by a deadline are a knapsack problem with a choice per task, by dynamic programming. The area under
//! the curve is the sum of weighted completion times on one machine with chains of jobs: blocks with the
//! largest ratio of weight to time first (Conway, Maxwell and Miller, "Theory of Scheduling", 1967; Lawler,
//! 1978).

/// The curve of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    /// The weight of the task.
    pub weight: f64,
    /// The state after each slot.
    pub steps: Vec<Step>,
}

/// The state of a task after a slot.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The seconds that it had.
    pub seconds: f64,
    /// Its best latency.
    pub ns: f64,
}

impl Curve {
    /// Returns the weighted latency after so many slots.
    fn cost(&self, n_slots: usize) -> f64 {
        self.weight * self.steps[n_slots - 1].ns
    }

    /// Returns the seconds and the saving of a slot.
    fn slot(&self, n: usize) -> (f64, f64) {
        let seconds = self.steps[n].seconds - self.steps[n - 1].seconds;
        (seconds, self.cost(n) - self.cost(n + 1))
    }
}

/// Returns the order of slots, after the first of each task, of the paper's oracle: the largest saving of the
/// next slot first. It is not the best order where a plateau comes before a jump.
pub fn myopic(curves: &[Curve]) -> Vec<usize> {
    let mut n_slots = vec![1; curves.len()];
    let mut order = Vec::new();
    loop {
        let open = (0..curves.len()).filter(|it| n_slots[*it] < curves[*it].steps.len());
        let savings = open.map(|it| (it, curves[it].slot(n_slots[it]).1));
        let Some(best) = savings.reduce(|best, it| if it.1 > best.1 { it } else { best }) else {
            return order;
        };
        n_slots[best.0] += 1;
        order.push(best.0);
    }
}

/// Returns the order of slots, after the first of each task, with the least area under the network's latency.
pub fn least_area(curves: &[Curve]) -> Vec<usize> {
    let mut blocks = Vec::new();
    for (task, curve) in curves.iter().enumerate() {
        blocks.extend(descending_blocks(curve).into_iter().map(|it| (it, task)));
    }
    // The sort is stable: the blocks of a task, whose ratios fall, stay in order.
    blocks.sort_by(|a, b| b.0.ratio().total_cmp(&a.0.ratio()));
    blocks.into_iter().flat_map(|(block, task)| std::iter::repeat_n(task, block.n_slots)).collect()
}

/// Slots of a task that are best given together.
#[derive(Clone, Copy, Debug)]
struct Block {
    n_slots: usize,
    seconds: f64,
    saving: f64,
}

impl Block {
    fn ratio(&self) -> f64 {
        if self.seconds > 0.0 { self.saving / self.seconds } else { f64::INFINITY }
    }
}

/// Divides the slots of a task into blocks of falling ratio, each of which has the largest that any number of
/// next slots has.
fn descending_blocks(curve: &Curve) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for n in 1..curve.steps.len() {
        let (seconds, saving) = curve.slot(n);
        let mut block = Block { n_slots: 1, seconds, saving };
        while let Some(last) = blocks.pop_if(|it| it.ratio() <= block.ratio()) {
            block.n_slots += last.n_slots;
            block.seconds += last.seconds;
            block.saving += last.saving;
        }
        blocks.push(block);
    }
    blocks
}

/// Returns the least latency of the network that can be reached within 0, 1, 2, .. `n_units` units of time
/// after the first slots. The times of tasks are rounded up to units, so that slots of one unit are exact and
/// others are bounded from above.
pub fn by_deadline(curves: &[Curve], unit_seconds: f64, n_units: usize) -> Vec<f64> {
    let mut least = vec![0.0; n_units + 1];
    for curve in curves {
        let first = curve.steps.first().map_or(0.0, |it| it.seconds);
        let units =
            |it: &Step| ((it.seconds - first) / unit_seconds - 1e-9).ceil().max(0.0) as usize;
        let options: Vec<(usize, f64)> =
            curve.steps.iter().map(|it| (units(it), curve.weight * it.ns)).collect();
        let best = |budget: usize| {
            let within = options.iter().take_while(|it| it.0 <= budget);
            within.map(|(units, cost)| least[budget - units] + cost).fold(f64::INFINITY, f64::min)
        };
        least = (0..=n_units).map(best).collect();
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Curves with plateaus, jumps and slots of different times.
    fn curves(seed: u64, n_tasks: usize, n_slots: usize, is_timed: bool) -> Vec<Curve> {
        let mut random = Random::new(seed);
        let mut curve = || {
            let (mut seconds, mut ns) = (0.0, 100.0 * (1.0 + random.unit()));
            let mut step = || {
                seconds += if is_timed { 1.0 + random.below(3) as f64 } else { 1.0 };
                ns *= if random.chance(0.4) { 1.0 } else { 0.5 + 0.5 * random.unit() };
                Step { seconds, ns }
            };
            let steps = (0..n_slots).map(|_| step()).collect();
            Curve { weight: 1.0 + random.below(3) as f64, steps }
        };
        (0..n_tasks).map(|_| curve()).collect()
    }

    /// Returns the area under the latency of an order, until all slots are given, and the least latency by
    /// each deadline.
    fn area(curves: &[Curve], order: &[usize]) -> f64 {
        let mut n_slots = vec![1; curves.len()];
        let mut area = 0.0;
        for task in order {
            let total: f64 = curves.iter().zip(&n_slots).map(|(it, n)| it.cost(*n)).sum();
            area += total * curves[*task].slot(n_slots[*task]).0;
            n_slots[*task] += 1;
        }
        area
    }

    /// Calls a function with every order of all slots.
    fn for_all(left: &mut Vec<usize>, order: &mut Vec<usize>, f: &mut dyn FnMut(&[usize])) {
        if left.iter().all(|it| *it == 0) {
            return f(order);
        }
        for task in 0..left.len() {
            if left[task] > 0 {
                left[task] -= 1;
                order.push(task);
                for_all(left, order, f);
                order.pop();
                left[task] += 1;
            }
        }
    }

    #[test]
    fn no_order_has_a_smaller_area() {
        let mut n_myopic_worse = 0;
        for seed in 0..60 {
            let curves = curves(seed, 3, 4, seed % 2 == 0);
            let mut least = f64::INFINITY;
            let mut try_order = |order: &[usize]| least = least.min(area(&curves, order));
            for_all(&mut vec![3; 3], &mut Vec::new(), &mut try_order);
            let ours = area(&curves, &least_area(&curves));
            assert!((ours - least).abs() < 1e-6 * least, "{ours} {least}");
            let order = myopic(&curves);
            assert_eq!(order.len(), 9);
            n_myopic_worse += usize::from(area(&curves, &order) > 1.001 * least);
        }
        assert!(n_myopic_worse > 20, "plateaus deceive the myopic oracle: {n_myopic_worse}");
    }

    #[test]
    fn no_shares_reach_less_by_a_deadline() {
        for seed in 100..140 {
            let curves = curves(seed, 3, 5, seed % 2 == 0);
            let ours = by_deadline(&curves, 1.0, 20);
            for (budget, ours) in ours.iter().enumerate() {
                let mut least = f64::INFINITY;
                for n in 0..5_usize.pow(3) {
                    let shares = [n % 5, n / 5 % 5, n / 25].map(|it| it + 1);
                    let seconds: f64 = curves
                        .iter()
                        .zip(shares)
                        .map(|(it, n)| it.steps[n - 1].seconds - it.steps[0].seconds)
                        .sum();
                    if seconds <= budget as f64 {
                        least = least
                            .min(curves.iter().zip(shares).map(|(it, n)| it.cost(n)).sum::<f64>());
                    }
                }
                assert!((ours - least).abs() < 1e-9 * least, "{ours} {least}");
            }
        }
    }

    #[test]
    fn blocks_reach_over_plateaus() {
        let steps = [(1.0, 100.0), (2.0, 100.0), (3.0, 10.0)];
        let jump = steps.map(|(seconds, ns)| Step { seconds, ns });
        let slope =
            [(1.0, 100.0), (2.0, 80.0), (3.0, 60.0)].map(|(seconds, ns)| Step { seconds, ns });
        let curves = [jump, slope].map(|it| Curve { weight: 1.0, steps: it.to_vec() });
        assert_eq!(least_area(&curves), [0, 0, 1, 1]);
        assert_eq!(myopic(&curves), [1, 1, 0, 0]);
    }
}

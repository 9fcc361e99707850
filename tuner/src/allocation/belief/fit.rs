//! The minimum of a function without derivatives.
//!
//! # Source
//!
//! Nelder and Mead, "A simplex method for function minimization" (The Computer Journal, 1965).

/// Steps of a search, at most.
const MAX_STEPS: usize = 200;
/// The difference of the best and the worst value, relative to the best, at which a search ends.
const CLOSE: f64 = 1e-6;

/// Searches for the minimum near a start; returns it with its value. The function may be infinite where it is
/// not defined.
pub(super) fn minimum(f: &dyn Fn(&[f64]) -> f64, start: Vec<f64>) -> (Vec<f64>, f64) {
    let mut simplex: Vec<(Vec<f64>, f64)> = Vec::with_capacity(start.len() + 1);
    for n in 0..start.len() {
        let mut corner = start.clone();
        corner[n] += if corner[n] == 0.0 { 0.05 } else { 0.1 * corner[n] };
        let value = f(&corner);
        simplex.push((corner, value));
    }
    let value = f(&start);
    simplex.push((start, value));
    for _ in 0..MAX_STEPS {
        simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
        let [best, worst] = [simplex[0].1, simplex[simplex.len() - 1].1];
        if worst - best <= CLOSE * best.abs().max(1e-12) {
            break;
        }
        step(f, &mut simplex);
    }
    simplex.sort_by(|a, b| a.1.total_cmp(&b.1));
    simplex.swap_remove(0)
}

/// Replaces the worst corner of a sorted simplex, or shrinks it.
fn step(f: &dyn Fn(&[f64]) -> f64, simplex: &mut [(Vec<f64>, f64)]) {
    let Some((worst, others)) = simplex.split_last() else { return };
    let n = others.len() as f64;
    let center: Vec<f64> =
        (0..worst.0.len()).map(|d| others.iter().map(|it| it.0[d]).sum::<f64>() / n).collect();
    let at = |factor: f64| {
        let point: Vec<f64> =
            center.iter().zip(&worst.0).map(|(c, w)| c + factor * (w - c)).collect();
        let value = f(&point);
        (point, value)
    };
    let (best, second_worst) = (others[0].1, others[others.len() - 1].1);
    let reflected = at(-1.0);
    let replacement = if reflected.1 < best {
        let expanded = at(-2.0);
        Some(if expanded.1 < reflected.1 { expanded } else { reflected })
    } else if reflected.1 < second_worst {
        Some(reflected)
    } else {
        let contracted = at(if reflected.1 < worst.1 { -0.5 } else { 0.5 });
        (contracted.1 < worst.1.min(reflected.1)).then_some(contracted)
    };
    let last = simplex.len() - 1;
    if let Some(replacement) = replacement {
        simplex[last] = replacement;
        return;
    }
    let (best, rest) = simplex.split_at_mut(1);
    for corner in rest {
        corner.0.iter_mut().zip(&best[0].0).for_each(|(it, best)| *it = (*it + best) / 2.0);
        corner.1 = f(&corner.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curved_valley_is_followed_to_its_end() {
        let valley = |it: &[f64]| (1.0 - it[0]).powi(2) + 100.0 * (it[1] - it[0] * it[0]).powi(2);
        let (at, value) = minimum(&valley, vec![-1.2, 1.0]);
        assert!(value < 1e-4 && (at[0] - 1.0).abs() < 0.05, "{at:?} {value}");
    }

    #[test]
    fn the_border_of_the_domain_is_not_crossed() {
        let bowl = |it: &[f64]| if it[0] < 2.0 { f64::INFINITY } else { it[0] * it[0] };
        let (at, value) = minimum(&bowl, vec![5.0]);
        assert!((at[0] - 2.0).abs() < 1e-3 && (value - 4.0).abs() < 1e-2, "{at:?} {value}");
    }
}

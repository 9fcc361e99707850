//! Beam search over prefixes: greedy with a beam of one.

use super::prefix::Prefix;
use crate::space::{Point, Space};

/// Takes decision after decision, and keeps the `width` prefixes of the highest value; returns the complete
/// ones, the best first. Prefixes of equal value stay in order, so the result depends on the values only.
pub fn beam_search(
    space: &Space,
    width: usize,
    mut values: impl FnMut(&[Prefix]) -> Vec<f64>,
) -> Vec<Point> {
    let mut beam = Prefix::roots(space);
    loop {
        let mut valued: Vec<(f64, Prefix)> = values(&beam).into_iter().zip(beam).collect();
        valued.retain(|it| it.0 > f64::NEG_INFINITY);
        valued.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        valued.truncate(width);
        let kept: Vec<Prefix> = valued.into_iter().map(|it| it.1).collect();
        if kept.iter().all(|it| it.is_complete(space)) {
            return kept.iter().map(|it| it.completed(space)).collect();
        }
        let extend =
            |it: Prefix| if it.is_complete(space) { vec![it] } else { it.extensions(space) };
        beam = kept.into_iter().flat_map(extend).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::space;

    /// The value of a prefix is that of its best completion: a function that knows it leads straight there.
    #[test]
    fn a_beam_follows_the_values_to_the_best_point() {
        let space = space();
        let best = Point { sketch: 0, choices: vec![1, 2, 3] };
        let on_the_way = |it: &Prefix| it.sketch == 0 && best.choices.starts_with(&it.choices);
        let mut n_valued = 0;
        let found = beam_search(&space, 1, |prefixes| {
            n_valued += prefixes.len();
            prefixes.iter().map(|it| if on_the_way(it) { 1.0 } else { 0.5 }).collect()
        });
        assert_eq!(found, [best]);
        assert_eq!(n_valued, 2 + 2 + 3 + 4);
    }

    /// A greedy search is misled where the first decision looks worse than it is; a beam is not.
    #[test]
    fn a_wider_beam_forgives_a_wrong_value() {
        let space = space();
        let best = Point { sketch: 1, choices: vec![0] };
        let values = |prefixes: &[Prefix]| -> Vec<f64> {
            let value = |it: &Prefix| match (it.sketch, it.is_complete(&space)) {
                (0, _) => 0.6,
                (_, false) => 0.5,
                (_, true) => 1.0 - f64::from(it.choices[0]) / 10.0,
            };
            prefixes.iter().map(value).collect()
        };
        assert_eq!(beam_search(&space, 1, values)[0].sketch, 0);
        assert_eq!(beam_search(&space, 2, values)[0], best);
    }

    #[test]
    fn what_cannot_run_is_not_followed() {
        let space = space();
        let refuse = |prefixes: &[Prefix]| vec![f64::NEG_INFINITY; prefixes.len()];
        assert!(beam_search(&space, 4, refuse).is_empty());
        let only_first = |prefixes: &[Prefix]| -> Vec<f64> {
            let can_run = |it: &Prefix| it.sketch == 0 && it.choices.iter().all(|it| *it == 0);
            let value = |it| if can_run(it) { 0.1 } else { f64::NEG_INFINITY };
            prefixes.iter().map(value).collect()
        };
        let found = beam_search(&space, 4, only_first);
        assert_eq!(found, [Point { sketch: 0, choices: vec![0; 3] }]);
    }
}

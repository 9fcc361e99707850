//! Dimensions with a lower end that a launch decides: `S = T..=8192`.
//!
//! Such a dimension is what a tensor has room for, where the one at its lower end is what of it is
//! used: the capacity of a cache, the distance between two rows of a matrix. An end mentions one
//! dimension and grows with it, so the greatest extents of all dimensions are extents of a launch, and
//! so are the least: whoever looks at a range looks at its ends.

use std::collections::BTreeSet;

use super::{Dag, Dim};
use crate::poly::{Atom, DimId, Facts, Interval, Poly};

/// More dimensions with lower ends are refused: proofs go through all of them.
pub(crate) const MAX_LOWER_ENDS: usize = 8;

/// Returns the facts about dimensions: their ranges and lower ends.
pub fn facts(dims: &[Dim]) -> Facts {
    let mut facts = Facts::of_dims(dims.iter().map(|it| it.range));
    for (n, end) in lower_ends(dims) {
        facts.bound_below(DimId(n as u32), end.clone());
    }
    facts
}

/// Returns the first mistake in the lower ends of dimensions, if there is one.
pub(super) fn mistake(dims: &[Dim]) -> Option<String> {
    if lower_ends(dims).count() > MAX_LOWER_ENDS {
        return Some(format!("more than {MAX_LOWER_ENDS} dimensions have lower ends"));
    }
    for (n, end) in lower_ends(dims) {
        let Some(base) = base(end).filter(|it| *it < dims.len()) else {
            return Some(format!("the lower end of d{n} does not grow with one other dimension"));
        };
        // Each dimension has one lower end at most, so following them meets a cycle or stops.
        let mut seen = BTreeSet::from([n]);
        let mut next = Some(base);
        while let Some(at) = next {
            if !seen.insert(at) {
                return Some(format!("the lower end of d{n} depends on itself"));
            }
            next = dims[at].lower_end.as_ref().and_then(self::base);
            next = next.filter(|it| *it < dims.len());
        }
    }
    let ranges: Vec<Interval> = dims.iter().map(|it| it.range).collect();
    let narrow = narrowed(dims, &ranges);
    (narrow.as_ref() != Some(&ranges)).then(|| "ranges hold extents of no launch".to_owned())
}

/// Returns the dimension that an end grows with; `None` if it may shrink or mentions several.
pub fn base(end: &Poly) -> Option<usize> {
    let mut found = None;
    let grows = end.terms().all(|(atoms, value)| match atoms {
        [] => true,
        [Atom::Dim(dim)] => value > 0 && *found.get_or_insert(dim.0 as usize) == dim.0 as usize,
        [Atom::Div(inner, divisor)] => {
            let inner = if divisor.as_constant().is_some() { base(inner) } else { None };
            value > 0 && inner.is_some_and(|it| *found.get_or_insert(it) == it)
        }
        _ => false,
    });
    found.filter(|_| grows)
}

/// Narrows ranges to the extents of launches, as those of a bucket; `None` if there is no launch.
/// Ends are then of launches: all the greatest together, and all the least.
pub fn narrowed(dims: &[Dim], ranges: &[Interval]) -> Option<Vec<Interval>> {
    let mut ranges = ranges.to_vec();
    loop {
        let before = ranges.clone();
        for (n, end) in lower_ends(dims) {
            let base = base(end)?;
            let Interval { lo, hi } = ranges[base];
            let least = |extent: i64| end.eval(&|_| extent, &|_| 0);
            ranges[n].lo = ranges[n].lo.max(least(lo));
            ranges[base].hi = greatest(lo, hi, |it| least(it) <= ranges[n].hi)?;
            if ranges[n].lo > ranges[n].hi {
                return None;
            }
        }
        if before == ranges {
            return Some(ranges);
        }
    }
}

/// Returns the greatest number from `lo` to `hi` for which `holds`, as it does for all before; `None`
/// if it does for none.
fn greatest(lo: i64, hi: i64, holds: impl Fn(i64) -> bool) -> Option<i64> {
    let (mut below, mut above) = (lo, hi);
    while below < above {
        let middle = above - (above - below) / 2;
        if holds(middle) {
            below = middle;
        } else {
            above = middle - 1;
        }
    }
    (below <= above && holds(below)).then_some(below)
}

fn lower_ends(dims: &[Dim]) -> impl Iterator<Item = (usize, &Poly)> {
    dims.iter().enumerate().filter_map(|(n, it)| Some((n, it.lower_end.as_ref()?)))
}

impl Dag {
    /// Returns extents of a launch near the given ones, which are in ranges that [`narrowed`] returned:
    /// each is raised to its lower end.
    #[must_use]
    pub fn raised_to_lower_ends(&self, extents: &[i64]) -> Vec<i64> {
        let mut extents = extents.to_vec();
        // An end may depend on a dimension that was raised.
        for _ in 0..self.dims.len() {
            for (n, end) in lower_ends(&self.dims) {
                extents[n] = extents[n].max(end.eval_dims(&extents));
            }
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dims(text: &str) -> Vec<Dim> {
        format!("tvmtune dag v1\n{text}t0: f32[] = 1.0_f32\nreturn t0\n")
            .parse::<Dag>()
            .unwrap()
            .dims
    }

    fn range(lo: i64, hi: i64) -> Interval {
        Interval { lo, hi }
    }

    #[test]
    fn buckets_are_narrowed_to_extents_of_launches() {
        let dims = dims("dim d0 in 1..=4096\ndim d1 in 1..=8192\nwhere d1 >= d0\n");
        let check = |given: [Interval; 2], expected: Option<[Interval; 2]>| {
            assert_eq!(narrowed(&dims, &given).as_deref(), expected.as_ref().map(|it| &it[..]));
        };
        check([range(1, 64), range(1, 64)], Some([range(1, 64), range(1, 64)]));
        check([range(65, 128), range(1, 64)], None);
        check([range(1, 128), range(1, 64)], Some([range(1, 64), range(1, 64)]));
        check([range(65, 128), range(1, 100)], Some([range(65, 100), range(65, 100)]));
        check([range(65, 128), range(500, 900)], Some([range(65, 128), range(500, 900)]));
    }

    #[test]
    fn ends_of_ends_narrow_each_other() {
        let dims = dims(
            "dim d0 in 3..=64\ndim d1 in 1..=15\ndim d2 in 1..=30\n\
             where d0 >= 2*d2 + 1\nwhere d2 >= 2*d1 - 1\n",
        );
        let narrow = narrowed(&dims, &[range(1, 21), range(2, 15), range(1, 30)]);
        assert_eq!(narrow, Some(vec![range(7, 21), range(2, 5), range(3, 10)]));
    }

    #[test]
    fn extents_are_raised_to_their_ends() {
        let text = "tvmtune dag v1\ndim d0 in 4..=64\ndim d1 in 1..=8\ndim d2 in 2..=30\n\
                    where d0 >= 2*d2\nwhere d2 >= d1 + 1\n\
                    t0: f32[] = 1.0_f32\nreturn t0\n";
        let dag: Dag = text.parse().unwrap();
        assert_eq!(dag.raised_to_lower_ends(&[5, 7, 3]), [16, 7, 8]);
        assert_eq!(dag.raised_to_lower_ends(&[60, 7, 9]), [60, 7, 9]);
    }

    #[test]
    fn an_end_grows_with_one_dimension() {
        let [a, b] = [0, 1].map(|it| Poly::dim(DimId(it)));
        let rounded = (a.clone() + 3.into()).div(&4.into(), &Facts::default());
        assert_eq!(base(&(rounded.clone() * 2 + a.clone() - 7.into())), Some(0));
        assert_eq!(base(&(rounded + b.clone())), None);
        assert_eq!(base(&(Poly::constant(9) - b.clone())), None);
        assert_eq!(base(&(a * b)), None);
        assert_eq!(base(&Poly::constant(4)), None);
    }
}

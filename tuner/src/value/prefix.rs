//! Partial schedules.

use crate::space::{Point, Space};
use tvmtune_space::sketch::Sketch;

/// A sketch, and options of its first decisions; the others are open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Prefix {
    /// The sketch, by position in [`Space::sketches`].
    pub sketch: u16,
    /// Options of the first decisions.
    pub choices: Vec<u16>,
}

impl Prefix {
    /// Returns the sketches of a space, of which nothing is decided.
    pub fn roots(space: &Space) -> Vec<Self> {
        (0..space.sketches.len() as u16)
            .map(|sketch| Self { sketch, choices: Vec::new() })
            .collect()
    }

    /// Returns the prefixes of a point, from its sketch to all of its decisions.
    pub fn of(point: &Point) -> impl Iterator<Item = Self> {
        let of_length = |n| Self { sketch: point.sketch, choices: point.choices[..n].to_vec() };
        (0..=point.choices.len()).map(of_length)
    }

    /// Returns the prefix of a point of which nothing is open.
    pub fn complete(point: &Point) -> Self {
        Self { sketch: point.sketch, choices: point.choices.clone() }
    }

    /// Tells if nothing is open.
    pub fn is_complete(&self, space: &Space) -> bool {
        self.choices.len() == self.of_space(space).decisions.len()
    }

    /// Returns the point in which open decisions have the options that the analytic cost model prefers.
    pub fn completed(&self, space: &Space) -> Point {
        let mut choices = self.choices.clone();
        choices.extend(self.of_space(space).default.iter().skip(self.choices.len()));
        Point { sketch: self.sketch, choices }
    }

    /// Returns the prefixes in which one more decision is taken; none of a complete one.
    pub fn extensions(&self, space: &Space) -> Vec<Self> {
        let next = self.of_space(space).decisions.get(self.choices.len());
        let n_options = next.map_or(0, |it| it.options.len() as u16);
        let with = |option| {
            let mut choices = self.choices.clone();
            choices.push(option);
            Self { sketch: self.sketch, choices }
        };
        (0..n_options).map(with).collect()
    }

    /// Returns the natural logarithm of the number of its completions.
    pub fn freedom(&self, space: &Space) -> f64 {
        let open = self.of_space(space).decisions.iter().skip(self.choices.len());
        open.map(|it| (it.options.len() as f64).ln()).sum()
    }

    fn of_space<'a>(&self, space: &'a Space) -> &'a Sketch {
        &space.sketches[usize::from(self.sketch)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::tests::space;

    #[test]
    fn a_prefix_is_extended_to_points() {
        let space = space();
        let [root, other] = &Prefix::roots(&space)[..] else { panic!("two sketches") };
        assert!(!root.is_complete(&space) && other.choices.is_empty());
        assert_eq!(root.completed(&space).choices, [1, 0, 2]);
        assert!((root.freedom(&space) - 24_f64.ln()).abs() < 1e-12);
        let second = &root.extensions(&space)[1].extensions(&space)[2];
        assert_eq!(second.completed(&space).choices, [1, 2, 2]);
        let point = Point { sketch: 0, choices: vec![1, 2, 3] };
        let prefixes: Vec<Prefix> = Prefix::of(&point).collect();
        assert_eq!(prefixes.len(), 4);
        assert!(prefixes.contains(second) && prefixes.contains(root));
        let complete = &prefixes[3];
        assert!(complete.is_complete(&space) && complete.extensions(&space).is_empty());
        assert_eq!((complete.completed(&space), complete.freedom(&space)), (point, 0.0));
    }
}

//! Layouts of tensors in memory: splits of dimensions, then a permutation.

use tvmtune_ir::poly::{Facts, Poly};

/// A layout that is not row-major.
///
/// Each entry of `splits`, in order, replaces dimension `dim` of the shape so far by two:
/// `ceil(extent / factor)` and `factor`. Then `order[n]` is the dimension so far that is stored as
/// the `n`-th one, outermost first. Padding elements are 0.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Layout {
    /// `(dim, factor)`; `dim` counts in the shape as earlier splits left it.
    pub splits: Vec<(usize, u64)>,
    /// A permutation of the dimensions after all splits.
    pub order: Vec<usize>,
}

impl Layout {
    /// Returns whether it is a layout of tensors of that many dimensions.
    pub fn fits(&self, n_dims: usize) -> bool {
        let legal = |(n, (dim, factor)): (usize, &(usize, u64))| {
            *dim < n_dims + n && (1..=1 << 31).contains(factor)
        };
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        self.splits.iter().enumerate().all(legal)
            && sorted.into_iter().eq(0..n_dims + self.splits.len())
    }

    /// Returns the stored extents of a tensor of that shape, padding included.
    pub fn shape(&self, shape: &[Poly], facts: &Facts) -> Vec<Poly> {
        let split =
            |extent: &Poly, factor: i64| [extent.ceil_div(factor, facts), Poly::constant(factor)];
        self.place(shape.to_vec(), split)
    }

    /// Returns the stored index of the element at `index`.
    pub fn index(&self, index: &[Poly], facts: &Facts) -> Vec<Poly> {
        let split = |it: &Poly, factor: i64| {
            let factor = Poly::constant(factor);
            [it.div(&factor, facts), it.modulo(&factor, facts)]
        };
        self.place(index.to_vec(), split)
    }

    /// Splits and reorders one value for each dimension.
    pub fn place<T: Clone>(&self, values: Vec<T>, split: impl Fn(&T, i64) -> [T; 2]) -> Vec<T> {
        let mut values = values;
        for (dim, factor) in &self.splits {
            let parts = split(&values[*dim], *factor as i64);
            values.splice(*dim..=*dim, parts);
        }
        self.order.iter().map(|it| values[*it].clone()).collect()
    }
}

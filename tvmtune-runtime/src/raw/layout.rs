//! Packed layouts of weights.

/// A packed layout: dimensions split and permuted.
///
/// Each entry of `splits`, in order, replaces dimension `dim` of the shape by two:
/// `ceil(extent / factor)` and `factor`. Then `order[n]` is the dimension that is stored `n`-th,
/// outermost first. Padding elements are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// `(dim, factor)`; `dim` counts in the shape as earlier splits left it.
    pub splits: &'static [(usize, u64)],
    /// A permutation of the dimensions after all splits.
    pub order: &'static [usize],
}

/// The map from stored indices to row-major offsets: affine sums.
struct Source {
    /// The strides of each stored dimension, outermost first, in each sum. The first sum is the
    /// row-major offset, in elements.
    steps: Vec<Vec<usize>>,
    /// The value of each further sum from which on elements are padding.
    limits: Vec<usize>,
}

impl Layout {
    /// Returns the stored extents, outermost first.
    pub fn stored_shape(&self, shape: &[usize]) -> Vec<usize> {
        let split = self.split_shapes(shape).pop().unwrap_or_default();
        self.order.iter().map(|dim| split[*dim]).collect()
    }

    /// Returns the shapes before any split, after the first, and so on.
    fn split_shapes(&self, shape: &[usize]) -> Vec<Vec<usize>> {
        let mut shapes = vec![shape.to_vec()];
        for (dim, factor) in self.splits {
            let factor = *factor as usize;
            let mut split = shapes.last().cloned().unwrap_or_default();
            split.splice(dim..=dim, [split[*dim].div_ceil(factor), factor]);
            shapes.push(split);
        }
        shapes
    }

    /// Packs a row-major tensor.
    ///
    /// # Panics
    ///
    /// If the slices are not as long as the shapes say.
    pub fn pack<T: Copy + Default>(&self, row_major: &[T], shape: &[usize], packed: &mut [T]) {
        let stored = self.stored_shape(shape);
        let Some((&width, outer)) = stored.split_last() else {
            return packed.copy_from_slice(row_major);
        };
        if packed.is_empty() {
            return;
        }
        let Source { steps, limits } = self.source(shape);
        let (outer, n_rows) = match outer.split_last() {
            Some((&n_rows, outer)) => (outer, n_rows),
            None => (outer, 1),
        };
        let along = &steps[steps.len() - 1];
        let none = vec![0; along.len()];
        let down = if steps.len() > 1 { &steps[steps.len() - 2] } else { &none };
        let mut index = vec![0; outer.len()];
        let mut sums = none.clone();
        for block in packed.chunks_exact_mut(n_rows * width) {
            // Mostly, padding is the same in all rows of a block.
            let n_at_once = if down[1..].iter().all(|it| *it == 0) { n_rows } else { 1 };
            for (n, rows) in block.chunks_exact_mut(n_at_once * width).enumerate() {
                let at = |sum: usize| sums[sum] + n * down[sum];
                // Sums do not decrease along a row: padding comes last.
                let n_valid = limits.iter().zip(1..).map(|(limit, sum)| {
                    match (limit.saturating_sub(at(sum)), along[sum]) {
                        (0, _) => 0,
                        (_, 0) => width,
                        (room, step) => room.div_ceil(step),
                    }
                });
                let n_valid = n_valid.fold(width, usize::min);
                let from = if n_valid > 0 { &row_major[at(0)..] } else { &[] };
                copy_rows(from, [down[0], along[0]], rows, [width, n_valid]);
            }
            advance(&mut index, outer, |dim, n_back| {
                for (sum, step) in sums.iter_mut().zip(&steps[dim]) {
                    *sum = *sum + step - n_back * step;
                }
            });
        }
    }

    /// Computes the map from stored indices to row-major offsets.
    fn source(&self, shape: &[usize]) -> Source {
        let mut place = 1;
        let mut dims = vec![Vec::new(); shape.len()];
        for (dim, extent) in dims.iter_mut().zip(shape).rev() {
            *dim = vec![place];
            place *= extent;
        }
        let mut limits = Vec::new();
        for ((dim, factor), before) in self.splits.iter().zip(self.split_shapes(shape)) {
            let factor = *factor as usize;
            let low = dims[*dim].clone();
            let high = low.iter().map(|it| it * factor).collect();
            dims.splice(dim..=dim, [high, low]);
            if before[*dim] % factor != 0 {
                limits.push(before[*dim]);
                dims.iter_mut().for_each(|it| it.push(0));
                dims[*dim][limits.len()] = factor;
                dims[dim + 1][limits.len()] = 1;
            }
        }
        Source { steps: self.order.iter().map(|it| dims[*it].clone()).collect(), limits }
    }
}

/// Elements of a row that are copied before those of the next row. They fill a cache line of floats, and the
/// cache lines that they are read from hold elements of the next rows too.
const TILE: usize = 16;

/// Copies the first `n_valid` elements of each row, and fills the rest: element `n` of row `m` is
/// `from[m * down + n * along]`. Plain loops: in a build script that is compiled without optimisation, iterators
/// take ten times as long, and a large weight a second.
fn copy_rows<T: Copy + Default>(
    from: &[T],
    [down, along]: [usize; 2],
    rows: &mut [T],
    [width, n_valid]: [usize; 2],
) {
    let are_slices = along == 1 && n_valid >= TILE;
    if are_slices || n_valid < width {
        for (m, row) in rows.chunks_exact_mut(width).enumerate() {
            if are_slices {
                row[..n_valid].copy_from_slice(&from[m * down..][..n_valid]);
            }
            row[n_valid..].fill(T::default());
        }
    }
    let (mut first, n_elements) = (if are_slices { n_valid } else { 0 }, rows.len());
    while first < n_valid {
        let end = if first + TILE < n_valid { first + TILE } else { n_valid };
        let (mut row, mut source) = (0, first * along);
        while row < n_elements {
            let (mut n, mut at) = (row + first, source);
            while n < row + end {
                rows[n] = from[at];
                n += 1;
                at += along;
            }
            row += width;
            source += down;
        }
        first = end;
    }
}

/// Advances an index in row-major order. `moved(dim, n_back)` reports each dimension that moves: one
/// step forward after `n_back` steps back.
fn advance(index: &mut [usize], shape: &[usize], mut moved: impl FnMut(usize, usize)) {
    for (dim, (at, extent)) in index.iter_mut().zip(shape).enumerate().rev() {
        *at += 1;
        if *at < *extent {
            return moved(dim, 0);
        }
        moved(dim, *extent);
        *at = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packs element by element, by the definition.
    fn by_definition(layout: &Layout, row_major: &[u32], shape: &[usize]) -> Vec<u32> {
        let shapes = layout.split_shapes(shape);
        let stored = layout.stored_shape(shape);
        let mut index = vec![0; stored.len()];
        let n_elements: usize = stored.iter().product();
        let element = |index: &[usize]| {
            let mut dims = vec![0; index.len()];
            for (stored, dim) in layout.order.iter().enumerate() {
                dims[*dim] = index[stored];
            }
            for ((dim, factor), before) in layout.splits.iter().zip(&shapes).rev() {
                let whole = dims[*dim] * *factor as usize + dims[dim + 1];
                if whole >= before[*dim] {
                    return 0;
                }
                dims.splice(dim..=&(dim + 1), [whole]);
            }
            row_major[dims.iter().zip(shape).fold(0, |flat, (at, extent)| flat * extent + at)]
        };
        let mut packed = Vec::new();
        for _ in 0..n_elements {
            packed.push(element(&index));
            advance(&mut index, &stored, |_, _| {});
        }
        packed
    }

    #[track_caller]
    fn check(layout: &Layout, shape: &[usize]) {
        let n_elements: usize = shape.iter().product();
        let row_major: Vec<u32> = (1..=n_elements as u32).collect();
        let mut packed = vec![99; layout.stored_shape(shape).iter().product()];
        layout.pack(&row_major, shape, &mut packed);
        assert_eq!(packed, by_definition(layout, &row_major, shape), "{layout:?} of {shape:?}");
    }

    #[test]
    fn packing_is_what_the_definition_says() {
        check(&Layout { splits: &[], order: &[1, 0] }, &[3, 5]);
        check(&Layout { splits: &[(0, 4)], order: &[0, 2, 1] }, &[10, 3]);
        check(&Layout { splits: &[(0, 4)], order: &[1, 2, 0] }, &[10, 3]);
        check(&Layout { splits: &[(1, 2)], order: &[0, 1, 2] }, &[3, 5]);
        check(&Layout { splits: &[(1, 3), (0, 2)], order: &[0, 2, 3, 1] }, &[5, 7]);
        check(&Layout { splits: &[(1, 3), (0, 2)], order: &[2, 0, 1, 3] }, &[5, 7]);
        check(&Layout { splits: &[], order: &[0] }, &[7]);
    }

    #[test]
    fn a_tail_within_a_tail_is_padding() {
        // 16 splits into 4 of 5, and 40 into 3 of 16: two kinds of padding at once.
        check(&Layout { splits: &[(0, 16), (1, 5)], order: &[0, 1, 2] }, &[40]);
        check(&Layout { splits: &[(0, 16), (1, 5)], order: &[2, 1, 0] }, &[40]);
        check(&Layout { splits: &[(0, 16), (0, 2)], order: &[2, 1, 0] }, &[40]);
    }

    #[test]
    fn rows_longer_than_a_tile_pack() {
        for (rows, columns) in [(40, 37), (1, 33), (16, 16), (17, 48)] {
            check(&Layout { splits: &[], order: &[1, 0] }, &[rows, columns]);
            check(&Layout { splits: &[(0, 24)], order: &[0, 2, 1] }, &[rows, columns]);
            check(&Layout { splits: &[(1, 20)], order: &[1, 0, 2] }, &[rows, columns]);
            check(&Layout { splits: &[(1, 20)], order: &[1, 2, 0] }, &[rows, columns]);
        }
    }

    #[test]
    fn every_order_of_a_split_tensor_packs() {
        const ORDERS: [&[usize]; 6] =
            [&[0, 1, 2], &[0, 2, 1], &[1, 0, 2], &[1, 2, 0], &[2, 0, 1], &[2, 1, 0]];
        for order in ORDERS {
            for factor in 2..7 {
                let splits: &'static [(usize, u64)] = Box::leak(Box::new([(1, factor)]));
                check(&Layout { splits, order }, &[4, 9]);
            }
        }
    }
}

//! Features quantized to bins, for histograms.

use std::collections::BTreeSet;

use crate::parallel::on_threads;

/// The maximum number of bins of a column.
pub(super) const MAX_BINS: usize = 64;

/// All rows, column by column, without columns that are constant or equal to another one.
#[derive(Debug)]
pub(super) struct Bins {
    pub(super) n_rows: usize,
    pub(super) columns: Vec<Column>,
}

/// One feature of all rows.
#[derive(Debug)]
pub(super) struct Column {
    /// The position of the feature in a row.
    pub(super) feature: u16,
    /// The upper bounds of all bins but the last, ascending.
    pub(super) edges: Vec<f32>,
    /// The bin of each row.
    pub(super) bins: Vec<u8>,
}

impl Bins {
    /// Quantizes the rows.
    pub(super) fn new(rows: &[&[f32]], width: usize, n_threads: usize) -> Self {
        let features: Vec<usize> = (0..width).collect();
        let mut columns = on_threads(n_threads, &features, |it| Column::new(rows, *it));
        let mut seen = BTreeSet::new();
        columns.retain(|it| !it.edges.is_empty());
        let is_new: Vec<bool> = columns.iter().map(|it| seen.insert(&it.bins)).collect();
        let mut is_new = is_new.into_iter();
        columns.retain(|_| is_new.next().unwrap_or(false));
        Self { n_rows: rows.len(), columns }
    }
}

impl Column {
    fn new(rows: &[&[f32]], feature: usize) -> Self {
        let values: Vec<f32> = rows.iter().map(|it| it[feature]).collect();
        let mut sorted = values.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let edges = edges(&sorted);
        let bin = |value: &f32| edges.partition_point(|it| it < value) as u8;
        let bins = values.iter().map(bin).collect();
        Self { feature: feature as u16, edges, bins }
    }
}

/// Places edges half-way between neighboring values, such that bins hold about equally many.
fn edges(sorted: &[f32]) -> Vec<f32> {
    let mut edges = Vec::new();
    let mut from = 0;
    for n in 1..sorted.len() {
        let (below, above) = (sorted[n - 1], sorted[n]);
        let left = MAX_BINS - 1 - edges.len();
        if left == 0 {
            break;
        }
        // Each of the few remaining values gets a bin.
        let share = (sorted.len() - from) / (left + 1);
        if below < above && n - from >= share.max(1) {
            let middle = below + (above - below) / 2.0;
            edges.push(if middle < above { middle } else { below });
            from = n;
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_values_have_a_bin_each() {
        assert_eq!(edges(&[1.0, 1.0, 2.0, 4.0]), [1.5, 3.0]);
        assert!(edges(&[3.0; 10]).is_empty());
        assert!(edges(&[]).is_empty());
        let next = f32::from_bits(1.0_f32.to_bits() + 1);
        assert_eq!(edges(&[1.0, next]), [1.0]);
    }

    #[test]
    fn many_values_share_bins_evenly() {
        let sorted: Vec<f32> = (0..10_000_u16).map(f32::from).collect();
        let edges = edges(&sorted);
        assert_eq!(edges.len(), MAX_BINS - 1);
        assert!(edges.windows(2).all(|it| (100.0..250.0).contains(&(it[1] - it[0]))));
    }

    #[test]
    fn constant_and_duplicate_columns_are_left_out() {
        let rows = [[1.0, 5.0, 2.0, 0.0], [2.0, 5.0, 4.0, 1.0], [3.0, 5.0, 6.0, 0.0]];
        let rows: Vec<&[f32]> = rows.iter().map(<[f32; 4]>::as_slice).collect();
        let bins = Bins::new(&rows, 4, 2);
        let features: Vec<u16> = bins.columns.iter().map(|it| it.feature).collect();
        assert_eq!(features, [0, 3]);
    }
}

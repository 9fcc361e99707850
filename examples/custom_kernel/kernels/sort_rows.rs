// The definition of `sort_rows`, which the language has no words for. CPUs run it.

/// The elements of a row.
const N: usize = 128;

/// Puts the elements of each row in ascending order.
pub fn sort_rows(x: &[f32], sorted: &mut [f32], _rows: usize) {
    sorted.copy_from_slice(x);
    sorted.chunks_mut(N).for_each(|row| row.sort_by(f32::total_cmp));
}

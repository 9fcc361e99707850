//! Packs arrays of weights into the layouts that a schedule chose.

use crate::Layout;
use tvmtune_ir::dag::Number;
use tvmtune_ir::interp::Array;

/// Returns the array as stored in a layout: same elements, 0 in the padding.
///
/// # Panics
///
/// If the layout is not one for arrays of that many dimensions.
pub fn pack(array: &Array, layout: &Layout) -> Array {
    assert!(layout.fits(array.shape.len()), "{layout:?} for the shape {:?}", array.shape);
    let shape = layout.place(array.shape.clone(), |extent, factor| {
        [extent.div_ceil(factor as u64), factor as u64]
    });
    let mut packed = Array::from_fn(array.dtype, &shape, |_| Number::Int(0));
    for flat in 0..array.len() {
        let mut index = vec![0; array.shape.len()];
        let mut rest = flat as u64;
        for (at, extent) in index.iter_mut().zip(&array.shape).rev() {
            (*at, rest) = (rest % extent, rest / extent);
        }
        let stored = layout.place(index, |at, factor| [at / factor as u64, at % factor as u64]);
        let position = stored.iter().zip(&shape).fold(0, |flat, (at, extent)| flat * extent + at);
        packed.set(position as usize, array.get(flat));
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_grouped_into_panels_and_the_last_one_is_padded() {
        let array = Array::from_f32(&[3, 2], vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let packed = pack(&array, &Layout { splits: vec![(0, 2)], order: vec![0, 2, 1] });
        assert_eq!(packed.shape, [2, 2, 2]);
        assert_eq!(packed.to_f32_vec(), [1.0, 3.0, 2.0, 4.0, 5.0, 0.0, 6.0, 0.0]);
    }
}

//! Constant tensors, and their copies in the layouts that kernels ask for.

use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use crate::Element;
use crate::raw::Layout;

/// Copies start at a multiple of this many bytes: a cache line, and the longest vector.
const ALIGN: usize = 64;

/// A tensor that stays the same over many launches, such as the weights of a model.
///
/// It owns its elements, row-major. A kernel that was tuned for another layout packs them at its
/// first launch (or in `prepare`), and the packed copy is kept here, one for each layout in use;
/// finding it later takes a few ns and no lock. Clones share elements and copies. The same holds
/// for each CUDA device that it is used on, where its copies stay until the last clone is dropped.
///
/// ```
/// use tvmtune_runtime::Weight;
///
/// let weight = Weight::new(vec![1.0_f32, 2.0, 3.0, 4.0]);
/// assert_eq!(weight[1], 2.0);
/// ```
#[derive(Clone, Debug)]
pub struct Weight<T> {
    shared: Arc<Shared<T>>,
}

#[derive(Debug)]
struct Shared<T> {
    elements: Vec<T>,
    /// A list that only grows, so that readers need no lock.
    packed: OnceLock<Box<Packed<T>>>,
    #[cfg(feature = "cuda")]
    on_devices: crate::cuda::Copies,
}

#[derive(Debug)]
struct Packed<T> {
    layout: &'static Layout,
    shape: Vec<usize>,
    /// With room to spare in front, so that what counts is aligned.
    elements: Vec<T>,
    start: usize,
    next: OnceLock<Box<Packed<T>>>,
}

impl<T: Element> Weight<T> {
    /// A weight with these elements, row-major.
    pub fn new(elements: impl Into<Vec<T>>) -> Self {
        let shared = Shared {
            elements: elements.into(),
            packed: OnceLock::new(),
            #[cfg(feature = "cuda")]
            on_devices: crate::cuda::Copies::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    /// Returns the number of packed copies.
    pub fn n_packed(&self) -> usize {
        let first = self.shared.packed.get();
        std::iter::successors(first, |it| it.next.get()).count()
    }

    #[cfg(feature = "cuda")]
    pub(crate) fn on_devices(&self) -> &crate::cuda::Copies {
        &self.shared.on_devices
    }

    /// The elements in `layout`, 64-byte aligned; packed now if they were not before.
    ///
    /// `shape` must multiply to the number of elements.
    pub(crate) fn packed(&self, layout: &'static Layout, shape: &[usize]) -> &[T] {
        let mut place = &self.shared.packed;
        loop {
            // Two threads that come first at once agree on one of them, and the other one goes on
            // to the next place unless it wanted the same.
            let copy = place.get_or_init(|| Box::new(Packed::new(self, layout, shape)));
            if copy.is(layout, shape) {
                return &copy.elements[copy.start..];
            }
            place = &copy.next;
        }
    }
}

impl<T: Element> Packed<T> {
    fn new(row_major: &[T], layout: &'static Layout, shape: &[usize]) -> Self {
        let n_elements: usize = layout.stored_shape(shape).iter().product();
        let spare = ALIGN / size_of::<T>();
        let mut elements = vec![T::default(); n_elements + spare];
        // Element sizes are powers of two that divide `ALIGN`, so a whole number of elements leads
        // to the next multiple of it.
        let misaligned = elements.as_ptr().addr() % ALIGN;
        let start = (ALIGN - misaligned) % ALIGN / size_of::<T>();
        elements.truncate(start + n_elements);
        layout.pack(row_major, shape, &mut elements[start..]);
        Self { layout, shape: shape.to_vec(), elements, start, next: OnceLock::new() }
    }

    fn is(&self, layout: &'static Layout, shape: &[usize]) -> bool {
        (std::ptr::eq(self.layout, layout) || self.layout == layout) && self.shape == shape
    }
}

impl<T> Deref for Weight<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.shared.elements
    }
}

impl<T: Element> From<Vec<T>> for Weight<T> {
    fn from(elements: Vec<T>) -> Self {
        Self::new(elements)
    }
}

impl<T: Element> FromIterator<T> for Weight<T> {
    fn from_iter<I: IntoIterator<Item = T>>(elements: I) -> Self {
        Self::new(elements.into_iter().collect::<Vec<T>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static TILED: Layout = Layout { splits: &[(0, 4)], order: &[0, 2, 1] };
    static SWAPPED: Layout = Layout { splits: &[], order: &[1, 0] };

    #[test]
    fn a_layout_is_packed_once_and_aligned() {
        let weight: Weight<f32> = (0..15_u8).map(f32::from).collect();
        let first = weight.packed(&TILED, &[5, 3]).as_ptr();
        assert_eq!(first.addr() % ALIGN, 0);
        assert_eq!(weight.packed(&TILED, &[5, 3]).as_ptr(), first);
        assert_eq!(weight.packed(&SWAPPED, &[5, 3])[..4], [0.0, 3.0, 6.0, 9.0]);
        assert_eq!(weight.clone().n_packed(), 2);
    }

    #[test]
    fn a_layout_of_another_shape_is_another_copy() {
        let weight: Weight<u8> = (0..6).collect();
        assert_eq!(weight.packed(&SWAPPED, &[2, 3]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(weight.packed(&SWAPPED, &[3, 2]), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn threads_that_pack_at_once_agree() {
        let weight: Weight<i32> = (0..1000).collect();
        let addresses: Vec<usize> = std::thread::scope(|scope| {
            let pack = |n: usize| {
                let (layout, shape) =
                    if n.is_multiple_of(2) { (&SWAPPED, [10, 100]) } else { (&TILED, [100, 10]) };
                weight.packed(layout, &shape).as_ptr().addr()
            };
            let all: Vec<_> = (0..8).map(|n| scope.spawn(move || pack(n))).collect();
            all.into_iter().map(|it| it.join().unwrap()).collect()
        });
        assert!((2..8).all(|n| addresses[n] == addresses[n % 2]));
        assert_eq!(weight.n_packed(), 2);
    }
}

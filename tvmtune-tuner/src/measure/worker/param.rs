//! Parameters: what they hold, and how weights are brought into another order.

use std::io;

use tvmtune_core::dag::DType;
use tvmtune_core::interp::Array;
use tvmtune_runtime::raw::Layout;

use super::super::protocol::{LayoutSpec, ParamSpec};
use super::invalid;

impl ParamSpec {
    /// The parameter's value: floats anywhere in -1..1, so that each of them matters; small whole
    /// numbers else, since they may be indices.
    pub(crate) fn array(&self) -> Array {
        if self.dtype.is_float() {
            Array::random(self.dtype, &self.shape, self.seed)
        } else {
            Array::whole_numbers(self.dtype, &self.shape, self.seed)
        }
    }
}

/// How a parameter's elements get into another order: by the function that packs weights for users.
pub(super) struct Packing {
    dtype: DType,
    shape: Vec<usize>,
    layout: Layout,
}

impl Packing {
    pub(super) fn of(spec: &ParamSpec, layout: &LayoutSpec) -> io::Result<Self> {
        if !fits(layout, spec.shape.len()) {
            return Err(invalid("the layout does not fit the parameter"));
        }
        // There are few layouts in a worker's life, and the type is made for constants.
        let layout = Layout {
            splits: Box::leak(layout.splits.clone().into_boxed_slice()),
            order: Box::leak(layout.order.clone().into_boxed_slice()),
        };
        let shape = spec.shape.iter().map(|it| *it as usize).collect();
        Ok(Self { dtype: spec.dtype, shape, layout })
    }

    /// How many bytes the elements have in that order.
    pub(super) fn n_bytes(&self) -> usize {
        let n_elements: usize = self.layout.stored_shape(&self.shape).iter().product();
        n_elements * self.dtype.bytes() as usize
    }

    pub(super) fn pack(&self, from: &[u8], to: &mut [u8]) {
        let Self { dtype, shape, layout } = self;
        match dtype {
            DType::I8 | DType::U8 | DType::Bool => layout.pack(from, shape, to),
            DType::F16 | DType::Bf16 => pack_as::<2>(*layout, shape, from, to),
            DType::F32 | DType::I32 => pack_as::<4>(*layout, shape, from, to),
            DType::F64 | DType::I64 => pack_as::<8>(*layout, shape, from, to),
        }
    }
}

/// Packs elements of so many bytes.
fn pack_as<const N: usize>(layout: Layout, shape: &[usize], from: &[u8], to: &mut [u8])
where
    [u8; N]: Default,
{
    layout.pack(from.as_chunks::<N>().0, shape, to.as_chunks_mut::<N>().0);
}

/// Whether a layout is one of tensors with so many dimensions.
fn fits(layout: &LayoutSpec, rank: usize) -> bool {
    let mut splits = layout.splits.iter().zip(rank..);
    let splits_fit = splits.all(|((dim, factor), rank)| *dim < rank && *factor > 0);
    let mut sorted = layout.order.clone();
    sorted.sort_unstable();
    splits_fit && sorted == (0..rank + layout.splits.len()).collect::<Vec<_>>()
}

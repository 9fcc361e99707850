//! Arguments in the form that machine code reads.

use std::cell::OnceCell;
use std::ops::Deref;

use super::Layout;
use crate::{Cpu, Element, Held, Weight};

/// A tensor argument: address, layout and type-erased elements.
#[derive(Clone, Copy)]
pub struct Arg<'a> {
    address: u64,
    weight: Option<&'a dyn Pack>,
}

/// A tensor that can be packed.
trait Pack {
    fn packed(&self, layout: &'static Layout) -> u64;
}

impl<'a> Arg<'a> {
    /// A parameter that is read where it is.
    pub fn input<T>(elements: &'a [T]) -> Self {
        Self { address: elements.as_ptr().expose_provenance() as u64, weight: None }
    }

    /// A result.
    pub fn output<T>(elements: &'a mut [T]) -> Self {
        Self { address: elements.as_mut_ptr().expose_provenance() as u64, weight: None }
    }

    /// A parameter that may be read in another layout.
    pub fn weight<T: Element, E: Deref<Target = [T]>>(weight: &'a WeightArg<'_, T, E>) -> Self {
        Self { weight: Some(weight), ..Self::input(&weight.elements) }
    }

    pub(crate) fn address(&self, layout: Option<&'static Layout>) -> u64 {
        match (layout, self.weight) {
            (Some(layout), Some(weight)) => weight.packed(layout),
            _ => self.address,
        }
    }
}

impl<'a> AsRef<Arg<'a>> for Arg<'a> {
    fn as_ref(&self) -> &Arg<'a> {
        self
    }
}

/// A weight argument with a checked shape.
pub struct WeightArg<'a, T, E = &'a [T]> {
    elements: E,
    shape: &'a [usize],
    weight: Option<&'a Weight<T>>,
    /// Packs a plain slice at each launch.
    temporary: OnceCell<Weight<T>>,
}

impl<'a, T: Element> WeightArg<'a, T> {
    /// Makes a weight argument; the caller checks that `shape` multiplies to the number of elements.
    pub fn new(held: Held<'a, T, Cpu>, shape: &'a [usize]) -> Self {
        let (elements, weight) = match held {
            Held::Weight(weight) => (&**weight, Some(weight)),
            Held::Elements(elements) => (elements, None),
        };
        Self { weight, ..WeightArg::of(elements, shape) }
    }
}

impl<'a, T: Element, E: Deref<Target = [T]>> WeightArg<'a, T, E> {
    /// Elements borrowed for one launch.
    pub fn of(elements: E, shape: &'a [usize]) -> Self {
        Self { elements, shape, weight: None, temporary: OnceCell::new() }
    }

    /// Returns the elements, row-major.
    pub fn elements(&self) -> &E {
        &self.elements
    }
}

impl<T: Element, E: Deref<Target = [T]>> Pack for WeightArg<'_, T, E> {
    fn packed(&self, layout: &'static Layout) -> u64 {
        let temporary = || self.temporary.get_or_init(|| Weight::new(&*self.elements));
        let weight = self.weight.unwrap_or_else(temporary);
        weight.packed(layout, self.shape).as_ptr().expose_provenance() as u64
    }
}

/// A run-time scalar as machine code reads it: floats widened to `f32`, integers to 32
/// bits.
pub trait Scalar {
    /// Returns the bits of the scalar, in the low bytes.
    fn bits(self) -> u64;
}

macro_rules! scalars {
    ($($scalar:ty: $it:ident => $bits:expr;)*) => {
        $(impl Scalar for $scalar {
            fn bits(self) -> u64 {
                let $it = self;
                $bits
            }
        })*
    };
}

scalars! {
    f32: it => it.to_bits().into();
    f64: it => it.to_bits();
    i8: it => i32::from(it).cast_unsigned().into();
    u8: it => it.into();
    i32: it => it.cast_unsigned().into();
    u32: it => it.into();
    i64: it => it.cast_unsigned();
    bool: it => it.into();
}

#[cfg(feature = "half")]
scalars! {
    half::f16: it => it.to_f32().to_bits().into();
    half::bf16: it => it.to_f32().to_bits().into();
}

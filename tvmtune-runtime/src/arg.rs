//! What can be passed for a tensor.

use std::rc::Rc;
use std::sync::Arc;

use half::{bf16, f16};

use crate::Weight;

/// An element type of tensors: `f32`, `f16`, `bf16`, `f64`, `i8`, `u8`, `i32`, `i64` or `bool`.
pub trait Element: sealed::Sealed + Copy + Default + Send + Sync + 'static {}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($element:ty)*) => {
        $(impl sealed::Sealed for $element {}
        impl Element for $element {})*
    };
}

elements!(f32 f16 bf16 f64 i8 u8 i32 i64 bool);

/// What can be passed for a `Tensor<T, ..>` parameter: elements in memory, row-major.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a tensor of `{T}`",
    label = "expected a slice, an array or a `Vec` of `{T}`",
    note = "a kernel takes exactly the element type that its program declares; convert first"
)]
pub trait Input<T> {
    /// The elements.
    fn elements(&self) -> &[T];
}

/// What can be passed for a `Weight<T, ..>` parameter: a [`Weight`], or any slice.
///
/// A `Weight` is packed once. A plain slice is packed in every launch whose kernel wants another
/// layout, which takes an allocation and about as long as copying it: fine for one launch.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a weight of `{T}`",
    label = "expected a `tvmtune_runtime::Weight<{T}>`, or a slice, an array or a `Vec` of `{T}`",
    note = "a kernel takes exactly the element type that its program declares; convert first"
)]
pub trait Constant<T> {
    /// The elements, row-major.
    fn elements(&self) -> &[T];

    /// The weight that remembers packed copies, if it is one.
    fn weight(&self) -> Option<&Weight<T>> {
        None
    }
}

/// What results can be written to: elements in memory, row-major.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot take a result of `{T}`",
    label = "expected a mutable slice, array or `Vec` of `{T}`",
    note = "a kernel writes exactly the element type that its program declares"
)]
pub trait Output<T> {
    /// The elements.
    fn elements_mut(&mut self) -> &mut [T];
}

macro_rules! readable {
    ($([$($generics:tt)*] $container:ty;)*) => {
        $(impl<$($generics)*> Input<T> for $container {
            fn elements(&self) -> &[T] {
                self
            }
        }

        impl<$($generics)*> Constant<T> for $container {
            fn elements(&self) -> &[T] {
                self
            }
        })*
    };
}

readable! {
    [T] [T];
    [T, const N: usize] [T; N];
    [T] Vec<T>;
    [T] Box<[T]>;
    [T] Rc<[T]>;
    [T] Arc<[T]>;
}

impl<T: Element> Input<T> for Weight<T> {
    fn elements(&self) -> &[T] {
        self
    }
}

impl<T: Element> Constant<T> for Weight<T> {
    fn elements(&self) -> &[T] {
        self
    }

    fn weight(&self) -> Option<&Weight<T>> {
        Some(self)
    }
}

macro_rules! writable {
    ($([$($generics:tt)*] $container:ty;)*) => {
        $(impl<$($generics)*> Output<T> for $container {
            fn elements_mut(&mut self) -> &mut [T] {
                self
            }
        })*
    };
}

writable! {
    [T] [T];
    [T, const N: usize] [T; N];
    [T] Vec<T>;
    [T] Box<[T]>;
}

impl<T, S: Input<T> + ?Sized> Input<T> for &S {
    fn elements(&self) -> &[T] {
        (**self).elements()
    }
}

impl<T, S: Input<T> + ?Sized> Input<T> for &mut S {
    fn elements(&self) -> &[T] {
        (**self).elements()
    }
}

impl<T, S: Constant<T> + ?Sized> Constant<T> for &S {
    fn elements(&self) -> &[T] {
        (**self).elements()
    }

    fn weight(&self) -> Option<&Weight<T>> {
        (**self).weight()
    }
}

impl<T, S: Output<T> + ?Sized> Output<T> for &mut S {
    fn elements_mut(&mut self) -> &mut [T] {
        (**self).elements_mut()
    }
}

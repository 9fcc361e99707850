//! Arguments of kernels: inputs, weights and outputs.

use std::rc::Rc;
use std::sync::Arc;

use crate::{Cpu, Element, Held, Queue, Unfit, Weight};

/// An argument for a `Tensor<T, ..>` parameter: elements in memory, row-major.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a tensor of `{T}` to a kernel on `{Q}`",
    label = "expected a slice, an array or a `Vec` of `{T}`; on a CUDA stream, a `CudaSlice`",
    note = "a kernel takes exactly the element type that its program declares; convert first"
)]
pub trait Input<T: Element, Q: Queue = Cpu> {
    /// Returns the number of elements.
    fn n_elements(&self) -> usize;

    /// The elements, on their way into a launch.
    ///
    /// # Errors
    ///
    /// [`Unfit`] if a launch on this queue cannot read them; slices can always be read.
    fn elements<'a>(&'a self, queue: &'a Q) -> Result<Q::Elements<'a, T>, Unfit>;
}

/// An argument for a `Weight<T, ..>` parameter: a [`Weight`], or any slice.
///
/// A `Weight` is packed once, and brought to each device once. A plain slice is packed in every
/// launch whose kernel wants another layout, which takes an allocation and about as long as
/// copying it: fine for one launch. Slices on a CUDA device are not packed: where the kernel wants
/// another layout, that is an error.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed for a weight of `{T}` to a kernel on `{Q}`",
    label = "expected a `tvmtune_runtime::Weight<{T}>`, or a slice, an array or a `Vec` of `{T}`",
    note = "a kernel takes exactly the element type that its program declares; convert first"
)]
pub trait Constant<T: Element, Q: Queue = Cpu> {
    /// Returns the number of elements.
    fn n_elements(&self) -> usize;

    /// The weight that remembers its copies, or the elements.
    ///
    /// # Errors
    ///
    /// As [`Input::elements`].
    fn held<'a>(&'a self, queue: &'a Q) -> Result<Held<'a, T, Q>, Unfit>;
}

/// Memory for results, and arguments for `InOut<T, ..>` parameters, whose elements a launch reads
/// and replaces: elements in memory, row-major.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot take a result of `{T}` of a kernel on `{Q}`",
    label = "expected a mutable slice, array or `Vec` of `{T}`; on a CUDA stream, a `CudaSlice`",
    note = "a kernel writes exactly the element type that its program declares"
)]
pub trait Output<T: Element, Q: Queue = Cpu> {
    /// Returns the number of elements.
    fn n_elements(&self) -> usize;

    /// The elements, on their way into a launch.
    ///
    /// # Errors
    ///
    /// As [`Input::elements`].
    fn elements_mut<'a>(&'a mut self, queue: &'a Q) -> Result<Q::ElementsMut<'a, T>, Unfit>;
}

macro_rules! readable {
    ($([$($generics:tt)*] $container:ty;)*) => {
        $(impl<T: Element, $($generics)*> Input<T> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn elements<'a>(&'a self, _: &'a Cpu) -> Result<&'a [T], Unfit> {
                Ok(self)
            }
        }

        impl<T: Element, $($generics)*> Constant<T> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn held<'a>(&'a self, _: &'a Cpu) -> Result<Held<'a, T, Cpu>, Unfit> {
                Ok(Held::Elements(&self[..]))
            }
        })*
    };
}

readable! {
    [] [T];
    [const N: usize] [T; N];
    [] Vec<T>;
    [] Box<[T]>;
    [] Rc<[T]>;
    [] Arc<[T]>;
}

impl<T: Element> Input<T> for Weight<T> {
    fn n_elements(&self) -> usize {
        self.len()
    }

    fn elements<'a>(&'a self, _: &'a Cpu) -> Result<&'a [T], Unfit> {
        Ok(self)
    }
}

impl<T: Element, Q: Queue> Constant<T, Q> for Weight<T> {
    fn n_elements(&self) -> usize {
        self.len()
    }

    fn held<'a>(&'a self, _: &'a Q) -> Result<Held<'a, T, Q>, Unfit> {
        Ok(Held::Weight(self))
    }
}

macro_rules! writable {
    ($([$($generics:tt)*] $container:ty;)*) => {
        $(impl<T: Element, $($generics)*> Output<T> for $container {
            fn n_elements(&self) -> usize {
                self.len()
            }

            fn elements_mut<'a>(&'a mut self, _: &'a Cpu) -> Result<&'a mut [T], Unfit> {
                Ok(self)
            }
        })*
    };
}

writable! {
    [] [T];
    [const N: usize] [T; N];
    [] Vec<T>;
    [] Box<[T]>;
}

impl<T: Element, Q: Queue, S: Input<T, Q> + ?Sized> Input<T, Q> for &S {
    fn n_elements(&self) -> usize {
        (**self).n_elements()
    }

    fn elements<'a>(&'a self, queue: &'a Q) -> Result<Q::Elements<'a, T>, Unfit> {
        (**self).elements(queue)
    }
}

impl<T: Element, Q: Queue, S: Input<T, Q> + ?Sized> Input<T, Q> for &mut S {
    fn n_elements(&self) -> usize {
        (**self).n_elements()
    }

    fn elements<'a>(&'a self, queue: &'a Q) -> Result<Q::Elements<'a, T>, Unfit> {
        (**self).elements(queue)
    }
}

impl<T: Element, Q: Queue, S: Constant<T, Q> + ?Sized> Constant<T, Q> for &S {
    fn n_elements(&self) -> usize {
        (**self).n_elements()
    }

    fn held<'a>(&'a self, queue: &'a Q) -> Result<Held<'a, T, Q>, Unfit> {
        (**self).held(queue)
    }
}

impl<T: Element, Q: Queue, S: Output<T, Q> + ?Sized> Output<T, Q> for &mut S {
    fn n_elements(&self) -> usize {
        (**self).n_elements()
    }

    fn elements_mut<'a>(&'a mut self, queue: &'a Q) -> Result<Q::ElementsMut<'a, T>, Unfit> {
        (**self).elements_mut(queue)
    }
}

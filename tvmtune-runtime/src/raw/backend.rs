//! What launching takes of a queue: the one interface between generated code and what runs it.
#![expect(unsafe_code, reason = "declares a function whose callers must keep a promise")]

use std::fmt;

use super::{Bucket, cuda};
use crate::{Element, Error, Held, PlanInfo, Queue};

/// All code of one program, for buckets of its dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Program<const N: usize> {
    /// For CPUs.
    pub buckets: &'static [Bucket; N],
    /// For CUDA devices: the variants of each bucket, the ones to prefer first.
    pub cuda: &'static [&'static [cuda::Variant]; N],
}

/// What a launch passes, beside the queue.
pub struct Call<'a, A> {
    /// The kernel's name.
    pub kernel: &'static str,
    /// The arguments that are tensors, by name.
    pub names: &'a [&'static str],
    /// The dynamic dimensions.
    pub dims: &'a [i64],
    /// The tensors.
    pub args: &'a [A],
    /// The run-time scalars, as [`Scalar::bits`](super::Scalar::bits) gives them.
    pub scalars: &'a [u64],
}

/// How a queue loads kernels, takes arguments and launches.
pub trait Backend {
    /// The elements of a tensor that is read.
    type Elements<'a, T: Element>;
    /// The elements of a tensor that is written.
    type ElementsMut<'a, T: Element>;
    /// A weight, of a shape that was checked.
    type Weight<'a, T: Element>;
    /// Any of them, its type forgotten.
    type Arg<'a>;
    /// A program, loaded.
    type Kernel<const N: usize>: Clone + fmt::Debug + Send + Sync;
    /// What runs for some dimensions.
    type Variant<'a>;

    /// Gets a program ready to be launched on this queue.
    ///
    /// # Errors
    ///
    /// Whatever is wrong with the device or the code.
    fn load<const N: usize>(
        &self,
        name: &'static str,
        program: &'static Program<N>,
    ) -> Result<Self::Kernel<N>, Error>;

    /// What to run for these dimensions; `None` for the portable code.
    ///
    /// # Errors
    ///
    /// If nothing can run on this queue.
    fn choose<'a, const N: usize>(
        &self,
        name: &'static str,
        kernel: &'a Self::Kernel<N>,
        dims: &[i64],
    ) -> Result<Option<Self::Variant<'a>>, Error>;

    /// What a launch with these dimensions runs.
    fn plan<const N: usize>(kernel: &Self::Kernel<N>, dims: &[i64]) -> PlanInfo;

    /// Brings a weight into the layouts, and to the device, where a kernel's argument `arg` is
    /// to be.
    ///
    /// # Errors
    ///
    /// If there is no room for it.
    fn prepare<const N: usize, T: Element>(
        name: &'static str,
        kernel: &Self::Kernel<N>,
        arg: usize,
        weight: &crate::Weight<T>,
        shape: &[usize],
    ) -> Result<(), Error>;

    /// How many elements a launch may read.
    fn n_read<T: Element>(elements: &Self::Elements<'_, T>) -> usize;

    /// How many elements a launch may write.
    fn n_written<T: Element>(elements: &Self::ElementsMut<'_, T>) -> usize;

    /// A weight on its way into a launch; `shape` multiplies to the number of its elements.
    fn constant<'a, T: Element>(held: Held<'a, T, Self>, shape: &'a [usize]) -> Self::Weight<'a, T>
    where
        Self: Queue + Sized;

    /// A tensor that is read.
    fn input<'a, T: Element>(elements: &'a Self::Elements<'_, T>) -> Self::Arg<'a>;

    /// A tensor that is written.
    fn output<'a, T: Element>(elements: &'a mut Self::ElementsMut<'_, T>) -> Self::Arg<'a>;

    /// A weight.
    fn weight<'a, T: Element>(weight: &'a Self::Weight<'_, T>) -> Self::Arg<'a>;

    /// The elements where portable code reads them. Only [`Cpu`](crate::Cpu) runs that: elsewhere
    /// there are none.
    fn slice<'a, T: Element>(_: &'a Self::Elements<'_, T>) -> &'a [T] {
        &[]
    }

    /// The same, of a tensor that is written.
    fn slice_mut<'a, T: Element>(_: &'a mut Self::ElementsMut<'_, T>) -> &'a mut [T] {
        &mut []
    }

    /// The same, of a weight, row-major.
    fn weight_slice<'a, T: Element>(_: &'a Self::Weight<'_, T>) -> &'a [T] {
        &[]
    }

    /// Starts a variant that [`choose`](Self::choose) gave for these dimensions.
    ///
    /// # Errors
    ///
    /// If an argument is not where it must be, or the device refuses.
    ///
    /// # Safety
    ///
    /// The variant must be of the program whose arguments these are, in order, and the lengths of
    /// all tensors must be what the dimensions, which are in their ranges, say.
    unsafe fn run(
        &self,
        variant: Self::Variant<'_>,
        call: &Call<'_, Self::Arg<'_>>,
    ) -> Result<(), Error>;
}

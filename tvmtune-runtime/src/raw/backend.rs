//! The interface between generated code and the queues that launch it.
#![expect(unsafe_code, reason = "declares a function whose callers must keep a promise")]

use std::fmt;

use super::{Bucket, cuda};
use crate::{Element, Error, Held, PlanInfo, Queue, Spec};

/// All code of one program, for buckets of its dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Program<const N: usize> {
    /// Code for CPUs, by bucket.
    pub buckets: &'static [Bucket; N],
    /// Code for CUDA devices: the variants of each bucket, preferred ones first.
    pub cuda: &'static [&'static [cuda::Variant]; N],
}

/// The description of a program that a trace of its launches has.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// The program.
    pub spec: &'static Spec,
    /// Its buckets.
    pub buckets: &'static [Bucket],
}

/// The arguments of a launch, beside the queue.
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
    /// The program, if its launches may be traced.
    pub traced: Option<&'static Traced>,
}

/// A queue's way to load programs, convert arguments, and launch.
pub trait Backend {
    /// The elements of a tensor that is read.
    type Elements<'a, T: Element>;
    /// The elements of a tensor that is written.
    type ElementsMut<'a, T: Element>;
    /// A weight, of a shape that was checked.
    type Weight<'a, T: Element>;
    /// Any of these, type-erased.
    type Arg<'a>;
    /// A loaded program.
    type Kernel<const N: usize>: Clone + fmt::Debug + Send + Sync;
    /// The code chosen for a bucket.
    type Variant<'a>;

    /// Loads a program on this queue.
    ///
    /// # Errors
    ///
    /// If the device fails, or the code does not fit it.
    fn load<const N: usize>(
        &self,
        name: &'static str,
        program: &'static Program<N>,
    ) -> Result<Self::Kernel<N>, Error>;

    /// Chooses code for these dimensions; `None` for portable code.
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

    /// Describes what a launch of a program with these dimensions runs.
    fn plan<const N: usize>(
        spec: &'static Spec,
        kernel: &Self::Kernel<N>,
        dims: &[i64],
    ) -> PlanInfo;

    /// Packs a weight, ahead of launches, into the layouts of argument `arg`, on the device.
    ///
    /// # Errors
    ///
    /// If memory is exhausted.
    fn prepare<const N: usize, T: Element>(
        name: &'static str,
        kernel: &Self::Kernel<N>,
        arg: usize,
        weight: &crate::Weight<T>,
        shape: &[usize],
    ) -> Result<(), Error>;

    /// Returns the number of elements that a launch may read.
    fn n_read<T: Element>(elements: &Self::Elements<'_, T>) -> usize;

    /// Returns the number of elements that a launch may write.
    fn n_written<T: Element>(elements: &Self::ElementsMut<'_, T>) -> usize;

    /// Converts a weight; `shape` multiplies to the number of its elements.
    fn constant<'a, T: Element>(held: Held<'a, T, Self>, shape: &'a [usize]) -> Self::Weight<'a, T>
    where
        Self: Queue + Sized;

    /// Erases the type of a tensor that is read.
    fn input<'a, T: Element>(elements: &'a Self::Elements<'_, T>) -> Self::Arg<'a>;

    /// Erases the type of a tensor that is written.
    fn output<'a, T: Element>(elements: &'a mut Self::ElementsMut<'_, T>) -> Self::Arg<'a>;

    /// Erases the type of a weight.
    fn weight<'a, T: Element>(weight: &'a Self::Weight<'_, T>) -> Self::Arg<'a>;

    /// Returns the elements for portable code; empty on queues other than [`Cpu`](crate::Cpu).
    fn slice<'a, T: Element>(_: &'a Self::Elements<'_, T>) -> &'a [T] {
        &[]
    }

    /// Returns the elements to write for portable code.
    fn slice_mut<'a, T: Element>(_: &'a mut Self::ElementsMut<'_, T>) -> &'a mut [T] {
        &mut []
    }

    /// Returns the elements of a weight, row-major, for portable code.
    fn weight_slice<'a, T: Element>(_: &'a Self::Weight<'_, T>) -> &'a [T] {
        &[]
    }

    /// Launches a variant that [`choose`](Self::choose) returned for these dimensions.
    ///
    /// # Errors
    ///
    /// If an argument is not on the queue's device, or the launch fails.
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

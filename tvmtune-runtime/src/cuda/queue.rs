//! A stream as a queue: arguments are memory of its device, and a launch returns at once.
#![expect(unsafe_code, reason = "passes on the promise of whoever launches")]

use super::arg::{DeviceArg, DeviceWeight, Elements};
use super::kernel::{Chosen, DeviceKernel};
use super::{Stream, launch};
use crate::raw::cuda::TableEntry;
use crate::raw::{Backend, Call, Program};
use crate::{Element, Error, Held, PlanInfo, Queue, Spec, Weight};

impl Queue for Stream {}

impl Backend for Stream {
    type Elements<'a, T: Element> = Elements<'a>;
    type ElementsMut<'a, T: Element> = Elements<'a>;
    type Weight<'a, T: Element> = DeviceWeight<'a, T>;
    type Arg<'a> = DeviceArg<'a>;
    type Kernel<const N: usize> = DeviceKernel;
    type Variant<'a> = Chosen<'a>;

    fn load<const N: usize>(
        &self,
        name: &'static str,
        program: &'static Program<N>,
    ) -> Result<DeviceKernel, Error> {
        DeviceKernel::load(name, self, program)
    }

    fn choose<'a, const N: usize>(
        &self,
        name: &'static str,
        kernel: &'a DeviceKernel,
        dims: &[i64],
    ) -> Result<Option<Chosen<'a>>, Error> {
        kernel.check_stream(name, self)?;
        kernel.choose(name, dims).map(Some)
    }

    fn plan<const N: usize>(spec: &'static Spec, kernel: &DeviceKernel, dims: &[i64]) -> PlanInfo {
        kernel.plan(spec, dims)
    }

    fn prepare<const N: usize, T: Element>(
        name: &'static str,
        kernel: &DeviceKernel,
        arg: usize,
        weight: &Weight<T>,
        shape: &[usize],
    ) -> Result<(), Error> {
        for entry in kernel.variants().flat_map(|it| it.table) {
            if let TableEntry::Pointer { arg: of, layout, .. } = entry
                && *of == arg
            {
                let copies = weight.on_devices();
                copies.address(name, kernel.context(), *layout, (weight, shape))?;
            }
        }
        Ok(())
    }

    fn n_read<T: Element>(elements: &Elements<'_>) -> usize {
        elements.len()
    }

    fn n_written<T: Element>(elements: &Elements<'_>) -> usize {
        elements.len()
    }

    fn constant<'a, T: Element>(
        held: Held<'a, T, Stream>,
        shape: &'a [usize],
    ) -> DeviceWeight<'a, T> {
        DeviceWeight::new(held, shape)
    }

    fn input<'a, T: Element>(elements: &'a Elements<'_>) -> DeviceArg<'a> {
        DeviceArg::elements(elements)
    }

    fn output<'a, T: Element>(elements: &'a mut Elements<'_>) -> DeviceArg<'a> {
        DeviceArg::elements(elements)
    }

    fn weight<'a, T: Element>(weight: &'a DeviceWeight<'_, T>) -> DeviceArg<'a> {
        DeviceArg::weight(weight)
    }

    unsafe fn run(&self, chosen: Chosen<'_>, call: &Call<'_, DeviceArg<'_>>) -> Result<(), Error> {
        // SAFETY: by the contract of this function. `choose` checked that the kernel may be
        // launched on this stream; slices of other contexts are refused, and `cudarc` keeps those
        // that are passed until what is on the stream has run.
        unsafe { launch::run(&chosen, self.cu_stream(), call) }
    }
}

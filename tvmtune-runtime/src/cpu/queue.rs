//! The CPU as a queue: arguments are slices, and a launch is a call.
#![expect(unsafe_code, reason = "passes on the promise of whoever launches")]

use super::{Cpu, call};
use crate::raw::{Arg, Backend, Call, Kernel, Program, TableEntry, Variant, WeightArg};
use crate::{Element, Error, Held, PlanInfo, Queue, Spec, Weight};

impl Queue for Cpu {}

impl Backend for Cpu {
    type Elements<'a, T: Element> = &'a [T];
    type ElementsMut<'a, T: Element> = &'a mut [T];
    type Weight<'a, T: Element> = WeightArg<'a, T>;
    type Arg<'a> = Arg<'a>;
    type Kernel<const N: usize> = Kernel<N>;
    type Variant<'a> = &'static Variant;

    fn load<const N: usize>(
        &self,
        _: &'static str,
        program: &'static Program<N>,
    ) -> Result<Kernel<N>, Error> {
        Ok(Kernel::new(self, program.buckets))
    }

    fn choose<const N: usize>(
        &self,
        _: &'static str,
        kernel: &Kernel<N>,
        dims: &[i64],
    ) -> Result<Option<&'static Variant>, Error> {
        Ok(kernel.variant(self, dims))
    }

    fn plan<const N: usize>(spec: &'static Spec, kernel: &Kernel<N>, dims: &[i64]) -> PlanInfo {
        kernel.plan(spec, dims)
    }

    fn prepare<const N: usize, T: Element>(
        _: &'static str,
        kernel: &Kernel<N>,
        arg: usize,
        weight: &Weight<T>,
        shape: &[usize],
    ) -> Result<(), Error> {
        for entry in kernel.chosen().iter().flatten().flat_map(|it| it.table) {
            if let TableEntry::Pointer(of, Some(layout)) = entry
                && *of == arg
            {
                weight.packed(layout, shape);
            }
        }
        Ok(())
    }

    fn n_read<T: Element>(elements: &&[T]) -> usize {
        elements.len()
    }

    fn n_written<T: Element>(elements: &&mut [T]) -> usize {
        elements.len()
    }

    fn constant<'a, T: Element>(held: Held<'a, T, Cpu>, shape: &'a [usize]) -> WeightArg<'a, T> {
        WeightArg::new(held, shape)
    }

    fn input<'a, T: Element>(elements: &'a &[T]) -> Arg<'a> {
        Arg::input(elements)
    }

    fn output<'a, T: Element>(elements: &'a mut &mut [T]) -> Arg<'a> {
        Arg::output(elements)
    }

    fn weight<'a, T: Element>(weight: &'a WeightArg<'_, T>) -> Arg<'a> {
        Arg::weight(weight)
    }

    fn slice<'a, T: Element>(elements: &'a &[T]) -> &'a [T] {
        elements
    }

    fn slice_mut<'a, T: Element>(elements: &'a mut &mut [T]) -> &'a mut [T] {
        elements
    }

    fn weight_slice<'a, T: Element>(weight: &'a WeightArg<'_, T>) -> &'a [T] {
        weight.elements()
    }

    unsafe fn run(&self, variant: &'static Variant, call: &Call<'_, Arg<'_>>) -> Result<(), Error> {
        // SAFETY: by the contract of this function; `choose` gives only variants that this CPU
        // can execute, and slices are valid, and unaliased where they are written.
        unsafe { call::run(self, variant, call) }
    }
}

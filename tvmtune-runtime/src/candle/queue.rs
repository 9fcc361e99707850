//! A device of candle as a queue: the CPU or a stream, as it turns out at run time.
#![expect(unsafe_code, reason = "passes on the promise of whoever launches")]

use candle_core::Device;

#[cfg(feature = "candle-cuda")]
use super::cuda::{self, DeviceArg, Stream};
use super::kind;
use super::new_tensor::ElementsMut;
use super::view::Elements;
use crate::cpu::call;
use crate::raw::{Arg, Backend, Call, Program, WeightArg};
use crate::{Cpu, DeviceKind, Element, Error, Held, PlanInfo, Queue, Spec, Weight};

impl Queue for Device {}

/// A program, loaded.
#[derive(Clone, Debug)]
pub enum Loaded<const N: usize> {
    Cpu(<Cpu as Backend>::Kernel<N>),
    #[cfg(feature = "candle-cuda")]
    Cuda(<Stream as Backend>::Kernel<N>),
}

/// The code for a bucket.
pub enum Chosen<'a> {
    Cpu(<Cpu as Backend>::Variant<'a>),
    #[cfg(feature = "candle-cuda")]
    Cuda(<Stream as Backend>::Variant<'a>, Stream),
}

/// A weight on its way into a launch.
pub enum AnyWeight<'a, T: Element> {
    /// In memory of the CPU, with copies where it is used.
    Weight {
        cpu: WeightArg<'a, T>,
        #[cfg(feature = "candle-cuda")]
        cuda: <Stream as Backend>::Weight<'a, T>,
    },
    /// A tensor, there for one launch.
    Tensor(WeightArg<'a, T, Elements<'a, T>>),
}

/// A tensor of any type, as the queue takes it for which it was made.
pub struct AnyArg<'a> {
    cpu: Arg<'a>,
    #[cfg(feature = "candle-cuda")]
    cuda: DeviceArg<'a>,
}

impl<'a> AsRef<Arg<'a>> for AnyArg<'a> {
    fn as_ref(&self) -> &Arg<'a> {
        &self.cpu
    }
}

#[cfg(feature = "candle-cuda")]
impl<'a> AsRef<DeviceArg<'a>> for AnyArg<'a> {
    fn as_ref(&self) -> &DeviceArg<'a> {
        &self.cuda
    }
}

impl<'a> AnyArg<'a> {
    fn on_cpu(cpu: Arg<'a>) -> Self {
        Self {
            cpu,
            #[cfg(feature = "candle-cuda")]
            cuda: DeviceArg::raw(0),
        }
    }

    #[cfg(feature = "candle-cuda")]
    fn on_cuda(cuda: DeviceArg<'a>) -> Self {
        Self { cpu: Arg::input::<u8>(&[]), cuda }
    }

    /// Elements that are read, and `cpu` if they are on the CPU.
    #[cfg_attr(
        not(feature = "candle-cuda"),
        expect(unused_variables, reason = "all elements are on the CPU")
    )]
    fn elements<T>(elements: &'a Elements<'_, T>, cpu: Arg<'a>) -> Self {
        #[cfg(feature = "candle-cuda")]
        if let Some(on_stream) = elements.on_stream() {
            return Self::on_cuda(DeviceArg::owned(on_stream));
        }
        Self::on_cpu(cpu)
    }
}

impl<const N: usize> Loaded<N> {
    fn kind(&self) -> DeviceKind {
        match self {
            Loaded::Cpu(_) => DeviceKind::Cpu,
            #[cfg(feature = "candle-cuda")]
            Loaded::Cuda(_) => DeviceKind::Cuda,
        }
    }
}

impl Backend for Device {
    type Elements<'a, T: Element> = Elements<'a, T>;
    type ElementsMut<'a, T: Element> = ElementsMut<'a, T>;
    type Weight<'a, T: Element> = AnyWeight<'a, T>;
    type Arg<'a> = AnyArg<'a>;
    type Kernel<const N: usize> = Loaded<N>;
    type Variant<'a> = Chosen<'a>;

    fn load<const N: usize>(
        &self,
        name: &'static str,
        program: &'static Program<N>,
    ) -> Result<Loaded<N>, Error> {
        match self {
            Device::Cpu => Backend::load(&Cpu::new(), name, program).map(Loaded::Cpu),
            #[cfg(feature = "candle-cuda")]
            Device::Cuda(device) => {
                Backend::load(&device.cuda_stream(), name, program).map(Loaded::Cuda)
            }
            _ => Err(Error::NoQueue { kernel: name, device: kind(self) }),
        }
    }

    fn choose<'a, const N: usize>(
        &self,
        name: &'static str,
        kernel: &'a Loaded<N>,
        dims: &[i64],
    ) -> Result<Option<Chosen<'a>>, Error> {
        match (self, kernel) {
            (Device::Cpu, Loaded::Cpu(kernel)) => {
                let variant = Backend::choose(&Cpu::new(), name, kernel, dims)?;
                Ok(variant.map(Chosen::Cpu))
            }
            #[cfg(feature = "candle-cuda")]
            (Device::Cuda(device), Loaded::Cuda(kernel)) => {
                let stream = device.cuda_stream();
                let chosen = Backend::choose::<N>(&stream, name, kernel, dims)?;
                Ok(chosen.map(|it| Chosen::Cuda(it, stream)))
            }
            _ => {
                let (loaded, launched) = (kernel.kind(), kind(self));
                Err(Error::LoadedElsewhere { kernel: name, loaded, launched })
            }
        }
    }

    fn plan<const N: usize>(spec: &'static Spec, kernel: &Loaded<N>, dims: &[i64]) -> PlanInfo {
        match kernel {
            Loaded::Cpu(kernel) => <Cpu as Backend>::plan(spec, kernel, dims),
            #[cfg(feature = "candle-cuda")]
            Loaded::Cuda(kernel) => <Stream as Backend>::plan::<N>(spec, kernel, dims),
        }
    }

    fn prepare<const N: usize, T: Element>(
        name: &'static str,
        kernel: &Loaded<N>,
        arg: usize,
        weight: &Weight<T>,
        shape: &[usize],
    ) -> Result<(), Error> {
        match kernel {
            Loaded::Cpu(kernel) => <Cpu as Backend>::prepare(name, kernel, arg, weight, shape),
            #[cfg(feature = "candle-cuda")]
            Loaded::Cuda(kernel) => {
                <Stream as Backend>::prepare::<N, T>(name, kernel, arg, weight, shape)
            }
        }
    }

    fn n_read<T: Element>(elements: &Elements<'_, T>) -> usize {
        elements.n()
    }

    fn n_written<T: Element>(elements: &ElementsMut<'_, T>) -> usize {
        match elements {
            ElementsMut::Cpu(elements) => elements.len(),
            #[cfg(feature = "candle-cuda")]
            ElementsMut::Cuda(slice, _) => slice.len(),
        }
    }

    fn constant<'a, T: Element>(held: Held<'a, T, Device>, shape: &'a [usize]) -> AnyWeight<'a, T> {
        match held {
            Held::Elements(elements) => AnyWeight::Tensor(WeightArg::of(elements, shape)),
            Held::Weight(weight) => AnyWeight::Weight {
                cpu: WeightArg::new(Held::Weight(weight), shape),
                #[cfg(feature = "candle-cuda")]
                cuda: <Stream as Backend>::constant(Held::Weight(weight), shape),
            },
        }
    }

    fn input<'a, T: Element>(elements: &'a Elements<'_, T>) -> AnyArg<'a> {
        AnyArg::elements(elements, Arg::input(elements))
    }

    fn output<'a, T: Element>(elements: &'a mut ElementsMut<'_, T>) -> AnyArg<'a> {
        match elements {
            ElementsMut::Cpu(elements) => AnyArg::on_cpu(Arg::output(elements)),
            #[cfg(feature = "candle-cuda")]
            ElementsMut::Cuda(slice, stream) => AnyArg::on_cuda(cuda::written(slice, stream)),
        }
    }

    fn weight<'a, T: Element>(weight: &'a AnyWeight<'_, T>) -> AnyArg<'a> {
        match weight {
            AnyWeight::Tensor(weight) => AnyArg::elements(weight.elements(), Arg::weight(weight)),
            #[cfg(not(feature = "candle-cuda"))]
            AnyWeight::Weight { cpu } => AnyArg::on_cpu(Arg::weight(cpu)),
            #[cfg(feature = "candle-cuda")]
            AnyWeight::Weight { cpu, cuda } => {
                AnyArg { cpu: Arg::weight(cpu), cuda: <Stream as Backend>::weight(cuda) }
            }
        }
    }

    fn slice<'a, T: Element>(elements: &'a Elements<'_, T>) -> &'a [T] {
        elements
    }

    fn slice_mut<'a, T: Element>(elements: &'a mut ElementsMut<'_, T>) -> &'a mut [T] {
        match elements {
            ElementsMut::Cpu(elements) => elements,
            #[cfg(feature = "candle-cuda")]
            ElementsMut::Cuda(..) => &mut [],
        }
    }

    fn weight_slice<'a, T: Element>(weight: &'a AnyWeight<'_, T>) -> &'a [T] {
        match weight {
            AnyWeight::Tensor(weight) => weight.elements(),
            AnyWeight::Weight { cpu, .. } => cpu.elements(),
        }
    }

    unsafe fn run(&self, chosen: Chosen<'_>, call: &Call<'_, AnyArg<'_>>) -> Result<(), Error> {
        match chosen {
            // SAFETY: by the contract of this function; arguments were taken for this device, so
            // that those of the CPU are slices, which are borrowed until the call returns.
            Chosen::Cpu(variant) => unsafe { call::run(&Cpu::new(), variant, call) },
            #[cfg(feature = "candle-cuda")]
            // SAFETY: by the contract of this function. `choose` checked that the kernel may be
            // launched on this stream, slices of other contexts were refused, and `cudarc` keeps
            // those that are passed until what is on the stream has run.
            Chosen::Cuda(chosen, stream) => unsafe { cuda::run(&chosen, stream.cu_stream(), call) },
        }
    }
}

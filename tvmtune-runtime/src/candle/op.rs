//! Calls as operations of candle's graph.

use std::marker::PhantomData;

use candle_core::{
    CpuStorage, CustomOp1, CustomOp2, CustomOp3, Device, Layout, Result, Shape, Storage,
};
#[cfg(feature = "candle-cuda")]
use candle_core::{CudaDevice, CudaStorage};

use super::{NewTensor, TensorElement, View};

/// A call of a kernel as candle's `CustomOp1`, `CustomOp2` or `CustomOp3`: see [`op`].
#[derive(Clone, Copy, Debug)]
pub struct Op<F, T, const N: usize> {
    name: &'static str,
    run: F,
    result: PhantomData<fn() -> T>,
}

/// Makes an operation with `N` inputs, 1 to 3, of a function that launches kernels.
///
/// Its results are part of candle's graph: `backward` through them is candle's error that the
/// operation of this name does not support it. Kernels with more inputs or results are called by
/// themselves.
///
#[cfg_attr(feature = "macros", doc = "```")]
#[cfg_attr(not(feature = "macros"), doc = "```ignore")]
/// use candle_core::{Device, Tensor, Var};
/// use tvmtune_runtime::autotune;
/// use tvmtune_runtime::candle::{self, NewTensor};
///
/// #[autotune(dims(M = 1..=64, N = 8, K = 4))]
/// fn linear(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
///     compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
/// }
///
/// # fn main() -> candle_core::Result<()> {
/// let w = Var::ones((8, 4), candle_core::DType::F32, &Device::Cpu)?;
/// let x = Tensor::ones((3, 4), candle_core::DType::F32, &Device::Cpu)?;
/// let y = x.apply_op2(&w, candle::op("linear", |device, [x, w]| {
///     let mut y = NewTensor::zeros((x.dims()[0], 8), device)?;
///     linear(device, &x, &w, &mut y)?;
///     Ok(y)
/// }))?;
/// assert_eq!(y.sum_all()?.to_vec0::<f32>()?, 96.0);
/// assert!(y.backward().is_err());
/// # Ok(())
/// # }
/// ```
pub fn op<F, T, const N: usize>(name: &'static str, run: F) -> Op<F, T, N>
where
    F: Fn(&Device, [View<'_>; N]) -> Result<NewTensor<T>>,
{
    Op { name, run, result: PhantomData }
}

impl<F, T: TensorElement, const N: usize> Op<F, T, N>
where
    F: Fn(&Device, [View<'_>; N]) -> Result<NewTensor<T>>,
{
    fn on_cpu(&self, inputs: [View<'_>; N]) -> Result<(CpuStorage, Shape)> {
        match (self.run)(&Device::Cpu, inputs)?.into_storage() {
            (Storage::Cpu(storage), shape) => Ok((storage, shape)),
            (other, _) => Err(self.elsewhere(&other)),
        }
    }

    #[cfg(feature = "candle-cuda")]
    fn on_cuda(&self, device: &CudaDevice, inputs: [View<'_>; N]) -> Result<(CudaStorage, Shape)> {
        match (self.run)(&Device::Cuda(device.clone()), inputs)?.into_storage() {
            (Storage::Cuda(storage), shape) => Ok((storage, shape)),
            (other, _) => Err(self.elsewhere(&other)),
        }
    }

    fn elsewhere(&self, storage: &Storage) -> candle_core::Error {
        let Self { name, .. } = self;
        candle_core::Error::msg(format!(
            "`{name}`: its result is on {:?}; make it on the device that is passed",
            storage.device().location()
        ))
    }
}

macro_rules! custom_op {
    ($($op:ident<$n:literal>($($storage:ident $layout:ident),*): $first:ident;)*) => {
        $(impl<F, T: TensorElement> $op for Op<F, T, $n>
        where
            F: Fn(&Device, [View<'_>; $n]) -> Result<NewTensor<T>>,
        {
            fn name(&self) -> &'static str {
                self.name
            }

            fn cpu_fwd(
                &self, $($storage: &CpuStorage, $layout: &Layout),*
            ) -> Result<(CpuStorage, Shape)> {
                self.on_cpu([$(View::on_cpu($storage, $layout)),*])
            }

            #[cfg(feature = "candle-cuda")]
            fn cuda_fwd(
                &self, $($storage: &CudaStorage, $layout: &Layout),*
            ) -> Result<(CudaStorage, Shape)> {
                self.on_cuda(&$first.device, [$(View::on_cuda($storage, $layout)),*])
            }
        })*
    };
}

custom_op! {
    CustomOp1<1>(a a_layout): a;
    CustomOp2<2>(a a_layout, b b_layout): a;
    CustomOp3<3>(a a_layout, b b_layout, c c_layout): a;
}

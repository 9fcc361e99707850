//! Devices of the model: the CPU or a CUDA device, which kernels distinguish by their queue.
//!
//! An application says where its tensors lie, and on a device that the launches of one shape are
//! recorded once and then started as a whole.

use anyhow::Result;
use tvmtune_runtime::{Cpu, Error, Input, Output, Queue};

/// A queue, with memory that its kernels read and write.
pub trait Device: Queue + Sized {
    /// Integers in that memory.
    type Ints: Input<i32, Self>;
    /// Numbers in that memory.
    type Floats: Input<f32, Self> + Output<f32, Self>;
    /// Launches that were recorded, if there are.
    type Graph: Default;

    /// Memory that holds these integers.
    ///
    /// # Errors
    ///
    /// If the device has no room.
    fn ints(&self, values: Vec<i32>) -> Result<Self::Ints>;

    /// Memory that holds these numbers.
    ///
    /// # Errors
    ///
    /// If the device has no room.
    fn floats(&self, values: Vec<f32>) -> Result<Self::Floats>;

    /// Brings as many integers as there are in `to`.
    ///
    /// # Errors
    ///
    /// If the device fails.
    fn write(&self, values: &[i32], to: &mut Self::Ints) -> Result<()>;

    /// Waits for all launches, and brings their results.
    ///
    /// # Errors
    ///
    /// If the device or a kernel fails.
    fn read(&self, from: &Self::Floats) -> Result<Vec<f32>>;

    /// Launches kernels: the same on the same memory, whenever it is called with this graph.
    ///
    /// # Errors
    ///
    /// Those of the launches.
    fn launch(
        &self,
        graph: &mut Self::Graph,
        launches: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error>;
}

impl Device for Cpu {
    type Ints = Vec<i32>;
    type Floats = Vec<f32>;
    type Graph = ();

    fn ints(&self, values: Vec<i32>) -> Result<Vec<i32>> {
        Ok(values)
    }

    fn floats(&self, values: Vec<f32>) -> Result<Vec<f32>> {
        Ok(values)
    }

    fn write(&self, values: &[i32], to: &mut Vec<i32>) -> Result<()> {
        to.copy_from_slice(values);
        Ok(())
    }

    fn read(&self, from: &Vec<f32>) -> Result<Vec<f32>> {
        Ok(from.clone())
    }

    fn launch(
        &self,
        (): &mut (),
        mut launches: impl FnMut() -> Result<(), Error>,
    ) -> Result<(), Error> {
        launches()
    }
}

#[cfg(feature = "cuda")]
pub use cuda::gpu;

#[cfg(feature = "cuda")]
mod cuda {
    use anyhow::Result;
    use tvmtune_runtime::Error;
    use tvmtune_runtime::cuda::cudarc::driver::CudaSlice;
    use tvmtune_runtime::cuda::{self, Batch, Stream};

    use super::Device;

    /// The stream of this thread on the first CUDA device.
    ///
    /// On the only stream in use, `cudarc` records no events around slices, which graphs would
    /// have to hold as well.
    ///
    /// # Errors
    ///
    /// If there is no driver, or no device.
    pub fn gpu() -> Result<Stream, Error> {
        Ok(cuda::Device::open(0)?.context().per_thread_stream())
    }

    impl Device for Stream {
        type Ints = CudaSlice<i32>;
        type Floats = CudaSlice<f32>;
        type Graph = Option<Batch>;

        fn ints(&self, values: Vec<i32>) -> Result<CudaSlice<i32>> {
            Ok(self.clone_htod(&values)?)
        }

        fn floats(&self, values: Vec<f32>) -> Result<CudaSlice<f32>> {
            Ok(self.clone_htod(&values)?)
        }

        fn write(&self, values: &[i32], to: &mut CudaSlice<i32>) -> Result<()> {
            Ok(self.memcpy_htod(values, to)?)
        }

        fn read(&self, from: &CudaSlice<f32>) -> Result<Vec<f32>> {
            let values = self.clone_dtoh(from)?;
            self.synchronize()?;
            Ok(values)
        }

        fn launch(
            &self,
            graph: &mut Option<Batch>,
            mut launches: impl FnMut() -> Result<(), Error>,
        ) -> Result<(), Error> {
            if let Some(graph) = graph {
                return graph.launch();
            }
            // Weights come to the device with the first launch, which nothing recorded may do.
            launches()?;
            *graph = Some(Batch::record(self, launches)?);
            Ok(())
        }
    }
}

//! Timing of work on a stream by the device's clock.
#![expect(
    unsafe_code,
    reason = "a function of the driver is called that `cudarc` knows by a newer name"
)]

use std::fmt;

use cudarc::driver::sys::{CUevent_flags, CUgraphInstantiate_flags, CUstreamCaptureMode};
use cudarc::driver::{CudaEvent, CudaGraph, DriverError};

use super::Stream;
use super::driver::{driver, error_name};
use crate::Error;

/// Work that was recorded once and is started as a whole, so that the time between launches is what
/// the device takes for it, not the host.
pub struct Batch {
    graph: CudaGraph,
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").finish_non_exhaustive()
    }
}

impl Batch {
    /// Records what `work` puts on a stream, without running it. Whatever it uses must stay for as
    /// long as the batch is in use.
    ///
    /// # Errors
    ///
    /// The error of the work, or [`Error::Cuda`].
    pub fn record(
        stream: &Stream,
        work: impl FnOnce() -> Result<(), Error>,
    ) -> Result<Self, Error> {
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED;
        stream.begin_capture(mode).map_err(failed("cuStreamBeginCapture"))?;
        let worked = work();
        // A capture that was begun is ended, whatever happened.
        let flags = CUgraphInstantiate_flags::CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
        let captured = stream.end_capture(flags).map_err(failed("cuStreamEndCapture"));
        worked?;
        let empty = Error::Cuda { kernel: TIMER, call: "cuStreamEndCapture", reason: "no graph" };
        let graph = captured?.ok_or(empty)?;
        graph.upload().map_err(failed("cuGraphUpload"))?;
        Ok(Self { graph })
    }

    /// Puts it on the stream that it was recorded on.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`]
    pub fn launch(&self) -> Result<(), Error> {
        self.graph.launch().map_err(failed("cuGraphLaunch"))
    }
}

/// The name of timers in errors.
const TIMER: &str = "a timer";

fn failed(call: &'static str) -> impl Fn(DriverError) -> Error {
    move |error| Error::Cuda { kernel: TIMER, call, reason: error_name(error) }
}

/// Two marks on a stream.
#[derive(Debug)]
pub struct Timer {
    stream: Stream,
    start: CudaEvent,
    end: CudaEvent,
}

impl Timer {
    /// A timer of a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Cuda`]
    pub fn new(stream: &Stream) -> Result<Self, Error> {
        let event = || {
            let flags = Some(CUevent_flags::CU_EVENT_DEFAULT);
            stream.context().new_event(flags).map_err(failed("cuEventCreate"))
        };
        Ok(Self { stream: stream.clone(), start: event()?, end: event()? })
    }

    /// Waits for what `work` puts on the stream; gives the nanoseconds that it took.
    ///
    /// # Errors
    ///
    /// The error of the work, even if the driver reports it only now.
    pub fn time(&self, work: impl FnOnce() -> Result<(), Error>) -> Result<f64, Error> {
        self.start.record(&self.stream).map_err(failed("cuEventRecord"))?;
        work()?;
        self.end.record(&self.stream).map_err(failed("cuEventRecord"))?;
        self.end.synchronize().map_err(failed("cuEventSynchronize"))?;
        let elapsed = driver()?.elapsed;
        let mut milliseconds = 0.0_f32;
        let (start, end) = (self.start.cu_event().cast(), self.end.cu_event().cast());
        // SAFETY: both events were recorded in a context of the driver, and are over.
        let result = unsafe { elapsed(&raw mut milliseconds, start, end) };
        match result {
            0 => Ok(f64::from(milliseconds) * 1e6),
            _ => Err(Error::Cuda { kernel: TIMER, call: "cuEventElapsedTime", reason: "no time" }),
        }
    }
}

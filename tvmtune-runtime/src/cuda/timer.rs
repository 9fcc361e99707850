//! Timing of work on a stream by the device's clock.
#![expect(
    unsafe_code,
    reason = "a function of the driver is called that `cudarc` knows by a newer name"
)]

use std::fmt;
use std::sync::Arc;

use cudarc::driver::result::event::record;
use cudarc::driver::result::stream::is_capturing;
use cudarc::driver::sys::{
    CUevent_flags, CUgraphInstantiate_flags, CUstream, CUstreamCaptureMode, CUstreamCaptureStatus,
};
use cudarc::driver::{CudaContext, CudaEvent, CudaGraph, DriverError};

use super::Stream;
use super::driver::{driver, error_name};
use crate::Error;
use crate::trace::Clock;

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
        elapsed_ns(&self.start, &self.end)
    }
}

/// Returns the time between two events that are over, in ns.
fn elapsed_ns(start: &CudaEvent, end: &CudaEvent) -> Result<f64, Error> {
    let elapsed = driver()?.elapsed;
    let mut milliseconds = 0.0_f32;
    let (start, end) = (start.cu_event().cast(), end.cu_event().cast());
    // SAFETY: both events were recorded in a context of the driver, and are over.
    let result = unsafe { elapsed(&raw mut milliseconds, start, end) };
    match result {
        0 => Ok(f64::from(milliseconds) * 1e6),
        _ => Err(Error::Cuda { kernel: TIMER, call: "cuEventElapsedTime", reason: "no time" }),
    }
}

/// Times a launch for a trace: waits for what `enqueue` puts on a stream, unless that is being captured.
/// Returns `None` where the device gave no time: an error of the kernel appears where the application
/// waits for the stream, traced or not.
///
/// # Errors
///
/// Those of `enqueue`.
///
/// # Safety
///
/// The stream must be one of the context.
pub(super) unsafe fn time_launch(
    context: &Arc<CudaContext>,
    stream: CUstream,
    enqueue: impl FnOnce() -> Result<(), Error>,
) -> Result<Option<Clock>, Error> {
    // SAFETY: by the contract of this function.
    let status = context.bind_to_thread().and_then(|()| unsafe { is_capturing(stream) });
    if status != Ok(CUstreamCaptureStatus::CU_STREAM_CAPTURE_STATUS_NONE) {
        return enqueue().map(|()| Some(Clock::Captured));
    }
    let event = || context.new_event(Some(CUevent_flags::CU_EVENT_DEFAULT)).ok();
    let (start, end) = (event(), event());
    // SAFETY: by the contract of this function, as the events are of the context, too.
    let record = |it: &CudaEvent| unsafe { record(it.cu_event(), stream) }.ok();
    let is_started = start.as_ref().and_then(record).is_some();
    enqueue()?;
    let (Some(start), Some(end), true) = (start, end, is_started) else { return Ok(None) };
    let is_over = record(&end).and_then(|()| end.synchronize().ok()).is_some();
    let ns = is_over.then(|| elapsed_ns(&start, &end).ok()).flatten();
    Ok(ns.map(|ns| Clock::Device { ns }))
}

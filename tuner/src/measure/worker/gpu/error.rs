//! Errors of the driver, as errors of a worker.

use tvmtune_runtime::Error;

use super::super::error::WorkerError;

/// Errors of the driver after which the context still works (CUDA driver API, `CUresult`).
const RECOVERABLE: [&str; 7] = [
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_INVALID_SOURCE",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_NOT_SUPPORTED",
    "CUDA_ERROR_OUT_OF_MEMORY",
];

/// Converts an error of the runtime.
pub(super) fn worker_error(error: Error) -> WorkerError {
    match error {
        Error::Cuda { reason, .. } if !RECOVERABLE.contains(&reason) => {
            WorkerError::Lost(error.to_string())
        }
        _ => WorkerError::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_breaks_the_gpu_costs_the_worker() {
        let error = |reason| Error::Cuda { kernel: "k", call: "cuLaunchKernel", reason };
        let is_lost = |it| matches!(worker_error(it), WorkerError::Lost(_));
        assert!(is_lost(error("CUDA_ERROR_ILLEGAL_ADDRESS")));
        assert!(!is_lost(error("CUDA_ERROR_OUT_OF_MEMORY")));
        assert!(!is_lost(Error::SharedMemory { kernel: "k", want: 2, have: 1 }));
    }
}

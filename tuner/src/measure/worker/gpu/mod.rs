//! Candidates for a GPU: launched by the function that launches kernels in the user's program, timed
//! by events of the device.
//!
//! Launches are captured in a CUDA graph, so that no host overhead is in between; they rotate through
//! copies of their arguments that together are twice as large as the L2.
//!
//! # Source
//!
//! `nvbench` and Triton's `do_bench` for events and warm-up; rotating arguments: CUTLASS's guide to
//! measuring matrix products.

mod code;
mod memory;

use tvmtune_runtime::Error;
use tvmtune_runtime::cuda::cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use tvmtune_runtime::cuda::{Batch, Buffer, Device, Stream, Timer};

use super::super::protocol::{self, GpuSpec, Policy, Problem, Word};
use super::{WorkerError, invalid};
pub(super) use code::LoadedCandidate;
use memory::Arguments;

/// The first GPU, with its stream and timer.
pub(super) struct Gpu {
    device: Device,
    stream: Stream,
    timer: Timer,
    l2_bytes: usize,
}

/// The arguments of each case, as far as they were needed.
#[derive(Default)]
pub(super) struct Memory(Vec<Option<Arguments>>);

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

impl From<Error> for WorkerError {
    fn from(error: Error) -> Self {
        match error {
            Error::Cuda { reason, .. } if !RECOVERABLE.contains(&reason) => {
                WorkerError::Lost(error.to_string())
            }
            _ => WorkerError::Failed(error.to_string()),
        }
    }
}

/// The maximum number of launches of a sample, before rounding up to whole rotations.
const MAX_LAUNCHES: usize = 200;
/// The maximum number of copies of the arguments.
const MAX_SETS: usize = 128;
/// Warm-up before samples are taken: of a candidate, and of each that is compared.
const WARM_UP_NS: f64 = 3e6;
const COMPARE_WARM_UP_NS: f64 = 10e6;
/// The size of a bandwidth test, in times of the L2.
const COPY_SIZE: usize = 4;
/// The time of samples after which no more than two are taken.
const MAX_SAMPLING_NS: f64 = 100e6;
/// The host overhead of a single launch at most: on an H200, kernels of 10 microseconds took up to 60
/// when first launched alone.
const LAUNCH_OVERHEAD_NS: f64 = 300_000.0;

impl Gpu {
    /// Opens the first GPU.
    pub(super) fn open() -> Result<Self, WorkerError> {
        let open = || {
            let device = Device::open(0)?;
            let stream = device.stream()?;
            let timer = Timer::new(&stream)?;
            let l2_bytes = attribute(&device, Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
            let l2_bytes = if l2_bytes == 0 { 64 << 20 } else { l2_bytes as usize };
            Ok(Self { device, stream, timer, l2_bytes })
        };
        open().map_err(|it: Error| WorkerError::Failed(it.to_string()))
    }

    /// Describes the GPU.
    pub(super) fn describe(&self) -> protocol::Gpu {
        let number = |it| attribute(&self.device, it);
        let small = |it: u64| u32::try_from(it).unwrap_or(0);
        let arch = self.device.arch();
        // Twice, as memory has a double data rate; the clock is in kHz, the bus in bits.
        let clock = number(Attribute::CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE);
        let bus = number(Attribute::CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH);
        let (free, memory) = self.device.context().mem_get_info().unwrap_or((0, 0));
        protocol::Gpu {
            name: self.device.name().to_owned(),
            capability: (arch.major, arch.minor),
            multiprocessors: u32::try_from(self.device.n_sms()).unwrap_or(0),
            shared_bytes: self.device.shared_bytes() as u64,
            l2_bytes: number(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
            memory_bytes: memory as u64,
            free_bytes: free as u64,
            bandwidth_gbps: small(2 * clock * bus / 8 / 1_000_000),
            clock_mhz: small(number(Attribute::CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000),
            ptx: self.device.ptx().unwrap_or_default(),
        }
    }

    /// Measures the bandwidth of `n` copies within memory, much larger than the L2, in bytes read and
    /// written per ns.
    pub(super) fn copy(&self, n: usize) -> Result<Vec<f64>, WorkerError> {
        let buffer = |byte| Buffer::new(&self.device, COPY_SIZE * self.l2_bytes, byte);
        let (from, to) = (buffer(0x3c)?, buffer(0)?);
        let copy = || -> Result<f64, WorkerError> {
            let ns = self.timer.time(|| to.copy_from(&from, &self.stream))?;
            Ok(2.0 * to.n_bytes() as f64 / ns.max(0.001))
        };
        copy()?;
        (0..n).map(|_| copy()).collect()
    }

    /// Loads a candidate.
    pub(super) fn load(
        &self,
        spec: &GpuSpec,
        bytes: &[u8],
    ) -> Result<LoadedCandidate, WorkerError> {
        LoadedCandidate::new(&self.stream, spec, bytes)
    }
}

fn attribute(device: &Device, attribute: Attribute) -> u64 {
    device.context().attribute(attribute).ok().and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
}

impl Memory {
    /// Copies the parameters of all cases to the GPU, unpacked, as most candidates need them: later
    /// time limits are shorter.
    pub(super) fn prepare(&mut self, gpu: &Gpu, problem: &Problem) -> Result<(), WorkerError> {
        for (n, case) in problem.cases.iter().enumerate() {
            let words: Vec<Word> = (0..case.params.len()).map(Word::Param).collect();
            self.arguments(problem, n)?.provide(&gpu.device, &words, 1)?;
        }
        Ok(())
    }

    /// Launches a candidate once on a case, with poisoned results; returns these.
    pub(super) fn evaluate(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        loaded: &LoadedCandidate,
        case: usize,
    ) -> Result<Vec<Vec<u8>>, WorkerError> {
        let words = loaded.pointers(case)?;
        let arguments = self.arguments(problem, case)?;
        arguments.provide(&gpu.device, words, 1)?;
        arguments.restore(&gpu.stream)?;
        loaded.launch(case, &arguments.set(0, words)?)?;
        Ok(arguments.results()?)
    }

    /// Times launches on the first case.
    pub(super) fn time(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        loaded: &LoadedCandidate,
        policy: &Policy,
    ) -> Result<Vec<f64>, WorkerError> {
        let hopeless = policy.best_ns.map_or(f64::INFINITY, |it| it * policy.hopeless);
        let rotation = self.rotating(gpu, problem, loaded.pointers(0)?)?;
        let one_ns = gpu.time_once(loaded, rotation.arguments)?;
        // A single launch includes host overhead.
        if one_ns > hopeless.max(LAUNCH_OVERHEAD_NS) {
            return Ok(vec![one_ns]);
        }
        let captured = gpu.capture(loaded, rotation, n_launches(one_ns, policy))?;
        gpu.warm_up(&captured, WARM_UP_NS)?;
        rotation.arguments.restore_replaced(&gpu.stream)?;
        let mut samples = vec![gpu.sample(&captured)?];
        while samples.len() < policy.repeats && samples[samples.len() - 1] <= hopeless {
            let spent_ns = samples.iter().sum::<f64>() * captured.n_launches as f64;
            if spent_ns > MAX_SAMPLING_NS && samples.len() > 1 {
                break;
            }
            rotation.arguments.restore_replaced(&gpu.stream)?;
            samples.push(gpu.sample(&captured)?);
        }
        Ok(samples)
    }

    /// Times several candidates on the first case, interleaved.
    pub(super) fn compare(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        loaded: &[&LoadedCandidate],
        rounds: usize,
        policy: &Policy,
    ) -> Result<Vec<Vec<f64>>, WorkerError> {
        let words = loaded.iter().map(|it| it.pointers(0)).collect::<Result<Vec<_>, _>>()?.concat();
        let rotation = self.rotating(gpu, problem, &words)?;
        let mut captured = Vec::new();
        for it in loaded {
            let one_ns = gpu.time_once(it, rotation.arguments)?;
            captured.push(gpu.capture(it, rotation, n_launches(one_ns, policy))?);
        }
        let mut samples = vec![Vec::new(); captured.len()];
        for round in 0..rounds.max(1) {
            for (captured, samples) in captured.iter().zip(&mut samples) {
                if round == 0 {
                    gpu.warm_up(captured, COMPARE_WARM_UP_NS)?;
                }
                rotation.arguments.restore_replaced(&gpu.stream)?;
                samples.push(gpu.sample(captured)?);
            }
        }
        Ok(samples)
    }

    /// Returns the arguments of the first case, and the number of copies that are twice as large as
    /// the L2.
    fn rotating(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        words: &[Word],
    ) -> Result<Rotation<'_>, WorkerError> {
        let arguments = self.arguments(problem, 0)?;
        let n_bytes = arguments.n_bytes(words).max(1);
        let n_sets = (2 * gpu.l2_bytes).div_ceil(n_bytes).clamp(2, MAX_SETS);
        let n_sets = arguments.provide(&gpu.device, words, n_sets)?;
        Ok(Rotation { arguments, n_sets })
    }

    /// Returns the arguments of a case, created if necessary.
    fn arguments(&mut self, problem: &Problem, case: usize) -> Result<&mut Arguments, WorkerError> {
        let wanted = problem.cases.get(case).ok_or_else(|| invalid("no such case"))?;
        if self.0.len() < problem.cases.len() {
            self.0.resize_with(problem.cases.len(), || None);
        }
        Ok(self.0[case].get_or_insert_with(|| Arguments::new(wanted)))
    }
}

/// Returns the number of launches of a sample that is long enough.
fn n_launches(one_ns: f64, policy: &Policy) -> usize {
    let n = (policy.min_sample_ns / one_ns.max(1.0)).ceil() as usize;
    n.clamp(1, MAX_LAUNCHES)
}

/// Arguments, and the number of copies that launches rotate through.
#[derive(Clone, Copy)]
struct Rotation<'a> {
    arguments: &'a Arguments,
    n_sets: usize,
}

/// Launches captured in a graph.
struct Captured {
    batch: Batch,
    n_launches: usize,
}

impl Gpu {
    /// Times one launch, host overhead included.
    fn time_once(
        &self,
        loaded: &LoadedCandidate,
        arguments: &Arguments,
    ) -> Result<f64, WorkerError> {
        let set = arguments.set(0, loaded.pointers(0)?)?;
        let once = || self.timer.time(|| loaded.launch(0, &set));
        Ok(once()?.min(once()?))
    }

    /// Captures at least `min_launches` launches, rotating through the copies of the arguments.
    fn capture(
        &self,
        loaded: &LoadedCandidate,
        Rotation { arguments, n_sets }: Rotation<'_>,
        min_launches: usize,
    ) -> Result<Captured, WorkerError> {
        let words = loaded.pointers(0)?;
        let sets = (0..n_sets).map(|it| arguments.set(it, words));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let n_launches = min_launches.next_multiple_of(sets.len().max(1));
        let launch =
            || sets.iter().cycle().take(n_launches).try_for_each(|set| loaded.launch(0, set));
        let batch = Batch::record(&self.stream, launch)?;
        Ok(Captured { batch, n_launches })
    }

    /// Launches without taking samples.
    fn warm_up(&self, captured: &Captured, min_ns: f64) -> Result<(), WorkerError> {
        let mut spent_ns = 0.0;
        while spent_ns < min_ns {
            spent_ns += (self.sample(captured)? * captured.n_launches as f64).max(1.0);
        }
        Ok(())
    }

    /// Returns the mean of the launches in ns, at least 0.001, so that it is positive.
    fn sample(&self, captured: &Captured) -> Result<f64, WorkerError> {
        let ns = self.timer.time(|| captured.batch.launch())?;
        Ok((ns / captured.n_launches as f64).max(0.001))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_launches_are_repeated_until_a_sample_is_long_enough() {
        let policy = Policy { min_sample_ns: 300e3, ..Policy::GPU };
        assert_eq!(n_launches(10e3, &policy), 30);
        assert_eq!(n_launches(1e9, &policy), 1);
        assert_eq!(n_launches(0.0, &policy), MAX_LAUNCHES);
    }

    #[test]
    fn only_what_breaks_the_gpu_costs_the_worker() {
        let error = |reason| Error::Cuda { kernel: "k", call: "cuLaunchKernel", reason };
        let is_lost = |it: Error| matches!(WorkerError::from(it), WorkerError::Lost(_));
        assert!(is_lost(error("CUDA_ERROR_ILLEGAL_ADDRESS")));
        assert!(!is_lost(error("CUDA_ERROR_OUT_OF_MEMORY")));
        assert!(!is_lost(Error::SharedMemory { kernel: "k", want: 2, have: 1 }));
    }
}

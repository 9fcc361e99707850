//! Candidates for a GPU: launched by the function that launches kernels in the user's program, timed
//! by the clock of the device.
//!
//! Launches are recorded once and replayed as a whole, so that no time of the host is in between;
//! they go through copies of their arguments that together exceed the second-level cache twice.
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
use super::{Trouble, invalid};
pub(super) use code::Loaded;
use memory::Arguments;

/// The first GPU, with a stream for all that happens there.
pub(super) struct Gpu {
    device: Device,
    stream: Stream,
    timer: Timer,
    l2_bytes: usize,
}

/// The arguments of each case, as far as they were needed.
#[derive(Default)]
pub(super) struct Side(Vec<Option<Arguments>>);

/// Launches of a sample at most, but for those that going through all arguments takes.
const MOST_LAUNCHES: usize = 200;
/// Copies of arguments at most.
const MOST_SETS: usize = 128;
/// What is launched before anything counts: of a candidate, and of each that is compared.
const WARM_UP_NS: f64 = 3e6;
const LONG_WARM_UP_NS: f64 = 10e6;
/// Copies move so many times what the second-level cache holds.
const COPIED: usize = 4;
/// No more than two samples are taken of what takes longer.
const LONG_NS: f64 = 100e6;
/// What a single launch may take, whatever it launches.
const LAUNCH_NS: f64 = 30_000.0;

impl Gpu {
    pub(super) fn open() -> Result<Self, Trouble> {
        let open = || {
            let device = Device::open(0)?;
            let stream = device.stream()?;
            let timer = Timer::new(&stream)?;
            let l2_bytes = attribute(&device, Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
            let l2_bytes = if l2_bytes == 0 { 64 << 20 } else { l2_bytes as usize };
            Ok(Self { device, stream, timer, l2_bytes })
        };
        open().map_err(|it: Error| Trouble::Failed(it.to_string()))
    }

    pub(super) fn describe(&self) -> protocol::Gpu {
        let number = |it| attribute(&self.device, it);
        let small = |it: u64| u32::try_from(it).unwrap_or(0);
        let arch = self.device.arch();
        // Twice, as data comes at both edges of the clock, which is in kHz; the bus is in bits.
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

    /// What so many copies within memory move, in bytes read and written a ns: much more than the
    /// second-level cache holds.
    pub(super) fn copy(&self, n: usize) -> Result<Vec<f64>, Trouble> {
        let buffer = |byte| Buffer::new(&self.device, COPIED * self.l2_bytes, byte);
        let (from, to) = (buffer(0x3c).map_err(trouble)?, buffer(0).map_err(trouble)?);
        let copy = || {
            let ns = self.timer.time(|| to.copy_from(&from, &self.stream)).map_err(trouble)?;
            Ok(2.0 * to.n_bytes() as f64 / ns.max(0.001))
        };
        copy()?;
        (0..n).map(|_| copy()).collect()
    }

    pub(super) fn load(&self, spec: &GpuSpec, bytes: &[u8]) -> Result<Loaded, Trouble> {
        Loaded::new(&self.stream, spec, bytes)
    }
}

fn attribute(device: &Device, attribute: Attribute) -> u64 {
    device.context().attribute(attribute).ok().and_then(|it| u64::try_from(it).ok()).unwrap_or(0)
}

impl Side {
    /// Brings the parameters of all cases to the GPU, as most candidates ask for them: later there is
    /// less time.
    pub(super) fn prepare(&mut self, gpu: &Gpu, problem: &Problem) -> Result<(), Trouble> {
        for (n, case) in problem.cases.iter().enumerate() {
            let words: Vec<Word> = (0..case.params.len()).map(Word::Param).collect();
            self.arguments(problem, n)?.provide(&gpu.device, &words, 1)?;
        }
        Ok(())
    }

    /// The results of one launch on a case, in memory that held something else before.
    pub(super) fn evaluate(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        loaded: &Loaded,
        case: usize,
    ) -> Result<Vec<Vec<u8>>, Trouble> {
        let words = loaded.words(case)?;
        let arguments = self.arguments(problem, case)?;
        arguments.provide(&gpu.device, words, 1)?;
        arguments.restore(&gpu.stream)?;
        loaded.launch(case, &arguments.set(0, words)?).map_err(trouble)?;
        arguments.results().map_err(trouble)
    }

    /// Samples of launches on the first case.
    pub(super) fn time(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        loaded: &Loaded,
        policy: &Policy,
    ) -> Result<Vec<f64>, Trouble> {
        let hopeless = policy.best_ns.map_or(f64::INFINITY, |it| it * policy.hopeless);
        let (arguments, n_sets) = self.rotating(gpu, problem, loaded.words(0)?)?;
        let one_ns = gpu.once(loaded, arguments)?;
        // A single launch also takes what the host takes for it.
        if one_ns > hopeless.max(LAUNCH_NS) {
            return Ok(vec![one_ns]);
        }
        let recorded = gpu.record(loaded, (arguments, n_sets), n_launches(one_ns, policy))?;
        gpu.warm_up(&recorded, WARM_UP_NS)?;
        let mut samples = vec![gpu.sample(&recorded)?];
        while samples.len() < policy.repeats && samples[samples.len() - 1] <= hopeless {
            let spent_ns = samples.iter().sum::<f64>() * recorded.n_launches as f64;
            if spent_ns > LONG_NS && samples.len() > 1 {
                break;
            }
            samples.push(gpu.sample(&recorded)?);
        }
        Ok(samples)
    }

    /// The same of several, in turn.
    pub(super) fn compare(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        loaded: &[&Loaded],
        rounds: usize,
        policy: &Policy,
    ) -> Result<Vec<Vec<f64>>, Trouble> {
        let words = loaded.iter().map(|it| it.words(0)).collect::<Result<Vec<_>, _>>()?.concat();
        let (arguments, n_sets) = self.rotating(gpu, problem, &words)?;
        let mut recorded = Vec::new();
        for it in loaded {
            let one_ns = gpu.once(it, arguments)?;
            recorded.push(gpu.record(it, (arguments, n_sets), n_launches(one_ns, policy))?);
        }
        let mut samples = vec![Vec::new(); recorded.len()];
        for round in 0..rounds.max(1) {
            for (recorded, samples) in recorded.iter().zip(&mut samples) {
                if round == 0 {
                    gpu.warm_up(recorded, LONG_WARM_UP_NS)?;
                }
                samples.push(gpu.sample(recorded)?);
            }
        }
        Ok(samples)
    }

    /// The arguments of the first case, and how many copies of them exceed the second-level cache
    /// twice.
    fn rotating(
        &mut self,
        gpu: &Gpu,
        problem: &Problem,
        words: &[Word],
    ) -> Result<(&Arguments, usize), Trouble> {
        let arguments = self.arguments(problem, 0)?;
        let n_bytes = arguments.n_bytes(words).max(1);
        let n_sets = (2 * gpu.l2_bytes).div_ceil(n_bytes).clamp(2, MOST_SETS);
        let n_sets = arguments.provide(&gpu.device, words, n_sets)?;
        Ok((arguments, n_sets))
    }

    fn arguments(&mut self, problem: &Problem, case: usize) -> Result<&mut Arguments, Trouble> {
        let wanted = problem.cases.get(case).ok_or_else(|| invalid("no such case"))?;
        if self.0.len() < problem.cases.len() {
            self.0.resize_with(problem.cases.len(), || None);
        }
        Ok(self.0[case].get_or_insert_with(|| Arguments::new(wanted)))
    }
}

/// How many launches make a sample that is long enough.
fn n_launches(one_ns: f64, policy: &Policy) -> usize {
    let n = (policy.min_sample_ns / one_ns.max(1.0)).ceil() as usize;
    n.clamp(1, MOST_LAUNCHES)
}

/// Launches that are started together.
struct Recorded {
    batch: Batch,
    n_launches: usize,
}

impl Gpu {
    /// What one launch takes, with what the host takes for it.
    fn once(&self, loaded: &Loaded, arguments: &Arguments) -> Result<f64, Trouble> {
        let set = arguments.set(0, loaded.words(0)?)?;
        let once = || self.timer.time(|| loaded.launch(0, &set)).map_err(trouble);
        Ok(once()?.min(once()?))
    }

    /// Records so many launches at least, each copy of the arguments as often as any other.
    fn record(
        &self,
        loaded: &Loaded,
        (arguments, n_sets): (&Arguments, usize),
        at_least: usize,
    ) -> Result<Recorded, Trouble> {
        let words = loaded.words(0)?;
        let sets = (0..n_sets).map(|it| arguments.set(it, words));
        let sets = sets.collect::<Result<Vec<_>, _>>()?;
        let n_launches = at_least.next_multiple_of(sets.len().max(1));
        let launch =
            || sets.iter().cycle().take(n_launches).try_for_each(|set| loaded.launch(0, set));
        let batch = Batch::record(&self.stream, launch).map_err(trouble)?;
        Ok(Recorded { batch, n_launches })
    }

    fn warm_up(&self, recorded: &Recorded, enough_ns: f64) -> Result<(), Trouble> {
        let mut spent_ns = 0.0;
        while spent_ns < enough_ns {
            spent_ns += (self.sample(recorded)? * recorded.n_launches as f64).max(1.0);
        }
        Ok(())
    }

    /// The mean of the launches, in ns; at least a thousandth, as no launch takes no time.
    fn sample(&self, recorded: &Recorded) -> Result<f64, Trouble> {
        let ns = self.timer.time(|| recorded.batch.launch()).map_err(trouble)?;
        Ok((ns / recorded.n_launches as f64).max(0.001))
    }
}

/// What the driver says when there is something wrong with what it was asked, and not with the GPU.
const HARMLESS: [&str; 7] = [
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_INVALID_SOURCE",
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_NOT_SUPPORTED",
    "CUDA_ERROR_OUT_OF_MEMORY",
];

/// What an error says of the GPU.
fn trouble(error: Error) -> Trouble {
    match error {
        Error::Cuda { reason, .. } if !HARMLESS.contains(&reason) => {
            Trouble::Lost(error.to_string())
        }
        _ => Trouble::Failed(error.to_string()),
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
        assert_eq!(n_launches(0.0, &policy), MOST_LAUNCHES);
    }

    #[test]
    fn only_what_breaks_the_gpu_costs_the_worker() {
        let error = |reason| Error::Cuda { kernel: "k", call: "cuLaunchKernel", reason };
        let is_lost = |it| matches!(trouble(it), Trouble::Lost(_));
        assert!(is_lost(error("CUDA_ERROR_ILLEGAL_ADDRESS")));
        assert!(!is_lost(error("CUDA_ERROR_OUT_OF_MEMORY")));
        assert!(!is_lost(Error::SharedMemory { kernel: "k", want: 2, have: 1 }));
    }
}

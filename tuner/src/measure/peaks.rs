//! The peaks of this machine: products of small matrices, and the bandwidth of each level of memory.
//!
//! They take some tenths of a second, once for each machine: the user's cache keeps them. Machines of
//! one model differ by what a hypervisor grants them, so a record says what its machine could do.
//!
//! # Source
//!
//! Bandwidth is that of the scale kernel of STREAM: bytes that the program reads and writes.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tvmtune_ir::dsl;
use tvmtune_ir::target::CpuTarget;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::Peaks;
use tvmtune_space::default;

use super::interface::{Measure, MeasureError};
use super::job::{CaseSpec, Job};
use super::measurer::Measurer;
use super::pool::WorkerCommand;
use super::protocol::Policy;
use crate::executor::MachineLock;

/// The extent of the matrices: 256 KiB each.
const EXTENT: u64 = 256;
/// The size of the last-level cache where the system does not tell it, in bytes.
const L3_BYTES: u64 = 32 << 20;
/// The most memory that is streamed through, in bytes.
const MAX_BYTES: u64 = 256 << 20;
/// Timings of each kernel in a row, the fastest of which counts.
const ROUNDS: usize = 8;
/// Timings in a row are repeated for so long, with pauses in between: a build keeps the cores busy, and a
/// moment in which all of them are free has to be met.
const PATIENCE: Duration = Duration::from_millis(100);
const PAUSE: Duration = Duration::from_millis(4);
const POLICY: Policy =
    Policy { repeats: ROUNDS, min_sample_ns: 200_000.0, best_ns: None, hopeless: 2.0 };

/// Returns the peaks of the CPU of this machine, measured where the cache does not know them; `None`
/// where they can't be measured.
///
/// # Errors
///
/// [`MeasureError`] if no worker can be started.
pub fn of_this_machine(
    cache: &Cache,
    cpu: &CpuTarget,
    worker: WorkerCommand,
    _lock: &MachineLock,
) -> Result<Option<Peaks>, MeasureError> {
    if let Some(known) = cache.peaks(&cpu.key()) {
        return Ok(Some(known));
    }
    let measured = measure(cpu, &mut worker.measurer(&(*cpu).into()))?;
    if let Some(peaks) = &measured {
        // They are measured again where they cannot be kept.
        let _ = cache.keep_peaks(&cpu.key(), peaks);
    }
    Ok(measured)
}

/// Measures the peaks; `None` if a kernel can't be run.
fn measure(cpu: &CpuTarget, measurer: &mut Measurer) -> Result<Option<Peaks>, MeasureError> {
    let l3_bytes = device::last_level_bytes().unwrap_or(L3_BYTES);
    let products = format!(
        "#[autotune(dims(N = {EXTENT}))]
        fn product(a: Tensor<f32, N, N>, b: Weight<f32, N, N>) -> Tensor<f32, N, N> {{
            compute(|i, j| sum(0..N, |k| a[[i, k]] * b[[k, j]]))
        }}"
    );
    let one_core = CpuTarget { threads: 1, ..*cpu };
    let mut gbps = |cpu: &CpuTarget, bytes: u64| -> Result<Option<f64>, MeasureError> {
        // Half is read, half is written.
        let ns = time(&scale(bytes / 8), cpu, measurer)?;
        Ok(ns.map(|ns| rounded(bytes as f64 / ns)))
    };
    let l1 = gbps(&one_core, cpu.l1_bytes / 2)?;
    let l2 = gbps(&one_core, cpu.l2_bytes / 2)?;
    let l3 = gbps(cpu, l3_bytes / 4)?;
    let memory = gbps(cpu, (4 * l3_bytes).min(MAX_BYTES))?;
    let product_ns = time(&products, cpu, measurer)?;
    let (Some(l1_gbps), Some(l2_gbps), Some(l3_gbps), Some(memory_gbps), Some(ns)) =
        (l1, l2, l3, memory, product_ns)
    else {
        return Ok(None);
    };
    let product_gflops = rounded(2.0 * EXTENT.pow(3) as f64 / ns);
    Ok(Some(Peaks { product_gflops, l1_gbps, l2_gbps, l3_gbps, memory_gbps }))
}

/// Returns a program that reads and writes so many `f32`.
fn scale(n: u64) -> String {
    format!(
        "#[autotune(dims(N = {n}))]
        fn scale(x: Tensor<f32, N>) -> Tensor<f32, N> {{ compute(|i| x[[i]] * 2.0) }}"
    )
}

/// Returns the shortest time of a launch by the default schedule, in ns.
fn time(
    source: &str,
    cpu: &CpuTarget,
    measurer: &mut Measurer,
) -> Result<Option<f64>, MeasureError> {
    let Ok(dag) = dsl::program(source) else { return Ok(None) };
    let schedule = default::schedule(&dag, &(*cpu).into());
    let Ok(generated) = tvmtune_cpu::generate(&schedule, cpu.isa) else { return Ok(None) };
    let cases = [CaseSpec::new(&Arc::new(dag), &[], 1, &|_| (0.0, 0.0))];
    measurer.set_up(&cases, None)?;
    let job = Job::on_cpu(&generated, &cases);
    let start = Instant::now();
    let mut shortest: Option<f64> = None;
    loop {
        let Ok(timings) = measurer.compare(&[&job], ROUNDS, &POLICY)? else { return Ok(None) };
        shortest = timings.iter().map(|it| it.min_ns()).chain(shortest).reduce(f64::min);
        if start.elapsed() > PATIENCE {
            return Ok(shortest);
        }
        thread::sleep(PAUSE);
    }
}

/// Rounds to a tenth.
fn rounded(rate: f64) -> f64 {
    (rate * 10.0).round() / 10.0
}

//! The roofline of a machine: the least time of a launch, by what the machine does at most.
//!
//! Source: Williams, Waterman, Patterson, "Roofline", CACM 2009, with a bandwidth for each level of
//! memory.

use anyhow::Result;
use tvmtune_ir::target::CpuTarget;
use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_plan::record::Peaks;
use tvmtune_space::work::Work;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::{WorkerCommand, peaks};

/// A machine whose peaks were measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roofline {
    pub(crate) cpu: CpuTarget,
    pub(crate) peaks: Peaks,
    /// The cache that all cores share, in bytes; 0 if it is not known.
    pub(crate) last_level_bytes: u64,
}

impl Roofline {
    /// That of this machine; `None` if its peaks were not measured.
    pub(crate) fn of_this_machine() -> Option<Self> {
        let cpu = device::detect()?;
        Some(Self::new(cpu, Cache::discover()?.peaks(&cpu.key())?))
    }

    /// That of this machine, whose peaks are measured if they were not; `None` if they can't be.
    ///
    /// # Errors
    ///
    /// [`MeasureError`] if no worker can be started.
    pub(crate) fn measured(cache: &Cache, lock: &MachineLock) -> Result<Option<Self>> {
        let Some(cpu) = device::detect() else { return Ok(None) };
        let worker = WorkerCommand::this_executable()?;
        let peaks = peaks::of_this_machine(cache, &cpu, worker, lock)?;
        Ok(peaks.map(|it| Self::new(cpu, it)))
    }

    fn new(cpu: CpuTarget, peaks: Peaks) -> Self {
        Self { cpu, peaks, last_level_bytes: device::last_level_bytes().unwrap_or(0) }
    }

    /// Returns the least time of a launch by some threads, in microseconds: that of its arithmetic, by
    /// their share of the peak of all, or that of its bytes, from the nearest memory that has room for
    /// them.
    pub(crate) fn least_us(&self, work: Work, threads: u32) -> f64 {
        let Work { flops, bytes } = work;
        let all = f64::from(self.cpu.threads.max(1));
        let threads = f64::from(threads.max(1)).min(all);
        let Peaks { product_gflops, l1_gbps, l2_gbps, l3_gbps, memory_gbps } = self.peaks;
        let levels = [
            (self.cpu.l1_bytes as f64 * threads, l1_gbps * threads),
            (self.cpu.l2_bytes as f64 * threads, l2_gbps * threads),
            (self.last_level_bytes as f64, l3_gbps),
        ];
        let nearest = levels.into_iter().find(|(room, _)| bytes <= *room);
        let gbps = nearest.map_or(memory_gbps, |(_, gbps)| gbps);
        f64::max(flops / (product_gflops * threads / all), bytes / gbps) / 1e3
    }

    /// Returns the least time in which all threads read so many bytes from memory, in microseconds.
    pub(crate) fn cold_us(&self, bytes: f64) -> f64 {
        bytes / self.peaks.memory_gbps / 1e3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::target::Isa;

    #[test]
    fn arithmetic_or_bytes_bound_a_launch() {
        let peaks = Peaks {
            product_gflops: 200.0,
            l1_gbps: 400.0,
            l2_gbps: 150.0,
            l3_gbps: 60.0,
            memory_gbps: 20.0,
        };
        let (l1_bytes, l2_bytes) = (32 << 10, 1 << 20);
        let cpu = CpuTarget { threads: 2, l1_bytes, l2_bytes, ..CpuTarget::generic(Isa::Avx2) };
        let work = |flops, bytes| Work { flops, bytes };
        let it = Roofline { cpu, peaks, last_level_bytes: 8 << 20 };
        assert_eq!(it.least_us(work(2e6, 1e3), 2), 10.0);
        assert_eq!(it.least_us(work(2e6, 1e3), 1), 20.0, "one of two threads has half the peak");
        assert_eq!(it.least_us(work(2e6, 1e3), 64), 10.0);
        assert_eq!(it.least_us(work(0.0, 60e3), 2), 0.075, "L1 of two cores");
        assert_eq!(it.least_us(work(0.0, 60e3), 1), 0.4, "L2 of one");
        assert_eq!(it.least_us(work(0.0, 6e6), 1), 100.0);
        assert_eq!(it.least_us(work(0.0, 20e6), 1), 1000.0);
        assert_eq!(it.cold_us(60e3), 3.0);
    }
}

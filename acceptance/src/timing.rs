//! How long a candidate takes on a device.
//!
//! Launches are recorded once and replayed as a whole, so that no time of the host is in between;
//! they go through copies of their arguments that together exceed the second-level cache twice.
//! Each sample is taken right after one of the reference, a large copy within memory, so that a
//! device that slows down shows.
//!
//! # Source
//!
//! `nvbench` and Triton's `do_bench` for events, warm-up and quantiles; rotating arguments: CUTLASS's
//! guide to measuring matrix products.

use tvmtune_runtime::Error;
use tvmtune_runtime::cuda::cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use tvmtune_runtime::cuda::{Batch, Buffer, Device, Stream, Timer, Trial};

use crate::protocol::{Outcome, Times};

/// A sample has as many launches as take this long.
const SAMPLE_NS: f64 = 300_000.0;
/// Launches of a sample at most, but for those that going through all arguments takes.
const MOST_LAUNCHES: usize = 200;
/// Copies of arguments at most.
const MOST_SETS: usize = 128;

/// How much is measured.
#[derive(Clone, Copy, Debug)]
struct Effort {
    /// Before anything counts.
    warm_up_ns: f64,
    /// Samples at least and at most, and when it is enough.
    least: usize,
    most: usize,
    enough_ns: f64,
}

/// For results.
const FULL: Effort = Effort { warm_up_ns: 30e6, least: 7, most: 25, enough_ns: 300e6 };
/// For candidates of a search, of which the best are measured again.
const QUICK: Effort = Effort { warm_up_ns: 3e6, least: 5, most: 7, enough_ns: 20e6 };
/// Samples of what takes longer than is enough.
const FEW_ROUNDS: usize = 3;
/// What a single launch may take, whatever it launches.
const LAUNCH_NS: f64 = 30_000.0;
/// The reference copies so many times what the second-level cache holds.
const REFERENCE: usize = 4;

/// What is launched.
pub struct Launches<'a> {
    /// The code.
    pub trial: &'a Trial,
    /// Extents.
    pub dims: &'a [i64],
    /// Scalars.
    pub scalars: &'a [u64],
}

impl Launches<'_> {
    fn launch(&self, arguments: &[Buffer]) -> Result<(), Error> {
        let arguments: Vec<&Buffer> = arguments.iter().collect();
        self.trial.try_out(self.dims, &arguments, self.scalars)
    }
}

/// A stream with a timer and the reference.
pub struct Bench {
    device: Device,
    stream: Stream,
    timer: Timer,
    l2_bytes: usize,
    reference: (Buffer, Buffer),
}

impl Bench {
    /// On a stream of a device.
    ///
    /// # Errors
    ///
    /// If the device has too little memory, or does not work.
    pub fn new(device: &Device, stream: &Stream) -> Result<Self, Error> {
        let l2 = device.context().attribute(Attribute::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE);
        let l2_bytes = l2.ok().and_then(|it| usize::try_from(it).ok()).filter(|it| *it > 0);
        let l2_bytes = l2_bytes.unwrap_or(64 << 20);
        let buffer = |byte| Buffer::new(device, REFERENCE * l2_bytes, byte);
        Ok(Self {
            device: device.clone(),
            stream: stream.clone(),
            timer: Timer::new(stream)?,
            l2_bytes,
            reference: (buffer(0x3c)?, buffer(0)?),
        })
    }

    /// Times launches on copies of these arguments: roughly where a candidate is given up if one
    /// launch takes longer than the limit.
    ///
    /// # Errors
    ///
    /// Those of the launches.
    pub fn time(
        &self,
        launches: &Launches<'_>,
        arguments: Vec<Buffer>,
        limit_ns: Option<f64>,
    ) -> Result<Outcome, Error> {
        // The first launch came before, with the check.
        let once = |arguments: &[Buffer]| self.timer.time(|| launches.launch(arguments));
        let one_ns = once(&arguments)?.min(once(&arguments)?);
        // A single launch also takes what the host takes for it.
        if limit_ns.is_some_and(|it| one_ns > it.max(LAUNCH_NS)) {
            return Ok(Outcome::Slow(one_ns));
        }
        let sets = self.sets(arguments)?;
        let n_launches = n_launches(one_ns, sets.len());
        let batch = Batch::record(&self.stream, || {
            sets.iter().cycle().take(n_launches).try_for_each(|it| launches.launch(it))
        })?;
        let mut spent_ns = 0.0;
        let effort = if limit_ns.is_some() { QUICK } else { FULL };
        while spent_ns < effort.warm_up_ns {
            spent_ns += self.timer.time(|| batch.launch())?.max(1.0);
        }
        let at_least = if one_ns > effort.enough_ns { FEW_ROUNDS } else { effort.least };
        let (mut samples_ns, mut copy_gbps, mut spent_ns) = (Vec::new(), Vec::new(), 0.0);
        while samples_ns.len() < at_least
            || (samples_ns.len() < effort.most && spent_ns < effort.enough_ns)
        {
            let (to, from) = &self.reference;
            let copy_ns = self.timer.time(|| to.copy_from(from, &self.stream))?;
            copy_gbps.push(2.0 * to.n_bytes() as f64 / copy_ns);
            let ns = self.timer.time(|| batch.launch())?;
            samples_ns.push(ns / n_launches as f64);
            spent_ns += ns;
        }
        Ok(Outcome::Timed(Times { samples_ns, copy_gbps, launches: n_launches, sets: sets.len() }))
    }

    /// As many copies of the arguments as exceed the second-level cache twice, and two at least.
    fn sets(&self, first: Vec<Buffer>) -> Result<Vec<Vec<Buffer>>, Error> {
        let n_bytes: usize = first.iter().map(Buffer::n_bytes).sum();
        let n_sets = (2 * self.l2_bytes).div_ceil(n_bytes.max(1)).clamp(2, MOST_SETS);
        let mut sets = vec![first];
        while sets.len() < n_sets {
            let copy = sets[0].iter().map(|it| it.copy(&self.device));
            match copy.collect::<Result<_, _>>() {
                Ok(copy) => sets.push(copy),
                // A device that is nearly full has room for fewer.
                Err(Error::Cuda { reason: "CUDA_ERROR_OUT_OF_MEMORY", .. }) => break,
                Err(other) => return Err(other),
            }
        }
        Ok(sets)
    }
}

/// How many launches make a sample: a multiple of the copies of arguments.
fn n_launches(one_ns: f64, n_sets: usize) -> usize {
    let n = (SAMPLE_NS / one_ns.max(1.0)).ceil() as usize;
    n.clamp(1, MOST_LAUNCHES).next_multiple_of(n_sets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_go_through_all_copies_of_arguments() {
        assert_eq!(n_launches(1e3, 128), 256);
        assert_eq!(n_launches(1e4, 2), 30);
        assert_eq!(n_launches(1e9, 2), 2);
    }
}

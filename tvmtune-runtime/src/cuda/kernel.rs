//! Programs loaded for a stream: a variant for each bucket, and workspace memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::ThreadId;

use cudarc::driver::CudaContext;

use super::driver::driver;
use super::memory::Memory;
use super::module::{Entry, Module};
use super::{Arch, Device, Stream};
use crate::raw::cuda::{Misfit, TableEntry, Variant};
use crate::raw::{Program, are_inside};
use crate::{Error, Isa, PlanInfo, Spec};

/// Maximal number of parameters of a function, and of tensor maps of a variant: launches keep them
/// on the stack.
pub(super) const MOST_PARAMS: usize = 64;
pub(super) const MOST_MAPS: usize = 8;

/// Alignment of workspaces, in bytes.
pub(super) const ALIGN: u64 = 256;

/// A program, loaded. Clones share code and memory.
#[derive(Clone, Debug)]
pub struct DeviceKernel {
    loaded: Arc<Loaded>,
}

#[derive(Debug)]
struct Loaded {
    buckets: Vec<Loadable>,
    arch: Arch,
    /// The stream whose launches share the workspace, in order.
    stream: Stream,
    thread: Option<ThreadId>,
    temporaries: Option<Memory>,
    n_bytes: u64,
    launching: Mutex<()>,
}

/// A bucket with its code.
#[derive(Debug)]
struct Loadable {
    ranges: &'static [(usize, usize)],
    variant: &'static Variant,
    entries: Vec<Entry>,
}

/// The code and workspace of a bucket.
#[derive(Clone, Copy)]
pub struct Chosen<'a> {
    pub(super) variant: &'static Variant,
    pub(super) entries: &'a [Entry],
    pub(super) context: &'a Arc<CudaContext>,
    /// The architecture of the device.
    pub(super) arch: Arch,
    /// Address and size of the workspace, in bytes.
    pub(super) temporaries: u64,
    pub(super) n_bytes: u64,
    launching: &'a Mutex<()>,
}

impl<'a> Chosen<'a> {
    /// Keeps other threads from putting functions between those of one launch, which would write
    /// its temporaries. There is nothing to keep where there are none.
    pub(super) fn alone(&self) -> Option<MutexGuard<'a, ()>> {
        let lock = || self.launching.lock().unwrap_or_else(PoisonError::into_inner);
        (self.n_bytes > 0).then(lock)
    }
}

/// The handle of the stream that is another one in each thread.
const PER_THREAD_STREAM: usize = 2;

/// Identity of a stream: context, handle, and the thread for the per-thread stream.
type StreamId = (usize, usize, Option<ThreadId>);

fn stream_id(stream: &Stream) -> StreamId {
    let handle = stream.cu_stream().addr();
    let thread = (handle == PER_THREAD_STREAM).then(|| std::thread::current().id());
    (stream.context().cu_ctx().addr(), handle, thread)
}

impl DeviceKernel {
    /// The program for a stream, loaded now if it was not before.
    pub(super) fn load<const N: usize>(
        kernel: &'static str,
        stream: &Stream,
        program: &'static Program<N>,
    ) -> Result<Self, Error> {
        type Known = BTreeMap<usize, Vec<(StreamId, DeviceKernel)>>;
        static KNOWN: RwLock<Known> = RwLock::new(BTreeMap::new());
        // A program is a static, so its address stands for it.
        let (key, id) = (std::ptr::from_ref(program).addr(), stream_id(stream));
        let find = |known: &Known| {
            let same = known.get(&key)?.iter().find(|(it, _)| *it == id);
            same.map(|(_, kernel)| kernel.clone())
        };
        if let Some(known) = find(&KNOWN.read().unwrap_or_else(PoisonError::into_inner)) {
            return Ok(known);
        }
        let mut known = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = find(&known) {
            return Ok(known);
        }
        let loaded = Self { loaded: Arc::new(Loaded::new(kernel, stream, program)?) };
        let of_program = known.entry(key).or_default();
        // Streams that nobody else has are over, but for those that are always there.
        of_program.retain(|((_, handle, _), it)| {
            *handle <= PER_THREAD_STREAM || Arc::strong_count(&it.loaded.stream) > 1
        });
        of_program.push((id, loaded.clone()));
        Ok(loaded)
    }

    /// The program for a stream, loaded for whoever asks and nobody else: all of it ends with the
    /// last clone.
    #[cfg(feature = "jit")]
    pub(super) fn load_alone<const N: usize>(
        kernel: &'static str,
        stream: &Stream,
        program: &'static Program<N>,
    ) -> Result<Self, Error> {
        Ok(Self { loaded: Arc::new(Loaded::new(kernel, stream, program)?) })
    }

    /// Returns the code for dimensions that are in their ranges, on a stream of the kernel's context.
    pub(super) fn choose(&self, kernel: &'static str, dims: &[i64]) -> Result<Chosen<'_>, Error> {
        let Loaded { temporaries, n_bytes, arch, stream, launching, .. } = &*self.loaded;
        let bucket = self.bucket(dims).ok_or(Error::NoCode { kernel, arch: *arch })?;
        Ok(Chosen {
            variant: bucket.variant,
            entries: &bucket.entries,
            context: stream.context(),
            arch: *arch,
            temporaries: temporaries.as_ref().map_or(0, Memory::address),
            n_bytes: *n_bytes,
            launching,
        })
    }

    pub(super) fn check_stream(&self, kernel: &'static str, stream: &Stream) -> Result<(), Error> {
        let Loaded { temporaries, stream: own, thread, .. } = &*self.loaded;
        let (context, handle, here) = stream_id(stream);
        let is_own = own.cu_stream().addr() == handle && *thread == here;
        let is_free = temporaries.is_none() && own.context().cu_ctx().addr() == context;
        let same = is_own && own.context().cu_ctx().addr() == context;
        if same || is_free { Ok(()) } else { Err(Error::OtherStream { kernel }) }
    }

    fn bucket(&self, dims: &[i64]) -> Option<&Loadable> {
        self.loaded.buckets.iter().find(|it| are_inside(it.ranges, dims))
    }

    /// Describes what runs for these dimensions.
    pub(super) fn plan(&self, spec: &'static Spec, dims: &[i64]) -> PlanInfo {
        let bucket = self.bucket(dims);
        let variant = bucket.map(|it| it.variant);
        PlanInfo {
            tier: variant.map_or(crate::Tier::Default, |it| it.tier),
            bucket: bucket.map_or(&[], |it| it.ranges),
            isa: Isa::Cuda(self.loaded.arch),
            numerics: spec.numerics,
            median_ns: variant.and_then(|it| it.median_ns),
            effort: variant.map_or(crate::Effort::NONE, |it| it.effort),
            artifact: variant.map_or("", |it| it.artifact),
        }
    }

    pub(super) fn variants(&self) -> impl Iterator<Item = &'static Variant> {
        self.loaded.buckets.iter().map(|it| it.variant)
    }

    pub(super) fn context(&self) -> &Arc<CudaContext> {
        self.loaded.stream.context()
    }
}

impl Loaded {
    fn new<const N: usize>(
        kernel: &'static str,
        stream: &Stream,
        program: &'static Program<N>,
    ) -> Result<Self, Error> {
        let context = stream.context();
        let device = Device::of(context)?;
        let arch = device.arch();
        let mut buckets = Vec::new();
        for (bucket, variants) in program.buckets.iter().zip(program.cuda) {
            let (variant, module) = load(kernel, &device, variants)?;
            let entries = variant.functions.iter().map(|it| module.entry(kernel, it));
            let entries = entries.collect::<Result<_, _>>()?;
            buckets.push(Loadable { ranges: bucket.ranges, variant, entries });
        }
        let n_bytes = buckets.iter().map(Loadable::n_bytes).max().unwrap_or(0);
        let temporaries = match usize::try_from(n_bytes) {
            Ok(0) => None,
            Ok(n_bytes) => Some(Memory::new(kernel, context, n_bytes)?),
            Err(_) => return Err(Error::OutOfMemory { kernel, bytes: usize::MAX }),
        };
        let thread = stream_id(stream).2;
        let (stream, launching) = (stream.clone(), Mutex::new(()));
        Ok(Self { buckets, arch, stream, thread, temporaries, n_bytes, launching })
    }
}

impl Loadable {
    /// Returns the workspace of the greatest dimensions, in bytes.
    fn n_bytes(&self) -> u64 {
        let dims: Vec<i64> = self.ranges.iter().map(|(_, hi)| *hi as i64).collect();
        let mut numbers = vec![0; self.variant.n_numbers()];
        (self.variant.numbers)(&dims, &mut numbers);
        let shared = self.variant.table.iter().zip(numbers);
        let shared = shared.filter(|(it, _)| matches!(it, TableEntry::Workspace));
        shared.map(|(_, bytes)| bytes.next_multiple_of(ALIGN)).sum()
    }
}

/// Driver errors of an image after which the next image is tried.
const REFUSALS: [&str; 5] = [
    "CUDA_ERROR_INVALID_IMAGE",
    "CUDA_ERROR_INVALID_PTX",
    "CUDA_ERROR_JIT_COMPILER_NOT_FOUND",
    "CUDA_ERROR_NO_BINARY_FOR_GPU",
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
];

/// Loads the first variant that the device can run, from the first image that its driver takes.
fn load(
    kernel: &'static str,
    device: &Device,
    variants: &'static [Variant],
) -> Result<(&'static Variant, Arc<Module>), Error> {
    let (arch, driver_ptx) = (device.arch(), driver()?.ptx);
    let mut error = Error::NoCode { kernel, arch };
    for variant in variants {
        let images = match variant.images_for(arch, driver_ptx) {
            Ok(images) => images,
            Err(Misfit::PtxTooNew(ptx)) => {
                error = Error::PtxTooNew { kernel, ptx, driver: driver_ptx };
                continue;
            }
            Err(Misfit::Arch) => continue,
        };
        let want = variant.functions.iter().map(|it| it.shared_bytes as usize).max();
        let (want, have) = (want.unwrap_or(0), device.shared_bytes());
        let n_params = variant.functions.iter().map(|it| it.params.len()).max().unwrap_or(0);
        if want > have {
            error = Error::SharedMemory { kernel, want, have };
        } else if n_params <= MOST_PARAMS && variant.maps.len() <= MOST_MAPS {
            for image in images {
                match Module::load(kernel, device.context(), image) {
                    Ok(module) => return Ok((variant, module)),
                    Err(refusal @ Error::Cuda { reason, .. }) if REFUSALS.contains(&reason) => {
                        error = refusal;
                    }
                    Err(other) => return Err(other),
                }
            }
        }
    }
    Err(error)
}

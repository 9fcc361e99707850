//! Launches: grid, arguments, and options of the emulator.

use crate::kernel::Kernel;
use crate::memory::{Buffer, Memory};
use crate::tensor_map::TensorMap;

/// The shape of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    /// CTAs in each dimension.
    pub grid: [u32; 3],
    /// Threads of a CTA in each dimension.
    pub block: [u32; 3],
    /// CTAs of a cluster in each dimension; `None` for the kernel's own, or one.
    pub cluster: Option<[u32; 3]>,
    /// Shared memory in addition to the kernel's static one.
    pub dynamic_shared_bytes: u32,
}

impl Launch {
    /// Returns a launch in one dimension.
    #[must_use]
    pub fn linear(grid: u32, block: u32) -> Self {
        Self { grid: [grid, 1, 1], block: [block, 1, 1], cluster: None, dynamic_shared_bytes: 0 }
    }
}

/// One argument of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Argument {
    /// The bytes of a number or of a structure.
    Value(Vec<u8>),
    /// An address: a buffer and bytes from its start.
    Pointer(Buffer, u64),
    /// A tensor map, passed as a `const __grid_constant__` parameter.
    TensorMap(TensorMap),
}

macro_rules! from_number {
    ($($type:ty),*) => {
        $(impl From<$type> for Argument {
            fn from(value: $type) -> Self {
                Self::Value(value.to_le_bytes().to_vec())
            }
        })*
    };
}

from_number!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64);

impl From<Buffer> for Argument {
    fn from(buffer: Buffer) -> Self {
        Self::Pointer(buffer, 0)
    }
}

impl From<TensorMap> for Argument {
    fn from(map: TensorMap) -> Self {
        Self::TensorMap(map)
    }
}

/// The time at which asynchronous copies complete, within what their waits allow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Completion {
    /// Copies complete as soon as they are issued.
    #[default]
    Eager,
    /// Copies complete only at a wait for them.
    Late,
    /// Copies complete at random times in between, by a seed.
    Random(u64),
}

/// The order in which warps that can run do run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// By number.
    #[default]
    Ascending,
    /// By number, the last one first.
    Descending,
    /// Another one each time, by a seed.
    Random(u64),
}

/// Options of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The time at which asynchronous copies complete.
    pub completion: Completion,
    /// The order in which warps run.
    pub order: Order,
    /// Detects races and reads of uninitialised shared memory.
    pub check: bool,
    /// Counts the costs of accesses, for each line.
    pub profile: bool,
    /// Instructions of warps, after which a kernel is taken to hang.
    pub instruction_limit: u64,
    /// Registers that each thread is launched with, as its compiler says; as many as the bounds of the
    /// kernel allow where nobody says. They decide what `setmaxnreg` can grant.
    pub registers: Option<u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            completion: Completion::Eager,
            order: Order::Ascending,
            check: true,
            profile: false,
            instruction_limit: 1 << 28,
            registers: None,
        }
    }
}

/// Threads of a CTA, at most.
const MAX_THREADS: u32 = 1024;

/// Shared memory of a CTA, at most, on the device that has most.
const MAX_SHARED: u32 = 227 * 1024;

/// CTAs of a cluster, at most: 16 where a kernel asks for more than the portable 8.
const MAX_CLUSTER: u32 = 16;

/// Returns the reason why a launch can't begin, if there is one.
pub(crate) fn refuse(kernel: &Kernel, launch: &Launch) -> Option<String> {
    let product = |it: [u32; 3]| it.iter().try_fold(1u32, |all, it| all.checked_mul(*it));
    let (Some(n_ctas), Some(n_threads)) = (product(launch.grid), product(launch.block)) else {
        return Some("the grid is too large".to_owned());
    };
    if n_ctas == 0 || n_threads == 0 {
        return Some("the grid is empty".to_owned());
    }
    if n_threads > MAX_THREADS {
        return Some(format!("{n_threads} threads in a block; at most {MAX_THREADS}"));
    }
    if let Some(most) = kernel.max_threads() {
        let allowed = most.iter().product::<u32>();
        if n_threads > allowed {
            return Some(format!("{n_threads} threads in a block; the kernel allows {allowed}"));
        }
    }
    if let (Some(asked), Some(declared)) = (launch.cluster, kernel.cluster())
        && asked != declared
    {
        return Some(format!("a cluster of {asked:?}; the kernel declares {declared:?}"));
    }
    let cluster = cluster_of(kernel, launch);
    if cluster.contains(&0) || cluster.iter().product::<u32>() > MAX_CLUSTER {
        return Some(format!("a cluster of {cluster:?} CTAs; at most {MAX_CLUSTER}"));
    }
    if (0..3).any(|n| !launch.grid[n].is_multiple_of(cluster[n])) {
        return Some(format!("a grid of {:?}; not whole clusters of {cluster:?}", launch.grid));
    }
    let shared = u64::from(kernel.static_shared_bytes()) + u64::from(launch.dynamic_shared_bytes);
    if shared > u64::from(MAX_SHARED) {
        return Some(format!("{shared} bytes of shared memory; at most {MAX_SHARED}"));
    }
    None
}

/// The cluster of a launch.
pub(crate) fn cluster_of(kernel: &Kernel, launch: &Launch) -> [u32; 3] {
    launch.cluster.or(kernel.cluster()).unwrap_or([1; 3])
}

/// The parameters of a launch, as the kernel reads them.
pub(crate) struct Parameters {
    pub(crate) bytes: Vec<u8>,
    /// Tensor maps, by the offset of their parameter.
    pub(crate) maps: Vec<(u32, TensorMap)>,
}

impl Parameters {
    pub(crate) fn new(
        kernel: &Kernel,
        arguments: &[Argument],
        memory: &Memory,
    ) -> Result<Self, String> {
        let layout = kernel.parameters();
        if layout.len() != arguments.len() {
            return Err(format!(
                "{} arguments; the kernel takes {}",
                arguments.len(),
                layout.len()
            ));
        }
        let end = layout.last().map_or(0, |it| it.0 + it.1) as usize;
        let mut packed = Self { bytes: vec![0; end], maps: Vec::new() };
        for (n, ((offset, bytes), argument)) in layout.iter().zip(arguments).enumerate() {
            let pointer;
            let value: &[u8] = match argument {
                Argument::Value(value) => value,
                Argument::Pointer(buffer, at) => {
                    pointer = (memory.address(*buffer) + at).to_le_bytes();
                    &pointer
                }
                Argument::TensorMap(map) => {
                    map.check(memory).map_err(|it| format!("argument {n}: {it}"))?;
                    packed.maps.push((*offset, map.clone()));
                    &[0; TensorMap::BYTES]
                }
            };
            if value.len() != *bytes as usize {
                return Err(format!(
                    "argument {n} has {} bytes; the kernel takes {bytes}",
                    value.len()
                ));
            }
            packed.bytes[*offset as usize..][..value.len()].copy_from_slice(value);
        }
        Ok(packed)
    }
}

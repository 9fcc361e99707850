//! The device of the fake driver: memory, modules, graphs, and a clock.

use std::collections::BTreeMap;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

use tvmtune_emulator::{
    Argument, Buffer, Element, Launch, Memory, Module, Options, Swizzle, TensorMap,
};

/// The attributes of the device.
pub(crate) const MULTIPROCESSORS: c_int = 132;
pub(crate) const SHARED_BYTES: c_int = 227 * 1024;
pub(crate) const L2_BYTES: c_int = 64 * 1024;
pub(crate) const CLOCK_KHZ: c_int = 1_980_000;

/// Status codes of the driver.
pub(crate) const INVALID_VALUE: c_int = 1;
pub(crate) const NO_BINARY_FOR_GPU: c_int = 209;
pub(crate) const INVALID_PTX: c_int = 218;
pub(crate) const NOT_FOUND: c_int = 500;
pub(crate) const ILLEGAL_ADDRESS: c_int = 700;
pub(crate) const STREAM_CAPTURE_UNSUPPORTED: c_int = 900;

/// The duration of a launch, and the bandwidth of copies.
const LAUNCH_MS: f64 = 1.0;
const BYTES_PER_MS: f64 = 1e9;

/// The first word of a tensor map. After it: the address, the rank, the type of elements, the
/// swizzle, five extents, four strides, and the extents of the box, four to a word.
pub(crate) const TENSOR_MAP_TAG: u64 = 0x70_61_6d_5f_72_6f_73_6e;

/// The contents of uninitialised memory.
const POISON: u8 = 0xab;

/// Work on a stream.
#[derive(Clone)]
pub(crate) enum Work {
    /// A kernel.
    Launch {
        module: usize,
        name: String,
        grid: [u32; 3],
        block: [u32; 3],
        shared_bytes: u32,
        values: Vec<Vec<u8>>,
    },
    /// A copy within memory.
    Copy { to: u64, from: u64, n_bytes: usize },
}

/// A device. Work on a stream runs at once.
pub(crate) struct Device {
    memory: Memory,
    /// By the address of their first byte, with their length.
    allocations: BTreeMap<u64, (Buffer, usize)>,
    modules: BTreeMap<usize, Module>,
    /// The module and name of each, by handle.
    functions: BTreeMap<usize, (usize, String)>,
    graphs: BTreeMap<usize, Vec<Work>>,
    /// The work since a capture began.
    capture: Option<Vec<Work>>,
    event_ms: BTreeMap<usize, f64>,
    ms: f64,
    n_handles: usize,
    /// Once a kernel had a fault, nothing works any more.
    fault: c_int,
}

/// Calls a function with the one device.
pub(crate) fn with_device<R>(work: impl FnOnce(&mut Device) -> R) -> R {
    static DEVICE: Mutex<Option<Device>> = Mutex::new(None);
    let mut device = DEVICE.lock().unwrap_or_else(PoisonError::into_inner);
    work(device.get_or_insert_with(Device::new))
}

impl Device {
    fn new() -> Self {
        Self {
            memory: Memory::new(),
            allocations: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            graphs: BTreeMap::new(),
            capture: None,
            event_ms: BTreeMap::new(),
            ms: 0.0,
            n_handles: 0,
            fault: 0,
        }
    }

    /// Returns a new handle.
    pub(crate) fn new_handle(&mut self) -> usize {
        self.n_handles += 1;
        4096 + 16 * self.n_handles
    }

    pub(crate) fn fault(&self) -> c_int {
        self.fault
    }

    pub(crate) fn allocate(&mut self, n_bytes: usize) -> Result<u64, c_int> {
        if self.is_capturing() {
            return Err(STREAM_CAPTURE_UNSUPPORTED);
        }
        let buffer = self.memory.add("memory of the device", vec![POISON; n_bytes]);
        let address = self.memory.address(buffer);
        self.allocations.insert(address, (buffer, n_bytes));
        Ok(address)
    }

    pub(crate) fn free(&mut self, address: u64) -> c_int {
        self.allocations.remove(&address).map_or(INVALID_VALUE, |_| 0)
    }

    /// Bytes within one allocation.
    pub(crate) fn range(&mut self, address: u64, n_bytes: usize) -> Option<&mut [u8]> {
        let (start, (buffer, _)) = self.allocations.range(..=address).next_back()?;
        let offset = usize::try_from(address - start).ok()?;
        self.memory.bytes_mut(*buffer).get_mut(offset..offset.checked_add(n_bytes)?)
    }

    pub(crate) fn load(&mut self, image: &str) -> Result<usize, c_int> {
        if image.starts_with("\x7fELF") {
            return Err(NO_BINARY_FOR_GPU);
        }
        let module = Module::parse(image).map_err(|_| INVALID_PTX)?;
        let handle = self.new_handle();
        self.modules.insert(handle, module);
        Ok(handle)
    }

    pub(crate) fn unload(&mut self, module: usize) -> c_int {
        self.modules.remove(&module).map_or(INVALID_VALUE, |_| 0)
    }

    pub(crate) fn function(&mut self, module: usize, name: String) -> Result<usize, c_int> {
        let found = self.modules.get(&module).ok_or(INVALID_VALUE)?;
        found.kernel(&name).ok_or(NOT_FOUND)?;
        let handle = self.new_handle();
        self.functions.insert(handle, (module, name));
        Ok(handle)
    }

    /// The module and name of a function, and how many bytes each of its parameters has.
    pub(crate) fn parameters(&self, function: usize) -> Option<(usize, String, Vec<usize>)> {
        let (module, name) = self.functions.get(&function)?;
        let kernel = self.modules.get(module)?.kernel(name)?;
        let sizes = kernel.parameters().iter().map(|(_, n_bytes)| *n_bytes as usize);
        Some((*module, name.clone(), sizes.collect()))
    }

    pub(crate) fn is_capturing(&self) -> bool {
        self.capture.is_some()
    }

    pub(crate) fn begin_capture(&mut self) -> c_int {
        self.capture = Some(Vec::new());
        0
    }

    pub(crate) fn end_capture(&mut self) -> usize {
        let handle = self.new_handle();
        let work = self.capture.take().unwrap_or_default();
        self.graphs.insert(handle, work);
        handle
    }

    pub(crate) fn launch_graph(&mut self, graph: usize) -> c_int {
        let Some(work) = self.graphs.get(&graph).cloned() else { return INVALID_VALUE };
        work.iter().map(|it| self.run(it)).find(|it| *it != 0).unwrap_or(0)
    }

    pub(crate) fn destroy_graph(&mut self, graph: usize) -> c_int {
        self.graphs.remove(&graph).map_or(INVALID_VALUE, |_| 0)
    }

    pub(crate) fn record_event(&mut self, event: usize) -> c_int {
        self.event_ms.insert(event, self.ms);
        self.fault
    }

    pub(crate) fn elapsed_ms(&self, from: usize, to: usize) -> f32 {
        let time_ms = |event| self.event_ms.get(event).copied().unwrap_or(f64::NAN);
        (time_ms(&to) - time_ms(&from)) as f32
    }

    /// Runs work, or captures it.
    pub(crate) fn enqueue(&mut self, work: Work) -> c_int {
        match &mut self.capture {
            Some(capture) => {
                capture.push(work);
                0
            }
            None => self.run(&work),
        }
    }

    /// Decodes a tensor map, if the bytes are one.
    fn tensor_map(&self, bytes: &[u8]) -> Option<TensorMap> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: [u64; 16] =
            words.iter().map(|it| u64::from_le_bytes(*it)).collect::<Vec<_>>().try_into().ok()?;
        let (start, (buffer, _)) = self.allocations.range(..=words[1]).next_back()?;
        let rank = words[2] as usize;
        if words[0] != TENSOR_MAP_TAG || !(1..=5).contains(&rank) {
            return None;
        }
        Some(TensorMap {
            base: (*buffer, words[1] - start),
            element: Element::of_driver(words[3] as u32)?,
            dims: words[5..5 + rank].to_vec(),
            strides: words[10..9 + rank].to_vec(),
            box_dims: (0..rank as u32)
                .map(|it| (words[14 + it as usize / 4] >> (16 * (it % 4))) as u32 & 0xffff)
                .collect(),
            element_strides: (0..rank)
                .map(|it| (words[15] >> (16 + 4 * it)) as u32 & 0xf)
                .collect(),
            swizzle: [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128]
                [words[4] as usize & 3],
        })
    }

    fn run(&mut self, work: &Work) -> c_int {
        match work {
            _ if self.fault != 0 => self.fault,
            Work::Copy { to, from, n_bytes } => {
                let Some(bytes) = self.range(*from, *n_bytes).map(|it| it.to_vec()) else {
                    return INVALID_VALUE;
                };
                let Some(to) = self.range(*to, *n_bytes) else { return INVALID_VALUE };
                to.copy_from_slice(&bytes);
                self.ms += *n_bytes as f64 / BYTES_PER_MS;
                0
            }
            Work::Launch { module, name, grid, block, shared_bytes, values } => {
                let kernel = self.modules.get(module).and_then(|it| it.kernel(name));
                let Some(kernel) = kernel else { return INVALID_VALUE };
                let arguments: Vec<Argument> = values
                    .iter()
                    .map(|it| match self.tensor_map(it) {
                        Some(map) => Argument::TensorMap(map),
                        None => Argument::Value(it.clone()),
                    })
                    .collect();
                let launch = Launch {
                    grid: *grid,
                    block: *block,
                    cluster: None,
                    dynamic_shared_bytes: *shared_bytes,
                };
                self.ms += LAUNCH_MS;
                let ran = kernel.run(&launch, &arguments, &mut self.memory, &Options::default());
                if let Err(fault) = ran {
                    // As on a device, the next synchronization returns the error; the text is for
                    // people.
                    eprintln!("{fault}");
                    self.fault = ILLEGAL_ADDRESS;
                }
                0
            }
        }
    }
}

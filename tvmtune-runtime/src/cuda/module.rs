//! Modules: images loaded into a context once, and their functions.
#![expect(unsafe_code, reason = "code is loaded into a device and unloaded here")]

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cudarc::driver::sys::{CUfunction, CUfunction_attribute_enum as Attribute, CUmodule, CUstream};
use cudarc::driver::{CudaContext, result};

use super::driver::error_name;
use crate::Error;
use crate::raw::cuda::{Function, Image};

/// A loaded image.
#[derive(Debug)]
pub(super) struct Module {
    context: Arc<CudaContext>,
    handle: CUmodule,
}

/// A function of a module, ready to be launched.
#[derive(Debug)]
pub(super) struct Entry {
    function: CUfunction,
    block: [u32; 3],
    shared_bytes: u32,
    /// Keeps the function.
    _module: Arc<Module>,
}

// SAFETY: a handle of the driver, which takes calls from all threads.
unsafe impl Send for Module {}
// SAFETY: as above; nothing changes a module but its end.
unsafe impl Sync for Module {}
// SAFETY: as for modules.
unsafe impl Send for Entry {}
// SAFETY: as for modules.
unsafe impl Sync for Entry {}

/// Dynamic shared memory that needs no opt-in, in bytes.
const USUAL_SHARED_BYTES: u32 = 48 << 10;

impl Module {
    /// The image in a context, loaded now if nobody has it loaded.
    pub(super) fn load(
        kernel: &'static str,
        context: &Arc<CudaContext>,
        image: &'static Image,
    ) -> Result<Arc<Self>, Error> {
        static LOADED: Mutex<BTreeMap<(usize, usize), Weak<Module>>> = Mutex::new(BTreeMap::new());
        // An image is a part of the program, so its address stands for it.
        let key = (context.cu_ctx().addr(), image.bytes.as_ptr().addr());
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(module) = loaded.get(&key).and_then(Weak::upgrade) {
            return Ok(module);
        }
        let failed =
            |error| Error::Cuda { kernel, call: "cuModuleLoadData", reason: error_name(error) };
        context.bind_to_thread().map_err(failed)?;
        let bytes = terminated(image.bytes);
        // SAFETY: the context is current; a cubin says in its header how long it is, and text ends
        // in a zero. It is read during the call only.
        let handle = unsafe { result::module::load_data(bytes.as_ptr().cast()) }.map_err(failed)?;
        let module = Arc::new(Self { context: context.clone(), handle });
        loaded.retain(|_, it| it.strong_count() > 0);
        loaded.insert(key, Arc::downgrade(&module));
        Ok(module)
    }

    /// One of its functions.
    pub(super) fn entry(
        self: &Arc<Self>,
        kernel: &'static str,
        function: &Function,
    ) -> Result<Entry, Error> {
        let failed = |call| move |error| Error::Cuda { kernel, call, reason: error_name(error) };
        let name = CString::new(function.name).unwrap_or_default();
        self.context.bind_to_thread().map_err(failed("cuCtxSetCurrent"))?;
        // SAFETY: the module is loaded, in the current context.
        let handle = unsafe { result::module::get_function(self.handle, name) }
            .map_err(failed("cuModuleGetFunction"))?;
        let Function { block, shared_bytes, .. } = *function;
        if shared_bytes > USUAL_SHARED_BYTES {
            let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            let value = i32::try_from(shared_bytes).unwrap_or(i32::MAX);
            // SAFETY: the function was just found.
            unsafe { result::function::set_function_attribute(handle, attribute, value) }
                .map_err(failed("cuFuncSetAttribute"))?;
        }
        Ok(Entry { function: handle, block, shared_bytes, _module: self.clone() })
    }
}

/// A copy that is aligned as files of machine code are, and ends in a zero as text must.
fn terminated(bytes: &[u8]) -> Vec<u64> {
    let (words, rest) = bytes.as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    words.iter().chain([&last]).map(|it| u64::from_ne_bytes(*it)).collect()
}

impl Drop for Module {
    fn drop(&mut self) {
        // Its kernels may still run. If the context is broken, they do not.
        if self.context.bind_to_thread().is_ok() && self.context.synchronize().is_ok() {
            // SAFETY: loaded in this context, and unloaded once; nothing of it runs.
            let _ = unsafe { result::module::unload(self.handle) };
        }
    }
}

impl Entry {
    /// Enqueues a launch of a grid of so many blocks in x, y and z on a stream.
    ///
    /// # Errors
    ///
    /// The name of the driver's.
    ///
    /// # Safety
    ///
    /// The context of the function must be current, and the stream one of it. The parameters must
    /// be those of the function, in order, each the address of a value of its type; what the
    /// function does with them must be allowed until it has run.
    pub(super) unsafe fn launch(
        &self,
        stream: CUstream,
        grid: [u32; 3],
        params: &mut [*mut c_void],
    ) -> Result<(), &'static str> {
        let (grid, block) = (grid.into(), self.block.into());
        // SAFETY: by the contract of this function; parameters are read during the call.
        let launched = unsafe {
            result::launch_kernel(self.function, grid, block, self.shared_bytes, stream, params)
        };
        launched.map_err(error_name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_end_in_a_zero() {
        for n in 0..20 {
            let bytes: Vec<u8> = (1..=n).collect();
            let copy: Vec<u8> = terminated(&bytes).iter().flat_map(|it| it.to_ne_bytes()).collect();
            let (start, end) = copy.split_at(n.into());
            assert!(start == bytes && !end.is_empty() && end.iter().all(|it| *it == 0));
        }
    }
}

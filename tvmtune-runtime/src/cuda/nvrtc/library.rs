//! The functions of NVRTC, each with the types that its header declares.
#![expect(unsafe_code, reason = "functions of a C library are called here")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt;
use std::path::Path;
use std::ptr;

use libloading::Symbol;

use crate::cuda::refusal;

type Handle = *mut c_void;
type Strings = *const *const c_char;
type Size = unsafe extern "C" fn(Handle, *mut usize) -> c_int;
type Get = unsafe extern "C" fn(Handle, *mut c_char) -> c_int;

/// A loaded library, with the functions we call.
pub(super) struct Library {
    version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int,
    n_archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    archs: unsafe extern "C" fn(*mut c_int) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    create: unsafe extern "C" fn(
        *mut Handle,
        *const c_char,
        *const c_char,
        c_int,
        Strings,
        Strings,
    ) -> c_int,
    compile: unsafe extern "C" fn(Handle, c_int, Strings) -> c_int,
    destroy: unsafe extern "C" fn(*mut Handle) -> c_int,
    log: (Size, Get),
    ptx: (Size, Get),
    cubin: (Size, Get),
    /// Keeps all of them valid.
    _library: libloading::Library,
}

impl fmt::Debug for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

/// Loads a library that another one asks for by its name only, and keeps it.
pub(super) fn preload(path: &Path) {
    #[cfg(unix)]
    {
        use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
        // SAFETY: a part of NVRTC, which is tables; it does nothing when it is loaded. If it is
        // something else, it is what the user put beside NVRTC.
        if let Ok(library) = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) } {
            std::mem::forget(library);
        }
    }
    #[cfg(not(unix))]
    let _ = path;
}

impl Library {
    /// Loads it, and finds every function.
    pub(super) fn open(path: &Path) -> Result<Self, String> {
        // SAFETY: NVRTC does nothing when it is loaded; a file by its name that is something else
        // is one that the user put there.
        let library = unsafe { libloading::Library::new(path) }
            .map_err(|it| refusal(&path.to_string_lossy(), &it))?;
        // SAFETY: these are the types that nvrtc.h declares, since CUDA 11.2. They are kept
        // together with the library, and die with it.
        let loaded = unsafe {
            Self {
                version: symbol(&library, c"nvrtcVersion")?,
                n_archs: symbol(&library, c"nvrtcGetNumSupportedArchs")?,
                archs: symbol(&library, c"nvrtcGetSupportedArchs")?,
                error_string: symbol(&library, c"nvrtcGetErrorString")?,
                create: symbol(&library, c"nvrtcCreateProgram")?,
                compile: symbol(&library, c"nvrtcCompileProgram")?,
                destroy: symbol(&library, c"nvrtcDestroyProgram")?,
                log: (
                    symbol(&library, c"nvrtcGetProgramLogSize")?,
                    symbol(&library, c"nvrtcGetProgramLog")?,
                ),
                ptx: (symbol(&library, c"nvrtcGetPTXSize")?, symbol(&library, c"nvrtcGetPTX")?),
                cubin: (
                    symbol(&library, c"nvrtcGetCUBINSize")?,
                    symbol(&library, c"nvrtcGetCUBIN")?,
                ),
                _library: library,
            }
        };
        Ok(loaded)
    }

    pub(super) fn version(&self) -> (c_int, c_int) {
        let (mut major, mut minor) = (0, 0);
        // SAFETY: both are places for an integer.
        unsafe { (self.version)(&raw mut major, &raw mut minor) };
        (major, minor)
    }

    pub(super) fn archs(&self) -> Vec<c_int> {
        let mut n_archs = 0;
        // SAFETY: a place for an integer.
        unsafe { (self.n_archs)(&raw mut n_archs) };
        let mut archs = vec![0; usize::try_from(n_archs).unwrap_or(0)];
        // SAFETY: there is room for as many as it says there are.
        unsafe { (self.archs)(archs.as_mut_ptr()) };
        archs
    }

    pub(super) fn error_name(&self, code: c_int) -> String {
        // SAFETY: takes any number, and gives a string that lives as long as the library; the text
        // is copied while it does.
        let name = unsafe { (self.error_string)(code) };
        if name.is_null() {
            return format!("result {code}");
        }
        // SAFETY: it is not null, so a string that ends in a zero.
        unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned()
    }
}

/// The function of that name.
///
/// # Safety
///
/// `F` is its type, and it is not used after the library.
unsafe fn symbol<F: Copy>(library: &libloading::Library, name: &CStr) -> Result<F, String> {
    // SAFETY: by the contract of this function.
    let found: Result<Symbol<'_, F>, _> = unsafe { library.get(name.to_bytes_with_nul()) };
    found.map(|it| *it).map_err(|it| refusal(&name.to_string_lossy(), &it))
}

/// A file that NVRTC compiles, destroyed at the end.
pub(super) struct Program<'a> {
    library: &'a Library,
    handle: Handle,
}

impl<'a> Program<'a> {
    pub(super) fn new(
        library: &'a Library,
        source: &CStr,
        name: &CStr,
        headers: &[(CString, CString)],
    ) -> Result<Self, c_int> {
        let names: Vec<*const c_char> = headers.iter().map(|(name, _)| name.as_ptr()).collect();
        let texts: Vec<*const c_char> = headers.iter().map(|(_, text)| text.as_ptr()).collect();
        let (n_headers, mut handle) = (headers.len() as c_int, ptr::null_mut());
        // SAFETY: all strings end in a zero and live until the call returns, which copies them;
        // both lists have as many as it says.
        let result = unsafe {
            (library.create)(
                &raw mut handle,
                source.as_ptr(),
                name.as_ptr(),
                n_headers,
                texts.as_ptr(),
                names.as_ptr(),
            )
        };
        if result == 0 { Ok(Self { library, handle }) } else { Err(result) }
    }

    pub(super) fn compile(&self, options: &[CString]) -> Result<(), c_int> {
        let list: Vec<*const c_char> = options.iter().map(|it| it.as_ptr()).collect();
        // SAFETY: the program exists, and the list has as many strings as it says.
        match unsafe { (self.library.compile)(self.handle, list.len() as c_int, list.as_ptr()) } {
            0 => Ok(()),
            code => Err(code),
        }
    }

    /// Returns the log; empty if there is none, or on failure.
    pub(super) fn log(&self) -> Vec<u8> {
        self.bytes(self.library.log).unwrap_or_default()
    }

    pub(super) fn ptx(&self) -> Result<Vec<u8>, c_int> {
        self.bytes(self.library.ptx)
    }

    pub(super) fn cubin(&self) -> Result<Vec<u8>, c_int> {
        self.bytes(self.library.cubin)
    }

    fn bytes(&self, (size, get): (Size, Get)) -> Result<Vec<u8>, c_int> {
        let mut n_bytes = 0;
        // SAFETY: the program exists; a place for a number.
        let result = unsafe { size(self.handle, &raw mut n_bytes) };
        if result != 0 {
            return Err(result);
        }
        let mut bytes = vec![0_u8; n_bytes];
        // SAFETY: the program exists, and there is room for as much as it says it has.
        let result = unsafe { get(self.handle, bytes.as_mut_ptr().cast()) };
        if result == 0 { Ok(bytes) } else { Err(result) }
    }
}

impl Drop for Program<'_> {
    fn drop(&mut self) {
        // SAFETY: created by this library, and destroyed once. The result does not matter.
        unsafe { (self.library.destroy)(&raw mut self.handle) };
    }
}

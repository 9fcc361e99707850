//! Compiles CUDA C++ with the NVRTC of the machine: to PTX, and to code for one architecture.
//!
//! NVRTC needs neither a GPU nor a driver. It is one shared library, which [`Nvrtc::get`] looks
//! for once in a process: see [`find`] for the places. Threads may compile at the same time, which
//! takes almost no longer for two than for one.

pub mod find;
mod library;

use std::ffi::{CString, NulError};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use library::{Library, Program};

/// The result of NVRTC that says that the program is wrong.
const COMPILATION_FAILED: i32 = 6;

/// A loaded NVRTC.
#[derive(Debug)]
pub struct Nvrtc {
    library: Library,
    path: PathBuf,
    version: (u32, u32),
}

/// A translation unit: one file of CUDA C++.
#[derive(Clone, Copy, Debug)]
pub struct Unit<'a> {
    /// The file's name in errors and in line information.
    pub name: &'a str,
    /// Its text.
    pub source: &'a str,
    /// Headers, as `(name, text)`: NVRTC reads no file.
    pub headers: &'a [(&'a str, &'a str)],
    /// `sm_90a`: PTX and code for that architecture. `compute_80`: PTX only, in half the time.
    pub arch: &'a str,
    /// Further options of NVRTC; the language is C++17.
    pub options: &'a [&'a str],
}

/// The result of compiling a [`Unit`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// PTX, without the zero at its end.
    pub ptx: String,
    /// An ELF file for one architecture; empty if PTX only was asked for.
    pub cubin: Vec<u8>,
    /// Warnings and remarks; with `--ptxas-options=-v`, what each kernel uses.
    pub log: String,
}

/// The reason why nothing was compiled. In all variants `name` is the name of the file, and `log` the log
/// of NVRTC.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NvrtcError {
    /// There is no NVRTC: each place that was tried, with what was wrong there.
    #[error(
        "no NVRTC found; tried {}; install one with `python3 -m pip install nvidia-cuda-nvrtc`, \
         and set {} to its `libnvrtc.so.*`",
        tried.join("; "), find::VARIABLE
    )]
    NotFound { tried: Vec<String> },
    /// The program is wrong, or asks for more than the architecture has.
    #[error("`{name}` does not compile for {arch}:\n{log}")]
    Compile { name: String, arch: String, log: String },
    /// A call failed for another reason, such as an option or an architecture it does not know.
    #[error("`{call}` of {library} failed: {reason}\n{log}")]
    Failed { call: &'static str, library: String, reason: String, log: String },
    /// A text that is passed to NVRTC has a zero in it.
    #[error("{what} of `{name}` contains a zero byte")]
    Zero { what: &'static str, name: String },
}

impl Nvrtc {
    /// The NVRTC of this machine, found at the first call.
    ///
    /// # Errors
    ///
    /// [`NvrtcError::NotFound`]
    pub fn get() -> Result<&'static Self, NvrtcError> {
        static FOUND: OnceLock<Result<Nvrtc, NvrtcError>> = OnceLock::new();
        FOUND.get_or_init(Self::find).as_ref().map_err(Clone::clone)
    }

    fn find() -> Result<Self, NvrtcError> {
        let mut tried = Vec::new();
        for path in find::candidates() {
            match Self::open(&path) {
                Ok(nvrtc) => return Ok(nvrtc),
                Err(NvrtcError::NotFound { tried: one }) => tried.extend(one),
                Err(other) => return Err(other),
            }
        }
        Err(NvrtcError::NotFound { tried })
    }

    /// The NVRTC in a file, or of that name where the system looks for libraries.
    ///
    /// # Errors
    ///
    /// [`NvrtcError::NotFound`] if it is none.
    pub fn open(path: &Path) -> Result<Self, NvrtcError> {
        for builtins in find::builtins_beside(path) {
            library::preload(&builtins);
        }
        let not_found = |reason| NvrtcError::NotFound { tried: vec![reason] };
        let library = Library::open(path).map_err(not_found)?;
        let (major, minor) = library.version();
        let unsigned = |it: i32| u32::try_from(it).unwrap_or(0);
        Ok(Self { library, path: path.into(), version: (unsigned(major), unsigned(minor)) })
    }

    /// `(13, 2)`
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the path of the library, or the name by which the system found it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The architectures it compiles for, ascending: 90 stands for `sm_90` and what is like it.
    pub fn archs(&self) -> Vec<u32> {
        let mut archs: Vec<u32> =
            self.library.archs().into_iter().filter_map(|it| u32::try_from(it).ok()).collect();
        archs.sort_unstable();
        archs
    }

    /// Compiles a file.
    ///
    /// # Errors
    ///
    /// [`NvrtcError::Compile`] if the program is at fault; others if it could not be tried.
    pub fn compile(&self, unit: &Unit<'_>) -> Result<Compiled, NvrtcError> {
        let Texts { name, source, headers, options } = Texts::of(unit)?;
        let failed = |call, code, log| self.failed(call, code, log);
        let program = Program::new(&self.library, &source, &name, &headers)
            .map_err(|code| failed("nvrtcCreateProgram", code, String::new()))?;
        let result = program.compile(&options);
        let log = text(program.log());
        match result {
            Ok(()) => {}
            Err(COMPILATION_FAILED) => {
                let (name, arch) = (unit.name.to_owned(), unit.arch.to_owned());
                return Err(NvrtcError::Compile { name, arch, log });
            }
            Err(code) => return Err(failed("nvrtcCompileProgram", code, log)),
        }
        let ptx = program.ptx().map_err(|code| failed("nvrtcGetPTX", code, log.clone()))?;
        let cubin = match unit.arch.starts_with("sm_") {
            true => program.cubin().map_err(|code| failed("nvrtcGetCUBIN", code, log.clone()))?,
            false => Vec::new(),
        };
        Ok(Compiled { ptx: text(ptx), cubin, log })
    }

    fn failed(&self, call: &'static str, code: i32, log: String) -> NvrtcError {
        let (library, reason) = (self.path.display().to_string(), self.library.error_name(code));
        NvrtcError::Failed { call, library, reason, log }
    }
}

/// The texts of a unit as NVRTC takes them.
struct Texts {
    name: CString,
    source: CString,
    /// Names and texts.
    headers: Vec<(CString, CString)>,
    options: Vec<CString>,
}

impl Texts {
    fn of(unit: &Unit<'_>) -> Result<Self, NvrtcError> {
        let zero = |what| move |_: NulError| NvrtcError::Zero { what, name: unit.name.to_owned() };
        let header = |(name, text): &(&str, &str)| Ok((CString::new(*name)?, CString::new(*text)?));
        let headers: Result<_, NulError> = unit.headers.iter().map(header).collect();
        let always = [format!("--gpu-architecture={}", unit.arch), "--std=c++17".to_owned()];
        let options = always.iter().map(String::as_str).chain(unit.options.iter().copied());
        let options: Result<_, NulError> = options.map(CString::new).collect();
        Ok(Self {
            name: CString::new(unit.name).map_err(zero("the name"))?,
            source: CString::new(unit.source).map_err(zero("the source"))?,
            headers: headers.map_err(zero("a header"))?,
            options: options.map_err(zero("an option"))?,
        })
    }
}

/// Strips the terminating zero of NVRTC's text.
fn text(bytes: Vec<u8>) -> String {
    let end = bytes.iter().position(|it| *it == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

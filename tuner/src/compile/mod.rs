//! Step 7 of 12, for CUDA: printed C++ to code for one architecture, and its resource usage.
//!
//! In: a file of CUDA C++ that includes headers of `tvmtune-device`. Out: PTX and a cubin, with
//! registers, memory and barriers of each kernel. Next: candidates that use too much are dropped
//! without a GPU ([`Code::verdict`]), the others are checked and measured.
//!
//! # Invariants
//!
//! - The same text, architecture, options and NVRTC give the same bytes, from the cache or not.
//! - What is read of a cubin agrees with what its assembler says.

mod cache;
mod cubin;
mod remarks;

use std::fmt;

use tvmtune_cuda::Generated;
use tvmtune_cuda::codegen::Entry;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_plan::database::{Cache, Files};
use tvmtune_plan::embed::cuda::ptx_version;
use tvmtune_plan::record::{Format, Image};
use tvmtune_runtime::cuda::nvrtc::{Compiled, NvrtcError, Unit};

pub use cubin::{CubinError, usage};
pub use remarks::Remark;
pub use tvmtune_runtime::cuda::nvrtc::Nvrtc;

/// Options for every file: functions are device functions unless they say otherwise,
/// the log says what kernels use, and variables that nobody reads are no news. Code that is shipped
/// knows no lines: with them it would name the folder in which it was compiled.
pub const OPTIONS: [&str; 3] = ["-default-device", "--ptxas-options=-v", "-diag-suppress=177"];

/// Beside [`OPTIONS`], for code that stays here: it knows the lines it comes from.
pub const LINES: &str = "-lineinfo";

/// A file of CUDA C++, with what decides how it is compiled.
#[derive(Clone, Copy, Debug)]
pub struct Source<'a> {
    /// Its name in errors, and in line information.
    pub name: &'a str,
    /// Its text.
    pub text: &'a str,
    /// `sm_90a` for PTX and a cubin, `compute_80` for PTX only.
    pub arch: &'a str,
    /// Beside [`OPTIONS`].
    pub options: &'a [&'a str],
}

/// The code compiled from a [`Source`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Code {
    /// As text.
    pub ptx: String,
    /// The code for one architecture, an ELF file; empty if PTX only was asked for.
    pub cubin: Vec<u8>,
    /// The log of NVRTC and its assembler.
    pub log: String,
    /// Resource usage of each kernel of the cubin, by name.
    pub kernels: Vec<Usage>,
    /// Remarks of the assembler on performance.
    pub remarks: Vec<Remark>,
}

/// Resource usage of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The name of the kernel.
    pub kernel: String,
    /// Registers of each thread.
    pub registers: u32,
    /// Bytes of local memory of each thread: arrays that are indexed, and spills.
    pub frame_bytes: u32,
    /// Bytes that are written to local memory for want of registers, by its instructions.
    pub spill_store_bytes: u32,
    /// The same, read.
    pub spill_load_bytes: u32,
    /// Bytes of `__shared__` variables. What the system takes of each block from sm_90 on, 1024
    /// bytes, is not counted, nor is what a launch asks for.
    pub static_shared_bytes: u64,
    /// Barriers of a block: `__syncthreads` is one.
    pub barriers: u32,
    /// Threads of a block at most; 0 if the kernel has no bound.
    pub max_threads: u32,
    /// Bytes of instructions.
    pub code_bytes: u64,
}

/// An error of compilation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// NVRTC did not compile it.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// NVRTC wrote a cubin of an unknown form.
    #[error("`{name}`: {error}; this version of NVRTC may be newer than this version of tvmtune")]
    Cubin {
        /// The file.
        name: String,
        /// The deviation.
        error: CubinError,
    },
    /// It compiled to what cannot be launched.
    #[error(transparent)]
    Unlaunchable(#[from] Unlaunchable),
}

/// A reason why code cannot be launched.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unlaunchable {
    /// It has no kernel of the name by which one is launched: somebody declared it otherwise.
    #[error("no kernel has the name `{0}`: declare it as `extern \"C\" __global__ void {0}(..)`")]
    MissingKernel(String),
    /// `setmaxnreg` would wait for ever.
    #[error(
        "`{kernel}` redistributes {needed} registers of a block, which is launched with {launched}: it \
         would wait for ever; please report this"
    )]
    LacksRegisters {
        /// The kernel.
        kernel: String,
        /// Registers of all threads after redistribution.
        needed: u32,
        /// The same at launch.
        launched: u32,
    },
}

/// A reason against measuring code: other candidates do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The assembler had to serialize asynchronous matrix instructions.
    Serialized,
    /// A kernel moves more than this many bytes to and from local memory for want of registers.
    Spills(u32),
}

/// Compiles files, and remembers what came of them if it has a cache.
#[derive(Clone, Debug)]
pub struct Compiler<'a> {
    nvrtc: &'a Nvrtc,
    cache: Option<cache::Compiled>,
}

impl<'a> Compiler<'a> {
    /// With a cache, what was compiled once is not compiled again. It is not for candidates of a
    /// search, of which there are thousands, each compiled once.
    pub fn new(nvrtc: &'a Nvrtc, cache: Option<&Cache>) -> Self {
        Self { nvrtc, cache: cache.map(cache::Compiled::new) }
    }

    /// With the NVRTC of this machine; `None` if there is none.
    pub fn of_machine(cache: Option<&Cache>) -> Option<Self> {
        Nvrtc::get().ok().map(|nvrtc| Self::new(nvrtc, cache))
    }

    /// The version of NVRTC, `(13, 2)`.
    pub fn version(&self) -> (u32, u32) {
        self.nvrtc.version()
    }

    /// Compiles a file. Several threads may call this at the same time.
    ///
    /// # Errors
    ///
    /// [`CompileError`]
    pub fn compile(&self, source: &Source<'_>) -> Result<Code, CompileError> {
        let headers: Vec<(&str, &str)> =
            tvmtune_device::needed(source.text).iter().map(|it| (it.name, it.text)).collect();
        let options = [&OPTIONS, source.options].concat();
        let Source { name, text, arch, .. } = *source;
        let unit = Unit { name, source: text, headers: &headers, arch, options: &options };
        let key = cache::key(&unit, self.nvrtc.version());
        if let Some(known) = self.cache.as_ref().and_then(|it| it.load(&key))
            && let Ok(code) = Code::read(known)
        {
            return Ok(code);
        }
        let compiled = self.nvrtc.compile(&unit)?;
        if let Some(cache) = &self.cache {
            cache.store(&key, &compiled);
        }
        let cubin = |error| CompileError::Cubin { name: name.to_owned(), error };
        Code::read(compiled).map_err(cubin)
    }

    /// Compiles generated code for a GPU and for those after it; adds what came of it to `files`. Errors
    /// name it as `name`.
    ///
    /// The most specific image comes first. There is no PTX of code that uses what only one architecture
    /// has.
    ///
    /// # Errors
    ///
    /// [`CompileError`]
    pub fn images(
        &self,
        (name, generated): (&str, &Generated),
        arch: Arch,
        files: &mut Files,
    ) -> Result<Vec<Image>, CompileError> {
        let text = &generated.unit.source;
        let compile = |arch: &str| self.compile(&Source { name, text, arch, options: &[] });
        let code = compile(&arch.to_string())?;
        code.check_launches(generated)?;
        let later = Arch { exact: false, ..arch };
        let ptx = match arch.exact {
            false => Some(code.ptx),
            true => match compile(&format!("compute_{}", arch.sm)) {
                Ok(code) => Some(code.ptx),
                Err(CompileError::Nvrtc(NvrtcError::Compile { .. })) => None,
                Err(other) => return Err(other),
            },
        };
        let mut image = |format, arch, bytes: Vec<u8>| Image {
            format,
            arch,
            bytes: bytes.len() as u64,
            sha256: files.add(bytes),
        };
        let mut images = vec![image(Format::Cubin, arch, code.cubin)];
        images.extend(ptx.map(|it| image(Format::Ptx, later, it.into_bytes())));
        Ok(images)
    }
}

/// Bytes of spills that cost less than what a kernel with fewer registers would lose.
const FEW_SPILLED_BYTES: u32 = 64;

impl Code {
    fn read(compiled: Compiled) -> Result<Self, CubinError> {
        let Compiled { ptx, cubin, log } = compiled;
        let mut kernels = if cubin.is_empty() { Vec::new() } else { usage(&cubin)? };
        remarks::add_spills(&log, &mut kernels);
        let remarks = remarks::remarks(&log);
        Ok(Self { ptx, cubin, log, kernels, remarks })
    }

    /// The version of the PTX, `(9, 0)`, which a driver must know to compile it.
    pub fn ptx_version(&self) -> Option<(u8, u8)> {
        ptx_version(&self.ptx)
    }

    /// Returns the resource usage of a kernel.
    pub fn usage(&self, kernel: &str) -> Option<&Usage> {
        self.kernels.iter().find(|it| it.kernel == kernel)
    }

    /// Returns an error if the machine code, which was compiled from these kernels, cannot be launched.
    ///
    /// # Errors
    ///
    /// [`Unlaunchable`]
    pub fn check_launches(&self, generated: &Generated) -> Result<(), Unlaunchable> {
        let kernels = generated.unit.entries.iter().zip(&generated.grid.body);
        for (Entry { name, .. }, kernel) in kernels {
            let usage = self.usage(name);
            let usage = usage.ok_or_else(|| Unlaunchable::MissingKernel(name.clone()))?;
            let Some(needed) = kernel.registers_after_redistribution() else { continue };
            let launched = usage.registers * kernel.block_threads();
            if needed > launched {
                let kernel = name.clone();
                return Err(Unlaunchable::LacksRegisters { kernel, needed, launched });
            }
        }
        Ok(())
    }

    /// Returns the reason against measuring the code, if there is one.
    pub fn verdict(&self) -> Option<Verdict> {
        if self.remarks.iter().any(Remark::serializes) {
            return Some(Verdict::Serialized);
        }
        let spilled = |it: &Usage| it.spill_store_bytes.max(it.spill_load_bytes);
        let most = self.kernels.iter().map(spilled).max()?;
        (most > FEW_SPILLED_BYTES).then_some(Verdict::Spills(most))
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Serialized => f.write_str("matrix instructions are serialized"),
            Verdict::Spills(bytes) => write!(f, "{bytes} bytes of registers are spilled"),
        }
    }
}

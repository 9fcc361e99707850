//! Compiled code as records keep it: a cubin for one architecture, PTX for those that come after.

use tvmtune_ir::target::gpu::Arch;
use tvmtune_plan::record::{Format, Image};
use tvmtune_runtime::cuda::nvrtc::NvrtcError;

use super::{CompileError, Compiler, Source};
use tvmtune_plan::database::Files;

impl Compiler<'_> {
    /// Compiles a file for a GPU and for those after it; adds what came of it to `files`.
    ///
    /// The most specific image comes first. There is no PTX of a file that uses what only one
    /// architecture has.
    ///
    /// # Errors
    ///
    /// [`CompileError`]
    pub fn images(
        &self,
        (name, text): (&str, &str),
        arch: Arch,
        files: &mut Files,
    ) -> Result<Vec<Image>, CompileError> {
        let compile = |arch: &str| self.compile(&Source { name, text, arch, options: &[] });
        let code = compile(&arch.to_string())?;
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

//! Detection of the machine's instruction set.

use std::fmt;

use crate::raw::cuda::Arch;

/// An instruction set, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// Whatever rustc compiles for: the portable code.
    Portable,
    /// x86-64 with AVX2, FMA and F16C.
    Avx2,
    /// x86-64 with AVX-512 F, BW, DQ and VL, and what [`Isa::Avx2`] has.
    Avx512,
    /// The instructions of CUDA devices of an architecture. No [`Cpu`](crate::Cpu) has it.
    Cuda(Arch),
}

impl Isa {
    /// The spelling in records, on the command line and in `TVMTUNE_ISA`; of CUDA devices, only
    /// their kind: their architecture is in the text that `Display` gives.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
            Isa::Cuda(_) => "cuda",
        }
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Isa::Cuda(arch) => arch.fmt(f),
            _ => f.write_str(self.name()),
        }
    }
}

/// The greatest instruction set of this machine, but not above `TVMTUNE_ISA`.
#[cfg(feature = "cpu")]
pub(crate) fn best() -> Isa {
    use std::sync::OnceLock;
    static BEST: OnceLock<Isa> = OnceLock::new();
    *BEST.get_or_init(|| {
        let limit = std::env::var("TVMTUNE_ISA").ok();
        let named = |it: &Isa| limit.as_deref() == Some(it.name());
        let limit = [Isa::Portable, Isa::Avx2, Isa::Avx512].into_iter().find(named);
        limit.unwrap_or(Isa::Avx512).min(detect())
    })
}

#[cfg(all(feature = "cpu", target_arch = "x86_64", not(miri)))]
fn detect() -> Isa {
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c");
    let avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    match (avx2, avx512) {
        (true, true) => Isa::Avx512,
        (true, false) => Isa::Avx2,
        (false, _) => Isa::Portable,
    }
}

#[cfg(all(feature = "cpu", not(all(target_arch = "x86_64", not(miri)))))]
fn detect() -> Isa {
    Isa::Portable
}

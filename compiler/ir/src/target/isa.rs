//! Instruction sets of CPUs that machine code is generated for.

/// An instruction set that kernels are generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// x86-64 with AVX-512 F, BW, DQ and VL: 16 lanes, 32 registers, mask registers.
    Avx512,
    /// x86-64 with AVX2, FMA and F16C: 8 lanes, 16 registers.
    Avx2,
}

impl Isa {
    /// 32-bit lanes of one vector.
    pub fn lanes(self) -> u32 {
        match self {
            Isa::Avx512 => 16,
            Isa::Avx2 => 8,
        }
    }

    /// Vector registers.
    pub fn registers(self) -> u32 {
        match self {
            Isa::Avx512 => 32,
            Isa::Avx2 => 16,
        }
    }

    /// Returns whether one instruction multiplies by a power of 2: `VSCALEFPS`.
    pub fn scales(self) -> bool {
        self == Isa::Avx512
    }

    /// The spelling in records and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Isa::Avx512 => "avx512",
            Isa::Avx2 => "avx2",
        }
    }
}

//! The vector and mask instructions we use, as data for the encoder.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2.

/// The operand encoding of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// `reg = op(vvvv, rm)`; without a first source, `reg = op(rm)`.
    Rvm,
    /// `rm = op(reg)`: stores, and narrowing moves to registers.
    Mr,
    /// `vvvv = op(rm)`, with that number in place of `reg`: shifts by an immediate.
    Vm(u8),
}

/// The tuple type of an EVEX instruction: the memory access size, which scales 8-bit displacements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tuple {
    /// As many as the vector has; 4 with an embedded broadcast.
    Full,
    /// Half as many.
    Half,
    /// A quarter.
    Quarter,
    /// So many, whatever the width.
    Fixed(u8),
}

/// A VEX or EVEX instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opcode {
    /// The mandatory prefix: 0 is none, 1 is 66, 2 is F3, 3 is F2.
    pub prefix: u8,
    /// The table of opcodes: 1 is 0F, 2 is 0F 38, 3 is 0F 3A.
    pub map: u8,
    /// The opcode in that table.
    pub byte: u8,
    /// The bit W.
    pub wide: bool,
    pub form: Form,
    pub tuple: Tuple,
    /// Encoded with VEX whatever the instruction set: moves and logic of mask registers.
    pub vex_only: bool,
}

const NONE: u8 = 0;
const P66: u8 = 1;
const PF3: u8 = 2;
const PF2: u8 = 3;

const fn rvm(prefix: u8, map: u8, byte: u8) -> Opcode {
    let (form, tuple) = (Form::Rvm, Tuple::Full);
    Opcode { prefix, map, byte, wide: false, form, tuple, vex_only: false }
}

impl Opcode {
    const fn stores(self) -> Self {
        Self { form: Form::Mr, ..self }
    }

    const fn extended(self, digit: u8) -> Self {
        Self { form: Form::Vm(digit), ..self }
    }

    const fn moves(self, tuple: Tuple) -> Self {
        Self { tuple, ..self }
    }

    const fn wide(self) -> Self {
        Self { wide: true, ..self }
    }

    const fn vex(self) -> Self {
        Self { vex_only: true, ..self }
    }
}

// Moves.
pub(super) const MOVAPS: Opcode = rvm(NONE, 1, 0x28);
pub(super) const MOVUPS: Opcode = rvm(NONE, 1, 0x10);
pub(super) const MOVUPS_STORE: Opcode = rvm(NONE, 1, 0x11).stores();
pub(super) const MOVSS_STORE: Opcode = rvm(PF3, 1, 0x11).stores().moves(Tuple::Fixed(4));
pub(super) const MOVQ_STORE: Opcode = rvm(P66, 1, 0xd6).stores().moves(Tuple::Fixed(8));
pub(super) const MOVDQU8_STORE: Opcode = rvm(PF2, 1, 0x7f).stores();
pub(super) const MOVDQU16_STORE: Opcode = rvm(PF2, 1, 0x7f).stores().wide();
pub(super) const MASKMOVPS: Opcode = rvm(P66, 2, 0x2c);
pub(super) const MASKMOVPS_STORE: Opcode = rvm(P66, 2, 0x2e).stores();
pub(super) const BROADCASTSS: Opcode = rvm(P66, 2, 0x18).moves(Tuple::Fixed(4));
pub(super) const PBROADCASTB: Opcode = rvm(P66, 2, 0x78).moves(Tuple::Fixed(1));
pub(super) const PBROADCASTW: Opcode = rvm(P66, 2, 0x79).moves(Tuple::Fixed(2));
pub(super) const PBROADCASTD: Opcode = rvm(P66, 2, 0x58).moves(Tuple::Fixed(4));
pub(super) const PBROADCASTD_GPR: Opcode = rvm(P66, 2, 0x7c);
pub(super) const MOVD: Opcode = rvm(P66, 1, 0x6e).moves(Tuple::Fixed(4));
pub(super) const MOVD_STORE: Opcode = rvm(P66, 1, 0x7e).stores().moves(Tuple::Fixed(4));
pub(super) const GATHERDPS: Opcode = rvm(P66, 2, 0x92).moves(Tuple::Fixed(4));
pub(super) const SCATTERDPS: Opcode = rvm(P66, 2, 0xa2).stores().moves(Tuple::Fixed(4));

// Conversions.
pub(super) const PMOVSXBD: Opcode = rvm(P66, 2, 0x21).moves(Tuple::Quarter);
pub(super) const PMOVZXBD: Opcode = rvm(P66, 2, 0x31).moves(Tuple::Quarter);
pub(super) const PMOVZXWD: Opcode = rvm(P66, 2, 0x33).moves(Tuple::Half);
pub(super) const CVTPH2PS: Opcode = rvm(P66, 2, 0x13).moves(Tuple::Half);
pub(super) const CVTPS2PH: Opcode = rvm(P66, 3, 0x1d).stores().moves(Tuple::Half);
pub(super) const PMOVDB: Opcode = rvm(PF3, 2, 0x31).stores().moves(Tuple::Quarter);
pub(super) const PMOVDW: Opcode = rvm(PF3, 2, 0x33).stores().moves(Tuple::Half);
pub(super) const CVTDQ2PS: Opcode = rvm(NONE, 1, 0x5b);
pub(super) const CVTTPS2DQ: Opcode = rvm(PF3, 1, 0x5b);
pub(super) const PACKUSDW: Opcode = rvm(P66, 2, 0x2b);
pub(super) const PACKUSWB: Opcode = rvm(P66, 1, 0x67);

// Arithmetic on f32.
pub(super) const ADDPS: Opcode = rvm(NONE, 1, 0x58);
pub(super) const SUBPS: Opcode = rvm(NONE, 1, 0x5c);
pub(super) const MULPS: Opcode = rvm(NONE, 1, 0x59);
pub(super) const DIVPS: Opcode = rvm(NONE, 1, 0x5e);
pub(super) const MINPS: Opcode = rvm(NONE, 1, 0x5d);
pub(super) const MAXPS: Opcode = rvm(NONE, 1, 0x5f);
pub(super) const SQRTPS: Opcode = rvm(NONE, 1, 0x51);
/// `reg = vvvv * 2^floor(rm)`; EVEX only.
pub(super) const SCALEFPS: Opcode = rvm(P66, 2, 0x2c);
/// `vroundps`; under EVEX the same bytes are `vrndscaleps`.
pub(super) const ROUNDPS: Opcode = rvm(P66, 3, 0x08);
/// `reg = reg * rm + vvvv`.
pub(super) const FMADD132PS: Opcode = rvm(P66, 2, 0x98);
/// `reg = vvvv * reg + rm`.
pub(super) const FMADD213PS: Opcode = rvm(P66, 2, 0xa8);
/// `reg = vvvv * rm + reg`.
pub(super) const FMADD231PS: Opcode = rvm(P66, 2, 0xb8);

// Arithmetic on i32, and bits.
pub(super) const PADDD: Opcode = rvm(P66, 1, 0xfe);
pub(super) const PSUBD: Opcode = rvm(P66, 1, 0xfa);
pub(super) const PMULLD: Opcode = rvm(P66, 2, 0x40);
pub(super) const PMINSD: Opcode = rvm(P66, 2, 0x39);
pub(super) const PMAXSD: Opcode = rvm(P66, 2, 0x3d);
pub(super) const PAND: Opcode = rvm(P66, 1, 0xdb);
pub(super) const POR: Opcode = rvm(P66, 1, 0xeb);
pub(super) const PXOR: Opcode = rvm(P66, 1, 0xef);
pub(super) const PSLLD: Opcode = rvm(P66, 1, 0x72).extended(6);
pub(super) const PSRLD: Opcode = rvm(P66, 1, 0x72).extended(2);
pub(super) const PSRAD: Opcode = rvm(P66, 1, 0x72).extended(4);
/// By as many bits as each lane of `rm` says.
pub(super) const PSLLVD: Opcode = rvm(P66, 2, 0x47);
pub(super) const PSRLVD: Opcode = rvm(P66, 2, 0x45);
pub(super) const PSRAVD: Opcode = rvm(P66, 2, 0x46);

// Comparisons and choices. Under EVEX, comparisons write mask registers.
pub(super) const CMPPS: Opcode = rvm(NONE, 1, 0xc2);
pub(super) const PCMPEQD: Opcode = rvm(P66, 1, 0x76);
pub(super) const PCMPGTD: Opcode = rvm(P66, 1, 0x66);
pub(super) const PCMPD: Opcode = rvm(P66, 3, 0x1f);
pub(super) const PTESTMD: Opcode = rvm(P66, 2, 0x27);
pub(super) const BLENDVPS: Opcode = rvm(P66, 3, 0x4a);
pub(super) const BLENDMPS: Opcode = rvm(P66, 2, 0x65);
pub(super) const PMOVM2D: Opcode = rvm(PF3, 2, 0x38);
pub(super) const PMOVD2M: Opcode = rvm(PF3, 2, 0x39);
pub(super) const MOVMSKPS: Opcode = rvm(NONE, 1, 0x50);

// Permutations.
pub(super) const PERMILPS: Opcode = rvm(P66, 3, 0x04);
pub(super) const PERM2F128: Opcode = rvm(P66, 3, 0x06);
pub(super) const SHUFF32X4: Opcode = rvm(P66, 3, 0x23);
pub(super) const UNPCKLPS: Opcode = rvm(NONE, 1, 0x14);
pub(super) const UNPCKHPS: Opcode = rvm(NONE, 1, 0x15);
/// `vinsertf128`; under EVEX the same bytes are `vinsertf32x4`.
pub(super) const INSERT128: Opcode = rvm(P66, 3, 0x18).moves(Tuple::Fixed(16));
/// `vextractf128`; under EVEX the same bytes are `vextractf32x4`.
pub(super) const EXTRACT128_STORE: Opcode = rvm(P66, 3, 0x19).stores().moves(Tuple::Fixed(16));
pub(super) const SHUFPS: Opcode = rvm(NONE, 1, 0xc6);
/// `reg = elements of vvvv and rm, by their numbers in reg`; EVEX only.
pub(super) const PERMI2PS: Opcode = rvm(P66, 2, 0x77);
pub(super) const PERMQ: Opcode = rvm(P66, 3, 0x00).wide();

// Mask registers.
pub(super) const KMOVW: Opcode = rvm(NONE, 1, 0x90).vex();
pub(super) const KMOVW_STORE: Opcode = rvm(NONE, 1, 0x91).stores().vex();
pub(super) const KMOVW_FROM_GPR: Opcode = rvm(NONE, 1, 0x92).vex();
pub(super) const KANDW: Opcode = rvm(NONE, 1, 0x41).vex();
pub(super) const KORW: Opcode = rvm(NONE, 1, 0x45).vex();
pub(super) const KXORW: Opcode = rvm(NONE, 1, 0x47).vex();
/// Sets the zero flag if no bit of either is set; `vvvv` is unused.
pub(super) const KORTESTW: Opcode = rvm(NONE, 1, 0x98).vex();

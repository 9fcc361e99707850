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
    /// An eighth.
    Eighth,
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
    /// The bit W under EVEX, where the same instruction has none under VEX.
    pub wide_evex: bool,
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
    Opcode { prefix, map, byte, wide: false, wide_evex: false, form, tuple, vex_only: false }
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

    /// On lanes of 64 bits: W is set under EVEX only.
    const fn long(self) -> Self {
        Self { wide_evex: true, ..self }
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
pub(super) const MOVQ_STORE: Opcode = rvm(P66, 1, 0xd6).stores().moves(Tuple::Fixed(8)).long();
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
// The same with the product negated.
pub(super) const FNMADD132PS: Opcode = rvm(P66, 2, 0x9c);
pub(super) const FNMADD213PS: Opcode = rvm(P66, 2, 0xac);
pub(super) const FNMADD231PS: Opcode = rvm(P66, 2, 0xbc);

// Arithmetic on i32, and bits.
pub(super) const PADDD: Opcode = rvm(P66, 1, 0xfe);
pub(super) const PSUBD: Opcode = rvm(P66, 1, 0xfa);
pub(super) const PMULLD: Opcode = rvm(P66, 2, 0x40);
pub(super) const PMADDWD: Opcode = rvm(P66, 1, 0xf5);
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

// Arithmetic on bytes.
pub(super) const PADDB: Opcode = rvm(P66, 1, 0xfc);
pub(super) const PSUBB: Opcode = rvm(P66, 1, 0xf8);
pub(super) const PMINSB: Opcode = rvm(P66, 2, 0x38);
pub(super) const PMAXSB: Opcode = rvm(P66, 2, 0x3c);
pub(super) const PMINUB: Opcode = rvm(P66, 1, 0xda);
pub(super) const PMAXUB: Opcode = rvm(P66, 1, 0xde);

// Comparisons and choices. Under EVEX, comparisons write mask registers.
pub(super) const CMPPS: Opcode = rvm(NONE, 1, 0xc2);
pub(super) const PCMPEQD: Opcode = rvm(P66, 1, 0x76);
pub(super) const PCMPGTD: Opcode = rvm(P66, 1, 0x66);
pub(super) const PCMPD: Opcode = rvm(P66, 3, 0x1f);
pub(super) const PTESTMD: Opcode = rvm(P66, 2, 0x27);
/// Chooses lanes by the bits of the immediate operand.
pub(super) const BLENDPS: Opcode = rvm(P66, 3, 0x0c);
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
pub(super) const KNOTW: Opcode = rvm(NONE, 1, 0x44).vex();
/// Of 8 lanes; the other bits become 0.
pub(super) const KNOTB: Opcode = rvm(P66, 1, 0x44).vex();
pub(super) const KANDW: Opcode = rvm(NONE, 1, 0x41).vex();
pub(super) const KORW: Opcode = rvm(NONE, 1, 0x45).vex();
pub(super) const KXORW: Opcode = rvm(NONE, 1, 0x47).vex();
/// Sets the zero flag if no bit of either is set; `vvvv` is unused.
pub(super) const KORTESTW: Opcode = rvm(NONE, 1, 0x98).vex();

// Lanes of 64 bits.
pub(super) const MOVUPD: Opcode = rvm(P66, 1, 0x10).long();
pub(super) const MOVUPD_STORE: Opcode = rvm(P66, 1, 0x11).stores().long();
pub(super) const MOVSD_STORE: Opcode = rvm(PF2, 1, 0x11).stores().moves(Tuple::Fixed(8)).long();
pub(super) const MASKMOVPD: Opcode = rvm(P66, 2, 0x2d);
pub(super) const MASKMOVPD_STORE: Opcode = rvm(P66, 2, 0x2f).stores();
pub(super) const BROADCASTSD: Opcode = rvm(P66, 2, 0x19).moves(Tuple::Fixed(8)).long();
pub(super) const PBROADCASTQ: Opcode = rvm(P66, 2, 0x59).moves(Tuple::Fixed(8)).long();
pub(super) const PBROADCASTQ_GPR: Opcode = rvm(P66, 2, 0x7c).wide();
pub(super) const MOVQ: Opcode = rvm(P66, 1, 0x6e).moves(Tuple::Fixed(8)).wide();
pub(super) const MOVQ_TO_GPR: Opcode = rvm(P66, 1, 0x7e).stores().moves(Tuple::Fixed(8)).wide();
pub(super) const GATHERQPD: Opcode = rvm(P66, 2, 0x93).moves(Tuple::Fixed(8)).wide();
pub(super) const SCATTERQPD: Opcode = rvm(P66, 2, 0xa3).stores().moves(Tuple::Fixed(8)).wide();
pub(super) const PMOVSXBQ: Opcode = rvm(P66, 2, 0x22).moves(Tuple::Eighth);
pub(super) const PMOVZXBQ: Opcode = rvm(P66, 2, 0x32).moves(Tuple::Eighth);
pub(super) const PMOVSXDQ: Opcode = rvm(P66, 2, 0x25).moves(Tuple::Half);
pub(super) const PMOVZXDQ: Opcode = rvm(P66, 2, 0x35).moves(Tuple::Half);
pub(super) const PMOVQB: Opcode = rvm(PF3, 2, 0x32).stores().moves(Tuple::Eighth);
pub(super) const PMOVQD: Opcode = rvm(PF3, 2, 0x35).stores().moves(Tuple::Half);
pub(super) const CVTPS2PD: Opcode = rvm(NONE, 1, 0x5a).moves(Tuple::Half);
pub(super) const CVTPD2PS: Opcode = rvm(P66, 1, 0x5a).long();
/// AVX-512 only, as the next one.
pub(super) const CVTQQ2PD: Opcode = rvm(PF3, 1, 0xe6).wide();
pub(super) const CVTTPD2QQ: Opcode = rvm(P66, 1, 0x7a).wide();
pub(super) const PSHUFB: Opcode = rvm(P66, 2, 0x00);
pub(super) const PERMD: Opcode = rvm(P66, 2, 0x36);
pub(super) const PSHUFD: Opcode = rvm(P66, 1, 0x70);
pub(super) const ADDPD: Opcode = rvm(P66, 1, 0x58).long();
pub(super) const SUBPD: Opcode = rvm(P66, 1, 0x5c).long();
pub(super) const MULPD: Opcode = rvm(P66, 1, 0x59).long();
pub(super) const DIVPD: Opcode = rvm(P66, 1, 0x5e).long();
pub(super) const MINPD: Opcode = rvm(P66, 1, 0x5d).long();
pub(super) const MAXPD: Opcode = rvm(P66, 1, 0x5f).long();
pub(super) const SQRTPD: Opcode = rvm(P66, 1, 0x51).long();
pub(super) const ROUNDPD: Opcode = rvm(P66, 3, 0x09).long();
pub(super) const FMADD132PD: Opcode = rvm(P66, 2, 0x98).wide();
pub(super) const FMADD213PD: Opcode = rvm(P66, 2, 0xa8).wide();
pub(super) const FMADD231PD: Opcode = rvm(P66, 2, 0xb8).wide();
pub(super) const FNMADD132PD: Opcode = rvm(P66, 2, 0x9c).wide();
pub(super) const FNMADD213PD: Opcode = rvm(P66, 2, 0xac).wide();
pub(super) const FNMADD231PD: Opcode = rvm(P66, 2, 0xbc).wide();
pub(super) const PADDQ: Opcode = rvm(P66, 1, 0xd4).long();
pub(super) const PSUBQ: Opcode = rvm(P66, 1, 0xfb).long();
/// Products of the low halves of lanes, with signs or without.
pub(super) const PMULDQ: Opcode = rvm(P66, 2, 0x28).long();
pub(super) const PMULUDQ: Opcode = rvm(P66, 1, 0xf4).long();
/// AVX-512 only, as the next four.
pub(super) const PMULLQ: Opcode = rvm(P66, 2, 0x40).wide();
pub(super) const PMINSQ: Opcode = rvm(P66, 2, 0x39).wide();
pub(super) const PMAXSQ: Opcode = rvm(P66, 2, 0x3d).wide();
pub(super) const PSRAQ: Opcode = rvm(P66, 1, 0x72).extended(4).wide();
pub(super) const PSRAVQ: Opcode = rvm(P66, 2, 0x46).wide();
pub(super) const PANDQ: Opcode = PAND.long();
pub(super) const PORQ: Opcode = POR.long();
pub(super) const PXORQ: Opcode = PXOR.long();
pub(super) const PSLLQ: Opcode = rvm(P66, 1, 0x73).extended(6).long();
pub(super) const PSRLQ: Opcode = rvm(P66, 1, 0x73).extended(2).long();
pub(super) const PSLLVQ: Opcode = PSLLVD.wide();
pub(super) const PSRLVQ: Opcode = PSRLVD.wide();
pub(super) const CMPPD: Opcode = rvm(P66, 1, 0xc2).long();
pub(super) const PCMPEQQ: Opcode = rvm(P66, 2, 0x29);
pub(super) const PCMPGTQ: Opcode = rvm(P66, 2, 0x37);
pub(super) const PCMPQ: Opcode = PCMPD.wide();
pub(super) const PTESTMQ: Opcode = PTESTMD.wide();
pub(super) const BLENDVPD: Opcode = rvm(P66, 3, 0x4b);
pub(super) const BLENDMPD: Opcode = BLENDMPS.wide();
pub(super) const PMOVM2Q: Opcode = PMOVM2D.wide();
pub(super) const PMOVQ2M: Opcode = PMOVD2M.wide();
pub(super) const MOVMSKPD: Opcode = rvm(P66, 1, 0x50);

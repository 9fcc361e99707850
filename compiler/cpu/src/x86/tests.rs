//! Encodings against an independent disassembler.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

use super::encode::{Assembler, Fields, Gpr, Mem, PhysBase, Rm, Width};
use super::opcode::{self as op, Form, Opcode};

/// An instruction: its name, and for each operand the letter of its register file and where it is
/// encoded: 0 in `reg`, 1 in `vvvv`, 2 in `rm`, 3 in the immediate.
type Case = (Opcode, Width, &'static str, &'static str);

use Width::{W128, W256, W512};

const EVEX: &[Case] = &[
    (op::MOVAPS, W512, "vmovaps", "z0 z2"),
    (op::MOVUPS, W512, "vmovups", "z0 z2"),
    (op::MOVUPS, W128, "vmovups", "x0 x2"),
    (op::MOVUPS_STORE, W512, "vmovups", "z2 z0"),
    (op::MOVUPS_STORE, W256, "vmovups", "y2 y0"),
    (op::MOVDQU8_STORE, W128, "vmovdqu8", "x2 x0"),
    (op::MOVDQU16_STORE, W256, "vmovdqu16", "y2 y0"),
    (op::BROADCASTSS, W512, "vbroadcastss", "z0 x2"),
    (op::PBROADCASTB, W512, "vpbroadcastb", "z0 x2"),
    (op::PBROADCASTW, W512, "vpbroadcastw", "z0 x2"),
    (op::PBROADCASTD, W512, "vpbroadcastd", "z0 x2"),
    (op::PMOVSXBD, W512, "vpmovsxbd", "z0 x2"),
    (op::PMOVZXBD, W512, "vpmovzxbd", "z0 x2"),
    (op::PMOVZXWD, W512, "vpmovzxwd", "z0 y2"),
    (op::CVTPH2PS, W512, "vcvtph2ps", "z0 y2"),
    (op::CVTPS2PH, W512, "vcvtps2ph", "y2 z0 i3"),
    (op::PMOVDB, W512, "vpmovdb", "x2 z0"),
    (op::PMOVDW, W512, "vpmovdw", "y2 z0"),
    (op::CVTDQ2PS, W512, "vcvtdq2ps", "z0 z2"),
    (op::CVTTPS2DQ, W512, "vcvttps2dq", "z0 z2"),
    (op::ADDPS, W512, "vaddps", "z0 z1 z2"),
    (op::SUBPS, W512, "vsubps", "z0 z1 z2"),
    (op::MULPS, W512, "vmulps", "z0 z1 z2"),
    (op::DIVPS, W512, "vdivps", "z0 z1 z2"),
    (op::MINPS, W512, "vminps", "z0 z1 z2"),
    (op::MAXPS, W512, "vmaxps", "z0 z1 z2"),
    (op::SQRTPS, W512, "vsqrtps", "z0 z2"),
    (op::SCALEFPS, W512, "vscalefps", "z0 z1 z2"),
    (op::ROUNDPS, W512, "vrndscaleps", "z0 z2 i3"),
    (op::FMADD132PS, W512, "vfmadd132ps", "z0 z1 z2"),
    (op::FMADD213PS, W512, "vfmadd213ps", "z0 z1 z2"),
    (op::FMADD231PS, W512, "vfmadd231ps", "z0 z1 z2"),
    (op::FNMADD132PS, W512, "vfnmadd132ps", "z0 z1 z2"),
    (op::FNMADD213PS, W512, "vfnmadd213ps", "z0 z1 z2"),
    (op::FNMADD231PS, W512, "vfnmadd231ps", "z0 z1 z2"),
    (op::PADDD, W512, "vpaddd", "z0 z1 z2"),
    (op::PSUBD, W512, "vpsubd", "z0 z1 z2"),
    (op::PMULLD, W512, "vpmulld", "z0 z1 z2"),
    (op::PMINSD, W512, "vpminsd", "z0 z1 z2"),
    (op::PMAXSD, W512, "vpmaxsd", "z0 z1 z2"),
    (op::PAND, W512, "vpandd", "z0 z1 z2"),
    (op::POR, W512, "vpord", "z0 z1 z2"),
    (op::PXOR, W512, "vpxord", "z0 z1 z2"),
    (op::PSLLD, W512, "vpslld", "z1 z2 i3"),
    (op::PSRLD, W512, "vpsrld", "z1 z2 i3"),
    (op::PSRAD, W512, "vpsrad", "z1 z2 i3"),
    (op::PSLLVD, W512, "vpsllvd", "z0 z1 z2"),
    (op::PSRLVD, W512, "vpsrlvd", "z0 z1 z2"),
    (op::PSRAVD, W512, "vpsravd", "z0 z1 z2"),
    (op::CMPPS, W512, "vcmpps", "k0 z1 z2 i3"),
    (op::PCMPD, W512, "vpcmpd", "k0 z1 z2 i3"),
    (op::PTESTMD, W512, "vptestmd", "k0 z1 z2"),
    (op::BLENDMPS, W512, "vblendmps", "z0 z1 z2"),
    (op::PERMILPS, W512, "vpermilps", "z0 z2 i3"),
    (op::PERMI2PS, W512, "vpermi2ps", "z0 z1 z2"),
    (op::SHUFF32X4, W512, "vshuff32x4", "z0 z1 z2 i3"),
    (op::SHUFPS, W512, "vshufps", "z0 z1 z2 i3"),
    (op::UNPCKLPS, W512, "vunpcklps", "z0 z1 z2"),
    (op::UNPCKHPS, W512, "vunpckhps", "z0 z1 z2"),
    (op::INSERT128, W512, "vinsertf32x4", "z0 z1 x2 i3"),
    (op::EXTRACT128_STORE, W512, "vextractf32x4", "x2 z0 i3"),
    (op::MOVUPS_STORE, W128, "vmovups", "x2 x0"),
    (op::MOVUPD, W512, "vmovupd", "z0 z2"),
    (op::MOVUPD_STORE, W512, "vmovupd", "z2 z0"),
    (op::BROADCASTSD, W512, "vbroadcastsd", "z0 x2"),
    (op::PBROADCASTQ, W512, "vpbroadcastq", "z0 x2"),
    (op::PMOVSXBQ, W512, "vpmovsxbq", "z0 x2"),
    (op::PMOVZXBQ, W512, "vpmovzxbq", "z0 x2"),
    (op::PMOVSXDQ, W512, "vpmovsxdq", "z0 y2"),
    (op::PMOVZXDQ, W512, "vpmovzxdq", "z0 y2"),
    (op::PMOVQB, W512, "vpmovqb", "x2 z0"),
    (op::PMOVQD, W512, "vpmovqd", "y2 z0"),
    (op::CVTPS2PD, W512, "vcvtps2pd", "z0 y2"),
    (op::CVTPD2PS, W512, "vcvtpd2ps", "y0 z2"),
    (op::CVTQQ2PD, W512, "vcvtqq2pd", "z0 z2"),
    (op::CVTTPD2QQ, W512, "vcvttpd2qq", "z0 z2"),
    (op::ADDPD, W512, "vaddpd", "z0 z1 z2"),
    (op::SUBPD, W512, "vsubpd", "z0 z1 z2"),
    (op::MULPD, W512, "vmulpd", "z0 z1 z2"),
    (op::DIVPD, W512, "vdivpd", "z0 z1 z2"),
    (op::MINPD, W512, "vminpd", "z0 z1 z2"),
    (op::MAXPD, W512, "vmaxpd", "z0 z1 z2"),
    (op::SQRTPD, W512, "vsqrtpd", "z0 z2"),
    (op::ROUNDPD, W512, "vrndscalepd", "z0 z2 i3"),
    (op::FMADD132PD, W512, "vfmadd132pd", "z0 z1 z2"),
    (op::FMADD213PD, W512, "vfmadd213pd", "z0 z1 z2"),
    (op::FMADD231PD, W512, "vfmadd231pd", "z0 z1 z2"),
    (op::FNMADD132PD, W512, "vfnmadd132pd", "z0 z1 z2"),
    (op::FNMADD213PD, W512, "vfnmadd213pd", "z0 z1 z2"),
    (op::FNMADD231PD, W512, "vfnmadd231pd", "z0 z1 z2"),
    (op::PADDQ, W512, "vpaddq", "z0 z1 z2"),
    (op::PSUBQ, W512, "vpsubq", "z0 z1 z2"),
    (op::PMULDQ, W512, "vpmuldq", "z0 z1 z2"),
    (op::PMULLQ, W512, "vpmullq", "z0 z1 z2"),
    (op::PMINSQ, W512, "vpminsq", "z0 z1 z2"),
    (op::PMAXSQ, W512, "vpmaxsq", "z0 z1 z2"),
    (op::PANDQ, W512, "vpandq", "z0 z1 z2"),
    (op::PORQ, W512, "vporq", "z0 z1 z2"),
    (op::PXORQ, W512, "vpxorq", "z0 z1 z2"),
    (op::PSLLQ, W512, "vpsllq", "z1 z2 i3"),
    (op::PSRLQ, W512, "vpsrlq", "z1 z2 i3"),
    (op::PSRAQ, W512, "vpsraq", "z1 z2 i3"),
    (op::PSLLVQ, W512, "vpsllvq", "z0 z1 z2"),
    (op::PSRLVQ, W512, "vpsrlvq", "z0 z1 z2"),
    (op::PSRAVQ, W512, "vpsravq", "z0 z1 z2"),
    (op::CMPPD, W512, "vcmppd", "k0 z1 z2 i3"),
    (op::PCMPQ, W512, "vpcmpq", "k0 z1 z2 i3"),
    (op::PTESTMQ, W512, "vptestmq", "k0 z1 z2"),
    (op::BLENDMPD, W512, "vblendmpd", "z0 z1 z2"),
];

/// On bytes and on 16 bits: without broadcasts.
const EVEX_BYTES: &[Case] = &[
    (op::PMADDWD, W512, "vpmaddwd", "z0 z1 z2"),
    (op::PADDB, W512, "vpaddb", "z0 z1 z2"),
    (op::PSUBB, W512, "vpsubb", "z0 z1 z2"),
    (op::PMINSB, W512, "vpminsb", "z0 z1 z2"),
    (op::PMAXSB, W512, "vpmaxsb", "z0 z1 z2"),
    (op::PMINUB, W512, "vpminub", "z0 z1 z2"),
    (op::PMAXUB, W512, "vpmaxub", "z0 z1 z2"),
    (op::PADDB, W256, "vpaddb", "y0 y1 y2"),
    (op::PSUBB, W256, "vpsubb", "y0 y1 y2"),
    (op::PMINSB, W256, "vpminsb", "y0 y1 y2"),
    (op::PMAXSB, W256, "vpmaxsb", "y0 y1 y2"),
    (op::PMINUB, W256, "vpminub", "y0 y1 y2"),
    (op::PMAXUB, W256, "vpmaxub", "y0 y1 y2"),
    (op::PADDB, W128, "vpaddb", "x0 x1 x2"),
    (op::PSUBB, W128, "vpsubb", "x0 x1 x2"),
    (op::PMINSB, W128, "vpminsb", "x0 x1 x2"),
    (op::PMAXSB, W128, "vpmaxsb", "x0 x1 x2"),
    (op::PMINUB, W128, "vpminub", "x0 x1 x2"),
    (op::PMAXUB, W128, "vpmaxub", "x0 x1 x2"),
];

const EVEX_REGISTERS: &[Case] = &[
    (op::PBROADCASTD_GPR, W512, "vpbroadcastd", "z0 d2"),
    (op::PMOVM2D, W512, "vpmovm2d", "z0 k2"),
    (op::PMOVD2M, W512, "vpmovd2m", "k0 z2"),
    (op::PBROADCASTQ_GPR, W512, "vpbroadcastq", "z0 r2"),
    (op::PMOVM2Q, W512, "vpmovm2q", "z0 k2"),
    (op::PMOVQ2M, W512, "vpmovq2m", "k0 z2"),
    (op::MOVD_STORE, W128, "vmovd", "d2 x0"),
    (op::MOVQ_TO_GPR, W128, "vmovq", "r2 x0"),
];

/// Those without a form in registers, or with another name there.
const EVEX_MEMORY: &[Case] = &[
    (op::MOVSS_STORE, W128, "vmovss", "x2 x0"),
    (op::MOVSD_STORE, W128, "vmovsd", "x2 x0"),
    (op::MOVQ_STORE, W128, "vmovq", "x2 x0"),
];

const VEX: &[Case] = &[
    (op::MOVAPS, W256, "vmovaps", "y0 y2"),
    (op::MOVUPS, W256, "vmovups", "y0 y2"),
    (op::MOVUPS_STORE, W256, "vmovups", "y2 y0"),
    (op::MOVUPS_STORE, W128, "vmovups", "x2 x0"),
    (op::BROADCASTSS, W256, "vbroadcastss", "y0 x2"),
    (op::PBROADCASTB, W256, "vpbroadcastb", "y0 x2"),
    (op::PBROADCASTW, W256, "vpbroadcastw", "y0 x2"),
    (op::PBROADCASTW, W128, "vpbroadcastw", "x0 x2"),
    (op::PBROADCASTD, W256, "vpbroadcastd", "y0 x2"),
    (op::MOVD, W128, "vmovd", "x0 d2"),
    (op::PMOVSXBD, W256, "vpmovsxbd", "y0 x2"),
    (op::PMOVZXBD, W256, "vpmovzxbd", "y0 x2"),
    (op::PMOVZXWD, W256, "vpmovzxwd", "y0 x2"),
    (op::CVTPH2PS, W256, "vcvtph2ps", "y0 x2"),
    (op::CVTPS2PH, W256, "vcvtps2ph", "x2 y0 i3"),
    (op::CVTDQ2PS, W256, "vcvtdq2ps", "y0 y2"),
    (op::CVTTPS2DQ, W256, "vcvttps2dq", "y0 y2"),
    (op::PACKUSDW, W256, "vpackusdw", "y0 y1 y2"),
    (op::PACKUSWB, W256, "vpackuswb", "y0 y1 y2"),
    (op::ADDPS, W256, "vaddps", "y0 y1 y2"),
    (op::SUBPS, W256, "vsubps", "y0 y1 y2"),
    (op::MULPS, W256, "vmulps", "y0 y1 y2"),
    (op::DIVPS, W256, "vdivps", "y0 y1 y2"),
    (op::MINPS, W256, "vminps", "y0 y1 y2"),
    (op::MAXPS, W256, "vmaxps", "y0 y1 y2"),
    (op::SQRTPS, W256, "vsqrtps", "y0 y2"),
    (op::ROUNDPS, W256, "vroundps", "y0 y2 i3"),
    (op::FMADD132PS, W256, "vfmadd132ps", "y0 y1 y2"),
    (op::FMADD213PS, W256, "vfmadd213ps", "y0 y1 y2"),
    (op::FMADD231PS, W256, "vfmadd231ps", "y0 y1 y2"),
    (op::FNMADD132PS, W256, "vfnmadd132ps", "y0 y1 y2"),
    (op::FNMADD213PS, W256, "vfnmadd213ps", "y0 y1 y2"),
    (op::FNMADD231PS, W256, "vfnmadd231ps", "y0 y1 y2"),
    (op::PADDD, W256, "vpaddd", "y0 y1 y2"),
    (op::PSUBD, W256, "vpsubd", "y0 y1 y2"),
    (op::PMULLD, W256, "vpmulld", "y0 y1 y2"),
    (op::PMADDWD, W256, "vpmaddwd", "y0 y1 y2"),
    (op::PMINSD, W256, "vpminsd", "y0 y1 y2"),
    (op::PADDB, W256, "vpaddb", "y0 y1 y2"),
    (op::PSUBB, W256, "vpsubb", "y0 y1 y2"),
    (op::PMINSB, W256, "vpminsb", "y0 y1 y2"),
    (op::PMAXSB, W256, "vpmaxsb", "y0 y1 y2"),
    (op::PMINUB, W256, "vpminub", "y0 y1 y2"),
    (op::PMAXUB, W256, "vpmaxub", "y0 y1 y2"),
    (op::PMAXSD, W256, "vpmaxsd", "y0 y1 y2"),
    (op::PAND, W256, "vpand", "y0 y1 y2"),
    (op::POR, W256, "vpor", "y0 y1 y2"),
    (op::PXOR, W128, "vpxor", "x0 x1 x2"),
    (op::PSLLVD, W256, "vpsllvd", "y0 y1 y2"),
    (op::PSRLVD, W256, "vpsrlvd", "y0 y1 y2"),
    (op::PSRAVD, W256, "vpsravd", "y0 y1 y2"),
    (op::CMPPS, W256, "vcmpps", "y0 y1 y2 i3"),
    (op::PCMPEQD, W256, "vpcmpeqd", "y0 y1 y2"),
    (op::PCMPGTD, W256, "vpcmpgtd", "y0 y1 y2"),
    (op::PERMILPS, W256, "vpermilps", "y0 y2 i3"),
    (op::PERM2F128, W256, "vperm2f128", "y0 y1 y2 i3"),
    (op::SHUFPS, W256, "vshufps", "y0 y1 y2 i3"),
    (op::BLENDPS, W256, "vblendps", "y0 y1 y2 i3"),
    (op::UNPCKLPS, W256, "vunpcklps", "y0 y1 y2"),
    (op::UNPCKHPS, W256, "vunpckhps", "y0 y1 y2"),
    (op::INSERT128, W256, "vinsertf128", "y0 y1 x2 i3"),
    (op::EXTRACT128_STORE, W256, "vextractf128", "x2 y0 i3"),
    (op::MOVUPS, W128, "vmovups", "x0 x2"),
    (op::PERMQ, W256, "vpermq", "y0 y2 i3"),
    (op::BROADCASTSD, W256, "vbroadcastsd", "y0 x2"),
    (op::PBROADCASTQ, W256, "vpbroadcastq", "y0 x2"),
    (op::PMOVSXBQ, W256, "vpmovsxbq", "y0 x2"),
    (op::PMOVZXBQ, W256, "vpmovzxbq", "y0 x2"),
    (op::PMOVSXDQ, W256, "vpmovsxdq", "y0 x2"),
    (op::PMOVZXDQ, W256, "vpmovzxdq", "y0 x2"),
    (op::CVTPS2PD, W256, "vcvtps2pd", "y0 x2"),
    (op::CVTPD2PS, W256, "vcvtpd2ps", "x0 y2"),
    (op::PERMD, W256, "vpermd", "y0 y1 y2"),
    (op::PSHUFB, W256, "vpshufb", "y0 y1 y2"),
    (op::PSHUFD, W256, "vpshufd", "y0 y2 i3"),
    (op::ADDPD, W256, "vaddpd", "y0 y1 y2"),
    (op::SUBPD, W256, "vsubpd", "y0 y1 y2"),
    (op::MULPD, W256, "vmulpd", "y0 y1 y2"),
    (op::DIVPD, W256, "vdivpd", "y0 y1 y2"),
    (op::MINPD, W256, "vminpd", "y0 y1 y2"),
    (op::MAXPD, W256, "vmaxpd", "y0 y1 y2"),
    (op::SQRTPD, W256, "vsqrtpd", "y0 y2"),
    (op::ROUNDPD, W256, "vroundpd", "y0 y2 i3"),
    (op::FMADD132PD, W256, "vfmadd132pd", "y0 y1 y2"),
    (op::FMADD213PD, W256, "vfmadd213pd", "y0 y1 y2"),
    (op::FMADD231PD, W256, "vfmadd231pd", "y0 y1 y2"),
    (op::FNMADD132PD, W256, "vfnmadd132pd", "y0 y1 y2"),
    (op::FNMADD213PD, W256, "vfnmadd213pd", "y0 y1 y2"),
    (op::FNMADD231PD, W256, "vfnmadd231pd", "y0 y1 y2"),
    (op::PADDQ, W256, "vpaddq", "y0 y1 y2"),
    (op::PSUBQ, W256, "vpsubq", "y0 y1 y2"),
    (op::PMULDQ, W256, "vpmuldq", "y0 y1 y2"),
    (op::PMULUDQ, W256, "vpmuludq", "y0 y1 y2"),
    (op::PANDQ, W256, "vpand", "y0 y1 y2"),
    (op::PORQ, W256, "vpor", "y0 y1 y2"),
    (op::PXORQ, W256, "vpxor", "y0 y1 y2"),
    (op::PSLLVQ, W256, "vpsllvq", "y0 y1 y2"),
    (op::PSRLVQ, W256, "vpsrlvq", "y0 y1 y2"),
    (op::CMPPD, W256, "vcmppd", "y0 y1 y2 i3"),
    (op::PCMPEQQ, W256, "vpcmpeqq", "y0 y1 y2"),
    (op::PCMPGTQ, W256, "vpcmpgtq", "y0 y1 y2"),
];

const VEX_REGISTERS: &[Case] = &[
    (op::PSLLD, W256, "vpslld", "y1 y2 i3"),
    (op::PSRLD, W256, "vpsrld", "y1 y2 i3"),
    (op::PSRAD, W256, "vpsrad", "y1 y2 i3"),
    (op::MOVMSKPS, W256, "vmovmskps", "d0 y2"),
    (op::PSLLQ, W256, "vpsllq", "y1 y2 i3"),
    (op::PSRLQ, W256, "vpsrlq", "y1 y2 i3"),
    (op::MOVMSKPD, W256, "vmovmskpd", "d0 y2"),
    (op::MOVQ, W128, "vmovq", "x0 r2"),
    (op::MOVD_STORE, W128, "vmovd", "d2 x0"),
    (op::MOVQ_TO_GPR, W128, "vmovq", "r2 x0"),
];

const VEX_MEMORY: &[Case] = &[
    (op::MASKMOVPS, W256, "vmaskmovps", "y0 y1 y2"),
    (op::MASKMOVPS, W128, "vmaskmovps", "x0 x1 x2"),
    (op::MASKMOVPS_STORE, W256, "vmaskmovps", "y2 y1 y0"),
    (op::MOVSS_STORE, W128, "vmovss", "x2 x0"),
    (op::MOVQ_STORE, W128, "vmovq", "x2 x0"),
    (op::MASKMOVPD, W256, "vmaskmovpd", "y0 y1 y2"),
    (op::MASKMOVPD_STORE, W256, "vmaskmovpd", "y2 y1 y0"),
    (op::MOVSD_STORE, W128, "vmovsd", "x2 x0"),
];

/// Those on mask registers.
const ALLOCATABLE_MASKS: &[Case] = &[
    (op::KMOVW, W128, "kmovw", "k0 k2"),
    (op::KMOVW_FROM_GPR, W128, "kmovw", "k0 d2"),
    (op::KORTESTW, W128, "kortestw", "k0 k2"),
    (op::KNOTW, W128, "knotw", "k0 k2"),
    (op::KNOTB, W128, "knotb", "k0 k2"),
    (op::KANDW, W256, "kandw", "k0 k1 k2"),
    (op::KORW, W256, "korw", "k0 k1 k2"),
    (op::KXORW, W256, "kxorw", "k0 k1 k2"),
];

const MASKS_MEMORY: &[Case] =
    &[(op::KMOVW, W128, "kmovw", "k0 k2"), (op::KMOVW_STORE, W128, "kmovw", "k2 k0")];

const IMM: u8 = 0x5a;

/// The general registers that may be the base of an address, and every kind of displacement.
fn memories() -> Vec<Mem> {
    let mut result = Vec::new();
    for base in 0..16 {
        for disp in [0, 1, 4, 64, -64, 127, 128, -128, 4096, 8128, -8192, 8192, -100_000] {
            result.push(Mem { base: PhysBase::Gpr(Gpr(base)), index: None, disp });
        }
        for (index, scale) in [(0, 1), (5, 2), (12, 4), (15, 8)] {
            result.push(Mem {
                base: PhysBase::Gpr(Gpr(base)),
                index: Some((index, scale)),
                disp: 32,
            });
        }
    }
    result
}

fn decode(bytes: &[u8]) -> Instruction {
    let mut decoder = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE);
    let instruction = decoder.decode();
    assert!(!instruction.is_invalid(), "{bytes:02x?}");
    assert_eq!(decoder.position(), bytes.len(), "{bytes:02x?} is {instruction}");
    instruction
}

/// The register of that file and number, as the disassembler names it.
fn name(file: char, number: u8) -> String {
    match file {
        'x' | 'y' | 'z' => format!("{}MM{number}", file.to_ascii_uppercase()),
        'k' => format!("K{number}"),
        'r' => full_gpr(number),
        _ => {
            let low = ["EAX", "ECX", "EDX", "EBX", "ESP", "EBP", "ESI", "EDI"];
            low.get(number as usize).map_or(format!("R{number}D"), |it| (*it).to_owned())
        }
    }
}

fn full_gpr(number: u8) -> String {
    let low = ["RAX", "RCX", "RDX", "RBX", "RSP", "RBP", "RSI", "RDI"];
    low.get(number as usize).map_or(format!("R{number}"), |it| (*it).to_owned())
}

fn check_memory(instruction: &Instruction, mem: Mem, index_file: Option<char>) {
    let PhysBase::Gpr(base) = mem.base else { unreachable!("bases are registers here") };
    assert_eq!(format!("{:?}", instruction.memory_base()), full_gpr(base.0), "{instruction}");
    assert_eq!(instruction.memory_displacement64() as i32, mem.disp, "{instruction}");
    match (mem.index, index_file) {
        (Some((index, scale)), file) => {
            let index = file.map_or_else(|| full_gpr(index), |file| name(file, index));
            assert_eq!(format!("{:?}", instruction.memory_index()), index, "{instruction}");
            assert_eq!(instruction.memory_index_scale(), u32::from(scale), "{instruction}");
        }
        (None, _) => assert_eq!(instruction.memory_index(), Register::None, "{instruction}"),
    }
}

/// Encodes an instruction and compares what the disassembler makes of it.
fn check(case: &Case, evex: bool, fields: Fields) {
    let (opcode, width, mnemonic, operands) = *case;
    let digit = if let Form::Vm(digit) = opcode.form { Some(digit) } else { None };
    let has = |token: &str| operands.contains(token);
    let fields = Fields {
        reg: digit.unwrap_or(fields.reg),
        vvvv: if has("1") { fields.vvvv } else { 0 },
        imm: has("i3").then_some(IMM),
        ..fields
    };
    let mut asm = Assembler::default();
    if evex {
        asm.evex(opcode, width, fields);
    } else {
        asm.vex(opcode, width, fields);
    }
    let bytes = asm.finish();
    let it = decode(&bytes);
    assert_eq!(format!("{:?}", it.mnemonic()).to_lowercase(), mnemonic, "{it}");
    for (at, operand) in operands.split(' ').enumerate() {
        let at = at as u32;
        let (file, place) = operand.split_at(1);
        let file = file.chars().next().unwrap();
        match (place, fields.rm) {
            ("0", _) => assert_eq!(format!("{:?}", it.op_register(at)), name(file, fields.reg)),
            ("1", _) => assert_eq!(format!("{:?}", it.op_register(at)), name(file, fields.vvvv)),
            ("2", Rm::Reg(rm)) => assert_eq!(format!("{:?}", it.op_register(at)), name(file, rm)),
            ("2", Rm::Mem(mem) | Rm::Broadcast(mem)) => {
                assert_eq!(it.op_kind(at), OpKind::Memory, "{it}");
                check_memory(&it, mem, None);
            }
            _ => assert_eq!(it.immediate8(), IMM, "{it}"),
        }
    }
    assert_eq!(it.is_broadcast(), matches!(fields.rm, Rm::Broadcast(_)), "{it}");
    let mask =
        if fields.mask == 0 { Register::None } else { Register::K0 + u32::from(fields.mask) };
    assert_eq!(it.op_mask(), mask, "{it}");
    assert_eq!(it.zeroing_masking(), fields.zeroing, "{it}");
}

fn fields(reg: u8, vvvv: u8, rm: Rm) -> Fields {
    Fields { reg, vvvv, rm, mask: 0, zeroing: false, imm: None }
}

/// Numbers below `limit` that exercise each bit of each field.
fn triples(limit: u8) -> impl Iterator<Item = (u8, u8, u8)> {
    (0..limit)
        .flat_map(move |n| [(n, 0, 1), (1, n, 2), (2, 1, n), (n, limit - 1 - n, (n * 7) % limit)])
}

#[test]
fn vectors_under_evex_reach_32_registers() {
    for case in EVEX.iter().chain(EVEX_BYTES).chain(EVEX_REGISTERS) {
        for (reg, vvvv, rm) in triples(32) {
            let limit = |place: &str, n: u8| {
                let file = case.3.split(' ').find(|it| it.ends_with(place)).map(|it| &it[..1]);
                match file {
                    Some("k") => n % 8,
                    Some("d" | "r") => n % 16,
                    _ => n,
                }
            };
            check(case, true, fields(limit("0", reg), vvvv, Rm::Reg(limit("2", rm))));
        }
    }
}

#[test]
fn displacements_under_evex_are_scaled() {
    for case in EVEX.iter().chain(EVEX_BYTES).chain(EVEX_MEMORY) {
        for (n, mem) in memories().into_iter().enumerate() {
            let is_mask = case.3.starts_with('k');
            let reg = (n % if is_mask { 8 } else { 32 }) as u8;
            check(case, true, fields(reg, (31 - n % 32) as u8, Rm::Mem(mem)));
        }
    }
}

#[test]
fn lanes_are_masked_and_words_broadcast() {
    for case in EVEX.iter().filter(|it| it.3.starts_with("z0 z1 z2")) {
        for mem in memories() {
            check(case, true, fields(17, 30, Rm::Broadcast(mem)));
        }
        for mask in 1..8 {
            for zeroing in [false, true] {
                check(case, true, Fields { mask, zeroing, ..fields(9, 18, Rm::Reg(27)) });
            }
        }
    }
}

#[test]
fn vectors_under_vex_reach_16_registers() {
    for case in VEX.iter().chain(VEX_REGISTERS) {
        for (reg, vvvv, rm) in triples(16) {
            check(case, false, fields(reg, vvvv, Rm::Reg(rm)));
        }
    }
    for case in VEX.iter().chain(VEX_MEMORY) {
        for (n, mem) in memories().into_iter().enumerate() {
            check(case, false, fields((n % 16) as u8, (15 - n % 16) as u8, Rm::Mem(mem)));
        }
    }
}

#[test]
fn masks_are_moved_and_combined() {
    for case in ALLOCATABLE_MASKS {
        for (reg, vvvv, rm) in triples(8) {
            check(case, false, fields(reg, vvvv, Rm::Reg(rm)));
        }
    }
    for case in MASKS_MEMORY {
        for (n, mem) in memories().into_iter().enumerate() {
            check(case, false, fields((n % 8) as u8, 0, Rm::Mem(mem)));
        }
    }
}

#[test]
fn gathers_index_with_vectors() {
    for base in 0..16 {
        for index in 0..32 {
            for disp in [0, 4, 508, 512, -512, 3] {
                let mem = Mem { base: PhysBase::Gpr(Gpr(base)), index: Some((index, 4)), disp };
                for (opcode, name) in [
                    (op::GATHERDPS, Mnemonic::Vgatherdps),
                    (op::SCATTERDPS, Mnemonic::Vscatterdps),
                    (op::GATHERQPD, Mnemonic::Vgatherqpd),
                    (op::SCATTERQPD, Mnemonic::Vscatterqpd),
                ] {
                    let mut asm = Assembler::default();
                    asm.evex(
                        opcode,
                        W512,
                        Fields { mask: 3, ..fields(31 - index, 0, Rm::Mem(mem)) },
                    );
                    let it = decode(&asm.finish());
                    assert_eq!(it.mnemonic(), name);
                    assert_eq!(it.op_mask(), Register::K3);
                    check_memory(&it, mem, Some('z'));
                }
                for opcode in [op::GATHERDPS, op::GATHERQPD] {
                    if index >= 16 {
                        continue;
                    }
                    let mut asm = Assembler::default();
                    asm.vex(opcode, W256, fields(15 - index, index ^ 1, Rm::Mem(mem)));
                    let it = decode(&asm.finish());
                    assert_eq!(it.op_register(0), Register::YMM15 - u32::from(index));
                    assert_eq!(it.op_register(2), Register::YMM0 + u32::from(index ^ 1));
                    check_memory(&it, mem, Some('y'));
                }
            }
        }
    }
}

#[test]
fn blends_take_their_choice_from_the_immediate() {
    for choice in 0..16 {
        let fields = Fields { imm: Some(choice << 4), ..fields(3, 9, Rm::Reg(12)) };
        for (opcode, name) in
            [(op::BLENDVPS, Mnemonic::Vblendvps), (op::BLENDVPD, Mnemonic::Vblendvpd)]
        {
            let mut asm = Assembler::default();
            asm.vex(opcode, W256, fields);
            let it = decode(&asm.finish());
            assert_eq!(it.mnemonic(), name);
            assert_eq!(it.op_register(3), Register::YMM0 + u32::from(choice));
        }
    }
}

#[test]
fn constants_are_reached_from_the_instruction_pointer() {
    let mut asm = Assembler::default();
    asm.constants.intern(&[1]);
    let second = asm.constants.intern(&[7, 8, 9, 10]);
    assert_eq!(asm.constants.intern(&[7, 8, 9, 10]), second, "each constant is there once");
    let mem = Mem { base: PhysBase::Pool(second), index: None, disp: 4 };
    // An immediate after the displacement counts too.
    asm.evex(op::CMPPS, W512, Fields { imm: Some(1), ..fields(1, 2, Rm::Broadcast(mem)) });
    let bytes = asm.finish();
    let it = Decoder::with_ip(64, &bytes, 0, DecoderOptions::NONE).decode();
    let at = it.memory_displacement64() as usize;
    assert_eq!(bytes[at..at + 4], 8_u32.to_le_bytes(), "{it}");
}

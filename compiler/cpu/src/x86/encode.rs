//! Instructions to bytes: VEX, EVEX and the few legacy forms that integers need.
//!
//! In: opcodes with physical registers. Out: one position-independent blob, the code followed by
//! its constants, which it reaches relative to the instruction pointer.
//!
//! Source: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, chapter 2.

use std::collections::BTreeMap;

use super::opcode::{Opcode, Tuple};
use crate::vector::PrefetchHint;

/// A general register, by its number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Gpr(pub u8);

pub(super) const RAX: Gpr = Gpr(0);
pub(super) const RCX: Gpr = Gpr(1);
pub(super) const RDX: Gpr = Gpr(2);
pub(super) const RBX: Gpr = Gpr(3);
pub(super) const RSP: Gpr = Gpr(4);
pub(super) const RBP: Gpr = Gpr(5);
pub(super) const RSI: Gpr = Gpr(6);
pub(super) const RDI: Gpr = Gpr(7);

/// The base of a memory operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhysBase {
    Gpr(Gpr),
    /// The constants behind the code, at that byte.
    Pool(u32),
}

/// A memory operand: `base + index * scale + disp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mem {
    pub base: PhysBase,
    /// A general register other than `rsp`, or the vector register of a gather; and 1, 2, 4 or 8.
    pub index: Option<(u8, u8)>,
    pub disp: i32,
}

impl Mem {
    pub(super) fn at(base: Gpr, disp: i32) -> Self {
        Self { base: PhysBase::Gpr(base), index: None, disp }
    }
}

/// The operand that may be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rm {
    /// A register of whatever kind the instruction takes, by number.
    Reg(u8),
    Mem(Mem),
    /// An element of memory, of 32 bits or of 64 by the bit W, in every lane; EVEX only.
    Broadcast(Mem),
}

/// Bits of the vectors an instruction works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    W128,
    W256,
    W512,
}

impl Width {
    fn bytes(self) -> i32 {
        16 << self as i32
    }
}

/// The operands of a vector instruction, by where they are encoded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    pub reg: u8,
    /// 0 where there is none.
    pub vvvv: u8,
    pub rm: Rm,
    /// The mask register; 0 is none. EVEX only.
    pub mask: u8,
    /// Zero-masking: lanes masked off become 0 instead of keeping their values.
    pub zeroing: bool,
    pub imm: Option<u8>,
}

/// A place in the code that jumps go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Label(u32);

/// Conditions of jumps, by their number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Equal = 4,
    NotEqual = 5,
    GreaterOrEqual = 13,
    LessOrEqual = 14,
}

/// Integer operations of two operands, by their number in encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Alu {
    Add = 0,
    And = 4,
    Sub = 5,
    Cmp = 7,
}

/// A fixup: 32 bits in the code that are known once all of it is.
enum Fixup {
    /// The distance to a constant; so many bytes of the instruction follow.
    Pool {
        at: usize,
        tail: usize,
        offset: u32,
    },
    Jump {
        at: usize,
        to: Label,
    },
}

/// Code under construction. See the [module documentation](self).
#[derive(Default)]
pub(super) struct Assembler {
    bytes: Vec<u8>,
    fixups: Vec<Fixup>,
    labels: Vec<Option<usize>>,
    pub constants: Constants,
}

/// The constants behind the code, each once.
#[derive(Default)]
pub(super) struct Constants {
    bytes: Vec<u8>,
    known: BTreeMap<Vec<u32>, u32>,
}

impl Constants {
    /// Adds words to the pool, aligned to their size; returns their offset in bytes.
    pub(super) fn intern(&mut self, words: &[u32]) -> u32 {
        if let Some(at) = self.known.get(words) {
            return *at;
        }
        let at = self.bytes.len().next_multiple_of(words.len() * 4);
        self.bytes.resize(at, 0);
        self.bytes.extend(words.iter().flat_map(|it| it.to_le_bytes()));
        self.known.insert(words.to_vec(), at as u32);
        at as u32
    }
}

impl Assembler {
    /// The code, then its constants.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let pool = if self.constants.bytes.is_empty() {
            self.bytes.len()
        } else {
            self.bytes.len().next_multiple_of(64)
        };
        for fixup in &self.fixups {
            let (at, tail, target) = match *fixup {
                Fixup::Pool { at, tail, offset } => (at, tail, pool + offset as usize),
                Fixup::Jump { at, to } => {
                    (at, 0, self.labels[to.0 as usize].expect("every label is assigned"))
                }
            };
            let distance = target as i64 - (at + 4 + tail) as i64;
            self.bytes[at..at + 4].copy_from_slice(&(distance as i32).to_le_bytes());
        }
        self.bytes.resize(pool, 0xcc);
        self.bytes.extend(self.constants.bytes);
        self.bytes
    }

    /// A vector or mask instruction under VEX: 16 registers, no masks, no broadcasts.
    pub(super) fn vex(&mut self, op: Opcode, width: Width, fields: Fields) {
        let (x, b) = extension_bits(fields.rm);
        let last = (u8::from(op.wide) << 7) | ((!fields.vvvv & 15) << 3) | ((width as u8) << 2);
        let last = last | op.prefix;
        let r = (!fields.reg >> 3 & 1) << 7;
        if x == 0 && b == 0 && op.map == 1 && !op.wide {
            self.bytes.extend([0xc5, r | (last & 0x7f)]);
        } else {
            self.bytes.extend([0xc4, r | (1 - x) << 6 | (1 - b) << 5 | op.map, last]);
        }
        self.bytes.push(op.byte);
        self.operand(fields.reg, fields.rm, 1, fields.imm.as_slice());
    }

    /// A vector instruction under EVEX.
    pub(super) fn evex(&mut self, op: Opcode, width: Width, fields: Fields) {
        let (x, b) = extension_bits(fields.rm);
        let bit = |number: u8, at: u8| !number >> at & 1;
        // The fifth bit of a gather's index shares a place with that of `vvvv`.
        let high = match fields.rm {
            Rm::Mem(Mem { index: Some((index, _)), .. }) if index > 15 => 16,
            _ => fields.vvvv & 16,
        };
        let broadcast = matches!(fields.rm, Rm::Broadcast(_));
        let is_wide = op.wide || op.wide_evex;
        self.bytes.extend([
            0x62,
            bit(fields.reg, 3) << 7
                | (1 - x) << 6
                | (1 - b) << 5
                | bit(fields.reg, 4) << 4
                | op.map,
            u8::from(is_wide) << 7 | (!fields.vvvv & 15) << 3 | 4 | op.prefix,
            u8::from(fields.zeroing) << 7
                | (width as u8) << 5
                | u8::from(broadcast) << 4
                | bit(high, 4) << 3
                | fields.mask,
            op.byte,
        ]);
        let disp8_scale = match op.tuple {
            _ if broadcast => {
                if is_wide {
                    8
                } else {
                    4
                }
            }
            Tuple::Full => width.bytes(),
            Tuple::Half => width.bytes() / 2,
            Tuple::Quarter => width.bytes() / 4,
            Tuple::Eighth => width.bytes() / 8,
            Tuple::Fixed(bytes) => i32::from(bytes),
        };
        self.operand(fields.reg, fields.rm, disp8_scale, fields.imm.as_slice());
    }

    /// ModRM, SIB, displacement and immediate; 8-bit displacements count in `disp8_scale` bytes (`disp8*N` of EVEX).
    fn operand(&mut self, reg: u8, rm: Rm, disp8_scale: i32, imm: &[u8]) {
        let reg = (reg & 7) << 3;
        match rm {
            Rm::Reg(rm) => self.bytes.push(0xc0 | reg | (rm & 7)),
            Rm::Mem(mem) | Rm::Broadcast(mem) => match mem.base {
                PhysBase::Pool(offset) => {
                    self.bytes.push(reg | 5);
                    let (at, tail) = (self.bytes.len(), imm.len());
                    let offset = offset.wrapping_add_signed(mem.disp);
                    self.fixups.push(Fixup::Pool { at, tail, offset });
                    self.bytes.extend([0; 4]);
                }
                PhysBase::Gpr(base) => self.memory(reg, base, mem, disp8_scale),
            },
        }
        self.bytes.extend(imm);
    }

    fn memory(&mut self, reg: u8, base: Gpr, mem: Mem, disp8_scale: i32) {
        let short =
            i8::try_from(mem.disp / disp8_scale).ok().filter(|_| mem.disp % disp8_scale == 0);
        let base = base.0 & 7;
        // Without a displacement, the number of `rbp` and `r13` means something else.
        let mode = match short {
            Some(0) if base != RBP.0 => 0x00,
            Some(_) => 0x40,
            None => 0x80,
        };
        match mem.index {
            Some((index, scale)) => {
                self.bytes.push(mode | reg | 4);
                self.bytes.push((scale.trailing_zeros() as u8) << 6 | (index & 7) << 3 | base);
            }
            None if base == RSP.0 => self.bytes.extend([mode | reg | 4, 0x24]),
            None => self.bytes.push(mode | reg | base),
        }
        match (mode, short) {
            (0x00, _) => {}
            (0x40, Some(disp)) => self.bytes.push(disp.cast_unsigned()),
            _ => self.bytes.extend(mem.disp.to_le_bytes()),
        }
    }

    /// A legacy instruction on 64-bit registers, or 32-bit ones if not `wide`.
    fn legacy(&mut self, wide: bool, opcode: &[u8], reg: u8, rm: Rm, imm: &[u8]) {
        let (x, b) = extension_bits(rm);
        let rex = u8::from(wide) << 3 | (reg >> 3) << 2 | x << 1 | b;
        if rex != 0 {
            self.bytes.push(0x40 | rex);
        }
        self.bytes.extend(opcode);
        self.operand(reg, rm, 1, imm);
    }

    pub(super) fn load(&mut self, dst: Gpr, from: Mem) {
        self.legacy(true, &[0x8b], dst.0, Rm::Mem(from), &[]);
    }

    pub(super) fn store(&mut self, to: Mem, src: Gpr) {
        self.legacy(true, &[0x89], src.0, Rm::Mem(to), &[]);
    }

    pub(super) fn copy(&mut self, dst: Gpr, src: Gpr) {
        self.legacy(true, &[0x8b], dst.0, Rm::Reg(src.0), &[]);
    }

    pub(super) fn lea(&mut self, dst: Gpr, of: Mem) {
        self.legacy(true, &[0x8d], dst.0, Rm::Mem(of), &[]);
    }

    /// `prefetcht0` or `prefetcht1`.
    pub(super) fn prefetch(&mut self, at: Mem, hint: PrefetchHint) {
        let level = match hint {
            PrefetchHint::Read => 1,
            PrefetchHint::ReadLater => 2,
        };
        self.legacy(false, &[0x0f, 0x18], level, Rm::Mem(at), &[]);
    }

    /// `dst = value`, in the shortest form.
    pub(super) fn constant(&mut self, dst: Gpr, value: i64) {
        if value == 0 {
            self.legacy(false, &[0x33], dst.0, Rm::Reg(dst.0), &[]);
        } else if let Ok(value) = u32::try_from(value) {
            self.register_in_opcode(false, 0xb8, dst);
            self.bytes.extend(value.to_le_bytes());
        } else if let Ok(value) = i32::try_from(value) {
            self.legacy(true, &[0xc7], 0, Rm::Reg(dst.0), &value.to_le_bytes());
        } else {
            self.register_in_opcode(true, 0xb8, dst);
            self.bytes.extend(value.to_le_bytes());
        }
    }

    pub(super) fn store_constant(&mut self, to: Mem, value: i32) {
        self.legacy(true, &[0xc7], 0, Rm::Mem(to), &value.to_le_bytes());
    }

    fn register_in_opcode(&mut self, wide: bool, opcode: u8, reg: Gpr) {
        let rex = u8::from(wide) << 3 | reg.0 >> 3;
        if rex != 0 {
            self.bytes.push(0x40 | rex);
        }
        self.bytes.push(opcode | (reg.0 & 7));
    }

    /// `dst = dst op rm`; `Cmp` only compares.
    pub(super) fn alu(&mut self, op: Alu, dst: Gpr, rm: Rm) {
        self.legacy(true, &[(op as u8) << 3 | 3], dst.0, rm, &[]);
    }

    /// `mem = mem op src`; `Cmp` only compares.
    pub(super) fn alu_to_memory(&mut self, op: Alu, to: Mem, src: Gpr) {
        self.legacy(true, &[(op as u8) << 3 | 1], src.0, Rm::Mem(to), &[]);
    }

    /// `rm = rm op value`; `Cmp` only compares.
    pub(super) fn alu_constant(&mut self, op: Alu, rm: Rm, value: i32) {
        match i8::try_from(value) {
            Ok(short) => self.legacy(true, &[0x83], op as u8, rm, &short.to_le_bytes()),
            Err(_) => self.legacy(true, &[0x81], op as u8, rm, &value.to_le_bytes()),
        }
    }

    /// Sets the flags for a comparison of a register with 0.
    pub(super) fn test(&mut self, reg: Gpr) {
        self.legacy(true, &[0x85], reg.0, Rm::Reg(reg.0), &[]);
    }

    /// Sets the flags for a comparison of some bits of a byte with 0.
    pub(super) fn test_byte(&mut self, at: Mem, bits: u8) {
        self.legacy(false, &[0xf6], 0, Rm::Mem(at), &[bits]);
    }

    /// `dst = dst * rm`
    pub(super) fn multiply(&mut self, dst: Gpr, rm: Rm) {
        self.legacy(true, &[0x0f, 0xaf], dst.0, rm, &[]);
    }

    /// `dst = rm * value`
    pub(super) fn multiply_constant(&mut self, dst: Gpr, rm: Rm, value: i32) {
        match i8::try_from(value) {
            Ok(short) => self.legacy(true, &[0x6b], dst.0, rm, &short.to_le_bytes()),
            Err(_) => self.legacy(true, &[0x69], dst.0, rm, &value.to_le_bytes()),
        }
    }

    /// `rdx:rax = rax * reg`, unsigned.
    pub(super) fn multiply_wide(&mut self, reg: Gpr) {
        self.legacy(true, &[0xf7], 4, Rm::Reg(reg.0), &[]);
    }

    /// `rax, rdx = rdx:rax / rm, rdx:rax % rm`, unsigned.
    pub(super) fn divide(&mut self, rm: Rm) {
        self.legacy(true, &[0xf7], 6, rm, &[]);
    }

    pub(super) fn shift_left(&mut self, reg: Gpr, by: u8) {
        self.legacy(true, &[0xc1], 4, Rm::Reg(reg.0), &[by]);
    }

    pub(super) fn shift_right(&mut self, reg: Gpr, by: u8) {
        self.legacy(true, &[0xc1], 5, Rm::Reg(reg.0), &[by]);
    }

    /// `movsxd`: the low 32 bits, sign-extended.
    pub(super) fn sign_extend(&mut self, dst: Gpr, src: Gpr) {
        self.legacy(true, &[0x63], dst.0, Rm::Reg(src.0), &[]);
    }

    /// Loads 1, 2, 4 or 8 bytes, filling with zeros.
    pub(super) fn load_small(&mut self, size: u8, dst: Gpr, from: Mem) {
        if size == 8 {
            return self.load(dst, from);
        }
        let opcode: &[u8] = match size {
            1 => &[0x0f, 0xb6],
            2 => &[0x0f, 0xb7],
            _ => &[0x8b],
        };
        self.legacy(false, opcode, dst.0, Rm::Mem(from), &[]);
    }

    /// Stores the low 1, 2, 4 or 8 bytes of `rax`, `rbx`, `rcx` or `rdx`, whose low bytes need no
    /// prefix.
    pub(super) fn store_small(&mut self, size: u8, to: Mem, src: Gpr) {
        if size == 8 {
            return self.store(to, src);
        }
        if size == 2 {
            self.bytes.push(0x66);
        }
        let opcode = if size == 1 { 0x88 } else { 0x89 };
        self.legacy(false, &[opcode], src.0, Rm::Mem(to), &[]);
    }

    pub(super) fn push(&mut self, reg: Gpr) {
        self.register_in_opcode(false, 0x50, reg);
    }

    pub(super) fn pop(&mut self, reg: Gpr) {
        self.register_in_opcode(false, 0x58, reg);
    }

    pub(super) fn vzeroupper(&mut self) {
        self.bytes.extend([0xc5, 0xf8, 0x77]);
    }

    pub(super) fn ret(&mut self) {
        self.bytes.push(0xc3);
    }

    /// Fills with NOPs up to a multiple of `to` bytes.
    pub(super) fn align(&mut self, to: usize) {
        const NOPS: [&[u8]; 9] = [
            &[0x90],
            &[0x66, 0x90],
            &[0x0f, 0x1f, 0x00],
            &[0x0f, 0x1f, 0x40, 0x00],
            &[0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00],
            &[0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00],
            &[0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
            &[0x66, 0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00],
        ];
        let mut missing = self.bytes.len().next_multiple_of(to) - self.bytes.len();
        while missing > 0 {
            let n = missing.min(NOPS.len());
            self.bytes.extend(NOPS[n - 1]);
            missing -= n;
        }
    }

    pub(super) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() as u32 - 1)
    }

    /// Binds a label to the current position.
    pub(super) fn bind(&mut self, label: Label) {
        self.labels[label.0 as usize] = Some(self.bytes.len());
    }

    pub(super) fn jump(&mut self, to: Label) {
        self.jump_to(to, &[0xeb], &[0xe9]);
    }

    pub(super) fn jump_if(&mut self, condition: Condition, to: Label) {
        let number = condition as u8;
        self.jump_to(to, &[0x70 | number], &[0x0f, 0x80 | number]);
    }

    /// Backward jumps know their distance and may be short; forward ones are patched.
    fn jump_to(&mut self, to: Label, short: &[u8], long: &[u8]) {
        if let Some(target) = self.labels[to.0 as usize] {
            let distance = target as i64 - (self.bytes.len() + short.len() + 1) as i64;
            if let Ok(distance) = i8::try_from(distance) {
                self.bytes.extend(short);
                self.bytes.push(distance.cast_unsigned());
                return;
            }
        }
        self.bytes.extend(long);
        self.fixups.push(Fixup::Jump { at: self.bytes.len(), to });
        self.bytes.extend([0; 4]);
    }
}

/// Returns the extension bits X and B: bit 3 of the index (bit 4 of a vector register in `rm`), and bit
/// 3 of the base or register.
fn extension_bits(rm: Rm) -> (u8, u8) {
    match rm {
        Rm::Reg(reg) => (reg >> 4 & 1, reg >> 3 & 1),
        Rm::Mem(mem) | Rm::Broadcast(mem) => {
            let x = mem.index.map_or(0, |(index, _)| index >> 3 & 1);
            let b = if let PhysBase::Gpr(base) = mem.base { base.0 >> 3 & 1 } else { 0 };
            (x, b)
        }
    }
}

//! A machine that runs machine code of one task, byte by byte of its memory, for tests; its results are those of
//! the interpreter of vector code.
//!
//! An access outside of a table entry, the code, its table or its stack is a panic.

use iced_x86::{Decoder, DecoderOptions, Instruction, MemorySize, Mnemonic, OpKind, Register};

use super::assemble;
use crate::interp::{EntryValue, RaceCheck, execute};
use crate::vector::{Address, Base, EntryId, Linear, Phase, Simd, Stmt, TableEntry, VectorCode};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::Poly;
use tvmtune_schedule::Threads;

/// Bytes of the stack.
const STACK: usize = 4096;
/// The memory behind an address is that number of times this.
const REGION: u64 = 1 << 32;

type Bytes = [u8; 64];

#[derive(Default)]
struct Flags {
    zero: bool,
    less: bool,
}

struct Machine {
    /// The code, its table, its stack, and the entries of the table.
    memory: Vec<Vec<u8>>,
    ints: [u64; 16],
    vectors: [Bytes; 32],
    flags: Flags,
}

/// A byte of a table entry.
pub(super) fn address(entry: u32, at: i64) -> Address {
    Address { base: Base::Table(EntryId(entry)), offset: Linear::constant(at) }
}

/// A task, and a table of so many pointers.
pub(super) fn kernel(simd: Simd, n_entries: u32, body: Vec<Stmt>) -> VectorCode {
    let pointer = |n| TableEntry::Pointer { tensor: TensorId(n), layout: None };
    VectorCode {
        name: "code".to_owned(),
        isa: simd.isa,
        width: simd.width,
        table: (0..n_entries).map(pointer).collect(),
        scratch_bytes: Poly::default(),
        n_regs: 100,
        threads: Threads::One,
        phases: vec![Phase { tasks: Vec::new(), body }],
    }
}

/// Checks the code of a single task on bytes of its table entries, against the interpreter.
#[track_caller]
pub(super) fn check(kernel: &VectorCode, entries: &[Vec<u8>], message: &str) {
    let mut table: Vec<EntryValue> = entries.iter().cloned().map(EntryValue::Bytes).collect();
    execute(kernel, &mut table, 0, RaceCheck::Off).unwrap();
    let found = run(&assemble(kernel).phases[0], entries);
    for (n, (found, expected)) in found.into_iter().zip(table).enumerate() {
        assert_eq!(EntryValue::Bytes(found), expected, "t{n} on {:?}: {message}", kernel.isa);
    }
}

/// Disassembles the code of a single task.
pub(super) fn text(kernel: &VectorCode) -> String {
    let code = &assemble(kernel).phases[0];
    let mut text = String::new();
    for it in Decoder::with_ip(64, code, 0, DecoderOptions::NONE) {
        text += &format!("{it}\n");
        if it.mnemonic() == Mnemonic::Ret {
            break;
        }
    }
    text
}

/// Runs code on its table entries, and returns these.
fn run(code: &[u8], entries: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let pointers = (0..entries.len() as u64).flat_map(|n| ((n + 3) * REGION).to_le_bytes());
    let own = [code.to_vec(), pointers.collect(), vec![0; STACK]];
    let memory = own.into_iter().chain(entries.iter().cloned()).collect();
    let mut ints = [0; 16];
    // The table, one task, and the stack.
    (ints[7], ints[1], ints[4]) = (REGION, 1, 2 * REGION + STACK as u64 - 64);
    let mut machine = Machine { memory, ints, vectors: [[0; 64]; 32], flags: Flags::default() };
    let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
    for _ in 0..100_000 {
        let it = decoder.decode();
        if it.mnemonic() == Mnemonic::Ret {
            return machine.memory.split_off(3);
        }
        if machine.step(&it) {
            let to = it.near_branch_target();
            decoder.set_position(to as usize).unwrap();
            decoder.set_ip(to);
        }
    }
    panic!("the code does not end");
}

/// Applies an operation to each word of two vectors.
fn by_words(a: Bytes, b: Bytes, op: impl Fn(u32, u32) -> u32) -> Bytes {
    let word = |it: &Bytes, n: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| it[n / 4 * 4 + at]));
    std::array::from_fn(|n| op(word(&a, n), word(&b, n)).to_le_bytes()[n % 4])
}

/// The number of a register in its file, and its bytes.
fn register(reg: Register) -> (usize, usize) {
    let (at, first) = (reg as usize, |first: Register| first as usize);
    let files = [
        (Register::ZMM0, 64),
        (Register::YMM0, 32),
        (Register::XMM0, 16),
        (Register::RAX, 8),
        (Register::EAX, 4),
        (Register::AX, 2),
    ];
    match files.iter().find(|it| at >= first(it.0)) {
        Some((start, bytes)) => (at - first(*start), *bytes),
        // The upper bytes of four registers come between.
        None => (at - first(Register::AL) - if at >= first(Register::SPL) { 4 } else { 0 }, 1),
    }
}

/// The bytes of an operand in memory, or of the element that is broadcast.
fn size(memory: MemorySize) -> usize {
    let name = format!("{memory:?}");
    let mut numbers = name.split(|it: char| !it.is_ascii_digit()).filter(|it| !it.is_empty());
    let number = if name.starts_with("Broadcast") { numbers.next_back() } else { numbers.next() };
    number.and_then(|it| it.parse::<usize>().ok()).unwrap_or_else(|| panic!("{name}")) / 8
}

fn is_vector(reg: Register) -> bool {
    (Register::XMM0 as usize..Register::ZMM0 as usize + 32).contains(&(reg as usize))
}

fn word(bytes: &Bytes, n: usize) -> u32 {
    u32::from_le_bytes([0, 1, 2, 3].map(|at| bytes[4 * n + at]))
}

impl Machine {
    fn address(&self, it: &Instruction) -> u64 {
        let int = |reg: Register| {
            if reg == Register::None || is_vector(reg) { 0 } else { self.ints[register(reg).0] }
        };
        if it.is_ip_rel_memory_operand() {
            return it.ip_rel_memory_address();
        }
        let index = int(it.memory_index()).wrapping_mul(it.memory_index_scale().into());
        int(it.memory_base()).wrapping_add(index).wrapping_add(it.memory_displacement64())
    }

    fn place(&mut self, address: u64, n: usize) -> &mut [u8] {
        let (region, at) = ((address / REGION) as usize, (address % REGION) as usize);
        assert!(region < self.memory.len(), "{address:#x} is no memory");
        let memory = &mut self.memory[region];
        assert!(at + n <= memory.len(), "{n} bytes at {at} of {}, {region}", memory.len());
        &mut memory[at..at + n]
    }

    fn int(&mut self, it: &Instruction, n: u32) -> u64 {
        match it.op_kind(n) {
            OpKind::Register => {
                let (reg, size) = register(it.op_register(n));
                self.ints[reg] & (u64::MAX >> (64 - 8 * size))
            }
            OpKind::Memory => {
                let (address, mut bytes) = (self.address(it), [0; 8]);
                let size = size(it.memory_size());
                bytes[..size].copy_from_slice(self.place(address, size));
                u64::from_le_bytes(bytes)
            }
            _ => it.immediate(n),
        }
    }

    fn set_int(&mut self, it: &Instruction, value: u64) {
        if it.op0_kind() == OpKind::Register {
            let (reg, size) = register(it.op0_register());
            assert!(size >= 4, "{it}");
            self.ints[reg] = value & (u64::MAX >> (64 - 8 * size));
        } else {
            let (address, size) = (self.address(it), size(it.memory_size()));
            self.place(address, size).copy_from_slice(&value.to_le_bytes()[..size]);
        }
    }

    /// Runs an instruction; returns whether it jumps.
    fn step(&mut self, it: &Instruction) -> bool {
        let last = it.op_count().saturating_sub(1);
        let Flags { zero, less } = self.flags;
        match it.mnemonic() {
            Mnemonic::Jmp => return true,
            Mnemonic::Je => return zero,
            Mnemonic::Jne => return !zero,
            Mnemonic::Jle => return zero || less,
            Mnemonic::Jge => return !less,
            Mnemonic::Jl => return less,
            Mnemonic::Nop | Mnemonic::Vzeroupper => {}
            Mnemonic::Push => {
                let value = self.int(it, 0);
                self.ints[4] -= 8;
                self.place(self.ints[4], 8).copy_from_slice(&value.to_le_bytes());
            }
            Mnemonic::Pop => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(self.place(self.ints[4], 8));
                self.ints[4] += 8;
                self.set_int(it, u64::from_le_bytes(bytes));
            }
            Mnemonic::Lea => {
                let address = self.address(it);
                self.set_int(it, address);
            }
            Mnemonic::Mov | Mnemonic::Movzx => {
                let value = self.int(it, 1);
                self.set_int(it, value);
            }
            Mnemonic::Movsxd => {
                let value = self.int(it, 1) as u32;
                self.set_int(it, i64::from(value.cast_signed()).cast_unsigned());
            }
            op @ (Mnemonic::Add
            | Mnemonic::Sub
            | Mnemonic::Cmp
            | Mnemonic::And
            | Mnemonic::Test
            | Mnemonic::Xor) => {
                let [a, b] = [0, last].map(|n| self.int(it, n));
                let result = match op {
                    Mnemonic::Add => a.wrapping_add(b),
                    Mnemonic::And | Mnemonic::Test => a & b,
                    Mnemonic::Xor => a ^ b,
                    _ => a.wrapping_sub(b),
                };
                self.flags = Flags { zero: result == 0, less: result.cast_signed() < 0 };
                if !matches!(op, Mnemonic::Cmp | Mnemonic::Test) {
                    self.set_int(it, result);
                }
            }
            _ => self.vector_step(it),
        }
        false
    }

    /// Reads a vector, of memory as many bytes as the instruction takes.
    fn vector(&mut self, it: &Instruction, n: u32) -> Bytes {
        if it.op_kind(n) == OpKind::Register {
            let reg = it.op_register(n);
            assert!(is_vector(reg), "{it}");
            return self.vectors[register(reg).0];
        }
        let (address, mut bytes) = (self.address(it), [0; 64]);
        if it.is_broadcast() {
            let size = size(it.memory_size());
            let element = self.place(address, size).to_vec();
            return std::array::from_fn(|n| element[n % size]);
        }
        let size = size(it.memory_size());
        bytes[..size].copy_from_slice(self.place(address, size));
        bytes
    }

    fn vector_step(&mut self, it: &Instruction) {
        assert_eq!(it.op_mask(), Register::None, "{it}");
        match it.mnemonic() {
            Mnemonic::Vmovmskps => {
                let signs = self.vector(it, 1);
                let bits = (0..8).filter(|n| signs[4 * n + 3] >> 7 == 1).map(|n| 1 << n);
                let bits = bits.sum();
                return self.set_int(it, bits);
            }
            Mnemonic::Vmovd if !is_vector(it.op0_register()) => {
                let word = word(&self.vector(it, 1), 0);
                return self.set_int(it, word.into());
            }
            _ => {}
        }
        if it.op0_kind() == OpKind::Memory {
            let (address, value) = (self.address(it), self.vector(it, 1));
            let size = size(it.memory_size());
            return self.place(address, size).copy_from_slice(&value[..size]);
        }
        let name = format!("{:?}", it.mnemonic());
        let result = match it.mnemonic() {
            Mnemonic::Vmaskmovps | Mnemonic::Vgatherdps | Mnemonic::Vpgatherdd => self.load_if(it),
            _ if name.starts_with("Vfm") || name.starts_with("Vfnm") => self.fma(it),
            _ if it.op_count() == 2 => self.unary(it),
            _ if it.op_kind(it.op_count() - 1) == OpKind::Immediate8 => self.with_immediate(it),
            _ => self.binary(it),
        };
        // The bytes above the register's width become 0.
        let (to, size) = register(it.op0_register());
        self.vectors[to] = [0; 64];
        self.vectors[to][..size].copy_from_slice(&result[..size]);
    }

    /// Loads words in the lanes of a mask.
    fn load_if(&mut self, it: &Instruction) -> Bytes {
        let (gathers, mask) = match it.mnemonic() {
            Mnemonic::Vmaskmovps => (false, it.op_register(1)),
            _ => (true, it.op_register(2)),
        };
        let mask = self.vectors[register(mask).0];
        let mut loaded =
            if gathers { self.vectors[register(it.op0_register()).0] } else { [0; 64] };
        for lane in (0..register(it.op0_register()).1 / 4).filter(|n| mask[4 * n + 3] >> 7 == 1) {
            let offset = if gathers {
                let index = word(&self.vectors[register(it.memory_index()).0], lane).cast_signed();
                i64::from(index) * i64::from(it.memory_index_scale())
            } else {
                4 * lane as i64
            };
            let address = self.address(it).wrapping_add(offset.cast_unsigned());
            loaded[4 * lane..4 * lane + 4].copy_from_slice(self.place(address, 4));
        }
        loaded
    }

    fn fma(&mut self, it: &Instruction) -> Bytes {
        let [a, b, c] = [0, 1, 2].map(|n| self.vector(it, n));
        let name = format!("{:?}", it.mnemonic());
        let (x, y, z) = match &name[name.len() - 5..name.len() - 2] {
            "132" => (a, c, b),
            "213" => (b, a, c),
            "231" => (b, c, a),
            _ => panic!("{it} is not known here"),
        };
        let sign = if name.starts_with("Vfn") { -1.0 } else { 1.0 };
        if name.ends_with("pd") {
            return std::array::from_fn(|n| {
                let [x, y, z] = [x, y, z].map(|it| {
                    f64::from_bits(u64::from_le_bytes(std::array::from_fn(|at| it[n / 8 * 8 + at])))
                });
                x.mul_add(f64::from(sign) * y, z).to_bits().to_le_bytes()[n % 8]
            });
        }
        let fma = |n: usize| {
            let [x, y, z] = [x, y, z].map(|it| f32::from_bits(word(&it, n / 4)));
            x.mul_add(sign * y, z).to_bits().to_le_bytes()[n % 4]
        };
        std::array::from_fn(fma)
    }

    fn unary(&mut self, it: &Instruction) -> Bytes {
        let x = self.vector(it, 1);
        match it.mnemonic() {
            Mnemonic::Vmovups
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovupd
            | Mnemonic::Vmovq
            | Mnemonic::Vmovd => x,
            Mnemonic::Vpbroadcastb => [x[0]; 64],
            Mnemonic::Vbroadcastss | Mnemonic::Vpbroadcastd => std::array::from_fn(|n| x[n % 4]),
            Mnemonic::Vpmovzxbd => std::array::from_fn(|n| if n % 4 == 0 { x[n / 4] } else { 0 }),
            Mnemonic::Vpmovsxbd => std::array::from_fn(|n| match n % 4 {
                0 => x[n / 4],
                _ => (x[n / 4].cast_signed() >> 7).cast_unsigned(),
            }),
            _ => panic!("{it} is not known here"),
        }
    }

    fn with_immediate(&mut self, it: &Instruction) -> Bytes {
        let (x, by) = (self.vector(it, it.op_count() - 2), it.immediate8());
        match it.mnemonic() {
            Mnemonic::Vpslld => by_words(x, x, |x, _| x << by),
            Mnemonic::Vpsrld => by_words(x, x, |x, _| x >> by),
            Mnemonic::Vpsrad => by_words(x, x, |x, _| (x.cast_signed() >> by).cast_unsigned()),
            Mnemonic::Vpermq => {
                std::array::from_fn(|n| x[(8 * (by >> (n / 8 * 2 % 8) & 3)) as usize + n % 8])
            }
            _ => panic!("{it} is not known here"),
        }
    }

    fn binary(&mut self, it: &Instruction) -> Bytes {
        let (a, b) = (self.vector(it, 1), self.vector(it, 2));
        let truth = |it: bool| if it { u32::MAX } else { 0 };
        let (signed, min, max) = (u32::cast_signed, i8::min, i8::max);
        let bytes = |op: &dyn Fn(u8, u8) -> u8| std::array::from_fn(|n| op(a[n], b[n]));
        let signed_bytes = |op: &dyn Fn(i8, i8) -> i8| {
            std::array::from_fn(|n| op(a[n].cast_signed(), b[n].cast_signed()).cast_unsigned())
        };
        // Both sources in halves of 128 bits, one after the other.
        let packed = |n: usize, size: usize| {
            let (half, n) = (n / 16 * 16, n % 16 / size * 2 * size);
            let from = if n < 16 { &a } else { &b };
            let element: Vec<u8> = from[half + n % 16..][..2 * size].to_vec();
            element
        };
        match it.mnemonic() {
            Mnemonic::Vpaddb => bytes(&u8::wrapping_add),
            Mnemonic::Vpsubb => bytes(&u8::wrapping_sub),
            Mnemonic::Vpminub => bytes(&u8::min),
            Mnemonic::Vpmaxub => bytes(&u8::max),
            Mnemonic::Vpminsb => signed_bytes(&min),
            Mnemonic::Vpmaxsb => signed_bytes(&max),
            Mnemonic::Vpand | Mnemonic::Vpandd => bytes(&|a, b| a & b),
            Mnemonic::Vpor | Mnemonic::Vpord => bytes(&|a, b| a | b),
            Mnemonic::Vpxor | Mnemonic::Vpxord | Mnemonic::Vpxorq => bytes(&|a, b| a ^ b),
            Mnemonic::Vpaddd => by_words(a, b, u32::wrapping_add),
            Mnemonic::Vpsubd => by_words(a, b, u32::wrapping_sub),
            Mnemonic::Vpcmpeqd => by_words(a, b, |a, b| truth(a == b)),
            Mnemonic::Vpcmpgtd => by_words(a, b, |a, b| truth(signed(a) > signed(b))),
            Mnemonic::Vpminsd => by_words(a, b, |a, b| signed(a).min(signed(b)).cast_unsigned()),
            Mnemonic::Vpmaxsd => by_words(a, b, |a, b| signed(a).max(signed(b)).cast_unsigned()),
            Mnemonic::Vpshufb => std::array::from_fn(|n| match b[n] {
                0x80.. => 0,
                at => a[n / 16 * 16 + usize::from(at % 16)],
            }),
            // Values that fit, which need no saturation.
            Mnemonic::Vpackusdw => std::array::from_fn(|n| packed(n, 2)[n % 2]),
            Mnemonic::Vpackuswb => std::array::from_fn(|n| packed(n, 1)[0]),
            Mnemonic::Vblendvps => {
                let chosen = self.vector(it, 3);
                std::array::from_fn(|n| if chosen[n | 3] >> 7 == 1 { b[n] } else { a[n] })
            }
            _ => panic!("{it} is not known here"),
        }
    }
}

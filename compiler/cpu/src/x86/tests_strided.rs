//! Loads of elements a few words apart: the words that they touch, and the lanes that these come to.
//!
//! The code of one vector is disassembled and followed, instruction by instruction, for words that are numbers
//! of elements.

use iced_x86::{Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};
use tvmtune_ir::dsl;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId, nest};

use super::assemble;
use crate::vector::lower;

/// The number that stands for element 0 of `x`, beyond the words of the code's constants.
const FIRST: i64 = 1 << 40;

/// The number of a register in its file.
fn number(register: Register) -> usize {
    let name = format!("{register:?}");
    name.trim_start_matches(|it: char| !it.is_ascii_digit()).parse().unwrap_or_default()
}

/// The lanes of a vector register; 0 for others.
fn lanes(register: Register) -> usize {
    let name = format!("{register:?}");
    match &name[..3.min(name.len())] {
        "XMM" => 4,
        "YMM" => 8,
        "ZMM" => 16,
        _ => 0,
    }
}

fn lanes_of(it: &Instruction) -> usize {
    (0..it.op_count()).map(|n| lanes(it.op_register(n))).max().unwrap_or_default()
}

/// A machine that has run the code of a vector.
struct Machine<'a> {
    bytes: &'a [u8],
    vectors: [[i64; 16]; 32],
    /// Comparisons of data hold in these lanes.
    active: u16,
    masks: [u16; 8],
    immediate: u16,
    /// Elements of `x` that were read.
    touched: Vec<i64>,
    /// The vector that was stored, and the mask.
    stored: Option<([i64; 16], u16)>,
}

impl Machine<'_> {
    fn mask_of(&self, it: &Instruction) -> u16 {
        match it.op_mask() {
            Register::None => u16::MAX,
            mask => self.masks[number(mask)],
        }
    }

    /// The words of an operand, those of memory in the lanes of a mask.
    fn operand(&mut self, it: &Instruction, n: u32, mask: u16) -> [i64; 16] {
        if it.op_kind(n) != OpKind::Memory {
            return self.vectors[number(it.op_register(n))];
        }
        let (at, mut words) = (it.memory_displacement64() as i64, [0; 16]);
        for lane in (0..lanes_of(it)).filter(|lane| mask >> lane & 1 == 1) {
            words[lane] = if it.is_ip_rel_memory_operand() {
                let at = at as usize
                    + if it.mnemonic() == Mnemonic::Vbroadcastss { 0 } else { 4 * lane };
                i64::from(i32::from_le_bytes([0, 1, 2, 3].map(|n| self.bytes[at + n])))
            } else {
                self.touched.push(at / 4 + lane as i64);
                FIRST + at / 4 + lane as i64
            };
        }
        words
    }

    fn step(&mut self, it: &Instruction) {
        let (lanes, mask) = (lanes_of(it), self.mask_of(it));
        let to = number(it.op_register(0));
        let masked = |words: [i64; 16]| {
            std::array::from_fn(|n| if mask >> n & 1 == 1 { words[n] } else { 0 })
        };
        let result = match it.mnemonic() {
            Mnemonic::Mov if it.op_kind(1) == OpKind::Immediate32 => {
                return self.immediate = it.immediate32() as u16;
            }
            Mnemonic::Kmovw => return self.masks[to] = self.immediate,
            Mnemonic::Vcmpps => return self.masks[to] = self.active,
            Mnemonic::Kandw => {
                let [a, b] = [1, 2].map(|n| self.masks[number(it.op_register(n))]);
                return self.masks[to] = a & b;
            }
            Mnemonic::Vptestmd => {
                let [a, b] = [1, 2].map(|n| self.operand(it, n, u16::MAX));
                let bits = (0..lanes).filter(|n| a[*n] & b[*n] != 0).map(|n| 1 << n);
                return self.masks[to] = bits.sum::<u16>() & mask;
            }
            Mnemonic::Vpmovm2d => {
                let mask = self.masks[number(it.op_register(1))];
                std::array::from_fn(|n| -i64::from(mask >> n & 1))
            }
            Mnemonic::Vmovups | Mnemonic::Vmovaps if it.op_kind(0) == OpKind::Memory => {
                let all = u16::MAX >> (16 - lanes);
                return self.stored = Some((self.operand(it, 1, all), mask & all));
            }
            Mnemonic::Vmovups | Mnemonic::Vmovaps | Mnemonic::Vbroadcastss => {
                masked(self.operand(it, 1, mask))
            }
            Mnemonic::Vpxor => [0; 16],
            Mnemonic::Vmaskmovps => {
                let wanted = self.vectors[number(it.op_register(1))];
                let bits = (0..lanes).filter(|n| wanted[*n] < 0).map(|n| 1 << n);
                self.operand(it, 2, bits.sum())
            }
            other => {
                let Some(words) = self.permutation(it) else {
                    assert!(lanes == 0, "{other:?} is not known here");
                    return;
                };
                words
            }
        };
        self.vectors[to] = result;
    }

    /// The result of an instruction that moves words from lanes to others; `None` of others.
    fn permutation(&mut self, it: &Instruction) -> Option<[i64; 16]> {
        let (to, mask) = (number(it.op_register(0)), self.mask_of(it));
        let imm = |n: usize| it.immediate8() as usize >> (2 * n) & 3;
        Some(match it.mnemonic() {
            Mnemonic::Vpermi2ps => {
                let (at, a) = (self.vectors[to], self.vectors[number(it.op_register(1))]);
                let both = [a, self.operand(it, 2, u16::MAX)].concat();
                at.map(|it| both[it as usize % 32])
            }
            Mnemonic::Vshufps => {
                let (a, b) = (self.vectors[number(it.op_register(1))], self.operand(it, 2, 0xff));
                std::array::from_fn(|n| [a, a, b, b][n % 4][n / 4 * 4 % 8 + imm(n % 4)])
            }
            Mnemonic::Vpermq => {
                let a = self.vectors[number(it.op_register(1))];
                std::array::from_fn(|n| a[2 * imm(n / 2 % 4) + n % 2])
            }
            Mnemonic::Vblendps => {
                let [a, b] = [1, 2].map(|n| self.operand(it, n, 0xff));
                std::array::from_fn(
                    |n| if it.immediate8() >> (n % 8) & 1 == 1 { b[n] } else { a[n] },
                )
            }
            Mnemonic::Vpermd => {
                let [at, a] = [1, 2].map(|n| self.operand(it, n, 0xff));
                at.map(|it| a[it as usize % 8])
            }
            Mnemonic::Vblendmps => {
                let [a, b] = [1, 2].map(|n| self.operand(it, n, u16::MAX));
                std::array::from_fn(|n| if mask >> n & 1 == 1 { b[n] } else { a[n] })
            }
            Mnemonic::Vblendvps => {
                let [a, b] = [1, 2].map(|n| self.operand(it, n, u16::MAX));
                let wanted = self.vectors[number(it.op_register(3))];
                std::array::from_fn(|n| if wanted[n] < 0 { b[n] } else { a[n] })
            }
            _ => return None,
        })
    }
}

/// Checks the code of one vector: lane `n` has element `words * n + first` of `x`, of so many elements, where
/// there is one, and 7 elsewhere; those that a condition on data excludes have 0.
fn check(isa: Isa, words: i64, first: i64, extent: i64, active: Option<u16>) {
    let lanes = i64::from(isa.lanes());
    let read = format!("x.get([{words} * i + {first}]).unwrap_or(7.0)");
    let body = match active {
        Some(_) => format!("if n[[i]] > 0.0 {{ {read} }} else {{ 0.0 }}"),
        None => read,
    };
    let source = format!(
        "#[autotune]
         fn f(x: Tensor<f32, {extent}>, n: Tensor<f32, {lanes}>) -> Tensor<f32, {lanes}> {{ compute(|i| {body}) }}"
    );
    let mut schedule = Schedule::new(&dsl::program(&source).unwrap());
    schedule.annotate(StageId(0), AxisId(0), LoopKind::Vectorized).unwrap();
    let bytes = &assemble(&lower(&nest::lower(&schedule), isa).unwrap()).phases[0];
    let mut machine = Machine {
        bytes,
        vectors: [[0; 16]; 32],
        active: active.unwrap_or_default(),
        masks: [0; 8],
        immediate: 0,
        touched: Vec::new(),
        stored: None,
    };
    let mut instructions = Decoder::with_ip(64, bytes, 0, DecoderOptions::NONE).into_iter();
    while machine.stored.is_none() {
        machine.step(&instructions.next().unwrap());
    }
    let (found, mask) = machine.stored.unwrap();
    let message = format!("{words} * i + {first} of {extent} on {isa:?} where {active:?}");
    assert_eq!(i64::from(mask), (1 << lanes) - 1, "{message}");
    for n in 0..lanes {
        let (at, is_active) = (words * n + first, active.is_none_or(|it| it >> n & 1 == 1));
        let expected = match (0..extent).contains(&at) {
            _ if !is_active => 0,
            true => FIRST + at,
            false => i64::from(7.0_f32.to_bits()),
        };
        assert_eq!(found[n as usize], expected, "lane {n}: {message}");
    }
    let outside: Vec<&i64> =
        machine.touched.iter().filter(|it| !(0..extent).contains(*it)).collect();
    assert!(outside.is_empty(), "touches {outside:?}: {message}");
}

#[test]
fn elements_a_few_words_apart_come_to_their_lanes_and_nothing_around_is_read() {
    for (isa, strides) in [(Isa::Avx512, vec![2, 3, 4, 5, 6, 7, 8]), (Isa::Avx2, vec![2, 3, 5, 7])]
    {
        let lanes = i64::from(isa.lanes());
        for words in strides {
            let span = words * (lanes - 1) + 1;
            for first in [0, 1, -1, -words, -2 * words - 1, -5 * words + 1] {
                // The last element is each of them, or some words after it are there, too.
                for missing in (0..15).map(|it| it * words).chain([1, words - 1, 4 * words + 1]) {
                    check(isa, words, first, (span + first - missing).max(1), None);
                }
            }
        }
    }
    for words in 2..=8 {
        for active in [0, 1, 0x8000, 0x7ffe, 0b0110_0100_1011_0010] {
            for first in [0, -1, -3 * words] {
                check(Isa::Avx512, words, first, 15 * words + 1 + first - 2, Some(active));
            }
        }
    }
}

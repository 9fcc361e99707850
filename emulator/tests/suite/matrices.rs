//! Products of tensor cores: fragments against matrices, and whole kernels against plain sums.

use half::{bf16, f16};
use tvmtune_emulator::{Fault, FaultKind, Launch, Options, Order};

use crate::common::{
    Numbers, Product, Run, all_options, assert_close, assert_fault, bf16s, compared, module,
};

/// The row and column of each element of each register and lane, after the tables of the PTX
/// manual.
struct Fragment {
    /// Parts of a register.
    parts: usize,
    at: fn(register: usize, lane: usize, part: usize) -> (usize, usize),
}

/// A product of one instruction: how its operands lie, and how their elements are written.
struct Case {
    kernel: &'static str,
    k: usize,
    a: Fragment,
    b: Fragment,
    c: Fragment,
    /// The bits and the value of an element made from a small integer.
    factor: fn(i32) -> (u32, f64),
    sum: fn(i32) -> (u32, f64),
    value: fn(u32) -> f64,
}

fn half_of(n: i32) -> (u32, f64) {
    let value = f16::from_f32(n as f32 / 4.0);
    (u32::from(value.to_bits()), value.to_f64())
}

fn bf16_of(n: i32) -> (u32, f64) {
    let value = bf16::from_f32(n as f32 / 4.0);
    (u32::from(value.to_bits()), value.to_f64())
}

fn float_of(n: i32) -> (u32, f64) {
    let value = n as f32 / 4.0;
    (value.to_bits(), f64::from(value))
}

/// Bits that the unit must not see.
fn tf32_of(n: i32) -> (u32, f64) {
    let (bits, value) = float_of(n);
    (bits | 0x1FFF, value)
}

fn signed_byte(n: i32) -> (u32, f64) {
    (u32::from(n as u8), f64::from(n))
}

fn unsigned_byte(n: i32) -> (u32, f64) {
    let value = (n + 128) as u8;
    (u32::from(value), f64::from(value))
}

fn word(n: i32) -> (u32, f64) {
    ((n * 1000) as u32, f64::from(n * 1000))
}

fn of_float(bits: u32) -> f64 {
    f64::from(f32::from_bits(bits))
}

fn of_half(bits: u32) -> f64 {
    f16::from_bits(bits as u16).to_f64()
}

fn of_word(bits: u32) -> f64 {
    f64::from(bits as i32)
}

const SUMS: Fragment =
    Fragment { parts: 1, at: |i, lane, _| (lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2) };
const HALF_SUMS: Fragment =
    Fragment { parts: 2, at: |i, lane, p| (lane / 4 + i * 8, lane % 4 * 2 + p) };
const HALVES_A: Fragment =
    Fragment { parts: 2, at: |i, lane, p| (lane / 4 + i % 2 * 8, lane % 4 * 2 + p + i / 2 * 8) };
const HALVES_B: Fragment =
    Fragment { parts: 2, at: |i, lane, p| (lane % 4 * 2 + p + i * 8, lane / 4) };
const WORDS_A: Fragment =
    Fragment { parts: 1, at: |i, lane, _| (lane / 4 + i % 2 * 8, lane % 4 + i / 2 * 4) };
const WORDS_B: Fragment = Fragment { parts: 1, at: |i, lane, _| (lane % 4 + i * 4, lane / 4) };
const BYTES_A: Fragment =
    Fragment { parts: 4, at: |i, lane, p| (lane / 4 + i % 2 * 8, lane % 4 * 4 + p + i / 2 * 16) };
const BYTES_B: Fragment =
    Fragment { parts: 4, at: |i, lane, p| (lane % 4 * 4 + p + i * 16, lane / 4) };

fn cases() -> Vec<Case> {
    let case =
        |kernel, k, a, b, c, factor, sum, value| Case { kernel, k, a, b, c, factor, sum, value };
    vec![
        case("bf16_16", 16, HALVES_A, HALVES_B, SUMS, bf16_of, float_of, of_float),
        case("f16_16", 16, HALVES_A, HALVES_B, SUMS, half_of, float_of, of_float),
        case("f16_8", 8, HALVES_A, HALVES_B, SUMS, half_of, float_of, of_float),
        case("f16_f16", 16, HALVES_A, HALVES_B, HALF_SUMS, half_of, half_of, of_half),
        case("tf32_8", 8, WORDS_A, WORDS_B, SUMS, tf32_of, float_of, of_float),
        case("tf32_4", 4, WORDS_A, WORDS_B, SUMS, tf32_of, float_of, of_float),
        case("s8_32", 32, BYTES_A, BYTES_B, SUMS, signed_byte, word, of_word),
        case("u8_s8_32", 32, BYTES_A, BYTES_B, SUMS, signed_byte, word, of_word),
    ]
}

#[test]
fn fragments_lie_as_the_manual_says() {
    let module = module("matrices.sm_90a");
    for case in cases() {
        let mut numbers = Numbers::new(9);
        let mut small = |most: i32| (numbers.bits() >> 20) as i32 % most;
        let first = if case.kernel == "u8_s8_32" { unsigned_byte } else { case.factor };
        let a: Vec<Vec<_>> =
            (0..16).map(|_| (0..case.k).map(|_| first(small(9))).collect()).collect();
        let b: Vec<Vec<_>> =
            (0..case.k).map(|_| (0..8).map(|_| (case.factor)(small(9))).collect()).collect();
        let c: Vec<Vec<_>> =
            (0..16).map(|_| (0..8).map(|_| (case.sum)(small(9))).collect()).collect();
        let mut words = vec![0u32; 32 * 10];
        let mut put = |base: usize, n: usize, fragment: &Fragment, of: &Vec<Vec<(u32, f64)>>| {
            for (lane, i, p) in (0..32)
                .flat_map(|l| (0..n).map(move |i| (l, i)))
                .flat_map(|(l, i)| (0..fragment.parts).map(move |p| (l, i, p)))
            {
                let (row, column) = (fragment.at)(i, lane, p);
                words[lane * 10 + base + i] |= of[row][column].0 << (32 / fragment.parts * p);
            }
        };
        let n_a = 16 * case.k / 32 / case.a.parts;
        put(0, n_a, &case.a, &a);
        put(4, n_a / 2, &case.b, &b);
        let n_c = 4 / case.c.parts;
        put(6, n_c, &case.c, &c);
        let run = Run::new(1, 32).buffer(&words).buffer(&[0u32; 32 * 4]);
        let got: Vec<u32> = run.run(&module, case.kernel).unwrap().read(1);
        for lane in 0..32 {
            for i in 0..n_c {
                for p in 0..case.c.parts {
                    let (row, column) = (case.c.at)(i, lane, p);
                    let bits = got[lane * 4 + i] >> (32 / case.c.parts * p);
                    let products: f64 = (0..case.k).map(|k| a[row][k].1 * b[k][column].1).sum();
                    let want = c[row][column].1 + products;
                    assert_eq!((case.value)(bits), want, "{} {row} {column}", case.kernel);
                }
            }
        }
    }
}

#[test]
fn matrices_move_between_registers_and_shared_memory() {
    let module = module("matrices.sm_90a");
    let halves: Vec<u16> = (0..256).collect();
    let run = Run::new(1, 32).buffer(&halves).buffer(&[0u16; 704]);
    let got: Vec<u16> = run.run(&module, "moves").unwrap().read(1);
    let matrix = |n: usize, row: usize, column: usize| halves[n * 64 + row * 8 + column];
    for lane in 0..32 {
        for h in 0..2 {
            let (row, column) = (lane / 4, lane % 4 * 2 + h);
            for n in 0..4 {
                assert_eq!(got[n * 64 + lane * 2 + h], matrix(n, row, column));
            }
            for n in 0..2 {
                assert_eq!(got[256 + n * 64 + lane * 2 + h], matrix(n, column, row));
            }
            assert_eq!(got[384 + lane * 2 + h], matrix(0, row, column));
        }
    }
    for (n, got) in got[448..].iter().enumerate() {
        assert_eq!(*got, matrix(n / 64, n % 8, n / 8 % 8));
    }
}

/// Runs `C = A * B^T` and returns `C` and what it should be.
fn gemm(fixture: &str, [m, n, k]: [usize; 3], options: &Options) -> Result<Product, Box<Fault>> {
    let module = module(fixture);
    let mut numbers = Numbers::new(10);
    let (x, y) = (bf16s(&mut numbers, m * k), bf16s(&mut numbers, n * k));
    let mut launch = Launch::linear(n.div_ceil(32) as u32, 64);
    launch.grid[1] = m.div_ceil(32) as u32;
    let run =
        Run::of(launch).options(options).buffer(&x).buffer(&y).buffer(&vec![bf16::NAN; m * n]);
    let run = [m, n, k].into_iter().fold(run, |run, it| run.argument(it as i32));
    let got: Vec<bf16> = run.run(&module, "gemm_mma")?.read(2);
    Ok(compared(&got, (&x, &y), [m, n, k]))
}

#[test]
fn copies_feed_tensor_cores() {
    for sizes in [[32, 32, 32], [32, 32, 8], [33, 34, 40], [64, 40, 136]] {
        let (got, want) = gemm("gemm_mma.sm_80", sizes, &Options::default()).unwrap();
        assert_close(&got, &want, 4e-3);
    }
    for options in all_options() {
        let (got, want) = gemm("gemm_mma.sm_80", [40, 36, 104], &options).unwrap();
        assert_close(&got, &want, 4e-3);
    }
}

#[test]
fn bugs_of_copies_are_found_however_they_complete() {
    let run = |bug: &str, options: &Options| {
        gemm(&format!("gemm_mma.{bug}.sm_80"), [32, 32, 128], options)
    };
    let (file, line) = ("gemm_mma.cu", "/* rows of a */");
    for options in all_options() {
        // With eager copies, results are right.
        assert_fault(run("wait_count", &options), FaultKind::Race, file, line);
    }
    let ascending = Options::default();
    assert_fault(run("missing_barrier", &ascending), FaultKind::Race, file, line);
    let descending = Options { order: Order::Descending, ..ascending };
    assert_fault(run("missing_barrier", &descending), FaultKind::Uninitialised, file, line);
}

//! `wgmma` with every kind of factor and every layout of shared memory, one product each.

use half::{bf16, f16};
use tvmtune_emulator::{Fault, FaultKind, Module};

use crate::common::{Numbers, Run, module};

/// The layout of an operand in shared memory, one of the canonical layouts of the PTX ISA.
#[derive(Clone, Copy)]
enum Layout {
    /// Rows along K, of as many bytes as are swizzled.
    Rows(usize),
    /// Blocks of 8 rows by 16 bytes; blocks along K, then along rows.
    Blocks,
    /// Columns along M or N, of as many bytes as are swizzled.
    Columns(usize),
    /// In registers: where descriptors point to, lane by lane.
    Registers,
}

impl Layout {
    /// The byte of an element, and what the descriptor says of strides and swizzle.
    fn at(self, row: usize, k: usize, bytes: usize) -> usize {
        let swizzled = |line: usize, n: usize, byte: usize| {
            let chunk = (byte / 16) ^ (n % 8 * line / 128);
            n * line + chunk * 16 + byte % 16
        };
        match self {
            Self::Rows(line) => swizzled(line, row, k * bytes),
            Self::Blocks => row / 8 * 256 + k * bytes / 16 * 128 + row % 8 * 16 + k * bytes % 16,
            Self::Columns(line) => swizzled(line, k, row * bytes),
            Self::Registers => {
                let (warp, row, register_k) = (row / 16, row % 16, k % 8 / 2);
                let register = row / 8 + k / 8 * 2;
                (warp * 32 + row % 8 * 4 + register_k) * 16 + register * 4 + k % 2 * 2
            }
        }
    }

    fn descriptor(self, start: u64) -> u64 {
        let fields = |leading: u64, stride: u64, swizzle: u64| {
            start | leading >> 4 << 16 | stride >> 4 << 32 | swizzle << 62
        };
        let mode = |line: usize| [0, 3, 2, 0, 1][line / 32];
        match self {
            Self::Rows(line) => fields(16, 8 * line as u64, mode(line)),
            Self::Blocks => fields(128, 256, 0),
            Self::Columns(line) => fields(1 << 12, 8 * line as u64, mode(line)),
            Self::Registers => start,
        }
    }
}

struct Case {
    kernel: &'static str,
    n: usize,
    k: usize,
    a: Layout,
    b: Layout,
    /// The bytes and the value of a small integer.
    element: fn(i32) -> (Vec<u8>, f64),
    /// The B operand.
    scale: f64,
}

fn as_bf16(n: i32) -> (Vec<u8>, f64) {
    (bf16::from_f32(n as f32).to_le_bytes().to_vec(), f64::from(n))
}

fn as_f16(n: i32) -> (Vec<u8>, f64) {
    (f16::from_f32(n as f32).to_le_bytes().to_vec(), f64::from(n))
}

fn as_tf32(n: i32) -> (Vec<u8>, f64) {
    ((n as f32).to_le_bytes().to_vec(), f64::from(n))
}

fn as_i8(n: i32) -> (Vec<u8>, f64) {
    ((n as i8).to_le_bytes().to_vec(), f64::from(n))
}

fn cases() -> Vec<Case> {
    use Layout::{Blocks, Columns, Registers, Rows};
    let case = |kernel, n, k, a, b, element, scale| Case { kernel, n, k, a, b, element, scale };
    vec![
        case("bf16_kk", 16, 16, Rows(128), Rows(128), as_bf16, 1.0),
        case("bf16_kk", 16, 16, Rows(64), Rows(32), as_bf16, 1.0),
        case("bf16_kk", 16, 16, Rows(32), Rows(64), as_bf16, 1.0),
        case("bf16_kk", 16, 16, Blocks, Blocks, as_bf16, 1.0),
        case("f16_minus", 16, 16, Rows(128), Blocks, as_f16, -1.0),
        case("bf16_mk", 16, 16, Columns(128), Rows(128), as_bf16, 1.0),
        case("bf16_kn", 16, 16, Rows(128), Columns(32), as_bf16, 1.0),
        case("tf32", 16, 8, Rows(128), Rows(64), as_tf32, 1.0),
        case("tf32", 16, 8, Blocks, Rows(32), as_tf32, 1.0),
        case("s8", 16, 32, Rows(128), Blocks, as_i8, 1.0),
        case("f16_f16", 16, 16, Rows(128), Rows(128), as_f16, 1.0),
        case("bf16_rs", 8, 16, Registers, Rows(128), as_bf16, 1.0),
    ]
}

/// A product of operands in shared memory, A at its start and B in its middle.
fn product(image: &[u8], start: u32, (a, b): (Layout, Layout), add: i32) -> Run {
    let run = Run::new(1, 128).shared_bytes(16384).buffer(image).buffer(&[start; 128 * 8]);
    run.argument(a.descriptor(0)).argument(b.descriptor(8192 >> 4)).argument(add)
}

#[test]
fn factors_lie_as_their_descriptors_say() {
    let module = module("products.sm_90a");
    for (number, case) in cases().iter().enumerate() {
        let (kernel, n, k) = (case.kernel, case.n, case.k);
        let mut numbers = Numbers::new(15);
        let mut small = || (numbers.bits() >> 30) as i32 % 7;
        let mut image = vec![0u8; 16384];
        let mut fill = |rows: usize, layout: Layout, base: usize| -> Vec<Vec<f64>> {
            (0..rows)
                .map(|row| {
                    (0..k)
                        .map(|k| {
                            let (bytes, value) = (case.element)(small());
                            let at = base + layout.at(row, k, bytes.len());
                            image[at..at + bytes.len()].copy_from_slice(&bytes);
                            value
                        })
                        .collect()
                })
                .collect()
        };
        let (a, b) = (fill(64, case.a, 0), fill(n, case.b, 8192));
        for add in [0i32, 1] {
            let halves = kernel == "f16_f16";
            let start = if kernel == "s8" {
                5
            } else if halves {
                0x4500_4500
            } else {
                5f32.to_bits()
            };
            let run = product(&image, start, (case.a, case.b), add);
            let got: Vec<u32> = run.run(&module, kernel).unwrap().read(1);
            for (thread, i) in (0..128).flat_map(|thread| (0..n / 2).map(move |i| (thread, i))) {
                let lane = thread % 32;
                let row = thread / 32 * 16 + lane / 4 + i / 2 % 2 * 8;
                let column = i / 4 * 8 + lane % 4 * 2 + i % 2;
                let products: f64 = (0..k).map(|k| a[row][k] * b[column][k]).sum();
                let want = products * case.scale + 5.0 * f64::from(add);
                let got = if halves {
                    f16::from_bits((got[thread * 8 + i / 2] >> (i % 2 * 16)) as u16).to_f64()
                } else if kernel == "s8" {
                    f64::from(got[thread * 8 + i] as i32)
                } else {
                    f64::from(f32::from_bits(got[thread * 8 + i]))
                };
                assert_eq!(got, want, "case {number}, {kernel}: row {row}, column {column}");
            }
        }
    }
}

/// Runs `bf16_rs` with a line of its text after the last fence replaced.
fn with_factors_in_registers(from: &str, to: &str) -> Result<(), Box<Fault>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/kernels/products.sm_90a.ptx");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, kernel) = text.split_at(text.find(".entry bf16_rs(").unwrap());
    let (body, rest) = kernel.split_at(kernel.rfind("wgmma.fence.sync.aligned;").unwrap());
    assert!(rest.contains(from), "{rest}");
    let module = Module::parse(&[before, body, &rest.replacen(from, to, 1)].concat()).unwrap();
    let run = product(&[0; 16384], 0, (Layout::Registers, Layout::Rows(128)), 1);
    run.run(&module, "bf16_rs").map(drop)
}

#[test]
fn factors_in_registers_are_there_before_a_fence_and_stay_until_a_wait() {
    let commit = "wgmma.commit_group.sync.aligned;";
    assert!(with_factors_in_registers(commit, commit).is_ok());
    let read = format!("mov.u32 %r90, %r78; {commit}");
    assert!(with_factors_in_registers(commit, &read).is_ok());
    let written = format!("mov.u32 %r78, %r90; {commit}");
    let fault = with_factors_in_registers(commit, &written).unwrap_err();
    assert_eq!(fault.kind, FaultKind::Race, "{fault}");
    let fault = with_factors_in_registers("wgmma.fence.sync.aligned;", "").unwrap_err();
    assert_eq!(fault.kind, FaultKind::BadInstruction, "{fault}");
}

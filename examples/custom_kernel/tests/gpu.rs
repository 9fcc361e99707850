//! The kernels on a GPU, which is the emulator: what lies in `tvmtune/` is what runs.
//!
//! If a kernel has no code here, it or the code around it has changed since it was prepared:
//! `cargo tvmtune compile --record -p custom_kernel`, with `--target cuda:sm_80` too, then `cargo tvmtune
//! accept -p custom_kernel`.
#![cfg(target_os = "linux")]

use std::fs;
use std::process::Command;

use custom_kernel::{histogram, paged_attention, sort_rows};
use tvmtune_runtime::half::f16;
use tvmtune_runtime::{Cpu, cuda};

/// Set where the driver is the fake one.
const FAKE_DRIVER: &str = "CUSTOM_KERNEL_TESTS_FAKE_DRIVER";

/// Runs a check on a GPU: by this test, in a process whose driver is the fake one.
fn on_gpu(test: &str, check: impl Fn(&cuda::Stream)) {
    if std::env::var_os(FAKE_DRIVER).is_some() {
        return check(
            &cuda::Device::open(0).expect("the fake driver has one").context().per_thread_stream(),
        );
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let this = std::env::current_exe().expect("this test is a file");
    let driver = this.with_file_name("libtvmtune_fake_driver.so");
    fs::copy(&driver, folder.path().join("libcuda.so.1")).expect("the driver was built");
    let mut command = Command::new(&this);
    command.args([test, "--exact"]);
    command.env(FAKE_DRIVER, "yes").env("LD_LIBRARY_PATH", folder.path());
    let output = command.output().expect("this test runs");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&said));
}

/// Values of which some are much more frequent than others, some beyond the ends, and one is none.
fn values(n: usize) -> Vec<f32> {
    let value = |it: usize| match it % 7 {
        0 => 0.25,
        1 => -3.0,
        _ => (it * it % 1009) as f32 / 500.0 - 1.0,
    };
    (0..n).map(|it| if it == 5 { f32::NAN } else { value(it) }).collect()
}

#[test]
fn counts_are_those_of_the_cpu_and_of_plain_rust() {
    on_gpu("counts_are_those_of_the_cpu_and_of_plain_rust", |stream| {
        let (lo, scale) = (-1.0, 128.0);
        for n in [1, 63, 64, 1021, 4096, 4097, 10_007] {
            let x = values(n);
            let mut expected = vec![0_i32; 256];
            for it in &x {
                // `as` takes what is no number to 0.
                let bin = ((it - lo) * scale).floor().clamp(0.0, 255.0);
                expected[bin as usize] += 1;
            }
            let mut on_cpu = vec![-1_i32; 256];
            histogram(&Cpu::new(), &x, lo, scale, &mut on_cpu).unwrap();
            assert_eq!(on_cpu, expected, "{n} values on the CPU");
            let on_gpu = stream.clone_htod(&x).unwrap();
            let mut counts = stream.clone_htod(&vec![-1_i32; 256]).unwrap();
            histogram(stream, &on_gpu, lo, scale, &mut counts).unwrap();
            assert_eq!(stream.clone_dtoh(&counts).unwrap(), expected, "{n} values on the GPU");
        }
    });
}

#[test]
fn sorted_rows_are_those_of_plain_rust() {
    on_gpu("sorted_rows_are_those_of_plain_rust", |stream| {
        for m in [1, 2, 3, 63, 64, 65, 129] {
            let mut x = values(m * 128);
            x[7] = -0.0;
            x[8] = f32::NEG_INFINITY;
            let mut expected = x.clone();
            expected.chunks_mut(128).for_each(|it| it.sort_unstable_by(f32::total_cmp));
            let bits = |it: &[f32]| -> Vec<u32> { it.iter().map(|it| it.to_bits()).collect() };
            let mut sorted = vec![1.0; x.len()];
            sort_rows(&Cpu::new(), &x, &mut sorted).unwrap();
            assert_eq!(bits(&sorted), bits(&expected), "{m} rows on the CPU");
            let mut on_gpu = stream.clone_htod(&vec![1.0_f32; x.len()]).unwrap();
            sort_rows(stream, &stream.clone_htod(&x).unwrap(), &mut on_gpu).unwrap();
            let sorted = stream.clone_dtoh(&on_gpu).unwrap();
            assert_eq!(bits(&sorted), bits(&expected), "{m} rows on the GPU");
        }
    });
}

const HEADS: usize = 8;
const KV_HEADS: usize = 2;
const HEAD_DIM: usize = 64;
const PAGE: usize = 16;

/// A cache, and sequences in it.
struct Cache {
    q: Vec<f16>,
    k: Vec<f16>,
    v: Vec<f16>,
    table: Vec<i32>,
    lengths: Vec<u32>,
}

impl Cache {
    /// Pages in no order, of which some do not exist, and lengths from 0 to more than the table has room
    /// for.
    fn new(seqs: usize, slots: usize, pages: usize) -> Self {
        let numbers = |n: usize, step: usize| -> Vec<f16> {
            let number = |it: usize| f16::from_f32((it * step % 1013) as f32 / 506.0 - 1.0);
            (0..n).map(number).collect()
        };
        let page = |it: usize| match it % 11 {
            4 => -1,
            9 => pages as i32,
            _ => (it * 7 % pages) as i32,
        };
        let room = slots * PAGE;
        let length = |it: usize| [room, 1, room + 5, 0, room / 2 + 1][it % 5] as u32;
        Self {
            q: numbers(seqs * HEADS * HEAD_DIM, 37),
            k: numbers(pages * PAGE * KV_HEADS * HEAD_DIM, 101),
            v: numbers(pages * PAGE * KV_HEADS * HEAD_DIM, 211),
            table: (0..seqs * slots).map(page).collect(),
            lengths: (0..seqs).map(length).collect(),
        }
    }

    /// The result in plain Rust.
    fn attention(&self, scale: f32) -> Vec<f64> {
        let slots = self.table.len() / self.lengths.len();
        let mut y = Vec::new();
        for (row, query) in self.q.chunks_exact(HEAD_DIM).enumerate() {
            let (sequence, kv_head) = (row / HEADS, row % HEADS / (HEADS / KV_HEADS));
            let of_page = |all: &[f16], token: usize, d: usize| {
                let page = self.table[sequence * slots + token / PAGE];
                let Ok(page) = usize::try_from(page) else { return 0.0 };
                let place = ((page * PAGE + token % PAGE) * KV_HEADS + kv_head) * HEAD_DIM + d;
                all.get(place).map_or(0.0, |it| it.to_f64())
            };
            let n_tokens = (self.lengths[sequence] as usize).min(slots * PAGE);
            let score = |token| {
                let product = |(d, it): (usize, &f16)| it.to_f64() * of_page(&self.k, token, d);
                query.iter().enumerate().map(product).sum::<f64>() * f64::from(scale)
            };
            let scores: Vec<f64> = (0..n_tokens).map(score).collect();
            let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let weights: Vec<f64> = scores.iter().map(|it| (it - top).exp()).collect();
            let total: f64 = weights.iter().sum();
            for d in 0..HEAD_DIM {
                let value = |(token, it): (usize, &f64)| it / total * of_page(&self.v, token, d);
                y.push(weights.iter().enumerate().map(value).sum());
            }
        }
        y
    }
}

/// Compares results with those that are expected, in half precision.
#[track_caller]
fn assert_near(y: &[f16], expected: &[f64], on: &str) {
    for (n, (it, expected)) in y.iter().zip(expected).enumerate() {
        let error = (it.to_f64() - expected).abs();
        assert!(error <= 2e-3 + 2e-3 * expected.abs(), "{n} of {on}: {it}, expected {expected}");
    }
}

#[test]
fn attention_is_that_of_the_cpu_and_of_plain_rust() {
    on_gpu("attention_is_that_of_the_cpu_and_of_plain_rust", |stream| {
        let scale = 0.125;
        for (seqs, slots, pages) in [(1, 1, 1), (1, 2, 3), (5, 17, 31), (9, 3, 2), (13, 5, 101)] {
            let on = format!("{seqs} sequences of {slots} slots in {pages} pages");
            let cache = Cache::new(seqs, slots, pages);
            let expected = cache.attention(scale);
            let Cache { q, k, v, table, lengths } = &cache;
            let mut y = vec![f16::NAN; q.len()];
            paged_attention(&Cpu::new(), q, k, v, table, lengths, scale, &mut y).unwrap();
            assert_near(&y, &expected, &format!("{on} on the CPU"));
            let [q, k, v] = [q, k, v].map(|it| stream.clone_htod(it).unwrap());
            let table = stream.clone_htod(table).unwrap();
            let lengths = stream.clone_htod(lengths).unwrap();
            let mut y = stream.clone_htod(&vec![f16::NAN; expected.len()]).unwrap();
            paged_attention(stream, &q, &k, &v, &table, &lengths, scale, &mut y).unwrap();
            assert_near(&stream.clone_dtoh(&y).unwrap(), &expected, &format!("{on} on the GPU"));
        }
    });
}

//! Helpers of tests: stored PTX, buffers of numbers, and all orders to run a kernel in.

use std::path::Path;

use tvmtune_emulator::{Completion, Fault, FaultKind, Memory, Module, Options, Order};

/// A module of the folder `tests/kernels`, by its name without the ending.
pub(crate) fn module(name: &str) -> Module {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/kernels/{name}.ptx"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|it| panic!("{path:?}: {it}"));
    Module::parse(&text).unwrap_or_else(|it| panic!("{name}: {it}"))
}

/// Every order and every way to complete copies.
pub(crate) fn all_options() -> Vec<Options> {
    let completions = [Completion::Eager, Completion::Late, Completion::Random(7)];
    let orders = [Order::Ascending, Order::Descending, Order::Random(3)];
    completions
        .iter()
        .flat_map(|completion| {
            orders.iter().map(|order| Options {
                completion: *completion,
                order: *order,
                ..Options::default()
            })
        })
        .collect()
}

/// Numbers that are different for each seed.
pub(crate) struct Numbers(u64);

impl Numbers {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// In -1..1.
    pub(crate) fn float(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }

    pub(crate) fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

/// Numbers as bytes and back.
pub(crate) trait Bytes: Sized + Copy {
    const SIZE: usize;
    fn to(self) -> Vec<u8>;
    fn of(bytes: &[u8]) -> Self;
}

macro_rules! bytes {
    ($($type:ty),*) => {
        $(impl Bytes for $type {
            const SIZE: usize = size_of::<$type>();
            fn to(self) -> Vec<u8> {
                self.to_le_bytes().to_vec()
            }
            fn of(bytes: &[u8]) -> Self {
                Self::from_le_bytes(bytes.try_into().unwrap())
            }
        })*
    };
}

bytes!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, half::f16, half::bf16);

pub(crate) fn to_bytes<T: Bytes>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|it| it.to()).collect()
}

pub(crate) fn of_bytes<T: Bytes>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::of).collect()
}

/// Memory with named buffers.
pub(crate) fn buffer<T: Bytes>(
    memory: &mut Memory,
    name: &str,
    values: &[T],
) -> tvmtune_emulator::Buffer {
    memory.add(name, to_bytes(values))
}

/// The relative error of a result, over all elements.
#[track_caller]
pub(crate) fn assert_close(got: &[f32], want: &[f64], tolerance: f64) {
    assert_eq!(got.len(), want.len());
    let mut error = 0.0;
    let mut size = 0.0;
    for (got, want) in got.iter().zip(want) {
        error += (f64::from(*got) - want).powi(2);
        size += want.powi(2);
    }
    let relative = (error / size.max(1e-300)).sqrt();
    assert!(relative <= tolerance, "error {relative:e}");
}

/// The line of a kernel's source that has some text, by its number.
pub(crate) fn line_of(file: &str, text: &str) -> u32 {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kernels").join(file);
    let source = std::fs::read_to_string(path).unwrap();
    let found: Vec<usize> =
        source.lines().enumerate().filter(|it| it.1.contains(text)).map(|it| it.0).collect();
    assert_eq!(found.len(), 1, "`{text}` in {file}");
    found[0] as u32 + 1
}

/// Checks that a run was stopped by a fault of a kind at a line.
#[track_caller]
pub(crate) fn assert_fault<T>(
    result: Result<T, Box<Fault>>,
    kind: FaultKind,
    file: &str,
    text: &str,
) {
    let Err(fault) = result else { panic!("no fault, where {kind:?} was expected") };
    assert_eq!(fault.kind, kind, "{fault}");
    assert_eq!(fault.line(), Some(line_of(file, text)), "{fault}");
}

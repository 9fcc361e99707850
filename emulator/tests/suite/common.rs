//! Helpers of tests: stored PTX, launches on buffers of numbers, and all orders to run a kernel in.

use std::path::Path;

use half::{bf16, f16};
use tvmtune_emulator::{
    Argument, Buffer, Completion, Fault, FaultKind, Launch, Memory, Module, Options, Order,
};

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
    let pairs = completions.into_iter().flat_map(|it| orders.map(|order| (it, order)));
    pairs.map(|(completion, order)| Options { completion, order, ..Options::default() }).collect()
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

bytes!(u8, i8, u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16);

pub(crate) fn to_bytes<T: Bytes>(values: &[T]) -> Vec<u8> {
    values.iter().flat_map(|it| it.to()).collect()
}

pub(crate) fn of_bytes<T: Bytes>(bytes: &[u8]) -> Vec<T> {
    bytes.chunks_exact(T::SIZE).map(T::of).collect()
}

/// A launch of a kernel: its buffers and other arguments, in order.
pub(crate) struct Run {
    launch: Launch,
    options: Options,
    memory: Memory,
    buffers: Vec<Buffer>,
    arguments: Vec<Argument>,
}

impl Run {
    pub(crate) fn new(blocks: u32, threads: u32) -> Self {
        Self::of(Launch::linear(blocks, threads))
    }

    pub(crate) fn of(launch: Launch) -> Self {
        let (memory, options) = (Memory::new(), Options::default());
        Self { launch, options, memory, buffers: Vec::new(), arguments: Vec::new() }
    }

    pub(crate) fn options(self, options: &Options) -> Self {
        Self { options: *options, ..self }
    }

    pub(crate) fn shared_bytes(self, dynamic_shared_bytes: u32) -> Self {
        Self { launch: Launch { dynamic_shared_bytes, ..self.launch }, ..self }
    }

    /// Adds a buffer that is no argument by itself; returns it.
    pub(crate) fn add<T: Bytes>(&mut self, values: &[T]) -> Buffer {
        let name = ["x", "y", "z"].get(self.buffers.len()).unwrap_or(&"more");
        self.buffers.push(self.memory.add(name, to_bytes(values)));
        self.buffers[self.buffers.len() - 1]
    }

    /// Adds a buffer as the next argument.
    pub(crate) fn buffer<T: Bytes>(mut self, values: &[T]) -> Self {
        let buffer = self.add(values);
        self.argument(buffer)
    }

    pub(crate) fn argument(mut self, it: impl Into<Argument>) -> Self {
        self.arguments.push(it.into());
        self
    }

    /// Runs a kernel, whose buffers may be read after that.
    pub(crate) fn run(mut self, module: &Module, kernel: &str) -> Result<Self, Box<Fault>> {
        let kernel = module.kernel(kernel).unwrap();
        kernel.run(&self.launch, &self.arguments, &mut self.memory, &self.options)?;
        Ok(self)
    }

    /// The contents of a buffer, by its number.
    pub(crate) fn read<T: Bytes>(&self, buffer: usize) -> Vec<T> {
        of_bytes(self.memory.bytes(self.buffers[buffer]))
    }
}

/// Numbers of 16 bits.
pub(crate) fn bf16s(numbers: &mut Numbers, n: usize) -> Vec<bf16> {
    numbers.floats(n).into_iter().map(bf16::from_f32).collect()
}

/// `C` as it was computed, and as it should be.
pub(crate) type Product = (Vec<f32>, Vec<f64>);

/// `A * B^T` of `m` by `k` and `n` by `k` elements, beside what a kernel made of it.
pub(crate) fn compared(c: &[bf16], (x, y): (&[bf16], &[bf16]), [m, n, k]: [usize; 3]) -> Product {
    let element =
        |at: usize| (0..k).map(|l| x[at / n * k + l].to_f64() * y[at % n * k + l].to_f64()).sum();
    (c.iter().map(|it| it.to_f32()).collect(), (0..m * n).map(element).collect())
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

//! The protocol between tuner and worker: frames of a JSON header and a blob, over pipes.
//!
//! ```text
//! frame  = "tvm1", header bytes: u32, blob bytes: u64 (both little-endian), header, blob
//! tuner  -> worker: Request; the blob holds machine code or expected results
//! worker -> tuner:  Response; the blob holds computed results
//! ```
//!
//! The tuner validates what it reads: a worker may have been overwritten by the code it ran. An invalid
//! frame is an error, never a panic.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tvmtune_ir::dag::DType;
use tvmtune_plan::record::Class;

use crate::definition::rounding::IllConditioned;
use crate::outcome::{Outcome, Timing};

/// The first bytes of every frame; the digit is the version.
const MAGIC: [u8; 4] = *b"tvm1";
/// The maximum size of a header, in bytes.
const MAX_HEADER: u32 = 1 << 26;
/// The maximum size of a blob, in bytes.
const MAX_BLOB: u64 = 1 << 34;

/// A message with binary data.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Frame<T> {
    pub(super) message: T,
    pub(super) blob: Vec<u8>,
}

/// A request of the tuner.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Request {
    /// Describe the first GPU. Answered by `Gpu`.
    Gpu,
    /// Copy within the memory of the GPU that many times. Answered by `Copied`.
    Copy(usize),
    /// Prepare for a problem, which all code computes from now on. Answered by `Done`.
    SetUp(Problem),
    /// Run code that computes the last problem.
    Run(Run),
}

/// A request to run code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Run {
    /// Run the code once on a case and give back the results. Answered by `Results`.
    Evaluate { code: CodeSpec, case: usize },
    /// Verify the code and time it. Answered by `Outcome`.
    Measure { code: CodeSpec, policy: Policy },
    /// Time several codes side by side on the first case, without verifying them again. Answered
    /// by `Timings`.
    Compare { codes: Vec<CodeSpec>, rounds: usize, policy: Policy },
}

/// A response of the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Response {
    /// Sent once, at the start: the process is a worker.
    Ready,
    /// The GPU.
    Gpu(Gpu),
    /// The bandwidth of each copy, in bytes read and written per ns.
    Copied(Vec<f64>),
    /// The request was executed.
    Done,
    /// The results, concatenated in the blob.
    Results,
    /// The outcome of the candidate.
    Outcome(Outcome),
    /// A timing for each code.
    Timings(Vec<Timing>),
    /// The request failed, for lack of memory for instance.
    Failed(String),
    /// The code broke the GPU context of this process, which ends: later results would be invalid.
    Lost(String),
}

/// A GPU, as its driver describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Gpu {
    /// Its name: `NVIDIA H200`.
    pub name: String,
    /// Its compute capability: `(9, 0)`.
    pub capability: (u8, u8),
    /// Streaming multiprocessors.
    pub multiprocessors: u32,
    /// The maximum shared memory of a block.
    pub shared_bytes: u64,
    /// Second-level cache.
    pub l2_bytes: u64,
    /// Memory.
    pub memory_bytes: u64,
    /// Memory that is free.
    pub free_bytes: u64,
    /// The peak bandwidth of memory, in GB/s; 0 if the driver does not say.
    pub bandwidth_gbps: u32,
    /// The highest clock of multiprocessors; 0 if the driver does not say.
    pub clock_mhz: u32,
    /// The latest PTX that the driver compiles.
    pub ptx: (u8, u8),
}

/// The cases that the candidates of one task compute.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Problem {
    /// The first is where candidates are timed.
    pub(super) cases: Vec<Case>,
    /// Set if the blob holds the results of all cases, concatenated.
    pub(super) has_expected: bool,
    /// Candidates are timed on the GPU, and not on the CPU.
    pub(super) on_gpu: bool,
}

/// Arguments for one launch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Case {
    pub(super) params: Vec<ParamSpec>,
    pub(super) outputs: Vec<OutputSpec>,
}

/// A parameter: filled with numbers drawn from a seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ParamSpec {
    pub(super) dtype: DType,
    pub(super) shape: Vec<u64>,
    pub(super) seed: u64,
    pub(super) numbers: Numbers,
    /// Timed launches find it in memory, and not in a cache.
    pub(super) cold: bool,
}

/// The numbers that a parameter draws from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Numbers {
    /// Floats in -1..1, integers up to 100.
    Uniform,
    /// Indices of that many rows, and two that are out of bounds.
    Rows(u64),
    /// Integers that rise from 0 to that number: the ends of rows of different lengths.
    Ends(u64),
    /// Integers from 0 to that number, after one beyond it: the lengths of rows.
    Lengths(u64),
    /// Floats around -1 and 1: products of thousands of them are neither zero nor infinite.
    Factors,
    /// Floats in 0.5..1.
    Positive,
    /// Floats that are huge, denormal, equal, or cancel.
    Hostile,
    /// Floats of a class by which accuracy is measured.
    Of(Class),
}

impl Numbers {
    /// Returns whether they are indices, or ends or numbers of these.
    pub(super) fn are_indices(self) -> bool {
        matches!(self, Self::Rows(_) | Self::Ends(_) | Self::Lengths(_))
    }
}

/// A result, and its tolerance: `|a - b| <= abs + rel * |b|`, more for some of its elements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct OutputSpec {
    pub(super) dtype: DType,
    pub(super) shape: Vec<u64>,
    pub(super) rel: f64,
    pub(super) abs: f64,
    /// Elements with a larger tolerance.
    #[serde(default)]
    pub(super) ill_conditioned: Vec<IllConditioned>,
    /// The parameter whose memory receives it.
    #[serde(default)]
    pub(super) replaces: Option<usize>,
}

/// Code; its bytes are in the blob, code by code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum CodeSpec {
    /// Machine code for this CPU.
    Cpu(CpuSpec),
    /// Functions for the GPU.
    Gpu(GpuSpec),
}

/// Machine code; its bytes are in the blob, phase by phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct CpuSpec {
    /// Bytes of each phase.
    pub(super) phases: Vec<usize>,
    /// Set if all threads execute tasks, and not only one.
    pub(super) parallel: bool,
    /// Its launch on each case.
    pub(super) launches: Vec<CpuLaunch>,
}

/// The launch of machine code on one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CpuLaunch {
    /// The argument table.
    pub(super) table: Vec<Word>,
    /// Tasks of each phase.
    pub(super) n_tasks: Vec<u64>,
    /// Bytes of scratch memory each thread needs.
    pub(super) scratch_bytes: u64,
}

/// The same functions in one or more images, whose bytes are concatenated in the blob.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct GpuSpec {
    /// The most specific first.
    pub(super) images: Vec<ImageSpec>,
    /// The functions in the order in which they are launched.
    pub(super) functions: Vec<FunctionSpec>,
    /// TMA descriptors of the tensors that functions copy.
    pub(super) maps: Vec<MapSpec>,
    /// Its launch on each case.
    pub(super) launches: Vec<GpuLaunch>,
}

/// A compiled file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct ImageSpec {
    /// The architecture: `sm_90a` is `(9, 0)`, and exact.
    pub(super) arch: (u8, u8),
    pub(super) exact: bool,
    /// The version of the language, if it is PTX.
    pub(super) ptx: Option<(u8, u8)>,
    pub(super) n_bytes: usize,
}

/// One launch of a function: see [`tvmtune_runtime::raw::cuda::Function`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FunctionSpec {
    pub(super) name: String,
    pub(super) params: Vec<ParamBinding>,
    pub(super) block: [u32; 3],
    pub(super) shared_bytes: u32,
}

/// The binding of a function's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum ParamBinding {
    /// An entry of the argument table.
    Table(usize),
    /// A TMA descriptor.
    Map(usize),
}

/// A TMA descriptor without its extents and strides: see [`tvmtune_runtime::raw::cuda::TensorMap`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct MapSpec {
    pub(super) entry: usize,
    pub(super) element: u32,
    pub(super) boxes: Vec<u32>,
    pub(super) steps: Vec<u32>,
    pub(super) swizzle: u32,
}

/// The launch of functions on one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct GpuLaunch {
    /// The argument table.
    pub(super) table: Vec<Word>,
    /// Blocks of each function in x, y and z.
    pub(super) grids: Vec<[u64; 3]>,
    /// The numbers of each TMA descriptor: extents, innermost first, then strides.
    pub(super) maps: Vec<u64>,
}

/// One entry of the argument table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Word {
    /// The address of a parameter, as it is.
    Param(usize),
    /// The address of a parameter, packed.
    Packed(usize, LayoutSpec),
    /// The address of a result.
    Output(usize),
    /// The address of that many bytes of scratch memory.
    Shared(u64),
    /// A number.
    Value(u64),
}

/// See [`tvmtune_schedule::Layout`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LayoutSpec {
    pub(super) splits: Vec<(usize, u64)>,
    pub(super) order: Vec<usize>,
}

/// The policy of timing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Policy {
    /// Samples of a candidate that is not given up; at least 1.
    pub repeats: usize,
    /// Launches are repeated until a sample takes at least this long.
    pub min_sample_ns: f64,
    /// The latency to beat, if there is one.
    pub best_ns: Option<f64>,
    /// A candidate is given up early if its latency is that many times the best.
    pub hopeless: f64,
}

impl Default for Policy {
    fn default() -> Self {
        // The minimum of three samples ranks as well as that of ten (see `timer.rs`); reading the clock
        // takes a fourth of a percent of a sample.
        Self { repeats: 3, min_sample_ns: 50_000.0, best_ns: None, hopeless: 1.5 }
    }
}

impl Default for CodeSpec {
    fn default() -> Self {
        CodeSpec::Cpu(CpuSpec::default())
    }
}

impl CodeSpec {
    /// Returns its size in the blob, in bytes.
    pub(super) fn n_bytes(&self) -> usize {
        match self {
            CodeSpec::Cpu(it) => it.phases.iter().sum(),
            CodeSpec::Gpu(it) => it.images.iter().map(|it| it.n_bytes).sum(),
        }
    }
}

/// The latency, relative to the best, up to which a candidate is verified on all cases: a slightly
/// slower one may still win when timed again.
const VERIFY_MARGIN: f64 = 1.1;

impl Policy {
    /// Tells if a candidate of that latency is verified on all cases, and not on the first one only.
    pub(crate) fn verifies_all_cases(&self, latency_ns: f64) -> bool {
        self.best_ns.is_none_or(|best| latency_ns < best * VERIFY_MARGIN)
    }

    /// The policy of GPUs: starting a batch takes longer than reading a clock, and the first samples
    /// of a candidate within a factor of two are less reliable.
    pub const GPU: Self =
        Self { repeats: 5, min_sample_ns: 300_000.0, best_ns: None, hopeless: 2.0 };
}

impl Problem {
    /// Returns the size of the results of all cases, in bytes.
    pub(super) fn expected_bytes(&self) -> u64 {
        self.cases.iter().flat_map(|it| &it.outputs).map(OutputSpec::bytes).sum()
    }
}

impl Case {
    /// Tells if the arguments of both are the same, regardless of tolerances.
    pub(super) fn has_arguments_of(&self, other: &Self) -> bool {
        let shapes = |case: &Self| -> Vec<(DType, Vec<u64>, Option<usize>)> {
            case.outputs.iter().map(|it| (it.dtype, it.shape.clone(), it.replaces)).collect()
        };
        self.params == other.params && shapes(self) == shapes(other)
    }
}

impl Case {
    /// Returns whether a result replaces that parameter.
    pub(super) fn is_replaced(&self, param: usize) -> bool {
        self.outputs.iter().any(|it| it.replaces == Some(param))
    }
}

impl OutputSpec {
    /// Returns the size of the result, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.dtype.bytes()
    }
}

impl<T: Serialize + DeserializeOwned> Frame<T> {
    /// Creates a frame without a blob.
    pub(super) fn new(message: T) -> Self {
        Self { message, blob: Vec::new() }
    }

    /// Writes the frame and flushes.
    pub(super) fn write(&self, to: &mut impl Write) -> io::Result<()> {
        let header = serde_json::to_vec(&self.message)?;
        to.write_all(&MAGIC)?;
        to.write_all(&(header.len() as u32).to_le_bytes())?;
        to.write_all(&(self.blob.len() as u64).to_le_bytes())?;
        to.write_all(&header)?;
        to.write_all(&self.blob)?;
        to.flush()
    }

    /// Reads the next frame. The error has kind `UnexpectedEof` if the other side is gone, and
    /// `InvalidData` if it sent no valid frame.
    pub(super) fn read(from: &mut impl Read) -> io::Result<Self> {
        let garbage = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut start = [0; 16];
        from.read_exact(&mut start)?;
        let (magic, sizes) = start.split_at(4);
        let (header, blob) = sizes.split_at(4);
        let header = header.iter().rev().fold(0, |n, it| n << 8 | u32::from(*it));
        let blob = blob.iter().rev().fold(0, |n, it| n << 8 | u64::from(*it));
        if magic != MAGIC || header > MAX_HEADER || blob > MAX_BLOB {
            return Err(garbage("no frame"));
        }
        let header = read_bytes(from, u64::from(header))?;
        let message = serde_json::from_slice(&header).map_err(|_| garbage("no message"))?;
        Ok(Self { message, blob: read_bytes(from, blob)? })
    }
}

/// Reads exactly `n` bytes; the buffer grows as they arrive, since the length may be wrong.
fn read_bytes(from: &mut impl Read, n: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(n).read_to_end(&mut bytes)?;
    if bytes.len() as u64 == n { Ok(bytes) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_survives_the_pipe() {
        let outcome = Outcome::Timed(Timing::new(vec![1.5, 2.5]).unwrap());
        let frame = Frame { message: Response::Outcome(outcome), blob: vec![1, 2, 3] };
        let mut pipe = Vec::new();
        frame.write(&mut pipe).unwrap();
        Frame::new(Response::Done).write(&mut pipe).unwrap();
        let mut pipe = pipe.as_slice();
        assert_eq!(Frame::read(&mut pipe).unwrap(), frame);
        assert_eq!(Frame::read(&mut pipe).unwrap(), Frame::new(Response::Done));
        let end = Frame::<Response>::read(&mut pipe).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }

    /// The kind of error that reading these bytes gives.
    fn error(bytes: &[u8]) -> io::ErrorKind {
        Frame::<Response>::read(&mut &*bytes).unwrap_err().kind()
    }

    #[test]
    fn an_invalid_frame_is_an_error() {
        let mut good = Vec::new();
        Frame { message: Response::Results, blob: vec![9; 8] }.write(&mut good).unwrap();
        for n in 0..good.len() {
            assert_eq!(error(&good[..n]), io::ErrorKind::UnexpectedEof);
        }
        assert_eq!(error(&[0x55; 64]), io::ErrorKind::InvalidData);
        let mut other = good.clone();
        other[16] ^= 0xff;
        assert_eq!(error(&other), io::ErrorKind::InvalidData);
        let mut huge = good;
        huge[8..16].fill(0xff);
        assert_eq!(error(&huge), io::ErrorKind::InvalidData);
    }
}

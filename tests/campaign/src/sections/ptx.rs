//! Mutated PTX of generated kernels: the emulator reads and runs it, or says what is wrong.

use std::time::Duration;

use tvmtune_emulator::{Argument, Completion, Launch, Memory, Module, Options, Order};

use crate::case::Case;
use crate::mutate::{self, Material};
use crate::section::{Problem, Section, Verdict, without_names};

/// Stored kernels: name, text, and the kinds of the parameters.
const KERNELS: &[(&str, &str, &[Kind])] = &[
    (
        "depthwise_f32_0",
        include_str!("../../../fixtures/depthwise_f32.ptx"),
        &[Kind::Pointer, Kind::Pointer, Kind::Pointer, Kind::Int],
    ),
    (
        "embed_f32_0",
        include_str!("../../../fixtures/embed_f32.ptx"),
        &[Kind::Pointer, Kind::Pointer, Kind::Pointer, Kind::Int],
    ),
    (
        "linear_bf16_0",
        include_str!("../../../fixtures/linear_bf16.ptx"),
        &[Kind::Pointer, Kind::Int, Kind::Structure, Kind::Structure],
    ),
    (
        "linear_f32_0",
        include_str!("../../../fixtures/linear_f32.ptx"),
        &[Kind::Pointer, Kind::Pointer, Kind::Pointer, Kind::Pointer, Kind::Int],
    ),
    (
        "rms_norm_f16_0",
        include_str!("../../../fixtures/rms_norm_f16.ptx"),
        &[Kind::Pointer, Kind::Pointer, Kind::Pointer, Kind::Int, Kind::Float],
    ),
    (
        "softmax_f32_0",
        include_str!("../../../fixtures/softmax_f32.ptx"),
        &[Kind::Pointer, Kind::Pointer, Kind::Int],
    ),
    (
        "transpose_f16_0",
        include_str!("../../../fixtures/transpose_f16.ptx"),
        &[Kind::Pointer, Kind::Pointer, Kind::Int],
    ),
];

/// Words of PTX.
const WORDS: &[&str] = &[
    ".reg",
    ".b8",
    ".b16",
    ".b32",
    ".b64",
    ".f16",
    ".f32",
    ".f64",
    ".u32",
    ".s64",
    ".pred",
    ".shared",
    ".local",
    ".param",
    ".align",
    ".entry",
    ".func",
    ".visible",
    ".version",
    ".target",
    ".maxntid",
    "%r1",
    "%rd1",
    "%f1",
    "%p1",
    "%tid.x",
    "%ctaid.x",
    "%r<2147483647>",
    "[%rd1]",
    "[%rd1+2147483647]",
    "@%p1",
    "@!%p1",
    "bra",
    "ret",
    "mov",
    "ld",
    "st",
    "add",
    "mul.wide.u32",
    "mad.lo.s32",
    "div.s32",
    "rem.u32",
    "shl.b32",
    "shr.s32",
    "cvt.rn.f16.f32",
    "setp.lt.s32",
    "selp.b32",
    "bar.sync",
    "shfl.sync.bfly.b32",
    "mma.sync",
    "wgmma",
    "cp.async",
    "mbarrier.init.shared.b64",
    "atom.add",
    "ex2.approx.f32",
    "bfe.u32",
    "prmt.b32",
    "fma.rn.f32",
    "0fFF800000",
    "0d7FF0000000000000",
    "0x7fffffff",
    "0xffffffffffffffff",
    "-2147483648",
    "$L__BB0_2",
    "$L__BB0_2:",
    "{",
    "}",
    ";",
];

/// Instructions of warps after which a kernel is taken to hang.
const INSTRUCTIONS: u64 = 20_000;

/// A kind of parameter.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Pointer,
    Int,
    Float,
    /// A tensor map, in the place of which are bytes.
    Structure,
}

/// The section.
pub(super) struct Ptx;

impl Section for Ptx {
    fn name(&self) -> &'static str {
        "ptx"
    }

    fn about(&self) -> &'static str {
        "mutated PTX of generated kernels in the emulator"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(30)
    }

    fn cases_of_a_test(&self) -> u64 {
        60
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let (name, text, kinds) = *case.pick(KERNELS);
        let other = case.pick(KERNELS).1;
        let material = Material { words: WORDS, other };
        let text = if case.random.chance(0.7) {
            mutate::tokens(text, material, &mut case.random)
        } else {
            let bytes = mutate::bytes(text.as_bytes(), material, &mut case.random);
            String::from_utf8_lossy(&bytes).into_owned()
        };
        case.input("kernel.ptx", text.as_str());
        let module = match Module::parse(&text) {
            Ok(module) => module,
            Err(error) => return said(case, &error.to_string()),
        };
        let Some(kernel) = module.kernel(name) else {
            case.count("another kernel");
            return Ok(Verdict::Rejected);
        };
        case.count("a kernel that is launched");
        let mut memory = Memory::new();
        let arguments: Vec<Argument> =
            kinds.iter().map(|it| argument(*it, &mut memory, case)).collect();
        let launch = Launch {
            dynamic_shared_bytes: *case.pick(&[0, 1024, 200_000]),
            ..Launch::linear(1 + case.random.below(2) as u32, 128)
        };
        let options = options(case);
        match kernel.run(&launch, &arguments, &mut memory, &options) {
            Ok(_) => Ok(Verdict::Accepted),
            Err(fault) => said(case, &fault.to_string()),
        }
    }
}

/// A refusal says something, in a line that a terminal can show.
fn said(case: &mut Case, text: &str) -> Result<Verdict, Problem> {
    if text.is_empty() {
        return Err(Problem::wrong("refused without an error"));
    }
    // Behind the line or the kernel that an error is about.
    let what = text.split_once(": ").map_or(text, |it| it.1);
    case.count(format!("refused: {}", without_names(what)));
    Ok(Verdict::Rejected)
}

fn argument(kind: Kind, memory: &mut Memory, case: &mut Case) -> Argument {
    match kind {
        Kind::Pointer => {
            let bytes = *case.pick(&[0, 4, 4096, 1 << 20]);
            memory.add("buffer", vec![0; bytes]).into()
        }
        Kind::Int => (*case.pick(&[0, 1, 7, 64, -1, i32::MAX])).into(),
        Kind::Float => (*case.pick(&[0.0_f32, 1e-5, f32::NAN])).into(),
        Kind::Structure => Argument::Value(vec![0; 128]),
    }
}

fn options(case: &mut Case) -> Options {
    let completion = *case.pick(&[Completion::Eager, Completion::Late, Completion::Random(3)]);
    let order = *case.pick(&[Order::Ascending, Order::Descending, Order::Random(5)]);
    let profile = case.random.chance(0.2);
    Options { completion, order, profile, instruction_limit: INSTRUCTIONS, ..Options::default() }
}

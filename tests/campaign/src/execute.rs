//! A schedule on every path from loops to results: the interpreter of nests, vector code lane by lane,
//! and machine code where this machine executes it.

use tvmtune_cpu::interp::{RaceCheck, execute, results_of, table};
use tvmtune_cpu::vector::{self, Unsupported, VectorCode};
use tvmtune_cpu::x86::{self, RegisterFile};
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_runtime::raw::Threads;
use tvmtune_schedule::nest::verify::{Finding, Problem as NestProblem};
use tvmtune_schedule::nest::{self, Nest};
use tvmtune_schedule::{Instruction, Schedule};

use crate::case::Case;
use crate::launch::{Launch, compare};
use crate::machine;
use crate::section::Problem;

/// The instruction sets that code is made for.
pub const ISAS: [Isa; 2] = [Isa::Avx512, Isa::Avx2];

/// How results compare with those of the definition.
#[derive(Clone, Copy)]
pub struct Comparison<'a> {
    /// By type, how far they may be away; `None` where the order of operations may change them
    /// arbitrarily, and code is compared with its own interpreter only.
    pub tolerance: Option<&'a dyn Fn(DType) -> f64>,
    /// Whether the nest is interpreted, too.
    pub nest: bool,
}

/// Checks that a schedule's text gives it back.
///
/// # Errors
///
/// What came back instead.
pub fn check_trace(schedule: &Schedule, dag: &tvmtune_ir::dag::Dag) -> Result<(), Problem> {
    let lines: Vec<String> = schedule.trace.iter().map(Instruction::to_string).collect();
    let mut trace = Vec::new();
    for line in &lines {
        match line.parse() {
            Ok(instruction) => trace.push(instruction),
            Err(error) => return Err(Problem::wrong(format!("trace: {error}\n{line}"))),
        }
    }
    match Schedule::replay(dag, &trace) {
        Ok(replayed) if replayed == *schedule => Ok(()),
        Ok(_) => Err(Problem::wrong(format!("another schedule comes back\n{}", lines.join("\n")))),
        Err(error) => Err(Problem::wrong(format!("no replay: {error:?}\n{}", lines.join("\n")))),
    }
}

/// Lowers a schedule and runs it by every launch, on every path.
///
/// # Errors
///
/// The first difference from the definition, access out of bounds, race, or use of an unset register.
pub fn check(
    case: &mut Case,
    schedule: &Schedule,
    launches: &[Launch],
    comparison: Comparison<'_>,
) -> Result<(), Problem> {
    let nest = nest::lower(schedule);
    check_nest(case, &nest)?;
    if comparison.nest {
        for it in launches {
            interpret_nest(case, &nest, it, comparison)?;
        }
    }
    for isa in ISAS {
        let kernel = match vector::lower(&nest, isa) {
            Ok(kernel) => kernel,
            Err(error) => {
                case.count(format!("no vector code: {}", reason(&error)));
                continue;
            }
        };
        if let [first, ..] = vector::verify::verify(&kernel).as_slice() {
            return Err(Problem::wrong(format!("{}: vector code: {first:?}", isa.name())));
        }
        for it in launches {
            run(case, &kernel, it, comparison)?;
        }
        if launches.is_empty() {
            x86::assemble(&kernel);
            case.count(format!("assembled for {}", isa.name()));
        }
    }
    Ok(())
}

/// A word for each reason, without the numbers and types in it.
fn reason(error: &Unsupported) -> &'static str {
    match error {
        Unsupported::Type(_) => "a type",
        Unsupported::Operation(_) => "an operation",
        Unsupported::Function(..) => "a function",
        Unsupported::Index => "an index",
        Unsupported::Range => "a range",
        Unsupported::Reference => "a reference",
        Unsupported::TooLarge { .. } => "its size",
    }
}

fn check_nest(case: &mut Case, nest: &Nest) -> Result<(), Problem> {
    let unproven = |it: &Finding| {
        matches!(it.problem, NestProblem::MayBeOutside(..) | NestProblem::NegativeGuard(_))
    };
    let (open, broken): (Vec<_>, Vec<_>) = nest::verify(nest).into_iter().partition(unproven);
    if let Some(first) = broken.first() {
        return Err(Problem::wrong(format!("nest: {first}\n{nest}")));
    }
    if !open.is_empty() {
        case.count("an access is not proven to be in bounds");
    }
    Ok(())
}

fn interpret_nest(
    case: &mut Case,
    nest: &Nest,
    launch: &Launch,
    comparison: Comparison<'_>,
) -> Result<(), Problem> {
    let Launch { dims, params, scalars, .. } = launch;
    case.count("nest interpreted");
    match tvmtune_schedule::interp::run(nest, dims, params, scalars) {
        Ok(results) => match comparison.tolerance {
            Some(tolerance) => {
                // A schedule's tensors are those of the program's normal form: the same elements in memory, in
                // more dimensions or fewer.
                let declared = |(it, of): (&Array, &Array)| {
                    Array::from_bytes(it.dtype, &of.shape, &it.bytes())
                };
                let results: Vec<Array> =
                    results.iter().zip(&launch.expected).map(declared).collect();
                launch.compare(&results, tolerance, "nest")
            }
            None => Ok(()),
        },
        Err(fault) => Err(Problem::wrong(format!("nest: {fault}\nat {dims:?}\n{nest}"))),
    }
}

/// Runs vector code lane by lane, and its machine code, which must agree bit by bit.
fn run(
    case: &mut Case,
    kernel: &VectorCode,
    launch: &Launch,
    comparison: Comparison<'_>,
) -> Result<(), Problem> {
    let Launch { dims, params, scalars, expected, .. } = launch;
    let isa = kernel.isa;
    let zeros: Vec<Array> = expected.iter().map(|it| Array::zeros(it.dtype, &it.shape)).collect();
    let shown = |problem: Problem| Problem {
        message: format!("{}\nat {dims:?}\n{kernel}", problem.message),
        ..problem
    };
    let mut cells = table(kernel, dims, params, scalars, &zeros);
    let scratch = kernel.scratch_bytes.eval_dims(dims).max(0) as usize;
    case.count(format!("lanes of {}", isa.name()));
    execute(kernel, &mut cells, scratch, RaceCheck::On)
        .map_err(|fault| shown(Problem::wrong(format!("lanes of {}: {fault}", isa.name()))))?;
    let lanes = results_of(kernel, &cells, params.len(), &zeros);
    if let Some(tolerance) = comparison.tolerance {
        launch.compare(&lanes, tolerance, &format!("lanes of {}", isa.name())).map_err(shown)?;
    }
    if !machine::executes(isa) {
        x86::assemble(kernel);
        case.count(format!("assembled for {}", isa.name()));
        return Ok(());
    }
    case.count(format!("machine code of {}", isa.name()));
    let mut cells = table(kernel, dims, params, scalars, &zeros);
    machine::launch(kernel, dims, &mut cells, RegisterFile::of(isa), Threads::One);
    let found = results_of(kernel, &cells, params.len(), &zeros);
    compare(&found, &lanes, &|_| 0.0, &format!("machine code of {}", isa.name())).map_err(shown)
}

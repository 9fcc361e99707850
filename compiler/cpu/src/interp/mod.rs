//! Runs a [`Kernel`] lane by lane, and watches it.
//!
//! In: a kernel and the arrays of its program ([`run`]), or the memory behind each entry of its
//! table ([`execute`]). Out: the results, or the [`Fault`] that stopped it.
//!
//! # Invariants
//!
//! - What comes out is, bit for bit, what the generated code computes, but for the payloads of
//!   NaNs: `f32` operations round once, integers wrap, minima and maxima are those of x86.
//! - An access outside its buffer, a register or variable without a value, and a conflict between
//!   two tasks of a phase are faults, never values.
//! - Memory that nothing wrote is [`POISON`]: a NaN, whatever the type of float.

mod memory;
mod ops;
mod task;
mod value;

use crate::kernel::{Base, Kernel, Reg, Slot, Storage, TableEntry};
use tvmtune_ir::dag::Number;
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::pack::pack;

pub use memory::{Cell, POISON, Races};

/// What a kernel did that it must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("phase {phase}, task {task}: {kind}")]
pub struct Fault {
    /// Which phase, from 0.
    pub phase: usize,
    /// Which of its tasks, from 0.
    pub task: i64,
    /// What it did.
    pub kind: FaultKind,
}

/// The kinds of [`Fault`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FaultKind {
    /// An access reaches outside its buffer.
    #[error("{bytes} bytes at offset {offset} of {base:?}, which has {size} bytes")]
    OutOfBounds { base: Base, offset: i64, bytes: usize, size: usize },
    /// A register is read, or assigned under a mask, before it has a value.
    #[error("register {reg:?} has no value")]
    Unassigned { reg: Reg },
    /// A variable is used outside its loop, or before its `Let`.
    #[error("variable {var:?} has no value")]
    NoValue { var: VarId },
    /// The entry of the table is of another kind than its use.
    #[error("entry {slot:?} of the table is of another kind")]
    WrongEntry { slot: Slot },
    /// A condition is neither all bits nor none.
    #[error("{bits:#010x} is not a truth value")]
    NotATruthValue { bits: u32 },
    /// A mask takes fewer than no lanes, or more than there are.
    #[error("a mask of the first {lanes} lanes")]
    MaskTooLong { lanes: i64 },
    /// The lanes of a strided access do not fit 31 bits.
    #[error("lanes {step} bytes apart reach too far")]
    TooFar { step: i64 },
    /// A negative value divided, or a divisor below 1.
    #[error("the quotient of {value} by {by}")]
    BadQuotient { value: i64, by: i64 },
    /// Gathers are of words only.
    #[error("a gather of {storage:?}")]
    NoSuchGather { storage: Storage },
    /// Two tasks of one phase touch the same byte, and one of them writes it.
    #[error("byte {offset} of entry {slot:?} is also touched by task {other:?}")]
    Race { slot: Slot, offset: usize, other: Option<u32> },
}

/// Runs a kernel on the memory behind each entry of its table.
///
/// # Errors
///
/// The first fault; memory is then as the fault left it.
pub fn execute(
    kernel: &Kernel,
    table: &mut [Cell],
    scratch_bytes: usize,
    races: Races,
) -> Result<(), Fault> {
    let mut memory = memory::Memory::new(table, scratch_bytes, races);
    for (phase_idx, phase) in kernel.phases.iter().enumerate() {
        memory.start_phase();
        let at = |task: i64| move |kind| Fault { phase: phase_idx, task, kind };
        let tasks = task::Task::new(kernel, &mut memory).number(phase).map_err(at(0))?;
        for number in 0..tasks {
            memory.start_task(number as u32);
            let mut task = task::Task::new(kernel, &mut memory);
            task.place(phase, number).map_err(at(number))?;
            task.block(&phase.body).map_err(at(number))?;
        }
    }
    Ok(())
}

/// Runs a kernel on the arrays of its program: parameters as the user declares them (weights are
/// packed here), and arrays of the results' types and shapes, whose contents are ignored.
///
/// Tasks are watched for races.
///
/// # Errors
///
/// The first fault.
///
/// # Panics
///
/// If there are fewer arrays than the table has pointers, or fewer scalars.
pub fn run(
    kernel: &Kernel,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    results: &[Array],
) -> Result<Vec<Array>, Fault> {
    let mut table = table(kernel, dims, params, scalars, results);
    let scratch_bytes = kernel.scratch_bytes.eval_dims(dims).max(0) as usize;
    execute(kernel, &mut table, scratch_bytes, Races::Watch)?;
    Ok(written(&table[params.len()..], results))
}

/// What the table of a kernel holds for the arrays of its program: parameters as the user declares
/// them (weights are packed here), and [`POISON`] for the results and for what phases share.
///
/// # Panics
///
/// If there are fewer arrays than the table has pointers, or fewer scalars.
pub fn table(
    kernel: &Kernel,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    results: &[Array],
) -> Vec<Cell> {
    let mut arrays = params.iter();
    let mut outputs = results.iter();
    let mut table: Vec<Cell> = Vec::with_capacity(kernel.table.len());
    for entry in &kernel.table {
        table.push(match entry {
            TableEntry::Pointer { layout, .. } => match arrays.next() {
                Some(array) => Cell::Bytes(
                    layout
                        .as_ref()
                        .map_or_else(|| array.bytes(), |layout| pack(array, layout).bytes()),
                ),
                None => {
                    let output = outputs.next().expect("an array for each result");
                    Cell::Bytes(vec![POISON; output.bytes().len()])
                }
            },
            TableEntry::Shared { bytes } => {
                Cell::Bytes(vec![POISON; bytes.eval_dims(dims).max(0) as usize])
            }
            TableEntry::Param(value) => Cell::Integer(value.eval_dims(dims)),
            TableEntry::Scalar(id) => Cell::Bits(scalar_bits(scalars[id.0 as usize])),
        });
    }
    table
}

/// The results that a kernel wrote to the cells that follow those of its parameters.
///
/// # Panics
///
/// If one of them is no memory, or of another size.
pub fn written(cells: &[Cell], results: &[Array]) -> Vec<Array> {
    let array = |(like, cell): (&Array, &Cell)| match cell {
        Cell::Bytes(bytes) => Array::from_bytes(like.dtype, &like.shape, bytes),
        _ => unreachable!("results follow the parameters in the table"),
    };
    results.iter().zip(cells).map(array).collect()
}

/// A scalar as the table holds it: floats as `f32`, integers and `bool` as `i32`.
fn scalar_bits(value: Number) -> u32 {
    match value {
        Number::Float(it) => (it as f32).to_bits(),
        Number::Int(it) => it as u32,
        Number::Bool(it) => u32::from(it),
    }
}

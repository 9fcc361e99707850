//! Interpreter of [`VectorCode`], lane by lane, with a sanitizer.
//!
//! In: vector code and the arrays of its program ([`run`]), or the memory of each entry of its
//! table ([`execute`]). Out: the results, or the [`Fault`] that stopped it.
//!
//! # Invariants
//!
//! - Results are bit-identical to those of machine code, but for payloads of NaNs: float operations
//!   round once, integers wrap, minima and maxima are those of x86.
//! - An access outside its buffer, a register or variable without a value, and a conflict between
//!   two tasks of a phase are faults, never values.
//! - Uninitialized memory is [`POISON`]: a NaN of every float type.

mod memory;
mod task;
mod value;

use crate::vector::{Base, EntryId, Reg, Storage, TableEntry, VectorCode};
use tvmtune_ir::dag::{DType, Number};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::VarId;
use tvmtune_schedule::pack::pack;

pub use memory::{EntryValue, POISON, RaceCheck};

/// An illegal operation of vector code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("phase {phase}, task {task}: {kind}")]
pub struct Fault {
    /// The phase, from 0.
    pub phase: usize,
    /// The task, from 0.
    pub task: i64,
    /// The operation.
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
    /// An entry of the table is of another kind than its use.
    #[error("entry {entry:?} of the table is of another kind")]
    WrongEntry { entry: EntryId },
    /// A condition is neither all bits nor none.
    #[error("{bits:#010x} is not a truth value")]
    NotATruthValue { bits: u64 },
    /// A mask's number of lanes is negative, or above the number of lanes.
    #[error("a mask of the first {lanes} lanes")]
    MaskTooLong { lanes: i64 },
    /// The lanes of a strided access do not fit 31 bits.
    #[error("lanes {step} bytes apart reach too far")]
    TooFar { step: i64 },
    /// A division of a negative value, or by a divisor below 1.
    #[error("the quotient of {value} by {by}")]
    BadDivision { value: i64, by: i64 },
    /// Gathers are of elements as wide as lanes only.
    #[error("a gather of {storage:?}")]
    NoSuchGather { storage: Storage },
    /// Two tasks of one phase touch the same byte, and one of them writes it.
    #[error("byte {offset} of entry {entry:?} is also touched by task {other:?}")]
    Race { entry: EntryId, offset: usize, other: Option<u32> },
}

/// Runs vector code on the values of its argument table.
///
/// # Errors
///
/// The first fault; stores before it stay in memory.
pub fn execute(
    kernel: &VectorCode,
    table: &mut [EntryValue],
    scratch_bytes: usize,
    races: RaceCheck,
) -> Result<(), Fault> {
    let mut memory = memory::Memory::new(table, scratch_bytes, races, kernel.width);
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

/// Runs vector code on the arrays of its program, with race detection. `params` are unpacked;
/// `results` give types and shapes only.
///
/// # Errors
///
/// The first fault.
///
/// # Panics
///
/// If there are fewer arrays than the table has pointers, or fewer scalars.
pub fn run(
    kernel: &VectorCode,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    results: &[Array],
) -> Result<Vec<Array>, Fault> {
    let mut table = table(kernel, dims, params, scalars, results);
    let scratch_bytes = kernel.scratch_bytes.eval_dims(dims).max(0) as usize;
    execute(kernel, &mut table, scratch_bytes, RaceCheck::On)?;
    Ok(results_of(kernel, &table, params.len(), results))
}

/// Makes the argument table for the arrays of a program: packs weights, and fills results that
/// replace no parameter, and workspaces, with [`POISON`].
///
/// # Panics
///
/// If there are fewer arrays than the table has pointers, or fewer scalars.
pub fn table(
    kernel: &VectorCode,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
    results: &[Array],
) -> Vec<EntryValue> {
    let mut arrays = params.iter();
    let mut outputs = results.iter().skip(replaced(kernel, params.len()).count());
    let value = |entry: &TableEntry| match entry {
        TableEntry::Pointer { layout, .. } => EntryValue::Bytes(match (arrays.next(), layout) {
            (Some(array), None) => array.bytes(),
            (Some(array), Some(layout)) => pack(array, layout).bytes(),
            (None, _) => {
                let output = outputs.next().expect("an array for each result");
                vec![POISON; output.bytes().len()]
            }
        }),
        TableEntry::Workspace { bytes } => {
            EntryValue::Bytes(vec![POISON; bytes.eval_dims(dims).max(0) as usize])
        }
        TableEntry::Param(value) => EntryValue::Integer(value.eval_dims(dims)),
        TableEntry::Scalar(id, dtype) => {
            EntryValue::Bits(scalar_bits(scalars[id.0 as usize], *dtype))
        }
    };
    kernel.table.iter().map(value).collect()
}

/// Reads the results from the entries of parameters that they replaced, and from those after the
/// parameters.
///
/// # Panics
///
/// If an entry is no memory, or of another size than its result.
pub fn results_of(
    kernel: &VectorCode,
    cells: &[EntryValue],
    n_params: usize,
    results: &[Array],
) -> Vec<Array> {
    let array = |(like, at): (&Array, usize)| match &cells[at] {
        EntryValue::Bytes(bytes) => Array::from_bytes(like.dtype, &like.shape, bytes),
        _ => unreachable!("results follow the parameters in the table"),
    };
    results.iter().zip(entries_of_results(kernel, n_params)).map(array).collect()
}

/// Returns the entries of the table that are those of the results, in their order; workspaces follow.
pub fn entries_of_results(kernel: &VectorCode, n_params: usize) -> impl Iterator<Item = usize> {
    replaced(kernel, n_params).chain(n_params..kernel.table.len())
}

/// The entries of parameters that results replace: these are the entries of results, whose tensors
/// are numbered after all parameters.
fn replaced(kernel: &VectorCode, n_params: usize) -> impl Iterator<Item = usize> {
    let is_result = move |entry: &TableEntry| matches!(entry, TableEntry::Pointer { tensor, .. } if tensor.0 as usize >= n_params);
    (0..n_params).filter(move |it| is_result(&kernel.table[*it]))
}

/// Returns the bits of a scalar in the table, see [`TableEntry::Scalar`].
pub fn scalar_bits(value: Number, dtype: DType) -> u64 {
    match (value, dtype) {
        (Number::Float(it), DType::F64) => it.to_bits(),
        (Number::Float(it), _) => u64::from((it as f32).to_bits()),
        (Number::Int(it), DType::I64) => it.cast_unsigned(),
        (Number::Int(it), _) => u64::from(it as u32),
        (Number::Bool(it), _) => u64::from(it),
    }
}

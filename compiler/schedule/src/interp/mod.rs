//! The interpreter of nests: runs a [`Nest`] statement by statement, with a race detector.
//!
//! In: the extents of the dynamic dimensions, the parameters in order of declaration and as the
//! program sees them (weights are packed here), and the run-time scalars. Out: the results, in
//! order, or the first [`Fault`].
//!
//! The interpreter is sequential, so a race does not show in its results. Instead shadow memory
//! (`memory`) records for each element the task and the parallel index of the last accesses, and an
//! access whose order is undefined on a device is a fault, whatever the values.
//!
//! # Source
//!
//! Shadow memory: `ThreadSanitizer` (Serebryany and Iskhodzhanov, 2009).

mod code;
mod memory;
mod parallel_index;

use std::fmt;

use self::code::{Affine, Code, Node, Op};
use self::memory::{Agent, Memory};
use self::parallel_index::ParallelStep;
use crate::LoopKind;
use crate::nest::Nest;
use tvmtune_ir::dag::{BinaryOp, DType, Number, TensorId};
use tvmtune_ir::interp::Array;

/// A fault of a nest at run time. See [`FaultKind`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind of fault.
    pub kind: FaultKind,
    /// The buffer that was accessed.
    pub buffer: String,
    /// The element, as stored.
    pub index: Vec<i64>,
    /// The iteration: names and values of the open loops, outermost first.
    pub iteration: Vec<(String, i64)>,
}

/// The kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    /// An index is negative or not below the extent.
    OutOfBounds,
    /// An element is read that was not written before, of local memory: in the same iteration.
    Uninitialized,
    /// Two tasks of one phase, two threads of a block, or two lanes of one vectorized loop, touch an
    /// element in no order, and at least one of them writes it.
    Race,
    /// A guard's value is negative.
    NegativeGuard,
    /// An element of a result was never written.
    NeverWritten,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fault = match self.kind {
            FaultKind::OutOfBounds => "out of bounds",
            FaultKind::Uninitialized => "read before it was written",
            FaultKind::Race => "touched by two tasks, threads or lanes in no order",
            FaultKind::NegativeGuard => "guarded by a negative value",
            FaultKind::NeverWritten => "never written",
        };
        write!(f, "`{}` at {:?} is {fault}", self.buffer, self.index)?;
        let iteration = self.iteration.iter().map(|(name, value)| format!(" {name}={value}"));
        let iteration: String = iteration.collect();
        if iteration.is_empty() { Ok(()) } else { write!(f, ", in iteration{iteration}") }
    }
}

/// Runs the nest on these parameters.
///
/// # Errors
///
/// The first [`Fault`] met.
///
/// # Panics
///
/// If number, types or shapes of the arguments are not those of the program.
pub fn run(
    nest: &Nest,
    dims: &[i64],
    params: &[Array],
    scalars: &[Number],
) -> Result<Vec<Array>, Fault> {
    assert_eq!(dims.len(), nest.dims.len(), "an extent for each dynamic dimension");
    assert_eq!(params.len(), nest.params.len(), "an array for each parameter");
    assert_eq!(scalars.len(), nest.scalars.len(), "a value for each run-time scalar");
    let code = Code::new(nest, dims, scalars);
    let mut run = Run {
        code: &code,
        memory: Memory::allocate(nest, dims, params),
        vars: vec![0; nest.n_vars as usize],
        open: Vec::new(),
        agent: Agent::default(),
        n_loops: 0,
    };
    for op in &code.body {
        run.agent.task += 1;
        run.agent.phase = run.agent.task;
        if let Err(fault) = run.op(op) {
            return Err(run.located(*fault));
        }
    }
    for output in &nest.outputs {
        let buffer = output.0 as usize;
        if let Some(at) = run.memory[buffer].unwritten() {
            return Err(run.located(*run.raw_fault(FaultKind::NeverWritten, buffer, at)));
        }
    }
    let result = |it: &TensorId| run.memory[it.0 as usize].array.clone();
    Ok(nest.outputs.iter().map(result).collect())
}

/// A fault without its iteration.
struct RawFault {
    kind: FaultKind,
    buffer: usize,
    index: Vec<i64>,
}

type Check<T> = Result<T, Box<RawFault>>;

struct Run<'a> {
    code: &'a Code,
    memory: Vec<Memory>,
    vars: Vec<i64>,
    open: Vec<(&'a str, usize)>,
    agent: Agent,
    /// The number of loops that have been run.
    n_loops: u32,
}

impl<'a> Run<'a> {
    fn located(&self, broken: RawFault) -> Fault {
        let value = |(name, var): &(&str, usize)| ((*name).to_owned(), self.vars[*var]);
        Fault {
            kind: broken.kind,
            buffer: self.code.names[broken.buffer].clone(),
            index: broken.index,
            iteration: self.open.iter().map(value).collect(),
        }
    }

    fn op(&mut self, op: &'a Op) -> Check<()> {
        match op {
            Op::For { .. } => self.run_loop(op),
            Op::If { guards, writes, body } => {
                for (value, bound) in guards {
                    let value = value.eval(&self.vars);
                    if value < 0 {
                        let kind = FaultKind::NegativeGuard;
                        return Err(Box::new(RawFault {
                            kind,
                            buffer: *writes,
                            index: vec![value],
                        }));
                    }
                    if value >= bound.eval(&self.vars) {
                        return Ok(());
                    }
                }
                body.iter().try_for_each(|it| self.op(it))
            }
            Op::Store { buffer, index, value } => {
                let value = self.eval(value)?;
                let at = self.position(*buffer, index)?;
                self.store(*buffer, at, value)
            }
            Op::Update { buffer, index, value, dtype, reducer, along } => {
                let value = self.eval(value)?;
                let at = self.position(*buffer, index)?;
                // Threads and lanes that reduce into one element do so as one.
                let reduced = self.agent.index.without(|var| !along.contains(&var));
                let whole = std::mem::replace(&mut self.agent.index, reduced);
                let old = self.load(*buffer, at)?;
                self.store(*buffer, at, old.binary(*reducer, value, *dtype))?;
                self.agent.index = whole;
                Ok(())
            }
        }
    }

    fn run_loop(&mut self, op: &'a Op) -> Check<()> {
        let Op::For { var, name, extent, kind, allocates, body } = op else {
            return Ok(());
        };
        let outside = self.agent.index;
        self.n_loops += 1;
        let instance = self.n_loops;
        self.open.push((name, *var));
        for value in 0..extent.eval(&self.vars) {
            self.vars[*var] = value;
            self.agent.index = match kind {
                LoopKind::Thread => outside.inside(ParallelStep::thread(instance, *var, value)),
                LoopKind::Vectorized => {
                    outside.inside(ParallelStep::vector_lane(instance, *var, value))
                }
                _ => outside,
            };
            if kind.is_parallel() {
                self.agent.task += 1;
            }
            for buffer in allocates {
                self.memory[*buffer].reallocate();
            }
            body.iter().try_for_each(|it| self.op(it))?;
        }
        self.open.pop();
        self.agent.index = outside;
        Ok(())
    }

    fn eval(&mut self, node: &Node) -> Check<Number> {
        Ok(match node {
            Node::Constant(value) => *value,
            Node::Index(index) => Number::Int(index.eval(&self.vars)),
            Node::Read { buffer, index } => {
                let mut at = Vec::with_capacity(index.len());
                for subscript in index {
                    at.push(match subscript {
                        Ok(affine) => affine.eval(&self.vars),
                        Err(value) => self.eval(value)?.to_i64(),
                    });
                }
                let position = self.flatten(*buffer, &at)?;
                self.load(*buffer, position)?
            }
            Node::Unary(op, dtype, a) => self.eval(a)?.unary(*op, *dtype),
            Node::Binary(op, dtype, a, b) => self.binary(*op, *dtype, a, b)?,
            Node::Compare(op, a, b) => {
                let a = self.eval(a)?;
                Number::Bool(a.compare(*op, self.eval(b)?))
            }
            Node::Select(parts) => {
                let [condition, then, otherwise] = &**parts;
                let chosen = self.eval(condition)? == Number::Bool(true);
                self.eval(if chosen { then } else { otherwise })?
            }
            Node::Cast(to, a) => self.eval(a)?.cast(*to),
        })
    }

    fn binary(&mut self, op: BinaryOp, dtype: DType, a: &Node, b: &Node) -> Check<Number> {
        let a = self.eval(a)?;
        Ok(a.binary(op, self.eval(b)?, dtype))
    }

    fn position(&self, buffer: usize, index: &[Affine]) -> Check<usize> {
        let at: Vec<i64> = index.iter().map(|it| it.eval(&self.vars)).collect();
        self.flatten(buffer, &at)
    }

    fn flatten(&self, buffer: usize, index: &[i64]) -> Check<usize> {
        self.memory[buffer].flatten(index).ok_or_else(|| {
            let kind = FaultKind::OutOfBounds;
            Box::new(RawFault { kind, buffer, index: index.to_vec() })
        })
    }

    fn load(&mut self, buffer: usize, at: usize) -> Check<Number> {
        let loaded = self.memory[buffer].load(at, self.agent);
        loaded.map_err(|kind| self.raw_fault(kind, buffer, at))
    }

    fn store(&mut self, buffer: usize, at: usize, value: Number) -> Check<()> {
        let stored = self.memory[buffer].store(at, value, self.agent);
        stored.map_err(|kind| self.raw_fault(kind, buffer, at))
    }

    fn raw_fault(&self, kind: FaultKind, buffer: usize, at: usize) -> Box<RawFault> {
        Box::new(RawFault { kind, buffer, index: self.memory[buffer].unflatten(at) })
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_hoist;
#[cfg(test)]
mod tests_online;
#[cfg(test)]
mod tests_polyphase;
#[cfg(test)]
mod tests_scan;

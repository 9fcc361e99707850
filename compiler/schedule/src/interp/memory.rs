//! Buffers of the interpreter, with shadow memory that records the last accesses of each element.

use super::FaultKind;
use super::parallel_index::ParallelIndex;
use crate::nest::{Nest, Scope};
use crate::pack::pack;
use tvmtune_ir::dag::Number;
use tvmtune_ir::interp::Array;

/// A buffer with its shadow memory.
pub(super) struct Memory {
    pub(super) array: Array,
    scope: Scope,
    extents: Vec<i64>,
    /// Counts the allocations of local memory, from 1.
    epoch: u32,
    /// Empty for a parameter that is never written.
    shadow: Vec<Shadow>,
    /// True if elements are those of a parameter until a result replaces them.
    in_place: bool,
}

/// The task and the parallel index that make an access.
#[derive(Clone, Copy, Default)]
pub(super) struct Agent {
    /// The first task of the current phase.
    pub(super) phase: u32,
    /// Numbered through the whole run, from 1.
    pub(super) task: u32,
    pub(super) index: ParallelIndex,
}

/// The last accesses to one element; tasks are numbered from 1.
#[derive(Clone, Copy, Default)]
struct Shadow {
    /// The task that wrote last.
    writer: u32,
    /// The epoch of that write.
    epoch: u32,
    /// The parallel index of that write.
    written_by: ParallelIndex,
    /// The parallel indices of the last read, and of an earlier read that it races with.
    read_by: [ParallelIndex; 2],
    /// The task that read last.
    reader: u32,
    /// The task that read last before another one did.
    other_reader: u32,
}

impl Memory {
    /// Allocates the buffers of a nest, parameters filled in.
    pub(super) fn allocate(nest: &Nest, dims: &[i64], params: &[Array]) -> Vec<Memory> {
        let empty = nest.buffers.iter().map(|buffer| {
            let used = buffer.scope != Scope::Unused;
            let extents: Vec<i64> =
                buffer.shape.iter().map(|it| if used { it.eval_dims(dims) } else { 0 }).collect();
            let shape: Vec<u64> = extents.iter().map(|it| *it as u64).collect();
            let array = Array::zeros(buffer.dtype, &shape);
            let shadow = vec![Shadow::default(); array.len()];
            Memory { array, scope: buffer.scope, extents, epoch: 1, shadow, in_place: false }
        });
        let mut memory: Vec<Memory> = empty.collect();
        for (tensor, array) in nest.params.iter().zip(params) {
            let buffer = nest.buffer(*tensor);
            let it = &mut memory[tensor.0 as usize];
            let stored = match &buffer.layout {
                None => array.clone(),
                Some(layout) => pack(array, layout),
            };
            assert_eq!(
                (stored.dtype, &stored.shape),
                (it.array.dtype, &it.array.shape),
                "parameter `{}`",
                buffer.name
            );
            it.array = stored;
            it.in_place = nest.outputs.contains(tensor);
            if !it.in_place {
                it.shadow = Vec::new();
            }
        }
        memory
    }

    /// The row-major position of an element; `None` if it is out of bounds.
    pub(super) fn flatten(&self, index: &[i64]) -> Option<usize> {
        if index.len() != self.extents.len() {
            return None;
        }
        let mut flat = 0;
        for (at, extent) in index.iter().zip(&self.extents) {
            if !(0..*extent).contains(at) {
                return None;
            }
            flat = flat * extent + at;
        }
        Some(flat as usize)
    }

    /// The element at a row-major position.
    pub(super) fn unflatten(&self, mut flat: usize) -> Vec<i64> {
        let mut index = vec![0; self.extents.len()];
        for (at, extent) in index.iter_mut().zip(&self.extents).rev() {
            *at = flat as i64 % extent;
            flat /= *extent as usize;
        }
        index
    }

    /// The first element that was never written; parameters count as written.
    pub(super) fn unwritten(&self) -> Option<usize> {
        self.shadow.iter().position(|it| it.writer == 0)
    }

    /// Makes every element unwritten: a new iteration of the loop that contains all accesses.
    pub(super) fn reallocate(&mut self) {
        self.epoch += 1;
    }

    /// Reads the element at a row-major position.
    pub(super) fn load(&mut self, at: usize, agent: Agent) -> Result<Number, FaultKind> {
        let Agent { phase, task, index } = agent;
        let Some(cell) = self.shadow.get_mut(at) else { return Ok(self.array.get(at)) };
        let local = self.scope == Scope::Local;
        let written = match local {
            true => cell.writer == task && cell.epoch == self.epoch,
            false => cell.writer > 0 || self.in_place,
        };
        if !written {
            return Err(FaultKind::Uninitialized);
        }
        let by_another_task = !local && cell.writer >= phase && cell.writer != task;
        if by_another_task || cell.written_by.races_after_write(&index) {
            return Err(FaultKind::Race);
        }
        if cell.read_by[0].races_after_read(&index) {
            cell.read_by[1] = cell.read_by[0];
        }
        cell.read_by[0] = index;
        if cell.reader != task {
            cell.other_reader = cell.reader;
            cell.reader = task;
        }
        Ok(self.array.get(at))
    }

    /// Writes the element at a row-major position.
    pub(super) fn store(
        &mut self,
        at: usize,
        value: Number,
        agent: Agent,
    ) -> Result<(), FaultKind> {
        let Agent { phase, task, index } = agent;
        // Parameters are never written: their elements have no shadow.
        let Some(cell) = self.shadow.get_mut(at) else { return Err(FaultKind::Race) };
        let shared = self.scope != Scope::Local;
        if !shared && cell.epoch != self.epoch {
            // The element of another allocation.
            *cell = Shadow::default();
        }
        let by_another = |it: u32| it >= phase && it != task;
        let races =
            by_another(cell.writer) || by_another(cell.reader) || by_another(cell.other_reader);
        let read_races = cell.read_by.iter().any(|it| it.races_after_read(&index));
        if shared && races || read_races || cell.written_by.races_after_write(&index) {
            return Err(FaultKind::Race);
        }
        cell.writer = task;
        cell.epoch = self.epoch;
        cell.written_by = index;
        self.array.set(at, value);
        Ok(())
    }
}

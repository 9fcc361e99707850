//! Memory of the interpreter: a buffer for each entry of the argument table, and scratch.
//!
//! Every access is checked against the bounds of its buffer. With [`RaceCheck::On`], each byte also
//! remembers which task of the present phase wrote or read it.

use std::ops::Range;

use tvmtune_math::lane::Width;

use crate::vector::{Base, Storage, int_bits};

use super::FaultKind;
use super::value::truth;
use tvmtune_ir::half::{Bf16, F16};

/// Detection of races between the tasks of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RaceCheck {
    /// A byte that one task writes and another accesses is a fault.
    On,
    /// No detection: about twice as fast.
    Off,
}

/// The value of an entry of the argument table.
#[derive(Clone, Debug, PartialEq)]
pub enum EntryValue {
    /// The memory that a `Pointer` or `Workspace` entry points to.
    Bytes(Vec<u8>),
    /// The value of a `Param` entry.
    Integer(i64),
    /// The bits of a `Scalar` entry.
    Bits(u64),
}

/// The byte of uninitialized memory: a NaN in every float type, and an invalid `bool`.
pub const POISON: u8 = 0xff;

/// Values of a byte's history: no task, and more than one task.
const NOBODY: u32 = u32::MAX;
const SEVERAL: u32 = u32::MAX - 1;

/// The first writer and the readers of each byte of a buffer.
#[derive(Default)]
struct History {
    writer: Vec<u32>,
    reader: Vec<u32>,
}

pub(super) struct Memory<'a> {
    table: &'a mut [EntryValue],
    scratch: Vec<u8>,
    /// A range of scratch memory that has all writes of the task; scratch memory may be far larger.
    written: Range<usize>,
    histories: Vec<History>,
    task: u32,
    width: Width,
}

impl<'a> Memory<'a> {
    pub(super) fn new(
        table: &'a mut [EntryValue],
        scratch_bytes: usize,
        races: RaceCheck,
        width: Width,
    ) -> Self {
        let watched = if races == RaceCheck::On { table.len() } else { 0 };
        let histories = (0..watched).map(|_| History::default()).collect();
        let scratch = vec![POISON; scratch_bytes];
        Self { table, scratch, written: 0..0, histories, task: 0, width }
    }

    /// Clears the history, as a barrier does.
    pub(super) fn start_phase(&mut self) {
        for (history, cell) in self.histories.iter_mut().zip(self.table.iter()) {
            let len = if let EntryValue::Bytes(bytes) = cell { bytes.len() } else { 0 };
            *history = History { writer: vec![NOBODY; len], reader: vec![NOBODY; len] };
        }
    }

    /// Starts a task: attributes later accesses to it, and poisons scratch memory.
    pub(super) fn start_task(&mut self, task: u32) {
        self.task = task;
        let written = std::mem::take(&mut self.written);
        self.scratch[written].fill(POISON);
    }

    /// Records bytes of scratch memory that are written.
    fn note_written(&mut self, base: Base, bytes: &Range<usize>) {
        if base == Base::Scratch {
            let Range { start, end } = &mut self.written;
            *start = if start == end { bytes.start } else { bytes.start.min(*start) };
            *end = bytes.end.max(*end);
        }
    }

    pub(super) fn cell(&self, entry: u32) -> Option<&EntryValue> {
        self.table.get(entry as usize)
    }

    /// Checks bounds and returns the start of an access.
    fn check(&self, base: Base, offset: i64, bytes: usize) -> Result<usize, FaultKind> {
        let size = match base {
            Base::Scratch => self.scratch.len(),
            Base::Table(entry) => match self.cell(entry.0) {
                Some(EntryValue::Bytes(it)) => it.len(),
                _ => return Err(FaultKind::WrongEntry { entry }),
            },
        };
        let start = usize::try_from(offset).ok();
        start
            .filter(|it| it.checked_add(bytes).is_some_and(|end| end <= size))
            .ok_or(FaultKind::OutOfBounds { base, offset, bytes, size })
    }

    fn buffer(&mut self, base: Base) -> &mut [u8] {
        match base {
            Base::Scratch => &mut self.scratch,
            Base::Table(entry) => match &mut self.table[entry.0 as usize] {
                EntryValue::Bytes(it) => it,
                _ => unreachable!("`check` came first"),
            },
        }
    }

    /// Records an access; an access that conflicts with that of another task is a fault.
    fn watch(
        &mut self,
        base: Base,
        at: usize,
        bytes: usize,
        writes: bool,
    ) -> Result<(), FaultKind> {
        let Base::Table(entry) = base else { return Ok(()) };
        let me = self.task;
        let Some(history) = self.histories.get_mut(entry.0 as usize) else { return Ok(()) };
        for byte in at..at + bytes {
            let (writer, reader) = (history.writer[byte], history.reader[byte]);
            let foreign = |it: u32| it != NOBODY && it != me;
            if foreign(writer) || (writes && foreign(reader)) {
                let other = if foreign(writer) { writer } else { reader };
                let other = (other != SEVERAL).then_some(other);
                return Err(FaultKind::Race { entry, offset: byte, other });
            }
            if writes {
                history.writer[byte] = me;
            } else if reader != me {
                history.reader[byte] = if reader == NOBODY { me } else { SEVERAL };
            }
        }
        Ok(())
    }

    /// Loads the element at a byte offset as a lane.
    pub(super) fn load(&mut self, base: Base, at: i64, storage: Storage) -> Result<u64, FaultKind> {
        let size = storage.bytes() as usize;
        let start = self.check(base, at, size)?;
        self.watch(base, start, size, false)?;
        let width = self.width;
        let bytes = &self.buffer(base)[start..start + size];
        Ok(match (storage, bytes) {
            (Storage::Word, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
            (Storage::Long, bytes) => u64::from_le_bytes(bytes.try_into().expect("eight bytes")),
            (Storage::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])).to_bits(),
            (Storage::I32, &[a, b, c, d]) => {
                i64::from(i32::from_le_bytes([a, b, c, d])).cast_unsigned()
            }
            (Storage::U32, &[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]).into(),
            (Storage::F16, &[a, b]) => F16::from_le_bytes([a, b]).to_f32().to_bits().into(),
            (Storage::Bf16, &[a, b]) => u64::from(u16::from_le_bytes([a, b])) << 16,
            (Storage::I8, &[a]) => int_bits(a.cast_signed().into(), width),
            (Storage::U8, &[a]) => u64::from(a),
            (Storage::Bool, &[a]) => truth(a != 0, width),
            _ => unreachable!("a slice of the storage's size"),
        })
    }

    /// Stores a lane to the element at a byte offset.
    pub(super) fn store(
        &mut self,
        base: Base,
        at: i64,
        storage: Storage,
        value: u64,
    ) -> Result<(), FaultKind> {
        let size = storage.bytes() as usize;
        let start = self.check(base, at, size)?;
        self.watch(base, start, size, true)?;
        self.note_written(base, &(start..start + size));
        let width = self.width;
        let target = &mut self.buffer(base)[start..start + size];
        let word = value as u32;
        let float = f32::from_bits(word);
        match storage {
            Storage::Word | Storage::I32 | Storage::U32 => {
                target.copy_from_slice(&word.to_le_bytes());
            }
            Storage::Long => target.copy_from_slice(&value.to_le_bytes()),
            Storage::F32 => {
                target.copy_from_slice(&(f64::from_bits(value) as f32).to_le_bytes());
            }
            Storage::F16 => target.copy_from_slice(&F16::from_f32(float).to_le_bytes()),
            Storage::Bf16 => target.copy_from_slice(&Bf16::from_f32(float).to_le_bytes()),
            Storage::I8 | Storage::U8 => target[0] = value.to_le_bytes()[0],
            Storage::Bool => target[0] = u8::from(super::value::is_true(value, width)?),
        }
        Ok(())
    }
}

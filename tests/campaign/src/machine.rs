//! Machine code of vector code, on this machine, in memory that ends at guard pages.

use serde::{Deserialize, Serialize};
use tvmtune_cpu::interp::EntryValue;
use tvmtune_cpu::vector::{Count, Phase, TableEntry, VectorCode};
use tvmtune_cpu::x86::{RegisterFile, assemble_in};
use tvmtune_ir::target::Isa;
use tvmtune_runtime::raw::{Code, Guarded, Threads};

/// Returns whether this machine executes code for an instruction set.
#[cfg(target_arch = "x86_64")]
pub fn executes(isa: Isa) -> bool {
    match isa {
        Isa::Avx2 => {
            is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c")
        }
        Isa::Avx512 => {
            is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
        }
    }
}

/// Returns false: there is code for x86-64 only.
#[cfg(not(target_arch = "x86_64"))]
pub fn executes(_: Isa) -> bool {
    false
}

/// Assembles and runs a kernel. Memory behind the pointers of the table changes; returns the number of
/// registers that were spilled.
///
/// # Panics
///
/// If the machine has no memory for code or buffers.
pub fn launch(
    kernel: &VectorCode,
    dims: &[i64],
    cells: &mut [EntryValue],
    file: RegisterFile,
    threads: Threads,
) -> u32 {
    let mut job = Job::new(kernel, dims, cells, file);
    job.run(threads);
    for (cell, argument) in cells.iter_mut().zip(job.table) {
        if let Argument::Buffer(Bytes(bytes)) = argument {
            *cell = EntryValue::Bytes(bytes);
        }
    }
    job.spills
}

/// Machine code with the arguments of a launch: all that a machine needs that executes it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    /// The code of each phase.
    phases: Vec<Bytes>,
    /// The tasks of each phase.
    n_tasks: Vec<u64>,
    scratch_bytes: usize,
    /// The table that code reads.
    pub table: Vec<Argument>,
    /// Registers that were spilled.
    spills: u32,
}

/// An entry of the table.
#[derive(Debug, Serialize, Deserialize)]
pub enum Argument {
    /// A pointer to these bytes.
    Buffer(Bytes),
    /// A number.
    Word(u64),
}

impl Job {
    /// Assembles a kernel for a launch at some extents.
    pub fn new(
        kernel: &VectorCode,
        dims: &[i64],
        cells: &[EntryValue],
        file: RegisterFile,
    ) -> Self {
        let machine = assemble_in(kernel, file);
        let argument = |(entry, cell): (&TableEntry, &EntryValue)| match cell {
            EntryValue::Bytes(bytes) => Argument::Buffer(Bytes(bytes.clone())),
            EntryValue::Integer(value) => Argument::Word(value.cast_unsigned()),
            EntryValue::Bits(bits) => Argument::Word(match entry {
                TableEntry::Scalar(_, dtype) if dtype.bytes() == 8 => *bits,
                // Only the low bytes count.
                _ => *bits | 0xdead_beef_0000_0000,
            }),
        };
        Self {
            phases: machine.phases.into_iter().map(Bytes).collect(),
            n_tasks: n_tasks(kernel, dims),
            scratch_bytes: kernel.scratch_bytes.eval_dims(dims).max(0) as usize,
            table: kernel.table.iter().zip(cells).map(argument).collect(),
            spills: machine.spills,
        }
    }

    /// Runs the code; buffers of the table change.
    ///
    /// # Panics
    ///
    /// If the machine has no memory for code or buffers.
    pub fn run(&mut self, threads: Threads) {
        let code = Code::load(&self.phases).expect("memory for code");
        let mut memory: Vec<Option<Guarded>> = Vec::new();
        let mut table = Vec::new();
        for argument in &self.table {
            let (word, guarded) = match argument {
                Argument::Buffer(Bytes(bytes)) => {
                    let mut guarded = Guarded::new(bytes.len(), 1).expect("memory for a buffer");
                    guarded.bytes_mut().copy_from_slice(bytes);
                    (guarded.address(), Some(guarded))
                }
                Argument::Word(word) => (*word, None),
            };
            table.push(word);
            memory.push(guarded);
        }
        code.try_out(&self.n_tasks, &table, self.scratch_bytes, threads);
        for (argument, guarded) in self.table.iter_mut().zip(memory) {
            if let (Argument::Buffer(Bytes(bytes)), Some(guarded)) = (argument, guarded) {
                bytes.copy_from_slice(guarded.bytes());
            }
        }
    }
}

/// Bytes, which are base64 in text.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Bytes(#[serde(with = "base64")] pub Vec<u8>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

mod base64 {
    use data_encoding::BASE64;
    use serde::{Deserialize, Deserializer, Serializer, de};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        BASE64.decode(String::deserialize(from)?.as_bytes()).map_err(de::Error::custom)
    }
}

/// The tasks of each phase.
fn n_tasks(kernel: &VectorCode, dims: &[i64]) -> Vec<u64> {
    let count = |count| match count {
        Count::Const(value) => value,
        Count::Param(slot) => match &kernel.table[slot.0 as usize] {
            TableEntry::Param(value) => value.eval_dims(dims),
            entry => unreachable!("a number of tasks is a parameter, not {entry:?}"),
        },
    };
    let of = |phase: &Phase| phase.tasks.iter().map(|it| count(it.1).max(0) as u64).product();
    kernel.phases.iter().map(of).collect()
}

//! Machine code in a file, with arguments and expected results, which are those of its interpreted
//! vector code. A machine without AVX-512 saves code for it; a CPU or an emulator that has it executes the
//! file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use tvmtune_campaign::machine::{self, Argument, Bytes, Job};
use tvmtune_cpu::interp::{EntryValue, entries_of_results};
use tvmtune_cpu::vector::VectorCode;
use tvmtune_cpu::x86::RegisterFile;
use tvmtune_ir::dag::DType;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_runtime::raw::Threads;

use crate::bits;

/// A kernel and a launch of it.
#[derive(Serialize, Deserialize)]
pub struct SavedCode {
    isa: String,
    /// For readers: the program, its extents and its schedule.
    label: String,
    job: Job,
    results: Vec<SavedResult>,
}

/// A result in the table.
#[derive(Serialize, Deserialize)]
struct SavedResult {
    entry: usize,
    dtype: DType,
    /// All NaNs are one.
    bits: Bytes,
}

/// Counts of saved kernels.
#[derive(Debug, Default)]
pub struct Counts {
    /// Kernels with the saved results.
    pub right: usize,
    /// Kernels with other results.
    pub wrong: usize,
    /// Kernels of instruction sets that this machine lacks.
    pub left_out: usize,
}

impl SavedCode {
    /// Assembles a kernel for a launch, of which these are the results.
    pub fn new(
        label: String,
        kernel: &VectorCode,
        dims: &[i64],
        cells: &[EntryValue],
        (n_params, results): (usize, &[Array]),
    ) -> Self {
        let saved = |(entry, result): (usize, &Array)| SavedResult {
            entry,
            dtype: result.dtype,
            bits: Bytes(bits(std::slice::from_ref(result)).concat()),
        };
        Self {
            isa: kernel.isa.name().to_owned(),
            label,
            job: Job::new(kernel, dims, cells, RegisterFile::of(kernel.isa)),
            results: entries_of_results(kernel, n_params).zip(results).map(saved).collect(),
        }
    }

    /// Writes a line.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn write(&self, file: &mut BufWriter<File>) -> io::Result<()> {
        serde_json::to_writer(&mut *file, self)?;
        writeln!(file)
    }

    /// Executes the code; returns whether the results have the saved bits.
    fn is_right(&mut self) -> bool {
        self.job.run(Threads::All);
        self.results.iter().all(|it| match &self.job.table[it.entry] {
            Argument::Buffer(Bytes(bytes)) => {
                let elements = bytes.len() as u64 / it.dtype.bytes();
                let found = Array::from_bytes(it.dtype, &[elements], bytes);
                bits(&[found]).concat() == it.bits.0
            }
            Argument::Word(_) => false,
        })
    }
}

/// Executes all that this machine can, and prints the labels of kernels with other results.
///
/// # Errors
///
/// If the file cannot be read, or is of another kind.
pub fn run(path: &Path) -> io::Result<Counts> {
    let mut counts = Counts::default();
    for line in BufReader::new(File::open(path)?).lines() {
        let mut saved: SavedCode = serde_json::from_str(&line?)?;
        let known = [Isa::Avx512, Isa::Avx2].into_iter().find(|it| it.name() == saved.isa);
        if !known.is_some_and(machine::executes) {
            counts.left_out += 1;
        } else if saved.is_right() {
            counts.right += 1;
        } else {
            counts.wrong += 1;
            println!("wrong on {}: {}", saved.isa, saved.label);
        }
    }
    Ok(counts)
}

//! Machine code of vector code, on this machine, in memory that ends at guard pages.

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
    let machine = assemble_in(kernel, file);
    let code = Code::load(&machine.phases).expect("memory for code");
    let mut memory: Vec<Option<Guarded>> = Vec::new();
    let mut table = Vec::new();
    for (entry, cell) in kernel.table.iter().zip(&*cells) {
        let is_long = matches!(entry, TableEntry::Scalar(_, dtype) if dtype.bytes() == 8);
        let (word, guarded) = match cell {
            EntryValue::Bytes(bytes) => {
                let mut guarded = Guarded::new(bytes.len(), 1).expect("memory for a buffer");
                guarded.bytes_mut().copy_from_slice(bytes);
                (guarded.address(), Some(guarded))
            }
            EntryValue::Integer(value) => (value.cast_unsigned(), None),
            EntryValue::Bits(bits) if is_long => (*bits, None),
            // Only the low bytes count.
            EntryValue::Bits(bits) => (*bits | 0xdead_beef_0000_0000, None),
        };
        table.push(word);
        memory.push(guarded);
    }
    let scratch = kernel.scratch_bytes.eval_dims(dims).max(0) as usize;
    code.try_out(&n_tasks(kernel, dims), &table, scratch, threads);
    for (cell, guarded) in cells.iter_mut().zip(memory) {
        if let Some(guarded) = guarded {
            *cell = EntryValue::Bytes(guarded.bytes().to_vec());
        }
    }
    machine.spills
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

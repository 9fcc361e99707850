//! Candidates for CPUs: machine code, and for each case its argument table and its tasks.

use tvmtune_cpu::Generated;
use tvmtune_cpu::interp::scalar_bits;
use tvmtune_cpu::vector::{Count, TableEntry, VectorCode};
use tvmtune_schedule::Threads;

use super::super::protocol::{CodeSpec, CpuLaunch, CpuSpec, Word};
use super::{CaseSpec, Job, unsigned};

impl Job {
    /// Creates a candidate of a kernel and its code, a blob for each phase.
    pub fn new(kernel: &VectorCode, phases: &[Vec<u8>], cases: &[CaseSpec]) -> Self {
        let code = CodeSpec::Cpu(CpuSpec {
            phases: phases.iter().map(Vec::len).collect(),
            parallel: kernel.threads == Threads::All,
            launches: cases.iter().map(|it| launch(kernel, it)).collect(),
        });
        Self { code, bytes: phases.concat(), artifact: String::new() }
    }

    /// Creates the candidate of generated code.
    pub fn on_cpu(generated: &Generated, cases: &[CaseSpec]) -> Self {
        let job = Self::new(&generated.kernel, &generated.code.phases, cases);
        Self { artifact: generated.artifact.to_string(), ..job }
    }
}

/// Returns the launch of a kernel on a case.
fn launch(kernel: &VectorCode, case: &CaseSpec) -> CpuLaunch {
    let (dims, scalars) = (case.dims(), case.scalars());
    let word = |entry: &TableEntry| match entry {
        TableEntry::Pointer { tensor, layout } => case.address(*tensor, layout.as_ref()),
        TableEntry::Workspace { bytes } => Word::Shared(unsigned(bytes.eval_dims(dims))),
        TableEntry::Param(value) => Word::Value(value.eval_dims(dims).cast_unsigned()),
        TableEntry::Scalar(id, dtype) => Word::Value(scalar_bits(scalars[id.0 as usize], *dtype)),
    };
    let count = |it: &Count| match it {
        Count::Const(value) => *value,
        Count::Param(slot) => match &kernel.table[slot.0 as usize] {
            TableEntry::Param(value) => value.eval_dims(dims),
            _ => 0,
        },
    };
    CpuLaunch {
        table: kernel.table.iter().map(word).collect(),
        n_tasks: kernel
            .phases
            .iter()
            .map(|it| it.tasks.iter().map(|(_, n)| unsigned(count(n))).product())
            .collect(),
        scratch_bytes: unsigned(kernel.scratch_bytes.eval_dims(dims)),
    }
}

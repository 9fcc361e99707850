//! Schedules of a program with free numerics, for the same program with fixed ones.
//!
//! A schedule that keeps the order of each reduction gives the bits of the definition, whatever it was found
//! for: replay refuses all others. So a crate that fixes the numerics of its ops keeps what was tuned before.
//!
//! In: a query for a program with fixed numerics, of which there is no record. Out: the query for the program
//! without, and its records as those of the program with them. The search goes on: schedules were chosen
//! among others.

use tvmtune_ir::dag::{Dag, Numerics, print};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::Platform;
use tvmtune_ir::workload::WorkloadId;
use tvmtune_schedule::{Instruction, Schedule};

use crate::record::{Entry, Record};

/// A program with fixed numerics, and the text of the same program without.
pub(super) struct FixedProgram {
    dag: Dag,
    pub(super) free: WorkloadId,
    pub(super) free_text: String,
}

impl FixedProgram {
    /// Reads the program of a canonical text; `None` if its numerics are free, or if its reductions have orders
    /// that schedules of the free program know nothing of.
    pub(super) fn new(text: &str) -> Option<Self> {
        if !text.lines().any(|it| it.starts_with("numerics")) {
            return None;
        }
        let dag: Dag = text.parse().ok().filter(|it: &Dag| it.numerics == Numerics::Fixed)?;
        // More of a program is simplified where no order is kept: over all extents, this does nothing else.
        let ranges: Vec<Interval> = dag.dims.iter().map(|it| it.range).collect();
        let free_dag = dag.with_free_numerics().specialize(&ranges);
        let n_stages = |it: &Dag| Schedule::new(it).stages.len();
        let free_text = print::canonical(&free_dag);
        let free = WorkloadId::of(&free_text);
        (n_stages(&dag) == n_stages(&free_dag)).then_some(Self { dag, free, free_text })
    }

    /// Returns a record of the free program as one of this program, and the number of its schedules that are
    /// left out since they do not keep the order.
    pub(super) fn adopted(
        &self,
        mut record: Record,
        (id, text): (WorkloadId, &str),
    ) -> (Record, usize) {
        let mut n_left_out = 0;
        for bucket in &mut record.buckets {
            bucket.begin_anew();
            let narrow = (bucket.dims.len() == self.dag.dims.len())
                .then(|| self.dag.specialize(&bucket.dims));
            let n_before = bucket.schedules.len();
            bucket.schedules.retain(|it| narrow.as_ref().is_some_and(|dag| keeps_order(dag, it)));
            n_left_out += n_before - bucket.schedules.len();
        }
        record.buckets.retain(|it| !it.schedules.is_empty());
        (record.workload, record.dag) = (id, text.to_owned());
        (record, n_left_out)
    }
}

/// Returns whether a schedule is one of a program with fixed numerics, on a CPU.
fn keeps_order(dag: &Dag, entry: &Entry) -> bool {
    let trace: Result<Vec<Instruction>, _> = entry.trace.iter().map(|it| it.parse()).collect();
    matches!(entry.platform, Platform::Cpu(_))
        && trace.is_ok_and(|it| Schedule::replay(dag, &it).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Bucket, End, GENERATOR, Measured, Provenance, Source};
    use tvmtune_ir::dsl;
    use tvmtune_ir::name::ProgramName;
    use tvmtune_ir::target::{CpuTarget, Isa};

    const PRODUCT: &str = "fn f(x: Tensor<f32, M, K>, w: Weight<f32, K, N>) -> Tensor<f32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[k, j]]))
    }";

    fn text(options: &str, function: &str) -> String {
        let source = format!("#[autotune(dims(M = 8, N = 32, K = 20){options})] {function}");
        print::canonical(&dsl::program(&source).unwrap())
    }

    fn entry(step: &str) -> Entry {
        let measured = Measured { median_ns: 9e3, ..Measured::default() };
        let platform = Platform::Cpu(Isa::Avx2);
        let artifact = "00".repeat(32).parse().unwrap();
        let trace = [step.parse().unwrap()];
        Entry {
            measured: Some(measured),
            ..Entry::unmeasured(platform, artifact, Source::Evolved, &trace)
        }
    }

    #[test]
    fn schedules_that_keep_the_order_serve_the_program_that_fixes_it() {
        let fixed = text(", numerics = \"fixed\"", PRODUCT);
        let program = FixedProgram::new(&fixed).unwrap();
        assert_eq!(program.free_text, text("", PRODUCT));
        let steps = ["split s0 a1 [4, 8]", "rfactor s0 a2", "reorder s0 [a2, a1]"];
        let bucket = Bucket {
            trials: 300,
            complete: true,
            schedules: steps.map(entry).to_vec(),
            ..Bucket::default()
        };
        let record = Record {
            schema: 1,
            workload: program.free,
            name: ProgramName::of("f"),
            device: CpuTarget::generic(Isa::Avx2).key(),
            generator: GENERATOR,
            dag: program.free_text.clone(),
            provenance: Provenance::default(),
            buckets: vec![bucket],
            end: End {},
        };
        let id = WorkloadId::of(&fixed);
        let (adopted, n_left_out) = program.adopted(record, (id, &fixed));
        assert_eq!((adopted.workload, n_left_out), (id, 1));
        let [bucket] = &adopted.buckets[..] else { panic!("one bucket") };
        let kept: Vec<&str> = bucket.schedules.iter().map(|it| it.trace[0].as_str()).collect();
        assert_eq!(kept, [steps[0], steps[2]]);
        assert!(!bucket.complete && bucket.trials < 300, "its own search was not begun");
    }

    #[test]
    fn programs_with_free_numerics_or_reductions_by_lanes_adopt_nothing() {
        assert!(FixedProgram::new(&text("", PRODUCT)).is_none());
        let rows = "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M> {
            compute(|i| sum(0..N, |j| x[[i, j]]))
        }";
        let source = format!("#[autotune(dims(M = 8, N = 32), numerics = \"fixed\")] {rows}");
        let rows = print::canonical(&dsl::program(&source).unwrap());
        assert!(FixedProgram::new(&rows).is_none());
        assert!(FixedProgram::new("numerics fixed").is_none());
    }
}

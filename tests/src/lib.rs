//! The integration tests of tvmtune, and what they share.

#![expect(clippy::missing_panics_doc, reason = "a test that cannot be set up fails")]

pub mod nats;
pub mod numerics;
pub mod nvrtc;
pub mod pip;
pub mod portable;
pub mod sandbox;
pub mod saved_code;
pub mod skip;
pub mod spellings;
#[cfg(unix)]
pub mod sshd;
pub mod testbed;

pub use cargo_tvmtune::emulate;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::dag::{DType, Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa};
use tvmtune_ir::workload::WorkloadId;
use tvmtune_plan::embed;
use tvmtune_plan::record::{Bucket, End, Entry, Measured, Provenance, Record, Source};
use tvmtune_tuner::tune::{Tolerance, Workload};

/// The bits of results, with one NaN for all of them: which one it is depends on the order of operands.
pub fn bits(results: &[Array]) -> Vec<Vec<u8>> {
    let of_array = |it: &Array| {
        let mut bytes = it.bytes();
        for (n, element) in bytes.chunks_mut(it.dtype.bytes() as usize).enumerate() {
            if matches!(it.get(n), Number::Float(value) if value.is_nan()) {
                element.fill(0xff);
            }
        }
        bytes
    };
    results.iter().map(of_array).collect()
}

/// The text of a program that nothing else has.
const SAMPLE: &str = "canonical text\n";

/// The identity of code that goes by a name.
pub fn code(name: &str) -> ArtifactId {
    ArtifactId::of([name.as_bytes()])
}

/// A record of one workload with a bucket of its own for each `n`, so that none may be lost when
/// records of several are merged.
pub fn sample_record(n: u32) -> Record {
    let measured = Measured {
        dims: vec![i64::from(n) + 1],
        threads: 1,
        median_ns: 100.0,
        min_ns: 99.0,
        p10_ns: 99.5,
        p90_ns: 100.5,
        samples: 10,
        cold: None,
        error: None,
        image: None,
    };
    let entry = Entry {
        platform: Isa::Avx2.into(),
        artifact: code(&n.to_string()),
        measured_code: None,
        source: Source::Evolved,
        trace: vec!["inline s0".to_owned()],
        measured: Some(measured),
        accuracy: None,
        lineage: Vec::new(),
        images: Vec::new(),
    };
    let dims = vec![Interval::point(i64::from(n) + 1)];
    Record {
        schema: 1,
        workload: WorkloadId::of(SAMPLE),
        name: ProgramName::of("sample"),
        device: CpuTarget::generic(Isa::Avx2).key(),
        generator: 1,
        dag: SAMPLE.to_owned(),
        provenance: Provenance { tool: "tests".to_owned(), ..Provenance::default() },
        buckets: vec![Bucket {
            dims,
            trials: 1,
            seconds: 0.1,
            complete: false,
            weight: None,
            schedules: vec![entry],
        }],
        end: End {},
    }
}

/// Arguments of a program: arrays made of the type, the shape and the number of each, from 1 on.
pub fn arguments(
    dag: &Dag,
    dims: &[i64],
    array: impl Fn(DType, &[u64], u64) -> Array,
) -> Vec<Array> {
    let param = |(number, id)| {
        let tensor = dag.tensor(id);
        let shape: Vec<u64> = tensor.shape.iter().map(|it| it.eval_dims(dims) as u64).collect();
        array(tensor.dtype, &shape, number)
    };
    (1..).zip(dag.params()).map(param).collect()
}

/// A program ready to be tuned.
///
/// # Panics
///
/// If the text is no annotated function: tests know what they write.
pub fn workload(source: &str) -> Workload {
    let mut function: syn::ItemFn = syn::parse_str(source).expect("a function");
    let attribute = function.attrs.pop().expect("an attribute");
    let options = attribute.meta.require_list().expect("options").tokens.clone();
    let program = dsl::parse(options, &function).expect("a program");
    let dag = dsl::build(&program).expect("a meaning");
    let buckets = embed::buckets(&dag, &program.buckets());
    let tolerance = program.tolerance();
    Workload::new(dag, buckets, Tolerance { rel: tolerance.rel, abs: tolerance.abs })
}

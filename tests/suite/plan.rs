//! The schedules that a build plans with where nothing measures them beside the default one: recorded for
//! other extents, or of other code.

use std::path::{Path, PathBuf};

use tvmtune_build::op::Op;
use tvmtune_build::plan::{self, PlanTarget, Variant};
use tvmtune_build::report::TuningStatus;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_plan::database::{Lookup, StoreKind, StoredRecord};
use tvmtune_plan::handoff::OpSource;
use tvmtune_plan::record::{Bucket, Entry, Measured, Record, SearchLimits, Source};
use tvmtune_schedule::{Instruction, Schedule, Threads};
use tvmtune_space::default;
use tvmtune_tests::{code, sample_record};

const ISA: Isa = Isa::Avx2;
const LIMITS: SearchLimits = SearchLimits { trials: 1000, seconds: 60.0 };

fn cpu() -> CpuTarget {
    CpuTarget { threads: 2, ..CpuTarget::generic(ISA) }
}

/// A product with a bucket of one row and one of many.
fn product() -> Op {
    let source = OpSource {
        name: "product".to_owned(),
        options: "dims(M = 1..=256, N = 192, K = 256), buckets(M = [1, 256])".to_owned(),
        item: "fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
            compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
        }"
        .to_owned(),
    };
    Op::from_source(&source, Path::new("lib.rs")).unwrap()
}

/// An elementwise op, with a bucket of few rows and one of many.
fn gate() -> Op {
    let source = OpSource {
        name: "gate".to_owned(),
        options: "dims(M = 1..=512, D = 8192), buckets(M = [16, 512])".to_owned(),
        item: "fn gate(x: Tensor<f32, M, D>, y: Tensor<f32, M, D>) -> Tensor<f32, M, D> {
            compute(|i, d| silu(x[[i, d]]) * y[[i, d]])
        }"
        .to_owned(),
    };
    Op::from_source(&source, Path::new("lib.rs")).unwrap()
}

fn default(op: &Op, bucket: &[Interval]) -> Schedule {
    default::schedule(&op.dag.specialize(bucket), &Target::Cpu(cpu()))
}

fn lines(schedule: &Schedule) -> Vec<String> {
    schedule.trace.iter().map(ToString::to_string).collect()
}

/// A schedule that took that long, of code that nobody makes any more.
fn entry(source: Source, trace: Vec<String>, median_ns: f64) -> Entry {
    let spread = (median_ns * 0.99, median_ns * 1.01);
    let measured = Measured {
        median_ns,
        min_ns: spread.0,
        p10_ns: spread.0,
        p90_ns: spread.1,
        samples: 9,
        threads: 2,
        ..Measured::default()
    };
    Entry {
        platform: ISA.into(),
        artifact: code(&median_ns.to_string()),
        measured_code: None,
        source,
        trace,
        measured: Some(measured),
        accuracy: None,
        lineage: Vec::new(),
        images: Vec::new(),
    }
}

fn lookup(bucket: &[Interval], schedules: Vec<Entry>) -> Lookup {
    let buckets = vec![Bucket { dims: bucket.to_vec(), schedules, ..Bucket::default() }];
    let record = Record { device: cpu().key(), buckets, ..sample_record(0) };
    let stored = StoredRecord { record, path: PathBuf::from("a.toml"), store: StoreKind::Cache };
    let mut lookup = Lookup::default();
    lookup.records.push(stored);
    lookup
}

/// Plans the code of a bucket from those records.
fn with_variant(op: &Op, lookup: &Lookup, bucket: &[Interval], check: impl Fn(&Variant<'_>)) {
    let plan_target = PlanTarget { device: Some(cpu()), gpu: None, limits: LIMITS };
    let specs = plan::variant_specs(op, lookup, &plan_target);
    let spec = specs.iter().find(|it| it.bucket == bucket && it.isa == ISA).unwrap();
    check(&plan::realize(op, spec, &plan_target).unwrap());
}

#[test]
fn a_schedule_of_one_row_does_not_serve_many() {
    let op = product();
    let [one, many] = [&op.buckets[0], &op.buckets[1]];
    let entry = entry(Source::Evolved, lines(&default(&op, one)), 100.0);
    with_variant(&op, &lookup(one, vec![entry]), many, |it| {
        assert_eq!(it.status(LIMITS), TuningStatus::Default);
        assert_eq!(it.schedule.trace, default(&op, many).trace);
    });
}

#[test]
fn a_schedule_of_other_ranges_serves_where_it_is_clearly_cheaper_by_the_threads_of_the_default_one()
{
    let op = gate();
    let [few, many] = [&op.buckets[0], &op.buckets[1]];
    // All rows as one, eight vectors at a time: cheaper than the default schedule, by the model.
    let cheaper: Vec<String> = [
        "fuse s0 a0 a1",
        "split s0 a2 [64, 64]",
        "annotate s0 a3 parallel",
        "annotate s0 a5 vectorized",
        "threads one",
    ]
    .map(str::to_owned)
    .into();
    assert_eq!(default(&op, many).threads, Threads::All);
    let found = |ns| entry(Source::Evolved, cheaper.clone(), ns);
    with_variant(&op, &lookup(few, vec![found(100.0)]), many, |it| {
        assert_eq!(it.status(LIMITS), TuningStatus::Transferred);
        assert_eq!(it.schedule.threads, Threads::All);
    });
    let is_default = |it: &Variant<'_>| {
        assert_eq!(it.status(LIMITS), TuningStatus::Default);
        assert_eq!(it.schedule.trace, default(&op, many).trace);
    };
    // A schedule that lost to the default one of its own ranges serves no others.
    let beside = |ns| entry(Source::Default, lines(&default(&op, few)), ns);
    with_variant(&op, &lookup(few, vec![beside(99.0), found(100.0)]), many, is_default);
    // Nor does the default schedule of other ranges: each range has its own.
    let of_others = entry(Source::Default, cheaper.clone(), 100.0);
    with_variant(&op, &lookup(few, vec![of_others]), many, is_default);
    // A schedule of other ranges that costs as much as the default one does not serve.
    let product = product();
    let many = &product.buckets[1];
    let fewer = vec![Interval { lo: 1, hi: 128 }];
    let as_cheap = entry(Source::Evolved, lines(&default(&product, &fewer)), 100.0);
    with_variant(&product, &lookup(&fewer, vec![as_cheap]), many, |it| {
        assert_eq!(it.status(LIMITS), TuningStatus::Default);
    });
}

#[test]
fn a_record_is_believed_only_about_the_default_schedule_that_it_knows() {
    let op = product();
    let bucket = &op.buckets[1];
    let today = default(&op, bucket);
    // The cost model finds one about as fast as the default schedule, and loops as the program has them
    // far slower.
    let is_kept = |it: &String| !it.contains("pipelined");
    let other: Vec<String> = lines(&today).into_iter().filter(is_kept).collect();
    let near = |ns| entry(Source::Evolved, other.clone(), ns);
    let plain = |ns| entry(Source::Evolved, Vec::new(), ns);
    let beside = |it: Entry, default| lookup(bucket, vec![it, default]);
    let check = |lookup: &Lookup, expected: &Schedule| {
        with_variant(&op, lookup, bucket, |it| {
            assert_eq!(it.status(LIMITS), TuningStatus::Replayed);
            assert_eq!(it.schedule.trace, expected.trace);
        });
    };
    let trace: Vec<Instruction> = other.iter().map(|it| it.parse().unwrap()).collect();
    let replayed = Schedule::replay(&op.dag.specialize(bucket), &trace).unwrap();
    let same = || entry(Source::Default, lines(&today), 200.0);
    check(&beside(near(100.0), same()), &replayed);
    check(&beside(near(199.0), same()), &today);
    let former = vec!["threads one".to_owned()];
    check(&beside(plain(100.0), entry(Source::Default, former, 200.0)), &today);
    check(&lookup(bucket, vec![plain(100.0)]), &today);
    // Whatever a record says of other code, it is not a hundred times as fast as what is far slower.
    check(&beside(plain(2.0), same()), &today);
}

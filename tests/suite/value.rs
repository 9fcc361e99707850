//! Value functions from the command line: trained on logs, used for kernels that nobody measured.

use std::fs;

use tvmtune_build::op::Op;
use tvmtune_build::package::Package;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_plan::database::{Cache, Database, Files, Store, StoreKind};
use tvmtune_plan::device;
use tvmtune_plan::record::{Bucket, End, Entry, GENERATOR, Provenance, Record, Source};
use tvmtune_plan::source::Cfg;
use tvmtune_schedule::Schedule;
use tvmtune_tests::sandbox::{SOURCE, Said, Sandbox, files, said};
use tvmtune_tuner::random::Random;
use tvmtune_tuner::space::Space;
use tvmtune_tuner::value::ValueModel;

const TVMTUNE: &str = env!("CARGO_BIN_EXE_tvmtune");
const SCRIPT: &str = env!("CARGO_BIN_EXE_script");

#[track_caller]
fn check(sandbox: &Sandbox, arguments: &[&str], code: i32) -> Said {
    let said = said(sandbox.command(TVMTUNE).args(arguments));
    assert_eq!(said.code, Some(code), "{said:?}");
    said
}

/// Four kernels of different kinds, and one to be added.
const KERNELS: &str = "
use tvmtune_runtime::autotune;

#[autotune(dims(M = 48, N = 64, K = 96))]
pub fn product(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}

#[autotune(dims(M = 64, K = 256))]
pub fn row_sum(x: Tensor<f32, M, K>) -> Tensor<f32, M> {
    compute(|i| sum(0..K, |k| x[[i, k]]))
}

#[autotune(dims(M = 64, K = 256))]
pub fn scale(x: Tensor<f32, M, K>) -> Tensor<f32, M, K> {
    compute(|i, k| x[[i, k]] * 0.5)
}

#[autotune(dims(M = 32, N = 32, K = 32))]
pub fn plain_product(x: Tensor<f32, M, K>, y: Tensor<f32, K, N>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * y[[k, j]]))
}
";

const ANOTHER: &str = "
#[autotune(dims(M = 40, N = 80, K = 128))]
pub fn another(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
    compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
}
";

#[test]
fn a_function_of_what_was_measured_predicts_for_other_kernels() {
    let sandbox = Sandbox::new("sandbox", KERNELS);
    let early = check(&sandbox, &["train"], 1);
    assert!(early.out.contains("0 kernels tuned on this machine, 4 are needed"), "{early:?}");
    let none = check(&sandbox, &["predict"], 2);
    assert!(none.err.contains("`cargo tvmtune train` makes one"), "{none:?}");

    let isa = device::isas()[0].name();
    check(&sandbox, &["tune", "--trials", "24", "--isa", isa], 0);
    let trained = check(&sandbox, &["train", "--rounds", "1", "--schedules", "4", "--force"], 0);
    for part in ["round 1: ", "\nheld out: ", "\ntrained on "] {
        assert!(trained.out.contains(part), "{part}: {trained:?}");
    }
    for kernel in ["product", "row_sum", "scale", "plain_product"] {
        let mut rows = trained.out.lines().filter(|it| it.split(' ').next() == Some(kernel));
        assert!(
            rows.next().is_some(),
            "each kernel is judged, also where analysis chooses: {trained:?}"
        );
    }
    let file = sandbox.package().join("tvmtune").join(ValueModel::FILE_NAME);
    let model = ValueModel::load(&file).expect("what was written can be read");
    assert_eq!(model.provenance.n_programs, 4);
    assert!(model.provenance.n_trials >= 4 * 24);

    sandbox.write("src/lib.rs", &format!("{KERNELS}{ANOTHER}"));
    let predicted = check(&sandbox, &["predict", "--isa", isa], 0);
    let rows: Vec<&str> = predicted.out.lines().filter(|it| it.contains(isa)).collect();
    assert_eq!(rows.len(), 1, "what was measured is not predicted: {predicted:?}");
    assert!(rows[0].starts_with("another"), "{predicted:?}");
    let again = check(&sandbox, &["predict", "--isa", isa], 0);
    assert_eq!(again.out, predicted.out, "it is a function of the model and the kernel");

    // An earlier prediction goes, also where the default schedule is kept.
    let text = fs::read_to_string(&file).unwrap();
    let mut reluctant: serde_json::Value = serde_json::from_str(&text).unwrap();
    reluctant["policy"]["margin"] = 10.into();
    fs::write(&file, reluctant.to_string()).unwrap();
    let n_predictions = || {
        let records = sandbox.records().into_iter().map(|it| fs::read_to_string(it).unwrap());
        let records = records.map(|it| Record::from_toml(&it).expect("a record"));
        let entries = records.flat_map(|it| it.buckets).flat_map(|it| it.schedules);
        entries.filter(Entry::is_prediction).count()
    };
    record_predictions(&sandbox, "another");
    assert_eq!(n_predictions(), 1);
    let kept = check(&sandbox, &["predict", "--isa", isa], 0);
    assert!(kept.out.contains("0 schedules chosen against analysis"), "{kept:?}");
    assert_eq!(n_predictions(), 0);

    fs::write(&file, &text[..text.len() / 2]).unwrap();
    let mangled = check(&sandbox, &["predict"], 2);
    assert!(mangled.err.contains("train it anew by `cargo tvmtune train`"), "{mangled:?}");
    check(&sandbox, &["status"], 0);
}

/// Records a schedule that is not the default one for each bucket of a kernel of a sandbox, as a prediction
/// for this machine.
fn record_predictions(sandbox: &Sandbox, name: &str) -> Record {
    let package = Package::load("sandbox", &sandbox.package(), None, &Cfg::of_host()).unwrap();
    let op = package.ops.iter().find(|it| it.name() == name).expect("the kernel is there");
    let cpu = device::detect().expect("this machine runs kernels");
    let buckets = op.buckets.iter().map(|it| Bucket {
        dims: it.clone(),
        schedules: vec![prediction(op, it, cpu)],
        ..Bucket::default()
    });
    let record = Record {
        schema: 5,
        workload: op.id,
        name: ProgramName::of(op.name()),
        device: Target::from(cpu).key(),
        generator: GENERATOR,
        dag: op.text.clone(),
        provenance: Provenance::default(),
        buckets: buckets.collect(),
        end: End {},
    };
    let cache = Cache::new(&sandbox.cache());
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    let database = Database::new(vec![store], Some(cache));
    database.put(&record, &Files::default()).unwrap();
    record
}

fn prediction(op: &Op, bucket: &[Interval], cpu: CpuTarget) -> Entry {
    let dag = op.dag.specialize(bucket);
    let space = Space::new(&dag, &cpu.into());
    let mut random = Random::new(7);
    let default = space.instructions(&space.defaults()[0]);
    let other = std::iter::repeat_with(|| space.instructions(&space.random(&mut random)))
        .take(1000)
        .filter(|it| *it != default)
        .find_map(|it| {
            let schedule = Schedule::replay(&dag, &it).ok()?;
            Some((it, tvmtune_cpu::generate(&schedule, cpu.isa).ok()?))
        });
    let (trace, generated) = other.expect("the space has more than the default schedule");
    Entry::unmeasured(cpu.isa.into(), generated.artifact, Source::Predicted, &trace)
}

#[test]
fn a_predicted_schedule_runs_until_something_was_measured() {
    let sandbox = Sandbox::new("sandbox", SOURCE);
    let record = record_predictions(&sandbox, "scaled_sum");
    let before = check(&sandbox, &["status"], 0);
    assert!(before.out.contains("1 kernel: 1 predicted"), "{before:?}");
    let shown = check(&sandbox, &["show", "scaled"], 0);
    assert!(shown.out.contains("predicted"), "{shown:?}");
    check(&sandbox, &["verify"], 0);

    let used = sandbox.script(SCRIPT, "out", &[("TVMTUNE", "use")]);
    assert_eq!(used.code, Some(0), "{used:?}");
    let plans = sandbox.plans("out");
    assert!(plans[0].1.contains("tier: rt::Tier::Predicted"), "{}", plans[0].1);
    let code = record.buckets[0].schedules[0].artifact.to_string();
    assert!(plans[0].1.contains(&code), "its code is what runs");

    check(&sandbox, &["accept"], 0);
    let missing = check(&sandbox, &["check"], 1);
    assert!(missing.out.contains("scaled_sum [M 1..=8]: any: predicted"), "{missing:?}");
    let isa = device::isas()[0].name();
    check(&sandbox, &["tune", "--trials", "4", "--isa", isa], 0);
    let after = check(&sandbox, &["status"], 0);
    assert!(after.out.contains("1 kernel: 1 exact"), "{after:?}");
    let text = fs::read_to_string(&sandbox.records()[0]).unwrap();
    let stored = Record::from_toml(&text).expect("a record");
    let entries = stored.buckets.iter().flat_map(|it| &it.schedules);
    let unmeasured = entries.clone().filter(|it| it.measured.is_none());
    assert_eq!(unmeasured.count(), 0, "{text}");
    let log = fs::read_to_string(&files(&sandbox.cache().join("v1/trials"))[0]);
    assert!(log.unwrap().contains("\"source\":\"predicted\""), "the search begins with it");
}

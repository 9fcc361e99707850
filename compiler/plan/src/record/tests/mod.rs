//! Records to text and back, mangled text, and merging.

mod accuracy;
mod gpu;

use super::*;
use tvmtune_ir::digest::Digest;
use tvmtune_ir::target::Isa;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_ir::workload::WorkloadId;

/// An identity that begins with the letters of a name.
fn code(name: &str) -> ArtifactId {
    let digits: String = name.bytes().map(|it| format!("{it:02x}")).collect();
    format!("{digits:0<64}").parse().unwrap()
}

/// The name that an identity begins with.
fn name(artifact: &ArtifactId) -> String {
    let (digits, mut name) = (artifact.to_string(), String::new());
    for at in (0..digits.len()).step_by(2) {
        let byte = u8::from_str_radix(&digits[at..at + 2], 16).unwrap();
        name.extend((byte != 0).then_some(char::from(byte)));
    }
    name
}

const DAG: &str = "dims d0 1..=16\ninput t0 f32 [d0, 8]\n";

fn measured(median_ns: f64) -> Measured {
    Measured {
        dims: vec![16],
        threads: 2,
        median_ns,
        min_ns: median_ns * 0.98,
        p10_ns: median_ns * 0.99,
        p90_ns: median_ns * 1.01,
        samples: 12,
        cold: None,
        error: None,
        image: None,
    }
}

fn entry(artifact: &str, source: Source, median_ns: f64) -> Entry {
    Entry {
        platform: Platform::Cpu(Isa::Avx512),
        artifact: code(artifact),
        measured_code: None,
        source,
        trace: vec!["split s0 a0 [4, 16]".to_owned(), "annotate s0 a3 vectorized".to_owned()],
        measured: Some(measured(median_ns)),
        accuracy: None,
        lineage: Vec::new(),
        images: Vec::new(),
    }
}

fn record(buckets: Vec<Bucket>) -> Record {
    Record {
        schema: 1,
        workload: WorkloadId::of(DAG),
        name: ProgramName::of("linear"),
        device: "cpu-avx512-l1:48-l2:2048-t2".parse().unwrap(),
        generator: 1,
        dag: DAG.to_owned(),
        provenance: Provenance {
            tool: "tvmtune 0.1.0".to_owned(),
            host: "linux".to_owned(),
            peaks: None,
        },
        buckets,
        end: End {},
    }
}

fn bucket(lo: i64, hi: i64, schedules: Vec<Entry>) -> Bucket {
    let dims = vec![Interval { lo, hi }];
    Bucket { dims, trials: 64, seconds: 1.5, complete: true, weight: None, schedules }
}

fn sample() -> Record {
    let mut evolved = entry("c0ffee", Source::Evolved, 1234.5);
    evolved.lineage = vec![Ancestor::new(Source::Default, 1500.0)];
    record(vec![bucket(1, 16, vec![evolved, entry("0ddba11", Source::Default, 1500.0)])])
}

#[test]
fn a_record_is_readable_text() {
    insta::assert_snapshot!(sample().to_toml(), @r#"
schema = 1
name = "linear"
workload = "3e4b9359f061d3142988473f1f3af71c783391dda8a40e34e928ea73c3b3d312"
device = "cpu-avx512-l1:48-l2:2048-t2"
generator = 1
provenance = { tool = "tvmtune 0.1.0", host = "linux" }
dag = """
dims d0 1..=16
input t0 f32 [d0, 8]
"""

[[bucket]]
dims = ["1..=16"]
trials = 64
seconds = 1.5
complete = true

[[bucket.schedule]]
isa = "avx512"
source = "evolved"
measured = { median_ns = 1234.5, min_ns = 1209.81, p10_ns = 1222.155, p90_ns = 1246.845, samples = 12, threads = 2, dims = [16] }
trace = [
    "split s0 a0 [4, 16]",
    "annotate s0 a3 vectorized",
]
artifact = "6330666665650000000000000000000000000000000000000000000000000000"
lineage = [
    { source = "default", median_ns = 1500.0 },
]

[[bucket.schedule]]
isa = "avx512"
source = "default"
measured = { median_ns = 1500.0, min_ns = 1470.0, p10_ns = 1485.0, p90_ns = 1515.0, samples = 12, threads = 2, dims = [16] }
trace = [
    "split s0 a0 [4, 16]",
    "annotate s0 a3 vectorized",
]
artifact = "3064646261313100000000000000000000000000000000000000000000000000"

[end]
"#);
}

#[test]
fn text_and_back_is_the_same_record_and_the_same_text() {
    let text = sample().to_toml();
    let back = Record::from_toml(&text).unwrap();
    assert_eq!(back, sample());
    assert_eq!(back.to_toml(), text);
}

#[test]
fn no_proper_part_of_a_file_is_a_record() {
    let text = sample().to_toml();
    let whole = text.trim_end().len();
    for n in (0..whole).filter(|n| text.is_char_boundary(*n)) {
        assert!(Record::from_toml(&text[..n]).is_err(), "the first {n} bytes were accepted");
    }
    assert!(Record::from_toml(&text[..whole]).is_ok());
}

/// The error of the sample's text with `from` replaced by `to`.
#[track_caller]
fn error(from: &str, to: &str) -> String {
    let text = sample().to_toml();
    assert!(text.contains(from), "`{from}` does not occur");
    Record::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
}

#[test]
fn mangled_files_are_errors_that_say_where() {
    insta::assert_snapshot!(error("trials = 64", "trials = many"), @"line 14: string values must be quoted, expected literal string; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("trials = 64", "trails = 64"), @"line 14: unknown field `trails`, expected one of `dims`, `trials`, `seconds`, `complete`, `weight`, `schedule`; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("\"1..=16\"", "\"16..=1\""), @"line 13: `16..=1` is not a range; expected one such as `1..=16`; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("\"avx512\"", "\"avx1024\""), @"line 19: `avx1024` is not an instruction set; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("\"avx512\"", "\"sm_90a\""), @"`isa` is not what the device runs; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("p90_ns = 1246.845", "p90_ns = 1.0"), @"timings are not in order, 0 < min <= p10 <= median <= p90; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("3e4b9359f", "../../../"), @"line 3: not 64 hexadecimal digits; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("workload = \"3e", "workload = \"00"), @"`workload` is not the hash of `dag`; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("cpu-avx512-l1:48-l2:2048-t2", "cpu-avx512/../../victim"), @"line 4: not the key of a device that this version of tvmtune knows; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("name = \"linear\"", "name = \"../linear\""), @"line 2: not the name of a function, of at most 200 bytes; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("artifact = \"63", "artifact = \"!!"), @"line 26: not 64 hexadecimal digits; delete the file, or restore it, and tune again");
}

#[test]
fn a_newer_schema_is_refused_before_its_fields_are_looked_at() {
    let text = "schema = 99\nsomething = \"else\"\n";
    assert_eq!(Record::from_toml(text), Err(RecordError::Newer { found: 99 }));
}

/// The artifacts that a bucket holds after adding schedules one by one, with their medians.
fn added(schedules: &[Entry]) -> Vec<String> {
    let mut bucket = bucket(1, 16, Vec::new());
    for it in schedules {
        bucket.add(it.clone());
    }
    bucket
        .schedules
        .iter()
        .map(|it| format!("{} {}", name(&it.artifact), it.median_ns().unwrap()))
        .collect()
}

#[test]
fn order_changes_only_beyond_the_noise() {
    let [a, b, c] = [("a", 100.0), ("b", 99.5), ("c", 90.0)]
        .map(|(name, median_ns)| entry(name, Source::Random, median_ns));
    assert_eq!(added(&[a.clone(), b.clone(), c.clone()]), ["c 90", "a 100", "b 99.5"]);
    assert_eq!(added(&[c, b, a]), ["c 90", "b 99.5", "a 100"]);
}

#[test]
fn samples_that_others_disturbed_hold_nothing_back() {
    let [a, mut b] = [("a", 100.0), ("b", 90.0)].map(|(it, ns)| entry(it, Source::Random, ns));
    b.measured.as_mut().unwrap().p90_ns *= 2.0;
    assert_eq!(added(&[a.clone(), b.clone()]), ["b 90", "a 100"]);
    b.measured.as_mut().unwrap().p10_ns *= 0.8;
    assert_eq!(added(&[a, b]), ["a 100", "b 90"], "this is the spread of the code itself");
}

#[test]
fn the_same_code_is_kept_once_by_its_clearly_faster_timing() {
    let times = [100.0, 99.9, 80.0, 120.0].map(|it| entry("a", Source::Random, it));
    assert_eq!(added(&times), ["a 80"]);
}

#[test]
fn only_the_best_few_and_the_default_are_kept() {
    let mut all = vec![entry("d", Source::Default, 500.0)];
    all.extend((0..9_u32).map(|n| entry(&n.to_string(), Source::Evolved, f64::from(400 - 20 * n))));
    assert_eq!(added(&all), ["8 240", "7 260", "6 280", "5 300", "d 500"]);
}

#[test]
fn the_best_of_each_platform_are_kept_for_review() {
    let of_avx2 = Entry { platform: Isa::Avx2.into(), ..entry("c", Source::Evolved, 300.0) };
    let [a, b] = [("a", 100.0), ("b", 200.0)].map(|(it, ns)| entry(it, Source::Evolved, ns));
    let mut record = record(vec![bucket(1, 16, vec![a, b, of_avx2])]);
    record.keep_best(1);
    let kept: Vec<String> =
        record.buckets[0].schedules.iter().map(|it| name(&it.artifact)).collect();
    assert_eq!(kept, ["a", "c"]);
}

#[test]
fn texts_of_the_former_layout_are_read_alike() {
    let former = include_str!("../../fixtures/generator-1.toml");
    let mut record = Record::from_toml(former).unwrap();
    assert_eq!(Record::from_toml(&record.to_toml()), Ok(record.clone()));
    record.keep_best(1);
    let lines = |it: &str| it.lines().count();
    assert!(4 * lines(&record.to_toml()) < lines(former), "a reviewer reads a quarter");
}

#[test]
fn merging_loses_nothing_and_depends_on_no_order() {
    let mut left = record(vec![bucket(1, 16, vec![entry("a", Source::Evolved, 100.0)])]);
    let mut right = record(vec![
        bucket(1, 16, vec![entry("b", Source::Evolved, 50.0)]),
        bucket(17, 64, vec![entry("c", Source::Evolved, 70.0)]),
    ]);
    let (a, b) = (left.clone(), right.clone());
    left.merge(b).unwrap();
    right.merge(a).unwrap();
    assert_eq!(left, right);
    assert_eq!(left.buckets.len(), 2);
    assert_eq!(left.buckets[0].best(Isa::Avx512).unwrap().artifact, code("b"));
    assert_eq!(left.buckets[0].trials, 64, "the other may be an earlier state of the same effort");
}

/// A session that times schedules at several extents may prefer one that is slower at the largest, whose time
/// is recorded: accepting its record again must not turn its choice around.
#[test]
fn schedules_that_were_compared_side_by_side_keep_their_order() {
    let session = [("a", 100.0), ("b", 80.0), ("c", 120.0)]
        .map(|(it, median_ns)| entry(it, Source::Evolved, median_ns));
    let measured = record(vec![bucket(1, 16, session.to_vec())]);
    let mut shipped = measured.clone();
    shipped.keep_best(1);
    let once = shipped.clone();
    shipped.merge(measured.clone()).unwrap();
    assert_eq!(shipped, measured);
    shipped.keep_best(1);
    assert_eq!(shipped, once);
    // A schedule of another session is placed by its time.
    let mut other = record(vec![bucket(1, 16, vec![entry("d", Source::Evolved, 90.0)])]);
    other.merge(measured).unwrap();
    let order: Vec<String> =
        other.buckets[0].schedules.iter().map(|it| name(&it.artifact)).collect();
    assert_eq!(order, ["d", "a", "b", "c"]);
}

#[test]
fn records_of_different_things_do_not_merge() {
    let mut left = sample();
    let collision = Record { dag: "something else".to_owned(), ..sample() };
    assert_eq!(left.merge(collision), Err(Conflict("workloads with the same hash")));
    let elsewhere = Record { device: "cpu-avx2-l1:32-l2:1024-t8".parse().unwrap(), ..sample() };
    assert_eq!(left.merge(elsewhere), Err(Conflict("devices")));
    assert_eq!(left, sample());
}

#[test]
fn a_newer_generator_replaces_the_buckets_of_an_older_one_and_keeps_the_others() {
    let slow = entry("5104", Source::Evolved, 9000.0);
    let newer = Record { generator: 2, buckets: vec![bucket(1, 16, vec![slow])], ..sample() };
    let mut older = sample();
    older.buckets.push(bucket(17, 64, vec![entry("c0ffee", Source::Evolved, 5000.0)]));
    let mut expected = newer.clone();
    expected.buckets.push(older.buckets[1].clone());
    let mut merged = older.clone();
    merged.merge(newer.clone()).unwrap();
    assert_eq!(merged, expected);
    let mut merged = newer;
    merged.merge(older).unwrap();
    assert_eq!(merged, expected);
}

#[test]
fn a_session_reorders_what_it_measured_and_keeps_the_rest() {
    let mut known = bucket(1, 16, Vec::new());
    for (name, median_ns) in [("old", 100.0), ("lost", 60.0), ("other", 104.0), ("slow", 300.0)] {
        known.add(entry(name, Source::Evolved, median_ns));
    }
    known.add(Entry { platform: Platform::Cpu(Isa::Avx2), ..entry("lost", Source::Evolved, 60.0) });
    let session =
        [("new", 101.0), ("old", 103.0)].map(|(name, ns)| entry(name, Source::Evolved, ns));
    let was_measured = |artifact: &ArtifactId| ["new", "old", "lost"].contains(&&*name(artifact));
    known.supersede(Isa::Avx512, session.into(), &was_measured);
    let names: Vec<_> =
        known.schedules.iter().map(|it| (it.platform, name(&it.artifact))).collect();
    let expected =
        ["new", "old", "other", "slow"].map(|it| (Platform::Cpu(Isa::Avx512), it.to_owned()));
    assert_eq!(names[..4], expected);
    assert_eq!(
        names[4..],
        [(Platform::Cpu(Isa::Avx2), "lost".to_owned())],
        "another instruction set"
    );
}

/// A record with a schedule that came from elsewhere and was refined here.
fn transferred() -> Record {
    let mut record = sample();
    let donor = Ancestor::transferred(WorkloadId("cd".repeat(32).parse().unwrap()), 777.0);
    record.buckets[0].schedules[0].lineage = vec![
        donor.on("cpu-avx2-l1:32-l2:256-t8".parse().unwrap()),
        Ancestor::new(Source::Transfer, 1400.0).moved(vec!["c rows 8 -> 6".to_owned()]),
    ];
    record
}

#[test]
fn a_lineage_says_where_a_schedule_came_from_and_what_refined_it() {
    let record = Record { schema: transferred().needed_schema(), ..transferred() };
    let text = record.to_toml();
    assert_eq!(Record::from_toml(&text).as_ref(), Ok(&record));
    let start = text.find("lineage = [").unwrap();
    insta::assert_snapshot!(text[start..].split("[[bucket.schedule]]").next().unwrap(), @r#"
    lineage = [
        { source = "transfer", median_ns = 777.0, workload = "cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd", device = "cpu-avx2-l1:32-l2:256-t8" },
        { source = "transfer", median_ns = 1400.0, moves = ["c rows 8 -> 6"] },
    ]
    "#);
}

#[test]
fn only_records_that_need_it_are_of_the_newest_schema() {
    assert_eq!((sample().needed_schema(), transferred().needed_schema()), (1, 3));
    let own = || Ancestor::new(Source::Evolved, 1.0);
    let donor = Ancestor::transferred(WorkloadId("cd".repeat(32).parse().unwrap()), 1.0);
    for ancestor in [donor, own().on(sample().device), own().moved(vec!["a 1 -> 2".into()])] {
        let mut record = sample();
        record.buckets[0].schedules[1].lineage = vec![own(), ancestor];
        assert_eq!(record.needed_schema(), 3);
    }
    let gpu = GpuTarget::generic(Arch { sm: 90, exact: true }).key();
    assert_eq!(Record { device: gpu, ..record(Vec::new()) }.needed_schema(), 2);
    let old = Record { schema: 1, ..transferred() }.to_toml();
    let refused = "it says more than records of its schema can; delete the file, or restore it, and tune again";
    assert_eq!(Record::from_toml(&old).unwrap_err().to_string(), refused);
}

#[test]
fn a_schedule_that_was_predicted_has_no_timings_and_takes_schema_5() {
    let mut record = sample();
    let prediction = Entry { measured: None, ..entry("predicted", Source::Predicted, 1.0) };
    record.buckets[0].add(prediction.clone());
    assert_eq!((record.needed_schema(), record.buckets[0].schedules.len()), (5, 3));
    let refused = "it says more than records of its schema can; delete the file, or restore it, and tune again";
    assert_eq!(Record::from_toml(&record.to_toml()).unwrap_err().to_string(), refused);
    record.schema = 5;
    let text = record.to_toml();
    assert_eq!(Record::from_toml(&text).as_ref(), Ok(&record));
    let without = text.replace("source = \"predicted\"", "source = \"evolved\"");
    assert_ne!(without, text);
    let refused =
        "a schedule for a CPU has no timings; delete the file, or restore it, and tune again";
    assert_eq!(Record::from_toml(&without).unwrap_err().to_string(), refused);
    // Measured schedules of a session replace predicted ones.
    let measured = sample().buckets[0].schedules.clone();
    let platform = prediction.platform;
    record.buckets[0].supersede(platform, measured, &|_| false);
    assert!(record.buckets[0].schedules.iter().all(|it| it.source != Source::Predicted));
}

#[test]
fn ancestors_that_cannot_be_are_refused() {
    let text = Record { schema: 3, ..transferred() }.to_toml();
    for (part, instead) in [("cdcd", "CDCD"), ("c rows 8 -> 6", ""), ("median_ns = 777.0, ", "")] {
        assert!(text.contains(part));
        assert!(Record::from_toml(&text.replacen(part, instead, 1)).is_err(), "{part}");
    }
}

#[test]
fn merging_keeps_lineages() {
    let mut known = sample();
    known.buckets[0].schedules.remove(0);
    known.merge(transferred()).unwrap();
    assert_eq!(known.buckets[0].schedules, transferred().buckets[0].schedules);
    assert_eq!(known.needed_schema(), 3);
}

#[test]
fn the_conditions_of_a_measurement_are_recorded_and_take_schema_4() {
    let mut record = sample();
    assert_eq!(record.needed_schema(), 1);
    record.buckets[0].weight = Some(12.0);
    let measured = record.buckets[0].schedules[0].measured.as_mut().unwrap();
    (measured.cold, measured.error) = (Some(vec![1]), Some(0.012));
    record.provenance.peaks = Some(Peaks {
        product_gflops: 156.4,
        l1_gbps: 140.9,
        l2_gbps: 101.4,
        l3_gbps: 62.0,
        memory_gbps: 10.3,
    });
    record.schema = record.needed_schema();
    assert_eq!(record.schema, 4);
    let with_peaks = Record { provenance: record.provenance.clone(), ..sample() };
    assert_eq!(with_peaks.needed_schema(), 4);
    let text = record.to_toml();
    assert_eq!(Record::from_toml(&text).unwrap(), record);
    let line = |start: &str| text.lines().find(|it| it.starts_with(start)).unwrap_or_default();
    insta::assert_snapshot!(line("provenance"), @r#"provenance = { tool = "tvmtune 0.1.0", host = "linux", peaks = { product_gflops = 156.4, l1_gbps = 140.9, l2_gbps = 101.4, l3_gbps = 62.0, memory_gbps = 10.3 } }"#);
    insta::assert_snapshot!(line("measured"), @"measured = { median_ns = 1234.5, min_ns = 1209.81, p10_ns = 1222.155, p90_ns = 1246.845, samples = 12, threads = 2, dims = [16], cold = [1], error = 0.012 }");
    insta::assert_snapshot!(line("weight"), @"weight = 12.0");
    let error = |from: &str, to: &str| {
        assert!(text.contains(from), "`{from}` does not occur");
        Record::from_toml(&text.replacen(from, to, 1)).unwrap_err().to_string()
    };
    insta::assert_snapshot!(error("schema = 4", "schema = 3"), @"it says more than records of its schema can; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("weight = 12.0", "weight = -1.0"), @"`weight` is not a positive number; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("error = 0.012", "error = inf"), @"`error` is not a share of the tolerance; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("l3_gbps = 62.0", "l3_gbps = 0.0"), @"`peaks` are not positive numbers; delete the file, or restore it, and tune again");
    insta::assert_snapshot!(error("cold = [1]", "cold = [-1]"), @"line 22: invalid value: integer `-1`, expected u32; delete the file, or restore it, and tune again");
}

#[test]
fn schedules_that_were_measured_otherwise_do_not_compare() {
    let cold = |artifact: &str, ns: f64| {
        let mut entry = entry(artifact, Source::Evolved, ns);
        entry.measured.as_mut().unwrap().cold = Some(vec![1]);
        entry
    };
    let warm = |artifact: &str, ns: f64| entry(artifact, Source::Evolved, ns);
    let check = |known: Vec<Entry>, other: Vec<Entry>, expected: &[&str]| {
        let mut merged = bucket(1, 16, known);
        merged.merge(bucket(1, 16, other));
        let found: Vec<String> = merged.schedules.iter().map(|it| name(&it.artifact)).collect();
        assert_eq!(found, expected);
    };
    check(vec![warm("a", 100.0)], vec![cold("b", 400.0)], &["b"]);
    check(vec![cold("b", 400.0)], vec![warm("a", 100.0)], &["b"]);
    check(vec![cold("b", 400.0)], vec![cold("c", 300.0)], &["c", "b"]);
    check(vec![warm("a", 100.0)], vec![warm("d", 50.0)], &["d", "a"]);
}

#[test]
fn a_time_of_other_code_beats_none_of_its_own() {
    let marked = |artifact: &str, ns: f64| Entry {
        measured_code: Some(code("former")),
        ..entry(artifact, Source::Evolved, ns)
    };
    let own = |artifact: &str, ns: f64| entry(artifact, Source::Evolved, ns);
    assert_eq!(added(&[marked("a", 10.0), own("b", 100.0)]), ["b 100", "a 10"]);
    assert_eq!(added(&[own("b", 100.0), marked("a", 10.0)]), ["b 100", "a 10"]);
    assert_eq!(added(&[marked("a", 10.0), own("a", 100.0)]), ["a 100"], "the same code, measured");
    assert_eq!(added(&[own("a", 100.0), marked("a", 10.0)]), ["a 100"]);
    assert_eq!(added(&[marked("a", 100.0), marked("b", 10.0)]), ["b 10", "a 100"]);
    let record = record(vec![bucket(1, 16, vec![marked("a", 10.0)])]);
    let text = Record { schema: record.needed_schema(), ..record.clone() }.to_toml();
    let line = text.lines().find(|it| it.starts_with("measured_code")).unwrap_or_default();
    assert_eq!(line, format!("measured_code = \"{}\"", code("former")));
    assert_eq!(Record::from_toml(&text).unwrap().buckets, record.buckets);
    assert!(Record::from_toml(&text.replacen("schema = 4", "schema = 3", 1)).is_err());
}

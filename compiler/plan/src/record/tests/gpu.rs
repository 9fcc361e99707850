//! Records of GPUs: compiled code by its hash, and which of it was measured.

use super::super::schema;
use super::*;

/// A schedule for GPUs, compiled and never measured; `n` tells artifacts and images apart.
fn prepared(n: u8) -> Entry {
    let arch = Arch { sm: 90, exact: true };
    let sha256 = "0f".repeat(32).parse::<Digest>().unwrap();
    let image = |format, arch| Image { format, arch, bytes: 100, sha256 };
    Entry {
        platform: Platform::Cuda(arch),
        artifact: format!("{n:x}").repeat(64).parse().unwrap(),
        measured: None,
        images: vec![image(Format::Cubin, arch), image(Format::Ptx, Arch { exact: false, ..arch })],
        ..entry("", Source::Default, 1.0)
    }
}

#[test]
fn code_that_is_measured_again_keeps_its_images() {
    let measured = |n: u8, ns: f64| Entry { images: Vec::new(), ..timed(prepared(n), ns) };
    let before = Bucket { schedules: vec![timed(prepared(1), 100.0)], ..Bucket::default() };
    let mut known = before.clone();
    let session = vec![timed(prepared(2), 90.0), measured(1, 95.0)];
    let platform = session[0].platform;
    known.supersede(platform, session, &|_| true);
    let n_images = |it: &Entry| it.images.len();
    assert_eq!(known.schedules.iter().map(n_images).collect::<Vec<_>>(), [2, 2]);
}

/// The entry as if it was measured.
fn timed(it: Entry, ns: f64) -> Entry {
    Entry { measured: entry("", Source::Default, ns).measured, ..it }
}

fn record_of_a_gpu(schedules: Vec<Entry>) -> Record {
    let device = GpuTarget::generic(Arch { sm: 90, exact: true }).key();
    let bucket = Bucket { dims: vec![Interval { lo: 1, hi: 16 }], schedules, ..Bucket::default() };
    Record { schema: schema(&device), device, ..record(vec![bucket]) }
}

#[test]
fn a_record_of_a_gpu_names_what_was_compiled() {
    let record = record_of_a_gpu(vec![prepared(1)]);
    let text = record.to_toml();
    assert_eq!(Record::from_toml(&text), Ok(record));
    let schedule = text.split_once("[[bucket.schedule]]\n").unwrap().1;
    insta::assert_snapshot!(schedule, @r#"
isa = "sm_90a"
source = "default"
trace = [
    "split s0 a0 [4, 16]",
    "annotate s0 a3 vectorized",
]
artifact = "1111111111111111111111111111111111111111111111111111111111111111"
image = [
    { format = "cubin", arch = "sm_90a", bytes = 100, sha256 = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f" },
    { format = "ptx", arch = "sm_90", bytes = 100, sha256 = "0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f" },
]

[end]
"#);
}

#[test]
fn a_record_of_a_gpu_that_cannot_be_true_is_refused() {
    let refused = |change: &dyn Fn(&mut Record)| {
        let mut record = record_of_a_gpu(vec![prepared(1)]);
        change(&mut record);
        Record::from_toml(&record.to_toml()).unwrap_err().to_string()
    };
    let of_image = |change: &dyn Fn(&mut Image)| {
        refused(&|it| change(&mut it.buckets[0].schedules[0].images[0]))
    };
    for error in [of_image(&|it| it.bytes = 0), of_image(&|it| it.bytes = Image::TOO_LARGE)] {
        assert!(error.starts_with("`image` has no length"), "{error}");
    }
    let text = record_of_a_gpu(vec![prepared(1)]).to_toml();
    for bad in ["0f0f", &"../".repeat(22)[..64]] {
        let error = Record::from_toml(&text.replacen(&"0f".repeat(32), bad, 1)).unwrap_err();
        assert!(error.to_string().contains("not 64 hexadecimal digits"), "{error}");
    }
    let other =
        |it: &mut Record| it.device = GpuTarget::generic(Arch { sm: 80, exact: false }).key();
    assert!(refused(&other).starts_with("`isa` is not what the device runs"));
    let unmeasured = Entry { measured: None, ..entry("c0ffee", Source::Default, 1.0) };
    let text = record(vec![bucket(1, 16, vec![unmeasured])]).to_toml();
    let error = Record::from_toml(&text).unwrap_err().to_string();
    assert!(error.starts_with("a schedule for a CPU has no timings"), "{error}");
}

#[test]
fn what_was_measured_goes_before_what_was_not_and_keeps_its_images() {
    let mut known = bucket(1, 16, vec![prepared(1)]);
    let arrange = |it: &Bucket| -> Vec<_> {
        let one =
            |it: &Entry| (it.artifact.to_string()[..1].to_owned(), it.median_ns(), it.images.len());
        it.schedules.iter().map(one).collect()
    };
    // Another default schedule: the one before is of an older generator.
    known.add(prepared(2));
    assert_eq!(arrange(&known), [("2".to_owned(), None, 2)]);
    let timed = |n, ns| Entry { measured: Some(measured(ns)), images: Vec::new(), ..prepared(n) };
    known.add(timed(3, 50.0));
    known.add(timed(2, 60.0));
    let expected = [("3".to_owned(), Some(50.0), 0), ("2".to_owned(), Some(60.0), 2)];
    assert_eq!(arrange(&known), expected);
    // Compiled again: the timing stays.
    let images = prepared(2).images[..1].to_vec();
    known.add(Entry { images, ..prepared(3) });
    assert_eq!(arrange(&known)[0], ("3".to_owned(), Some(50.0), 1));
}

/// The entry as if it was measured with machine code of that SHA-256, and has that code.
fn timed_with(it: Entry, ns: f64, sha256: Digest) -> Entry {
    let images = it.images.iter().map(|it| Image { sha256, ..it.clone() }).collect();
    let timed = Measured { image: Some(sha256), ..measured(ns) };
    Entry { measured: Some(timed), images, ..it }
}

#[test]
fn the_machine_code_that_was_measured_is_recorded_and_not_replaced() {
    let [first, second] = [1, 2].map(|it| Digest::of([[it].as_slice()]));
    let best = timed_with(prepared(1), 90.0, first);
    let mut record = record_of_a_gpu(vec![best.clone()]);
    record.schema = record.needed_schema();
    assert_eq!(record.schema, 5);
    assert_eq!(Record::from_toml(&record.to_toml()).as_ref(), Ok(&record));
    assert!(best.was_measured_by(&best.images) && !best.was_measured_by(&prepared(1).images));
    assert!(!best.was_measured_by([]) && timed(prepared(1), 90.0).was_measured_by([]));

    // Compiled again by another compiler, and measured again as such, about as fast.
    let bucket = &mut record.buckets[0];
    for other in [prepared(1), timed_with(prepared(1), 90.0, second)] {
        bucket.add(other);
        assert_eq!(bucket.schedules, std::slice::from_ref(&best));
    }
    // Clearly faster: with its own code.
    let faster = timed_with(prepared(1), 50.0, second);
    bucket.add(faster.clone());
    assert_eq!(bucket.schedules, std::slice::from_ref(&faster));
    // Code that was not kept is taken over from who has it.
    bucket.schedules[0].images = prepared(1).images;
    bucket.add(faster.clone());
    assert_eq!(bucket.schedules, [faster]);

    let text = record_of_a_gpu(vec![best]).to_toml();
    let error = Record::from_toml(&text).unwrap_err().to_string();
    assert!(error.starts_with("it says more than records of its schema can"), "{error}");
    let mut of_cpu = sample();
    of_cpu.buckets[0].schedules[0].measured.as_mut().unwrap().image = Some(first);
    let error = Record::from_toml(&Record { schema: 5, ..of_cpu }.to_toml()).unwrap_err();
    assert!(error.to_string().starts_with("`image` is of a schedule that has none"), "{error}");
}

//! Records in files: found in the right store, never lost, never trusted when mangled.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::dag::print::canonical;
use tvmtune_ir::dsl;
use tvmtune_ir::name::ProgramName;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuModel, CpuTarget, DeviceKey, Isa, Vendor};
use tvmtune_ir::workload::{self, WorkloadId};
use tvmtune_plan::database::{
    Cache, Database, DatabaseError, Files, Lookup, Store, StoreKind, StoredRecord, Tier,
};
use tvmtune_plan::record::{GENERATOR, Peaks, Record};
use tvmtune_tests::{code, sample_record};

/// A cache and a crate's folder, both empty.
struct Folders {
    _root: TempDir,
    cache: Cache,
    shipped: Store,
}

impl Folders {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let cache = Cache::new(&root.path().join("cache"));
        let shipped = Store { kind: StoreKind::Crate, dir: root.path().join("crate/tvmtune") };
        Self { _root: root, cache, shipped }
    }

    fn database(&self) -> Database {
        let cache = Store { kind: StoreKind::Cache, dir: self.cache.records() };
        Database::new(vec![cache, self.shipped.clone()], Some(self.cache.clone()))
    }

    fn get(&self) -> Lookup {
        let record = sample_record(0);
        self.database().get(&record.workload, &record.name, &record.dag)
    }
}

fn range(n: u32) -> Vec<Interval> {
    vec![Interval::point(i64::from(n) + 1)]
}

/// The tier of the best schedule for bucket `n` on a device, and its artifact.
fn best(lookup: &Lookup, device: &DeviceKey, n: u32) -> Option<(Tier, ArtifactId)> {
    let choice = lookup.best(device, &range(n), Isa::Avx2)?;
    Some((choice.tier, choice.entry.artifact))
}

/// A record with its artifacts renamed and its latencies scaled.
fn variant(n: u32, artifact: &str, scale: f64) -> Record {
    let mut record = sample_record(n);
    for entry in &mut record.buckets[0].schedules {
        entry.artifact = code(artifact);
        let it = entry.measured.as_mut().unwrap();
        for time in [&mut it.median_ns, &mut it.min_ns, &mut it.p10_ns, &mut it.p90_ns] {
            *time *= scale;
        }
    }
    record
}

#[test]
fn schedules_measured_here_count_more_than_shipped_ones() {
    let folders = Folders::new();
    let device = sample_record(0).device;
    assert_eq!(best(&folders.get(), &device, 0), None);

    Database::accept(&folders.shipped.dir, &variant(0, "5417", 0.5), &Files::default(), 1).unwrap();
    assert_eq!(best(&folders.get(), &device, 0), Some((Tier::Exact, code("5417"))));

    folders.database().put(&variant(0, "caced", 1.0), &Files::default()).unwrap();
    assert_eq!(best(&folders.get(), &device, 0), Some((Tier::Exact, code("caced"))));
    assert!(folders.get().warnings.is_empty());
}

#[test]
fn a_schedule_of_another_device_or_range_is_used_and_its_tier_told() {
    let folders = Folders::new();
    let here = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) };
    let near = CpuTarget { threads: 4, ..here };
    let far = CpuTarget { threads: 64, ..here };
    for (n, target, artifact) in [(0, far, "fa4"), (0, near, "4ea4"), (9, here, "e4e")] {
        let record = Record { device: target.key(), ..variant(n, artifact, 1.0) };
        folders.database().put(&record, &Files::default()).unwrap();
    }
    let lookup = folders.get();
    assert_eq!(best(&lookup, &here.key(), 0), Some((Tier::SameIsa, code("4ea4"))));
    assert_eq!(best(&lookup, &far.key(), 0), Some((Tier::Exact, code("fa4"))));
    assert_eq!(best(&lookup, &here.key(), 7), Some((Tier::Transferred, code("e4e"))));
    assert!(lookup.best(&here.key(), &range(0), Isa::Avx512).is_none(), "other instructions");
    let tiers: Vec<_> =
        lookup.choices(&here.key(), &range(0), Isa::Avx2, None).iter().map(|it| it.tier).collect();
    assert_eq!(tiers, [Tier::SameIsa, Tier::SameIsa, Tier::Transferred]);
}

#[test]
fn times_of_another_model_are_not_those_of_this_machine() {
    let folders = Folders::new();
    let intel = |model| CpuModel { vendor: Vendor::Intel, family: 6, model };
    let former = CpuTarget::generic(Isa::Avx2);
    let [here, there] = [207, 173].map(|it| CpuTarget { model: Some(intel(it)), ..former });
    let ship = |target: CpuTarget, artifact: &str| {
        let record = Record { device: target.key(), ..variant(0, artifact, 1.0) };
        Database::accept(&folders.shipped.dir, &record, &Files::default(), 1).unwrap();
    };
    ship(former, "f0");
    ship(there, "7e");
    let best_here = || best(&folders.get(), &here.key(), 0).unwrap();
    assert_eq!(best_here(), (Tier::SameIsa, code("7e")));
    assert_eq!(best(&folders.get(), &there.key(), 0), Some((Tier::Exact, code("7e"))));
    // The cache is of this machine, also where an earlier release wrote it.
    let record = Record { device: former.key(), ..variant(0, "caced", 1.0) };
    folders.database().put(&record, &Files::default()).unwrap();
    assert_eq!(best_here(), (Tier::Exact, code("caced")));
    ship(here, "4e4e");
    assert_eq!(best(&folders.get(), &here.key(), 0), Some((Tier::Exact, code("caced"))));
}

#[test]
fn a_cache_is_shared_with_former_releases() {
    for n in 0..Folders::new().cache.former_records().len() {
        check_former_release(&Folders::new(), n);
    }
}

/// Checks that records of a former release are read, and not written to.
fn check_former_release(folders: &Folders, n: usize) {
    let record = sample_record(0);
    let former = folders.cache.former_records()[n].clone();
    let path = Database::accept(&former, &record, &Files::default(), 1).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let read = || {
        let stores = [former.clone(), folders.cache.records()];
        let stores = stores.map(|dir| Store { kind: StoreKind::Cache, dir });
        let database = Database::new(stores.to_vec(), Some(folders.cache.clone()));
        (database.get(&record.workload, &record.name, &record.dag).records, database)
    };
    assert_eq!(read().0.len(), 1);
    // The first update takes over what the former release knew, whose file stays as it is.
    read().1.put(&sample_record(1), &Files::default()).unwrap();
    let (records, _) = read();
    let n_buckets: Vec<usize> = records.iter().map(|it| it.record.buckets.len()).collect();
    assert_eq!(n_buckets, [1, 2]);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn machines_of_one_key_and_other_peaks_are_not_the_same() {
    let folders = Folders::new();
    let key = CpuTarget::generic(Isa::Avx2).key();
    let peaks = Peaks {
        product_gflops: 200.0,
        l1_gbps: 200.0,
        l2_gbps: 100.0,
        l3_gbps: 60.0,
        memory_gbps: 20.0,
    };
    let mut record = variant(0, "7e", 1.0);
    record.provenance.peaks = Some(peaks);
    Database::accept(&folders.shipped.dir, &record, &Files::default(), 1).unwrap();
    let tier = || best(&folders.get(), &key, 0).unwrap().0;
    assert_eq!(tier(), Tier::Exact, "nothing is known of this machine");
    folders.cache.keep_peaks(&key, &peaks).unwrap();
    assert_eq!(tier(), Tier::Exact);
    folders.cache.keep_peaks(&key, &Peaks { product_gflops: 100.0, ..peaks }).unwrap();
    assert_eq!(tier(), Tier::SameIsa, "half of the width");
}

#[test]
fn a_renamed_program_finds_its_record() {
    let folders = Folders::new();
    let record = sample_record(0);
    folders.database().put(&record, &Files::default()).unwrap();
    let lookup =
        folders.database().get(&record.workload, &ProgramName::of("another_name"), &record.dag);
    assert_eq!(lookup.records.len(), 1);
}

/// A program as a release wrote it that left remainders in indices.
const FORMER: &str = "tvmtune dag v1
input t0: f32[64]
t1: f32[64] = mul(t0[((v0 + 32)%(64))], 2.0_f32)
return t1
";

#[test]
fn a_program_with_another_identity_finds_what_an_earlier_release_recorded() {
    let dag = dsl::program(
        "#[autotune]
         fn turned(x: Tensor<f32, 64>) -> Tensor<f32, 64> { compute(|i| x[[(i + 32) % 64]] * 2.0) }",
    )
    .unwrap();
    let (now, text) = (workload::id(&dag), canonical(&dag));
    assert_ne!(text, FORMER);
    let folders = Folders::new();
    let name = ProgramName::of("turned");
    let former = Record {
        workload: WorkloadId::of(FORMER),
        dag: FORMER.to_owned(),
        name: name.clone(),
        ..sample_record(0)
    };
    let ship = |record: &Record| {
        Database::accept(&folders.shipped.dir, record, &Files::default(), 1).unwrap()
    };
    // Of this release, a text that it would not write is of another program.
    let path = ship(&Record { generator: GENERATOR, ..former.clone() });
    assert!(folders.database().get(&now, &name, &text).records.is_empty());
    fs::remove_file(path).unwrap();
    let path = ship(&former);
    let found = folders.database().get(&now, &name, &text).records;
    let [StoredRecord { record, path: of_found, .. }] = &found[..] else { panic!("{found:?}") };
    assert_eq!((record.workload, &record.dag, of_found), (now, &text, &path));
    assert_eq!(record.buckets, former.buckets);
    // Another text of the same name is another program.
    let other = text.replace("2.0", "3.0");
    let of_other = folders.database().get(&WorkloadId::of(&other), &name, &other);
    assert!(of_other.records.is_empty());

    let changed = folders.database().rewrite(&path, |it| {
        *it = record.clone();
        true
    });
    assert!(changed.unwrap());
    assert!(!path.exists(), "the record has the name of its identity of now");
    let found = folders.database().get(&now, &name, &text).records;
    assert_eq!(found.len(), 1);
    assert_ne!(found[0].path, path);
}

/// The warnings about one file in the cache after `change` was applied to its text, and whether
/// the database still finds nothing but misses.
#[track_caller]
fn warning(change: impl FnOnce(&str) -> String) -> DatabaseError {
    let folders = Folders::new();
    let path = folders.database().put(&sample_record(0), &Files::default()).unwrap();
    fs::write(&path, change(&fs::read_to_string(&path).unwrap())).unwrap();
    let mut lookup = folders.get();
    assert!(lookup.records.is_empty(), "a bad file was used");
    assert_eq!(lookup.warnings.len(), 1);
    let warning = lookup.warnings.remove(0);
    assert!(warning.to_string().contains(path.to_str().unwrap()), "{warning}");
    // A bad file does not stop what is measured next from being remembered.
    folders.database().put(&sample_record(0), &Files::default()).unwrap();
    assert_eq!(folders.get().records.len(), 1);
    warning
}

#[test]
fn a_bad_file_is_a_miss_and_one_warning_that_names_it() {
    let truncated = warning(|it| it[..it.len() / 2].to_owned());
    assert!(matches!(truncated, DatabaseError::Record { .. }));
    let newer = warning(|it| it.replace("schema = 1", "schema = 99"));
    assert!(newer.to_string().contains("update tvmtune"), "{newer}");
    let collision = warning(|it| it.replace("canonical text", "some other text"));
    assert!(collision.to_string().contains("not the hash of `dag`"), "{collision}");
    warning(|_| "\u{0}\u{1}\u{2}".to_owned());
    warning(|_| String::new());
}

#[test]
fn accept_does_not_overwrite_what_it_cannot_read() {
    let folders = Folders::new();
    let path =
        Database::accept(&folders.shipped.dir, &sample_record(0), &Files::default(), 4).unwrap();
    fs::write(&path, "schema = 99\n").unwrap();
    assert!(
        Database::accept(&folders.shipped.dir, &sample_record(0), &Files::default(), 4).is_err()
    );
    assert_eq!(fs::read_to_string(&path).unwrap(), "schema = 99\n");
}

#[test]
fn the_same_record_again_leaves_the_file_alone() {
    let folders = Folders::new();
    let path = folders.database().put(&sample_record(0), &Files::default()).unwrap();
    let before = fs::metadata(&path).unwrap().modified().unwrap();
    folders.database().put(&sample_record(0), &Files::default()).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), before);
    assert_eq!(leftovers(&folders.cache.records()), 0);
}

/// Files in a database that are no records.
fn leftovers(dir: &Path) -> usize {
    let folders = fs::read_dir(dir).unwrap().map(|it| fs::read_dir(it.unwrap().path()).unwrap());
    let name = |it: std::io::Result<fs::DirEntry>| it.unwrap().file_name().into_string().unwrap();
    folders.flatten().map(name).filter(|it| !it.ends_with(".toml")).count()
}

#[test]
fn processes_that_write_at_once_lose_nothing() {
    let root = tempfile::tempdir().unwrap();
    let writer = |first: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_helper"));
        command.arg("put").arg(root.path()).arg(first.to_string()).arg("12");
        command.spawn().unwrap()
    };
    let writers: Vec<_> = [0, 12, 24, 36].into_iter().map(writer).collect();
    for mut it in writers {
        assert!(it.wait().unwrap().success());
    }
    let cache = Cache::new(root.path());
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    let database = Database::new(vec![store], None);
    let listed: Vec<_> = database.list().collect();
    let [(_, _, Ok(record))] = listed.as_slice() else { panic!("one good file: {listed:?}") };
    let ranges: Vec<_> = record.buckets.iter().map(|it| it.dims[0].lo).collect();
    assert_eq!(ranges, (1..=48).collect::<Vec<_>>());
    assert_eq!(leftovers(&cache.records()), 0);
}

//! Code that an earlier release made of a recorded schedule, timed beside what this one makes of it.

use std::sync::Arc;
use std::{fs, mem};

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_plan::record::{Bucket, Record, Source};
use tvmtune_schedule::Schedule;
use tvmtune_tests::sandbox::files;
use tvmtune_tests::workload;
use tvmtune_tuner::executor::TuningJob;
use tvmtune_tuner::measure::{CaseSpec, Job, KeptCode, Replay};
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::tune::{Event, Hardware, Options, Reuse, Summary, Workload, run};

use crate::tuning::{Machine, SOFTMAX};

/// A machine whose record is of an earlier release: the code that was measured is that of plain loops,
/// and its trace makes that of the default schedule now.
struct Upgraded {
    machine: Machine,
    workload: Workload,
    /// The identities of both.
    former: ArtifactId,
    now: ArtifactId,
}

/// The effort in the record.
const EFFORT: (u64, f64, bool) = (500, 9.0, true);

impl Upgraded {
    fn new() -> Option<Self> {
        let (machine, workload) = (Machine::new()?, workload(SOFTMAX));
        machine.tune(&workload, &Options { reuse: Reuse::Ignore, ..machine.options(1) });
        let dag = Arc::new(workload.dag.specialize(&workload.buckets[0]));
        let plain = tvmtune_cpu::generate(&Schedule::new(&dag), machine.target.isa).unwrap();
        let cases = [CaseSpec::new(&dag, &[], 1, &|_| (0.0, 0.0))];
        KeptCode::new(&machine.cache()).store(&Job::on_cpu(&plain, &cases), &cases).unwrap();
        let upgraded = Self { machine, workload, former: plain.artifact, now: plain.artifact };
        let now = upgraded.record(upgraded.former);
        assert_ne!(now, upgraded.former);
        fs::remove_dir_all(upgraded.machine.cache().trials()).unwrap();
        Some(Self { now, ..upgraded })
    }

    fn bucket(&self) -> Bucket {
        self.machine.get(&self.workload).records.remove(0).record.buckets.remove(0)
    }

    /// Records the default schedule as if another one had been found, and its code had that identity;
    /// returns its own.
    fn record(&self, artifact: ArtifactId) -> ArtifactId {
        let stored = self.machine.get(&self.workload).records.remove(0).record;
        let mut now = artifact;
        let update = |record: &mut Record| {
            let bucket = &mut record.buckets[0];
            (bucket.trials, bucket.seconds, bucket.complete) = EFFORT;
            let entry = &mut bucket.schedules[0];
            now = mem::replace(&mut entry.artifact, artifact);
            (entry.source, entry.lineage) = (Source::Evolved, Vec::new());
            bucket.schedules.truncate(1);
        };
        self.machine.database().update(&stored, update).unwrap();
        now
    }

    /// Upgrades with these latencies of both codes, and no other; or on this machine.
    fn upgrade(&self, latencies: Option<(f64, f64)>) -> (Summary, Vec<String>) {
        let mut options = Options { reuse: Reuse::CatchUp, ..self.machine.options(40) };
        if let Some((former_ns, now_ns)) = latencies {
            let mut log = Replay::default();
            for (artifact, ns) in [(self.former, former_ns), (self.now, now_ns)] {
                let samples = (0..15).map(|n| ns * (1.0 + f64::from(n) / 1e4)).collect();
                log.add_screened(
                    &artifact.to_string(),
                    &Outcome::Timed(Timing::new(samples).unwrap()),
                );
            }
            options.hardware = Hardware::Log(log);
        }
        let mut warnings = Vec::new();
        let mut on_event = |it: Event<'_>| {
            if let Event::Warning { what } = it {
                warnings.push(what);
            }
        };
        let (database, workloads) = (self.machine.database(), std::slice::from_ref(&self.workload));
        let lock = self.machine.lock();
        let summary =
            run(workloads, &options, &database, &TuningJob::holding(&lock), &mut on_event).unwrap();
        (summary, warnings)
    }
}

#[test]
fn code_that_is_no_slower_than_that_of_an_earlier_release_takes_its_place() {
    for now_ns in [1000.0, 1990.0, 2040.0] {
        let Some(upgraded) = Upgraded::new() else { return };
        let (summary, warnings) = upgraded.upgrade(Some((2000.0, now_ns)));
        let former = summary.results[0].former.expect("it was kept");
        assert!(!former.is_faster && (former.ns - 2000.0).abs() < 10.0, "{former:?} {warnings:?}");
        assert!(summary.results[0].trials < 5, "nothing to search for: {summary:?}");
        let bucket = upgraded.bucket();
        assert!(bucket.schedules.iter().all(|it| it.artifact == upgraded.now), "{bucket:?}");
        assert_eq!((bucket.trials, bucket.complete), (EFFORT.0, EFFORT.2), "its search counts");
    }
}

#[test]
fn code_of_an_earlier_release_that_is_faster_is_searched_for_and_leaves_the_record_unfinished() {
    let Some(upgraded) = Upgraded::new() else { return };
    let (summary, _) = upgraded.upgrade(Some((1000.0, 1200.0)));
    let result = &summary.results[0];
    let former = result.former.expect("it was kept");
    assert!(former.is_faster && result.best_ns > 1.15 * former.ns, "{result:?}");
    assert!(result.trials >= 40, "a search was worth it: {result:?}");
    let bucket = upgraded.bucket();
    assert!(bucket.schedules.iter().all(|it| it.artifact == upgraded.now), "{bucket:?}");
    assert!(!bucket.complete && bucket.trials == 2 && bucket.seconds == 0.0, "{bucket:?}");
}

#[test]
fn kept_code_is_verified_and_timed_by_a_worker() {
    let Some(upgraded) = Upgraded::new() else { return };
    let (summary, warnings) = upgraded.upgrade(None);
    let former = summary.results[0].former.expect("it was kept");
    assert!(former.ns > 0.0 && warnings.is_empty(), "{former:?} {warnings:?}");
    // The winner is kept in turn.
    let kept = files(&upgraded.machine.cache().code());
    let of_now = |it: &std::path::PathBuf| it.to_string_lossy().contains(&upgraded.now.to_string());
    assert!(kept.iter().any(of_now), "{kept:?}");
}

#[test]
fn damaged_and_wrong_code_is_ignored_and_named() {
    let Some(upgraded) = Upgraded::new() else { return };
    let path = files(&upgraded.machine.cache().code()).into_iter().find(|it| {
        it.file_name()
            .is_some_and(|it| it.to_string_lossy().starts_with(&upgraded.former.to_string()))
    });
    let path = path.expect("it was kept");
    let whole = fs::read(&path).unwrap();
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let (summary, warnings) = upgraded.upgrade(None);
    assert_eq!(summary.results[0].former, None);
    let named = |it: &String| it.contains(&path.display().to_string()) && it.contains("damaged");
    assert!(warnings.len() == 1 && warnings.iter().all(named), "{warnings:?}");

    // Code of another program that happens to have the same parameters.
    let Some(upgraded) = Upgraded::new() else { return };
    let other = workload(&SOFTMAX.replace("e[[r, d]] / s[[r]]", "s[[r]] - e[[r, d]]"));
    let dag = Arc::new(other.dag.specialize(&other.buckets[0]));
    let wrong = tvmtune_cpu::generate(&Schedule::new(&dag), upgraded.machine.target.isa).unwrap();
    let cases = [CaseSpec::new(&dag, &[], 1, &|_| (0.0, 0.0))];
    let kept = KeptCode::new(&upgraded.machine.cache());
    kept.store(&Job::on_cpu(&wrong, &cases), &cases).unwrap();
    upgraded.record(wrong.artifact);
    let (summary, warnings) = upgraded.upgrade(None);
    assert_eq!(summary.results[0].former, None);
    assert!(warnings.len() == 1 && warnings[0].contains("is ignored: wrong"), "{warnings:?}");
}

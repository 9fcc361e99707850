//! Carries records of earlier releases over to the identities of this one.
//!
//! In: a [`Record`] whose generator is older than [`GENERATOR`]. Out: the same with the identity of
//! each schedule stamped anew whose trace demonstrably still makes the code that was measured: the
//! code that it makes now has the identity which the earlier release recorded. Every other schedule
//! stays as it is, and counts as stale.
//!
//! A release that changes code generation itself makes schedules stale: they are measured again. Until
//! then [`mark_replayed`] says so in their records, for devices that are not at hand.

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::Platform;
use tvmtune_schedule::{Instruction, Schedule};

use crate::record::{Bucket, Entry, GENERATOR, Record};

/// Numbers of schedules of a record, by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Migrated {
    /// Those that have the identity of this release now, measurements and images included.
    pub carried: usize,
    /// Those whose traces make other code than was recorded.
    pub stale: usize,
}

/// Stamps the schedules of a record of the program `dag`; `None` if it is one of this release.
pub fn migrate(record: &mut Record, dag: &Dag) -> Option<Migrated> {
    if record.generator >= GENERATOR {
        return None;
    }
    // The name under which the program was measured was a part of identities.
    let dag = Dag { name: record.name.to_string(), ..dag.clone() };
    let mut migrated = Migrated::default();
    for Bucket { dims, schedules, .. } in &mut record.buckets {
        let narrow = (dims.len() == dag.dims.len()).then(|| dag.specialize(dims));
        for entry in schedules {
            match narrow.as_ref().and_then(|it| current(it, entry)) {
                Some(artifact) => {
                    entry.artifact = artifact;
                    migrated.carried += 1;
                }
                None => migrated.stale += 1,
            }
        }
    }
    record.generator = GENERATOR;
    Some(migrated)
}

/// Numbers of schedules of a record whose traces make other code by now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marked {
    /// Those that name the code of now, and the code that was measured.
    pub replayed: usize,
    /// Those whose traces do not apply: they stay as they are.
    pub broken: usize,
}

/// Gives schedules of a record of the program `dag` that make other code than was recorded the identity
/// of that. Their times are no longer believed, and compiled code is left out: it is of the code before.
pub fn mark_replayed(record: &mut Record, dag: &Dag) -> Marked {
    let mut marked = Marked::default();
    for Bucket { dims, schedules, .. } in &mut record.buckets {
        let narrow = (dims.len() == dag.dims.len()).then(|| dag.specialize(dims));
        for entry in schedules {
            match narrow.as_ref().and_then(|it| made_now(it, entry)) {
                Some(artifact) if artifact == entry.artifact => {}
                Some(artifact) => {
                    let timed = entry.measured.as_ref().map(|_| entry.timed_code());
                    // What was measured may be what a trace makes once more.
                    entry.measured_code = timed.filter(|it| *it != artifact);
                    entry.artifact = artifact;
                    entry.images.clear();
                    marked.replayed += 1;
                }
                None => marked.broken += 1,
            }
        }
    }
    marked
}

/// Returns the identity of the code that a schedule makes; `None` if it does not apply.
fn made_now(dag: &Dag, entry: &Entry) -> Option<ArtifactId> {
    let schedule = replay(dag, entry)?;
    match entry.platform {
        Platform::Cpu(isa) => Some(tvmtune_cpu::generate(&schedule, isa).ok()?.artifact),
        #[cfg(feature = "cuda")]
        Platform::Cuda(_) => Some(tvmtune_cuda::generate(&schedule).ok()?.artifact),
        // Nothing here makes code for GPUs: what was recorded stands.
        #[cfg(not(feature = "cuda"))]
        Platform::Cuda(_) => Some(entry.artifact),
    }
}

fn replay(dag: &Dag, entry: &Entry) -> Option<Schedule> {
    let trace: Result<Vec<Instruction>, _> = entry.trace.iter().map(|it| it.parse()).collect();
    Schedule::replay(dag, &trace.ok()?).ok()
}

/// Returns the identity that the code of a schedule has now, if the code is the recorded one.
///
/// Former identities of GPU code were those of texts with names that are in use no longer, so
/// there is nothing to compare: such schedules are stale.
fn current(dag: &Dag, entry: &Entry) -> Option<ArtifactId> {
    let Platform::Cpu(isa) = entry.platform else { return None };
    let generated = tvmtune_cpu::generate(&replay(dag, entry)?, isa).ok()?;
    (generated.former_artifact() == entry.artifact).then_some(generated.artifact)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that release 0.1 wrote.
    const FORMER: &str = include_str!("fixtures/generator-1.toml");
    /// Code that nothing makes.
    const OTHER: &str = "0000000000000000000000000000000000000000000000000000000000000000";

    #[test]
    fn schedules_whose_code_is_the_same_are_carried_over_with_their_times() {
        let before = Record::from_toml(FORMER).unwrap();
        let (dag, mut after) = (before.dag.parse().unwrap(), before.clone());
        let n = before.buckets[0].schedules.len();
        assert_eq!(migrate(&mut after, &dag), Some(Migrated { carried: n, stale: 0 }));
        assert_eq!(after.generator, GENERATOR);
        for (before, after) in before.buckets[0].schedules.iter().zip(&after.buckets[0].schedules) {
            assert_ne!(before.artifact, after.artifact);
            assert_eq!((&before.trace, &before.measured), (&after.trace, &after.measured));
        }
        assert_eq!(migrate(&mut after, &dag), None, "once is enough");
    }

    #[test]
    fn schedules_that_make_other_code_stay_stale() {
        let mut record = Record::from_toml(FORMER).unwrap();
        let dag = record.dag.parse().unwrap();
        let entry = &mut record.buckets[0].schedules[0];
        entry.artifact = OTHER.parse().unwrap();
        let n = record.buckets[0].schedules.len();
        assert_eq!(migrate(&mut record, &dag), Some(Migrated { carried: n - 1, stale: 1 }));
        assert_eq!(record.buckets[0].schedules[0].artifact.to_string(), OTHER);
    }

    #[test]
    fn schedules_that_make_other_code_can_be_marked_and_their_times_are_not_believed() {
        let mut record = Record::from_toml(FORMER).unwrap();
        let dag: Dag = record.dag.parse().unwrap();
        migrate(&mut record, &dag);
        let good = record.clone();
        assert_eq!(mark_replayed(&mut record, &dag), Marked::default(), "all are as recorded");
        assert_eq!(record, good);
        let first = |it: &Record| it.buckets[0].schedules[0].clone();
        record.buckets[0].schedules[0].artifact = OTHER.parse().unwrap();
        let broken = "split s0 a77 [4, 16]".to_owned();
        record.buckets[0].schedules[1].trace.push(broken);
        assert_eq!(mark_replayed(&mut record, &dag), Marked { replayed: 1, broken: 1 });
        let marked = Entry { measured_code: Some(OTHER.parse().unwrap()), ..first(&good) };
        assert_eq!(first(&record), marked);
        assert_eq!((record.needed_schema(), marked.is_replayed()), (4, true));
        record.schema = 4;
        assert_eq!(Record::from_toml(&record.to_toml()).as_ref(), Ok(&record));
        // Code that is made as it was measured once more is believed once more.
        record.buckets[0].schedules[0].measured_code = Some(first(&good).artifact);
        record.buckets[0].schedules[0].artifact = OTHER.parse().unwrap();
        mark_replayed(&mut record, &dag);
        assert_eq!(first(&record), first(&good));
    }
}

//! Carries records of earlier releases over to the identities of this one.
//!
//! In: a [`Record`] whose generator is older than [`GENERATOR`]. Out: the same with the identity of
//! each schedule stamped anew whose trace demonstrably still makes the code that was measured: the
//! code that it makes now has the identity which the earlier release recorded. Every other schedule
//! stays as it is, and counts as stale.
//!
//! A release that changes code generation itself makes schedules stale: they are measured again.

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
    let dag = Dag { name: record.name.clone(), ..dag.clone() };
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

/// Returns the identity that the code of a schedule has now, if the code is the recorded one.
///
/// Former identities of GPU code were those of texts with names that are in use no longer, so
/// there is nothing to compare: such schedules are stale.
fn current(dag: &Dag, entry: &Entry) -> Option<String> {
    let Platform::Cpu(isa) = entry.platform else { return None };
    let trace: Result<Vec<Instruction>, _> = entry.trace.iter().map(|it| it.parse()).collect();
    let schedule = Schedule::replay(dag, &trace.ok()?).ok()?;
    let generated = tvmtune_cpu::generate(&schedule, isa).ok()?;
    (generated.former_artifact().0 == entry.artifact).then_some(generated.artifact.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record that release 0.1 wrote.
    const FORMER: &str = include_str!("fixtures/generator-1.toml");

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
        entry.artifact = "0".repeat(64);
        let n = record.buckets[0].schedules.len();
        assert_eq!(migrate(&mut record, &dag), Some(Migrated { carried: n - 1, stale: 1 }));
        assert_eq!(record.buckets[0].schedules[0].artifact, "0".repeat(64));
    }
}

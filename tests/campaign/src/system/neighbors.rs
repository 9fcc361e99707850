//! Eight processes on one cache and one crate.
//!
//! Each runs commands, one after the other. Every update that a command says it made is there in the
//! end, every file reads, no command hangs, and each process gets on.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};
use std::{fs, iter};

use tvmtune_ir::poly::Interval;
use tvmtune_plan::database::{Database, Files, Store, StoreKind};
use tvmtune_plan::record::Record;
use tvmtune_tuner::random::Random;

use super::errand::Errand;
use super::ledger::Ledger;
use super::place::{self, Place};
use super::template::{self, io_problem};
use crate::case::Case;
use crate::section::{Problem, Section, Verdict};

/// The section.
pub struct Neighbors;

/// Time in which commands begin.
const TIME: Duration = Duration::from_secs(8);

/// What each process does, again and again.
const ACTORS: [Actor; 8] = [
    Actor::Errands(&[Errand::Tune, Errand::Status]),
    Actor::Errands(&[Errand::Tune, Errand::Accept, Errand::Check]),
    Actor::Errands(&[Errand::Accept, Errand::Merge, Errand::Gc]),
    Actor::Errands(&[Errand::Script, Errand::Session, Errand::Watch]),
    Actor::Updates(Goal::Shared),
    Actor::Updates(Goal::Shared),
    Actor::Updates(Goal::Cache),
    Actor::Updates(Goal::Cache),
];

/// A process of the case.
#[derive(Clone, Copy, Debug)]
enum Actor {
    /// Draws one of these each time.
    Errands(&'static [Errand]),
    /// Merges a record of a range of its own each time.
    Updates(Goal),
}

/// Where updates go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Goal {
    Shared,
    Cache,
}

impl Section for Neighbors {
    fn name(&self) -> &'static str {
        "neighbors"
    }

    fn about(&self) -> &'static str {
        "eight processes on one cache and one crate lose no update"
    }

    fn limit(&self) -> Duration {
        Duration::from_secs(200)
    }

    fn cases_of_a_test(&self) -> u64 {
        1
    }

    fn n_processes(&self) -> Option<usize> {
        Some(1)
    }

    fn check(&self, case: &mut Case) -> Result<Verdict, Problem> {
        let folder = case.folder().to_owned();
        let place = template::tuned(&folder)?;
        Errand::Session.prepare(&place)?;
        let before = Ledger::of(&place)?;
        let shared = folder.join("shared");
        let updated = Mutex::new(BTreeMap::<Goal, Vec<u32>>::new());
        let run = |n: usize, random: Random| {
            let scene = Scene { place: &place, shared: &shared, folder: &folder };
            scene.act(n, random, &updated)
        };
        let counts: Vec<u64> = thread::scope(|scope| {
            let start = |n: usize| {
                let random = case.random.fork(n as u64);
                scope.spawn(move || run(n, random))
            };
            let actors: Vec<_> = (0..ACTORS.len()).map(start).collect();
            let joined = actors.into_iter().map(|it| it.join());
            joined.map(|it| it.expect("an actor does not panic")).collect::<Result<_, Problem>>()
        })?;
        counts.iter().for_each(|n| (0..*n).for_each(|_| case.count("commands")));
        if let Some(stuck) = counts.iter().position(|it| *it == 0) {
            return Err(Problem::wrong(format!("a process ran no command\n{:?}", ACTORS[stuck])));
        }
        before.is_kept_in(&Ledger::of(&place)?, |_| true)?;
        let updated = updated.into_inner().unwrap_or_default();
        for (into, numbers) in updated {
            let (kind, dir) = match into {
                Goal::Shared => (StoreKind::Overlay, shared.clone()),
                Goal::Cache => (StoreKind::Cache, place.cache.join("v4/records")),
            };
            let ledger = Ledger::of_folders(&[(kind, dir.as_path())])?;
            let lost = numbers.iter().filter(|n| !ledger.has(&range(**n))).count();
            numbers.iter().for_each(|_| case.count(format!("updates of {into:?}")));
            if lost > 0 {
                let all = numbers.len();
                let message = format!("updates that succeeded are lost: {into:?}\n{lost} of {all}");
                return Err(Problem::lost(message));
            }
        }
        Ok(Verdict::Accepted)
    }
}

/// Returns a range of extents that one update is about; there are 2,080 of them.
fn range(n: u32) -> Vec<Interval> {
    let mut pairs = (1..=64).flat_map(|hi| (1..=hi).map(move |lo| Interval { lo, hi }));
    pairs.nth(n as usize % 2080).into_iter().collect()
}

/// Where processes act.
struct Scene<'a> {
    place: &'a Place,
    shared: &'a Path,
    folder: &'a Path,
}

impl Scene<'_> {
    /// Runs commands for a while; returns how many ended.
    fn act(
        &self,
        actor: usize,
        mut random: Random,
        updated: &Mutex<BTreeMap<Goal, Vec<u32>>>,
    ) -> Result<u64, Problem> {
        let since = Instant::now();
        let mut n_commands = 0;
        // Ranges of their own: those of two actors never meet.
        let mut numbers = (actor as u32 % 2..).step_by(2);
        while since.elapsed() < TIME {
            match ACTORS[actor] {
                Actor::Errands(errands) => {
                    let errand = errands[random.below(errands.len())];
                    errand.run(self.place)?.is_clear()?;
                }
                Actor::Updates(into) => {
                    let n = numbers.next().unwrap_or_default();
                    if self.update(actor, into, n)? {
                        let mut updated = updated.lock().expect("nobody panics with it");
                        updated.entry(into).or_default().push(n);
                    }
                }
            }
            n_commands += 1;
        }
        Ok(n_commands)
    }

    /// Merges a record of one range; returns whether the command says that it did.
    fn update(&self, actor: usize, into: Goal, n: u32) -> Result<bool, Problem> {
        let source = self.folder.join(format!("from-{actor}"));
        let sample = self.sample(n)?;
        if source.exists() {
            fs::remove_dir_all(&source).map_err(io_problem)?;
        }
        let written = Database::accept(&source, &sample, &Files::default(), usize::MAX);
        written.map_err(|it| Problem::wrong(format!("a sample is not written: {it}")))?;
        let mut command = self.place.tvmtune(iter::once("merge"));
        command.arg(&source);
        if into == Goal::Shared {
            command.arg("--into").arg(self.shared);
        }
        let said = place::run(&mut command)?;
        said.is_clear()?;
        Ok(said.status.success())
    }

    /// Returns a record that the crate ships, as if its best schedule had been found for one range.
    fn sample(&self, n: u32) -> Result<Record, Problem> {
        let dir: PathBuf = self.place.shipped();
        let database = Database::new(vec![Store { kind: StoreKind::Crate, dir }], None);
        let records = database.list().filter_map(|it| it.2.ok());
        let mut dynamic = records.filter(|it| it.buckets.iter().any(|it| !it.dims.is_empty()));
        let mut record = dynamic.next().ok_or_else(|| Problem::lost("no shipped record reads"))?;
        record.buckets.truncate(1);
        for bucket in &mut record.buckets {
            bucket.dims = range(n);
        }
        Ok(record)
    }
}

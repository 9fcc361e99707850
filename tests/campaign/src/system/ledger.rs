//! What is recorded in a place, so that a later look says what was lost.
//!
//! A record may gain buckets and schedules, and better ones may replace worse; but a range of extents
//! for which an instruction set had a schedule keeps having one, and efforts do not shrink.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tvmtune_ir::poly::Interval;
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::record::{Bucket, Record};

use super::place::Place;
use crate::section::Problem;

/// What was recorded for a range of extents.
#[derive(Clone, Debug, PartialEq)]
struct Known {
    trials: u64,
    platforms: BTreeSet<String>,
}

/// The buckets of each file with a record, by their ranges.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ledger(BTreeMap<PathBuf, BTreeMap<Vec<(i64, i64)>, Known>>);

impl Ledger {
    /// Reads all records of a place: in the cache, and those that the crate ships.
    ///
    /// # Errors
    ///
    /// If a file is no record: none may be there in part.
    pub fn of(place: &Place) -> Result<Self, Problem> {
        let (cache, shipped) = (Cache::new(&place.cache).records(), place.shipped());
        Self::of_folders(&[
            (StoreKind::Cache, cache.as_path()),
            (StoreKind::Crate, shipped.as_path()),
        ])
    }

    /// Reads all records of some folders.
    ///
    /// # Errors
    ///
    /// If a file is no record.
    pub fn of_folders(folders: &[(StoreKind, &Path)]) -> Result<Self, Problem> {
        let store =
            |(kind, dir): &(StoreKind, &Path)| Store { kind: *kind, dir: dir.to_path_buf() };
        let database = Database::new(folders.iter().map(store).collect(), None);
        let mut ledger = BTreeMap::new();
        for (_, path, record) in database.list() {
            let record = record.map_err(|it| Problem::lost(format!("a bad record\n{it}")))?;
            ledger.insert(path, buckets(&record));
        }
        Ok(Self(ledger))
    }

    /// Returns the number of schedules, each instruction set of a range being one.
    pub fn n_schedules(&self) -> usize {
        self.0.values().flat_map(BTreeMap::values).map(|it| it.platforms.len()).sum()
    }

    /// Returns whether some file has a bucket of that range.
    pub fn has(&self, dims: &[Interval]) -> bool {
        self.0.values().any(|it| it.contains_key(&key(dims)))
    }

    /// Checks that `later` has all that this ledger has, in files for which `counts` holds.
    ///
    /// # Errors
    ///
    /// What is gone.
    pub fn is_kept_in(&self, later: &Self, counts: impl Fn(&Path) -> bool) -> Result<(), Problem> {
        for (path, buckets) in self.0.iter().filter(|(path, _)| counts(path)) {
            let name = path.display();
            let Some(now) = later.0.get(path) else {
                return Err(Problem::lost(format!("a record is gone\n{name}")));
            };
            for (dims, known) in buckets {
                let Some(left) = now.get(dims) else {
                    return Err(Problem::lost(format!("a range is gone\n{dims:?} of {name}")));
                };
                if !known.platforms.is_subset(&left.platforms) || left.trials < known.trials {
                    let change = format!("{known:?} became {left:?}\n{dims:?} of {name}");
                    return Err(Problem::lost(format!("schedules or efforts are gone\n{change}")));
                }
            }
        }
        Ok(())
    }
}

fn buckets(record: &Record) -> BTreeMap<Vec<(i64, i64)>, Known> {
    let known = |it: &Bucket| Known {
        trials: it.trials,
        platforms: it.schedules.iter().map(|it| it.platform.to_string()).collect(),
    };
    record.buckets.iter().map(|it| (key(&it.dims), known(it))).collect()
}

fn key(dims: &[Interval]) -> Vec<(i64, i64)> {
    dims.iter().map(|it| (it.lo, it.hi)).collect()
}

/// Returns the temporary files below a folder: those that a process writes before it renames them.
pub fn temporary_files(folder: &Path) -> Vec<PathBuf> {
    let is_temporary = |it: &PathBuf| it.extension().is_some_and(|it| it == "tmp");
    files(folder).into_iter().filter(is_temporary).collect()
}

/// Returns all files below a folder, sorted.
pub fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => found.extend(files(&entry.path())),
            _ => found.push(entry.path()),
        }
    }
    found.sort();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ledger of one file, with the trials and the instruction sets of each range.
    fn ledger(buckets: &[(i64, u64, &[&str])]) -> Ledger {
        let known = |(n, trials, platforms): &(i64, u64, &[&str])| {
            let platforms = platforms.iter().map(|it| (*it).to_owned()).collect();
            (vec![(*n, *n)], Known { trials: *trials, platforms })
        };
        let buckets = buckets.iter().map(known).collect();
        Ledger(BTreeMap::from([(PathBuf::from("file"), buckets)]))
    }

    #[test]
    fn what_is_lost_is_named() {
        let before = ledger(&[(1, 5, &["avx2"]), (2, 5, &["avx2", "avx512"])]);
        let kept = |after: &[(i64, u64, &[&str])]| before.is_kept_in(&ledger(after), |_| true);
        let more: [(i64, u64, &[&str]); 3] =
            [(1, 9, &["avx2", "sm_80"]), (2, 5, &["avx2", "avx512"]), (3, 1, &[])];
        assert_eq!(kept(&more), Ok(()));
        assert!(kept(&more[..1]).is_err(), "a range is gone");
        assert!(kept(&[(1, 4, &["avx2"]), more[1]]).is_err(), "efforts are gone");
        assert!(kept(&[more[0], (2, 5, &["avx2"])]).is_err(), "a schedule is gone");
        assert!(before.is_kept_in(&Ledger::default(), |_| true).is_err(), "the file is gone");
        assert!(before.is_kept_in(&Ledger::default(), |_| false).is_ok(), "it does not count");
        assert_eq!(before.n_schedules(), 3);
        assert!(before.has(&[Interval::point(2)]) && !before.has(&[Interval::point(3)]));
    }
}

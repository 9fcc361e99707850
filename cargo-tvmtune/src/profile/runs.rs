//! The number of runs of each program in a profile, by extents: the weights by which tuning shares its time,
//! and the extents that buckets are for.
//!
//! Launches count by their extents, and not by the buckets that they were in: a profile stays valid when
//! buckets change.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use tvmtune_build::op::Op;
use tvmtune_build::tune::session::OpBuckets;
use tvmtune_ir::poly::Interval;

use super::read::Profile;
use super::valid::ValidEvents;
use crate::output::eprintln;
use crate::render::count;

/// The extent of each dynamic dimension, by name.
type Extents = BTreeMap<String, i64>;

/// The launches of a program with the same extents.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Launches {
    pub(crate) n: u64,
    pub(crate) us: f64,
}

/// How often the programs of a profile ran, with which extents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Runs {
    /// By the identity of a workload.
    of_workloads: BTreeMap<String, BTreeMap<Extents, Launches>>,
    /// A kernel of each workload.
    names: BTreeMap<String, String>,
}

impl Runs {
    /// Reads the file that an application wrote with `TVMTUNE_TRACE`; says which part of it means nothing.
    ///
    /// # Errors
    ///
    /// If the file can't be read, or has no launch.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let hint = "run an application with `TVMTUNE_TRACE` set to a file";
        let bytes = fs::read(path).with_context(|| format!("{shown}; {hint}"))?;
        let ValidEvents { profile, n_wrong, why } =
            ValidEvents::read(&bytes).map_err(|why| anyhow!("{shown}: {why}; {hint}"))?;
        if let Some(why) = why {
            let wrong = count(n_wrong, "event");
            eprintln!("warning: {shown}: {why}; {wrong} left out, the others count");
        }
        if profile.is_cut_off {
            eprintln!("warning: {shown}: the last event is cut off, those before it count");
        }
        Ok(Self::of(&profile))
    }

    fn of(profile: &Profile) -> Self {
        let mut runs = Self::default();
        for launch in &profile.launches {
            let workload = &launch.arguments.workload;
            let extents = runs.of_workloads.entry(workload.clone()).or_default();
            let launches = extents.entry(launch.arguments.dims.clone()).or_default();
            launches.n += 1;
            launches.us += launch.duration_us;
            runs.names.entry(workload.clone()).or_insert_with(|| launch.kernel.clone());
        }
        runs
    }

    /// Returns the extents that an op ran with, in the order of its dimensions, with their launches; those
    /// outside of all its buckets are left out.
    pub(crate) fn of_op(&self, op: &Op) -> BTreeMap<Vec<i64>, Launches> {
        let mut inside = BTreeMap::new();
        for (extents, launches) in self.of_workloads.get(&op.id.to_string()).into_iter().flatten() {
            let extents = op.dag.dims.iter().map(|dim| extents.get(&dim.name).copied());
            let Some(extents) = extents.collect::<Option<Vec<i64>>>() else { continue };
            if op.buckets.iter().any(|it| is_inside(&extents, it)) {
                inside.insert(extents, *launches);
            }
        }
        inside
    }

    /// Returns the number of runs of a bucket of an op.
    fn of_bucket(&self, op: &Op, bucket: &[Interval]) -> u64 {
        let of_op = self.of_op(op).into_iter().filter(|it| is_inside(&it.0, bucket));
        of_op.map(|it| it.1.n).sum()
    }

    /// Returns the number of runs of an op.
    pub(crate) fn weight(&self, op: &Op) -> f64 {
        self.of_op(op).values().map(|it| it.n as f64).sum()
    }

    /// Tells if a bucket of an op ran.
    pub(crate) fn has(&self, op: &Op, bucket: usize) -> bool {
        self.of_bucket(op, &op.buckets[bucket]) > 0
    }

    /// Weighs buckets of an op by their runs.
    pub(crate) fn weigh(&self, it: &mut OpBuckets<'_>) {
        let runs = it.buckets.iter().map(|n| self.of_bucket(it.op, &it.op.buckets[*n]) as f64);
        let runs: Vec<f64> = runs.collect();
        let all: f64 = runs.iter().sum();
        if all > 0.0 {
            it.weight = all;
            it.shares = runs.iter().map(|it| it / all).collect();
        }
    }

    /// Says what of the profile is not of these ops, and which of these did not run.
    pub(crate) fn compare<'a>(&self, ops: impl Iterator<Item = &'a Op>) {
        let ops: Vec<&Op> = ops.collect();
        let known: BTreeSet<String> = ops.iter().map(|it| it.id.to_string()).collect();
        let unknown = self.names.iter().filter(|it| !known.contains(it.0));
        let unknown: Vec<String> = unknown.map(|it| format!("`{}`", it.1)).collect();
        if !unknown.is_empty() {
            eprintln!(
                "warning: the profile has launches of {} that this package does not have as they were: {}; \
                 trace this version of it",
                count(unknown.len(), "kernel"),
                unknown.join(", ")
            );
        }
        for op in &ops {
            let all = self.of_workloads.get(&op.id.to_string()).into_iter().flatten();
            let n_outside = all.map(|it| it.1.n).sum::<u64>() - self.weight(op) as u64;
            if n_outside > 0 {
                eprintln!(
                    "warning: the profile has {n_outside} launches of `{}` with extents outside of its ranges; \
                     they do not count",
                    op.name()
                );
            }
        }
        let is_idle = |it: &&&Op| self.of_op(it).is_empty();
        let idle: Vec<String> =
            ops.iter().filter(is_idle).map(|it| format!("`{}`", it.name())).collect();
        if !idle.is_empty() {
            eprintln!("not in the profile, and left out: {}", idle.join(", "));
        }
    }
}

/// Tells if extents are inside of a bucket.
pub(crate) fn is_inside(extents: &[i64], bucket: &[Interval]) -> bool {
    extents.iter().zip(bucket).all(|(it, range)| (range.lo..=range.hi).contains(it))
}

#[cfg(test)]
mod tests {
    use tvmtune_plan::handoff::OpSource;

    use super::*;

    /// An op with two buckets.
    fn op() -> Op {
        let source = OpSource {
            name: "double".to_owned(),
            options: "dims(M = 1..=64), buckets(M = [8])".to_owned(),
            item: "fn double(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|m| x[[m]] + x[[m]]) }"
                .to_owned(),
        };
        Op::from_source(&source, Path::new("lib.rs")).expect("an op")
    }

    /// A launch of a workload with one dynamic dimension, in a bucket that nothing has by now.
    fn launch(workload: &str, extent: i64) -> String {
        format!(
            "{{\"cat\":\"tvmtune\",\"name\":\"k\",\"ph\":\"X\",\"ts\":0,\"dur\":1,\"args\":{{\
             \"dims\":{{\"M\":{extent}}},\"bucket\":{{\"M\":[1,999]}},\"isa\":\"avx2\",\
             \"tier\":\"exact\",\"threads\":1,\"artifact\":\"a\",\"workload\":\"{workload}\"}}}}"
        )
    }

    /// The runs of launches, after which the file is cut in the middle of another one.
    fn runs(launches: &[(&str, i64)]) -> Result<Runs> {
        let launches: Vec<String> = launches.iter().map(|it| launch(it.0, it.1)).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.json");
        fs::write(&file, format!("[{},\n{{\"cat\":\"tvm", launches.join(",\n"))).unwrap();
        Runs::read(&file)
    }

    #[test]
    fn launches_are_counted_by_extents_in_the_buckets_of_now() {
        let op = op();
        let id = op.id.to_string();
        let launches = [(&*id, 4), (&*id, 8), (&*id, 64), (&*id, 8), (&*id, 65), ("other", 8)];
        let runs = runs(&launches).unwrap();
        let of_op: Vec<(Vec<i64>, u64)> =
            runs.of_op(&op).into_iter().map(|it| (it.0, it.1.n)).collect();
        assert_eq!(of_op, [(vec![4], 1), (vec![8], 2), (vec![64], 1)]);
        assert_eq!(runs.weight(&op), 4.0, "65 is outside of the range");
        let mut weighed = OpBuckets::new(&op, vec![0, 1]);
        assert_eq!((weighed.weight, &*weighed.shares), (1.0, [0.5, 0.5].as_slice()));
        runs.weigh(&mut weighed);
        assert_eq!((weighed.weight, &*weighed.shares), (4.0, [0.75, 0.25].as_slice()));
        let mut weighed = OpBuckets::new(&op, vec![1]);
        assert_eq!((weighed.weight, &*weighed.shares), (1.0, [0.5].as_slice()));
        runs.weigh(&mut weighed);
        assert_eq!((weighed.weight, &*weighed.shares), (1.0, [1.0].as_slice()));
    }

    #[test]
    fn a_file_that_says_nothing_is_an_error() {
        let error = runs(&[]).unwrap_err().to_string();
        assert!(error.contains("run an application with `TVMTUNE_TRACE`"), "{error}");
    }
}

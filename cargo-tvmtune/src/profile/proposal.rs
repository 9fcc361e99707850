//! Buckets that a profile asks for: the fewest that are good enough at all extents which occurred.
//!
//! In: the [`Points`] of an op, and the time of each schedule at each of them. Out: a [`Proposal`]. Next:
//! `cargo tvmtune buckets` prints it.

use serde::Serialize;
use tvmtune_build::op::Op;
use tvmtune_ir::poly::Interval;

use super::fewest::{self, Part};
use super::runs::{Launches, Runs};

/// The extents that an op ran with, which differ in one dimension at most.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Points {
    /// The position of that dimension.
    pub(crate) dim: usize,
    /// All extents of each point, ascending.
    pub(crate) extents: Vec<Vec<i64>>,
    pub(crate) launches: Vec<Launches>,
    /// The share of the op's time that was spent at extents which are left out.
    pub(crate) left_out: f64,
}

/// The times of schedules of an op, in ns.
pub(crate) struct Times {
    /// By schedule, then by point; infinite where a schedule does not work.
    pub(crate) of_schedules: Vec<Vec<f64>>,
    /// For each schedule, its bucket and the strategy that found it.
    pub(crate) origins: Vec<(Vec<Interval>, &'static str)>,
    /// For each point, the position of the schedule that a build of now has there.
    pub(crate) built: Vec<usize>,
}

/// Buckets of an op.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Proposal {
    pub(crate) name: String,
    pub(crate) isa: String,
    pub(crate) dim: String,
    /// The upper ends of the buckets of now, and of those proposed.
    pub(crate) ends_now: Vec<i64>,
    pub(crate) ends: Vec<i64>,
    pub(crate) buckets: Vec<ProposedBucket>,
    /// The number of schedules that were timed at each extent.
    pub(crate) schedules: usize,
    /// The time of all launches at the timed extents: by the code of now, by the buckets proposed, and with the
    /// fastest schedule at each extent. Without the first one where code of now does not work.
    pub(crate) now_us: Option<f64>,
    pub(crate) proposed_us: f64,
    pub(crate) fastest_us: f64,
    /// The share of the op's time that was spent at extents which were not timed.
    pub(crate) left_out: f64,
}

/// A bucket, with the schedule that serves it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct ProposedBucket {
    pub(crate) range: [i64; 2],
    /// The extents in it that occurred.
    pub(crate) extents: Vec<i64>,
    pub(crate) launches: u64,
    /// The range that the schedule was made for, and the strategy that found it.
    pub(crate) schedule_of: [i64; 2],
    pub(crate) source: &'static str,
    /// The extent where it is farthest from the fastest schedule, and by how much: 0.02 for 2 %.
    pub(crate) worst_extent: i64,
    pub(crate) worst: f64,
}

impl Points {
    /// Returns the extents of an op in a profile; of many, those at which it spent most time. `None` if it did
    /// not run.
    ///
    /// # Errors
    ///
    /// The reason why there is nothing to choose.
    pub(crate) fn of(op: &Op, runs: &Runs, most: usize) -> Result<Option<Self>, String> {
        let mut all: Vec<(Vec<i64>, Launches)> = runs.of_op(op).into_iter().collect();
        if all.is_empty() || op.dag.dims.is_empty() {
            return Ok(None);
        }
        let varies = |n: &usize| all.iter().any(|it| it.0[*n] != all[0].0[*n]);
        let varying: Vec<usize> = (0..op.dag.dims.len()).filter(varies).collect();
        let dim = match (&*varying, op.dag.dims.len()) {
            ([dim], _) => *dim,
            ([], 1) => 0,
            ([], _) => return Err("it ran with the same extents only".to_owned()),
            (several, _) => {
                let names = several.iter().map(|n| op.dag.dims[*n].name.as_str());
                let names = names.collect::<Vec<_>>().join(" and ");
                return Err(format!("{names} vary, and buckets are chosen for one dimension only"));
            }
        };
        let us = |all: &[(Vec<i64>, Launches)]| all.iter().map(|it| it.1.us).sum::<f64>();
        let (all_us, is_cut) = (us(&all), all.len() > most);
        all.sort_by(|a, b| b.1.us.total_cmp(&a.1.us));
        all.truncate(most);
        let left_out =
            if is_cut && all_us > 0.0 { (1.0 - us(&all) / all_us).max(0.0) } else { 0.0 };
        all.sort_by(|a, b| a.0.cmp(&b.0));
        let (extents, launches) = all.into_iter().unzip();
        Ok(Some(Self { dim, extents, launches, left_out }))
    }
}

impl Proposal {
    /// Chooses the fewest buckets in which no extent takes more than `1 + tolerance` times the least time. `None`
    /// if no schedule works at some extent.
    pub(crate) fn new(
        (op, isa): (&Op, &str),
        points: &Points,
        times: &Times,
        tolerance: f64,
    ) -> Option<Self> {
        let runs: Vec<f64> = points.launches.iter().map(|it| it.n as f64).collect();
        let parts = fewest::fewest_buckets(&times.of_schedules, &runs, tolerance)?;
        let fastest = fewest::fastest(&times.of_schedules, runs.len());
        let total_us = |ns: &dyn Fn(usize) -> f64| {
            (0..runs.len()).map(|point| runs[point] * ns(point)).sum::<f64>() / 1e3
        };
        let proposed = |point: usize| {
            let part = parts.iter().find(|it| (it.first..=it.last).contains(&point));
            part.map_or(f64::INFINITY, |it| times.of_schedules[it.schedule][point])
        };
        let now_us = total_us(&|point| times.of_schedules[times.built[point]][point]);
        let mut ends_now: Vec<i64> = op.buckets.iter().map(|it| it[points.dim].hi).collect();
        ends_now.sort_unstable();
        ends_now.dedup();
        let lowest = op.buckets.iter().map(|it| it[points.dim].lo).min().unwrap_or_default();
        let mut lo = lowest;
        let mut buckets = Vec::new();
        for part in &parts {
            let bucket = ProposedBucket::new(*part, lo, points, times, &fastest);
            lo = bucket.range[1] + 1;
            buckets.push(bucket);
        }
        Some(Self {
            name: op.name().to_owned(),
            isa: isa.to_owned(),
            dim: op.dag.dims[points.dim].name.clone(),
            ends_now,
            ends: buckets.iter().map(|it| it.range[1]).collect(),
            buckets,
            schedules: times.of_schedules.len(),
            now_us: now_us.is_finite().then_some(now_us),
            proposed_us: total_us(&proposed),
            fastest_us: total_us(&|point| fastest[point]),
            left_out: points.left_out,
        })
    }
}

impl ProposedBucket {
    fn new(part: Part, lo: i64, points: &Points, times: &Times, fastest: &[f64]) -> Self {
        let inside = part.first..=part.last;
        let extent = |point: usize| points.extents[point][points.dim];
        let over = |point: usize| times.of_schedules[part.schedule][point] / fastest[point] - 1.0;
        let worst = inside.clone().max_by(|a, b| over(*a).total_cmp(&over(*b)));
        let worst = worst.unwrap_or(part.first);
        let (made_for, source) = &times.origins[part.schedule];
        Self {
            range: [lo, extent(part.last)],
            extents: inside.clone().map(extent).collect(),
            launches: inside.map(|it| points.launches[it].n).sum(),
            schedule_of: [made_for[points.dim].lo, made_for[points.dim].hi],
            source,
            worst_extent: extent(worst),
            worst: over(worst),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use tvmtune_plan::handoff::OpSource;

    use super::*;

    fn op(options: &str, item: &str) -> Op {
        let (name, options, item) = ("f".to_owned(), options.to_owned(), item.to_owned());
        Op::from_source(&OpSource { name, options, item }, Path::new("lib.rs")).expect("an op")
    }

    fn doubled() -> Op {
        op(
            "dims(M = 1..=64), buckets(M = [8, 16])",
            "fn f(x: Tensor<f32, M>) -> Tensor<f32, M> { compute(|m| x[[m]] + x[[m]]) }",
        )
    }

    /// A profile of one op, with a launch of 2 us for each of these extents.
    fn runs(op: &Op, extents: &[&str]) -> Runs {
        let launch = |extents: &&str| {
            format!(
                "{{\"cat\":\"tvmtune\",\"name\":\"f\",\"ph\":\"X\",\"ts\":0,\"dur\":2,\"args\":{{\
                 \"dims\":{{{extents}}},\"bucket\":{{}},\"isa\":\"avx2\",\"tier\":\"exact\",\
                 \"artifact\":\"a\",\"workload\":\"{}\"}}}}",
                op.id
            )
        };
        let launches: Vec<String> = extents.iter().map(launch).collect();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("trace.json");
        std::fs::write(&file, format!("[{}]", launches.join(",\n"))).unwrap();
        Runs::read(&file).unwrap()
    }

    #[test]
    fn extents_that_take_most_time_are_timed() {
        let op = doubled();
        let runs = runs(&op, &["\"M\":60", "\"M\":4", "\"M\":7", "\"M\":4", "\"M\":60"]);
        let points = Points::of(&op, &runs, 9).unwrap().unwrap();
        assert_eq!((points.dim, points.left_out), (0, 0.0));
        assert_eq!(points.extents, [[4], [7], [60]]);
        let fewer = Points::of(&op, &runs, 2).unwrap().unwrap();
        assert_eq!(fewer.extents, [[4], [60]]);
        assert!((fewer.left_out - 0.2).abs() < 1e-9, "{fewer:?}");
    }

    #[test]
    fn buckets_are_of_the_dimension_that_varies() {
        let op = op(
            "dims(M = 1..=64, N = 1..=32)",
            "fn f(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> { compute(|m, n| x[[m, n]] + 1.0) }",
        );
        let of = |extents: &[&str]| Points::of(&op, &runs(&op, extents), 9);
        let n_varies = of(&["\"M\":4,\"N\":3", "\"M\":4,\"N\":8"]).unwrap().unwrap();
        assert_eq!(op.dag.dims[n_varies.dim].name, "N");
        let said = of(&["\"M\":4,\"N\":3", "\"M\":5,\"N\":8"]).unwrap_err();
        assert!(said.contains(" vary, and buckets are chosen for one dimension only"), "{said}");
        let said = of(&["\"M\":4,\"N\":3"]).unwrap_err();
        assert_eq!(said, "it ran with the same extents only");
    }

    #[test]
    fn a_proposal_says_what_its_buckets_cost() {
        let op = doubled();
        let runs = runs(&op, &["\"M\":4", "\"M\":7", "\"M\":7", "\"M\":12", "\"M\":40"]);
        let points = Points::of(&op, &runs, 9).unwrap().unwrap();
        let origins = op.buckets.iter().map(|it| (it.clone(), "droplet")).collect();
        let times = Times {
            of_schedules: vec![
                vec![100.0, 202.0, 300.0, 900.0],
                vec![f64::INFINITY, 200.0, 290.0, 880.0],
                vec![110.0, 230.0, 330.0, 600.0],
            ],
            origins,
            built: vec![0, 0, 1, 2],
        };
        let of = |tolerance: f64| {
            let it = Proposal::new((&op, "avx2"), &points, &times, tolerance).unwrap();
            (it.ends.clone(), it)
        };
        assert_eq!(of(0.0).0, [4, 12, 40]);
        assert_eq!(of(0.2).0, [40], "the third schedule is never far from the fastest");
        let (ends, it) = of(0.05);
        assert_eq!(ends, [12, 40]);
        assert_eq!(it.ends_now, [8, 16, 64]);
        let [first, second] = &*it.buckets else { panic!("{it:?}") };
        assert_eq!((first.range, first.schedule_of, first.launches), ([1, 12], [1, 8], 4));
        assert_eq!((first.worst_extent, &*first.extents), (12, [4, 7, 12].as_slice()));
        assert!((first.worst - 10.0 / 290.0).abs() < 1e-9, "{first:?}");
        assert_eq!((second.range, second.schedule_of, second.worst), ([13, 40], [17, 64], 0.0));
        let all = [it.now_us.unwrap(), it.proposed_us, it.fastest_us];
        assert!(
            all.iter().zip([1.394, 1.404, 1.39]).all(|it| (it.0 - it.1).abs() < 1e-9),
            "{all:?}"
        );
        let broken = Times { of_schedules: vec![vec![1.0, 1.0, f64::INFINITY, 1.0]], ..times };
        assert_eq!(Proposal::new((&op, "avx2"), &points, &broken, 0.05), None);
    }
}

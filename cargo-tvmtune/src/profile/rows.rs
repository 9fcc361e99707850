//! The rows of a profile: launches by kernel, bucket and code.

use std::collections::BTreeMap;

use serde::Serialize;
use tvmtune_ir::poly::Interval;
use tvmtune_space::work::Work;

use super::event::Launch;
use crate::records::ranges;
use crate::roofline::Roofline;

/// Digits of a workload that tell programs of one name apart.
const DIGITS: usize = 6;

/// The launches of one piece of code in one bucket of a kernel.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) workload: String,
    pub(crate) extents: String,
    pub(crate) isa: String,
    pub(crate) tier: String,
    pub(crate) artifact: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) threads: Option<u32>,
    pub(crate) launches: usize,
    pub(crate) total_us: f64,
    /// The share of the time of all launches, 0 to 1.
    pub(crate) share: f64,
    pub(crate) median_us: f64,
    /// Medians over launches; `None` where the work is not known.
    pub(crate) gflops: Option<f64>,
    pub(crate) gbps: Option<f64>,
    /// The median share of what the machine can do, 1 for all of it; `None` where that is not known.
    pub(crate) roofline: Option<f64>,
    /// The median time since the former launch of the thread; `None` if there never was one.
    pub(crate) idle_us: Option<f64>,
}

/// The key of a row: its launches agree in all of it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Key<'a> {
    kernel: &'a str,
    workload: &'a str,
    bucket: &'a BTreeMap<String, [i64; 2]>,
    isa: &'a str,
    tier: &'a str,
    artifact: &'a str,
    threads: Option<u32>,
}

impl<'a> Key<'a> {
    fn of(launch: &'a Launch) -> Self {
        let it = &launch.arguments;
        Self {
            kernel: &launch.kernel,
            workload: &it.workload,
            bucket: &it.bucket,
            isa: &it.isa,
            tier: &it.tier,
            artifact: &it.artifact,
            threads: it.threads,
        }
    }
}

/// Sums launches up, those first that take most time together.
pub(crate) fn rows(launches: &[Launch], roofline: Option<&Roofline>) -> Vec<Row> {
    let mut groups: BTreeMap<Key<'_>, Vec<&Launch>> = BTreeMap::new();
    for it in launches {
        groups.entry(Key::of(it)).or_default().push(it);
    }
    let all_us: f64 = launches.iter().map(|it| it.duration_us).sum();
    let names: Vec<(&str, &str)> = groups.keys().map(|it| (it.kernel, it.workload)).collect();
    let is_shared = |key: &Key<'_>| {
        names.iter().any(|(kernel, workload)| *kernel == key.kernel && *workload != key.workload)
    };
    let mut rows: Vec<Row> = groups
        .iter()
        .map(|(key, launches)| {
            let mut row = row(key, launches, roofline);
            row.share = if all_us > 0.0 { row.total_us / all_us } else { 0.0 };
            if is_shared(key) {
                let digits: String = key.workload.chars().take(DIGITS).collect();
                row.name = format!("{}_{digits}", row.name);
            }
            row
        })
        .collect();
    rows.sort_by(|a, b| b.total_us.total_cmp(&a.total_us));
    rows
}

fn row(key: &Key<'_>, launches: &[&Launch], roofline: Option<&Roofline>) -> Row {
    // Of a launch that the clock did not see, no rate is known.
    let timed = || launches.iter().filter(|it| it.duration_us > 0.0);
    // A billion operations and a million bytes, in a microsecond.
    let gflops = timed().filter_map(|it| Some(it.arguments.gflop? / it.duration_us * 1e6));
    let gbps = timed().filter_map(|it| Some(it.arguments.mbytes? / it.duration_us * 1e3));
    let of_peak = timed().filter_map(|it| {
        let (flops, bytes) = (it.arguments.gflop? * 1e9, it.arguments.mbytes? * 1e6);
        let least_us = roofline?.least_us(Work { flops, bytes }, it.arguments.threads?);
        Some(least_us / it.duration_us)
    });
    let bucket =
        key.bucket.iter().map(|(name, [lo, hi])| (name.as_str(), Interval { lo: *lo, hi: *hi }));
    Row {
        name: key.kernel.to_owned(),
        workload: key.workload.to_owned(),
        extents: ranges(bucket),
        isa: key.isa.to_owned(),
        tier: key.tier.to_owned(),
        artifact: key.artifact.to_owned(),
        threads: key.threads,
        launches: launches.len(),
        total_us: launches.iter().map(|it| it.duration_us).sum(),
        share: 0.0,
        median_us: median(launches.iter().map(|it| it.duration_us)).unwrap_or(0.0),
        gflops: median(gflops),
        gbps: median(gbps),
        roofline: median(of_peak),
        idle_us: median(launches.iter().filter_map(|it| it.arguments.idle_us)),
    }
}

/// Returns the median, the lower one of two; `None` of nothing.
fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len().saturating_sub(1) / 2).copied()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::read::Profile;

    /// An event as the runtime writes it.
    fn event(name: &str, workload: &str, us: f64, idle: &str) -> String {
        format!(
            "{{\"name\":\"{name}\",\"cat\":\"tvmtune\",\"ph\":\"X\",\"dur\":{us},\"ts\":1.5,\"pid\":1,\
             \"tid\":1,\"args\":{{\"dims\":{{\"M\":7}},\"bucket\":{{\"M\":[1,8]}},\"isa\":\"avx2\",\
             \"tier\":\"exact\",\"threads\":1,\"artifact\":\"0a\",\"workload\":\"{workload}\",\
             \"gflop\":0.002,\"mbytes\":0.01,\"gflops\":1,\"gbps\":1{idle}}}}},\n"
        )
    }

    fn profiled(events: &[String]) -> Vec<Row> {
        let text = format!("[\n{}", events.concat());
        rows(&Profile::read(text.as_bytes()).unwrap().launches, None)
    }

    #[test]
    fn launches_of_a_kernel_are_a_row() {
        let idle = |us| format!(",\"idle_us\":{us}");
        let found = profiled(&[
            event("small", "aaaaaaaaaa", 10.0, ""),
            event("large", "bbbbbbbbbb", 100.0, &idle(5)),
            event("large", "bbbbbbbbbb", 50.0, &idle(7)),
            event("large", "bbbbbbbbbb", 40.0, &idle(1000)),
        ]);
        let names: Vec<(&str, usize)> = found.iter().map(|it| (&*it.name, it.launches)).collect();
        assert_eq!(names, [("large", 3), ("small", 1)]);
        let Row { total_us, share, median_us, gflops, gbps, idle_us, .. } = found[0];
        assert_eq!((total_us, share, median_us), (190.0, 0.95, 50.0));
        // 2 million operations and 10,000 bytes in 50 us.
        assert_eq!((gflops, gbps, idle_us), (Some(40.0), Some(0.2), Some(7.0)));
        assert_eq!((found[1].idle_us, &*found[1].extents), (None, "M 1..=8"));
    }

    #[test]
    fn programs_of_one_name_are_told_apart() {
        let found = profiled(&[
            event("scale", "1234567890", 2.0, ""),
            event("scale", "abcdefabcd", 1.0, ""),
        ]);
        let names: Vec<&str> = found.iter().map(|it| &*it.name).collect();
        assert_eq!(names, ["scale_123456", "scale_abcdef"]);
    }

    #[test]
    fn the_median_of_two_is_the_lower_one() {
        assert_eq!(median([3.0, 1.0].into_iter()), Some(1.0));
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(median([].into_iter()), None);
    }
}

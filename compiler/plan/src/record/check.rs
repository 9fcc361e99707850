//! The invariants of records that types do not express.
//!
//! In: a record that was read. Out: the record, or why it cannot be true. A record may be anybody's, so
//! a build takes no longer over it than over one of ours, prints nothing of it that controls a terminal,
//! and believes no time that its device could not reach.

use tvmtune_ir::dag::{Dag, Dim};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{DeviceKey, Platform, Target};
use tvmtune_ir::workload::WorkloadId;
use tvmtune_space::lower_bound::{MIN_LAUNCH_NS, lower_bound_ns};

use super::{Accuracy, Ancestor, Bucket, Entry, Image, Measured, Record};
use crate::printable::is_control;

/// Schedules of a bucket, and primitives of a schedule, that no record has: twenty times those of the
/// longest that ships.
const MAX_SCHEDULES: usize = 256;
const MAX_TRACE: usize = 2000;
/// Bytes of one line that is for people, or of a primitive.
const MAX_LINE_BYTES: usize = 4096;

impl Record {
    /// Checks what types do not express.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        if WorkloadId::of(&self.dag) != self.workload {
            return Err("`workload` is not the hash of `dag`");
        }
        if self.schema < self.needed_schema() {
            return Err("it says more than records of its schema can");
        }
        if ![&self.provenance.tool, &self.provenance.host].into_iter().all(|it| is_line(it)) {
            return Err("`provenance` has control characters");
        }
        if self.provenance.peaks.is_some_and(|it| !it.is_possible()) {
            return Err("`peaks` are not positive numbers");
        }
        self.buckets.iter().try_for_each(|it| it.check(&self.device))?;
        self.check_times()
    }

    /// Checks that no launch took less than its program takes its device at least.
    fn check_times(&self) -> Result<(), &'static str> {
        let dag = self.dag.parse::<Dag>().ok();
        let device = Target::from_key(&self.device);
        for bucket in &self.buckets {
            let dag = dag.as_ref().filter(|it| it.dims.len() == bucket.dims.len());
            let is_in =
                |(dim, it): (&Dim, &Interval)| dim.range.lo <= it.lo && it.hi <= dim.range.hi;
            if dag.is_some_and(|it| !it.dims.iter().zip(&bucket.dims).all(is_in)) {
                return Err("a bucket is of other extents than its program");
            }
            let mut bound: Option<(Vec<i64>, f64)> = None;
            for measured in bucket.schedules.iter().filter_map(|it| it.measured.as_ref()) {
                let dims = extents(&bucket.dims, measured);
                if bound.as_ref().is_none_or(|it| it.0 != dims) {
                    let at = |(dag, device): (&Dag, Target)| lower_bound_ns(dag, &dims, &device);
                    let ns = dag.zip(device).map_or(0.0, at).max(MIN_LAUNCH_NS);
                    bound = Some((dims, ns));
                }
                if bound.as_ref().is_some_and(|it| measured.min_ns < it.1) {
                    return Err("a time is less than the program takes the device at least");
                }
            }
        }
        Ok(())
    }
}

/// Returns extents of the launches that were timed, or lesser ones.
fn extents(ranges: &[Interval], measured: &Measured) -> Vec<i64> {
    match measured.dims.is_empty() {
        true => ranges.iter().map(|it| it.lo).collect(),
        false => measured.dims.clone(),
    }
}

impl Bucket {
    fn check(&self, device: &DeviceKey) -> Result<(), &'static str> {
        if self.weight.is_some_and(|it| !it.is_finite() || it <= 0.0) {
            return Err("`weight` is not a positive number");
        }
        if !self.seconds.is_finite() || self.seconds < 0.0 {
            return Err("`seconds` is not a time");
        }
        if self.schedules.len() > MAX_SCHEDULES {
            return Err("it has more schedules than a record can");
        }
        let is_of_range = |it: &Measured| {
            let mut dims = it.dims.iter().zip(&self.dims);
            it.dims.is_empty()
                || it.dims.len() == self.dims.len()
                    && dims.all(|(n, it)| (it.lo..=it.hi).contains(n))
        };
        if !self.schedules.iter().filter_map(|it| it.measured.as_ref()).all(is_of_range) {
            return Err("a time is of other extents than its bucket");
        }
        self.schedules.iter().try_for_each(|it| it.check(device))
    }
}

impl Entry {
    fn check(&self, device: &DeviceKey) -> Result<(), &'static str> {
        if !self.platform.is_of(device) {
            return Err("`isa` is not what the device runs");
        }
        if self.trace.len() > MAX_TRACE || !self.trace.iter().all(|it| is_line(it)) {
            return Err("`trace` is not one of a schedule");
        }
        self.lineage.iter().try_for_each(Ancestor::check)?;
        self.accuracy.iter().try_for_each(Accuracy::check)?;
        let prepared = matches!(self.platform, Platform::Cuda(_));
        match &self.measured {
            Some(it) => it.check()?,
            None if prepared && !self.is_replayed() => {}
            None if self.is_replayed() => {
                return Err("`measured_code` is of a schedule without timings");
            }
            None if self.is_prediction() => {}
            None => return Err("a schedule for a CPU has no timings"),
        }
        let has_image = self.measured.as_ref().is_some_and(|it| it.image.is_some());
        if (has_image || !self.images.is_empty()) && !prepared {
            return Err("`image` is of a schedule that has none");
        }
        match self.images.iter().all(|it| (1..Image::TOO_LARGE).contains(&it.bytes)) {
            true => Ok(()),
            false => Err("`image` has no length that can be"),
        }
    }
}

impl Measured {
    fn check(&self) -> Result<(), &'static str> {
        let Self { min_ns, p10_ns, median_ns, p90_ns, .. } = *self;
        let sorted = [0.0, min_ns, p10_ns, median_ns, p90_ns, f64::INFINITY];
        if !sorted.is_sorted_by(|a, b| a <= b && a.is_finite()) || min_ns <= 0.0 {
            return Err("timings are not in order, 0 < min <= p10 <= median <= p90");
        }
        if self.error.is_some_and(|it| !it.is_finite() || it < 0.0) {
            return Err("`error` is not a share of the tolerance");
        }
        Ok(())
    }
}

impl Ancestor {
    fn check(&self) -> Result<(), &'static str> {
        if !self.median_ns.is_finite() || self.median_ns <= 0.0 {
            return Err("the time of an ancestor is not a positive number");
        }
        match self.moves.iter().all(|it| !it.is_empty() && is_line(it)) {
            true => Ok(()),
            false => Err("a move is not one line"),
        }
    }
}

fn is_line(text: &str) -> bool {
    text.len() <= MAX_LINE_BYTES && !text.chars().any(is_control)
}

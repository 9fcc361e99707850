//! Merging records of the same workload and device.
//!
//! Merging is how concurrent tuners lose nothing, and how databases are united. An order that
//! stands is only changed where the difference exceeds the noise, so that files do not churn.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;

use super::{Bucket, Entry, Image, Record, Source};
use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::target::Platform;

/// Schedules of one platform that a bucket keeps, besides the default one: seeds for
/// transfer and refinement on other devices.
pub const KEPT_PER_ISA: usize = 4;

/// Two records that do not speak of the same thing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("records of different {0} cannot be merged")]
pub struct Conflict(pub &'static str);

impl Record {
    /// Takes over what another record of the same workload and device knows better.
    ///
    /// Buckets of a newer code generator replace those of an older one: their timings are of other code.
    ///
    /// # Errors
    ///
    /// [`Conflict`] if the records are of different workloads (by hash and by text) or devices.
    pub fn merge(&mut self, other: Record) -> Result<(), Conflict> {
        let differs = [
            (self.workload != other.workload, "workloads"),
            (self.dag != other.dag, "workloads with the same hash"),
            (self.device != other.device, "devices"),
        ];
        if let Some((_, what)) = differs.into_iter().find(|(differs, _)| *differs) {
            return Err(Conflict(what));
        }
        match self.generator.cmp(&other.generator) {
            Ordering::Less => {
                let older = std::mem::replace(self, other);
                self.add_missing(older);
            }
            Ordering::Greater => self.add_missing(other),
            Ordering::Equal => {
                for bucket in other.buckets {
                    self.bucket_mut(&bucket.dims).merge(bucket);
                }
            }
        }
        Ok(())
    }

    /// Takes over the buckets of an older record that this one lacks: their traces can be replayed.
    fn add_missing(&mut self, older: Record) {
        for bucket in older.buckets {
            if self.bucket(&bucket.dims).is_none() {
                let dims = bucket.dims.clone();
                *self.bucket_mut(&dims) = bucket;
            }
        }
    }
}

impl Bucket {
    /// Takes over the schedules of another bucket of the same ranges, and the larger effort: the
    /// other may be an earlier state of this one, so efforts do not add up.
    ///
    /// Schedules of the other bucket keep their order: a session compares them side by side, at several
    /// extents, which says more than the recorded times.
    pub fn merge(&mut self, other: Bucket) {
        let mut earlier: Vec<(Platform, ArtifactId)> = Vec::new();
        self.trials = self.trials.max(other.trials);
        self.seconds = self.seconds.max(other.seconds);
        self.complete |= other.complete;
        self.weight = self.weight.or(other.weight);
        for entry in other.schedules {
            // Times of launches that found other operands in memory do not compare. Those of a release
            // that did not ask for it give way.
            let is_asked = |it: &Entry| it.measured.as_ref().is_some_and(|it| it.cold.is_some());
            let mut known = self.schedules.iter().filter(|it| it.platform == entry.platform);
            if is_asked(&entry) || !known.any(is_asked) {
                let code = (entry.platform, entry.artifact);
                self.drop_measured_otherwise(&entry);
                self.add_behind(entry, &|it| earlier.contains(&(it.platform, it.artifact)));
                earlier.push(code);
            }
        }
    }

    /// Drops schedules whose launches found other operands in memory than those of `entry` did: their
    /// times do not compare.
    pub fn drop_measured_otherwise(&mut self, entry: &Entry) {
        let Some(measured) = &entry.measured else { return };
        self.schedules.retain(|it| {
            it.platform != entry.platform
                || it.measured.as_ref().is_none_or(|it| it.cold == measured.cold)
        });
    }

    /// Takes over the result of a session that timed schedules of one platform side by side: they
    /// come first, in the order given. Of what was known before, only what the session did not
    /// measure is kept, at its place, and the images of what it did.
    pub fn supersede(
        &mut self,
        platform: impl Into<Platform>,
        session: Vec<Entry>,
        was_measured: &dyn Fn(&ArtifactId) -> bool,
    ) {
        let platform = platform.into();
        let before = std::mem::replace(&mut self.schedules, session);
        for entry in before {
            if entry.platform != platform || !was_measured(&entry.artifact) {
                // A prediction is of no use beside what was measured.
                if entry.platform != platform || !entry.is_prediction() {
                    self.add(entry);
                }
            } else if let Some(now) = self.schedules.iter_mut().find(|it| it.is_same_code(&entry)) {
                now.accuracy = now.accuracy.take().or(entry.accuracy);
                // It need not be the best any more to be of use.
                now.take_images(entry.images);
            }
        }
        self.tidy();
    }

    /// Adds a schedule at its place: before those that it clearly beats, after all others of its
    /// platform. The same code measured twice stays once, by its clearly faster timing, and with
    /// the images that were measured, or came last. Of schedules that were not measured, one stays.
    pub fn add(&mut self, entry: Entry) {
        self.add_behind(entry, &|_| false);
    }

    /// Adds a schedule as [`Bucket::add`] does, but behind those of its platform that come first.
    fn add_behind(&mut self, mut entry: Entry, comes_first: &dyn Fn(&Entry) -> bool) {
        if let Some(position) = self.schedules.iter().position(|it| it.is_same_code(&entry)) {
            let known = &mut self.schedules[position];
            // The same code has the same errors.
            let accuracy = entry.accuracy.take().or(known.accuracy.take());
            if !entry.goes_before(known) {
                known.accuracy = accuracy;
                let before = std::mem::replace(&mut known.images, entry.images);
                known.take_images(before);
                return;
            }
            entry.accuracy = accuracy;
            entry.take_images(std::mem::take(&mut known.images));
            self.schedules.remove(position);
        }
        let platform = entry.platform;
        if entry.measured.is_none() {
            self.schedules.retain(|it| it.platform != platform || it.measured.is_some());
        }
        let last = |is_it: &dyn Fn(&Entry) -> bool| {
            let of_platform = |it: &Entry| it.platform == platform && is_it(it);
            self.schedules.iter().rposition(of_platform).map(|it| it + 1)
        };
        let start = last(comes_first).unwrap_or(0);
        let beaten = |it: &Entry| it.platform == platform && entry.goes_before(it);
        let place = self.schedules.iter().skip(start).position(beaten).map(|it| it + start);
        let place = place.or(last(&|_| true));
        self.schedules.insert(place.unwrap_or(self.schedules.len()), entry);
        self.tidy();
    }

    /// Puts the widest platform first, and drops what is beyond the best few of each, but
    /// never the default schedule.
    fn tidy(&mut self) {
        self.schedules.sort_by_key(|it| Reverse(it.platform.lanes()));
        let mut n_kept = BTreeMap::new();
        self.schedules.retain(|it| {
            let n = n_kept.entry(it.platform).or_insert(0);
            let keep = it.source == Source::Default || *n < KEPT_PER_ISA;
            *n += usize::from(it.source != Source::Default);
            keep
        });
    }
}

impl Entry {
    /// Returns whether it is preferred to another: what was measured as it is goes before what only
    /// other code was measured of, however fast that was.
    fn goes_before(&self, other: &Entry) -> bool {
        match (self.is_replayed(), other.is_replayed()) {
            (false, true) => self.measured.is_some(),
            (true, false) if other.measured.is_some() => false,
            _ => self.clearly_beats(other),
        }
    }

    /// Takes over images of the same source, if it has none or if these were measured and its own were
    /// not.
    fn take_images(&mut self, images: Vec<Image>) {
        let is_better = !self.was_measured_by(&self.images) && self.was_measured_by(&images);
        if self.images.is_empty() || is_better {
            self.images = images;
        }
    }

    fn is_same_code(&self, other: &Entry) -> bool {
        self.platform == other.platform && self.artifact == other.artifact
    }
}

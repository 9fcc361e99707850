//! The record of a session: the best few schedules and the default one; for GPUs, the best with its
//! code.

use std::time::Duration;

use tvmtune_plan::database::{DatabaseError, Files, Wait};
use tvmtune_plan::record::{
    Ancestor, End, Entry, GENERATOR, KEPT_PER_ISA, Measured, Record, Source, schema,
};

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::name::ProgramName;
use tvmtune_space::operands;

use super::event::Event;
use super::options::Reuse;
use super::session::{Candidate, Session, lines, tenths};
use super::tuner::Tuner;

/// The time of waiting for the lock of the records when the budget is spent.
const LEAST_PATIENCE: Duration = Duration::from_secs(1);

impl Tuner<'_> {
    /// Records the best candidates of a session so far, or its final ranking.
    pub(super) fn save(
        &mut self,
        session: &Session,
        ranked: Option<&[Candidate]>,
    ) -> Result<(), DatabaseError> {
        let (options, database) = (self.options, self.database);
        let workload = &self.workloads[session.task.workload];
        let candidates: Vec<&Candidate> = match ranked {
            Some(ranked) => ranked.iter().collect(),
            None => session.good.iter().filter(|it| it.is_verified).collect(),
        };
        let former = ranked.and_then(<[_]>::first).and_then(|it| session.former_code(it));
        let is_behind = former.is_some_and(|it| it.is_faster);
        let mut entries = entries(session, &candidates);
        let mut files = Files::default();
        let warning = match (ranked.and_then(<[_]>::first), entries.first_mut()) {
            (Some(best), Some(entry)) => add_images(session, best, entry, &mut files),
            _ => None,
        };
        let fresh = Record {
            schema: schema(&self.device),
            workload: workload.id,
            name: ProgramName::of(&workload.dag.name),
            device: self.device.clone(),
            generator: GENERATOR,
            dag: workload.text.clone(),
            provenance: options.provenance.clone(),
            buckets: Vec::new(),
            end: End {},
        };
        // At the end of the budget too, a lock that others hold for an instant is waited for.
        let patience = self.time_left().max(LEAST_PATIENCE);
        let on_event = &mut *self.on_event;
        let mut on_wait = |it: Wait<'_>| {
            let whom = format!("{}, which writes records", it.holder);
            on_event(Event::Waiting { waited: it.waited, whom: &whom });
        };
        let path = database.update_with(&fresh, &files, patience, &mut on_wait, |record| {
            let bucket = record.bucket_mut(&session.task.bucket);
            // A bucket counts the effort for the device's own instruction set.
            let is_own = session.task.target() == options.device;
            let n_known = bucket.schedules.len();
            entries.first().into_iter().for_each(|it| bucket.drop_measured_otherwise(it));
            let n_of_question = bucket.schedules.len();
            bucket.schedules.retain(|it| !session.replaces(it));
            let lost_code = bucket.schedules.len() < n_of_question && session.formers.is_empty();
            if is_own && (n_of_question < n_known || lost_code) {
                // The search for another question does not count, nor one that found code which is gone,
                // unless that is timed beside the code of now.
                (bucket.trials, bucket.seconds, bucket.complete) = (0, 0.0, false);
            }
            if workload.weight != 1.0 {
                bucket.weight = Some(workload.weight);
            }
            if is_own {
                bucket.trials = bucket.trials.max(session.trials);
                bucket.seconds = bucket.seconds.max(tenths(session.spent.as_secs_f64()));
            }
            if ranked.is_some() {
                // Refining what others recorded is no search.
                let is_search = session.recipe == options.recipe;
                bucket.complete |= is_own && is_search && session.is_complete();
                let replaces_all = options.reuse == Reuse::Ignore;
                let was_measured =
                    |it: &ArtifactId| replaces_all || session.measured.contains_key(it);
                bucket.supersede(session.task.platform(), entries, &was_measured);
            } else {
                entries.into_iter().for_each(|it| bucket.add(it));
            }
            if is_own && is_behind {
                // Code of an earlier release was faster than all candidates.
                bucket.begin_anew();
            }
        })?;
        if let Some(what) = warning {
            (self.on_event)(Event::Warning { what });
        }
        (self.on_event)(Event::Saved { path });
        Ok(())
    }
}

/// Adds its compiled code to the entry of the best candidate, so that users of the record need no
/// compiler; returns a warning if that fails.
fn add_images(
    session: &Session,
    best: &Candidate,
    entry: &mut Entry,
    files: &mut Files,
) -> Option<String> {
    let task = &session.task;
    match task.builder.images(&task.dag, &best.trace, files) {
        Ok(images) => {
            entry.images = images;
            None
        }
        // The candidate was compiled before: this is about its portable twin, or a bug.
        Err(why) => Some(format!("{}: its code is not kept: {why}", task.name)),
    }
}

/// Rounds to a thousandth.
fn thousandths(share: f64) -> f64 {
    (share * 1000.0).round() / 1000.0
}

/// Returns the entries of a record: the best few candidates, and the default schedule.
fn entries(session: &Session, candidates: &[&Candidate]) -> Vec<Entry> {
    let default = candidates.iter().copied().find(|it| it.source == Source::Default);
    let ancestor = |it: &Candidate| Ancestor::new(it.source, tenths(it.timing.median_ns()));
    let dims: Vec<i64> = session.task.bucket.iter().map(|it| it.hi).collect();
    let conditions = |it: &Candidate| Measured {
        dims: dims.clone(),
        threads: it.threads,
        cold: operands::recorded(&session.task.cold, session.task.platform()),
        error: it.error.map(thousandths),
        image: it.job.image(),
        ..Measured::default()
    };
    let entry = |it: &Candidate| Entry {
        platform: session.task.platform(),
        artifact: it.artifact,
        measured_code: None,
        source: it.source,
        trace: lines(&it.trace),
        measured: Some(it.timing.to_measured(conditions(it))),
        accuracy: it.accuracy.clone(),
        lineage: if it.source == Source::Default {
            Vec::new()
        } else {
            default.map(ancestor).into_iter().chain(session.lineage(it)).collect()
        },
        images: Vec::new(),
    };
    let best = candidates.iter().copied().filter(|it| it.source != Source::Default);
    let mut kept: Vec<&Candidate> = best.take(KEPT_PER_ISA).chain(default).collect();
    kept.sort_by_key(|it| candidates.iter().position(|other| std::ptr::eq(*other, *it)));
    kept.into_iter().map(entry).collect()
}

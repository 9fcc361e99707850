//! What a session leaves in the database: the best few schedules and the default one, of the best
//! with its code for GPUs.

use tvmtune_plan::record::{Ancestor, End, Entry, GENERATOR, KEPT_PER_ISA, Record, Source, schema};

use super::event::Event;
use super::session::{Candidate, Session, lines};
use super::{TuneError, Tuner, round};
use tvmtune_plan::database::Files;

impl Tuner<'_> {
    /// Writes what a session found so far, or its final ranking.
    pub(super) fn save(
        &mut self,
        session: &Session,
        ranked: Option<&[Candidate]>,
    ) -> Result<(), TuneError> {
        let workload = &self.workloads[session.task.workload];
        let candidates = ranked.unwrap_or(&session.good);
        let mut entries = entries(session, candidates);
        let files = match (ranked.and_then(<[_]>::first), entries.first_mut()) {
            (Some(best), Some(entry)) => self.keep_code(session, best, entry),
            _ => Files::default(),
        };
        let fresh = Record {
            schema: schema(&self.device),
            workload: workload.id.clone(),
            name: workload.dag.name.clone(),
            device: self.device.clone(),
            generator: GENERATOR,
            dag: workload.text.clone(),
            provenance: self.options.provenance.clone(),
            buckets: Vec::new(),
            end: End {},
        };
        let path = self.database.update_with(&fresh, &files, |record| {
            let bucket = record.bucket_mut(&session.task.bucket);
            bucket.trials = bucket.trials.max(session.trials);
            bucket.seconds =
                bucket.seconds.max((session.spent.as_secs_f64() * 10.0).round() / 10.0);
            if ranked.is_some() {
                // Others get a share of the effort only.
                let is_first = session.task.target() == self.options.device();
                bucket.complete |= is_first && session.is_complete();
                let afresh = self.options.afresh;
                let was_measured = |it: &str| afresh || session.was_measured(it);
                bucket.supersede(session.task.platform(), entries, &was_measured);
            } else {
                entries.into_iter().for_each(|it| bucket.add(it));
            }
        })?;
        (self.on_event)(Event::Saved { path });
        Ok(())
    }

    /// Adds its code for GPUs to the entry of the best candidate, so that whoever gets the record
    /// needs no compiler.
    fn keep_code(&mut self, session: &Session, best: &Candidate, entry: &mut Entry) -> Files {
        let (task, mut files) = (&session.task, Files::default());
        match task.maker.images(&task.dag, &best.trace, &mut files) {
            Ok(images) => entry.images = images,
            // The candidate was compiled before: this is about its portable twin, or a bug.
            Err(why) => {
                let what = format!("{}: its code is not kept: {why}", task.name);
                (self.on_event)(Event::Warning { what });
            }
        }
        files
    }
}

/// Candidates as a record keeps them: the best few, and the default schedule.
fn entries(session: &Session, candidates: &[Candidate]) -> Vec<Entry> {
    let default = candidates.iter().find(|it| it.source == Source::Default);
    let ancestor = |it: &Candidate| Ancestor::new(it.source, round::tenths(it.timing.median_ns()));
    let dims: Vec<i64> = session.task.bucket.iter().map(|it| it.hi).collect();
    let entry = |it: &Candidate| Entry {
        platform: session.task.platform(),
        artifact: it.artifact.clone(),
        source: it.source,
        trace: lines(&it.trace),
        measured: Some(it.timing.to_measured(&dims, it.threads)),
        lineage: if it.source == Source::Default {
            Vec::new()
        } else {
            default.map(ancestor).into_iter().chain(session.lineage(it)).collect()
        },
        images: Vec::new(),
    };
    let best = candidates.iter().filter(|it| it.source != Source::Default).take(KEPT_PER_ISA);
    let mut kept: Vec<&Candidate> = best.chain(default).collect();
    kept.sort_by_key(|it| candidates.iter().position(|other| std::ptr::eq(other, *it)));
    kept.into_iter().map(entry).collect()
}

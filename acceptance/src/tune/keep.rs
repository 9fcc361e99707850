//! What a session leaves: every trial in a log, and records of the best schedules with their code.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use tvmtune_core::record::{Bucket, End, Entry, GENERATOR, Provenance, Record, schema};
use tvmtune_core::target::{GpuTarget, Platform};
use tvmtune_tuner::compile::Compiler;
use tvmtune_tuner::database::{Database, Files};
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::tune::{Stage, Trial, trials};

use super::task::{Candidate, Task};
use crate::item::Item;
use crate::protocol::Times;
use crate::results::unix_ms;

/// See the module.
pub(super) struct Keeper<'a> {
    out: PathBuf,
    target: GpuTarget,
    compiler: Compiler<'a>,
}

impl<'a> Keeper<'a> {
    /// Keeps things in a folder.
    pub(super) fn new(out: &Path, target: GpuTarget, compiler: Compiler<'a>) -> Self {
        Self { out: out.to_owned(), target, compiler }
    }

    pub(super) fn target(&self) -> &GpuTarget {
        &self.target
    }

    pub(super) fn compiler(&self) -> &Compiler<'a> {
        &self.compiler
    }

    /// What earlier sessions tried.
    pub(super) fn trials(&self, task: &Task) -> Vec<Trial> {
        let mut trials = trials(&self.log_path(&task.case, &task.id));
        trials.retain(|it| it.generator == GENERATOR && it.workload == task.id);
        trials
    }

    /// Adds a trial of a workload to its log.
    pub(super) fn log(
        &self,
        workload: &str,
        candidate: &Candidate,
        outcome: Outcome,
        seconds: f64,
    ) -> Result<()> {
        let Candidate { point, sketch, source, item, generate_ms, .. } = candidate;
        let trial = Trial {
            stage: Stage::Screen,
            parent: Vec::new(),
            slowdown: 1.0,
            workload: workload.to_owned(),
            generator: GENERATOR,
            bucket: Vec::new(),
            isa: self.target.arch.to_string(),
            source: *source,
            sketch: sketch.clone(),
            choices: point.choices.clone(),
            trace: item.trace.clone(),
            artifact: item.artifact.clone(),
            outcome,
            generate_ms: *generate_ms,
            measure_ms: seconds * 1e3,
            unix_ms: unix_ms(),
        };
        let path = self.log_path(&item.case, workload);
        fs::create_dir_all(path.parent().unwrap_or(&self.out))?;
        let mut file = File::options().create(true).append(true).open(&path)?;
        // A line of its own, whatever a kill left of the last one.
        Ok(file.write_all(format!("\n{}", serde_json::to_string(&trial)?).as_bytes())?)
    }

    fn log_path(&self, case: &str, workload: &str) -> PathBuf {
        self.out.join(format!("trials/{case}-{}.jsonl", &workload[..12]))
    }

    /// Records a schedule that was measured thoroughly, with its code for this architecture and,
    /// as PTX, for later ones.
    pub(super) fn record(&self, task: &Task, item: &Item, times: &Times) -> Result<()> {
        let generated = item.generate(&task.problem.dag).map_err(anyhow::Error::msg)?;
        let mut files = Files::default();
        let source = (&*format!("{}.cu", task.case), &*generated.unit.source);
        let images = self.compiler.images(source, self.target.arch, &mut files)?;
        let device = self.target.key();
        let timing = Timing::new(times.samples_ns.clone());
        let entry = Entry {
            platform: Platform::Cuda(self.target.arch),
            artifact: item.artifact.clone(),
            source: item.source,
            trace: item.trace.clone(),
            measured: timing.map(|it| it.to_measured(&[], 1)),
            lineage: Vec::new(),
            images,
        };
        let bucket = Bucket {
            dims: Vec::new(),
            trials: task.trials,
            seconds: task.seconds,
            complete: false,
            schedules: vec![entry],
        };
        let record = Record {
            schema: schema(&device),
            workload: task.id.clone(),
            name: task.problem.dag.name.clone(),
            device,
            generator: GENERATOR,
            dag: task.text.clone(),
            provenance: Provenance {
                tool: concat!("tvmtune ", env!("CARGO_PKG_VERSION")).to_owned(),
                host: std::env::consts::ARCH.to_owned(),
            },
            buckets: vec![bucket],
            end: End {},
        };
        Database::accept(&self.out.join("records"), &record, &files)?;
        Ok(())
    }
}

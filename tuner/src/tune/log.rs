//! The log of all trials, append-only: interrupted sessions resume from it, and cost models are trained
//! on it.
//!
//! One JSON object a line, in `<cache>/v1/trials/<program>/<workload>.<device>.jsonl`. A truncated
//! line, or one of another version, is skipped.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::DeviceKey;
use tvmtune_ir::workload::WorkloadId;
use tvmtune_plan::database::{Cache, folder_name};
use tvmtune_plan::read::{self, limit};
use tvmtune_plan::record::Source;

use super::session::lines;
use crate::measure::Replay;
use crate::outcome::Outcome;
use crate::space::{Point, Space};

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// The workload's identity.
    pub workload: String,
    /// The version of the code generator.
    pub generator: u32,
    /// The ranges of the dynamic dimensions, as pairs of ends.
    pub bucket: Vec<(i64, i64)>,
    /// The instruction set, or the architecture of a GPU.
    pub isa: String,
    /// The strategy that proposed it.
    pub source: Source,
    /// The stage in which it was measured.
    #[serde(default)]
    pub stage: Stage,
    /// The name of the sketch; empty for the default schedule.
    pub sketch: String,
    /// The options of the sketch's decisions.
    pub choices: Vec<u16>,
    /// The options of the point that it is a neighbor of; empty if there is none.
    #[serde(default)]
    pub parent: Vec<u16>,
    /// The primitives, one a line.
    pub trace: Vec<String>,
    /// The code's identity; empty if there was none.
    pub artifact: String,
    /// Its outcome.
    pub outcome: Outcome,
    /// The parameters that its launches found in memory, as records name them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cold: Option<Vec<u32>>,
    /// The slowdown of the machine since the task began; large ones are corrected in the outcome.
    #[serde(default = "one")]
    pub slowdown: f64,
    /// Wall time of building its code.
    pub generate_ms: f64,
    /// Wall time of measuring it.
    pub measure_ms: f64,
    /// The time of the trial, in ms since 1970.
    pub unix_ms: u64,
    /// The seed of its session: two sessions may try the same thing, in one millisecond and as fast.
    #[serde(default)]
    pub seed: u64,
}

/// The stage in which a candidate was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Screening: few samples, given up early if it is slow.
    #[default]
    Screen,
    /// A comparison side by side.
    Compare,
}

impl Trial {
    /// Returns its point, if a space still has it with the same trace.
    pub fn point(&self, space: &Space) -> Option<Point> {
        let sketch = space.sketches.iter().position(|it| it.name == self.sketch)?;
        let decisions = &space.sketches[sketch].decisions;
        let fits = decisions.len() == self.choices.len()
            && decisions.iter().zip(&self.choices).all(|(it, n)| (*n as usize) < it.options.len());
        let point = Point { sketch: sketch as u16, choices: self.choices.clone() };
        (fits && lines(&space.instructions(&point)) == self.trace).then_some(point)
    }
}

fn one() -> f64 {
    1.0
}

/// The log of one workload on one device.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: Option<File>,
}

impl Log {
    /// Creates the log of a file, which is opened when first written.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Appends a trial.
    pub(super) fn append(&mut self, trial: &Trial) -> std::io::Result<()> {
        if self.file.is_none() {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
            if self.path.exists() {
                // Whatever else stands there is not written to.
                read::open(&self.path)?;
            }
            let mut file = File::options().create(true).append(true).read(true).open(&self.path)?;
            // A truncated last line must not merge with the next one.
            if !ends_with_newline(&mut file)? {
                file.write_all(b"\n")?;
            }
            self.file = Some(file);
        }
        let mut line = serde_json::to_vec(trial)?;
        line.push(b'\n');
        // In one call, so that lines of two processes do not mix.
        self.file.as_mut().map_or(Ok(()), |it| it.write_all(&line))
    }
}

/// Tells if a file ends with a newline, or is empty.
fn ends_with_newline(file: &mut File) -> std::io::Result<bool> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(true);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == [b'\n'])
}

/// Returns the file of the trials of a workload on a device.
pub fn log_file(
    cache: &Cache,
    program: &str,
    workload: &WorkloadId,
    device: &DeviceKey,
) -> PathBuf {
    let (id, device) = (workload.0.short(), device.file_stem());
    cache.trials().join(folder_name(program)).join(format!("{id}.{device}.jsonl"))
}

/// Appends trials of another machine to a log, without those that it has; returns how many it had not.
///
/// # Errors
///
/// Those of the system, where the log can't be written.
pub fn add_trials(path: &Path, trials_there: &[Trial]) -> std::io::Result<usize> {
    let known = trials(path).iter().map(serde_json::to_string).collect::<Result<Vec<_>, _>>()?;
    let mut known: BTreeSet<String> = known.into_iter().collect();
    let (mut log, mut n_added) = (Log::new(path.to_owned()), 0);
    for trial in trials_there {
        if known.insert(serde_json::to_string(trial)?) {
            log.append(trial)?;
            n_added += 1;
        }
    }
    Ok(n_added)
}

/// Reads the trials of a log, in order; of a long one, the last.
pub fn trials(path: &Path) -> Vec<Trial> {
    let bytes = read::last_lines(path, limit::LOG).unwrap_or_default();
    let lines = bytes.split(|it| *it == b'\n');
    lines.filter_map(|it| serde_json::from_slice(it).ok()).collect()
}

/// Creates a replay of logged trials.
pub fn replay(trials: &[Trial]) -> Replay {
    let mut replay = Replay::default();
    for it in trials {
        match (it.stage, &it.outcome) {
            (Stage::Compare, Outcome::Timed(timing)) => replay.add_compared(&it.artifact, timing),
            (_, outcome) => replay.add_screened(&it.artifact, outcome),
        }
    }
    replay
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trial(n: u64) -> Trial {
        Trial {
            workload: "ab".repeat(32),
            generator: 1,
            bucket: vec![(1, 16)],
            isa: "avx2".to_owned(),
            source: Source::Random,
            stage: Stage::Compare,
            sketch: "tile".to_owned(),
            choices: vec![1, 2],
            parent: vec![1, 1],
            cold: None,
            slowdown: 1.5,
            trace: vec!["inline s0".to_owned()],
            artifact: "00".to_owned(),
            outcome: Outcome::TimedOut,
            generate_ms: 1.0,
            measure_ms: 2.0,
            unix_ms: n,
            seed: 7,
        }
    }

    #[test]
    fn a_log_that_was_cut_off_loses_one_trial() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("op/log.jsonl");
        let mut log = Log::new(path.clone());
        (0..3).for_each(|n| log.append(&trial(n)).unwrap());
        assert_eq!(trials(&path), [trial(0), trial(1), trial(2)]);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, &text[..text.len() - 10]).unwrap();
        Log::new(path.clone()).append(&trial(3)).unwrap();
        assert_eq!(trials(&path), [trial(0), trial(1), trial(3)]);
    }

    #[test]
    fn trials_of_another_machine_are_added_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("op/log.jsonl");
        Log::new(path.clone()).append(&trial(0)).unwrap();
        let of_another_session = Trial { seed: 8, ..trial(2) };
        let there = [trial(0), trial(1), trial(1), trial(2), of_another_session.clone()];
        assert_eq!(add_trials(&path, &there).unwrap(), 3);
        assert_eq!(trials(&path), [trial(0), trial(1), trial(2), of_another_session]);
        assert_eq!(add_trials(&path, &there).unwrap(), 0);
        assert_eq!(trials(&path).len(), 4);
    }

    #[test]
    fn no_log_is_no_trials() {
        assert!(trials(Path::new("there/is/none")).is_empty());
    }
}

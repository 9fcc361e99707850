//! Every trial, in a file that only grows: what a session that was interrupted goes on from, and
//! what cost models learn from.
//!
//! One JSON object a line, in `<cache>/v1/trials/<program>/<workload>.<device>.jsonl`. A line that
//! was cut off, or that another version wrote, is passed over.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tvmtune_plan::record::Source;

use crate::measure::Replayed;
use crate::outcome::Outcome;

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
    /// Who proposed it.
    pub source: Source,
    /// What it was measured for.
    #[serde(default)]
    pub stage: Stage,
    /// The sketch, by name, and the options of its decisions; empty for the default schedule.
    pub sketch: String,
    /// See `sketch`.
    pub choices: Vec<u16>,
    /// The options of the point of the same sketch that it was made of by one move; empty if there
    /// is none.
    #[serde(default)]
    pub parent: Vec<u16>,
    /// The primitives, one a line.
    pub trace: Vec<String>,
    /// The code's identity; empty if there was none.
    pub artifact: String,
    /// What became of it.
    pub outcome: Outcome,
    /// How many times as slow the machine was as at the beginning; large ones are accounted for in
    /// the outcome.
    #[serde(default = "one")]
    pub slowdown: f64,
    /// Wall time to make its code.
    pub generate_ms: f64,
    /// Wall time to measure it.
    pub measure_ms: f64,
    /// When, in ms since 1970.
    pub unix_ms: u64,
}

/// What a candidate was measured for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// To see how it ranks: few samples, given up if it is slow.
    #[default]
    Screen,
    /// To decide between it and another one, side by side.
    Compare,
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
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, file: None }
    }

    /// Appends a trial.
    pub(super) fn append(&mut self, trial: &Trial) -> std::io::Result<()> {
        if self.file.is_none() {
            fs::create_dir_all(self.path.parent().unwrap_or(Path::new(".")))?;
            let mut file = File::options().create(true).append(true).read(true).open(&self.path)?;
            // What a kill cut off must not swallow the next line.
            if !ends_with_newline(&self.path) {
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

fn ends_with_newline(path: &Path) -> bool {
    fs::read(path).is_ok_and(|it| it.last().is_none_or(|last| *last == b'\n'))
}

/// The trials in a log, in order.
pub fn trials(path: &Path) -> Vec<Trial> {
    let Ok(file) = File::open(path) else { return Vec::new() };
    let lines = BufReader::new(file).lines().map_while(Result::ok);
    lines.filter_map(|it| serde_json::from_str(&it).ok()).collect()
}

/// Hardware that answers as a log says.
pub fn replayed(trials: &[Trial]) -> Replayed {
    let answer = |it: &Trial| (it.artifact.clone(), it.outcome.clone(), it.stage == Stage::Compare);
    Replayed::new(trials.iter().map(answer))
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
            slowdown: 1.5,
            trace: vec!["inline s0".to_owned()],
            artifact: "00".to_owned(),
            outcome: Outcome::TimedOut,
            generate_ms: 1.0,
            measure_ms: 2.0,
            unix_ms: n,
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
    fn no_log_is_no_trials() {
        assert!(trials(Path::new("there/is/none")).is_empty());
    }
}

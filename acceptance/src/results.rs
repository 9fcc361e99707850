//! Results in an append-only file: one JSON object a line, written as soon as it is known.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use tvmtune_tuner::measure::Gpu;

use crate::candidate::Candidate;
use crate::evaluation::Evaluation;

/// The name of the file in the folder of results.
const FILE: &str = "results.jsonl";

/// A line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Line {
    /// A run began on this machine.
    Began {
        /// The time, in ms since 1970.
        unix_ms: u64,
        /// The properties of the device, from the driver.
        device: Gpu,
        /// The properties of the device, from `nvidia-smi`.
        facts: Vec<(String, String)>,
        /// Other processes on the GPU.
        others: Vec<String>,
    },
    /// The evaluation of a candidate.
    Tried {
        /// The time, in ms since 1970.
        unix_ms: u64,
        /// The candidate.
        #[serde(rename = "item")]
        candidate: Box<Candidate>,
        /// Its evaluation.
        #[serde(rename = "outcome")]
        evaluation: Evaluation,
    },
}

/// The file.
pub struct Results {
    path: PathBuf,
    lines: Vec<Line>,
}

impl Results {
    /// Opens the file in a folder, which is created if need be, with its lines so far. A line that
    /// was cut off is skipped.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn open(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("`{}`", folder.display()))?;
        let path = folder.join(FILE);
        let text = fs::read_to_string(&path).unwrap_or_default();
        if !text.is_empty() && !text.ends_with('\n') {
            append(&path, "\n")?;
        }
        let lines = text.lines().filter_map(|it| serde_json::from_str(it).ok()).collect();
        Ok(Self { path, lines })
    }

    /// Adds a line.
    ///
    /// # Errors
    ///
    /// If the system refuses.
    pub fn add(&mut self, line: Line) -> Result<()> {
        append(&self.path, &format!("{}\n", serde_json::to_string(&line)?))?;
        self.lines.push(line);
        Ok(())
    }

    /// Returns the last evaluation of a candidate.
    pub fn evaluation(&self, candidate: &Candidate) -> Option<&Evaluation> {
        let tried = self.tried().filter(|(it, _)| it.is_same(candidate));
        tried.last().map(|(_, evaluation)| evaluation)
    }

    /// Returns all candidates with their evaluations.
    pub fn tried(&self) -> impl Iterator<Item = (&Candidate, &Evaluation)> {
        self.lines.iter().filter_map(|it| match it {
            Line::Tried { candidate, evaluation, .. } => Some((&**candidate, evaluation)),
            Line::Began { .. } => None,
        })
    }
}

impl Candidate {
    /// Returns whether this is the same candidate for the same goal.
    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.goal, it.case.clone(), it.dims.clone(), it.artifact.clone());
        key(self) == key(other)
    }
}

fn append(path: &Path, text: &str) -> Result<()> {
    let mut file = File::options().create(true).append(true).open(path)?;
    Ok(file.write_all(text.as_bytes())?)
}

/// Now, in ms since 1970.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_cut_off_loses_one_result() {
        let folder = tempfile::tempdir().unwrap();
        let candidate: Candidate = serde_json::from_str(
            r#"{"goal":"check","case":"a","dims":"","source":"default","trace":[],"artifact":"0",
                "image":"","predicted":null,"flops":0.0,"bytes":0.0}"#,
        )
        .unwrap();
        let tried = |artifact: &str| {
            let candidate =
                Box::new(Candidate { artifact: artifact.to_owned(), ..candidate.clone() });
            Line::Tried { unix_ms: 1, candidate, evaluation: Evaluation::Right(2) }
        };
        let mut results = Results::open(folder.path()).unwrap();
        results.add(tried("1")).unwrap();
        results.add(tried("2")).unwrap();
        let path = folder.path().join(FILE);
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.contains("\"item\":{") && text.contains("\"outcome\":{"), "as stored: {text}");
        fs::write(&path, &text[..text.len() - 5]).unwrap();
        Results::open(folder.path()).unwrap().add(tried("3")).unwrap();
        let results = Results::open(folder.path()).unwrap();
        let known = |it: &str| {
            results
                .evaluation(&Candidate { artifact: it.to_owned(), ..candidate.clone() })
                .is_some()
        };
        assert_eq!(["1", "2", "3"].map(known), [true, false, true]);
    }
}

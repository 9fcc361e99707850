//! One case of a section: its random numbers, its input as far as that is known, and what is counted.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use tempfile::TempDir;
use tvmtune_tuner::random::Random;

/// One case.
pub struct Case {
    /// Which one, counted from 0.
    pub number: u64,
    /// Where all that is random about the case comes from.
    pub random: Random,
    inputs: Vec<Input>,
    counts: BTreeMap<String, u64>,
    save_to: Option<PathBuf>,
    folder: Option<TempDir>,
}

/// A part of a case's input, by the name of the file that it is saved as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Input {
    /// The name of a file.
    pub name: String,
    /// The content.
    pub bytes: Vec<u8>,
}

impl Case {
    /// Returns the case of a section with that number.
    ///
    /// Inputs are written to `save_to`, if given, as soon as they are known: the case may end the
    /// process.
    pub fn new(section: &str, seed: u64, number: u64, save_to: Option<PathBuf>) -> Self {
        // FNV-1a, so that sections don't draw the same numbers.
        let hash = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        let of_section = section.bytes().fold(0xcbf2_9ce4_8422_2325, hash);
        let random = Random::new(seed).fork(of_section).fork(number);
        let (inputs, counts) = (Vec::new(), BTreeMap::new());
        Self { number, random, inputs, counts, save_to, folder: None }
    }

    /// Draws a value of a strategy.
    ///
    /// # Panics
    ///
    /// If the strategy rejects all that it draws.
    pub fn draw<S: Strategy>(&mut self, strategy: &S) -> S::Value {
        let mut seed = [0; 32];
        for part in seed.chunks_exact_mut(8) {
            part.copy_from_slice(&self.random.bits().to_le_bytes());
        }
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
        let mut runner = TestRunner::new_with_rng(Config::default(), rng);
        strategy.new_tree(&mut runner).expect("strategies of sections reject little").current()
    }

    /// Draws one of some values.
    ///
    /// # Panics
    ///
    /// If there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.random.below(from.len())]
    }

    /// Notes a part of the input, to be saved if the case finds something. Call it before anything that
    /// may fail is done with the input.
    pub fn input(&mut self, name: &str, content: impl Into<Vec<u8>>) {
        let input = Input { name: name.to_owned(), bytes: content.into() };
        if let Some(folder) = &self.save_to {
            // A case that can't be saved is still checked, and known by its number.
            let _ = save(folder, &input);
        }
        self.inputs.push(input);
    }

    /// Counts something that a case is, does or reaches, so that the report has the share of cases.
    pub fn count(&mut self, what: impl Into<String>) {
        *self.counts.entry(what.into()).or_default() += 1;
    }

    /// Returns a folder of the case alone, empty at first, which is removed with the case.
    ///
    /// # Panics
    ///
    /// If the system has no room for temporary files.
    pub fn folder(&mut self) -> &Path {
        let folder =
            || tempfile::Builder::new().prefix("campaign-").tempdir().expect("a temporary folder");
        self.folder.get_or_insert_with(folder).path()
    }

    /// Returns the input as far as it is known.
    pub fn inputs(&self) -> &[Input] {
        &self.inputs
    }

    /// Returns what was counted.
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }
}

/// Writes a part of an input to a folder.
///
/// # Errors
///
/// Where the file cannot be written.
pub fn save(folder: &Path, input: &Input) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    fs::write(folder.join(&input.name), &input.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_case_depends_on_section_seed_and_number_alone() {
        let draw = |section, seed, number| Case::new(section, seed, number, None).random.bits();
        assert_eq!(draw("a", 1, 2), draw("a", 1, 2));
        assert_ne!(draw("a", 1, 2), draw("b", 1, 2));
        assert_ne!(draw("a", 1, 2), draw("a", 2, 2));
        assert_ne!(draw("a", 1, 2), draw("a", 1, 3));
        let strategy = proptest::num::u64::ANY;
        let value = |number| Case::new("a", 1, number, None).draw(&strategy);
        assert_eq!(value(4), value(4));
        assert_ne!(value(4), value(5));
    }

    #[test]
    fn inputs_are_saved_as_soon_as_they_are_known() {
        let folder = tempfile::tempdir().unwrap();
        let mut case = Case::new("a", 1, 2, Some(folder.path().join("case")));
        case.input("program.rs", "fn f() {}");
        assert_eq!(fs::read(folder.path().join("case/program.rs")).unwrap(), b"fn f() {}");
    }
}

//! Value functions in files, with what they were trained on.
//!
//! # Invariant
//!
//! - Nothing in a file is believed that could stop a build, or take it long: sizes, numbers and trees are
//!   checked when it is read.

use std::path::Path;

use serde::{Deserialize, Serialize};
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_plan::database::{DatabaseError, atomic};
use tvmtune_plan::printable::is_control;
use tvmtune_plan::read::{self, limit};

use super::choose::Policy;
use super::function::ValueFunction;
use crate::cost::features::FEATURES;

/// The version of the file.
const VERSION: u32 = 1;
/// Prefixes that are followed at once, at most: a wider search takes too long.
const MAX_WIDTH: usize = 64;
/// The largest gain that is asked for.
const MAX_MARGIN: f64 = 10.0;
/// The factor by which threads and caches of a device may differ from those seen in training.
const MAX_FACTOR: f64 = 2.0;

/// A trained function, with how it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValueModel {
    #[serde(flatten)]
    head: Head,
    /// The origin of the training data, for people.
    pub provenance: TrainedOn,
    /// The devices that it was trained on.
    pub devices: Vec<DeviceNumbers>,
    /// The choice of a schedule by its values.
    pub policy: Policy,
    /// The function.
    pub function: ValueFunction,
}

/// The head of the file; newer versions may have other fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    version: u32,
    features: u32,
}

/// The origin of training data, and the result of judging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedOn {
    /// The tool and its version.
    pub tool: String,
    /// The machine, as its operating system describes it.
    pub host: String,
    /// Programs, a bucket and instruction set each.
    pub n_programs: usize,
    /// Trials of all of them.
    pub n_trials: usize,
    /// The latency of the schedules that were chosen for programs held out from training, relative to that
    /// of their default schedules, as timed side by side: a geometric mean with its interval of 95 %.
    pub held_out: [f64; 3],
}

/// The numbers of a CPU by which it is like another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeviceNumbers {
    lanes: u32,
    threads: u32,
    l1_bytes: u64,
    l2_bytes: u64,
}

/// The error of reading or writing a file.
#[derive(Debug, thiserror::Error)]
pub enum ValueModelError {
    /// The file could not be read or written.
    #[error(transparent)]
    File(#[from] DatabaseError),
    /// The text is not a value function.
    #[error("no value function: {0}; train it anew by `cargo tvmtune train`")]
    Mangled(String),
    /// Another version wrote it, or one that saw other features.
    #[error(
        "a value function of version {version} with features {features}, expected {VERSION} and \
         {FEATURES}; train it anew by `cargo tvmtune train`"
    )]
    Version {
        /// The version of the file.
        version: u32,
        /// The version of the features.
        features: u32,
    },
}

impl ValueModel {
    /// The name of the file for CPUs in the database of a package.
    pub const FILE_NAME: &str = "value-cpu.json";

    /// Creates a model.
    pub fn new(
        function: ValueFunction,
        policy: Policy,
        mut devices: Vec<DeviceNumbers>,
        provenance: TrainedOn,
    ) -> Self {
        devices.sort_by_key(|it| (it.lanes, it.threads, it.l1_bytes, it.l2_bytes));
        devices.dedup();
        let head = Head { version: VERSION, features: FEATURES };
        Self { head, provenance, devices, policy, function }
    }

    /// Returns whether it was trained on devices like this one: with the same vectors, and about as many
    /// threads and as large caches. Else nothing is known of its predictions.
    pub fn knows(&self, device: &Target) -> bool {
        let Target::Cpu(cpu) = device else { return false };
        let asked = DeviceNumbers::of(cpu);
        let seen = |of: fn(&DeviceNumbers) -> f64| {
            let all = self.devices.iter().filter(|it| it.lanes == asked.lanes).map(of);
            let (least, most) =
                all.fold((f64::INFINITY, 0.0_f64), |(a, b), it| (a.min(it), b.max(it)));
            (least / MAX_FACTOR..=most * MAX_FACTOR).contains(&of(&asked))
        };
        seen(|it| f64::from(it.threads))
            && seen(|it| it.l1_bytes as f64)
            && seen(|it| it.l2_bytes as f64)
    }

    /// Writes it to a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), ValueModelError> {
        let mut text =
            serde_json::to_vec(self).map_err(|it| ValueModelError::Mangled(it.to_string()))?;
        text.push(b'\n');
        Ok(atomic::write(path, &text)?)
    }

    /// Reads a file.
    ///
    /// # Errors
    ///
    /// If there is no such file, or no function of this version in it.
    pub fn load(path: &Path) -> Result<Self, ValueModelError> {
        let text = read::bytes(path, limit::VALUE_MODEL)
            .map_err(|it| DatabaseError::io("read", path, it))?;
        let mangled = |it: serde_json::Error| ValueModelError::Mangled(it.to_string());
        let Head { version, features } = serde_json::from_slice(&text).map_err(mangled)?;
        if (version, features) != (VERSION, FEATURES) {
            return Err(ValueModelError::Version { version, features });
        }
        let model: Self = serde_json::from_slice(&text).map_err(mangled)?;
        model.check().map_err(|it| ValueModelError::Mangled(it.to_owned()))?;
        Ok(model)
    }

    fn check(&self) -> Result<(), &'static str> {
        let Policy { width, margin } = self.policy;
        if !(1..=MAX_WIDTH).contains(&width) || !(0.0..=MAX_MARGIN).contains(&margin) {
            return Err("its policy is out of range");
        }
        if !self.function.is_sound() {
            return Err("its rows have another length");
        }
        let lines = [&self.provenance.tool, &self.provenance.host];
        match lines.into_iter().any(|it| it.chars().any(is_control)) {
            true => Err("its provenance has control characters"),
            false => Ok(()),
        }
    }
}

impl DeviceNumbers {
    /// Returns the numbers of a CPU.
    pub fn of(cpu: &CpuTarget) -> Self {
        let CpuTarget { isa, threads, l1_bytes, l2_bytes, .. } = *cpu;
        Self { lanes: isa.lanes(), threads, l1_bytes, l2_bytes }
    }
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::target::Isa;

    use super::*;
    use crate::cost::gbdt::Objective;
    use crate::value::tests::trained;

    fn model() -> ValueModel {
        let cpu = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) };
        let provenance = TrainedOn {
            tool: "tvmtune".to_owned(),
            host: "a test".to_owned(),
            n_programs: 1,
            n_trials: 400,
            held_out: [0.9, 0.8, 1.0],
        };
        let policy = Policy { width: 4, margin: 0.05 };
        ValueModel::new(trained(Objective::Mean), policy, vec![DeviceNumbers::of(&cpu)], provenance)
    }

    #[test]
    fn a_file_restores_a_value_function() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ValueModel::FILE_NAME);
        model().save(&path).unwrap();
        assert_eq!(ValueModel::load(&path).unwrap(), model());
    }

    #[test]
    fn devices_unlike_those_of_training_are_not_known() {
        let model = model();
        let knows = |cpu: CpuTarget| model.knows(&cpu.into());
        let seen = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) };
        assert!(knows(seen) && knows(CpuTarget { threads: 4, ..seen }));
        assert!(knows(CpuTarget { l2_bytes: 2 * seen.l2_bytes, ..seen }));
        assert!(!knows(CpuTarget { threads: 8, ..seen }));
        assert!(!knows(CpuTarget { l2_bytes: 5 * seen.l2_bytes, ..seen }));
        assert!(!knows(CpuTarget { isa: Isa::Avx512, ..seen }));
    }

    #[test]
    fn files_of_other_versions_and_hostile_ones_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(ValueModel::FILE_NAME);
        let load = |text: &str| {
            std::fs::write(&path, text).unwrap();
            ValueModel::load(&path)
        };
        assert!(matches!(ValueModel::load(&path), Err(ValueModelError::File(_))));
        model().save(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let newer = load(&text.replace("\"version\":1", "\"version\":2"));
        assert!(matches!(newer, Err(ValueModelError::Version { version: 2, .. })), "{newer:?}");
        for (from, to) in [
            ("\"margin\":0.05", "\"margin\":-1"),
            ("\"width\":4", "\"width\":4000000"),
            ("a test", "a \\u001b[2J test"),
            ("\"width\":175", "\"width\":174"),
            ("\"policy\"", "\"politics\""),
        ] {
            let hostile = text.replacen(from, to, 1);
            assert_ne!(hostile, text, "{from}");
            let loaded = load(&hostile);
            assert!(matches!(loaded, Err(ValueModelError::Mangled(_))), "{to}: {loaded:?}");
        }
        let cut = load(&text[..text.len() / 2]);
        assert!(matches!(cut, Err(ValueModelError::Mangled(_))), "{cut:?}");
    }
}

//! `tvmtune.toml`: the configuration of a crate, which its author commits.
//!
//! ```toml
//! schema = 1
//! numerics = "fixed"             # for ops that say nothing of theirs
//!
//! [policy]
//! require = ["avx512", "sm_90a"] # what `cargo tvmtune check` insists on
//!
//! [targets]
//! cuda = ["native", "sm_80"]     # embed code for these GPUs; otherwise for those of the records
//!
//! [budget]
//! trials = 200                   # for each kernel
//! per_kernel = "20s"
//! total = "10m"                  # for all of the crate
//!
//! [weights]
//! mlp_down = 12                  # how often a kernel runs, relative to others
//! ```
//!
//! `docs/configuration.md` describes each key for users.

mod keys;

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize};
use tvmtune_ir::dag::Numerics;
use tvmtune_ir::target::Platform;
use tvmtune_ir::target::gpu::Arch;
use tvmtune_plan::of_crate::CONFIG_FILE;
use tvmtune_plan::read::{self, limit};
use tvmtune_plan::record::SearchLimits;

pub use crate::error::ConfigError;
pub use keys::keys;

use crate::error::{Error, ErrorKind};

/// The file's name, beside `Cargo.toml`.
pub const FILE_NAME: &str = CONFIG_FILE;

/// The version of the file that this build reads.
const SCHEMA: u32 = 1;

/// The content of `tvmtune.toml`; without a file, the defaults.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The version of the format.
    schema: Option<u32>,
    /// The numerics of programs whose attributes say none; the macro reads them itself.
    #[serde(deserialize_with = "numerics")]
    pub numerics: Numerics,
    /// The requirements of a release.
    pub policy: Policy,
    /// The targets of embedded code.
    pub targets: Targets,
    /// The limits of tuning.
    pub budget: Limits,
    /// How often kernels run, relative to others, by their names; before what attributes say.
    #[serde(deserialize_with = "weights")]
    pub weights: BTreeMap<String, f64>,
}

/// The requirements of a release.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    /// Platforms for which every kernel must have a record, and for GPUs compiled code; without
    /// any, each kernel must have a record of some instruction set.
    #[serde(deserialize_with = "platforms")]
    pub require: Vec<Platform>,
}

/// The targets of embedded code, beside CPUs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Targets {
    /// CUDA devices. If it isn't set, those that the package's own records and the user's are for.
    #[serde(deserialize_with = "cuda")]
    pub cuda: Option<Cuda>,
}

/// CUDA devices that binaries hold code for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cuda {
    /// By their architectures.
    pub archs: Vec<Arch>,
    /// Set if the GPU of the machine that builds is among them: `native`. In a
    /// build that does not measure, and looks for none, those that records are for.
    pub native: bool,
}

/// The author's limits of tuning; unset ones depend on the command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    trials: Option<u64>,
    #[serde(deserialize_with = "span")]
    per_kernel: Option<Duration>,
    #[serde(deserialize_with = "span")]
    total: Option<Duration>,
}

/// A budget of tuning.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Budget {
    /// Candidates measured for each kernel: a program's bucket on an instruction set.
    pub trials: u64,
    /// Wall time for each kernel.
    pub per_kernel: Duration,
    /// Wall time for all kernels of the package.
    pub total: Duration,
}

impl Config {
    /// Reads the file in `manifest_dir`.
    ///
    /// # Errors
    ///
    /// If the file can't be read, isn't TOML, has fields that mean nothing or a newer schema.
    pub fn read(manifest_dir: &Path) -> Result<Self, Error> {
        let path = manifest_dir.join(FILE_NAME);
        let text = match read::text(&path, limit::SMALL) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(source) => return Err(ErrorKind::Io(source).of(path)),
        };
        Self::parse(&text).map_err(|source| ErrorKind::Config(source).of(path))
    }

    fn parse(text: &str) -> Result<Self, ConfigError> {
        let invalid =
            |error| ConfigError::Toml { error: Box::new(error), meant: keys::meant(text) };
        let config: Config = toml::from_str(text).map_err(invalid)?;
        match config.schema {
            Some(schema) if schema > SCHEMA => {
                Err(ConfigError::Newer { schema, supported: SCHEMA })
            }
            _ => Ok(config),
        }
    }
}

impl Budget {
    /// In a build, where somebody waits for something else.
    pub const BUILD: Self =
        Self { trials: 1000, per_kernel: Duration::from_secs(20), total: Duration::from_secs(60) };

    /// On the command line, where somebody asked for it.
    pub const COMMAND: Self = Self { total: Duration::from_secs(600), ..Self::BUILD };

    /// Replaces limits by those of the author.
    pub fn limited(self, limits: &Limits) -> Self {
        Self {
            trials: limits.trials.unwrap_or(self.trials),
            per_kernel: limits.per_kernel.unwrap_or(self.per_kernel),
            total: limits.total.unwrap_or(self.total),
        }
    }

    /// The limits of the search of one kernel, over all sessions together.
    pub fn search_limits(&self) -> SearchLimits {
        SearchLimits { trials: self.trials, seconds: self.per_kernel.as_secs_f64() }
    }

    /// Replaces limits by those of the author, and one by that of the variable `TVMTUNE_BUDGET`.
    ///
    /// # Errors
    ///
    /// If the variable is neither a count nor a time.
    pub fn resolved(self, limits: &Limits, variable: Option<&str>) -> Result<Self, UnknownSpan> {
        let limited = self.limited(limits);
        variable.map_or(Ok(limited), |it| limited.overridden(it))
    }

    /// Replaces one limit by that of `text`: a count (`16`) is of the trials of each kernel, a time
    /// (`30s`) is for all of them.
    ///
    /// # Errors
    ///
    /// If the text is neither.
    pub fn overridden(self, text: &str) -> Result<Self, UnknownSpan> {
        match text.trim().parse() {
            Ok(trials) => Ok(Self { trials, ..self }),
            Err(_) => Ok(Self { total: text.trim().parse::<Span>()?.0, ..self }),
        }
    }
}

/// A length of time as people write it: `90s`, `10m`, `500ms`, `1h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(pub Duration);

/// The text is no length of time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no length of time; expected a number with a unit, such as `90s`, `10m`, `1h`")]
pub struct UnknownSpan(String);

impl FromStr for Span {
    type Err = UnknownSpan;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || UnknownSpan(text.to_owned());
        let end = text.find(|it: char| it.is_alphabetic()).ok_or_else(unknown)?;
        let (number, unit) = text.split_at(end);
        let number: f64 = number.trim().parse().map_err(|_| unknown())?;
        let unit_seconds = match unit {
            "ns" => 1e-9,
            "us" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(unknown()),
        };
        let span = Duration::try_from_secs_f64(number * unit_seconds).map_err(|_| unknown())?;
        Ok(Self(span))
    }
}

fn numerics<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Numerics, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

fn span<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let text = match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => text,
        other => other.to_string(),
    };
    Ok(Some(text.parse::<Span>().map_err(serde::de::Error::custom)?.0))
}

fn weights<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
    let weights = BTreeMap::<String, f64>::deserialize(deserializer)?;
    let is_weight = |it: f64| it > 0.0 && it.is_finite();
    match weights.iter().find(|it| !is_weight(*it.1)) {
        Some((name, weight)) => Err(serde::de::Error::custom(format!(
            "the weight of `{name}` is {weight}; expected a positive number: how often it runs, relative to \
             others"
        ))),
        None => Ok(weights),
    }
}

fn platforms<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Platform>, D::Error> {
    named(deserializer, Platform::from_name, "no instruction set; expected avx512, avx2 or sm_..")
}

fn cuda<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cuda>, D::Error> {
    let parse = |name: &str| match name {
        "native" => Some(None),
        _ => Arch::from_name(name).filter(|it| Arch::ALL.contains(it)).map(Some),
    };
    let all: Vec<String> = Arch::ALL.iter().map(Arch::to_string).collect();
    let expected = format!("no architecture; expected `native` or one of {}", all.join(" "));
    let named: Vec<Option<Arch>> = named(deserializer, parse, &expected)?;
    let native = named.contains(&None);
    Ok(Some(Cuda { archs: named.into_iter().flatten().collect(), native }))
}

/// Deserializes a list of names.
fn named<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Option<T>,
    expected: &str,
) -> Result<Vec<T>, D::Error> {
    let names = Vec::<String>::deserialize(deserializer)?;
    let unknown = |name: &str| serde::de::Error::custom(format!("`{name}` is {expected}"));
    names.iter().map(|it| parse(it).ok_or_else(|| unknown(it))).collect()
}

#[cfg(test)]
mod tests {
    use tvmtune_ir::target::Isa;

    use super::*;

    #[test]
    fn without_a_file_the_defaults_hold() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(Config::read(folder.path()).expect("no file is fine"), Config::default());
    }

    #[test]
    fn every_field_can_be_set() {
        let text = "
            schema = 1
            numerics = \"fixed\"
            [policy]
            require = [\"avx2\", \"sm_90a\"]
            [targets]
            cuda = [\"native\", \"sm_80\"]
            [budget]
            trials = 8
            per_kernel = \"1.5s\"
            total = \"10m\"
            [weights]
            mlp = 12
            \"a::norm\" = 0.5
        ";
        let expected = Config {
            schema: Some(1),
            numerics: Numerics::Fixed,
            policy: Policy { require: vec![Isa::Avx2.into(), Arch { sm: 90, exact: true }.into()] },
            targets: Targets {
                cuda: Some(Cuda { archs: vec![Arch { sm: 80, exact: false }], native: true }),
            },
            budget: Limits {
                trials: Some(8),
                per_kernel: Some(Duration::from_millis(1500)),
                total: Some(Duration::from_secs(600)),
            },
            weights: BTreeMap::from([("a::norm".to_owned(), 0.5), ("mlp".to_owned(), 12.0)]),
        };
        assert_eq!(Config::parse(text).expect("valid"), expected);
    }

    #[test]
    fn invalid_fields_are_refused() {
        let check = |text: &str, expected: &str| {
            let message = Config::parse(text).expect_err("not valid").to_string();
            assert!(message.contains(expected), "{message}");
        };
        check("[budget]\ntrails = 8", "unknown field `trails`");
        check("[budget]\ntrails = 8", "did you mean `trials`?");
        check("[budget]\ntotal = \"soon\"", "`soon` is no length of time");
        check("[budget]\ntotal = 600", "`600` is no length of time");
        check("numerics = \"exact\"", "`exact` is no kind of numerics; expected `fixed` or `free`");
        check("[policy]\nrequire = [\"sse\"]", "`sse` is no instruction set");
        check("[targets]\ncuda = [\"sm_91\"]", "`sm_91` is no architecture; expected `native` or");
        for bad in ["0", "-1", "nan", "inf"] {
            check(&format!("[weights]\nmlp = {bad}"), "the weight of `mlp` is ");
        }
        check("[weights]\nmlp = \"often\"", "invalid type");
        check("[wieghts]\nmlp = 2", "did you mean `weights`?");
        check("schema = 2", "schema 2 is newer than 1");
        check("schema", "key");
    }

    #[test]
    fn spans_have_a_number_and_a_unit() {
        let check = |text: &str, millis: Option<u64>| {
            let span = text.parse::<Span>().ok().map(|it| it.0);
            assert_eq!(span, millis.map(Duration::from_millis), "{text}");
        };
        check("500ms", Some(500));
        check("2000us", Some(2));
        check("90s", Some(90_000));
        check("1.5m", Some(90_000));
        check("2h", Some(7_200_000));
        check("90", None);
        check("-1s", None);
        check("s", None);
        check("1 day", None);
    }

    #[test]
    fn limits_replace_those_of_the_budget() {
        let limits = Limits { trials: Some(8), ..Limits::default() };
        assert_eq!(Budget::BUILD.limited(&limits), Budget { trials: 8, ..Budget::BUILD });
    }

    #[test]
    fn a_budget_is_overridden_by_a_count_or_a_time() {
        let budget = Budget::BUILD;
        assert_eq!(budget.overridden("16"), Ok(Budget { trials: 16, ..budget }));
        let total = Duration::from_secs(30);
        assert_eq!(budget.overridden("30s"), Ok(Budget { total, ..budget }));
        assert!(budget.overridden("much").is_err());
    }
}

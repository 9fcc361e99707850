//! The common part of this crate's formats: their version, reading them, and types of other crates
//! as JSON.
//!
//! In: bytes that came from elsewhere. Out: a value of the right type, or a [`WireError`] on one line. Next:
//! its own `check`.

use serde::{Deserialize, Serialize};
use tvmtune_plan::printable::one_line;
use tvmtune_plan::record::{GENERATOR, RecordError};
use tvmtune_tuner::tune::{Reuse, Tolerance};

/// The version of the formats of this crate: tasks, outcomes, and the messages between machines.
pub const VERSION: u32 = 1;

/// Text from another machine that is not what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// Written by a newer release.
    #[error(
        "the {what} has format {found}, and this tvmtune reads up to {VERSION}; install the same \
         release of cargo-tvmtune on both machines"
    )]
    Newer { what: &'static str, found: u32 },
    /// Of another code generator: measurements would be of other code.
    #[error(
        "the {what} is of code generator {found}, and this tvmtune has {GENERATOR}; install the same \
         release of cargo-tvmtune on both machines"
    )]
    Generator { what: &'static str, found: u32 },
    /// No JSON, or not with the fields that it should have.
    #[error("the {what} is not one: {why}")]
    Malformed { what: &'static str, why: String },
    /// A field that cannot be so.
    #[error("`{field}` of the {what} {why}")]
    Invalid { what: &'static str, field: &'static str, why: String },
}

/// The part of every text by which newer ones are told from damaged ones.
#[derive(Deserialize)]
struct Version {
    version: u32,
}

/// Returns a value as text of this crate's formats.
pub(crate) fn to_json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("strings and numbers are JSON")
}

/// Reads a text of this crate's formats.
pub(crate) fn from_json<T: for<'de> Deserialize<'de>>(
    what: &'static str,
    text: &[u8],
    max_bytes: usize,
) -> Result<T, WireError> {
    let malformed = |why: String| WireError::Malformed { what, why: one_line(&why) };
    if text.len() > max_bytes {
        return Err(malformed(format!("it has more than {max_bytes} bytes")));
    }
    serde_json::from_slice(text).map_err(|error| match serde_json::from_slice::<Version>(text) {
        Ok(Version { version: found }) if found > VERSION => WireError::Newer { what, found },
        _ => malformed(error.to_string()),
    })
}

/// Returns why a text is no record, without the advice about files that it did not come from.
pub(crate) fn reason(error: &RecordError) -> String {
    match error {
        RecordError::Newer { .. } => error.to_string(),
        RecordError::Malformed(why) => one_line(why),
        RecordError::Invalid(why) => (*why).to_owned(),
    }
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Tolerance", deny_unknown_fields)]
pub(crate) struct ToleranceFields {
    rel: f64,
    abs: f64,
}

#[derive(Serialize, Deserialize)]
#[serde(remote = "Reuse", rename_all = "kebab-case")]
pub(crate) enum ReuseName {
    Compete,
    Refine,
    CatchUp,
    Ignore,
}

/// Platforms by their names.
pub(crate) mod platform {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};
    use tvmtune_ir::target::Platform;

    pub(crate) fn serialize<S: Serializer>(it: &Platform, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(it)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Platform, D::Error> {
        let name = String::deserialize(from)?;
        let error = || D::Error::custom(format!("`{name}` is not a platform"));
        Platform::from_name(&name).ok_or_else(error)
    }
}

/// Places of operands by their names.
pub(crate) mod places {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serialize, Serializer};
    use tvmtune_ir::dsl::Residence;

    pub(crate) fn serialize<S: Serializer>(
        it: &[Option<Residence>],
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let names: Vec<Option<&str>> = it.iter().map(|it| it.map(Residence::option)).collect();
        names.serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Option<Residence>>, D::Error> {
        let place = |name: String| {
            let mut all = [Residence::Cold, Residence::Warm].into_iter();
            let error = || D::Error::custom(format!("`{name}` is not `cold` or `warm`"));
            all.find(|it| it.option() == name).ok_or_else(error)
        };
        let names = Vec::<Option<String>>::deserialize(from)?;
        names.into_iter().map(|it| it.map(place).transpose()).collect()
    }
}

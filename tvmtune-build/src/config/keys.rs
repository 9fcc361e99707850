//! The keys that `tvmtune.toml` may have, as its types declare them, and what was meant by another.

use std::collections::BTreeMap;

use serde::de::value::Error;
use serde::de::{DeserializeOwned, Error as _, Visitor};
use serde::{Deserializer, forward_to_deserialize_any};
use toml::{Table, Value};
use tvmtune_ir::similar;

use super::{Config, Limits, Policy, Targets};

/// The names of fields.
type Names = &'static [&'static str];

/// Returns the keys of each section, none where they are names of kernels; those outside of any stand under the
/// empty name.
pub fn keys() -> BTreeMap<&'static str, Vec<&'static str>> {
    let sections: [(&str, Names); 4] = [
        ("policy", fields_of::<Policy>()),
        ("targets", fields_of::<Targets>()),
        ("budget", fields_of::<Limits>()),
        ("weights", &[]),
    ];
    let is_section = |name: &str| sections.iter().any(|(it, _)| *it == name);
    let outside = fields_of::<Config>().iter().copied().filter(|it| !is_section(it)).collect();
    let inside = sections.iter().map(|(name, fields)| (*name, fields.to_vec()));
    inside.chain([("", outside)]).collect()
}

/// Returns the key that is most like the first one that means nothing, if there is one.
pub(super) fn meant(text: &str) -> Option<&'static str> {
    let (table, keys) = (text.parse::<Table>().ok()?, keys());
    let outside = keys[""].iter().copied().chain(keys.keys().copied().filter(|it| !it.is_empty()));
    let outside: Vec<&str> = outside.collect();
    for (name, value) in &table {
        if !outside.contains(&name.as_str()) {
            return similar::closest(name, outside);
        }
        let (Value::Table(section), Some(known)) = (value, keys.get(name.as_str())) else {
            continue;
        };
        if known.is_empty() {
            continue;
        }
        if let Some(unknown) = section.keys().find(|it| !known.contains(&it.as_str())) {
            return similar::closest(unknown, known.iter().copied());
        }
    }
    None
}

/// Returns the names of the fields that a type is read from.
fn fields_of<T: DeserializeOwned>() -> Names {
    let mut found: Names = &[];
    // It reads nothing, and fails as soon as it has seen the names.
    let _ = T::deserialize(FieldNames(&mut found));
    found
}

/// Takes note of the fields that a type asks for.
struct FieldNames<'a>(&'a mut Names);

impl<'de> Deserializer<'de> for FieldNames<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Error> {
        Err(Error::custom("expected a type with fields"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: Names,
        _: V,
    ) -> Result<V::Value, Error> {
        *self.0 = fields;
        Err(Error::custom("the names are known"))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct newtype_struct seq tuple tuple_struct map enum identifier ignored_any
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_is_known_by_its_section() {
        let keys = keys();
        assert_eq!(keys[""], ["schema", "numerics"]);
        assert_eq!(keys["policy"], ["require"]);
        assert_eq!(keys["targets"], ["cuda"]);
        assert_eq!(keys["budget"], ["trials", "per_kernel", "total"]);
        assert!(keys["weights"].is_empty());
        let sections = fields_of::<Config>().len() - keys[""].len();
        assert_eq!(sections, keys.len() - 1, "each section of `Config` is listed");
    }

    #[test]
    fn a_misspelt_key_is_taken_for_the_closest_one_of_its_section() {
        for (text, expected) in [
            ("[budget]\ntrails = 1", Some("trials")),
            ("[budgets]\ntrials = 1", Some("budget")),
            ("shema = 1", Some("schema")),
            ("[budget]\nrequire = []", None),
            ("[budget]\ntrials = \"\"", None),
            ("[weights]\ntrials = \"\"", None),
            ("[budget", None),
        ] {
            assert_eq!(meant(text), expected, "{text}");
        }
    }
}

//! Names of programs, as records and files have them.
//!
//! In: the name of an op, or text that should be one. Out: a [`ProgramName`]. Next: the database
//! makes a folder of it.
//!
//! # Invariants
//!
//! - A name is what Rust allows as one, with modules: no separator of paths, no dot, no control
//!   character, whatever file it was read from.
//! - Its folder is one that every file system takes. Names that differ in case alone may share one
//!   there: files in it are told apart by workloads.

use std::fmt;
use std::str::FromStr;

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use crate::digest::Digest;

/// The name of a program, with modules where another of its crate has the same: `layers::linear`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct ProgramName(String);

/// The text is no [`ProgramName`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not the name of a function, of at most {} bytes", ProgramName::MAX_BYTES)]
pub struct NotAName;

impl ProgramName {
    /// The length of a name: file systems take 255 bytes.
    pub const MAX_BYTES: usize = 200;

    /// Returns the name for a program that is called so: the same, unless it takes a shorter one, or
    /// one without what is no letter.
    pub fn of(program: &str) -> Self {
        if let Ok(name) = program.parse() {
            return name;
        }
        let plain = program.replace("r#", "");
        let segments: Vec<String> = plain.split("::").map(identifier).collect();
        let mut name = segments.join("::");
        if name.len() > Self::MAX_BYTES {
            let hash = Digest::of([program.as_bytes()]).short();
            let mut end = Self::MAX_BYTES - hash.len() - 1;
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            name.truncate(end);
            name = format!("{}_{hash}", name.trim_end_matches(':'));
        }
        Self(name)
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the name of the folder of its records: `layers.linear` for `layers::linear`, since
    /// Windows allows no colon, and `aux_` for `aux`, which it takes for a device.
    pub fn folder(&self) -> String {
        let (first, rest) = self.0.split_once("::").map_or((&*self.0, None), |(a, b)| (a, Some(b)));
        let first = if is_reserved(first) { format!("{first}_") } else { first.to_owned() };
        rest.map_or_else(|| first.clone(), |it| format!("{first}.{}", it.replace("::", ".")))
    }

    /// Returns whether a folder of that name may have records: it is that of a program.
    pub fn is_folder(name: &str) -> bool {
        let is_program = |it: Self| it.folder() == name || it.as_str().replace("::", ".") == name;
        name.replace('.', "::").parse().is_ok_and(is_program)
    }
}

/// Returns an identifier that looks like the text.
fn identifier(text: &str) -> String {
    let plain = |it: char| if unicode_ident::is_xid_continue(it) { it } else { '_' };
    let name: String = text.chars().map(plain).collect();
    if is_identifier(&name) { name } else { format!("_{name}") }
}

fn is_identifier(text: &str) -> bool {
    let mut rest = text.chars();
    let starts = rest.next().is_some_and(|it| it == '_' || unicode_ident::is_xid_start(it));
    starts && rest.all(unicode_ident::is_xid_continue)
}

/// Returns whether Windows takes a file of that name, with any ending, for a device.
fn is_reserved(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let port = name.strip_prefix("com").or_else(|| name.strip_prefix("lpt"));
    ["con", "prn", "aux", "nul"].contains(&&*name)
        || port.is_some_and(|it| it.len() == 1 && it.bytes().all(|it| it.is_ascii_digit()))
}

impl FromStr for ProgramName {
    type Err = NotAName;

    fn from_str(text: &str) -> Result<Self, NotAName> {
        // A number may begin a name that a study or a benchmark made up.
        let is_segment =
            |it: &str| !it.is_empty() && it.chars().all(unicode_ident::is_xid_continue);
        match text.len() <= Self::MAX_BYTES && text.split("::").all(is_segment) {
            true => Ok(Self(text.to_owned())),
            false => Err(NotAName),
        }
    }
}

impl fmt::Display for ProgramName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for ProgramName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_functions_are_kept_as_they_are() {
        for good in ["linear", "_x", "layers::linear", "größe", "a::b::c", &"x".repeat(200)] {
            let name: ProgramName = good.parse().unwrap();
            assert_eq!((name.as_str(), &ProgramName::of(good)), (good, &name));
        }
    }

    #[test]
    fn text_that_would_lead_elsewhere_is_no_name() {
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "a/b",
            "a\\b",
            "/etc",
            "C:",
            "C:x",
            "a:b",
            "::",
            "a::",
            "::a",
            "a::..::b",
            "a.b",
            "a.",
            "a ",
            " a",
            "a\n",
            "a\0",
            "a\u{1b}[31m",
            "a\u{202e}b",
            "~",
            "-rf",
            "$HOME",
            "a*",
            "a?",
            "a|b",
            "\"",
            "r#fn",
            "com¹",
            &"x".repeat(201),
        ] {
            assert_eq!(bad.parse::<ProgramName>(), Err(NotAName), "{bad:?}");
            let made: ProgramName = ProgramName::of(bad);
            assert_eq!(made.as_str().parse(), Ok(made.clone()), "{bad:?}");
            assert!(ProgramName::is_folder(&made.folder()), "{bad:?}");
        }
        assert_eq!(ProgramName::of("r#fn").as_str(), "fn");
        assert_eq!(ProgramName::of("conv 3x3").as_str(), "conv_3x3");
    }

    #[test]
    fn long_names_are_cut_and_told_apart() {
        let [a, b] = ["a", "b"].map(|it| ProgramName::of(&format!("{}{it}", "é::".repeat(300))));
        assert_ne!(a, b);
        for it in [a, b] {
            assert!(it.as_str().len() <= ProgramName::MAX_BYTES);
            assert_eq!(it.as_str().parse(), Ok(it.clone()));
        }
    }

    #[test]
    fn folders_are_files_on_every_system() {
        let check = |name: &str, folder: &str| {
            assert_eq!(name.parse::<ProgramName>().unwrap().folder(), folder);
            assert!(ProgramName::is_folder(folder), "{folder}");
        };
        check("linear", "linear");
        check("layers::linear", "layers.linear");
        check("aux", "aux_");
        check("NUL::linear", "NUL_.linear");
        check("com1", "com1_");
        check("layers::aux", "layers.aux");
        check("console", "console");
        check("com10", "com10");
        assert!(ProgramName::is_folder("aux"), "as former releases named it");
        for bad in ["", ".", "..", ".git", "a.", "a..b", "a b", "x\ncargo::rustc-env=A=B"] {
            assert!(!ProgramName::is_folder(bad), "{bad:?}");
        }
    }
}

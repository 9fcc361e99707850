//! The text of a kernel template: a file of CUDA C++ with its includes in it.
//!
//! In: the folder of a package, and a name that an attribute gives. Out: one text that depends on no
//! other file but the device headers of this project, and the files that it was made of. What an
//! `#include "name"` names is looked for beside the file that includes it, then from the folder of the
//! package; `#include <name>` and `#include "tvmtune/.."` stay as they are.
//!
//! # Invariants
//!
//! - `#line` directives say where each line comes from, relative to the package: no path of the machine
//!   is in the text.
//! - Line feeds end lines, on every system: the text, and so its hash, is the same everywhere.
//! - Nothing outside of the package is read.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use crate::read;
use tvmtune_ir::dag::limits::MAX_TEXT_BYTES;
use tvmtune_ir::digest::Digest;

/// Files in one another, at most.
const MAX_DEPTH: usize = 16;

/// A header of a package, with what an op uses of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Its path from the folder of the package.
    pub path: PathBuf,
    /// Its text, with its own includes in it.
    pub text: String,
    /// The struct whose bindings are wanted.
    pub name: String,
    /// Words that may be constants of the header.
    pub words: Vec<String>,
}

/// The reason why there are no bindings.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoBindings {
    /// The header cannot be read.
    #[error("{0}")]
    Unreadable(String),
    /// Nobody made them, or what they were made of has changed.
    #[error(
        "`{}` {why}: enable the feature `templates` of `tvmtune-build` in `[build-dependencies]` and build \
         once; it needs libclang, as of `python3 -m pip install libclang`, and writes `{}`",
        .header.place(), .header.file()
    )]
    Missing {
        /// The header.
        header: Header,
        /// The reason.
        why: &'static str,
    },
}

impl Header {
    /// Reads a header of the package in `manifest_dir`, as [`template`] reads one.
    ///
    /// # Errors
    ///
    /// The reason why it has no text.
    pub fn read(
        manifest_dir: &Path,
        header: &str,
        (name, words): (&str, &[String]),
        files: &mut BTreeSet<PathBuf>,
    ) -> Result<Self, String> {
        let text = template(manifest_dir, header, files)?;
        let path = normal(Path::new(header)).unwrap_or_default();
        Ok(Self { path, text, name: name.to_owned(), words: words.to_vec() })
    }

    /// Its name in errors.
    pub fn place(&self) -> String {
        slashes(&self.path)
    }

    /// The file of its bindings, from the folder of the package.
    pub fn file(&self) -> String {
        let stem: String = self.place().replace('/', "-");
        format!("tvmtune/bindings/{stem}.{}.rs", self.name)
    }

    /// The first line of its bindings: a hash of all that they follow from.
    pub fn first_line(&self) -> String {
        let parts = [&self.place(), &self.text, &self.name, &self.words.join(" ")];
        let lengths = parts.map(|it| it.len().to_string()).join(" ");
        let parts = [BINDINGS_VERSION, &lengths].into_iter().chain(parts.map(String::as_str));
        let digest = Digest::of(parts.map(str::as_bytes));
        format!("// Bindings of {}, made by tvmtune; {digest}", self.place())
    }

    /// The bindings that the package has.
    ///
    /// # Errors
    ///
    /// [`NoBindings::Missing`]
    pub fn bindings(
        self,
        manifest_dir: &Path,
        files: &mut BTreeSet<PathBuf>,
    ) -> Result<String, NoBindings> {
        let file = self.file();
        files.insert(PathBuf::from(&file));
        let text = read::text(&manifest_dir.join(&file), MAX_BINDINGS_BYTES).unwrap_or_default();
        let text = text.replace("\r\n", "\n");
        match text.lines().next() {
            Some(line) if line == self.first_line() => Ok(text),
            Some(_) => {
                let why = "has changed, or what is used of it, since its bindings were made";
                Err(NoBindings::Missing { header: self, why })
            }
            None => Err(NoBindings::Missing { header: self, why: "has no bindings yet" }),
        }
    }
}

/// A part of the hash of bindings.
const BINDINGS_VERSION: &str = "bindings 1";
/// The most bytes of bindings.
const MAX_BINDINGS_BYTES: u64 = 1 << 20;

/// Reads a template of the package in `manifest_dir`; the files that were read are in `files`, also
/// after an error.
///
/// # Errors
///
/// The reason why it has no text, for the author of the attribute.
pub fn template(
    manifest_dir: &Path,
    name: &str,
    files: &mut BTreeSet<PathBuf>,
) -> Result<String, String> {
    let mut reader = Reader { manifest_dir, files, open: Vec::new(), text: String::new() };
    let (path, text) = reader.named(name)?;
    reader.paste(&path, &text)?;
    Ok(reader.text)
}

/// Reads a file of the package in `manifest_dir` as it is, but for the ends of its lines.
///
/// # Errors
///
/// The reason why it has no text, for the author of the attribute.
pub(super) fn plain(
    manifest_dir: &Path,
    name: &str,
    files: &mut BTreeSet<PathBuf>,
) -> Result<String, String> {
    let mut reader = Reader { manifest_dir, files, open: Vec::new(), text: String::new() };
    reader.named(name).map(|it| it.1)
}

struct Reader<'a> {
    manifest_dir: &'a Path,
    files: &'a mut BTreeSet<PathBuf>,
    /// The files around the line that is read.
    open: Vec<PathBuf>,
    text: String,
}

impl Reader<'_> {
    /// Reads the file that an attribute names; returns its path in the package, too.
    fn named(&mut self, name: &str) -> Result<(PathBuf, String), String> {
        let path = normal(Path::new(name)).ok_or_else(|| {
            format!(
                "`{name}` is no file of the package: write its path from the folder of `Cargo.toml`"
            )
        })?;
        let text = self.read(&path).map_err(|why| {
            let place = path.display();
            format!("cannot read `{place}` in the folder of `Cargo.toml`: {why}")
        })?;
        Ok((path, text))
    }

    fn read(&mut self, path: &Path) -> Result<String, String> {
        self.files.insert(path.to_owned());
        let found = read::text(&self.manifest_dir.join(path), MAX_TEXT_BYTES as u64);
        let text = found.map_err(|it| it.to_string())?;
        let mut text = text.replace("\r\n", "\n");
        if text.contains('\r') {
            return Err("it has a carriage return that ends no line".to_owned());
        }
        if !text.ends_with('\n') {
            text.push('\n');
        }
        Ok(text)
    }

    /// Appends the lines of a file, with those of its includes in their places.
    fn paste(&mut self, path: &Path, text: &str) -> Result<(), String> {
        let place = slashes(path);
        if self.open.len() == MAX_DEPTH || self.open.iter().any(|it| it == path) {
            return Err(format!("`{place}` includes itself, or is included {MAX_DEPTH} deep"));
        }
        self.open.push(path.to_owned());
        for (n, line) in text.lines().enumerate() {
            match included(line) {
                Some(name) if !name.starts_with("tvmtune/") => {
                    let (path, text) = self.find(name).map_err(|why| {
                        format!("line {} of `{place}` includes `{name}`: {why}", n + 1)
                    })?;
                    self.include(&path, &text)?;
                    self.text += &format!("#line {} \"{place}\"\n", n + 2);
                }
                _ if is_pragma_once(line) => self.text.push('\n'),
                _ => {
                    self.text.push_str(line);
                    self.text.push('\n');
                }
            }
            if self.text.len() > MAX_TEXT_BYTES {
                return Err(format!(
                    "`{place}` and what it includes have more than {MAX_TEXT_BYTES} bytes together: \
                     include less"
                ));
            }
        }
        self.open.pop();
        Ok(())
    }

    fn include(&mut self, path: &Path, text: &str) -> Result<(), String> {
        let guard = text.lines().any(is_pragma_once).then(|| guard(path));
        if let Some(guard) = &guard {
            self.text += &format!("#ifndef {guard}\n#define {guard}\n");
        }
        self.text += &format!("#line 1 \"{}\"\n", slashes(path));
        self.paste(path, text)?;
        if guard.is_some() {
            self.text.push_str("#endif\n");
        }
        Ok(())
    }

    /// The file that an include names.
    fn find(&mut self, name: &str) -> Result<(PathBuf, String), String> {
        let beside = self.open.last().and_then(|it| it.parent()).unwrap_or(Path::new(""));
        let places = [beside.join(name), PathBuf::from(name)];
        let mut why = "it is no file of the package".to_owned();
        for place in places.iter().filter_map(|it| normal(it)) {
            match self.read(&place) {
                Ok(text) => return Ok((place, text)),
                Err(error) => why = error,
            }
        }
        Err(why)
    }
}

/// The name in `#include "name"`.
fn included(line: &str) -> Option<&str> {
    let directive = line.trim_start().strip_prefix('#')?.trim_start();
    let rest = directive.strip_prefix("include")?.trim_start().strip_prefix('"')?;
    rest.split_once('"').map(|it| it.0)
}

fn is_pragma_once(line: &str) -> bool {
    let directive = line.trim_start().strip_prefix('#').map(str::trim_start);
    let rest = directive.and_then(|it| it.strip_prefix("pragma")).map(str::trim);
    rest.is_some_and(|it| it.split_whitespace().next() == Some("once"))
}

/// The macro that is defined once a file was included.
fn guard(path: &Path) -> String {
    let escape = |c: char| match c.is_ascii_alphanumeric() {
        true => c.to_string(),
        false => format!("_{:x}_", u32::from(c)),
    };
    format!("TVMTUNE_ONCE_{}", slashes(path).chars().map(escape).collect::<String>())
}

fn slashes(path: &Path) -> String {
    let parts: Vec<_> = path.components().map(|it| it.as_os_str().to_string_lossy()).collect();
    parts.join("/")
}

/// A path from the folder of the package, without `.` and `..`; `None` if it leads out of it.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(it) => parts.push(it.to_str().filter(|it| !it.contains('"'))?),
            Component::CurDir => {}
            Component::ParentDir => {
                parts.pop()?;
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// The text of `kernels/a.cu` among these files.
    fn read(files: &[(&str, &str)]) -> (Result<String, String>, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let mut read = BTreeSet::new();
        let text = template(dir.path(), "kernels/a.cu", &mut read);
        (text, read.iter().map(|it| slashes(it)).collect())
    }

    #[test]
    fn includes_stand_in_the_text_and_every_line_knows_its_file() {
        let (text, files) = read(&[
            ("kernels/a.cu", "#include \"tvmtune/warp.cuh\"\r\n#include \"b.h\"\nint a;"),
            ("kernels/b.h", "#pragma once\n#include \"include/c.h\"\nint b;\n"),
            ("include/c.h", "int c;\n"),
        ]);
        insta::assert_snapshot!(text.unwrap(), @r#"
        #include "tvmtune/warp.cuh"
        #ifndef TVMTUNE_ONCE_kernels_2f_b_2e_h
        #define TVMTUNE_ONCE_kernels_2f_b_2e_h
        #line 1 "kernels/b.h"

        #line 1 "include/c.h"
        int c;
        #line 3 "kernels/b.h"
        int b;
        #endif
        #line 3 "kernels/a.cu"
        int a;
        "#);
        assert_eq!(files, ["include/c.h", "kernels/a.cu", "kernels/b.h", "kernels/include/c.h"]);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        let why = |files: &[(&str, &str)]| read(files).0.unwrap_err();
        let none = why(&[]);
        assert!(none.starts_with("cannot read `kernels/a.cu` in the folder of `Cargo.toml`: "));
        let missing = why(&[("kernels/a.cu", "\n#include \"b.h\"\n")]);
        assert!(missing.starts_with("line 2 of `kernels/a.cu` includes `b.h`: "), "{missing}");
        let outside = why(&[("kernels/a.cu", "#include \"../../b.h\"\n")]);
        let expected =
            "line 1 of `kernels/a.cu` includes `../../b.h`: it is no file of the package";
        assert_eq!(outside, expected);
        let itself = why(&[("kernels/a.cu", "#include \"a.cu\"\n")]);
        assert_eq!(itself, "`kernels/a.cu` includes itself, or is included 16 deep");
        let long = why(&[("kernels/a.cu", &"int a;\n".repeat(10_000))]);
        assert!(long.ends_with("it has more than 65536 bytes"), "{long}");
    }

    #[test]
    fn a_name_that_leads_out_of_the_package_is_refused() {
        let mut files = BTreeSet::new();
        for name in ["/etc/passwd", "../a.cu", "a/../../b.cu", ""] {
            assert!(template(Path::new("."), name, &mut files).is_err(), "{name}");
        }
        assert!(files.is_empty());
    }
}

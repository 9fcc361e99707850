//! The interface between a build script and the macro, both ways.
//!
//! One run of a build script serves `cargo check`, `build`, `test` and `doc` alike, so a script
//! cannot know if its plans will run. The macro can: it runs in the compiler, whose arguments say
//! if code is emitted. And only the macro sees the ops that other macros write. So:
//!
//! - the script leaves a [`Handoff`] beside its plans;
//! - the macro sends a [`Request`] to the script's program when code is emitted and ops wait to be
//!   tuned, or when it expands an op without a plan, and gets an [`Answer`];
//! - the macro lists the ops that no script saw in a file of [`ExpandedOp`]s, which the next run
//!   of the script reads.
//!
//! All are TOML. Macro and script of one build are of one version, except while cargo has rebuilt
//! only one of them: a handoff of another version is none.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde::{Deserialize, Serialize};

use crate::database::{DatabaseError, atomic};
use crate::mode::Mode;
use crate::read::{self, limit};

/// The name of the file beside the plans: no plan has it.
pub const FILE_NAME: &str = "handoff.toml";

/// The variable that starts the program of a build script for another purpose than planning.
pub const ROLE: &str = "TVMTUNE_ROLE";

/// The value of [`ROLE`] in a process that answers a [`Request`].
pub const ROLE_EXPAND: &str = "expand";

/// The version of the crate, and of the protocol.
const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), "-3");

/// The message of a build script to the macro.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Handoff {
    /// The version of the script.
    version: String,
    /// The mode of the build.
    pub mode: Mode,
    /// The program of the script, relative to the folder of the plans where that is possible: a
    /// target folder may be moved.
    pub program: PathBuf,
    /// Set if a session would tune something: the first compiler that emits code starts one.
    pub wants_session: bool,
    /// The folder in the user's cache that belongs to the package; `None` if there is none.
    pub cache: Option<PathBuf>,
    /// The variables that cargo gives to scripts and not to compilers.
    pub variables: BTreeMap<String, String>,
    /// The state of each planned op, by the name of its plan.
    pub ops: BTreeMap<String, OpState>,
    /// The reasons why bindings of headers could not be made, by the first line that they would have.
    pub unbound: BTreeMap<String, String>,
}

/// The state of a planned op.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpState {
    /// Its tuning status, for people.
    pub status: String,
    /// Set if the script saw it in the sources, and not through an expansion.
    pub in_sources: bool,
    /// Set if a session would improve it, and must not before an expansion finds it again.
    pub waits: bool,
    /// The reason why mode `require` refuses it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
}

/// The text of an annotated function.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpSource {
    /// The op's name.
    pub name: String,
    /// The options of the attribute.
    pub options: String,
    /// The function below it.
    pub item: String,
}

/// An op that another macro wrote, or that stands in an included file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExpandedOp {
    /// The name of its plan.
    pub plan: String,
    /// Its text.
    pub source: OpSource,
}

/// The ops that the expansions of one target found.
#[derive(Debug, Default, Serialize, Deserialize)]
struct ExpandedOps {
    #[serde(default)]
    op: Vec<ExpandedOp>,
}

/// A request of the macro to the program of the build script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// The folder of the plans.
    pub plans: PathBuf,
    /// The op to plan; `None` asks for a session that tunes.
    pub op: Option<OpSource>,
}

/// The answer to a [`Request`]; plans and the handoff are rewritten before.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// Lines for the user.
    pub lines: Vec<String>,
}

impl Handoff {
    /// Creates a handoff of this version, without ops.
    pub fn new(mode: Mode, program: PathBuf) -> Self {
        Self {
            version: VERSION.to_owned(),
            mode,
            program,
            wants_session: false,
            cache: None,
            variables: BTreeMap::new(),
            ops: BTreeMap::new(),
            unbound: BTreeMap::new(),
        }
    }

    /// Reads the handoff beside some plans; `None` if a script of this version left none.
    pub fn read(plans: &Path) -> Option<Self> {
        let text = read::text(&plans.join(FILE_NAME), limit::OUTPUT).ok()?;
        toml::from_str(&text).ok().filter(|it: &Self| it.version == VERSION)
    }

    /// Writes it beside its plans, atomically: compilers of several targets may read it.
    ///
    /// # Errors
    ///
    /// [`DatabaseError::Io`].
    pub fn write(&self, plans: &Path) -> Result<(), DatabaseError> {
        let path = plans.join(FILE_NAME);
        // Paths need not be text.
        let text = toml::to_string(self).map_err(|it| {
            DatabaseError::io("write", &path, io::Error::new(io::ErrorKind::InvalidData, it))
        })?;
        atomic::write_output(&path, text.as_bytes())
    }
}

impl Request {
    /// Formats the request.
    pub fn to_toml(&self) -> String {
        text(self)
    }

    /// Reads a request; `None` if it is none of this version.
    pub fn from_toml(text: &str) -> Option<Self> {
        toml::from_str(text).ok()
    }
}

impl Answer {
    /// Formats the answer.
    pub fn to_toml(&self) -> String {
        text(self)
    }

    /// Reads an answer; `None` if it is none of this version.
    pub fn from_toml(text: &str) -> Option<Self> {
        toml::from_str(text).ok()
    }
}

/// Returns the file of the ops that the expansions of a target found, in the package's folder of
/// the cache.
pub fn expanded_file(cache: &Path, target: &str) -> PathBuf {
    cache.join(format!("{target}.ops.toml"))
}

/// Reads the ops of every target that were found by expansions; each file goes with its path.
/// Files that mean nothing, or are of another version, have none.
pub fn expanded_ops(cache: &Path) -> Vec<(PathBuf, Vec<ExpandedOp>)> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten().map(|it| it.path());
    let is_list = |it: &PathBuf| it.to_str().is_some_and(|it| it.ends_with(".ops.toml"));
    let mut files: Vec<PathBuf> = entries.filter(is_list).collect();
    files.sort();
    let read = |path: PathBuf| {
        let text = read::text(&path, limit::OUTPUT).ok()?;
        let ops: ExpandedOps = toml::from_str(&text).ok()?;
        Some((path, ops.op))
    };
    files.into_iter().filter_map(read).collect()
}

/// Formats one op as the next part of a file of [`expanded_ops`].
pub fn expanded_entry(op: &ExpandedOp) -> String {
    let entry = ExpandedOps { op: vec![op.clone()] };
    text(&entry)
}

fn text(it: &impl Serialize) -> String {
    toml::to_string(it).expect("strings and flags are TOML")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handoff_of_another_version_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let mut handoff = Handoff::new(Mode::Tune, "script".into());
        let state =
            OpState { status: "stale".into(), in_sources: true, waits: false, refusal: None };
        handoff.ops.insert("ab".to_owned(), state);
        handoff.write(folder.path()).unwrap();
        assert_eq!(Handoff::read(folder.path()), Some(handoff.clone()));
        Handoff { version: "0.0.0".to_owned(), ..handoff }.write(folder.path()).unwrap();
        assert_eq!(Handoff::read(folder.path()), None);
    }

    #[test]
    fn entries_of_expanded_ops_make_a_list() {
        let folder = tempfile::tempdir().unwrap();
        let op = |name: &str| ExpandedOp {
            plan: name.to_owned(),
            source: OpSource {
                name: name.to_owned(),
                options: "dims(N = 8)".into(),
                item: format!("fn {name}() {{}}"),
            },
        };
        let (a, b) = (op("a"), op("b"));
        let path = expanded_file(folder.path(), "lib");
        fs::write(&path, expanded_entry(&a) + &expanded_entry(&b)).unwrap();
        fs::write(expanded_file(folder.path(), "test"), "mangled").unwrap();
        assert_eq!(expanded_ops(folder.path()), [(path, vec![a, b])]);
    }
}

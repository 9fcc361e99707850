//! The interface of a build script to cargo: variables in, directives out.
//!
//! Every variable is read here and every directive is printed here, so that both lists can be
//! checked against cargo's rules at a glance:
//!
//! - a directive is a line, so nothing that is printed has a control character: a name of a file could
//!   begin a directive of its own, and pass arguments to the linker;
//! - a path that doesn't exist makes the script run at every build, so only existing ones are
//!   named, but for [`Directive::RunAgain`], which wants just that;
//! - `PATH`, `HOME` and `CI` differ between a terminal and an editor on one machine: declaring them
//!   would rebuild the crate at every change of hands.
//!
//! The macro starts the program of the script once more, inside of the compiler. There cargo's
//! variables for scripts are missing: the script hands them over.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use tvmtune_plan::handoff::Handoff;
use tvmtune_plan::printable::{is_control, one_line, shown};

use crate::mode::Circumstances;

/// Variables whose change runs the script again.
pub const DECLARED: [&str; 5] =
    ["TVMTUNE", "TVMTUNE_CACHE", "TVMTUNE_DB", "TVMTUNE_PACKAGES", "DOCS_RS"];

/// The environment that cargo gives a build script.
#[derive(Clone, Debug)]
pub struct Script {
    /// The folder of `Cargo.toml`.
    pub manifest_dir: PathBuf,
    /// The folder that belongs to the script.
    pub out_dir: PathBuf,
    /// Every variable that is text.
    variables: BTreeMap<String, String>,
}

/// One line to cargo.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Directive {
    /// Run the script again if that variable changes.
    RerunIfEnvChanged(&'static str),
    /// Run the script again if that file or folder changes.
    RerunIfChanged(PathBuf),
    /// Run the script again at the next build, whatever changes: names a file that never exists.
    RunAgain(PathBuf),
    /// A variable for `env!` and the macro.
    Env(&'static str, PathBuf),
    /// A line that a user sees of a package in the workspace.
    Warning(String),
    /// A line that every user sees; the build fails.
    Error(String),
}

impl Script {
    /// Reads the environment; `None` if no cargo started this.
    pub fn from_environment() -> Option<Self> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        Some(Self {
            manifest_dir: std::env::var_os("CARGO_MANIFEST_DIR")?.into(),
            out_dir: std::env::var_os("OUT_DIR")?.into(),
            variables: std::env::vars_os().filter_map(text).collect(),
        })
    }

    /// Restores the environment of the script that left a handoff beside its plans; `None` if no
    /// cargo started this.
    pub fn resume(plans: &Path, handoff: &Handoff) -> Option<Self> {
        let mut script = Self::from_environment()?;
        script.out_dir = plans.parent()?.to_owned();
        script.variables.extend(handoff.variables.clone());
        Some(script)
    }

    /// Returns the variables that cargo gives to scripts and not to compilers.
    pub fn handed_over(&self) -> BTreeMap<String, String> {
        let is_for_scripts = |name: &str| {
            name.starts_with("CARGO_CFG_")
                || name.starts_with("CARGO_FEATURE_")
                || ["HOST", "TARGET"].contains(&name)
        };
        let variables = self.variables.iter().filter(|(name, _)| is_for_scripts(name));
        variables.map(|(name, value)| (name.clone(), value.clone())).collect()
    }

    /// Returns the value of a variable; `None` if it isn't set.
    pub fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(name).map(String::as_str)
    }

    /// Returns all variables.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Returns the running program, relative to the folder of the plans if cargo keeps both in one
    /// folder.
    pub fn program(&self) -> PathBuf {
        let program = std::env::current_exe().unwrap_or_default();
        // `build/<package>-<hash>/out`, and beside `<package>-<hash>` that of the program.
        let shared = self.out_dir.ancestors().nth(2);
        match shared.and_then(|it| program.strip_prefix(it).ok()) {
            Some(below) => Path::new("../../..").join(below),
            None => program,
        }
    }

    /// Collects the facts that decide if this build may measure.
    pub fn circumstances(&self) -> Circumstances {
        let owned = |name| self.variable(name).map(str::to_owned);
        Circumstances {
            requested: owned("TVMTUNE"),
            packages: owned("TVMTUNE_PACKAGES"),
            package: owned("CARGO_PKG_NAME").unwrap_or_default(),
            docs_rs: self.variable("DOCS_RS").is_some(),
            ci: self.variable("CI").is_some_and(|it| !matches!(it, "" | "0" | "false")),
            host: owned("HOST").unwrap_or_default(),
            target: owned("TARGET").unwrap_or_default(),
            foreign_source: is_foreign(&self.manifest_dir),
            device: false,
        }
    }
}

/// Tells if cargo put the source there: `.cargo-ok` marks registry sources and git checkouts,
/// `.cargo-checksum.json` vendored ones, and the other two the content of package files.
fn is_foreign(manifest_dir: &Path) -> bool {
    let markers = ["Cargo.toml.orig", ".cargo_vcs_info.json", ".cargo-checksum.json"];
    markers.iter().any(|it| manifest_dir.join(it).exists())
        || manifest_dir.ancestors().any(|it| it.join(".cargo-ok").exists())
}

/// A path, relative to the package, that never exists: cargo runs the script again at every build.
const NEVER: &str = "tvmtune/there-is-no-such-file";

impl fmt::Display for Directive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Directive::RerunIfEnvChanged(name) => write!(f, "cargo::rerun-if-env-changed={name}"),
            Directive::RerunIfChanged(path) | Directive::RunAgain(path) => {
                // A change of a file that cargo cannot be told of must not be missed.
                write!(f, "cargo::rerun-if-changed={}", plain(path).unwrap_or(NEVER))
            }
            Directive::Env(name, value) => match plain(value) {
                Some(value) => write!(f, "cargo::rustc-env={name}={value}"),
                None => write!(
                    f,
                    "cargo::error=tvmtune: cargo cannot be told of `{}`, whose name has control \
                     characters or is no text; build in another folder",
                    shown(value)
                ),
            },
            Directive::Warning(text) => write!(f, "cargo::warning={}", one_line(text)),
            Directive::Error(text) => write!(f, "cargo::error={}", one_line(text)),
        }
    }
}

/// Returns a path as text; `None` if a line cannot hold it.
fn plain(path: &Path) -> Option<&str> {
    path.to_str().filter(|it| !it.chars().any(is_control))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directive_is_one_line_whatever_it_names() {
        let evil = "a\ncargo::rustc-env=EVIL=1\n.toml";
        let path = || PathBuf::from(evil);
        for directive in [
            Directive::RerunIfChanged(path()),
            Directive::RunAgain(path()),
            Directive::Env("TVMTUNE_PLAN_DIR", path()),
            Directive::Warning(evil.to_owned()),
            Directive::Error(evil.to_owned()),
            Directive::Warning("a\rcargo::rustc-link-arg=-x\u{2028}\u{1b}[2J".to_owned()),
        ] {
            let line = directive.to_string();
            assert!(!line.chars().any(is_control), "{line:?}");
            assert!(line.starts_with("cargo::"), "{line:?}");
        }
        let changed = Directive::RerunIfChanged(path()).to_string();
        assert_eq!(changed, format!("cargo::rerun-if-changed={NEVER}"));
        assert!(Directive::Env("A", path()).to_string().starts_with("cargo::error="));
    }

    #[test]
    fn paths_of_users_are_printed_as_they_are() {
        for path in ["/home/größe/a b/Cargo.toml", "C:\\a\\b", "日本/x"] {
            let line = Directive::RerunIfChanged(path.into()).to_string();
            assert_eq!(line, format!("cargo::rerun-if-changed={path}"));
        }
    }
}

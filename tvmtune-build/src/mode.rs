//! The decision if a build may measure.
//!
//! In: [`Circumstances`], the known facts about the build. Out: a
//! [`Resolution`], the [`Mode`] with the [`Reason`] for it. Next: the build plans; in
//! [`Mode::Tune`] the macro asks for a session when the compiler emits code.
//!
//! # Invariants
//!
//! - A build measures only where its result is meant to run: never for a package that came from
//!   elsewhere, never across targets, never where code is only checked.
//! - What a user asks for with `TVMTUNE` wins, but `tune` still needs a device and a source of
//!   one's own; where it can't be had, the reason says why.
//!
//! # Source
//!
//! The precedence is sqlx's `SQLX_OFFLINE` made explicit; that a dependency never tunes on the
//! machine of its user is MIOpen's lesson.

use std::fmt;

pub use tvmtune_plan::mode::{Mode, UnknownMode};

/// The facts about a build.
#[derive(Clone, Debug, Default)]
pub struct Circumstances {
    /// The value of `TVMTUNE`, if it is set.
    pub requested: Option<String>,
    /// The value of `TVMTUNE_PACKAGES`, if it is set: names of packages that may tune.
    pub packages: Option<String>,
    /// The name of the package that is built.
    pub package: String,
    /// Set if docs.rs builds its documentation.
    pub docs_rs: bool,
    /// Set in a continuous-integration job.
    pub ci: bool,
    /// The triple of the machine that builds.
    pub host: String,
    /// The triple of the machine that is built for.
    pub target: String,
    /// Set if the source came from a registry, a package file, a vendor folder or a checkout
    /// that cargo made.
    pub foreign_source: bool,
    /// Set if generated kernels run on this machine.
    pub device: bool,
}

/// A [`Mode`] with its reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolution {
    /// The mode.
    pub mode: Mode,
    /// The reason for it.
    pub reason: Reason,
}

/// The reason for a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// `TVMTUNE` says so.
    Requested,
    /// docs.rs shows what a crate says, not how fast it is.
    DocsRs,
    /// The source is somebody else's: they tune it, and ship the records.
    ForeignSource,
    /// Kernels of the target don't run on the host.
    Cross,
    /// `TVMTUNE_PACKAGES` names others.
    OtherPackages,
    /// Nothing here runs generated kernels.
    NoDevice,
    /// A shared machine measures noise.
    Ci,
    /// The package is a working copy, and what is built of it runs on this machine.
    WorkingCopy,
}

/// Decides the mode of a build.
///
/// `TVMTUNE` wins where it can be honored; else the place of the build decides.
///
/// # Errors
///
/// If `TVMTUNE` names no mode.
pub fn resolve(build: &Circumstances) -> Result<Resolution, UnknownMode> {
    let requested = Mode::requested(build.requested.as_deref().unwrap_or_default())?;
    let resolution = |mode, reason| Ok(Resolution { mode, reason });
    match (requested, obstacle(build)) {
        (Some(Mode::Tune), Some(reason)) => resolution(Mode::Use, reason),
        (Some(mode), _) => resolution(mode, Reason::Requested),
        (None, _) if build.docs_rs => resolution(Mode::Off, Reason::DocsRs),
        (None, Some(reason)) => resolution(Mode::Use, reason),
        (None, None) if build.ci => resolution(Mode::Use, Reason::Ci),
        (None, None) => resolution(Mode::Tune, Reason::WorkingCopy),
    }
}

/// Returns the reason why this package can't be tuned here even on request.
fn obstacle(build: &Circumstances) -> Option<Reason> {
    let named = |list: &String| {
        list.split([',', ' ']).any(|it| it == build.package) || list.trim().is_empty()
    };
    if build.foreign_source {
        Some(Reason::ForeignSource)
    } else if build.host != build.target {
        Some(Reason::Cross)
    } else if !build.packages.as_ref().is_none_or(named) {
        Some(Reason::OtherPackages)
    } else if !build.device {
        Some(Reason::NoDevice)
    } else {
        None
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Requested => "TVMTUNE is set",
            Reason::DocsRs => "docs.rs builds documentation",
            Reason::ForeignSource => "the source is a package, not a working copy",
            Reason::Cross => "host and target differ",
            Reason::OtherPackages => "TVMTUNE_PACKAGES names other packages",
            Reason::NoDevice => "this machine runs no generated kernels",
            Reason::Ci => "CI is set; TVMTUNE=tune tunes all the same",
            Reason::WorkingCopy => "the package is a working copy",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resolves a build of a working copy on a machine with a device, changed by `change`.
    fn resolved(change: impl FnOnce(&mut Circumstances)) -> Result<Resolution, UnknownMode> {
        let mut build = Circumstances {
            package: "model".to_owned(),
            host: "x86_64-unknown-linux-gnu".to_owned(),
            target: "x86_64-unknown-linux-gnu".to_owned(),
            device: true,
            ..Circumstances::default()
        };
        change(&mut build);
        resolve(&build)
    }

    #[track_caller]
    fn check(change: impl FnOnce(&mut Circumstances), mode: Mode, reason: Reason) {
        assert_eq!(resolved(change), Ok(Resolution { mode, reason }));
    }

    #[test]
    fn the_place_of_a_build_decides() {
        check(|_| {}, Mode::Tune, Reason::WorkingCopy);
        check(|it| it.docs_rs = true, Mode::Off, Reason::DocsRs);
        check(|it| it.foreign_source = true, Mode::Use, Reason::ForeignSource);
        check(|it| it.target = "aarch64-apple-darwin".to_owned(), Mode::Use, Reason::Cross);
        check(|it| it.device = false, Mode::Use, Reason::NoDevice);
        check(|it| it.ci = true, Mode::Use, Reason::Ci);
    }

    #[test]
    fn what_is_asked_for_wins_where_it_can_be_had() {
        let ask = |text: &'static str| {
            move |it: &mut Circumstances| {
                it.requested = Some(text.to_owned());
                it.ci = true;
            }
        };
        check(ask("off"), Mode::Off, Reason::Requested);
        check(ask("use"), Mode::Use, Reason::Requested);
        check(ask("tune"), Mode::Tune, Reason::Requested);
        check(ask("require"), Mode::Require, Reason::Requested);
        check(ask(" "), Mode::Use, Reason::Ci);
        let ask_and = |change: fn(&mut Circumstances)| {
            move |it: &mut Circumstances| {
                ask("tune")(it);
                change(it);
            }
        };
        check(ask_and(|it| it.foreign_source = true), Mode::Use, Reason::ForeignSource);
        check(ask_and(|it| it.host.clear()), Mode::Use, Reason::Cross);
        check(ask_and(|it| it.device = false), Mode::Use, Reason::NoDevice);
    }

    #[test]
    fn a_misspelt_mode_is_an_error() {
        for text in ["requre", "Require", "tune,use"] {
            let unknown = Err(UnknownMode(text.to_owned()));
            assert_eq!(resolved(|it| it.requested = Some(text.to_owned())), unknown);
        }
    }

    #[test]
    fn packages_that_may_tune_can_be_named() {
        let name =
            |text: &'static str| move |it: &mut Circumstances| it.packages = Some(text.to_owned());
        check(name("model"), Mode::Tune, Reason::WorkingCopy);
        check(name("other,model"), Mode::Tune, Reason::WorkingCopy);
        check(name(""), Mode::Tune, Reason::WorkingCopy);
        check(name("models"), Mode::Use, Reason::OtherPackages);
    }
}

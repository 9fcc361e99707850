//! The report of a build: one line, and only if the user can do something about it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use crate::mode::{Mode, Resolution};
use serde::{Deserialize, Serialize};
use tvmtune_plan::contain::Panicked;
use tvmtune_plan::record::{Search, Tier};

/// The tuning status of one op: that of its worst bucket.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpReport {
    /// The function's name.
    pub name: String,
    /// The status on the best instruction set.
    pub cpu: TuningStatus,
    /// The status on the GPU of this machine, if the package is for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<TuningStatus>,
    /// The time that the rest of its search may take, in seconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub seconds_left: f64,
    /// A record with a schedule that should apply and does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flawed: Option<PathBuf>,
    /// A record with a better schedule than the planned one, whose code is another one than was
    /// measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outdated: Option<PathBuf>,
    /// CUDA devices that the package is for, and for which the kernel has no code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_archs: Vec<String>,
    /// The mistake of tvmtune that keeps it from having a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// The tuning status of a kernel, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TuningStatus {
    /// Measured on this device, and searched to the end.
    Exact,
    /// Measured on this device, and searched until a budget ended: the next build goes on.
    Unfinished,
    /// Measured on another device of the same instruction set.
    Similar,
    /// The default schedule, measured on this device; nothing else was tried.
    Confirmed,
    /// Measured, but another release made other code of the same trace, which is replayed; or the default
    /// schedule runs, if it is expected to be faster.
    Replayed,
    /// A schedule that was measured for other extents.
    Transferred,
    /// A schedule that a value function chose; nothing was measured.
    Predicted,
    /// The default schedule.
    #[default]
    Default,
    /// Portable Rust: no machine code can be generated for it.
    Portable,
}

impl OpReport {
    /// The report of an op over which the compiler panicked: no session could do anything about it.
    pub fn broken(name: &str, why: &Panicked) -> Self {
        Self {
            name: name.to_owned(),
            cpu: TuningStatus::Portable,
            broken: Some(why.to_string()),
            ..Self::default()
        }
    }

    /// Returns the worse of the statuses on the devices of this machine.
    pub fn status(&self) -> TuningStatus {
        match (self.cpu, self.gpu) {
            (cpu, None) => cpu,
            // Tuning changes nothing on the CPU then.
            (TuningStatus::Portable, Some(gpu)) => gpu,
            (cpu, Some(gpu)) => cpu.max(gpu),
        }
    }
}

impl TuningStatus {
    /// Returns the status of a schedule of that tier, whose search got that far.
    pub fn new(tier: Tier, stale: bool, search: Search) -> Self {
        match (tier, search) {
            (Tier::Exact | Tier::SameIsa, _) if stale => TuningStatus::Replayed,
            (Tier::Exact, Search::Partial) => TuningStatus::Unfinished,
            (Tier::Exact, Search::DefaultOnly) => TuningStatus::Confirmed,
            (Tier::Exact, Search::Complete | Search::None) => TuningStatus::Exact,
            (Tier::SameIsa, _) => TuningStatus::Similar,
            (Tier::Transferred, _) => TuningStatus::Transferred,
            (Tier::Predicted, _) => TuningStatus::Predicted,
            (Tier::Default, _) => TuningStatus::Default,
        }
    }

    /// Tells if no schedule was measured for these extents.
    pub fn is_miss(self) -> bool {
        matches!(self, TuningStatus::Transferred | TuningStatus::Predicted | TuningStatus::Default)
    }

    /// Tells if a build that may measure tunes it: what was searched in part goes on, schedules of a
    /// similar device are refined, and replayed ones are measured again.
    pub fn wants_tuning(self) -> bool {
        let is_uncertain = matches!(self, TuningStatus::Similar | TuningStatus::Replayed);
        self.is_miss() || self.is_unfinished() || is_uncertain
    }

    /// Tells if it was measured on this device, and its search goes on.
    pub fn is_unfinished(self) -> bool {
        matches!(self, TuningStatus::Unfinished | TuningStatus::Confirmed)
    }

    /// Returns the spelling in reports.
    pub fn name(self) -> &'static str {
        match self {
            TuningStatus::Exact => "exact",
            TuningStatus::Unfinished => "unfinished",
            TuningStatus::Similar => "similar device",
            TuningStatus::Confirmed => "default confirmed",
            TuningStatus::Replayed => "replayed",
            TuningStatus::Transferred => "transferred",
            TuningStatus::Predicted => "predicted",
            TuningStatus::Default => "default",
            TuningStatus::Portable => "portable",
        }
    }

    const ALL: [Self; 9] = [
        Self::Exact,
        Self::Unfinished,
        Self::Similar,
        Self::Confirmed,
        Self::Replayed,
        Self::Transferred,
        Self::Predicted,
        Self::Default,
        Self::Portable,
    ];
}

impl fmt::Display for TuningStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `7 kernels: 5 exact, 1 unfinished, 1 default`.
pub fn summary(reports: &[OpReport]) -> String {
    let counts = TuningStatus::ALL.into_iter().filter_map(|status| {
        let n = reports.iter().filter(|it| it.status() == status).count();
        (n > 0).then(|| format!("{n} {status}"))
    });
    let kernels = if reports.len() == 1 { "kernel" } else { "kernels" };
    format!("{} {kernels}: {}", reports.len(), counts.collect::<Vec<_>>().join(", "))
}

/// `about 3 min of search are left`; `None` if none is.
pub fn rest(reports: &[OpReport]) -> Option<String> {
    let seconds: f64 = reports.iter().map(|it| it.seconds_left).sum();
    match seconds {
        it if it < 0.5 => None,
        it if it < 120.0 => Some(format!("about {it:.0} s of search are left")),
        it => Some(format!("about {:.0} min of search are left", it / 60.0)),
    }
}

/// Returns the line for the user; `None` if nothing is left to do. `trouble` stopped the tuning of this
/// build before its budget was spent.
pub fn warning(
    reports: &[OpReport],
    resolution: &Resolution,
    trouble: Option<&str>,
) -> Option<String> {
    let concerns = |it: &OpReport| match resolution.mode {
        Mode::Tune => it.status().wants_tuning() && it.status() != TuningStatus::Similar,
        Mode::Use | Mode::Require => it.status().is_miss(),
        Mode::Off => false,
    };
    if trouble.is_none() && !reports.iter().any(concerns) {
        return None;
    }
    let summary = summary(reports);
    let reason = match (trouble, resolution.mode) {
        (Some(trouble), _) => trouble.to_owned(),
        (None, Mode::Tune) => match rest(reports) {
            Some(rest) => format!("the budget was spent; {rest}, and the next builds go on"),
            None => "the rest cannot be tuned".to_owned(),
        },
        (None, _) => resolution.reason.to_string(),
    };
    Some(format!("tvmtune: {summary} ({reason}); run `cargo tvmtune status`"))
}

fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

/// Returns the line about kernels without code for CUDA devices; `None` if there are none.
pub fn lacking(reports: &[OpReport]) -> Option<String> {
    let lacking = reports.iter().filter(|it| !it.missing_archs.is_empty());
    let archs: BTreeSet<&str> =
        lacking.clone().flat_map(|it| &it.missing_archs).map(|it| &**it).collect();
    let have = match lacking.count() {
        0 => return None,
        1 => "1 kernel has".to_owned(),
        n => format!("{n} kernels have"),
    };
    let archs: Vec<&str> = archs.into_iter().collect();
    Some(format!(
        "tvmtune: {have} no code for {}; run `cargo tvmtune compile --record`",
        archs.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use crate::mode::Reason;

    use super::*;

    fn reports(standings: &[TuningStatus]) -> Vec<OpReport> {
        let report = |status: &TuningStatus| OpReport {
            name: "op".to_owned(),
            cpu: *status,
            ..OpReport::default()
        };
        standings.iter().map(report).collect()
    }

    #[test]
    fn kernels_are_counted_best_first() {
        use TuningStatus::{Default, Exact, Portable, Transferred};
        let check = |standings: &[TuningStatus], text: &str| {
            assert_eq!(summary(&reports(standings)), text);
        };
        check(&[Exact], "1 kernel: 1 exact");
        check(
            &[Default, Exact, Transferred, Exact, Portable],
            "5 kernels: 2 exact, 1 transferred, 1 default, 1 portable",
        );
    }

    #[test]
    fn the_worse_of_both_devices_counts_if_something_can_be_done_about_it() {
        use TuningStatus::{Default, Exact, Portable, Replayed};
        let on = |cpu, gpu| OpReport { cpu, gpu, ..OpReport::default() }.status();
        assert_eq!(on(Replayed, None), Replayed);
        assert_eq!(on(Replayed, Some(Exact)), Replayed);
        assert_eq!(on(Exact, Some(Default)), Default);
        assert_eq!(on(Portable, Some(Default)), Default);
        assert_eq!(on(Portable, None), Portable);
    }

    #[test]
    fn a_build_warns_only_of_what_tuning_can_change() {
        let on_ci = Resolution { mode: Mode::Use, reason: Reason::Ci };
        let check = |standings: &[TuningStatus], text: Option<&str>| {
            assert_eq!(warning(&reports(standings), &on_ci, None).as_deref(), text);
        };
        check(&[], None);
        check(&[TuningStatus::Exact, TuningStatus::Similar, TuningStatus::Portable], None);
        check(&[TuningStatus::Unfinished, TuningStatus::Confirmed], None);
        let text = "tvmtune: 2 kernels: 1 exact, 1 default (CI is set; TVMTUNE=tune tunes all the \
                    same); run `cargo tvmtune status`";
        check(&[TuningStatus::Exact, TuningStatus::Default], Some(text));
    }

    #[test]
    fn a_build_that_tunes_says_what_is_left_and_why() {
        use TuningStatus::{Confirmed, Default, Exact, Unfinished};
        let tunes = Resolution { mode: Mode::Tune, reason: Reason::Requested };
        let check = |standings: &[TuningStatus], left: f64, trouble: Option<&str>, text: &str| {
            let mut reports = reports(standings);
            reports[0].seconds_left = left;
            let line = warning(&reports, &tunes, trouble).unwrap_or_default();
            let expected = match text {
                "" => String::new(),
                text => format!("tvmtune: {text}; run `cargo tvmtune status`"),
            };
            assert_eq!(line, expected);
        };
        check(&[Exact, Exact], 0.0, None, "");
        check(
            &[Unfinished, Exact],
            15.2,
            None,
            "2 kernels: 1 exact, 1 unfinished (the budget was spent; about 15 s of search are left, \
             and the next builds go on)",
        );
        check(
            &[Confirmed],
            600.0,
            None,
            "1 kernel: 1 default confirmed (the budget was spent; about 10 min of search are left, \
             and the next builds go on)",
        );
        check(&[Default], 0.0, None, "1 kernel: 1 default (the rest cannot be tuned)");
        check(&[Exact], 0.0, Some("the disk is full"), "1 kernel: 1 exact (the disk is full)");
        check(&[Default], 20.0, Some("no worker"), "1 kernel: 1 default (no worker)");
    }

    #[test]
    fn a_search_decides_if_a_measured_schedule_is_exact() {
        use TuningStatus::{Confirmed, Default, Exact, Predicted, Replayed, Similar, Unfinished};
        let check = |tier, stale, search, status: TuningStatus, wants: bool, is_miss: bool| {
            let found = TuningStatus::new(tier, stale, search);
            assert_eq!(found, status);
            assert_eq!((found.wants_tuning(), found.is_miss()), (wants, is_miss), "{found}");
        };
        check(Tier::Exact, false, Search::Complete, Exact, false, false);
        check(Tier::Exact, false, Search::Partial, Unfinished, true, false);
        check(Tier::Exact, false, Search::DefaultOnly, Confirmed, true, false);
        check(Tier::Exact, true, Search::Complete, Replayed, true, false);
        check(Tier::SameIsa, false, Search::None, Similar, true, false);
        check(Tier::Predicted, false, Search::None, Predicted, true, true);
        check(Tier::Default, false, Search::None, Default, true, true);
    }

    #[test]
    fn missing_code_for_devices_is_reported_in_one_line() {
        assert_eq!(lacking(&reports(&[TuningStatus::Exact])), None);
        let mut reports = reports(&[TuningStatus::Exact, TuningStatus::Exact, TuningStatus::Exact]);
        reports[1].missing_archs = vec!["sm_90a".to_owned(), "sm_80".to_owned()];
        reports[2].missing_archs = vec!["sm_90a".to_owned()];
        let text = "tvmtune: 2 kernels have no code for sm_80, sm_90a; \
                    run `cargo tvmtune compile --record`";
        assert_eq!(lacking(&reports).as_deref(), Some(text));
    }
}

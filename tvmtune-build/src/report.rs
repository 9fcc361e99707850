//! The report of a build: one line, and only if the user can do something about it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use crate::mode::{Mode, Resolution};
use serde::{Deserialize, Serialize};
use tvmtune_plan::record::Tier;

/// The tuning status of one op: that of its worst bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpReport {
    /// The function's name.
    pub name: String,
    /// The status on the best instruction set.
    pub cpu: TuningStatus,
    /// The status on the GPU of this machine, if the package is for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<TuningStatus>,
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
}

/// The tuning status of a kernel, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TuningStatus {
    /// Measured on this device.
    Exact,
    /// Measured on another device of the same instruction set.
    Similar,
    /// Measured, but the code generator has changed since.
    Stale,
    /// A schedule that was measured for other extents.
    Transferred,
    /// The default schedule.
    #[default]
    Default,
    /// Portable Rust: no machine code can be generated for it.
    Portable,
}

impl OpReport {
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
    /// Returns the status of a schedule of that tier.
    pub fn new(tier: Tier, stale: bool) -> Self {
        match tier {
            Tier::Exact | Tier::SameIsa if stale => TuningStatus::Stale,
            Tier::Exact => TuningStatus::Exact,
            Tier::SameIsa => TuningStatus::Similar,
            Tier::Transferred => TuningStatus::Transferred,
            Tier::Default => TuningStatus::Default,
        }
    }

    /// Tells if tuning can improve it.
    pub fn is_miss(self) -> bool {
        self == TuningStatus::Stale || self.is_untuned()
    }

    /// Tells if a build that may measure tunes it: schedules of a similar device are refined, too.
    pub fn wants_tuning(self) -> bool {
        self.is_miss() || self == TuningStatus::Similar
    }

    /// Tells if the schedule was not measured for these extents.
    pub fn is_untuned(self) -> bool {
        matches!(self, TuningStatus::Transferred | TuningStatus::Default)
    }

    /// Returns the spelling in reports.
    pub fn name(self) -> &'static str {
        match self {
            TuningStatus::Exact => "exact",
            TuningStatus::Similar => "similar device",
            TuningStatus::Stale => "stale",
            TuningStatus::Transferred => "transferred",
            TuningStatus::Default => "default",
            TuningStatus::Portable => "portable",
        }
    }

    const ALL: [Self; 6] =
        [Self::Exact, Self::Similar, Self::Stale, Self::Transferred, Self::Default, Self::Portable];
}

impl fmt::Display for TuningStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `7 kernels: 5 exact, 1 transferred, 1 default`.
pub fn summary(reports: &[OpReport]) -> String {
    let counts = TuningStatus::ALL.into_iter().filter_map(|status| {
        let n = reports.iter().filter(|it| it.status() == status).count();
        (n > 0).then(|| format!("{n} {status}"))
    });
    let kernels = if reports.len() == 1 { "kernel" } else { "kernels" };
    format!("{} {kernels}: {}", reports.len(), counts.collect::<Vec<_>>().join(", "))
}

/// Returns the line for the user; `None` if tuning can improve no kernel.
pub fn warning(reports: &[OpReport], resolution: &Resolution) -> Option<String> {
    if resolution.mode == Mode::Off || !reports.iter().any(|it| it.status().is_miss()) {
        return None;
    }
    let summary = summary(reports);
    let reason = match resolution.mode {
        Mode::Tune => "the budget was spent".to_owned(),
        _ => resolution.reason.to_string(),
    };
    Some(format!("tvmtune: {summary} ({reason}); run `cargo tvmtune status`"))
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
        use TuningStatus::{Default, Exact, Portable, Stale};
        let on = |cpu, gpu| OpReport { cpu, gpu, ..OpReport::default() }.status();
        assert_eq!(on(Stale, None), Stale);
        assert_eq!(on(Stale, Some(Exact)), Stale);
        assert_eq!(on(Exact, Some(Default)), Default);
        assert_eq!(on(Portable, Some(Default)), Default);
        assert_eq!(on(Portable, None), Portable);
    }

    #[test]
    fn a_build_warns_only_of_what_tuning_can_change() {
        let on_ci = Resolution { mode: Mode::Use, reason: Reason::Ci };
        let check = |standings: &[TuningStatus], text: Option<&str>| {
            assert_eq!(warning(&reports(standings), &on_ci).as_deref(), text);
        };
        check(&[], None);
        check(&[TuningStatus::Exact, TuningStatus::Similar, TuningStatus::Portable], None);
        let text = "tvmtune: 2 kernels: 1 exact, 1 default (CI is set; TVMTUNE=tune tunes all the \
                    same); run `cargo tvmtune status`";
        check(&[TuningStatus::Exact, TuningStatus::Default], Some(text));
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

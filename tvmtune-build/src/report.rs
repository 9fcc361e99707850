//! What a build says of its kernels: one line, and only if there is something to do about it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use crate::mode::{Mode, Resolution};
use serde::{Deserialize, Serialize};
use tvmtune_plan::record::Tier;

/// How the code of one op was found, for its worst bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpReport {
    /// The function's name.
    pub name: String,
    /// How far from measured it is on the aimed-at instruction set.
    pub cpu: Standing,
    /// The same on the GPU of this machine, if the package is for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<Standing>,
    /// A record with a schedule that should apply and does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flawed: Option<PathBuf>,
    /// CUDA devices that the package is for, and for which the kernel has no code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
}

/// How far from measured a kernel is, the best first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Measured on this device.
    Exact,
    /// Measured on another device of the same instruction set.
    Similar,
    /// Measured, but the code generator has changed since.
    Stale,
    /// By a schedule that was measured for other extents.
    Transferred,
    /// By the schedule that needs no measurement.
    #[default]
    Default,
    /// As portable Rust: machine code can't be generated for it.
    Portable,
}

impl OpReport {
    /// How far from measured the op is on the devices of this machine.
    pub fn standing(&self) -> Standing {
        match (self.cpu, self.gpu) {
            (cpu, None) => cpu,
            // Nothing can be done about that, and there may be about the other.
            (Standing::Portable, Some(gpu)) => gpu,
            (cpu, Some(gpu)) => cpu.max(gpu),
        }
    }
}

impl Standing {
    /// The standing of a schedule of that tier.
    pub fn new(tier: Tier, stale: bool) -> Self {
        match tier {
            Tier::Exact | Tier::SameIsa if stale => Standing::Stale,
            Tier::Exact => Standing::Exact,
            Tier::SameIsa => Standing::Similar,
            Tier::Transferred => Standing::Transferred,
            Tier::Default => Standing::Default,
        }
    }

    /// Whether tuning could do something about it.
    pub fn is_miss(self) -> bool {
        self == Standing::Stale || self.is_untuned()
    }

    /// Whether a build that may measure does so: also what was found on a near device is refined on
    /// this one.
    pub fn wants_tuning(self) -> bool {
        self.is_miss() || self == Standing::Similar
    }

    /// Whether the schedule was not measured for these extents.
    pub fn is_untuned(self) -> bool {
        matches!(self, Standing::Transferred | Standing::Default)
    }

    /// The spelling in reports.
    pub fn name(self) -> &'static str {
        match self {
            Standing::Exact => "exact",
            Standing::Similar => "similar device",
            Standing::Stale => "stale",
            Standing::Transferred => "transferred",
            Standing::Default => "default",
            Standing::Portable => "portable",
        }
    }

    const ALL: [Standing; 6] = [
        Standing::Exact,
        Standing::Similar,
        Standing::Stale,
        Standing::Transferred,
        Standing::Default,
        Standing::Portable,
    ];
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// `7 kernels: 5 exact, 1 transferred, 1 default`.
pub fn summary(reports: &[OpReport]) -> String {
    let counts = Standing::ALL.into_iter().filter_map(|standing| {
        let n = reports.iter().filter(|it| it.standing() == standing).count();
        (n > 0).then(|| format!("{n} {standing}"))
    });
    let kernels = if reports.len() == 1 { "kernel" } else { "kernels" };
    format!("{} {kernels}: {}", reports.len(), counts.collect::<Vec<_>>().join(", "))
}

/// The line for the user; `None` if every kernel is as good as it gets.
pub fn warning(reports: &[OpReport], resolution: &Resolution) -> Option<String> {
    if resolution.mode == Mode::Off || !reports.iter().any(|it| it.standing().is_miss()) {
        return None;
    }
    let summary = summary(reports);
    let reason = match resolution.mode {
        Mode::Tune => "the budget was spent".to_owned(),
        _ => resolution.reason.to_string(),
    };
    Some(format!("tvmtune: {summary} ({reason}); run `cargo tvmtune status`"))
}

/// The line of kernels that lack code for CUDA devices; `None` if there is none.
pub fn lacking(reports: &[OpReport]) -> Option<String> {
    let lacking = reports.iter().filter(|it| !it.lacks.is_empty());
    let archs: BTreeSet<&str> = lacking.clone().flat_map(|it| &it.lacks).map(|it| &**it).collect();
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

/// The error of mode `require`; `None` if nothing is missing.
pub fn refusal(reports: &[OpReport]) -> Option<String> {
    let missing = reports.iter().filter(|it| it.cpu.is_miss());
    let named: Vec<_> = missing.map(|it| format!("`{}` ({})", it.name, it.cpu)).collect();
    (!named.is_empty()).then(|| {
        let named = named.join(", ");
        format!(
            "tvmtune: TVMTUNE=require, but there is no valid record for {named}; \
             run `cargo tvmtune tune` and `cargo tvmtune accept`, and commit `tvmtune/`"
        )
    })
}

#[cfg(test)]
mod tests {
    use crate::mode::Reason;

    use super::*;

    fn reports(standings: &[Standing]) -> Vec<OpReport> {
        let report = |standing: &Standing| OpReport {
            name: "op".to_owned(),
            cpu: *standing,
            ..OpReport::default()
        };
        standings.iter().map(report).collect()
    }

    #[test]
    fn kernels_are_counted_best_first() {
        use Standing::{Default, Exact, Portable, Transferred};
        let check = |standings: &[Standing], text: &str| {
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
        use Standing::{Default, Exact, Portable, Stale};
        let on = |cpu, gpu| OpReport { cpu, gpu, ..OpReport::default() }.standing();
        assert_eq!(on(Stale, None), Stale);
        assert_eq!(on(Stale, Some(Exact)), Stale);
        assert_eq!(on(Exact, Some(Default)), Default);
        assert_eq!(on(Portable, Some(Default)), Default);
        assert_eq!(on(Portable, None), Portable);
    }

    #[test]
    fn a_build_warns_only_of_what_tuning_can_change() {
        let in_check = Resolution { mode: Mode::Use, reason: Reason::Command("check".to_owned()) };
        let check = |standings: &[Standing], text: Option<&str>| {
            assert_eq!(warning(&reports(standings), &in_check).as_deref(), text);
        };
        check(&[], None);
        check(&[Standing::Exact, Standing::Similar, Standing::Portable], None);
        let text = "tvmtune: 2 kernels: 1 exact, 1 default (`cargo check` never measures); \
                    run `cargo tvmtune status`";
        check(&[Standing::Exact, Standing::Default], Some(text));
    }

    #[test]
    fn what_lacks_code_for_devices_is_told_in_one_line() {
        assert_eq!(lacking(&reports(&[Standing::Exact])), None);
        let mut reports = reports(&[Standing::Exact, Standing::Exact, Standing::Exact]);
        reports[1].lacks = vec!["sm_90a".to_owned(), "sm_80".to_owned()];
        reports[2].lacks = vec!["sm_90a".to_owned()];
        let text = "tvmtune: 2 kernels have no code for sm_80, sm_90a; \
                    run `cargo tvmtune compile --record`";
        assert_eq!(lacking(&reports).as_deref(), Some(text));
    }

    #[test]
    fn a_refusal_names_what_is_missing_and_what_to_do() {
        assert_eq!(refusal(&reports(&[Standing::Exact])), None);
        let text = refusal(&reports(&[Standing::Exact, Standing::Stale])).expect("refused");
        assert!(text.contains("`op` (stale)"), "{text}");
        assert!(text.contains("cargo tvmtune tune"), "{text}");
    }
}

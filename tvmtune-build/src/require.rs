//! Mode `require`: the reason why a kernel may not be built.
//!
//! In: the [`OpReport`] of a kernel. Out: one line, which the macro prints as an error where the
//! kernel stands: only what is expanded is refused, and everything that is.

use crate::report::{OpReport, TuningStatus};
use tvmtune_plan::printable::shown;

/// Returns the reason why a kernel is refused; `None` if it has all that is required.
pub(crate) fn refusal(report: &OpReport) -> Option<String> {
    let refused = |why: String, next: &str| {
        Some(format!("`{}` is refused by `TVMTUNE=require`: {why}; {next}", report.name))
    };
    const TUNE: &str = "run `cargo tvmtune tune` and `cargo tvmtune accept`, and commit `tvmtune/`";
    const RESTORE: &str =
        "restore the file, or run `cargo tvmtune tune` and `cargo tvmtune accept`";
    if let Some(why) = &report.broken {
        return Some(why.clone());
    }
    if let Some(path) = &report.flawed {
        return refused(format!("a schedule in `{}` does not apply", shown(path)), RESTORE);
    }
    if let Some(path) = &report.outdated {
        let why = format!("a schedule in `{}` makes other code than was measured", shown(path));
        return refused(why, RESTORE);
    }
    if report.cpu == TuningStatus::Replayed {
        let why = "its record is of another release, or was edited: other code was measured";
        return refused(why.to_owned(), "run `cargo tvmtune upgrade` and `cargo tvmtune accept`");
    }
    if report.cpu.is_miss() {
        return refused(format!("it has no valid record ({})", report.cpu), TUNE);
    }
    if !report.missing_archs.is_empty() {
        let why = format!("it has no code for {}", report.missing_archs.join(", "));
        return refused(why, "run `cargo tvmtune compile --record` and `cargo tvmtune accept`");
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_why_and_what_to_do() {
        let exact = OpReport { cpu: TuningStatus::Exact, ..OpReport::default() };
        assert_eq!(refusal(&exact), None);
        let check = |report: OpReport, texts: [&str; 2]| {
            let text = refusal(&OpReport { name: "op".to_owned(), ..report }).expect("refused");
            assert!(text.contains("`op`") && texts.iter().all(|it| text.contains(it)), "{text}");
        };
        let replayed = OpReport { cpu: TuningStatus::Replayed, ..OpReport::default() };
        check(replayed, ["other code", "cargo tvmtune upgrade"]);
        let untuned = OpReport { cpu: TuningStatus::Default, ..OpReport::default() };
        check(untuned, ["(default)", "cargo tvmtune tune"]);
        let flawed = OpReport { flawed: Some("a.toml".into()), ..exact.clone() };
        check(flawed, ["`a.toml`", "restore"]);
        let outdated = OpReport { outdated: Some("a.toml".into()), ..exact.clone() };
        check(outdated, ["`a.toml`", "other code"]);
        let missing = OpReport { missing_archs: vec!["sm_90a".to_owned()], ..exact };
        check(missing, ["sm_90a", "compile --record"]);
    }
}

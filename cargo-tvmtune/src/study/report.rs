//! The report of a study: tables in Markdown, and plots beside it.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use tvmtune_tuner::statistics::{Ratio, median, quantile};

use super::analysis::{self, Comparison};
use super::cell::Cell;
use super::plan::{Budget, Key, NO_LIMIT, Study};
use super::plot;
use crate::render::{latency, took};

/// Writes the report of all finished cells, and its plots; returns its path.
///
/// # Errors
///
/// If they can't be written.
pub(crate) fn write(out: &Path, study: &Study, cells: &[Cell]) -> Result<PathBuf> {
    let mut text = format!("# {}\n\n{}\n", study.name, study.question);
    let devices: BTreeSet<&str> = cells.iter().map(|it| it.device.as_str()).collect();
    for device in &devices {
        let here: Vec<&Cell> = cells.iter().filter(|it| it.device == *device).collect();
        text += &format!("\n## {device}\n\n{}", of_device(study, &here));
    }
    if devices.is_empty() {
        text += "\nNothing has been measured.\n";
    }
    let path = out.join("report.md");
    fs::write(&path, text).with_context(|| format!("cannot write `{}`", path.display()))?;
    for device in devices {
        let here: Vec<&Cell> = cells.iter().filter(|it| it.device == device).collect();
        plot::write(&out.join("plots").join(plot::file(device)), study, &here)?;
    }
    Ok(path)
}

/// Returns the section of one device.
fn of_device(study: &Study, cells: &[&Cell]) -> String {
    let tools: BTreeSet<&str> = cells.iter().map(|it| it.tool.as_str()).collect();
    let seeds: Vec<String> = study.seeds.iter().map(u64::to_string).collect();
    let mut text = format!(
        "{}; seeds {}; {}. {}Intervals are of 95 %, for networks other than these; of a single \
         network, for other seeds.\n\n### Speedup over default schedules\n\n",
        tools.into_iter().collect::<Vec<_>>().join(", "),
        seeds.join(" "),
        budget(study),
        other_load(cells),
    );
    text += &speedups(study, cells);
    text += &format!("\n### Beside `{}`\n\n", study.baseline);
    text += &comparisons(study, cells);
    if let Some(full) = &study.full {
        text += &format!("\n### Shares of what `{full}` finds\n\n");
        text += &shares(full, study, cells);
    }
    text += "\n### Latency of networks\n\nThe middle of all seeds, and the range of them.\n\n";
    text += &networks(study, cells);
    text += "\n### Left out\n\n";
    let excluded = analysis::excluded(study, cells);
    if excluded.is_empty() {
        text += "Nothing.\n";
    }
    excluded.iter().for_each(|it| text += &format!("- {it}\n"));
    text
}

fn budget(study: &Study) -> String {
    let Budget { trials, seconds } = study.budget;
    let trials = (trials < u64::MAX).then(|| format!("at most {trials} trials for each layer"));
    let span = span(seconds);
    let seconds = (seconds < NO_LIMIT).then(|| format!("at most {span} for each network"));
    trials.into_iter().chain(seconds).collect::<Vec<_>>().join(", ")
}

/// Says how much other programs disturbed.
fn other_load(cells: &[&Cell]) -> String {
    let loads: Vec<f64> = cells.iter().filter_map(|it| it.other_load).collect();
    if loads.is_empty() {
        return String::new();
    }
    let [middle, most] = [0.5, 1.0].map(|share| 100.0 * quantile(&loads, share));
    format!("Other programs used {middle:.1} % of the processors' time, in one cell {most:.1} %. ")
}

fn speedups(study: &Study, cells: &[&Cell]) -> String {
    let header = "arm | cells | layers, mean | layers, median | networks, mean | networks, median | \
                  trials | time";
    let mut table = Markdown::new(header);
    for arm in &study.arms {
        let of_arm: Vec<&Cell> =
            cells.iter().filter(|it| it.key.arm == arm.name).copied().collect();
        let it = analysis::speedup(&of_arm);
        let times = |values: [f64; 2]| values.map(|it| known(it, "x"));
        let ([layers_mean, layers_median], [mean, median]) = (times(it.layers), times(it.networks));
        table.row(&[
            arm.name.clone(),
            it.n_cells.to_string(),
            layers_mean,
            layers_median,
            mean,
            median,
            it.trials.to_string(),
            span(it.seconds),
        ]);
    }
    table.text
}

fn comparisons(study: &Study, cells: &[&Cell]) -> String {
    let header = "arm | pairs | independent | latency of networks | of layers | of layers, median | \
                  of layers, at equal time | trials to be as good | time to be as good | networks, time to be as good | effect";
    let mut table = Markdown::new(header);
    for arm in study.arms.iter().filter(|it| it.name != study.baseline) {
        let pairs = analysis::pairs(cells, [&arm.name, &study.baseline]);
        let it = analysis::compare(&pairs);
        table.row(&[
            arm.name.clone(),
            it.n_pairs.to_string(),
            it.networks.map_or("-".to_owned(), |it| it.n.to_string()),
            ratio(it.networks),
            ratio(it.layers),
            known(it.layers_median, ""),
            ratio(it.at_equal_time),
            ratio(it.trials),
            ratio(it.seconds),
            ratio(it.network_seconds),
            verdict(&it),
        ]);
    }
    table.text
}

/// Describes the effect on latency.
fn verdict(comparison: &Comparison) -> String {
    match comparison.networks {
        Some(it) if !it.is_enough() => "too few".to_owned(),
        Some(it) if it.is_effect() && it.mean < 1.0 => "faster".to_owned(),
        Some(it) if it.is_effect() => "slower".to_owned(),
        Some(_) => "none shown".to_owned(),
        None => "not measured".to_owned(),
    }
}

fn shares(full: &str, study: &Study, cells: &[&Cell]) -> String {
    let mut table = Markdown::new(
        "arm | network | source | speedup, of full | time saved, of full | full search takes",
    );
    for arm in study.arms.iter().filter(|it| it.name != full) {
        let pairs = analysis::pairs(cells, [&arm.name, full]);
        let networks: BTreeSet<_> =
            pairs.iter().map(|(it, _)| (&it.key.target, &it.key.source)).collect();
        let all = (None, pairs.clone());
        let each = networks.into_iter().map(|network| {
            let is_it = |it: &&(&Cell, &Cell)| (&it.0.key.target, &it.0.key.source) == network;
            (Some(network), pairs.iter().filter(is_it).copied().collect())
        });
        for (network, pairs) in each.chain([all]) {
            let Some(it) = analysis::share(&pairs) else { continue };
            let (network, source) =
                network.map_or(("all", None), |it| (it.0.as_str(), it.1.as_deref()));
            table.row(&[
                arm.name.clone(),
                network.to_owned(),
                source.unwrap_or("-").to_owned(),
                format!("{:.1} %", it.speedup),
                format!("{:.1} %", it.saving),
                format!("{:.1}x", it.search_time),
            ]);
        }
    }
    table.text
}

fn networks(study: &Study, cells: &[&Cell]) -> String {
    let arms: Vec<&str> = study.arms.iter().map(|it| it.name.as_str()).collect();
    let mut table = Markdown::new(&[&["network", "default"], &arms[..]].concat().join(" | "));
    for target in study.targets() {
        let range_of = |is_included: &dyn Fn(&Key) -> bool, ns: fn(&Cell) -> Option<f64>| {
            let cells = cells.iter().filter(|it| it.key.target == target && is_included(&it.key));
            range(&cells.filter_map(|it| ns(it)).collect::<Vec<_>>())
        };
        let mut row = vec![target.to_owned(), range_of(&|_| true, Cell::default_ns)];
        row.extend(arms.iter().map(|arm| range_of(&|it| it.arm == *arm, Cell::best_ns)));
        table.row(&row);
    }
    table.text
}

fn range(ns: &[f64]) -> String {
    if ns.is_empty() {
        return "-".to_owned();
    }
    let (low, high) =
        ns.iter().fold((f64::INFINITY, 0.0_f64), |it, ns| (it.0.min(*ns), it.1.max(*ns)));
    format!("{} ({} to {})", latency(median(ns)), latency(low), latency(high))
}

/// Formats a number with a unit; a dash if nothing was measured.
fn known(value: f64, unit: &str) -> String {
    if value.is_nan() { "-".to_owned() } else { format!("{value:.3}{unit}") }
}

fn ratio(ratio: Option<Ratio>) -> String {
    let text = |it: Ratio| format!("{:.3} ({:.3} to {:.3})", it.mean, it.low, it.high);
    ratio.map_or("-".to_owned(), text)
}

fn span(seconds: f64) -> String {
    took(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

/// A table.
struct Markdown {
    text: String,
}

impl Markdown {
    /// Begins with the titles of columns, which bars separate.
    fn new(header: &str) -> Self {
        let rule = vec!["---"; header.split(" | ").count()].join(" | ");
        Self { text: format!("| {header} |\n| {rule} |\n") }
    }

    fn row(&mut self, cells: &[String]) {
        writeln!(self.text, "| {} |", cells.join(" | ")).expect("text can be written to");
    }
}

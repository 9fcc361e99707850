//! `cargo tvmtune profile`: the launches of an application that was run with `TVMTUNE_TRACE`, summed up.

use std::fs;

use anyhow::{Context, Result, anyhow};
use serde::Serialize;

use crate::Exit;
use crate::cli::Profile as Arguments;
use crate::output::{print, println};
use crate::profile::read::Profile;
use crate::profile::rows::{Row, rows};
use crate::render::{Table, count, latency, percent, three_digits};
use crate::roofline::Roofline;

/// The result, as JSON has it.
#[derive(Serialize)]
struct Summary {
    kernels: Vec<Row>,
    launches: usize,
    total_us: f64,
    /// The time between launches of one thread, in which nothing of the profile ran there.
    idle_us: f64,
    /// Launches that were captured into graphs, and have no times.
    captured: usize,
    /// Events of other programs.
    others: usize,
    /// The last event is incomplete.
    is_cut_off: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let path = arguments.file.display();
    let bytes = fs::read(&arguments.file).with_context(|| {
        format!("{path}; run an application with `TVMTUNE_TRACE` set to a file")
    })?;
    let profile = Profile::read(&bytes).map_err(|why| anyhow!("{path}: {why}"))?;
    let roofline = Roofline::of_this_machine();
    let summary = summary(&profile, roofline.as_ref());
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&summary)?),
        false => print!("{}", text(&summary, roofline.is_some())),
    }
    Ok(Exit::Done)
}

fn summary(profile: &Profile, roofline: Option<&Roofline>) -> Summary {
    let launches = &profile.launches;
    Summary {
        kernels: rows(launches, roofline),
        launches: launches.len(),
        total_us: launches.iter().map(|it| it.duration_us).sum(),
        idle_us: launches.iter().filter_map(|it| it.arguments.idle_us).sum(),
        captured: profile.n_captured,
        others: profile.n_others,
        is_cut_off: profile.is_cut_off,
    }
}

/// Formats the table, what is to be said about it, and the sums.
fn text(summary: &Summary, has_peaks: bool) -> String {
    let mut text = String::new();
    if !summary.kernels.is_empty() {
        text += &format!("{}\n", table(&summary.kernels));
    }
    if summary.kernels.iter().any(|it| it.threads.is_some()) && !has_peaks {
        text +=
            "the peaks of this machine are not known; `cargo tvmtune tune` measures them, once\n";
    }
    if summary.captured > 0 {
        let n = launches(summary.captured);
        text += &format!("{n} became parts of graphs, and have no times\n");
    }
    if summary.others > 0 {
        text += &format!("{} of other programs left out\n", count(summary.others, "event"));
    }
    if summary.is_cut_off {
        text += "the last event is cut off, and left out\n";
    }
    let (total, idle) = (latency(summary.total_us * 1e3), latency(summary.idle_us * 1e3));
    let n = launches(summary.launches);
    text += &format!("{n}, {total}; {idle} idle between launches of a thread\n");
    text
}

fn launches(n: usize) -> String {
    if n == 1 { "1 launch".to_owned() } else { format!("{n} launches") }
}

fn table(rows: &[Row]) -> Table {
    let mut table = Table::new([
        "kernel",
        "extents",
        "isa",
        "tier",
        "launches",
        "total",
        "share",
        "median",
        "GFLOP/s",
        "GB/s",
        "roofline",
        "idle before",
    ]);
    for it in rows {
        let dash = || "-".to_owned();
        let rate = |it: Option<f64>| it.map_or_else(dash, three_digits);
        let time = |us: f64| latency(us * 1e3);
        table.row([
            it.name.clone(),
            it.extents.clone(),
            it.isa.clone(),
            it.tier.clone(),
            it.launches.to_string(),
            time(it.total_us),
            percent(it.share),
            time(it.median_us),
            rate(it.gflops),
            rate(it.gbps),
            it.roofline.map_or_else(dash, percent),
            it.idle_us.map_or_else(dash, time),
        ]);
    }
    table
}

//! `cargo tvmtune fleet status`: what waits, what runs where, and what was set aside.

use std::time::Duration;

use anyhow::{Context, Result};
use tvmtune_fleet::Progress;
use tvmtune_fleet::nats::{Fleet, Running, Status, runtime};
use tvmtune_plan::printable::Printable;

use super::server;
use crate::Exit;
use crate::cli::FleetStatus;
use crate::output::{print, println};
use crate::render::{Table, count, latency, took};

pub(super) fn run(arguments: &FleetStatus) -> Result<Exit> {
    let server = server(&arguments.server);
    let runtime = runtime().context("no thread can be started")?;
    let status = runtime.block_on(async {
        let fleet = Fleet::open(&server, "tvmtune fleet status").await?;
        fleet.status().await
    })?;
    match arguments.json {
        true => println!("{}", serde_json::to_string_pretty(&status)?),
        false => print!("{}", text(&status)),
    }
    Ok(Exit::Done)
}

/// Formats the status for people.
fn text(status: &Status) -> String {
    let mut text = workers(status).to_string();
    for queue in &status.queues {
        text += &format!(
            "\n{} of {} ({}) wait or run; {}",
            count(queue.n_tasks, "task"),
            queue.device,
            queue.dialect,
            count(queue.n_workers, "worker"),
        );
    }
    for letter in &status.dead {
        let name = letter.name.as_deref().unwrap_or("a message that is no task");
        text += &format!("\nset aside: {}: {}", Printable(name), Printable(&letter.why));
        for it in &letter.tries {
            text += &format!("\n  try {}: {}", it.number, Printable(it.text()));
        }
    }
    text + &format!(
        "\n{}, {}, {} set aside\n",
        count(status.workers.len(), "worker"),
        count(status.n_outcomes, "outcome"),
        status.dead.len()
    )
}

fn workers(status: &Status) -> Table {
    let mut table =
        Table::new(["worker", "device", "host", "running", "done", "measuring", "up", "now"]);
    for it in &status.workers {
        table.row([
            it.name.clone(),
            it.device.clone(),
            it.host.clone(),
            format!("{} of {}", it.running.len(), it.slots),
            it.n_done.to_string(),
            format!("{:.0} %", 100.0 * it.device_use),
            span(it.seconds),
            it.running.iter().map(running).collect::<Vec<_>>().join("; "),
        ]);
    }
    table
}

fn running(it: &Running) -> String {
    let progress = match &it.progress {
        None => "begun".to_owned(),
        Some(Progress::Waiting { whom, .. }) => format!("waits for {}", Printable(whom)),
        Some(Progress::Default { ns }) => format!("default {}", latency(*ns)),
        Some(Progress::Trial { trial, best_ns: Some(ns) }) => {
            format!("trial {trial}, {}", latency(*ns))
        }
        Some(Progress::Trial { trial, best_ns: None }) => format!("trial {trial}"),
        Some(Progress::Warning { what }) => Printable(what).to_string(),
    };
    format!("{} ({}): {progress}", it.name, span(it.seconds))
}

fn span(seconds: f64) -> String {
    took(Duration::try_from_secs_f64(seconds).unwrap_or_default())
}

//! `cargo tvmtune fleet tune`: sends the kernels of a crate that were not tuned for some devices, and keeps what
//! workers find in the user's cache.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tvmtune_build::package::Package;
use tvmtune_fleet::nats::{
    Ended, Fleet, Sent, Submission, SubmitEvent, Submitted, runtime, submit,
};
use tvmtune_fleet::{Finding, Task, TaskOutcome};
use tvmtune_ir::target::{DeviceKey, Target};
use tvmtune_plan::database::{CacheUse, Database};
use tvmtune_plan::printable::Printable;

use super::{server, tasks};
use crate::cli::FleetTune;
use crate::output::{eprintln, println};
use crate::render::{count, latency};
use crate::{Exit, workspace};

/// The output with `--json`.
#[derive(Default, Serialize)]
struct Report {
    kernels: Vec<Line>,
    n_sent: usize,
    n_open: usize,
}

/// A task of which something became.
#[derive(Serialize)]
struct Line {
    name: String,
    bucket: Vec<(i64, i64)>,
    device: String,
    task: String,
    /// One of `tuned`, `failed`, `set aside` and `refused`.
    state: &'static str,
    why: Option<String>,
}

/// The tasks of a package, and the cache that they are for.
struct Work<'a> {
    package: &'a Package,
    database: Database,
    submission: Submission,
}

pub(super) fn run(arguments: &FleetTune) -> Result<Exit> {
    let packages = workspace::packages(&arguments.selection)?;
    let server = server(&arguments.server);
    let runtime = runtime().context("no thread can be started")?;
    let fleet = runtime.block_on(Fleet::open(&server, "tvmtune fleet tune"))?;
    let mut devices = arguments.device.clone();
    if devices.is_empty() {
        devices = runtime.block_on(devices_of_workers(&fleet))?;
    }
    let work = packages.iter().map(|it| Work::of(it, &devices, arguments));
    let work = work.collect::<Result<Vec<_>>>()?;
    let mut report = Report::default();
    // All are sent before the first is waited for.
    let n_passes = if work.len() > 1 { 2 } else { 1 };
    for pass in 1..=n_passes {
        let (is_first, is_last) = (pass == 1, pass == n_passes);
        for it in &work {
            let submission = Submission {
                patience: if is_last { it.submission.patience } else { Some(Duration::ZERO) },
                retries: is_first && arguments.retry,
                ..it.submission.clone()
            };
            let mut on_event = |event: &SubmitEvent<'_>| say(event, is_first, is_last);
            let submitting =
                async { submit(&fleet, &submission, &it.database, &mut on_event).await };
            let submitted = runtime.block_on(submitting);
            let submitted = submitted.with_context(|| format!("package `{}`", it.package.name))?;
            report.n_sent += submitted.n_sent;
            if is_last {
                report.add(&submission.tasks, &submitted);
                it.package.plan_again()?;
            }
        }
    }
    report.print(work.iter().map(|it| it.submission.tasks.len()).sum(), arguments.json)
}

impl<'a> Work<'a> {
    fn of(package: &'a Package, devices: &[DeviceKey], arguments: &FleetTune) -> Result<Self> {
        let database = Database::discover(&package.search_dirs(CacheUse::Include));
        if let Some(cache) = database.cache() {
            cache.check_writable()?;
        }
        let tasks = tasks::of_package(package, devices, arguments);
        let patience = arguments.wait.map(|it| it.0);
        Ok(Self { package, database, submission: Submission { tasks, patience, retries: false } })
    }
}

/// Returns the devices that workers serve now.
async fn devices_of_workers(fleet: &Fleet) -> Result<Vec<DeviceKey>> {
    let workers = fleet.workers().await?;
    let mut devices: Vec<DeviceKey> =
        workers.iter().filter_map(|it| it.device.parse().ok()).collect();
    devices.retain(|it| Target::from_key(it).is_some());
    devices.sort();
    devices.dedup();
    if devices.is_empty() {
        bail!(
            "there is no worker to send kernels to; start one by `cargo tvmtune worker`, or name devices by \
             `--device`"
        );
    }
    Ok(devices)
}

/// Prints an event: what was sent, by the first pass over the packages, and what came of it by the last.
fn say(event: &SubmitEvent<'_>, is_first: bool, is_last: bool) {
    match event {
        SubmitEvent::Ended { .. } | SubmitEvent::NoWorker { .. } if !is_last => {}
        SubmitEvent::Sent { .. } if !is_first => {}
        SubmitEvent::Sent { task, sent: Sent::Queued } => {
            eprintln!("{}: sent for {}", task.name, task.device);
        }
        SubmitEvent::Sent { task, sent: Sent::Known } => {
            eprintln!("{}: was sent before, for {}", task.name, task.device);
        }
        SubmitEvent::Ended { task, ended, outcome } => say_ended(task, ended, *outcome),
        SubmitEvent::NoWorker { device, n_tasks } => eprintln!(
            "warning: {} for {device} wait: there is no worker with that device; start \
             `cargo tvmtune worker` on such a machine",
            count(*n_tasks, "kernel")
        ),
        SubmitEvent::Trouble { error } => eprintln!("warning: {error}"),
    }
}

fn say_ended(task: &Task, ended: &Ended, outcome: Option<&TaskOutcome>) {
    let name = &task.name;
    match ended {
        Ended::Accepted(_) => {
            let worker = outcome.map_or("", |it| it.worker.as_str());
            if let Some(Finding::Tuned(tuned)) = outcome.map(|it| &it.finding) {
                let [default, best] = [tuned.found.default_ns, tuned.found.best_ns].map(latency);
                eprintln!("{name}: {default} -> {best}, by `{}`", Printable(worker));
            }
        }
        Ended::GoodEnough => eprintln!("{name}: is as fast as asked for"),
        Ended::Failed { why } => eprintln!("error: {name} cannot be tuned: {}", Printable(why)),
        Ended::Refused { why } => eprintln!("error: {name}: {}", Printable(why)),
        Ended::Dead(letter) => {
            eprintln!("error: {name} was set aside: {}", Printable(&letter.why));
        }
    }
}

impl Report {
    fn add(&mut self, tasks: &[Task], submitted: &Submitted) {
        self.n_open += submitted.n_open;
        let tasks: BTreeMap<_, _> = tasks.iter().map(|it| (it.id(), it)).collect();
        for (id, ended) in &submitted.ended {
            let Some(task) = tasks.get(id) else { continue };
            let (state, why) = match ended {
                Ended::Accepted(_) => ("tuned", None),
                Ended::GoodEnough => ("good enough", None),
                Ended::Failed { why } => ("failed", Some(why.clone())),
                Ended::Refused { why } => ("refused", Some(why.clone())),
                Ended::Dead(letter) => ("set aside", Some(letter.why.clone())),
            };
            self.kernels.push(Line {
                name: task.name.to_string(),
                bucket: task.bucket.clone(),
                device: task.device.to_string(),
                task: id.to_string(),
                state,
                why,
            });
        }
    }

    fn print(&self, n_tasks: usize, is_json: bool) -> Result<Exit> {
        let n_tuned = self.kernels.iter().filter(|it| it.state == "tuned").count();
        let n_met = self.kernels.iter().filter(|it| it.state == "good enough").count();
        let n_lost = self.kernels.len() - n_tuned - n_met;
        if is_json {
            println!("{}", serde_json::to_string_pretty(self)?);
        } else if n_tasks == 0 {
            println!(
                "nothing to do: every kernel was tuned for these devices; `cargo tvmtune fleet tune --again` \
                 starts over"
            );
        } else {
            println!("{} tuned, {n_lost} not", count(n_tuned, "kernel"));
            if self.n_open > 0 {
                let n = count(self.n_open, "kernel");
                println!("{n} wait or run; the same command takes what was found by then");
            }
            if n_tuned > 0 {
                println!("`cargo tvmtune accept` moves what was found into the crate");
            }
        }
        if n_lost > 0 {
            eprintln!("error: {n_lost} could not be tuned; `--retry` sends them again");
            return Ok(Exit::Refused);
        }
        Ok(Exit::Done)
    }
}

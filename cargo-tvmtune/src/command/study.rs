//! `cargo tvmtune study`: runs the unfinished cells of a study, and writes its report.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tvmtune_ir::target::CpuTarget;
use tvmtune_plan::device;
use tvmtune_tuner::tune::Event;

use crate::Exit;
use crate::cli::Study as Arguments;
use crate::device_plan::LOCK_LIMIT;
use crate::output::{eprintln, println};
use crate::progress::Progress;
use crate::render::{count, took};
use crate::study::{self, Cells, Key, Machine, Network, Study};

pub(crate) fn run(arguments: &Arguments) -> Result<Exit> {
    let study = Study::read(&arguments.file)?;
    let mut study = if arguments.smoke { study.smoke() } else { study };
    if let Some(trials) = arguments.trials {
        study.budget.trials = trials;
    }
    let out = arguments.out.clone().unwrap_or_else(|| PathBuf::from("studies").join(&study.name));
    fs::create_dir_all(&out).with_context(|| format!("cannot create `{}`", out.display()))?;
    let mut cells = Cells::read(&out, &study)?;
    if !arguments.report_only {
        let Some(target) = device::detect() else {
            eprintln!("error: this machine runs no generated kernels; see `cargo tvmtune doctor`");
            return Ok(Exit::NoDevice);
        };
        let wait = Duration::from_secs(arguments.wait.saturating_mul(60));
        measure(&study, &out, target, wait, &mut cells)?;
    }
    let report = study::report(&out, &study, &cells.cells)?;
    println!("{}", report.display());
    Ok(Exit::Done)
}

/// Returns the cells that are not finished. A transfer source that one of them needs is among them if its
/// records are gone, as in a folder to which only `cells.jsonl` was copied.
fn open_cells(study: &Study, out: &Path, device: &str, cells: &Cells) -> Vec<Key> {
    let open: Vec<Key> = study.cells().into_iter().filter(|it| !cells.has(it, device)).collect();
    let needed: BTreeSet<Key> = open.iter().flat_map(|it| study.sources_of_cell(it)).collect();
    let is_open =
        |it: &Key| !cells.has(it, device) || (needed.contains(it) && !study::has_records(out, it));
    study.source_cells().into_iter().filter(is_open).chain(open).collect()
}

/// Runs all cells that are not finished.
fn measure(
    study: &Study,
    out: &Path,
    target: CpuTarget,
    wait: Duration,
    cells: &mut Cells,
) -> Result<()> {
    let open = open_cells(study, out, &target.key().to_string(), cells);
    eprintln!("{} to run", count(open.len(), "cell"));
    if open.is_empty() {
        return Ok(());
    }
    let machine = Machine::acquire(target, LOCK_LIMIT, wait)?;
    let networks = study.targets().into_iter().map(|it| Network::load(it, study));
    let networks: Vec<Network> = networks.collect::<Result<_>>()?;
    for (n, key) in open.iter().enumerate() {
        let network = networks.iter().find(|it| it.name == key.target);
        let network = network.context("a cell of another study")?;
        let start = Instant::now();
        let mut progress = Progress::new();
        let mut on_event = |it: &Event<'_>| progress.on_event(it);
        let cell = machine.run_cell(out, study, key, network, &mut on_event)?;
        drop(progress);
        cells.push(cell)?;
        let spent = took(start.elapsed());
        eprintln!("{}/{} {} {} in {spent}", n + 1, open.len(), key.target, key.arm);
    }
    Ok(())
}

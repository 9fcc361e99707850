//! The command line of the GPU acceptance test.
//!
//! `bundle` puts compiled kernels and this program into a folder; the other commands use that folder
//! on the machine with the GPU.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use tvmtune_ir::target::gpu::GpuTarget;
use tvmtune_tuner::parallel::n_cores;

use crate::bundle::{self, Recipe};
use crate::run::{self, RunOptions};
use crate::{Exit, curves, predictions, tune};

/// Checks, times and tunes kernels on a GPU.
#[derive(Debug, Parser)]
#[command(name = "acceptance", version)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a folder that a machine with a GPU needs; takes NVRTC, and no GPU
    Bundle(Bundle),
    /// Check everything in the bundle, and time what is worth timing
    Run(Run),
    /// Search for better schedules of what the bundle times; takes NVRTC
    Tune(Tune),
    /// Print the predictions of the analytic cost model for a bundle, beside the rooflines
    Predictions(ReportArgs),
    /// Print the convergence of searches: the best schedule after some seconds
    Curves(ReportArgs),
}

#[derive(Debug, Args)]
struct Bundle {
    /// The folder to make
    folder: PathBuf,
    /// The target to compile for: `cuda:` and an architecture
    #[arg(long, value_name = "TARGET", default_value = "cuda:sm_90a", value_parser = str::parse::<GpuTarget>)]
    target: GpuTarget,
    /// Cases whose name contains this
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Random schedules of each program to check beside the default one
    #[arg(long = "sampled", value_name = "N", default_value_t = bundle::SAMPLED)]
    n_sampled: usize,
    /// Schedules of each program to rank by the analytic cost model; the best is timed beside the
    /// default one
    #[arg(long = "ranked", value_name = "N", default_value_t = 128)]
    n_ranked: usize,
    /// Carry PTX, which drivers compile for this architecture and later ones, instead of cubins
    #[arg(long)]
    ptx: bool,
}

#[derive(Debug, Args)]
struct Folders {
    /// The folder of the bundle, instead of the one this program lies in
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
    /// The folder of results, instead of `results` in the bundle
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    folders: Folders,
    /// Cases whose name contains this
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Check only
    #[arg(long)]
    checks: bool,
    /// Repeat what an earlier run evaluated
    #[arg(long)]
    again: bool,
    /// Start no candidate after so many seconds
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Give up a candidate after so many seconds: a kernel may never end
    #[arg(long, value_name = "N", default_value_t = 60)]
    limit: u64,
    /// Check so many candidates at a time; each is timed alone
    #[arg(long, value_name = "N", default_value_t = n_cores().min(8))]
    jobs: usize,
}

#[derive(Debug, Args)]
struct Tune {
    #[command(flatten)]
    folders: Folders,
    /// Cases whose name contains this
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
    /// Stop after so many seconds
    #[arg(long, value_name = "N", default_value_t = 600)]
    seconds: u64,
    /// Measure at most so many candidates of each program
    #[arg(long, value_name = "N", default_value_t = 1000)]
    trials: u64,
}

#[derive(Debug, Args)]
struct ReportArgs {
    #[command(flatten)]
    folders: Folders,
    /// Cases whose name contains this
    #[arg(long, value_name = "NAME", default_value = "")]
    only: String,
}

pub(crate) fn dispatch(cli: Cli) -> Result<Exit> {
    match cli.command {
        Command::Bundle(it) => bundle(&it),
        Command::Run(it) => {
            let (folder, out) = it.folders.resolve()?;
            let budget = it.seconds.map(Duration::from_secs);
            let limit = Duration::from_secs(it.limit);
            let Run { only, checks, again, jobs, .. } = it;
            let options = RunOptions { only: &only, checks, again, budget, limit, jobs };
            run::run(&folder, &out, &options)
        }
        Command::Tune(it) => {
            let (folder, out) = it.folders.resolve()?;
            let budget = Duration::from_secs(it.seconds);
            tune::run(
                &folder,
                &out,
                &tune::TuneOptions { only: &it.only, budget, trials: it.trials },
            )
        }
        Command::Predictions(it) => {
            print!("{}", predictions::page(&it.folders.resolve()?.0, &it.only)?);
            Ok(Exit::Done)
        }
        Command::Curves(it) => {
            let (folder, out) = it.folders.resolve()?;
            print!("{}", curves::page(&folder, &out, &it.only)?);
            Ok(Exit::Done)
        }
    }
}

fn bundle(it: &Bundle) -> Result<Exit> {
    let Bundle { folder, target, only, n_sampled, n_ranked, ptx } = it;
    let (sampled, ranked) = (*n_sampled, *n_ranked);
    let recipe = Recipe { target: *target, only, sampled, ranked, ptx: *ptx };
    let (n_candidates, failures) = bundle::write(folder, &recipe)?;
    println!("{n_candidates} candidates in `{}`", folder.display());
    failures.iter().for_each(|it| eprintln!("error: {it}"));
    Ok(if failures.is_empty() { Exit::Done } else { Exit::Refused })
}

impl Folders {
    /// Returns the folder of the bundle, and that of results.
    fn resolve(&self) -> Result<(PathBuf, PathBuf)> {
        let own = || {
            let program = std::env::current_exe().context("which program this is")?;
            program.parent().map(PathBuf::from).context("where this program is")
        };
        let folder = self.folder.clone().map_or_else(own, Ok)?;
        let out = self.out.clone().unwrap_or_else(|| folder.join("results"));
        Ok((folder, out))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_contradicts_itself_nowhere() {
        Cli::command().debug_assert();
    }
}

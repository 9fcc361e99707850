//! The study of value functions: trained on recorded trials of all networks but one, and judged on that.
//!
//! - `value rank <folder>` compares how functions order the prefixes of the network that was held out by what
//!   was later found under them, and prints lines of JSON. It needs no hardware.
//! - `value choose <folder> [--networks a,b] [--schedules 24] [--brief]` has them schedule that network, measures the choices
//!   side by side with the default schedules and the best recorded ones, and prints lines of JSON. With
//!   `--schedules`, two more functions are trained, each after measuring so many schedules of each other layer
//!   that the one before chose. With `--brief`, other functions are left out.
//! - `value seed <folder> [--networks a,b] [--schedules 24] [--trials 256] [--seeds 1,2,3]` searches the layers of
//!   that network with evolution that begins with the choice of the last such function, beside evolution that
//!   does not.
//!
//! A folder is one that `allocation record` writes.

#[path = "../allocation/curves.rs"]
#[expect(dead_code, reason = "the example of allocation writes them")]
mod curves;
mod choose;
mod data;
mod improve;
mod model;
mod rank;
mod seed;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::time::Duration;

use tvmtune_plan::database::Cache;
use tvmtune_plan::device;
use tvmtune_tuner::executor::MachineLock;
use tvmtune_tuner::measure::worker;

use curves::Curves;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Locks this machine, which measures.
fn lock() -> Result<MachineLock> {
    let here = device::detect().ok_or("this machine runs no generated kernels")?;
    let cache = Cache::discover().ok_or("set `TVMTUNE_CACHE` to a folder for locks")?;
    Ok(MachineLock::of_device(&cache, &here.into(), Duration::from_secs(3600))?)
}

fn main() -> Result<()> {
    worker::maybe_run();
    let mut arguments = env::args().skip(1);
    let (command, folder) = (arguments.next(), arguments.next());
    let folder = folder.filter(|it| !it.starts_with('-')).ok_or("name a command and a folder")?;
    let layers = data::layers(&Curves::read(&PathBuf::from(folder))?)?;
    let mut networks: Vec<String> = layers.iter().map(|it| it.network.clone()).collect();
    networks.dedup();
    let (mut n_schedules, mut trials, mut seeds) = (0, 256, vec![1, 2, 3]);
    let mut is_brief = false;
    while let Some(argument) = arguments.next() {
        if argument == "--brief" {
            is_brief = true;
            continue;
        }
        let value = arguments.next().ok_or(format!("`{argument}` needs a value"))?;
        match argument.as_str() {
            "--schedules" => n_schedules = value.parse()?,
            "--trials" => trials = value.parse()?,
            "--seeds" => {
                seeds = value.split(',').map(str::parse).collect::<std::result::Result<_, _>>()?;
            }
            "--networks" => networks = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("`{argument}` is no option").into()),
        }
    }
    for network in &networks {
        match command.as_deref() {
            Some("rank") => rank::run(&layers, network),
            Some("choose") => choose::run(&layers, network, n_schedules, is_brief)?,
            Some("seed") => seed::run(&layers, network, n_schedules, trials, &seeds)?,
            _ => return Err("expected `rank`, `choose` or `seed`".into()),
        }
    }
    Ok(())
}

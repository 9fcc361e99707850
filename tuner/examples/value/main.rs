//! The study of value functions: trained on recorded trials of all networks but one, and judged on that.
//!
//! - `value rank <folder>` compares how functions order the prefixes of the network that was held out by what
//!   was later found under them, and prints lines of JSON. It needs no hardware.
//! - `value choose <folder> [--networks a,b] [--schedules 32]` has them schedule that network, measures the choices
//!   side by side with the default schedules and the best recorded ones, and prints lines of JSON. With
//!   `--schedules`, two more functions are trained, each after measuring so many schedules of each other layer
//!   that the one before chose.
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

use std::env;
use std::error::Error;
use std::path::PathBuf;

use tvmtune_tuner::measure::worker;

use curves::Curves;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<()> {
    worker::maybe_run();
    let mut arguments = env::args().skip(1);
    let (command, folder) = (arguments.next(), arguments.next());
    let folder = folder.filter(|it| !it.starts_with('-')).ok_or("name a command and a folder")?;
    let layers = data::layers(&Curves::read(&PathBuf::from(folder))?)?;
    let mut networks: Vec<String> = layers.iter().map(|it| it.network.clone()).collect();
    networks.dedup();
    let mut n_schedules = 0;
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("`{argument}` needs a value"))?;
        match argument.as_str() {
            "--schedules" => n_schedules = value.parse()?,
            "--networks" => networks = value.split(',').map(str::to_owned).collect(),
            _ => return Err(format!("`{argument}` is no option").into()),
        }
    }
    for network in &networks {
        match command.as_deref() {
            Some("rank") => rank::run(&layers, network),
            Some("choose") => choose::run(&layers, network, n_schedules)?,
            _ => return Err("expected `rank` or `choose`".into()),
        }
    }
    Ok(())
}

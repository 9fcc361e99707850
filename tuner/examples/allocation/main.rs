//! The study of allocation: curves of the layers of networks, and what every scheduler makes of them.
//!
//! - `allocation record <folder> [--networks a,b] [--seeds 1,2] [--trials 512] [--space ansor]` tunes each
//!   layer by itself and writes its trials. It goes on where it was interrupted.
//! - `allocation live <folder> --seconds 60 [--scheduler ansor ..]` tunes networks as a whole, with the options
//!   of `record`, and goes on where it was interrupted.
//! - `allocation replay <folder> [--slot 32 | --slot 2s]` runs all schedulers on what a folder has, and prints
//!   lines of JSON: first the headroom, which is what the best shares in hindsight gain; last, live runs beside
//!   their replays.
//! - `allocation plot <folder>` draws latencies against time, into `<folder>/plots`.

mod arm;
mod compare;
#[expect(dead_code, reason = "the example of value functions reads all of them")]
mod curves;
mod live;
mod plot;
mod record;
mod synthetic;
mod variant;

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;

use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::allocation::replay::SlotLength;
use tvmtune_tuner::measure::worker;
use tvmtune_tuner::tune::Rules;

use arm::Case;
use curves::Curves;
use live::Live;
use record::Recording;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// The networks of the paper, in single precision and as layers of the zoo.
const NETWORKS: [&str; 4] = ["resnet-18", "squeezenet-1.1", "vgg-16", "bert-base"];

fn main() -> Result<()> {
    worker::maybe_run();
    let mut arguments = env::args().skip(1);
    let (command, folder) = (arguments.next(), arguments.next());
    let folder = folder.filter(|it| !it.starts_with('-')).ok_or("name a command and a folder")?;
    let folder = PathBuf::from(folder);
    let mut recording = Recording {
        networks: NETWORKS.map(str::to_owned).to_vec(),
        seeds: vec![1, 2, 3, 4, 5],
        trials: 512,
        space: Rules::Tvmtune,
        is_analytic: false,
    };
    let (mut slot, mut schedulers, mut seconds) = (SlotLength::Trials(32), Vec::new(), 60);
    while let Some(argument) = arguments.next() {
        let value = arguments.next().ok_or(format!("`{argument}` needs a value"))?;
        match argument.as_str() {
            "--networks" => recording.networks = value.split(',').map(str::to_owned).collect(),
            "--seeds" => recording.seeds = numbers(&value)?,
            "--trials" => recording.trials = value.parse()?,
            "--space" => recording.space = serde_json::from_value(value.into())?,
            "--analytic" => recording.is_analytic = value.parse()?,
            "--scheduler" => schedulers.push(scheduler(&value)?),
            "--seconds" => seconds = value.parse()?,
            "--slot" => {
                slot = match value.strip_suffix('s') {
                    Some(seconds) => SlotLength::Seconds(seconds.parse()?),
                    None => SlotLength::Trials(value.parse()?),
                }
            }
            _ => return Err(format!("`{argument}` is no option").into()),
        }
    }
    match command.as_deref() {
        Some("record") => recording.run(&folder)?,
        Some("live") => Live { recording, schedulers, seconds }.run(&folder)?,
        Some("replay") => {
            let cases = Case::all(&Curves::read(&folder)?);
            compare::run(&cases, slot);
            variant::held_out(&cases, slot);
            live::compare(&folder, &cases, slot)?;
        }
        Some("plot") => {
            plot::write(&Case::all(&Curves::read(&folder)?), slot, &folder.join("plots"))?;
        }
        _ => return Err("expected `record`, `live`, `replay` or `plot`".into()),
    }
    Ok(())
}

/// Returns the scheduler of a name, or of its JSON if it has settings.
fn scheduler(text: &str) -> Result<Scheduler> {
    let by_name = serde_json::from_value(text.into());
    Ok(by_name.or_else(|_| serde_json::from_str(text))?)
}

fn numbers<T: FromStr>(text: &str) -> std::result::Result<Vec<T>, T::Err> {
    text.split(',').map(str::parse).collect()
}

//! A second process for tests: a worker of the tuner's, an impostor, or a writer of records.
//!
//! `helper garbage` and `helper mute` behave as no worker should. `helper put <cache> <first> <count>` puts records of that many schedules into a cache, one by
//! one, with artifacts from `<first>` on.

use std::env;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;

use tvmtune_tests::sample_record;
use tvmtune_tuner::database::{Cache, Database};
use tvmtune_tuner::measure::worker;

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        None => worker::maybe_run(),
        Some("garbage") => {
            // Where no one listens any more, nothing is left to be done.
            let _ = io::stdout().write_all(&[0x55; 4096]);
            return ExitCode::SUCCESS;
        }
        Some("mute") => {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            return ExitCode::SUCCESS;
        }
        Some(_) => {}
    }
    let [command, cache, first, count] = args.as_slice() else { return ExitCode::FAILURE };
    let (Ok(first), Ok(count)) = (first.parse::<u32>(), count.parse::<u32>()) else {
        return ExitCode::FAILURE;
    };
    if command != "put" {
        return ExitCode::FAILURE;
    }
    let database = Database::new(Vec::new(), Some(Cache::new(Path::new(cache))));
    for n in first..first + count {
        if database.put(&sample_record(n)).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

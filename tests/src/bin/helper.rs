//! A second process for tests: a writer of records.
//!
//! `helper put <cache> <first> <count>` puts records of that many schedules into a cache, one by
//! one, with artifacts from `<first>` on.

use std::env;
use std::path::Path;
use std::process::ExitCode;

use tvmtune_tests::sample_record;
use tvmtune_tuner::database::{Cache, Database};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
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

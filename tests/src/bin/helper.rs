//! A second process for tests: a worker of the tuner's, an impostor, a writer of records, a holder of
//! a lock, a user of threads, or a tuner that runs until it is killed.
//!
//! `helper garbage` and `helper mute` behave as no worker should. `helper put <cache> <first>
//! <count>` puts records of that many schedules into a cache, one by one, with artifacts from
//! `<first>` on. `helper hold <path>` locks a file or folder until its input ends. `helper threads`
//! launches a kernel. `helper tune <cache>` tunes. `helper testbed <crate>` prints the source of a crate.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use tvmtune_plan::database::{Cache, Database, Files};
use tvmtune_plan::device;
use tvmtune_plan::record::Provenance;
use tvmtune_tests::{sample_record, workload};
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::{MachineLock, TuningJob};
use tvmtune_tuner::measure::{WorkerCommand, worker};
use tvmtune_tuner::tune::{self, Budget, Hardware, Options, Recipe, Reuse};

fn main() -> ExitCode {
    let args: Vec<String> = env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        None => worker::maybe_run(),
        Some("garbage") => {
            // A closed pipe means that the parent has exited.
            let _ = io::stdout().write_all(&[0x55; 4096]);
            return ExitCode::SUCCESS;
        }
        Some("mute") => {
            let _ = io::stdin().read_to_end(&mut Vec::new());
            return ExitCode::SUCCESS;
        }
        Some("hold") => return hold(args.get(1)),
        Some("threads") => return launch(),
        Some("tune") => return tune(args.get(1)),
        Some("testbed") => return testbed(args.get(1)),
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
        if database.put(&sample_record(n), &Files::default()).is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

/// Locks a file, which is created, or a folder; says so, and ends with its input.
fn hold(path: Option<&String>) -> ExitCode {
    let Some(path) = path.map(Path::new) else { return ExitCode::FAILURE };
    let file = match path.is_dir() {
        true => File::open(path),
        false => File::options().create(true).append(true).open(path),
    };
    let locked = file.and_then(|it| it.lock().map(|()| it));
    println!("{}", if locked.is_ok() { "held" } else { "refused" });
    let _ = io::stdin().read_to_end(&mut Vec::new());
    ExitCode::SUCCESS
}

/// Launches a kernel several times, and prints how many threads it may use.
fn launch() -> ExitCode {
    use tvmtune_runtime::{Cpu, autotune};

    #[autotune(dims(M = 512, K = 512))]
    fn row_sums(x: Tensor<f32, M, K>) -> Tensor<f32, M> {
        compute(|i| sum(0..K, |k| x[[i, k]]))
    }
    let (x, mut y) = (vec![1.0; 512 * 512], vec![0.0; 512]);
    for _ in 0..20 {
        y.fill(0.0);
        if row_sums(&Cpu::new(), &x, &mut y).is_err() || y.iter().any(|it| *it != 512.0) {
            return ExitCode::FAILURE;
        }
    }
    println!("threads {}", tvmtune_runtime::threads());
    ExitCode::SUCCESS
}

/// Prints the source of a crate to measure tuning with.
fn testbed(name: Option<&String>) -> ExitCode {
    let source = name.and_then(|it| tvmtune_tests::testbed::source(it));
    match source.map(|it| io::stdout().write_all(it.as_bytes())) {
        Some(Ok(())) => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

/// Tunes something that takes long, into a cache.
fn tune(cache: Option<&String>) -> ExitCode {
    let (Some(cache), Some(target)) = (cache, device::detect()) else { return ExitCode::FAILURE };
    let Ok(worker) = WorkerCommand::this_executable() else { return ExitCode::FAILURE };
    let cache = Cache::new(Path::new(cache));
    let Ok(lock) = MachineLock::of_device(&cache, &target.into(), Duration::from_secs(60)) else {
        return ExitCode::FAILURE;
    };
    let options = Options {
        device: target.into(),
        targets: vec![target.into()],
        nvrtc: None,
        budget: Budget { trials: 100_000, per_task: DAY, total: DAY },
        seed: 1,
        hardware: Hardware::Worker(worker),
        n_threads: 2,
        recipe: Recipe::default(),
        scheduler: Scheduler::default(),
        reuse: Reuse::Compete,
        provenance: Provenance::default(),
    };
    let database = Database::new(Vec::new(), Some(cache));
    let workloads = [workload(LONG)];
    match tune::run(&workloads, &options, &database, &TuningJob::holding(&lock), &mut |_| {}) {
        Ok(_) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

const DAY: Duration = Duration::from_secs(86_400);

/// The program that `helper tune` tunes.
const LONG: &str = "#[autotune(dims(M = 64, N = 96, K = 128))]
    fn long(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
    }";

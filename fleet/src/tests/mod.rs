//! Tasks, outcomes and hostile ones of both, on recorded hardware.

mod accept;
mod execute;
mod hostile;

use std::path::Path;

use tvmtune_ir::dsl;
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::record::Provenance;
use tvmtune_space::default;
use tvmtune_tuner::allocation::Scheduler;
use tvmtune_tuner::executor::{Executor, MachineLock, MachineLocks, TuningJob};
use tvmtune_tuner::measure::Replay;
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::tune::{
    self, Hardware, Options, Recipe, Reuse, Tolerance, Trial, Workload, log_file,
};

use super::{Machine, Task, TaskBudget};

const MATMUL: &str = "#[autotune(dims(M = 1..=48, N = 40, K = 56))]
    fn matmul(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {
        compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))
    }";

/// Sessions whose trials make the log that hardware is replayed from.
const SESSIONS: usize = 3;

fn device() -> Target {
    CpuTarget::generic(Isa::Avx2).into()
}

fn bucket() -> Vec<Interval> {
    vec![Interval { lo: 1, hi: 48 }]
}

fn workload() -> Workload {
    let dag = dsl::program(MATMUL).expect("it is a program");
    Workload::new(dag, vec![bucket()], Tolerance { rel: 1e-5, abs: 1e-6 })
}

fn budget() -> TaskBudget {
    TaskBudget { trials: 30, kernel_seconds: 60.0, total_seconds: 60.0 }
}

fn task() -> Task {
    let device = device();
    let mut task = Task::new(&workload(), &bucket(), device.key(), device.platform(), budget());
    task.seed = 7;
    task
}

fn database(dir: &Path) -> (Cache, Database) {
    let cache = Cache::new(dir);
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    (cache.clone(), Database::new(vec![store], Some(cache)))
}

fn provenance() -> Provenance {
    Provenance { tool: "tests".to_owned(), host: "a host".to_owned(), peaks: None }
}

fn machine(dir: &Path, log: Replay) -> Machine {
    let home = Cache::new(&dir.join("home"));
    Machine {
        device: device(),
        hardware: Hardware::Log(log),
        executor: Executor::of_this_machine(MachineLocks::new(&home)),
        home,
        scratch: dir.to_owned(),
        worker: "a worker".to_owned(),
        provenance: provenance(),
        n_threads: 2,
    }
}

/// Tunes the workload without this crate, in a cache in `dir`; returns its trials.
fn tuned_directly(dir: &Path, log: Replay) -> Vec<Trial> {
    let (cache, database) = database(dir);
    let options = Options {
        device: device(),
        targets: vec![device()],
        nvrtc: None,
        budget: budget().of_tuner(std::time::Duration::ZERO),
        reuse: Reuse::Compete,
        seed: 7,
        hardware: Hardware::Log(log),
        n_threads: 2,
        recipe: Recipe::default(),
        scheduler: Scheduler::default(),
        provenance: provenance(),
    };
    let lock = MachineLock::of_device(&cache, &device(), budget().total());
    let lock = lock.expect("nobody else has it");
    let workloads = [workload()];
    let tuned = tune::run(&workloads, &options, &database, &TuningJob::holding(&lock), &mut |_| ());
    assert_eq!(tuned.expect("it is tuned").results.len(), 1);
    tune::trials(&log_file(&cache, "matmul", &workloads[0].id, &device().key()))
}

/// A log of hardware that never was: code takes a time that its hash says.
fn hardware() -> Replay {
    let schedule = default::schedule(&workload().dag.specialize(&bucket()), &device());
    let default = tvmtune_cpu::generate(&schedule, Isa::Avx2).expect("it has code").artifact;
    let mut artifacts = vec![default.to_string()];
    for _ in 0..SESSIONS {
        let dir = tempfile::tempdir().expect("there are temporary folders");
        let trials = tuned_directly(dir.path(), log_of(&artifacts));
        artifacts.extend(trials.into_iter().map(|it| it.artifact).filter(|it| !it.is_empty()));
    }
    log_of(&artifacts)
}

fn log_of(artifacts: &[String]) -> Replay {
    let mut log = Replay::default();
    for artifact in artifacts {
        let digits = artifact.bytes().fold(0_u64, |sum, it| (sum * 31 + u64::from(it)) % 10_000);
        let ns = 1e5 + digits as f64;
        let timing = Timing::new(vec![ns, ns * 1.001, ns * 1.002]).expect("these are times");
        log.add_screened(artifact, &Outcome::Timed(timing));
    }
    log
}

//! Machines that never were: code takes a time that its hash says, and sessions on them are real ones.

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tvmtune_fleet::{Machine, Task, TaskBudget, execute};
use tvmtune_ir::poly::Interval;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_plan::database::{Cache, Database, Store, StoreKind};
use tvmtune_plan::record::Provenance;
use tvmtune_space::default;
use tvmtune_tests::workload;
use tvmtune_tuner::executor::{Capacity, Executor, Interleaved};
use tvmtune_tuner::measure::Replay;
use tvmtune_tuner::outcome::{Outcome, Timing};
use tvmtune_tuner::tune::{Hardware, Trial, Workload};

/// The programs of tasks: small in every way.
pub(crate) const N_PROGRAMS: usize = 4;

/// The seeds whose sessions make the log that hardware is replayed from.
const SEEDS: u64 = 3;

pub(crate) fn device() -> Target {
    CpuTarget::generic(Isa::Avx2).into()
}

/// A machine whose device no other one of the tests has.
pub(crate) fn other_device() -> Target {
    CpuTarget { threads: 3, ..CpuTarget::generic(Isa::Avx2) }.into()
}

pub(crate) fn program(n: usize) -> Workload {
    let (rows, columns) = (8 + 4 * n, 16);
    workload(&format!(
        "#[autotune(dims(M = 1..={rows}, K = {columns}))]
        fn sum_{n}(x: Tensor<f32, M, K>) -> Tensor<f32, M> {{
            compute(|i| sum(0..K, |k| x[[i, k]] * {n}.5))
        }}"
    ))
}

/// The task of a program with a seed.
pub(crate) fn task_for(n: usize, seed: u64, device: Target) -> Task {
    let workload = program(n);
    let bucket: Vec<Interval> = workload.buckets[0].clone();
    let budget = TaskBudget { trials: 4, kernel_seconds: 300.0, total_seconds: 300.0 };
    let mut task = Task::new(&workload, &bucket, device.key(), device.platform(), budget);
    task.seed = seed;
    task
}

pub(crate) fn task(n: usize, seed: u64) -> Task {
    task_for(n, seed, device())
}

pub(crate) fn database(dir: &Path) -> Database {
    let cache = Cache::new(dir);
    let store = Store { kind: StoreKind::Cache, dir: cache.records() };
    Database::new(vec![store], Some(cache))
}

/// An executor that shares nothing with other machines.
pub(crate) fn executor() -> Arc<Executor> {
    let capacity = Capacity { cores: 2, memory: u64::MAX };
    Executor::new(Box::new(Interleaved::new()), capacity, None)
}

/// A machine in a folder.
pub(crate) fn machine(dir: &Path, name: &str) -> Machine {
    machine_of(dir, name, device(), log().clone())
}

pub(crate) fn machine_of(dir: &Path, name: &str, device: Target, log: Replay) -> Machine {
    Machine {
        device,
        hardware: Hardware::Log(log),
        executor: executor(),
        home: Cache::new(&dir.join("home")),
        scratch: dir.to_owned(),
        worker: name.to_owned(),
        provenance: Provenance { tool: "tests".to_owned(), host: "a host".to_owned(), peaks: None },
        n_threads: 1,
    }
}

/// The hardware of all machines.
pub(crate) fn log() -> &'static Replay {
    static LOG: OnceLock<Replay> = OnceLock::new();
    LOG.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let mut artifacts = Vec::new();
        for n in 0..N_PROGRAMS {
            let workload = program(n);
            let dag = workload.dag.specialize(&workload.buckets[0]);
            let schedule = default::schedule(&dag, &device());
            let code = tvmtune_cpu::generate(&schedule, Isa::Avx2).unwrap();
            artifacts.push(code.artifact.to_string());
        }
        for seed in 1..=SEEDS {
            for n in 0..N_PROGRAMS {
                let machine = machine_of(dir.path(), "log", device(), log_of(&artifacts));
                let outcome = execute(&task(n, seed), &machine, &mut |_| ());
                let tuned = outcome.tuned().unwrap_or_else(|| panic!("{outcome:?}"));
                let trials =
                    tuned.trials.iter().map(|it| serde_json::from_str::<Trial>(it).unwrap());
                artifacts.extend(trials.map(|it| it.artifact).filter(|it| !it.is_empty()));
            }
        }
        log_of(&artifacts)
    })
}

/// Times that differ by more than noise, so that the best does not depend on who comes first.
fn log_of(artifacts: &[String]) -> Replay {
    let mut log = Replay::default();
    let mut known: Vec<&String> = Vec::new();
    for artifact in artifacts {
        if known.contains(&artifact) {
            continue;
        }
        let ns = 1e5 * 1.1_f64.powi((known.len() * 37 % 101) as i32);
        known.push(artifact);
        let timing = Timing::new(vec![ns, ns * 1.001, ns * 1.002]).unwrap();
        log.add_screened(artifact, &Outcome::Timed(timing));
    }
    log
}

/// The pause between two looks at something that is waited for, and the longest wait.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

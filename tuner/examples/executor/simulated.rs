//! The stages of jobs that ran, on machines that are not there.

use serde_json::json;
use tvmtune_ir::target::{CpuTarget, DeviceKey, Isa};
use tvmtune_tuner::executor::{
    Capacity, Needs, SimulatedJob, SimulatedStage, Span, Timeline, simulate,
};

use crate::arms::{Arm, Mix};

/// Machines: cores and GPUs, and the number of jobs.
const MACHINES: [(usize, usize, usize); 5] =
    [(2, 1, 8), (16, 1, 8), (16, 8, 100), (128, 64, 1000), (8, 8, 100)];

/// Runs the stages of recorded jobs on machines with GPUs; prints a line for each machine and policy.
pub(crate) fn run(mix: Mix, recorded: &Timeline) {
    for (cores, n_gpus, n_jobs) in MACHINES {
        let jobs: Vec<SimulatedJob> =
            (0..n_jobs).map(|n| on_gpu(recorded, n as u64, n_gpus as u64)).collect();
        let capacity = Capacity { cores, memory: u64::MAX };
        let mut of_baseline = None;
        for arm in Arm::policies() {
            let timeline = simulate((arm.policy)().as_ref(), capacity, &jobs);
            let makespan = timeline.makespan().as_secs_f64();
            let line = json!({
                "simulated": format!("{cores} cores, {n_gpus} GPUs, {n_jobs} jobs"),
                "mix": mix.name(),
                "arm": arm.name,
                "disturbed": timeline.disturbed(),
                "device_use": timeline.device_use(),
                "speedup": *of_baseline.get_or_insert(makespan) / makespan,
                "mean_completion": timeline.mean_completion().as_secs_f64(),
            });
            println!("{line}");
        }
    }
}

/// Returns a recorded job with its timed stages on a GPU and the others on one core.
fn on_gpu(recorded: &Timeline, n: u64, n_gpus: u64) -> SimulatedJob {
    let n_recorded = recorded.spans.iter().map(|it| it.job + 1).max().unwrap_or(1);
    let spans = recorded.spans.iter().filter(|it| it.job == n % n_recorded);
    let stage = |it: &Span| SimulatedStage {
        stage: it.stage,
        needs: match it.stage.is_timed() {
            true => Needs { cores: 0, ..Needs::gpu(gpu((n / n_recorded) % n_gpus)) },
            false => Needs::cores(1),
        },
        time: it.end - it.start,
    };
    SimulatedJob { priority: 0, stages: spans.map(stage).collect() }
}

/// Returns the key of a device that stands for a GPU.
fn gpu(n: u64) -> DeviceKey {
    CpuTarget { threads: n as u32 + 1, ..CpuTarget::generic(Isa::Avx2) }.key()
}

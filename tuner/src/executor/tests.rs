//! Policies by simulation: nothing is given out twice, every job ends, and each policy does what it is for.

use std::time::Duration;

use proptest::prelude::*;
use tvmtune_ir::target::{CpuTarget, DeviceKey, Isa};

use super::*;

const CAPACITY: Capacity = Capacity { cores: 2, memory: 100 };

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn device(n: u32) -> DeviceKey {
    CpuTarget { threads: n + 1, ..CpuTarget::generic(Isa::Avx2) }.key()
}

fn stage(stage: Stage, needs: Needs, time: Duration) -> SimulatedStage {
    SimulatedStage { stage, needs, time }
}

/// Rounds of proposing, building and timing on a GPU.
fn gpu_job(n_rounds: usize, gpu: u32, compute: Duration, measure: Duration) -> SimulatedJob {
    let round = [
        stage(Stage::Propose, Needs::cores(1), compute),
        stage(Stage::Build, Needs::cores(1), compute),
        stage(Stage::Measure, Needs { cores: 0, ..Needs::gpu(device(gpu)) }, measure),
    ];
    SimulatedJob { priority: 0, stages: vec![round; n_rounds].concat() }
}

/// Rounds of proposing and timing on all cores.
fn cpu_job(n_rounds: usize, compute: Duration, measure: Duration) -> SimulatedJob {
    let round = [
        stage(Stage::Propose, Needs::cores(1), compute),
        stage(Stage::Measure, Needs::whole_cpu(2, device(0)), measure),
    ];
    SimulatedJob { priority: 0, stages: vec![round; n_rounds].concat() }
}

fn policies() -> Vec<Box<dyn Policy>> {
    vec![
        Box::new(Sequential),
        Box::new(NaiveParallel),
        Box::new(Interleaved::without_isolation()),
        Box::new(Interleaved::new()),
        Box::new(Predictive),
    ]
}

/// Jobs of up to eight stages with any needs.
fn jobs() -> impl Strategy<Value = Vec<SimulatedJob>> {
    let stage = (0..6_usize, 0..4_usize, any::<bool>(), 0..4_u32, 0..150_u64, 0..50_u64);
    let stage = stage.prop_map(|(n, cores, is_alone, gpu, memory, time)| SimulatedStage {
        stage: Stage::ALL[n],
        needs: Needs {
            cores,
            is_alone: is_alone && cores > 0,
            device: (gpu < 3).then(|| device(gpu)),
            memory,
        },
        time: ms(time),
    });
    let job = (-1..2, proptest::collection::vec(stage, 0..8))
        .prop_map(|(priority, stages)| SimulatedJob { priority, stages });
    proptest::collection::vec(job, 0..6)
}

/// The stages that run at the start of a stage, itself included.
fn beside<'a>(timeline: &'a Timeline, span: &'a Span) -> impl Iterator<Item = &'a Span> {
    let runs = |it: &&Span| it.start <= span.start && span.start < it.end;
    timeline.spans.iter().filter(runs)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_job_ends_and_keeps_its_order(jobs in jobs()) {
        for policy in policies() {
            let timeline = simulate(policy.as_ref(), CAPACITY, &jobs);
            for (n, job) in jobs.iter().enumerate() {
                let own = timeline.spans.iter().filter(|it| it.job == n as u64);
                let own: Vec<&Span> = own.collect();
                let stages: Vec<Stage> = own.iter().map(|it| it.stage).collect();
                let expected: Vec<Stage> = job.stages.iter().map(|it| it.stage).collect();
                prop_assert_eq!(stages, expected, "{:?}", policy);
                prop_assert!(own.windows(2).all(|it| it[0].end <= it[1].start));
            }
        }
    }

    #[test]
    fn nothing_is_given_out_twice(jobs in jobs()) {
        for policy in [&Interleaved::new() as &dyn Policy, &Predictive] {
            let timeline = simulate(policy, CAPACITY, &jobs);
            for span in timeline.spans.iter().filter(|it| it.end > it.start) {
                let running: Vec<&Span> = beside(&timeline, span).collect();
                prop_assert!(running.iter().map(|it| it.cores).sum::<usize>() <= CAPACITY.cores);
                let on_cores = running.iter().filter(|it| it.cores > 0).count();
                let is_alone = running.iter().any(|it| it.is_alone);
                prop_assert!(!is_alone || on_cores == 1, "{policy:?}: {running:?}");
                let devices = running.iter().filter_map(|it| it.device.as_ref());
                let mut devices: Vec<&String> = devices.collect();
                let n_devices = devices.len();
                devices.sort();
                devices.dedup();
                prop_assert_eq!(devices.len(), n_devices);
            }
            prop_assert_eq!(timeline.disturbed(), 0.0);
        }
    }

    #[test]
    fn a_simulation_is_always_the_same(jobs in jobs()) {
        for policy in policies() {
            let run = || simulate(policy.as_ref(), CAPACITY, &jobs);
            prop_assert_eq!(run(), run());
        }
    }
}

#[test]
fn one_job_after_the_other_takes_the_sum_of_their_times() {
    let jobs = [gpu_job(3, 0, ms(10), ms(20)), gpu_job(2, 1, ms(10), ms(20))];
    assert_eq!(simulate(&Sequential, CAPACITY, &jobs).makespan(), ms(5 * 40));
}

#[test]
fn jobs_that_know_nothing_of_each_other_disturb_each_other() {
    let jobs = [cpu_job(3, ms(10), ms(20)), cpu_job(3, ms(10), ms(20))];
    let naive = simulate(&NaiveParallel, CAPACITY, &jobs);
    assert!(naive.disturbed() > 0.5, "{}", naive.disturbed());
    let beside = simulate(&Interleaved::without_isolation(), CAPACITY, &jobs);
    assert!(beside.disturbed() > 0.0 && beside.disturbed() < naive.disturbed());
    assert_eq!(simulate(&Interleaved::new(), CAPACITY, &jobs).disturbed(), 0.0);
}

#[test]
fn a_device_measures_for_one_job_while_another_computes() {
    // Computing and measuring take as long: two jobs keep a core and a device busy.
    let jobs = [gpu_job(10, 0, ms(10), ms(20)), gpu_job(10, 0, ms(10), ms(20))];
    let sequential = simulate(&Sequential, CAPACITY, &jobs).makespan().as_secs_f64();
    for policy in [&Interleaved::new() as &dyn Policy, &Predictive] {
        let timeline = simulate(policy, CAPACITY, &jobs);
        let gain = sequential / timeline.makespan().as_secs_f64();
        assert!(gain > 1.85, "{policy:?}: {gain}");
        assert!(timeline.device_use() > 0.9, "{policy:?}: {}", timeline.device_use());
    }
}

#[test]
fn a_measurement_on_all_cores_is_not_kept_waiting_by_a_stream_of_small_stages() {
    // Eight jobs that always have a core busy, and one that wants all of them.
    let small = |n: u64| SimulatedJob {
        priority: 0,
        stages: vec![stage(Stage::Build, Needs::cores(1), ms(7 + n)); 200],
    };
    let mut jobs: Vec<SimulatedJob> = (0..8).map(small).collect();
    jobs.push(cpu_job(10, ms(1), ms(5)));
    for policy in [&Interleaved::new() as &dyn Policy, &Predictive] {
        let timeline = simulate(policy, CAPACITY, &jobs);
        let measured = timeline.spans.iter().filter(|it| it.stage == Stage::Measure);
        let waits: Vec<Duration> = measured.map(|it| it.start - it.asked).collect();
        assert_eq!(waits.len(), 10);
        assert!(waits.iter().all(|it| *it < ms(100)), "{policy:?}: {waits:?}");
    }
}

#[test]
fn short_stages_go_first_where_their_times_are_known() {
    // A device is idle until somebody has built for it: who builds for long goes last.
    let jobs: Vec<SimulatedJob> =
        [ms(200), ms(10), ms(10)].map(|build| gpu_job(6, 0, build, ms(50))).to_vec();
    let one_core = Capacity { cores: 1, ..CAPACITY };
    let in_order = simulate(&Interleaved::new(), one_core, &jobs);
    let predicted = simulate(&Predictive, one_core, &jobs);
    assert!(predicted.mean_completion() < in_order.mean_completion());
}

#[test]
fn a_job_of_long_stages_is_not_kept_waiting_by_jobs_of_short_ones() {
    let mut jobs: Vec<SimulatedJob> = (0..3).map(|n| gpu_job(200, n, ms(5), ms(1))).collect();
    jobs.push(gpu_job(4, 3, ms(100), ms(1)));
    let one_core = Capacity { cores: 1, ..CAPACITY };
    for policy in [&Interleaved::new() as &dyn Policy, &Predictive] {
        let timeline = simulate(policy, one_core, &jobs);
        let own = timeline.spans.iter().filter(|it| it.job == 3);
        let longest = own.map(|it| it.start - it.asked).max().unwrap();
        // The others run for seven seconds; at first, no time of a stage is known.
        assert!(longest < ms(2500), "{policy:?}: {longest:?}");
    }
}

#[test]
fn a_job_of_higher_priority_is_done_first() {
    let urgent = SimulatedJob { priority: 1, ..cpu_job(5, ms(10), ms(10)) };
    let jobs = [cpu_job(5, ms(10), ms(10)), cpu_job(5, ms(10), ms(10)), urgent];
    for policy in [&Interleaved::new() as &dyn Policy, &Predictive] {
        let timeline = simulate(policy, CAPACITY, &jobs);
        assert_eq!(timeline.spans.iter().rposition(|it| it.job == 2).map(|n| n < 18), Some(true));
        let end = |job| timeline.spans.iter().filter(|it| it.job == job).map(|it| it.end).max();
        assert!(end(2) < end(0) && end(2) < end(1), "{policy:?}");
    }
}

#[test]
fn who_needs_more_than_there_is_gets_all_there_is() {
    let greedy = Needs { memory: 1 << 40, ..Needs::cores(64) };
    let job = SimulatedJob { priority: 0, stages: vec![stage(Stage::Judge, greedy, ms(10))] };
    let timeline = simulate(&Interleaved::new(), CAPACITY, &[job.clone(), job]);
    assert_eq!(timeline.makespan(), ms(20));
}

#[test]
fn threads_get_what_they_ask_for_in_turn() {
    let executor = Executor::new(Box::new(Interleaved::new()), CAPACITY, None);
    let measuring = std::sync::atomic::AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for n in 0..4_u64 {
            let job = executor.job(0);
            let measuring = &measuring;
            scope.spawn(move || {
                for round in 0..20 {
                    let needs = Needs::whole_cpu(2, device(n as u32));
                    let minute = ms(60_000);
                    let propose = Needs::cores(1);
                    drop(job.enter(Stage::Propose, &propose, minute, &mut |_| ()).unwrap());
                    let permit = job.enter(Stage::Measure, &needs, minute, &mut |_| ()).unwrap();
                    let before = measuring.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    assert_eq!(before, 0, "job {n} in round {round} is not alone");
                    measuring.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                    drop(permit);
                }
            });
        }
    });
    let timeline = executor.timeline();
    assert_eq!((timeline.spans.len(), timeline.disturbed()), (4 * 20 * 2, 0.0));
}

#[test]
fn who_waits_too_long_is_told_and_keeps_nobody_waiting() {
    let executor = Executor::new(Box::new(Interleaved::new()), CAPACITY, None);
    let [first, second, third] = [0; 3].map(|_| executor.job(0));
    let enter = |job: &TuningJob<'static>, needs: &Needs, patience| {
        job.enter(Stage::Measure, needs, patience, &mut |_| ()).map(drop)
    };
    let alone = Needs::whole_cpu(2, device(0));
    let held = first.enter(Stage::Build, &Needs::cores(1), ms(0), &mut |_| ()).unwrap();
    assert!(matches!(enter(&second, &alone, ms(5)), Err(MachineLockError::Busy { .. })));
    assert!(enter(&third, &Needs::cores(1), ms(0)).is_ok(), "nobody waits before it");
    drop(held);
    assert!(enter(&second, &alone, ms(0)).is_ok());
}

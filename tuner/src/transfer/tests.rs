//! The order of transfer sources, and the validity of what they offer.

use std::collections::BTreeSet;
use std::sync::Arc;

use tvmtune_ir::dag::Dag;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_ir::workload::{self, Strength, WorkloadId};
use tvmtune_plan::record::Ancestor;
use tvmtune_schedule::Schedule;
use tvmtune_space::sketch::sketches;

use super::pool::fits_target;
use super::*;

/// `c[i, j] = sum(k, a[i, k] * b[k, j])`, then what `after` says.
fn matmul_then(m: i64, n: i64, k: i64, after: &str) -> Dag {
    let last = 2 + after.lines().count();
    let text = format!(
        "tvmtune dag v1\ninput t0: f32[{m}, {k}]\nweight t1: f32[{k}, {n}]\n\
         t2: f32[{m}, {n}] = sum(v2 < {k}) mul(t0[v0, v2], t1[v2, v1])\n{after}return t{last}\n"
    );
    text.parse().unwrap()
}

fn matmul(m: i64, n: i64, k: i64) -> Dag {
    matmul_then(m, n, k, "")
}

fn matmul_relu(m: i64, n: i64, k: i64) -> Dag {
    matmul_then(m, n, k, &format!("t3: f32[{m}, {n}] = max(t2[v0, v1], 0.0_f32)\n"))
}

fn row_sums(m: i64, n: i64) -> Dag {
    let text = format!(
        "tvmtune dag v1\ninput t0: f32[{m}, {n}]\n\
         t1: f32[{m}] = sum(v1 < {n}) t0[v0, v1]\nreturn t1\n"
    );
    text.parse().unwrap()
}

fn target() -> Target {
    CpuTarget::generic(Isa::Avx512).into()
}

/// The default schedule of a program, measured on that device.
fn source(dag: &Dag, target: &Target, median_ns: f64) -> TransferSource {
    let sketch = sketches(dag, target).swap_remove(0);
    let trace = sketch.instructions(&sketch.default);
    TransferSource {
        workload: workload::id(dag),
        dag: Arc::new(dag.clone()),
        bucket: Vec::new(),
        trace: trace.iter().map(ToString::to_string).collect(),
        device: target.key(),
        platform: target.platform(),
        median_ns,
        default_ns: None,
    }
}

fn pool(dags: &[Dag]) -> TransferSources {
    let mut sources = TransferSources::default();
    for dag in dags {
        sources.add(source(dag, &target(), 1000.0));
    }
    sources
}

/// The sources of what is proposed for a program, each once, with how much they have in common.
fn order(sources: &TransferSources, dag: &Dag) -> Vec<(WorkloadId, Strength)> {
    let mut order: Vec<(WorkloadId, Strength)> = sources
        .candidates(dag, &target(), 100)
        .into_iter()
        .map(|it| (it.source, it.strength))
        .collect();
    order.dedup();
    order
}

#[test]
fn the_nearest_sources_come_first() {
    let (near, far) = (matmul(128, 512, 256), matmul(16, 64, 2048));
    let other = matmul_relu(100, 300, 256);
    let none = row_sums(128, 512);
    let sources = pool(&[none, other.clone(), far.clone(), near.clone()]);
    let wanted = matmul(128, 768, 256);
    let expected = [
        (workload::id(&near), Strength::Shape),
        (workload::id(&other), Strength::Anchor),
        (workload::id(&far), Strength::Shape),
    ];
    assert_eq!(order(&sources, &wanted), expected);
}

#[test]
fn transfers_apply_fit_and_are_not_repeated() {
    let sources = pool(&[
        matmul(128, 512, 256),
        matmul(100, 500, 250),
        matmul_relu(64, 96, 32),
        matmul_relu(7, 13, 1000),
    ]);
    for dag in
        [matmul(128, 768, 256), matmul_relu(128, 768, 256), matmul(1, 1, 1), matmul(5, 17, 3)]
    {
        let found = sources.candidates(&dag, &target(), 100);
        assert!(!found.is_empty());
        let mut seen = BTreeSet::new();
        for it in &found {
            let schedule = Schedule::replay(&dag, &it.trace).unwrap();
            assert!(fits_target(&schedule, &target()));
            assert!(seen.insert(it.trace.clone()));
        }
        assert_eq!(sources.candidates(&dag, &target(), 100), found);
        assert_eq!(sources.candidates(&dag, &target(), 2), found[..2]);
    }
}

#[test]
fn a_source_with_other_extents_gives_several_schedules() {
    let sources = pool(&[matmul(128, 512, 256)]);
    let policies = |dag: &Dag| -> Vec<&str> {
        sources.candidates(dag, &target(), 100).iter().map(|it| it.policy.name()).collect()
    };
    assert_eq!(policies(&matmul(120, 1000, 256)), ["keep", "snap", "scale"]);
    assert_eq!(policies(&matmul(2048, 2048, 256)), ["keep", "scale"]);
}

#[test]
fn a_workload_is_its_own_source_on_another_device_only() {
    let dag = matmul(128, 512, 256);
    let mut sources = pool(std::slice::from_ref(&dag));
    assert_eq!(sources.candidates(&dag, &target(), 9), []);
    let other = CpuTarget { threads: 64, ..CpuTarget::generic(Isa::Avx512) }.into();
    sources.add(source(&dag, &other, 10.0));
    let found = sources.candidates(&dag, &target(), 9);
    assert_eq!(found.len(), 1, "all policies leave it as it is");
    assert_eq!((found[0].moved, &found[0].device), (0.0, &other.key()));
    let ancestor = Ancestor::transferred(workload::id(&dag), 10.0);
    assert_eq!(found[0].ancestor(&other.key()), ancestor);
    assert_eq!(found[0].ancestor(&target().key()), ancestor.on(other.key()));
}

#[test]
fn the_best_schedule_of_each_workload_goes_before_second_ones() {
    let (near, far) = (matmul(128, 512, 256), matmul(128, 600, 256));
    let mut sources = TransferSources::default();
    for (dag, threads, median_ns) in
        [(&near, &["one"][..], 1000.0), (&near, &["all"], 900.0), (&far, &["one", "all"], 5.0)]
    {
        // Schedules that differ, wherever they are used.
        let mut source = source(dag, &target(), median_ns);
        source.trace.extend(threads.iter().map(|it| format!("threads {it}")));
        sources.add(source);
    }
    let wanted = matmul(128, 520, 256);
    let ids: Vec<WorkloadId> = order(&sources, &wanted).into_iter().map(|it| it.0).collect();
    assert_eq!(ids, [&near, &far, &near].map(workload::id));
}

#[test]
fn what_failed_before_comes_later_and_a_class_that_failed_for_long_is_given_up() {
    let (near, far) = (matmul(128, 512, 256), matmul(128, 600, 256));
    let mut sources = pool(&[near.clone(), far.clone()]);
    let wanted = matmul(128, 520, 256);
    let first = sources.candidates(&wanted, &target(), 1).remove(0);
    assert_eq!(first.source, workload::id(&near));
    sources.report(&first, TransferResult::NoBetter);
    let first = sources.candidates(&wanted, &target(), 1).remove(0);
    assert_eq!(first.source, workload::id(&far));
    for _ in 0..40 {
        sources.report(&first, TransferResult::NoBetter);
    }
    let left = sources.candidates(&wanted, &target(), 9);
    assert!(left.iter().all(|it| it.strength != Strength::Shape));
}

#[test]
fn text_that_is_no_trace_is_no_source() {
    let dag = matmul(128, 512, 256);
    let mut sources = TransferSources::default();
    sources.add(TransferSource { trace: vec!["split x".into()], ..source(&dag, &target(), 1.0) });
    sources.add(TransferSource { trace: vec!["inline s9".into()], ..source(&dag, &target(), 1.0) });
    assert_eq!(sources.n_sources(), 2);
    assert_eq!(sources.candidates(&matmul(1, 2, 3), &target(), 9), []);
}

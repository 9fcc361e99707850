//! The adaptation of traces to other extents and other programs.

use super::*;
use crate::nest;

/// `c[i, j] = sum(k, a[i, k] * b[j, k])`, then the computes of `after`.
fn matmul_then(m: i64, n: i64, k: i64, after: &str) -> Dag {
    let last = 2 + after.lines().count();
    let text = format!(
        "tvmtune dag v1\ninput t0: f32[{m}, {k}]\nweight t1: f32[{n}, {k}]\n\
         t2: f32[{m}, {n}] = sum(v2 < {k}) mul(t0[v0, v2], t1[v1, v2])\n{after}return t{last}\n"
    );
    text.parse().unwrap()
}

fn matmul(m: i64, n: i64, k: i64) -> Dag {
    matmul_then(m, n, k, "")
}

/// A matrix product, its square root, and a ReLU of that.
fn matmul_relu(m: i64, n: i64, k: i64) -> Dag {
    let after = format!(
        "t3: f32[{m}, {n}] = sqrt(t2[v0, v1])\nt4: f32[{m}, {n}] = max(t3[v0, v1], 0.0_f32)\n"
    );
    matmul_then(m, n, k, &after)
}

fn lines(text: &str) -> Vec<Instruction> {
    let lines = text.lines().filter(|it| !it.trim().is_empty());
    lines.map(|it| it.trim().parse().unwrap()).collect()
}

/// Transfers a trace of one dag to another.
#[track_caller]
fn check_on(policy: FactorPolicy, dags: [Dag; 2], trace: &str, expected: &str, distance: f64) {
    let [original, dag] = dags;
    let repaired = repair_by(policy, &lines(trace), &original, &dag).unwrap();
    assert_eq!(repaired.schedule.trace, lines(expected));
    assert_eq!(Schedule::replay(&dag, &repaired.schedule.trace).as_ref(), Ok(&repaired.schedule));
    assert!((repaired.distance - distance).abs() < 1e-9, "{}", repaired.distance);
    assert!(nest::verify(&nest::lower(&repaired.schedule)).is_empty());
}

/// Transfers a trace of a 64 x 96 x 32 matmul to one of other extents.
#[track_caller]
fn check(
    policy: FactorPolicy,
    extents: (i64, i64, i64),
    trace: &str,
    expected: &str,
    distance: f64,
) {
    let dag = matmul(extents.0, extents.1, extents.2);
    check_on(policy, [matmul(64, 96, 32), dag], trace, expected, distance);
}

const TILED: &str = "
    cache_write s0
    split s0 a0 [8]
    split s0 a1 [3, 16]
    reorder s0 [a2, a4, a3, a5, a6]
    pack t1 [0:48] [0, 2, 1]
    compute_at s1 s0 a4";

/// `TILED` with other factors.
fn tiled(rows: u64, outer: u64, inner: u64) -> String {
    let text = TILED.replace("[8]", &format!("[{rows}]"));
    let text = text.replace("[3, 16]", &format!("[{outer}, {inner}]"));
    text.replace("[0:48]", &format!("[0:{}]", outer * inner))
}

fn octaves(ratios: [f64; 4]) -> f64 {
    ratios.iter().map(|it| it.log2().abs()).sum()
}

#[test]
fn a_trace_is_unchanged_on_its_own_dag() {
    let non_divisible = TILED.replace("[8]", "[100]").replace("[3, 16]", "[7, 33]");
    for policy in
        [FactorPolicy::KeepInner, FactorPolicy::Snap, FactorPolicy::Scale, FactorPolicy::Shrink]
    {
        check(policy, (64, 96, 32), TILED, TILED, 0.0);
        check(policy, (64, 96, 7), TILED, TILED, 0.0);
        check(policy, (64, 96, 32), &non_divisible, &non_divisible, 0.0);
    }
}

#[test]
fn inner_factors_are_kept() {
    check(FactorPolicy::KeepInner, (6, 64, 32), TILED, TILED, 0.0);
    check(FactorPolicy::KeepInner, (1000, 1, 1), TILED, TILED, 0.0);
}

#[test]
fn factors_snap_to_the_nearest_divisor_innermost_first_and_layouts_follow() {
    let distance = |it| octaves(it);
    // 8 of 6: 6; 16 of 64: 16, and 3 of the 4 that are left: 4.
    let moved = distance([8.0 / 6.0, 1.0, 4.0 / 3.0, 4.0 / 3.0]);
    check(FactorPolicy::Snap, (6, 64, 32), TILED, &tiled(6, 4, 16), moved);
    // 8 of 13: 13; 16 of 100: 20, and 3 of the 5 that are left: 5.
    let moved = distance([13.0 / 8.0, 20.0 / 16.0, 5.0 / 3.0, 100.0 / 48.0]);
    check(FactorPolicy::Snap, (13, 100, 32), TILED, &tiled(13, 5, 20), moved);
}

#[test]
fn factors_of_dynamic_extents_stay() {
    let dynamic = |range: &str| -> Dag {
        let text = format!(
            "tvmtune dag v1\ndim d0 in {range}\ninput t0: f32[d0, 32]\nweight t1: f32[96, 32]\n\
             t2: f32[d0, 96] = sum(v2 < 32) mul(t0[v0, v2], t1[v1, v2])\nreturn t2\n"
        );
        text.parse().unwrap()
    };
    let dags = |range| [matmul(64, 96, 32), dynamic(range)];
    check_on(FactorPolicy::Snap, dags("1..=12"), "split s0 a0 [8]", "split s0 a0 [8]", 0.0);
    let moved = (8.0_f64 / 6.0).log2();
    check_on(FactorPolicy::Snap, dags("12..=12"), "split s0 a0 [8]", "split s0 a0 [6]", moved);
}

#[test]
fn outer_factors_scale_with_the_extent() {
    // Four times as many columns: twice as many tiles in each of twice as many blocks.
    let moved = octaves([1.0, 1.0, 2.0, 2.0]);
    check(FactorPolicy::Scale, (64, 384, 32), TILED, &tiled(8, 6, 16), moved);
    check(FactorPolicy::Scale, (256, 96, 32), TILED, TILED, 0.0);
}

#[test]
fn factors_without_a_tail_shrink_until_they_divide_again() {
    let distance = octaves([8.0 / 6.0, 1.5, 1.5, 1.0]);
    check(FactorPolicy::Shrink, (6, 64, 32), TILED, &tiled(6, 2, 16), distance);
    check(FactorPolicy::Shrink, (128, 480, 7), TILED, TILED, 0.0);
}

#[test]
fn factors_that_had_a_tail_may_keep_one() {
    check(FactorPolicy::Shrink, (63, 96, 32), "split s0 a0 [24]", "split s0 a0 [24]", 0.0);
    check(
        FactorPolicy::Shrink,
        (10, 96, 32),
        "split s0 a0 [24]",
        "split s0 a0 [10]",
        2.4_f64.log2(),
    );
}

#[test]
fn the_root_after_the_anchor_is_the_counterpart_of_the_write_back() {
    let expected = "
        inline s1
        split s2 a0 [8]
        split s2 a1 [3, 16]
        reorder s2 [a2, a4, a3, a5, a6]
        pack t1 [0:48] [0, 2, 1]
        compute_at s0 s2 a4";
    let dags = [matmul(64, 96, 32), matmul_relu(64, 96, 32)];
    check_on(FactorPolicy::Snap, dags, TILED, expected, 0.0);
}

#[test]
fn an_anchor_without_a_root_gets_a_write_back_stage() {
    let trace = "
        inline s1
        split s2 a0 [8]
        split s0 a2 [4]
        compute_at s0 s2 a3";
    let expected = "
        cache_write s0
        split s0 a0 [8]
        split s1 a2 [4]
        compute_at s1 s0 a3";
    let dags = [matmul_relu(64, 96, 32), matmul(64, 96, 32)];
    check_on(FactorPolicy::Snap, dags, trace, expected, 0.0);
}

#[test]
fn instructions_without_a_counterpart_are_dropped() {
    let trace = "
        split s1 a0 [4]
        split s0 a0 [8]
        annotate s1 a2 parallel";
    let dags = [matmul_relu(64, 96, 32), matmul(64, 96, 32)];
    let expected = "
        cache_write s0
        split s1 a0 [8]";
    check_on(FactorPolicy::Snap, dags, trace, expected, 2.0 * DROPPED);
}

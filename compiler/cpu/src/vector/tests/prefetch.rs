//! Prefetches of pipelined loops.

use super::text::{A, kernel, program};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

/// Rows, less the largest element of each: two stages in the loop over rows, which runs as `kind`
/// says.
fn rows(dims: &str, width: u64, kind: LoopKind) -> Schedule {
    let source = format!(
        "#[autotune(dims({dims}))]
        fn rows(x: Tensor<f32, M, N>) -> Tensor<f32, M, N> {{
            let m = compute(|i| max(0..N, |j| x[[i, j]]));
            compute(|i, j| x[[i, j]] - m[[i]])
        }}"
    );
    let mut schedule = Schedule::new(&program(&source));
    let (max, less) = (StageId(0), StageId(1));
    let parts = schedule.split(less, A[1], &[width]).unwrap();
    schedule.annotate(less, parts[1], LoopKind::Vectorized).unwrap();
    schedule.annotate(max, A[1], LoopKind::Vectorized).unwrap();
    schedule.annotate(less, A[0], kind).unwrap();
    schedule.compute_at(max, less, A[0]).unwrap();
    schedule
}

#[test]
fn the_last_statement_that_reads_a_row_asks_for_the_next() {
    insta::assert_snapshot!(kernel(&rows("M = 5, N = 32", 16, LoopKind::Pipelined(2)), Isa::Avx512), @r"
    kernel rows for avx512
    t0: tensor 0
    t1: tensor 2
    phase
      loop v4 in 0..5
        r0 = -inf
        r1 = MaxF(t0[128*v4].n, -inf)
        r2 = MaxF(t0[128*v4 + 64].n, -inf)
        r0 = MaxF(reduce MaxF(MaxF(r1, r2)), r0)
        loop v5 in 0..2
          t1[128*v4 + 64*v5].n = SubF(t0[128*v4 + 64*v5].n, r0)
          prefetch t0[128*v4 + 64*v5 + 128]
    ");
}

#[track_caller]
fn check(dims: &str, width: u64, kind: LoopKind, isa: Isa, expected: &[&str]) {
    let text = kernel(&rows(dims, width, kind), isa).to_string();
    let prefetches = text.lines().filter_map(|it| it.trim().strip_prefix("prefetch "));
    assert_eq!(prefetches.collect::<Vec<_>>(), expected);
}

#[test]
fn the_row_is_as_far_ahead_as_the_loop_is_deep() {
    let expected = ["t0[128*v4 + 64*v5 + 384]"];
    check("M = 5, N = 32", 16, LoopKind::Pipelined(4), Isa::Avx512, &expected);
}

#[test]
fn rows_of_a_width_known_at_launch_are_a_stride_of_the_table() {
    let expected = ["t0[p4 + p4*v8 + 64*v9]", "t0[p10 + p4*v8]"];
    check("M = 1..=5, N = 1..=32", 16, LoopKind::Pipelined(2), Isa::Avx512, &expected);
}

#[test]
fn each_line_is_asked_for_once() {
    // Two vectors of 32 bytes each, then of 64.
    let one_line = ["t0[128*v4 + 64*v5 + 128]"];
    check("M = 5, N = 32", 16, LoopKind::Pipelined(2), Isa::Avx2, &one_line);
    let two_lines = ["t0[128*v3 + 128]", "t0[128*v3 + 192]"];
    check("M = 5, N = 32", 32, LoopKind::Pipelined(2), Isa::Avx512, &two_lines);
}

#[test]
fn serial_loops_ask_for_nothing() {
    check("M = 5, N = 32", 16, LoopKind::Serial, Isa::Avx512, &[]);
}

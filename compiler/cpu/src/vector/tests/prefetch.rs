//! Prefetches of pipelined loops.

use std::collections::{BTreeMap, BTreeSet};

use super::text::{A, kernel, program};
use crate::vector::{Base, Count, PrefetchHint, Stmt};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;
use tvmtune_schedule::{Layout, LoopKind, Schedule, StageId};

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
        r1 = MaxF(t0[128*v4].n, -inf)
        r2 = MaxF(t0[128*v4 + 64].n, -inf)
        r0 = -inf
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

/// A product in tiles of 4 rows, with so many columns of tiles in a task, the next one of which is
/// prefetched; each column of `b`, of `lanes` elements for each of `k` steps, is contiguous.
fn columns(dims: &str, (columns, lanes): (u64, u64), k: u64) -> Schedule {
    let source = format!(
        "#[autotune(dims({dims}, N = 96, K = {k}))]
        fn product(a: Tensor<f32, M, K>, b: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
            compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[j, k]]))
        }}"
    );
    let mut schedule = Schedule::new(&program(&source));
    let stage = StageId(0);
    let i = schedule.split(stage, A[0], &[4]).unwrap();
    let j = schedule.split(stage, A[1], &[columns, lanes]).unwrap();
    schedule.reorder(stage, &[j[0], j[1], i[0], A[2], i[1], j[2]]).unwrap();
    schedule.annotate(stage, j[0], LoopKind::Parallel).unwrap();
    schedule.annotate(stage, j[1], LoopKind::Pipelined(2)).unwrap();
    schedule.annotate(stage, i[1], LoopKind::Unrolled).unwrap();
    schedule.annotate(stage, j[2], LoopKind::Vectorized).unwrap();
    let weight = schedule.dag.params().nth(1).unwrap();
    schedule.pack(weight, Layout { splits: vec![(0, lanes)], order: vec![0, 2, 1] }).unwrap();
    schedule
}

/// Returns the lines of each column that are asked for while the column before it is computed.
fn lines_ahead(schedule: &Schedule, column_bytes: i64) -> BTreeMap<i64, BTreeSet<i64>> {
    fn walk(
        stmts: &[Stmt],
        vars: &mut BTreeMap<VarId, i64>,
        visit: &mut dyn FnMut(i64, &BTreeMap<VarId, i64>),
    ) {
        for stmt in stmts {
            match stmt {
                Stmt::Loop { var, count: Count::Const(n), body } => {
                    for value in 0..*n {
                        vars.insert(*var, value);
                        walk(body, vars, visit);
                    }
                }
                Stmt::Prefetch { address, hint } => {
                    assert_eq!(*hint, PrefetchHint::ReadLater);
                    assert!(matches!(address.base, Base::Table(_)));
                    let strides = address.offset.strides.iter().map(|(var, stride)| match stride {
                        Count::Const(stride) => stride * vars[var],
                        Count::Param(_) => panic!("a stride that is not known"),
                    });
                    visit(address.offset.constant + strides.sum::<i64>(), vars);
                }
                _ => {}
            }
        }
    }
    let mut lines: BTreeMap<i64, BTreeSet<i64>> = BTreeMap::new();
    let kernel = kernel(schedule, Isa::Avx512);
    let [phase] = &kernel.phases[..] else { panic!("one phase") };
    let [(task, Count::Const(n_tasks))] = phase.tasks[..] else { panic!("one loop of tasks") };
    for n in 0..n_tasks {
        walk(&phase.body, &mut BTreeMap::from([(task, n)]), &mut |at, _| {
            lines.entry(at / column_bytes).or_default().insert(at % column_bytes / 64);
        });
    }
    lines
}

#[test]
fn lines_of_the_next_column_are_distributed_over_the_tiles_of_this_one() {
    insta::assert_snapshot!(kernel(&columns("M = 8", (3, 16), 512), Isa::Avx512), @r"
    kernel product for avx512
    t0: tensor 0
    t1: tensor 1 split [(0, 16)] order [0, 2, 1]
    t2: tensor 2
    phase v12 in 0..2
      loop v13 in 0..3
        loop v14 in 0..2
          r0 = 0
          r1 = 0
          r2 = 0
          r3 = 0
          loop v15 in 0..512
            r4 = t1[98304*v12 + 32768*v13 + 64*v15].n
            r0 = fma(t0[8192*v14 + 4*v15].1, r4, r0)
            prefetch:later t1[98304*v12 + 32768*v13 + 16384*v14 + 64*v15 + 32768]
            r1 = fma(t0[8192*v14 + 4*v15 + 2048].1, r4, r1)
            r2 = fma(t0[8192*v14 + 4*v15 + 4096].1, r4, r2)
            r3 = fma(t0[8192*v14 + 4*v15 + 6144].1, r4, r3)
          t2[192*v12 + 64*v13 + 1536*v14].n = r0
          t2[192*v12 + 64*v13 + 1536*v14 + 384].n = r1
          t2[192*v12 + 64*v13 + 1536*v14 + 768].n = r2
          t2[192*v12 + 64*v13 + 1536*v14 + 1152].n = r3
    ");
}

#[test]
fn all_lines_of_a_column_are_asked_for() {
    let cases = [
        ("M = 8", 16, 512),
        ("M = 9", 16, 512),
        ("M = 100", 16, 300),
        ("M = 5", 16, 509),
        ("M = 8", 48, 128),
        ("M = 5", 48, 131),
    ];
    for (dims, lanes, k) in cases {
        let n_lines = lanes * k / 16;
        let ahead = lines_ahead(&columns(dims, (2, lanes), k), 64 * n_lines as i64);
        for column in 1..96 / lanes {
            let n_asked_for = ahead[&(column as i64)].len() as u64;
            assert_eq!(n_asked_for, n_lines, "{dims}, {lanes} lanes, column {column}");
        }
    }
}

//! Bugs seeded into a correct nest: each must be detected.

use crate::LoopKind;
use crate::nest::tests::scheduled;
use crate::nest::{Nest, Statement, Stmt, lower};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::{Poly, VarId};

const PROGRAM: &str = "
    #[autotune(dims(M = 1..=100, N = 8, K = 5))]
    fn matmul(a: Tensor<f32, M, K>, b: Tensor<f32, N, K>, c: Tensor<f32, N>) -> Tensor<f32, M, N> {
        let h = compute(|i, j| sum(0..K, |k| a[[i, k]] * b[[j, k]]));
        compute(|i, j| h[[i, j]] + c[[j]])
    }";

/// Rows in tiles of 4, in parallel; accumulators in each tile of 4 x 8.
const TILED: &str = "
    split s1 a0 [4]
    annotate s1 a2 parallel
    annotate s1 a1 vectorized
    compute_at s0 s1 a2
    reorder s0 [a2, a0, a1]
    annotate s0 a1 vectorized";

/// Runs the nest with that change; returns the report.
fn seeded(trace: &str, change: impl FnOnce(&mut Nest)) -> String {
    let schedule = scheduled(PROGRAM, trace);
    let mut nest = lower(&schedule);
    change(&mut nest);
    let dims = [6];
    let array =
        |(n, shape): (u64, &[u64])| Array::whole_numbers(tvmtune_ir::dag::DType::F32, shape, n);
    let params: Vec<Array> = [(1, &[6, 5][..]), (2, &[8, 5]), (3, &[8])].map(array).to_vec();
    match crate::interp::run(&nest, &dims, &params, &[]) {
        Err(fault) => fault.to_string(),
        Ok(it) if it == tvmtune_ir::interp::run(&schedule.dag, &dims, &params, &[]) => {
            "right".into()
        }
        Ok(_) => "a wrong result".into(),
    }
}

/// Calls `change` with every statement, outermost first.
fn each(body: &mut [Stmt], change: &mut dyn FnMut(&mut Stmt)) {
    body.iter_mut().for_each(|it| it.for_each_mut(change));
}

/// Changes the loops of that name.
fn loops(nest: &mut Nest, wanted: &str, change: impl Fn(&mut Poly, &mut LoopKind)) {
    each(&mut nest.body, &mut |stmt| {
        if let Stmt::For { name, extent, kind, .. } = stmt
            && name == wanted
        {
            change(extent, kind);
        }
    });
}

/// Changes the index that the last statement writes.
fn last_index(nest: &mut Nest, change: impl FnOnce(&mut Vec<Poly>)) {
    let mut body = &mut nest.body;
    loop {
        match body.last_mut() {
            Some(Stmt::For { body: inner, .. } | Stmt::If { body: inner, .. }) => body = inner,
            Some(Stmt::Store { index, .. } | Stmt::Update { index, .. }) => return change(index),
            None => return,
        }
    }
}

#[test]
fn a_nest_without_a_bug_is_right() {
    assert_eq!(seeded("", |_| {}), "right");
    assert_eq!(seeded(TILED, |_| {}), "right");
}

#[test]
fn a_dropped_guard_is_out_of_bounds() {
    let report = seeded(TILED, |nest| {
        each(&mut nest.body, &mut |stmt| {
            if let Stmt::If { body, .. } = stmt {
                *stmt = body.swap_remove(0);
            }
        });
    });
    insta::assert_snapshot!(report, @"`a` at [6, 0] is out of bounds, in iteration i_0=1 k=0 i=2 j=0");
}

#[test]
fn swapped_indices_are_out_of_bounds() {
    insta::assert_snapshot!(seeded(TILED, |nest| last_index(nest, |it| it.swap(0, 1))), @"`out` at [6, 0] is out of bounds, in iteration i_0=0 i_1=0 j=6");
}

#[test]
fn a_reduction_that_never_starts_reads_what_no_one_wrote() {
    let report = seeded(TILED, |nest| {
        if let Some(Stmt::For { body, .. }) = nest.body.first_mut() {
            body.remove(0);
        }
    });
    insta::assert_snapshot!(report, @"`h` at [0, 0] is read before it was written, in iteration i_0=0 k=0 i=0 j=0");
}

#[test]
fn accumulators_left_over_from_another_iteration_do_not_count_as_written() {
    // Only the first of the serial tiles starts its sums.
    let report = seeded(&TILED.replace("annotate s1 a2 parallel", ""), |nest| {
        let Some(Stmt::For { var, body, .. }) = nest.body.first_mut() else { return };
        let guard = crate::nest::Guard { value: Poly::var(*var), bound: 1.into() };
        let start = body.remove(0);
        body.insert(0, Stmt::If { guards: vec![guard], body: vec![start] });
    });
    insta::assert_snapshot!(report, @"`h` at [0, 0] is read before it was written, in iteration i_0=1 k=0 i=0 j=0");
}

#[test]
fn a_reduction_that_starts_in_every_step_is_wrong() {
    let report = seeded("", |nest| {
        let Some(Stmt::For { body, .. }) = nest.body.first_mut() else { return };
        let Some(Stmt::For { body, .. }) = body.first_mut() else { return };
        let start = body.remove(0);
        let Some(Stmt::For { body, .. }) = body.first_mut() else { return };
        body.insert(0, start);
    });
    insta::assert_snapshot!(report, @"a wrong result");
}

#[test]
fn a_parallel_reduction_is_a_race_although_the_sum_is_right() {
    let report = seeded("", |nest| loops(nest, "k", |_, kind| *kind = LoopKind::Parallel));
    insta::assert_snapshot!(report, @"`h` at [0, 0] is touched by two tasks, threads or lanes in no order, in iteration i=0 j=0 k=0");
}

#[test]
fn lanes_that_write_one_element_are_a_race() {
    let report = seeded(TILED, |nest| last_index(nest, |it| it[1] = Poly::default()));
    insta::assert_snapshot!(report, @"`out` at [0, 0] is touched by two tasks, threads or lanes in no order, in iteration i_0=0 i_1=0 j=1");
}

#[test]
fn a_lost_tail_leaves_results_unwritten() {
    let report = seeded(TILED, |nest| loops(nest, "i_0", |extent, _| *extent = 1.into()));
    insta::assert_snapshot!(report, @"`out` at [4, 0] is never written");
}

#[test]
fn a_region_that_is_one_too_short_is_out_of_bounds() {
    let report = seeded(TILED, |nest| {
        let local = nest.buffers.iter_mut().find(|it| it.scope == crate::nest::Scope::Local);
        if let Some(buffer) = local {
            buffer.shape[0] = buffer.shape[0].clone() - 1.into();
        }
    });
    insta::assert_snapshot!(report, @"`h` at [3, 0] is out of bounds, in iteration i_0=0 i=3 j=0");
}

#[test]
fn a_read_one_too_far_is_out_of_bounds() {
    let report = seeded(TILED, |nest| {
        each(&mut nest.body, &mut |stmt| {
            if let Stmt::Store { value, .. } = stmt {
                *value = value.map_polys(&mut |it| {
                    let moves = it.as_var().is_some_and(|it| it > VarId(5));
                    if moves { it.clone() + 1.into() } else { it.clone() }
                });
            }
        });
    });
    insta::assert_snapshot!(report, @"`h` at [1, 8] is out of bounds, in iteration i_0=0 i_1=0 j=7");
}

/// The outer loop over `out` is one of threads, in which `h` is computed by threads of its own.
const THREADS: &str = "split s1 a0 [4]
    annotate s1 a2 parallel
    annotate s1 a3 thread
    compute_at s0 s1 a2
    annotate s0 a0 thread";

#[test]
fn threads_see_what_others_wrote_in_loops_before() {
    assert_eq!(seeded(THREADS, |_| {}), "right");
    // Transposed: every thread reads what all the others wrote, one loop earlier.
    let crossed = THREADS.replace("annotate s0 a0 thread", "annotate s0 a1 thread");
    assert_eq!(seeded(&crossed, |_| {}), "right");
}

#[test]
fn threads_that_reduce_together_do_not_race() {
    let trace = "annotate s0 a2 thread\nannotate s0 a0 thread";
    assert_eq!(seeded(trace, |_| {}), "right");
}

#[test]
fn threads_that_read_what_others_write_later_are_a_race() {
    // Every thread reads its neighbor's element of `h` before that one writes it again.
    let report = seeded(THREADS, |nest| {
        let mut writes = Vec::new();
        each(&mut nest.body, &mut |stmt| {
            if let Stmt::Store { tensor, index, value } = stmt
                && matches!(value, tvmtune_ir::dag::Expr::Const(..))
            {
                writes.push((*tensor, index.clone()));
            }
        });
        let (tensor, _) = writes[0];
        each(&mut nest.body, &mut |stmt| {
            if let Stmt::For { var, kind: LoopKind::Thread, body, .. } = stmt
                && let [Stmt::For { var: j, body: inner, .. }] = body.as_mut_slice()
                && matches!(inner.as_slice(), [Stmt::Store { .. } | Stmt::If { .. }])
            {
                let index = vec![Poly::var(*var), Poly::var(*j)];
                inner.push(Stmt::Store { tensor, index, value: tvmtune_ir::dag::Expr::f32(0.0) });
                last_read(inner, tensor);
            }
        });
    });
    assert!(report.contains("touched by two tasks, threads or lanes"), "{report}");
}

/// Lets the first statement read the last row of a tensor instead of its own.
fn last_read(body: &mut [Stmt], tensor: tvmtune_ir::dag::TensorId) {
    each(body, &mut |stmt| {
        if let Stmt::Store { value, .. } = stmt {
            *value = value.replace_reads(&mut |read, index| {
                let mut index = index.to_vec();
                (read == tensor).then(|| {
                    index[0] = tvmtune_ir::dag::Subscript::Affine(Poly::default());
                    tvmtune_ir::dag::Expr::Read { tensor: read, index }
                })
            });
        }
    });
}

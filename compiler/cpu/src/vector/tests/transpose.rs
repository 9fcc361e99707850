//! Strided accesses of consecutive words: which stand side by side, four at a time.

use super::text::{A, kernel, program};
use super::*;
use crate::vector::{Value, VectorUnary};
use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId};

const COPY: &str = "(x: Tensor<f32, I, E>) -> Tensor<f32, E, I> { compute(|e, i| x[[i, e]]) }";
const RETURN: &str = "(x: Tensor<f32, E, I>) -> Tensor<f32, I, E> { compute(|i, e| x[[e, i]]) }";

/// A program of one stage whose dimension `i` is in lanes, `n` of them, inside of the others.
fn in_lanes(dims: &str, function: &str, i: usize, n: u64) -> Schedule {
    let dag = program(&format!("#[autotune(dims({dims}))] fn f{function}"));
    let mut schedule = Schedule::new(&dag);
    let stage = StageId(0);
    let parts = schedule.split(stage, A[i], &[n]).unwrap();
    let others: Vec<_> = A[..2].iter().filter(|it| **it != A[i]).copied().collect();
    let order: Vec<_> = [parts[0]].into_iter().chain(others).chain([parts[1]]).collect();
    schedule.reorder(stage, &order).unwrap();
    schedule.annotate(stage, parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

/// The address and the stride of an unmasked strided load or store.
fn strided(stmt: &Stmt) -> Option<(&Address, LaneStride)> {
    match stmt {
        Stmt::Set { value: Value::Load { address, lanes, mask: None, .. }, .. }
        | Stmt::Store { address, lanes, mask: None, .. }
            if matches!(lanes, LaneStride::Strided(_)) =>
        {
            Some((address, *lanes))
        }
        _ => None,
    }
}

/// Counts runs of four strided accesses of consecutive words, in all blocks.
fn transpositions(stmts: &[Stmt]) -> usize {
    let mut n = 0;
    let mut rest = stmts;
    while let Some((stmt, after)) = rest.split_first() {
        rest = after;
        n += match stmt {
            Stmt::Loop { body, .. } => transpositions(body),
            Stmt::If { then, otherwise, .. } => transpositions(then) + transpositions(otherwise),
            _ => 0,
        };
        let mut four = std::iter::once(stmt).chain(after).take(4).map_while(strided);
        if let Some((first, lanes)) = four.next() {
            let is_next = |(n, it): (i64, (&Address, LaneStride))| {
                let constant = it.0.offset.constant == first.offset.constant + 4 * n;
                constant && it.0.base == first.base && it.1 == lanes
            };
            if (1..).zip(four).filter(|it| is_next(*it)).count() == 3 {
                n += 1;
                rest = &after[3..];
            }
        }
    }
    n
}

#[track_caller]
fn check(schedule: &Schedule, isa: Isa, expected: usize) {
    let kernel = kernel(schedule, isa);
    let found: usize = kernel.phases.iter().map(|it| transpositions(&it.body)).sum();
    assert_eq!(found, expected, "{kernel}");
}

#[test]
fn loads_of_consecutive_words_stand_side_by_side() {
    insta::assert_snapshot!(kernel(&in_lanes("I = 32, E = 8", COPY, 1, 32), Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    phase
      loop v5 in 0..2
        r0 = t0[16*v5].+32
        r1 = t0[16*v5 + 4].+32
        r2 = t0[16*v5 + 8].+32
        r3 = t0[16*v5 + 12].+32
        t1[512*v5].n = r0
        t1[512*v5 + 128].n = r1
        t1[512*v5 + 256].n = r2
        t1[512*v5 + 384].n = r3
        r4 = t0[16*v5 + 512].+32
        r5 = t0[16*v5 + 516].+32
        r6 = t0[16*v5 + 520].+32
        r7 = t0[16*v5 + 524].+32
        t1[512*v5 + 64].n = r4
        t1[512*v5 + 192].n = r5
        t1[512*v5 + 320].n = r6
        t1[512*v5 + 448].n = r7
    ");
}

#[test]
fn stores_of_consecutive_words_stand_side_by_side() {
    insta::assert_snapshot!(kernel(&in_lanes("I = 8, E = 8", RETURN, 0, 8), Isa::Avx2), @r"
    kernel f for avx2
    t0: tensor 0
    t1: tensor 1
    phase
      loop v5 in 0..2
        t1[16*v5].+32 = t0[128*v5].n
        t1[16*v5 + 4].+32 = t0[128*v5 + 32].n
        t1[16*v5 + 8].+32 = t0[128*v5 + 64].n
        t1[16*v5 + 12].+32 = t0[128*v5 + 96].n
    ");
}

#[test]
fn whole_vectors_of_a_length_known_at_launch_are_not_masked() {
    insta::assert_snapshot!(kernel(&in_lanes("I = 1..=64, E = 4", RETURN, 0, 32), Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    p2: ((d0)/(32))
    p3: 4*d0
    p4: 8*d0
    p5: 12*d0
    p6: ((d0 + 31)/(32)) - ((d0)/(32))
    p7: (min(((d0)%(32)), 16))
    p8: 16*d0 - 16*((d0)%(32))
    p9: 4*d0 - 4*((d0)%(32))
    p10: 8*d0 - 4*((d0)%(32))
    p11: 12*d0 - 4*((d0)%(32))
    p12: 16*d0 - 4*((d0)%(32))
    p13: (max(((d0)%(32)) - 16, 0))
    phase
      loop v5 in 0..p2
        t1[512*v5].+16 = t0[128*v5].n
        t1[512*v5 + 4].+16 = t0[p3 + 128*v5].n
        t1[512*v5 + 8].+16 = t0[p4 + 128*v5].n
        t1[512*v5 + 12].+16 = t0[p5 + 128*v5].n
        t1[512*v5 + 256].+16 = t0[128*v5 + 64].n
        t1[512*v5 + 260].+16 = t0[p3 + 128*v5 + 64].n
        t1[512*v5 + 264].+16 = t0[p4 + 128*v5 + 64].n
        t1[512*v5 + 268].+16 = t0[p5 + 128*v5 + 64].n
      loop v6 in 0..p6
        if 15 < p7
          t1[p8].+16 = t0[p9].n
          t1[p8 + 4].+16 = t0[p10].n
          t1[p8 + 8].+16 = t0[p11].n
          t1[p8 + 12].+16 = t0[p12].n
        else
          if 0 < p7
            t1[p8].+16{p7} = t0[p9].n{p7}
            t1[p8 + 4].+16{p7} = t0[p10].n{p7}
            t1[p8 + 8].+16{p7} = t0[p11].n{p7}
            t1[p8 + 12].+16{p7} = t0[p12].n{p7}
        if 0 < p13
          t1[p8 + 256].+16{p13} = t0[p9 + 64].n{p13}
          t1[p8 + 260].+16{p13} = t0[p10 + 64].n{p13}
          t1[p8 + 264].+16{p13} = t0[p11 + 64].n{p13}
          t1[p8 + 268].+16{p13} = t0[p12 + 64].n{p13}
    ");
}

#[test]
fn four_words_make_a_transposition() {
    for isa in [Isa::Avx512, Isa::Avx2] {
        let vectors = 32 / isa.lanes() as usize;
        for function in [COPY, RETURN] {
            let i = if function == COPY { 1 } else { 0 };
            for (n_words, expected) in [(1, 0), (3, 0), (4, vectors), (6, 0), (7, 0), (12, vectors)]
            {
                check(&in_lanes(&format!("I = 32, E = {n_words}"), function, i, 32), isa, expected);
            }
            // In each of the two, those for whole vectors of the edge too.
            check(&in_lanes("I = 1..=64, E = 4", function, i, 32), isa, 2 * vectors - 1);
            check(&in_lanes("I = 32, E = 1..=64", function, i, 32), isa, 0);
        }
    }
}

#[test]
fn loads_of_every_other_word_are_left_as_they_are() {
    let pairs = "(x: Tensor<f32, N>) -> Tensor<f32, E, I> { compute(|e, i| x[[2 * i + e]]) }";
    check(&in_lanes("I = 32, E = 4, N = 66", pairs, 1, 32), Isa::Avx512, 0);
}

#[test]
fn smaller_elements_are_left_as_they_are() {
    let bytes = "(x: Tensor<i8, I, E>) -> Tensor<i8, E, I> { compute(|e, i| x[[i, e]]) }";
    check(&in_lanes("I = 32, E = 8", bytes, 1, 32), Isa::Avx512, 0);
}

#[test]
fn unrolled_loops_are_transposed_too() {
    let mut schedule = in_lanes("I = 32, E = 8", COPY, 1, 32);
    schedule.annotate(StageId(0), A[0], LoopKind::Unrolled).unwrap();
    check(&schedule, Isa::Avx512, 4);
}

#[test]
fn transpositions_stand_together_where_a_cache_would_not_keep_the_rows() {
    for (extent, n) in [(256, 16), (260, 4)] {
        let mut schedule = in_lanes(&format!("I = 16, E = {extent}"), COPY, 1, 16);
        let parts = schedule.split(StageId(0), A[0], &[16]).unwrap();
        let mut order = schedule.stage(StageId(0)).order.clone();
        order.retain(|it| *it != parts[1]);
        order.insert(order.len() - 1, parts[1]);
        schedule.reorder(StageId(0), &order).unwrap();
        schedule.annotate(StageId(0), parts[1], LoopKind::Unrolled).unwrap();
        let kernel = kernel(&schedule, Isa::Avx512);
        let text = kernel.to_string();
        let loads = text.lines().skip_while(|it| !it.contains(".+"));
        assert_eq!(loads.take_while(|it| it.contains(".+")).count(), n, "{text}");
    }
}

#[test]
fn a_result_in_place_of_what_is_read_is_left_as_it_is() {
    let double = "(y: InOut<f32, I, E>) { y = compute(|i, e| y[[i, e]] + y[[i, e]]); }";
    let mut schedule = in_lanes("I = 32, E = 8", double, 0, 32);
    check(&schedule, Isa::Avx512, 0);
    schedule.annotate(StageId(0), A[1], LoopKind::Unrolled).unwrap();
    check(&schedule, Isa::Avx512, 0);
}

#[test]
fn sums_of_rows_in_lanes_keep_their_order() {
    let rows = "(x: Tensor<f32, I, K>) -> Tensor<f32, I> { compute(|i| sum(0..K, |k| x[[i, k]])) }";
    let dag = program(&format!("#[autotune(dims(I = 16, K = 8))] fn f{rows}"));
    let mut schedule = Schedule::new(&dag);
    schedule.reorder(StageId(0), &[A[1], A[0]]).unwrap();
    schedule.annotate(StageId(0), A[0], LoopKind::Vectorized).unwrap();
    insta::assert_snapshot!(kernel(&schedule, Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    phase
      r0 = 0
      loop v7 in 0..2
        r1 = t0[16*v7].+32
        r2 = t0[16*v7 + 4].+32
        r3 = t0[16*v7 + 8].+32
        r4 = t0[16*v7 + 12].+32
        r0 = AddF(r1, r0)
        r0 = AddF(r2, r0)
        r0 = AddF(r3, r0)
        r0 = AddF(r4, r0)
      t1[0].n = r0
    ");
}

#[test]
fn loops_whose_guards_or_order_would_change_are_left_as_they_are() {
    // Words beyond the last are guarded off.
    let first = "(x: Tensor<f32, I, 64>, y: Tensor<f32, E>) -> Tensor<f32, E, I> {
        compute(|e, i| x[[i, e]] * y[[e]]) }";
    let dag = program(&format!("#[autotune(dims(I = 16, E = 1..=64))] fn f{first}"));
    let mut schedule = Schedule::new(&dag);
    schedule.split(StageId(0), A[0], &[8]).unwrap();
    schedule.annotate(StageId(0), A[1], LoopKind::Vectorized).unwrap();
    let parts = [AxisId(2), AxisId(3), A[1]];
    schedule.reorder(StageId(0), &parts).unwrap();
    check(&schedule, Isa::Avx512, 0);
    // Elements are summed word by word, and of each word row by row.
    let sums = "(x: Tensor<f32, I, R, K>) -> Tensor<f32, I> {
        compute(|i| sum((0..R, 0..K), |r, k| x[[i, r, k]])) }";
    let dag = program(&format!("#[autotune(dims(I = 16, R = 3, K = 8))] fn f{sums}"));
    for (order, expected) in [([A[2], A[1], A[0]], 0), ([A[1], A[2], A[0]], 1)] {
        let mut schedule = Schedule::new(&dag);
        schedule.reorder(StageId(0), &order).unwrap();
        schedule.annotate(StageId(0), A[0], LoopKind::Vectorized).unwrap();
        check(&schedule, Isa::Avx512, expected);
    }
}

/// Emits stores of strided words: each of the root of a word that is loaded, or of the constant 0. The
/// roots are used again behind. Returns the number of transpositions.
fn emitted(from: Base, to: Base, words: &[(Option<i64>, i64)], n_registers: u32) -> usize {
    let simd = Simd { isa: Isa::Avx2, width: Width::Bits32 };
    let (mut graph, mut interned) = (ValueGraph::new(simd), Interned::default());
    let (lanes, storage, mask) =
        (LaneStride::Strided(Count::Const(64)), Storage::Word, MaskRef::All);
    let (mut pending, mut again) = (Vec::new(), Vec::new());
    for (n, (load, store)) in (0..).zip(words) {
        let mut address = |base, word: i64| {
            interned.addresses.id(Address { base, offset: Linear::constant(4 * word) })
        };
        let value = match load {
            Some(word) => {
                // Writes to another tensor of the base do not count.
                let place = MemRef { address: address(from, *word), storage, mask, epoch: 0 };
                let load = graph.node(Op::Load(place, lanes));
                graph.unary(VectorUnary::SqrtF, load)
            }
            None => graph.splat(0),
        };
        let target = address(to, *store);
        pending.push(PendingStmt::Store { address: target, lanes, storage, value, mask });
        let (address, lanes) = (address(Z, 8 * i64::from(n)), LaneStride::Contiguous);
        again.push(PendingStmt::Store { address, lanes, storage, value, mask });
    }
    pending.extend(again);
    let (mut n_regs, mut body) = (0, Vec::new());
    let mut new_reg = || {
        n_regs += 1;
        Reg(n_regs - 1)
    };
    let budget = Budget { registers: n_registers, live_through: 0, live_within: &[] };
    cse::emit(&graph, &pending, &interned, budget, &mut new_reg, &mut body);
    transpositions(&body)
}

const X: Base = Base::Table(EntryId(0));
const Y: Base = Base::Table(EntryId(1));
const Z: Base = Base::Table(EntryId(2));

#[test]
fn loads_do_not_pass_stores_that_may_change_them() {
    let words: Vec<_> = (0..4).map(|n| (Some(n), 100 - 2 * n)).collect();
    assert_eq!(emitted(X, Y, &words, 15), 1);
    assert_eq!(emitted(X, X, &words, 15), 0);
    assert_eq!(emitted(Base::Scratch, Base::Scratch, &words, 15), 0);
}

#[test]
fn values_do_not_pass_stores_that_may_change_them() {
    let words: Vec<_> = (0..4).map(|n| (Some(100 - 2 * n), n)).collect();
    assert_eq!(emitted(X, Y, &words, 15), 1);
    assert_eq!(emitted(X, X, &words, 15), 0);
    let words: Vec<_> = (0..4).map(|n| ((n == 0).then_some(100), n)).collect();
    assert_eq!(emitted(X, X, &words, 15), 1, "the first value is computed first anyway");
}

#[test]
fn loads_stay_apart_where_registers_are_short() {
    let words: Vec<_> = (0..4).map(|n| (Some(n), 100 - 2 * n)).collect();
    assert_eq!(emitted(X, Y, &words, 4), 0);
}

#[test]
fn words_in_another_order_are_found_as_loads_only() {
    let words: Vec<_> = [2, 0, 3, 1].into_iter().map(|n| (Some(n), n)).collect();
    assert_eq!(emitted(X, Y, &words, 15), 1);
}

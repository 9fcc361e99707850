//! Windows that overlap: each of their vectors is loaded once, and each sum keeps the order of its terms.

use super::text::{A, kernel, program};
use super::words::check_scheduled;
use crate::vector::cse::PendingStmt;
use crate::vector::numbering::{Interned, MaskRef, MemRef, Op, ValueGraph};
use crate::vector::{Address, Base, EntryId, LaneStride, Linear, Reg, Simd, Storage, windows};
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;
use tvmtune_schedule::{AxisId, LoopKind, Schedule, StageId};

const ISA: Isa = Isa::Avx512;

/// Six rows of two vectors as one tile, with windows of three by three; their rows are unrolled, or not.
fn tiled(dag: &Dag, rows: LoopKind) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let stage = StageId(0);
    let i = schedule.split(stage, A[0], &[6]).unwrap();
    let j = schedule.split(stage, A[1], &[32]).unwrap();
    let s = AxisId(3);
    schedule.reorder(stage, &[i[0], j[0], A[2], s, i[1], j[1]]).unwrap();
    for (axis, kind) in [
        (A[2], rows),
        (s, LoopKind::Unrolled),
        (i[1], LoopKind::Unrolled),
        (j[1], LoopKind::Vectorized),
    ] {
        schedule.annotate(stage, axis, kind).unwrap();
    }
    schedule
}

/// Sums over windows of `x`, the rows of which are read at that index.
fn windows_at(row: &str, reduction: &str, term: &str) -> String {
    let term = term.replace("x[]", &format!("x[[{row}, j + s]]"));
    format!(
        "#[autotune]
         fn f(x: Tensor<f32, 14, 66>, w: Weight<f32, 3, 3>) -> Tensor<f32, 6, 64> {{
             compute(|i, j| {reduction}((0..3, 0..3), |r, s| {term}))
         }}"
    )
}

fn n_loads(dag: &Dag, rows: LoopKind) -> usize {
    let text = kernel(&tiled(dag, rows), ISA).to_string();
    text.matches("t0[").count()
}

#[test]
fn each_vector_of_overlapping_windows_is_loaded_once() {
    for (row, n_rows) in [("i + r", 8), ("i + 2 - r", 8), ("2 * i + r", 13), ("i + 2 * r", 10)] {
        for (reduction, term) in [("sum", "x[] * w[[r, s]]"), ("max", "x[]"), ("sum", "x[]")] {
            let dag = program(&windows_at(row, reduction, term));
            // For each vector of a row, three columns of windows.
            assert_eq!(n_loads(&dag, LoopKind::Unrolled), n_rows * 3 * 2, "{row} {term}");
        }
    }
}

#[test]
fn sums_over_windows_are_those_of_a_loop_over_their_rows() {
    let bits = |array: &Array| array.bytes();
    for row in ["i + r", "i + 2 - r", "2 * i + r", "i + 2 * r", "i + 4"] {
        let text = windows_at(row, "sum", "x[] * w[[r, s]]");
        let numbers = |shape: &[u64]| Array::whole_numbers(DType::F32, shape, 3);
        check_scheduled(&text, &[numbers(&[14, 66]), numbers(&[3, 3])], &|dag, _| {
            tiled(dag, LoopKind::Unrolled)
        });
        // Numbers whose sums round tell the order of the terms.
        let dag = program(&text);
        let arrays =
            [Array::random(DType::F32, &[14, 66], 1), Array::random(DType::F32, &[3, 3], 2)];
        let like = [Array::zeros(DType::F32, &[6, 64])];
        let [once, again] = [LoopKind::Unrolled, LoopKind::Serial].map(|rows| {
            let kernel = kernel(&tiled(&dag, rows), ISA);
            crate::interp::run(&kernel, &[], &arrays, &[], &like).unwrap().remove(0)
        });
        assert!(bits(&once) == bits(&again), "{row}");
    }
}

/// The order in which `reorder` puts terms, each a register and the row of its vector; with one register.
fn reordered(terms: &[(u32, i64)]) -> Vec<(u32, i64)> {
    let own: Vec<_> = terms.iter().map(|(reg, row)| (*reg, *row, *reg)).collect();
    reordered_from(&own)
}

/// The same for terms that add to what a third register has.
fn reordered_from(terms: &[(u32, i64, u32)]) -> Vec<(u32, i64)> {
    let simd = Simd { isa: ISA, width: Width::Bits32 };
    let (mut graph, mut interned) = (ValueGraph::new(simd), Interned::default());
    let mut written = [0; 4];
    let mut pending = Vec::new();
    let mut rows = Vec::new();
    for (reg, row, from) in terms {
        let base = Base::Table(EntryId(0));
        let address = interned.addresses.id(Address { base, offset: Linear::constant(64 * row) });
        let place = MemRef { address, storage: Storage::Word, mask: MaskRef::All, epoch: 0 };
        let load = graph.node(Op::Load(place, LaneStride::Contiguous));
        let sum = graph.node(Op::Reg(Reg(*from), written[*from as usize]));
        written[*reg as usize] += 1;
        let weight = graph.float(1.5);
        let value = graph.fma(load, weight, sum);
        rows.push((value, *row));
        pending.push(PendingStmt::Set { reg: Reg(*reg), value, mask: MaskRef::All });
    }
    windows::reorder(&graph, &interned, 1, &mut pending);
    let row_of = |value| rows.iter().find(|it| it.0 == value).unwrap().1;
    let term = |it: &PendingStmt| match it {
        PendingStmt::Set { reg, value, .. } => (reg.0, row_of(*value)),
        other => panic!("{other:?}"),
    };
    pending.iter().map(term).collect()
}

#[test]
fn terms_of_a_vector_stand_side_by_side_where_each_sum_keeps_its_order() {
    let windows = [(0, 0), (1, 1), (2, 2), (0, 1), (1, 2), (2, 3)];
    assert_eq!(reordered(&windows), [(0, 0), (1, 1), (0, 1), (2, 2), (1, 2), (2, 3)]);
    // The first sum takes the rows in one order, the second one in the other.
    let crossed = [(0, 0), (1, 1), (2, 0), (0, 1), (1, 0), (2, 1)];
    assert_eq!(reordered(&crossed), crossed);
    // Nothing is used again, or at once.
    let distinct = [(0, 3), (1, 1), (2, 2)];
    assert_eq!(reordered(&distinct), distinct);
    let adjacent = [(0, 3), (1, 3), (0, 1), (1, 1)];
    assert_eq!(reordered(&adjacent), adjacent);
    // The third one starts from what the first one has by then.
    let chained = [(0, 5, 0), (1, 1, 1), (2, 9, 0), (0, 1, 0), (1, 9, 1)];
    assert_eq!(reordered_from(&chained), chained.map(|(reg, row, _)| (reg, row)));
}

#[test]
fn accumulators_of_unrolled_windows_stay_in_registers() {
    let dag = program(
        "#[autotune]
         fn f(x: Tensor<f32, 12, 10>, w: Weight<f32, 3, 3>) -> Tensor<f32, 10, 8> {
             compute(|i, j| sum((0..3, 0..3), |r, s| x[[i + r, j + s]] * w[[r, s]]))
         }",
    );
    for rows in 1..=8 {
        let trace = [
            "cache_write s0",
            &format!("split s0 a0 [{rows}]"),
            "compute_at s1 s0 a2",
            "annotate s0 a3 unrolled",
            "annotate s0 a1 vectorized",
            "reorder s1 [a2, a3, a0, a1]",
            "annotate s1 a2 unrolled",
            "annotate s1 a3 unrolled",
            "annotate s1 a0 unrolled",
            "annotate s1 a1 vectorized",
        ]
        .map(|it| it.parse().unwrap());
        let schedule = Schedule::replay(&dag, &trace).unwrap();
        for isa in [Isa::Avx2, Isa::Avx512] {
            let text = kernel(&schedule, isa).to_string();
            assert!(!text.contains("scratch"), "{rows} rows, {isa:?}: {text}");
        }
    }
}

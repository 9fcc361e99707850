//! Values that loops leave as they are, loops that begin and end in other iterations, and sums of products that
//! count under a condition.

use super::text::{A, kernel, program};
use super::words::check_scheduled;
use crate::vector::{
    Address, Base, Count, EntryId, LaneStride, Linear, Phase, Simd, Stmt, Storage, Value,
    VectorBinary, hoist,
};
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::interp::Array;
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;
use tvmtune_schedule::{LoopKind, Schedule, StageId};

/// A schedule with vectors of 16 elements along the second axis.
fn in_vectors(dag: &Dag) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let parts = schedule.split(StageId(0), A[1], &[16]).unwrap();
    schedule.annotate(StageId(0), parts[1], LoopKind::Vectorized).unwrap();
    schedule
}

const ROWS: &str = "#[autotune]
    fn f(ids: Tensor<i32, 5>, t: Tensor<f32, 50, 64>) -> Tensor<f32, 5, 64> {
        compute(|b, d| t.get([ids[[b]], d]).unwrap_or(0.0))
    }";

#[test]
fn conditions_and_offsets_of_rows_are_computed_before_their_loops() {
    insta::assert_snapshot!(kernel(&in_vectors(&program(ROWS)), Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    t2: tensor 2
    phase
      loop v3 in 0..5
        r0 = t0[4*v3].1
        r1 = And(Xor(LtI(r0, 0), 0xffffffff), LtI(r0, 50))
        r2 = select(r1, MulI(r0, 64), 0)
        loop v4 in 0..4
          t2[256*v3 + 64*v4].n = t1[64*v4].n[r2]{r1}
    ");
}

#[test]
fn padding_is_stored_before_and_after_the_loop_over_elements() {
    let dag = program(
        "#[autotune]
        fn f(x: Tensor<f32, 18, 16>) -> Tensor<f32, 21, 16> {
            compute(|i, j| x.get([i - 1, j]).unwrap_or(0.0))
        }",
    );
    insta::assert_snapshot!(kernel(&in_vectors(&dag), Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    phase
      t1[0].n = 0
      loop v2 in 0..18
        t1[64*v2 + 64].n = t0[64*v2].n
      loop v3 in 0..2
        t1[64*v3 + 1216].n = 0
    ");
}

#[test]
fn padding_of_tiles_is_computed_before_and_after_the_loop_over_tiles() {
    let dag = program(
        "#[autotune]
        fn f(x: Tensor<f32, 10, 16>) -> Tensor<f32, 12, 16> {
            compute(|i, j| x.get([i - 1, j]).unwrap_or(0.0))
        }",
    );
    let mut schedule = in_vectors(&dag);
    let rows = schedule.split(StageId(0), A[0], &[3]).unwrap();
    schedule.annotate(StageId(0), rows[1], LoopKind::Unrolled).unwrap();
    insta::assert_snapshot!(kernel(&schedule, Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    phase
      t1[0].n = 0
      t1[64].n = t0[0].n
      t1[128].n = t0[64].n
      loop v3 in 0..2
        t1[192*v3 + 192].n = t0[192*v3 + 128].n
        t1[192*v3 + 256].n = t0[192*v3 + 192].n
        t1[192*v3 + 320].n = t0[192*v3 + 256].n
      t1[576].n = t0[512].n
      t1[640].n = t0[576].n
      t1[704].n = 0
    ");
}

/// Terms that count in some lanes; the last vector has none that does not.
const MASKED: &str = "#[autotune]
    fn f(x: Tensor<f32, 40>, w: Tensor<f32, 2, 3>) -> Tensor<f32, 2, 32> {
        compute(|i, j| sum(0..3, |k| if j + k >= 2 { x[[j + k - 2]] * w[[i, k]] } else { 0.0 }))
    }";

fn summed_in_registers(dag: &Dag) -> Schedule {
    let mut schedule = Schedule::new(dag);
    let stage = StageId(0);
    let parts = schedule.split(stage, A[1], &[16]).unwrap();
    schedule.reorder(stage, &[A[0], parts[0], A[2], parts[1]]).unwrap();
    schedule.annotate(stage, parts[1], LoopKind::Vectorized).unwrap();
    schedule.annotate(stage, A[2], LoopKind::Unrolled).unwrap();
    schedule
}

#[test]
fn products_that_count_in_some_lanes_are_contracted() {
    insta::assert_snapshot!(kernel(&summed_in_registers(&program(MASKED)), Isa::Avx512), @r"
    kernel f for avx512
    t0: tensor 0
    t1: tensor 1
    t2: tensor 2
    phase
      loop v7 in 0..2
        r0 = 0
        r2 = t1[12*v7].1
        r0 = select(lanes 0b1111111111111100, fma(t0[-8].n{lanes 0b1111111111111100}, r2, r0), r0)
        r3 = t1[12*v7 + 4].1
        r0 = select(lanes 0b1111111111111110, fma(t0[-4].n{lanes 0b1111111111111110}, r3, r0), r0)
        r4 = t1[12*v7 + 8].1
        r0 = fma(t0[0].n, r4, r0)
        t2[128*v7].n = r0
        r1 = 0
        r1 = fma(t0[56].n, r2, r1)
        r1 = fma(t0[60].n, r3, r1)
        r1 = fma(t0[64].n, r4, r1)
        t2[128*v7 + 64].n = r1
    ");
}

#[test]
fn moved_values_are_those_of_the_program() {
    let numbers = |shape: &[u64]| Array::whole_numbers(DType::F32, shape, 3);
    let ids =
        Array::from_fn(DType::I32, &[5], |n| tvmtune_ir::dag::Number::Int([3, -1, 49, 50, 0][n]));
    check_scheduled(ROWS, &[ids, numbers(&[50, 64])], &|dag, _| in_vectors(dag));
    check_scheduled(MASKED, &[numbers(&[40]), numbers(&[2, 3])], &|dag, _| {
        summed_in_registers(dag)
    });
}

#[test]
fn loads_of_what_a_phase_stores_stay_where_they_are() {
    let element = |entry| Address { base: Base::Table(EntryId(entry)), offset: Linear::default() };
    let load = |entry| Value::Load {
        address: element(entry),
        lanes: LaneStride::Uniform,
        storage: Storage::Word,
        mask: None,
    };
    let phase = |count, from| {
        let twice = Value::Binary(VectorBinary::AddF, Box::new(load(from)), Box::new(load(from)));
        let store = Stmt::Store {
            address: element(0),
            lanes: LaneStride::Uniform,
            storage: Storage::Word,
            value: twice,
            mask: None,
        };
        let body = vec![Stmt::Loop { var: VarId(0), count, body: vec![store] }];
        let mut phase = Phase { tasks: Vec::new(), body };
        let simd = Simd { isa: Isa::Avx2, width: Width::Bits32 };
        hoist::hoist(&mut phase, simd, &mut 0);
        phase.body.len()
    };
    let [ever, perhaps] = [Count::Const(3), Count::Param(EntryId(2))];
    // The sum of two loads goes before the loop, unless it is stored to, or may not run.
    assert_eq!([phase(ever, 1), phase(ever, 0), phase(perhaps, 1)], [2, 1, 1]);
}

//! Programs that the campaign found code to be wrong for, at the extents where it was.

use tvmtune_campaign::case::Case;
use tvmtune_campaign::execute::{Comparison, ISAS, check};
use tvmtune_campaign::launch::{Launch, Numbers};
use tvmtune_campaign::program;
use tvmtune_campaign::section::Problem;
use tvmtune_ir::dag::{DType, Dag};
use tvmtune_ir::target::gpu::{Arch, GpuTarget};
use tvmtune_ir::target::{CpuTarget, Target};
use tvmtune_schedule::{Instruction, Schedule};
use tvmtune_space::default;

/// Programs, with the extents of a launch, in the order in which parameters have them.
const FOUND: &[(&str, &[i64])] = &[
    // The remainder of the index was that of the row in its edge tile, which may start anywhere.
    (
        "#[autotune(dims(M = 1..=17))]
         fn rows_by_their_remainder(x: Tensor<i32, M, M, 4>) -> Tensor<f32, M, M, 4> {
             compute(|i, j, k| x[[j, j, j % 4]] as f32)
         }",
        &[7],
    ),
    // With the lanes of no row, an element behind the end was read: `j < i` holds, `i < M` does not.
    (
        "#[autotune(dims(M = 1..=33))]
         fn elements_behind_the_last(x: Tensor<f32, M>) -> Tensor<f32, M> {
             compute(|i| min(0..i, |j| x[[j + 1]]))
         }",
        &[32],
    ),
    // So was it where the lanes end at a constant: `i < j` holds of lanes that are no columns.
    (
        "#[autotune(dims(N = 9..=17))]
         fn lanes_behind_the_last_column(x: Tensor<f32, N>) -> Tensor<f32, N, 4> {
             compute(|i, j| if i < j { x.get([i + 1]).unwrap_or(0.0) } else { 0.0 })
         }",
        &[9],
    ),
    // Tasks at the edge of one dimension ran all of a task's tiles along the others.
    (
        "#[autotune(dims(N = 1..=2147483647, K = 1..=33))]
         fn edges_of_edges(x: Tensor<u32, K, N>) -> Tensor<bool, N, K> {
             compute(|i, j| all(0..=j, |k| (x[[k, i]] as i32) != (x[[j, i]] as i32)))
         }",
        &[10, 39],
    ),
    // Blocks of a reduction had accumulators for millions of columns, and their cost overflowed.
    (
        "#[autotune(dims(M = 25, K = 5..=40, T = 1..=2147483646))]
         fn blocks_of_a_long_reduction(x: Tensor<f32, K, T, M>) -> Tensor<i32, T, M> {
             compute(|i, j| min((0..K, 0..T), |k, l| (k as i32) + (x[[k, i, j]] as i32)))
         }",
        &[5, 1],
    ),
    // Conditions were scaled to one another beyond 64 bits.
    (
        "#[autotune(dims(M = 1..=2147483646, T = 1..=31))]
         fn windows_of_long_rows(n: Tensor<i32, M>, x: Tensor<f32, T, { M * 3 }>) -> Tensor<f32, T, { M * 3 }> {
             compute(|i, j| sum(0..2, |k| x.get([i, 2 * j + k - 1]).unwrap_or(0.0)))
         }",
        &[3, 2],
    ),
    // The rows of shared memory were padded for extents that no launch has.
    (
        "#[autotune(dims(N = 8..=24, K = 18))]
         fn padding_of_shared_rows(x: Tensor<u8, K, N, N>) -> Tensor<i32, K, N, N> {
             let a: Tensor<u32, K, N, N> =
                 compute(|i, j, k| x.get([i, j / 2, k * 2 - 3]).unwrap_or(0) as u32);
             let b: Tensor<f32, K, N, N> = compute(|i, j, k| max(0..k, |l|
                 (x[[i, j, l]] as f32) - (a[[i, 0, l]] as f32).clamp(-8.0, 8.0)));
             compute(|i, j, k| max((0..N, 0..N), |l, m| min(m as i32, b[[i, k, l]] as i32)))
         }",
        &[8],
    ),
    // The condition on the second row was hoisted with it, into elements that a launch of one row does not have.
    (
        "#[autotune(dims(M = 1..=16))]
         fn a_row_that_may_not_be_there(x: Tensor<f16, M, 8, 10>) -> Tensor<f32, 8> {
             compute(|i| sum(0..10, |k| x.get([1, max(i, 1), i]).unwrap_or(0.0) * 1.0))
         }",
        &[1],
    ),
    // The branch implied half of the check of a first state, which is computed where it is not taken as well.
    (
        "#[autotune(dims(M = 1..=33, N = 10))]
         fn a_first_state_in_a_branch(x: Tensor<f16, M, M, N>, rows: Weight<i32, N>) -> Tensor<f32, N> {
             compute(|i| if 2 >= rows[[i]] { 0.0 } else {
                 scan(0..=i, x.get([rows[[i]], 1, i]).unwrap_or(0.0), |h, k| max(h, x[[0, 0, k]]))
             })
         }",
        &[3],
    ),
    // The result has several axes in the normal form of the program, in which its nest is interpreted.
    (
        "#[autotune(dims(M = 24))]
         fn an_index_divided_and_whole(x: Tensor<f32, M, 3>, y: Tensor<f32, 4, M, M>, z: Tensor<f32, M>) -> Tensor<f32, M> {
             let t: Tensor<f32, M> = compute(|i| {
                 sum(0..i, |k| x[[k, 0]] * y[[i % 4, i / 2, i]]) + z.get([max(i, 1) - 1 + 1]).unwrap_or(0.0)
             });
             t
         }",
        &[],
    ),
    // The quotient was defined before the tasks up to the last row of weights, with the range that it has there.
    (
        "#[autotune(dims(N = 1..=3))]
         fn quotients_of_tasks(x: Tensor<i32, 2>, y: Tensor<i32, N>, w: Tensor<i32, 21, 13>) -> Tensor<i32, 21> {
             compute(|i| {
                 min((0..9, 0..3, 0..N), |j, l, k| min(1, x.get([i / 2 - 10]).unwrap_or(0))) + w[[i, i % 13]]
             })
         }",
        &[1],
    ),
    // Registers that live in a part of a block were looked for in the branch of its rare values.
    (
        "#[autotune(dims(M = 17))]
         fn rare_values_of_sums(x: Tensor<f32, M, M>) -> Tensor<f32, M> {
             compute(|i| if cos(sum(0..M, |k| x[[k, i]])) > 2.0 { 1.0 } else { 0.0 })
         }",
        &[],
    ),
    // The default schedule took minutes: the search for tiles visited each path through the readers of a stage,
    // and each of the largest elements is read by all after it.
    (
        "#[autotune(dims(M = 9))]
         fn largest_in_turn(x: Tensor<f32, M, 8>) -> Tensor<i64, M, 8> {
             compute(|i, j| argtop(j, 0..8, |k| x[[i, k]]))
         }",
        &[],
    ),
    // The bytes of an operand did not fit into 64 bits.
    (
        "#[autotune(dims(M = 1..=33, N = 1..=2147483647))]
         fn sums_under_a_condition(x: Tensor<i32, N>, y: Tensor<f32, M, N>) -> Tensor<f32, M, N> {
             compute(|i, j| sum(0..N, |k| if x[[j]] < y[[i, k]] as i32 { x[[j]] as f32 } else { 0.0 }))
         }",
        &[31, 1],
    ),
];

/// Checks a schedule at one launch, whose results are exact.
fn check_exactly(dag: &Dag, schedule: &Schedule, dims: &[i64]) -> Result<(), Problem> {
    let mut case = Case::new("regressions", 1, 0, None);
    let launch = Launch::new(dag, dims, Numbers::Whole, &mut case.random);
    let nest = dag.dims.iter().all(|it| it.range.hi < 1000);
    let exact = Comparison { tolerance: Some(&|_: DType| 0.0), nest };
    check(&mut case, schedule, &[launch], exact)
}

/// Checks the schedule of a trace for a program of fixed extents.
#[track_caller]
fn check_trace(text: &str, trace: &[&str]) {
    let dag = program::read(text).expect("a program").remove(0);
    let trace: Result<Vec<Instruction>, _> = trace.iter().map(|it| it.parse()).collect();
    let schedule = Schedule::replay(&dag, &trace.expect("primitives")).expect("legal ones");
    let checked = check_exactly(&dag, &schedule, &[]);
    assert!(checked.is_ok(), "{checked:?}");
}

#[test]
fn programs_that_were_wrong_are_right() {
    let mut wrong = Vec::new();
    for (text, dims) in FOUND {
        let dag = program::read(text).unwrap().remove(0);
        for isa in ISAS {
            for threads in [1, 8, 64] {
                let target = CpuTarget { threads, ..CpuTarget::generic(isa) };
                let schedule = default::schedule(&dag, &Target::Cpu(target));
                if let Err(problem) = check_exactly(&dag, &schedule, dims) {
                    let first = problem.message.lines().take(2).collect::<Vec<_>>().join(" ");
                    wrong.push(format!("{} for {threads} threads: {first}", dag.name));
                }
            }
        }
        for sm in [80, 90] {
            let target = GpuTarget::generic(Arch { sm, exact: false });
            let _ = tvmtune_cuda::generate(&default::schedule(&dag, &Target::Gpu(target)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn lanes_behind_the_end_of_a_split_are_not_part_of_a_reduction() {
    let text = "#[autotune()] fn f(x: Tensor<i32, 19, 3>) -> Tensor<i32> {
        compute(|| prod((0..19, 0..3), |k, l| x[[k, l]] - 1))
    }";
    check_trace(
        text,
        &["split s0 a0 [16]", "reorder s0 [a2, a1, a3]", "annotate s0 a3 vectorized"],
    );
}

#[test]
fn a_stage_inside_covers_what_another_stage_inside_reads() {
    let text = "#[autotune()] fn f(x: Tensor<i32, 3, 8>) -> Tensor<i32, 3, 8> {
        let s: Tensor<i32, 3> = compute(|j| sum(0..8, |k| x[[j, k]]));
        let c: Tensor<i32, 3, 8> = compute(|j, k| x[[j, k]] - s[[j]]);
        let v: Tensor<i32, 3> = compute(|j| sum(0..8, |k| c[[j, k]] * c[[j, k]]));
        compute(|j, k| c[[j, k]] + v[[j]])
    }";
    // Two places in one fused loop: the row is known at the outer one and not at the inner one.
    check_trace(
        text,
        &["fuse s3 a0 a1", "split s3 a2 [4, 2]", "compute_at s2 s3 a4", "compute_at s1 s3 a3"],
    );
}

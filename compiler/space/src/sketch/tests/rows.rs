//! Stages that run row by row on CPUs.

use super::programs::{Oracle, any_point, random};
use crate::default;
use crate::sketch::sketches;
use tvmtune_cpu::vector::Width;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_schedule::{Schedule, nest};

/// Attention of one query for each head to the keys of a cache that has room for more; `shared` heads have the
/// same keys.
fn decode([groups, shared]: [u64; 2], least: u64, size: u64) -> Dag {
    let source = format!(
        "#[autotune(dims(G = {groups}, D = {size}, T = {least}..=2048, CAP = T..=2304))]
         fn f(
             q: Tensor<f32, {{ G * {shared} }}, D>, k: Tensor<f32, G, CAP, D>, v: Tensor<f32, G, CAP, D>,
         ) -> Tensor<f32, {{ G * {shared} }}, D> {{
             let s: Tensor<f32, {{ G * {shared} }}, T> = compute(|h, t| {{
                 if t + 8 * h + 8 >= T {{ sum(0..D, |d| q[[h, d]] * k[[h / {shared}, t, d]]) }} else {{ f32::NEG_INFINITY }}
             }});
             let m = compute(|h| max(0..T, |t| s[[h, t]]));
             let e = compute(|h, t| exp(s[[h, t]] - m[[h]]));
             let n = compute(|h| sum(0..T, |t| e[[h, t]]));
             compute(|h, d| sum(0..T, |t| e[[h, t]] * v[[h / {shared}, t, d]]) / n[[h]])
         }}"
    );
    dsl::program(&source).unwrap()
}

#[test]
fn sums_of_columns_inside_of_rows_are_vectors_of_columns() {
    let cpu = CpuTarget { threads: 2, l2_bytes: 512 << 10, ..CpuTarget::generic(Isa::Avx2) };
    let schedule = default::schedule(&decode([32, 1], 257, 128), &cpu.into());
    let text = nest::lower(&schedule).to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|it| it.starts_with("out_sum[") && it.contains("+=")).unwrap();
    assert_eq!(lines[at - 2..at], ["for t in 0..T", "vectorized d_1 in 0..64"], "{text}");
}

#[test]
fn elements_that_data_chooses_are_read_along_rows_where_these_are_runs_of_memory() {
    let pages = "#[autotune]
        fn f(q: Tensor<f32, 8, 64>, pages: Tensor<f32, 256, 16, 8, 64>, table: Tensor<i64, 64>) -> Tensor<f32, 8, 1024> {
            compute(|h, t| sum(0..64, |d| q[[h, d]] * pages.get([table[[t / 16]], t % 16, h, d]).unwrap_or(0.0)))
        }";
    let dag = dsl::program(pages).unwrap();
    for isa in [Isa::Avx2, Isa::Avx512] {
        assert_eq!(sketches(&dag, &Target::generic(isa)).remove(0).name, "out: rows");
    }
}

/// A stored `i64` index would make all lanes of the kernel 64 bits wide.
#[test]
fn an_index_of_a_maximum_is_widened_where_it_is_read() {
    let gate = "#[autotune(dims(B = 5, E = 4, N = 11, D = 19))]
        fn f(l: Tensor<f32, B, E>, x: Tensor<f32, B, D>, w: Tensor<f32, E, N, D>) -> Tensor<f32, B, N> {
            let best = compute(|b| argmax(0..E, |e| l[[b, e]]));
            let p = compute(|b| exp(l[[b, 0]] - max(0..E, |e| l[[b, e]])));
            compute(|b, n| p[[b]] * sum(0..D, |d| x[[b, d]] * w.get([best[[b]], n, d]).unwrap_or(0.0)))
        }";
    let oracle = Oracle::new(dsl::program(gate).unwrap(), Vec::new());
    for isa in [Isa::Avx2, Isa::Avx512] {
        let schedule = default::schedule(&oracle.dag, &Target::generic(isa));
        let code = tvmtune_cpu::generate(&schedule, isa).unwrap();
        assert_eq!(code.kernel.width, Width::Bits32, "{}", code.kernel);
        assert!(oracle.check(&schedule, isa));
    }
}

#[test]
fn every_point_of_attention_to_many_keys_computes_the_program() {
    let mut random = random(2);
    let dag = decode([2, 4], 1, 21);
    for (t, capacity) in [(1, 1), (39, 50)] {
        let oracle = Oracle::new(dag.clone(), vec![capacity, t]);
        for isa in [Isa::Avx512, Isa::Avx2] {
            for sketch in sketches(&oracle.dag, &Target::generic(isa)) {
                for _ in 0..5 {
                    let trace = sketch.instructions(&any_point(&sketch, &mut random));
                    oracle.check(&Schedule::replay(&oracle.dag, &trace).unwrap(), isa);
                }
            }
        }
    }
}

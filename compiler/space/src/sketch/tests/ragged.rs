//! Rows of which data bound the terms, on CPUs.

use super::programs::{Oracle, any_point, random};
use crate::default;
use crate::sketch::sketches;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_schedule::{Schedule, nest};

/// The product of a sparse matrix in compressed rows with one that has `columns`.
fn sparse_product(rows: u64, columns: u64) -> Dag {
    let source = format!(
        "#[autotune(dims(N = {rows}, E = 37, M = 11, D = {columns}))]
         fn f(ptr: Tensor<i64, {{ N + 1 }}>, col: Tensor<i64, E>, val: Tensor<f32, E>, x: Tensor<f32, M, D>)
             -> Tensor<f32, N, D> {{
             compute(|n, d| sum(0..E, |e| {{
                 let is_of_row = e as i64 >= ptr[[n]] && (e as i64) < ptr[[n + 1]];
                 if is_of_row {{ val[[e]] * x.get([col[[e]], d]).unwrap_or(0.0) }} else {{ 0.0 }}
             }}))
         }}"
    );
    dsl::program(&source).unwrap()
}

fn default_nest(source: &str) -> String {
    let dag = dsl::program(source).unwrap();
    nest::lower(&default::schedule(&dag, &Target::generic(Isa::Avx2))).to_string()
}

#[test]
fn each_row_runs_over_its_terms_and_vectors_lie_along_the_columns() {
    let schedule =
        default::schedule(&sparse_product(500, 64), &CpuTarget::generic(Isa::Avx2).into());
    let text = nest::lower(&schedule).to_string();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|it| it.contains("+=")).unwrap();
    assert_eq!(lines[at - 2], "for e in 0..37", "{text}");
    assert!(lines[at - 1].starts_with("vectorized d"), "{text}");
}

#[test]
fn vectors_lie_along_the_terms_where_each_row_has_one_element() {
    let text = default_nest(
        "#[autotune(dims(B = 64, L = 512))]
         fn f(len: Tensor<i64, B>, x: Tensor<f32, B, L>) -> Tensor<f32, B> {
             compute(|b| sum(0..L, |l| if (l as i64) < len[[b]] { x[[b, l]] } else { 0.0 }))
         }",
    );
    assert!(text.contains("out_part[0, l_1] += "), "{text}");
}

#[test]
fn columns_of_different_lengths_are_lanes() {
    let text = default_nest(
        "#[autotune(dims(B = 64, L = 512))]
         fn f(len: Tensor<i64, B>, x: Tensor<f32, L, B>) -> Tensor<f32, B> {
             compute(|b| sum(0..L, |l| if (l as i64) < len[[b]] { x[[l, b]] } else { 0.0 }))
         }",
    );
    assert!(text.contains("vectorized b"), "{text}");
}

#[test]
fn every_point_of_a_sparse_product_computes_the_program() {
    let mut random = random(3);
    for columns in [1, 19] {
        let oracle = Oracle::new(sparse_product(9, columns), Vec::new());
        for isa in [Isa::Avx2, Isa::Avx512] {
            for sketch in sketches(&oracle.dag, &Target::generic(isa)) {
                for _ in 0..8 {
                    let trace = sketch.instructions(&any_point(&sketch, &mut random));
                    assert!(oracle.check(&Schedule::replay(&oracle.dag, &trace).unwrap(), isa));
                }
            }
        }
    }
}

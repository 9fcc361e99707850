//! Register tiles that transpose what they read across memory.

use super::programs::{Oracle, any_point, random};
use crate::default;
use crate::sketch::sketches;
use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;
use tvmtune_ir::target::{Isa, Target};
use tvmtune_schedule::{Schedule, nest};

/// A matrix whose rows are multiplied by so many vectors, each term of which is used once for each.
fn product(n_vectors: u64, n: &str, k: u64) -> Dag {
    let source = format!(
        "#[autotune(dims(M = {n_vectors}, N = {n}, K = {k}), numerics = \"fixed\")]
         fn f(w: Tensor<f32, N, K>, x: Tensor<f32, M, K>) -> Tensor<f32, M, N> {{
             compute(|m, n| sum(0..K, |k| w[[n, k]] * x[[m, k]]))
         }}"
    );
    dsl::program(&source).unwrap()
}

#[test]
fn matrices_that_meet_one_vector_or_two_are_read_in_place() {
    for (n_vectors, k, words) in [(1, 4096, 16), (1, 1001, 8), (2, 384, 8), (2, 11, 8), (1, 6, 4)] {
        let dag = product(n_vectors, "1000", k);
        for isa in [Isa::Avx2, Isa::Avx512] {
            let text = nest::lower(&default::schedule(&dag, &Target::generic(isa))).to_string();
            assert!(!text.contains("w_operand"), "{text}");
            let unrolled = format!("unrolled k_1 in 0..{words}\n");
            assert!(text.contains(&unrolled), "{text}");
        }
    }
}

#[test]
fn matrices_that_meet_many_vectors_are_copied_once() {
    let dag = product(256, "1000", 256);
    let text = nest::lower(&default::schedule(&dag, &Target::generic(Isa::Avx2))).to_string();
    assert!(text.contains("w_operand"), "{text}");
}

#[test]
fn every_point_of_a_matrix_and_few_vectors_computes_the_program() {
    let mut random = random(5);
    for (n_vectors, k) in [(1, 4), (1, 37), (1, 1024), (2, 19), (3, 64)] {
        let dag = product(n_vectors, "1..=70", k);
        for n in [1, 8, 33, 70] {
            let oracle = Oracle::new(dag.clone(), vec![n]);
            for isa in [Isa::Avx2, Isa::Avx512] {
                for sketch in sketches(&oracle.dag, &Target::generic(isa)) {
                    for _ in 0..3 {
                        let trace = sketch.instructions(&any_point(&sketch, &mut random));
                        oracle.check(&Schedule::replay(&oracle.dag, &trace).unwrap(), isa);
                    }
                }
            }
        }
    }
}

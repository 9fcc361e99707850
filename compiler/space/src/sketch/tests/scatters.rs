//! Scatters on CPUs: terms are added to the elements that data choose, where that takes fewer cycles.

use super::programs::{Oracle, any_point, random};
use crate::default;
use crate::lower_bound::lower_bound_ns;
use crate::sketch::sketches;
use tvmtune_cpu::vector;
use tvmtune_ir::dag::{Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::target::{CpuTarget, Isa, Target};
use tvmtune_schedule::{Schedule, nest};

fn program(dims: &str, signature: &str, body: &str) -> Dag {
    let text = format!("#[autotune(dims({dims}))] fn f({signature} {{ {body} }}");
    dsl::program(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Sums of the rows of segments.
fn segments(dims: &str) -> Dag {
    program(
        dims,
        "ids: Tensor<i64, E>, x: Tensor<f32, E, D>) -> Tensor<f32, S, D>",
        "compute(|s, d| sum(0..E, |e| if ids[[e]] == s as i64 { x[[e, d]] } else { 0.0 }))",
    )
}

/// A histogram of each row.
fn histograms(dims: &str) -> Dag {
    program(
        dims,
        "ids: Tensor<i32, M, E>) -> Tensor<i32, M, S>",
        "compute(|m, s| sum(0..E, |e| (ids[[m, e]] == s as i32) as i32))",
    )
}

#[test]
fn terms_are_outside_of_the_elements_that_they_choose() {
    let dag = segments("E = 6000, S = 500, D = 64");
    let target = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) };
    let schedule = default::schedule(&dag, &target.into());
    insta::assert_snapshot!(nest::lower(&schedule), @r"
    parallel s_0 in 0..1
      parallel d_0 in 0..2
        for s_1 in 0..500
          vectorized d_2 in 0..32
            out[s_1, 32*d_0 + d_2] = 0
        for e in 0..6000
          for s_1 in 0..500
            vectorized d_2 in 0..32
              out[s_1, 32*d_0 + d_2] += select(ids[e] == s_1, x[e, 32*d_0 + d_2], 0)
    ");
}

#[test]
fn few_elements_are_vectors() {
    let names = |dag: &Dag| {
        let found = sketches(dag, &Target::generic(Isa::Avx2));
        found.into_iter().map(|it| it.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&segments("E = 600, S = 2, D = 8"))[0], "out: tile d");
    assert_eq!(names(&segments("E = 600, S = 40, D = 8")), ["out: scatter"]);
    assert_eq!(names(&histograms("E = 600, M = 4, S = 16"))[0], "out: tile s");
    assert_eq!(names(&histograms("E = 600, M = 4, S = 256")), ["out: scatter"]);
}

/// Programs, extents, and the parameters that choose.
fn programs() -> Vec<(Dag, Vec<i64>, &'static [&'static str])> {
    let ids = &["ids"][..];
    let mut all = Vec::new();
    for d in [1, 16, 67] {
        all.push((segments(&format!("E = 30, S = 90, D = {d}")), vec![], ids));
        for e in [1, 29, 40] {
            all.push((segments(&format!("E = 1..=40, S = 33, D = {d}")), vec![e], ids));
        }
    }
    for e in [7, 64] {
        for dims in ["M = 3, S = 90", "M = 1, S = 70", "M = 13, S = 100"] {
            all.push((histograms(&format!("E = {e}, {dims}")), vec![], ids));
        }
    }
    let of_terms = "x: Tensor<f32, E>, ids: Tensor<i64, E>) -> Tensor<f32, S>";
    for body in [
        "compute(|s| sum(0..E, |e| if ids[[e]] == s as i64 { x[[e]] } else { 0.0 }))",
        "compute(|s| max(0..E, |e| if x[[e]] > 0.0 && s as i64 == ids[[e]] { x[[e]] } else { f32::NEG_INFINITY }))",
        "compute(|s| sum(0..E, |e| if ids[[e]] == s as i64 + 2 { x[[e]] } else { 0.0 }) * 2.0)",
        "compute(|s| sum(0..E, |e| if ids[[e]] - 2 == s as i64 { x[[e]] } else { 0.0 }) * 2.0)",
        "compute(|s| if any(0..E, |e| ids[[e]] == s as i64) { x[[s % E]] } else { 0.0 })",
    ] {
        // Few terms, and so many that each thread adds up some of them.
        all.push((program("E = 10, S = 90", of_terms, body), vec![], ids));
        all.push((program("E = 4400, S = 70", of_terms, body), vec![], ids));
        all.push((program("E = 4399, S = 70", of_terms, body), vec![], ids));
        all.push((program("E = 1..=4400, S = 70", of_terms, body), vec![3001], ids));
    }
    let pairs = "ids: Tensor<i64, E>, to: Tensor<i64, E>) -> Tensor<i32, S, T>";
    let body = "compute(|a, b| sum(0..E, |e| if ids[[e]] == a as i64 && to[[e]] == b as i64 { 1 } else { 0 }))";
    all.push((program("E = 40, S = 11, T = 19", pairs, body), vec![], &["ids", "to"]));
    let lookup = "ids: Tensor<i64, E>, w: Tensor<f32, S, D>) -> Tensor<f32, E, D>";
    let body = "compute(|e, d| sum(0..S, |s| if ids[[e]] == s as i64 { w[[s, d]] } else { 0.0 }))";
    for d in [1, 13] {
        let dims = format!("E = 1..=21, S = 60, D = {d}");
        all.push((program(&dims, lookup, body), vec![21], ids));
    }
    let one = "ids: Tensor<i64, E>, w: Tensor<f32, S>) -> Tensor<f32>";
    let body =
        "compute(|| sum((0..E, 0..S), |e, s| if ids[[e]] == s as i64 { w[[s]] } else { 0.0 }))";
    all.push((program("E = 30, S = 90", one, body), vec![], ids));
    all
}

#[test]
fn every_point_of_a_scatter_computes_the_program() {
    let mut random = random(5);
    let mut n_chosen = 0;
    for (dag, dims, choosing) in programs() {
        let mut oracle = Oracle::new(dag, dims);
        for name in choosing {
            oracle = oracle.with(name, |ids| {
                for n in 0..ids.len() {
                    ids.set(n, Number::Int((n as i64 * 37) % 101 - 5));
                }
            });
        }
        for isa in [Isa::Avx512, Isa::Avx2] {
            let target = CpuTarget { threads: 3, ..CpuTarget::generic(isa) };
            for sketch in sketches(&oracle.dag, &target.into()) {
                let points = (0..3).map(|_| any_point(&sketch, &mut random));
                for point in points.chain([sketch.default.clone()]) {
                    let trace = sketch.instructions(&point);
                    let schedule = Schedule::replay(&oracle.dag, &trace).unwrap();
                    if oracle.check(&schedule, isa) && sketch.name.contains("scatter") {
                        let code = vector::lower(&nest::lower(&schedule), isa).unwrap();
                        assert!(code.to_string().contains("choose v"), "{code}");
                        n_chosen += 1;
                    }
                }
            }
        }
    }
    assert!(n_chosen > 100, "{n_chosen} points");
}

#[test]
fn each_thread_counts_some_of_the_terms_however_many_there_are() {
    let target = CpuTarget { threads: 2, ..CpuTarget::generic(Isa::Avx2) };
    for n in ["60000", "59999", "1..=60000"] {
        for m in ["M = 1, S = 256", "M = 1, S = 700"] {
            let dag = histograms(&format!("E = {n}, {m}"));
            let schedule = default::schedule(&dag, &target.into());
            let text = nest::lower_for_lanes(&schedule).to_string();
            let code = vector::lower(&nest::lower_for_lanes(&schedule), Isa::Avx2).unwrap();
            let is_in_parts = text.contains("parallel e_0 in 0..2") || text.contains("30000");
            assert!(
                is_in_parts && code.to_string().contains("choose v"),
                "{n}, {m}: {text}\n{code}"
            );
        }
    }
}

#[test]
fn the_lower_bound_counts_each_term_once() {
    let bound = |dag: &Dag| lower_bound_ns(dag, &[], &Target::generic(Isa::Avx2));
    let one = bound(&segments("E = 6000, S = 1, D = 640"));
    let many = bound(&segments("E = 6000, S = 500, D = 640"));
    assert!(one > 0.0 && many <= 1.2 * one, "{one} {many}");
}

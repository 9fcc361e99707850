//! Attention on CPUs: it is found in programs as users write it, and every point of its template computes
//! the program.

use super::programs::{Oracle, any_point, random};
use crate::default;
use crate::sketch::{TemplateKind, sketches};
use tvmtune_ir::dag::{Dag, Number};
use tvmtune_ir::dsl;
use tvmtune_ir::interp::Array;
use tvmtune_ir::target::{Isa, Target};

/// Returns the program of attention with that signature: scores, queries by keys, and values.
fn attention(dims: &str, signature: &str, scores: &str, result: &str) -> Dag {
    let source = format!(
        "#[autotune(dims({dims}))]
        fn attention({signature} {{
            let s = compute({scores});
            let m = compute(|h, i| max(0..T, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..T, |j| e[[h, i, j]]));
            compute({result})
        }}"
    );
    dsl::program(&source).unwrap_or_else(|error| panic!("{error}\n{source}"))
}

/// Returns the program of attention of two heads over as many queries as keys.
fn square(dims: &str, scores: &str) -> Dag {
    let dims = format!("H = 2, T = {dims}");
    let signature = "q: Tensor<f32, H, T, D>, k: Tensor<f32, H, T, D>, v: Tensor<f32, H, T, D>, \
                     lengths: Tensor<i32, H>) -> Tensor<f32, H, T, D>";
    let result = "|h, i, d| sum(0..T, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]]";
    attention(&dims, signature, scores, result)
}

/// Returns scaled scores where a condition holds, and that value where it does not.
fn masked(condition: &str, hidden: &str) -> String {
    format!(
        "|h, i, j| if {condition} {{ sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]) * 0.5 }} \
         else {{ {hidden} }}"
    )
}

/// Programs, each with dimensions of launches.
fn programs() -> Vec<(Dag, Vec<Vec<i64>>)> {
    let lengths = masked("(j as i32) < lengths[[h]]", "-1e30");
    let hidden = masked("(j as i32) < lengths[[h]]", "f32::NEG_INFINITY");
    let window = masked("j <= i && j + 9 > i", "f32::NEG_INFINITY");
    let causal = masked("j <= i && (j as i32) < lengths[[h]] + 9", "f32::NEG_INFINITY");
    let grouped = attention(
        "H = 4, T = 1..=70, R = 1..=40, D = 8",
        "q: Tensor<f32, R, H, D>, k: Tensor<f32, T, 2, D>, v: Tensor<f32, T, 2, D>, \
         bias: Tensor<f32, R, T>) -> Tensor<f32, R, H, D>",
        "|h, i, j| sum(0..D, |d| q[[i, h, d]] * k[[j, h / 2, d]]) + bias[[i, j]]",
        "|i, h, d| sum(0..T, |j| e[[h, i, j]] * v[[j, h / 2, d]]) / l[[h, i]] + q[[i, h, d]]",
    );
    let at = |values: &[i64]| values.iter().map(|it| vec![*it]).collect::<Vec<_>>();
    vec![
        (square("1..=70, D = 12", &lengths), at(&[1, 16, 31, 70])),
        (square("1..=20, D = 5", &hidden), at(&[1, 7, 20])),
        (square("64, D = 8", &causal), vec![vec![]]),
        (square("1..=45, D = 8", &window), at(&[1, 9, 10, 45])),
        (square("1..=45, D = 16", &causal), at(&[2, 17, 45])),
        (grouped, vec![vec![40, 70], vec![9, 13], vec![1, 33]]),
    ]
}

#[test]
fn attention_is_one_kernel() {
    for (dag, _) in programs() {
        let found = sketches(&dag, &Target::generic(Isa::Avx2));
        assert_eq!(found[0].templates, [TemplateKind::Attention], "{}", found[0].name);
    }
}

#[test]
fn queries_of_a_block_fill_the_tiles_that_registers_allow() {
    let cases = [
        (Isa::Avx2, "256", 24),
        (Isa::Avx2, "1..=1024", 24),
        // One vector of three would be the last block.
        (Isa::Avx2, "32", 32),
        (Isa::Avx2, "128", 32),
        (Isa::Avx2, "8", 8),
        (Isa::Avx512, "256", 64),
    ];
    for (isa, queries, expected) in cases {
        let scores = "|h, i, j| sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]])";
        let dag = square(&format!("{queries}, D = 64"), scores);
        let schedule = default::schedule(&dag, &Target::generic(isa));
        let first =
            schedule.trace.iter().map(ToString::to_string).find(|it| it.starts_with("split"));
        let block = first.expect("blocks of queries");
        assert!(block.ends_with(&format!(" [{expected}]")), "{isa:?} {queries}: {block}");
    }
}

#[test]
fn few_queries_are_no_lanes() {
    let (dag, _) = programs().remove(1);
    let mut short = dag.clone();
    short.dims[0].range.hi = 1;
    let uses = |dag: &Dag| {
        let found = sketches(dag, &Target::generic(Isa::Avx2));
        found.iter().any(|it| it.uses(TemplateKind::Attention))
    };
    assert_eq!([uses(&dag), uses(&short)], [true, false]);
}

#[test]
fn every_point_of_attention_computes_the_program() {
    let mut random = random(3);
    let (mut n_points, mut n_fit) = (0, 0);
    for (dag, launches) in programs() {
        let oracles: Vec<Oracle> =
            launches.into_iter().map(|dims| Oracle::new(dag.clone(), dims)).collect();
        for isa in [Isa::Avx512, Isa::Avx2] {
            let target = Target::generic(isa);
            let schedule = default::schedule(&dag, &target);
            assert!(oracles.iter().all(|it| it.check(&schedule, isa)), "the default fits");
            let found = sketches(&dag, &target);
            for sketch in found.iter().filter(|it| it.uses(TemplateKind::Attention)) {
                for n in 0..6 {
                    let trace = sketch.instructions(&any_point(sketch, &mut random));
                    let encoded = sketch.encode(&trace);
                    assert!(encoded.is_some_and(|it| it.is_exact), "{}", sketch.name);
                    let schedule = tvmtune_schedule::Schedule::replay(&dag, &trace)
                        .unwrap_or_else(|error| panic!("{}: {error:?}", sketch.name));
                    n_points += 1;
                    n_fit += usize::from(oracles[n % oracles.len()].check(&schedule, isa));
                }
            }
        }
    }
    assert!(n_fit * 2 > n_points, "only {n_fit} of {n_points} points fit");
}

/// Sets elements, by position.
fn set(array: &mut Array, values: &[(usize, f32)]) {
    for (at, value) in values {
        array.set(*at, Number::Float(f64::from(*value)));
    }
}

/// Rows without any key, keys of later blocks only, scores that swamp all others or overflow, and numbers
/// that are none: the result is that of the definition, NaN or not.
#[test]
fn extreme_scores_and_empty_rows_are_as_defined() {
    const EXTENT: i64 = 45;
    let row = |n: usize| n * 16;
    let lengths = "(j as i32) < lengths[[h]]";
    let masks = [
        masked(lengths, "-1e30"),
        masked(lengths, "f32::NEG_INFINITY"),
        // Rows see keys that come 38 places later: the last rows none, the first none in their first blocks.
        masked("j >= i + 38", "f32::NEG_INFINITY"),
        masked("j >= i + 38 && (j as i32) < lengths[[h]] + 44", "-1e30"),
    ];
    let mut random = random(5);
    for (mask, scores) in masks.iter().enumerate() {
        let dag = square("1..=45, D = 16", scores);
        let oracle = || {
            Oracle::new(dag.clone(), vec![EXTENT]).with("lengths", |it| {
                it.set(0, Number::Int(0));
                it.set(1, Number::Int(39));
            })
        };
        let oracles = [
            oracle(),
            oracle().with("q", |it| set(it, &[(row(1), 1e30), (row(2), -1e30), (row(44), 3e38)])),
            oracle().with("k", |it| set(it, &[(row(3), 1e30), (row(50), -1e30), (row(89), 3e38)])),
            oracle().with("q", |it| set(it, &[(row(46), f32::INFINITY), (row(48), f32::NAN)])),
        ];
        for isa in [Isa::Avx512, Isa::Avx2] {
            let target = Target::generic(isa);
            let found = sketches(&dag, &target);
            let sketch = found.iter().find(|it| it.uses(TemplateKind::Attention));
            let sketch = sketch.unwrap_or_else(|| panic!("mask {mask} is no attention"));
            let schedule = |point: &[u16]| {
                tvmtune_schedule::Schedule::replay(&dag, &sketch.instructions(point)).unwrap()
            };
            let default = schedule(&sketch.default);
            assert!(oracles.iter().all(|it| it.check(&default, isa)), "the default fits");
            for _ in 0..3 {
                let schedule = schedule(&any_point(sketch, &mut random));
                for it in &oracles {
                    // A point that does not fit was checked as a nest of loops.
                    it.check(&schedule, isa);
                }
            }
        }
    }
}

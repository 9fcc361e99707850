//! Definitions in Rust: their results, and their mistakes.

use tvmtune_ir::dag::Dag;
use tvmtune_ir::dsl;

use super::*;
use crate::measure::CaseSpec;

/// A program of sorted rows, and the number of those elements that are above a limit.
fn sorted(source: &str) -> Dag {
    let program = format!(
        r#"#[autotune(
            dims(M = 1..=9, N = 8),
            template = "kernels/sort.cu" ("extern \"C\" __global__ void sort() {{}}\n"),
            kernels(sort(grid = M, block = N)),
            reference("kernels/sort.rs", sort) ({source:?})
        )]
        fn sort(x: Tensor<f16, M, N>, limit: f32, least: i64) -> (Tensor<f16, M, N>, Tensor<bool, M, N>) {{}}"#
    );
    dsl::program(&program).unwrap()
}

const SORT: &str = "// Sorts rows.

pub fn sort(x: &[f32], out: &mut [f32], above: &mut [bool], limit: f32, least: i64, m: usize) {
    assert_eq!(x.len(), m * 8);
    println!(\"what it prints is no result\");
    out.copy_from_slice(x);
    out.chunks_mut(8).for_each(|it| it.sort_by(f32::total_cmp));
    for (above, value) in above.iter_mut().zip(out.iter()) {
        *above = *value > limit && least != 12;
    }
}
";

/// The results for two rows.
fn results(source: &str) -> Result<Vec<Array>, String> {
    let dag = sorted(source);
    let x = Array::from_fn(dag.tensors[0].dtype, &[2, 8], |n| Number::Float(7.5 - n as f64));
    Definition::default().results(&dag, &[2], &[x], &[Number::Float(0.25), Number::Int(-3)])
}

#[test]
fn a_function_of_rust_computes_the_results() {
    let found = results(SORT).unwrap();
    let values =
        [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, -7.5, -6.5, -5.5, -4.5, -3.5, -2.5, -1.5, -0.5];
    assert_eq!(found[0].to_f32_vec(), values);
    let above = (0..16).map(|n| found[1].get(n) == Number::Bool(true));
    assert!(above.eq(values.iter().map(|it| *it > 0.25)));
}

#[test]
fn results_of_half_precision_are_rounded() {
    let third = SORT.replace("out.copy_from_slice(x);", "out.fill(1.0 / 3.0);");
    let found = results(&third).unwrap();
    assert_eq!(found[0].get(0), Number::Float(0.333_251_953_125));
}

#[track_caller]
fn check_error(source: &str, parts: &[&str]) {
    let error = results(source).unwrap_err();
    assert!(parts.iter().all(|it| error.contains(it)), "{error}");
}

#[test]
fn mistakes_are_those_of_the_users_file() {
    let declaration = "expected `pub fn sort(x: &[f32], out0: &mut [f32], out1: &mut [bool], limit: f32, \
                       least: i64, m: usize)`";
    check_error(&SORT.replace("x.len()", "x.length()"), &["kernels/sort.rs:4:", "length"]);
    check_error(&SORT.replace("least: i64", "least: u8"), &[declaration, "E0308"]);
    check_error(&SORT.replace("* 8", "* 9"), &["kernels/sort.rs:4:", "left: 16"]);
    check_error(
        &SORT.replace("out.copy", "std::process::exit(0); out.copy"),
        &["`sort` of `kernels/sort.rs` ended the process before it returned"],
    );
}

#[test]
fn nothing_is_left_of_a_function() {
    let (dag, definition) = (sorted(SORT), Definition::default());
    let case = CaseSpec::new(&std::sync::Arc::new(dag.clone()), &[9], 1, &|_| (0.0, 0.0));
    let results = definition.results(&dag, &[9], &case.params(), &case.scalars());
    assert_eq!(results.unwrap()[0].len(), 72);
    let folder = match definition.compiled.get() {
        Some(Ok(it)) => it.folder().to_owned(),
        other => panic!("{other:?}"),
    };
    assert!(folder.is_dir());
    drop(definition);
    assert!(!folder.exists());
}

//! Assignments to `InOut` parameters: errors, and identity.

use super::errors::render;
use super::{dag, program};
use crate::workload::id;

/// The errors of a program over `x: f32[M, 8]` and `y: f32[M, 8]`, which may be replaced.
fn errors(result: &str, body: &str) -> String {
    let source = format!(
        "#[autotune(dims(M = 1..=64))] fn f(x: Tensor<f32, M, 8>, y: InOut<f32, M, 8>) {result} {{ {body} }}"
    );
    match program(&source) {
        Ok(_) => "nothing is wrong".to_owned(),
        Err(error) => {
            let text = render(&source, error);
            text.lines().map(|it| it.split_once(" | ").unwrap().1.to_owned() + "\n").collect()
        }
    }
}

#[test]
fn assignments() {
    let again = "y = compute(|i, j| y[[i, j]] + x[[i, j]]);";
    assert_eq!(errors("", again), "nothing is wrong");
    assert_eq!(errors("", &again.replace(';', "")), "nothing is wrong");
    let all = [
        errors("", ""),
        errors("-> Tensor<f32, M, 8>", "compute(|i, j| y[[i, j]])"),
        errors("", &format!("{again} {again}")),
        errors("", "y = compute(|i, j| x[[i, j]]);"),
        errors("", "y += compute(|i, j| x[[i, j]]);"),
        errors(
            "",
            "x = compute(|i, j| y[[i, j]] + x[[i, j]]); y = compute(|i, j| y[[i, j]] + 1.0);",
        ),
        errors("", "z = compute(|i, j| y[[i, j]]); y = compute(|i, j| y[[i, j]] + 1.0);"),
        errors("", "y = x;"),
        errors("", "y = compute(|i| y[[i, 0]]);"),
        errors("", "compute(|i, j| y[[i, j]])"),
        errors("", &format!("{again} y")),
        errors("-> Tensor<f32, M, 8>", again),
        errors("-> InOut<f32, M, 8>", again),
    ];
    insta::assert_snapshot!(all.concat(), @r"
    y => nothing is assigned to `y`: write `y = compute(|i, j| ..);`, or declare it as `Tensor<..>`
    y => nothing is assigned to `y`: write `y = compute(|i, j| ..);`, or declare it as `Tensor<..>`
    y = compute(|i, j| y[[i, j]] + x[[i, j]]) => `y` is assigned twice: bind the first value to a new name with `let`
    y => `y` is assigned, but its old elements are never read: return the value instead, as a result `-> Tensor<..>`
    y += compute(|i, j| x[[i, j]]) => write `y = compute(|i, j| y[[i, j]] + ..);`
    x = compute(|i, j| y[[i, j]] + x[[i, j]]) => only an `InOut` parameter can be assigned: declare `x: InOut<..>`, or bind a new name with `let`
    z = compute(|i, j| y[[i, j]]) => nothing can be assigned: bind a new name with `let`
    x => `x` is a parameter, and a result is computed: write `compute(|i, j| x[[i, j]])`
    |i| => this closure takes 1 axis, but the tensor has rank 2: write `|i, j| ..`
    compute(|i, j| y[[i, j]]) => the function declares no result: write `y = ..;`
    y => the function declares no result: remove this, or declare one by `-> Tensor<..>`
    } => the function ends in its results, with no `;`: `compute(..)`, the name of a computed tensor, or a tuple of those
    InOut<f32, M, 8> => only a parameter can be `InOut`: write `Tensor`
    } => the function ends in its results, with no `;`: `compute(..)`, the name of a computed tensor, or a tuple of those
    ");
}

#[test]
fn a_program_in_place_is_another_one() {
    let program = |declared: &str, result: &str, assigned: &str| {
        dag(&format!(
            "#[autotune(dims(M = 1..=64))] fn f(y: {declared}<f32, M, 8>) {result} {{
                {assigned} compute(|i, j| y[[i, j]] + 1.0)
            }}"
        ))
    };
    let own = id(&program("Tensor", "-> Tensor<f32, M, 8>", ""));
    let in_place = id(&program("InOut", "", "y ="));
    assert_ne!(own, in_place);
    let named = id(&dag("#[autotune(dims(M = 1..=64))] fn f(y: InOut<f32, M, 8>) {
        let h = compute(|i, j| y[[i, j]] + 1.0);
        y = h;
    }"));
    insta::assert_snapshot!(in_place, @"6802c555e85f7ab4c3d15fa7ac47caa2ab07307c509198741fd5794cd4518aff");
    assert_ne!(named, own);
}

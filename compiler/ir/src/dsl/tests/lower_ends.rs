//! Dimensions that begin at others: meaning, identity, errors.

use super::errors::render;
use super::{dag, program};
use crate::dag::print::canonical;
use crate::workload::id;

/// A program over `x: f32[M, S]` with these dimensions and that element.
fn rows(dims: &str, element: &str) -> String {
    format!(
        "#[autotune(dims(M = 1..=64, {dims}))]
         fn f(x: Tensor<f32, M, S>) -> Tensor<f32, M, T> {{ compute(|i, t| {element}) }}"
    )
}

fn errors(dims: &str, element: &str) -> String {
    let source = rows(dims, element);
    match program(&source) {
        Ok(_) => "nothing is wrong\n".to_owned(),
        Err(error) => {
            let text = render(&source, error);
            text.lines().map(|it| it.split_once(" | ").unwrap().1.to_owned() + "\n").collect()
        }
    }
}

#[test]
fn the_text_has_lower_ends() {
    let text = canonical(&dag(&rows("T = 1..=512, S = T..=2048", "x[[i, t]]")));
    insta::assert_snapshot!(text, @"
    tvmtune dag v1
    dim d0 in 1..=64
    dim d1 in 1..=2048
    dim d2 in 1..=512
    where d1 >= d2
    input t0: f32[d0, d1]
    t1: f32[d0, d2] = t0[v0, v1]
    return t1
    ");
}

#[test]
fn ends_are_part_of_the_identity_and_their_spelling_is_not() {
    let id = |dims: &str| id(&dag(&rows(dims, "x.get([i, t]).unwrap_or(0.0)")));
    let one = id("T = 1..=512, S = T..=2048");
    assert_ne!(one, id("T = 1..=512, S = T + 1..=2048"));
    assert_ne!(one, id("T = 1..=512, S = 2 * T..=2048"));
    assert_eq!(one, id("T = 1..=512, S = (T)..=2048"));
    assert_eq!(one, id("T = 1..=512, S = (2 * T) / 2..=2048"));
    let four = id("T = 1..=512, S = (T + 3) / 4 + 1..=2048");
    assert_eq!(four, id("C = 4, T = 1..=512, S = 1 + (T + (C - 1)) / C..=2048"));
}

#[test]
fn reads_below_an_end_are_in_bounds() {
    let fine = [
        (
            "T = 1..=512, S = T..=2048",
            "x[[i, t]] + x[[i, T - 1]] + x[[i, t + S - T]] + x[[i, S - 1 - t]]",
        ),
        ("T = 1..=512, S = T + 1..=2048", "x[[i, t + 1]] * sum(0..T, |k| x[[i, k + 1]])"),
        ("T = 1..=512, S = T + 1..=2048", "sum(T..S, |k| x[[i, k]])"),
        ("T = 1..=512, S = 2 * T..=2048", "x[[i, 2 * t + 1]]"),
        ("T = 1..=512, S = 64 + T..=2048", "x[[i, 64 + t]]"),
        ("T = 1..=512, U = T..=1024, S = U..=2048", "sum(0..U, |u| x[[i, t]] * x[[i, u]])"),
    ];
    for (dims, element) in fine {
        assert_eq!(errors(dims, element), "nothing is wrong\n", "{dims}");
    }
    let aligned = "#[autotune(dims(M = 1..=64, T = 1..=510, B = (T + 3) / 4..=512))]
        fn f(x: Tensor<f32, M, { B * 4 }>) -> Tensor<f32, M, T> {
            compute(|i, t| x[[i, t]])
        }";
    dag(aligned);
    let cache = "#[autotune(dims(H = 8, D = 64, T = 1..=4096, CAP = T..=8192))]
        fn f(q: Tensor<f32, H, D>, k: Tensor<f32, H, CAP, D>, v: Tensor<f32, H, CAP, D>)
            -> Tensor<f32, H, D>
        {
            let s: Tensor<f32, H, T> = compute(|h, t| sum(0..D, |d| q[[h, d]] * k[[h, t, d]]));
            let m = compute(|h| max(0..T, |t| s[[h, t]]));
            let e = compute(|h, t| exp(s[[h, t]] - m[[h]]));
            let n = compute(|h| sum(0..T, |t| e[[h, t]]));
            compute(|h, d| sum(0..T, |t| e[[h, t]] * v[[h, t, d]]) / n[[h]])
        }";
    let cache = dag(cache);
    assert_eq!(cache.dims[0].name, "CAP");
}

#[test]
fn errors_of_ends() {
    let read = "x[[i, t]]";
    let all = [
        errors("T = 1..=512, S = 1..=2048", read),
        errors("T = 1..=512, S = T - 1..=2048", read),
        errors("T = 2..=512, S = T - 1..=2048", read),
        errors("T = 1..=512, S = T..=500", read),
        errors("T = 1..=512, S = T + 1..=512", read),
        errors("T = 1..=512, S = T..512", read),
        errors("S = T..=512, T = 1..=512", read),
        errors("T = 1..=512, U = 1..=8, S = T + U..=2048", read),
        errors("T = 1..=512, S = T * T..=2048", read),
        errors("T = 1..=512, S = 512 - T..=2048", read),
        errors("T = 1..=512, S = T / 0..=2048", read),
        errors("T = 1..=512, S = -T..=2048", read),
        errors("T = 1..=512, S = T % 4..=2048", read),
        errors("T = 1..=512, S = f(T)..=2048", read),
        errors("T = 1..=512, S = T * 2147483647 * 2147483647..=2048", read),
        errors("T = 1..=512, S = 1..=T", read),
        errors("T = 1..=512, S = T..=2048, V = T..=7", read),
        errors("T = 1..=512, S = T..=2048", "x[[i, t + 1]]"),
        errors("T = 1..=512, S = T + K..=2048, K = 4", read),
    ];
    insta::assert_snapshot!(all.concat(), @r#"
    T => no parameter has a dimension of extent `T`, so a launch cannot know it: write `T` alone as an extent of one
    t => index `t` ranges over 0..=T - 1, but `x` has extent S there: declare `S = T..=2048` if it is never less, or use `.get(..).unwrap_or(..)`
    T - 1..=2048 => extents are at least 1, and `S` could be 0 where `T` is small: write a larger lower end
    t => index `t` ranges over 0..=T - 1, but `x` has extent S there: use `.get(..).unwrap_or(..)`
    T..=500 => `S` is at most 500, and `T` is up to 512: write `S = T..=512`, or give `T` a smaller range
    T + 1..=512 => `S` is at most 512, and `T + 1` is up to 513: write `S = T + 1..=513`, or give `T` a smaller range
    T..512 => a range of extents includes its end: write `S = T..=512`
    T => `T` is declared after this: move it before
    T + U => a lower end mentions one dimension that is known at launch only, and this one mentions `T` and `U`: write one of them
    T * T => a lower end is made of `+` and `*` of a dimension and integers, of `-` of an integer, and of `/` by one, as in `T..=512` or `(T + 3) / 4..=512`
    512 - T => a lower end is made of `+` and `*` of a dimension and integers, of `-` of an integer, and of `/` by one, as in `T..=512` or `(T + 3) / 4..=512`
    0 => expected an integer from 1 on in a lower end
    -T => a lower end is made of `+` and `*` of a dimension and integers, of `-` of an integer, and of `/` by one, as in `T..=512` or `(T + 3) / 4..=512`
    T % 4 => a lower end is made of `+` and `*` of a dimension and integers, of `-` of an integer, and of `/` by one, as in `T..=512` or `(T + 3) / 4..=512`
    f(T) => expected an integer, a range as in `1..=512`, or `+ - * / %` of integers, constants and dimensions declared before
    T * 2147483647 * 2147483647 => extents are at most 2147483647
    T => the upper end of `S` is a number: write `S = 1..=512, T = S..=512` if `S` is never larger than `T`
    T..=7 => `V` is at most 7, and `T` is up to 512: write `V = T..=512`, or give `T` a smaller range
    t + 1 => index `t + 1` ranges over 1..=T, but `x` has extent S there: use `.get(..).unwrap_or(..)`
    K => `K` is declared after this: move it before
    "#);
}

//! Errors of programs: each line is a location in the text and a message.

use std::fmt::Write;

use super::{program, with_body};

/// The errors in order of place, each with the text it points at.
pub(super) fn render(source: &str, error: syn::Error) -> String {
    let mut found: Vec<_> = error
        .into_iter()
        .map(|it| {
            let (start, end) = (it.span().start(), it.span().end());
            let line = source.lines().nth(start.line - 1).unwrap_or("");
            let stop = if end.line == start.line { end.column } else { usize::MAX };
            let width = stop.saturating_sub(start.column);
            let text: String = line.chars().skip(start.column).take(width).collect();
            (start.line, start.column, text, it.to_string())
        })
        .collect();
    found.sort();
    found.iter().fold(String::new(), |mut text, (line, _, snippet, message)| {
        writeln!(text, "{line} | {snippet} => {message}").unwrap();
        text
    })
}

fn errors(source: &str) -> String {
    match program(source) {
        Ok(_) => "nothing is wrong".to_owned(),
        Err(error) => render(source, error),
    }
}

/// The errors of a program over `x: f32[M, 8]`, `h: f16[M, 8]`, `n: i32[M]`, `eps: f32`.
pub(super) fn body(result: &str, body: &str) -> String {
    errors(&with_body(result, body))
}

#[test]
fn all_errors_come_at_once_and_none_comes_of_another() {
    insta::assert_snapshot!(errors("
        #[autotune(dims(M = 1..=64, N = 8, K = 16), bucket(M = [1, 64]))]
        pub fn linear(x: Tensor<f32, M, K>, w: Weight<f23, N, K>, b: &Tensor<f32, N>) -> Tensor<f32, M, N> {
            let h = compute(|i, j| sum(0..K, |k| x[[i, k, 0]] * wt[[j, k]] + foo(x[[i, k]]) + w[[j, k]]) + b[[j]]);
            compute(|i, j| h[[i, j]] + h[[i]])
        }"), @r#"
    2 | bucket => unknown option `bucket`: did you mean `buckets`?
    3 | f23 => `f23` is not an element type: did you mean `f32`?
    3 | & => no `&`: a tensor is named by its type alone, as in `Tensor<f32, M>`
    4 | [i, k, 0] => `x` has rank 2, but 3 indices were given: write `x[[i, j]]`
    4 | wt => cannot find tensor `wt`: declare a parameter, or compute it before (known: `x`)
    4 | foo => `foo` is not a tvmtune intrinsic, nor a function of this crate that is marked for it: write `#[autotune::inline]` before one, or bind it here, `let foo = |x| ..`
    "#);
}

#[test]
fn places_of_operands() {
    insta::assert_snapshot!(errors("
        #[autotune(dims(K = 8), cold(x, kept), warm(x, eps))]
        fn f(x: Tensor<f32, K>, keys: Weight<f32, K>, eps: f32) -> Tensor<f32, K> {
            compute(|k| x[[k]] * keys[[k]] + eps)
        }"), @"
    2 | kept => `kept` is no operand: `cold(..)` lists tensors among the parameters
    2 | x => `x` is given twice in `cold(..)` and `warm(..)`: remove one
    2 | eps => `eps` is no operand: `warm(..)` lists tensors among the parameters
    ");
    insta::assert_snapshot!(errors("
        #[autotune(dims(K = 8), cold = keys)]
        fn f(x: Tensor<f32, K>) -> Tensor<f32, K> { compute(|k| x[[k]]) }"), @"
    2 | = => expected parentheses, as in `cold(w)`
    ");
    insta::assert_snapshot!(errors("
        #[autotune(dims(K = 8), cold(kyes))]
        fn f(keys: Tensor<f32, K>) -> Tensor<f32, K> { compute(|k| keys[[k]]) }"), @"
    2 | kyes => `kyes` is no operand: did you mean `keys`?
    ");
}

#[test]
fn weights() {
    let of = |weight: &str| {
        errors(&format!(
            "
            #[autotune(dims(K = 8), weight = {weight})]
            fn f(x: Tensor<f32, K>) -> Tensor<f32, K> {{ compute(|k| x[[k]]) }}"
        ))
    };
    for bad in ["0", "0.0", "-2", "1e999", "\"often\"", "K"] {
        let said = of(bad);
        assert!(said.contains("expected a positive number, as in `weight = 12`"), "{bad}: {said}");
    }
    for good in ["12", "0.5"] {
        assert_eq!(of(good), "nothing is wrong");
    }
}

#[test]
fn options() {
    insta::assert_snapshot!(errors("
        #[autotune(
            dims(M = 0..=64, N = 8, N = 9, K = 16.0, A = 1.., B = 9..=8, C = N * 4, D = 1..9, E = 99999999999, F = Z),
            buckets(M = [1], N = [2], D = [9, 1], Q = [1]), accum = f16, tol(rel = -1, abs = 1e-3, foo = 1),
            tol(rel = 1), targets(cpu),
        )]
        fn f(x: Tensor<f32, C, D>) -> Tensor<f32, C> { compute(|c| x[[c, 0]]) }"), @r#"
    3 | 0..=64 => extents are at least 1, and `M` could be 0: write `M = 1..=64`
    3 | N => dimension `N` is declared twice: remove one
    3 | 16.0 => expected an integer, as in `64`
    3 | 1.. => a dynamic dimension needs both ends, as in `1..=512`
    3 | 9..=8 => no extent is in this range of `B`: write `B = 8..=9`
    3 | 1..9 => a range of extents includes its end: write `D = 1..=9`, or `D = 1..=8` if 9 is not among them
    3 | 99999999999 => extents are at most 2147483647
    3 | Z => `Z` is no dimension declared before: write the number
    4 | N => `N` is fixed, and only ranges have buckets: remove them, or declare `N = 1..=8`
    4 | f16 => cannot accumulate in `f16`: write `accum = f32` or `accum = f64` (integers accumulate in their own type: cast them in the body)
    4 | -1 => expected a number that is not negative, as in `1e-3`
    4 | foo => unknown tolerance `foo`: write `rel = 1e-3` or `abs = 1e-4`
    5 | tol => option `tol` is given twice: remove one
    5 | targets => unknown option `targets`; expected `dims(..)`, `buckets(..)`, `types(..)`, `accum = ..`, `tol(rel = .., abs = ..)`, `cold(..)`, `warm(..)`, `weight = ..`, `numerics = ..`, `order = ..`, `crate = ..`, `template = ..`, `params(..)`, `knobs(..)`, `constraints(..)`, `kernels(..)` or `reference(..)`
    "#);
    insta::assert_snapshot!(errors("
        #[autotune(dims(M = 1..=64) tol(rel = 1))]
        fn f(x: Tensor<f32, M, T>) -> Tensor<f32, M> { compute(|c| x[[c]]) }"), @r#"
    2 | tol => expected `,`
    "#);
    insta::assert_snapshot!(errors("
        #[autotune(dims(M = 1..=64), buckets(M = [32, 128], T = [1]))]
        fn f(x: Tensor<f32, M, T>, y: Tensor<f32, T>) -> Tensor<f32, { M - 1 }> { compute(|c| x[[c, 0]]) }"), @r#"
    2 | M => `M` is in 1..=64, and a bucket ends at 128: write upper ends in that range
    2 | T => dimension `T` is not declared: add it to `dims(..)`, as `T = 64`, or `T = 1..=64` if a launch decides (declared: `M`)
    3 | { M - 1 } => an extent is at least 1, and this may be less
    "#);
}

#[test]
fn a_dynamic_dimension_is_found_in_a_parameter() {
    insta::assert_snapshot!(errors("
        #[autotune(dims(M = 1..=64, N = 1..=4))]
        fn f(x: Tensor<f32, M, { N * 2 }>) -> Tensor<f32, M> { compute(|c| x[[c, 0]]) }"), @r#"
    2 | N => no parameter has a dimension of extent `N`, so a launch cannot know it: write `N` alone as an extent of one
    "#);
}

#[test]
fn signatures() {
    insta::assert_snapshot!(errors("
        #[autotune(dims(M = 1..=64))]
        const async unsafe extern \"C\" fn f<T: Copy>(
            self, x: Tensor<f32, M>, mut y: f32, z: Vec<f32>, x: f32, u: usize, h: f16, t: Tensor, v: Tensor<M>,
            w: Tensor<f32, (M, M)>, a: Tensor<f32, x>, b: Tensor<f32, { 1 - 1 }>, c: Tensor<f32, 'static>,
            d: Tensor<f32, M, 100000000, 100000000>,
        ) -> Weight<f32, M> where T: Copy { compute(|i| x[[i]] + z + b[[i]]) }"), @r#"
    3 | const => an autotuned function cannot be `const`: remove it
    3 | async => an autotuned function cannot be `async`, and launches are queued anyway: remove `async`
    3 | unsafe => an autotuned function is safe: remove `unsafe`
    3 | extern "C" => an autotuned function cannot be `extern`: remove it
    3 | T: Copy => an autotuned function has no generics: write element types as `types(T in [f32, bf16])` in the attribute, and extents as `dims(..)`
    4 | self => an autotuned function has no `self`: move it out of the `impl`, and pass tensors as parameters
    4 | mut y => expected a plain name for this parameter, as in `x: Tensor<f32, M>`
    4 | Vec<f32> => expected `Tensor<f32, M, N>`, `Weight<f32, N>`, `InOut<f32, M, N>`, or a scalar type such as `f32`
    4 | x => the name `x` is already taken by a dimension or parameter: rename one of them
    4 | usize => a scalar cannot be `usize`: use `i64`, or a dimension of a tensor
    4 | f16 => a scalar cannot be f16: pass it as `f32`
    4 | Tensor => expected `Tensor<element, extents..>`, as in `Tensor<f32, M>`
    4 | M => the element type is missing: write `Tensor<f32, M>`
    5 | (M, M) => extents are listed one by one: `Tensor<f32, M, N>`
    5 | x => `x` is a parameter, not a dimension: declare one in `dims(..)`
    5 | { 1 - 1 } => an extent is at least 1, and this may be less
    5 | 'static => expected an extent, as in `M`, `64` or `{ M * 2 }`
    6 | Tensor<f32, M, 100000000, 100000000> => this tensor could have more than 2^46 bytes: give its dimensions smaller ranges in `dims(..)`
    7 | Weight<f32, M> => only a parameter can be a `Weight`: write `Tensor`
    7 | where T: Copy => an autotuned function has no `where` clause
    "#);
    insta::assert_snapshot!(errors("fn f(x: Tensor<f32, 4>) { compute(|i| x[[i]]) }"), @r#"
    1 | f => an autotuned function declares its result, as in `-> Tensor<f32, M, N>`
    "#);
    insta::assert_snapshot!(errors("fn f(x: Tensor<f32, 4>) -> () { compute(|i| x[[i]]) }"), @r#"
    1 | () => an autotuned function has at least one result
    "#);
    insta::assert_snapshot!(errors("#[autotune = 3] fn f() -> Tensor<f32> { compute(|| 0.0) }"), @r#"
    1 | autotune = 3 => expected `#[autotune(dims(..))]`
    "#);
    insta::assert_snapshot!(errors("fn f(x: Tensor<f32, 4>) -> Tensor<f32, 4> { compute(|i| x[i, i]) }"), @r#"
    1 | , => unexpected token, expected `]`
    "#);
}

#[test]
fn reads_out_of_bounds() {
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "compute(|i, j| x[[i, j + 1]] + x[[i - 1, j]] + x[[i + j, K - j]] + x[[j, i]] + x[[i, 2 * j]])"), @r#"
    3 | j + 1 => index `j + 1` ranges over 1..=8, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`
    3 | i - 1 => index `i - 1` ranges over -1..=M - 2, but `x` has extent M there: use `.get(..).unwrap_or(..)`
    3 | i + j => index `i + j` ranges over 0..=M + 6, but `x` has extent M there: use `.get(..).unwrap_or(..)`
    3 | K - j => index `K - j` ranges over 1..=8, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`
    3 | j => index `j` ranges over 0..=7, but `x` has extent M there: use `.get(..).unwrap_or(..)`
    3 | i => index `i` ranges over 0..=M - 1, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`
    3 | 2 * j => index `2 * j` ranges over 0..=14, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| x[[n[[i]], 0]] + x[[i, n[[i]].min(7)]] + sum(0..=K, |k| x[[i, k]]))"), @r#"
    3 | n[[i]] => this index is data, which may lie outside of `x`, of extent M there: use `.get(..).unwrap_or(..)`, or clamp it
    3 | n[[i]].min(7) => this index is data, which may lie outside of `x`, of extent 8 there: use `.get(..).unwrap_or(..)`, or clamp it
    3 | k => index `k` ranges over 0..=8, but `x` has extent 8 there: use `.get(..).unwrap_or(..)`
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| if i > 0 { sum(0..K, |k| x[[i - 1, k]]) } else { x[[i / (i - 1), (i - 9) % 8]] })"), @r#"
    3 | i - 1 => index `i - 1` ranges over -1..=M - 2, but `x` has extent M there: use `.get(..).unwrap_or(..)`
    3 | i / (i - 1) => the divisor `i - 1` may be 0 or less
    3 | (i - 9) % 8 => `i - 9` may be negative, and an index is divided only where it cannot be; add a multiple of the divisor first
    "#);
}

#[test]
fn conditions_that_are_not_enough() {
    for (condition, index) in [
        ("j < K - 1", "j + 2"),
        ("j <= K - 1", "j + 1"),
        ("j > 0", "j - 2"),
        ("j >= 0", "j - 1"),
        ("j != 1", "j - 1"),
        ("j != 0", "j - 2"),
        ("!(j < 1)", "j - 2"),
        ("j == 1 || j == 2", "j - 1"),
        ("n[[i]] >= 0 && n[[i]] <= 8", "n[[i]]"),
        ("n[[i]] >= -1 && n[[i]] < 8", "n[[i]]"),
        ("n[[i]] > 0 && n[[i]] < M as i32", "n[[i]]"),
        ("n[[i]] < 8", "n[[i]]"),
        // The absolute value of the least integer is negative, and sums wrap.
        ("true", "abs(n[[i]]).min(7)"),
        ("true", "(n[[i]].max(0) + 1).min(7)"),
        ("true", "(n[[i]].max(0) - 1).min(7)"),
        ("true", "abs(j - 3) + 4"),
        ("true", "abs(j - 3) - 1"),
        ("true", "((x[[i, j]] as i64).max(0) + 1).min(7)"),
        ("true", "(n[[i]].max(0).min(7) - n[[i]].max(0).min(3)).min(7)"),
    ] {
        let read = format!("compute(|i, j| if {condition} {{ x[[i, {index}]] }} else {{ 0.0 }})");
        assert_ne!(body("Tensor<f32, M, K>", &read), "nothing is wrong", "{read}");
    }
}

#[test]
fn names_and_ranks() {
    insta::assert_snapshot!(body("Tensor<f32, M, K>",
        "let s = 2.0;
         compute(|i, j| x + y[[i]] + eps[[0]] + x[[i]] + x[i] + x[i][j] + x[(i, j)] + s[[i]] + q + T as f32 + x[[]])"), @r#"
    4 | x => `x` is a tensor: read an element, as in `x[[i, j]]`
    4 | y => cannot find tensor `y`: declare a parameter, or compute it before (known: `n`, `h`, `x`)
    4 | eps => `eps` is one number, not a tensor: write `eps`
    4 | [i] => `x` has rank 2, but 1 index was given: write `x[[i, j]]`
    4 | i => indices stand in double brackets: write `x[[i]]`
    4 | x[i][j] => indices stand in one pair of double brackets: write `x[[i, j]]`
    4 | (i, j) => indices stand in double brackets: write `x[[i, j]]`
    4 | s => `s` is one number, not a tensor: write `s`
    4 | q => cannot find `q` in this program: bind it with `let`, or pass it
    4 | T => dimension `T` is not declared: add it to `dims(..)`, as `T = 64`, or `T = 1..=64` if a launch decides (declared: `M`, `K`)
    4 | [] => `x` has rank 2, but 0 indices were given: write `x[[i, j]]`
    "#);
    insta::assert_snapshot!(body("(Tensor<f32, M, K>, Tensor<f32, M>, Tensor<f32, M, K>, Tensor<f32, M, K>)",
        "let a = compute(|i, j| x[[i, j]]);
         (a, a, x, compute(|i| x[[i, 0]]))"), @r#"
    4 | a => `a` is `Tensor<f32, M, 8>`, but the result is declared `Tensor<f32, M>`: declare what it is, or compute it with axes in that order and convert with `as f32`
    4 | x => `x` is a parameter, and a result is computed: write `compute(|i, j| x[[i, j]])`
    4 | |i| => this closure takes 1 axis, but the tensor has rank 2: write `|i, j| ..`
    "#);
    insta::assert_snapshot!(body("(Tensor<f32, M, K>, Tensor<f32, M>)", "compute(|i, j| x[[i, j]])"), @r#"
    3 | compute(|i, j| x[[i, j]]) => the function declares 2 results, but returns 1: return a tuple of 2, as in `(a, b)`
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>", "let a = compute(|i| x[[i, 0]]); let b = a; a;"), @r#"
    3 | a => `a` is a tensor: read an element, as in `a[[i]]`
    3 | ; => the function ends in its results: remove this `;`
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "let a: Tensor<f16, K> = compute(|i| x[[0, i]]); let b: f16 = compute(|i| x[[0, i]]); a"), @r#"
    3 | f16 => expected `Tensor<element, extents..>`, as in `Tensor<f32, M>`
    3 | a => `a` is `Tensor<f16, 8>`, but the result is declared `Tensor<f32, M>`: declare what it is, or compute it with axes in that order and convert with `as f32`
    "#);
}

/// The errors of a program over `x: f32[M, 8]` and `w: f32[16, 8]` whose result is `f32[M, 16]`.
fn product(body: &str) -> String {
    errors(&format!(
        "#[autotune(dims(M = 1..=64, N = 16, K = 8))]
         fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N> {{
             {body}
         }}"
    ))
}

#[test]
fn axes_in_another_order_than_the_result_are_one_error() {
    insta::assert_snapshot!(product("compute(|j, i| sum(0..K, |k| x[[i, k]] * w[[j, k]]))"), @r#"
    3 | |j, i| => the axes `j, i` cover [16, M], but the result is declared [M, 16]: write `|i, j| ..`, or declare [16, M]
    "#);
    insta::assert_snapshot!(product("let y = compute(|j, i| x[[i, 0]] * w[[j, 0]] + q[[i]]); y"), @r#"
    3 | |j, i| => the axes `j, i` cover [16, M], but the result is declared [M, 16]: write `|i, j| ..`, or declare [16, M]
    3 | q => cannot find tensor `q`: declare a parameter, or compute it before (known: `w`, `x`)
    "#);
    // The second read is out of bounds for another reason, and the axes are in order.
    insta::assert_snapshot!(product("compute(|i, j| x[[i, 0]] * w[[j, 8]])"), @r#"
    3 | 8 => index `8` ranges over 8..=8, but `w` has extent 8 there: use `.get(..).unwrap_or(..)`
    "#);
    // Axes whose reads are proven to be in bounds are not reported as transposed.
    let guarded = "compute(|j, i| if i < M && j < N { x[[i, 0]] * w[[j, 0]] } else { 0.0 })";
    assert_eq!(product(guarded), "nothing is wrong");
}

#[test]
fn extents_that_cannot_be_told() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "let a = compute(|i, j, k| x[[i, j]] + x[[j, i]] + x[[0, k + 0]]);
         let b = compute(|i, _| x.get([i, 0]).unwrap_or(0.0));
         compute(|i| a[[i, i, i]])"), @r#"
    3 | i => the extent of `i` is M by `x` and 8 by `x`: declare the tensor, as in `let t: Tensor<f32, M, N> = compute(..)`
    3 | j => the extent of `j` is 8 by `x` and M by `x`: declare the tensor, as in `let t: Tensor<f32, M, N> = compute(..)`
    3 | k => the extent of this axis cannot be told from what it indexes: declare the tensor, as in `let t: Tensor<f32, M, N> = compute(..)`
    4 | _ => the extent of this axis cannot be told from what it indexes: declare the tensor, as in `let t: Tensor<f32, M, N> = compute(..)`
    "#);
}

#[test]
fn axes_that_index_nothing_but_what_depends_on_them() {
    for definition in [
        "compute(|t| mean(0..8, |d| t[[t, d]]))",
        "compute(|t| { let u = t + 1; u[[t]] })",
        "compute(|t| t.get([t]).unwrap_or(0.0))",
    ] {
        let text = body("Tensor<f32, M>", &format!("let a = {definition}; compute(|i| a[[i]])"));
        let wanted = "3 | t => this axis indexes no tensor: declare the tensor, as in \
                      `let t: Tensor<f32, M, N> = compute(..)`";
        assert_eq!(text.trim_end(), wanted, "{definition}");
    }
}

#[test]
fn types_that_do_not_go_together() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| x[[i, 0]] * 2 + n[[i]] + i * 1.0 + n[[i]] * 2.5 + (x[[i, 0]] > 0.0) + x[[i, 0]] as f64)"), @r#"
    3 | 2 => expected f32, found an integer: write `2.0`
    3 | i => expected f32, found an index: convert it with `as f32`
    3 | 2.5 => expected i32, found a float: convert the other side with `as f32`
    "#);
    insta::assert_snapshot!(body("Tensor<i32, M>",
        "compute(|i| if n[[i]] { exp(n[[i]]) as i32 } else { x[[i, 0]] })"), @r#"
    3 | n[[i]] => expected a condition, found i32: compare it
    3 | n[[i]] => `exp` applies to floats, and this is i32: convert it with `as f32`
    "#);
    insta::assert_snapshot!(body("Tensor<i8, M>",
        "compute(|i| 300 + (n[[i]] as bool) as i8 + 1u7 + (true as f32) as i8 + 300i8 + -128i8 + -true)"), @r#"
    3 | n[[i]] as bool => a number is no truth value: compare it, as in `x != 0`
    3 | 1u7 => `u7` is not an element type: did you mean `u8`?
    3 | true as f32 => a truth value becomes a float by choice: `if c { 1.0 } else { 0.0 }`
    3 | 300i8 => 300 does not fit into i8
    3 | -true => `-` applies to numbers; `!` negates a condition
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>", "compute(|i| i)"), @r#"
    3 | i => expected f32, found an index: convert it with `as f32`
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>", "compute(|i| n[[i]])"), @r#"
    3 | n[[i]] => expected f32, found i32: convert it with `as f32`
    "#);
    insta::assert_snapshot!(body("Tensor<f32, M>", "compute(|i| x[[i, 0.0]] + x[[i, eps]] + x[[i, i > 0]])"), @r#"
    3 | 0.0 => an index is an integer, not a float: write it without a point
    3 | eps => an index is an integer, not f32: convert it with `as i64`
    3 | i > 0 => an index is an integer, not bool: convert it with `as i64`
    "#);
}

#[test]
fn calls() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| exp() + exp(1.0, 2.0) + max(x[[i, 0]]) + x[[i, 0]].foo(1.0) + x.get([i, 0]) + x.get(i).unwrap_or(0.0)
             + x.get([i, 0]).unwrap() + x[[i, 0]].powi(n[[i]]) + x[[i, 0]].powi(99) + compute(|j| 1.0)
             + (|a| a)(1.0) + std::f32::exp(1.0) + x[[i, 0]].max::<f32>(1.0) + f32::FOO + x.get([i, 0]).unwrap_or(1))"), @r#"
    3 | exp() => `exp` takes 1 value, not 0
    3 | exp(1.0, 2.0) => `exp` takes 1 value, not 2
    3 | max(x[[i, 0]]) => `max` takes 2 values, not 1
    3 | foo => `foo` is not a tvmtune intrinsic, nor a function of this crate that is marked for it: write `#[autotune::inline]` before one, or bind it here, `let foo = |x| ..`
    3 | x.get([i, 0]) => a `.get([..])` is followed by `.unwrap_or(value)`
    3 | x.get(i) => indices stand in brackets, as in `x.get([i, j])`
    4 | x.get([i, 0]).unwrap() => expected `x.get([..]).unwrap_or(value)`
    4 | n[[i]] => `powi` takes a literal of at most 64; use `powf`
    4 | 99 => `powi` takes a literal of at most 64; use `powf`
    4 | compute => a tensor is defined in a statement of its own: `let t = compute(..);`
    5 | (|a| a) => expected the name of an intrinsic, as in `exp(x)`
    5 | std::f32::exp => functions of the language have no paths: write `exp(..)`
    5 | ::<f32> => there are no generics here: remove the `::<..>`
    5 | f32::FOO => `f32::FOO` is not part of the language; constants are written as `f32::INFINITY`, `i32::MAX` or `f32::consts::PI`
    5 | 1 => expected f32, found an integer: write `1.0`
    "#);
}

#[test]
fn rust_that_is_not_part_of_the_language() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "let mut a = 1.0;
         let (b, c) = (1.0, 2.0);
         let d;
         let Some(e) = 1.0 else { 2.0 };
         use std::fmt;
         println!(\"\");
         a + b;
         compute(|i| {
             for j in 0..3 {}
             let f = match i { _ => 1.0 };
             let g = &x;
             let k = *x;
             while true {}
             f + g + k + loop {} + vec![1.0] + return 1.0 + (i ^ 1) as f32 + (i & 1) as f32 + (i << 1) as f32
         })"), @r#"
    3 | mut a => `let` binds one name, for good: no `mut`, no patterns; sums are `sum(0..K, |k| ..)`
    4 | (b, c) => `let` binds one name, for good: no `mut`, no patterns; sums are `sum(0..K, |k| ..)`
    5 | let d; => a `let` needs a value
    6 | Some(e) => `let` binds one name, for good: no `mut`, no patterns; sums are `sum(0..K, |k| ..)`
    7 | use std::fmt; => only `let` statements stand before a value
    8 | println!(""); => macros are not part of the language
    9 | a + b; => this value is not used: bind it with `let`, or remove it
    11 | for j in 0..3 {} => there are no loops: `compute` covers every element, `sum` and its like every term, `scan` the steps of a recurrence
    12 | match i { _ => 1.0 } => there is no `match`: write `if .. else if .. else ..`
    13 | &x => there are no references: remove the `&`
    14 | x => `x` is a tensor: read an element, as in `x[[i, j]]`
    15 | while true {} => there are no loops: `compute` covers every element, `sum` and its like every term, `scan` the steps of a recurrence
    16 | loop {} => there are no loops: `compute` covers every element, `sum` and its like every term, `scan` the steps of a recurrence
    16 | vec![1.0] => macros are not part of the language
    16 | return 1.0 + (i ^ 1) as f32 + (i & 1) as f32 + (i << 1) as f32 => there is no `return`: the last expression is the value
    "#);
}

#[test]
fn rust_expressions_that_are_not_part_of_the_language() {
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| {
             let y = 1.0;
             y += 1.0;
             let a = if i > 0 { y };
             let b = if let 1 = i { 1.0 } else { 2.0 };
             let c = \"a\";
             let d = 0..3;
             let e = y + (|j| j);
             let f = x.len;
             let g = unsafe { y };
             let h = async { y };
             let k = y?;
             let l = [1.0];
             let m = (1.0, 2.0);
             let n = 'a: { y };
             let o = {};
             let p = { y; };
             let q = { let z = y; };
             let r = 1e999;
             let s = y + (y = 1.0);
             y;
             loop { y }
         })"), @r#"
    5 | y += 1.0; => nothing can be assigned: bind a new name with `let`
    6 | if => an `if` needs an `else`, since every element has a value: write `else { 0.0 }`, say
    7 | let 1 = i => patterns are not part of the language: compare instead
    8 | "a" => expected a number or a truth value, as in `1.0` or `true`
    9 | 0..3 => a range stands only as the first argument of a reduction
    10 | |j| j => a closure stands only in `compute(..)`, in a reduction, or bound by a `let`
    11 | x.len => there are no fields here
    12 | unsafe { y } => there is no `unsafe` here
    13 | async { y } => there is no `async` here
    14 | y? => nothing here can fail: remove the `?`
    15 | [1.0] => an element is one number, not several
    16 | (1.0, 2.0) => an element is one number, not several
    17 | 'a: { y } => blocks have no labels here
    18 | {} => expected a value in this block
    19 | ; => a block ends in a value, with no `;` after it
    20 | let z = y; => a block ends in a value, not in a `let`
    21 | 1e999 => this float is out of range
    22 | y = 1.0 => nothing can be assigned: bind a new name with `let`
    23 | y; => this value is not used: bind it with `let`, or remove it
    24 | loop { y } => there are no loops: `compute` covers every element, `sum` and its like every term, `scan` the steps of a recurrence
    "#);
}

#[test]
fn only_integers_have_bits() {
    insta::assert_snapshot!(body("Tensor<f32, M>", "compute(|i| {
        let b = (n[[i]] > 0) & (n[[i]] > 1);
        let c = (n[[i]] > 0) | true;
        let d = (n[[i]] > 0) ^ true;
        let e = true << 1;
        let f = x[[i, 0]] & 1;
        let g = n[[i]] & 1.0;
        let h = i << 1;
        let j = n[[i]] & i;
        let k = !i;
        let l = n[[i]] << 1_u8;
        let m = 1 << 60;
        let o = n[[i]] & 0xffff_ffff;
        !x[[i, 0]]
    })"), @r#"
    4 | & => for conditions, write `&&`
    5 | | => for conditions, write `||`
    6 | ^ => for conditions, write `!=`
    7 | << => integers have bits to shift, and conditions have none
    8 | x[[i, 0]] => integers have bits, and this is f32: convert it with `as i32`
    9 | 1.0 => integers have bits, and this is a float: convert it with `as i32`
    10 | i => indices have no bits of their own: convert them first, as in `i as i32`
    11 | i => indices have no bits of their own: convert them first, as in `i as i32`
    12 | !i => indices have no bits of their own: convert them first, as in `i as i32`
    13 | n[[i]] << 1_u8 => the sides have different types, i32 and u8: convert one with `as`
    14 | 1 << 60 => this integer is out of range: write the type of a side behind it, as in `1_i64`
    15 | 0xffff_ffff => 4294967295 does not fit into i32
    16 | x[[i, 0]] => expected a condition, found f32: compare it
    "#);
}

#[test]
fn large_programs_are_refused_not_suffered() {
    let doubling: String = (0..60).map(|n| format!("let a{} = a{n} * a{n};", n + 1)).collect();
    insta::assert_snapshot!(body("Tensor<f32, M>",
        &format!("compute(|i| {{ let a0 = x[[i, 0]]; {doubling} a60 }})")), @r#"
    3 | a11 * a11 => this expression is too large; bind parts of it to tensors of their own with `let t = compute(..)`
    "#);
    let nested = format!("{}i as f32{}", "(".repeat(150), ")".repeat(150));
    assert_eq!(body("Tensor<f32, M>", &format!("compute(|i| {nested})")), "nothing is wrong");
    let nested = format!("{}i as f32{}", "-(".repeat(150), ")".repeat(150));
    let said = body("Tensor<f32, M>", &format!("compute(|i| {nested})"));
    assert!(
        said.ends_with(" => this is nested too deeply; bind parts of it with `let`\n"),
        "{said}"
    );
    for index in ["9223372036854775807", "9223372036854775807usize", "9007199254740993"] {
        for text in [
            format!("compute(|i| x[[i, {index}]])"),
            format!("compute(|i| sum(0..={index}, |k| x[[i, k]]))"),
            format!("compute(|i| sum(0..{index}, |k| x[[i, k]]))"),
            format!("compute(|i| if i < {index} {{ x[[i, 0]] }} else {{ 0.0 }})"),
        ] {
            let said = body("Tensor<f32, M>", &text);
            assert!(said.contains("this is larger than any index"), "{text}: {said}");
        }
    }
    insta::assert_snapshot!(body("Tensor<f32, M>",
        "compute(|i| x[[i * 4000000000 * 4000000000, 9223372036854775808]])"), @r#"
    3 | i * 4000000000 * 4000000000 => this index could exceed 2^53
    3 | 9223372036854775808 => this integer is out of range
    "#);
}

#[test]
fn indices_are_short_enough_to_be_read_again() {
    let program = |index: &str| {
        format!(
            "#[autotune(dims(A = 1..=2, B = 1..=2, C = 1..=2, D = 1..=2, E = 1..=2, F = 1..=2))]
             fn f(x: Tensor<f32, A>, y: Tensor<f32, B, C, D, E, F>) -> Tensor<f32, A> {{
                 compute(|i| x.get([{index}]).unwrap_or(0.0))
             }}"
        )
    };
    let sum = "(i + A + B + C + D + E + F)";
    let quotients = |n| (0..n).fold("i".to_owned(), |it, _| format!("({it} / B + C)"));
    let within = [format!("{sum} * {sum}"), ["A"; 8].join(" * "), quotients(6)];
    for index in within {
        let dag = super::dag(&program(&index));
        let text = crate::dag::print::canonical(&dag);
        assert!(text.parse::<crate::dag::Dag>().is_ok(), "{index}");
    }
    for index in [format!("{sum} * {sum} * {sum}"), ["A"; 9].join(" * "), quotients(7)] {
        let text = errors(&program(&index));
        assert!(text.contains("this index has more than 64 terms, 8 factors"), "{index}: {text}");
    }
}

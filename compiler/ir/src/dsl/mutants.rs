//! Mutated programs: tokens of small programs, edited at random places, with extreme numbers.
//!
//! Tests of this crate and of those behind it draw the edits.
#![expect(clippy::unwrap_used, reason = "what tests call is part of a test")]

use proc_macro2::{Delimiter, Group, Literal, Punct, Spacing, TokenStream, TokenTree};

/// One edit: the token, the kind, and a choice.
pub type Edit = (i64, u8, usize);

/// The kinds of edits.
pub const N_KINDS: u8 = 9;

/// Programs to mutate: constructs of every kind, each small.
pub const SEEDS: [&str; 10] = [
    "#[autotune(dims(M = 1..=512, N = 15, K = 38), buckets(M = [1, 16]), tol(rel = 1e-3), accum = f64)]
     pub fn f(x: Tensor<f32, M, K>, w: Weight<f16, N, K>, b: Weight<f32, { N * 2 }>, eps: f32) -> Tensor<f32, M, N> {
         let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
         compute(|i, j| gelu(h[[i, j]]) * eps)
     }",
    "#[autotune(dims(B = 1..=8, C = 6, H = 5))]
     fn f(x: Tensor<f32, B, C, H>, w: Weight<f32, C, C, 3>) -> Tensor<f32, B, C, H> {
         compute(|n, o, y| sum((0..C, 0..3), |c, r| x.get([n, c, y + r - 1]).unwrap_or(0.0) * w[[o, c, r]]))
     }",
    "#[autotune(dims(R = 1..=9, D = 8))]
     fn f(x: Tensor<f32, R, D>, ids: Tensor<i32, R>) -> (Tensor<f32, R, D>, Tensor<i32, R>) {
         let m = compute(|r| max(0..D, |d| x[[r, d]]));
         let t = 1.0 / D as f32;
         (compute(|r, d| { let e = x[[r, d]] - m[[r]]; if r >= 1 && d < 4 { e.exp() } else { x[[r / 2, d % 8]] * t } }),
          compute(|r| argmax(0..D, |d| x.get([ids[[r]], d]).unwrap_or(f32::MIN)) as i32))
     }",
    "#[autotune(dims(M = 2..=8))]
     fn f(x: Tensor<i8, M>) -> Tensor<bool, M> {
         let s = compute(|i| prod(0..M, |k| (x[[k]] as i32).max(2).clamp(-1, 5)) % 7 / 2 - -3);
         compute(|i| any(0..=3, |k| s[[i]] == k as i32) || all(0..M, |k| x[[k]] != x[[i]].min(-1i8)))
     }",
    "fn f() -> Tensor<f64> { compute(|| 1.0 + 2.5f64.powi(-3)) }",
    "#[autotune(dims(M = 1..=2))] fn f(x: Tensor<u8, M, M, { M * M + M / 3 }>) -> Tensor<i64, M> {
         compute(|i| x[[i, M - 1 - i, i * M + i]] as i64 + i + (M % 2) as i64)
     }",
    "#[autotune(dims(T = 1..=8, S = 2 * T + 1..=99, B = (S + 3) / 4..=64), buckets(S = [7]))]
     fn f(x: Tensor<f32, S, { B * 4 }>) -> Tensor<f32, T> {
         compute(|t| x[[t * 2, S - 1]] + sum(0..S - T, |k| x[[t, k + T]]))
     }",
    "#[autotune(dims(T = 1..=2147483647, C = 256), buckets(T = [1, 65536]))]
     fn f(x: Tensor<f32, T, C>) -> Tensor<f32, T, C> {
         let m = compute(|c| mean(0..T, |t| x[[t, c]]));
         let r = compute(|t, c| mean(0..=t, |k| x[[k, c]]) - m[[c]]);
         compute(|t, c| r[[t, c]] / (m[[c]].abs() + 1.0))
     }",
    "#[autotune(dims(B = 1..=4, T = 1..=512, D = 8, N = 4))]
     fn f(x: Tensor<f32, B, T, D>, a: Weight<f16, D, N>, n: Tensor<i32, B>) -> Tensor<f32, B, T, D> {
         let s = compute(|b, t| scan(0..t, n[[b]], |m, k| if x[[b, k, 0]] > 0.5 { m + 1 } else { 0 }));
         let keep = |g: f32, v| sigmoid(g) * v;
         compute(|b, t, d| {
             sum(0..N, |j| scan(0..=t, 1.0, |h, k| keep(a[[d, j]] as f32, h) + x.get([b, k + 1, d]).unwrap_or(h)))
                 + scan(0..T, x[[b, 0, d]], |h, _| 0.5 * h) / (s[[b, t]] as f32)
         })
     }",
    "#[autotune(dims(M = 1..=4294967, N = 64, K = 4096))]
     fn f(x: Tensor<f32, M, K>, w: Weight<f32, N, K>, v: InOut<f32, M, N>) {
         let y = compute(|i, j| sum((0..K / 64, 0..64), |a, b| x[[i, a * 64 + b]] * w[[j, a * 64 + b]]));
         v = compute(|i, j| if i * 1024 + j < 2147483647 { y[[i, j]] } else { (i * N + j) as f32 });
     }",
];

/// Words to put in the place of others.
const WORDS: &str = "\
    0 1 2 3 1.5 1e308 -1 -9223372036854775808 9223372036854775807 -9223372036854775807 \
    4611686018427387904 9007199254740991 9007199254740992 9007199254740993 70368744177664 \
    1099511627776 8589934592 4294967295 4294967296 4294967297 4000000000 2147483646 2147483647 \
    2147483648 1073741824 65535 65536 32767 -2147483648 i64::MIN i x M K D compute sum max argmax logsumexp mean get \
    unwrap_or if else let mut as f32 i8 usize bool Tensor exp powi clamp round true dims \
    return loop match fn _ dyn";

const MARKS: [char; 16] =
    ['+', '-', '*', '/', '%', '<', '>', '=', '!', '.', ',', ';', '|', '&', '#', ':'];

fn word(n: usize) -> TokenStream {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let text = words[n % words.len()];
    match text.parse::<Literal>() {
        // Also those with a sign, as another macro may make them.
        Ok(literal) => TokenTree::from(literal).into(),
        Err(_) => text.parse().unwrap_or_default(),
    }
}

/// A number: an extreme of its type, a power of two or the number beside it.
fn number(n: usize) -> TokenTree {
    let extremes = [i64::MIN, i64::MAX, i64::from(i32::MAX), i64::from(u32::MAX), 0];
    let near = |it: i64| it.wrapping_add((n / 7 % 3) as i64 - 1);
    let value = match n % 7 {
        0 => near(extremes[n / 21 % extremes.len()]),
        1 => near(1_i64 << (n / 21 % 63)),
        // Most programs take these.
        _ => near(1_i64 << (n / 21 % 32)).max(1),
    };
    Literal::i64_unsuffixed(value).into()
}

/// The tokens with the edit applied at the `at`-th of them, counted in depth.
fn edit(
    tokens: TokenStream,
    at: &mut i64,
    kind: u8,
    pick: usize,
    pool: &[TokenTree],
) -> TokenStream {
    let mut edited = Vec::new();
    for token in tokens {
        // Numbers are the places of numbers only.
        *at -= i64::from(kind != 8 || matches!(token, TokenTree::Literal(_)));
        let here = *at == 0 && (kind != 8 || matches!(token, TokenTree::Literal(_)));
        let token = match token {
            TokenTree::Group(group) => {
                let inner = edit(group.stream(), at, kind, pick, pool);
                let delimiters =
                    [Delimiter::Parenthesis, Delimiter::Brace, Delimiter::Bracket, Delimiter::None];
                let delimiter =
                    if here && kind == 4 { delimiters[pick % 4] } else { group.delimiter() };
                TokenTree::Group(Group::new(delimiter, inner))
            }
            other => other,
        };
        if !here {
            edited.push(token);
            continue;
        }
        match kind {
            0 => {}
            1 => edited.extend([token.clone(), token]),
            2 => edited.extend(word(pick)),
            3 => {
                let mark = Punct::new(MARKS[pick % MARKS.len()], Spacing::Alone);
                edited.push(TokenTree::Punct(mark));
            }
            5 => edited.extend([token].into_iter().chain(word(pick))),
            6 => edited.push(pool[pick % pool.len()].clone()),
            7 => edited.extend([token, pool[pick % pool.len()].clone()]),
            8 if matches!(token, TokenTree::Literal(_)) => edited.push(number(pick)),
            _ => edited.push(token),
        }
    }
    edited.into_iter().collect()
}

fn flatten(tokens: TokenStream, all: &mut Vec<TokenTree>) {
    for token in tokens {
        all.push(token.clone());
        if let TokenTree::Group(group) = token {
            flatten(group.stream(), all);
        }
    }
}

/// The program with that number, edited.
///
/// # Panics
///
/// If there is no such program.
pub fn mutant(seed: usize, edits: &[Edit]) -> TokenStream {
    let mut tokens: TokenStream = SEEDS[seed].parse().unwrap();
    let mut pool = Vec::new();
    flatten(tokens.clone(), &mut pool);
    let n_literals = pool.iter().filter(|it| matches!(it, TokenTree::Literal(_))).count();
    for (at, kind, pick) in edits {
        let places = if *kind == 8 { n_literals.max(1) } else { pool.len() };
        let mut at = 1 + at % places as i64;
        tokens = edit(tokens, &mut at, *kind, *pick, &pool);
    }
    tokens
}

//! Mutated programs: no tokens make the elaboration panic, or take long.

use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};
use proptest::prelude::*;

use crate::dag::{print, verify};
use crate::dsl::{attribute, parse};

const SEEDS: [&str; 7] = [
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
];

/// Words to put in the place of others.
const WORDS: &str = "\
    0 1 9223372036854775807 1.5 1e308 4000000000 i x M K D compute sum max argmax mean get \
    unwrap_or if else let mut as f32 i8 usize bool Tensor exp powi clamp round true dims \
    return loop match fn _ dyn";

const MARKS: [char; 16] =
    ['+', '-', '*', '/', '%', '<', '>', '=', '!', '.', ',', ';', '|', '&', '#', ':'];

fn word(n: usize) -> TokenTree {
    let words: Vec<&str> = WORDS.split_whitespace().collect();
    let text = words[n % words.len()];
    match text.parse::<Literal>() {
        Ok(literal) => literal.into(),
        Err(_) => Ident::new(text, Span::call_site()).into(),
    }
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
        *at -= 1;
        let here = *at == 0;
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
            2 => edited.push(word(pick)),
            3 => {
                let mark = Punct::new(MARKS[pick % MARKS.len()], Spacing::Alone);
                edited.push(TokenTree::Punct(mark));
            }
            5 => edited.extend([token, word(pick)]),
            6 => edited.push(pool[pick % pool.len()].clone()),
            7 => edited.extend([token, pool[pick % pool.len()].clone()]),
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

#[derive(Debug, Default)]
struct Tally {
    parsed: usize,
    accepted: usize,
}

/// Reads mutated programs; what is accepted is well formed, and its text is stable.
fn read(seed: usize, edits: &[(i64, u8, usize)], tally: &mut Tally) {
    let mut tokens: TokenStream = SEEDS[seed].parse().unwrap();
    let mut pool = Vec::new();
    flatten(tokens.clone(), &mut pool);
    for (at, kind, pick) in edits {
        let mut at = 1 + at % pool.len() as i64;
        tokens = edit(tokens, &mut at, *kind, *pick, &pool);
    }
    let Ok(function) = syn::parse2::<syn::ItemFn>(tokens) else { return };
    tally.parsed += 1;
    let Some(Ok(options)) = attribute(&function).or(Some(Ok(TokenStream::new()))) else { return };
    match parse(options, &function) {
        Ok(program) => {
            tally.accepted += 1;
            let dag = crate::dsl::build(&program).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(verify(&dag), []);
            assert!(!print::canonical(&dag).is_empty() && !print::class(&dag).is_empty());
            let narrow: Vec<_> =
                dag.dims.iter().map(|it| crate::poly::Interval::point(it.range.hi)).collect();
            assert_eq!(verify(&dag.specialize(&narrow)), []);
        }
        Err(error) => assert!(error.into_iter().count() > 0),
    }
}

#[test]
fn mutated_programs_are_read_or_refused() {
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig {
        cases: 4000,
        failure_persistence: None,
        ..ProptestConfig::default()
    });
    let tally = std::cell::RefCell::new(Tally::default());
    let edits = proptest::collection::vec((0..10_000i64, 0..8u8, 0..10_000usize), 0..4);
    runner
        .run(&(0..SEEDS.len(), edits), |(seed, edits)| {
            read(seed, &edits, &mut tally.borrow_mut());
            Ok(())
        })
        .unwrap();
    let tally = tally.into_inner();
    assert!(tally.parsed > 800 && tally.accepted > 100, "{tally:?}: too few mutants are programs");
}

//! Programs with reductions that share one loop: masks of all kinds, several maxima, other types.

/// A program, the reductions that share the loop of the host, in order, and the root.
pub(super) struct Example {
    pub(super) text: &'static str,
    pub(super) online: &'static [&'static str],
    pub(super) host: &'static str,
    pub(super) root: &'static str,
}

pub(super) const EXAMPLES: [Example; 12] = [
    Example {
        text: "#[autotune(dims(H = 2, S = 1..=20, D = 5))]
        fn attention(q: Tensor<f32, H, S, D>, k: Tensor<f32, H, S, D>, v: Tensor<f32, H, S, D>,
            mask: Tensor<f32, S, S>) -> Tensor<f32, H, S, D> {
            let s = compute(|h, i, j| sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]) * 4.0 + mask[[i, j]]);
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            let o = compute(|h, i, d| sum(0..S, |j| e[[h, i, j]] * v[[h, j, d]]));
            compute(|h, i, d| o[[h, i, d]] / l[[h, i]])
        }",
        online: &["m", "l"],
        host: "o",
        root: "out",
    },
    Example {
        text: "#[autotune(dims(S = 1..=20, D = 5))]
        fn causal(q: Tensor<f32, S, D>, k: Tensor<f32, S, D>, v: Tensor<f32, S, D>)
            -> Tensor<f32, S, D> {
            let s = compute(|i, j| {
                let x = sum(0..D, |d| q[[i, d]] * k[[j, d]]);
                if j <= i { x } else { f32::NEG_INFINITY }
            });
            let m = compute(|i| max(0..S, |j| s[[i, j]]));
            let e = compute(|i, j| exp((s[[i, j]] - m[[i]]) * 2.5));
            let o = compute(|i, d| sum(0..S, |j| e[[i, j]] * v[[j, d]]));
            let l = compute(|i| sum(0..S, |j| e[[i, j]]));
            compute(|i, d| o[[i, d]] / l[[i]])
        }",
        online: &["m", "l"],
        host: "o",
        root: "out",
    },
    Example {
        text: "#[autotune(dims(B = 3, S = 1..=20))]
        fn logsumexp(x: Tensor<f32, B, S>, lengths: Tensor<i32, B>) -> Tensor<f32, B> {
            let s = compute(|b, j| if (j as i32) < lengths[[b]] { x[[b, j]] * 9.0 } else { f32::NEG_INFINITY });
            let m = compute(|b| max(0..S, |j| s[[b, j]]));
            let l = compute(|b| sum(0..S, |j| exp(s[[b, j]] - m[[b]])));
            compute(|b| m[[b]] + ln(l[[b]]))
        }",
        online: &["m"],
        host: "l",
        root: "out",
    },
    Example {
        text: "#[autotune(dims(N = 1..=7, S = 1..=33))]
        fn statistics(x: Tensor<f32, N, S>, w: Tensor<f32, S>, mask: Tensor<f32, S>) -> Tensor<f32, N> {
            let m = compute(|i| max(0..S, |j| x[[i, j]] + mask[[j]]));
            let least = compute(|i| min(0..S, |j| x[[i, j]]));
            let n = compute(|i| sum(0..S, |j| exp((x[[i, j]] + mask[[j]] - m[[i]]) / 0.5)));
            let l = compute(|i| sum(0..S, |j| exp(x[[i, j]] + mask[[j]] - m[[i]]) * w[[j]]));
            compute(|i| l[[i]] / n[[i]] + least[[i]])
        }",
        online: &["m", "least", "n"],
        host: "l",
        root: "out",
    },
    Example {
        text: "#[autotune(dims(S = 1..=20, D = 5))]
        fn halves(q: Tensor<f16, S, D>, k: Tensor<f16, S, D>, v: Tensor<f16, S, D>,
            mask: Tensor<f32, S, S>) -> Tensor<f16, S, D> {
            let s = compute(|i, j| sum(0..D, |d| q[[i, d]] * k[[j, d]]) + mask[[i, j]]);
            let m = compute(|i| max(0..S, |j| s[[i, j]]));
            let e = compute(|i, j| exp(s[[i, j]] - m[[i]]) as f16);
            let l = compute(|i| sum(0..S, |j| e[[i, j]] as f32));
            let o = compute(|i, d| sum(0..S, |j| e[[i, j]] * v[[j, d]]));
            compute(|i, d| (o[[i, d]] / l[[i]]) as f16)
        }",
        online: &["m", "l"],
        host: "o",
        root: "out",
    },
    Example {
        text: "#[autotune(dims(S = 1..=20, D = 5))]
        fn two_maxima(x: Tensor<f32, S, D>, y: Tensor<f32, S, D>, mask: Tensor<f32, S, D>) -> Tensor<f32, D> {
            let m = compute(|d| max(0..S, |j| x[[j, d]] * 7.0 + mask[[j, d]]));
            let n = compute(|d| max(0..S, |j| y[[j, d]]));
            let e = compute(|j, d| exp(x[[j, d]] * 7.0 + mask[[j, d]] - m[[d]]));
            let f = compute(|j, d| if j > 3 { exp(y[[j, d]] - n[[d]]) } else { 0.0 });
            let p = compute(|d| sum(0..S, |j| e[[j, d]] * 3.0 - e[[j, d]]));
            let l = compute(|d| sum(0..S, |j| f[[j, d]]));
            compute(|d| l[[d]] - p[[d]])
        }",
        online: &["m", "n", "p"],
        host: "l",
        root: "out",
    },
    // The quotient is in the summed expression: it is factored out.
    Example {
        text: "#[autotune(dims(S = 1..=20, D = 5))]
        fn probabilities(x: Tensor<f32, S, S>, v: Tensor<f32, S, D>, mask: Tensor<f32, S, S>)
            -> Tensor<f32, S, D> {
            let m = compute(|i| max(0..S, |j| x[[i, j]] * 4.0 + mask[[i, j]]));
            let e = compute(|i, j| exp(x[[i, j]] * 4.0 + mask[[i, j]] - m[[i]]));
            let l = compute(|i| sum(0..S, |j| e[[i, j]]));
            let p = compute(|i, j| e[[i, j]] / l[[i]] * 0.5);
            compute(|i, d| sum(0..S, |j| v[[j, d]] * p[[i, j]]))
        }",
        online: &["m", "l"],
        host: "out_sum",
        root: "out",
    },
    // Exponentials are stored in the type of their other factor.
    Example {
        text: "#[autotune(dims(S = 1..=20, D = 5))]
        fn narrow(x: Tensor<f32, S, S>, v: Tensor<f16, S, D>, mask: Tensor<f32, S, S>)
            -> Tensor<f16, S, D> {
            let m = compute(|i| max(0..S, |j| x[[i, j]] + mask[[i, j]]));
            let e = compute(|i, j| exp(x[[i, j]] + mask[[i, j]] - m[[i]]));
            let l = compute(|i| sum(0..S, |j| e[[i, j]]));
            let o = compute(|i, d| sum(0..S, |j| e[[i, j]] * v[[j, d]]));
            compute(|i, d| (o[[i, d]] / l[[i]]) as f16)
        }",
        online: &["m", "l"],
        host: "o",
        root: "out",
    },
    // There are more queries than keys, or fewer; some rows are masked as a whole.
    Example {
        text: "#[autotune(dims(S = 1..=20, T = 1..=20, D = 5))]
        fn shifted(q: Tensor<f32, S, D>, k: Tensor<f32, T, D>, v: Tensor<f32, T, D>)
            -> Tensor<f32, S, D> {
            let s = compute(|i, j| {
                let x = sum(0..D, |d| q[[i, d]] * k[[j, d]]);
                if j > i + T - S { f32::NEG_INFINITY } else { x * 3.0 }
            });
            let m = compute(|i| max(0..T, |j| s[[i, j]]));
            let e = compute(|i, j| exp(s[[i, j]] - m[[i]]));
            let l = compute(|i| sum(0..T, |j| e[[i, j]]));
            let o = compute(|i, d| sum(0..T, |j| e[[i, j]] * v[[j, d]]));
            compute(|i, d| o[[i, d]] / l[[i]])
        }",
        online: &["m", "l"],
        host: "o",
        root: "out",
    },
    // A mask that the program is given beside one that it makes, and one that ends elsewhere.
    Example {
        text: "#[autotune(dims(H = 2, S = 1..=20, D = 5))]
        fn masked_twice(x: Tensor<f32, H, S, S>, v: Tensor<f32, H, S, D>, mask: Tensor<f32, S, S>)
            -> Tensor<f32, H, S, D> {
            let s = compute(|h, i, j| {
                if j < 2 * i && j + 11 > i { x[[h, i, j]] * 5.0 + mask[[i, j]] } else { f32::NEG_INFINITY }
            });
            let m = compute(|h, i| max(0..S, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..S, |j| e[[h, i, j]]));
            let o = compute(|h, i, d| sum(0..S, |j| if j <= 2 * i + 3 { e[[h, i, j]] } else { 0.0 } * v[[h, j, d]]));
            compute(|h, i, d| o[[h, i, d]] / l[[h, i]])
        }",
        online: &["m", "l"],
        host: "o",
        root: "out",
    },
    // An online reduction ends later than the loop's own stage.
    Example {
        text: "#[autotune(dims(S = 1..=20))]
        fn two_masks(x: Tensor<f32, S, S>) -> Tensor<f32, S> {
            let s = compute(|i, j| if j <= i { x[[i, j]] * 5.0 } else { f32::NEG_INFINITY });
            let m = compute(|i| max(0..S, |j| s[[i, j]]));
            let more = compute(|i| sum(0..S, |j| if j < i + 9 { x[[i, j]] } else { 0.0 }));
            let l = compute(|i| sum(0..S, |j| exp(s[[i, j]] - m[[i]])));
            compute(|i| l[[i]] + more[[i]] + m[[i]])
        }",
        online: &["m", "more"],
        host: "l",
        root: "out",
    },
    // One of two online reductions is not masked: all iterations run.
    Example {
        text: "#[autotune(dims(S = 1..=20))]
        fn partly_masked(x: Tensor<f32, S, S>) -> Tensor<f32, S> {
            let s = compute(|i, j| if j <= i { x[[i, j]] * 5.0 } else { f32::NEG_INFINITY });
            let m = compute(|i| max(0..S, |j| s[[i, j]]));
            let all = compute(|i| sum(0..S, |j| x[[i, j]]));
            let l = compute(|i| sum(0..S, |j| exp(s[[i, j]] - m[[i]])));
            compute(|i| l[[i]] + all[[i]] + m[[i]])
        }",
        online: &["m", "all"],
        host: "l",
        root: "out",
    },
];

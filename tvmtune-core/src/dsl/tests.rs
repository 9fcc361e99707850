use super::*;

fn show(source: &str) {
    match program(source) {
        Ok(dag) => eprintln!("{}", crate::dag::print::canonical(&dag)),
        Err(error) => {
            for it in error {
                let (a, b) = (it.span().start(), it.span().end());
                eprintln!("{}:{}..{}:{} {it}", a.line, a.column, b.line, b.column);
            }
        }
    }
}

#[test]
fn look() {
    show(
        r#"
#[autotune(dims(M = 1..=512, N = 1536, K = 384), buckets(M = [1, 16, 64, 256, 512]))]
pub fn linear_gelu(
    x: Tensor<f32, M, K>, w: Weight<f32, N, K>, b: Weight<f32, N>,
) -> Tensor<f32, M, N> {
    let h = compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]) + b[[j]]);
    compute(|i, j| gelu(h[[i, j]]))
}"#,
    );
    show(
        r#"
#[autotune(dims(R = 1..=8192, D = 384))]
pub fn softmax(x: Tensor<f32, R, D>) -> Tensor<f32, R, D> {
    let m = compute(|r| max(0..D, |d| x[[r, d]]));
    let e = compute(|r, d| exp(x[[r, d]] - m[[r]]));
    let s = compute(|r| sum(0..D, |d| e[[r, d]]));
    compute(|r, d| e[[r, d]] / s[[r]])
}"#,
    );
    show(
        r#"
#[autotune(dims(B = 1..=8, C = 64, H = 56, W = 56, O = 64, T = 3))]
pub fn conv3x3(x: Tensor<f32, B, C, H, W>, w: Weight<f32, O, C, T, T>) -> Tensor<f32, B, O, H, W> {
    compute(|n, o, y, p| sum((0..C, 0..T, 0..T), |c, r, s| {
        x.get([n, c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
    }))
}"#,
    );
    show(
        r#"
#[autotune(dims(B = 1..=8, V = 64, H = 56))]
pub fn gather(ids: Tensor<i32, B>, t: Weight<f16, V, H>, eps: f32) -> (Tensor<f16, B, H>, Tensor<i32, B>, Tensor<f16, B>) {
    let g = compute(|b, h| t.get([ids[[b]], h]).unwrap_or(0.0) + t[[ids[[b]].clamp(0, V as i32 - 1), h]] * eps);
    (g, compute(|b| argmax(0..H, |h| t[[h, 0]] * 2.0) as i32),
    compute(|b| mean(0..H, |h| t[[0, h]]))
    )
}"#,
    );
    show(
        r#"
#[autotune(dims(B = 1..=8, V = 64, H = 56), bucket(B = [1]))]
pub fn bad(ids: Tensor<i32, B>, t: &Weight<f16, V, Q>, eps: f32) -> Tensor<f16, B, H, T> {
    let g = compute(|b, h| ids[[b, h]] + ids[[b + 1]]);
    compute(|b, h, t| foo(t) + wt[[b]] + g[[b, h]] + 2 * eps + 1.0 * h)
}"#,
    );
}

//! Crates as users have them, for measurements of whole tuning runs: a decoder of the Llama family,
//! programs of all kinds, and many small ones. `helper testbed <crate>` prints the source of one.

/// The names of the crates.
pub const CRATES: [&str; 5] = ["decoder-f32", "decoder-bf16", "decoder-i8", "mixed", "small"];

/// Returns the source of a crate; `None` if there is none of that name.
pub fn source(name: &str) -> Option<String> {
    let programs = match name {
        "decoder-f32" => decoder("f32"),
        "decoder-bf16" => decoder("bf16"),
        "decoder-i8" => decoder("i8"),
        "mixed" => mixed(),
        "small" => small(),
        _ => return None,
    };
    Some(format!("use tvmtune_runtime::autotune;\n{}", programs.concat()))
}

/// Prints one program: its dimensions, its signature without the name, and its body.
fn program(name: &str, dims: &str, signature: &str, body: &str) -> String {
    format!("\n#[autotune(dims({dims})]\npub fn {name}{signature} {{\n    {body}\n}}\n")
}

/// Prints a product with a weight, for prompts and single steps.
fn product(name: &str, dtype: &str, n: u32, k: u32) -> String {
    let dims = format!("M = 1..=512, N = {n}, K = {k}), buckets(M = [1, 16, 512])");
    let operands = format!("x: Tensor<{dtype}, M, K>, w: Weight<{dtype}, N, K>");
    match dtype {
        "i8" => program(
            name,
            &dims,
            &format!("({operands}, s: Weight<f32, N>) -> Tensor<f32, M, N>"),
            "let a = compute(|i, j| sum(0..K, |k| x[[i, k]] as i32 * w[[j, k]] as i32));
    compute(|i, j| a[[i, j]] as f32 * s[[j]])",
        ),
        _ => program(
            name,
            &dims,
            &format!("({operands}) -> Tensor<{dtype}, M, N>"),
            "compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))",
        ),
    }
}

/// The programs of a decoder with 32 heads of 64 and 8 of keys and values.
fn decoder(dtype: &str) -> Vec<String> {
    let float = if dtype == "i8" { "f32" } else { dtype };
    let products = [
        ("q_proj", 2048, 2048),
        ("k_proj", 512, 2048),
        ("v_proj", 512, 2048),
        ("o_proj", 2048, 2048),
        ("mlp_gate", 8192, 2048),
        ("mlp_up", 8192, 2048),
        ("mlp_down", 2048, 8192),
    ];
    let products = products.map(|(name, n, k)| product(name, dtype, n, k));
    products.into_iter().chain(rows(float)).chain(attention(float)).collect()
}

/// The programs of a decoder that work on rows.
fn rows(float: &str) -> Vec<String> {
    let dims = "M = 1..=512, D = 2048), buckets(M = [1, 16, 512])";
    let tensor = format!("Tensor<{float}, M, D>");
    let one = format!("(x: {tensor}) -> {tensor}");
    let two = format!("(x: {tensor}, y: {tensor}) -> {tensor}");
    let normalized = format!("(x: {tensor}, g: Weight<{float}, D>) -> {tensor}");
    let norm = |name: &str, scale: &str| {
        let body = format!(
            "let v = compute(|i| mean(0..D, |d| x[[i, d]] * x[[i, d]]));
    compute(|i, d| x[[i, d]] * rsqrt(v[[i]] + {scale}) * g[[d]])"
        );
        program(name, dims, &normalized, &body)
    };
    let wide = dims.replace("2048", "8192");
    let embed = format!("(ids: Tensor<i32, M>, t: Weight<{float}, 32000, D>) -> {tensor}");
    let best = "(x: Tensor<f32, M, V>) -> Tensor<i32, M>";
    vec![
        norm("input_norm", "1e-5"),
        norm("post_norm", "1e-6"),
        program("residual", dims, &two, "compute(|i, d| x[[i, d]] + y[[i, d]])"),
        program("silu_mul", &wide, &two, "compute(|i, d| silu(x[[i, d]]) * y[[i, d]])"),
        program("scale", dims, &one, "compute(|i, d| x[[i, d]] * 0.125)"),
        program("embed", dims, &embed, "compute(|i, d| t.get([ids[[i]], d]).unwrap_or(0.0))"),
        program(
            "best",
            "M = 1..=16, V = 32000)",
            best,
            "compute(|i| argmax(0..V, |v| x[[i, v]]) as i32)",
        ),
    ]
}

/// The programs of a decoder that work on heads.
fn attention(float: &str) -> Vec<String> {
    let heads = "M = 1..=512, H = 32), buckets(M = [1, 512])";
    let cached = "M = 1..=512, T = 1..=512, H = 32), buckets(M = [1, 512])";
    let (rows, scores) =
        (format!("Tensor<{float}, M, H, 64>"), format!("Tensor<{float}, H, M, T>"));
    let (queries, keys) =
        (format!("Tensor<{float}, H, M, 64>"), format!("Tensor<{float}, {{ H / 4 }}, T, 64>"));
    let rope = format!("(x: {rows}, c: Tensor<f32, M, 32>, s: Tensor<f32, M, 32>) -> {rows}");
    let turned = "compute(|i, h, d| {
        let other = x[[i, h, (d + 32) % 64]];
        let turned = if d < 32 { 0.0 - other } else { other };
        x[[i, h, d]] * c[[i, d % 32]] + turned * s[[i, d % 32]]
    })";
    let softmax = "let m = compute(|h, i| max(0..T, |j| x[[h, i, j]]));
    let e = compute(|h, i, j| exp(x[[h, i, j]] - m[[h, i]]));
    let s = compute(|h, i| sum(0..T, |j| e[[h, i, j]]));
    compute(|h, i, j| e[[h, i, j]] / s[[h, i]])";
    let dot = "compute(|h, i, j| sum(0..64, |d| q[[h, i, d]] * k[[h / 4, j, d]]))";
    let weighted = "compute(|i, h, d| sum(0..T, |j| p[[h, i, j]] * v[[h / 4, j, d]]))";
    vec![
        program("rope_q", heads, &rope, turned),
        program("rope_k", &heads.replace("32", "8"), &rope, turned),
        program("scores", cached, &format!("(q: {queries}, k: {keys}) -> {scores}"), dot),
        program("softmax", cached, &format!("(x: {scores}) -> {scores}"), softmax),
        program("context", cached, &format!("(p: {scores}, v: {keys}) -> {rows}"), weighted),
        program(
            "split_heads",
            heads,
            &format!("(x: {rows}) -> {queries}"),
            "compute(|h, i, d| x[[i, h, d]])",
        ),
    ]
}

/// 38 programs of all kinds, of one size each.
fn mixed() -> Vec<String> {
    let mut programs = Vec::new();
    for (n, k) in [(256, 256), (768, 768), (3072, 768), (768, 3072), (1000, 2048), (64, 4096)] {
        for m in [1, 128] {
            let dims = format!("M = {m}, N = {n}, K = {k})");
            let signature = "(x: Tensor<f32, M, K>, w: Weight<f32, N, K>) -> Tensor<f32, M, N>";
            let body = "compute(|i, j| sum(0..K, |k| x[[i, k]] * w[[j, k]]))";
            programs.push(program(&format!("dense_{m}_{n}_{k}"), &dims, signature, body));
        }
    }
    for (c, h, o) in [(3, 112, 32), (64, 56, 64), (128, 28, 128), (256, 14, 256)] {
        let dims = format!("C = {c}, H = {h}, O = {o})");
        let signature =
            "(x: Tensor<f32, C, H, H>, w: Weight<f32, O, C, 3, 3>) -> Tensor<f32, O, H, H>";
        let body = "compute(|o, y, p| sum((0..C, 0..3, 0..3), |c, r, s| {
        x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[o, c, r, s]]
    }))";
        programs.push(program(&format!("conv_{c}_{h}"), &dims, signature, body));
        let signature =
            "(x: Tensor<f32, C, H, H>, w: Weight<f32, C, 3, 3>) -> Tensor<f32, C, H, H>";
        let body = "compute(|c, y, p| sum((0..3, 0..3), |r, s| {
        x.get([c, y + r - 1, p + s - 1]).unwrap_or(0.0) * w[[c, r, s]]
    }))";
        programs.push(program(
            &format!("depthwise_{c}_{h}"),
            &format!("C = {c}, H = {h})"),
            signature,
            body,
        ));
    }
    let one = "(x: Tensor<f32, M, D>) -> Tensor<f32, M, D>";
    let row = "(x: Tensor<f32, M, D>) -> Tensor<f32, M>";
    let kinds = [
        (
            "softmax",
            one,
            "let m = compute(|i| max(0..D, |d| x[[i, d]]));
    let e = compute(|i, d| exp(x[[i, d]] - m[[i]]));
    let s = compute(|i| sum(0..D, |d| e[[i, d]]));
    compute(|i, d| e[[i, d]] / s[[i]])",
        ),
        (
            "layer_norm",
            one,
            "let c = compute(|i| mean(0..D, |d| x[[i, d]]));
    let v = compute(|i| mean(0..D, |d| (x[[i, d]] - c[[i]]) * (x[[i, d]] - c[[i]])));
    compute(|i, d| (x[[i, d]] - c[[i]]) * rsqrt(v[[i]] + 1e-5))",
        ),
        ("gelu", one, "compute(|i, d| gelu(x[[i, d]]))"),
        ("total", row, "compute(|i| sum(0..D, |d| x[[i, d]]))"),
        ("running", one, "compute(|i, d| sum(0..=d, |k| x[[i, k]]))"),
        ("norm", row, "compute(|i| sqrt(sum(0..D, |d| x[[i, d]] * x[[i, d]])))"),
        ("transpose", "(x: Tensor<f32, M, D>) -> Tensor<f32, D, M>", "compute(|d, i| x[[i, d]])"),
        (
            "columns",
            "(x: Tensor<f32, M, D>) -> Tensor<f32, D>",
            "compute(|d| sum(0..M, |i| x[[i, d]]))",
        ),
        ("peak", row, "compute(|i| max(0..D, |d| x[[i, d]].abs()))"),
    ];
    for (name, signature, body) in kinds {
        for (m, d) in [(128, 768), (1024, 1024)] {
            programs.push(program(
                &format!("{name}_{m}"),
                &format!("M = {m}, D = {d})"),
                signature,
                body,
            ));
        }
    }
    programs
}

/// 50 programs that take some microseconds each.
fn small() -> Vec<String> {
    let small = |n: u32| {
        let dims = format!("M = {}, D = {})", 4 + n % 7, 32 + 8 * n);
        let row = "(x: Tensor<f32, M, D>) -> Tensor<f32, M>";
        let one = "(x: Tensor<f32, M, D>) -> Tensor<f32, M, D>";
        let signature = match n % 5 {
            0 | 3 => row,
            _ => one,
        };
        let body = match n % 5 {
            0 => "compute(|i| sum(0..D, |d| x[[i, d]] * 0.5))",
            1 => "compute(|i, d| relu(x[[i, d]]) * 2.0)",
            2 => {
                "let m = compute(|i| max(0..D, |d| x[[i, d]]));
    compute(|i, d| exp(x[[i, d]] - m[[i]]))"
            }
            3 => "compute(|i| max(0..D, |d| x[[i, d]]))",
            _ => "compute(|i, d| tanh(x[[i, d]]) + 1.0)",
        };
        program(&format!("small_{n}"), &dims, signature, body)
    };
    (0..50).map(small).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_program_of_every_crate_means_something() {
        for (name, n_programs) in CRATES.into_iter().zip([20, 20, 20, 38, 50]) {
            let file = syn::parse_file(&source(name).unwrap()).unwrap();
            let functions = file.items.into_iter().filter_map(|it| match it {
                syn::Item::Fn(function) => Some(function),
                _ => None,
            });
            let mut n = 0;
            for mut function in functions {
                let attribute = function.attrs.pop().unwrap();
                let options = attribute.meta.require_list().unwrap().tokens.clone();
                let program = tvmtune_ir::dsl::parse(options, &function);
                let program = program.unwrap_or_else(|it| panic!("{name}: {it:?}"));
                tvmtune_ir::dsl::build(&program).unwrap_or_else(|it| panic!("{name}: {it:?}"));
                n += 1;
            }
            assert_eq!(n, n_programs, "{name}");
        }
    }
}

//! Texts of programs that several tests schedule.

/// Returns the text of the sum of the products of `x` and `w` over all dimensions that `y` lacks. The
/// first and the second `T` of `w` are a window that slides over `H` and `W` of `x`, which is padded.
/// Elements of `tf32` are rounded ones of `f32`.
pub(super) fn einsum(dims: &str, [x, w, y]: [&str; 3]) -> String {
    let ((x_type, x_dims), (_, w_dims), (y_type, y_dims)) = (parts(x), parts(w), parts(y));
    let mut window = ["r", "s"].into_iter();
    let w_index: Vec<String> = w_dims
        .iter()
        .map(|it| if *it == "T" { window.next().unwrap().to_owned() } else { it.to_lowercase() })
        .collect();
    let slides = w_dims.contains(&"T");
    let x_index = x_dims.iter().map(|it| match *it {
        "H" if slides => "h + r - 1".to_owned(),
        "W" if slides => "w + s - 1".to_owned(),
        it => it.to_lowercase(),
    });
    let x_index = x_index.collect::<Vec<_>>().join(", ");
    let zero = if x_type == "i8" { "0" } else { "0.0" };
    let x_read = match slides {
        true => format!("x.get([{x_index}]).unwrap_or({zero})"),
        false => format!("x[[{x_index}]]"),
    };
    let factor = |value: String| match x_type {
        "tf32" => format!("tf32({value})"),
        it if it == y_type => value,
        _ => format!("{value} as {y_type}"),
    };
    let (a, b) = (factor(x_read), factor(format!("weight[[{}]]", w_index.join(", "))));
    let reduced = w_dims.iter().zip(&w_index).filter(|it| !y_dims.contains(it.0));
    let (ranges, variables): (Vec<String>, Vec<&str>) =
        reduced.map(|(dim, variable)| (format!("0..{dim}"), variable.as_str())).unzip();
    let ranges = match ranges.as_slice() {
        [range] => range.clone(),
        _ => format!("({})", ranges.join(", ")),
    };
    let (index, variables) = (y_dims.join(", ").to_lowercase(), variables.join(", "));
    let [x, w] = [x, w].map(|it| it.replace("tf32", "f32"));
    format!(
        "#[autotune(dims({dims}))]
        fn einsum(x: {x}, weight: {w}) -> {y} {{
            compute(|{index}| sum({ranges}, |{variables}| {a} * {b}))
        }}"
    )
}

/// The type of elements and the dimensions in `Tensor<f32, M, N>`.
fn parts(tensor: &str) -> (&str, Vec<&str>) {
    let (_, inside) = tensor.trim_end_matches('>').split_once('<').unwrap();
    let (dtype, dims) = inside.split_once(", ").unwrap();
    (dtype, dims.split(", ").collect())
}

/// A product of matrices with a bias, of which the negative part is cut off.
pub(super) fn linear(dims: &str, dtype: &str) -> String {
    let product = match dtype {
        "tf32" => "tf32(x[[i, k]]) * tf32(w[[j, k]])",
        _ => "x[[i, k]] * w[[j, k]]",
    };
    let t = if dtype == "tf32" { "f32" } else { dtype };
    format!(
        "#[autotune(dims({dims}))]
        fn linear(x: Tensor<{t}, M, K>, w: Weight<{t}, N, K>, b: Weight<{t}, N>) -> Tensor<{t}, M, N> {{
            let h = compute(|i, j| sum(0..K, |k| {product}) + b[[j]]);
            compute(|i, j| max(h[[i, j]], 0.0))
        }}"
    )
}

/// Attention over keys whose number has a name, with the score of a query and a key made of their `dot`
/// product.
pub(super) fn attention(dims: &str, dtype: &str, keys: &str, score: &str) -> String {
    format!(
        "#[autotune(dims({dims}))]
        fn attention(q: Tensor<{dtype}, H, S, D>, k: Tensor<{dtype}, H, {keys}, D>,
            v: Tensor<{dtype}, H, {keys}, D>) -> Tensor<{dtype}, H, S, D> {{
            let s = compute(|h, i, j| {{
                let dot = sum(0..D, |d| q[[h, i, d]] * k[[h, j, d]]);
                {score}
            }});
            let m = compute(|h, i| max(0..{keys}, |j| s[[h, i, j]]));
            let e = compute(|h, i, j| exp(s[[h, i, j]] - m[[h, i]]));
            let l = compute(|h, i| sum(0..{keys}, |j| e[[h, i, j]]));
            compute(|h, i, d| sum(0..{keys}, |j| e[[h, i, j]] * v[[h, j, d]]) / l[[h, i]])
        }}"
    )
}

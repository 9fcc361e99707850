//! The text of a layer: each kind of layer as a program, for any shape.
//!
//! Images are square, `[channels, height, width]`; rows are `[tokens, features]`.

/// An image of so many channels, as high as it is wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Image {
    pub(crate) channels: u32,
    pub(crate) size: u32,
}

/// The epilogue of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    None,
    Relu,
    /// Of MobileNet: at most 6.
    Relu6,
    Gelu,
    Tanh,
}

/// A convolution, with its bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conv {
    /// Channels of the result.
    pub(crate) channels: u32,
    pub(crate) window: u32,
    pub(crate) stride: u32,
    pub(crate) padding: u32,
    /// Depthwise: each channel is convolved on its own.
    pub(crate) depthwise: bool,
    /// Adds a residual of the same shape to the result.
    pub(crate) residual: bool,
    pub(crate) activation: Activation,
}

/// The largest elements of windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MaxPool {
    pub(crate) window: u32,
    pub(crate) stride: u32,
    pub(crate) padding: u32,
    /// Ceiling mode: counts a last window that lies only partly inside.
    pub(crate) partial: bool,
}

/// Rows times a matrix, with a bias.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dense {
    pub(crate) rows: u32,
    pub(crate) inputs: u32,
    pub(crate) outputs: u32,
    pub(crate) residual: bool,
    pub(crate) activation: Activation,
}

/// The tokens of a transformer, and the heads that attend to them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Heads {
    pub(crate) tokens: u32,
    pub(crate) heads: u32,
    /// Features of a head.
    pub(crate) features: u32,
}

/// The name of a layer, and its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) name: String,
    pub(crate) source: String,
}

impl Activation {
    fn of(self, value: &str) -> String {
        match self {
            Self::None => value.to_owned(),
            Self::Relu => format!("relu({value})"),
            Self::Relu6 => format!("({value}).clamp(0.0, 6.0)"),
            Self::Gelu => format!("gelu({value})"),
            Self::Tanh => format!("tanh({value})"),
        }
    }

    fn suffix(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Relu => "_relu",
            Self::Relu6 => "_relu6",
            Self::Gelu => "_gelu",
            Self::Tanh => "_tanh",
        }
    }
}

impl Conv {
    /// The image that comes out.
    pub(crate) fn result(&self, x: Image) -> Image {
        let size = (x.size + 2 * self.padding - self.window) / self.stride + 1;
        Image { channels: self.channels, size }
    }

    pub(crate) fn text(&self, x: Image) -> Text {
        let (y, window) = (self.result(x), self.window);
        let mut name = if self.depthwise { "depthwise" } else { "conv" }.to_owned();
        name += &format!("{window}x{window}{}", stride_suffix(self.stride));
        if !self.depthwise {
            name += &format!("_{}", x.channels);
        }
        name += &format!("_{}_{}{}", y.channels, x.size, residual_suffix(self.residual));
        name += self.activation.suffix();

        let mut dims = format!("O = {}, H = {}, Y = {}", y.channels, x.size, y.size);
        let (mut extents, mut ranges) = (vec!["O"], Vec::new());
        if !self.depthwise {
            dims += &format!(", C = {}", x.channels);
            extents.push("C");
            ranges.push(("C", "c"));
        }
        if window > 1 {
            dims += &format!(", R = {window}");
            extents.extend(["R", "R"]);
            ranges.extend([("R", "r"), ("R", "s")]);
        }
        let channel = if self.depthwise { "o" } else { "c" };
        let place = (self.window, self.stride, self.padding);
        let element = window_element(channel, place, false, "0.0");
        let axes: Vec<&str> = ranges.iter().map(|it| it.1).collect();
        let weight = [&["o"][..], &axes[..]].concat().join(", ");
        let sum = sum(&ranges, &format!("{element} * w[[{weight}]]"));
        let residual = if self.residual { " + residual[[o, y, p]]" } else { "" };
        let body = self.activation.of(&format!("{sum} + b[[o]]{residual}"));
        let channels = if self.depthwise { "O" } else { "C" };
        let weight = extents.join(", ");
        let mut params = format!(
            "x: Tensor<f32, {channels}, H, H>, w: Weight<f32, {weight}>, b: Weight<f32, O>"
        );
        if self.residual {
            params += ", residual: Tensor<f32, O, Y, Y>";
        }
        let body = format!("compute(|o, y, p| {body})");
        function(name, &dims, &params, "Tensor<f32, O, Y, Y>", &body)
    }
}

impl MaxPool {
    /// The image that comes out.
    pub(crate) fn result(&self, x: Image) -> Image {
        let span = x.size + 2 * self.padding - self.window;
        let steps = if self.partial { span.div_ceil(self.stride) } else { span / self.stride };
        Image { size: steps + 1, ..x }
    }

    pub(crate) fn text(&self, x: Image) -> Text {
        let (y, window) = (self.result(x), self.window);
        let hangs_over = (y.size - 1) * self.stride + window > x.size + self.padding;
        let place = (window, self.stride, self.padding);
        let element = window_element("c", place, hangs_over, "f32::NEG_INFINITY");
        let (stride, padding) = (stride_suffix(self.stride), self.padding);
        let padding = if padding > 0 { format!("p{padding}") } else { String::new() };
        function(
            format!("max{window}x{window}{stride}{padding}_{}_{}", x.channels, x.size),
            &format!("C = {}, H = {}, Y = {}, R = {window}", x.channels, x.size, y.size),
            "x: Tensor<f32, C, H, H>",
            "Tensor<f32, C, Y, Y>",
            &format!("compute(|c, y, p| max((0..R, 0..R), |r, s| {element}))"),
        )
    }
}

impl Dense {
    pub(crate) fn text(&self) -> Text {
        let Self { rows, inputs, outputs, residual, activation } = *self;
        // A single row is a vector.
        let (extent, axis) = if rows > 1 { ("M, ", "i, ") } else { ("", "") };
        let (in_name, in_dims) = match rows > 1 {
            true => (format!("_{rows}"), format!("M = {rows}, ")),
            false => Default::default(),
        };
        let mut params =
            format!("x: Tensor<f32, {extent}K>, w: Weight<f32, N, K>, b: Weight<f32, N>");
        let mut value = format!("sum(0..K, |k| x[[{axis}k]] * w[[j, k]]) + b[[j]]");
        if residual {
            params += &format!(", residual: Tensor<f32, {extent}N>");
            value += &format!(" + residual[[{axis}j]]");
        }
        let suffix = format!("{}{}", residual_suffix(residual), activation.suffix());
        function(
            format!("dense{in_name}_{inputs}_{outputs}{suffix}"),
            &format!("{in_dims}K = {inputs}, N = {outputs}"),
            &params,
            &format!("Tensor<f32, {extent}N>"),
            &format!("compute(|{axis}j| {})", activation.of(&value)),
        )
    }
}

impl Heads {
    fn width(&self) -> u32 {
        self.heads * self.features
    }

    fn dims(&self) -> String {
        let Self { tokens, heads, features } = self;
        format!("S = {tokens}, A = {heads}, E = {features}, Q = {}", 3 * self.width())
    }

    fn name(&self, what: &str) -> String {
        format!("{what}_{}_{}_{}", self.heads, self.tokens, self.features)
    }

    /// Products of queries and keys, scaled; queries, keys and values lie side by side.
    pub(crate) fn scores(&self) -> Text {
        let (features, width) = (self.features, self.width());
        let scale = 1.0 / f64::from(features).sqrt();
        let query = format!("qkv[[i, a * {features} + e]]");
        let key = format!("qkv[[j, a * {features} + e + {width}]]");
        function(
            self.name("scores"),
            &self.dims(),
            "qkv: Tensor<f32, S, Q>",
            "Tensor<f32, A, S, S>",
            &format!("compute(|a, i, j| sum(0..E, |e| {query} * {key}) * {scale})"),
        )
    }

    /// The exponentials of scores, of which each row adds up to 1.
    pub(crate) fn softmax(&self) -> Text {
        let (rows, n) = (self.heads * self.tokens, self.tokens);
        let body = "let peak = compute(|i| max(0..N, |j| x[[i, j]]));
    let e = compute(|i, j| exp(x[[i, j]] - peak[[i]]));
    let total = compute(|i| sum(0..N, |j| e[[i, j]]));
    compute(|i, j| e[[i, j]] / total[[i]])";
        let (dims, x) = (format!("M = {rows}, N = {n}"), "Tensor<f32, M, N>");
        function(format!("softmax_{rows}_{n}"), &dims, &format!("x: {x}"), x, body)
    }

    /// Sums of values, weighted; the heads side by side again.
    pub(crate) fn context(&self) -> Text {
        let (features, past) = (self.features, 2 * self.width());
        let value = format!("qkv[[j, a * {features} + e + {past}]]");
        function(
            self.name("context"),
            &self.dims(),
            "weights: Tensor<f32, A, S, S>, qkv: Tensor<f32, S, Q>",
            "Tensor<f32, S, A, E>",
            &format!("compute(|i, a, e| sum(0..S, |j| weights[[a, i, j]] * {value}))"),
        )
    }
}

/// The mean of each channel.
pub(crate) fn global_mean(x: Image) -> Text {
    function(
        format!("mean_{}_{}", x.channels, x.size),
        &format!("C = {}, H = {}", x.channels, x.size),
        "x: Tensor<f32, C, H, H>",
        "Tensor<f32, C>",
        "compute(|c| mean((0..H, 0..H), |y, p| x[[c, y, p]]))",
    )
}

/// Rows, each brought to mean 0 and variance 1, then scaled and shifted.
pub(crate) fn layer_norm(rows: u32, features: u32) -> Text {
    function(
        format!("layernorm_{rows}_{features}"),
        &format!("M = {rows}, D = {features}"),
        "x: Tensor<f32, M, D>, gamma: Weight<f32, D>, beta: Weight<f32, D>",
        "Tensor<f32, M, D>",
        NORMALIZED,
    )
}

/// Embeddings of words, positions and segments, added and normalized. No segment is given: all
/// tokens are of the first.
pub(crate) fn embedding(tokens: u32, vocabulary: u32, positions: u32, features: u32) -> Text {
    let word = "words.get([ids[[i]], d]).unwrap_or(0.0)";
    let body = format!(
        "let x: Tensor<f32, M, D> = compute(|i, d| {word} + positions[[i, d]] + segments[[0, d]]);
    {NORMALIZED}"
    );
    function(
        format!("embedding_{tokens}_{features}"),
        &format!("M = {tokens}, V = {vocabulary}, P = {positions}, D = {features}"),
        "ids: Tensor<i32, M>, words: Weight<f32, V, D>, positions: Weight<f32, P, D>, \
         segments: Weight<f32, 2, D>, gamma: Weight<f32, D>, beta: Weight<f32, D>",
        "Tensor<f32, M, D>",
        &body,
    )
}

/// The mean of all rows, brought to length 1.
pub(crate) fn mean_normalized(rows: u32, features: u32) -> Text {
    let body = "let center = compute(|d| mean(0..M, |i| x[[i, d]]));
    let square = compute(|| sum(0..D, |d| center[[d]] * center[[d]]));
    compute(|d| center[[d]] * rsqrt(square[[]].max(1e-24)))";
    function(
        format!("mean_unit_{rows}_{features}"),
        &format!("M = {rows}, D = {features}"),
        "x: Tensor<f32, M, D>",
        "Tensor<f32, D>",
        body,
    )
}

/// The text that normalizes rows of `x`.
const NORMALIZED: &str = "let center = compute(|i| mean(0..D, |d| x[[i, d]]));
    let variance =
        compute(|i| mean(0..D, |d| (x[[i, d]] - center[[i]]) * (x[[i, d]] - center[[i]])));
    compute(|i, d| {
        (x[[i, d]] - center[[i]]) * rsqrt(variance[[i]] + 1e-12) * gamma[[d]] + beta[[d]]
    })";

/// The element under place `r, s` of the window of `y, p`; asked for where there may be none.
fn window_element(
    channel: &str,
    (window, stride, padding): (u32, u32, u32),
    hangs_over: bool,
    outside: &str,
) -> String {
    let place = |at: &str, in_window: &str| {
        let mut place = at.to_owned();
        if stride > 1 {
            place += &format!(" * {stride}");
        }
        if window > 1 {
            place += &format!(" + {in_window}");
        }
        if padding > 0 {
            place += &format!(" - {padding}");
        }
        place
    };
    let index = format!("[{channel}, {}, {}]", place("y", "r"), place("p", "s"));
    match padding > 0 || hangs_over {
        true => format!("x.get({index}).unwrap_or({outside})"),
        false => format!("x[{index}]"),
    }
}

/// A sum over axes of those extents.
fn sum(ranges: &[(&str, &str)], value: &str) -> String {
    let all =
        |of: &dyn Fn(&(&str, &str)) -> String| ranges.iter().map(of).collect::<Vec<_>>().join(", ");
    let (extents, axes) = (all(&|it| format!("0..{}", it.0)), all(&|it| it.1.to_owned()));
    let extents = if ranges.len() > 1 { format!("({extents})") } else { extents };
    format!("sum({extents}, |{axes}| {value})")
}

fn stride_suffix(stride: u32) -> String {
    if stride > 1 { format!("s{stride}") } else { String::new() }
}

fn residual_suffix(residual: bool) -> &'static str {
    if residual { "_add" } else { "" }
}

fn function(name: String, dims: &str, params: &str, result: &str, body: &str) -> Text {
    let source =
        format!("#[autotune(dims({dims}))]\nfn {name}({params}) -> {result} {{\n    {body}\n}}\n");
    Text { name, source }
}

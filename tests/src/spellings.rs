//! A generator of spellings: operators as different people write them, by rules that do not change what
//! they compute.
//!
//! A spelling is a base with some rules applied: another order of the axes of a sum, axes flattened or split,
//! a condition instead of `get`, quotients instead of remainders, a weight in another layout, a padded copy.

use std::fmt::Write;

/// A convolution over two axes, or a transposed one.
#[derive(Clone, Copy, Debug)]
pub struct Convolution {
    pub name: &'static str,
    pub is_transposed: bool,
    pub groups: u64,
    /// Channels of the operand and of the result.
    pub channels: [u64; 2],
    /// Extent of both axes of the operand.
    pub extent: u64,
    /// Taps along each axis.
    pub taps: u64,
    pub stride: u64,
    pub dilation: u64,
    pub padding: u64,
}

/// The order of the axes of a sum over channels and taps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    ChannelsFirst,
    TapsFirst,
    Columns,
    FlatTaps,
    Flat,
}

/// The axes of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axes {
    Own,
    FlatSpace,
    SplitChannels,
}

/// The way to leave out what is outside of an operand, or between its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outside {
    Get,
    If,
    IfNot,
    /// A padded copy first; of a transposed convolution, `u - stride * (u / stride)` for the remainder.
    Other,
}

/// The rules that a spelling applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    pub reduction: Reduction,
    pub axes: Axes,
    pub outside: Outside,
    /// The weight comes first in products.
    pub weight_first: bool,
    /// The weight has its output channels last.
    pub transposed_weight: bool,
}

/// An operator in one spelling.
#[derive(Clone, Debug)]
pub struct Spelling {
    /// The rule that it differs by from the first.
    pub name: String,
    /// The function, with its attribute.
    pub text: String,
    /// The terms of sums come in the order of the first spelling.
    pub keeps_bits: bool,
}

/// Changes one rule.
type Change = fn(&mut Rules);

const CHANGES: [(&str, Change); 12] = [
    ("base", |_| {}),
    ("taps_first", |it| it.reduction = Reduction::TapsFirst),
    ("columns_first", |it| it.reduction = Reduction::Columns),
    ("flat_taps", |it| it.reduction = Reduction::FlatTaps),
    ("flat_sum", |it| it.reduction = Reduction::Flat),
    ("flat_space", |it| it.axes = Axes::FlatSpace),
    ("split_channels", |it| it.axes = Axes::SplitChannels),
    ("if", |it| it.outside = Outside::If),
    ("if_not", |it| it.outside = Outside::IfNot),
    ("other", |it| it.outside = Outside::Other),
    ("weight_first", |it| it.weight_first = true),
    ("transposed_weight", |it| it.transposed_weight = true),
];

/// The convolutions to spell; those of small extents are for interpreters.
pub fn convolutions(is_small: bool) -> Vec<Convolution> {
    let plain = Convolution {
        name: "conv3x3",
        is_transposed: false,
        groups: 1,
        channels: [64, 64],
        extent: 56,
        taps: 3,
        stride: 1,
        dilation: 1,
        padding: 1,
    };
    let transposed = Convolution { is_transposed: true, extent: 28, stride: 2, ..plain };
    let all = [
        plain,
        Convolution { name: "dilated", dilation: 2, padding: 2, ..plain },
        Convolution { name: "strided", stride: 2, ..plain },
        Convolution { name: "grouped", groups: 4, ..plain },
        Convolution { name: "depthwise", groups: 64, ..plain },
        Convolution { name: "transposed3x3", ..transposed },
        Convolution { name: "transposed4x4", taps: 4, ..transposed },
        Convolution { name: "transposed_grouped", groups: 4, taps: 4, ..transposed },
    ];
    let small = |it: Convolution| Convolution {
        groups: if it.groups == 64 { 8 } else { it.groups.min(2) },
        channels: [8, 8],
        extent: if it.is_transposed { 5 } else { 9 },
        ..it
    };
    all.map(|it| if is_small { small(it) } else { it }).to_vec()
}

impl Convolution {
    /// The spellings of it: each rule alone, and some of several rules.
    pub fn spellings(&self) -> Vec<Spelling> {
        let base = Rules {
            reduction: Reduction::ChannelsFirst,
            axes: Axes::Own,
            outside: Outside::Get,
            weight_first: false,
            transposed_weight: false,
        };
        let mut found = Vec::new();
        let mut add = |names: &[usize]| {
            let mut rules = base;
            names.iter().for_each(|n| CHANGES[*n].1(&mut rules));
            let name: Vec<&str> = names.iter().map(|n| CHANGES[*n].0).collect();
            let name = name.join("_and_");
            let keeps_order = !matches!(rules.reduction, Reduction::TapsFirst | Reduction::Columns);
            // Phases of terms with more conditions than theirs are other stages.
            let keeps_bits = keeps_order && !(self.is_transposed && rules.outside == Outside::If);
            found.push(Spelling { text: self.text(&name, rules), name, keeps_bits });
        };
        (0..CHANGES.len()).for_each(|n| add(&[n]));
        for names in [[1, 7], [3, 5], [4, 8], [2, 11], [6, 9], [10, 8]] {
            add(&names);
        }
        found
    }

    /// Extents of the result.
    fn result(&self) -> u64 {
        match self.is_transposed {
            true => self.extent * self.stride,
            false => self.extent / self.stride,
        }
    }

    fn text(&self, name: &str, rules: Rules) -> String {
        let Self { groups, channels: [n_in, n_out], extent, taps, .. } = *self;
        let (n_summed, result) = (n_in / groups, self.result());
        let (ranges, c, r, s) = reduction(rules.reduction, n_summed, taps);
        let (axes, shape, [o, y, p]) = match rules.axes {
            Axes::Own => (
                "n, o, y, p",
                format!("2, {n_out}, {result}, {result}"),
                ["o", "y", "p"].map(str::to_owned),
            ),
            Axes::FlatSpace => (
                "n, o, q",
                format!("2, {n_out}, {}", result * result),
                ["o".to_owned(), format!("(q / {result})"), format!("(q % {result})")],
            ),
            Axes::SplitChannels => (
                "n, a, b, y, p",
                format!("2, {}, 4, {result}, {result}", n_out / 4),
                ["(4 * a + b)", "y", "p"].map(str::to_owned),
            ),
        };
        let channel = match groups {
            1 => c.clone(),
            _ => format!("{o} / {} * {n_summed} + {c}", n_out / groups),
        };
        let (w, of_weight) = match rules.transposed_weight {
            false => {
                (format!("w[[{o}, {c}, {r}, {s}]]"), format!("{n_out}, {n_summed}, {taps}, {taps}"))
            }
            true => {
                (format!("w[[{r}, {s}, {c}, {o}]]"), format!("{taps}, {taps}, {n_summed}, {n_out}"))
            }
        };
        let place = self.place(rules.outside, [&y, &r], [&p, &s], &channel);
        let product = match rules.weight_first {
            false => format!("{} * {w}", place.element),
            true => format!("{w} * {}", place.element),
        };
        let term = match (place.condition.is_empty(), rules.outside) {
            (true, _) => product,
            (false, Outside::IfNot) => {
                format!("if !({}) {{ 0.0 }} else {{ {product} }}", place.condition)
            }
            (false, _) => format!("if {} {{ {product} }} else {{ 0.0 }}", place.condition),
        };
        let function = format!("{}_{name}", self.name);
        let mut text = String::new();
        let _ = write!(
            text,
            "#[autotune]\npub fn {function}(\n    x: Tensor<f32, 2, {n_in}, {extent}, {extent}>,\n    \
             w: Weight<f32, {of_weight}>,\n) -> Tensor<f32, {shape}> {{\n{}    \
             compute(|{axes}| sum({ranges} {term}))\n}}\n",
            place.before
        );
        text
    }

    /// The element of the operand that a tap reads, and where it does.
    fn place(&self, outside: Outside, row: [&str; 2], column: [&str; 2], channel: &str) -> Place {
        let Self { extent, taps, stride, dilation, padding, .. } = *self;
        let mut before = String::new();
        if self.is_transposed {
            // An index is divided where it is not negative.
            let more = taps.div_ceil(stride) * dilation;
            let at = |[of, tap]: [&str; 2]| {
                format!("({of} + {} - {dilation} * {tap})", padding + more * stride)
            };
            let [u, v] = [row, column].map(at);
            let divides = |u: &str| match outside {
                Outside::Other => format!("{u} - {stride} * ({u} / {stride}) == 0"),
                Outside::IfNot => format!("!({u} % {stride} != 0)"),
                Outside::Get | Outside::If => format!("{u} % {stride} == 0"),
            };
            let mut condition = format!("{} && {}", divides(&u), divides(&v));
            let element = match outside {
                Outside::If => {
                    for it in [&u, &v] {
                        let _ = write!(
                            condition,
                            " && {it} / {stride} >= {more} && {it} / {stride} < {}",
                            extent + more
                        );
                    }
                    format!("x[[n, {channel}, {u} / {stride} - {more}, {v} / {stride} - {more}]]")
                }
                _ => format!(
                    "x.get([n, {channel}, {u} / {stride} - {more}, {v} / {stride} - {more}]).unwrap_or(0.0)"
                ),
            };
            return Place { before, condition, element };
        }
        let at = |[of, tap]: [&str; 2]| format!("{stride} * {of} + {dilation} * {tap}");
        let [u, v] = [row, column].map(at);
        let (condition, element) = match outside {
            Outside::Get => (
                String::new(),
                format!("x.get([n, {channel}, {u} - {padding}, {v} - {padding}]).unwrap_or(0.0)"),
            ),
            Outside::If | Outside::IfNot => {
                let inside = |it: &str| format!("{it} >= {padding} && {it} < {}", extent + padding);
                (
                    format!("{} && {}", inside(&u), inside(&v)),
                    format!("x[[n, {channel}, {u} - {padding}, {v} - {padding}]]"),
                )
            }
            Outside::Other => {
                let (n_in, padded) = (self.channels[0], extent + 2 * padding);
                before = format!(
                    "    let z: Tensor<f32, 2, {n_in}, {padded}, {padded}> = compute(|n, c, y, p| \
                     x.get([n, c, y - {padding}, p - {padding}]).unwrap_or(0.0));\n"
                );
                (String::new(), format!("z[[n, {channel}, {u}, {v}]]"))
            }
        };
        Place { before, condition, element }
    }
}

/// An element that a term reads: statements before the sum, the condition under which the term counts, and
/// the element.
struct Place {
    before: String,
    condition: String,
    element: String,
}

/// The ranges and variables of a sum, and the channel and the taps by these.
fn reduction(order: Reduction, channels: u64, taps: u64) -> (String, String, String, String) {
    let [c, r, s] = ["c", "r", "s"].map(str::to_owned);
    let (of_c, of_taps) = (format!("0..{channels}"), format!("0..{taps}"));
    match order {
        Reduction::ChannelsFirst => (format!("({of_c}, {of_taps}, {of_taps}), |c, r, s|"), c, r, s),
        Reduction::TapsFirst => (format!("({of_taps}, {of_taps}, {of_c}), |r, s, c|"), c, r, s),
        Reduction::Columns => (format!("({of_taps}, {of_c}, {of_taps}), |s, c, r|"), c, r, s),
        Reduction::FlatTaps => (
            format!("({of_c}, 0..{}), |c, t|", taps * taps),
            c,
            format!("(t / {taps})"),
            format!("(t % {taps})"),
        ),
        Reduction::Flat => (
            format!("0..{}, |k|", channels * taps * taps),
            format!("(k / {})", taps * taps),
            format!("(k / {taps} % {taps})"),
            format!("(k % {taps})"),
        ),
    }
}

/// Spellings of products of a triangle or a band and a matrix, of `extent` rows.
pub fn triangles(extent: u64) -> Vec<(&'static str, Vec<Spelling>)> {
    let band = extent / 8;
    let of_triangle = [
        ("base", "sum(0..=i, |k| a[[i, k]] * b[[k, j]])".to_owned()),
        ("end", "sum(0..i + 1, |k| a[[i, k]] * b[[k, j]])".to_owned()),
        (
            "if",
            format!("sum(0..{extent}, |k| if k <= i {{ a[[i, k]] * b[[k, j]] }} else {{ 0.0 }})"),
        ),
        (
            "if_not",
            format!("sum(0..{extent}, |k| if k > i {{ 0.0 }} else {{ a[[i, k]] * b[[k, j]] }})"),
        ),
        (
            "factor",
            format!("sum(0..{extent}, |k| (if k <= i {{ a[[i, k]] }} else {{ 0.0 }}) * b[[k, j]])"),
        ),
        ("second_first", "sum(0..=i, |k| b[[k, j]] * a[[i, k]])".to_owned()),
        (
            "flat",
            format!(
                "sum((0..{}, 0..8), |l, m| if 8 * l + m <= i {{ a[[i, 8 * l + m]] * b[[8 * l + m, j]] }} else {{ 0.0 }})",
                extent / 8
            ),
        ),
    ];
    let of_band = [
        ("base", format!("if k <= i && k + {band} > i {{ a[[i, k]] * b[[k, j]] }} else {{ 0.0 }}")),
        (
            "if_not",
            format!("if k > i || k + {band} <= i {{ 0.0 }} else {{ a[[i, k]] * b[[k, j]] }}"),
        ),
        (
            "nested",
            format!(
                "if k <= i {{ if i < k + {band} {{ a[[i, k]] * b[[k, j]] }} else {{ 0.0 }} }} else {{ 0.0 }}"
            ),
        ),
    ];
    let spelled = |operator: &str, name: &str, sum: &str| Spelling {
        name: name.to_owned(),
        text: format!(
            "#[autotune]\npub fn {operator}_{name}(\n    a: Tensor<f32, {extent}, {extent}>,\n    \
             b: Tensor<f32, {extent}, {extent}>,\n) -> Tensor<f32, {extent}, {extent}> {{\n    compute(|i, j| {sum})\n}}\n"
        ),
        keeps_bits: true,
    };
    vec![
        (
            "triangle",
            of_triangle.iter().map(|(name, sum)| spelled("triangle", name, sum)).collect(),
        ),
        (
            "band",
            of_band
                .iter()
                .map(|(name, term)| spelled("band", name, &format!("sum(0..{extent}, |k| {term})")))
                .collect(),
        ),
    ]
}

/// All operators with their spellings, by name; small ones for interpreters.
pub fn operators(is_small: bool) -> Vec<(&'static str, Vec<Spelling>)> {
    let mut all: Vec<_> =
        convolutions(is_small).iter().map(|it| (it.name, it.spellings())).collect();
    all.extend(triangles(if is_small { 24 } else { 512 }));
    all
}

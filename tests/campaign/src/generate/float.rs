//! Expressions of floating-point types.

use super::scope::{Scope, axes_of};
use super::{Flavor, Writer};

/// Functions of one argument that are continuous and near 1 where their argument is.
const SMOOTH: &[&str] = &[
    "exp",
    "tanh",
    "erf",
    "gelu",
    "gelu_tanh",
    "silu",
    "sigmoid",
    "sin",
    "cos",
    "relu",
    "abs",
    "sqrt",
    "rsqrt",
    "ln",
    "exp2",
    "log2",
    "exp_m1",
    "ln_1p",
    "recip",
    "softplus",
    "mish",
    "hardswish",
    "hardsigmoid",
    "leaky_relu",
    "atan",
    "tan",
    "asin",
    "acos",
    "sinh",
    "cosh",
    "asinh",
    "acosh",
    "atanh",
    "log10",
    "cbrt",
];

/// Functions of one argument that are exact.
const EXACT: &[&str] = &[
    "abs",
    "relu",
    "floor",
    "ceil",
    "round",
    "round_ties_even",
    "tf32",
    "trunc",
    "fract",
    "signum",
];

impl Writer<'_> {
    /// An expression of type `f32` or `f64`.
    pub(super) fn float(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> String {
        if depth == 0 || self.chance(0.1) {
            return self.float_leaf(scope, ty);
        }
        if scope.reduces
            && self.chance(0.3)
            && let Some(text) = self.reduced_float(scope, ty)
        {
            return text;
        }
        match self.random.below(13) {
            12 => self.own_function(scope, ty, depth),
            0..=3 => self.float_sum(scope, ty, depth),
            4..=5 => self.float_product(scope, ty, depth),
            6 => {
                let (a, b) = self.floats(scope, ty, depth - 1);
                let name = self.pick(&["max", "min"]);
                if self.chance(0.5) {
                    format!("{name}({a}, {b})")
                } else {
                    format!("({a}).{name}({b})")
                }
            }
            7 => {
                let condition = self.condition(scope, 1);
                let (a, b) = self.floats(scope, ty, depth - 1);
                if self.chance(0.3) {
                    let other = self.condition(scope, 1);
                    let c = self.float_leaf(scope, ty);
                    return format!(
                        "(if {condition} {{ {a} }} else if {other} {{ {c} }} else {{ {b} }})"
                    );
                }
                format!("(if {condition} {{ {a} }} else {{ {b} }})")
            }
            8 => {
                let a = self.float(scope, ty, depth - 1);
                if self.chance(0.5) {
                    format!("(-({a}))")
                } else {
                    format!("({a}).clamp(-8.0, 8.0)")
                }
            }
            _ => self.call(scope, ty, depth),
        }
    }

    fn floats(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> (String, String) {
        (self.float(scope, ty, depth), self.float(scope, ty, depth))
    }

    fn float_sum(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> String {
        let (a, b) = self.floats(scope, ty, depth - 1);
        let sign = self.pick(&["+", "-"]);
        format!("({a} {sign} {b})")
    }

    fn float_product(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> String {
        match self.flavor {
            // Sums of products of products would leave the whole numbers that are exact.
            Flavor::Exact => {
                let (a, b) = (self.float_leaf(scope, ty), self.float_leaf(scope, ty));
                match self.random.below(6) {
                    0 => format!("({a} * 0.5)"),
                    1 => format!("({a}).mul_add(2.0, {b})"),
                    2 => format!("({a}).powi(2)"),
                    _ => format!("({a} * {b})"),
                }
            }
            Flavor::Smooth => {
                let (a, b) = self.floats(scope, ty, depth - 1);
                match self.random.below(8) {
                    0 => format!("({a} / ({b} * {b} + 1.0))"),
                    1 => format!("({a}).mul_add(0.5, {b})"),
                    2 => format!("({a}).clamp(-4.0, 4.0).powi({})", 1 + self.random.below(3)),
                    3 => format!("pow(({a}).abs().min(4.0) + 0.5, 1.5)"),
                    4 => format!("(({a}).abs().min(4.0) + 0.5).powf(({b}).clamp(-2.0, 2.0))"),
                    _ => format!("({a} * {b})"),
                }
            }
            Flavor::Extreme => {
                let (a, b) = self.floats(scope, ty, depth - 1);
                match self.random.below(8) {
                    0 => format!("({a} % {b})"),
                    1 => format!("pow({a}, {b})"),
                    2..=3 => format!("({a} / {b})"),
                    4 => format!("({a}).powi({})", self.pick(&["0", "1", "3", "-2", "17"])),
                    5 => format!("({a}).mul_add({b}, {a})"),
                    _ => format!("({a} * {b})"),
                }
            }
        }
    }

    /// A function that a block binds, called once, twice, or of what it gives.
    fn own_function(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> String {
        let f = self.name("f");
        let (a, b) = self.floats(scope, ty, depth - 1);
        let bodies: &[&str] = match self.flavor {
            Flavor::Exact => &["p + p", "p.max(-p) - 1.0", "if p > 1.0 { p } else { -p }"],
            Flavor::Smooth => &["0.5 * p * sigmoid(p)", "p.tanh() + 0.25 * p", "p.min(1.0) - 0.5"],
            Flavor::Extreme => &["p * p", "p / (p + 1.0)", "{ let q = p - 1.0; q * exp(q) }"],
        };
        let body = self.pick(bodies);
        let closure = match self.random.below(3) {
            0 => format!("|p: {ty}| {body}"),
            1 => format!("|p: {ty}| -> {ty} {{ {body} }}"),
            _ => format!("|p| {body}"),
        };
        let called = match self.random.below(3) {
            0 => format!("{f}({a})"),
            1 => format!("{f}({a}) + {f}({b})"),
            _ => format!("{f}({f}({a}))"),
        };
        format!("({{ let {f} = {closure}; {called} }})")
    }

    fn call(&mut self, scope: &Scope, ty: &'static str, depth: u32) -> String {
        let names: Vec<&str> = match self.flavor {
            Flavor::Exact => EXACT.to_vec(),
            Flavor::Smooth => SMOOTH.to_vec(),
            Flavor::Extreme => [EXACT, SMOOTH].concat(),
        };
        let name = self.pick(&names);
        if name == "tf32" && ty == "f64" {
            return self.float_leaf(scope, ty);
        }
        let a = self.float(scope, ty, depth - 1);
        let argument = match (self.flavor, name) {
            (Flavor::Smooth, "exp" | "exp2" | "exp_m1") => format!("({a}).min(3.0)"),
            (Flavor::Smooth, "sin" | "cos") => format!("({a}).clamp(-20.0, 20.0)"),
            (Flavor::Smooth, "sinh" | "cosh") => format!("({a}).clamp(-3.0, 3.0)"),
            (Flavor::Smooth, "tan" | "asin" | "acos" | "atanh") => {
                format!("({a}).clamp(-0.9, 0.9)")
            }
            (Flavor::Smooth, "acosh") => format!("({a}).abs() + 1.25"),
            (
                Flavor::Smooth,
                "sqrt" | "rsqrt" | "ln" | "log2" | "log10" | "ln_1p" | "recip" | "cbrt",
            ) => format!("({a}).abs() + 0.25"),
            _ => a,
        };
        let slope = if name == "leaky_relu" { "0.25" } else { "" };
        match (self.chance(0.5), slope) {
            (true, "") => format!("{name}({argument})"),
            (true, slope) => format!("{name}({argument}, {slope})"),
            (false, slope) => format!("({argument}).{name}({slope})"),
        }
    }

    /// An element, a literal, a scalar, or an index as a number.
    pub(super) fn float_leaf(&mut self, scope: &Scope, ty: &'static str) -> String {
        let values: Vec<&String> =
            scope.values.iter().filter(|it| it.1 == ty).map(|it| &it.0).collect();
        if !values.is_empty() && self.chance(0.3) {
            let value = values[self.random.below(values.len())].clone();
            return match self.flavor {
                Flavor::Exact => format!("{value}.clamp(-8.0, 8.0)"),
                _ => value,
            };
        }
        if self.chance(0.8)
            && let Some(text) = self.element(scope, ty)
        {
            return text;
        }
        let scalars: Vec<String> =
            self.scalars.iter().filter(|it| it.1 == ty).map(|it| it.0.clone()).collect();
        let axes: Vec<String> = axes_of(scope, |_| true).into_iter().map(str::to_owned).collect();
        match self.random.below(4) {
            0 if !scalars.is_empty() => scalars[self.random.below(scalars.len())].clone(),
            1 if !axes.is_empty() && self.flavor != Flavor::Smooth => {
                // Small, so that sums of products stay exact.
                format!("(({} % 7) as {ty})", axes[self.random.below(axes.len())])
            }
            _ => self.float_literal(ty),
        }
    }

    fn float_literal(&mut self, ty: &'static str) -> String {
        match self.flavor {
            Flavor::Exact => self.typed(&["0.0", "1.0", "2.0", "-1.0", "0.5", "-3.0"], ty),
            Flavor::Smooth => self.typed(&["0.1", "1.0", "-0.7", "1.5", "0.001", "-2.0"], ty),
            Flavor::Extreme => match self.random.below(3) {
                0 => self.typed(&["0.0", "-0.0", "1e-45", "1e30", "-1.5", "16777217.0"], ty),
                1 => {
                    let name = self.pick(&["INFINITY", "NEG_INFINITY", "MAX", "MIN", "EPSILON"]);
                    format!("{ty}::{name}")
                }
                _ => format!("{ty}::consts::PI"),
            },
        }
    }

    /// One of some literals, with its type where nothing else may tell.
    fn typed(&mut self, literals: &[&'static str], ty: &'static str) -> String {
        let literal = self.pick(literals);
        if ty == "f64" { format!("{literal}f64") } else { literal.to_owned() }
    }
}

//! Statements: computes of any kind, and groups of them as models have them.

use super::scope::{Axis, Extent, Scope, Tensor, is_integer};
use super::{Flavor, Writer};

impl Writer<'_> {
    /// Writes one compute, or several that belong together.
    pub(super) fn block(&mut self) {
        match self.random.below(10) {
            0 if self.flavor != Flavor::Exact => self.softmax(),
            1 if self.flavor != Flavor::Exact => self.normalization(),
            2..=3 => self.product(),
            4 => self.window(),
            5 => self.top(),
            _ => self.any_compute(),
        }
    }

    /// `y = compute(..)` of an `InOut` parameter.
    pub(super) fn replace(&mut self, at: usize) {
        let Tensor { name, dtype, shape, .. } = self.tensors[at].clone();
        let axes = self.axes(&shape);
        let scope = Scope { axes: axes.clone(), reduces: true, values: Vec::new() };
        let body = self.value(&scope, dtype, 2);
        let indices = names(&axes);
        // What is assigned depends on what was there.
        let operator =
            if dtype == "bool" { self.pick(&["&&", "||"]) } else { self.pick(&["+", "-"]) };
        let body = format!("{name}[[{indices}]] {operator} ({body})");
        self.tensors[at].is_read = true;
        self.body.push(format!("{name} = compute(|{indices}| {body});"));
    }

    /// Any expression over any axes.
    fn any_compute(&mut self) {
        let shape = self.shape();
        let dtype = match self.dtype() {
            "W" => "f32",
            other => other,
        };
        let axes = self.axes(&shape);
        let mut scope = Scope { axes: axes.clone(), reduces: true, values: Vec::new() };
        let depth = 1 + self.random.below(3) as u32;
        let body = if self.chance(0.2) {
            let (name, ty) = (self.name("v"), self.pick(&["f32", "i32"]));
            let value = self.value(&scope, ty, 1);
            scope.values.push((name.clone(), ty));
            let body = self.value(&scope, dtype, depth);
            format!("{{ let {name} = {value}; {body} }}")
        } else {
            self.value(&scope, dtype, depth)
        };
        self.define(dtype, shape, &axes, &body);
    }

    /// An expression that may be stored in a tensor of that type.
    fn value(&mut self, scope: &Scope, dtype: &'static str, depth: u32) -> String {
        match dtype {
            "bool" => match self.reduced_condition(scope) {
                Some(text) if self.chance(0.5) => text,
                _ => self.condition(scope, 1),
            },
            "f16" | "bf16" | "f32" => self.float(scope, "f32", depth),
            "f64" => self.float(scope, "f64", depth),
            integer => self.integer(scope, integer, depth),
        }
    }

    /// The definition of a tensor.
    fn define(&mut self, dtype: &'static str, shape: Vec<Extent>, axes: &[Axis], body: &str) {
        let name = self.name("t");
        let ty = format!("Tensor<{dtype}{}>", self.shape_text(&shape));
        self.body.push(format!("let {name}: {ty} = compute(|{}| {body});", names(axes)));
        self.tensors.push(Tensor { name, dtype, shape, kind: "let", is_read: false });
    }

    /// Extents of a result: those of some tensor, some of them, or any.
    fn shape(&mut self) -> Vec<Extent> {
        let of = self.random.below(self.tensors.len());
        let mut shape: Vec<Extent> =
            self.tensors[of].shape.iter().map(|it| self.dims.inside(*it)).collect();
        match self.random.below(5) {
            0 => shape.reverse(),
            1 => {
                shape.pop();
            }
            2 if shape.len() < 3 => shape.push(self.dims.any(self.random)),
            _ => {}
        }
        shape
    }

    /// An axis for each extent.
    fn axes(&mut self, shape: &[Extent]) -> Vec<Axis> {
        shape.iter().map(|it| Axis { name: self.name("i"), extent: *it }).collect()
    }

    /// A tensor of floats with at least one axis, to work on its rows.
    fn rows(&mut self) -> Option<Tensor> {
        let fits = |it: &&Tensor| !is_integer(it.dtype) && it.dtype != "W" && !it.shape.is_empty();
        let all: Vec<Tensor> = self.tensors.iter().filter(fits).cloned().collect();
        (!all.is_empty()).then(|| all[self.random.below(all.len())].clone())
    }

    fn mark_read(&mut self, name: &str) {
        for it in self.tensors.iter_mut().filter(|it| it.name == name) {
            it.is_read = true;
        }
    }

    /// The shape of a row-wise group: axes of the rows, and the one along them.
    fn along(&mut self, x: &Tensor) -> (Vec<Extent>, Vec<Axis>, Axis) {
        let shape: Vec<Extent> = x.shape.iter().map(|it| self.dims.inside(*it)).collect();
        let axes = self.axes(&shape);
        let last = axes[axes.len() - 1].clone();
        self.mark_read(&x.name);
        (shape, axes, last)
    }

    fn softmax(&mut self) {
        let Some(x) = self.rows() else { return self.any_compute() };
        let (shape, axes, last) = self.along(&x);
        let (outer, all) = (names(&axes[..axes.len() - 1]), names(&axes));
        let (range, k) = (self.dims.value(&last.extent), last.name.clone());
        let dtype = if x.dtype == "f64" { "f64" } else { "f32" };
        let rows = self.shape_text(&shape[..shape.len() - 1]);
        let full = self.shape_text(&shape);
        let [m, e, s] = ["m", "e", "s"].map(|it| self.name(it));
        let name = x.name;
        self.body.push(format!(
            "let {m}: Tensor<{dtype}{rows}> = compute(|{outer}| max(0..{range}, |{k}| {name}[[{all}]]));"
        ));
        self.body.push(format!(
            "let {e}: Tensor<{dtype}{full}> = compute(|{all}| exp({name}[[{all}]] - {m}[[{outer}]]));"
        ));
        self.body.push(format!(
            "let {s}: Tensor<{dtype}{rows}> = compute(|{outer}| sum(0..{range}, |{k}| {e}[[{all}]]));"
        ));
        let body = format!("{e}[[{all}]] / {s}[[{outer}]]");
        self.define(dtype, shape, &axes, &body);
    }

    fn normalization(&mut self) {
        let Some(x) = self.rows() else { return self.any_compute() };
        let (shape, axes, last) = self.along(&x);
        let (outer, all) = (names(&axes[..axes.len() - 1]), names(&axes));
        let (range, k) = (self.dims.value(&last.extent), last.name.clone());
        let dtype = if x.dtype == "f64" { "f64" } else { "f32" };
        let rows = self.shape_text(&shape[..shape.len() - 1]);
        let [c, v] = ["c", "v"].map(|it| self.name(it));
        let name = x.name;
        let centered = format!("({name}[[{all}]] - {c}[[{outer}]])");
        self.body.push(format!(
            "let {c}: Tensor<{dtype}{rows}> = compute(|{outer}| mean(0..{range}, |{k}| {name}[[{all}]]));"
        ));
        self.body.push(format!(
            "let {v}: Tensor<{dtype}{rows}> = compute(|{outer}| mean(0..{range}, |{k}| {centered} * {centered}));"
        ));
        let body = format!("{centered} * rsqrt({v}[[{outer}]] + 0.1)");
        self.define(dtype, shape, &axes, &body);
    }

    /// A sum of products along a shared extent, with something done to it.
    fn product(&mut self) {
        let dtype = self.pick(&["f32", "f32", "f32", "f64", "i32"]);
        let shape = self.shape();
        let axes = self.axes(&shape);
        let scope = Scope { axes: axes.clone(), reduces: false, values: Vec::new() };
        let reduced = match dtype {
            "i32" => self.reduced_integer(&scope, dtype),
            _ => self.reduced_float(&scope, dtype),
        };
        let sum = reduced.unwrap_or_else(|| "1".to_owned());
        let body = match (self.random.below(3), dtype) {
            (0, "i32") => format!("{sum} + {}", self.integer(&scope, "i32", 1)),
            (0, _) => format!("max({sum}, {})", self.float_leaf(&scope, dtype)),
            (1, "f32" | "f64") => format!("{sum} + {}", self.float_leaf(&scope, dtype)),
            _ => sum,
        };
        self.define(dtype, shape, &axes, &body);
    }

    /// A sum over a window that slides over a padded tensor.
    fn window(&mut self) {
        let Some(x) = self.rows() else { return self.any_compute() };
        let (shape, axes, last) = self.along(&x);
        let (taps, stride) = (2 + self.random.below(3), 1 + self.random.below(2));
        let (k, outer) = (self.name("k"), names(&axes[..axes.len() - 1]));
        let before = if outer.is_empty() { String::new() } else { format!("{outer}, ") };
        let i = &last.name;
        let dtype = if x.dtype == "f64" { "f64" } else { "f32" };
        let padded = format!("{}.get([{before}{stride} * {i} + {k} - 1]).unwrap_or(0.0)", x.name);
        let kind = self.pick(&["sum", "max"]);
        let element = match self.flavor {
            Flavor::Exact => format!("({padded}).clamp(-8.0, 8.0)"),
            _ => padded,
        };
        self.define(dtype, shape, &axes, &format!("{kind}(0..{taps}, |{k}| {element})"));
    }

    /// The places of the largest elements of rows, and the elements.
    fn top(&mut self) {
        let parameter = |it: &&Tensor| it.dtype == "f32" && it.kind != "let" && it.kind != "InOut";
        let rows = |it: &&Tensor| parameter(it) && !it.shape.is_empty();
        let Some(x) = self.tensors.iter().find(rows).cloned() else { return self.any_compute() };
        let (mut shape, mut axes, last) = self.along(&x);
        let (v, range) = (last.name, self.dims.value(&last.extent));
        let n = axes.len();
        let ranks = 1 + self.random.below(self.dims.most(&last.extent).min(9) as usize) as i64;
        shape[n - 1] = Extent::Constant(ranks);
        axes[n - 1] = Axis { name: self.name("r"), extent: shape[n - 1] };
        let outer = names(&axes[..n - 1]);
        let before = if outer.is_empty() { String::new() } else { format!("{outer}, ") };
        let (all, rank, name) = (names(&axes), axes[n - 1].name.clone(), x.name);
        let body = format!("argtop({rank}, 0..{range}, |{v}| {name}[[{before}{v}]]) as i32");
        self.define("i32", shape.clone(), &axes, &body);
        let ids = self.tensors[self.tensors.len() - 1].name.clone();
        if self.chance(0.6) {
            let body = format!("{name}.get([{before}{ids}[[{all}]]]).unwrap_or(0.0)");
            self.define("f32", shape, &axes, &body);
        }
    }
}

fn names(axes: &[Axis]) -> String {
    axes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ")
}

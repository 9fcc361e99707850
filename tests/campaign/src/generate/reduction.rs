//! Reductions: over ranges and tuples of them, up to an index and from one on, and where the largest is;
//! recurrences.

use super::scope::{Axis, Extent, Scope};
use super::{Flavor, Writer};

impl Writer<'_> {
    /// A reduction of type `f32` or `f64`.
    pub(super) fn reduced_float(&mut self, scope: &Scope, ty: &'static str) -> Option<String> {
        if self.chance(0.15) {
            return self.recurrence(scope, ty);
        }
        let (ranges, axes) = self.ranges(scope)?;
        let inner = scope.within(&axes);
        let kind = self.pick(match self.flavor {
            Flavor::Exact => &["sum", "sum", "sum", "max", "min", "prod"],
            _ => &["sum", "sum", "sum", "max", "min", "prod", "mean"],
        });
        let body = match (kind, self.flavor) {
            ("sum" | "mean", Flavor::Exact) => self.product_of_elements(&inner, ty),
            // Products of halves soon have more digits than a float.
            ("prod", Flavor::Exact) => {
                format!("({}).ceil().clamp(-1.0, 1.0)", self.float_leaf(&inner, ty))
            }
            // Products of parts of a long one must not overflow, in any order.
            ("prod", Flavor::Smooth) => {
                let most = ["0.1", "0.01", "0.001"][axes.len() - 1];
                format!("(1.0 + {most} * tanh({}))", self.float_leaf(&inner, ty))
            }
            ("sum" | "mean", _) if self.chance(0.6) => self.product_of_elements(&inner, ty),
            _ => self.float(&inner, ty, 1),
        };
        let body = match kind {
            "sum" => self.where_data_say(scope, &inner, body, "0.0"),
            "max" => self.where_data_say(scope, &inner, body, &format!("{ty}::NEG_INFINITY")),
            _ => body,
        };
        Some(format!("{kind}({ranges}, |{}| {body})", names(&axes)))
    }

    /// A `scan` of a whole range, or up to an axis.
    fn recurrence(&mut self, scope: &Scope, ty: &'static str) -> Option<String> {
        let up_to = scope.axes.get(self.random.below(scope.axes.len() + 1)).cloned();
        let extent = up_to.as_ref().map_or_else(|| self.reduced_extent(), |it| it.extent);
        let axis = Axis { name: self.name("k"), extent };
        let range = match up_to {
            None => format!("0..{}", self.dims.value(&axis.extent)),
            Some(it) if self.chance(0.3) => format!("0..{}", it.name),
            Some(it) => format!("0..={}", it.name),
        };
        let first = match self.random.below(2) {
            0 => format!("1.0_{ty}"),
            _ => self.float_leaf(scope, ty),
        };
        let inner = scope.within(std::slice::from_ref(&axis));
        let (input, state, step) = (self.float_leaf(&inner, ty), self.name("h"), &axis.name);
        let next = match (self.flavor, self.random.below(3)) {
            (_, 0) => format!("{state}.max({input})"),
            (Flavor::Exact, _) => format!("{input} - {state}"),
            (_, 1) => format!("0.5 * {state} + {input}"),
            _ => format!("tanh({input}) * {state} + 0.25"),
        };
        Some(format!("scan({range}, {first}, |{state}, {step}| {next})"))
    }

    fn product_of_elements(&mut self, scope: &Scope, ty: &'static str) -> String {
        let (a, b) = (self.float_leaf(scope, ty), self.float_leaf(scope, ty));
        match self.random.below(6) {
            0 => a,
            1 => {
                let condition = self.condition(scope, 0);
                format!("if {condition} {{ {a} }} else {{ 0.0 }}")
            }
            _ => format!("{a} * {b}"),
        }
    }

    /// A reduction of an integer type, or where the largest or smallest element is.
    pub(super) fn reduced_integer(&mut self, scope: &Scope, ty: &'static str) -> Option<String> {
        if self.chance(0.5) {
            let place = self.place_of_largest(scope)?;
            return Some(if ty == "i64" { place } else { format!("({place} as {ty})") });
        }
        let (ranges, axes) = self.ranges(scope)?;
        let inner = scope.within(&axes);
        let kind = self.pick(&["sum", "prod", "max", "min"]);
        let mut body = self.integer(&inner, ty, 1);
        if kind == "sum" {
            body = self.where_data_say(scope, &inner, body, "0");
        }
        Some(format!("{kind}({ranges}, |{}| {body})", names(&axes)))
    }

    /// A reduction of truth values.
    pub(super) fn reduced_condition(&mut self, scope: &Scope) -> Option<String> {
        let (ranges, axes) = self.ranges(scope)?;
        let inner = scope.within(&axes);
        let kind = self.pick(&["any", "all"]);
        let body = self.condition(&inner, 1);
        Some(format!("{kind}({ranges}, |{}| {body})", names(&axes)))
    }

    /// A term that counts, some of the time, where an integer of data is an index, or bounds it.
    fn where_data_say(
        &mut self,
        around: &Scope,
        scope: &Scope,
        term: String,
        identity: &str,
    ) -> String {
        match self.chance(0.5) {
            true => self.where_data_choose(scope, term, identity),
            false => self.where_data_bound(around, scope, term, identity),
        }
    }

    /// A term that counts, some of the time, between integers of data that the reduction does not change.
    fn where_data_bound(
        &mut self,
        around: &Scope,
        scope: &Scope,
        term: String,
        identity: &str,
    ) -> String {
        let Some(axis) = scope.axes.last().filter(|_| self.chance(0.2)) else { return term };
        let axis = axis.name.clone();
        let ty = self.pick(&["i64", "i64", "i32", "i8", "u32", "u8"]);
        let mut conditions = Vec::new();
        for operators in [["<", "<=", ">"], [">=", ">", "<="]] {
            let Some(data) = self.element(around, ty).filter(|_| self.chance(0.8)) else {
                continue;
            };
            let operator = self.pick(&operators);
            let offset = self.pick(&["", "", " + 2"]);
            let index = format!("(({axis}{offset}) as {ty})");
            let mut condition = format!("{index} {operator} {data}");
            if self.chance(0.2)
                && let Some(row) = around.axes.first()
            {
                condition = format!("({} == 1 || {condition})", row.name);
            }
            conditions.push(condition);
        }
        if self.chance(0.2) {
            conditions.push(self.condition(scope, 0));
        }
        match conditions.as_slice() {
            [] => term,
            all => format!("if {} {{ {term} }} else {{ {identity} }}", all.join(" && ")),
        }
    }

    /// A term that counts, some of the time, where an integer of data is an index.
    fn where_data_choose(&mut self, scope: &Scope, term: String, identity: &str) -> String {
        if scope.axes.is_empty() || !self.chance(0.24) {
            return term;
        }
        let axis = scope.axes[self.random.below(scope.axes.len())].name.clone();
        let ty = self.pick(&["i64", "i64", "i32", "u32", "u8"]);
        let Some(data) = self.element(scope, ty) else { return term };
        let other = match self.random.below(3) {
            0 => format!(" && {}", self.condition(scope, 0)),
            _ => String::new(),
        };
        let offset = self.pick(&["", "", "", " + 1"]);
        format!("if {data} == ({axis}{offset}) as {ty}{other} {{ {term} }} else {{ {identity} }}")
    }

    /// `argmax`, `argmin`, or `argtop`, an `i64`.
    fn place_of_largest(&mut self, scope: &Scope) -> Option<String> {
        let axis = Axis { name: self.name("k"), extent: self.reduced_extent() };
        let range = self.dims.value(&axis.extent);
        let inner = scope.within(std::slice::from_ref(&axis));
        // Near numbers change places: of smooth programs, elements of parameters only are compared.
        let body = match self.flavor {
            Flavor::Smooth => {
                let at =
                    self.tensors.iter().position(|it| it.kind != "let" && it.dtype == "f32")?;
                self.element_of(&inner, at)
            }
            _ => self.float(&inner, "f32", 1),
        };
        // Each rank is two stages.
        let most = self.dims.most(&axis.extent).min(9);
        let ranks: Vec<String> = scope
            .axes
            .iter()
            .filter(|it| self.dims.fixed(&it.extent).is_some_and(|it| it <= most))
            .map(|it| it.name.clone())
            .collect();
        let name = &axis.name;
        Some(match self.random.below(4) {
            0 => format!("argmin(0..{range}, |{name}| {body})"),
            1 if !ranks.is_empty() => {
                let rank = &ranks[self.random.below(ranks.len())];
                format!("argtop({rank}, 0..{range}, |{name}| {body})")
            }
            2 => {
                let n_ranks = self.dims.most(&axis.extent).min(4);
                let rank = self.random.below(n_ranks as usize);
                format!("argtop({rank}, 0..{range}, |{name}| {body})")
            }
            _ => format!("argmax(0..{range}, |{name}| {body})"),
        })
    }

    /// Ranges with their axes: one, several, or one that ends or begins at an axis.
    fn ranges(&mut self, scope: &Scope) -> Option<(String, Vec<Axis>)> {
        let prefixes: Vec<Axis> = scope.axes.clone();
        if !prefixes.is_empty() && self.chance(0.15) {
            let at = prefixes[self.random.below(prefixes.len())].clone();
            let (i, end) = (at.name, self.dims.value(&at.extent));
            let axis = Axis { name: self.name("k"), extent: at.extent };
            let range = match self.random.below(5) {
                0 => format!("0..{i}"),
                1 => format!("{i}..{end}"),
                2 => format!("{i} + 1..{end}"),
                _ => format!("0..={i}"),
            };
            return Some((range, vec![axis]));
        }
        let n = 1 + [0, 0, 0, 1, 1, 2][self.random.below(6)];
        let axes: Vec<Axis> =
            (0..n).map(|_| Axis { name: self.name("k"), extent: self.reduced_extent() }).collect();
        let ranges: Vec<String> =
            axes.iter().map(|it| format!("0..{}", self.dims.value(&it.extent))).collect();
        match ranges.as_slice() {
            [range] => Some((range.clone(), axes)),
            _ => Some((format!("({})", ranges.join(", ")), axes)),
        }
    }

    /// The extent of a range: one that some tensor has, more often than not.
    fn reduced_extent(&mut self) -> Extent {
        let shapes: Vec<Extent> =
            self.tensors.iter().flat_map(|it| it.shape.iter().copied()).collect();
        let plain: Vec<Extent> = shapes
            .into_iter()
            .map(|it| self.dims.inside(it))
            .filter(|it| matches!(it, Extent::Dim(_) | Extent::Constant(_)))
            .collect();
        if !plain.is_empty() && self.chance(0.9) {
            self.pick(&plain)
        } else {
            self.dims.any(self.random)
        }
    }
}

fn names(axes: &[Axis]) -> String {
    axes.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ")
}

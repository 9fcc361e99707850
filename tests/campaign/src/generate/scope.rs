//! The names that an expression may mention: axes, tensors, scalars; and elements at indices of them.

use super::{Flavor, Writer};

/// An extent of a tensor or an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// A dimension.
    Dim(usize),
    /// A multiple of one.
    Times(usize, i64),
    /// A number.
    Constant(i64),
    /// Room for more than a dimension.
    Room(usize),
}

/// A parameter, or what a statement computes.
#[derive(Clone, Debug)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) dtype: &'static str,
    pub(super) shape: Vec<Extent>,
    /// `Tensor`, `Weight`, `InOut`, or `let` for computed ones.
    pub(super) kind: &'static str,
    pub(super) is_read: bool,
}

/// An axis of a compute or a reduction.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    pub(super) name: String,
    pub(super) extent: Extent,
}

/// What an expression may mention besides tensors and scalars.
#[derive(Clone, Debug, Default)]
pub(super) struct Scope {
    pub(super) axes: Vec<Axis>,
    /// Whether a reduction may stand here.
    pub(super) reduces: bool,
    /// Names of values, by type.
    pub(super) values: Vec<(String, &'static str)>,
}

impl Scope {
    /// The scope of a reduction's body.
    pub(super) fn within(&self, axes: &[Axis]) -> Self {
        let axes = self.axes.iter().chain(axes).cloned().collect();
        Self { axes, reduces: false, values: self.values.clone() }
    }
}

/// Returns whether elements of a type are read as numbers of another one without a cast.
pub(super) fn reads_as(stored: &str, wanted: &str) -> bool {
    stored == wanted || (wanted == "f32" && (stored == "f16" || stored == "bf16"))
}

impl Writer<'_> {
    /// An element of some tensor whose type is that, or is cast to it; `None` where there is none.
    pub(super) fn element(&mut self, scope: &Scope, wanted: &'static str) -> Option<String> {
        let fits = |at: &usize| {
            let stored = self.tensors[*at].dtype;
            reads_as(stored, wanted) || (wanted != "bool" && stored != "bool")
        };
        let alike = |at: &usize| {
            reads_as(self.tensors[*at].dtype, wanted) && !self.tensors[*at].shape.is_empty()
        };
        let all: Vec<usize> = (0..self.tensors.len()).filter(fits).collect();
        let same: Vec<usize> = all.iter().copied().filter(alike).collect();
        // Parameters that nothing read yet come first.
        let unread = same.iter().copied().find(|at| !self.tensors[*at].is_read);
        let at = match (unread, same.as_slice(), all.as_slice()) {
            (Some(at), ..) if self.random.chance(0.6) => at,
            (_, [_, ..], _) if self.random.chance(0.85) => self.pick(&same),
            (_, _, [_, ..]) => self.pick(&all),
            _ => return None,
        };
        let text = self.element_of(scope, at);
        let Tensor { dtype: stored, kind, .. } = self.tensors[at];
        // A cast of a float to an integer jumps, so near results may get far apart.
        let jumps = self.flavor == Flavor::Smooth && !is_integer(stored) && is_integer(wanted);
        if jumps {
            return None;
        }
        let text = match (kind, self.flavor, wanted) {
            // So that sums of products stay exact, and numbers in bounds.
            ("let", Flavor::Exact | Flavor::Smooth, "f32" | "f64") if reads_as(stored, wanted) => {
                format!("{text}.clamp(-8.0, 8.0)")
            }
            ("let", Flavor::Exact | Flavor::Smooth, "f32" | "f64") => {
                format!("({text} as {wanted}).clamp(-8.0, 8.0)")
            }
            _ if reads_as(stored, wanted) => text,
            _ => format!("({text} as {wanted})"),
        };
        Some(text)
    }

    /// An element of a tensor, at indices that are in bounds or padded.
    pub(super) fn element_of(&mut self, scope: &Scope, at: usize) -> String {
        self.tensors[at].is_read = true;
        let Tensor { name, dtype, shape, .. } = self.tensors[at].clone();
        if !shape.is_empty() && dtype != "W" && self.chance(0.12) {
            let index: Vec<String> = shape.iter().map(|it| self.loose_index(scope, it)).collect();
            let otherwise = otherwise(dtype);
            return format!("{name}.get([{}]).unwrap_or({otherwise})", index.join(", "));
        }
        let index: Vec<String> = shape.iter().map(|it| self.index(scope, it)).collect();
        format!("{name}[[{}]]", index.join(", "))
    }

    /// An index that is in bounds.
    fn index(&mut self, scope: &Scope, extent: &Extent) -> String {
        let (whole, extent) = (*extent, self.dims.inside(*extent));
        let same: Vec<&str> = axes_of(scope, |it| it == extent);
        if !same.is_empty() && self.chance(0.92) {
            let axis = self.pick(&same).to_owned();
            return match self.random.below(24) {
                0 => format!("{} - 1 - {axis}", self.dims.value(&extent)),
                1 if whole == extent => format!("{axis} / 2"),
                2 if self.dims.fixed(&extent).is_some_and(|it| it > 1) => {
                    format!("max({axis}, 1) - 1")
                }
                _ => axis,
            };
        }
        if let Extent::Times(dim, factor) = extent {
            let of_dim: Vec<&str> = axes_of(scope, |it| it == Extent::Dim(dim));
            if !of_dim.is_empty() && self.chance(0.9) {
                let axis = self.pick(&of_dim).to_owned();
                let offset = self.random.below(factor as usize);
                let dim = self.dims.value(&Extent::Dim(dim));
                return match self.random.below(3) {
                    0 => axis,
                    1 => format!("{axis} + {dim}"),
                    _ => format!("{axis} * {factor} + {offset}"),
                };
            }
        }
        match self.dims.fixed(&extent) {
            Some(fixed) => self.index_below(scope, fixed),
            None => "0".to_owned(),
        }
    }

    /// An index below a number.
    fn index_below(&mut self, scope: &Scope, fixed: i64) -> String {
        let dims = &self.dims;
        let small = axes_of(scope, |it| dims.fixed(&it).is_some_and(|it| it <= fixed));
        let any: Vec<&str> = axes_of(scope, |_| true);
        match self.random.below(4) {
            0..=1 if !small.is_empty() => self.pick(&small).to_owned(),
            2 if !any.is_empty() && fixed > 1 => format!("{} % {fixed}", self.pick(&any)),
            _ => self.random.below(fixed as usize).to_string(),
        }
    }

    /// An index that may be out of bounds: shifted, spread, or read from a tensor.
    fn loose_index(&mut self, scope: &Scope, extent: &Extent) -> String {
        if self.chance(0.25)
            && let Some(at) = self.tensors.iter().position(|it| it.dtype == "i32")
        {
            self.tensors[at].is_read = true;
            let shape = self.tensors[at].shape.clone();
            let index: Vec<String> = shape.iter().map(|it| self.index(scope, it)).collect();
            return format!("{}[[{}]]", self.tensors[at].name, index.join(", "));
        }
        let index = self.index(scope, extent);
        match self.random.below(6) {
            0 => format!("{index} + 1"),
            1 => format!("{index} - 1"),
            2 => format!("{index} * 2 - 3"),
            3 => format!("{index} - {}", 1 + self.random.below(40)),
            _ => index,
        }
    }
}

/// The names of the axes whose extents are such.
pub(super) fn axes_of(scope: &Scope, fits: impl Fn(Extent) -> bool) -> Vec<&str> {
    scope.axes.iter().filter(|it| fits(it.extent)).map(|it| it.name.as_str()).collect()
}

/// Returns whether a type has integers, or truth values.
pub(super) fn is_integer(dtype: &str) -> bool {
    !matches!(dtype, "f32" | "f64" | "f16" | "bf16" | "W")
}

/// The value of an element that is not there.
fn otherwise(dtype: &str) -> &'static str {
    match dtype {
        "bool" => "false",
        "f32" | "f64" | "f16" | "bf16" => "0.0",
        _ => "0",
    }
}

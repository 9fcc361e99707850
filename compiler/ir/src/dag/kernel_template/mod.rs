//! Kernel templates: hand-written CUDA C++ that computes a program, with knobs.
//!
//! A dag says what a program computes; its kernel template says how GPUs do it: the text of a file,
//! macros of it that tuning may set (knobs), and how its kernels are launched. The definition stays
//! the judge of the results, and the way in which CPUs compute them.
//!
//! # Invariants
//!
//! - The first value of each knob is its default, and the defaults satisfy every constraint.
//! - Arithmetic is checked: a launch that overflows, or divides by 0, is no launch.
//! - The text has its includes in it: nothing outside of it decides what is compiled, but for the
//!   headers of this project.

mod allowed;
mod reference;
mod text;

use std::collections::BTreeSet;
use std::fmt::Display;

pub use allowed::Found;
pub use reference::{RustFunction, element_type};
pub(super) use text::ClassOf;

use super::limits::{MAX_INDEX, is_index, is_short, magnitude};
use super::{CompareOp, ScalarId};
use crate::poly::{DimId, Facts, Poly};

/// The most knobs of a template.
pub const MAX_KNOBS: usize = 16;
/// The most values of a knob.
pub const MAX_VALUES: usize = 64;
/// The greatest value of a knob.
pub const MAX_VALUE: u64 = 1 << 20;
/// The most kernels of a template.
pub const MAX_KERNELS: usize = 16;
/// The most constraints, and the most macros.
pub const MAX_LINES: usize = 64;
/// The most bytes of a struct that is passed by value: what kernels take in all.
pub const MAX_PARAM_BYTES: u32 = 4096;
/// The deepest nesting of an expression.
pub const MAX_DEPTH: usize = 32;
/// The most threads of a block.
pub const MAX_THREADS: u32 = 1024;
/// The most threads of a block in x, y and z.
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
/// The most blocks of a grid in x, y and z.
pub const MAX_GRID: [i64; 3] = [i32::MAX as i64, 65535, 65535];

/// Hand-written kernels of a program. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelTemplate {
    /// The file, relative to the package: the name that errors have.
    pub file: String,
    /// Its text, with its own includes in it; it ends with a line feed and has no carriage return.
    pub source: String,
    /// Macros with fixed values: the fixed dimensions of the program.
    pub macros: Vec<(String, i64)>,
    /// The macros that tuning sets.
    pub knobs: Vec<Knob>,
    /// Relations of knobs without which a setting is not tried.
    pub constraints: Vec<Constraint>,
    /// The struct in which kernels take scalars and dimensions, if it is not one by one.
    pub params: Option<ParamStruct>,
    /// The launches, one after the other.
    pub kernels: Vec<KernelLaunch>,
    /// The function that defines the results, where the language has no words for them: the computes of
    /// the program say no more than their types and extents then.
    pub reference: Option<RustFunction>,
}

/// A struct of a C header, passed to kernels by value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamStruct {
    /// Its name.
    pub name: String,
    /// Its size.
    pub bytes: u32,
    /// Its fields, in order.
    pub fields: Vec<ParamField>,
}

/// A field of a [`ParamStruct`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamField {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: FieldValue,
    /// Its place in the struct.
    pub offset: u32,
    /// Its size: 1, 2, 4 or 8, of which the offset is a multiple.
    pub bytes: u32,
}

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FieldValue {
    /// A dimension that is known at launch only.
    Dim(DimId),
    /// A run-time scalar, in its own type.
    Scalar(ScalarId),
}

/// A macro that tuning sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knob {
    /// The name of the macro.
    pub name: String,
    /// The values that it may have, each once; the first is the default.
    pub values: Vec<u64>,
}

/// `left op right`, which has to hold for the values of the knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constraint {
    /// The comparison.
    pub op: CompareOp,
    /// Its left side.
    pub left: LaunchExpr,
    /// Its right side.
    pub right: LaunchExpr,
}

/// One launch of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelLaunch {
    /// The function, declared `extern "C" __global__`.
    pub name: String,
    /// Blocks in x, and in y and z where they are given: 1 to 3 numbers.
    pub grid: Vec<LaunchExpr>,
    /// Threads of a block, likewise; they mention no dimension that a launch decides.
    pub block: Vec<LaunchExpr>,
    /// Bytes of dynamic shared memory; it mentions no dimension that a launch decides.
    pub shared: LaunchExpr,
}

/// An integer of a launch, computed from dimensions and knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchExpr {
    /// A number.
    Int(i64),
    /// A dimension that is known at launch only.
    Dim(DimId),
    /// A knob, by position in [`KernelTemplate::knobs`].
    Knob(u32),
    /// An operation on two.
    Binary(LaunchOp, Box<LaunchExpr>, Box<LaunchExpr>),
}

/// An operation of a [`LaunchExpr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchOp {
    /// `a + b`
    Add,
    /// `a - b`
    Sub,
    /// `a * b`
    Mul,
    /// `a / b`, rounded down; `b` depends on no dimension that a launch decides.
    Div,
    /// `a % b`, not negative; `b` depends on no dimension that a launch decides.
    Rem,
    /// The smaller one.
    Min,
    /// The larger one.
    Max,
}

impl LaunchOp {
    /// All of them.
    pub const ALL: [LaunchOp; 7] = [
        LaunchOp::Add,
        LaunchOp::Sub,
        LaunchOp::Mul,
        LaunchOp::Div,
        LaunchOp::Rem,
        LaunchOp::Min,
        LaunchOp::Max,
    ];

    /// The spelling in canonical text.
    pub fn name(self) -> &'static str {
        match self {
            LaunchOp::Add => "add",
            LaunchOp::Sub => "sub",
            LaunchOp::Mul => "mul",
            LaunchOp::Div => "div",
            LaunchOp::Rem => "rem",
            LaunchOp::Min => "min",
            LaunchOp::Max => "max",
        }
    }
}

/// A kernel with its launch, for given values of the knobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetLaunch {
    /// Blocks in x, y and z, polynomials in the dimensions.
    pub grid: [Poly; 3],
    /// Threads of a block in x, y and z.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub shared_bytes: u32,
}

impl SetLaunch {
    /// Returns the number of threads of a block.
    pub fn n_threads(&self) -> u32 {
        self.block.iter().product()
    }
}

impl KernelTemplate {
    /// Returns the default of each knob.
    pub fn default_values(&self) -> Vec<u64> {
        self.knobs.iter().filter_map(|it| it.values.first().copied()).collect()
    }

    /// Returns values of the knobs with their names, for people: `BLOCK = 64, ITEMS = 2`.
    pub fn setting(&self, values: &[u64]) -> String {
        let named = self.knobs.iter().zip(values);
        let named: Vec<String> =
            named.map(|(it, value)| format!("{} = {value}", it.name)).collect();
        named.join(", ")
    }

    /// Returns whether there is a value of its own for each knob, and every constraint holds.
    pub fn allows(&self, values: &[u64]) -> bool {
        let are_listed = self.knobs.len() == values.len()
            && self.knobs.iter().zip(values).all(|(knob, it)| knob.values.contains(it));
        are_listed && self.constraints.iter().all(|it| it.holds(values))
    }

    /// Returns the allowed values that are nearest to those of another template, knob by knob and by
    /// their names; the defaults where those are not allowed together.
    pub fn nearest(&self, other: &KernelTemplate, values: &[u64]) -> Vec<u64> {
        let of_other = |name: &str| {
            let place = other.knobs.iter().position(|it| it.name == name)?;
            values.get(place).copied()
        };
        let value = |knob: &Knob| {
            let wanted = of_other(&knob.name)?;
            knob.values.iter().copied().min_by_key(|it| it.abs_diff(wanted))
        };
        let found = self.knobs.iter().map(|it| value(it).or(it.values.first().copied()));
        let found: Vec<u64> = found.flatten().collect();
        if self.allows(&found) { found } else { self.default_values() }
    }

    /// Returns the launches with these values of the knobs; `None` if one of them is no launch for
    /// some extents in `facts`.
    pub fn launches(&self, values: &[u64], facts: &Facts) -> Option<Vec<SetLaunch>> {
        self.kernels.iter().map(|it| it.with(values, facts)).collect()
    }

    /// Returns the first mistake, if there is one, in a program with so many dimensions that are known at
    /// launch only, and scalars.
    pub fn mistake(&self, n_dims: usize, n_scalars: usize, facts: &Facts) -> Option<String> {
        let few = self.knobs.len() <= MAX_KNOBS
            && (1..=MAX_KERNELS).contains(&self.kernels.len())
            && self.constraints.len() <= MAX_LINES
            && self.macros.len() <= MAX_LINES;
        if !few {
            return Some("a kernel template has too many parts, or no kernel".to_owned());
        }
        if !has_lines(&self.source) {
            return Some("the lines of a kernel template do not end with line feeds".to_owned());
        }
        if !is_path(&self.file) {
            return Some("the file of a kernel template has no usable name".to_owned());
        }
        let names = self.macros.iter().map(|it| &it.0).chain(self.knobs.iter().map(|it| &it.name));
        let mut seen = BTreeSet::new();
        if !names.clone().all(|it| is_identifier(it) && seen.insert(it)) {
            return Some("names of macros are no identifiers, or stand twice".to_owned());
        }
        if let Some(it) = self.knobs.iter().find(|it| !it.is_valid()) {
            return Some(format!("the values of knob {} are not usable", it.name));
        }
        let in_scope = |it: &LaunchExpr, n_dims| it.is_in_scope(n_dims, self.knobs.len(), 0);
        let are_known = self.constraints.iter().all(|it| in_scope(&it.left, 0))
            && self.constraints.iter().all(|it| in_scope(&it.right, 0))
            && self.kernels.iter().all(|it| {
                is_identifier(&it.name)
                    && (1..=3).contains(&it.grid.len())
                    && (1..=3).contains(&it.block.len())
                    && it.grid.iter().all(|it| in_scope(it, n_dims))
                    && it.block.iter().all(|it| in_scope(it, 0))
                    && in_scope(&it.shared, 0)
            });
        if !are_known {
            return Some("a launch or constraint mentions what is not known there".to_owned());
        }
        if self.params.as_ref().is_some_and(|it| !it.is_valid(n_dims, n_scalars)) {
            return Some("the struct of a kernel template has unusable fields".to_owned());
        }
        if let Some(mistake) = self.reference.as_ref().and_then(RustFunction::mistake) {
            return Some(mistake);
        }
        let default = self.default_values();
        if !self.allows(&default) || self.launches(&default, facts).is_none() {
            return Some("the defaults of the knobs make no launch".to_owned());
        }
        None
    }
}

impl ParamStruct {
    /// The number of words of 8 bytes that it takes.
    pub fn n_words(&self) -> u32 {
        self.bytes.div_ceil(8)
    }

    /// The fields in a word of 8 bytes.
    pub fn fields_of(&self, word: u32) -> impl Iterator<Item = &ParamField> {
        self.fields.iter().filter(move |it| it.offset / 8 == word)
    }

    fn is_valid(&self, n_dims: usize, n_scalars: usize) -> bool {
        let is_field = |it: &ParamField| {
            let is_known = match it.value {
                FieldValue::Dim(dim) => (dim.0 as usize) < n_dims && it.bytes >= 4,
                FieldValue::Scalar(scalar) => (scalar.0 as usize) < n_scalars,
            };
            is_known
                && is_identifier(&it.name)
                && [1, 2, 4, 8].contains(&it.bytes)
                && it.offset.is_multiple_of(it.bytes)
                && u64::from(it.offset) + u64::from(it.bytes) <= u64::from(self.bytes)
        };
        let are_apart = |it: &[ParamField]| it[0].offset + it[0].bytes <= it[1].offset;
        is_identifier(&self.name)
            && (1..=MAX_PARAM_BYTES).contains(&self.bytes)
            && !self.fields.is_empty()
            && self.fields.iter().all(is_field)
            && self.fields.windows(2).all(are_apart)
    }
}

impl Knob {
    fn is_valid(&self) -> bool {
        let mut seen = BTreeSet::new();
        (1..=MAX_VALUES).contains(&self.values.len())
            && self.values.iter().all(|it| *it <= MAX_VALUE && seen.insert(it))
    }
}

impl Constraint {
    /// Returns whether it holds for these values of the knobs; not if a side has no value.
    pub fn holds(&self, values: &[u64]) -> bool {
        let (left, right) = (self.left.constant(values), self.right.constant(values));
        let Some((left, right)) = left.zip(right) else { return false };
        match self.op {
            CompareOp::Lt => left < right,
            CompareOp::Le => left <= right,
            CompareOp::Eq => left == right,
            CompareOp::Ne => left != right,
            CompareOp::Ge => left >= right,
            CompareOp::Gt => left > right,
        }
    }
}

impl KernelLaunch {
    fn with(&self, values: &[u64], facts: &Facts) -> Option<SetLaunch> {
        let mut grid = [1; 3].map(Poly::constant);
        for ((expr, most), blocks) in self.grid.iter().zip(MAX_GRID).zip(&mut grid) {
            *blocks = expr.poly(values, facts)?;
            (blocks.interval(facts).hi <= most).then_some(())?;
        }
        let mut block = [1; 3];
        for ((expr, most), threads) in self.block.iter().zip(MAX_BLOCK).zip(&mut block) {
            *threads = u32::try_from(expr.constant(values)?).ok()?;
            (1..=most).contains(threads).then_some(())?;
        }
        let shared_bytes = u32::try_from(self.shared.constant(values)?).ok()?;
        let launch = SetLaunch { grid, block, shared_bytes };
        (launch.n_threads() <= MAX_THREADS).then_some(launch)
    }
}

impl LaunchExpr {
    /// An operation on two expressions.
    #[must_use]
    pub fn binary(op: LaunchOp, left: LaunchExpr, right: LaunchExpr) -> Self {
        Self::Binary(op, Box::new(left), Box::new(right))
    }

    /// Returns the value, if no dimension of a launch is mentioned and nothing overflows.
    pub fn constant(&self, values: &[u64]) -> Option<i64> {
        self.poly(values, &Facts::default())?.as_constant()
    }

    /// Returns the value as a polynomial in the dimensions; `None` if it may overflow, or divides by
    /// what is not positive.
    pub fn poly(&self, values: &[u64], facts: &Facts) -> Option<Poly> {
        let value = match self {
            LaunchExpr::Int(value) => Poly::constant(*value),
            LaunchExpr::Dim(dim) => Poly::dim(*dim),
            LaunchExpr::Knob(knob) => {
                Poly::constant(i64::try_from(*values.get(*knob as usize)?).ok()?)
            }
            LaunchExpr::Binary(op, left, right) => {
                let (left, right) = (left.poly(values, facts)?, right.poly(values, facts)?);
                operation(*op, left, &right, facts)?
            }
        };
        (is_index(&value, facts) && is_short(&value)).then_some(value)
    }

    fn is_in_scope(&self, n_dims: usize, n_knobs: usize, depth: usize) -> bool {
        depth < MAX_DEPTH
            && match self {
                LaunchExpr::Int(value) => value.abs() <= MAX_INDEX,
                LaunchExpr::Dim(dim) => (dim.0 as usize) < n_dims,
                LaunchExpr::Knob(knob) => (*knob as usize) < n_knobs,
                LaunchExpr::Binary(_, left, right) => {
                    left.is_in_scope(n_dims, n_knobs, depth + 1)
                        && right.is_in_scope(n_dims, n_knobs, depth + 1)
                }
            }
    }

    /// Calls `visit` for each dimension of a launch that is mentioned.
    pub fn for_each_dim(&self, visit: &mut dyn FnMut(DimId)) {
        match self {
            LaunchExpr::Dim(dim) => visit(*dim),
            LaunchExpr::Binary(_, left, right) => {
                left.for_each_dim(visit);
                right.for_each_dim(visit);
            }
            LaunchExpr::Int(_) | LaunchExpr::Knob(_) => {}
        }
    }
}

/// Returns numbers in x, y and z as text, as many as have to be said: not the ones at the end.
pub fn without_last_ones<T: Display>(extents: &[T; 3]) -> Vec<String> {
    let mut all = extents.each_ref().map(ToString::to_string).to_vec();
    while all.len() > 1 && all.last().is_some_and(|it| it == "1") {
        all.pop();
    }
    all
}

/// Applies an operation to two polynomials whose magnitudes are those of indices.
fn operation(op: LaunchOp, left: Poly, right: &Poly, facts: &Facts) -> Option<Poly> {
    let divisor = || right.as_constant().filter(|it| *it > 0);
    Some(match op {
        LaunchOp::Add => left + right.clone(),
        LaunchOp::Sub => left - right.clone(),
        LaunchOp::Mul => {
            let size = |it: &Poly| magnitude(it, facts).max(1.0);
            if size(&left) * size(right) > MAX_INDEX as f64 {
                return None;
            }
            left * right.clone()
        }
        LaunchOp::Div => left.div(&divisor()?.into(), facts),
        LaunchOp::Rem => left.modulo(&divisor()?.into(), facts),
        LaunchOp::Min => left.lesser(right, facts),
        LaunchOp::Max => left.greater(right, facts),
    })
}

/// Returns whether line feeds end all lines of a text.
fn has_lines(text: &str) -> bool {
    text.ends_with('\n') && !text.contains('\r')
}

/// Returns whether a text names a file, in every language that it is printed in.
fn is_path(text: &str) -> bool {
    !text.is_empty() && !text.contains(['"', '\\', '\n'])
}

/// Returns whether a text is an identifier of C.
pub fn is_identifier(text: &str) -> bool {
    let mut chars = text.chars();
    chars.next().is_some_and(|it| it.is_ascii_alphabetic() || it == '_')
        && chars.all(|it| it.is_ascii_alphanumeric() || it == '_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::poly::Interval;

    fn int(value: i64) -> LaunchExpr {
        LaunchExpr::Int(value)
    }

    fn ceil(of: LaunchExpr, by: LaunchExpr) -> LaunchExpr {
        let less = LaunchExpr::binary(LaunchOp::Sub, by.clone(), int(1));
        LaunchExpr::binary(LaunchOp::Div, LaunchExpr::binary(LaunchOp::Add, of, less), by)
    }

    fn facts() -> Facts {
        Facts::of_dims([Interval { lo: 1, hi: 1 << 20 }])
    }

    #[test]
    fn grids_are_polynomials_once_knobs_have_values() {
        let grid = ceil(LaunchExpr::Dim(DimId(0)), LaunchExpr::Knob(0));
        let blocks = |extent, block| grid.poly(&[block], &facts()).unwrap().eval_dims(&[extent]);
        assert_eq!(blocks(1, 128), 1);
        assert_eq!(blocks(128, 128), 1);
        assert_eq!(blocks(129, 128), 2);
        assert_eq!(blocks(1 << 20, 64), 1 << 14);
    }

    #[test]
    fn what_divides_by_zero_or_overflows_has_no_value() {
        assert_eq!(LaunchExpr::binary(LaunchOp::Div, int(3), int(0)).constant(&[]), None);
        assert_eq!(
            LaunchExpr::binary(LaunchOp::Rem, int(3), LaunchExpr::Knob(0)).constant(&[0]),
            None
        );
        let large = LaunchExpr::binary(LaunchOp::Mul, int(1 << 40), int(1 << 40));
        assert_eq!(large.constant(&[]), None);
        assert_eq!(LaunchExpr::Knob(1).constant(&[3]), None);
        assert_eq!(LaunchExpr::Dim(DimId(0)).constant(&[]), None);
    }
}

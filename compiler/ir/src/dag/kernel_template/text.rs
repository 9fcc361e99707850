//! The canonical text of kernel templates: lines that follow those of the program.
//!
//! ```text
//! template kernels/histogram.cu
//! macro BINS = 256
//! knob BLOCK in [256, 64, 128]
//! constraint le(mul(k0, k1), 4096)
//! params histogram_params of 16 bytes: n = d0 in 4 at 0, scale = s0 in 8 at 8
//! launch histogram: grid div(add(d0, sub(k0, 1)), k0), block k0, shared 0
//! launch merge: grid (d0, 4), block (32, k1), shared 0
//! source
//! |extern "C" __global__ void histogram(const int* x, int* counts, int N) {
//! reference histogram of kernels/histogram.rs
//! |pub fn histogram(x: &[i32], counts: &mut [i32], n: usize) {
//! ```

use std::fmt;

use super::{
    Constraint, FieldValue, KernelLaunch, KernelTemplate, Knob, LaunchExpr, ParamField,
    ParamStruct, RustFunction,
};

impl fmt::Display for KernelTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "template {}", self.file)?;
        for (name, value) in &self.macros {
            writeln!(f, "macro {name} = {value}")?;
        }
        for Knob { name, values } in &self.knobs {
            writeln!(f, "knob {name} in {values:?}")?;
        }
        for Constraint { op, left, right } in &self.constraints {
            writeln!(f, "constraint {}({left}, {right})", format!("{op:?}").to_lowercase())?;
        }
        if let Some(ParamStruct { name, bytes, fields }) = &self.params {
            let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
            writeln!(f, "params {name} of {bytes} bytes: {}", fields.join(", "))?;
        }
        for KernelLaunch { name, grid, block, shared } in &self.kernels {
            let (grid, block) = (Extents(grid), Extents(block));
            writeln!(f, "launch {name}: grid {grid}, block {block}, shared {shared}")?;
        }
        writeln!(f, "source")?;
        self.source.lines().try_for_each(|it| writeln!(f, "|{it}"))?;
        let Some(RustFunction { file, name, source }) = &self.reference else { return Ok(()) };
        writeln!(f, "reference {name} of {file}")?;
        source.lines().try_for_each(|it| writeln!(f, "|{it}"))
    }
}

/// A number, or several in parentheses.
struct Extents<'a>(&'a [LaunchExpr]);

impl fmt::Display for Extents<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [x] = self.0 {
            return write!(f, "{x}");
        }
        let all: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        write!(f, "({})", all.join(", "))
    }
}

impl fmt::Display for ParamField {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParamField { name, value, offset, bytes } = self;
        match value {
            FieldValue::Dim(dim) => write!(f, "{name} = d{} in {bytes} at {offset}", dim.0),
            FieldValue::Scalar(it) => write!(f, "{name} = s{} in {bytes} at {offset}", it.0),
        }
    }
}

impl fmt::Display for LaunchExpr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LaunchExpr::Int(value) => write!(f, "{value}"),
            LaunchExpr::Dim(dim) => write!(f, "d{}", dim.0),
            LaunchExpr::Knob(knob) => write!(f, "k{knob}"),
            LaunchExpr::Binary(op, left, right) => write!(f, "{}({left}, {right})", op.name()),
        }
    }
}

/// The names of knobs and kernels: settings transfer between templates that differ in nothing else of
/// these, such as two versions of one file.
pub(in crate::dag) struct ClassOf<'a>(pub(in crate::dag) &'a KernelTemplate);

impl fmt::Display for ClassOf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(KernelTemplate { knobs, kernels, .. }) = self;
        let knobs: Vec<&str> = knobs.iter().map(|it| it.name.as_str()).collect();
        let kernels: Vec<&str> = kernels.iter().map(|it| it.name.as_str()).collect();
        writeln!(f, "template of {} with {}", kernels.join(", "), knobs.join(", "))
    }
}

//! A function of Rust that defines the results of hand-written kernels.
//!
//! The function takes the arguments that kernels take, in the same order: a slice for each parameter,
//! a mutable one for each result, then each run-time scalar, then each dimension that a launch decides, as
//! `usize`. It has elements of `f16` and `bf16` as `f32`: its results are rounded.

use super::super::{DType, Dag, TensorId};
use super::{has_lines, is_identifier, is_path};

/// A function in a file of its own. See the [module documentation](self).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RustFunction {
    /// The file, relative to the package.
    pub file: String,
    /// The name of the function.
    pub name: String,
    /// The text of the file, which needs the standard library alone; it ends with a line feed and has no
    /// carriage return.
    pub source: String,
}

impl RustFunction {
    /// Returns the function's declaration, as its author writes it.
    pub fn declaration(&self, dag: &Dag) -> String {
        let slice = |tensor: TensorId, reference: &str| {
            let tensor = dag.tensor(tensor);
            format!("{}: {reference}[{}]", tensor.name, element_type(tensor.dtype).name())
        };
        let scalars = dag.scalars.iter();
        let scalars = scalars.map(|it| format!("{}: {}", it.name, it.dtype.name()));
        let dims = dag.dims.iter().map(|it| format!("{}: usize", it.name.to_lowercase()));
        let params = dag.params().map(|it| slice(it, "&"));
        let results = dag.outputs.iter().map(|it| slice(*it, "&mut "));
        let arguments: Vec<String> = params.chain(results).chain(scalars).chain(dims).collect();
        format!("pub fn {}({})", self.name, arguments.join(", "))
    }

    /// Returns the first mistake, if there is one.
    pub(super) fn mistake(&self) -> Option<String> {
        let is_valid = is_path(&self.file) && is_identifier(&self.name) && has_lines(&self.source);
        (!is_valid)
            .then(|| "the reference of a kernel template is no function of a file".to_owned())
    }
}

/// Returns the type of elements that a function of Rust has for elements of a program.
pub fn element_type(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::Bf16 => DType::F32,
        other => other,
    }
}

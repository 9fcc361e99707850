//! Identity of generated CUDA C++: a hash of the text in a form in which its own names do not
//! count, and of how its kernels are launched.
//!
//! In: printed kernels. Out: an [`ArtifactId`]. Names that the text declares are numbered in order
//! of appearance, which is a bijection: texts of one identity differ in these names alone, so they
//! compile to the same code. Names of kernels count, since compiled images have them. What is hashed
//! is part of a stored format: it changes with [`VERSION`] only.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use tvmtune_ir::artifact::ArtifactId;
use tvmtune_ir::dag::kernel_template::without_last_ones;

use crate::codegen::{Entry, Param, TensorMapEncoding, Unit};

/// The first line of what is hashed.
const VERSION: &str = "cuda code, identity 2";

/// Returns the identity of printed kernels.
pub(crate) fn identify(unit: &Unit) -> ArtifactId {
    let mut text = format!("{VERSION}\n");
    for Entry { name, params, grid, block, shared_bytes } in &unit.entries {
        let grid = without_last_ones(grid).join(" by ");
        let block = without_last_ones(block).join(" by ");
        // A `String` takes any text.
        let _ = writeln!(text, "kernel {name}: {grid} blocks, {block}, {shared_bytes} bytes");
        for param in params {
            let _ = match param {
                Param::Pointer(tensor) => writeln!(text, "tensor {}", tensor.0),
                Param::Dim(dim) => writeln!(text, "dim {}", dim.0),
                Param::Scalar(scalar) => writeln!(text, "scalar {}", scalar.0),
                Param::TensorMap(map) => writeln!(text, "map {map}"),
                Param::StructWord(word) => writeln!(text, "struct {word}"),
            };
        }
    }
    for map in &unit.tensor_maps {
        let TensorMapEncoding { tensor, element, box_dims, element_strides, swizzle, .. } = map;
        let boxes = format!("{box_dims:?} {element_strides:?}");
        let _ = write!(text, "tensor map {} {element} {boxes} {swizzle}", tensor.0);
        for number in map.extents.iter().chain(&map.strides) {
            let _ = write!(text, ", {number}");
        }
        text.push('\n');
    }
    for field in unit.param_struct.iter().flat_map(|it| &it.fields) {
        let _ = writeln!(text, "field {field}");
    }
    text.push_str(&normal_form(&unit.source, &unit.names));
    ArtifactId::of([text.as_bytes()])
}

/// Replaces each of `names` by its number in order of first appearance.
fn normal_form(source: &str, names: &BTreeSet<String>) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut numbers, mut text, mut rest) = (BTreeMap::new(), String::new(), source);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_word(c) != is_word(first)).unwrap_or(rest.len());
        let (token, after) = rest.split_at(end);
        let is_member = text.ends_with('.');
        match names.contains(token) && !is_member {
            true => {
                let next = numbers.len();
                let number = numbers.entry(token).or_insert(next);
                let _ = write!(text, "${number}");
            }
            false => text.push_str(token),
        }
        rest = after;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(source: &str, names: &[&str]) -> String {
        normal_form(source, &names.iter().map(|it| (*it).to_owned()).collect())
    }

    #[test]
    fn names_of_its_own_do_not_count_but_which_is_which_does() {
        let first = form("int i = threadIdx.x; a[i] = b[i] + x;", &["i", "a", "b", "x"]);
        assert_eq!(first, "int $0 = threadIdx.x; $1[$0] = $2[$0] + $3;");
        assert_eq!(first, form("int n = threadIdx.x; y[n] = x[n] + z;", &["n", "x", "y", "z"]));
        assert_ne!(first, form("int n = threadIdx.x; y[n] = y[n] + z;", &["n", "x", "y", "z"]));
    }

    #[test]
    fn names_of_the_language_and_of_headers_count() {
        assert_ne!(form("y = exp(x);", &["x", "y"]), form("y = tanh(x);", &["x", "y"]));
    }
}

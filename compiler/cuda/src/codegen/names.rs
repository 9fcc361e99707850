//! Names in printed CUDA: readable, and unique in a kernel.

use std::collections::{BTreeMap, BTreeSet};

use super::identifier;
use crate::grid::Grid;
use tvmtune_ir::dag::{ScalarId, TensorId};
use tvmtune_ir::poly::{Atom, DimId, VarId};

/// Words a name must not be: those of C++, and those the text uses itself.
const RESERVED: &[&str] = &[
    "Index",
    "alignas",
    "and",
    "asm",
    "auto",
    "bf16",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "compl",
    "const",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "f16",
    "f32",
    "f64",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "i16",
    "i32",
    "i64",
    "i8",
    "if",
    "inline",
    "int",
    "long",
    "mutable",
    "namespace",
    "new",
    "not",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "return",
    "shared",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "tvmtune",
    "typedef",
    "typename",
    "u16",
    "u32",
    "u64",
    "u8",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
];

/// The names of one kernel.
pub(super) struct Names {
    dims: Vec<String>,
    scalars: Vec<String>,
    buffers: Vec<String>,
    vars: BTreeMap<VarId, String>,
    in_scope: BTreeSet<String>,
    /// Every name that was given so far.
    pub(super) given: BTreeSet<String>,
}

impl Names {
    pub(super) fn new(grid: &Grid) -> Self {
        let mut names = Self {
            dims: Vec::new(),
            scalars: Vec::new(),
            buffers: Vec::new(),
            vars: BTreeMap::new(),
            in_scope: BTreeSet::new(),
            given: BTreeSet::new(),
        };
        // Buffers first: their names are what a reader looks for.
        names.buffers = grid.buffers.iter().map(|it| names.fresh(&it.name)).collect();
        names.scalars = grid.scalars.iter().map(|it| names.fresh(&it.name)).collect();
        names.dims = grid.dims.iter().map(|it| names.fresh(&it.name)).collect();
        names
    }

    pub(super) fn buffer(&self, tensor: TensorId) -> &str {
        &self.buffers[tensor.0 as usize]
    }

    pub(super) fn scalar(&self, scalar: ScalarId) -> &str {
        &self.scalars[scalar.0 as usize]
    }

    pub(super) fn dim(&self, dim: DimId) -> &str {
        &self.dims[dim.0 as usize]
    }

    /// The name of a dimension, or of a variable in scope.
    pub(super) fn leaf(&self, leaf: &Atom) -> String {
        match leaf {
            Atom::Dim(dim) => self.dim(*dim).to_owned(),
            Atom::Var(var) => self.vars[var].clone(),
            _ => unreachable!("only dimensions and variables are leaves"),
        }
    }

    /// Names a variable, for as long as it is in scope.
    pub(super) fn enter(&mut self, var: VarId, wish: &str) -> String {
        let name = self.fresh(wish);
        self.vars.insert(var, name.clone());
        name
    }

    /// Lets a text stand for a variable; returns what stood for it.
    pub(super) fn replace(&mut self, var: VarId, text: String) -> Option<String> {
        self.vars.insert(var, text)
    }

    pub(super) fn leave(&mut self, var: VarId) {
        if let Some(name) = self.vars.remove(&var) {
            self.in_scope.remove(&name);
        }
    }

    /// Keeps a name from being given to anything else.
    pub(super) fn reserve(&mut self, name: &str) {
        self.in_scope.insert(name.to_owned());
        self.given.insert(name.to_owned());
    }

    /// Names something else, for as long as it is in scope.
    pub(super) fn enter_text(&mut self, wish: &str) -> String {
        self.fresh(wish)
    }

    pub(super) fn leave_text(&mut self, name: &str) {
        self.in_scope.remove(name);
    }

    /// `wish`, or with the least number behind it that makes it unique.
    fn fresh(&mut self, wish: &str) -> String {
        let base = identifier(wish.trim_start_matches("r#"));
        let free = |it: &String| !RESERVED.contains(&it.as_str()) && !self.in_scope.contains(it);
        let numbered = (2..).map(|n: u32| format!("{base}_{n}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(free);
        let name = name.expect("there are more numbers than names");
        self.in_scope.insert(name.clone());
        self.given.insert(name.clone());
        name
    }
}

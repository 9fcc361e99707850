//! Unique names in printed text.

use std::collections::{BTreeMap, BTreeSet};

use tvmtune_ir::dag::{ScalarId, TensorId};
use tvmtune_ir::poly::{Atom, VarId};
use tvmtune_schedule::nest::Nest;

/// Reserved words: keywords, and names that the printed text uses.
const RESERVED: &[&str] = &[
    "Self", "abstract", "as", "async", "await", "become", "box", "break", "const", "continue",
    "crate", "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if",
    "impl", "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub",
    "ref", "return", "rt", "self", "static", "std", "struct", "super", "trait", "true", "try",
    "type", "typeof", "unsafe", "unsized", "use", "vec", "virtual", "where", "while", "yield",
];

/// The names of one nest.
pub(crate) struct Names {
    /// Names of dimensions, in order.
    pub(crate) dims: Vec<String>,
    /// Names of scalars, in order.
    pub(crate) scalars: Vec<String>,
    buffers: Vec<String>,
    vars: BTreeMap<VarId, String>,
    in_scope: BTreeSet<String>,
}

impl Names {
    pub(super) fn new(nest: &Nest) -> Self {
        let mut names = Self {
            dims: Vec::new(),
            scalars: Vec::new(),
            buffers: Vec::new(),
            vars: BTreeMap::new(),
            in_scope: BTreeSet::new(),
        };
        // Buffers first: they keep their names in conflicts.
        names.buffers = nest.buffers.iter().map(|it| names.fresh(&it.name)).collect();
        names.scalars = nest.scalars.iter().map(|it| names.fresh(&it.name)).collect();
        names.dims = nest.dims.iter().map(|it| names.fresh(&it.name.to_lowercase())).collect();
        names
    }

    pub(super) fn buffer(&self, tensor: TensorId) -> &str {
        &self.buffers[tensor.0 as usize]
    }

    pub(super) fn scalar(&self, scalar: ScalarId) -> &str {
        &self.scalars[scalar.0 as usize]
    }

    /// Returns the name of a dimension or of a variable in scope.
    pub(super) fn leaf(&self, leaf: &Atom) -> String {
        match leaf {
            Atom::Dim(dim) => self.dims[dim.0 as usize].clone(),
            Atom::Var(var) => self.vars[var].clone(),
            _ => unreachable!("only dimensions and variables are leaves"),
        }
    }

    /// Names a variable while it is in scope.
    pub(super) fn enter(&mut self, var: VarId, wish: &str) -> String {
        let name = self.fresh(wish);
        self.vars.insert(var, name.clone());
        name
    }

    pub(super) fn leave(&mut self, var: VarId) {
        if let Some(name) = self.vars.remove(&var) {
            self.in_scope.remove(&name);
        }
    }

    /// Reserves a name for something else while it is in scope.
    pub(super) fn enter_text(&mut self, wish: &str) -> String {
        self.fresh(wish)
    }

    pub(super) fn leave_text(&mut self, name: &str) {
        self.in_scope.remove(name);
    }

    /// Returns `wish` as an identifier, with the least number appended that makes it unique.
    fn fresh(&mut self, wish: &str) -> String {
        let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
        let mut base: String = wish.trim_start_matches("r#").chars().map(letter).collect();
        if !base.starts_with(|it: char| it.is_ascii_alphabetic()) {
            base.insert(0, 'v');
        }
        let free = |it: &String| !RESERVED.contains(&it.as_str()) && !self.in_scope.contains(it);
        let numbered = (2..).map(|n: u32| format!("{base}_{n}"));
        let name = std::iter::once(base.clone()).chain(numbered).find(free);
        let name = name.expect("there are more numbers than names");
        self.in_scope.insert(name.clone());
        name
    }
}

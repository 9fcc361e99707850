//! Unique names in printed text.

use std::collections::{BTreeMap, BTreeSet};

use crate::nest::Nest;
use tvmtune_ir::dag::{ScalarId, TensorId};
use tvmtune_ir::poly::{Atom, DimId, VarId};

/// Rust's keywords, separated by spaces.
const RUST_KEYWORDS: &str = "Self abstract as async await become box break const continue crate do \
    dyn else enum extern false final fn for gen if impl in let loop macro match mod move mut \
    override priv pub ref return self static struct super trait true try type typeof union unsafe \
    unsized use virtual where while yield";

/// The conventions of a language.
#[derive(Clone, Copy, Debug)]
pub struct Language {
    /// Returns whether a word is no name.
    pub is_reserved: fn(&str) -> bool,
    /// Stands before names that do not start with a letter.
    pub first_letter: char,
    /// Returns the name of a dimension.
    pub dim: fn(&str) -> String,
}

/// The names in the text of one nest.
#[derive(Clone, Debug)]
pub struct Names {
    /// Names of dimensions, in order.
    pub dims: Vec<String>,
    /// Names of scalars, in order.
    pub scalars: Vec<String>,
    /// Every name that was given so far.
    pub given: BTreeSet<String>,
    buffers: Vec<String>,
    vars: BTreeMap<VarId, String>,
    in_scope: BTreeSet<String>,
    language: Language,
}

impl Names {
    /// Names the buffers, scalars and dimensions of a nest.
    pub fn new<S, T>(nest: &Nest<S, T>, language: Language) -> Self {
        let mut names = Self {
            dims: Vec::new(),
            scalars: Vec::new(),
            given: BTreeSet::new(),
            buffers: Vec::new(),
            vars: BTreeMap::new(),
            in_scope: BTreeSet::new(),
            language,
        };
        // Buffers first: they keep their names in conflicts.
        names.buffers = nest.buffers.iter().map(|it| names.enter_text(&it.name)).collect();
        names.scalars = nest.scalars.iter().map(|it| names.enter_text(&it.name)).collect();
        let dim = language.dim;
        names.dims = nest.dims.iter().map(|it| names.enter_text(&dim(&it.name))).collect();
        names
    }

    /// Returns the name of a buffer.
    pub fn buffer(&self, tensor: TensorId) -> &str {
        &self.buffers[tensor.0 as usize]
    }

    /// Returns the name of a scalar.
    pub fn scalar(&self, scalar: ScalarId) -> &str {
        &self.scalars[scalar.0 as usize]
    }

    /// Returns the name of a dimension.
    pub fn dim(&self, dim: DimId) -> &str {
        &self.dims[dim.0 as usize]
    }

    /// Returns the name of a dimension or of a variable in scope.
    pub fn leaf(&self, leaf: &Atom) -> String {
        match leaf {
            Atom::Dim(dim) => self.dim(*dim).to_owned(),
            Atom::Var(var) => self.vars[var].clone(),
            _ => unreachable!("only dimensions and variables are leaves"),
        }
    }

    /// Names a variable while it is in scope.
    pub fn enter(&mut self, var: VarId, wish: &str) -> String {
        let name = self.enter_text(wish);
        self.vars.insert(var, name.clone());
        name
    }

    /// Lets a text stand for a variable.
    pub fn replace(&mut self, var: VarId, text: String) {
        self.vars.insert(var, text);
    }

    /// Ends the scope of a variable.
    pub fn leave(&mut self, var: VarId) {
        if let Some(name) = self.vars.remove(&var) {
            self.in_scope.remove(&name);
        }
    }

    /// Keeps a name from being given to anything else.
    pub fn reserve(&mut self, name: &str) {
        self.in_scope.insert(name.to_owned());
        self.given.insert(name.to_owned());
    }

    /// Names something else while it is in scope.
    pub fn enter_text(&mut self, wish: &str) -> String {
        let Language { first_letter, is_reserved, .. } = self.language;
        let wish = identifier(wish.trim_start_matches("r#"), first_letter);
        let name = unique(&wish, is_reserved, &mut self.in_scope);
        self.given.insert(name.clone());
        name
    }

    /// Ends the scope of such a name.
    pub fn leave_text(&mut self, name: &str) {
        self.in_scope.remove(name);
    }
}

/// Returns a name as an identifier, with `first_letter` before it if it starts with none.
pub fn identifier(name: &str, first_letter: char) -> String {
    let letter = |it: char| if it.is_ascii_alphanumeric() { it } else { '_' };
    let mut name: String = name.chars().map(letter).collect();
    if !name.starts_with(|it: char| it.is_ascii_alphabetic()) {
        name.insert(0, first_letter);
    }
    name
}

/// Takes an identifier into scope, with the least number appended that makes it unique.
pub fn unique(
    wish: &str,
    is_reserved: fn(&str) -> bool,
    in_scope: &mut BTreeSet<String>,
) -> String {
    let mut name = wish.to_owned();
    let mut n = 1;
    while is_reserved(&name) || !in_scope.insert(name.clone()) {
        n += 1;
        name = format!("{wish}_{n}");
    }
    name
}

/// Returns whether a word is a keyword of Rust.
pub fn is_rust_keyword(word: &str) -> bool {
    RUST_KEYWORDS.split(' ').any(|it| it == word)
}

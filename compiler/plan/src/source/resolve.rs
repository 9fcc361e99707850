//! Finds constants and functions for inlining in a [`Tree`], as the compiler would find them.
//!
//! In: a scope and a path. Out: the constant's value, or the reason why it can't be read; the functions.
//!
//! The rules are those of Rust: a scope's own names and imports come before those of `*`, and bodies
//! of functions see the names of the module around. What the compiler's configuration leaves
//! undecided counts, so that a name may have several values, which is an error: wrong values are
//! found by the check that stands in each expansion, but none should be guessed.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::integer::{Integer, cast};
use super::tree::{Kind, ModuleId, Tree};

/// The reason why a constant can't be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// No source of the package defines it.
    #[error("`{0}` is no constant in the sources of this crate, as far as they can be read")]
    Unknown(String),
    /// It is defined by something else.
    #[error("`{0}` is defined by more than integers, constants and `+ - * / %`")]
    Opaque(String),
    /// There are several definitions, and which one holds is not known here.
    #[error("`{0}` has several values, by `cfg` or by place")]
    Several(String),
}

/// The kinds of items that are looked for.
#[derive(Clone, Copy)]
enum ItemKind {
    Constant,
    Function,
}

/// A constant or a function of a module, by its position there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Definition {
    pub(super) module: ModuleId,
    pub(super) index: usize,
}

/// A search for one item.
pub(super) struct Search<'a> {
    tree: &'a mut Tree,
    /// The names that are being looked up: one that leads to itself leads nowhere.
    open: BTreeSet<(ModuleId, String)>,
    /// The constants whose values are being computed.
    evaluated: BTreeSet<Definition>,
    /// The files that the result follows from.
    pub(super) files: BTreeSet<PathBuf>,
}

impl<'a> Search<'a> {
    pub(super) fn new(tree: &'a mut Tree) -> Self {
        Self { tree, open: BTreeSet::new(), evaluated: BTreeSet::new(), files: BTreeSet::new() }
    }

    /// The value of the constant that a path names in a scope.
    pub(super) fn constant(&mut self, scope: ModuleId, path: &[String]) -> Result<i128, Unread> {
        let name = path.join("::");
        self.path(scope, path)?.ok_or(Unread::Unknown(name))
    }

    /// As `constant`, but `None` where there is no such constant.
    fn path(&mut self, scope: ModuleId, path: &[String]) -> Result<Option<i128>, Unread> {
        let mut found = Vec::new();
        for site in self.definitions(scope, path, ItemKind::Constant) {
            let constant = &self.tree.module(site.module).constants[site.index];
            let (name, value) = (constant.name.clone(), constant.value.clone());
            // A constant that leads to itself has no value.
            if !self.evaluated.insert(site) {
                continue;
            }
            let value = self.value(site.module, &value)?;
            self.evaluated.remove(&site);
            found.push(value.ok_or(Unread::Opaque(name))?);
        }
        found.dedup();
        match (&found[..], path.last()) {
            ([], _) => Ok(None),
            ([one], _) => Ok(Some(*one)),
            (_, name) => Err(Unread::Several(name.cloned().unwrap_or_default())),
        }
    }

    /// The functions for inlining that a path names in a scope: one, or several where a `cfg` is not
    /// decided.
    pub(super) fn functions(&mut self, scope: ModuleId, path: &[String]) -> Vec<Definition> {
        self.definitions(scope, path, ItemKind::Function)
    }

    fn definitions(&mut self, scope: ModuleId, path: &[String], kind: ItemKind) -> Vec<Definition> {
        let Some((last, prefix)) = path.split_last() else { return Vec::new() };
        if !prefix.is_empty() {
            let module = self.module_path(scope, prefix);
            return module.map_or_else(Vec::new, |it| self.named(it, last, kind));
        }
        let mut scopes = self.visible(scope).into_iter();
        scopes
            .find_map(|it| Some(self.named(it, last, kind)).filter(|it| !it.is_empty()))
            .unwrap_or_default()
    }

    /// Finds the items of a name that a module defines or imports.
    fn named(&mut self, module: ModuleId, name: &str, kind: ItemKind) -> Vec<Definition> {
        if !self.open.insert((module, name.to_owned())) {
            return Vec::new();
        }
        let found = self.unguarded(module, name, kind);
        self.open.remove(&(module, name.to_owned()));
        found
    }

    fn unguarded(&mut self, module: ModuleId, name: &str, kind: ItemKind) -> Vec<Definition> {
        self.enter(module);
        let it = self.tree.module(module);
        let names: Vec<&String> = match kind {
            ItemKind::Constant => it.constants.iter().map(|it| &it.name).collect(),
            ItemKind::Function => it.functions.iter().map(|it| &it.name).collect(),
        };
        let own = names.iter().enumerate().filter(|(_, it)| **it == name);
        let mut found: Vec<Definition> =
            own.map(|(index, _)| Definition { module, index }).collect();
        let imports: Vec<(bool, Vec<String>)> = it
            .imports
            .iter()
            .filter(|it| it.name.as_deref().is_none_or(|it| it == name))
            .map(|it| (it.name.is_none(), it.path.clone()))
            .collect();
        for (_, path) in imports.iter().filter(|(is_glob, _)| !is_glob) {
            found.extend(self.definitions(module, path, kind));
        }
        if found.is_empty() {
            for (_, path) in imports.iter().filter(|(is_glob, _)| *is_glob) {
                if let Some(module) = self.module_path(module, path) {
                    found.extend(self.named(module, name, kind));
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// The value of an expression; `None` if it has none.
    fn value(&mut self, scope: ModuleId, value: &Integer) -> Result<Option<i128>, Unread> {
        Ok(match value {
            Integer::Literal(it) => Some(*it),
            Integer::Path(path) => self.path(scope, path)?,
            Integer::Negated(it) => self.value(scope, it)?.and_then(i128::checked_neg),
            Integer::Binary(operation, sides) => {
                let (a, b) = (self.value(scope, &sides.0)?, self.value(scope, &sides.1)?);
                a.zip(b).and_then(|(a, b)| operation.apply(a, b))
            }
            Integer::Cast(it, bits, sign) => {
                self.value(scope, it)?.and_then(|it| cast(it, *bits, *sign))
            }
            Integer::Opaque => None,
        })
    }

    /// The scopes whose names are visible without a path.
    fn visible(&self, scope: ModuleId) -> Vec<ModuleId> {
        let (mut scopes, mut next) = (Vec::new(), Some(scope));
        while let Some(id) = next {
            let it = self.tree.module(id);
            if it.kind != Kind::Impl {
                scopes.push(id);
            }
            next = it.parent.filter(|_| it.kind != Kind::Module);
        }
        scopes
    }

    /// The module around a scope, or itself.
    fn around(&self, scope: ModuleId) -> ModuleId {
        let mut id = scope;
        while self.tree.module(id).kind != Kind::Module {
            id = self.tree.module(id).parent.expect("a root is a module");
        }
        id
    }

    fn module_path(&mut self, scope: ModuleId, path: &[String]) -> Option<ModuleId> {
        let (first, rest) = path.split_first()?;
        let mut module = match first.as_str() {
            "crate" | "$crate" => ModuleId(0),
            "Self" => {
                let is_impl = |it: &ModuleId| self.tree.module(*it).kind == Kind::Impl;
                Some(scope).filter(is_impl).or(self.tree.module(scope).parent.filter(is_impl))?
            }
            "self" => self.around(scope),
            "super" => self.tree.module(self.around(scope)).parent?,
            name => self.visible(scope).into_iter().find_map(|it| self.child(it, name))?,
        };
        for name in rest {
            module = match name.as_str() {
                "self" => module,
                "super" => self.tree.module(self.around(module)).parent?,
                name => self.child(module, name)?,
            };
        }
        Some(self.around_if_block(module))
    }

    fn around_if_block(&self, module: ModuleId) -> ModuleId {
        match self.tree.module(module).kind {
            Kind::Block => self.around(module),
            Kind::Module | Kind::Impl => module,
        }
    }

    /// The module, or type with constants, that a module defines or imports by that name.
    fn child(&mut self, module: ModuleId, name: &str) -> Option<ModuleId> {
        // In Rust these are other names than those of constants.
        let key = (module, format!("{name}::"));
        if !self.open.insert(key.clone()) {
            return None;
        }
        self.enter(module);
        let it = self.tree.module(module);
        let is_it = |it: &ModuleId| {
            let it = self.tree.module(*it);
            it.kind != Kind::Block && it.name == name
        };
        let mut found = it.children.iter().copied().find(is_it);
        for is_glob in [false, true] {
            let matches = |it: &&super::import::Import| match &it.name {
                Some(it) => !is_glob && it == name,
                None => is_glob,
            };
            let imports = self.tree.module(module).imports.iter().filter(matches);
            let paths: Vec<Vec<String>> = imports.map(|it| it.path.clone()).collect();
            for path in paths {
                if found.is_none() {
                    let target = self.module_path(module, &path);
                    found =
                        if is_glob { target.and_then(|it| self.child(it, name)) } else { target };
                }
            }
        }
        self.open.remove(&key);
        found
    }

    fn enter(&mut self, module: ModuleId) {
        self.tree.load(module);
        let it = self.tree.module(module);
        self.files.insert(it.file.clone());
        self.files.extend(it.included.iter().cloned());
    }
}

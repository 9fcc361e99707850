//! The names that are visible in the body of a function.

use std::collections::BTreeMap;

use crate::registers::{Class, Slot};

/// The meaning of a name.
#[derive(Clone, Copy)]
pub(super) enum Name {
    Register(Class, Slot),
    Variable(usize),
}

/// The names of nested scopes.
pub(super) struct Scope<'a> {
    /// By name, the innermost scope last.
    names: Vec<BTreeMap<&'a str, Name>>,
    /// Registers declared in bulk, `%r<74>`: prefix, class, first slot and count.
    ranges: Vec<(&'a str, Class, Slot, u32)>,
}

impl<'a> Scope<'a> {
    /// Returns the scope of a function with some variables.
    pub(super) fn new(variables: impl Iterator<Item = &'a str>) -> Self {
        let names = variables.enumerate().map(|(n, it)| (it, Name::Variable(n))).collect();
        Self { names: vec![names], ranges: Vec::new() }
    }

    /// Opens an inner scope.
    pub(super) fn open(&mut self) {
        self.names.push(BTreeMap::new());
    }

    /// Closes the innermost scope.
    pub(super) fn close(&mut self) {
        self.names.pop();
    }

    /// Declares a name in the innermost scope.
    pub(super) fn declare(&mut self, name: &'a str, meaning: Name) {
        let scope = self.names.last_mut().expect("a scope is open");
        scope.insert(name, meaning);
    }

    /// Declares registers in bulk, from a slot on.
    pub(super) fn declare_range(&mut self, prefix: &'a str, class: Class, first: Slot, n: u32) {
        self.ranges.push((prefix, class, first, n));
    }

    /// Finds the meaning of a name.
    pub(super) fn find(&self, name: &str) -> Option<Name> {
        let named = self.names.iter().rev().find_map(|it| it.get(name).copied());
        named.or_else(|| {
            let digits = name.trim_start_matches(|it: char| !it.is_ascii_digit());
            let prefix = &name[..name.len() - digits.len()];
            let n: u32 = digits.parse().ok()?;
            let mut ranges = self.ranges.iter();
            let (_, class, first, _) =
                ranges.find(|(base, _, _, count)| *base == prefix && n < *count)?;
            Some(Name::Register(*class, first + n))
        })
    }
}

//! The functions for inlining that programs call, in the trees of a crate.

use std::collections::BTreeSet;
use std::path::PathBuf;

use tvmtune_ir::dsl::Functions;

use super::resolve::Search;
use super::tree::{ModuleId, Tree};

/// Finds functions in the trees of some targets.
pub(super) struct Finder<'a> {
    trees: Vec<&'a mut Tree>,
    /// The files that the results follow from.
    pub(super) files: BTreeSet<PathBuf>,
}

/// The modules that come into question for a place, each with the position of its tree.
pub(super) type Scopes = Vec<(usize, ModuleId)>;

impl<'a> Finder<'a> {
    pub(super) fn new(trees: Vec<&'a mut Tree>) -> Self {
        Self { trees, files: BTreeSet::new() }
    }
}

impl Functions for Finder<'_> {
    type Scope = Scopes;

    fn find(
        &mut self,
        scope: &Scopes,
        path: &[String],
    ) -> Result<Option<(Scopes, String)>, String> {
        let (mut scopes, mut texts) = (Scopes::new(), BTreeSet::new());
        for (target, module) in scope {
            let tree = &mut *self.trees[*target];
            let mut search = Search::new(tree);
            let found = search.functions(*module, path);
            if !found.is_empty() {
                self.files.append(&mut search.files);
            }
            for it in found {
                texts.insert(tree.module(it.module).functions[it.index].text.clone());
                scopes.push((*target, it.module));
            }
        }
        scopes.dedup();
        let text = texts.pop_first();
        if !texts.is_empty() {
            return Err(format!(
                "`{}` has several definitions, by `cfg` or by place",
                path.join("::")
            ));
        }
        Ok(text.map(|it| (scopes, it)))
    }
}

//! The names that `use` declarations bring into a module.

use syn::UseTree;

/// One name that is imported, or all of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Import {
    /// The name here; `None` for `*`.
    pub(super) name: Option<String>,
    /// The path there, of a module in the case of `*`.
    pub(super) path: Vec<String>,
}

impl Import {
    /// Returns the imports of a declaration.
    pub(super) fn all(item: &syn::ItemUse) -> Vec<Self> {
        let mut imports = Vec::new();
        let mut prefix = Vec::new();
        if item.leading_colon.is_some() {
            prefix.push(String::new());
        }
        collect(&item.tree, &mut prefix, &mut imports);
        imports
    }
}

fn collect(tree: &UseTree, prefix: &mut Vec<String>, imports: &mut Vec<Import>) {
    let mut add = |name: Option<String>, last: Option<String>| {
        let path = prefix.iter().cloned().chain(last.filter(|it| it != "self")).collect();
        imports.push(Import { name, path });
    };
    match tree {
        UseTree::Path(it) => {
            prefix.push(it.ident.to_string());
            collect(&it.tree, prefix, imports);
            prefix.pop();
        }
        UseTree::Name(it) => {
            let last = it.ident.to_string();
            let name = if last == "self" { prefix.last().cloned() } else { Some(last.clone()) };
            if name.is_some() {
                add(name, Some(last));
            }
        }
        UseTree::Rename(it) => add(Some(it.rename.to_string()), Some(it.ident.to_string())),
        UseTree::Glob(_) => add(None, None),
        UseTree::Group(it) => {
            for tree in &it.items {
                collect(tree, prefix, imports);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_renames_and_globs_are_told_apart() {
        let item = syn::parse_str("use a::{self, b::C as D, super::*, self::e};").unwrap();
        let lines: Vec<String> = Import::all(&item)
            .iter()
            .map(|it| format!("{} = {}", it.name.as_deref().unwrap_or("*"), it.path.join("::")))
            .collect();
        assert_eq!(lines, ["a = a", "D = a::b::C", "* = a::super", "e = a::self::e"]);
        let item = syn::parse_str("use ::a::b;").unwrap();
        assert_eq!(Import::all(&item)[0].path, ["", "a", "b"]);
    }
}

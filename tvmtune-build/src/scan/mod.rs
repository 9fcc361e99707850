//! Finds the `#[autotune]` functions of a package, without compiling it.
//!
//! In: the folder of a package and the [`Cfg`] of the build. Out: a [`Scan`]: the functions, as
//! syntax, and the files that were read. Next: [`crate::op`] gives them a meaning.
//!
//! The scan is a hint: the macro works out each function's identity again when it expands, and
//! looks for a plan of that identity. For a function that the scan doesn't see (one that another
//! macro makes, or in an included file) it asks for one, and one that is seen in vain costs time
//! only.
//!
//! # Invariants
//!
//! - Files that can't be read or parsed contribute nothing; the compiler reports them.
//! - A file is read once, whatever the number of targets that include it.
//!
//! # Source
//!
//! The rules of `mod` are those of the Rust reference, "Module source filenames". Evaluating `cfg`
//! from cargo's variables is cxx-build's.

mod cfg;
mod targets;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, ItemFn, ItemMod, Lit, Meta, Stmt, Token};

pub use cfg::Cfg;
pub use targets::{Root, RootKind, roots};

/// The annotated functions of a package, and its source files.
#[derive(Default)]
pub struct Scan {
    /// The annotated functions, in order of appearance.
    pub functions: Vec<Function>,
    /// Files whose change changes the result: those of libraries and binaries, and of other
    /// targets those that mention the attribute, so that editing a test rebuilds no library.
    pub watched: BTreeSet<PathBuf>,
    /// Files that a `mod` names and that don't exist yet.
    pub missing: BTreeSet<PathBuf>,
}

/// One annotated function.
pub struct Function {
    /// Its file.
    pub file: PathBuf,
    /// The modules around it, outermost first; of a target that is no library, with its name.
    pub module: Vec<String>,
    /// The tokens between the parentheses of the attribute.
    pub options: TokenStream,
    /// The function, without the attribute.
    pub item: ItemFn,
}

/// Reads every target of the package in `manifest_dir`.
pub fn scan(manifest_dir: &Path, cfg: &Cfg) -> Scan {
    let (scan, seen, module) = (Scan::default(), BTreeSet::new(), Vec::new());
    let mut scanner = Scanner { cfg, scan, seen, module };
    for root in roots(manifest_dir) {
        let directory = parent(&root.path);
        scanner.module = root.module();
        scanner.file(&root.path, &directory, root.kind);
    }
    scanner.scan
}

struct Scanner<'a> {
    cfg: &'a Cfg,
    scan: Scan,
    seen: BTreeSet<PathBuf>,
    /// The modules around what is being read.
    module: Vec<String>,
}

/// The context of an item.
struct Context<'a> {
    file: &'a Path,
    kind: RootKind,
    /// The folder in which `mod name;` finds `name.rs`.
    children: PathBuf,
    /// The folder that `#[path]` is relative to.
    path_attribute: PathBuf,
}

impl Scanner<'_> {
    fn file(&mut self, file: &Path, children: &Path, kind: RootKind) {
        if !self.seen.insert(file.to_owned()) {
            return;
        }
        let Ok(text) = std::fs::read_to_string(file) else { return };
        let mentioned = text.contains("autotune");
        if mentioned || kind == RootKind::Main {
            self.scan.watched.insert(file.to_owned());
        }
        // Parsing is most of the cost, and most files hold neither.
        if !mentioned && !text.contains("mod ") {
            return;
        }
        let Ok(parsed) = syn::parse_file(&text) else { return };
        let context =
            Context { file, kind, children: children.to_owned(), path_attribute: parent(file) };
        self.items(parsed.items, &context);
    }

    fn items(&mut self, items: impl IntoIterator<Item = Item>, context: &Context<'_>) {
        for item in items {
            match item {
                Item::Fn(function) => self.function(function, context),
                Item::Mod(module) => self.module(module, context),
                _ => {}
            }
        }
    }

    fn function(&mut self, mut function: ItemFn, context: &Context<'_>) {
        let Some(attributes) = self.active(&function.attrs) else { return };
        let is_ours =
            |it: &&Meta| it.path().segments.last().is_some_and(|it| it.ident == "autotune");
        if let Some(ours) = attributes.iter().find(is_ours) {
            let options = match ours {
                Meta::List(list) => list.tokens.clone(),
                Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
            };
            function.attrs.clear();
            let (file, module) = (context.file.to_owned(), self.module.clone());
            self.scan.functions.push(Function { file, module, options, item: function });
            return;
        }
        let nested = function.block.stmts.into_iter().filter_map(|it| match it {
            Stmt::Item(item) => Some(item),
            _ => None,
        });
        self.items(nested, context);
    }

    fn module(&mut self, module: ItemMod, context: &Context<'_>) {
        let name = module.ident.to_string();
        self.module.push(name.strip_prefix("r#").unwrap_or(&name).to_owned());
        self.module_items(module, context);
        self.module.pop();
    }

    fn module_items(&mut self, module: ItemMod, context: &Context<'_>) {
        let Some(attributes) = self.active(&module.attrs) else { return };
        let path = attributes.iter().find_map(path_attribute);
        let name = module.ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        if let Some((_, items)) = module.content {
            let children = context.children.join(path.as_deref().unwrap_or(name));
            let path_attribute = children.clone();
            self.items(items, &Context { children, path_attribute, ..*context });
            return;
        }
        if let Some(path) = path {
            let file = context.path_attribute.join(path);
            let children = parent(&file);
            return self.child(&file, &children, &attributes, context);
        }
        let beside = context.children.join(format!("{name}.rs"));
        let below = context.children.join(name);
        let inside = below.join("mod.rs");
        let file = if !beside.is_file() && inside.is_file() { inside } else { beside };
        self.child(&file, &below, &attributes, context);
    }

    /// Reads the file of a module, or notes that it's missing where it must exist.
    fn child(&mut self, file: &Path, children: &Path, attributes: &[Meta], context: &Context<'_>) {
        let conditional = attributes.iter().any(|it| it.path().is_ident("cfg"));
        if file.is_file() {
            self.file(file, children, context.kind);
        } else if !conditional {
            self.scan.missing.insert(file.to_owned());
        }
    }

    /// Returns the attributes, `cfg_attr` resolved; `None` if a `cfg` among them does not hold.
    fn active(&self, attributes: &[Attribute]) -> Option<Vec<Meta>> {
        let mut active = Vec::new();
        let mut open: Vec<Meta> = attributes.iter().rev().map(|it| it.meta.clone()).collect();
        while let Some(meta) = open.pop() {
            let Meta::List(list) = &meta else {
                active.push(meta);
                continue;
            };
            let parse = Punctuated::<Meta, Token![,]>::parse_terminated;
            if list.path.is_ident("cfg") {
                let predicate = list.parse_args::<Meta>().ok()?;
                if !self.cfg.holds(&predicate) {
                    return None;
                }
                active.push(meta);
            } else if list.path.is_ident("cfg_attr") {
                let mut parts = list.parse_args_with(parse).ok()?.into_iter();
                if self.cfg.holds(&parts.next()?) {
                    open.extend(parts.rev());
                }
            } else {
                active.push(meta);
            }
        }
        Some(active)
    }
}

/// Returns the text of `path = "text"`.
fn path_attribute(meta: &Meta) -> Option<String> {
    let Meta::NameValue(pair) = meta else { return None };
    match &pair.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if pair.path.is_ident("path") => {
            Some(text.value())
        }
        _ => None,
    }
}

fn parent(file: &Path) -> PathBuf {
    file.parent().unwrap_or(Path::new("")).to_owned()
}

#[cfg(test)]
mod tests;

//! The modules of one target, with what names are found by: their constants, functions for inlining,
//! imports, and children.
//!
//! In: the root file of a target, and a [`Cfg`]. Out: a [`Tree`], and the annotated functions that
//! were met on the way. Next: `resolve` finds constants and functions in it.
//!
//! # Invariants
//!
//! - Files that can't be read or parsed contribute nothing; the compiler reports them.
//! - A tree holds text and no syntax, so it may be kept from one expansion to the next.
//!
//! # Source
//!
//! The rules of `mod` are those of the Rust reference, "Module source filenames".

use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use syn::ext::IdentExt;
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprLit, Item, ItemFn, ItemMod, Lit, Meta, Stmt, Token};

use super::cfg::Cfg;
use super::import::Import;
use super::integer::Integer;
use tvmtune_ir::dsl;

/// A module, by its position in [`Tree::modules`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct ModuleId(pub(super) usize);

/// The modules of one target.
pub(super) struct Tree {
    /// The root comes first.
    pub(super) modules: Vec<Module>,
    cfg: Cfg,
    /// The files that were read, each with true if it mentions the attribute.
    pub(super) files: Vec<(PathBuf, bool)>,
    /// Files that a `mod` names and that don't exist yet.
    pub(super) missing: Vec<PathBuf>,
}

/// A module, in which names are looked up.
pub(super) struct Module {
    pub(super) name: String,
    pub(super) parent: Option<ModuleId>,
    pub(super) kind: Kind,
    pub(super) file: PathBuf,
    /// The files that it includes.
    pub(super) included: Vec<PathBuf>,
    pub(super) constants: Vec<Constant>,
    pub(super) functions: Vec<InlineFunction>,
    pub(super) imports: Vec<Import>,
    pub(super) children: Vec<ModuleId>,
    /// The folder in which `mod name;` finds `name.rs`, if the file has not been parsed.
    unread: Option<PathBuf>,
}

/// The kinds of scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// `mod name`.
    Module,
    /// The body of a function: names that it lacks are those of the module around.
    Block,
    /// `impl Type`.
    Impl,
}

/// `const NAME: _ = value;`
pub(super) struct Constant {
    pub(super) name: String,
    pub(super) value: Integer,
}

/// A function that programs may call: `#[autotune::inline] fn name(..) { .. }`.
pub(super) struct InlineFunction {
    pub(super) name: String,
    /// Its file: that of the module, or an included one.
    pub(super) file: PathBuf,
    /// The tokens between the parentheses of the attribute.
    pub(super) options: String,
    /// Its text without attributes.
    pub(super) text: String,
}

/// An annotated function.
pub(super) struct Found {
    pub(super) scope: ModuleId,
    pub(super) file: PathBuf,
    /// The tokens between the parentheses of the attribute.
    pub(super) options: TokenStream,
    /// The function, without the attribute.
    pub(super) item: ItemFn,
}

type Sink<'a> = &'a mut dyn FnMut(Found);

/// The context of an item.
struct Context<'a> {
    scope: ModuleId,
    file: &'a Path,
    /// The folder in which `mod name;` finds `name.rs`.
    children: PathBuf,
    /// The folder that `#[path]` is relative to.
    path_attribute: PathBuf,
}

impl Tree {
    /// Reads the target with that root file.
    pub(super) fn read(root: &Path, cfg: &Cfg, sink: Sink<'_>) -> Self {
        let mut tree =
            Self { modules: Vec::new(), cfg: cfg.clone(), files: Vec::new(), missing: Vec::new() };
        let id = tree.add(String::new(), None, Kind::Module, root);
        tree.file(id, parent(root), false, sink);
        tree
    }

    pub(super) fn module(&self, id: ModuleId) -> &Module {
        &self.modules[id.0]
    }

    /// Parses the file of a module, if that was not necessary so far.
    pub(super) fn load(&mut self, id: ModuleId) {
        if let Some(children) = self.modules[id.0].unread.take() {
            self.file(id, children, true, &mut |_| {});
        }
    }

    fn add(&mut self, name: String, parent: Option<ModuleId>, kind: Kind, file: &Path) -> ModuleId {
        let id = ModuleId(self.modules.len());
        let name = name.strip_prefix("r#").unwrap_or(&name).to_owned();
        self.modules.push(Module {
            name,
            parent,
            kind,
            file: file.to_owned(),
            included: Vec::new(),
            constants: Vec::new(),
            functions: Vec::new(),
            imports: Vec::new(),
            children: Vec::new(),
            unread: None,
        });
        if let Some(parent) = parent {
            self.modules[parent.0].children.push(id);
        }
        id
    }

    /// Reads the file of a module. It is parsed if `all` is set, or if there may be an op below it:
    /// parsing is most of the cost, and most files hold none.
    fn file(&mut self, id: ModuleId, children: PathBuf, all: bool, sink: Sink<'_>) {
        let file = self.modules[id.0].file.clone();
        let Ok(text) = std::fs::read_to_string(&file) else { return };
        let is_mentioned = text.contains("autotune");
        if !all {
            self.files.push((file.clone(), is_mentioned));
            if !is_mentioned && !declares_files(&text) {
                self.modules[id.0].unread = Some(children);
                return;
            }
        }
        let Some(parsed) = parse(&text) else { return };
        let path_attribute = parent(&file);
        let context = Context { scope: id, file: &file, children, path_attribute };
        self.items(parsed.items, &context, sink);
    }

    fn items(
        &mut self,
        items: impl IntoIterator<Item = Item>,
        context: &Context<'_>,
        sink: Sink<'_>,
    ) {
        for item in items {
            match item {
                Item::Fn(function) => self.function(function, context, sink),
                Item::Mod(module) => self.child(module, context, sink),
                Item::Const(it) if !self.is_off(&it.attrs) => {
                    self.constant(context.scope, &it.ident, &it.expr);
                }
                Item::Use(it) if !self.is_off(&it.attrs) => {
                    self.modules[context.scope.0].imports.extend(Import::all(&it));
                }
                Item::Impl(it) if it.trait_.is_none() && !self.is_off(&it.attrs) => {
                    self.implementation(&it, context);
                }
                Item::Macro(it) if it.mac.path.is_ident("include") => {
                    self.include(&it.mac.tokens, context);
                }
                _ => {}
            }
        }
    }

    fn constant(&mut self, scope: ModuleId, ident: &syn::Ident, value: &Expr) {
        let constant = Constant { name: ident.to_string(), value: Integer::read(value) };
        self.modules[scope.0].constants.push(constant);
    }

    /// The constants of a type go into a scope of its name.
    fn implementation(&mut self, item: &syn::ItemImpl, context: &Context<'_>) {
        let syn::Type::Path(ty) = &*item.self_ty else { return };
        let Some(name) = ty.path.get_ident().map(ToString::to_string) else { return };
        let mut same = self.modules[context.scope.0].children.iter().copied();
        let same =
            same.find(|it| self.module(*it).kind == Kind::Impl && self.module(*it).name == name);
        let scope =
            same.unwrap_or_else(|| self.add(name, Some(context.scope), Kind::Impl, context.file));
        for it in &item.items {
            if let syn::ImplItem::Const(it) = it
                && !self.is_off(&it.attrs)
            {
                self.constant(scope, &it.ident, &it.expr);
            }
        }
    }

    /// The constants of an included file are those of the module. Its ops are not: nothing tells
    /// where a file is included in vain.
    fn include(&mut self, tokens: &TokenStream, context: &Context<'_>) {
        let Ok(name) = syn::parse2::<syn::LitStr>(tokens.clone()) else { return };
        let file = parent(context.file).join(name.value());
        let is_around = context.file == file || self.module(context.scope).included.contains(&file);
        let parsed = std::fs::read_to_string(&file).ok().filter(|_| !is_around);
        let Some(parsed) = parsed.and_then(|it| parse(&it)) else { return };
        self.modules[context.scope.0].included.push(file.clone());
        let (children, path_attribute) = (parent(&file), parent(&file));
        let inside = Context { scope: context.scope, file: &file, children, path_attribute };
        self.items(parsed.items, &inside, &mut |_| {});
    }

    fn function(&mut self, mut function: ItemFn, context: &Context<'_>, sink: Sink<'_>) {
        if let Some(inline) = function.attrs.iter().find(|it| dsl::is_inline(it.path())) {
            // One that may be there counts, as of constants.
            if !self.is_off(&function.attrs) {
                self.modules[context.scope.0].functions.push(InlineFunction {
                    name: function.sig.ident.unraw().to_string(),
                    file: context.file.to_owned(),
                    options: arguments(&inline.meta).to_string(),
                    text: dsl::bare_text(&function),
                });
            }
            return;
        }
        let Some(attributes) = self.active(&function.attrs) else { return };
        let is_ours =
            |it: &&Meta| it.path().segments.last().is_some_and(|it| it.ident == "autotune");
        if let Some(ours) = attributes.iter().find(is_ours) {
            let options = arguments(ours);
            function.attrs.clear();
            let (scope, file) = (context.scope, context.file.to_owned());
            return sink(Found { scope, file, options, item: function });
        }
        let nested = function.block.stmts.into_iter().filter_map(|it| match it {
            Stmt::Item(item) => Some(item),
            _ => None,
        });
        let nested: Vec<Item> = nested.collect();
        if !nested.is_empty() {
            let name = function.sig.ident.to_string();
            let scope = self.add(name, Some(context.scope), Kind::Block, context.file);
            let (children, path_attribute) =
                (context.children.clone(), context.path_attribute.clone());
            self.items(
                nested,
                &Context { scope, file: context.file, children, path_attribute },
                sink,
            );
        }
    }

    fn child(&mut self, module: ItemMod, context: &Context<'_>, sink: Sink<'_>) {
        let Some(attributes) = self.active(&module.attrs) else { return };
        let path = attributes.iter().find_map(path_attribute);
        let name = module.ident.to_string();
        let name = name.strip_prefix("r#").unwrap_or(&name);
        let around = Some(context.scope);
        if let Some((_, items)) = module.content {
            let scope = self.add(name.to_owned(), around, Kind::Module, context.file);
            let children = context.children.join(path.as_deref().unwrap_or(name));
            let path_attribute = children.clone();
            let inside = Context { scope, file: context.file, children, path_attribute };
            return self.items(items, &inside, sink);
        }
        let (file, children) = match path {
            Some(path) => {
                let file = context.path_attribute.join(path);
                let children = parent(&file);
                (file, children)
            }
            None => {
                let beside = context.children.join(format!("{name}.rs"));
                let below = context.children.join(name);
                let inside = below.join("mod.rs");
                (if !beside.is_file() && inside.is_file() { inside } else { beside }, below)
            }
        };
        let is_conditional = attributes.iter().any(|it| it.path().is_ident("cfg"));
        if file.is_file() {
            let mut around = Some(context.scope);
            // A file that is a module of its own is an error of the compiler.
            while let Some(id) = around {
                if self.module(id).file == file {
                    return;
                }
                around = self.module(id).parent;
            }
            let id = self.add(name.to_owned(), Some(context.scope), Kind::Module, &file);
            self.file(id, children, false, sink);
        } else if !is_conditional {
            self.missing.push(file);
        }
    }

    /// Returns whether an item is certainly left out. One that may be there counts: if it is not,
    /// the compiler says so.
    fn is_off(&self, attributes: &[Attribute]) -> bool {
        attributes.iter().any(|it| {
            let predicate = it.path().is_ident("cfg").then(|| it.parse_args::<Meta>());
            predicate.is_some_and(|it| it.is_ok_and(|it| self.cfg.is_off(&it)))
        })
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

/// The tokens between the parentheses of an attribute.
fn arguments(attribute: &Meta) -> TokenStream {
    match attribute {
        Meta::List(list) => list.tokens.clone(),
        Meta::Path(_) | Meta::NameValue(_) => TokenStream::new(),
    }
}

/// Parses a file; groups that nest too deeply for a parser's stack are taken for empty.
fn parse(text: &str) -> Option<syn::File> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // A line for a shell; `#![..]` is an attribute.
    let is_script = text.starts_with("#!") && !text[2..].trim_start().starts_with('[');
    let text = if is_script { text.split_once('\n').map_or("", |(_, rest)| rest) } else { text };
    syn::parse2(dsl::without_deep_groups(text.parse().ok()?)).ok()
}

/// Returns whether a text may name other files: as `mod name;`, or by `include!`.
fn declares_files(text: &str) -> bool {
    let is_declaration = |(at, found): (usize, &str)| {
        let rest = text[at + found.len()..].trim_start();
        let name = |it: char| !(it.is_alphanumeric() || "_#".contains(it));
        rest.trim_start_matches(|it| !name(it)).trim_start().starts_with(';')
    };
    text.match_indices("mod ").any(is_declaration) || text.contains("include!")
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

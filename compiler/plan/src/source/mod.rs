//! The sources of a package: its `#[autotune]` functions, with the constants, functions and kernel
//! templates that they mention, without compiling it.
//!
//! In: the folder of a package and the [`Cfg`] of the build. Out: a [`Scan`]: the functions, as
//! syntax, with numbers for constants, texts for templates, and the functions that they call bound in front
//! of their bodies, and the files that were read. Next: an op of each is planned.
//!
//! The scan is a hint: the macro works out each function's identity again when it expands, and
//! looks for a plan of that identity. For a function that the scan doesn't see (one that another
//! macro makes, or in an included file) it asks for one, and one that is seen in vain costs time
//! only. Constants it reads by the same rules ([`Sources`]), and in each expansion the compiler
//! compares them with what was read.
//!
//! # Invariants
//!
//! - Files that can't be read or parsed contribute nothing; the compiler reports them.
//! - A function is found once, whatever the number of targets that include its file.
//!
//! # Source
//!
//! The rules of `mod` are those of the Rust reference, "Module source filenames". Evaluating `cfg`
//! from cargo's variables is cxx-build's.

mod cfg;
mod functions;
mod import;
mod integer;
mod place;
mod resolve;
mod targets;
mod template;
mod tree;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::TokenStream;
use syn::ItemFn;
use tvmtune_ir::dag::Numerics;
use tvmtune_ir::dsl::{self, NamedText};

pub use cfg::Cfg;
pub use place::{Place, Sources};
pub use resolve::Unread;
pub use targets::{Root, RootKind, roots};
pub use template::{Header, NoBindings, template};

use self::functions::Finder;
use self::integer::segments;
use self::resolve::Search;
use self::tree::{Found, Kind, ModuleId, Tree};
use crate::of_crate;

/// The annotated functions of a package, and its source files.
#[derive(Default)]
pub struct Scan {
    /// The annotated functions, in order of appearance.
    pub functions: Vec<Function>,
    /// Files whose change changes the result: those of libraries and binaries, and of other
    /// targets those that mention the attribute, so that editing a test rebuilds no library; and
    /// those with constants and functions that were read.
    pub watched: BTreeSet<PathBuf>,
    /// Files that a `mod` names and that don't exist yet.
    pub missing: BTreeSet<PathBuf>,
    /// True if a module or block has two annotated functions of one name, which the compiler refuses.
    pub has_clash: bool,
}

/// One annotated function.
pub struct Function {
    /// Its file.
    pub file: PathBuf,
    /// The modules around it, outermost first; of a target that is no library, with its name.
    pub module: Vec<String>,
    /// The tokens between the parentheses of the attribute, with numbers for constants.
    pub options: TokenStream,
    /// The function, without the attribute, and with the functions that it calls.
    pub item: ItemFn,
}

/// Reads every target of the package in `manifest_dir`.
pub fn scan(manifest_dir: &Path, cfg: &Cfg) -> Scan {
    scan_with(
        manifest_dir,
        cfg,
        &|header, why| Err(NoBindings::Missing { header, why }.to_string()),
    )
}

/// Makes bindings that a package lacks; gets the reason why it does.
pub type MakeBindings<'a> = &'a dyn Fn(Header, &'static str) -> Result<String, String>;

/// The same, with bindings of headers that the package lacks made by `make`.
pub fn scan_with(manifest_dir: &Path, cfg: &Cfg, make: MakeBindings<'_>) -> Scan {
    let (mut scan, mut seen) = (Scan::default(), BTreeSet::new());
    // An invalid file is an error of the configuration, which a build reads as well.
    let numerics = of_crate::numerics(manifest_dir).unwrap_or_default();
    for root in roots(manifest_dir) {
        let mut found = Vec::new();
        let mut tree = Tree::read(&root.path, cfg, &mut |it| found.push(it));
        let of_target = tree.files.clone();
        for (file, is_mentioned) in &of_target {
            if *is_mentioned || root.kind == RootKind::Main {
                scan.watched.insert(file.clone());
            }
        }
        scan.missing.extend(tree.missing.iter().cloned());
        let mut names = BTreeSet::new();
        scan.has_clash |=
            !found.iter().all(|it| names.insert((it.scope, it.item.sig.ident.clone())));
        for it in found.into_iter().filter(|it| !seen.contains(&it.file)) {
            let mut read = Read { manifest_dir, numerics, make, scan: &mut scan };
            let function = read.function(it, &root, &mut tree);
            scan.functions.push(function);
        }
        seen.extend(of_target.into_iter().map(|(file, _)| file));
    }
    scan
}

/// The reading of what a function mentions.
struct Read<'a> {
    manifest_dir: &'a Path,
    /// Those of programs that say none.
    numerics: Numerics,
    make: MakeBindings<'a>,
    scan: &'a mut Scan,
}

impl Read<'_> {
    fn function(&mut self, found: Found, root: &Root, tree: &mut Tree) -> Function {
        let Found { scope, file, options, mut item } = found;
        let mut functions = Finder::new(vec![tree]);
        dsl::with_functions(&mut item, &vec![(0, scope)], &mut functions);
        self.scan.watched.append(&mut functions.files);
        let options = dsl::with_constants(options, &mut |path| {
            let mut search = Search::new(tree);
            let path = segments(path).ok_or_else(String::new)?;
            let value = search.constant(scope, &path).map_err(|it| it.to_string());
            self.scan.watched.extend(search.files);
            value
        });
        let options = dsl::with_templates(options, &mut |it| self.text(it));
        let options = dsl::with_numerics(options, self.numerics);
        let module = root.module().into_iter().chain(module_path(tree, scope)).collect();
        Function { file, module, options, item }
    }

    fn text(&mut self, named: &NamedText) -> Result<String, String> {
        let mut files = BTreeSet::new();
        let text = match text(self.manifest_dir, named, &mut files) {
            Err(NoBindings::Missing { header, why }) => (self.make)(header, why),
            other => other.map_err(|it| it.to_string()),
        };
        for file in files.iter().map(|it| self.manifest_dir.join(it)) {
            // Of two places for an include, the first may be free.
            let is_missing = !file.exists();
            if !is_missing {
                self.scan.watched.insert(file);
            } else if text.is_err() {
                self.scan.missing.insert(file);
            }
        }
        text
    }
}

/// Reads what an attribute names, of the package in `manifest_dir`; the files that were looked for are in
/// `files`, also after an error.
///
/// # Errors
///
/// [`NoBindings`], of a template too.
pub fn text(
    manifest_dir: &Path,
    named: &NamedText,
    files: &mut BTreeSet<PathBuf>,
) -> Result<String, NoBindings> {
    match named {
        NamedText::Template(name) => {
            template(manifest_dir, name, files).map_err(NoBindings::Unreadable)
        }
        NamedText::Reference(name) => {
            template::plain(manifest_dir, name, files).map_err(NoBindings::Unreadable)
        }
        NamedText::Bindings { header, name, words } => {
            let header = Header::read(manifest_dir, header, (name, words), files);
            header.map_err(NoBindings::Unreadable)?.bindings(manifest_dir, files)
        }
    }
}

/// The names of the modules around a scope, without the root.
fn module_path(tree: &Tree, scope: ModuleId) -> Vec<String> {
    let (mut names, mut next) = (Vec::new(), Some(scope));
    while let Some(id) = next {
        let it = tree.module(id);
        names.extend((it.kind == Kind::Module && it.parent.is_some()).then(|| it.name.clone()));
        next = it.parent;
    }
    names.reverse();
    names
}

#[cfg(test)]
mod tests;

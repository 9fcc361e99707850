//! Constants and functions as an expansion sees them: of an op whose place the macro knows in part.
//!
//! In: the root files of a crate, and a [`Place`]. Out: the value of a constant there, or the op with the
//! functions that it calls.
//!
//! The macro is not told the module around a function. It is found by the function's text, and by
//! its file, as far as the compiler says. A function that another macro wrote has no text of its
//! own: the modules of the file are tried, where the path was written.
//!
//! # Invariant
//!
//! - Where several modules come into question, all give the same value, or there is none.

use std::fs;
use std::path::{Path, PathBuf};

use syn::ItemFn;
use tvmtune_ir::dsl::{self, Called};

use super::cfg::Cfg;
use super::functions::Finder;
use super::resolve::{Search, Unread};
use super::tree::{Kind, ModuleId, Tree};

/// The sources of a crate: one tree of modules, or several where the target is not known.
pub struct Sources {
    targets: Vec<Target>,
}

struct Target {
    tree: Tree,
    ops: Vec<Site>,
}

/// A function in the sources.
struct Site {
    scope: ModuleId,
    file: PathBuf,
    name: String,
    options: String,
}

/// An op, as far as the macro knows where it stands.
#[derive(Clone, Debug)]
pub struct Place {
    /// The function's name.
    pub name: String,
    /// The text of the attribute's arguments.
    pub options: String,
    /// The file of the function.
    pub file: Option<PathBuf>,
    /// The line of the function's name in it, from 1; 0 if unknown.
    pub line: usize,
    /// The file in which the constant's path is written.
    pub written: Option<PathBuf>,
}

impl Sources {
    /// Reads the targets with these root files.
    pub fn read(roots: &[PathBuf], cfg: &Cfg) -> Self {
        let target = |root: &PathBuf| {
            let mut ops = Vec::new();
            let tree = Tree::read(root, cfg, &mut |it| {
                let (name, options) =
                    (it.item.sig.ident.to_string(), squeezed(&it.options.to_string()));
                ops.push(Site { scope: it.scope, file: it.file, name, options });
            });
            let modules = tree.modules.iter().enumerate();
            for (scope, it) in
                modules.flat_map(|(n, it)| it.functions.iter().map(move |it| (n, it)))
            {
                let (name, options) = (it.name.clone(), squeezed(&it.options));
                ops.push(Site { scope: ModuleId(scope), file: it.file.clone(), name, options });
            }
            Target { tree, ops }
        };
        Self { targets: roots.iter().map(target).collect() }
    }

    /// Returns the value of the constant that a path names at that place.
    ///
    /// # Errors
    ///
    /// If it can't be read.
    pub fn constant(&mut self, place: &Place, path: &[String]) -> Result<i128, Unread> {
        let mut values = Vec::new();
        for target in &mut self.targets {
            for scope in target.scopes(place) {
                match Search::new(&mut target.tree).constant(scope, path) {
                    Err(Unread::Unknown(_)) => {}
                    other => values.push(other?),
                }
            }
        }
        values.dedup();
        match values[..] {
            [] => Err(Unread::Unknown(path.join("::"))),
            [one] => Ok(one),
            _ => Err(Unread::Several(path.join("::"))),
        }
    }

    /// Binds the functions of the crate that a function at that place calls in front of its body; returns
    /// those that it calls itself.
    pub fn with_functions(&mut self, place: &Place, item: &mut ItemFn) -> Vec<Called> {
        let scopes = self.targets.iter().enumerate();
        let scopes = scopes.flat_map(|(n, it)| it.scopes(place).into_iter().map(move |it| (n, it)));
        let scopes = scopes.collect();
        let mut finder = Finder::new(self.targets.iter_mut().map(|it| &mut it.tree).collect());
        dsl::with_functions(item, &scopes, &mut finder)
    }
}

impl Target {
    /// The scopes that come into question.
    fn scopes(&self, place: &Place) -> Vec<ModuleId> {
        let options = squeezed(&place.options);
        let is_there = |it: &Path| place.file.as_ref().is_none_or(|file| is_same_file(file, it));
        let ops: Vec<&Site> =
            self.ops.iter().filter(|it| it.name == place.name && is_there(&it.file)).collect();
        let same: Vec<&Site> = ops.iter().copied().filter(|it| it.options == options).collect();
        match same[..] {
            [] => {}
            [one] => return vec![one.scope],
            _ => {
                let exact = nth(&ops, place).filter(|it| it.options == options);
                return exact
                    .map_or_else(|| same.iter().map(|it| it.scope).collect(), |it| vec![it.scope]);
            }
        }
        let Some(written) = &place.written else { return Vec::new() };
        let modules = (0..self.tree.modules.len()).map(ModuleId);
        let is_there = |it: &ModuleId| {
            let it = self.tree.module(*it);
            let mut files = it.included.iter().chain([&it.file]);
            it.kind == Kind::Module && files.any(|it| is_same_file(written, it))
        };
        modules.filter(is_there).collect()
    }
}

/// Which of the functions of one name in one file stands at the line, if the text tells.
fn nth<'a>(ops: &[&'a Site], place: &Place) -> Option<&'a Site> {
    let text = fs::read_to_string(place.file.as_ref()?).ok()?;
    let is_definition = |line: &str| {
        let mut words = line.split(|it: char| !(it.is_alphanumeric() || it == '_'));
        words.any(|it| it == "fn") && words.find(|it| !it.is_empty()) == Some(&place.name)
    };
    let lines = text.lines().enumerate().filter(|(_, line)| is_definition(line));
    let lines: Vec<usize> = lines.map(|(n, _)| n + 1).collect();
    let position = lines.iter().position(|it| *it == place.line)?;
    (lines.len() == ops.len()).then(|| ops[position])
}

/// A text without white space: compilers and this crate print tokens with other spaces.
fn squeezed(text: &str) -> String {
    text.chars().filter(|it| !it.is_whitespace()).collect()
}

fn is_same_file(a: &Path, b: &Path) -> bool {
    a == b || fs::canonicalize(a).ok().zip(fs::canonicalize(b).ok()).is_some_and(|(a, b)| a == b)
}

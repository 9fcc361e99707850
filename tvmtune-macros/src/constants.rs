//! Constants and kernel templates in the attribute, and the numerics of the crate: their values and texts,
//! and the checks that stand in the expansion.
//!
//! In: an attribute's arguments. Out: the same with texts for templates and numbers for constants, read
//! in the sources of the crate by the rules of the build script ([`tvmtune_plan::source`]), and items by
//! which the compiler compares each with the constant, and tracks the files. Next: the program is read.
//!
//! # Invariants
//!
//! - A wrong reading does not compile.
//! - An attribute without constants costs nothing: no source is read.
//! - In an editor, whose server may not know where an op stands, nothing is reported.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ItemFn;
use syn::spanned::Spanned;
use tvmtune_ir::dsl::{self, NamedText};
use tvmtune_plan::handoff::Handoff;
use tvmtune_plan::of_crate::{self, CONFIG_FILE};
use tvmtune_plan::source::{self, Cfg, NoBindings, Place, Sources, Unread};

use crate::compiler::{self, Compiler};

/// An attribute's arguments without constants.
pub(crate) struct Resolved {
    /// The arguments.
    pub(crate) options: TokenStream,
    /// Items that compare each constant with its number, and that name the files of templates.
    pub(crate) checks: TokenStream,
    /// A constant has no value here, and only a compiler may complain.
    pub(crate) is_unknown: bool,
}

/// Replaces the constants in a function's attribute.
pub(crate) fn resolve(options: &TokenStream, function: &ItemFn) -> Resolved {
    let (mut checks, mut is_unknown) = (TokenStream::new(), false);
    let name = function.sig.ident.to_string();
    let is_compiler = Compiler::this_process().is_some();
    let options = dsl::with_constants(options.clone(), &mut |path| {
        let value = read(path, options, function);
        is_unknown |= value.is_err() && !is_compiler;
        let value = value.map_err(|it| it.to_string())?;
        checks.extend(check(path, value, &name));
        Ok(value)
    });
    let options = dsl::with_templates(options, &mut |named| {
        let (text, tracked) = named_text(named);
        checks.extend(tracked);
        text
    });
    let (options, of_crate) = with_numerics(options);
    checks.extend(of_crate);
    Resolved { options, checks, is_unknown }
}

/// The arguments with the numerics of the crate, if they say none, and items by which the compiler tracks the
/// file that says them, or that report what is wrong with it.
fn with_numerics(options: TokenStream) -> (TokenStream, TokenStream) {
    let manifest_dir = manifest_dir();
    match of_crate::numerics(&manifest_dir) {
        Ok(numerics) => {
            let file = Path::new(CONFIG_FILE);
            let is_there = manifest_dir.join(file).exists();
            let tracked = is_there.then(|| tracked(file)).flatten().unwrap_or_default();
            (dsl::with_numerics(options, numerics), tracked)
        }
        Err(why) => {
            let message = format!("`{CONFIG_FILE}`: {why}");
            (options, quote!(::core::compile_error!(#message);))
        }
    }
}

fn manifest_dir() -> PathBuf {
    PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default())
}

/// An item by which the compiler tracks a file of the package.
fn tracked(file: &Path) -> Option<TokenStream> {
    let file = file.to_str()?;
    Some(quote! {
        const _: &::core::primitive::str = ::core::include_str!(
            ::core::concat!(::core::env!("CARGO_MANIFEST_DIR"), "/", #file)
        );
    })
}

/// The text of a kernel template or the bindings of a header, and items by which the compiler tracks the
/// files that it is made of. Bindings are compiled, too: they hold the layouts of structs against those of
/// the header.
fn named_text(named: &NamedText) -> (Result<String, String>, TokenStream) {
    let manifest_dir = manifest_dir();
    let mut files = BTreeSet::new();
    let text = source::text(&manifest_dir, named, &mut files).map_err(|it| reason(&it));
    let existing = files.iter().filter(|it| manifest_dir.join(it).exists());
    let mut items: TokenStream = existing.filter_map(|it| tracked(it)).collect();
    if let (NamedText::Bindings { .. }, Ok(text)) = (named, &text)
        && let Ok(bindings) = text.parse::<TokenStream>()
    {
        items.extend(quote! {
            #[allow(clippy::all, clippy::pedantic, clippy::restriction, dead_code)]
            #[allow(non_camel_case_types, non_upper_case_globals, non_snake_case)]
            const _: () = { #bindings };
        });
    }
    (text, items)
}

/// The reason why there is no text: that of the build script, if it tried to make bindings and could not.
fn reason(error: &NoBindings) -> String {
    let of_script = |header: &source::Header| {
        let plans = std::env::var_os("TVMTUNE_PLAN_DIR")?;
        Handoff::read(Path::new(&plans))?.unbound.remove(&header.first_line())
    };
    let found = match error {
        NoBindings::Missing { header, .. } => of_script(header),
        NoBindings::Unreadable(_) => None,
    };
    found.unwrap_or_else(|| error.to_string())
}

/// An item that does not compile if a constant has another value.
fn check(path: &syn::Path, value: i128, function: &str) -> TokenStream {
    let constant = path.to_token_stream().to_string().replace(' ', "");
    let message = format!(
        "`{constant}` was read as {value} for `{function}`, and is another number: write the \
         number in its place"
    );
    quote_spanned! {path.span()=>
        #[allow(clippy::all, clippy::pedantic, clippy::restriction, trivial_numeric_casts)]
        const _: () = ::core::assert!(#path as ::core::primitive::i128 == #value, #message);
    }
}

fn read(path: &syn::Path, options: &TokenStream, function: &ItemFn) -> Result<i128, Unread> {
    let written = || path.to_token_stream().to_string().replace(' ', "");
    let names: Vec<String> = written().split("::").map(str::to_owned).collect();
    let ident = &function.sig.ident;
    let (file, line) = position(ident.span());
    let place = Place {
        name: ident.to_string(),
        options: options.to_string(),
        file,
        line,
        written: position(path.span()).0,
    };
    with_sources(|sources| sources.constant(&place, &names))
}

/// The file and the line of a span, as far as the process that expands knows.
pub(crate) fn position(span: Span) -> (Option<PathBuf>, usize) {
    if !proc_macro::is_available() {
        return (None, 0);
    }
    let span = span.unwrap();
    (span.local_file(), span.line())
}

/// Calls `f` with the sources of the crate. A compiler reads them once; an editor's server outlives them.
pub(crate) fn with_sources<T>(f: impl FnOnce(&mut Sources) -> T) -> T {
    static LAST: Mutex<Option<(PathBuf, Sources)>> = Mutex::new(None);
    let Some(root) = compiler::root_file() else {
        let roots: Vec<PathBuf> =
            source::roots(&manifest_dir()).into_iter().map(|it| it.path).collect();
        return f(&mut Sources::read(&roots, &Cfg::of_host()));
    };
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if last.as_ref().is_none_or(|(it, _)| *it != root) {
        *last = Some((root.clone(), Sources::read(&[root], &cfg())));
    }
    let (_, sources) = last.as_mut().expect("set above");
    f(sources)
}

/// The configuration of this compiler, as its arguments and a build script say.
fn cfg() -> Cfg {
    let plans = std::env::var_os("TVMTUNE_PLAN_DIR");
    let handoff = plans.and_then(|it| Handoff::read(Path::new(&it)));
    let cfg = match handoff {
        Some(handoff) => {
            let variables = handoff.variables.iter().map(|(name, value)| (&**name, &**value));
            Cfg::from_variables(variables)
        }
        None if compiler::has_target() => Cfg::default(),
        None => Cfg::of_host(),
    };
    let arguments = compiler::cfg_arguments();
    cfg.with_arguments(arguments.iter().map(String::as_str))
}

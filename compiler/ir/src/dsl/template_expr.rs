//! The meaning of a kernel template: its expressions, in dimensions and knobs, with what can be checked
//! before anything is compiled.
//!
//! In: a [`TemplateDeclaration`] and dimensions with their numbers. Out: a [`KernelTemplate`] whose
//! defaults make launches.

use proc_macro2::Ident;
use quote::ToTokens;
use syn::{BinOp, Expr, Lit};

use super::bindings::BoundField;
use super::elaborate::Elaborator;
use super::options::Options;
use super::template::{KernelDeclaration, NAMES, ParamsDeclaration, TemplateDeclaration};
use crate::dag::kernel_template::{
    Constraint, FieldValue, Found, KernelLaunch, KernelTemplate, Knob, LaunchExpr, LaunchOp,
    MAX_BLOCK, MAX_DEPTH, MAX_GRID, MAX_THREADS, ParamField, ParamStruct, is_identifier,
};
use crate::dag::limits::MAX_INDEX;
use crate::dag::{CompareOp, ScalarId};
use crate::poly::DimId;
use crate::similar;

const NO_EXPR: &str = "expected an integer, or `+ - * / %`, `min(a, b)` and `max(a, b)` of integers, \
                       dimensions and knobs";

/// The dimensions that a template mentions: those in its launches and constraints, and fixed ones in its
/// file.
pub(super) fn mentioned(options: &Options) -> Vec<Ident> {
    let TemplateDeclaration { file, source, knobs, kernels, constraints, .. } = &options.template;
    let mut names = Vec::new();
    let parts = kernels.iter().flat_map(|it| [&it.grid, &it.block, &it.shared]).flatten();
    let values = knobs.iter().map(|it| &it.values);
    for expr in parts.chain(constraints).chain(values) {
        super::elaborate::collect_idents(expr.to_token_stream(), &mut names);
    }
    if file.is_some() {
        // A file that cannot be read may mention any.
        let is_read = |it: &Ident| source.as_ref().is_none_or(|text| reads(text, &it.to_string()));
        let fixed = options.dims.iter().filter(|it| !it.dynamic).map(|it| &it.ident);
        names.extend(fixed.filter(|it| is_read(it)).cloned());
    }
    names
}

/// Returns whether a text of C++ has a word, outside of comments and strings.
pub(super) fn reads(source: &str, word: &str) -> bool {
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let n_bytes = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |it| it + 2)
        } else if first == '"' {
            let mut escaped = false;
            let end = rest[1..].find(|c: char| {
                let ends = (c == '"' && !escaped) || c == '\n';
                escaped = c == '\\' && !escaped;
                ends
            });
            end.map_or(rest.len(), |it| it + 2)
        } else if is_word(first) {
            let n_bytes = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
            if rest[..n_bytes] == *word {
                return true;
            }
            n_bytes
        } else {
            first.len_utf8()
        };
        rest = &rest[n_bytes..];
    }
    false
}

/// The names that an expression may mention: constants of the header, fixed dimensions, and some more.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Scope {
    /// Nothing more: knobs get their values here.
    Knobs,
    /// Knobs. Dimensions that a launch decides are not known yet.
    Compilation,
    /// Knobs and dimensions of a launch.
    Launch,
}

impl Elaborator {
    /// Returns the hand-written kernels of the function; `None` if there are none, or after an error.
    pub(super) fn kernel_template(&mut self, function: &Ident) -> Option<KernelTemplate> {
        let declared = self.options.template.clone();
        let Some(file) = &declared.file else {
            if declared.params.as_ref().is_some_and(|it| it.bindings.is_none()) {
                // Something is wrong already.
                return None;
            }
            let first = declared.given.first()?;
            let message = format!(
                "`{first}(..)` belongs to a kernel template: add `{} = \"kernels/{function}.cu\"`",
                NAMES[0]
            );
            return self.errors.at(first, message);
        };
        if declared.kernels.is_empty() {
            let message = format!(
                "a template says how its kernels are launched: add `kernels({function}(grid = .., \
                 block = ..))`"
            );
            return self.errors.at(file, message);
        }
        let mark = self.errors.mark();
        let source = declared.source.as_deref()?;
        self.check_names(&declared, &file.value(), source);
        let fixed = self.options.dims.iter().filter(|it| !it.dynamic);
        let macros = fixed.map(|it| (it.ident.to_string(), it.range.lo));
        let macros = macros.filter(|(name, _)| reads(source, name)).collect();
        let knobs: Vec<_> = declared.knobs.iter().map(|it| self.knob(it)).collect();
        let knobs: Option<Vec<Knob>> = knobs.into_iter().collect();
        let constraints = declared.constraints.iter().map(|it| self.constraint(it));
        let constraints: Option<Vec<_>> = constraints.collect();
        let kernels: Vec<_> = declared.kernels.iter().map(|it| self.launch(it)).collect();
        let kernels: Option<Vec<_>> = kernels.into_iter().collect();
        let params = declared.params.as_ref().map(|it| self.param_struct(it));
        let reference = declared.reference.as_ref().and_then(|it| self.rust_function(it));
        let ((constraints, kernels), knobs) = constraints.zip(kernels).zip(knobs)?;
        if self.errors.mark() > mark {
            return None;
        }
        let (file, source) = (file.value(), source.to_owned());
        let params = params.flatten();
        let template =
            KernelTemplate { file, source, macros, knobs, constraints, params, kernels, reference };
        self.check_defaults(&declared, &template).then_some(template)
    }

    /// Reports knobs that nothing reads or that are dimensions, and kernels that the file lacks.
    fn check_names(&mut self, declared: &TemplateDeclaration, file: &str, source: &str) {
        let mut in_launches = Vec::new();
        let parts = declared.kernels.iter().flat_map(|it| [&it.grid, &it.block, &it.shared]);
        for expr in parts.flatten() {
            super::elaborate::collect_idents(expr.to_token_stream(), &mut in_launches);
        }
        for knob in declared.knobs.iter().map(|it| &it.ident) {
            let name = knob.to_string();
            if self.options.dims.iter().any(|it| it.ident == *knob) {
                let message = format!("`{name}` is a dimension and a knob: rename one of them");
                self.errors.at::<()>(knob, message);
            } else if !is_identifier(&name) {
                self.errors.at::<()>(knob, format!("`{name}` is no name of a macro: rename it"));
            } else if !reads(source, &name) && !in_launches.contains(knob) {
                let message = format!(
                    "neither `{file}` nor a launch reads the knob `{name}`: use it there, or remove \
                     it"
                );
                self.errors.at::<()>(knob, message);
            }
        }
        for kernel in &declared.kernels {
            let name = kernel.ident.to_string();
            if !reads(source, &name) {
                let message = format!(
                    "`{file}` has no kernel `{name}`: write `extern \"C\" __global__ void \
                     {name}(..)` there"
                );
                self.errors.at::<()>(&kernel.ident, message);
            }
        }
    }

    /// Gives each field of the struct that kernels take the scalar or dimension of its name.
    fn param_struct(&mut self, declared: &ParamsDeclaration) -> Option<ParamStruct> {
        let ParamsDeclaration { ident, bindings } = declared;
        let bindings = bindings.as_ref()?;
        let mut fields = Vec::new();
        for BoundField { name, ty, offset } in &bindings.fields {
            let scalar = self.symbols.scalars.iter().position(|it| it.name == *name);
            let dynamic = self.options.dims.iter().filter(|it| it.dynamic);
            let names = dynamic.map(|it| it.ident.to_string());
            let dim = names.clone().position(|it| it == *name || it.to_lowercase() == *name);
            let value = match (scalar, dim) {
                (Some(n), _) if ty.dtype == Some(self.symbols.scalars[n].dtype) => {
                    FieldValue::Scalar(ScalarId(n as u32))
                }
                (Some(n), _) => {
                    let dtype = self.symbols.scalars[n].dtype;
                    let bytes = ty.bytes;
                    let message = format!(
                        "field `{name}` of `{ident}` has {bytes} bytes and not the type of `{name}: \
                         {dtype}`: give both one type"
                    );
                    return self.errors.at(ident, message);
                }
                (None, Some(n)) if ty.is_integer && ty.bytes >= 4 => {
                    FieldValue::Dim(DimId(n as u32))
                }
                (None, Some(_)) => {
                    let message = format!(
                        "field `{name}` of `{ident}` is a dimension: give it an integer type of 4 or \
                         8 bytes"
                    );
                    return self.errors.at(ident, message);
                }
                (None, None) => {
                    let known = self.symbols.scalars.iter().map(|it| it.name.clone());
                    let known: Vec<String> = known.chain(names).collect();
                    let meant = similar::suggestion(name, known.iter().map(String::as_str));
                    let meant = meant.unwrap_or_else(|| ": name it after one, or add one".into());
                    let message = format!(
                        "field `{name}` of `{ident}` is no scalar of the function, and no dimension \
                         that a launch decides{meant}"
                    );
                    return self.errors.at(ident, message);
                }
            };
            fields.push(ParamField { name: name.clone(), value, offset: *offset, bytes: ty.bytes });
        }
        Some(ParamStruct { name: ident.to_string(), bytes: bindings.bytes, fields })
    }

    fn launch(&mut self, declared: &KernelDeclaration) -> Option<KernelLaunch> {
        let KernelDeclaration { ident, grid, block, shared } = declared;
        let mut missing = |part: &str| {
            let message = format!("a launch needs `{part}`: write `{ident}({part} = ..)`");
            self.errors.at::<()>(ident, message);
        };
        if grid.is_none() {
            missing("grid");
        }
        if block.is_none() {
            missing("block");
        }
        let (grid, block) = (grid.as_ref()?, block.as_ref()?);
        let grid = self.launch_extents(grid, Scope::Launch);
        let block = self.launch_extents(block, Scope::Compilation);
        let none = Some(LaunchExpr::Int(0));
        let shared = shared.as_ref().map_or(none, |it| self.launch_expr(it, Scope::Compilation, 0));
        let (name, (grid, block)) = (ident.to_string(), grid.zip(block)?);
        Some(KernelLaunch { name, grid, block, shared: shared? })
    }

    /// `N / 64`, or `(N / 64, HEADS)`: numbers in x, y and z.
    fn launch_extents(&mut self, expr: &Expr, scope: Scope) -> Option<Vec<LaunchExpr>> {
        let extents = extents(expr);
        if !(1..=3).contains(&extents.len()) {
            let message = "expected one to three numbers, as in `grid = (N / 64, HEADS)`";
            return self.errors.at(expr, message);
        }
        let all: Vec<_> = extents.iter().map(|it| self.launch_expr(it, scope, 0)).collect();
        all.into_iter().collect()
    }

    fn constraint(&mut self, expr: &Expr) -> Option<Constraint> {
        let Expr::Binary(it) = expr else {
            return self.errors.at(expr, "expected a comparison, as in `BLOCK * ITEMS <= 4096`");
        };
        let op = match it.op {
            BinOp::Lt(_) => CompareOp::Lt,
            BinOp::Le(_) => CompareOp::Le,
            BinOp::Eq(_) => CompareOp::Eq,
            BinOp::Ne(_) => CompareOp::Ne,
            BinOp::Ge(_) => CompareOp::Ge,
            BinOp::Gt(_) => CompareOp::Gt,
            _ => {
                let message = "expected one comparison, as in `BLOCK * ITEMS <= 4096`; several \
                               are separated by commas";
                return self.errors.at(expr, message);
            }
        };
        let left = self.launch_expr(&it.left, Scope::Compilation, 0);
        let right = self.launch_expr(&it.right, Scope::Compilation, 0);
        let (left, right) = left.zip(right)?;
        Some(Constraint { op, left, right })
    }

    pub(super) fn launch_expr(
        &mut self,
        expr: &Expr,
        scope: Scope,
        depth: usize,
    ) -> Option<LaunchExpr> {
        if depth == MAX_DEPTH {
            return self.errors.at(expr, format!("nested more than {MAX_DEPTH} deep"));
        }
        let pair = |it: &mut Self, op, left: &Expr, right: &Expr| {
            let left = it.launch_expr(left, scope, depth + 1);
            let right = it.launch_expr(right, scope, depth + 1);
            let (left, right) = left.zip(right)?;
            Some(LaunchExpr::binary(op, left, right))
        };
        match expr {
            Expr::Paren(it) => self.launch_expr(&it.expr, scope, depth),
            Expr::Group(it) => self.launch_expr(&it.expr, scope, depth),
            Expr::Lit(it) => match &it.lit {
                Lit::Int(number) => {
                    let value = number.base10_parse().ok().filter(|it| *it <= MAX_INDEX);
                    let value = value.or_else(|| self.errors.at(expr, "this integer is too large"));
                    value.map(LaunchExpr::Int)
                }
                _ => self.errors.at(expr, NO_EXPR),
            },
            Expr::Path(it) => self.launch_name(&it.path, scope),
            Expr::Binary(it) => {
                let op = match it.op {
                    BinOp::Add(_) => LaunchOp::Add,
                    BinOp::Sub(_) => LaunchOp::Sub,
                    BinOp::Mul(_) => LaunchOp::Mul,
                    BinOp::Div(_) => LaunchOp::Div,
                    BinOp::Rem(_) => LaunchOp::Rem,
                    _ => return self.errors.at(expr, NO_EXPR),
                };
                pair(self, op, &it.left, &it.right)
            }
            Expr::Call(it) => {
                let name = it.func.to_token_stream().to_string();
                let op = LaunchOp::ALL[5..].iter().find(|op| op.name() == name);
                let operands: Vec<&Expr> = it.args.iter().collect();
                match (op, operands.as_slice()) {
                    (Some(op), [left, right]) => pair(self, *op, left, right),
                    _ => self.errors.at(expr, NO_EXPR),
                }
            }
            _ => self.errors.at(expr, NO_EXPR),
        }
    }

    /// A dimension or a knob.
    fn launch_name(&mut self, path: &syn::Path, scope: Scope) -> Option<LaunchExpr> {
        let knobs = &self.options.template.knobs;
        if let Some(knob) = knobs.iter().position(|it| path.is_ident(&it.ident)) {
            if scope == Scope::Knobs {
                let message = "a knob has no value here: relate knobs to one another by \
                               `constraints(..)`";
                return self.errors.at(path, message);
            }
            return Some(LaunchExpr::Knob(knob as u32));
        }
        let dims = &self.options.dims;
        let Some(place) = dims.iter().position(|it| path.is_ident(&it.ident)) else {
            let name = path.to_token_stream().to_string().replace(' ', "");
            if let Some(value) = self.options.template.constant(&name) {
                return Some(LaunchExpr::Int(value));
            }
            let params = self.options.template.params.as_ref();
            if self.options.incomplete || params.is_some_and(|it| it.bindings.is_none()) {
                return None;
            }
            let names = dims.iter().map(|it| &it.ident).chain(knobs.iter().map(|it| &it.ident));
            let names: Vec<String> = names.map(ToString::to_string).collect();
            let meant = similar::suggestion(&name, names.iter().map(String::as_str));
            let meant = meant.unwrap_or_else(|| ": declare it in `dims(..)` or `knobs(..)`".into());
            return self.errors.at(path, format!("`{name}` is no dimension and no knob{meant}"));
        };
        if !dims[place].dynamic {
            return Some(LaunchExpr::Int(dims[place].range.lo));
        }
        if scope != Scope::Launch {
            let message = format!(
                "`{}` is known at launch only, and this is needed to compile: use knobs and fixed \
                 dimensions",
                dims[place].ident
            );
            return self.errors.at(path, message);
        }
        let before = dims[..place].iter().filter(|it| it.dynamic).count();
        Some(LaunchExpr::Dim(DimId(before as u32)))
    }

    /// Returns whether the defaults of the knobs satisfy every constraint and make launches.
    fn check_defaults(&mut self, declared: &TemplateDeclaration, it: &KernelTemplate) -> bool {
        let mark = self.errors.mark();
        let values = it.default_values();
        let setting = match it.knobs.is_empty() {
            true => String::new(),
            false => format!(" with `{}`, the first value of each knob", it.setting(&values)),
        };
        let refused: Vec<_> = it
            .constraints
            .iter()
            .zip(&declared.constraints)
            .filter(|it| !it.0.holds(&values))
            .collect();
        let together =
            if refused.is_empty() { Found::Unknown } else { it.find_allowed(&it.constraints) };
        for (constraint, expr) in refused {
            let message = match (it.find_allowed(std::slice::from_ref(constraint)), &together) {
                (Found::Nothing, _) if it.knobs.is_empty() => "this does not hold".to_owned(),
                (Found::Nothing, _) => "no values of the knobs satisfy this".to_owned(),
                (_, Found::Nothing) => {
                    "no values of the knobs satisfy this and the other constraints".to_owned()
                }
                (_, Found::Values(others)) => format!(
                    "this does not hold{setting}: these are the default, so list others first, as \
                     `{}`, which satisfy all constraints",
                    it.setting(others)
                ),
                (_, Found::Unknown) => format!(
                    "this does not hold{setting}: these are the default, so list others first, \
                     which satisfy all constraints"
                ),
            };
            self.errors.at::<()>(expr, message);
        }
        for (kernel, declared) in it.kernels.iter().zip(&declared.kernels) {
            self.check_launch(kernel, declared, &values, &setting);
        }
        self.errors.mark() == mark
    }

    /// Reports numbers of a launch that no device takes. `setting` says which values knobs have.
    fn check_launch(
        &mut self,
        kernel: &KernelLaunch,
        declared: &KernelDeclaration,
        values: &[u64],
        setting: &str,
    ) {
        let said = |it: Option<i64>| it.map_or("no number".to_owned(), |it| it.to_string());
        let (grid, block) = (declared.grid.as_ref(), declared.block.as_ref());
        let mut n_threads = Some(1_i64);
        let places = block.into_iter().flat_map(extents);
        for (((expr, most), axis), place) in
            kernel.block.iter().zip(MAX_BLOCK).zip(AXES).zip(places)
        {
            let threads = expr.constant(values);
            n_threads = n_threads.zip(threads).map(|(all, it)| all.saturating_mul(it));
            if !threads.is_some_and(|it| (1..=i64::from(most)).contains(&it)) {
                let found = said(threads);
                let message =
                    format!("a block has 1 to {most} threads{axis}, and this is {found}{setting}");
                self.errors.at::<()>(place, message);
                n_threads = None;
            }
        }
        if let Some(found) = n_threads.filter(|it| *it > i64::from(MAX_THREADS)) {
            let message =
                format!("a block has 1 to {MAX_THREADS} threads, and this is {found}{setting}");
            self.errors.at::<()>(block, message);
        }
        let bytes = kernel.shared.constant(values);
        if bytes.is_none_or(|it| u32::try_from(it).is_err()) {
            let found = said(bytes);
            let message =
                format!("shared memory has 0 or more bytes, and this is {found}{setting}");
            self.errors.at::<()>(&declared.shared, message);
        }
        let places = grid.into_iter().flat_map(extents);
        for (((expr, most), axis), place) in kernel.grid.iter().zip(MAX_GRID).zip(AXES).zip(places)
        {
            let blocks = expr.poly(values, &self.dim_facts);
            let blocks = blocks.map(|it| it.interval(&self.dim_facts));
            if blocks.is_none_or(|it| it.hi > most) {
                let message = format!(
                    "a grid has at most {most} blocks{axis}, and this may have more, or no number \
                     of them{setting}"
                );
                self.errors.at::<()>(place, message);
            }
        }
    }
}

/// The axes of grids and blocks as messages name them: the first goes without saying.
const AXES: [&str; 3] = ["", " in y", " in z"];

/// The numbers of a grid or block, in x, y and z.
fn extents(expr: &Expr) -> Vec<&Expr> {
    match expr {
        Expr::Tuple(it) => it.elems.iter().collect(),
        _ => vec![expr],
    }
}

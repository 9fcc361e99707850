//! Step 6 of 12, for any machine: a nest printed as portable, safe Rust.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [codegen::rust] -> text that rustc compiles
//! ```
//!
//! In: a [`Nest`]. Out: the text of one function, `portable`, which takes the dynamic dimensions,
//! the run-time scalars, the parameters, and the results with memory of their own, in that order, each
//! in order of declaration. Buffers are slices of the lengths that their shapes (as stored) say.
//!
//! It is the fallback for machines and types without machine code, the `reference` of every op, and
//! a second test oracle: rustc sees lost parentheses, which the interpreter cannot.
//!
//! # Invariants
//!
//! - The text needs one name from outside: `rt`, the crate `tvmtune-runtime`.
//! - Loops of all kinds run serially, in the order of the nest.
//! - Arithmetic is that of vector code: the same functions, and sums of products are contracted.
//! - An operand that is not a single token, call or index stands in parentheses.

mod expr;
mod innermost;
mod shared;

use std::collections::BTreeMap;

use tvmtune_ir::dag::{BinaryOp, DType, Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_schedule::nest::{Buffer, Guard, Nest, Scope, Stmt};
use tvmtune_schedule::print::names::is_rust_keyword;
use tvmtune_schedule::print::{Language, Names, Text};

use innermost::{RowSlice, TightenedLoop};

pub use expr::poly;

/// The names of Rust, but for those that the printed text uses.
const RUST: Language = Language {
    is_reserved: |word| is_rust_keyword(word) || ["rt", "std", "vec"].contains(&word),
    first_letter: 'v',
    dim: str::to_lowercase,
};

/// Elements up to which a temporary is on the stack.
const STACK_ELEMENTS: i64 = 1024;

/// Prints a nest as a Rust function. See the [module documentation](self).
pub fn print(nest: &Nest) -> String {
    let names = Names::new(nest, RUST);
    let mut printer = Printer {
        nest,
        names,
        slices: BTreeMap::new(),
        shared: BTreeMap::new(),
        text: String::new(),
        depth: 0,
    };
    printer.function();
    printer.text
}

/// Prints an integer expression of type `i64`; `leaf` names dimensions and variables.
pub fn index(value: &Poly, leaf: &dyn Fn(&Atom) -> String) -> String {
    poly(value, leaf).text
}

/// Returns the Rust type of elements.
pub fn element_type(dtype: DType) -> &'static str {
    match dtype {
        DType::F16 => "rt::half::f16",
        DType::Bf16 => "rt::half::bf16",
        other => other.name(),
    }
}

struct Printer<'a> {
    nest: &'a Nest,
    names: Names,
    /// Row slices that replace buffer accesses in the innermost loop.
    slices: BTreeMap<(TensorId, Poly), String>,
    /// Names of expressions of the statement that is printed, by their addresses in the nest.
    shared: BTreeMap<*const Expr, String>,
    text: String,
    depth: usize,
}

impl Printer<'_> {
    fn line(&mut self, line: &str) {
        for _ in 0..self.depth {
            self.text.push_str("    ");
        }
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn function(&mut self) {
        let nest = self.nest;
        let mut params = Vec::new();
        params.extend(self.names.dims.iter().map(|it| format!("{it}: i64")));
        for (name, scalar) in self.names.scalars.iter().zip(&nest.scalars) {
            params.push(format!("{name}: {}", element_type(scalar.dtype)));
        }
        let param = |tensor: &TensorId, reference: &str| {
            let element = element_type(nest.buffer(*tensor).dtype);
            format!("{}: {reference}[{element}]", self.names.buffer(*tensor))
        };
        params.extend(
            nest.params
                .iter()
                .map(|it| param(it, if nest.outputs.contains(it) { "&mut " } else { "&" })),
        );
        let own = nest.outputs.iter().filter(|it| !nest.params.contains(it));
        params.extend(own.map(|it| param(it, "&mut ")));
        self.line(&format!("pub fn portable({}) {{", params.join(", ")));
        self.depth += 1;
        for (n, buffer) in nest.buffers.iter().enumerate() {
            if matches!(buffer.scope, Scope::Workspace | Scope::Local) {
                self.temporary(TensorId(n as u32), buffer);
            }
        }
        self.block(&nest.body);
        self.close();
    }

    fn temporary(&mut self, tensor: TensorId, buffer: &Buffer) {
        let name = self.names.buffer(tensor).to_owned();
        let zero = zero(buffer.dtype);
        let len = n_elements(buffer);
        match len.as_constant() {
            Some(len) if len <= STACK_ELEMENTS => {
                self.line(&format!("let mut {name} = [{zero}; {len}];"));
            }
            _ => {
                let len = self.poly(&len).operand();
                self.line(&format!("let mut {name} = vec![{zero}; {len} as usize];"));
            }
        }
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.stmt(stmt);
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::For { var, name, extent, body, .. } => self.for_loop(*var, name, extent, body),
            Stmt::If { guards, body } => {
                self.open_if(guards);
                self.block(body);
                self.close();
            }
            Stmt::Store { tensor, index, value } => self.with_shared(value, |it| {
                let place = it.element(*tensor, index);
                let value = it.expr(value);
                it.line(&format!("{place} = {};", value.text));
            }),
            Stmt::Update { tensor, index, reducer, value } => {
                self.with_shared(value, |it| it.update(*tensor, index, *reducer, value));
            }
        }
    }

    /// Prints a statement behind the definitions of what its value computes several times.
    fn with_shared(&mut self, value: &Expr, print: impl FnOnce(&mut Self)) {
        let mut names = Vec::new();
        for it in shared::repeated(value) {
            let definition = self.expr(it.places[0]).text;
            let name = self.names.enter_text("shared");
            self.line(&format!("let {name} = {definition};"));
            self.shared.extend(it.places.iter().map(|it| (std::ptr::from_ref(*it), name.clone())));
            names.push(name);
        }
        print(self);
        self.shared.clear();
        names.iter().for_each(|it| self.names.leave_text(it));
    }

    fn update(&mut self, tensor: TensorId, index: &[Poly], reducer: Reducer, value: &Expr) {
        let place = self.element(tensor, index);
        let dtype = self.nest.buffer(tensor).dtype;
        if let (Reducer::Sum, Expr::Binary(BinaryOp::Mul, a, b)) = (reducer, value)
            && dtype == DType::F32
        {
            let sum = expr::fma(&self.expr(a), &self.expr(b), &place);
            return self.line(&format!("{place} = {sum};"));
        }
        let value = self.expr(value);
        let line = match (reducer, reducer.op()) {
            (Reducer::Any, _) => format!("{place} |= {};", value.text),
            (Reducer::All, _) => format!("{place} &= {};", value.text),
            (Reducer::Sum, _) if dtype.is_float() => format!("{place} += {};", value.text),
            (Reducer::Prod, _) if dtype.is_float() => format!("{place} *= {};", value.text),
            (_, op) => {
                let old = Text::atom(place.clone());
                format!("{place} = {};", expr::binary(op, &value, &old, dtype).text)
            }
        };
        self.line(&line);
    }

    fn for_loop(&mut self, var: VarId, name: &str, extent: &Poly, body: &[Stmt]) {
        let Some(tightened) = innermost::tighten_bounds(var, extent, body) else {
            return self.counted_loop(var, name, extent, body);
        };
        let TightenedLoop { outer, extent, body } = tightened;
        if outer.is_empty() {
            return self.counted_loop(var, name, &extent, body);
        }
        self.open_if(&outer);
        self.counted_loop(var, name, &extent, body);
        self.close();
    }

    fn counted_loop(&mut self, var: VarId, name: &str, extent: &Poly, body: &[Stmt]) {
        let row_slices = self.row_slices(var, extent, body);
        let mut count = self.poly(extent).operand();
        // Without iterations, a row slice may be out of bounds.
        let may_be_empty = !row_slices.is_empty() && extent.as_constant().is_none();
        let count_name = self.names.enter_text(&format!("n_{name}"));
        if may_be_empty {
            self.line(&format!("let {count_name} = {};", self.poly(extent).text));
            self.line(&format!("if {count_name} > 0 {{"));
            self.depth += 1;
            count.clone_from(&count_name);
        }
        let mut slices = Vec::new();
        for slice_row in &row_slices {
            slices.push(self.slice_row(slice_row, &count));
        }
        let variable = self.names.enter(var, name);
        for (slice_row, slice) in row_slices.iter().zip(&slices) {
            let place = format!("{slice}[{variable} as usize]");
            self.slices.insert((slice_row.tensor, slice_row.offset.clone()), place);
        }
        self.line(&format!("for {variable} in 0..{count} {{"));
        self.depth += 1;
        self.block(body);
        self.close();
        self.names.leave(var);
        for (slice_row, slice) in row_slices.into_iter().zip(&slices) {
            self.slices.remove(&(slice_row.tensor, slice_row.offset));
            self.names.leave_text(slice);
        }
        self.names.leave_text(&count_name);
        if may_be_empty {
            self.close();
        }
    }

    /// Slices a buffer to the elements that a loop of `count` iterations accesses; returns the slice's
    /// name.
    fn slice_row(&mut self, slice_row: &RowSlice, count: &str) -> String {
        let buffer = self.names.buffer(slice_row.tensor).to_owned();
        let slice = self.names.enter_text(&format!("{buffer}_row"));
        let (reference, first) =
            (if slice_row.written { "&mut " } else { "&" }, self.poly(&slice_row.first));
        let from = match slice_row.first.as_constant() {
            Some(0) => String::new(),
            Some(first) => format!("[{first}..]"),
            None => format!("[{} as usize..]", first.operand()),
        };
        let n_elements = match count.parse::<i64>() {
            Ok(count) => count.to_string(),
            Err(_) => format!("{count} as usize"),
        };
        self.line(&format!("let {slice} = {reference}{buffer}{from}[..{n_elements}];"));
        slice
    }

    fn open_if(&mut self, guards: &[Guard]) {
        let guards: Vec<String> = guards.iter().map(|it| self.guard(it)).collect();
        self.line(&format!("if {} {{", guards.join(" && ")));
        self.depth += 1;
    }

    fn close(&mut self) {
        self.depth -= 1;
        self.line("}");
    }

    fn guard(&self, guard: &Guard) -> String {
        format!("{} < {}", self.poly(&guard.value).text, self.poly(&guard.bound).text)
    }

    fn poly(&self, value: &Poly) -> Text {
        poly(value, &|leaf| self.names.leaf(leaf))
    }
}

fn n_elements(buffer: &Buffer) -> Poly {
    buffer.shape.iter().fold(Poly::constant(1), |len, extent| len * extent.clone())
}

fn zero(dtype: DType) -> String {
    match dtype {
        DType::F16 | DType::Bf16 => format!("{}::ZERO", element_type(dtype)),
        DType::F32 | DType::F64 => format!("0.0_{dtype}"),
        DType::Bool => "false".to_owned(),
        DType::I8 | DType::U8 | DType::I32 | DType::U32 | DType::I64 => format!("0_{dtype}"),
    }
}

#[cfg(test)]
mod tests;

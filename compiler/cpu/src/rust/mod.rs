//! Step 6 of 12, for any machine: a nest printed as portable, safe Rust.
//!
//! ```text
//! dsl -> dag -> schedule -> nest -> [codegen::rust] -> text that rustc compiles
//! ```
//!
//! In: a [`Nest`]. Out: the text of one function, `portable`, which takes the dynamic dimensions,
//! the run-time scalars, the parameters and the results, in that order, each in order of
//! declaration. Buffers are slices of the lengths that their shapes (as stored) say.
//!
//! It serves as the variant for machines and types that no machine code is generated for, as the
//! `reference` of every kernel, and as the second judge: what the interpreter cannot see, such as
//! a lost parenthesis, rustc does.
//!
//! # Invariants
//!
//! - The text needs one name from outside: `rt`, the crate `tvmtune-runtime`.
//! - Loops run one after the other, whatever their kind: the order of the nest.
//! - An operand that is not a single token, call or index stands in parentheses.

mod expr;
mod inner;
mod names;

use std::collections::BTreeMap;

use tvmtune_ir::dag::{BinaryOp, DType, Reducer, TensorId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_schedule::nest::{Buffer, Guard, Nest, Scope, Stmt};

use inner::{Clamped, Cut};

pub use expr::{Text, poly};
pub(super) use names::Names;

/// Temporaries up to this many elements live on the stack.
const STACK_ELEMENTS: i64 = 1024;

/// The nest as the text of a Rust function. See the [module documentation](self).
pub fn print(nest: &Nest) -> String {
    let names = Names::new(nest);
    let mut printer =
        Printer { nest, names, slices: BTreeMap::new(), text: String::new(), depth: 0 };
    printer.function();
    printer.text
}

/// An integer expression as Rust of type `i64`, with what `leaf` gives for dimensions and variables.
pub fn index(value: &Poly, leaf: &dyn Fn(&Atom) -> String) -> String {
    poly(value, leaf).text
}

/// The Rust type of elements.
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
    /// Elements of slices that stand for elements of buffers, in the innermost loop.
    slices: BTreeMap<(TensorId, Poly), String>,
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
        params.extend(nest.params.iter().map(|it| param(it, "&")));
        params.extend(nest.outputs.iter().map(|it| param(it, "&mut ")));
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
            Stmt::Store { tensor, index, value } => {
                let place = self.element(*tensor, index);
                let value = self.expr(value);
                self.line(&format!("{place} = {};", value.text));
            }
            Stmt::Update { tensor, index, reducer, value } => {
                let place = self.element(*tensor, index);
                let value = self.expr(value);
                let dtype = self.nest.buffer(*tensor).dtype;
                let line = match (reducer, reducer.op()) {
                    (Reducer::Any, _) => format!("{place} |= {};", value.text),
                    (Reducer::All, _) => format!("{place} &= {};", value.text),
                    (Reducer::Sum, _) if dtype.is_float() => format!("{place} += {};", value.text),
                    (Reducer::Prod, _) if dtype.is_float() => format!("{place} *= {};", value.text),
                    (_, op) => {
                        let old = Text::atom(place.clone());
                        format!("{place} = {};", expr::binary(op, &old, &value, dtype).text)
                    }
                };
                self.line(&line);
            }
        }
    }

    fn for_loop(&mut self, var: VarId, name: &str, extent: &Poly, body: &[Stmt]) {
        let Some(clamped) = inner::clamp(var, extent, body) else {
            return self.counted_loop(var, name, extent, body);
        };
        let Clamped { outer, extent, body } = clamped;
        if outer.is_empty() {
            return self.counted_loop(var, name, &extent, body);
        }
        self.open_if(&outer);
        self.counted_loop(var, name, &extent, body);
        self.close();
    }

    fn counted_loop(&mut self, var: VarId, name: &str, extent: &Poly, body: &[Stmt]) {
        let cuts = self.cuts(var, extent, body);
        let mut count = self.poly(extent).operand();
        // Where there is no iteration, there may be nothing to cut.
        let may_be_empty = !cuts.is_empty() && extent.as_constant().is_none();
        let count_name = self.names.enter_text(&format!("n_{name}"));
        if may_be_empty {
            self.line(&format!("let {count_name} = {};", self.poly(extent).text));
            self.line(&format!("if {count_name} > 0 {{"));
            self.depth += 1;
            count.clone_from(&count_name);
        }
        let mut slices = Vec::new();
        for cut in &cuts {
            slices.push(self.cut(cut, &count));
        }
        let variable = self.names.enter(var, name);
        for (cut, slice) in cuts.iter().zip(&slices) {
            let place = format!("{slice}[{variable} as usize]");
            self.slices.insert((cut.tensor, cut.offset.clone()), place);
        }
        self.line(&format!("for {variable} in 0..{count} {{"));
        self.depth += 1;
        self.block(body);
        self.close();
        self.names.leave(var);
        for (cut, slice) in cuts.into_iter().zip(&slices) {
            self.slices.remove(&(cut.tensor, cut.offset));
            self.names.leave_text(slice);
        }
        self.names.leave_text(&count_name);
        if may_be_empty {
            self.close();
        }
    }

    /// Cuts a buffer to what a loop of `count` iterations accesses; returns the slice's name.
    fn cut(&mut self, cut: &Cut, count: &str) -> String {
        let buffer = self.names.buffer(cut.tensor).to_owned();
        let slice = self.names.enter_text(&format!("{buffer}_row"));
        let (reference, first) = (if cut.written { "&mut " } else { "&" }, self.poly(&cut.first));
        let from = match cut.first.as_constant() {
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
        DType::I8 | DType::U8 | DType::I32 | DType::I64 => format!("0_{dtype}"),
    }
}

/// Whether an operation is written as a method, and so needs no parentheses around it.
fn method(op: BinaryOp) -> Option<&'static str> {
    Some(match op {
        BinaryOp::Add => "wrapping_add",
        BinaryOp::Sub => "wrapping_sub",
        BinaryOp::Mul => "wrapping_mul",
        BinaryOp::Min => "min",
        BinaryOp::Max => "max",
        BinaryOp::Pow => "powf",
        BinaryOp::Div | BinaryOp::Rem | BinaryOp::And | BinaryOp::Or => return None,
    })
}

#[cfg(test)]
mod tests;

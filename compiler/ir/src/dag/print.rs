//! Canonical text of dags: equal exactly if two programs are the same workload.
//!
//! Names, formatting and comments leave no trace in it; dimensions, tensors, scalars and axes are
//! known by position. It is hashed as the identity of a workload, and kept in records to be parsed.
//! Its first line is its version: a change of the text below is a new version, and makes every
//! record stale.

use std::fmt::{self, Write};

use super::expr::operation_name;
use super::kernel_template::ClassOf;
use super::{Compute, DType, Dag, Expr, Literal, Numerics, Reducer, Subscript, TensorKind};
use crate::poly::{Atom, Poly};

/// Integers from here on count as extents in the text of a class, which omits extents.
const LARGE: i64 = 8;

/// The canonical text of a dag.
pub fn canonical(dag: &Dag) -> String {
    Printer { dag, detail: Detail::All }.to_string()
}

/// The canonical text without extents and values derived from them: programs that differ in nothing
/// else are one class, within which schedules transfer.
pub fn class(dag: &Dag) -> String {
    Printer { dag, detail: Detail::WithoutExtents }.to_string()
}

#[derive(Clone, Copy, PartialEq)]
enum Detail {
    All,
    WithoutExtents,
}

struct Printer<'a> {
    dag: &'a Dag,
    detail: Detail,
}

impl fmt::Display for Printer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dag = self.dag;
        writeln!(f, "tvmtune {} v1", if self.is_class() { "class" } else { "dag" })?;
        if dag.numerics == Numerics::Fixed {
            writeln!(f, "numerics fixed")?;
            if let Some(order) = dag.written_order {
                writeln!(f, "order {order}")?;
            }
        }
        if !self.is_class() {
            for (n, dim) in dag.dims.iter().enumerate() {
                writeln!(f, "dim d{n} in {}..={}", dim.range.lo, dim.range.hi)?;
            }
            for (n, dim) in dag.dims.iter().enumerate() {
                if let Some(end) = &dim.lower_end {
                    writeln!(f, "where d{n} >= {end}")?;
                }
            }
        }
        for (n, scalar) in dag.scalars.iter().enumerate() {
            writeln!(f, "scalar s{n}: {}", scalar.dtype)?;
        }
        for id in dag.params() {
            let tensor = dag.tensor(id);
            let kind = match tensor.kind {
                TensorKind::Weight => "weight",
                TensorKind::InOut => "inout",
                TensorKind::Input | TensorKind::Computed(_) => "input",
            };
            write!(f, "{kind} t{}: {}", id.0, tensor.dtype)?;
            self.extents(f, &tensor.shape)?;
            writeln!(f)?;
        }
        for compute in &dag.computes {
            self.compute(f, compute)?;
        }
        let outputs: Vec<String> = dag.outputs.iter().map(|it| format!("t{}", it.0)).collect();
        writeln!(f, "return {}", outputs.join(", "))?;
        match &dag.kernel_template {
            Some(template) if self.is_class() => write!(f, "{}", ClassOf(template)),
            Some(template) => write!(f, "{template}"),
            None => Ok(()),
        }
    }
}

impl Printer<'_> {
    fn is_class(&self) -> bool {
        self.detail == Detail::WithoutExtents
    }

    fn extents(&self, f: &mut dyn Write, extents: &[Poly]) -> fmt::Result {
        f.write_char('[')?;
        for (n, extent) in extents.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "" })?;
            self.extent(f, extent)?;
        }
        f.write_char(']')
    }

    fn extent(&self, f: &mut dyn Write, extent: &Poly) -> fmt::Result {
        if self.is_class() { f.write_char('_') } else { write!(f, "{extent}") }
    }

    /// `t3: f32[d0, 64] = sum(v2 < 384) mul(t0[v0, v2], t1[v1, v2])`
    fn compute(&self, f: &mut dyn Write, compute: &Compute) -> fmt::Result {
        let tensor = self.dag.tensor(compute.tensor);
        write!(f, "t{}: {}", compute.tensor.0, tensor.dtype)?;
        self.extents(f, &tensor.shape)?;
        f.write_str(" = ")?;
        if let Some(reducer) = compute.reducer {
            write!(f, "{}(", reducer_name(reducer))?;
            for (n, var) in compute.reduce_vars().enumerate() {
                write!(f, "{}v{} < ", if n > 0 { ", " } else { "" }, var.0)?;
                self.extent(f, &compute.axes[var.0 as usize].extent)?;
            }
            f.write_str(") ")?;
        }
        self.expr(f, &compute.body)?;
        writeln!(f)
    }

    fn expr(&self, f: &mut dyn Write, expr: &Expr) -> fmt::Result {
        match expr {
            Expr::Const(literal, dtype) => self.literal(f, *literal, *dtype),
            Expr::Index(poly) if self.is_class() && !poly.has_vars() => f.write_char('_'),
            Expr::Index(poly) => {
                f.write_str("index(")?;
                self.poly(f, poly)?;
                f.write_char(')')
            }
            Expr::Scalar(id) => write!(f, "s{}", id.0),
            Expr::Read { tensor, index } => {
                write!(f, "t{}[", tensor.0)?;
                for (n, subscript) in index.iter().enumerate() {
                    f.write_str(if n > 0 { ", " } else { "" })?;
                    match subscript {
                        Subscript::Affine(poly) => self.poly(f, poly)?,
                        Subscript::Value(value) => self.expr(f, value)?,
                    }
                }
                f.write_char(']')
            }
            Expr::Unary(op, a) => self.operation(f, &operation_name(op), &[a]),
            Expr::Binary(op, a, b) => self.operation(f, &operation_name(op), &[a, b]),
            Expr::Compare(op, a, b) => self.operation(f, &operation_name(op), &[a, b]),
            Expr::Select { condition, then, otherwise } => {
                self.operation(f, "select", &[condition, then, otherwise])
            }
            Expr::Cast(to, a) => self.operation(f, to.name(), &[a]),
        }
    }

    fn operation(&self, f: &mut dyn Write, name: &str, operands: &[&Expr]) -> fmt::Result {
        f.write_str(name)?;
        f.write_char('(')?;
        for (n, operand) in operands.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "" })?;
            self.expr(f, operand)?;
        }
        f.write_char(')')
    }

    /// The shortest text that reads back as the value, then the type: `0.1_f32`.
    fn literal(&self, f: &mut dyn Write, literal: Literal, dtype: DType) -> fmt::Result {
        match literal {
            Literal::Float(_) if self.is_class() => f.write_char('_')?,
            Literal::Float(it) if dtype == DType::F64 => write!(f, "{it:?}")?,
            // Halves are exact in `f32`, and none of their text is stored.
            Literal::Float(it) => write!(f, "{:?}", it as f32)?,
            Literal::Int(it) => write!(f, "{it}")?,
            Literal::Bool(it) => write!(f, "{it}")?,
        }
        write!(f, "_{dtype}")
    }

    fn poly(&self, f: &mut dyn Write, poly: &Poly) -> fmt::Result {
        if !self.is_class() {
            return write!(f, "{poly}");
        }
        // Large coefficients and dimensions are extents or derived from them.
        let mut terms: Vec<String> = Vec::new();
        for (atoms, coefficient) in poly.terms() {
            let is_dim = |it: &&Atom| matches!(it, Atom::Dim(_));
            let mut factors = Vec::new();
            if coefficient.abs() >= LARGE || atoms.iter().any(|it| is_dim(&it)) {
                factors.push("_".to_owned());
            } else if coefficient != 1 || atoms.is_empty() {
                factors.push(coefficient.to_string());
            }
            for atom in atoms.iter().filter(|it| !is_dim(it)) {
                factors.push(self.class_atom(atom)?);
            }
            terms.push(factors.join("*"));
        }
        terms.sort_unstable();
        f.write_str(if terms.is_empty() { "0" } else { "" })?;
        f.write_str(&terms.join(" + "))
    }

    fn class_atom(&self, atom: &Atom) -> Result<String, fmt::Error> {
        let inner = |name: &str, a: &Poly, b: &Poly| {
            let mut text = format!("{name}(");
            self.poly(&mut text, a)?;
            text.push_str(", ");
            self.poly(&mut text, b)?;
            text.push(')');
            Ok(text)
        };
        match atom {
            Atom::Dim(_) => Ok("_".to_owned()),
            Atom::Var(var) => Ok(format!("v{}", var.0)),
            Atom::Div(a, b) => inner("div", a, b),
            Atom::Mod(a, b) => inner("mod", a, b),
            Atom::Min(a, b) => inner("min", a, b),
            Atom::Max(a, b) => inner("max", a, b),
        }
    }
}

fn reducer_name(reducer: Reducer) -> &'static str {
    match reducer {
        Reducer::Sum => "sum",
        Reducer::Prod => "prod",
        Reducer::Max => "max",
        Reducer::Min => "min",
        Reducer::Any => "any",
        Reducer::All => "all",
    }
}

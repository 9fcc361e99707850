//! The text of a nest: for people and for snapshots.
//!
//! ```text
//! parallel i_0 in 0..2
//!   for j in 0..8
//!     c[4*i_0, j] = 0
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{Guard, Nest, Scope, Stmt};
use crate::LoopKind;
use tvmtune_ir::dag::{BinaryOp, CompareOp, Expr, Literal, Reducer, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Atom, Poly, VarId};

/// Prints the buffers that the nest allocates, then its statements, indented by two spaces a level.
impl fmt::Display for Nest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { nest: self, names: BTreeMap::new(), open: Vec::new() };
        for buffer in &self.buffers {
            let keyword = match (buffer.scope, &buffer.layout) {
                (Scope::Workspace, _) => "workspace",
                (Scope::Local, _) => "local",
                (Scope::Argument, Some(_)) => "packed",
                (Scope::Argument, None) | (Scope::Unused, _) => continue,
            };
            write!(f, "{keyword} {}[", buffer.name)?;
            printer.list(f, &buffer.shape)?;
            writeln!(f, "]: {}", buffer.dtype)?;
        }
        printer.block(f, &self.body, 0)
    }
}

struct Printer<'a> {
    nest: &'a Nest,
    /// The names of variables seen so far.
    names: BTreeMap<VarId, String>,
    /// The names of the loops that are open.
    open: Vec<String>,
}

/// An operation with one or two operands.
struct Operator<'a> {
    symbol: &'static str,
    a: &'a Expr,
    b: Option<&'a Expr>,
    /// Its precedence.
    binds: u8,
}

impl Printer<'_> {
    fn block(&mut self, f: &mut dyn Write, body: &[Stmt], depth: usize) -> fmt::Result {
        body.iter().try_for_each(|stmt| self.stmt(f, stmt, depth))
    }

    fn stmt(&mut self, f: &mut dyn Write, stmt: &Stmt, depth: usize) -> fmt::Result {
        write!(f, "{:1$}", "", 2 * depth)?;
        match stmt {
            Stmt::For { var, name, extent, kind, body } => {
                let mut unique = name.clone();
                while self.open.contains(&unique) {
                    unique.push('\'');
                }
                write!(f, "{} {unique} in 0..", keyword(*kind))?;
                self.bound(f, extent)?;
                writeln!(f)?;
                self.open.push(unique.clone());
                self.names.insert(*var, unique);
                self.block(f, body, depth + 1)?;
                self.open.pop();
                Ok(())
            }
            Stmt::If { guards, body } => {
                f.write_str("if ")?;
                for (n, Guard { value, bound }) in guards.iter().enumerate() {
                    f.write_str(if n > 0 { " && " } else { "" })?;
                    self.poly(f, value)?;
                    f.write_str(" < ")?;
                    self.poly(f, bound)?;
                }
                writeln!(f)?;
                self.block(f, body, depth + 1)
            }
            Stmt::Store { tensor, index, value } => {
                self.element(f, *tensor, index)?;
                f.write_str(" = ")?;
                self.expr(f, value, 0)?;
                writeln!(f)
            }
            Stmt::Update { tensor, index, reducer, value } => {
                self.element(f, *tensor, index)?;
                write!(f, " {}= ", reducer_symbol(*reducer))?;
                self.expr(f, value, 0)?;
                writeln!(f)
            }
        }
    }

    fn element(&self, f: &mut dyn Write, tensor: TensorId, index: &[Poly]) -> fmt::Result {
        write!(f, "{}[", self.nest.buffer(tensor).name)?;
        self.list(f, index)?;
        f.write_str("]")
    }

    fn list(&self, f: &mut dyn Write, polys: &[Poly]) -> fmt::Result {
        for (n, poly) in polys.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "" })?;
            self.poly(f, poly)?;
        }
        Ok(())
    }

    /// Prints an extent, in parentheses unless it is one word.
    fn bound(&self, f: &mut dyn Write, poly: &Poly) -> fmt::Result {
        let mut text = String::new();
        self.poly(&mut text, poly)?;
        if text.contains(' ') { write!(f, "({text})") } else { f.write_str(&text) }
    }

    fn poly(&self, f: &mut dyn Write, poly: &Poly) -> fmt::Result {
        poly.write_named(f, &|atom, f| match atom {
            Atom::Dim(dim) => f.write_str(&self.nest.dims[dim.0 as usize].name),
            Atom::Var(var) => match self.names.get(var) {
                Some(name) => f.write_str(name),
                None => write!(f, "v{}", var.0),
            },
            Atom::Div(..) | Atom::Mod(..) | Atom::Min(..) | Atom::Max(..) => Err(fmt::Error),
        })
    }

    /// Prints an expression, in parentheses if it binds weaker than `level`.
    fn expr(&self, f: &mut dyn Write, expr: &Expr, level: u8) -> fmt::Result {
        match expr {
            Expr::Const(Literal::Float(value), _) if value.is_finite() && value.abs() >= 1e16 => {
                write!(f, "{value:e}")
            }
            Expr::Const(Literal::Float(value), _) => write!(f, "{value}"),
            Expr::Const(Literal::Int(value), _) => write!(f, "{value}"),
            Expr::Const(Literal::Bool(value), _) => write!(f, "{value}"),
            Expr::Index(poly) => self.bound(f, poly),
            Expr::Scalar(scalar) => f.write_str(&self.nest.scalars[scalar.0 as usize].name),
            Expr::Read { tensor, index } => self.read(f, *tensor, index),
            Expr::Unary(UnaryOp::Neg, a) => {
                self.operator(f, Operator { symbol: "-", a, b: None, binds: 6 }, level)
            }
            Expr::Unary(UnaryOp::Not, a) => {
                self.operator(f, Operator { symbol: "!", a, b: None, binds: 6 }, level)
            }
            Expr::Unary(op, a) => self.call(f, &format!("{op:?}").to_lowercase(), &[a]),
            Expr::Binary(op, a, b) => match infix(*op) {
                Some((symbol, binds)) => {
                    self.operator(f, Operator { symbol, a, b: Some(b), binds }, level)
                }
                None => self.call(f, &format!("{op:?}").to_lowercase(), &[a, b]),
            },
            Expr::Compare(op, a, b) => {
                let symbol = compare_symbol(*op);
                self.operator(f, Operator { symbol, a, b: Some(b), binds: 3 }, level)
            }
            Expr::Select { condition, then, otherwise } => {
                self.call(f, "select", &[condition, then, otherwise])
            }
            Expr::Cast(dtype, a) => self.call(f, dtype.name(), &[a]),
        }
    }

    fn operator(&self, f: &mut dyn Write, operator: Operator<'_>, level: u8) -> fmt::Result {
        let Operator { symbol, a, b, binds } = operator;
        f.write_str(if binds < level { "(" } else { "" })?;
        match b {
            None => {
                f.write_str(symbol)?;
                self.expr(f, a, binds)?;
            }
            Some(b) => {
                self.expr(f, a, binds)?;
                write!(f, " {symbol} ")?;
                self.expr(f, b, binds + 1)?;
            }
        }
        f.write_str(if binds < level { ")" } else { "" })
    }

    fn call(&self, f: &mut dyn Write, name: &str, arguments: &[&Expr]) -> fmt::Result {
        write!(f, "{name}(")?;
        for (n, argument) in arguments.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "" })?;
            self.expr(f, argument, 0)?;
        }
        f.write_str(")")
    }

    fn read(&self, f: &mut dyn Write, tensor: TensorId, index: &[Subscript]) -> fmt::Result {
        write!(f, "{}[", self.nest.buffer(tensor).name)?;
        for (n, subscript) in index.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "" })?;
            match subscript {
                Subscript::Affine(poly) => self.poly(f, poly)?,
                Subscript::Value(value) => self.expr(f, value, 0)?,
            }
        }
        f.write_str("]")
    }
}

fn keyword(kind: LoopKind) -> &'static str {
    match kind {
        LoopKind::Serial => "for",
        LoopKind::Pipelined(_) => "pipelined",
        LoopKind::WarpSpecialized(_) => "warp-specialized",
        LoopKind::Unrolled => "unrolled",
        LoopKind::Vectorized => "vectorized",
        LoopKind::Parallel => "parallel",
        LoopKind::Persistent(_) => "persistent",
        LoopKind::StreamK(_) => "stream-K",
        LoopKind::Cluster => "cluster",
        LoopKind::Thread => "thread",
        LoopKind::Tensorized => "tensorized",
    }
}

fn reducer_symbol(reducer: Reducer) -> &'static str {
    match reducer {
        Reducer::Sum => "+",
        Reducer::Prod => "*",
        Reducer::Max => "max",
        Reducer::Min => "min",
        Reducer::Any => "|",
        Reducer::All => "&",
    }
}

/// The symbol of an operator and its precedence; `None` if it is printed as a call.
fn infix(op: BinaryOp) -> Option<(&'static str, u8)> {
    match op {
        BinaryOp::Or => Some(("||", 1)),
        BinaryOp::And => Some(("&&", 2)),
        BinaryOp::Add => Some(("+", 4)),
        BinaryOp::Sub => Some(("-", 4)),
        BinaryOp::Mul => Some(("*", 5)),
        BinaryOp::Div => Some(("/", 5)),
        BinaryOp::Rem => Some(("%", 5)),
        BinaryOp::Min | BinaryOp::Max | BinaryOp::Pow => None,
    }
}

fn compare_symbol(op: CompareOp) -> &'static str {
    match op {
        CompareOp::Lt => "<",
        CompareOp::Le => "<=",
        CompareOp::Eq => "==",
        CompareOp::Ne => "!=",
        CompareOp::Ge => ">=",
        CompareOp::Gt => ">",
    }
}

//! The text of a nest: for people and for snapshots.
//!
//! ```text
//! parallel i_0 in 0..2
//!   for j in 0..8
//!     c[4*i_0, j] = 0
//! ```

use std::collections::BTreeMap;
use std::fmt::{self, Write};

use super::{Guard, HandWritten, Nest, Scope, Stmt};
use crate::LoopKind;
use crate::print::{comparison, function, operator};
use tvmtune_ir::dag::kernel_template::{SetLaunch, without_last_ones};
use tvmtune_ir::dag::{Expr, Literal, Reducer, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Atom, Poly, VarId};

/// The precedence of comparisons, between those of `&&` and `+`.
const COMPARISON: u8 = 3;
/// The precedence of operators with one operand, above all others.
const UNARY: u8 = 6;

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
            let shape = printer.list(&buffer.shape);
            writeln!(f, "{keyword} {}[{shape}]: {}", buffer.name, buffer.dtype)?;
        }
        if let Some(it) = &self.hand_written {
            return write!(f, "{it}");
        }
        printer.block(f, &self.body, 0)
    }
}

/// Prints the values of the knobs, then the launches.
///
/// ```text
/// kernels/histogram.cu with BLOCK = 256, ITEMS = 4
/// histogram<<<((d0 + 1023)/(1024)), 256, 1024>>>
/// ```
impl fmt::Display for HandWritten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HandWritten { template, values, launches } = self;
        let with = if values.is_empty() { "" } else { " with " };
        writeln!(f, "{}{with}{}", template.file, template.setting(values))?;
        for (kernel, SetLaunch { grid, block, shared_bytes }) in
            template.kernels.iter().zip(launches)
        {
            let (grid, block) = (extents(grid), extents(block));
            writeln!(f, "{}<<<{grid}, {block}, {shared_bytes}>>>", kernel.name)?;
        }
        Ok(())
    }
}

/// Numbers in x, y and z as CUDA C++ has them: `256` or `dim3(32, 8)`.
fn extents<T: fmt::Display>(all: &[T; 3]) -> String {
    match &without_last_ones(all)[..] {
        [x] => x.clone(),
        several => format!("dim3({})", several.join(", ")),
    }
}

struct Printer<'a> {
    nest: &'a Nest,
    /// The names of variables seen so far.
    names: BTreeMap<VarId, String>,
    /// The names of the loops that are open.
    open: Vec<String>,
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
                writeln!(f, "{} {unique} in 0..{}", keyword(*kind), self.bound(extent))?;
                self.open.push(unique.clone());
                self.names.insert(*var, unique);
                self.block(f, body, depth + 1)?;
                self.open.pop();
                Ok(())
            }
            Stmt::If { guards, body } => {
                let guard = |Guard { value, bound }: &Guard| {
                    format!("{} < {}", self.poly(value), self.poly(bound))
                };
                let guards: Vec<String> = guards.iter().map(guard).collect();
                writeln!(f, "if {}", guards.join(" && "))?;
                self.block(f, body, depth + 1)
            }
            Stmt::Store { tensor, index, value } => {
                writeln!(f, "{} = {}", self.element(*tensor, index), self.expr(value, 0))
            }
            Stmt::Update { tensor, index, reducer, value } => {
                let (element, value) = (self.element(*tensor, index), self.expr(value, 0));
                writeln!(f, "{element} {}= {value}", reducer_symbol(*reducer))
            }
        }
    }

    fn element(&self, tensor: TensorId, index: &[Poly]) -> String {
        format!("{}[{}]", self.nest.buffer(tensor).name, self.list(index))
    }

    fn list(&self, polys: &[Poly]) -> String {
        polys.iter().map(|it| self.poly(it)).collect::<Vec<_>>().join(", ")
    }

    /// Prints an extent, in parentheses unless it is one word.
    fn bound(&self, poly: &Poly) -> String {
        let text = self.poly(poly);
        if text.contains(' ') { format!("({text})") } else { text }
    }

    fn poly(&self, poly: &Poly) -> String {
        let mut text = String::new();
        let written = poly.write_named(&mut text, &|atom, f| match atom {
            Atom::Dim(dim) => f.write_str(&self.nest.dims[dim.0 as usize].name),
            Atom::Var(var) => match self.names.get(var) {
                Some(name) => f.write_str(name),
                None => write!(f, "v{}", var.0),
            },
            Atom::Div(..) | Atom::Mod(..) | Atom::Min(..) | Atom::Max(..) => Err(fmt::Error),
        });
        written.expect("a string takes any text, and leaves are dimensions and variables");
        text
    }

    /// Prints an expression, in parentheses if it binds weaker than `level`.
    fn expr(&self, expr: &Expr, level: u8) -> String {
        let parenthesized = |precedence: u8, text: String| {
            if precedence < level { format!("({text})") } else { text }
        };
        let infix = |a: &Expr, symbol: &str, precedence: u8, b: &Expr| {
            let (a, b) = (self.expr(a, precedence), self.expr(b, precedence + 1));
            parenthesized(precedence, format!("{a} {symbol} {b}"))
        };
        match expr {
            Expr::Const(Literal::Float(value), _) if value.is_finite() && value.abs() >= 1e16 => {
                format!("{value:e}")
            }
            Expr::Const(Literal::Float(value), _) => value.to_string(),
            Expr::Const(Literal::Int(value), _) => value.to_string(),
            Expr::Const(Literal::Bool(value), _) => value.to_string(),
            Expr::Index(poly) => self.bound(poly),
            Expr::Scalar(scalar) => self.nest.scalars[scalar.0 as usize].name.clone(),
            Expr::Read { tensor, index } => {
                let subscript = |it: &Subscript| match it {
                    Subscript::Affine(poly) => self.poly(poly),
                    Subscript::Value(value) => self.expr(value, 0),
                };
                let index: Vec<String> = index.iter().map(subscript).collect();
                format!("{}[{}]", self.nest.buffer(*tensor).name, index.join(", "))
            }
            Expr::Unary(op @ (UnaryOp::Neg | UnaryOp::Not), a) => {
                let symbol = if *op == UnaryOp::Neg { "-" } else { "!" };
                parenthesized(UNARY, format!("{symbol}{}", self.expr(a, UNARY)))
            }
            Expr::Unary(op, a) => self.call(&function(op), &[a]),
            Expr::Binary(op, a, b) => match operator(*op) {
                Some((symbol, precedence)) => infix(a, symbol, precedence, b),
                None => self.call(&function(op), &[a, b]),
            },
            Expr::Compare(op, a, b) => infix(a, comparison(*op), COMPARISON, b),
            Expr::Select { condition, then, otherwise } => {
                self.call("select", &[condition, then, otherwise])
            }
            Expr::Cast(dtype, a) => self.call(dtype.name(), &[a]),
        }
    }

    fn call(&self, name: &str, arguments: &[&Expr]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|it| self.expr(it, 0)).collect();
        format!("{name}({})", arguments.join(", "))
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

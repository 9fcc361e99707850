//! The parser of canonical text: records keep enough of a program to schedule it.
//!
//! Any text gives a dag that [`verify`] finds nothing wrong with and whose canonical text is the
//! one that was read, or an error that names a line. Names are not in the text: they are made from
//! positions. Limits are those of the language, so that no arithmetic on indices overflows and nothing
//! takes long.
//!
//! `index` extends the [`Reader`] of this file by polynomials, `template` by kernel templates; the files are mutually recursive, as
//! a recursive-descent parser is.

mod cursor;
mod index;
mod template;
#[cfg(test)]
mod tests;

use std::str::FromStr;

use self::cursor::{Cursor, Parsed, starts_with_digit};
use super::expr::operation_name;
use super::limits::{MAX_EXTENT, MAX_TEXT_BYTES, is_addressable};
use super::order::UnknownOrder;
use super::print::canonical;
use super::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Dag, Dim, Expr, Numerics, Scalar,
    ScalarId, Subscript, Tensor, TensorId, TensorKind, UnaryOp, dims, verify,
};
use crate::poly::{DimId, Facts, Interval, Poly, VarId};

/// Expressions nested deeper are refused.
const MAX_NESTING: usize = 256;

/// Text that is not the canonical text of a dag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseDagError {
    /// The line, from 1.
    pub line: usize,
    /// The error in it.
    pub message: String,
}

impl FromStr for Dag {
    type Err = ParseDagError;

    fn from_str(text: &str) -> Result<Self, ParseDagError> {
        let error = |line: usize| move |message: String| ParseDagError { line, message };
        if text.len() > MAX_TEXT_BYTES {
            return Err(error(1)(format!("the text has more than {MAX_TEXT_BYTES} bytes")));
        }
        let mut reader = Reader::default();
        for (n, line) in text.lines().enumerate() {
            let mut cursor = Cursor { rest: line, depth: 0, n_quotients: 0 };
            reader.line(n, &mut cursor).and_then(|()| cursor.end()).map_err(error(n + 1))?;
        }
        let mut dag = reader.dag;
        let canonical = canonical(&dag);
        if canonical != text {
            let same = text.lines().zip(canonical.lines()).take_while(|(a, b)| a == b).count();
            return Err(error(same + 1)("not as canonical text has it".to_owned()));
        }
        match verify(&dag).first() {
            None => {
                if dag.numerics == Numerics::Fixed {
                    dag.fix_numerics();
                }
                Ok(dag)
            }
            Some(finding) => {
                let n_ends = dag.dims.iter().filter(|it| it.lower_end.is_some()).count();
                let n_modes = usize::from(dag.numerics == Numerics::Fixed)
                    + usize::from(dag.written_order.is_some());
                let declared = n_modes + dag.dims.len() + n_ends + dag.scalars.len();
                let before = 1 + declared + dag.params().count();
                let line = finding.compute.map_or(1, |it| before + 1 + it.0 as usize);
                Err(error(line)(finding.message.clone()))
            }
        }
    }
}

/// The dag so far, and the facts and axes in scope.
struct Reader {
    dag: Dag,
    facts: Facts,
    n_axes: u32,
}

impl Default for Reader {
    fn default() -> Self {
        let dag = Dag {
            name: "parsed".into(),
            dims: Vec::new(),
            scalars: Vec::new(),
            tensors: Vec::new(),
            computes: Vec::new(),
            outputs: Vec::new(),
            numerics: Numerics::Free,
            written_order: None,
            orders: Vec::new(),
            kernel_template: None,
        };
        Self { dag, facts: Facts::default(), n_axes: 0 }
    }
}

impl Reader {
    fn line(&mut self, n: usize, it: &mut Cursor<'_>) -> Parsed<()> {
        if n == 0 {
            return it.expect("tvmtune dag v1");
        }
        if n == 1 && it.eat("numerics fixed") {
            self.dag.numerics = Numerics::Fixed;
            return Ok(());
        }
        if n == 2 && self.dag.numerics == Numerics::Fixed && it.eat("order ") {
            let order = std::mem::take(&mut it.rest).parse();
            self.dag.written_order = Some(order.map_err(|it: UnknownOrder| it.to_string())?);
            return Ok(());
        }
        if it.eat("dim d") {
            return self.dim(it);
        }
        if it.eat("where d") {
            return self.lower_end(it);
        }
        if it.eat("scalar s") {
            let name = format!("s{}", it.position(self.dag.scalars.len())?);
            it.expect(": ")?;
            self.dag.scalars.push(Scalar { name, dtype: it.dtype()? });
            return Ok(());
        }
        if it.eat("input ") {
            return self.tensor(TensorKind::Input, it);
        }
        if it.eat("weight ") {
            return self.tensor(TensorKind::Weight, it);
        }
        if it.eat("inout ") {
            return self.tensor(TensorKind::InOut, it);
        }
        if it.eat("return ") {
            return it.list("", |it| {
                let id = self.known_tensor(it)?;
                self.dag.outputs.push(id);
                Ok(())
            });
        }
        if self.template(it)? {
            return Ok(());
        }
        self.compute(it)
    }

    /// `0 in 1..=512`
    fn dim(&mut self, it: &mut Cursor<'_>) -> Parsed<()> {
        let n = it.position(self.dag.dims.len())?;
        it.expect(" in ")?;
        let lo = it.number()?;
        it.expect("..=")?;
        let hi = it.number()?;
        if !(1 <= lo && lo <= hi && hi <= MAX_EXTENT) {
            return Err(format!("extents are from 1 to {MAX_EXTENT}"));
        }
        let range = Interval { lo, hi };
        self.facts.bound_dim(DimId(n as u32), range);
        self.dag.dims.push(Dim { name: format!("d{n}"), range, lower_end: None });
        Ok(())
    }

    /// `1 >= d0`
    fn lower_end(&mut self, it: &mut Cursor<'_>) -> Parsed<()> {
        let n = it.number()?;
        it.expect(" >= ")?;
        let end = self.poly(it)?;
        let dim = usize::try_from(n).ok().and_then(|n| self.dag.dims.get_mut(n));
        dim.ok_or_else(|| format!("there is no `d{n}` here"))?.lower_end = Some(end);
        if let Some(mistake) = dims::mistake(&self.dag.dims) {
            return Err(mistake);
        }
        self.facts = self.dag.facts();
        Ok(())
    }

    /// `t0: f32[d0, 64]`
    fn tensor(&mut self, kind: TensorKind, it: &mut Cursor<'_>) -> Parsed<()> {
        it.expect("t")?;
        let name = format!("t{}", it.position(self.dag.tensors.len())?);
        it.expect(": ")?;
        let dtype = it.dtype()?;
        it.expect("[")?;
        let mut shape = Vec::new();
        self.n_axes = 0;
        it.list("]", |it| {
            shape.push(self.extent(it)?);
            Ok(())
        })?;
        if !is_addressable(&shape, dtype, &self.facts) {
            return Err("a tensor has more than 2^46 bytes".to_owned());
        }
        self.dag.tensors.push(Tensor { name, dtype, shape, kind });
        Ok(())
    }

    /// `t3: f32[d0, 64] = sum(v2 < 384) mul(t0[v0, v2], t1[v1, v2])`
    fn compute(&mut self, it: &mut Cursor<'_>) -> Parsed<()> {
        let id = ComputeId(self.dag.computes.len() as u32);
        self.tensor(TensorKind::Computed(id), it)?;
        it.expect(" = ")?;
        let tensor = TensorId(self.dag.tensors.len() as u32 - 1);
        let mut extents = self.dag.tensor(tensor).shape.clone();
        let n_spatial = extents.len();
        let reducer = it.reducer();
        if reducer.is_some() {
            it.list(") ", |it| {
                it.expect("v")?;
                it.position(extents.len())?;
                it.expect(" < ")?;
                extents.push(self.extent(it)?);
                Ok(())
            })?;
        }
        let mut facts = self.facts.clone();
        for (n, extent) in (0..).zip(&extents) {
            facts.bound_var(VarId(n), extent.clone());
        }
        let around = std::mem::replace(&mut self.facts, facts);
        self.n_axes = extents.len() as u32;
        let body = self.expr(it)?;
        self.facts = around;
        let axis = |(n, extent)| ComputeAxis { name: format!("v{n}"), extent };
        let axes = extents.into_iter().enumerate().map(axis).collect();
        self.dag.computes.push(Compute { tensor, axes, n_spatial, reducer, body });
        Ok(())
    }

    /// An extent mentions no axis.
    fn extent(&mut self, it: &mut Cursor<'_>) -> Parsed<Poly> {
        let n_axes = std::mem::take(&mut self.n_axes);
        let extent = self.poly(it);
        self.n_axes = n_axes;
        extent
    }

    fn expr(&self, it: &mut Cursor<'_>) -> Parsed<Expr> {
        it.depth += 1;
        if it.depth > MAX_NESTING {
            return Err(format!("nested more than {MAX_NESTING} deep"));
        }
        let expr = self.expr_inside(it);
        it.depth -= 1;
        expr
    }

    fn expr_inside(&self, it: &mut Cursor<'_>) -> Parsed<Expr> {
        let is_numbered = |name: &str| it.rest.strip_prefix(name).is_some_and(starts_with_digit);
        if is_numbered("t") {
            let tensor = self.known_tensor(it)?;
            it.expect("[")?;
            let mut index = Vec::new();
            it.list("]", |it| {
                index.push(self.subscript(it)?);
                Ok(())
            })?;
            return Ok(Expr::Read { tensor, index });
        }
        if is_numbered("s") {
            it.expect("s")?;
            let n = it.number()?;
            return match usize::try_from(n).is_ok_and(|n| n < self.dag.scalars.len()) {
                true => Ok(Expr::Scalar(ScalarId(n as u32))),
                false => Err(format!("there is no `s{n}`")),
            };
        }
        if it.eat("index(") {
            let poly = self.poly(it)?;
            it.expect(")")?;
            return Ok(Expr::Index(poly));
        }
        let name = it.rest.split_once('(').map_or("", |(name, _)| name);
        let Some(operation) = Operation::of(name) else { return it.literal() };
        it.rest = &it.rest[name.len() + 1..];
        self.operation(operation, it)
    }

    fn operation(&self, operation: Operation, it: &mut Cursor<'_>) -> Parsed<Expr> {
        let mut operands = Vec::new();
        it.list(")", |it| {
            operands.push(Box::new(self.expr(it)?));
            Ok(())
        })?;
        let expected = |n: usize| format!("expected {n} operands, found another number of them");
        let n = match operation {
            Operation::Unary(_) | Operation::Cast(_) => 1,
            Operation::Binary(_) | Operation::Compare(_) => 2,
            Operation::Select => 3,
        };
        let mut operands = operands.into_iter();
        let mut next = || operands.next().ok_or_else(|| expected(n));
        let expr = match operation {
            Operation::Unary(op) => Expr::Unary(op, next()?),
            Operation::Cast(to) => Expr::Cast(to, next()?),
            Operation::Binary(op) => Expr::Binary(op, next()?, next()?),
            Operation::Compare(op) => Expr::Compare(op, next()?, next()?),
            Operation::Select => {
                Expr::Select { condition: next()?, then: next()?, otherwise: next()? }
            }
        };
        if operands.next().is_some() { Err(expected(n)) } else { Ok(expr) }
    }

    /// A polynomial, or else an expression.
    fn subscript(&self, it: &mut Cursor<'_>) -> Parsed<Subscript> {
        let before = Cursor { ..*it };
        let poly = self.poly(it);
        if poly.is_ok() && it.rest.starts_with([',', ']']) {
            return poly.map(Subscript::Affine);
        }
        *it = before;
        let is_index = it.rest.starts_with(['v', '(']);
        match (poly, self.expr(it)) {
            (Err(message), Err(_)) if is_index => Err(message),
            (_, value) => Ok(Subscript::Value(Box::new(value?))),
        }
    }

    fn known_tensor(&self, it: &mut Cursor<'_>) -> Parsed<TensorId> {
        it.expect("t")?;
        let n = it.number()?;
        // The last tensor is that of the compute whose body is read.
        let known = usize::try_from(n).is_ok_and(|n| n < self.dag.tensors.len());
        if known { Ok(TensorId(n as u32)) } else { Err(format!("there is no `t{n}` here")) }
    }
}

/// An operation: the word before a parenthesis.
#[derive(Clone, Copy)]
enum Operation {
    Unary(UnaryOp),
    Binary(BinaryOp),
    Compare(CompareOp),
    Select,
    Cast(DType),
}

impl Operation {
    fn of(name: &str) -> Option<Self> {
        use {BinaryOp as B, CompareOp as C, UnaryOp as U};
        let unary = [
            U::Neg,
            U::Not,
            U::Abs,
            U::Sqrt,
            U::Rsqrt,
            U::Exp,
            U::Ln,
            U::Exp2,
            U::Log2,
            U::ExpM1,
            U::Ln1p,
            U::Tanh,
            U::Erf,
            U::Sin,
            U::Cos,
            U::Atan,
            U::Floor,
            U::Ceil,
            U::Round,
            U::Tf32,
        ];
        let binary = [
            B::Add,
            B::Sub,
            B::Mul,
            B::Div,
            B::Rem,
            B::Min,
            B::Max,
            B::Pow,
            B::And,
            B::Or,
            B::BitAnd,
            B::BitOr,
            B::BitXor,
            B::Shl,
            B::Shr,
        ];
        let compare = [C::Lt, C::Le, C::Eq, C::Ne, C::Ge, C::Gt];
        let is = |op: &dyn std::fmt::Debug| operation_name(op) == name;
        let cast = || name.parse().ok().map(Operation::Cast);
        None.or_else(|| unary.into_iter().find(|it| is(it)).map(Operation::Unary))
            .or_else(|| binary.into_iter().find(|it| is(it)).map(Operation::Binary))
            .or_else(|| compare.into_iter().find(|it| is(it)).map(Operation::Compare))
            .or_else(|| (name == "select").then_some(Operation::Select))
            .or_else(cast)
    }
}

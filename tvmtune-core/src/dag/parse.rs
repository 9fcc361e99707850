//! Canonical text back to a dag: what records keep of a program is enough to schedule it.
//!
//! Any text gives a dag that [`verify`] finds nothing wrong with and whose canonical text is the
//! one that was read, or an error that names a line. Names are not in the text: they are made of
//! positions. Limits are those of the language ([`crate::dsl`]), so that no arithmetic on indices
//! overflows and nothing takes long.

use std::str::FromStr;

use super::print::canonical;
use super::{
    BinaryOp, CompareOp, Compute, ComputeAxis, ComputeId, DType, Dag, Dim, Expr, Literal, Reducer,
    Scalar, ScalarId, Subscript, Tensor, TensorId, TensorKind, UnaryOp, verify,
};
use crate::poly::{Atom, DimId, Facts, Interval, Poly, VarId};

/// Larger dimensions are refused.
const MAX_EXTENT: i64 = i32::MAX as i64;
/// Indices, and numbers of elements, of larger magnitude are refused.
const MAX_MAGNITUDE: f64 = (1_u64 << 53) as f64;
/// Expressions nested deeper are refused.
const MAX_NESTING: usize = 400;
/// Quotients of quotients are refused beyond this: proofs try every one in several ways.
const MAX_QUOTIENTS: usize = 6;
/// As are longer products, and longer sums, of indices.
const MAX_FACTORS: usize = 8;
const MAX_TERMS: usize = 64;
/// Longer texts are refused.
const MAX_BYTES: usize = 1 << 18;

/// Text that is not the canonical text of a dag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseDagError {
    /// The line, from 1.
    pub line: usize,
    /// What is wrong with it.
    pub message: String,
}

impl FromStr for Dag {
    type Err = ParseDagError;

    fn from_str(text: &str) -> Result<Self, ParseDagError> {
        let at = |line: usize| move |message: String| ParseDagError { line, message };
        if text.len() > MAX_BYTES {
            return Err(at(1)(format!("the text has more than {MAX_BYTES} bytes")));
        }
        let mut reader = Reader::default();
        for (n, line) in text.lines().enumerate() {
            let mut cursor = Cursor { rest: line, depth: 0, n_quotients: 0 };
            reader.line(n, &mut cursor).and_then(|()| cursor.end()).map_err(at(n + 1))?;
        }
        let dag = reader.dag;
        let canonical = canonical(&dag);
        if canonical != text {
            let same = text.lines().zip(canonical.lines()).take_while(|(a, b)| a == b).count();
            return Err(at(same + 1)("not as canonical text has it".to_owned()));
        }
        match verify(&dag).first() {
            None => Ok(dag),
            Some(finding) => {
                let before = 1 + dag.dims.len() + dag.scalars.len() + dag.params().count();
                let line = finding.compute.map_or(1, |it| before + 1 + it.0 as usize);
                Err(at(line)(finding.message.clone()))
            }
        }
    }
}

/// What was read, or what was expected instead.
type Parsed<T> = Result<T, String>;

/// The dag so far, and what is known where the line stands.
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
        };
        Self { dag, facts: Facts::default(), n_axes: 0 }
    }
}

impl Reader {
    fn line(&mut self, n: usize, it: &mut Cursor<'_>) -> Parsed<()> {
        if n == 0 {
            return it.expect("tvmtune dag v1");
        }
        if it.eat("dim d") {
            return self.dim(it);
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
        if it.eat("return ") {
            return it.list("", |it| {
                let id = self.known_tensor(it)?;
                self.dag.outputs.push(id);
                Ok(())
            });
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
        self.dag.dims.push(Dim { name: format!("d{n}"), range });
        Ok(())
    }

    /// `t0: f32[d0, 64]`
    fn tensor(&mut self, kind: TensorKind, it: &mut Cursor<'_>) -> Parsed<()> {
        it.expect("t")?;
        let name = format!("t{}", it.position(self.dag.tensors.len())?);
        it.expect(": ")?;
        let dtype = it.dtype()?;
        it.expect("[")?;
        let (mut shape, mut n_elements) = (Vec::new(), 1.0);
        self.n_axes = 0;
        it.list("]", |it| {
            let extent = self.extent(it)?;
            n_elements *= magnitude(&extent, &self.facts);
            shape.push(extent);
            Ok(())
        })?;
        if n_elements > MAX_MAGNITUDE {
            return Err("a tensor has more than 2^53 elements".to_owned());
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
            let known = usize::try_from(n).is_ok_and(|n| n < self.dag.scalars.len());
            return if known {
                Ok(Expr::Scalar(ScalarId(n as u32)))
            } else {
                Err(format!("there is no `s{n}`"))
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

    /// `8*v0 + v1 - 3`
    fn poly(&self, it: &mut Cursor<'_>) -> Parsed<Poly> {
        let (mut sum, mut size) = (Poly::default(), 0.0);
        let mut negative = it.eat("-");
        for _ in 0..MAX_TERMS {
            let term = self.term(it)?;
            size += magnitude(&term, &self.facts);
            if size > MAX_MAGNITUDE {
                return Err("an index may be larger than 2^53".to_owned());
            }
            sum += if negative { -term } else { term };
            negative = it.rest.starts_with(" - ");
            if !it.eat(" + ") && !it.eat(" - ") {
                return Ok(sum);
            }
        }
        Err(format!("an index has more than {MAX_TERMS} terms"))
    }

    /// `8*v0*d1`
    fn term(&self, it: &mut Cursor<'_>) -> Parsed<Poly> {
        let mut product = Poly::constant(1);
        if starts_with_digit(it.rest) {
            product = Poly::constant(it.number()?);
            if !it.eat("*") {
                return Ok(product);
            }
        }
        for _ in 0..MAX_FACTORS {
            product = product * Poly::atom(self.atom(it)?);
            if !it.eat("*") {
                return Ok(product);
            }
        }
        Err(format!("an index is a product of more than {MAX_FACTORS}"))
    }

    fn atom(&self, it: &mut Cursor<'_>) -> Parsed<Atom> {
        let declared = |name: char, n: i64, of: u32| {
            let known = u32::try_from(n).ok().filter(|it| *it < of);
            known.ok_or_else(|| format!("there is no `{name}{n}` here"))
        };
        if it.eat("d") {
            let n_dims = self.dag.dims.len() as u32;
            return Ok(Atom::Dim(DimId(declared('d', it.number()?, n_dims)?)));
        }
        if it.eat("v") {
            return Ok(Atom::Var(VarId(declared('v', it.number()?, self.n_axes)?)));
        }
        it.n_quotients += 1;
        if it.n_quotients > MAX_QUOTIENTS {
            return Err(format!("more than {MAX_QUOTIENTS} quotients in one another"));
        }
        let atom = self.quotient(it);
        it.n_quotients -= 1;
        atom
    }

    /// `((a)/(b))`, `((a)%(b))`, `(min(a, b))` or `(max(a, b))`
    fn quotient(&self, it: &mut Cursor<'_>) -> Parsed<Atom> {
        for (name, make) in [("(min(", Atom::Min as fn(_, _) -> _), ("(max(", Atom::Max)] {
            if it.eat(name) {
                let a = Box::new(self.poly(it)?);
                it.expect(", ")?;
                let b = Box::new(self.poly(it)?);
                it.expect("))")?;
                return Ok(make(a, b));
            }
        }
        it.expect("((")?;
        let a = Box::new(self.poly(it)?);
        let make = if it.eat(")/(") {
            Atom::Div
        } else {
            it.expect(")%(")?;
            Atom::Mod
        };
        let b = Box::new(self.poly(it)?);
        it.expect("))")?;
        match b.is_positive(&self.facts) {
            true => Ok(make(a, b)),
            false => Err(format!("`{b}` may be 0 or less")),
        }
    }

    fn known_tensor(&self, it: &mut Cursor<'_>) -> Parsed<TensorId> {
        it.expect("t")?;
        let n = it.number()?;
        // Where a compute is read, the last tensor is its own.
        let known = usize::try_from(n).is_ok_and(|n| n < self.dag.tensors.len());
        if known { Ok(TensorId(n as u32)) } else { Err(format!("there is no `t{n}` here")) }
    }
}

/// An upper bound of the magnitude of a term, and of all parts of it.
fn magnitude(poly: &Poly, facts: &Facts) -> f64 {
    let atom = |it: &Atom| {
        let range = Poly::atom(it.clone()).interval(facts);
        (range.lo as f64).abs().max((range.hi as f64).abs()).max(1.0)
    };
    let term = |(atoms, value): (&[Atom], i64)| {
        value.unsigned_abs() as f64 * atoms.iter().map(atom).product::<f64>()
    };
    poly.terms().map(term).sum()
}

/// What stands before a parenthesis.
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
            U::Tanh,
            U::Erf,
            U::Sin,
            U::Cos,
            U::Floor,
            U::Ceil,
            U::Round,
        ];
        let binary =
            [B::Add, B::Sub, B::Mul, B::Div, B::Rem, B::Min, B::Max, B::Pow, B::And, B::Or];
        let compare = [C::Lt, C::Le, C::Eq, C::Ne, C::Ge, C::Gt];
        let is = |op: &dyn std::fmt::Debug| format!("{op:?}").to_lowercase() == name;
        let cast = || name.parse().ok().map(Operation::Cast);
        None.or_else(|| unary.into_iter().find(|it| is(it)).map(Operation::Unary))
            .or_else(|| binary.into_iter().find(|it| is(it)).map(Operation::Binary))
            .or_else(|| compare.into_iter().find(|it| is(it)).map(Operation::Compare))
            .or_else(|| (name == "select").then_some(Operation::Select))
            .or_else(cast)
    }
}

/// What is left of a line.
struct Cursor<'a> {
    rest: &'a str,
    /// How deep in expressions it stands.
    depth: usize,
    /// How deep in quotients it stands.
    n_quotients: usize,
}

impl Cursor<'_> {
    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    fn expected(&self, what: &str) -> String {
        let found: String = self.rest.chars().take(16).collect();
        format!("expected {what}, found `{found}`")
    }

    fn end(&self) -> Parsed<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    /// Items up to `end`, with commas between.
    fn list(&mut self, end: &str, mut item: impl FnMut(&mut Self) -> Parsed<()>) -> Parsed<()> {
        if !end.is_empty() && self.eat(end) {
            return Ok(());
        }
        loop {
            item(self)?;
            if !self.eat(", ") {
                return self.expect(end);
            }
        }
    }

    /// A number of digits; none is so large that adding a few overflows.
    fn number(&mut self) -> Parsed<i64> {
        let n_digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest[..n_digits].parse().ok().filter(|it| *it <= MAX_MAGNITUDE as i64);
        let number = number.ok_or_else(|| self.expected("a number"))?;
        self.rest = &self.rest[n_digits..];
        Ok(number)
    }

    /// The number of what comes next in its list.
    fn position(&mut self, expected: usize) -> Parsed<usize> {
        match self.number()? {
            n if usize::try_from(n) == Ok(expected) => Ok(expected),
            n => Err(format!("expected number {expected}, found {n}")),
        }
    }

    /// What reads like a name.
    fn word(&self) -> &str {
        let is_end = |it: char| !it.is_ascii_alphanumeric();
        &self.rest[..self.rest.find(is_end).unwrap_or(self.rest.len())]
    }

    fn dtype(&mut self) -> Parsed<DType> {
        let word = self.word();
        let (dtype, length) = (word.parse(), word.len());
        let dtype = dtype.map_err(|_| self.expected("a type"))?;
        self.rest = &self.rest[length..];
        Ok(dtype)
    }

    /// `max(` before `v1 < 8`: of values, `max` is an operation.
    fn reducer(&mut self) -> Option<Reducer> {
        let (reducer, name) = match self.word() {
            "sum" => (Reducer::Sum, "sum"),
            "prod" => (Reducer::Prod, "prod"),
            "max" => (Reducer::Max, "max"),
            "min" => (Reducer::Min, "min"),
            "any" => (Reducer::Any, "any"),
            "all" => (Reducer::All, "all"),
            _ => return None,
        };
        let rest = self.rest[name.len()..].strip_prefix('(')?;
        rest.strip_prefix('v').filter(|it| starts_with_digit(it))?;
        self.rest = rest;
        Some(reducer)
    }

    /// `0.5_f32`, `-inf_f64`, `3_i32`, `true_bool`
    fn literal(&mut self) -> Parsed<Expr> {
        let is_end = |it: char| matches!(it, ',' | ')' | ']');
        let text = &self.rest[..self.rest.find(is_end).unwrap_or(self.rest.len())];
        let parse = || {
            let (value, dtype) = text.rsplit_once('_')?;
            let dtype: DType = dtype.parse().ok()?;
            let literal = match dtype {
                DType::Bool => Literal::Bool(value.parse().ok()?),
                DType::F64 => Literal::Float(value.parse().ok()?),
                _ if dtype.is_float() => Literal::Float(value.parse::<f32>().ok()?.into()),
                _ => Literal::Int(value.parse().ok()?),
            };
            Some(Expr::Const(literal, dtype))
        };
        let literal = parse().ok_or_else(|| self.expected("an expression"))?;
        self.rest = &self.rest[text.len()..];
        Ok(literal)
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_digit())
}

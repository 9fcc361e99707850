//! The lexer of canonical text: numbers, types, literals and punctuation of one line.

use crate::dag::limits::MAX_INDEX;
use crate::dag::{DType, Expr, Literal, Reducer};

/// A parsed item, or the error message.
pub(super) type Parsed<T> = Result<T, String>;

pub(super) struct Cursor<'a> {
    pub(super) rest: &'a str,
    pub(super) depth: usize,
    /// The nesting depth of quotients.
    pub(super) n_quotients: usize,
}

impl Cursor<'_> {
    pub(super) fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    pub(super) fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) { Ok(()) } else { Err(self.expected(&format!("`{text}`"))) }
    }

    pub(super) fn expected(&self, item: &str) -> String {
        let found: String = self.rest.chars().take(16).collect();
        format!("expected {item}, found `{found}`")
    }

    pub(super) fn end(&self) -> Parsed<()> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.expected("the end of the line")) }
    }

    /// Items up to `end`, with commas between.
    pub(super) fn list(
        &mut self,
        end: &str,
        mut item: impl FnMut(&mut Self) -> Parsed<()>,
    ) -> Parsed<()> {
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
    pub(super) fn number(&mut self) -> Parsed<i64> {
        let n_digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = self.rest[..n_digits].parse().ok().filter(|it| *it <= MAX_INDEX);
        let number = number.ok_or_else(|| self.expected("a number"))?;
        self.rest = &self.rest[n_digits..];
        Ok(number)
    }

    /// Parses the position of the next item of a list.
    pub(super) fn position(&mut self, expected: usize) -> Parsed<usize> {
        match self.number()? {
            n if usize::try_from(n) == Ok(expected) => Ok(expected),
            n => Err(format!("expected number {expected}, found {n}")),
        }
    }

    fn word(&self) -> &str {
        let is_end = |it: char| !it.is_ascii_alphanumeric();
        &self.rest[..self.rest.find(is_end).unwrap_or(self.rest.len())]
    }

    pub(super) fn dtype(&mut self) -> Parsed<DType> {
        let word = self.word();
        let (dtype, length) = (word.parse(), word.len());
        let dtype = dtype.map_err(|_| self.expected("a type"))?;
        self.rest = &self.rest[length..];
        Ok(dtype)
    }

    /// Parses `max(` before `v1 < 8`; before operands, `max` is an operation.
    pub(super) fn reducer(&mut self) -> Option<Reducer> {
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
    pub(super) fn literal(&mut self) -> Parsed<Expr> {
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

pub(super) fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|it: char| it.is_ascii_digit())
}

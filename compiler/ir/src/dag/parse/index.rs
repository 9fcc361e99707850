//! The parser of polynomials: indices and extents, exactly as they were written.
//!
//! Magnitudes and sizes are limited, so that no arithmetic overflows and no proof takes long.

use super::Reader;
use super::cursor::{Cursor, Parsed, starts_with_digit};
use crate::dag::limits::{MAX_FACTORS, MAX_INDEX, MAX_QUOTIENTS, MAX_TERMS, magnitude};
use crate::poly::{Atom, DimId, Poly, VarId};

impl Reader {
    /// `8*v0 + v1 - 3`
    pub(super) fn poly(&self, it: &mut Cursor<'_>) -> Parsed<Poly> {
        let (mut sum, mut size) = (Poly::default(), 0.0);
        let mut negative = it.eat("-");
        for _ in 0..MAX_TERMS {
            let term = self.term(it)?;
            size += magnitude(&term, &self.facts);
            if size > MAX_INDEX as f64 {
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
}

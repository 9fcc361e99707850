//! The text of polynomials.

use std::fmt;

use super::{Atom, Poly};

/// Terms joined by ` + `, as in `8*v0 + v1 + 3`; nested atoms as `(..)/(..)`, `min(.., ..)`.
impl fmt::Display for Poly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_named(f, &|atom, f| match atom {
            Atom::Dim(dim) => write!(f, "d{}", dim.0),
            Atom::Var(var) => write!(f, "v{}", var.0),
            _ => Err(fmt::Error),
        })
    }
}

/// Writes the name of a dimension or a variable.
pub type WriteLeaf<'a> = &'a dyn Fn(&Atom, &mut dyn fmt::Write) -> fmt::Result;

impl Poly {
    /// Writes the text of [`Display`](fmt::Display) with `leaf` naming dimensions and variables.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_named(&self, f: &mut dyn fmt::Write, leaf: WriteLeaf<'_>) -> fmt::Result {
        if self.terms.is_empty() {
            return f.write_str("0");
        }
        // The constant sorts first but reads better last.
        let (constant, others): (Vec<_>, Vec<_>) =
            self.terms.iter().partition(|(atoms, _)| atoms.is_empty());
        for (n, (atoms, coefficient)) in others.into_iter().chain(constant).enumerate() {
            match (n, *coefficient < 0) {
                (0, true) => f.write_str("-")?,
                (0, false) => {}
                (_, true) => f.write_str(" - ")?,
                (_, false) => f.write_str(" + ")?,
            }
            let magnitude = coefficient.unsigned_abs();
            if atoms.is_empty() || magnitude != 1 {
                write!(f, "{magnitude}")?;
            }
            for (k, atom) in atoms.iter().enumerate() {
                if k > 0 || magnitude != 1 {
                    f.write_str("*")?;
                }
                atom.write_named(f, leaf)?;
            }
        }
        Ok(())
    }
}

impl Atom {
    fn write_named(&self, f: &mut dyn fmt::Write, leaf: WriteLeaf<'_>) -> fmt::Result {
        let (open, a, between, b) = match self {
            Atom::Dim(_) | Atom::Var(_) => return leaf(self, f),
            Atom::Div(a, b) => ("((", a, ")/(", b),
            Atom::Mod(a, b) => ("((", a, ")%(", b),
            Atom::Min(a, b) => ("(min(", a, ", ", b),
            Atom::Max(a, b) => ("(max(", a, ", ", b),
        };
        f.write_str(open)?;
        a.write_named(f, leaf)?;
        f.write_str(between)?;
        b.write_named(f, leaf)?;
        f.write_str("))")
    }
}

//! Reductions that add each term to the element that data choose: the sum of `if segment[e] == s { x[e] } else
//! { 0 }` over `e` is a scatter of `x` to the elements `s`.

use super::{BinaryOp, CompareOp, Compute, DType, Expr, Literal, Types};
use crate::poly::{Atom, Poly, VarId};

/// An equality comparison of a loop variable with data, outside of which a term of a reduction is the reducer's
/// identity.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// A loop-invariant integer expression that reads a tensor.
    pub data: Expr,
    /// The loop-invariant difference of the index and the variable: `data == variable + offset`.
    pub offset: Poly,
    /// The type in which the two are compared.
    pub dtype: DType,
    /// The integer is evaluated unconditionally: no other condition of the term guards its reads.
    pub is_certain: bool,
    /// The term with the comparison replaced by `true`.
    pub term: Expr,
}

/// Returns the comparison by which data choose the value of a variable. The data are invariant in the loops whose
/// variables are `is_inside`, the loop of `var` among them.
pub fn chosen(
    term: &Expr,
    identity: &Expr,
    var: VarId,
    is_inside: &dyn Fn(VarId) -> bool,
    types: &dyn Types,
) -> Option<Chosen> {
    Search { identity, var, is_inside, types }.term(term)
}

/// Returns the axes of a reduction whose indices data choose, each with its comparison. Each term is without the
/// comparisons of its own axis and of those before.
pub fn chosen_axes(compute: &Compute, types: &dyn Types) -> Vec<(usize, Chosen)> {
    let Some(reducer) = compute.reducer else { return Vec::new() };
    let dtype = types.tensor(compute.tensor);
    let identity = Expr::Const(reducer.identity(dtype), dtype);
    let mut term = compute.body.clone();
    let mut found = Vec::new();
    for axis in 0..compute.axes.len() {
        let var = VarId(axis as u32);
        if let Some(it) = chosen(&term, &identity, var, &|other| other == var, types) {
            term = it.term.clone();
            found.push((axis, it));
        }
    }
    found
}

struct Search<'a> {
    identity: &'a Expr,
    var: VarId,
    is_inside: &'a dyn Fn(VarId) -> bool,
    types: &'a dyn Types,
}

impl Search<'_> {
    fn term(&self, term: &Expr) -> Option<Chosen> {
        let is_zero = match self.identity {
            Expr::Const(Literal::Float(it), _) => *it == 0.0,
            Expr::Const(Literal::Bool(false) | Literal::Int(0), _) => true,
            _ => false,
        };
        let with = |found: Chosen, term: &dyn Fn(Expr) -> Expr| {
            let term = term(found.term);
            Chosen { term, ..found }
        };
        match term {
            Expr::Select { condition, then, otherwise } if **otherwise == *self.identity => {
                if let Some(found) = self.condition(condition) {
                    let select = |it: Expr| it.select((**then).clone(), (**otherwise).clone());
                    return Some(with(found, &select));
                }
                let found = Chosen { is_certain: false, ..self.term(then)? };
                let select = |it: Expr| (**condition).clone().select(it, (**otherwise).clone());
                Some(with(found, &select))
            }
            // The number of a condition that fails is 0.
            Expr::Cast(dtype, condition) if is_zero && self.is_bool(condition) => {
                let cast = |it: Expr| Expr::Cast(*dtype, Box::new(it));
                Some(with(self.condition(condition)?, &cast))
            }
            _ if is_zero && self.is_bool(term) => self.condition(term),
            _ => None,
        }
    }

    fn is_bool(&self, expr: &Expr) -> bool {
        expr.dtype(self.types) == DType::Bool
    }

    /// Finds the comparison without which a condition fails; the term is the condition without it.
    fn condition(&self, condition: &Expr) -> Option<Chosen> {
        match condition {
            Expr::Binary(BinaryOp::And, a, b) => {
                let and = |a: Expr, b: Expr| a.binary(BinaryOp::And, b);
                if let Some(found) = self.condition(a) {
                    let term = and(found.term, (**b).clone());
                    return Some(Chosen { term, ..found });
                }
                let found = self.condition(b)?;
                let term = and((**a).clone(), found.term);
                Some(Chosen { term, is_certain: false, ..found })
            }
            Expr::Compare(CompareOp::Eq, a, b) => {
                self.comparison(a, b).or_else(|| self.comparison(b, a))
            }
            _ => None,
        }
    }

    fn comparison(&self, data: &Expr, index: &Expr) -> Option<Chosen> {
        let dtype = data.dtype(self.types);
        let index = match index {
            Expr::Cast(_, it) => &**it,
            it => it,
        };
        let Expr::Index(index) = index else { return None };
        let offset = index.clone() - Poly::var(self.var);
        let mut is_outside = !offset.mentions(self.var);
        let mut reads = false;
        data.walk(&mut |it| reads |= matches!(it, Expr::Read { .. }));
        let mut check = |poly: &Poly| {
            poly.for_each_leaf(&mut |atom| {
                if let Atom::Var(var) = atom {
                    is_outside &= !(self.is_inside)(*var);
                }
            });
        };
        check(&offset);
        data.for_each_poly(&mut check);
        (reads && dtype.is_integer() && is_outside).then(|| Chosen {
            data: data.clone(),
            offset,
            dtype,
            is_certain: true,
            term: Expr::Const(Literal::Bool(true), DType::Bool),
        })
    }
}

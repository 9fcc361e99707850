//! `argtop(r, 0..V, |v| ..)`: the index of the `r`-th largest value.
//!
//! It is elaborated to what there is: for each rank a maximum, and the first index that has it, over
//! the values that come after those of the rank before; and a choice by rank. The order is that of
//! descending values, and of ascending indices among equal ones, so that rank 0 is `argmax`.

use syn::punctuated::Punctuated;
use syn::{Expr as Syntax, Token};

use super::elaborate::Elaborator;
use super::errors::{Location, count};
use super::reduce::{Range, ReductionBody, and};
use super::value::{Kind, Value, cast};
use crate::dag::{BinaryOp, CompareOp, DType, Expr, Reducer};
use crate::poly::{Poly, VarId};

/// Ranks are below this: each is two stages, and the time to schedule a chain grows faster than it.
pub(super) const MAX_RANKS: i64 = 32;

/// The values over which ranks are taken.
struct Ranked {
    axis: VarId,
    body: Expr,
    dtype: DType,
    /// The index at the axis, and the last one.
    index: Expr,
    last: Expr,
    index_type: DType,
}

/// The value of a rank, and its index.
struct Chosen {
    value: Expr,
    index: Expr,
}

impl Elaborator {
    /// Elaborates the arguments of `argtop`, and reads the index as `I64`.
    pub(super) fn argtop(
        &mut self,
        args: &Punctuated<Syntax, Token![,]>,
        location: Location,
    ) -> Option<Value> {
        let parts: Vec<&Syntax> = args.iter().collect();
        let [rank, range, Syntax::Closure(closure)] = parts[..] else {
            let message = "`argtop` takes a rank, a range and a closure: `argtop(r, 0..K, |k| ..)`";
            return self.errors.at_location(location, message);
        };
        if closure.inputs.len() != 1 {
            let given = count(closure.inputs.len(), "axis", "axes");
            let message =
                format!("this closure takes {given}, but there is 1 range: write `|k| ..`");
            return self.errors.at(&closure.inputs, message);
        }
        let (rank, ranges) = (self.rank(rank), [self.range(range)]);
        let ReductionBody { axes, mask, value } = self.reduction_body(&ranges, closure);
        let [range] = ranges;
        let (range, (rank, n_ranks), body) = (range?, rank?, value?);
        if mask.is_some() {
            let message = "a range of `argtop` cannot depend on an axis";
            return self.errors.at(args, message);
        }
        let n_indices = range.extent.interval(&self.known.facts).hi;
        if n_ranks > n_indices {
            let message =
                format!("a rank reaches {}, but there are {n_indices} indices", n_ranks - 1);
            return self.errors.at(args, message);
        }
        let (body, dtype) = match body.widened(&mut self.errors)? {
            (_, DType::Bool) => {
                let message = "`argtop` applies to numbers";
                return self.errors.at_location(body.location, message);
            }
            number => number,
        };
        let ranked = self.ranked(&range, axes[0], body, dtype);
        let mut chosen: Vec<Chosen> = Vec::new();
        for _ in 0..n_ranks {
            let next = self.next_rank(&ranked, chosen.last());
            chosen.push(next);
        }
        let indices: Vec<Expr> = chosen.into_iter().map(|it| it.index).collect();
        let expr = cast(DType::I64, ranked.index_type, of_rank(&rank, 0, &indices));
        Some(Value::new(Kind::Typed(expr, DType::I64), location))
    }

    /// Reads a rank; with the number of ranks that it may have.
    fn rank(&mut self, syntax: &Syntax) -> Option<(Poly, i64)> {
        let value = self.expr(syntax)?;
        let Some(rank) = value.as_index() else {
            let message = "a rank is an axis, or made of axes, dimensions and integers";
            return self.errors.at(syntax, message);
        };
        let range = rank.interval(&self.known.facts);
        if range.lo < 0 || range.hi >= MAX_RANKS {
            let message = format!(
                "this rank ranges over {}..={}: ranks are at least 0, and less than {MAX_RANKS}",
                range.lo, range.hi
            );
            return self.errors.at(syntax, message);
        }
        Some((rank, range.hi + 1))
    }

    fn ranked(&mut self, range: &Range, axis: VarId, body: Expr, dtype: DType) -> Ranked {
        let body = self.materialized(&[axis], body, dtype);
        let last = range.lo.clone() + range.extent.clone() - Poly::constant(1);
        let index_type = self.index_type(&last);
        let index = |poly: Poly| cast(index_type, DType::I64, Expr::Index(poly));
        let (first, last) = (range.lo.clone() + Poly::var(axis), index(last));
        Ranked { axis, body, dtype, index: index(first), last, index_type }
    }

    /// The first of the values after that of the rank before. Where only NaNs are left, it is the last
    /// index, as of `argmax`.
    fn next_rank(&mut self, ranked: &Ranked, before: Option<&Chosen>) -> Chosen {
        let Ranked { axis, body, dtype, index, last, index_type } = ranked;
        let compare = |op: CompareOp, a: &Expr, b: &Expr| a.clone().compare(op, b.clone());
        let remains = before.map(|it| {
            let later = compare(CompareOp::Eq, body, &it.value)
                .binary(BinaryOp::And, compare(CompareOp::Gt, index, &it.index));
            compare(CompareOp::Lt, body, &it.value).binary(BinaryOp::Or, later)
        });
        let least = Expr::Const(Reducer::Max.identity(*dtype), *dtype);
        let candidate = match &remains {
            Some(remains) => remains.clone().select(body.clone(), least),
            None => body.clone(),
        };
        let value = self.reduce(Reducer::Max, vec![*axis], candidate, *dtype);
        let is_it = and(remains, Some(compare(CompareOp::Eq, body, &value)));
        let position = match is_it {
            Some(is_it) => is_it.select(index.clone(), last.clone()),
            None => last.clone(),
        };
        let index = self.reduce(Reducer::Min, vec![*axis], position, *index_type);
        Chosen { value, index }
    }
}

/// The index of a rank from `first` on: a tree of comparisons, since a list of them is as deep as it
/// is long.
fn of_rank(rank: &Poly, first: i64, indices: &[Expr]) -> Expr {
    if let [one] = indices {
        return one.clone();
    }
    let (low, high) = indices.split_at(indices.len() / 2);
    let middle = first + low.len() as i64;
    let is_low = Expr::Index(rank.clone()).compare(CompareOp::Lt, Expr::Index(middle.into()));
    is_low.select(of_rank(rank, first, low), of_rank(rank, middle, high))
}

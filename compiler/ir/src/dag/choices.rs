//! Subscripts that choose between indices become choices between reads.
//!
//! ```text
//! x[if p == 0 { 1 } else { p - 1 }]    =>   if p == 0 { x[1] } else { x[p - 1] }
//! x[max(p - 1, 0)]                     =>   if p - 1 < 0 { x[0] } else { x[p - 1] }
//! x[(p + 37) % 64]                     =>   if p + 37 < 64 { x[p + 37] } else { x[p - 27] }
//! ```
//!
//! Each read is then of an affine index: loops are split where the condition changes, and vectors are loaded
//! where a gather would be.

use super::bounds::PathFacts;
use super::condition::as_index;
use super::limits::is_index;
use super::{BinaryOp, CompareOp, DType, Dag, Expr, Subscript, TensorId, UnaryOp};
use crate::poly::{Atom, Facts, Poly};

/// A read becomes this many at most: a border on both sides of two axes takes nine.
const MAX_READS: usize = 16;

/// The shortest row around which an index wraps, by judgement: shorter periods are phases of vectors.
const MIN_WRAPPED: i64 = 8;
/// Times that an index wraps, at most: rows with a border on both sides wrap twice.
const MAX_WRAPS: i64 = 2;

/// Returns the expression with choices between reads, where each is proven to be in bounds; `None` if nothing
/// changes.
pub(super) fn choose_reads(expr: &Expr, known: &PathFacts, dag: &Dag) -> Option<Expr> {
    let chosen = rewrite(expr, known);
    let shape = |it: TensorId| dag.tensor(it).shape.clone();
    (chosen != *expr && known.reads_in_bounds(&chosen, &shape, dag)).then_some(chosen)
}

fn rewrite(expr: &Expr, known: &PathFacts) -> Expr {
    let under = |condition: &Expr, holds: bool, it: &Expr| {
        let mut known = known.clone();
        known.assume(condition, holds);
        rewrite(it, &known)
    };
    match expr {
        Expr::Select { condition, then, otherwise } => {
            let (then, otherwise) =
                (under(condition, true, then), under(condition, false, otherwise));
            rewrite(condition, known).select(then, otherwise)
        }
        Expr::Read { tensor, index } => {
            of_subscript(*tensor, index, 0, known, &mut MAX_READS.clone())
                .unwrap_or_else(|| expr.map_children(&mut |it| rewrite(it, known)))
        }
        _ => expr.map_children(&mut |it| rewrite(it, known)),
    }
}

/// Resolves the choices in the subscripts of a read from one on; `None` if there would be more reads than are
/// left, or one depends on data in another way.
fn of_subscript(
    tensor: TensorId,
    index: &[Subscript],
    at: usize,
    known: &PathFacts,
    left: &mut usize,
) -> Option<Expr> {
    let Some(subscript) = index.get(at) else {
        *left = left.checked_sub(1)?;
        return Some(Expr::Read { tensor, index: index.to_vec() });
    };
    let value = match subscript {
        Subscript::Affine(poly) => Expr::Index(poly.clone()),
        Subscript::Value(value) => (**value).clone(),
    };
    let with = |value: Subscript, at: usize, known: &PathFacts, left: &mut usize| {
        let mut index = index.to_vec();
        index[at] = value;
        of_subscript(tensor, &index, at, known, left)
    };
    match choice(&value, &known.facts) {
        None => of_subscript(tensor, index, at + 1, known, left),
        Some(Choice::One(poly)) => {
            let mut index = index.to_vec();
            index[at] = Subscript::Affine(poly);
            of_subscript(tensor, &index, at + 1, known, left)
        }
        Some(Choice::Of { condition, then, otherwise }) => {
            let mut branch = |holds: bool, value: &Expr| {
                let mut known = known.clone();
                known.assume(&condition, holds);
                with(Subscript::Value(Box::new(value.clone())), at, &known, left)
            };
            match known.decided(&condition) {
                Some(true) => branch(true, &then),
                Some(false) => branch(false, &otherwise),
                None => {
                    let (then, otherwise) = (branch(true, &then)?, branch(false, &otherwise)?);
                    Some(if then == otherwise { then } else { condition.select(then, otherwise) })
                }
            }
        }
    }
}

/// Returns the indices that a value chooses between, each with what is known where it is chosen; none if
/// there are more than so many, or the value depends on data in another way.
pub(super) fn cases(value: &Expr, known: &PathFacts, most: usize) -> Vec<(PathFacts, Poly)> {
    let choice = match value {
        // Data may choose, too.
        Expr::Select { condition, then, otherwise } => Some(Choice::of(condition, then, otherwise)),
        _ => choice(value, &known.facts),
    };
    match choice {
        None => Vec::new(),
        Some(Choice::One(poly)) => vec![(known.clone(), poly)],
        Some(Choice::Of { condition, then, otherwise }) => {
            let branch = |holds: bool, value: &Expr, most: usize| {
                let mut known = known.clone();
                known.assume(&condition, holds);
                cases(value, &known, most)
            };
            match known.decided(&condition) {
                Some(true) => branch(true, &then, most),
                Some(false) => branch(false, &otherwise, most),
                None => {
                    let mut all = branch(true, &then, most.saturating_sub(1));
                    let left = most.saturating_sub(all.len());
                    let others = branch(false, &otherwise, left);
                    if all.is_empty() || others.is_empty() || others.len() > left {
                        return Vec::new();
                    }
                    all.extend(others);
                    all
                }
            }
        }
    }
}

/// The value of an index.
enum Choice {
    One(Poly),
    Of { condition: Expr, then: Expr, otherwise: Expr },
}

impl Choice {
    fn of(condition: &Expr, then: &Expr, otherwise: &Expr) -> Self {
        let (condition, then, otherwise) = (condition.clone(), then.clone(), otherwise.clone());
        Self::Of { condition, then, otherwise }
    }
}

/// Returns the outermost choice of an index; `None` if it depends on data, or is another function of indices.
fn choice(value: &Expr, facts: &Facts) -> Option<Choice> {
    // Beyond the range of indices, data wrap.
    let as_index = |it: &Expr| as_index(it).filter(|it| is_index(it, facts));
    if let Some(poly) = as_index(value) {
        return Some(of_poly(poly, facts));
    }
    let choice = |it: &Expr| choice(it, facts);
    let lift = |inner: &Expr, around: &dyn Fn(Expr) -> Expr| match choice(inner)? {
        Choice::One(_) => None,
        Choice::Of { condition, then, otherwise } => {
            Some(Choice::Of { condition, then: around(then), otherwise: around(otherwise) })
        }
    };
    match value {
        Expr::Select { condition, then, otherwise } if is_of_indices(condition) => {
            Some(Choice::of(condition, then, otherwise))
        }
        Expr::Cast(DType::I64, a) => lift(a, &|it| Expr::Cast(DType::I64, Box::new(it))),
        Expr::Unary(UnaryOp::Abs, a) if as_index(a).is_some() => Some(Choice::Of {
            condition: at_most(Poly::constant(0), as_index(a)?),
            then: (**a).clone(),
            otherwise: Expr::Unary(UnaryOp::Neg, a.clone()),
        }),
        Expr::Unary(op @ (UnaryOp::Abs | UnaryOp::Neg), a) => {
            lift(a, &|it| Expr::Unary(*op, Box::new(it)))
        }
        Expr::Binary(op @ (BinaryOp::Min | BinaryOp::Max), a, b)
            if as_index(a).is_some() && as_index(b).is_some() =>
        {
            let (least, most) = if *op == BinaryOp::Min { (a, b) } else { (b, a) };
            Some(Choice::Of {
                condition: at_most(as_index(least)?, as_index(most)?),
                then: (**a).clone(),
                otherwise: (**b).clone(),
            })
        }
        Expr::Binary(op, a, b) if is_exact(*op) => lift(a, &|it| binary(*op, it, (**b).clone()))
            .or_else(|| lift(b, &|it| binary(*op, (**a).clone(), it))),
        _ => None,
    }
}

/// Returns the choice that a minimum, a maximum or a remainder in an index makes.
fn of_poly(poly: Poly, facts: &Facts) -> Choice {
    let Some(atom) = poly.innermost_choice() else {
        return of_remainder(&poly, facts).unwrap_or(Choice::One(poly));
    };
    let (least, most, a, b) = match &atom {
        Atom::Min(a, b) => (a, b, a, b),
        Atom::Max(a, b) => (b, a, a, b),
        Atom::Dim(_) | Atom::Var(_) | Atom::Div(..) | Atom::Mod(..) => return Choice::One(poly),
    };
    let with = |operand: &Poly| {
        let replace = |it: &Atom| (*it == atom).then(|| operand.clone());
        Expr::Index(poly.substitute(&replace, facts))
    };
    let condition = at_most(Poly::clone(least), Poly::clone(most));
    Choice::Of { condition, then: with(a), otherwise: with(b) }
}

/// Returns the choice that a remainder makes whose quotient has two or three values.
fn of_remainder(poly: &Poly, facts: &Facts) -> Option<Choice> {
    let wrapped = |atom: &Atom| {
        let Atom::Mod(a, b) = atom else { return None };
        let (b, range) = (b.as_constant().filter(|it| *it >= MIN_WRAPPED)?, a.interval(facts));
        let quotients = (range.lo >= 0).then_some((range.lo / b, range.hi / b))?;
        (1..=MAX_WRAPS).contains(&(quotients.1 - quotients.0)).then_some((a.clone(), b, quotients))
    };
    let (a, b, (least, most)) = poly.terms().flat_map(|it| it.0).find_map(wrapped)?;
    let divisor = Poly::constant(b);
    let with = |quotient: i64| {
        let replace = |it: &Atom| match it {
            Atom::Mod(x, y) if *x == a && **y == divisor => {
                Some(Poly::clone(&a) - Poly::constant(quotient * b))
            }
            Atom::Div(x, y) if *x == a && **y == divisor => Some(Poly::constant(quotient)),
            _ => None,
        };
        Expr::Index(poly.substitute(&replace, facts))
    };
    let is_at_most =
        |quotient: i64| at_most(Poly::clone(&a), Poly::constant((quotient + 1) * b - 1));
    let last = (least + 1..most)
        .rev()
        .fold(with(most), |otherwise, it| is_at_most(it).select(with(it), otherwise));
    Some(Choice::Of { condition: is_at_most(least), then: with(least), otherwise: last })
}

fn at_most(a: Poly, b: Poly) -> Expr {
    Expr::Compare(CompareOp::Le, Box::new(Expr::Index(a)), Box::new(Expr::Index(b)))
}

fn binary(op: BinaryOp, a: Expr, b: Expr) -> Expr {
    Expr::Binary(op, Box::new(a), Box::new(b))
}

fn is_exact(op: BinaryOp) -> bool {
    matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Min | BinaryOp::Max)
}

/// Returns whether a condition compares indices alone.
fn is_of_indices(condition: &Expr) -> bool {
    match condition {
        Expr::Const(..) => true,
        Expr::Compare(_, a, b) => as_index(a).is_some() && as_index(b).is_some(),
        Expr::Unary(UnaryOp::Not, a) => is_of_indices(a),
        Expr::Binary(BinaryOp::And | BinaryOp::Or, a, b) => is_of_indices(a) && is_of_indices(b),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use crate::dag::print::canonical;
    use crate::dsl::program;

    /// Returns the body of the only compute, of a vector of `H` elements and its index `y`.
    fn body(dims: &str, subscript: &str) -> String {
        let source = format!(
            "#[autotune(dims({dims}))]
            fn f(x: Tensor<f32, H>, n: Tensor<i64, {{ H + 2 }}>) -> Tensor<f32, {{ H + 2 }}> {{
                compute(|y| x[[{subscript}]] + 0.0 * n[[y]] as f32)
            }}"
        );
        let text = canonical(&program(&source).unwrap());
        let body = text.lines().find_map(|it| it.split_once("] = add(")).unwrap().1;
        body.split_once(", mul(0.0_f32").unwrap().0.to_owned()
    }

    #[test]
    fn borders_are_choices_between_reads() {
        insta::assert_snapshot!(
            body("H = 56", "(if y == 0 { 1 } else if y == H + 1 { H - 2 } else { y - 1 }).clamp(0, H - 1)"),
            @"select(eq(index(v0), index(0)), t0[1], select(eq(index(v0), index(57)), t0[54], t0[v0 - 1]))"
        );
        insta::assert_snapshot!(body("H = 56", "(y - 1).clamp(0, H - 1)"), @"select(le(index(0), index(v0 - 1)), select(le(index(v0 - 1), index(55)), t0[v0 - 1], t0[55]), t0[0])");
        insta::assert_snapshot!(body("H = 1..=56", "(y - 1).clamp(0, H - 1)"), @"select(le(index(0), index(v0 - 1)), select(le(index(v0 - 1), index(d0 - 1)), t0[v0 - 1], t0[d0 - 1]), t0[0])");
        insta::assert_snapshot!(body("H = 56", "max(y - 1, 0) / 2 + 1"), @"select(le(index(0), index(v0 - 1)), t0[((v0 + 1)/(2))], t0[1])");
        insta::assert_snapshot!(body("H = 56", "H - 1 - (if y == 0 { 1 } else { (y + 1) / 2 })"), @"select(eq(index(v0), index(0)), t0[54], t0[-((v0 + 1)/(2)) + 55])");
        insta::assert_snapshot!(body("H = 56", "abs(y - 1).min(H - 1)"), @"select(le(index(0), index(v0 - 1)), select(le(index(v0 - 1), index(55)), t0[v0 - 1], t0[55]), t0[-v0 + 1])");
    }

    #[test]
    fn indices_that_wrap_are_choices_between_reads() {
        insta::assert_snapshot!(body("H = 56", "(y + 20) % H"), @"select(le(index(v0 + 20), index(55)), t0[v0 + 20], t0[v0 - 36])");
        insta::assert_snapshot!(body("H = 56", "(y + H - 1) % H"), @"select(le(index(v0 + 55), index(55)), t0[v0 + 55], select(le(index(v0 + 55), index(111)), t0[v0 - 1], t0[v0 - 57]))");
        // Of a dynamic row, and many times around a short one.
        for (dims, subscript) in [
            ("H = 9..=56", "(y + H - 1) % H"),
            ("H = 56", "y % 8 + y / 8"),
            ("H = 12", "(y + 1) % 7"),
        ] {
            assert_eq!(body(dims, subscript).matches("t0[").count(), 1, "{subscript}");
        }
    }

    #[test]
    fn indices_that_depend_on_data_stay() {
        insta::assert_snapshot!(body("H = 56", "n[[y]].clamp(0, H - 1)"), @"t0[min(max(t1[v0], 0_i64), index(55))]");
        insta::assert_snapshot!(body("H = 56", "if n[[y]] == 0 { 0 } else { y.min(H - 1) }"), @"t0[select(eq(t1[v0], 0_i64), 0_i64, index((min(v0, 55))))]");
    }

    #[test]
    fn reads_do_not_become_many() {
        let nested = (0..17)
            .fold("y / 2".to_owned(), |it, n| format!("if y == {n} {{ {n} }} else {{ {it} }}"));
        assert_eq!(body("H = 56", &nested).matches("t0[").count(), 1);
    }
}

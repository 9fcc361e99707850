//! Common subexpression elimination: what a statement computes several times gets a name in front of it.
//!
//! ```text
//! y[i] = f(g(x[i]) * g(x[i]))     =>     let shared = g(x[i]);
//!                                        y[i] = f(shared * shared);
//! ```
//!
//! Compilers do not merge calls of functions of other crates, and a chain of pointwise definitions that is
//! inlined repeats each link as often as the next one mentions it: 2^10 evaluations instead of ten.
//!
//! # Invariants
//!
//! - An expression that is evaluated under a condition only keeps its place: its reads may be out of bounds
//!   where the condition does not hold.
//! - Results have the same bits: operations and their operands stay as they are.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::discriminant;

use tvmtune_ir::dag::{BinaryOp, Expr, Subscript};

/// An expression that occurs several times.
pub(super) struct Shared<'a> {
    /// Its occurrences, at least two.
    pub(super) places: Vec<&'a Expr>,
    /// The places that mention it, of which equal expressions count once.
    n_uses: usize,
    /// True if it is evaluated whatever conditions hold.
    is_certain: bool,
}

/// Returns the expressions of a statement's value to name, each after those that it consists of.
pub(super) fn repeated(value: &Expr) -> Vec<Shared<'_>> {
    let mut search = Search::default();
    search.hash(value);
    search.visit(value, true, true);
    search.nodes.into_iter().filter(|it| it.n_uses > 1 && it.is_certain).collect()
}

/// The distinct expressions that are more than a name, children first.
#[derive(Default)]
struct Search<'a> {
    nodes: Vec<Shared<'a>>,
    position: BTreeMap<u64, usize>,
    /// By the address of an expression.
    hashes: BTreeMap<*const Expr, u64>,
}

impl<'a> Search<'a> {
    /// Hashes an expression and everything below it.
    fn hash(&mut self, expr: &Expr) -> u64 {
        let mut hasher = DefaultHasher::new();
        discriminant(expr).hash(&mut hasher);
        match expr {
            Expr::Unary(op, _) => op.hash(&mut hasher),
            Expr::Binary(op, ..) => op.hash(&mut hasher),
            Expr::Compare(op, ..) => op.hash(&mut hasher),
            Expr::Cast(dtype, _) => dtype.hash(&mut hasher),
            Expr::Select { .. } => {}
            Expr::Read { tensor, index } => {
                let affine: Vec<_> = index.iter().map(Subscript::affine).collect();
                format!("{tensor:?}{affine:?}").hash(&mut hasher);
            }
            Expr::Const(..) | Expr::Index(_) | Expr::Scalar(_) => {
                format!("{expr:?}").hash(&mut hasher);
            }
        }
        for child in expr.children() {
            self.hash(child).hash(&mut hasher);
        }
        let hash = hasher.finish();
        self.hashes.insert(expr, hash);
        hash
    }

    /// Notes an occurrence; `is_use` unless it stands in another occurrence of the same expression.
    fn visit(&mut self, expr: &'a Expr, is_use: bool, is_certain: bool) {
        let children = expr.children();
        if children.is_empty() {
            return;
        }
        let hash = self.hashes[&std::ptr::from_ref(expr)];
        let known = self.position.get(&hash).copied();
        let is_first = known.is_none();
        for (n, child) in children.into_iter().enumerate() {
            self.visit(child, is_use && is_first, is_certain && !is_lazy(expr, n));
        }
        let at = *self.position.entry(hash).or_insert_with(|| {
            self.nodes.push(Shared { places: Vec::new(), n_uses: 0, is_certain: false });
            self.nodes.len() - 1
        });
        let node = &mut self.nodes[at];
        // Of two expressions with one hash, the second keeps its places.
        if node.places.first().is_none_or(|it| *it == expr) {
            node.places.push(expr);
            node.n_uses += usize::from(is_use);
            node.is_certain |= is_certain;
        }
    }
}

/// Returns whether an operand is evaluated by the value of another one only.
fn is_lazy(expr: &Expr, operand: usize) -> bool {
    let is_logic = matches!(expr, Expr::Binary(BinaryOp::And | BinaryOp::Or, ..));
    operand > 0 && (is_logic || matches!(expr, Expr::Select { .. }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tvmtune_ir::dag::{CompareOp, TensorId, UnaryOp};
    use tvmtune_ir::poly::{Poly, VarId};

    fn x() -> Expr {
        Expr::read(TensorId(0), [Poly::var(VarId(0))])
    }

    fn exp(it: Expr) -> Expr {
        it.unary(UnaryOp::Exp)
    }

    fn product(a: Expr, b: Expr) -> Expr {
        a.binary(BinaryOp::Mul, b)
    }

    fn named(value: &Expr) -> Vec<Expr> {
        repeated(value).iter().map(|it| it.places[0].clone()).collect()
    }

    #[test]
    fn each_link_of_a_chain_has_one_name() {
        let first = product(exp(x()), x());
        let second = product(exp(first.clone()), first.clone());
        let third = product(exp(second.clone()), second.clone());
        assert_eq!(named(&third), [first, second]);
        assert_eq!(repeated(&third)[0].places.len(), 4);
    }

    #[test]
    fn names_and_literals_need_no_other_name() {
        assert!(named(&product(x(), x())).is_empty());
        assert!(named(&product(exp(x()), product(exp(exp(x())), x()))).len() == 1);
    }

    #[test]
    fn operands_of_a_condition_stay_behind_it() {
        let condition = x().compare(CompareOp::Lt, Expr::f32(0.0));
        let choice = condition.select(product(exp(x()), exp(x())), x());
        assert!(named(&choice).is_empty());
        let certain = exp(x()).binary(BinaryOp::Add, choice);
        assert_eq!(named(&certain), [exp(x())]);
    }
}

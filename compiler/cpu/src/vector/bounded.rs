//! Data-dependent loop bounds.
//!
//! ```text
//! for e in 0..m { s += if e >= ptr[n] && e < ptr[n + 1] { x[e] } else { 0 } }
//!     =>   for e in ptr[n]..ptr[n + 1] { s += x[e] }
//! ```
//!
//! In all other iterations the reducer's identity is added. So the sums of ragged and padded rows and products with
//! sparse matrices take a step for each term instead of one for each element of the whole.
//!
//! In: a loop tree. Out: the bounds of its serial loops, in [`Tree::bounds`]. An iteration that stands for several
//! terms, as those of a vector, runs if one of them may count; the conditions still choose in the iterations of
//! which not all do, at either end.

use super::affine::{Affine, Coef};
use super::context::Lowering;
use super::numbering::MaskRef;
use super::partition::IterRange;
use super::peel::n_vectors_of_code;
use super::tree::{GuardId, Loop, LoopMode, Node, Term, TermKind, Tree, Write, literal_bits};
use super::{DataBound, Stmt, Unsupported, Value};
use tvmtune_ir::dag::{BinaryOp, CompareOp, DType, Literal, Numerics, integer_range};
use tvmtune_ir::poly::{Interval, VarId};

/// Vectors that the code of an iteration stores, up to which the loop is there three times; chosen by judgement.
const MAX_VECTORS: i64 = 64;

/// The iterations of a loop that count: from a bound on, and up to one.
#[derive(Debug)]
pub(super) struct LoopBounds {
    /// The first iterations; 0 if `None`.
    from: Option<Bound>,
    /// The ends; the extent if `None`.
    to: Option<Bound>,
    /// The loop without the conditions that are bounds.
    whole: Loop,
}

/// The iterations up to which data reach, and the iterations up to which they reach for all terms: each is
/// `max(0, data - less) / by`, rounded down.
#[derive(Debug)]
struct Bound {
    /// A loop-invariant integer.
    data: Term,
    less_for_some: Affine,
    less_for_all: Affine,
    by: i64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

/// Finds the bounds of all serial loops.
pub(super) fn bound_loops(tree: &mut Tree<'_>) {
    let phases = std::mem::take(&mut tree.phases);
    tree.phases = phases.into_iter().map(|it| nodes(tree, it)).collect();
}

fn nodes(tree: &mut Tree<'_>, body: Vec<Node>) -> Vec<Node> {
    let mut out = Vec::with_capacity(body.len());
    for node in body {
        match node {
            Node::Loop(mut loop_) if loop_.kind == LoopMode::Serial => {
                let guards = find(tree, &mut loop_);
                loop_.body = nodes(tree, loop_.body);
                out.extend(Node::guarded(guards, vec![Node::Loop(loop_)]));
            }
            // Lanes of a vectorized loop would each have bounds of their own.
            Node::Loop(Loop { kind: LoopMode::Vectorized(_), .. }) | Node::Write(_) => {
                out.push(node);
            }
            Node::Loop(loop_) => {
                let body = nodes(tree, loop_.body);
                out.push(Node::Loop(Loop { body, ..loop_ }));
            }
            Node::If { guards, body } => out.push(Node::If { guards, body: nodes(tree, body) }),
        }
    }
    out
}

/// Finds the bounds of a loop; returns the loop-invariant guards in its body, which now stand around it.
fn find(tree: &mut Tree<'_>, loop_: &mut Loop) -> Vec<GuardId> {
    let mut path = Vec::new();
    let Some(write) = only_update(&loop_.body, &mut path) else { return Vec::new() };
    let inside: Vec<VarId> =
        std::iter::once(loop_.var).chain(Node::loops(&path).map(|it| it.var)).collect();
    let Some((bounds, whole)) = Search { tree, inside: &inside, path: &path, write }.bounds()
    else {
        return Vec::new();
    };
    let is_invariant = |id: &GuardId| {
        let form = &tree.guards[*id];
        !inside.iter().any(|it| tree.mentions(form, *it))
    };
    let mut guards = Vec::new();
    loop_.body = without_guards(std::mem::take(&mut loop_.body), &is_invariant, &mut guards);
    let mut without = loop_.clone();
    if let Some(write) = only_update_mut(&mut without.body) {
        write.value = whole;
    }
    let [from, to] = bounds;
    tree.bounds.insert(loop_.var, LoopBounds { from, to, whole: without });
    guards
}

/// Returns the only statement of a body, if it is an update; `path` receives the nodes around it.
fn only_update<'n>(body: &'n [Node], path: &mut Vec<&'n Node>) -> Option<&'n Write> {
    match body {
        [Node::Write(write)] => write.reducer.is_some().then_some(write),
        [node] => {
            path.push(node);
            only_update(node.body(), path)
        }
        _ => None,
    }
}

fn only_update_mut(body: &mut [Node]) -> Option<&mut Write> {
    match body {
        [Node::Write(write)] => Some(write),
        [Node::Loop(Loop { body, .. }) | Node::If { body, .. }] => only_update_mut(body),
        _ => None,
    }
}

/// Removes the guards of nodes that `is_removed`, which `found` receives.
fn without_guards(
    body: Vec<Node>,
    is_removed: &dyn Fn(&GuardId) -> bool,
    found: &mut Vec<GuardId>,
) -> Vec<Node> {
    let mut out = Vec::with_capacity(body.len());
    for node in body {
        match node {
            Node::Loop(loop_) => {
                let body = without_guards(loop_.body, is_removed, found);
                out.push(Node::Loop(Loop { body, ..loop_ }));
            }
            Node::If { guards, body } => {
                let (removed, guards): (Vec<_>, Vec<_>) = guards.into_iter().partition(is_removed);
                found.extend(removed);
                out.extend(Node::guarded(guards, without_guards(body, is_removed, found)));
            }
            Node::Write(_) => out.push(node),
        }
    }
    out
}

/// Returns the condition without which a term is the reducer's identity, and the term where it holds.
fn left_out(term: &Term, identity: u64) -> Option<[&Term; 2]> {
    let TermKind::Select(parts) = &term.kind else { return None };
    let [condition, then, otherwise] = &**parts;
    matches!(otherwise.kind, TermKind::Bits(bits) if bits == identity).then_some([condition, then])
}

/// Returns the conditions all of which hold where a condition does, in the order in which they are evaluated.
fn conjuncts(condition: &Term) -> Vec<&Term> {
    match &condition.kind {
        TermKind::Binary(BinaryOp::And, a, b) => {
            let mut found = conjuncts(a);
            found.extend(conjuncts(b));
            found
        }
        _ => vec![condition],
    }
}

/// Marks as in bounds the reads that no condition guards any more: the loop bounds imply the removed conditions.
fn is_certain(term: &mut Term) {
    match &mut term.kind {
        TermKind::Bits(_) | TermKind::Index(_) | TermKind::Scalar(_) => {}
        TermKind::Read(access) => {
            access.in_bounds = true;
            access.gather.iter_mut().for_each(|(_, index)| is_certain(index));
        }
        TermKind::Unary(_, a) | TermKind::Cast(a) => is_certain(a),
        TermKind::Binary(BinaryOp::And | BinaryOp::Or, a, _) => is_certain(a),
        TermKind::Binary(_, a, b) | TermKind::Compare(_, a, b) => {
            is_certain(a);
            is_certain(b);
        }
        TermKind::Select(parts) => is_certain(&mut parts[0]),
    }
}

/// Keeps a sum from contracting a product into a fused multiply-add: with fixed numerics, a product under a condition
/// is rounded first.
fn rounded(term: Term) -> Term {
    match term.kind {
        TermKind::Binary(BinaryOp::Mul, ..) if term.dtype.is_float() => {
            Term { dtype: term.dtype, kind: TermKind::Cast(Box::new(term)) }
        }
        _ => term,
    }
}

/// Returns the index of a loop that a term is.
fn index_of(term: &Term) -> Option<&Affine> {
    match &term.kind {
        TermKind::Index(form) => Some(form),
        TermKind::Cast(inner) if term.dtype.is_integer() => index_of(inner),
        _ => None,
    }
}

fn reads(term: &Term) -> bool {
    let mut found = false;
    term.for_each_read(&mut |_| found = true);
    found
}

fn is_readable(data: &Term) -> bool {
    let mut found = true;
    data.for_each_read(&mut |it| found &= it.in_bounds);
    found
}

fn flipped(op: CompareOp) -> CompareOp {
    match op {
        CompareOp::Lt => CompareOp::Gt,
        CompareOp::Le => CompareOp::Ge,
        CompareOp::Gt => CompareOp::Lt,
        CompareOp::Ge => CompareOp::Le,
        same => same,
    }
}

/// The search for the conditions of a term that bound a loop.
struct Search<'a, 'n> {
    tree: &'a Tree<'n>,
    /// The variables of the loop, first, and of those inside of it.
    inside: &'a [VarId],
    /// The nodes between the loop and the statement.
    path: &'a [&'a Node],
    write: &'a Write,
}

impl Search<'_, '_> {
    /// Returns the bounds, and the term where they are met.
    fn bounds(&self) -> Option<([Option<Bound>; 2], Term)> {
        let dtype = self.write.value.dtype;
        let identity = self.write.reducer?.identity(dtype);
        let identity = literal_bits(identity, dtype, self.tree.simd.width).ok()?;
        let mut bounds = [None, None];
        let (mut others, mut is_unguarded) = (Vec::new(), true);
        let mut term = &self.write.value;
        while let Some([condition, then]) = left_out(term, identity) {
            for it in conjuncts(condition) {
                match self.bound(it, is_unguarded) {
                    Some((side, bound)) if bounds[side as usize].is_none() => {
                        bounds[side as usize] = Some(bound);
                    }
                    _ => others.push(it),
                }
                // A condition on data proves nothing about indices, so it keeps no later read in bounds.
                is_unguarded &= reads(it);
            }
            term = then;
        }
        if bounds.iter().all(Option::is_none) {
            return None;
        }
        let mut whole = term.clone();
        if others.is_empty() {
            is_certain(&mut whole);
        }
        if self.tree.nest.numerics == Numerics::Fixed {
            whole = rounded(whole);
        }
        for condition in others.into_iter().rev() {
            let otherwise = Term::bits(identity, dtype);
            let parts = Box::new([condition.clone(), whole, otherwise]);
            whole = Term { dtype, kind: TermKind::Select(parts) };
        }
        Some((bounds, whole))
    }

    /// Returns the bound that a condition is. No condition on indices keeps its reads in bounds if `is_unguarded`.
    fn bound(&self, condition: &Term, is_unguarded: bool) -> Option<(Side, Bound)> {
        if let TermKind::Binary(BinaryOp::Or, a, b) = &condition.kind {
            if !is_unguarded && !is_readable(condition) {
                return None;
            }
            let second = || is_readable(b).then(|| self.bound_unless(b, a)).flatten();
            return self.bound_unless(a, b).or_else(second);
        }
        let TermKind::Compare(op, a, b) = &condition.kind else { return None };
        let (op, form, dtype, data) = match (index_of(a), index_of(b)) {
            (Some(form), None) => (*op, form, a.dtype, &**b),
            (None, Some(form)) => (flipped(*op), form, b.dtype, &**a),
            _ => return None,
        };
        // `index > data` is `index >= data + 1`.
        let (side, more) = match op {
            CompareOp::Ge => (Side::From, 0),
            CompareOp::Gt => (Side::From, 1),
            CompareOp::Lt => (Side::To, 0),
            CompareOp::Le => (Side::To, 1),
            CompareOp::Eq | CompareOp::Ne => return None,
        };
        let Interval { lo, hi } = self.tree.interval(form);
        let is_natural = lo >= 0 && hi < i32::MAX.into();
        let is_whole = integer_range(dtype).includes(Interval { lo, hi });
        if !is_natural || !is_whole || !self.is_data(data) || !is_unguarded && !is_readable(data) {
            return None;
        }
        let (by, mut least, mut greatest) = self.extremes(form)?;
        least.constant -= by - 1 + more;
        greatest.constant -= by - 1 + more;
        // Some term of an iteration reaches a lower bound once its greatest index does, all terms once its least does.
        let (less_for_some, less_for_all) =
            if side == Side::From { (greatest, least) } else { (least, greatest) };
        Some((side, Bound { data: data.clone(), less_for_some, less_for_all, by }))
    }

    /// Returns the bound that a condition is unless another, which is loop-invariant, holds.
    fn bound_unless(&self, other: &Term, condition: &Term) -> Option<(Side, Bound)> {
        // The data are read where the other condition does not hold.
        let (side, bound) = self.bound(condition, true).filter(|_| self.is_invariant(other))?;
        let none = if side == Side::From { -1 } else { i32::MAX.into() };
        let dtype = bound.data.dtype;
        if !integer_range(dtype).includes(Interval::point(none)) {
            return None;
        }
        let width = self.tree.simd.width;
        let none = literal_bits(Literal::Int(none), dtype, width).ok()?;
        let parts = Box::new([other.clone(), Term::bits(none, dtype), bound.data]);
        let data = Term { dtype, kind: TermKind::Select(parts) };
        Some((side, Bound { data, ..bound }))
    }

    /// Returns whether a term is a loop-invariant integer that data say.
    fn is_data(&self, term: &Term) -> bool {
        // Bounds are compared as signed integers, in which the greatest `u32` would be negative.
        let is_signed = matches!(term.dtype, DType::I64 | DType::I32 | DType::I8 | DType::U8);
        reads(term) && is_signed && self.is_invariant(term)
    }

    /// Returns whether no iteration changes a term, which can be computed before the loop.
    fn is_invariant(&self, term: &Term) -> bool {
        let is_inside = |form: &Affine| self.inside.iter().any(|it| self.tree.mentions(form, *it));
        let mut is_invariant = true;
        term.for_each_read(&mut |it| is_invariant &= it.tensor != self.write.target.tensor);
        let mut mentioned = Vec::new();
        term.for_each_index(&mut |_, form| {
            is_invariant &= !is_inside(form);
            mentioned.extend(self.tree.leaves(form));
        });
        // Guards inside of the loop are tested after the integer was read, unless they are loop-invariant, too.
        let keeps_inside = |id: &GuardId| {
            let form = &self.tree.guards[*id];
            is_inside(form) && self.tree.leaves(form).iter().any(|it| mentioned.contains(it))
        };
        let is_guarded = self.path.iter().any(|it| match it {
            Node::If { guards, .. } => guards.iter().any(keeps_inside),
            _ => false,
        });
        is_invariant && !is_guarded
    }

    /// Takes an index apart into a number of iterations, and the least and the greatest that one adds to them.
    fn extremes(&self, form: &Affine) -> Option<(i64, Affine, Affine)> {
        let (var, within) = self.inside.split_first()?;
        let mut least = form.clone();
        let Some(Coef::Const(by @ 1..)) = least.take(*var) else { return None };
        let mut range = Interval::point(0);
        for var in within {
            let step = match least.take(*var) {
                None => continue,
                Some(Coef::Const(step)) => step,
                Some(Coef::Dims(_)) => return None,
            };
            let last = step * (self.tree.var(*var).extent.as_constant()? - 1);
            range = range.plus(Interval { lo: last.min(0), hi: last.max(0) });
        }
        if self.inside.iter().any(|it| self.tree.mentions(&least, *it)) {
            return None;
        }
        let mut greatest = least.clone();
        least.constant += range.lo;
        greatest.constant += range.hi;
        Some((by, least, greatest))
    }
}

/// The bounds of the iterations of a range: `max(from)..min(to)`.
struct Part<'a> {
    from: Vec<&'a DataBound>,
    to: Vec<&'a DataBound>,
}

impl<'t> Lowering<'t> {
    /// Lowers the iterations of a range that data leave, or all of it.
    pub(super) fn bounded_range(
        &mut self,
        loop_: &'t Loop,
        range: &IterRange,
    ) -> Result<(), Unsupported> {
        let bounds = self.tree.bounds.get(&loop_.var);
        let Some(bounds) = bounds.filter(|_| range.edge_tiles.is_empty()) else {
            return self.serial_range(loop_, range);
        };
        let from = bounds.from.as_ref().map(|it| self.data_bounds(it, range)).transpose()?;
        let to = bounds.to.as_ref().map(|it| self.data_bounds(it, range)).transpose()?;
        let [from_some, from_all] = [0, 1].map(|n| from.iter().map(move |it| &it[n]));
        let [to_some, to_all] = [0, 1].map(|n| to.iter().map(move |it| &it[n]));
        let differ = |it: &Option<[DataBound; 2]>| it.as_ref().is_some_and(|[a, b]| a != b);
        let is_split = differ(&from) || differ(&to);
        if is_split && n_vectors_of_code(&loop_.body, self.lanes()) > MAX_VECTORS {
            let some = Part { from: from_some.collect(), to: to_some.collect() };
            return self.part(loop_, range, &some);
        }
        if differ(&from) {
            let to = from_all.clone().chain(to_some.clone()).collect();
            self.part(loop_, range, &Part { from: from_some.collect(), to })?;
        }
        let whole = Part { from: from_all.clone().collect(), to: to_all.clone().collect() };
        self.part(&bounds.whole, range, &whole)?;
        if differ(&to) {
            let from = from_all.chain(to_all).collect();
            self.part(loop_, range, &Part { from, to: to_some.collect() })?;
        }
        Ok(())
    }

    fn part(
        &mut self,
        loop_: &'t Loop,
        range: &IterRange,
        part: &Part<'_>,
    ) -> Result<(), Unsupported> {
        let count = self.table.count(&range.count);
        let greatest = range.count.interval(&self.tree.facts).hi;
        if greatest <= 0 {
            return Ok(());
        }
        let mut var = None;
        let body = self.nested(&mut |this| {
            this.block().innermost = Some(loop_.var);
            let new = this.new_var(Interval { lo: 0, hi: greatest - 1 });
            var = Some(new);
            let mut value = Affine::dims(range.start.clone());
            value.add_term(new, Coef::Const(1));
            this.range_body(loop_, range, value, &mut |this| this.nodes(&loop_.body))
        })?;
        if let (Some(var), false) = (var, body.is_empty()) {
            let [from, to] =
                [&part.from, &part.to].map(|it| it.iter().map(|it| (*it).clone()).collect());
            self.block().stmts.push(Stmt::Between { var, from, to, count, body });
        }
        Ok(())
    }

    /// Computes the iterations of a range up to which data reach for some term, and for all.
    fn data_bounds(
        &mut self,
        bound: &'t Bound,
        range: &IterRange,
    ) -> Result<[DataBound; 2], Unsupported> {
        let value = match self.long_in_memory(&bound.data)? {
            Some(load) => load,
            None => {
                let (value, reg) = (self.clamped_to_word(&bound.data)?, self.new_reg());
                self.set(reg, value, MaskRef::All)?;
                Value::Reg(reg)
            }
        };
        let mut of = |less: &Affine| {
            let mut less = self.eval(less)?;
            less.add_dims(range.start.clone() * bound.by);
            let less = self.table.linear(&less);
            Ok(DataBound { value: value.clone(), less, by: bound.by })
        };
        Ok([of(&bound.less_for_some)?, of(&bound.less_for_all)?])
    }
}

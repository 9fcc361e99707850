//! Predication of partial tiles: zero fill in copies instead of guards in inner loops.
//!
//! A tile that exceeds its tensor is guarded, statement by statement. A copy of it can store zeros
//! outside of the tensor instead. A sum of products of copies then needs no guard: products with
//! elements outside are zero, and excess elements of the result are not stored.
//!
//! ```text
//! if k < K: s[k] = x[k]                  s[k] = k < K ? x[k] : 0
//! if k < K: acc += s[k] * r[k]     =>    acc += s[k] * r[k]
//! ```
//!
//! Elements of a copy outside of the tensor are don't-cares if they are read only for results that
//! are not stored: windows of a partial tile of an image reach beyond those of the image. TMA loads,
//! whose zero fill knows only the bounds of the tensor, may then fill in anything.

use std::collections::{BTreeMap, BTreeSet};

use super::unbound::{Kernel, Stmt};
use super::{Buffer, Statement};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{
    BinaryOp, CompareOp, DType, Expr, Literal, Reducer, Subscript, TensorId, UnaryOp,
};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};
use tvmtune_schedule::nest::{Access, Guard, accesses};

/// A buffer all of which is written: the index, and the conditions outside of which it is zero.
struct Filled {
    index: Vec<Poly>,
    outside: Vec<Guard>,
}

/// Conditions of copies whose zero fill is a don't-care.
pub(super) type DontCare = BTreeMap<TensorId, Vec<Guard>>;

/// Zero-fills copies, and drops guards that became redundant.
pub(super) fn fill(kernel: &mut Kernel, buffers: &[Buffer], facts: &Facts) -> DontCare {
    let mut n_writes: BTreeMap<TensorId, u32> = BTreeMap::new();
    accesses(&kernel.body, &mut |it| {
        if let Access::Write(tensor, _) = it {
            *n_writes.entry(tensor).or_default() += 1;
        }
    });
    let of_blocks = kernel.tile_vars().map(|it| it.var).collect();
    let mut pass = Pass { buffers, facts, of_blocks, n_writes, filled: BTreeMap::new() };
    pass.fill(&mut kernel.body);
    let dont_care = pass.dont_care(&kernel.body);
    pass.relax(&mut kernel.body);
    dont_care
}

struct Pass<'a> {
    buffers: &'a [Buffer],
    facts: &'a Facts,
    /// The variables that number blocks.
    of_blocks: BTreeSet<VarId>,
    n_writes: BTreeMap<TensorId, u32>,
    filled: BTreeMap<TensorId, Filled>,
}

impl Pass<'_> {
    fn is_local(&self, tensor: TensorId) -> bool {
        self.buffers[tensor.0 as usize].scope.is_local()
    }

    /// Returns whether an index is inside its buffer whatever the guards say.
    fn is_inside(&self, tensor: TensorId, index: &[Poly]) -> bool {
        self.is_inside_given(tensor, index, &[])
    }

    /// Returns whether an index is inside its buffer where these guards hold.
    fn is_inside_given(&self, tensor: TensorId, index: &[Poly], guards: &[Guard]) -> bool {
        let shape = &self.buffers[tensor.0 as usize].shape;
        let mut facts = self.facts.clone();
        let mut index = index.to_vec();
        for (n, guard) in guards.iter().enumerate() {
            // An expression that a guard bounds is as good as a loop of that length.
            let var = VarId(u32::MAX - n as u32);
            facts.bound_var(var, guard.bound.clone());
            index = index.iter().map(|it| replaced(it, &guard.value, var)).collect();
        }
        let below = |at: &Poly, extent: &Poly| (extent.clone() - at.clone()).is_positive(&facts);
        index.iter().zip(shape).all(|(at, extent)| {
            at.is_nonnegative(&facts)
                && (below(at, extent) || guards.iter().any(|it| self.counts(it, at, extent, shape)))
        })
    }

    /// Returns whether a guard bounds a position in the whole buffer of which an index is the quotient by
    /// the size of the other dimensions.
    fn counts(&self, guard: &Guard, at: &Poly, extent: &Poly, shape: &[Poly]) -> bool {
        let all = shape.iter().fold(Poly::constant(1), |n, it| n * it.clone());
        let (Some(all), Some(extent)) = (all.as_constant(), extent.as_constant()) else {
            return false;
        };
        if extent == 0 || guard.bound.as_constant() != Some(all) {
            return false;
        }
        let rest = guard.value.clone() - at.clone() * (all / extent);
        let room = Poly::constant(all / extent) - rest.clone();
        rest.is_nonnegative(self.facts) && room.is_positive(self.facts)
    }

    fn fill(&mut self, body: &mut [Stmt]) {
        for stmt in body {
            if let Stmt::Store { tensor, index, .. } = stmt {
                if self.n_writes.get(tensor) == Some(&1) && self.is_inside(*tensor, index) {
                    let filled = Filled { index: index.clone(), outside: Vec::new() };
                    self.filled.insert(*tensor, filled);
                }
            } else if let Some(filled) = self.filled_copy(stmt) {
                *stmt = filled;
            } else if let Some(body) = stmt.body_mut() {
                self.fill(body);
            }
        }
    }

    /// A guarded copy into memory of the block, as one that stores zeros outside.
    fn filled_copy(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let Stmt::If { guards, body } = stmt else { return None };
        let [Stmt::Store { tensor, index, value }] = body.as_slice() else { return None };
        let dtype = self.buffers[tensor.0 as usize].dtype;
        let zero = match dtype {
            it if it.is_float() => Literal::Float(0.0),
            it if it.is_integer() => Literal::Int(0),
            _ => return None,
        };
        // Threads beyond the tile still have nothing to store.
        let (mut kept, mut outside) = (guards.clone(), Vec::new());
        // Those of the tile come first, those of the tensor after them.
        for guard in guards.iter().rev() {
            let others: Vec<Guard> = kept.iter().filter(|it| *it != guard).cloned().collect();
            if self.is_inside_given(*tensor, index, &others) {
                kept = others;
                outside.push(guard.clone());
            }
        }
        let fits = self.is_local(*tensor)
            && self.n_writes.get(tensor) == Some(&1)
            && self.is_inside_given(*tensor, index, &kept)
            && kept.iter().all(|it| self.is_of_tile(it, *tensor, index))
            && !matches!(value, Expr::Const(..));
        if !fits {
            return None;
        }
        let mut value = value.clone();
        if let Some(condition) =
            outside.iter().map(condition).reduce(|a, b| a.binary(BinaryOp::And, b))
        {
            value = condition.select(value, Expr::Const(zero, dtype));
        }
        self.filled.insert(*tensor, Filled { index: index.clone(), outside });
        let store = Stmt::Store { tensor: *tensor, index: index.clone(), value };
        Some(if kept.is_empty() { store } else { Stmt::If { guards: kept, body: vec![store] } })
    }

    /// Returns whether a guard only keeps an index inside its buffer: all of that is still written.
    fn is_of_tile(&self, guard: &Guard, tensor: TensorId, index: &[Poly]) -> bool {
        let shape = &self.buffers[tensor.0 as usize].shape;
        let all = shape.iter().fold(Poly::constant(1), |n, it| n * it.clone());
        let along = |(at, extent): (&Poly, &Poly)| *at == guard.value && *extent == guard.bound;
        guard.bound == all || index.iter().zip(shape).any(along)
    }

    fn relax(&self, body: &mut Vec<Stmt>) {
        for stmt in std::mem::take(body) {
            match self.relaxed(stmt) {
                Stmt::If { guards, body: inner } if guards.is_empty() => body.extend(inner),
                stmt => body.push(stmt),
            }
        }
    }

    fn relaxed(&self, mut stmt: Stmt) -> Stmt {
        if let Stmt::If { guards, body } = &mut stmt {
            match body.as_slice() {
                // The start of a reduction: elements that stick out start too.
                [Stmt::Store { tensor, index, value: Expr::Const(..) }]
                    if self.is_local(*tensor) && self.is_inside(*tensor, index) =>
                {
                    guards.clear();
                }
                [Stmt::Update { tensor, index, reducer: Reducer::Sum, value }]
                    if self.is_sum_of_copies(*tensor, index, value) =>
                {
                    guards.retain(|it| !self.is_needless(it, *tensor, index, value));
                }
                _ => {}
            }
        }
        if let Some(body) = stmt.body_mut() {
            self.relax(body);
        }
        stmt
    }

    /// Returns whether a value is added up in memory of the block, from copies that can be read anywhere.
    fn is_sum_of_copies(&self, tensor: TensorId, index: &[Poly], value: &Expr) -> bool {
        let mut all_filled = true;
        value.for_each_read(&mut |tensor, index| {
            let inside = affine(index).is_some_and(|it| self.is_inside(tensor, &it));
            all_filled &= inside && self.is_local(tensor) && self.filled.contains_key(&tensor);
        });
        all_filled && self.is_local(tensor) && self.is_inside(tensor, index) && vanishes(value)
    }

    /// Returns whether nothing changes without a guard: it only keeps elements of the sum inside, of a block
    /// or all of them, or all that is read where it fails is zero.
    fn is_needless(&self, guard: &Guard, tensor: TensorId, index: &[Poly], value: &Expr) -> bool {
        let place = self.buffers[tensor.0 as usize].position(index);
        let beside = |var: VarId| !place.mentions(var) && reads_mention(value, var);
        let is_dropped = is_along(guard, &place) || self.is_of_blocks(guard);
        if is_dropped && !mentions_any(guard, &beside) {
            return true;
        }
        let mut all_zero = true;
        value.for_each_read(&mut |tensor, index| {
            all_zero &= affine(index).is_some_and(|it| self.is_zero_outside(tensor, &it, guard));
        });
        all_zero
    }

    /// Returns whether an element of a copy is one of those filled with zero wherever the guard fails.
    fn is_zero_outside(&self, tensor: TensorId, index: &[Poly], guard: &Guard) -> bool {
        let Some(filled) = self.filled.get(&tensor) else { return false };
        filled.outside.iter().any(|own| filled.says(own, index, guard))
    }

    /// Returns whether a guard fails for all that a block computes, or for nothing.
    fn is_of_blocks(&self, guard: &Guard) -> bool {
        let of_blocks = |it| self.of_blocks.contains(&it);
        mentions_any(guard, &of_blocks) && !mentions_any(guard, &|it| !of_blocks(it))
    }

    /// Returns the conditions of copies whose zero fill is a don't-care: wherever one fails, elements
    /// read are only added to results that are not stored.
    fn dont_care(&self, body: &[Stmt]) -> DontCare {
        let all = self.filled.iter().map(|(tensor, it)| (*tensor, it.outside.clone()));
        let mut found = all.collect();
        for stmt in body {
            self.note_needs(stmt, &[], &mut found);
        }
        found
    }

    /// Takes conditions out that a statement needs, which stands below these guards.
    fn note_needs(&self, stmt: &Stmt, around: &[Guard], found: &mut DontCare) {
        let (value, dropped) = match stmt {
            Stmt::If { guards, .. } => {
                let all = [around, guards].concat();
                return stmt.body().iter().for_each(|it| self.note_needs(it, &all, found));
            }
            Stmt::Update { tensor, index, reducer: Reducer::Sum, value }
                if self.is_sum_of_copies(*tensor, index, value) =>
            {
                let place = self.buffers[tensor.0 as usize].position(index);
                let beside = |it: VarId| !place.mentions(it) && !self.of_blocks.contains(&it);
                let drops = |it: &&Guard| {
                    let is_dropped = is_along(it, &place) || self.is_of_blocks(it);
                    is_dropped && !mentions_any(it, &beside)
                };
                (value, around.iter().filter(drops).collect())
            }
            Stmt::Update { value, .. } | Stmt::Store { value, .. } => (value, Vec::new()),
            _ => return stmt.body().iter().for_each(|it| self.note_needs(it, around, found)),
        };
        value.for_each_read(&mut |tensor, index| {
            let (Some(kept), Some(filled)) = (found.get_mut(&tensor), self.filled.get(&tensor))
            else {
                return;
            };
            let index = affine(index).unwrap_or_default();
            kept.retain(|own| dropped.iter().any(|guard| filled.says(own, &index, guard)));
        });
    }
}

impl Filled {
    /// Returns whether a condition of the copy says of the element at an index what a guard says.
    fn says(&self, own: &Guard, index: &[Poly], guard: &Guard) -> bool {
        own.bound == guard.bound
            && index.iter().zip(&self.index).any(|(at, first)| {
                // The copy's guard counts along this dimension, from where the tile starts.
                own.value.clone() - first.clone() == guard.value.clone() - at.clone()
            })
    }
}

/// Returns whether a guard is about where elements are.
fn is_along(guard: &Guard, place: &Poly) -> bool {
    mentions_any(guard, &|it| place.mentions(it))
}

fn mentions_any(guard: &Guard, is_one: &dyn Fn(VarId) -> bool) -> bool {
    let mut found = false;
    guard.value.for_each_leaf(&mut |leaf| {
        found |= matches!(leaf, Atom::Var(var) if is_one(*var));
    });
    found
}

/// An index in which a variable stands for a value: where it is that value, or divides it.
fn replaced(index: &Poly, value: &Poly, by: VarId) -> Poly {
    if index == value {
        return Poly::var(by);
    }
    let mut sum = Poly::default();
    for (atoms, coefficient) in index.terms() {
        let mut product = Poly::constant(coefficient);
        for atom in atoms {
            product = product
                * Poly::atom(match atom {
                    Atom::Div(inner, divisor) if **inner == *value => {
                        Atom::Div(Box::new(Poly::var(by)), divisor.clone())
                    }
                    Atom::Mod(inner, divisor) if **inner == *value => {
                        Atom::Mod(Box::new(Poly::var(by)), divisor.clone())
                    }
                    other => other.clone(),
                });
        }
        sum += product;
    }
    sum
}

fn condition(guard: &Guard) -> Expr {
    Expr::Index(guard.value.clone()).compare(CompareOp::Lt, Expr::Index(guard.bound.clone()))
}

fn reads_mention(value: &Expr, var: VarId) -> bool {
    value.any(&mut |it| match it {
        Expr::Read { index, .. } => {
            index.iter().filter_map(Subscript::affine).any(|it| it.mentions(var))
        }
        _ => false,
    })
}

/// Returns whether a value is zero if all that it reads is.
fn vanishes(value: &Expr) -> bool {
    match value {
        Expr::Read { .. } => true,
        Expr::Const(Literal::Float(it), _) => *it == 0.0,
        Expr::Const(Literal::Int(it), _) => *it == 0,
        Expr::Cast(to, a) => *to != DType::Bool && vanishes(a),
        Expr::Unary(UnaryOp::Neg | UnaryOp::Abs | UnaryOp::Tf32, a) => vanishes(a),
        Expr::Binary(BinaryOp::Add | BinaryOp::Sub, a, b) => vanishes(a) && vanishes(b),
        // The other factor is finite: it is zero too, or a constant.
        Expr::Binary(BinaryOp::Mul, a, b) => {
            let finite = |it: &Expr| vanishes(it) || matches!(it, Expr::Const(..));
            (vanishes(a) && finite(b)) || (vanishes(b) && finite(a))
        }
        _ => false,
    }
}

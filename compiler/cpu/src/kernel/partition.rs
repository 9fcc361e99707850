//! Where a loop is cut, so that guards hold without being asked.
//!
//! A guard is linear in the loop's variable: it holds up to some iteration, whatever the loops
//! within do, and the rest, mostly one iteration, is lowered again with the variable fixed, so that the loops within
//! are cut in turn. What is known when code is generated becomes exact code; what is known at
//! launch becomes trip counts and masks.
//!
//! Rows of a tile cannot be told apart at run time when they live in registers. A rest of `r` rows,
//! known at launch, is therefore done in pieces of 4, 2 and 1 rows, each present or not.
//!
//! # Source
//!
//! Loop partitioning as in Halide and TVM; the pieces are what BLIS calls edge kernels.

use super::Unsupported;
use super::affine::{Affine, Coef, tidy, weight};
use super::scope::Lower;
use super::tree::{GuardId, Item, Kind, Loop, Write};
use tvmtune_ir::poly::{Atom, Poly, VarId};

/// Atoms in a place to cut, beyond which the guard is asked instead: each level of loops builds on
/// the one around it.
const MAX_WEIGHT: usize = 24;

/// Iterations `start..start + count` of a loop.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) start: Poly,
    pub(super) count: Poly,
    /// Guards that hold in it.
    pub(super) proven: Vec<GuardId>,
    /// The count is 0 or 1.
    pub(super) single: bool,
    /// Instead of the iteration: parts of it.
    pub(super) parts: Vec<Part>,
}

/// The first `rows` iterations of some loops, from an index that no whole tile starts at.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) rows: i64,
    /// 0 or 1.
    pub(super) present: Poly,
    /// What the loop's variable times `of` is.
    pub(super) start: Poly,
    pub(super) of: i64,
    /// The loops that run fewer iterations.
    pub(super) limited: Vec<VarId>,
}

/// A guard as seen from a loop: it holds if `step * var + rest < 0`.
struct Cut {
    id: GuardId,
    step: i64,
    /// The greatest and the least of what else there is.
    most: Poly,
    least: Poly,
    /// The loop within that it depends on, if one, by 1 a step; and what is left without it.
    row: Option<VarId>,
    base: Poly,
    /// The first iteration in which it may fail.
    at: Poly,
}

impl Lower<'_> {
    /// The iterations of a loop, in pieces.
    pub(super) fn pieces(&mut self, loop_: &Loop) -> Result<Vec<Piece>, Unsupported> {
        let extent = self.tree.var(loop_.var).extent.clone();
        let (ids, leaves) = guards_below(loop_);
        let mut cuts = Vec::new();
        for id in ids {
            if !self.proven[id]
                && let Some(cut) = self.cut(id, loop_.var, &extent)?
            {
                cuts.push(cut);
            }
        }
        if cuts.is_empty() {
            return Ok(vec![whole(extent)]);
        }
        let known: Option<Vec<i64>> = cuts.iter().map(|it| it.at.as_constant()).collect();
        Ok(match (extent.as_constant(), known) {
            (Some(extent), Some(known)) => static_pieces(extent, &known, &cuts, &leaves),
            _ => self.dynamic_pieces(loop_, &extent, &cuts, &leaves),
        })
    }

    fn cut(&mut self, id: GuardId, var: VarId, extent: &Poly) -> Result<Option<Cut>, Unsupported> {
        let tree = self.tree;
        let mut form = self.eval(&tree.guards[id])?;
        let Some(Coef::Const(step @ 1..)) = form.take(var) else { return Ok(None) };
        let base = form.dims.clone() + Poly::constant(form.constant);
        let (mut most, mut least) = (base.clone(), base.clone());
        let (mut row, n_rows) = (None, form.terms.len());
        for (inner, coefficient) in &form.terms {
            let at = inner.0 as usize;
            if at >= tree.vars.len() || tree.mentions(&Affine::var(*inner), var) {
                return Ok(None);
            }
            if n_rows == 1 && *coefficient == Coef::Const(1) {
                row = Some(*inner);
            }
            let extent = self.limits[at].map_or(tree.vars[at].extent.clone(), Poly::constant);
            let reach = coefficient.to_poly() * (extent - Poly::constant(1));
            let sign = coefficient.interval(&tree.facts);
            match (sign.lo >= 0, sign.hi <= 0) {
                (true, _) => most += reach,
                (_, true) => least += reach,
                _ => return Ok(None),
            }
        }
        let facts = &tree.facts;
        let count = (Poly::constant(step - 1) - tidy(most.clone(), facts))
            .div(&Poly::constant(step), facts);
        let at = count.greater(&Poly::constant(0), facts);
        let inside = gap(extent, &at).is_some_and(|(gap, _)| gap >= 0);
        let at = if inside { at } else { at.lesser(extent, facts) };
        if weight(&at) > MAX_WEIGHT {
            return Ok(None);
        }
        Ok(Some(Cut { id, step, most, least, row, base, at }))
    }

    fn dynamic_pieces(
        &self,
        loop_: &Loop,
        extent: &Poly,
        cuts: &[Cut],
        leaves: &[Vec<GuardId>],
    ) -> Vec<Piece> {
        let facts = &self.tree.facts;
        let at = cuts[1..].iter().fold(cuts[0].at.clone(), |at, it| at.lesser(&it.at, facts));
        let proven: Vec<GuardId> = cuts.iter().map(|it| it.id).collect();
        let main = Piece { count: at.clone(), proven, ..whole(extent.clone()) };
        let same = cuts.iter().all(|it| it.at == at);
        let covers = |ids: &[GuardId]| ids.iter().any(|id| cuts.iter().any(|it| it.id == *id));
        let covered = same && leaves.iter().all(|it| covers(it));
        let span = |it: &Cut| (it.most.clone() - it.least.clone()).as_constant();
        let within = |slack: i64| {
            covered && cuts.iter().all(|it| span(it).is_some_and(|n| n <= it.step * slack))
        };
        let mut count = tidy(extent.clone() - at.clone(), facts);
        let reach = count.interval(facts).hi;
        if reach <= 0 || within(0) {
            return vec![main];
        }
        let ends = reach <= 1 || ends_within_one(extent, &at);
        let single = ends || within(1);
        if single && !ends {
            count = count.lesser(&Poly::constant(1), facts);
        }
        let parts = match single && covered {
            true => self.parts(loop_, cuts, &at),
            false => Vec::new(),
        };
        vec![main, Piece { start: at, count, proven: Vec::new(), single, parts }]
    }

    /// The last iteration in parts of 4, 2 and 1 rows, where everything permits it.
    fn parts(&self, loop_: &Loop, cuts: &[Cut], at: &Poly) -> Vec<Part> {
        let facts = &self.tree.facts;
        let (of, base) = (cuts[0].step, &cuts[0].base);
        let mut limited = Vec::new();
        for cut in cuts {
            let Some(row) = cut.row.filter(|_| cut.step == of && cut.base == *base) else {
                return Vec::new();
            };
            if !limited.contains(&row) {
                limited.push(row);
            }
        }
        let rows = |var: &VarId| self.tree.var(*var).extent.as_constant();
        let n_rows = limited.iter().map(rows).max().flatten().unwrap_or(0);
        let exact = limited.iter().all(|it| rows(it) == Some(n_rows));
        if !exact || n_rows > of || n_rows < 2 || !self.is_divisible(loop_, cuts, &limited, of) {
            return Vec::new();
        }
        let first = tidy(at.clone() * of, facts);
        let rest = tidy(-base.clone() - first.clone(), facts).greater(&Poly::constant(0), facts);
        let mut rows = 1 << (n_rows - 1).ilog2();
        let mut parts = Vec::new();
        while rows > 0 {
            let part = |by: i64| rest.div(&Poly::constant(by), facts);
            let start = tidy(first.clone() + part(2 * rows) * (2 * rows), facts);
            let present = part(rows).modulo(&Poly::constant(2), facts);
            parts.push(Part { rows, present, start, of, limited: limited.clone() });
            rows /= 2;
        }
        parts
    }

    /// Whether everything below depends on the loop's variable in multiples of a whole tile, and
    /// all that the shortened loops do is guarded by what shortens them.
    fn is_divisible(&self, loop_: &Loop, cuts: &[Cut], limited: &[VarId], of: i64) -> bool {
        let is_multiple = |form: &Affine| {
            form.terms.iter().all(|(var, coefficient)| {
                let derived = self.tree.var(*var).derived.is_some();
                match *var == loop_.var {
                    true => coefficient.divisor() % of == 0,
                    false => !derived || !self.tree.mentions(&Affine::var(*var), loop_.var),
                }
            })
        };
        let mut fits = true;
        Item::for_each_write(&loop_.body, &mut Vec::new(), &mut |write, path| {
            check_write(write, &mut |form| fits &= is_multiple(form));
            let around =
                |var: &VarId| path.iter().any(|it| matches!(it, Item::Loop(it) if it.var == *var));
            let guarded = |var: &VarId| {
                cuts.iter().any(|cut| {
                    cut.row == Some(*var)
                        && path.iter().any(
                            |it| matches!(it, Item::If { guards, .. } if guards.contains(&cut.id)),
                        )
                })
            };
            let inside = limited.iter().filter(|it| around(it));
            fits &= inside.clone().count() == 1 && inside.clone().all(guarded);
            fits &= path.iter().all(|it| match it {
                Item::Loop(it) => {
                    !limited.contains(&it.var) || matches!(it.kind, Kind::Unrolled(_))
                }
                Item::If { guards, .. } => guards.iter().all(|id| {
                    cuts.iter().any(|it| it.id == *id)
                        || !self.tree.mentions(&self.tree.guards[*id], loop_.var)
                }),
                Item::Write(_) => true,
            });
        });
        fits
    }
}

fn check_write(write: &Write, check: &mut dyn FnMut(&Affine)) {
    check(&write.target.offset);
    for (_, index) in &write.target.gather {
        index.for_each_form(check);
    }
    write.value.for_each_form(check);
}

fn whole(extent: Poly) -> Piece {
    Piece {
        start: Poly::default(),
        count: extent,
        proven: Vec::new(),
        single: false,
        parts: Vec::new(),
    }
}

/// Everything is known: a piece for each stretch in which the same guards hold.
fn static_pieces(extent: i64, known: &[i64], cuts: &[Cut], leaves: &[Vec<GuardId>]) -> Vec<Piece> {
    let mut ends: Vec<i64> = known.iter().copied().chain([extent]).filter(|it| *it > 0).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut start = 0;
    let mut pieces = Vec::new();
    for end in ends {
        let holds = cuts.iter().zip(known).filter(|(_, at)| **at >= end);
        let fails = |id: &GuardId| {
            cuts.iter().any(|it| {
                it.id == *id
                    && it.least.as_constant().is_some_and(|least| it.step * start + least >= 0)
            })
        };
        // Nothing happens in iterations in which every statement is guarded off.
        if !leaves.iter().all(|guards| guards.iter().any(fails)) {
            pieces.push(Piece {
                start: Poly::constant(start),
                count: Poly::constant(end - start),
                proven: holds.map(|(it, _)| it.id).collect(),
                single: end - start == 1,
                parts: Vec::new(),
            });
        }
        start = end;
    }
    pieces
}

/// Whether `ceil(n / c) - floor(n / c)` is what is left: at most one.
fn ends_within_one(extent: &Poly, at: &Poly) -> bool {
    gap(extent, at).is_some_and(|(gap, by)| gap <= by)
}

/// `a - b` and `c`, of two polynomials that differ in `floor(a / c)` and `floor(b / c)` only.
fn gap(extent: &Poly, at: &Poly) -> Option<(i64, i64)> {
    let split = |poly: &Poly| {
        let mut rest = Poly::default();
        let mut found = None;
        for (atoms, value) in poly.terms() {
            match (atoms, value) {
                ([Atom::Div(a, by)], 1) if found.is_none() => found = Some((a.clone(), by.clone())),
                _ => {
                    let atoms = atoms.iter().map(|it| Poly::atom(it.clone()));
                    rest += atoms.fold(Poly::constant(value), |product, it| product * it);
                }
            }
        }
        found.map(|(a, by)| (*a, *by, rest))
    };
    let (a, by, rest) = split(extent)?;
    let (b, by_too, rest_too) = split(at)?;
    let same = rest == rest_too && by == by_too;
    same.then_some((a - b).as_constant()?).zip(by.as_constant())
}

/// The guards below a loop, and for each statement those around it.
fn guards_below(loop_: &Loop) -> (Vec<GuardId>, Vec<Vec<GuardId>>) {
    let (mut all, mut leaves) = (Vec::new(), Vec::new());
    Item::for_each_write(&loop_.body, &mut Vec::new(), &mut |_, path| {
        let mut around = Vec::new();
        for item in path {
            if let Item::If { guards, .. } = item {
                around.extend_from_slice(guards);
            }
        }
        all.extend_from_slice(&around);
        leaves.push(around);
    });
    all.sort_unstable();
    all.dedup();
    (all, leaves)
}

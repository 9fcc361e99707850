//! Loop partitioning: the main range of a loop runs without guards, its remainder with them.
//!
//! ```text
//! for i in 0..n { if 4*i + j < m { s } }
//!     =>   for i in 0..m/4 { s }; for i in m/4..n { if 4*i + j < m { s } }
//! ```
//!
//! A guard is affine in the loop's variable, so it holds up to some iteration for all values of the
//! inner loops. The remainder, mostly one iteration, is lowered again with the variable fixed, so
//! that inner loops are partitioned in turn. Bounds that are constants give exact code; bounds
//! known at launch give trip counts and masks.
//!
//! Some guards have no bound that a launch can compute: it depends on the task, or has too many terms.
//! The loop then tests such a guard in each iteration, and skips those in which no statement runs.
//!
//! Rows of a tile in registers have no index at run time. A remainder of `r` rows, known at launch,
//! therefore runs as edge tiles of 4, 2 and 1 rows, each executed or skipped.
//!
//! # Source
//!
//! Loop partitioning of Halide and TVM (`LoopPartition`); edge kernels of BLIS.

use std::collections::{BTreeMap, BTreeSet};

use super::Unsupported;
use super::affine::{Affine, Coef, LANE, n_atoms, simplify};
use super::context::Lowering;
use super::tree::{GuardId, Loop, LoopMode, Node};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};

/// Atoms in a bound beyond which the guard is evaluated instead: bounds of nested loops contain
/// those of the loops around them.
const MAX_BOUND_ATOMS: usize = 24;

/// Iterations `start..start + count` of a loop.
#[derive(Debug, Default)]
pub(super) struct IterRange {
    pub(super) start: Poly,
    pub(super) count: Poly,
    /// Guards that hold in every iteration of the range.
    pub(super) proven: Vec<GuardId>,
    /// `count` is 0 or 1.
    pub(super) at_most_one: bool,
    /// Guards that every statement of an iteration stands in, and that iterations should be tested for.
    pub(super) tested: Vec<GuardId>,
    /// Edge tiles that replace the iteration; empty if it runs as a whole.
    pub(super) edge_tiles: Vec<EdgeTile>,
}

/// The last, partial tile of a loop: `rows` iterations of the loops over its rows.
#[derive(Debug)]
pub(super) struct EdgeTile {
    pub(super) rows: i64,
    /// 1 if the edge tile runs, else 0.
    pub(super) is_present: Poly,
    /// First row: the loop's variable times `tile`.
    pub(super) start: Poly,
    /// Rows of a whole tile.
    pub(super) tile: i64,
    /// Loops over the rows of a tile, which run `rows` iterations here.
    pub(super) shortened: Vec<VarId>,
}

/// A guard as a bound of a loop's variable: it holds if `step * var + rest < 0`.
struct GuardBound {
    id: GuardId,
    step: i64,
    /// Greatest and least value of `rest`.
    most: Poly,
    least: Poly,
    /// The only inner loop that `rest` depends on, with coefficient 1.
    row: Option<VarId>,
    /// `rest` without `row`.
    base: Poly,
    /// The first iteration in which the guard may fail.
    at: Poly,
}

impl GuardBound {
    /// Returns the first iteration in which the guard fails whatever the inner loops do, if it is a
    /// constant.
    fn end(&self) -> Option<i64> {
        let least = self.least.as_constant()?;
        Some(((-least).max(0) + self.step - 1) / self.step)
    }
}

impl Lowering<'_> {
    /// Splits the iterations of a loop into ranges in which the same guards are proven.
    pub(super) fn partition(&mut self, loop_: &Loop) -> Result<Vec<IterRange>, Unsupported> {
        let extent = self.tree.var(loop_.var).extent.clone();
        let (ids, leaves) = guards_below(loop_);
        let mut bounds = Vec::new();
        for id in ids {
            if !self.proven[id]
                && let Some(bound) = self.bound(id, loop_.var, &extent)?
            {
                bounds.push(bound);
            }
        }
        let is_open = |id: GuardId| bounds.iter().all(|it| it.id != id);
        let tested = self.common_guards(loop_, &leaves, &is_open)?;
        let turns = self.turning_points(loop_)?;
        if bounds.is_empty() && turns.is_empty() {
            return Ok(vec![IterRange { count: extent, tested, ..IterRange::default() }]);
        }
        let known: Option<Vec<i64>> = bounds.iter().map(|it| it.at.as_constant()).collect();
        let mut ranges = match (extent.as_constant(), known) {
            (Some(extent), Some(known)) => {
                partition_static(extent, &known, &turns, &bounds, &leaves)
            }
            _ => self.partition_dynamic(loop_, &extent, &bounds, &leaves),
        };
        for range in ranges.iter_mut().filter(|it| !it.at_most_one) {
            range.tested = tested.clone();
        }
        Ok(ranges)
    }

    /// Returns the guards of an unrolled loop that one branch for all statements of an iteration tests: those
    /// that do not depend on inner loops.
    pub(super) fn tested_of_unrolled(&mut self, loop_: &Loop) -> Result<Vec<GuardId>, Unsupported> {
        let (_, leaves) = guards_below(loop_);
        let mut tested = self.common_guards(loop_, &leaves, &|_| true)?;
        let mut is_uniform = Vec::new();
        for id in &tested {
            is_uniform.push(self.ends_of_guard(*id, loop_.var)?.is_some_and(|[a, b]| a == b));
        }
        let mut is_uniform = is_uniform.into_iter();
        tested.retain(|_| is_uniform.next() == Some(true));
        Ok(tested)
    }

    /// Returns the guards without bounds of a loop's variable that each statement stands in, or in one like
    /// it, and that depend on the variable. Iterations in which they fail are skipped one by one: a tile
    /// at the edge may consist of them, and half of a triangle does.
    fn common_guards(
        &mut self,
        loop_: &Loop,
        leaves: &[Vec<GuardId>],
        is_open: &dyn Fn(GuardId) -> bool,
    ) -> Result<Vec<GuardId>, Unsupported> {
        let mut common: Option<Vec<(Affine, GuardId)>> = None;
        for ids in leaves {
            let mut of_leaf = Vec::new();
            for id in ids.iter().copied().filter(|it| is_open(*it)) {
                if self.proven[id] {
                    continue;
                }
                let Some([least, _]) = self.ends_of_guard(id, loop_.var)? else { continue };
                if matches!(least.coefficient(loop_.var), Some(Coef::Const(_))) {
                    of_leaf.push((least, id));
                }
            }
            common = Some(match common {
                None => of_leaf,
                Some(mut all) => {
                    all.retain(|(it, _)| of_leaf.iter().any(|(other, _)| it == other));
                    all
                }
            });
        }
        Ok(common.into_iter().flatten().map(|it| it.1).collect())
    }

    /// Returns the least and the greatest value of a guard's form over all iterations of inner loops, as
    /// forms of the loops that are open and of `loop_var`. `None` where they are not those of their first
    /// and last iterations.
    pub(super) fn ends_of_guard(
        &mut self,
        id: GuardId,
        loop_var: VarId,
    ) -> Result<Option<[Affine; 2]>, Unsupported> {
        let tree = self.tree;
        let guard = &tree.guards[id];
        if guard.terms.iter().any(|(it, _)| tree.var(*it).derived.is_some()) {
            return Ok(None);
        }
        let mut form = self.eval(guard)?;
        let is_inner =
            |it: VarId| it == LANE || it != loop_var && (it.0 as usize) < tree.vars.len();
        let inner: Vec<(VarId, Coef)> =
            form.terms.iter().filter(|it| is_inner(it.0)).cloned().collect();
        form.terms.retain(|it| !is_inner(it.0));
        let (mut least, mut greatest) = (form.clone(), form);
        for (var, coefficient) in &inner {
            let last = match *var {
                LANE => self.lanes() - 1,
                var => {
                    let extent =
                        self.limits[var.0 as usize].or_else(|| tree.var(var).extent.as_constant());
                    let Some(extent) = extent else { return Ok(None) };
                    extent - 1
                }
            };
            let sign = coefficient.interval(&tree.facts);
            let end = match (sign.lo >= 0, sign.hi <= 0) {
                (true, _) => &mut greatest,
                (_, true) => &mut least,
                _ => return Ok(None),
            };
            end.add_scaled(&Affine::constant(last), coefficient);
        }
        Ok(Some([least, greatest]))
    }

    /// Solves a guard for a loop's variable; `None` if it is not affine in it, with a positive
    /// constant step.
    fn bound(
        &mut self,
        id: GuardId,
        var: VarId,
        extent: &Poly,
    ) -> Result<Option<GuardBound>, Unsupported> {
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
        let count = (Poly::constant(step - 1) - simplify(most.clone(), facts))
            .div(&Poly::constant(step), facts);
        let at = count.greater(&Poly::constant(0), facts);
        let inside = gap(extent, &at).is_some_and(|(gap, _)| gap >= 0);
        let at = if inside { at } else { at.lesser(extent, facts) };
        if n_atoms(&at) > MAX_BOUND_ATOMS {
            return Ok(None);
        }
        Ok(Some(GuardBound { id, step, most, least, row, base, at }))
    }

    /// Splits a loop whose extent or bounds are known at launch: the main range, and the rest.
    fn partition_dynamic(
        &self,
        loop_: &Loop,
        extent: &Poly,
        bounds: &[GuardBound],
        leaves: &[Vec<GuardId>],
    ) -> Vec<IterRange> {
        let facts = &self.tree.facts;
        let mut ends: Vec<&Poly> = Vec::new();
        for bound in bounds {
            if !ends.contains(&&bound.at) {
                ends.push(&bound.at);
            }
        }
        let lesser = |a: Poly, b: &&Poly| match gap(&a, b) {
            Some((..0, _)) => a,
            Some(_) => (*b).clone(),
            None => a.lesser(b, facts),
        };
        let at = ends[1..].iter().fold(ends[0].clone(), lesser);
        let proven: Vec<GuardId> = bounds.iter().map(|it| it.id).collect();
        let main = IterRange { count: at.clone(), proven, ..IterRange::default() };
        let same = ends.len() == 1;
        let covers = |ids: &[GuardId]| ids.iter().any(|id| bounds.iter().any(|it| it.id == *id));
        let covered = same && leaves.iter().all(|it| covers(it));
        let span = |it: &GuardBound| (it.most.clone() - it.least.clone()).as_constant();
        let within = |slack: i64| {
            covered && bounds.iter().all(|it| span(it).is_some_and(|n| n <= it.step * slack))
        };
        let mut count = simplify(extent.clone() - at.clone(), facts);
        let reach = count.interval(facts).hi;
        if reach <= 0 || within(0) {
            return vec![main];
        }
        // Of a ceiling and a floor: an iteration is left exactly where elements are.
        let is_exact = ends.iter().all(|it| ends_within_one(extent, it));
        let at_most_one = is_exact || reach <= 1 || within(1);
        // Masks without a lane are slow where memory ends, so that an empty iteration does not run.
        if !is_exact && let Some(end) = common_end(bounds, leaves, extent, facts) {
            count = (end - at.clone()).greater(&Poly::constant(0), facts);
        }
        if at_most_one && !is_exact && count.interval(facts).hi > 1 {
            count = count.lesser(&Poly::constant(1), facts);
        }
        let edge_tiles = match at_most_one && covered {
            true => self.edge_tiles(loop_, bounds, &at),
            false => Vec::new(),
        };
        vec![main, IterRange { start: at, count, at_most_one, edge_tiles, ..IterRange::default() }]
    }

    /// Splits the last iteration into edge tiles of 4, 2 and 1 rows; empty where that is illegal.
    fn edge_tiles(&self, loop_: &Loop, bounds: &[GuardBound], at: &Poly) -> Vec<EdgeTile> {
        let facts = &self.tree.facts;
        let (tile, base) = (bounds[0].step, &bounds[0].base);
        let mut shortened = Vec::new();
        for bound in bounds {
            let Some(row) = bound.row.filter(|_| bound.step == tile && bound.base == *base) else {
                return Vec::new();
            };
            if !shortened.contains(&row) {
                shortened.push(row);
            }
        }
        let rows = |var: &VarId| self.tree.var(*var).extent.as_constant();
        let n_rows = shortened.iter().map(rows).max().flatten().unwrap_or(0);
        let exact = shortened.iter().all(|it| rows(it) == Some(n_rows));
        if !exact
            || n_rows > tile
            || n_rows < 2
            || !self.is_divisible(loop_, bounds, &shortened, tile)
        {
            return Vec::new();
        }
        let first = simplify(at.clone() * tile, facts);
        let rest =
            simplify(-base.clone() - first.clone(), facts).greater(&Poly::constant(0), facts);
        let mut rows = 1 << (n_rows - 1).ilog2();
        let mut edge_tiles = Vec::new();
        while rows > 0 {
            let edge = |by: i64| rest.div(&Poly::constant(by), facts);
            let start = simplify(first.clone() + edge(2 * rows) * (2 * rows), facts);
            let is_present = edge(rows).modulo(&Poly::constant(2), facts);
            let shortened = shortened.clone();
            edge_tiles.push(EdgeTile { rows, is_present, start, tile, shortened });
            rows /= 2;
        }
        edge_tiles
    }

    /// Returns whether a tile may start at any row: indices depend on the loop's variable and the row as
    /// `tile * variable + row` only, and the guards that shorten loops stand around all statements of
    /// the body. Rows alone index local buffers that the tile fills itself.
    fn is_divisible(
        &self,
        loop_: &Loop,
        bounds: &[GuardBound],
        shortened: &[VarId],
        tile: i64,
    ) -> bool {
        let varies = |form: &Affine| {
            let mut vars = shortened.iter().chain([&loop_.var]);
            vars.any(|it| self.tree.mentions(form, *it))
        };
        let own = self.own_buffers(loop_);
        let follows = |form: &Affine, row: VarId, is_own: bool| {
            let is_plain =
                |it: &VarId| self.tree.var(*it).derived.is_none() || !varies(&Affine::var(*it));
            let of = |var: VarId| form.coefficient(var).map(Coef::to_poly).unwrap_or_default();
            form.terms.iter().all(|(it, _)| is_plain(it))
                && (of(row) * tile == of(loop_.var)
                    || is_own && form.coefficient(loop_.var).is_none())
        };
        let mut fits = true;
        Node::for_each_write(&loop_.body, &mut Vec::new(), &mut |write, path| {
            let around = |var: &VarId| Node::loops(path).any(|it| it.var == *var);
            let inside: Vec<VarId> = shortened.iter().copied().filter(around).collect();
            let [row] = inside[..] else { return fits = false };
            write.for_each_index(&mut |buffer, form| {
                fits &= follows(form, row, buffer.is_some_and(|it| own.contains(&it)));
            });
            fits &= bounds.iter().any(|bound| {
                bound.row == Some(row)
                    && path.iter().any(
                        |it| matches!(it, Node::If { guards, .. } if guards.contains(&bound.id)),
                    )
            });
            fits &= path.iter().all(|it| match it {
                Node::Loop(it) => {
                    !shortened.contains(&it.var) || matches!(it.kind, LoopMode::Unrolled(_))
                }
                Node::If { guards, .. } => guards.iter().all(|id| {
                    bounds.iter().any(|it| it.id == *id) || !varies(&self.tree.guards[*id])
                }),
                Node::Write(_) => true,
            });
        });
        fits
    }

    /// Returns the local buffers that nothing outside of a loop's body writes.
    fn own_buffers(&self, loop_: &Loop) -> BTreeSet<TensorId> {
        let writes = |nodes: &[Node]| {
            let mut n_writes: BTreeMap<TensorId, usize> = BTreeMap::new();
            Node::for_each_write(nodes, &mut Vec::new(), &mut |write, _| {
                *n_writes.entry(write.target.tensor).or_default() += 1;
            });
            n_writes
        };
        let mut all: BTreeMap<TensorId, usize> = BTreeMap::new();
        for (tensor, n) in self.tree.phases.iter().flat_map(|it| writes(it)) {
            *all.entry(tensor).or_default() += n;
        }
        let inside = writes(&loop_.body).into_iter();
        let is_own = |(tensor, n): &(TensorId, usize)| {
            self.tree.buffers[tensor.0 as usize].local && all.get(tensor) == Some(n)
        };
        inside.filter(is_own).map(|(tensor, _)| tensor).collect()
    }
}

/// Splits a loop whose extent and bounds are constants, also where choices turn. Iterations in which every
/// statement is guarded off are left out: a task at the edge may have whole tiles beyond it.
fn partition_static(
    extent: i64,
    known: &[i64],
    turns: &[i64],
    bounds: &[GuardBound],
    leaves: &[Vec<GuardId>],
) -> Vec<IterRange> {
    let ends_of = |ids: &Vec<GuardId>| {
        let around = bounds.iter().filter(|it| ids.contains(&it.id));
        around.filter_map(GuardBound::end).min().unwrap_or(extent)
    };
    let extent = leaves.iter().map(ends_of).max().map_or(extent, |it| it.min(extent));
    let inner = known.iter().chain(turns).copied().filter(|it| (1..extent).contains(it));
    let mut ends: Vec<i64> = inner.chain((extent > 0).then_some(extent)).collect();
    ends.sort_unstable();
    ends.dedup();
    let mut start = 0;
    let mut partition = Vec::new();
    for end in ends {
        let holds = bounds.iter().zip(known).filter(|(_, at)| **at >= end);
        partition.push(IterRange {
            start: Poly::constant(start),
            count: Poly::constant(end - start),
            proven: holds.map(|(it, _)| it.id).collect(),
            at_most_one: end - start == 1,
            ..IterRange::default()
        });
        start = end;
    }
    partition
}

/// Returns the end of the iterations in which any statement runs, as far as each statement stands in
/// guards that have this end.
fn common_end(
    bounds: &[GuardBound],
    leaves: &[Vec<GuardId>],
    extent: &Poly,
    facts: &Facts,
) -> Option<Poly> {
    let ends_of = |ids: &Vec<GuardId>| -> Vec<Poly> {
        let around = bounds.iter().filter(|it| ids.contains(&it.id));
        let end = |it: &GuardBound| {
            (Poly::constant(it.step - 1) - it.least.clone()).div(&Poly::constant(it.step), facts)
        };
        around.map(end).collect()
    };
    let (first, others) = leaves.split_first()?;
    let common = |end: &Poly| others.iter().all(|it| ends_of(it).contains(end));
    let mut ends: Vec<Poly> = ends_of(first).into_iter().filter(common).collect();
    ends.sort_by_key(n_atoms);
    ends.into_iter().fold(None, |end: Option<Poly>, it| {
        let end = end.unwrap_or_else(|| extent.clone());
        let lesser = it.lesser(&end, facts);
        Some(if n_atoms(&lesser) <= MAX_BOUND_ATOMS { lesser } else { end })
    })
}

/// Returns whether at most one iteration is left: one, or `ceil(n / c) - floor(n / c)` of them.
fn ends_within_one(extent: &Poly, at: &Poly) -> bool {
    let left = (extent.clone() - at.clone()).as_constant();
    left.is_some_and(|it| it <= 1) || gap(extent, at).is_some_and(|(gap, by)| gap <= by)
}

/// Returns `a - b` and `c`, for two polynomials that differ in `floor(a / c)` and `floor(b / c)` only.
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

/// Collects the guards inside a loop, and for each statement those around it.
fn guards_below(loop_: &Loop) -> (Vec<GuardId>, Vec<Vec<GuardId>>) {
    let (mut all, mut leaves) = (Vec::new(), Vec::new());
    Node::for_each_write(&loop_.body, &mut Vec::new(), &mut |_, path| {
        let mut around = Vec::new();
        for node in path {
            if let Node::If { guards, .. } = node {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A guard that holds in so many iterations.
    fn bound(id: GuardId, n: i64) -> GuardBound {
        let (most, least) = (Poly::constant(-n), Poly::constant(-n));
        let (base, at) = (Poly::default(), Poly::constant(n));
        GuardBound { id, step: 1, most, least, row: None, base, at }
    }

    #[test]
    fn iterations_are_left_out_if_no_statement_runs_in_them() {
        let bounds = [bound(0, 3), bound(1, 7)];
        let n_left = |leaves: &[Vec<GuardId>]| -> i64 {
            let ranges = partition_static(10, &[3, 7], &[], &bounds, leaves);
            ranges.iter().map(|it| it.count.as_constant().unwrap()).sum()
        };
        assert_eq!(n_left(&[vec![0]]), 3);
        assert_eq!(n_left(&[vec![0], vec![1]]), 7);
        assert_eq!(n_left(&[vec![0, 1]]), 3);
        assert_eq!(n_left(&[vec![0], vec![]]), 10);
    }
}

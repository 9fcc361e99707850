//! Lowering of the loop tree to vector code: loops are unrolled, vectorized, partitioned, or become
//! the task grid.

use std::collections::{BTreeMap, BTreeSet};

use super::affine::{Affine, Coef, LANE, simplify};
use super::allocate::{self, Allocations, LaneConflict};
use super::context::{Binding, LaneCondition, Lowering, Predicate, PredicateCause};
use super::numbering::{Op, ValueId};
use super::partition::IterRange;
use super::table::Table;
use super::tree::{GuardId, Loop, LoopMode, Node, Tree, Write, make_serial};
use super::{
    Count, Linear, Phase, Simd, Stmt, Unsupported, VectorCode, bounded, build, gather, hoist,
    interchange, promote,
};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Interval, Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width;
use tvmtune_schedule::nest::{self, Nest};

/// Lowers a nest to vector code: in lanes of 32 bits if it can be, as there are twice as many, else of 64; and
/// where these will not do, in lanes of 32 bits that divide 64-bit integers digit by digit.
///
/// # Errors
///
/// If the nest uses a type or operation that this back end leaves to portable code.
pub fn lower(nest: &Nest, isa: Isa) -> Result<VectorCode, Unsupported> {
    let nest = &*nest::fold_constant_dims(nest);
    let simd = |width| Simd { isa, width };
    let in_words = |divides_words| lower_or_serialize(nest, simd(Width::Bits32), divides_words);
    in_words(false).or_else(|it| match it {
        Unsupported::Type(_) | Unsupported::Operation(_) | Unsupported::Range => {
            let wide = simd(Width::Bits64);
            lower_tree(nest, wide, build::build(nest, wide)?)
                .or_else(|_| in_words(true))
                .or_else(|_| lower_or_serialize(nest, wide, false))
        }
        other => Err(other),
    })
}

/// Lowers a nest; loops in which data chooses elements narrower than lanes become serial.
fn lower_or_serialize(
    nest: &Nest,
    simd: Simd,
    divides_words: bool,
) -> Result<VectorCode, Unsupported> {
    let tree = || Ok(Tree { divides_words, ..build::build(nest, simd)? });
    match lower_tree(nest, simd, tree()?) {
        Err(Unsupported::Type(dtype)) => {
            let mut tree = tree()?;
            match gather::serialize_narrow(&mut tree) {
                true => lower_tree(nest, simd, tree),
                false => Err(Unsupported::Type(dtype)),
            }
        }
        lowered => lowered,
    }
}

fn lower_tree(nest: &Nest, simd: Simd, mut tree: Tree<'_>) -> Result<VectorCode, Unsupported> {
    let allocations = allocate_or_serialize(&mut tree);
    promote::promote(&mut tree, &allocations)?;
    interchange::interchange(&mut tree);
    bounded::bound_loops(&mut tree);
    let allocations = allocate_or_serialize(&mut tree);
    let table = Table::new(nest, &tree.facts);
    let mut lower = Lowering::new(&tree, table, allocations);
    let mut phases = lower.phases()?;
    let mut n_regs = lower.versions.len() as u32;
    phases.iter_mut().for_each(|it| hoist::hoist(it, simd, &mut n_regs));
    Ok(VectorCode {
        name: nest.name.clone(),
        isa: simd.isa,
        width: simd.width,
        scratch_bytes: lower.allocations.scratch.clone(),
        n_regs,
        threads: nest.threads,
        table: lower.table.into_entries(),
        phases,
    })
}

/// Allocates local tensors; vectorized loops whose lanes are in conflict become serial.
fn allocate_or_serialize(tree: &mut Tree<'_>) -> Allocations {
    loop {
        match allocate::allocate(tree) {
            Ok(allocations) => return allocations,
            Err(LaneConflict(var)) => {
                tree.phases.iter_mut().for_each(|it| make_serial(it, var));
            }
        }
    }
}

impl<'t> Lowering<'t> {
    fn phases(&mut self) -> Result<Vec<Phase>, Unsupported> {
        let tree = self.tree;
        let mut phases = Vec::new();
        for nodes in &tree.phases {
            let mut task_grid = Vec::new();
            let mut vars = BTreeMap::new();
            self.task_grid(&nodes[0], &mut task_grid, &mut vars);
            // Tensors that are in registers throughout a phase; none is live between phases.
            let tensors = self.allocations.allocated_in(None).unwrap_or_default();
            let body = self.nested(&mut |this| {
                this.enter_register_scope(tensors.clone());
                if vars.is_empty() {
                    this.nodes(nodes)?;
                } else {
                    this.parallel_loops(&nodes[0], &vars)?;
                }
                this.leave_register_scope();
                Ok(())
            })?;
            phases.push(Phase { tasks: task_grid, body });
        }
        Ok(phases)
    }

    /// Collects the outermost parallel loops as a grid; `vars` maps their variables to those of the
    /// vector code.
    fn task_grid(
        &mut self,
        node: &Node,
        task_grid: &mut Vec<(VarId, Count)>,
        vars: &mut BTreeMap<VarId, VarId>,
    ) {
        let Node::Loop(loop_) = node else { return };
        if loop_.kind != LoopMode::Parallel {
            return;
        }
        let info = self.tree.var(loop_.var);
        let var = self.new_task_var(info.range);
        task_grid.push((var, self.table.count(&info.extent)));
        vars.insert(loop_.var, var);
        if let [inner] = loop_.body.as_slice() {
            self.task_grid(inner, task_grid, vars);
        }
    }

    /// Lowers the body of the task grid.
    fn parallel_loops(
        &mut self,
        node: &'t Node,
        vars: &BTreeMap<VarId, VarId>,
    ) -> Result<(), Unsupported> {
        let (Node::Loop(loop_), Some((_, var))) = (node, vars.iter().next()) else {
            return self.nodes(std::slice::from_ref(node));
        };
        let mut rest = vars.clone();
        let var = rest.remove(&loop_.var).unwrap_or(*var);
        let partition = self.partition(loop_)?;
        self.dispatch_tasks(loop_, var, &rest, &partition)?;
        // The other ranges of an outer loop partition this one again.
        self.bindings[loop_.var.0 as usize] = Binding::Unbound;
        Ok(())
    }

    /// Selects the range of a parallel loop that a task belongs to, at run time. Tasks behind the
    /// last range do nothing.
    fn dispatch_tasks(
        &mut self,
        loop_: &'t Loop,
        var: VarId,
        inner: &BTreeMap<VarId, VarId>,
        partition: &[IterRange],
    ) -> Result<(), Unsupported> {
        let Some((range, others)) = partition.split_first() else { return Ok(()) };
        let mut fill = |this: &mut Self| {
            let value = match range.at_most_one {
                true => Affine::dims(range.start.clone()),
                false => Affine::var(var),
            };
            let whole = this.narrow(var, range);
            this.range_body(loop_, range, value, &mut |this| match loop_.body.as_slice() {
                [node @ Node::Loop(_)] if !inner.is_empty() => this.parallel_loops(node, inner),
                body => this.nodes(body),
            })?;
            this.set_known(var, whole);
            Ok(())
        };
        let end = range.start.clone() + range.count.clone();
        let behind = self.tree.var(loop_.var).extent.clone() - end.clone();
        let is_last = simplify(behind, &self.tree.facts).interval(&self.tree.facts).hi <= 0;
        if is_last {
            return fill(self);
        }
        let then = self.nested(&mut fill)?;
        let otherwise = self.nested(&mut |this| this.dispatch_tasks(loop_, var, inner, others))?;
        let value = self.table.linear(&Affine::var(var));
        let bound = self.table.linear(&Affine::dims(end));
        self.flush();
        self.block().stmts.push(Stmt::If { value, bound, then, otherwise });
        Ok(())
    }

    /// Narrows a task's variable to a range that is known; returns the range that it had, and its block. Quotients
    /// are defined in the innermost block where such a range holds, as other ranges have others.
    fn narrow(&mut self, var: VarId, range: &IterRange) -> (Interval, usize) {
        let whole = self.known(var);
        if let (Some(lo), Some(n @ 1..)) = (range.start.as_constant(), range.count.as_constant()) {
            self.set_known(var, (Interval { lo, hi: lo + n - 1 }, self.blocks.len() - 1));
        }
        whole
    }

    pub(super) fn nodes(&mut self, nodes: &'t [Node]) -> Result<(), Unsupported> {
        nodes.iter().try_for_each(|node| match node {
            Node::Loop(loop_) => self.loop_(loop_),
            Node::If { guards, body } => self.predicated(guards, body),
            Node::Write(write) => self.write(write),
        })
    }

    fn loop_(&mut self, loop_: &'t Loop) -> Result<(), Unsupported> {
        match loop_.kind {
            LoopMode::Unrolled(n) => {
                let n = self.limits[loop_.var.0 as usize].map_or(n, |limit| limit.min(n));
                let tested = self.tested_of_unrolled(loop_)?;
                for at in 0..n {
                    self.iteration(loop_, Binding::Const(at), &mut |this| {
                        this.tested(loop_.var, &tested, &mut |this| this.nodes(&loop_.body))
                    })?;
                }
            }
            LoopMode::Vectorized(n) => self.vectorized_loop(loop_, n)?,
            LoopMode::Chosen => self.chosen_iteration(loop_)?,
            LoopMode::Serial | LoopMode::Parallel => self.serial_loop(loop_)?,
        }
        self.bindings[loop_.var.0 as usize] = Binding::Unbound;
        Ok(())
    }

    /// Lowers one iteration, or all iterations of a counted loop, with new registers for the tensors
    /// that are live in it only.
    pub(super) fn iteration(
        &mut self,
        loop_: &'t Loop,
        binding: Binding,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        self.bindings[loop_.var.0 as usize] = binding;
        let Some(tensors) = self.allocations.allocated_in(Some(loop_.var)) else {
            return body(self);
        };
        self.enter_register_scope(tensors);
        body(self)?;
        self.leave_register_scope();
        Ok(())
    }

    /// Lowers a loop, once for each outcome of a choice that is the same in all iterations.
    fn serial_loop(&mut self, loop_: &'t Loop) -> Result<(), Unsupported> {
        if let Some(form) = self.invariant_choice(loop_)? {
            let range = self.interval(&form);
            let mut under = |range: Interval| {
                self.nested(&mut |this| {
                    this.assumed.push((form.clone(), range));
                    this.serial_loop(loop_)?;
                    this.assumed.pop();
                    // The other branch has loops of its own.
                    this.bindings[loop_.var.0 as usize] = Binding::Unbound;
                    Ok(())
                })
            };
            let then = under(Interval { hi: -1, ..range })?;
            let otherwise = under(Interval { lo: 0, ..range })?;
            self.push_branch(form, then, otherwise);
            return Ok(());
        }
        for range in self.partition(loop_)? {
            self.bounded_range(loop_, &range)?;
        }
        Ok(())
    }

    pub(super) fn serial_range(
        &mut self,
        loop_: &'t Loop,
        range: &IterRange,
    ) -> Result<(), Unsupported> {
        let count = self.table.count(&range.count);
        let body = &mut |this: &mut Self| this.nodes(&loop_.body);
        if range.at_most_one || count == Count::Const(1) {
            let value = Affine::dims(range.start.clone());
            if count == Count::Const(1) || !range.edge_tiles.is_empty() {
                return self.range_body(loop_, range, value, body);
            }
            return self.counted_loop(loop_.var, count, &mut |this, _| {
                this.range_body(loop_, range, value.clone(), body)
            });
        }
        self.counted_loop(loop_.var, count, &mut |this, var| {
            let mut value = Affine::dims(range.start.clone());
            value.add_term(var, Coef::Const(1));
            this.range_body(loop_, range, value, body)
        })
    }

    /// Emits a range of a loop as a counted one, unless its body is empty.
    fn counted_loop(
        &mut self,
        loop_var: VarId,
        count: Count,
        body: &mut dyn FnMut(&mut Self, VarId) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let hi = match count {
            Count::Const(n) => n,
            Count::Param(entry) => self.table.greatest(entry),
        };
        if hi <= 0 {
            return Ok(());
        }
        let mut var = None;
        let stmts = self.nested(&mut |this| {
            this.block().innermost = Some(loop_var);
            let new = this.new_var(Interval { lo: 0, hi: hi - 1 });
            var = Some(new);
            body(this, new)
        })?;
        if let (Some(var), false) = (var, stmts.is_empty()) {
            self.block().stmts.push(Stmt::Loop { var, count, body: stmts });
        }
        Ok(())
    }

    pub(super) fn range_body(
        &mut self,
        loop_: &'t Loop,
        range: &IterRange,
        value: Affine,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        for id in &range.proven {
            self.proven[*id] = true;
        }
        let body = &mut |this: &mut Self| this.tested(loop_.var, &range.tested, body);
        if range.edge_tiles.is_empty() {
            let binding = value.as_constant().map_or(Binding::Form(value), Binding::Const);
            self.iteration(loop_, binding, body)?;
        }
        for edge in &range.edge_tiles {
            let count = self.table.count(&edge.is_present);
            for var in &edge.shortened {
                self.limits[var.0 as usize] = Some(edge.rows);
            }
            let bounds = self.guards_of_shortened(loop_, &edge.shortened);
            for id in &bounds {
                self.proven[*id] = true;
            }
            self.counted_loop(loop_.var, count, &mut |this, _| {
                let binding = Binding::EdgeTile { start: edge.start.clone(), tile: edge.tile };
                this.iteration(loop_, binding, body)
            })?;
            for id in bounds {
                self.proven[id] = false;
            }
            for var in &edge.shortened {
                self.limits[var.0 as usize] = None;
            }
        }
        for id in &range.proven {
            self.proven[*id] = false;
        }
        Ok(())
    }

    /// Emits a body that is skipped where a guard fails in all iterations of inner loops, and does not test
    /// it where it holds in all of them.
    fn tested(
        &mut self,
        loop_var: VarId,
        guards: &[GuardId],
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let Some((id, others)) = guards.split_first() else { return body(self) };
        let body = &mut |this: &mut Self| this.tested(loop_var, others, body);
        let Some([least, greatest]) = self.ends_of_guard(*id, loop_var)? else {
            return body(self);
        };
        if self.interval(&least).lo >= 0 {
            return Ok(());
        }
        let (fails, holds) = (self.interval(&least).hi >= 0, self.interval(&greatest).lo < 0);
        let is_uniform = least == greatest;
        let proven = &mut |this: &mut Self| {
            this.proven[*id] = true;
            let done = body(this);
            this.proven[*id] = false;
            done
        };
        match (fails, holds) {
            (false, _) => body(self),
            (true, _) if is_uniform => self.branch(least, proven),
            (true, false) => self.branch(least, body),
            (true, true) => {
                self.flush();
                let then = self.nested(proven)?;
                let otherwise = self.nested(&mut |this| this.branch(least.clone(), body))?;
                self.push_branch(greatest, then, otherwise);
                Ok(())
            }
        }
    }

    /// Returns the guards that hold because loops were shortened to an edge tile.
    fn guards_of_shortened(&self, loop_: &Loop, rows: &[VarId]) -> Vec<GuardId> {
        let tree = self.tree;
        let is_row = |id: &GuardId| {
            let form = &tree.guards[*id];
            tree.mentions(form, loop_.var) && rows.iter().any(|it| tree.mentions(form, *it))
        };
        let unproven = (0..tree.guards.len()).filter(|id| !self.proven[*id]);
        unproven.filter(is_row).collect()
    }

    /// Lowers a vectorized loop of `n` iterations, one vector of lanes after the other.
    fn vectorized_loop(&mut self, loop_: &'t Loop, n: i64) -> Result<(), Unsupported> {
        let lanes = self.lanes();
        self.lane = Some(loop_.var);
        self.begin_lane_reductions();
        let overlaps = n > lanes && self.may_run_twice(loop_);
        for base in (0..n).step_by(lanes as usize) {
            let base = if overlaps { base.min(n - lanes) } else { base };
            let n_masks = self.masks.len();
            if n - base < lanes {
                let limit = LaneCondition::First(Count::Const(n - base));
                self.masks.push(Predicate { limit, cause: PredicateCause::Extent(loop_.var) });
            }
            self.iteration(loop_, Binding::Lane(base), &mut |this| this.nodes(&loop_.body))?;
            self.masks.truncate(n_masks);
        }
        self.end_lane_reductions()?;
        self.lane = None;
        Ok(())
    }

    /// Returns whether the last vector of a loop may take lanes of the one before again instead of a part of its
    /// own: its statements store what does not depend on them, and nothing is in registers, which have
    /// their lanes. That pays where lanes are strided: a masked store of these goes lane by lane.
    fn may_run_twice(&self, loop_: &Loop) -> bool {
        let (mut is_strided, mut may) = (false, true);
        let (mut read, mut written) = (BTreeSet::new(), BTreeSet::new());
        Node::for_each_write(&loop_.body, &mut Vec::new(), &mut |write, _| {
            let Write { target, reducer, value, .. } = write;
            let is_local = |it: TensorId| self.tree.buffers[it.0 as usize].local;
            may &= reducer.is_none() && !is_local(target.tensor);
            is_strided |= target.offset.coefficient(loop_.var) != Some(&Coef::Const(1));
            written.insert(target.tensor);
            value.for_each_read(&mut |it| {
                may &= !is_local(it.tensor);
                read.insert(it.tensor);
            });
        });
        is_strided && may && read.is_disjoint(&written)
    }

    /// Lowers guarded statements: proven guards vanish, guards that differ between lanes become
    /// masks, others branches.
    fn predicated(&mut self, guards: &[GuardId], body: &'t [Node]) -> Result<(), Unsupported> {
        let n_masks = self.masks.len();
        let mut branch = None;
        for (at, id) in guards.iter().enumerate() {
            if self.proven[*id] {
                continue;
            }
            let form = self.eval(&self.tree.guards[*id])?;
            let range = self.interval(&form);
            if range.hi < 0 {
                continue;
            }
            if range.lo >= 0 {
                self.masks.truncate(n_masks);
                return Ok(());
            }
            if form.coefficient(LANE).is_some() {
                let mut first = form.clone();
                first.take(LANE);
                let may_be_empty = self.interval(&first).hi >= 0;
                let limit = self.lane_limit(form);
                self.masks.push(Predicate {
                    limit,
                    cause: PredicateCause::Guard { id: *id, may_be_empty },
                });
            } else {
                branch = Some((form, &guards[at + 1..]));
                break;
            }
        }
        let done = match branch {
            None => self.in_lanes(body),
            Some((form, rest)) => self.branch(form, &mut |this| match rest {
                [] => this.nodes(body),
                rest => this.predicated(rest, body),
            }),
        };
        self.masks.truncate(n_masks);
        done
    }

    /// Lowers the body of guards under their masks. A transposition is of whole vectors: where the number
    /// of active lanes is known at launch only, it is tested.
    fn in_lanes(&mut self, body: &'t [Node]) -> Result<(), Unsupported> {
        let transposes = matches!(body, [Node::Loop(it)] if self.tree.transposed.contains(&it.var));
        let &[Predicate { limit: LaneCondition::First(Count::Param(active)), .. }] =
            self.masks.as_slice()
        else {
            return self.nodes(body);
        };
        if !transposes {
            return self.nodes(body);
        }
        let bound = Linear { param: Some(active), ..Linear::default() };
        let test = |value, then, otherwise| {
            let value = Linear::constant(value);
            vec![Stmt::If { value, bound: bound.clone(), then, otherwise }]
        };
        let mut stmts = test(0, self.nested(&mut |this| this.nodes(body))?, Vec::new());
        if self.table.greatest(active) >= self.lanes() {
            let masks = std::mem::take(&mut self.masks);
            let whole = self.nested(&mut |this| this.nodes(body))?;
            self.masks = masks;
            stmts = test(self.lanes() - 1, whole, stmts);
        }
        self.block().stmts.extend(stmts);
        Ok(())
    }

    /// Emits `if form < 0 { body }`.
    fn branch(
        &mut self,
        form: Affine,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let then = self.nested(body)?;
        self.push_branch(form, then, Vec::new());
        Ok(())
    }

    /// Adds `if form < 0 { then } else { otherwise }`, if there is anything in it.
    fn push_branch(&mut self, form: Affine, then: Vec<Stmt>, otherwise: Vec<Stmt>) {
        if then.is_empty() && otherwise.is_empty() {
            return;
        }
        let mut bound = Affine::dims(-form.dims.clone());
        bound.constant = -form.constant;
        let value = Affine { terms: form.terms, ..Affine::default() };
        let (value, bound) = (self.table.linear(&value), self.table.linear(&bound));
        self.block().stmts.push(Stmt::If { value, bound, then, otherwise });
    }

    /// Returns the condition of the lanes in which a form is negative.
    fn lane_limit(&mut self, mut form: Affine) -> LaneCondition {
        let facts = &self.tree.facts;
        let (Some(&Coef::Const(step @ 1..)), 1) = (form.coefficient(LANE), form.terms.len()) else {
            return LaneCondition::Negative(form);
        };
        form.take(LANE);
        let most = Poly::constant(self.lanes());
        let count = Poly::constant(step - 1 - form.constant) - form.dims;
        let count = simplify(count, facts).div(&Poly::constant(step), facts);
        let count = count.greater(&Poly::constant(0), facts).lesser(&most, facts);
        LaneCondition::First(self.table.count(&count))
    }

    /// Evaluates a form in each lane as an `i32`.
    pub(super) fn index(&mut self, mut form: Affine) -> Result<ValueId, Unsupported> {
        let range = self.interval(&form);
        let fits = |n: i64| i32::try_from(n).is_ok();
        if !fits(range.lo) || !fits(range.hi) {
            return Err(Unsupported::Range);
        }
        let step = match form.take(LANE) {
            None => 0,
            Some(Coef::Const(step)) => i32::try_from(step).map_err(|_| Unsupported::Range)?,
            Some(Coef::Dims(_)) => return Err(Unsupported::Index),
        };
        match (form.as_constant(), step) {
            (Some(value), 0) => return Ok(self.graph().int(value as i32)),
            (Some(first), step) => return Ok(self.graph().node(Op::Ramp { first, step })),
            (None, _) => {}
        }
        let linear = self.table.linear(&form);
        let base = self.interned.linears.id(linear);
        Ok(self.graph().node(Op::Index { base, step }))
    }
}

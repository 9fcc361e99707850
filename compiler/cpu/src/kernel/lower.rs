//! The walk over the tree: loops are repeated, counted, cut or handed out as tasks.

use std::collections::BTreeMap;

use super::affine::{Affine, Coef, LANE, tidy};
use super::graph::Op;
use super::partition::Piece;
use super::place::{self, NotParallel};
use super::scope::{Binding, Cause, LaneMask, Limit, Lower};
use super::table::Table;
use super::tree::{GuardId, Item, Kind, Loop};
use super::{Count, Kernel, Phase, Stmt, Unsupported, build, promote};
use tvmtune_ir::poly::{Interval, Poly, VarId};
use tvmtune_ir::target::Isa;
use tvmtune_schedule::nest::{self, Nest};

/// Places a nest on a CPU.
///
/// # Errors
///
/// What the nest asks for that this target leaves to portable code.
pub fn lower(nest: &Nest, isa: Isa) -> Result<Kernel, Unsupported> {
    let nest = &*nest::fold_constant_dims(nest);
    let mut tree = build::build(nest, isa)?;
    let places = loop {
        match place::choose(&tree, isa) {
            Ok(places) => break places,
            Err(NotParallel(var)) => make_serial(&mut tree.phases, var),
        }
    };
    promote::promote(&mut tree, isa, &places)?;
    let places = loop {
        match place::choose(&tree, isa) {
            Ok(places) => break places,
            Err(NotParallel(var)) => make_serial(&mut tree.phases, var),
        }
    };
    let table = Table::new(nest, &tree.facts);
    let mut lower = Lower::new(&tree, isa, table, places);
    let phases = lower.phases()?;
    Ok(Kernel {
        name: nest.name.clone(),
        isa,
        scratch_bytes: lower.places.scratch.clone(),
        n_regs: lower.versions.len() as u32,
        threads: nest.threads,
        table: lower.table.into_entries(),
        phases,
    })
}

fn make_serial(phases: &mut [Vec<Item>], var: VarId) {
    for item in phases.iter_mut().flatten() {
        make_items_serial(std::slice::from_mut(item), var);
    }
}

fn make_items_serial(items: &mut [Item], var: VarId) {
    for item in items {
        match item {
            Item::Loop(it) if it.var == var => it.kind = Kind::Serial,
            Item::Loop(Loop { body, .. }) | Item::If { body, .. } => make_items_serial(body, var),
            Item::Write(_) => {}
        }
    }
}

impl<'t> Lower<'t> {
    fn phases(&mut self) -> Result<Vec<Phase>, Unsupported> {
        let tree = self.tree;
        let mut phases = Vec::new();
        for items in &tree.phases {
            let mut tasks = Vec::new();
            let mut vars = BTreeMap::new();
            self.tasks(&items[0], &mut tasks, &mut vars);
            // Tensors that live throughout a phase: nothing else is mapped between phases.
            let living = self.places.living_in(None).unwrap_or_default();
            let body = self.nested(&mut |this| {
                this.begin(living.clone());
                if vars.is_empty() {
                    this.items(items)?;
                } else {
                    this.with_tasks(&items[0], &vars)?;
                }
                this.end();
                Ok(())
            })?;
            phases.push(Phase { tasks, body });
        }
        Ok(phases)
    }

    /// The grid of the parallel loops at the top: variables of the kernel by those of the tree.
    fn tasks(
        &mut self,
        item: &Item,
        tasks: &mut Vec<(VarId, Count)>,
        vars: &mut BTreeMap<VarId, VarId>,
    ) {
        let Item::Loop(loop_) = item else { return };
        if loop_.kind != Kind::Parallel {
            return;
        }
        let info = self.tree.var(loop_.var);
        let var = self.new_task_var(info.range);
        tasks.push((var, self.table.count(&info.extent)));
        vars.insert(loop_.var, var);
        if let [inner] = loop_.body.as_slice() {
            self.tasks(inner, tasks, vars);
        }
    }

    fn with_tasks(
        &mut self,
        item: &'t Item,
        vars: &BTreeMap<VarId, VarId>,
    ) -> Result<(), Unsupported> {
        let (Item::Loop(loop_), Some((_, var))) = (item, vars.iter().next()) else {
            return self.items(std::slice::from_ref(item));
        };
        let mut rest = vars.clone();
        let var = rest.remove(&loop_.var).unwrap_or(*var);
        let pieces = self.pieces(loop_)?;
        self.task_pieces(loop_, var, &rest, &pieces)
    }

    /// The pieces of a parallel loop, chosen between at run time. There is a task for each iteration,
    /// also for those behind the last piece, in which nothing is done.
    fn task_pieces(
        &mut self,
        loop_: &'t Loop,
        var: VarId,
        inner: &BTreeMap<VarId, VarId>,
        pieces: &[Piece],
    ) -> Result<(), Unsupported> {
        let Some((piece, others)) = pieces.split_first() else { return Ok(()) };
        let mut fill = |this: &mut Self| {
            let value =
                if piece.single { Affine::dims(piece.start.clone()) } else { Affine::var(var) };
            this.piece(loop_, piece, value, &mut |this| match loop_.body.as_slice() {
                [item @ Item::Loop(_)] if !inner.is_empty() => this.with_tasks(item, inner),
                body => this.items(body),
            })
        };
        let end = piece.start.clone() + piece.count.clone();
        let behind = self.tree.var(loop_.var).extent.clone() - end.clone();
        let is_last = tidy(behind, &self.tree.facts).interval(&self.tree.facts).hi <= 0;
        if is_last {
            return fill(self);
        }
        let then = self.nested(&mut fill)?;
        let otherwise = self.nested(&mut |this| this.task_pieces(loop_, var, inner, others))?;
        let value = self.table.linear(&Affine::var(var));
        let bound = self.table.linear(&Affine::dims(end));
        self.flush();
        self.block().stmts.push(Stmt::If { value, bound, then, otherwise });
        Ok(())
    }

    pub(super) fn items(&mut self, items: &'t [Item]) -> Result<(), Unsupported> {
        items.iter().try_for_each(|item| match item {
            Item::Loop(loop_) => self.loop_(loop_),
            Item::If { guards, body } => self.guarded(guards, body),
            Item::Write(write) => self.write(write),
        })
    }

    fn loop_(&mut self, loop_: &'t Loop) -> Result<(), Unsupported> {
        match loop_.kind {
            Kind::Unrolled(n) => {
                let n = self.limits[loop_.var.0 as usize].map_or(n, |limit| limit.min(n));
                for at in 0..n {
                    self.iteration(loop_, Binding::Const(at), &mut |this| this.items(&loop_.body))?;
                }
            }
            Kind::Lanes(n) => self.vectors(loop_, n)?,
            Kind::Serial | Kind::Parallel => {
                for piece in self.pieces(loop_)? {
                    self.serial(loop_, &piece)?;
                }
            }
        }
        self.bind[loop_.var.0 as usize] = Binding::Unbound;
        Ok(())
    }

    /// One iteration, or all that look the same: registers of what lives in it are new.
    fn iteration(
        &mut self,
        loop_: &'t Loop,
        binding: Binding,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        self.bind[loop_.var.0 as usize] = binding;
        let Some(living) = self.places.living_in(Some(loop_.var)) else { return body(self) };
        self.begin(living);
        body(self)?;
        self.end();
        Ok(())
    }

    fn serial(&mut self, loop_: &'t Loop, piece: &Piece) -> Result<(), Unsupported> {
        let count = self.table.count(&piece.count);
        let body = &mut |this: &mut Self| this.items(&loop_.body);
        if piece.single || count == Count::Const(1) {
            let value = Affine::dims(piece.start.clone());
            if count == Count::Const(1) || !piece.parts.is_empty() {
                return self.piece(loop_, piece, value, body);
            }
            return self
                .counted(count, &mut |this, _| this.piece(loop_, piece, value.clone(), body));
        }
        self.counted(count, &mut |this, var| {
            let mut value = Affine::dims(piece.start.clone());
            value.add_term(var, Coef::Const(1));
            this.piece(loop_, piece, value, body)
        })
    }

    /// A loop, unless its body is empty.
    fn counted(
        &mut self,
        count: Count,
        body: &mut dyn FnMut(&mut Self, VarId) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let hi = match count {
            Count::Const(n) => n,
            Count::Param(slot) => self.table.greatest(slot),
        };
        if hi <= 0 {
            return Ok(());
        }
        let mut var = None;
        let stmts = self.nested(&mut |this| {
            let new = this.new_var(Interval { lo: 0, hi: hi - 1 });
            var = Some(new);
            body(this, new)
        })?;
        if let (Some(var), false) = (var, stmts.is_empty()) {
            self.block().stmts.push(Stmt::Loop { var, count, body: stmts });
        }
        Ok(())
    }

    /// The body for the iterations of a piece.
    fn piece(
        &mut self,
        loop_: &'t Loop,
        piece: &Piece,
        value: Affine,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        for id in &piece.proven {
            self.proven[*id] = true;
        }
        if piece.parts.is_empty() {
            let binding = value.as_constant().map_or(Binding::Form(value), Binding::Const);
            self.iteration(loop_, binding, body)?;
        }
        for part in &piece.parts {
            let count = self.table.count(&part.present);
            for var in &part.limited {
                self.limits[var.0 as usize] = Some(part.rows);
            }
            let cuts = self.guards_of_rows(loop_, &part.limited);
            for id in &cuts {
                self.proven[*id] = true;
            }
            self.counted(count, &mut |this, _| {
                let binding = Binding::Part { start: part.start.clone(), of: part.of };
                this.iteration(loop_, binding, body)
            })?;
            for id in cuts {
                self.proven[id] = false;
            }
            for var in &part.limited {
                self.limits[var.0 as usize] = None;
            }
        }
        for id in &piece.proven {
            self.proven[*id] = false;
        }
        Ok(())
    }

    /// The guards that shortened loops make true.
    fn guards_of_rows(&self, loop_: &Loop, rows: &[VarId]) -> Vec<GuardId> {
        let tree = self.tree;
        let is_row = |id: &GuardId| {
            let form = &tree.guards[*id];
            tree.mentions(form, loop_.var) && rows.iter().any(|it| tree.mentions(form, *it))
        };
        let unproven = (0..tree.guards.len()).filter(|id| !self.proven[*id]);
        unproven.filter(is_row).collect()
    }

    /// A vectorized loop: one vector after the other.
    fn vectors(&mut self, loop_: &'t Loop, n: i64) -> Result<(), Unsupported> {
        let lanes = self.lanes();
        self.lane = Some(loop_.var);
        self.begin_sums();
        for base in (0..n).step_by(lanes as usize) {
            let n_masks = self.masks.len();
            if n - base < lanes {
                let limit = Limit::First(Count::Const(n - base));
                self.masks.push(LaneMask { limit, cause: Cause::Extent(loop_.var) });
            }
            self.iteration(loop_, Binding::Lane(base), &mut |this| this.items(&loop_.body))?;
            self.masks.truncate(n_masks);
        }
        self.end_sums()?;
        self.lane = None;
        Ok(())
    }

    fn guarded(&mut self, guards: &[GuardId], body: &'t [Item]) -> Result<(), Unsupported> {
        let n_masks = self.masks.len();
        let mut asked = None;
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
                self.masks.push(LaneMask { limit, cause: Cause::Guard { id: *id, may_be_empty } });
            } else {
                asked = Some((form, &guards[at + 1..]));
                break;
            }
        }
        let done = match asked {
            None => self.items(body),
            Some((form, rest)) => self.asked(form, &mut |this| match rest {
                [] => this.items(body),
                rest => this.guarded(rest, body),
            }),
        };
        self.masks.truncate(n_masks);
        done
    }

    /// `if form < 0 { body }`
    fn asked(
        &mut self,
        form: Affine,
        body: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let mut bound = Affine::dims(-form.dims.clone());
        bound.constant = -form.constant;
        let value = Affine { terms: form.terms, ..Affine::default() };
        let then = self.nested(body)?;
        if !then.is_empty() {
            let (value, bound) = (self.table.linear(&value), self.table.linear(&bound));
            self.block().stmts.push(Stmt::If { value, bound, then, otherwise: Vec::new() });
        }
        Ok(())
    }

    /// The lanes in which a form is negative.
    fn lane_limit(&mut self, mut form: Affine) -> Limit {
        let facts = &self.tree.facts;
        if form.coefficient(LANE) != Some(&Coef::Const(1)) || form.terms.len() != 1 {
            return Limit::Negative(form);
        }
        form.take(LANE);
        let most = Poly::constant(self.lanes());
        let count = tidy(-(form.dims + Poly::constant(form.constant)), facts);
        let count = count.greater(&Poly::constant(0), facts).lesser(&most, facts);
        Limit::First(self.table.count(&count))
    }

    /// A form as a value of 32 bits.
    pub(super) fn index(&mut self, mut form: Affine) -> Result<super::graph::Id, Unsupported> {
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
        if let (Some(value), 0) = (form.as_constant(), step) {
            return Ok(self.graph().int(value as i32));
        }
        let linear = self.table.linear(&form);
        let base = self.interned.linear(linear);
        Ok(self.graph().node(Op::Index { base, step }))
    }
}

//! Lowers a schedule to a loop nest.
//!
//! Stage by stage, loop by loop: open the loop, lower the stages that instance at it, then the loops further
//! in, then the statement. A reduction is two statements: its initialization, over the spatial loops
//! inside the outermost reduce loop, and the update.
//!
//! `online` extends [`Lowering`] by online reductions; the two files are mutually recursive, since such
//! a reduction is lowered in the loops of another stage. `halves` extends it by reductions of partial
//! results whose order is fixed, and `recurrence` by local states.

use std::collections::BTreeSet;

use super::bounds::{OpenLoop, Regions, infer_bounds};
use super::index::Addressing;
use super::online::OnlineLoop;
use super::recurrence::LocalState;
use super::{Buffer, Guard, HandWritten, Nest, Scope, Stmt};
use crate::print::names::{self, is_rust_keyword};
use crate::relation::Extents;
use crate::{Attach, AxisId, AxisRole, LoopKind, Schedule, Stage, StageId};
use tvmtune_ir::dag::{DType, Expr, Literal, TensorId, TensorKind};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_ir::span::Span;

/// The longest loop that is unrolled.
const MAX_UNROLLED: i64 = 512;

/// Lowers a schedule to a loop nest.
pub fn lower(schedule: &Schedule) -> Nest {
    lower_for(schedule, false)
}

/// Lowers a schedule to a loop nest for vector code that reduces the lanes of a vectorized loop by halves:
/// reductions in that order stay such loops. Other consumers of the nest would add the terms in sequence.
pub fn lower_for_lanes(schedule: &Schedule) -> Nest {
    lower_for(schedule, true)
}

fn lower_for(schedule: &Schedule, reduces_lanes_by_halves: bool) -> Nest {
    let n_tensors = schedule.tensors.len();
    let mut lowering = Lowering {
        schedule,
        facts: schedule.dag.facts(),
        n_vars: 0,
        addressing: Addressing { schedule, origins: vec![Vec::new(); n_tensors], local: None },
        shapes: schedule.tensors.iter().map(|it| it.tensor.shape.clone()).collect(),
        enclosing: Vec::new(),
        keep_full_tiles: schedule.has_threads(),
        reduces_lanes_by_halves,
        online_loops: Vec::new(),
        local_state: None,
        added: Vec::new(),
        threads: Vec::new(),
    };
    let mut body = Vec::new();
    for id in &schedule.order {
        if schedule.stage(*id).attach == Attach::Root {
            body.extend(lowering.stage(*id, None));
        }
    }
    Nest {
        name: schedule.dag.name.clone(),
        dims: schedule.dag.dims.clone(),
        scalars: schedule.dag.scalars.clone(),
        buffers: lowering.buffers(),
        params: schedule.dag.params().map(|it| schedule.dag.home(it)).collect(),
        outputs: schedule.dag.outputs.clone(),
        n_vars: lowering.n_vars,
        threads: schedule.threads,
        numerics: schedule.dag.numerics,
        hand_written: hand_written(schedule),
        body,
    }
}

/// Returns the kernels of the program's template, if the schedule runs these.
fn hand_written(schedule: &Schedule) -> Option<HandWritten> {
    let values = schedule.knobs.clone()?;
    let template = schedule.dag.kernel_template.clone()?;
    let launches = template.launches(&values, &schedule.dag.facts())?;
    Some(HandWritten { template, values, launches })
}

pub(super) struct Lowering<'a> {
    pub(super) schedule: &'a Schedule,
    /// Ranges of dimensions and of the variables handed out so far.
    pub(super) facts: Facts,
    pub(super) n_vars: u32,
    pub(super) addressing: Addressing<'a>,
    /// By tensor: the extents of the region that its buffer holds.
    shapes: Vec<Vec<Poly>>,
    /// The regions at the open loops at which stages instance, outermost first.
    pub(super) enclosing: Vec<Regions>,
    /// True if regions keep their size where they exceed a tensor.
    keep_full_tiles: bool,
    /// True if a vectorized loop reduces its lanes by halves.
    pub(super) reduces_lanes_by_halves: bool,
    /// The open loops along which other stages are reduced online.
    pub(super) online_loops: Vec<OnlineLoop>,
    /// The local state of the recurrence that is being lowered, if it has one.
    pub(super) local_state: Option<LocalState>,
    /// Buffers that belong to no tensor, by the ids after those of tensors.
    pub(super) added: Vec<Buffer>,
    /// The loops over threads, with their extents.
    pub(super) threads: Vec<(VarId, Poly)>,
}

/// A stage instantiated for a region, while it is lowered.
#[derive(Clone)]
pub(super) struct Instance<'a> {
    pub(super) id: StageId,
    pub(super) stage: &'a Stage,
    pub(super) extents: Extents,
    /// The origin of its region, for each axis.
    pub(super) origins: Vec<Poly>,
    /// The values of its loops, by axis, as far as they are open.
    pub(super) loops: Vec<Poly>,
}

impl<'a> Lowering<'a> {
    /// Lowers a stage for a region of its tensor, or all of it.
    fn stage(&mut self, id: StageId, region: Option<&[Span]>) -> Vec<Stmt> {
        let mut instance = self.instance(id, region);
        self.loops(&mut instance, 0)
    }

    /// Instantiates a stage for a region of its axes, or all of them.
    pub(super) fn instance(&mut self, id: StageId, region: Option<&[Span]>) -> Instance<'a> {
        let stage = self.schedule.stage(id);
        let n_spatial = stage.compute.n_spatial;
        let mut declared: Vec<Poly> =
            stage.compute.axes.iter().map(|it| it.extent.clone()).collect();
        let mut origins = vec![Poly::default(); declared.len()];
        if let Some(region) = region {
            for (n, span) in region.iter().enumerate() {
                declared[n] = span.size.clone();
                origins[n] = span.first.clone();
            }
            let tensor = stage.tensor().0 as usize;
            self.shapes[tensor] = declared[..n_spatial].to_vec();
            self.addressing.origins[tensor] = origins[..n_spatial].to_vec();
        }
        let extents = Extents::derive(stage, declared, &self.facts);
        let loops = vec![Poly::default(); stage.axes.len()];
        Instance { id, stage, extents, origins, loops }
    }

    /// Lowers the loops of a stage from number `depth` on, with all they contain.
    pub(super) fn loops(&mut self, instance: &mut Instance<'a>, depth: usize) -> Vec<Stmt> {
        let stage = instance.stage;
        let mut stmts = Vec::new();
        let reduces = |it: &AxisId| stage.axis(*it).role == AxisRole::Reduce;
        let is_by_halves = stage.reduction.is_by_halves();
        if is_by_halves && stage.order.iter().position(reduces) == Some(depth) {
            return self.by_halves(instance, depth);
        }
        if stage.order.iter().position(reduces) == Some(depth) && !stage.online {
            stmts.extend(self.initialize(instance, depth));
        }
        if let Some(steps) = self.with_local_state(instance, depth) {
            return steps;
        }
        if let Some(step) = self.step(instance, depth) {
            return step;
        }
        let Some(axis) = stage.order.get(depth).copied() else {
            stmts.push(self.statement(instance));
            return stmts;
        };
        let kind = stage.axis(axis).kind;
        // A producer warp needs the loop even for a single iteration.
        let is_kept = matches!(kind, LoopKind::WarpSpecialized(_))
            || stage.attach == Attach::Root && (depth == 0 || kind.is_parallel());
        let single = if is_kept { Single::Kept } else { Single::Omitted };
        let is_online = self.schedule.online_at(instance.id, axis).next().is_some();
        if is_online {
            stmts.extend(self.begin_online(instance.id, axis));
        }
        let opened = self.open(instance, axis, single);
        let hosts = self.schedule.has_attached_at(instance.id, axis);
        let mut body = if hosts { self.attached(instance, depth) } else { Vec::new() };
        if is_online {
            body.extend(self.rescale(instance, depth + 1));
        }
        body.extend(self.loops(instance, depth + 1));
        if hosts {
            self.enclosing.pop();
        }
        stmts.extend(opened.close(body));
        if is_online {
            stmts.extend(self.end_online(instance, depth + 1));
        }
        stmts
    }

    /// Lowers the stages that instance at loop number `depth`, the innermost open one. Their regions stay
    /// in `enclosing`.
    fn attached(&mut self, instance: &Instance<'a>, depth: usize) -> Vec<Stmt> {
        let regions = self.regions(instance, depth);
        self.enclosing.push(regions.clone());
        let attach = Attach::At(instance.id, instance.stage.order[depth]);
        let mut stmts = Vec::new();
        for id in &self.attached_order(instance, attach) {
            let region = regions.get(id).map(Vec::as_slice);
            if self.schedule.stage(*id).online {
                let mut instance = self.instance(*id, region);
                stmts.extend(self.online_block(&mut instance));
            } else {
                stmts.extend(self.stage(*id, region));
            }
        }
        stmts
    }

    /// Infers the regions of the stages that run in loop number `depth`, the innermost open one.
    pub(super) fn regions(&self, instance: &Instance<'a>, depth: usize) -> Regions {
        let host = OpenLoop {
            id: instance.id,
            extents: &instance.extents,
            origins: &instance.origins,
            loops: &instance.loops,
            n_open: depth + 1,
        };
        infer_bounds(self.schedule, &host, &self.enclosing, &self.facts)
    }

    /// The stages that instance at a loop, in order. In a pipelined loop, stages that read none of the
    /// others come first: prefetched copies stand at the head of an iteration.
    fn attached_order(&self, instance: &Instance<'a>, attach: Attach) -> Vec<StageId> {
        let runs_here = |it: &StageId| self.schedule.stage(*it).attach == attach;
        let all: Vec<StageId> = self.schedule.order.iter().copied().filter(runs_here).collect();
        let Attach::At(_, axis) = attach else { return all };
        if !matches!(instance.stage.axis(axis).kind, LoopKind::Pipelined(_)) {
            return all;
        }
        let is_independent = |it: &StageId| {
            let compute = &self.schedule.stage(*it).compute;
            compute.reducer.is_none()
                && !self.schedule.has_attached(*it)
                && !all.iter().any(|it| compute.reads(self.schedule.stage(*it).tensor()))
        };
        let (first, then): (Vec<StageId>, Vec<StageId>) =
            all.iter().partition(|it| is_independent(it));
        first.into_iter().chain(then).collect()
    }

    /// Sets the elements that the reduce loops from number `depth` on update to the reducer's
    /// identity.
    pub(super) fn initialize(&mut self, instance: &Instance<'a>, depth: usize) -> Vec<Stmt> {
        let tensor = instance.stage.tensor();
        let dtype = self.schedule.tensor(tensor).tensor.dtype;
        let Some(reducer) = instance.stage.compute.reducer else { return Vec::new() };
        self.for_each_element(instance, depth, |lowering, instance, values| {
            let index = lowering.written_index(instance, values);
            let value = Expr::Const(reducer.identity(dtype), dtype);
            Stmt::Store { tensor, index, value }
        })
    }

    /// Lowers a statement in the spatial loops of a stage from number `depth` on; it gets the values
    /// of the stage's axes.
    pub(super) fn for_each_element(
        &mut self,
        instance: &Instance<'a>,
        depth: usize,
        stmt: impl FnOnce(&Self, &Instance<'a>, &[Poly]) -> Stmt,
    ) -> Vec<Stmt> {
        let stage = instance.stage;
        let is_spatial = |it: &AxisId| stage.axis(*it).role == AxisRole::Spatial;
        let axes: Vec<AxisId> = stage.order[depth..].iter().copied().filter(is_spatial).collect();
        self.for_each(instance, &axes, stmt)
    }

    /// Lowers a statement in these loops of a stage; it gets the values of the stage's axes.
    pub(super) fn for_each(
        &mut self,
        instance: &Instance<'a>,
        axes: &[AxisId],
        stmt: impl FnOnce(&Self, &Instance<'a>, &[Poly]) -> Stmt,
    ) -> Vec<Stmt> {
        let mut instance = instance.clone();
        let mut opened = Vec::new();
        for axis in axes {
            opened.push(self.open(&mut instance, *axis, Single::Omitted));
        }
        let values = self.values(&instance);
        let guards = self.guards(&instance, &values, AxisRole::Spatial);
        let stmt = guarded(guards, stmt(self, &instance, &values));
        opened.into_iter().rev().fold(vec![stmt], |body, it| it.close(body))
    }

    /// Lowers the innermost statement of a stage, all of whose loops are open.
    pub(super) fn statement(&self, instance: &Instance<'a>) -> Stmt {
        let compute = &instance.stage.compute;
        let tensor = compute.tensor;
        let values = self.values(instance);
        let mut guards = self.guards(instance, &values, AxisRole::Spatial);
        guards.extend(self.guards(instance, &values, AxisRole::Reduce));
        let index = self.written_index(instance, &values);
        let mut body = &compute.body;
        for _ in 0..instance.stage.reduction.n_tails() {
            // A term behind the end is none: with a guard, a product is summed as it stands.
            let Expr::Select { condition, then, .. } = body else { break };
            let condition = self.addressing.lower_expr(condition, &values, &self.facts);
            if condition != Expr::Const(Literal::Bool(true), DType::Bool) {
                let Some(tail) = Guard::all_of(&condition) else { break };
                guards.extend(tail);
            }
            body = then;
        }
        let value = self.addressing.lower_expr(body, &values, &self.facts);
        let value = self.with_finite_maxima(value);
        let stmt = match compute.reducer {
            None => Stmt::Store { tensor, index, value },
            Some(reducer) => Stmt::Update { tensor, index, reducer, value },
        };
        guarded(guards, stmt)
    }

    /// The values of all axes, those of the compute first, as positions in the whole tensor.
    pub(super) fn values(&self, instance: &Instance<'a>) -> Vec<Poly> {
        let mut values =
            instance.extents.values(instance.stage, instance.loops.clone(), &self.facts);
        for (value, first) in values.iter_mut().zip(&instance.origins) {
            *value += first.clone();
        }
        values
    }

    /// The index that the stage writes.
    pub(super) fn written_index(&self, instance: &Instance<'a>, values: &[Poly]) -> Vec<Poly> {
        let index = values[..instance.stage.compute.n_spatial].to_vec();
        self.addressing.stored_index(instance.stage.tensor(), index, &self.facts)
    }

    /// The guards that keep axes of one role below their extents: tiles in their region, and the
    /// region in the tensor.
    pub(super) fn guards(
        &self,
        instance: &Instance<'a>,
        values: &[Poly],
        role: AxisRole,
    ) -> Vec<Guard> {
        let mut guards = Vec::new();
        for axis in instance.extents.tails(instance.stage) {
            if instance.stage.axis(axis).role == role {
                let mut value = values[axis.0 as usize].clone();
                if let Some(first) = instance.origins.get(axis.0 as usize) {
                    value += -first.clone();
                }
                guards.push(Guard { value, bound: instance.extents.get(axis).clone() });
            }
        }
        let n_spatial = instance.stage.compute.n_spatial;
        let of_role = match role {
            AxisRole::Spatial => 0..n_spatial,
            AxisRole::Reduce => n_spatial..instance.origins.len(),
        };
        for n in of_role {
            let (value, bound) = (&values[n], &instance.stage.compute.axes[n].extent);
            // Tiles of threads keep their size where they exceed the tensor.
            let moved = self.keep_full_tiles && !instance.origins[n].is_zero();
            let is_cut = instance.extents.by_axis[n] != *bound || moved;
            if is_cut && !(bound.clone() - value.clone()).is_positive(&self.facts) {
                guards.push(Guard { value: value.clone(), bound: bound.clone() });
            }
        }
        guards
    }

    /// Opens a loop.
    fn open(&mut self, instance: &mut Instance<'a>, axis: AxisId, if_single: Single) -> Opened {
        let extent = instance.extents.get(axis).clone();
        let single = extent.as_constant() == Some(1);
        if single && if_single == Single::Omitted {
            instance.loops[axis.0 as usize] = Poly::default();
            return Opened { header: None, masked: Vec::new() };
        }
        let var = VarId(self.n_vars);
        self.n_vars += 1;
        self.facts.bound_var(var, extent.clone());
        instance.loops[axis.0 as usize] = if single { Poly::default() } else { Poly::var(var) };
        let declared = instance.stage.axis(axis);
        if declared.kind == LoopKind::Thread {
            self.threads.push((var, extent.clone()));
        }
        // Proofs use the full extent.
        let mut masked = Vec::new();
        let mut end = extent.clone();
        if declared.tightened && !single {
            if let Some(it) = self.tightened_extent(instance, axis, var) {
                end = extent.lesser(&it, &self.facts);
            }
            // Threads meet at barriers in each iteration.
            if !self.schedule.has_threads() {
                masked = self.first_unmasked(instance, axis, var);
            }
        }
        let extent = end;
        let short = extent.as_constant().is_some_and(|it| it <= MAX_UNROLLED);
        let kind = match declared.kind {
            LoopKind::Unrolled | LoopKind::Tensorized if !short => LoopKind::Serial,
            kind => kind,
        };
        Opened { header: Some((var, declared.name.clone(), extent, kind)), masked }
    }

    /// The buffer of each tensor, then the added ones.
    fn buffers(&self) -> Vec<Buffer> {
        let mut used = BTreeSet::new();
        let mut unique_name =
            |name: &str| names::unique(&names::identifier(name, 't'), is_rust_keyword, &mut used);
        // A parameter that is replaced and its result have one buffer, named after the parameter.
        let name = |n: usize| {
            let id = TensorId(n as u32);
            let own = || self.schedule.tensors[n].tensor.name.clone();
            match self.schedule.dag.in_place().find(|(old, new)| [*old, *new].contains(&id)) {
                Some((old, _)) if old == id => format!("{}_replaced", own()),
                Some((old, _)) => self.schedule.tensor(old).tensor.name.clone(),
                None => own(),
            }
        };
        let buffer = |(n, it): (usize, &crate::ScheduledTensor)| {
            let shape = match &it.layout {
                None => self.shapes[n].clone(),
                Some(layout) => layout.shape(&self.shapes[n], &self.facts),
            };
            Buffer {
                name: unique_name(&name(n)),
                dtype: it.tensor.dtype,
                shape,
                scope: self.scope(TensorId(n as u32)),
                layout: it.layout.clone(),
                is_partial: it
                    .stage
                    .is_some_and(|it| self.schedule.stage(it).reduction.n_tails() > 0),
            }
        };
        let tensors = self.schedule.tensors.iter().enumerate().map(buffer);
        let mut buffers: Vec<Buffer> = tensors.collect();
        let added = self.added.iter();
        buffers.extend(added.map(|it| Buffer { name: unique_name(&it.name), ..it.clone() }));
        buffers
    }

    fn scope(&self, tensor: TensorId) -> Scope {
        let it = self.schedule.tensor(tensor);
        if self.schedule.dag.home(tensor) != tensor {
            return Scope::Unused;
        }
        let Some(stage) = it.stage else { return Scope::Argument };
        debug_assert!(matches!(it.tensor.kind, TensorKind::Computed(_)));
        if self.schedule.is_output(tensor) {
            return Scope::Argument;
        }
        match self.schedule.stage(stage).attach {
            Attach::Root => Scope::Workspace,
            Attach::At(..) => Scope::Local,
            Attach::Inline => Scope::Unused,
        }
    }
}

/// The treatment of a loop with a single iteration.
#[derive(Clone, Copy, PartialEq)]
enum Single {
    Kept,
    Omitted,
}

/// A loop whose body is being lowered.
struct Opened {
    /// `None` of the single iteration of an omitted loop.
    header: Option<(VarId, String, Poly, LoopKind)>,
    /// They leave out iterations that contribute nothing.
    masked: Vec<Guard>,
}

impl Opened {
    /// Closes the loop around its body.
    fn close(self, body: Vec<Stmt>) -> Vec<Stmt> {
        let Some((var, name, extent, kind)) = self.header else { return body };
        let body = match self.masked {
            none if none.is_empty() => body,
            guards => vec![Stmt::If { guards, body }],
        };
        vec![Stmt::For { var, name, extent, kind, body }]
    }
}

fn guarded(guards: Vec<Guard>, stmt: Stmt) -> Stmt {
    if guards.is_empty() { stmt } else { Stmt::If { guards, body: vec![stmt] } }
}

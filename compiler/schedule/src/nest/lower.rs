//! Writes the loops of a schedule out.
//!
//! Stage by stage, loop by loop: open the loop, write the stages that run at it, then the loops
//! further in, then the statement. A reduction is two statements: its start, over the spatial
//! loops that lie inside the outermost reduce loop, and the update.

use std::collections::BTreeSet;

use super::bounds::{Host, Hulls, hulls};
use super::index::Places;
use super::online::Rolling;
use super::{Buffer, Guard, Nest, Scope, Stmt};
use crate::relation::Extents;
use crate::{Attach, AxisId, AxisRole, LoopKind, Schedule, Stage, StageId};
use tvmtune_ir::dag::{Expr, TensorId, TensorKind};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_ir::span::Span;

/// Longer loops are never unrolled.
const MOST_UNROLLED: i64 = 512;

/// The loops and indices of a schedule, written out.
pub fn lower(schedule: &Schedule) -> Nest {
    let n_tensors = schedule.tensors.len();
    let mut lowering = Lowering {
        schedule,
        facts: schedule.dag.facts(),
        n_vars: 0,
        places: Places { schedule, firsts: vec![Vec::new(); n_tensors] },
        shapes: schedule.tensors.iter().map(|it| it.tensor.shape.clone()).collect(),
        around: Vec::new(),
        fixed: schedule.has_threads(),
        rolling: Vec::new(),
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
        params: schedule.dag.params().collect(),
        outputs: schedule.dag.outputs.clone(),
        n_vars: lowering.n_vars,
        threads: schedule.threads,
        body,
    }
}

pub(super) struct Lowering<'a> {
    pub(super) schedule: &'a Schedule,
    /// What is known about dimensions and about the variables handed out so far.
    pub(super) facts: Facts,
    n_vars: u32,
    pub(super) places: Places<'a>,
    /// By tensor: how much of it its buffer holds.
    shapes: Vec<Vec<Poly>>,
    /// What stages compute inside the open loops at which stages run, outermost first.
    pub(super) around: Vec<Hulls>,
    /// Whether regions keep their size where they stick out of a tensor.
    fixed: bool,
    /// The open loops along with which others than their own stages are reduced.
    pub(super) rolling: Vec<Rolling>,
    /// Buffers beside those of tensors: by the ids that come next.
    pub(super) added: Vec<Buffer>,
    /// The loops over threads, with their extents.
    pub(super) threads: Vec<(VarId, Poly)>,
}

/// A stage that is being written out.
#[derive(Clone)]
pub(super) struct Running<'a> {
    pub(super) id: StageId,
    pub(super) stage: &'a Stage,
    pub(super) extents: Extents,
    /// Where its region starts, for each axis.
    pub(super) firsts: Vec<Poly>,
    /// The values of its loops, by axis, as far as they are open.
    pub(super) loops: Vec<Poly>,
}

impl<'a> Lowering<'a> {
    /// The statements of a stage, for the region of its tensor given, or all of it.
    fn stage(&mut self, id: StageId, region: Option<&[Span]>) -> Vec<Stmt> {
        let mut run = self.running(id, region);
        self.loops(&mut run, 0)
    }

    /// A stage for a region of its axes, or all of them.
    pub(super) fn running(&mut self, id: StageId, region: Option<&[Span]>) -> Running<'a> {
        let stage = self.schedule.stage(id);
        let n_spatial = stage.compute.n_spatial;
        let mut declared: Vec<Poly> =
            stage.compute.axes.iter().map(|it| it.extent.clone()).collect();
        let mut firsts = vec![Poly::default(); declared.len()];
        if let Some(region) = region {
            for (n, span) in region.iter().enumerate() {
                declared[n] = span.size.clone();
                firsts[n] = span.first.clone();
            }
            let tensor = stage.tensor().0 as usize;
            self.shapes[tensor] = declared[..n_spatial].to_vec();
            self.places.firsts[tensor] = firsts[..n_spatial].to_vec();
        }
        let extents = Extents::derive(stage, declared, &self.facts);
        let loops = vec![Poly::default(); stage.axes.len()];
        Running { id, stage, extents, firsts, loops }
    }

    /// The loops of a stage from number `place` on, with all they contain.
    pub(super) fn loops(&mut self, run: &mut Running<'a>, place: usize) -> Vec<Stmt> {
        let stage = run.stage;
        let mut stmts = Vec::new();
        let reduces = |it: &AxisId| stage.axis(*it).role == AxisRole::Reduce;
        if stage.order.iter().position(reduces) == Some(place) && !stage.rolling {
            stmts.extend(self.start(run, place));
        }
        let Some(axis) = stage.order.get(place).copied() else {
            stmts.push(self.statement(run));
            return stmts;
        };
        let kind = stage.axis(axis).kind;
        // Who feeds a loop feeds one of a single iteration too.
        let kept = matches!(kind, LoopKind::WarpSpecialized(_))
            || stage.attach == Attach::Root && (place == 0 || kind.is_parallel());
        let rolls = self.schedule.rolling_at(run.id, axis).next().is_some();
        if rolls {
            stmts.extend(self.start_rolling(run.id, axis));
        }
        let opened = self.open(run, axis, kept);
        let hosts = self.schedule.has_attached_at(run.id, axis);
        let mut body = if hosts { self.attached(run, place) } else { Vec::new() };
        if rolls {
            body.extend(self.corrected(run, place + 1));
        }
        body.extend(self.loops(run, place + 1));
        if hosts {
            self.around.pop();
        }
        stmts.extend(opened.close(body));
        if rolls {
            stmts.extend(self.finish_rolling(run, place + 1));
        }
        stmts
    }

    /// The stages that run at the loop number `place`, which is the innermost open one. What is
    /// needed in there stays noted in `around`.
    fn attached(&mut self, run: &Running<'a>, place: usize) -> Vec<Stmt> {
        let host = Host {
            id: run.id,
            extents: &run.extents,
            firsts: &run.firsts,
            loops: &run.loops,
            n_open: place + 1,
        };
        let hulls = hulls(self.schedule, &host, &self.around, &self.facts);
        self.around.push(hulls.clone());
        let attach = Attach::At(run.id, run.stage.order[place]);
        let mut stmts = Vec::new();
        for id in &self.running_order(run, attach) {
            let region = hulls.get(id).map(Vec::as_slice);
            if self.schedule.stage(*id).rolling {
                let mut run = self.running(*id, region);
                stmts.extend(self.roll(&mut run));
            } else {
                stmts.extend(self.stage(*id, region));
            }
        }
        stmts
    }

    /// The stages that run at a loop, in order. In a pipelined one those come first that need none
    /// of the others: what is copied ahead stands at the head of an iteration.
    fn running_order(&self, run: &Running<'a>, attach: Attach) -> Vec<StageId> {
        let at = |it: &StageId| self.schedule.stage(*it).attach == attach;
        let all: Vec<StageId> = self.schedule.order.iter().copied().filter(at).collect();
        let Attach::At(_, axis) = attach else { return all };
        if !matches!(run.stage.axis(axis).kind, LoopKind::Pipelined(_)) {
            return all;
        }
        let needs_none = |it: &StageId| {
            let compute = &self.schedule.stage(*it).compute;
            compute.reducer.is_none()
                && !self.schedule.has_attached(*it)
                && !all.iter().any(|it| compute.reads(self.schedule.stage(*it).tensor()))
        };
        let (first, then): (Vec<StageId>, Vec<StageId>) = all.iter().partition(|it| needs_none(it));
        first.into_iter().chain(then).collect()
    }

    /// Sets the elements that the reduce loops from number `place` on add into to where the
    /// reduction starts.
    pub(super) fn start(&mut self, run: &Running<'a>, place: usize) -> Vec<Stmt> {
        let tensor = run.stage.tensor();
        let dtype = self.schedule.tensor(tensor).tensor.dtype;
        let Some(reducer) = run.stage.compute.reducer else { return Vec::new() };
        self.for_each_element(run, place, |lowering, run, values| {
            let index = lowering.written(run, values);
            let value = Expr::Const(reducer.identity(dtype), dtype);
            Stmt::Store { tensor, index, value }
        })
    }

    /// A statement in the spatial loops of a stage from number `place` on; it gets the values of
    /// the stage's axes.
    pub(super) fn for_each_element(
        &mut self,
        run: &Running<'a>,
        place: usize,
        stmt: impl FnOnce(&Self, &Running<'a>, &[Poly]) -> Stmt,
    ) -> Vec<Stmt> {
        let mut run = run.clone();
        let stage = run.stage;
        let spatial = |it: &&AxisId| stage.axis(**it).role == AxisRole::Spatial;
        let mut opened = Vec::new();
        for axis in stage.order[place..].iter().filter(spatial) {
            opened.push(self.open(&mut run, *axis, false));
        }
        let values = self.values(&run);
        let guards = self.guards(&run, &values, AxisRole::Spatial);
        let stmt = guarded(guards, stmt(self, &run, &values));
        opened.into_iter().rev().fold(vec![stmt], |body, it| it.close(body))
    }

    /// The innermost statement of a stage, all of whose loops are open.
    fn statement(&self, run: &Running<'a>) -> Stmt {
        let compute = &run.stage.compute;
        let tensor = compute.tensor;
        let values = self.values(run);
        let mut guards = self.guards(run, &values, AxisRole::Spatial);
        guards.extend(self.guards(run, &values, AxisRole::Reduce));
        let index = self.written(run, &values);
        let value = self.places.placed(&compute.body, &values, &self.facts);
        let value = self.with_running(value);
        let stmt = match compute.reducer {
            None => Stmt::Store { tensor, index, value },
            Some(reducer) => Stmt::Update { tensor, index, reducer, value },
        };
        guarded(guards, stmt)
    }

    /// The values of all axes, those of the compute first: they count in the whole tensor.
    fn values(&self, run: &Running<'a>) -> Vec<Poly> {
        let mut values = run.extents.values(run.stage, run.loops.clone(), &self.facts);
        for (value, first) in values.iter_mut().zip(&run.firsts) {
            *value += first.clone();
        }
        values
    }

    /// Where the stage writes.
    pub(super) fn written(&self, run: &Running<'a>, values: &[Poly]) -> Vec<Poly> {
        let index = values[..run.stage.compute.n_spatial].to_vec();
        self.places.stored(run.stage.tensor(), index, &self.facts)
    }

    /// What keeps axes of one role below their extents: tiles in their region, and the region in
    /// the tensor.
    fn guards(&self, run: &Running<'a>, values: &[Poly], role: AxisRole) -> Vec<Guard> {
        let mut guards = Vec::new();
        for axis in run.extents.tails(run.stage) {
            if run.stage.axis(axis).role == role {
                let mut value = values[axis.0 as usize].clone();
                if let Some(first) = run.firsts.get(axis.0 as usize) {
                    value += -first.clone();
                }
                guards.push(Guard { value, bound: run.extents.get(axis).clone() });
            }
        }
        let n_spatial = run.stage.compute.n_spatial;
        let of_role = match role {
            AxisRole::Spatial => 0..n_spatial,
            AxisRole::Reduce => n_spatial..run.firsts.len(),
        };
        for n in of_role {
            let (value, bound) = (&values[n], &run.stage.compute.axes[n].extent);
            // Tiles of threads keep their size where they stick out.
            let moved = self.fixed && !run.firsts[n].is_zero();
            let is_cut = run.extents.of[n] != *bound || moved;
            if is_cut && !(bound.clone() - value.clone()).is_positive(&self.facts) {
                guards.push(Guard { value: value.clone(), bound: bound.clone() });
            }
        }
        guards
    }

    /// Opens a loop; one of a single iteration is written out only if it is `kept`.
    fn open(&mut self, run: &mut Running<'a>, axis: AxisId, kept: bool) -> Opened {
        let extent = run.extents.get(axis).clone();
        let single = extent.as_constant() == Some(1);
        if single && !kept {
            run.loops[axis.0 as usize] = Poly::default();
            return Opened(None);
        }
        let var = VarId(self.n_vars);
        self.n_vars += 1;
        self.facts.bound_var(var, extent.clone());
        run.loops[axis.0 as usize] = if single { Poly::default() } else { Poly::var(var) };
        let declared = run.stage.axis(axis);
        if declared.kind == LoopKind::Thread {
            self.threads.push((var, extent.clone()));
        }
        // Proofs go on with all iterations.
        let extent = match declared.trimmed.then(|| self.trimmed(run, axis, var)).flatten() {
            Some(end) if !single => extent.lesser(&end, &self.facts),
            _ => extent,
        };
        let short = extent.as_constant().is_some_and(|it| it <= MOST_UNROLLED);
        let kind = match declared.kind {
            LoopKind::Unrolled | LoopKind::Tensorized if !short => LoopKind::Serial,
            kind => kind,
        };
        Opened(Some((var, declared.name.clone(), extent, kind)))
    }

    /// The memory of each tensor.
    fn buffers(&self) -> Vec<Buffer> {
        let mut names = BTreeSet::new();
        let buffer = |(n, it): (usize, &crate::ScheduledTensor)| {
            let shape = match &it.layout {
                None => self.shapes[n].clone(),
                Some(layout) => layout.shape(&self.shapes[n], &self.facts),
            };
            Buffer {
                name: unique_name(&it.tensor.name, &mut names),
                dtype: it.tensor.dtype,
                shape,
                scope: self.scope(TensorId(n as u32)),
                layout: it.layout.clone(),
            }
        };
        let tensors: Vec<Buffer> = self.schedule.tensors.iter().enumerate().map(buffer).collect();
        let added = self.added.iter().map(|it| {
            let name = unique_name(&it.name, &mut names);
            Buffer { name, ..it.clone() }
        });
        tensors.into_iter().chain(added.collect::<Vec<_>>()).collect()
    }

    fn scope(&self, tensor: TensorId) -> Scope {
        let it = self.schedule.tensor(tensor);
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

/// What Rust does not take as the name of a variable, of the words a program may well use.
const KEYWORDS: [&str; 53] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate",
    "do", "dyn", "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl",
    "in", "let", "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref",
    "return", "Self", "self", "static", "struct", "super", "trait", "true", "try", "type",
    "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// A loop whose body is being written; `None` stands for the single iteration of a loop left out.
struct Opened(Option<(VarId, String, Poly, LoopKind)>);

impl Opened {
    /// The loop around its body.
    fn close(self, body: Vec<Stmt>) -> Vec<Stmt> {
        match self.0 {
            None => body,
            Some((var, name, extent, kind)) => vec![Stmt::For { var, name, extent, kind, body }],
        }
    }
}

fn guarded(guards: Vec<Guard>, stmt: Stmt) -> Stmt {
    if guards.is_empty() { stmt } else { Stmt::If { guards, body: vec![stmt] } }
}

/// `name` as a Rust identifier that was not used before.
fn unique_name(name: &str, used: &mut BTreeSet<String>) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let mut base: String = name.chars().map(legal).collect();
    if !base.starts_with(|c: char| c.is_ascii_alphabetic()) {
        base.insert(0, 't');
    }
    let mut unique = base.clone();
    let mut n = 1;
    while KEYWORDS.contains(&unique.as_str()) || !used.insert(unique.clone()) {
        n += 1;
        unique = format!("{base}_{n}");
    }
    unique
}

//! Phases of a nest as kernels: loops over blocks, and the number of threads of a block.
//!
//! A loop over threads gives each of its iterations as many threads as the loops inside it need; of
//! consecutive loops the longest decides. So `ty` stands for the same threads in all loops inside
//! it, and registers of a thread stay its own.
//!
//! Loops of the same extents, from the outermost on, are the same threads wherever they stand: a
//! row of which four threads share the elements starts, and ends, in those four.

use std::collections::BTreeMap;

use super::persistent::{PersistentLoop, persist};
use super::reduce::{Reduced, Reductions, redirect};
use super::unbound::{Kernel, Stmt};
use super::{
    BlockVar, Buffer, LoopKind, MAX_THREADS, MemoryScope, Statement, ThreadLoop, Unplaceable, WARP,
    stream_k,
};
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{self, Guard, Nest};

/// Returns whether a phase has no loop over blocks: one block runs it, and what stands beside it.
pub(super) fn is_one_block(phase: &nest::Stmt) -> bool {
    !matches!(phase, nest::Stmt::For { kind, .. } if kind.is_parallel())
}

/// The kernel of a phase, or of several that one block runs.
pub(super) fn kernel(
    phases: &[nest::Stmt],
    nest: &Nest,
    buffers: &mut Vec<Buffer>,
    n_vars: &mut u32,
    facts: &Facts,
) -> Result<Kernel, Unplaceable> {
    let (blocks, persistent, body) = blocks(phases);
    let mut needs = Needs::default();
    needs.note(body, &mut Vec::new())?;
    // Whole warps, but for what one thread does.
    let threads = match needs.of(&[]) {
        1 => 1,
        threads => threads.max(WARP),
    };
    if threads > MAX_THREADS {
        return Err(Unplaceable::Threads(threads));
    }
    let mut walk = ThreadLowering {
        reductions: Reductions::new(phases, nest),
        needs,
        path: Vec::new(),
        buffers: &mut *buffers,
        n_vars: &mut *n_vars,
    };
    let body = walk.block(body, threads)?;
    let mut kernel = Kernel {
        blocks,
        tiles: None,
        threads,
        shared_bytes: 0,
        partials: None,
        fragments: Vec::new(),
        thread_vars: Vec::new(),
        circular_buffers: Vec::new(),
        tensor_maps: Vec::new(),
        producer: Vec::new(),
        body,
    };
    if let Some(persistent) = persistent {
        let divides = persist(&mut kernel, &persistent, facts, n_vars);
        if divides {
            stream_k::divide(&mut kernel, buffers, facts, n_vars)?;
        }
    }
    Ok(kernel)
}

/// Returns the loops over blocks, those of a cluster last; the outermost persistent one; and the body.
fn blocks(phases: &[nest::Stmt]) -> (Vec<BlockVar>, Option<PersistentLoop>, &[nest::Stmt]) {
    let (mut blocks, mut persistent, mut body) = (Vec::new(), None, phases);
    while let [nest::Stmt::For { var, name, extent, kind, body: inner }] = body
        && kind.is_parallel()
    {
        if kind.max_blocks().is_some() {
            persistent = persistent.or(Some(PersistentLoop { var: *var, kind: *kind }));
        }
        let in_cluster = *kind == LoopKind::Cluster;
        let (name, extent) = (name.clone(), extent.clone());
        blocks.push(BlockVar { var: *var, name, extent, in_cluster, is_reversed: false });
        body = inner;
    }
    blocks.sort_by_key(|it| it.in_cluster);
    (blocks, persistent, body)
}

/// Threads that one iteration needs, by the extents of the loops over threads around it: a power of
/// two up to a warp, or whole warps.
#[derive(Default)]
struct Needs(BTreeMap<Vec<u32>, u32>);

impl Needs {
    /// Notes the needs of statements inside of loops of these extents.
    fn note(&mut self, body: &[nest::Stmt], path: &mut Vec<u32>) -> Result<(), Unplaceable> {
        for stmt in body {
            let nest::Stmt::For { extent, kind: LoopKind::Thread, body, .. } = stmt else {
                self.note(stmt.body(), path)?;
                continue;
            };
            let extent = extent.as_constant().ok_or(Unplaceable::DynamicThreads)?;
            let extent = u32::try_from(extent.max(1)).unwrap_or(u32::MAX);
            path.push(extent);
            self.note(body, path)?;
            let most = self.of(path).saturating_mul(extent);
            path.pop();
            let known = self.0.entry(path.clone()).or_insert(1);
            *known = (*known).max(most);
        }
        Ok(())
    }

    fn of(&self, path: &[u32]) -> u32 {
        // No block is as large: the caller says so.
        let most = self.0.get(path).copied().unwrap_or(1).min(1 << 20);
        if most <= WARP { most.next_power_of_two() } else { most.next_multiple_of(WARP) }
    }
}

/// The walk from loops to threads.
struct ThreadLowering<'a> {
    reductions: Reductions,
    needs: Needs,
    /// The extents of the open loops over threads.
    path: Vec<u32>,
    buffers: &'a mut Vec<Buffer>,
    n_vars: &'a mut u32,
}

impl ThreadLowering<'_> {
    /// Lowers statements that `range` threads run.
    fn block(&mut self, body: &[nest::Stmt], range: u32) -> Result<Vec<Stmt>, Unplaceable> {
        let mut stmts = Vec::new();
        for stmt in body {
            stmts.extend(self.stmt(stmt, range)?);
        }
        Ok(stmts)
    }

    fn stmt(&mut self, stmt: &nest::Stmt, range: u32) -> Result<Vec<Stmt>, Unplaceable> {
        Ok(vec![match stmt {
            nest::Stmt::For { var, extent, kind: LoopKind::Thread, body, .. } => {
                let extent = extent.as_constant().ok_or(Unplaceable::DynamicThreads)?.max(0);
                let reduced = self.reductions.of(*var, body);
                if !reduced.is_empty() {
                    return self.reduce(*var, extent as u32, body, range, &reduced);
                }
                self.thread(*var, extent as u32, body, range)?
            }
            nest::Stmt::For { var, name, extent, kind, body } => {
                let is_serial = kind.is_parallel();
                let kind = if is_serial { LoopKind::Serial } else { *kind };
                let body = self.block(body, range)?;
                Stmt::For { var: *var, name: name.clone(), extent: extent.clone(), kind, body }
            }
            nest::Stmt::If { guards, body } => {
                Stmt::If { guards: guards.clone(), body: self.block(body, range)? }
            }
            nest::Stmt::Store { tensor, index, value } => {
                Stmt::Store { tensor: *tensor, index: index.clone(), value: value.clone() }
            }
            nest::Stmt::Update { tensor, index, reducer, value } => {
                let (index, value) = (index.clone(), value.clone());
                Stmt::Update { tensor: *tensor, index, reducer: *reducer, value }
            }
        }])
    }

    /// Lowers a loop over threads.
    fn thread(
        &mut self,
        var: VarId,
        extent: u32,
        body: &[nest::Stmt],
        range: u32,
    ) -> Result<Stmt, Unplaceable> {
        self.path.push(extent.max(1));
        let step = self.needs.of(&self.path);
        // Threads that reduce together have one element each, whatever others there are.
        let is_thread =
            |it: &nest::Stmt| matches!(it, nest::Stmt::For { kind: LoopKind::Thread, .. });
        let alone = !self.reductions.of(var, body).is_empty() && !nest::any(body, &is_thread);
        let step = if alone { 1 } else { step };
        let body = self.block(body, step)?;
        self.path.pop();
        Ok(Stmt::Thread(ThreadLoop { var, extent, step, range, body }))
    }

    /// Lowers a loop whose threads reduce together, among `range` of them.
    fn reduce(
        &mut self,
        var: VarId,
        extent: u32,
        body: &[nest::Stmt],
        range: u32,
        reduced: &[Reduced],
    ) -> Result<Vec<Stmt>, Unplaceable> {
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut parts = BTreeMap::new();
        for it in reduced {
            let shape: Option<Vec<i64>> = it.loops.iter().map(|it| it.1.as_constant()).collect();
            let shape = shape.ok_or(Unplaceable::NestedReduction)?;
            let part = self.part(it.tensor, &shape);
            parts.insert(it.tensor, (part, it.loops.iter().map(|it| Poly::var(it.0)).collect()));
            let dtype = self.buffers[it.tensor.0 as usize].dtype;
            let value = Expr::Const(it.reducer.identity(dtype), dtype);
            before.extend(self.each(&it.loops, |vars, _| {
                vec![Stmt::Store { tensor: part, index: vars.to_vec(), value: value.clone() }]
            }));
            let read = |vars: &[Poly]| Expr::read(part, vars.iter().cloned());
            after.extend(self.each(&it.loops, |vars, renamed| {
                let index = it.index.iter().map(renamed).collect();
                let (tensor, reducer) = (it.tensor, it.reducer);
                let guards: Vec<Guard> = it.guards.iter().map(|it| it.map_polys(renamed)).collect();
                let update = Stmt::Update { tensor, index, reducer, value: read(vars) };
                let update = match guards.is_empty() {
                    true => update,
                    false => Stmt::If { guards, body: vec![update] },
                };
                vec![Stmt::AllReduce { tensor: part, index: vars.to_vec(), reducer, range }, update]
            }));
        }
        let mut threads = self.thread(var, extent, body, range)?;
        if matches!(threads, Stmt::Thread(ThreadLoop { step: 2.., .. })) {
            // Each thread would add what all those of its iteration add.
            return Err(Unplaceable::NestedReduction);
        }
        redirect(&mut threads, &parts);
        Ok(before.into_iter().chain([threads]).chain(after).collect())
    }

    /// Adds a buffer for the partial result of one thread.
    fn part(&mut self, of: TensorId, shape: &[i64]) -> TensorId {
        let id = TensorId(self.buffers.len() as u32);
        let origin = &self.buffers[of.0 as usize];
        self.buffers.push(Buffer {
            name: format!("{}_part{}", origin.name, id.0),
            dtype: origin.dtype,
            shape: shape.iter().map(|it| Poly::constant(*it)).collect(),
            scope: MemoryScope::Undecided,
            layout: None,
            is_partial: false,
        });
        id
    }

    /// Returns statements in copies of loops; `stmts` gets their variables, and a function that
    /// renames the old ones.
    fn each(
        &mut self,
        loops: &[(VarId, Poly)],
        stmts: impl FnOnce(&[Poly], &dyn Fn(&Poly) -> Poly) -> Vec<Stmt>,
    ) -> Vec<Stmt> {
        let first = *self.n_vars;
        *self.n_vars += loops.len() as u32;
        let var = |n: usize| VarId(first + n as u32);
        let vars: Vec<Poly> = (0..loops.len()).map(|it| Poly::var(var(it))).collect();
        let renamed = |poly: &Poly| {
            let new = |old: VarId| Some(vars[loops.iter().position(|it| it.0 == old)?].clone());
            poly.substitute_vars(&new, &Facts::default())
        };
        let mut body = stmts(&vars, &renamed);
        for (n, (_, extent)) in loops.iter().enumerate().rev() {
            let (kind, extent) = (LoopKind::Unrolled, extent.clone());
            body = vec![Stmt::For { var: var(n), name: "i".to_owned(), extent, kind, body }];
        }
        body
    }
}

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
use super::reduce::Reductions;
use super::unbound::{Kernel, Stmt};
use super::{BlockVar, Buffer, LoopKind, MAX_THREADS, ThreadLoop, Unplaceable, WARP, stream_k};
use tvmtune_ir::dag::Reducer;
use tvmtune_ir::poly::{Facts, VarId};
use tvmtune_schedule::nest::{self, Nest};

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
    let reductions = Reductions::new(phases, nest);
    let path = Vec::new();
    let mut walk =
        ThreadLowering { reductions, needs, path, buffers: &mut *buffers, n_vars: &mut *n_vars };
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
        let in_cluster = *kind == tvmtune_schedule::LoopKind::Cluster;
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
pub(super) struct Needs(BTreeMap<Vec<u32>, u32>);

impl Needs {
    /// Notes the needs of statements inside of loops of these extents.
    fn note(&mut self, body: &[nest::Stmt], path: &mut Vec<u32>) -> Result<(), Unplaceable> {
        for stmt in body {
            match stmt {
                nest::Stmt::For {
                    extent, kind: tvmtune_schedule::LoopKind::Thread, body, ..
                } => {
                    let extent = extent.as_constant().ok_or(Unplaceable::DynamicThreads)?;
                    let extent = u32::try_from(extent.max(1)).unwrap_or(u32::MAX);
                    path.push(extent);
                    self.note(body, path)?;
                    let most = self.of(path).saturating_mul(extent);
                    path.pop();
                    let known = self.0.entry(path.clone()).or_insert(1);
                    *known = (*known).max(most);
                }
                nest::Stmt::For { body, .. } | nest::Stmt::If { body, .. } => {
                    self.note(body, path)?;
                }
                nest::Stmt::Store { .. } | nest::Stmt::Update { .. } => {}
            }
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
pub(super) struct ThreadLowering<'a> {
    pub(super) reductions: Reductions,
    needs: Needs,
    /// The extents of the open loops over threads.
    path: Vec<u32>,
    pub(super) buffers: &'a mut Vec<Buffer>,
    pub(super) n_vars: &'a mut u32,
}

impl ThreadLowering<'_> {
    /// Lowers statements that `range` threads run.
    pub(super) fn block(
        &mut self,
        body: &[nest::Stmt],
        range: u32,
    ) -> Result<Vec<Stmt>, Unplaceable> {
        let mut stmts = Vec::new();
        for stmt in body {
            stmts.extend(self.stmt(stmt, range)?);
        }
        Ok(stmts)
    }

    fn stmt(&mut self, stmt: &nest::Stmt, range: u32) -> Result<Vec<Stmt>, Unplaceable> {
        Ok(vec![match stmt {
            nest::Stmt::For {
                var, extent, kind: tvmtune_schedule::LoopKind::Thread, body, ..
            } => {
                let extent = extent.as_constant().ok_or(Unplaceable::DynamicThreads)?.max(0);
                let reduced = self.reductions.of(*var, body);
                if !reduced.is_empty() {
                    return self.reduce(*var, extent as u32, body, range, &reduced);
                }
                self.thread(*var, extent as u32, body, range)?
            }
            nest::Stmt::For { var, name, extent, kind, body } => {
                let kind = match kind {
                    tvmtune_schedule::LoopKind::Unrolled => LoopKind::Unrolled,
                    tvmtune_schedule::LoopKind::Vectorized => LoopKind::Vectorized,
                    tvmtune_schedule::LoopKind::Tensorized => LoopKind::Tensorized,
                    tvmtune_schedule::LoopKind::Pipelined(depth) => LoopKind::Pipelined(*depth),
                    tvmtune_schedule::LoopKind::WarpSpecialized(depth) => {
                        LoopKind::WarpSpecialized(*depth)
                    }
                    _ => LoopKind::Serial,
                };
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
                let reducer: Reducer = *reducer;
                Stmt::Update { tensor: *tensor, index, reducer, value }
            }
        }])
    }

    /// Lowers a loop over threads.
    pub(super) fn thread(
        &mut self,
        var: VarId,
        extent: u32,
        body: &[nest::Stmt],
        range: u32,
    ) -> Result<Stmt, Unplaceable> {
        self.path.push(extent.max(1));
        let step = self.needs.of(&self.path);
        // Threads that reduce together have one element each, whatever others there are.
        let alone = !self.reductions.of(var, body).is_empty() && !has_threads(body);
        let step = if alone { 1 } else { step };
        let body = self.block(body, step)?;
        self.path.pop();
        Ok(Stmt::Thread(ThreadLoop { var, extent, step, range, body }))
    }
}

fn has_threads(body: &[nest::Stmt]) -> bool {
    body.iter().any(|stmt| match stmt {
        nest::Stmt::For { kind: tvmtune_schedule::LoopKind::Thread, .. } => true,
        nest::Stmt::For { body, .. } | nest::Stmt::If { body, .. } => has_threads(body),
        nest::Stmt::Store { .. } | nest::Stmt::Update { .. } => false,
    })
}

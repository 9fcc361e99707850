//! Fix-up of stream-K: the second kernel, which adds the partial sums of tiles that several blocks share.

use super::kernel::{fresh, thread_var};
use super::{
    BlockVar, Buffer, Kernel, LoopKind, MemoryScope, Stmt, StreamK, Tiles, Unplaceable, WorkUnit,
    stream_k,
};
use tvmtune_ir::dag::{Expr, Reducer, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, flat, written};

/// Lets a kernel store partial sums in a workspace; returns the kernel that adds them up.
pub(super) fn fix_up(
    kernel: &mut Kernel,
    buffers: &mut Vec<Buffer>,
    n_vars: &mut u32,
) -> Result<Option<Kernel>, Unplaceable> {
    let Some(tiles) = kernel.tiles.clone() else { return Ok(None) };
    let Some(StreamK { iterations: depth, work_unit: WorkUnit::PartialSums { first, end, sums } }) =
        &tiles.stream_k
    else {
        return Ok(None);
    };
    let mut fix_up = kernel.clone();
    let [Stmt::For { body, .. }] = kernel.body.as_mut_slice() else {
        return Err(Unplaceable::NotStreamK);
    };
    let length = Poly::var(*end) - Poly::var(*first);
    let (before, after) = around(body, depth, &length).ok_or(Unplaceable::NotStreamK)?;
    let in_registers = |it: &TensorId| buffers[it.0 as usize].scope == MemoryScope::Registers;
    if !sums.iter().all(|it| in_registers(&it.0)) {
        return Err(Unplaceable::NotStreamK);
    }
    let sums = Sums::new(sums, &mut fix_up, &tiles, buffers, n_vars);
    kernel.thread_vars.clone_from(&fix_up.thread_vars);
    let guards = vec![Guard { value: length, bound: depth.clone() }];
    let left = Stmt::If { guards, body: sums.leave(&Poly::var(tiles.block), &Poly::var(*first)) };
    body.insert(body.len() - 1, left);
    let (count, nth) = (fresh(n_vars), fresh(n_vars));
    let added = Stmt::For {
        var: nth,
        name: "n".to_owned(),
        extent: Poly::var(count),
        kind: LoopKind::Serial,
        body: sums.add(&(Poly::var(tiles.block) + Poly::var(nth)), &Poly::var(nth)),
    };
    if let [Stmt::For { body, .. }] = fix_up.body.as_mut_slice() {
        *body = before.into_iter().chain([added]).chain(after).collect();
    }
    let stream_k =
        Some(StreamK { iterations: depth.clone(), work_unit: WorkUnit::FixUp { count } });
    fix_up.tiles = Some(Tiles { stream_k, ..tiles });
    (fix_up.circular_buffers, fix_up.tensor_maps, fix_up.producer) =
        (Vec::new(), Vec::new(), Vec::new());
    let is_shared = |it: &TensorId| buffers[it.0 as usize].scope.is_shared();
    if fix_up.partials.is_none() && !written(&fix_up.body).iter().any(is_shared) {
        fix_up.shared_bytes = 0;
    }
    Ok(Some(fix_up))
}

/// Splits a tile into its prologue and its epilogue, before and after the sum.
fn around(body: &[Stmt], depth: &Poly, length: &Poly) -> Option<(Vec<Stmt>, Vec<Stmt>)> {
    let of_part = |it: &Stmt| matches!(it, Stmt::For { extent, .. } if extent == length);
    let adds = body.iter().position(of_part)?;
    let Some(Stmt::If { guards, body: after }) = body.last() else { return None };
    let is_last = *guards == [stream_k::is_whole(depth, length)];
    is_last.then(|| (body[..adds].to_vec(), after.clone()))
}

/// The partial sums that blocks store.
struct Sums {
    each: Vec<Sum>,
    /// The number of a block in its cluster, and of a thread.
    within: [Poly; 2],
}

/// One buffer of sums.
struct Sum {
    tensor: TensorId,
    reducer: Reducer,
    /// The workspace: `[block, last or first work unit, block of a cluster, element, thread]`.
    left: TensorId,
    /// Loops over its elements in one thread.
    loops: Vec<(VarId, i64)>,
    /// The position of an element.
    element: Poly,
}

impl Sums {
    fn new(
        sums: &[(TensorId, Reducer)],
        kernel: &mut Kernel,
        tiles: &Tiles,
        buffers: &mut Vec<Buffer>,
        n_vars: &mut u32,
    ) -> Self {
        let (cluster, rank) = rank(&kernel.blocks);
        let thread = thread_var(&mut kernel.thread_vars, 1, kernel.threads, n_vars);
        let mut sum = |(tensor, reducer): &(TensorId, Reducer)| {
            let buffer = &buffers[tensor.0 as usize];
            let extents = buffer.shape.iter().map(|it| it.as_constant().unwrap_or(1).max(1));
            let loops: Vec<(VarId, i64)> = (*n_vars..).map(VarId).zip(extents).collect();
            *n_vars += loops.len() as u32;
            let (index, extents): (Vec<Poly>, Vec<Poly>) =
                loops.iter().map(|it| (Poly::var(it.0), Poly::constant(it.1))).unzip();
            let element = flat(&index, &extents);
            let elements: i64 = loops.iter().map(|it| it.1).product();
            let shape = [tiles.stride, 2, cluster, elements, i64::from(kernel.threads)];
            buffers.push(Buffer {
                name: format!("{}_left", buffer.name),
                dtype: buffer.dtype,
                shape: shape.map(Poly::constant).to_vec(),
                scope: MemoryScope::Workspace,
                layout: None,
                is_partial: false,
            });
            let left = TensorId(buffers.len() as u32 - 1);
            Sum { tensor: *tensor, reducer: *reducer, left, loops, element }
        };
        Self { each: sums.iter().map(&mut sum).collect(), within: [rank, Poly::var(thread)] }
    }

    /// Returns the place of an element in the workspace: of a block's last work unit if `turn` is 0,
    /// else of its first.
    fn place(&self, sum: &Sum, block: &Poly, turn: &Poly) -> Vec<Poly> {
        let turn = Poly::constant(1).lesser(turn, &Facts::default());
        let [rank, thread] = self.within.clone();
        vec![block.clone(), turn, rank, sum.element.clone(), thread]
    }

    /// Stores the partial sums of a work unit.
    fn leave(&self, block: &Poly, turn: &Poly) -> Vec<Stmt> {
        let store = |it: &Sum| {
            let (index, value) = (self.place(it, block, turn), Expr::read(it.tensor, it.index()));
            it.each(Stmt::Store { tensor: it.left, index, value })
        };
        self.each.iter().map(store).collect()
    }

    /// Adds the partial sums of a block.
    fn add(&self, block: &Poly, turn: &Poly) -> Vec<Stmt> {
        let update = |it: &Sum| {
            let (reducer, index) = (it.reducer, it.index());
            let value = Expr::read(it.left, self.place(it, block, turn));
            it.each(Stmt::Update { tensor: it.tensor, index, reducer, value })
        };
        self.each.iter().map(update).collect()
    }
}

impl Sum {
    fn index(&self) -> Vec<Poly> {
        self.loops.iter().map(|it| Poly::var(it.0)).collect()
    }

    /// Repeats a statement for each element.
    fn each(&self, stmt: Stmt) -> Stmt {
        self.loops.iter().rev().fold(stmt, |stmt, (var, extent)| Stmt::For {
            var: *var,
            name: "element".to_owned(),
            extent: Poly::constant(*extent),
            kind: LoopKind::Unrolled,
            body: vec![stmt],
        })
    }
}

/// Returns the number of blocks of a cluster, and the rank of a block in it.
fn rank(blocks: &[BlockVar]) -> (i64, Poly) {
    let in_cluster = blocks.iter().filter(|it| it.in_cluster);
    in_cluster.fold((1, Poly::default()), |(n, rank), it| {
        let extent = it.extent.as_constant().unwrap_or(1);
        (n * extent, rank * Poly::constant(extent) + Poly::var(it.var))
    })
}

//! Warp specialization: a producer warp issues TMA loads while the consumers compute.
//!
//! ```text
//! warp_specialized(3) k in 0..n   producer: for k in 0..n          consumers: for k in 0..n
//!   copy(k)                                   acquire stage                    wait until stage full
//!   use(k)                   =>               TMA loads of copy(k)             use(k)
//!                                             next stage                       release; next stage
//! ```
//!
//! The first copies of an iteration have a circular buffer of stages; later ones, where they are
//! needed, have one of their own. Producer and consumers count stages on their own; barriers in
//! shared memory synchronize them, so both run the loops and conditions around. A copy is TMA loads
//! if its loops run along one dimension of the tensor each, from the innermost out; loops further
//! out repeat the load. Outside of the tensor TMA fills in zeros; don't-cares (`predicate`) may be
//! anything. Blocks of a cluster that need the same box load a part of it each, by multicast; a
//! stage is then empty once it is in all of them.
//!
//! # Source
//!
//! Warp specialisation: CudaDMA (Bauer et al., 2011); with barriers that count bytes, the main loop
//! of CUTLASS 3 (`sm90_mma_tma_gmma_ss_warpspecialized.hpp`).

use std::collections::{BTreeMap, BTreeSet};

use super::pipeline::{Staging, runs_of_copies};
use super::predicate::DontCare;
use super::stmt::n_accesses;
use super::unbound::{Kernel, Stmt};
use super::{
    BlockVar, Buffer, CircularBuffer, LoopKind, PredicatedLoad, Released, Statement, TensorMap,
    Unplaceable, WARP, predicated_load,
};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Guard, any, written};

/// The largest box dimension, in elements.
const MAX_EXTENT: i64 = 256;
/// The largest element stride.
const MAX_STEP: i64 = 8;
/// The most dimensions of a tensor map.
const MAX_DIMS: usize = 5;
/// Bytes after which a swizzle repeats.
const PATTERN: i64 = 1024;
/// Alignment of a TMA box in shared memory, in bytes.
const PLACE: i64 = 128;
/// Granularity of rows of boxes and tensors, in bytes.
const LINE: i64 = 16;

/// Splits a kernel with warp-specialized loops between producer and consumers.
pub(super) fn divide(
    kernel: &mut Kernel,
    buffers: &[Buffer],
    stagings: &BTreeMap<TensorId, Staging>,
    dont_care: &DontCare,
) -> Result<(), Unplaceable> {
    if !has_warp_specialized(&kernel.body) {
        return Ok(());
    }
    if all_reduces_in_block(&kernel.body) {
        return Err(Unplaceable::BlockReductionBesideProducer);
    }
    let everything = written(&kernel.body);
    let (circular_buffers, tensor_maps, cluster) =
        (Vec::new(), Vec::new(), cluster(&kernel.blocks));
    let mut specializer = Specializer {
        buffers,
        stagings,
        dont_care,
        everything,
        cluster,
        circular_buffers,
        tensor_maps,
    };
    let body = std::mem::take(&mut kernel.body);
    let (producer, others) = specializer.block(body)?;
    // Destinations of TMA loads are written by no thread.
    let targets: Vec<TensorId> = specializer.tensor_maps.iter().map(|it| it.to).collect();
    let also = written(&others);
    if targets.iter().any(|it| also.contains(it)) {
        return Err(Unplaceable::NotTmaLoads);
    }
    (kernel.body, kernel.producer) = (others, producer);
    (kernel.circular_buffers, kernel.tensor_maps) =
        (specializer.circular_buffers, specializer.tensor_maps);
    Ok(())
}

/// Returns whether there are block all-reduces: their barriers are of all threads.
fn all_reduces_in_block(body: &[Stmt]) -> bool {
    any(body, &|it| matches!(it, Stmt::AllReduce { range, .. } if *range > WARP))
}

fn has_warp_specialized(body: &[Stmt]) -> bool {
    any(body, &|it| matches!(it, Stmt::For { kind: LoopKind::WarpSpecialized(_), .. }))
}

struct Specializer<'a> {
    buffers: &'a [Buffer],
    stagings: &'a BTreeMap<TensorId, Staging>,
    /// Zero fill that is not needed.
    dont_care: &'a DontCare,
    /// The variable that numbers the blocks of a cluster, and how many those are.
    cluster: Option<(VarId, i64)>,
    /// The buffers that the kernel writes.
    everything: BTreeSet<TensorId>,
    circular_buffers: Vec<CircularBuffer>,
    tensor_maps: Vec<TensorMap>,
}

impl Specializer<'_> {
    /// Splits statements into those of the producer and those of the consumers.
    fn block(&mut self, body: Vec<Stmt>) -> Result<(Vec<Stmt>, Vec<Stmt>), Unplaceable> {
        let (mut producer, mut others) = (Vec::new(), Vec::new());
        for stmt in body {
            match stmt {
                stmt if !has_warp_specialized(std::slice::from_ref(&stmt)) => others.push(stmt),
                Stmt::For { var, name, extent, kind, body } => {
                    let (kind, (copies, rest)) = match kind {
                        LoopKind::WarpSpecialized(depth) => {
                            (LoopKind::Serial, self.specialized(var, depth, body)?)
                        }
                        kind => (kind, self.block(body)?),
                    };
                    let around = |body| {
                        let (name, extent) = (name.clone(), extent.clone());
                        Stmt::For { var, name, extent, kind, body }
                    };
                    producer.push(around(copies));
                    others.push(around(rest));
                }
                // Blocks of a cluster wait for one another.
                Stmt::If { guards, body } if self.cluster.is_none() => {
                    let (feeds, rest) = self.block(body)?;
                    producer.push(Stmt::If { guards: guards.clone(), body: feeds });
                    others.push(Stmt::If { guards, body: rest });
                }
                // Threads of a loop would each need a producer.
                _ => return Err(Unplaceable::NotTmaLoads),
            }
        }
        Ok((producer, others))
    }

    /// Splits one iteration of a warp-specialized loop. Each run of copies has a circular buffer, which
    /// consumers wait for in place of the copies, and release after the last read.
    fn specialized(
        &mut self,
        var: VarId,
        depth: u8,
        body: Vec<Stmt>,
    ) -> Result<(Vec<Stmt>, Vec<Stmt>), Unplaceable> {
        let runs = runs_of_copies(&body, self.buffers, &self.everything);
        if runs.is_empty() {
            return Err(Unplaceable::NotTmaLoads);
        }
        let (mut copies, mut begins, mut ends) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for run in &runs {
            let pipeline = self.pipeline(var, depth, &body[run.clone()], &mut copies)?;
            let copied = written(&body[run.clone()]);
            let reads =
                |it: &Stmt| copied.iter().any(|of| n_accesses(std::slice::from_ref(it), *of) > 0);
            let last = body.iter().rposition(reads).filter(|it| *it >= run.end);
            begins.insert(run.start, pipeline);
            ends.entry(last.unwrap_or(body.len() - 1)).or_insert_with(Vec::new).push(pipeline);
        }
        let mut uses = Vec::new();
        for (n, stmt) in body.into_iter().enumerate() {
            uses.extend(begins.get(&n).map(|pipeline| Stmt::ConsumerWait { pipeline: *pipeline }));
            if !runs.iter().any(|it| it.contains(&n)) {
                uses.push(stmt);
            }
            for pipeline in ends.get(&n).into_iter().flatten().copied() {
                uses.extend([
                    Stmt::ConsumerRelease { pipeline, stage: Released::Current },
                    Stmt::AdvanceStage { pipeline },
                ]);
            }
        }
        Ok((copies, uses))
    }

    /// Adds a circular buffer for some copies, and the statements of the producer for it.
    fn pipeline(
        &mut self,
        var: VarId,
        depth: u8,
        copies: &[Stmt],
        producer: &mut Vec<Stmt>,
    ) -> Result<usize, Unplaceable> {
        let pipeline = self.circular_buffers.len();
        let staging_of = |it: &TensorId| self.stagings.get(it).filter(|it| it.is_of(var));
        let copied = written(copies);
        let all_have = copied.iter().all(|it| staging_of(it).is_some());
        let stage = copied.iter().find_map(|it| staging_of(it)?.stage_var());
        let Some(stage) = stage.filter(|_| all_have) else { return Err(Unplaceable::NotTmaLoads) };
        let (mut boxes, mut bytes) = (Vec::new(), 0);
        for copy in copies {
            let (stmts, n) = self.boxes(copy, pipeline).ok_or(Unplaceable::NotTmaLoads)?;
            boxes.extend(stmts);
            bytes += n;
        }
        self.circular_buffers.push(CircularBuffer {
            stage,
            n_stages: depth.into(),
            stage_bytes: bytes as u32,
            barriers: 0,
        });
        producer.push(Stmt::ProducerAcquire { pipeline });
        producer.extend(boxes);
        producer.push(Stmt::AdvanceStage { pipeline });
        Ok(pipeline)
    }

    /// Returns the TMA loads of a copy, and their bytes.
    fn boxes(&mut self, copy: &Stmt, pipeline: usize) -> Option<(Vec<Stmt>, i64)> {
        let (loops, to, index, value) = read(copy)?;
        let PredicatedLoad { tensor: from, index: subscripts, conditions } =
            predicated_load(value)?;
        let index_from = affine(subscripts)?;
        let (target, tensor) = (&self.buffers[to.0 as usize], &self.buffers[from.0 as usize]);
        let outside: Option<Vec<Vec<Guard>>> = conditions.into_iter().map(Guard::all_of).collect();
        let is_copy = target.scope.is_shared()
            && tensor.scope.is_global()
            && target.dtype == tensor.dtype
            && tensor.shape.len() <= MAX_DIMS
            && outside?
                .concat()
                .iter()
                .all(|it| is_edge(it, &index_from, &tensor.shape) || self.is_dont_care(it, to));
        if !is_copy || !has_lines(tensor) {
            return None;
        }
        let place = target.position(index);
        let BoxShape { mut extents, steps, repeats } = shape(loops, &place, &index_from)?;
        let bytes = tensor.dtype.bytes() as i64;
        if extents.last()? * bytes % LINE != 0 {
            return None;
        }
        let filled: i64 = extents.iter().product();
        let n_bytes = repeats.iter().map(|it| it.extent).product::<i64>() * filled * bytes;
        let is_repeated = |it: VarId| repeats.iter().any(|axis| axis.var == it);
        let at_first = |it: &Poly| first_of(it, copy, &is_repeated);
        let mut position = at_first(&place);
        let mut coordinates: Vec<Poly> = index_from.iter().map(at_first).collect();
        let row = filled / extents.iter().find(|it| **it > 1).copied().unwrap_or(1);
        let share = self.share(&coordinates, &mut extents, row * bytes);
        if let Some((dim, block, length)) = &share {
            coordinates[*dim] += block.clone() * (length * steps[*dim]);
            position += block.clone() * (length * row);
        }
        // The buffer begins at such a place; so must the boxes of every stage, repetition and block.
        if position.terms().any(|(_, stride)| stride * bytes % PLACE != 0) {
            return None;
        }
        let tensor_map = self.tensor_map(TensorMap {
            tensor: from,
            to,
            box_extents: extents,
            element_strides: steps,
            is_multicast: share.is_some(),
        });
        let stmt = Stmt::TmaLoad { tensor_map, position, coordinates, pipeline };
        let stmts = repeats.iter().fold(vec![stmt], |body, it| {
            let (name, extent) = (it.name.clone(), Poly::constant(it.extent));
            vec![Stmt::For { var: it.var, name, extent, kind: LoopKind::Unrolled, body }]
        });
        Some((stmts, n_bytes))
    }

    /// Divides a box that all blocks of a cluster need into multicasts: each block copies the part of
    /// its rank, of that length along that dimension, to all of them.
    fn share(
        &self,
        coordinates: &[Poly],
        extents: &mut [i64],
        row_bytes: i64,
    ) -> Option<(usize, Poly, i64)> {
        let (var, n_blocks) = self.cluster.filter(|it| it.1 > 1)?;
        let dim = extents.iter().position(|it| *it > 1)?;
        let length = extents[dim] / n_blocks;
        let divides = extents[dim] % n_blocks == 0 && length * row_bytes % PATTERN == 0;
        // The innermost dimension has to stay whole lines.
        if coordinates.iter().any(|it| it.mentions(var)) || !divides || dim + 1 == extents.len() {
            return None;
        }
        extents[dim] = length;
        Some((dim, Poly::var(var), length))
    }

    /// Returns whether the zero fill of a copy is a don't-care where a condition fails.
    fn is_dont_care(&self, guard: &Guard, to: TensorId) -> bool {
        let room = |it: &Guard| it.bound.clone() - it.value.clone();
        let dont_care = self.dont_care.get(&to);
        dont_care.is_some_and(|all| all.iter().any(|it| room(it) == room(guard)))
    }

    fn tensor_map(&mut self, map: TensorMap) -> usize {
        if let Some(known) = self.tensor_maps.iter().position(|it| *it == map) {
            return known;
        }
        self.tensor_maps.push(map);
        self.tensor_maps.len() - 1
    }
}

/// Returns the variable of the rank in a cluster, and the size of the cluster.
fn cluster(blocks: &[BlockVar]) -> Option<(VarId, i64)> {
    let mut in_cluster = blocks.iter().filter(|it| it.in_cluster);
    let block = in_cluster.next().filter(|_| in_cluster.next().is_none())?;
    Some((block.var, block.extent.as_constant()?))
}

/// A loop of a copy.
struct BoxLoop {
    var: VarId,
    name: String,
    extent: i64,
    /// Distance of neighbors in the copy.
    stride: i64,
    /// The dimension of the tensor it walks along, and how far.
    dim: usize,
    step: i64,
}

/// Returns a position at the start of a box: with the variables that are not repeated at 0.
fn first_of(poly: &Poly, copy: &Stmt, is_repeated: &dyn Fn(VarId) -> bool) -> Poly {
    let mut vars = Vec::new();
    copy.walk(&mut |it| {
        if let Stmt::For { var, .. } = it {
            vars.push(*var);
        }
    });
    let of = |it: VarId| (vars.contains(&it) && !is_repeated(it)).then(Poly::default);
    poly.substitute_vars(&of, &Facts::default())
}

/// Reads the loops of a copy, and its one store.
fn read(copy: &Stmt) -> Option<(Vec<BoxLoop>, TensorId, &[Poly], &Expr)> {
    let mut loops = Vec::new();
    let mut inner = copy;
    loop {
        match inner {
            Stmt::For { var, extent, name, body, .. } => {
                let [next] = body.as_slice() else { return None };
                let extent = extent.as_constant()?;
                let (var, name) = (*var, name.clone());
                loops.push(BoxLoop { var, name, extent, stride: 0, dim: 0, step: 1 });
                inner = next;
            }
            Stmt::Store { tensor, index, value } => return Some((loops, *tensor, index, value)),
            _ => return None,
        }
    }
}

/// The shape of a box.
struct BoxShape {
    /// Elements along the dimensions of the tensor, and how far apart they are.
    extents: Vec<i64>,
    steps: Vec<i64>,
    /// The loops that repeat it.
    repeats: Vec<BoxLoop>,
}

/// The shape of a box that loops axis over.
fn shape(mut loops: Vec<BoxLoop>, place: &Poly, index_from: &[Poly]) -> Option<BoxShape> {
    loops.retain(|it| it.extent > 1);
    for axis in &mut loops {
        axis.stride = place.split_linear(axis.var)?.0.as_constant()?;
        (axis.dim, axis.step) = dim_of(axis.var, index_from)?;
    }
    loops.sort_by_key(|it| it.stride);
    let (mut extents, mut steps) = (vec![1; index_from.len()], vec![1; index_from.len()]);
    let mut repeats: Vec<BoxLoop> = Vec::new();
    let (mut filled, mut dim) = (1, index_from.len());
    for axis in loops {
        let continues = axis.stride == filled && axis.dim < dim;
        // Lines of the innermost dimension are copied as they are.
        let is_last = axis.dim + 1 == index_from.len();
        let most_step = if is_last { 1 } else { MAX_STEP };
        let fits = (1..=most_step).contains(&axis.step) && axis.extent * axis.step <= MAX_EXTENT;
        if continues && fits && repeats.is_empty() {
            (extents[axis.dim], steps[axis.dim], dim) = (axis.extent, axis.step, axis.dim);
            filled *= axis.extent;
        } else {
            repeats.push(axis);
        }
    }
    Some(BoxShape { extents, steps, repeats })
}

/// Returns whether a condition is a bounds check of the tensor.
fn is_edge(guard: &Guard, index: &[Poly], shape: &[Poly]) -> bool {
    let room = guard.bound.clone() - guard.value.clone();
    index.iter().zip(shape).any(|(at, extent)| {
        room == extent.clone() - at.clone() || room == at.clone() + Poly::constant(1)
    })
}

/// Returns whether the strides of a tensor are multiples of a line.
fn has_lines(tensor: &Buffer) -> bool {
    let bytes = tensor.dtype.bytes() as i64;
    let mut row = Poly::constant(bytes);
    tensor.shape.iter().skip(1).rev().all(|extent| {
        row = row.clone() * extent.clone();
        row.terms().all(|(_, by)| by % LINE == 0)
    })
}

/// Returns the one dimension that a variable indexes, and its stride there.
fn dim_of(var: VarId, index: &[Poly]) -> Option<(usize, i64)> {
    let mut along = index.iter().enumerate().filter(|(_, it)| it.mentions(var));
    let (dim, at) = along.next()?;
    let step = at.split_linear(var)?.0.as_constant()?;
    along.next().is_none().then_some((dim, step))
}

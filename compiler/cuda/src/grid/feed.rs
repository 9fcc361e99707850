//! Copies that a warp of their own makes, box by box, while the others compute.
//!
//! ```text
//! fed(3) k in 0..n          feeder: for k in 0..n            the others: for k in 0..n
//!   copy(k)                           wait until slot empty                wait until slot full
//!   use(k)            =>              copy(k) by boxes                     use(k)
//!                                     next slot                            slot is empty; next slot
//! ```
//!
//! The copies have a ring of slots; those further on in the loop, where they are needed, one of their
//! own. Each side counts its own way around; barriers in shared memory
//! say how far the other is, so loops and conditions around are run by both. A copy is one of boxes
//! if its loops walk along one dimension of the tensor each, from the innermost out; loops further
//! out repeat it. Zero stands for what is outside of the tensor, as the hardware has it; elements
//! that are read for nothing (`tails`) may be anything. Blocks of a cluster that need the same box
//! copy a part of it each, to all of them; a slot is then empty when it is in all of them.
//!
//! # Source
//!
//! Warp specialisation: CudaDMA (Bauer et al., 2011); with barriers that count bytes, the main loop
//! of CUTLASS 3 (`sm90_mma_tma_gmma_ss_warpspecialized.hpp`).

use std::collections::{BTreeMap, BTreeSet};

use super::memory::flat;
use super::pipeline::{Slot, n_accesses, runs_of_copies, written};
use super::tails::Unneeded;
use super::{
    BlockVar, BoxMap, Buffer, Copied, Home, Kernel, LoopKind, Ring, Stmt, Unplaceable, WARP, copied,
};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Expr, TensorId};
use tvmtune_ir::poly::{Atom, Facts, Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// The most elements that a box reaches over along one dimension.
const MOST_EXTENT: i64 = 256;
/// The most elements of which one is copied.
const MOST_STEP: i64 = 8;
/// The most dimensions of a tensor that is copied by boxes.
const MOST_DIMS: usize = 5;
/// Bytes after which permuted rows lie as in the first one.
const PATTERN: i64 = 1024;
/// Bytes of what the place of a box is a multiple of.
const PLACE: i64 = 128;
/// Bytes of what rows of boxes, and of tensors, are multiples of.
const LINE: i64 = 16;

/// Divides a kernel with fed loops between the feeder and the other threads.
pub(super) fn divide(
    kernel: &mut Kernel,
    buffers: &[Buffer],
    slots: &BTreeMap<TensorId, Slot>,
    unneeded: &Unneeded,
) -> Result<(), Unplaceable> {
    if !has_fed(&kernel.body) {
        return Ok(());
    }
    if combines_in_block(&kernel.body) {
        return Err(Unplaceable::FedReduction);
    }
    let everything = written(&kernel.body);
    let (rings, maps, cluster) = (Vec::new(), Vec::new(), cluster(&kernel.blocks));
    let mut division = Division { buffers, slots, unneeded, everything, cluster, rings, maps };
    let body = std::mem::take(&mut kernel.body);
    let (feeder, others) = division.block(body)?;
    // What is fed is written by nobody else.
    let fed: Vec<TensorId> = division.maps.iter().map(|it| it.to).collect();
    let also = written(&others);
    if fed.iter().any(|it| also.contains(it)) {
        return Err(Unplaceable::NotBoxes);
    }
    (kernel.body, kernel.feeder) = (others, feeder);
    (kernel.rings, kernel.maps) = (division.rings, division.maps);
    Ok(())
}

/// Whether more threads than a warp combine what they have: they wait for all of the block.
fn combines_in_block(body: &[Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        stmt.walk(&mut |it| {
            found |= matches!(it, Stmt::Combine { range, .. } if *range > WARP);
        });
    }
    found
}

fn has_fed(body: &[Stmt]) -> bool {
    let mut found = false;
    for stmt in body {
        stmt.walk(&mut |it| {
            found |= matches!(it, Stmt::For { kind: LoopKind::WarpSpecialized(_), .. })
        });
    }
    found
}

struct Division<'a> {
    buffers: &'a [Buffer],
    slots: &'a BTreeMap<TensorId, Slot>,
    /// What need not be zero.
    unneeded: &'a Unneeded,
    /// The variable that numbers the blocks of a cluster, and how many those are.
    cluster: Option<(VarId, i64)>,
    /// What the kernel writes.
    everything: BTreeSet<TensorId>,
    rings: Vec<Ring>,
    maps: Vec<BoxMap>,
}

impl Division<'_> {
    /// What the feeder does of some statements, and what the others do.
    fn block(&mut self, body: Vec<Stmt>) -> Result<(Vec<Stmt>, Vec<Stmt>), Unplaceable> {
        let (mut feeder, mut others) = (Vec::new(), Vec::new());
        for stmt in body {
            match stmt {
                Stmt::For { var, name, extent, kind: LoopKind::WarpSpecialized(depth), body } => {
                    let (copies, rest) = self.fed(var, depth, body)?;
                    let of = |body| {
                        let (name, extent, kind) = (name.clone(), extent.clone(), LoopKind::Serial);
                        Stmt::For { var, name, extent, kind, body }
                    };
                    feeder.push(of(copies));
                    others.push(of(rest));
                }
                Stmt::For { var, name, extent, kind, body } if has_fed(&body) => {
                    let (feeds, rest) = self.block(body)?;
                    let of = |body| {
                        let (name, extent) = (name.clone(), extent.clone());
                        Stmt::For { var, name, extent, kind, body }
                    };
                    feeder.push(of(feeds));
                    others.push(of(rest));
                }
                // Blocks of a cluster wait for one another.
                Stmt::If { guards, body } if has_fed(&body) && self.cluster.is_none() => {
                    let (feeds, rest) = self.block(body)?;
                    feeder.push(Stmt::If { guards: guards.clone(), body: feeds });
                    others.push(Stmt::If { guards, body: rest });
                }
                // Threads of a loop would each need a feeder.
                stmt if has_fed(std::slice::from_ref(&stmt)) => return Err(Unplaceable::NotBoxes),
                stmt => others.push(stmt),
            }
        }
        Ok((feeder, others))
    }

    /// One iteration of a fed loop, for the feeder and for the others. What is copied in one go has
    /// a ring: it is waited for where the copies stand, and released when it was read last.
    fn fed(
        &mut self,
        var: VarId,
        depth: u8,
        body: Vec<Stmt>,
    ) -> Result<(Vec<Stmt>, Vec<Stmt>), Unplaceable> {
        let runs = runs_of_copies(&body, self.buffers, &self.everything);
        if runs.is_empty() {
            return Err(Unplaceable::NotBoxes);
        }
        let (mut copies, mut begins, mut ends) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        for run in &runs {
            let ring = self.ring(var, depth, &body[run.clone()], &mut copies)?;
            let copied = written(&body[run.clone()]);
            let reads =
                |it: &Stmt| copied.iter().any(|of| n_accesses(std::slice::from_ref(it), *of) > 0);
            let last = body.iter().rposition(reads).filter(|it| *it >= run.end);
            begins.insert(run.start, ring);
            ends.entry(last.unwrap_or(body.len() - 1)).or_insert_with(Vec::new).push(ring);
        }
        let mut uses = Vec::new();
        for (n, stmt) in body.into_iter().enumerate() {
            uses.extend(begins.get(&n).map(|ring| Stmt::WaitFull { ring: *ring }));
            if !runs.iter().any(|it| it.contains(&n)) {
                uses.push(stmt);
            }
            for ring in ends.get(&n).into_iter().flatten().copied() {
                uses.extend([Stmt::Release { ring, before: false }, Stmt::Advance { ring }]);
            }
        }
        Ok((copies, uses))
    }

    /// A ring for some copies; what the feeder does for it is added to what it does before.
    fn ring(
        &mut self,
        var: VarId,
        depth: u8,
        copies: &[Stmt],
        feeder: &mut Vec<Stmt>,
    ) -> Result<usize, Unplaceable> {
        let ring = self.rings.len();
        let slot_of = |it: &TensorId| self.slots.get(it).filter(|it| it.is_of(var));
        let copied = written(copies);
        let all_have = copied.iter().all(|it| slot_of(it).is_some());
        let slot = copied.iter().find_map(|it| slot_of(it)?.ring_position());
        let Some(slot) = slot.filter(|_| all_have) else { return Err(Unplaceable::NotBoxes) };
        let (mut boxes, mut bytes) = (Vec::new(), 0);
        for copy in copies {
            let (stmts, n) = self.boxes(copy, ring).ok_or(Unplaceable::NotBoxes)?;
            boxes.extend(stmts);
            bytes += n;
        }
        self.rings.push(Ring { slot, depth: depth.into(), bytes: bytes as u32, place: 0 });
        feeder.push(Stmt::WaitEmpty { ring });
        feeder.extend(boxes);
        feeder.push(Stmt::Advance { ring });
        Ok(ring)
    }

    /// A copy as boxes, and how many bytes they are.
    fn boxes(&mut self, copy: &Stmt, ring: usize) -> Option<(Vec<Stmt>, i64)> {
        let (loops, to, index, value) = read(copy)?;
        let Copied { tensor: from, index: subscripts, conditions } = copied(value)?;
        let index_from = affine(subscripts)?;
        let (target, tensor) = (&self.buffers[to.0 as usize], &self.buffers[from.0 as usize]);
        let outside: Option<Vec<Vec<Guard>>> = conditions.into_iter().map(Guard::all_of).collect();
        let is_copy = matches!(target.home, Home::Shared(_))
            && matches!(tensor.home, Home::Argument | Home::Workspace)
            && target.dtype == tensor.dtype
            && tensor.shape.len() <= MOST_DIMS
            && outside?
                .concat()
                .iter()
                .all(|it| is_edge(it, &index_from, &tensor.shape) || self.is_unneeded(it, to));
        if !is_copy || !has_lines(tensor) {
            return None;
        }
        let place = flat(index, &target.shape);
        let Shape { mut extents, steps, repeats } = shape(loops, &place, &index_from)?;
        let bytes = tensor.dtype.bytes() as i64;
        if extents.last()? * bytes % LINE != 0 {
            return None;
        }
        let filled: i64 = extents.iter().product();
        if repeats.iter().any(|it| it.stride * bytes % PLACE != 0) {
            return None;
        }
        let n_bytes = repeats.iter().map(|it| it.extent).product::<i64>() * filled * bytes;
        let is_repeated = |it: VarId| repeats.iter().any(|walk| walk.var == it);
        let at_first = |it: &Poly| first_of(it, copy, &is_repeated);
        let mut position = at_first(&place);
        let mut coordinates: Vec<Poly> = index_from.iter().map(at_first).collect();
        let row = filled / extents.iter().find(|it| **it > 1).copied().unwrap_or(1);
        let share = self.share(&coordinates, &mut extents, row * bytes);
        if let Some((dim, block, length)) = &share {
            coordinates[*dim] += block.clone() * (length * steps[*dim]);
            position += block.clone() * (length * row);
        }
        let map = self.map(BoxMap { tensor: from, to, extents, steps, is_shared: share.is_some() });
        let stmt = Stmt::CopyBox { map, position, coordinates, ring };
        let stmts = repeats.iter().fold(vec![stmt], |body, it| {
            let (name, extent) = (it.name.clone(), Poly::constant(it.extent));
            vec![Stmt::For { var: it.var, name, extent, kind: LoopKind::Unrolled, body }]
        });
        Some((stmts, n_bytes))
    }

    /// How blocks of a cluster that need the same box share the work: each copies the part of its
    /// number, of that length along that dimension, to all of them. A row of the box has so many
    /// bytes.
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
        if coordinates.iter().any(|it| mentions(it, var)) || !divides || dim + 1 == extents.len() {
            return None;
        }
        extents[dim] = length;
        Some((dim, Poly::var(var), length))
    }

    /// Whether nobody needs the zeros of a copy where a condition fails.
    fn is_unneeded(&self, guard: &Guard, to: TensorId) -> bool {
        let room = |it: &Guard| it.bound.clone() - it.value.clone();
        let unneeded = self.unneeded.get(&to);
        unneeded.is_some_and(|all| all.iter().any(|it| room(it) == room(guard)))
    }

    fn map(&mut self, map: BoxMap) -> usize {
        if let Some(known) = self.maps.iter().position(|it| *it == map) {
            return known;
        }
        self.maps.push(map);
        self.maps.len() - 1
    }
}

/// The variable that numbers the blocks of a cluster.
fn cluster(blocks: &[BlockVar]) -> Option<(VarId, i64)> {
    let mut in_cluster = blocks.iter().filter(|it| it.in_cluster);
    let block = in_cluster.next().filter(|_| in_cluster.next().is_none())?;
    Some((block.var, block.extent.as_constant()?))
}

fn mentions(poly: &Poly, var: VarId) -> bool {
    let mut found = false;
    poly.for_each_leaf(&mut |leaf| found |= matches!(leaf, Atom::Var(it) if *it == var));
    found
}

/// A loop of a copy.
struct Walk {
    var: VarId,
    name: String,
    extent: i64,
    /// How far apart in the copy neighbors are.
    stride: i64,
    /// The dimension of the tensor it walks along, and how far.
    dim: usize,
    step: i64,
}

/// Where a copy's loops start: with the variables that are not repeated at 0.
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

/// The loops of a copy, and its one store: where, and what.
fn read(copy: &Stmt) -> Option<(Vec<Walk>, TensorId, &[Poly], &Expr)> {
    let mut loops = Vec::new();
    let mut inner = copy;
    loop {
        match inner {
            Stmt::For { var, extent, name, body, .. } => {
                let [next] = body.as_slice() else { return None };
                let extent = extent.as_constant()?;
                let (var, name) = (*var, name.clone());
                loops.push(Walk { var, name, extent, stride: 0, dim: 0, step: 1 });
                inner = next;
            }
            Stmt::Store { tensor, index, value } => return Some((loops, *tensor, index, value)),
            _ => return None,
        }
    }
}

/// The shape of a box.
struct Shape {
    /// Elements along the dimensions of the tensor, and how far apart they are.
    extents: Vec<i64>,
    steps: Vec<i64>,
    /// The loops that repeat it.
    repeats: Vec<Walk>,
}

/// The shape of a box that loops walk over.
fn shape(mut loops: Vec<Walk>, place: &Poly, index_from: &[Poly]) -> Option<Shape> {
    loops.retain(|it| it.extent > 1);
    for walk in &mut loops {
        walk.stride = place.split_linear(walk.var)?.0.as_constant()?;
        (walk.dim, walk.step) = dim_of(walk.var, index_from)?;
    }
    loops.sort_by_key(|it| it.stride);
    let (mut extents, mut steps) = (vec![1; index_from.len()], vec![1; index_from.len()]);
    let mut repeats: Vec<Walk> = Vec::new();
    let (mut filled, mut dim) = (1, index_from.len());
    for walk in loops {
        let continues = walk.stride == filled && walk.dim < dim;
        // Lines of the innermost dimension are copied as they are.
        let is_last = walk.dim + 1 == index_from.len();
        let most_step = if is_last { 1 } else { MOST_STEP };
        let fits = (1..=most_step).contains(&walk.step) && walk.extent * walk.step <= MOST_EXTENT;
        if continues && fits && repeats.is_empty() {
            (extents[walk.dim], steps[walk.dim], dim) = (walk.extent, walk.step, walk.dim);
            filled *= walk.extent;
        } else {
            repeats.push(walk);
        }
    }
    Some(Shape { extents, steps, repeats })
}

/// Whether a condition only asks if an index is inside its dimension.
fn is_edge(guard: &Guard, index: &[Poly], shape: &[Poly]) -> bool {
    let room = guard.bound.clone() - guard.value.clone();
    index.iter().zip(shape).any(|(at, extent)| {
        room == extent.clone() - at.clone() || room == at.clone() + Poly::constant(1)
    })
}

/// Whether rows, and what has several of them, are whole lines.
fn has_lines(tensor: &Buffer) -> bool {
    let bytes = tensor.dtype.bytes() as i64;
    let mut row = Poly::constant(bytes);
    tensor.shape.iter().skip(1).rev().all(|extent| {
        row = row.clone() * extent.clone();
        row.terms().all(|(_, by)| by % LINE == 0)
    })
}

/// The one dimension along which a variable walks, and how many elements at a time.
fn dim_of(var: VarId, index: &[Poly]) -> Option<(usize, i64)> {
    let mut along = index.iter().enumerate().filter(|(_, it)| mentions(it, var));
    let (dim, at) = along.next()?;
    let step = at.split_linear(var)?.0.as_constant()?;
    along.next().is_none().then_some((dim, step))
}

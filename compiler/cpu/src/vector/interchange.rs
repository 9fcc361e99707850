//! Loop interchange for transpositions: a loop over consecutive words moves into the lanes, four
//! iterations at a time, where the lanes of an access are strided.
//!
//! ```text
//! for e in 0..32 { vectorized i in 0..64 { y[e, i] = x[i, e] } }
//!     =>   for e_0 in 0..8 { vectorized i in 0..64 { unrolled e_1 in 0..4 {
//!              y[4*e_0 + e_1, i] = x[i, 4*e_0 + e_1] } } }
//! ```
//!
//! The four accesses of each vector then stand in one block, where [`super::transpose`] finds them.
//!
//! # Invariants
//!
//! - An element is updated in the same order as before, so results are the same bits.
//!
//! # Source
//!
//! Strip-mining and interchange: Allen and Kennedy, "Optimizing Compilers for Modern Architectures"
//! (2001), chapter 5.

use super::affine::{Affine, Coef};
use super::transpose::{N_VECTORS, is_transposable_load, is_transposable_store};
use super::tree::{Access, Loop, LoopMode, Node, Tree, Write};
use super::{Count, LaneStride, Storage};
use tvmtune_ir::poly::{Poly, VarId};

/// Iterations of an inner loop: the vectors of a transposition.
const WIDTH: i64 = N_VECTORS as i64;

/// Interchanges the loops of a tree where a transposition becomes possible.
pub(super) fn interchange(tree: &mut Tree<'_>) {
    let mut phases = std::mem::take(&mut tree.phases);
    phases.iter_mut().for_each(|it| nodes(tree, it, None));
    tree.phases = phases;
}

/// Interchanges loops in a body; `lane` is the variable of the vectorized loop around it.
fn nodes(tree: &mut Tree<'_>, body: &mut [Node], lane: Option<VarId>) {
    for node in body {
        match node {
            Node::Loop(loop_) if transposes(tree, loop_, lane) => split(tree, loop_),
            Node::Loop(Loop { var, kind: LoopMode::Vectorized(_), body }) => {
                nodes(tree, body, Some(*var));
            }
            Node::Loop(Loop { body, .. }) | Node::If { body, .. } => nodes(tree, body, lane),
            Node::Write(_) => {}
        }
    }
}

/// Returns whether a loop is one over consecutive words of strided accesses, and may be innermost.
fn transposes(tree: &Tree<'_>, loop_: &Loop, lane: Option<VarId>) -> bool {
    let is_counted = matches!(loop_.kind, LoopMode::Serial | LoopMode::Unrolled(_));
    let extent = tree.var(loop_.var).extent.as_constant();
    if !is_counted || extent.is_none_or(|it| it < WIDTH || it % WIDTH != 0) {
        return false;
    }
    let mut path = Vec::new();
    let Some(write) = single_write(&loop_.body, &mut path) else { return false };
    // The data of an iteration choose one of a loop inside.
    if Node::loops(&path).any(|it| it.kind == LoopMode::Chosen) {
        return false;
    }
    let lanes = |it: &&Loop| matches!(it.kind, LoopMode::Vectorized(_));
    let Some(lane) = lane.or(Node::loops(&path).find(lanes).map(|it| it.var)) else { return false };
    let guarded = path.iter().any(|it| match it {
        Node::If { guards, .. } => {
            guards.iter().any(|id| tree.mentions(&tree.guards[*id], loop_.var))
        }
        _ => false,
    });
    !guarded && keeps_order(tree, loop_.var, lane, write, &path) && {
        let mut found = is_transposed(tree, &write.target, loop_.var, lane, is_transposable_store);
        write.value.for_each_read(&mut |access| {
            found |= is_transposed(tree, access, loop_.var, lane, is_transposable_load);
        });
        found
    }
}

/// Returns the only statement in a perfect nest; `path` receives the nodes around it.
fn single_write<'a>(body: &'a [Node], path: &mut Vec<&'a Node>) -> Option<&'a Write> {
    match body {
        [Node::Write(write)] => Some(write),
        [node] => {
            path.push(node);
            single_write(node.body(), path)
        }
        _ => None,
    }
}

/// Returns whether a statement may run for four iterations of a loop before the loops inside go on: no
/// iteration reads what another one writes, and each element is updated in the same order.
fn keeps_order(tree: &Tree<'_>, var: VarId, lane: VarId, write: &Write, path: &[&Node]) -> bool {
    let target = &write.target;
    let mut reads_target = false;
    write.value.for_each_read(&mut |access| reads_target |= access.tensor == target.tensor);
    let mut in_derived = false;
    write.for_each_form(&mut |form| {
        in_derived |= form.terms.iter().any(|(it, _)| {
            tree.var(*it).derived.is_some() && tree.mentions(&Affine::var(*it), var)
        });
    });
    let indexes = |it: VarId| tree.mentions(&target.offset, it);
    let reduces_here = write.reducer.is_some() && !indexes(var);
    let reduces_inside = Node::loops(path).any(|it| !indexes(it.var));
    let reorders = reduces_here && reduces_inside;
    !reads_target && !in_derived && indexes(lane) && !reorders
}

/// Returns whether an access is of consecutive words along a loop, and strided along the lanes.
fn is_transposed(
    tree: &Tree<'_>,
    access: &Access,
    var: VarId,
    lane: VarId,
    is_transposable: fn(LaneStride, Storage) -> bool,
) -> bool {
    let dtype = tree.buffers[access.tensor.0 as usize].dtype;
    let (Some(storage), true) = (Storage::of(dtype, tree.simd.width), access.gather.is_empty())
    else {
        return false;
    };
    let Some(&Coef::Const(step)) = access.offset.coefficient(lane) else { return false };
    let lanes = LaneStride::Strided(Count::Const(step * storage.bytes()));
    access.offset.coefficient(var) == Some(&Coef::Const(1)) && is_transposable(lanes, storage)
}

/// Splits a loop by [`WIDTH`], and moves the inner loop around the only statement.
fn split(tree: &mut Tree<'_>, loop_: &mut Loop) {
    let extent = tree.var(loop_.var).extent.as_constant().unwrap_or_default() / WIDTH;
    let [outer, inner] = [extent, WIDTH].map(|it| tree.new_var(Poly::constant(it)));
    tree.transposed.insert(inner);
    let mut index = Affine::var(outer).scaled(WIDTH);
    index.add_term(inner, Coef::Const(1));
    let inside = Inside { var: loop_.var, index, inner };
    loop_.body.iter_mut().for_each(|it| inside.enter(it));
    loop_.var = outer;
    if let LoopMode::Unrolled(n) = &mut loop_.kind {
        *n /= WIDTH;
    }
}

/// The inner one of two loops that replace a loop.
struct Inside {
    /// The variable of the loop.
    var: VarId,
    /// Its value.
    index: Affine,
    inner: VarId,
}

impl Inside {
    /// Puts the inner loop around the statement.
    fn enter(&self, node: &mut Node) {
        match node {
            Node::Loop(Loop { body, .. }) | Node::If { body, .. } => {
                body.iter_mut().for_each(|it| self.enter(it));
            }
            Node::Write(write) => {
                write.for_each_form_mut(&mut |form| {
                    if let Some(step) = form.take(self.var) {
                        form.add_scaled(&self.index, &step);
                    }
                });
                let body = vec![Node::Write(write.clone())];
                let kind = LoopMode::Unrolled(WIDTH);
                *node = Node::Loop(Loop { var: self.inner, kind, body });
            }
        }
    }
}

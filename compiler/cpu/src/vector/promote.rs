//! Register promotion of reductions (LLVM's scalar promotion in LICM), with interleaved accumulators.
//!
//! An update of a loop-invariant element accumulates in a new local tensor, which takes the element's
//! place during the loop:
//!
//! ```text
//! for k { s += x[k] * y[k] }   =>   p = s; for k { p += x[k] * y[k] }; s = p
//! ```
//!
//! If `s` is initialized before the loop, `p` is instead. So the terms of a sum are added in the order of
//! the loops, whether its loop is split or not.
//!
//! In a vectorized or unrolled loop of the reduction the new tensor has an element for each lane and
//! copy, so that dependence chains are independent. These begin with the reducer's identity, and are
//! combined into the element after the loop. That changes rounding: where the program fixes the order of
//! its reductions, no loop of one is vectorized, and unrolled copies share an accumulator.

use super::Unsupported;
use super::affine::{Affine, Coef};
use super::allocate::Allocations;
use super::tree::{
    Access, Buffer, GuardId, Loop, LoopMode, Node, Term, TermKind, Tree, Write, literal_bits,
};
use tvmtune_ir::dag::{DType, Numerics, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};

/// Accumulators that hide the latency of an FMA: 4 cycles at 2 per cycle.
const MIN_ACCUMULATORS: i64 = 8;

/// Promotes reductions of the tree; `allocations` are those of the tree before.
pub(super) fn promote(tree: &mut Tree<'_>, allocations: &Allocations) -> Result<(), Unsupported> {
    let phases = std::mem::take(&mut tree.phases);
    let mut promote = PromotionPass { tree, allocations };
    let phases = phases.into_iter().map(|it| promote.nodes(it)).collect::<Result<_, _>>()?;
    tree.phases = phases;
    Ok(())
}

struct PromotionPass<'a, 'n> {
    tree: &'a mut Tree<'n>,
    allocations: &'a Allocations,
}

/// An update to promote.
struct AccumulatorPlan {
    tensor: TensorId,
    reducer: Reducer,
    /// Loops whose iterations have separate accumulators, outermost first.
    dims: Vec<(VarId, LoopMode, Role)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// The loop indexes the element.
    Tile,
    /// Iterations of an unrolled reduction loop have interleaved accumulators.
    Interleaved,
    /// Lanes of a vectorized reduction loop have separate accumulators.
    VectorLanes,
}

struct Accumulator {
    tensor: TensorId,
    dtype: DType,
    /// Stride of each loop of the plan, in elements.
    strides: Vec<i64>,
}

impl Accumulator {
    fn element(&self, vars: &[VarId]) -> Access {
        let mut offset = Affine::default();
        for (var, stride) in vars.iter().zip(&self.strides) {
            offset.add_term(*var, Coef::Const(*stride));
        }
        Access::new(self.tensor, offset)
    }

    fn read(&self, offset: Affine) -> Term {
        Term { dtype: self.dtype, kind: TermKind::Read(Access::new(self.tensor, offset)) }
    }
}

impl PromotionPass<'_, '_> {
    fn nodes(&mut self, nodes: Vec<Node>) -> Result<Vec<Node>, Unsupported> {
        let mut out = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::Loop(mut loop_) => {
                    let mut after = Vec::new();
                    while let Some(plan) = self.plan(&loop_) {
                        after.extend(self.apply(&plan, &mut loop_, &mut out)?);
                    }
                    loop_.body = self.nodes(loop_.body)?;
                    out.push(Node::Loop(loop_));
                    out.extend(after);
                }
                Node::If { guards, body } => {
                    out.push(Node::If { guards, body: self.nodes(body)? });
                }
                write @ Node::Write(_) => out.push(write),
            }
        }
        Ok(out)
    }

    fn plan(&self, loop_: &Loop) -> Option<AccumulatorPlan> {
        if !matches!(loop_.kind, LoopMode::Serial | LoopMode::Unrolled(_)) {
            return None;
        }
        let mut found = None;
        Node::for_each_write(&loop_.body, &mut Vec::new(), &mut |write, path| {
            if found.is_none() {
                found = self.plan_write(loop_, write, path);
            }
        });
        found
    }

    fn plan_write(&self, loop_: &Loop, write: &Write, path: &[&Node]) -> Option<AccumulatorPlan> {
        let reducer = write.reducer?;
        let target = &write.target;
        let is_fixed = |var: VarId| !self.tree.mentions(&target.offset, var);
        let is_accumulator = target.tensor.0 as usize >= self.tree.nest.buffers.len();
        if is_accumulator
            || self.tree.is_of_words(target.tensor)
            || !is_fixed(loop_.var)
            || accesses(&loop_.body, target.tensor) != 1
        {
            return None;
        }
        let (mut dims, mut interleavable) = (Vec::new(), Vec::new());
        let mut reduces_lanes = false;
        for it in Node::loops(path) {
            match (it.kind, is_fixed(it.var)) {
                (LoopMode::Vectorized(_), true) => {
                    reduces_lanes = true;
                    dims.push((it.var, it.kind, Role::VectorLanes));
                }
                (LoopMode::Unrolled(_), true) if !self.is_ordered(target.tensor) => {
                    interleavable.push((dims.len(), it.var, it.kind));
                }
                (_, true) => {}
                (LoopMode::Vectorized(_) | LoopMode::Unrolled(_), false) => {
                    target.offset.coefficient(it.var)?;
                    dims.push((it.var, it.kind, Role::Tile));
                }
                (_, false) => return None,
            }
        }
        if !self.can_rename_guards(path, &dims) {
            return None;
        }
        let mut n_accumulators: i64 =
            dims.iter().map(|(_, kind, _)| self.registers(*kind)).product();
        let in_registers = self.allocations.in_registers(target.tensor);
        let mut interleaves = false;
        for (at, var, kind) in interleavable.into_iter().rev() {
            let more = n_accumulators * self.registers(kind);
            let is_worth = n_accumulators < MIN_ACCUMULATORS && more <= 2 * MIN_ACCUMULATORS;
            // The element that they are combined into takes registers meanwhile: without room for both, the
            // new accumulators would be in memory.
            let before = if in_registers { n_accumulators } else { 0 };
            let has_room = more + before <= self.tree.simd.registers().into();
            if is_worth && has_room && !interleaves {
                dims.insert(at, (var, kind, Role::Interleaved));
                n_accumulators = more;
                interleaves = true;
            }
        }
        let useful = reduces_lanes || interleaves || !in_registers;
        let fits = n_accumulators <= i64::from(self.tree.simd.registers());
        (useful && fits).then_some(AccumulatorPlan { tensor: target.tensor, reducer, dims })
    }

    /// Returns whether the program fixes the order of reductions into a tensor.
    fn is_ordered(&self, tensor: TensorId) -> bool {
        let is_float = self.tree.buffers[tensor.0 as usize].dtype.is_float();
        is_float && self.tree.nest.numerics == Numerics::Fixed
    }

    /// Returns whether guards depend on the accumulators' loops only linearly: quotients and
    /// remainders have no copy for the loops before and after.
    fn can_rename_guards(&self, path: &[&Node], dims: &[(VarId, LoopMode, Role)]) -> bool {
        let is_direct = |id: &usize| {
            dims.iter().all(|(var, ..)| {
                let mut rest = self.tree.guards[*id].clone();
                rest.take(*var);
                !self.tree.mentions(&rest, *var)
            })
        };
        path.iter().all(|it| match it {
            Node::If { guards, .. } => guards.iter().all(is_direct),
            Node::Loop(_) | Node::Write(_) => true,
        })
    }

    fn registers(&self, kind: LoopMode) -> i64 {
        match kind {
            LoopMode::Unrolled(n) => n,
            LoopMode::Vectorized(n) => {
                let lanes = self.tree.simd.lanes();
                (n + lanes - 1) / lanes
            }
            LoopMode::Serial | LoopMode::Chosen | LoopMode::Parallel => 1,
        }
    }

    /// Promotes an update: redirects it, appends the initialization to `before`, and returns the
    /// nodes that follow the loop.
    fn apply(
        &mut self,
        plan: &AccumulatorPlan,
        loop_: &mut Loop,
        before: &mut Vec<Node>,
    ) -> Result<Vec<Node>, Unsupported> {
        let sum = self.accumulator(plan);
        let plan_vars: Vec<VarId> = plan.dims.iter().map(|it| it.0).collect();
        let (target, guards) = redirect(&mut loop_.body, plan.tensor, &sum.element(&plan_vars));
        let identity =
            literal_bits(plan.reducer.identity(sum.dtype), sum.dtype, self.tree.simd.width)?;
        let mut guards = self.element_guards(&guards, plan, loop_, &target);
        let vars = self.new_vars(plan);
        let initialized = self.remove_initialization(before, &target, plan, identity);
        let is_initialized = initialized.is_some();
        if let Some(forms) = initialized {
            // Other guards leave out terms, and not elements.
            guards.retain(|id| forms.contains(&self.tree.guards[*id]));
        }
        let is_one_chain = plan.dims.iter().all(|it| it.2 == Role::Tile);
        let start = match is_one_chain && !is_initialized {
            true => {
                let offset = rename(&target.offset, &plan_vars, &vars);
                let read = TermKind::Read(Access { offset, ..target.clone() });
                Term { dtype: sum.dtype, kind: read }
            }
            false => Term::bits(identity, sum.dtype),
        };
        let start = Write::new(sum.element(&vars), None, start);
        before.push(self.nest(plan, &vars, &guards, &|_| true, start));
        let mut after = Vec::new();
        if let Some(at) = plan.dims.iter().position(|it| it.2 == Role::Interleaved) {
            after.push(self.combine_interleaved(plan, &sum, &guards, at));
        }
        let vars = self.new_vars(plan);
        let mut from = sum.element(&vars).offset;
        for ((_, _, role), var) in plan.dims.iter().zip(&vars) {
            if *role == Role::Interleaved {
                from.take(*var);
            }
        }
        let mut element = target;
        element.offset = rename(&element.offset, &plan_vars, &vars);
        let value = sum.read(from);
        let write = match is_one_chain {
            true => Write::new(element, None, value),
            false => {
                let reducer = Some(plan.reducer);
                Write { overwrites: is_initialized, ..Write::new(element, reducer, value) }
            }
        };
        after.push(self.nest(plan, &vars, &guards, &|role| role != Role::Interleaved, write));
        Ok(after)
    }

    /// Adds a tensor with an element for each iteration of the plan's loops.
    fn accumulator(&mut self, plan: &AccumulatorPlan) -> Accumulator {
        let extent = |kind: LoopMode| match kind {
            LoopMode::Unrolled(n) | LoopMode::Vectorized(n) => n,
            LoopMode::Serial | LoopMode::Chosen | LoopMode::Parallel => 1,
        };
        // Lanes are contiguous, so that they are a vector.
        let mut strides = vec![1; plan.dims.len()];
        let mut size = 1;
        for lanes_only in [true, false] {
            for (at, (_, kind, _)) in plan.dims.iter().enumerate().rev() {
                if matches!(kind, LoopMode::Vectorized(_)) == lanes_only {
                    strides[at] = size;
                    size *= extent(*kind);
                }
            }
        }
        let dtype = self.tree.buffers[plan.tensor.0 as usize].dtype;
        let partial = plan.dims.iter().filter(|it| it.2 != Role::Tile);
        let partial_over = partial.map(|it| it.0).collect();
        let size = Poly::constant(size);
        let is_partial = self.tree.buffers[plan.tensor.0 as usize].is_partial;
        self.tree.buffers.push(Buffer { dtype, local: true, size, partial_over, is_partial });
        let tensor = TensorId(self.tree.buffers.len() as u32 - 1);
        Accumulator { tensor, dtype, strides }
    }

    /// Combines the interleaved accumulators of loop `at` into the first one.
    fn combine_interleaved(
        &mut self,
        plan: &AccumulatorPlan,
        sum: &Accumulator,
        guards: &[GuardId],
        at: usize,
    ) -> Node {
        let vars = self.new_vars(plan);
        let mut into = sum.element(&vars);
        let mut from = into.offset.clone();
        from.constant += sum.strides[at];
        into.offset.take(vars[at]);
        let value = sum.read(from);
        let write = Write::new(into, Some(plan.reducer), value);
        let mut others = AccumulatorPlan { dims: plan.dims.clone(), ..*plan };
        if let LoopMode::Unrolled(n) = &mut others.dims[at].1 {
            *n -= 1;
        }
        self.nest(&others, &vars, guards, &|_| true, write)
    }

    fn new_vars(&mut self, plan: &AccumulatorPlan) -> Vec<VarId> {
        let extents = plan.dims.iter().map(|it| self.tree.var(it.0).extent.clone());
        extents.collect::<Vec<_>>().into_iter().map(|it| self.tree.new_var(it)).collect()
    }

    /// Keeps the guards on the element's index, and drops those on reduction iterations.
    fn element_guards(
        &self,
        guards: &[usize],
        plan: &AccumulatorPlan,
        loop_: &Loop,
        target: &Access,
    ) -> Vec<usize> {
        let mut reduced = vec![loop_.var];
        Node::for_each_write(&loop_.body, &mut Vec::new(), &mut |_, path| {
            let vars = Node::loops(path).map(|it| it.var);
            reduced.extend(vars.filter(|it| !self.tree.mentions(&target.offset, *it)));
        });
        let tile = |var: VarId| plan.dims.iter().any(|it| it.0 == var && it.2 == Role::Tile);
        let mut kept = guards.to_vec();
        kept.retain(|id| {
            let form = &self.tree.guards[*id];
            reduced.iter().all(|var| tile(*var) || !self.tree.mentions(form, *var))
        });
        kept
    }

    /// Wraps a write in loops over the accumulators.
    fn nest(
        &mut self,
        plan: &AccumulatorPlan,
        vars: &[VarId],
        guards: &[usize],
        wanted: &dyn Fn(Role) -> bool,
        write: Write,
    ) -> Node {
        let plan_vars: Vec<VarId> = plan.dims.iter().map(|it| it.0).collect();
        let renamed = guards.iter().map(|id| rename(&self.tree.guards[*id], &plan_vars, vars));
        let renamed: Vec<Affine> = renamed.collect();
        let first = self.tree.guards.len();
        self.tree.guards.extend(renamed);
        let mut guards: Vec<usize> = (first..self.tree.guards.len()).collect();
        let mut node = Node::Write(write);
        // Vectorized loops go innermost: loops inside would be repeated for each vector.
        let order =
            |lanes| {
                plan.dims.iter().zip(vars).rev().filter(move |((_, kind, _), _)| {
                    matches!(kind, LoopMode::Vectorized(_)) == lanes
                })
            };
        for ((_, kind, role), var) in order(true).chain(order(false)) {
            if !wanted(*role) {
                continue;
            }
            // A guard that is invariant in the lanes stands around the vectorized loop: the
            // reduction over lanes ends with that loop.
            if guards.iter().any(|id| self.tree.mentions(&self.tree.guards[*id], *var)) {
                node = Node::If { guards: std::mem::take(&mut guards), body: vec![node] };
            }
            node = Node::Loop(Loop { var: *var, kind: *kind, body: vec![node] });
        }
        match guards.is_empty() {
            true => node,
            false => Node::If { guards, body: vec![node] },
        }
    }

    /// Removes the initialization of the element, if it stands before the loop; returns the guards around
    /// it, of the loops of the plan.
    fn remove_initialization(
        &self,
        before: &mut Vec<Node>,
        target: &Access,
        plan: &AccumulatorPlan,
        identity: u64,
    ) -> Option<Vec<Affine>> {
        let touches = |node: &Node| accesses(std::slice::from_ref(node), target.tensor) > 0;
        let at = before.iter().rposition(touches)?;
        let (mut node, mut vars, mut kinds) = (&before[at], Vec::new(), Vec::new());
        let mut around = Vec::new();
        let write = loop {
            node = match node {
                Node::Write(write) => break write,
                Node::Loop(it) => {
                    vars.push(it.var);
                    kinds.push(it.kind);
                    if it.body.len() != 1 {
                        return None;
                    }
                    &it.body[0]
                }
                Node::If { guards, body } if body.len() == 1 => {
                    around.extend_from_slice(guards);
                    &body[0]
                }
                Node::If { .. } => return None,
            };
        };
        let tile: Vec<&(VarId, LoopMode, Role)> =
            plan.dims.iter().filter(|it| it.2 == Role::Tile).collect();
        let plan_vars: Vec<VarId> = tile.iter().map(|it| it.0).collect();
        let starts = write.reducer.is_none()
            && write.target.tensor == target.tensor
            && matches!(write.value.kind, TermKind::Bits(bits) if bits == identity)
            && tile.iter().map(|it| it.1).eq(kinds)
            && rename(&target.offset, &plan_vars, &vars) == write.target.offset;
        starts.then(|| {
            before.remove(at);
            around.iter().map(|id| rename(&self.tree.guards[*id], &vars, &plan_vars)).collect()
        })
    }
}

fn accesses(nodes: &[Node], tensor: TensorId) -> usize {
    let mut n = 0;
    Node::for_each_write(nodes, &mut Vec::new(), &mut |write, _| {
        n += usize::from(write.target.tensor == tensor);
        write.value.for_each_read(&mut |read| n += usize::from(read.tensor == tensor));
    });
    n
}

/// Redirects the update of a tensor; returns its former target, and the guards around it.
fn redirect(nodes: &mut [Node], tensor: TensorId, to: &Access) -> (Access, Vec<usize>) {
    for node in nodes {
        let (found, mut guards) = match node {
            Node::Write(write) if write.target.tensor == tensor => {
                return (std::mem::replace(&mut write.target, to.clone()), Vec::new());
            }
            Node::Write(_) => continue,
            Node::Loop(it) if accesses(&it.body, tensor) > 0 => redirect(&mut it.body, tensor, to),
            Node::If { guards, body } if accesses(body, tensor) > 0 => {
                let (found, inner) = redirect(body, tensor, to);
                (found, [guards.as_slice(), &inner].concat())
            }
            Node::Loop(_) | Node::If { .. } => continue,
        };
        guards.sort_unstable();
        return (found, guards);
    }
    (to.clone(), Vec::new())
}

fn rename(form: &Affine, from: &[VarId], to: &[VarId]) -> Affine {
    let mut out = Affine { terms: Vec::new(), ..form.clone() };
    for (var, coefficient) in &form.terms {
        let at = from.iter().position(|it| it == var);
        out.add_term(at.map_or(*var, |at| to[at]), coefficient.clone());
    }
    out
}

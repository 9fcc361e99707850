//! Accumulators get registers.
//!
//! An update whose element does not change over a loop is made to a new local tensor, which starts
//! at the reducer's identity before the loop and is combined into the element after it:
//!
//! ```text
//! for k { s += x[k] * y[k] }   =>   p = 0; for k { p += x[k] * y[k] }; s += p
//! ```
//!
//! Where the update is made in the lanes of a vector, or in an unrolled loop, the new tensor has
//! an element for each lane and copy: partial sums that do not wait for each other. The order of a
//! reduction is not part of a program's meaning, so this changes rounding only.

use super::Unsupported;
use super::affine::{Affine, Coef};
use super::place::Places;
use super::tree::{
    Access, Buffer, GuardId, Item, Kind, Loop, Term, TermKind, Tree, Write, literal_bits,
};
use tvmtune_ir::dag::{DType, Reducer, TensorId};
use tvmtune_ir::poly::{Poly, VarId};
use tvmtune_ir::target::Isa;

/// Accumulators that hide the latency of an addition: 4 cycles, 2 a cycle.
const ENOUGH_CHAINS: i64 = 8;

/// Rewrites the tree; `places` tells which tensors are in registers as it stands.
pub(super) fn promote(tree: &mut Tree<'_>, isa: Isa, places: &Places) -> Result<(), Unsupported> {
    let phases = std::mem::take(&mut tree.phases);
    let mut promote = Promote { tree, isa, places };
    let phases = phases.into_iter().map(|it| promote.items(it)).collect::<Result<_, _>>()?;
    tree.phases = phases;
    Ok(())
}

struct Promote<'a, 'n> {
    tree: &'a mut Tree<'n>,
    isa: Isa,
    places: &'a Places,
}

/// An update that is worth an accumulator of its own.
struct Plan {
    tensor: TensorId,
    reducer: Reducer,
    /// Loops whose iterations have accumulators of their own, outermost first.
    dims: Vec<(VarId, Kind, Role)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Indexes the element.
    Tile,
    /// Copies of one element's accumulator.
    Copies,
    /// Lanes of one element's accumulator.
    Lanes,
}

/// The tensor of accumulators.
struct Accumulator {
    tensor: TensorId,
    dtype: DType,
    /// For each loop of the plan, in elements.
    strides: Vec<i64>,
}

impl Accumulator {
    fn element(&self, vars: &[VarId]) -> Access {
        let mut offset = Affine::default();
        for (var, stride) in vars.iter().zip(&self.strides) {
            offset.add_term(*var, Coef::Const(*stride));
        }
        Access { tensor: self.tensor, offset, gather: Vec::new(), sure: true }
    }

    fn read(&self, offset: Affine) -> Term {
        let access = Access { tensor: self.tensor, offset, gather: Vec::new(), sure: true };
        Term { dtype: self.dtype, kind: TermKind::Read(access) }
    }
}

impl Promote<'_, '_> {
    fn items(&mut self, items: Vec<Item>) -> Result<Vec<Item>, Unsupported> {
        let mut out = Vec::with_capacity(items.len());
        for item in items {
            match item {
                Item::Loop(mut loop_) => {
                    let mut after = Vec::new();
                    while let Some(plan) = self.plan(&loop_) {
                        after.extend(self.apply(&plan, &mut loop_, &mut out)?);
                    }
                    loop_.body = self.items(loop_.body)?;
                    out.push(Item::Loop(loop_));
                    out.extend(after);
                }
                Item::If { guards, body } => {
                    out.push(Item::If { guards, body: self.items(body)? });
                }
                write @ Item::Write(_) => out.push(write),
            }
        }
        Ok(out)
    }

    fn plan(&self, loop_: &Loop) -> Option<Plan> {
        if !matches!(loop_.kind, Kind::Serial | Kind::Unrolled(_)) {
            return None;
        }
        let mut found = None;
        Item::for_each_write(&loop_.body, &mut Vec::new(), &mut |write, path| {
            if found.is_none() {
                found = self.plan_write(loop_, write, path);
            }
        });
        found
    }

    fn plan_write(&self, loop_: &Loop, write: &Write, path: &[&Item]) -> Option<Plan> {
        let reducer = write.reducer?;
        let target = &write.target;
        let is_fixed = |var: VarId| !self.tree.mentions(&target.offset, var);
        let is_promoted = target.tensor.0 as usize >= self.tree.nest.buffers.len();
        if is_promoted || !is_fixed(loop_.var) || accesses(&loop_.body, target.tensor) != 1 {
            return None;
        }
        let loops = path.iter().filter_map(|it| match it {
            Item::Loop(it) => Some(it),
            _ => None,
        });
        let (mut dims, mut copies) = (Vec::new(), Vec::new());
        let mut reduces_lanes = false;
        for it in loops {
            match (it.kind, is_fixed(it.var)) {
                (Kind::Lanes(_), true) => {
                    reduces_lanes = true;
                    dims.push((it.var, it.kind, Role::Lanes));
                }
                (Kind::Unrolled(_), true) => copies.push((dims.len(), it.var, it.kind)),
                (_, true) => {}
                (Kind::Lanes(_) | Kind::Unrolled(_), false) => {
                    target.offset.coefficient(it.var)?;
                    dims.push((it.var, it.kind, Role::Tile));
                }
                (_, false) => return None,
            }
        }
        if !self.can_rename(path, &dims) {
            return None;
        }
        let mut chains: i64 = dims.iter().map(|(_, kind, _)| self.registers(*kind)).product();
        let in_registers = self.places.in_registers(target.tensor);
        let mut copied = false;
        for (at, var, kind) in copies.into_iter().rev() {
            let more = chains * self.registers(kind);
            if chains < ENOUGH_CHAINS && more <= 2 * ENOUGH_CHAINS && !copied {
                dims.insert(at, (var, kind, Role::Copies));
                chains = more;
                copied = true;
            }
        }
        let useful = reduces_lanes || copied || !in_registers;
        let fits = chains <= i64::from(self.isa.registers());
        (useful && fits).then_some(Plan { tensor: target.tensor, reducer, dims })
    }

    /// Whether the guards on the way depend on the accumulators' loops directly, not by way of a
    /// quotient or remainder: those have no copy for the loops before and after.
    fn can_rename(&self, path: &[&Item], dims: &[(VarId, Kind, Role)]) -> bool {
        let is_direct = |id: &usize| {
            dims.iter().all(|(var, ..)| {
                let mut rest = self.tree.guards[*id].clone();
                rest.take(*var);
                !self.tree.mentions(&rest, *var)
            })
        };
        path.iter().all(|it| match it {
            Item::If { guards, .. } => guards.iter().all(is_direct),
            Item::Loop(_) | Item::Write(_) => true,
        })
    }

    fn registers(&self, kind: Kind) -> i64 {
        match kind {
            Kind::Unrolled(n) => n,
            Kind::Lanes(n) => (n + i64::from(self.isa.lanes()) - 1) / i64::from(self.isa.lanes()),
            Kind::Serial | Kind::Parallel => 1,
        }
    }

    /// Redirects the update, puts what starts the accumulator into `before`, and gives what
    /// follows the loop.
    fn apply(
        &mut self,
        plan: &Plan,
        loop_: &mut Loop,
        before: &mut Vec<Item>,
    ) -> Result<Vec<Item>, Unsupported> {
        let sum = self.accumulator(plan);
        let own: Vec<VarId> = plan.dims.iter().map(|it| it.0).collect();
        let (target, guards) = redirect(&mut loop_.body, plan.tensor, &sum.element(&own));
        let identity = literal_bits(plan.reducer.identity(sum.dtype), sum.dtype)?;
        let guards = self.element_guards(&guards, plan, loop_, &target);
        let vars = self.fresh(plan);
        let start = Write::new(sum.element(&vars), None, Term::bits(identity, sum.dtype));
        let start = self.nest(plan, &vars, &guards, &|_| true, start);
        let fresh = self.take_start(before, &target, plan, identity);
        before.push(start);
        let mut after = Vec::new();
        if let Some(at) = plan.dims.iter().position(|it| it.2 == Role::Copies) {
            after.push(self.add_copies(plan, &sum, &guards, at));
        }
        let vars = self.fresh(plan);
        let mut from = sum.element(&vars).offset;
        for ((_, _, role), var) in plan.dims.iter().zip(&vars) {
            if *role == Role::Copies {
                from.take(*var);
            }
        }
        let mut element = target;
        element.offset = rename(&element.offset, &own, &vars);
        let value = sum.read(from);
        let write = Write { fresh, ..Write::new(element, Some(plan.reducer), value) };
        after.push(self.nest(plan, &vars, &guards, &|role| role != Role::Copies, write));
        Ok(after)
    }

    /// A new tensor with an element for each iteration of the plan's loops.
    fn accumulator(&mut self, plan: &Plan) -> Accumulator {
        let extent = |kind: Kind| match kind {
            Kind::Unrolled(n) | Kind::Lanes(n) => n,
            Kind::Serial | Kind::Parallel => 1,
        };
        // Lanes are innermost in memory, so that they are a vector.
        let mut strides = vec![1; plan.dims.len()];
        let mut size = 1;
        for lanes_only in [true, false] {
            for (at, (_, kind, _)) in plan.dims.iter().enumerate().rev() {
                if matches!(kind, Kind::Lanes(_)) == lanes_only {
                    strides[at] = size;
                    size *= extent(*kind);
                }
            }
        }
        let dtype = self.tree.buffers[plan.tensor.0 as usize].dtype;
        self.tree.buffers.push(Buffer { dtype, local: true, size: Poly::constant(size) });
        let tensor = TensorId(self.tree.buffers.len() as u32 - 1);
        Accumulator { tensor, dtype, strides }
    }

    /// Adds all copies, those of the loop at `at`, to the first one.
    fn add_copies(
        &mut self,
        plan: &Plan,
        sum: &Accumulator,
        guards: &[GuardId],
        at: usize,
    ) -> Item {
        let vars = self.fresh(plan);
        let mut into = sum.element(&vars);
        let mut from = into.offset.clone();
        from.constant += sum.strides[at];
        into.offset.take(vars[at]);
        let value = sum.read(from);
        let write = Write::new(into, Some(plan.reducer), value);
        let mut others = Plan { dims: plan.dims.clone(), ..*plan };
        if let Kind::Unrolled(n) = &mut others.dims[at].1 {
            *n -= 1;
        }
        self.nest(&others, &vars, guards, &|_| true, write)
    }

    fn fresh(&mut self, plan: &Plan) -> Vec<VarId> {
        let extents = plan.dims.iter().map(|it| self.tree.var(it.0).extent.clone());
        extents.collect::<Vec<_>>().into_iter().map(|it| self.tree.new_var(it)).collect()
    }

    /// The guards that say whether the element exists, not whether an iteration adds to it.
    fn element_guards(
        &self,
        guards: &[usize],
        plan: &Plan,
        loop_: &Loop,
        target: &Access,
    ) -> Vec<usize> {
        let mut reduced = vec![loop_.var];
        Item::for_each_write(&loop_.body, &mut Vec::new(), &mut |_, path| {
            reduced.extend(path.iter().filter_map(|it| match it {
                Item::Loop(it) if !self.tree.mentions(&target.offset, it.var) => Some(it.var),
                _ => None,
            }));
        });
        let tile = |var: VarId| plan.dims.iter().any(|it| it.0 == var && it.2 == Role::Tile);
        let mut kept = guards.to_vec();
        kept.retain(|id| {
            let form = &self.tree.guards[*id];
            reduced.iter().all(|var| tile(*var) || !self.tree.mentions(form, *var))
        });
        kept
    }

    /// The write in loops over the accumulators.
    fn nest(
        &mut self,
        plan: &Plan,
        vars: &[VarId],
        guards: &[usize],
        wanted: &dyn Fn(Role) -> bool,
        write: Write,
    ) -> Item {
        let own: Vec<VarId> = plan.dims.iter().map(|it| it.0).collect();
        let renamed = guards.iter().map(|id| rename(&self.tree.guards[*id], &own, vars));
        let renamed: Vec<Affine> = renamed.collect();
        let first = self.tree.guards.len();
        self.tree.guards.extend(renamed);
        let mut guards: Vec<usize> = (first..self.tree.guards.len()).collect();
        let mut item = Item::Write(write);
        // Lanes go innermost: loops inside them would be repeated for each vector.
        let order = |lanes| {
            plan.dims
                .iter()
                .zip(vars)
                .rev()
                .filter(move |((_, kind, _), _)| matches!(kind, Kind::Lanes(_)) == lanes)
        };
        for ((_, kind, role), var) in order(true).chain(order(false)) {
            if !wanted(*role) {
                continue;
            }
            // A guard that is the same in all vectors of a sum stands around them: the sum is
            // complete only when the last one was added.
            if guards.iter().any(|id| self.tree.mentions(&self.tree.guards[*id], *var)) {
                item = Item::If { guards: std::mem::take(&mut guards), body: vec![item] };
            }
            item = Item::Loop(Loop { var: *var, kind: *kind, body: vec![item] });
        }
        if !guards.is_empty() {
            item = Item::If { guards, body: vec![item] };
        }
        item
    }

    /// Removes the store that starts the element, if it stands before the loop.
    fn take_start(
        &self,
        before: &mut Vec<Item>,
        target: &Access,
        plan: &Plan,
        identity: u32,
    ) -> bool {
        let touches = |item: &Item| accesses(std::slice::from_ref(item), target.tensor) > 0;
        let Some(at) = before.iter().rposition(touches) else { return false };
        let (mut item, mut vars, mut kinds) = (&before[at], Vec::new(), Vec::new());
        let write = loop {
            item = match item {
                Item::Write(write) => break write,
                Item::Loop(it) => {
                    vars.push(it.var);
                    kinds.push(it.kind);
                    if it.body.len() != 1 {
                        return false;
                    }
                    &it.body[0]
                }
                Item::If { body, .. } if body.len() == 1 => &body[0],
                Item::If { .. } => return false,
            };
        };
        let tile: Vec<&(VarId, Kind, Role)> =
            plan.dims.iter().filter(|it| it.2 == Role::Tile).collect();
        let own: Vec<VarId> = tile.iter().map(|it| it.0).collect();
        let starts = write.reducer.is_none()
            && write.target.tensor == target.tensor
            && matches!(write.value.kind, TermKind::Bits(bits) if bits == identity)
            && tile.iter().map(|it| it.1).eq(kinds)
            && rename(&target.offset, &own, &vars) == write.target.offset;
        if starts {
            before.remove(at);
        }
        starts
    }
}

/// How often a tensor is read or written.
fn accesses(items: &[Item], tensor: TensorId) -> usize {
    let mut n = 0;
    Item::for_each_write(items, &mut Vec::new(), &mut |write, _| {
        n += usize::from(write.target.tensor == tensor);
        write.for_each_read(&mut |read| n += usize::from(read.tensor == tensor));
    });
    n
}

/// Makes the update of a tensor go elsewhere; gives where it went before, and the guards around.
fn redirect(items: &mut [Item], tensor: TensorId, to: &Access) -> (Access, Vec<usize>) {
    for item in items {
        let (found, mut guards) = match item {
            Item::Write(write) if write.target.tensor == tensor => {
                return (std::mem::replace(&mut write.target, to.clone()), Vec::new());
            }
            Item::Write(_) => continue,
            Item::Loop(it) if accesses(&it.body, tensor) > 0 => redirect(&mut it.body, tensor, to),
            Item::If { guards, body } if accesses(body, tensor) > 0 => {
                let (found, inner) = redirect(body, tensor, to);
                (found, [guards.as_slice(), &inner].concat())
            }
            Item::Loop(_) | Item::If { .. } => continue,
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

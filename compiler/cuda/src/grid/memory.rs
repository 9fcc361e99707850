//! Where the buffers of a block live: in registers where each thread needs only its own elements,
//! else in shared memory.

use std::collections::{BTreeMap, BTreeSet};

use super::distribute::{Form, Runs, distribute};
use super::operand::Spreads;
use super::tails::Unneeded;
use super::{Buffer, Home, Kernel, Stmt, ThreadVar, Unplaceable, WARP, feed, pipeline, write_out};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{self, Scope};

/// Where shared buffers start: on a line of 16 bytes, so that vectors can be read from them.
const ALIGNMENT: u64 = 16;
/// More elements than any memory of a block has.
const MOST_ELEMENTS: i64 = 1 << 24;
/// Where buffers start that boxes are copied to.
const BOX_ALIGNMENT: u64 = 128;
/// Bytes of a barrier in shared memory.
const BARRIER: u64 = 8;
/// Bytes of the largest element.
const WIDEST: u64 = 8;

/// A buffer of a nest; those of blocks count as registers until [`place`] has decided.
pub(super) fn unplaced(buffer: &nest::Buffer) -> Buffer {
    Buffer {
        name: buffer.name.clone(),
        dtype: buffer.dtype,
        shape: buffer.shape.clone(),
        home: match buffer.scope {
            Scope::Argument => Home::Argument,
            Scope::Workspace => Home::Workspace,
            Scope::Local => Home::Registers,
            Scope::Unused => Home::Unused,
        },
        layout: buffer.layout.clone(),
        permuted: None,
        is_rounded: false,
    }
}

/// The loops around an access, outermost first.
pub(super) type Path = Vec<(VarId, Runs)>;

/// What all accesses of a buffer have in common.
struct Use {
    /// The loops around all of them.
    home: Path,
    /// Where each is, and the loops around it; `None` where the data says.
    accesses: Vec<(Option<Vec<Poly>>, Path)>,
}

/// What becomes of a buffer.
enum Decision {
    /// Every thread has all of it.
    Private,
    /// Every thread has its elements only: so many loops out it lies.
    Dealt { n_home: usize },
    /// It lies in shared memory; once for each value of the variable, if there is one.
    Shared { group: Option<VarId> },
}

/// Decides for every buffer of a block that the kernel uses.
pub(super) fn place(
    kernel: &mut Kernel,
    buffers: &mut [Buffer],
    facts: &Facts,
    (unneeded, spreads): (&Unneeded, &Spreads),
    n_vars: &mut u32,
) -> Result<(), Unplaceable> {
    let slots = pipeline::slots(kernel, buffers, n_vars);
    let mut uses: BTreeMap<TensorId, Use> = BTreeMap::new();
    each_access(&mut kernel.body, facts, &mut Vec::new(), &mut |tensor, index, path| {
        if buffers[tensor.0 as usize].home == Home::Registers {
            match affine(index) {
                Some(it) => {
                    let (index, path) = as_shared(spreads, tensor, it, path);
                    note(&mut uses, tensor, Some(index), &path);
                }
                None => note(&mut uses, tensor, None, path),
            }
        }
    });
    for tensor in uses.keys() {
        bound_shape(&mut buffers[tensor.0 as usize], facts)?;
    }
    // Positions are computed from shapes as they are now.
    let shapes: Vec<Vec<Poly>> = buffers.iter().map(|it| it.shape.clone()).collect();
    let mut decisions = BTreeMap::new();
    for (tensor, found) in &uses {
        let buffer = &mut buffers[tensor.0 as usize];
        let decision = decide(buffer, found, kernel, n_vars);
        decisions.insert(*tensor, decision);
    }
    each_access(
        &mut kernel.body,
        facts,
        &mut Vec::new(),
        &mut |tensor, index, path| match decisions.get(&tensor) {
            Some(Decision::Dealt { n_home }) => {
                let known = affine(index).map(|it| as_shared(spreads, tensor, it, path));
                let form = known.and_then(|(index, path)| {
                    let position = flat(&index, &shapes[tensor.0 as usize]);
                    Form::read(&position, &runs(&path[*n_home..]))
                });
                let local = form.and_then(|it| distribute(&[it]));
                let (places, _) = local.expect("it was read when it was decided");
                *index = places.into_iter().map(Subscript::Affine).collect();
            }
            Some(Decision::Shared { group }) => {
                let own = group.map(Poly::var).into_iter();
                let slot = slots.get(&tensor).map(pipeline::Slot::position).into_iter();
                index.splice(0..0, slot.chain(own).map(Subscript::Affine));
            }
            Some(Decision::Private) | None => {}
        },
    );
    for (tensor, decision) in &decisions {
        let Decision::Shared { group } = decision else { continue };
        let buffer = &mut buffers[tensor.0 as usize];
        let n_slots = slots.get(tensor).map(|it| Poly::constant(it.depth.into()));
        let n_groups = group.map(|var| n_groups(kernel, var));
        buffer.shape.splice(0..0, n_slots.into_iter().chain(n_groups));
        buffer.home = Home::Shared(0);
    }
    pipeline::keep(kernel, buffers, &slots);
    feed::divide(kernel, buffers, &slots, unneeded)?;
    let in_registers = |it: TensorId| buffers[it.0 as usize].home == Home::Registers;
    write_out::loops(kernel, &in_registers, facts);
    Ok(())
}

/// An access, and the loops around it, as threads of a matrix instruction share it, if they do.
fn as_shared(
    spreads: &Spreads,
    tensor: TensorId,
    index: Vec<Poly>,
    path: &Path,
) -> (Vec<Poly>, Path) {
    let shared = spreads.shared(tensor, &index, path);
    shared.unwrap_or_else(|| (index, path.clone()))
}

/// Gives a buffer the largest extents it can have: memory of a block has a constant size.
fn bound_shape(buffer: &mut Buffer, facts: &Facts) -> Result<(), Unplaceable> {
    let mut elements: i64 = 1;
    for extent in &mut buffer.shape {
        let most = extent.interval(facts).hi.max(0);
        elements = elements.saturating_mul(most);
        *extent = Poly::constant(most);
    }
    if elements > MOST_ELEMENTS { Err(Unplaceable::DynamicMemory) } else { Ok(()) }
}

fn note(
    uses: &mut BTreeMap<TensorId, Use>,
    tensor: TensorId,
    index: Option<Vec<Poly>>,
    path: &Path,
) {
    let found =
        uses.entry(tensor).or_insert_with(|| Use { home: path.clone(), accesses: Vec::new() });
    let common = found.home.iter().zip(path).take_while(|(a, b)| a == b).count();
    found.home.truncate(common);
    found.accesses.push((index, path.clone()));
}

fn decide(buffer: &mut Buffer, found: &Use, kernel: &mut Kernel, n_vars: &mut u32) -> Decision {
    let step = found.home.iter().rev().find_map(|(_, it)| match it {
        Runs::Threads { step, .. } => Some(*step),
        Runs::Loop(_) => None,
    });
    let range = step.unwrap_or(kernel.threads);
    if range == 1 {
        return Decision::Private;
    }
    let n_home = found.home.len();
    let form = |(index, path): &(Option<Vec<Poly>>, Path)| {
        let position = flat(index.as_ref()?, &buffer.shape);
        Form::read(&position, &runs(&path[n_home..]))
    };
    let forms: Option<Vec<Form>> = found.accesses.iter().map(form).collect();
    if let Some((_, size)) = forms.and_then(|it| distribute(&it)) {
        buffer.shape = vec![Poly::constant(size)];
        return Decision::Dealt { n_home };
    }
    let group = (range < kernel.threads).then(|| {
        let same = |it: &&ThreadVar| it.step == range && it.range == kernel.threads;
        if let Some(known) = kernel.thread_vars.iter().find(same) {
            return known.var;
        }
        let var = VarId(*n_vars);
        *n_vars += 1;
        kernel.thread_vars.push(ThreadVar { var, step: range, range: kernel.threads });
        var
    });
    Decision::Shared { group }
}

/// How many values a position of threads has.
fn n_groups(kernel: &Kernel, group: VarId) -> Poly {
    let found = kernel.thread_vars.iter().find(|it| it.var == group);
    Poly::constant(found.map_or(1, |it| it.range / it.step).into())
}

/// Gives every buffer its place in shared memory, and what warps combined too.
pub(super) fn allocate(kernel: &mut Kernel, buffers: &mut [Buffer]) -> Result<(), Unplaceable> {
    let (mut shared, mut combines) = (BTreeSet::new(), false);
    shared.extend(kernel.maps.iter().map(|it| it.to));
    for stmt in &kernel.body {
        stmt.walk(&mut |it| match it {
            Stmt::Store { tensor, .. } | Stmt::Update { tensor, .. } => {
                if matches!(buffers[tensor.0 as usize].home, Home::Shared(_)) {
                    shared.insert(*tensor);
                }
            }
            Stmt::Combine { range, .. } => combines |= *range > WARP,
            _ => {}
        });
    }
    let mut end: u64 = 0;
    for tensor in shared {
        let buffer = &mut buffers[tensor.0 as usize];
        let is_fed = kernel.maps.iter().any(|it| it.to == tensor);
        let plain = if is_fed { BOX_ALIGNMENT } else { ALIGNMENT };
        let alignment = buffer.permuted.map_or(plain, |it| 8 * u64::from(it));
        let first = end.next_multiple_of(alignment);
        let most = |it: &Poly| it.as_constant().unwrap_or(i64::MAX) as u64;
        let elements = buffer.shape.iter().map(most).fold(1, u64::saturating_mul);
        end = first.saturating_add(elements.saturating_mul(buffer.dtype.bytes()));
        buffer.home = Home::Shared(u32::try_from(first).map_err(|_| Unplaceable::Shared(first))?);
    }
    if combines {
        let first = end.next_multiple_of(ALIGNMENT);
        kernel.partials = Some(u32::try_from(first).map_err(|_| Unplaceable::Shared(first))?);
        end = first + u64::from(kernel.threads.div_ceil(WARP)) * WIDEST;
    }
    for ring in &mut kernel.rings {
        let first = end.next_multiple_of(ALIGNMENT);
        ring.place = u32::try_from(first).map_err(|_| Unplaceable::Shared(first))?;
        end = first + 2 * u64::from(ring.depth) * BARRIER;
    }
    kernel.shared_bytes = u32::try_from(end).map_err(|_| Unplaceable::Shared(end))?;
    Ok(())
}

fn runs(path: &[(VarId, Runs)]) -> BTreeMap<VarId, Runs> {
    path.iter().copied().collect()
}

/// The row-major position of an element.
pub(super) fn flat(index: &[Poly], shape: &[Poly]) -> Poly {
    let step =
        |position: Poly, (at, extent): (&Poly, &Poly)| position * extent.clone() + at.clone();
    index.iter().zip(shape).fold(Poly::default(), step)
}

type Visit<'v> = dyn FnMut(TensorId, &mut Vec<Subscript>, &Path) + 'v;

/// Calls `visit` with every access: the buffer, where, and the loops around; it may change where.
fn each_access(body: &mut [Stmt], facts: &Facts, path: &mut Path, visit: &mut Visit<'_>) {
    for stmt in body {
        match stmt {
            Stmt::For { var, extent, body, .. } => {
                let extent = extent.interval(facts).hi.clamp(1, MOST_ELEMENTS);
                path.push((*var, Runs::Loop(extent)));
                each_access(body, facts, path, visit);
                path.pop();
            }
            Stmt::Thread { var, extent, step, range, body } => {
                let extent = i64::from(*extent).max(1);
                path.push((*var, Runs::Threads { extent, step: *step, range: *range }));
                each_access(body, facts, path, visit);
                path.pop();
            }
            Stmt::If { body, .. } | Stmt::Async { body } => each_access(body, facts, path, visit),
            Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
                *value = read(value, path, visit);
                *index = written(*tensor, index, path, visit);
            }
            Stmt::Combine { tensor, index, .. } => *index = written(*tensor, index, path, visit),
            Stmt::Sync { .. }
            | Stmt::Commit
            | Stmt::Wait { .. }
            | Stmt::LoadFragment { .. }
            | Stmt::Multiply { .. }
            | Stmt::GroupMultiply { .. }
            | Stmt::Matrices { .. }
            | Stmt::WaitMatrices { .. }
            | Stmt::WaitFull { .. }
            | Stmt::WaitEmpty { .. }
            | Stmt::CopyBox { .. }
            | Stmt::Release { .. }
            | Stmt::Advance { .. }
            | Stmt::FenceAsync => {}
        }
    }
}

fn written(tensor: TensorId, index: &[Poly], path: &Path, visit: &mut Visit<'_>) -> Vec<Poly> {
    let mut subscripts = index.iter().cloned().map(Subscript::Affine).collect();
    visit(tensor, &mut subscripts, path);
    affine(&subscripts).expect("what is written is where loops say")
}

fn read(value: &Expr, path: &Path, visit: &mut Visit<'_>) -> Expr {
    let mut inner = value.map_children(&mut |it| read(it, path, visit));
    if let Expr::Read { tensor, index } = &mut inner {
        visit(*tensor, index, path);
    }
    inner
}

//! Memory scopes of the buffers of a block: registers where each thread accesses only its own elements,
//! else shared memory.
//!
//! In: buffers that are [`MemoryScope::Undecided`]. Out: for each a scope, its shape there, and its
//! accesses as elements of that.

use std::collections::BTreeMap;

use super::access_layout::{AccessLayout, LoopAxis, Path, place_in_registers};
use super::fragment_layout::FragmentLayouts;
use super::kernel::thread_var;
use super::pipeline::{self, Staging};
use super::unbound::{Kernel, Stmt};
use super::{Buffer, MemoryScope, SharedMemory, ThreadLoop, Unplaceable};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{Expr, Subscript, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{self, Scope, flat};

/// More elements than any memory of a block has.
const MAX_ELEMENTS: i64 = 1 << 24;

/// A buffer of a nest; [`place`] decides on the memory scope of those of a block.
pub(super) fn undecided(buffer: &nest::Buffer) -> Buffer {
    Buffer {
        name: buffer.name.clone(),
        dtype: buffer.dtype,
        shape: buffer.shape.clone(),
        scope: match buffer.scope {
            Scope::Argument => MemoryScope::Argument,
            Scope::Workspace => MemoryScope::Workspace,
            Scope::Local => MemoryScope::Undecided,
            Scope::Unused => MemoryScope::Unused,
        },
        layout: buffer.layout.clone(),
        is_partial: buffer.is_partial,
    }
}

/// The accesses of a buffer.
struct Use {
    /// The loops around all of them.
    common: Path,
    /// The index of each, `None` where it depends on data, and the loops around it.
    accesses: Vec<(Option<Vec<Poly>>, Path)>,
}

/// The decision about a buffer.
enum Decision {
    /// Every thread has all of it.
    Private,
    /// Every thread has its own elements, inside of the `n_common` outermost loops.
    Distributed { n_common: usize },
    /// It is in shared memory; once for each value of the variable, if there is one.
    Shared { group: Option<VarId> },
}

/// Decides on every buffer of a block that the kernel accesses; returns the pipeline stages.
pub(super) fn place(
    kernel: &mut Kernel,
    buffers: &mut [Buffer],
    facts: &Facts,
    layouts: &FragmentLayouts,
    n_vars: &mut u32,
) -> Result<BTreeMap<TensorId, Staging>, Unplaceable> {
    let stagings = pipeline::stagings(kernel, buffers, n_vars);
    let mut uses: BTreeMap<TensorId, Use> = BTreeMap::new();
    each_access(&mut kernel.body, facts, &mut Vec::new(), &mut |tensor, index, path| {
        if buffers[tensor.0 as usize].scope == MemoryScope::Undecided {
            match affine(index) {
                Some(it) => {
                    let (index, path) = as_shared(layouts, tensor, it, path);
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
            Some(Decision::Distributed { n_common }) => {
                let known = affine(index).map(|it| as_shared(layouts, tensor, it, path));
                let form = known.and_then(|(index, path)| {
                    let position = flat(&index, &shapes[tensor.0 as usize]);
                    AccessLayout::read(&position, &runs(&path[*n_common..]))
                });
                let local = form.and_then(|it| place_in_registers(&[it]));
                let (places, _) = local.expect("it was read when it was decided");
                *index = places.into_iter().map(Subscript::Affine).collect();
            }
            Some(Decision::Shared { group }) => {
                let own = group.map(Poly::var).into_iter();
                let stage = stagings.get(&tensor).map(Staging::stage).into_iter();
                index.splice(0..0, stage.chain(own).map(Subscript::Affine));
            }
            Some(Decision::Private) | None => {}
        },
    );
    for (tensor, decision) in &decisions {
        let buffer = &mut buffers[tensor.0 as usize];
        let Decision::Shared { group } = decision else {
            buffer.scope = MemoryScope::Registers;
            continue;
        };
        let n_stages = stagings.get(tensor).map(|it| Poly::constant(it.n_stages.into()));
        let n_groups = group.map(|var| n_groups(kernel, var));
        buffer.shape.splice(0..0, n_stages.into_iter().chain(n_groups));
        buffer.scope = MemoryScope::Shared(SharedMemory::default());
    }
    Ok(stagings)
}

/// Returns an access, and the loops around it, in the fragment layout if it has one.
fn as_shared(
    layouts: &FragmentLayouts,
    tensor: TensorId,
    index: Vec<Poly>,
    path: &Path,
) -> (Vec<Poly>, Path) {
    let shared = layouts.shared(tensor, &index, path);
    shared.unwrap_or_else(|| (index, path.clone()))
}

/// Sets a buffer's extents to their maxima: memory of a block has a constant size.
fn bound_shape(buffer: &mut Buffer, facts: &Facts) -> Result<(), Unplaceable> {
    let mut elements: i64 = 1;
    for extent in &mut buffer.shape {
        let most = extent.interval(facts).hi.max(0);
        elements = elements.saturating_mul(most);
        *extent = Poly::constant(most);
    }
    if elements > MAX_ELEMENTS { Err(Unplaceable::DynamicMemory) } else { Ok(()) }
}

fn note(
    uses: &mut BTreeMap<TensorId, Use>,
    tensor: TensorId,
    index: Option<Vec<Poly>>,
    path: &Path,
) {
    let found =
        uses.entry(tensor).or_insert_with(|| Use { common: path.clone(), accesses: Vec::new() });
    let common = found.common.iter().zip(path).take_while(|(a, b)| a == b).count();
    found.common.truncate(common);
    found.accesses.push((index, path.clone()));
}

fn decide(buffer: &mut Buffer, found: &Use, kernel: &mut Kernel, n_vars: &mut u32) -> Decision {
    let step = found.common.iter().rev().find_map(|(_, it)| match it {
        LoopAxis::Threads { step, .. } => Some(*step),
        LoopAxis::Loop(_) => None,
    });
    let range = step.unwrap_or(kernel.threads);
    if range == 1 {
        return Decision::Private;
    }
    let n_common = found.common.len();
    let form = |(index, path): &(Option<Vec<Poly>>, Path)| {
        let position = buffer.position(index.as_ref()?);
        AccessLayout::read(&position, &runs(&path[n_common..]))
    };
    let forms: Option<Vec<AccessLayout>> = found.accesses.iter().map(form).collect();
    if let Some((_, size)) = forms.and_then(|it| place_in_registers(&it)) {
        buffer.shape = vec![Poly::constant(size)];
        return Decision::Distributed { n_common };
    }
    let threads = kernel.threads;
    let group =
        (range < threads).then(|| thread_var(&mut kernel.thread_vars, range, threads, n_vars));
    Decision::Shared { group }
}

/// Returns the extent of a position of threads.
fn n_groups(kernel: &Kernel, group: VarId) -> Poly {
    let found = kernel.thread_vars.iter().find(|it| it.var == group);
    Poly::constant(found.map_or(1, |it| it.range / it.step).into())
}

fn runs(path: &[(VarId, LoopAxis)]) -> BTreeMap<VarId, LoopAxis> {
    path.iter().copied().collect()
}

type Visit<'v> = dyn FnMut(TensorId, &mut Vec<Subscript>, &Path) + 'v;

/// Calls `visit` with every access: the buffer, where, and the loops around; it may change where.
fn each_access(body: &mut [Stmt], facts: &Facts, path: &mut Path, visit: &mut Visit<'_>) {
    for stmt in body {
        match stmt {
            Stmt::For { var, extent, body, .. } => {
                let extent = extent.interval(facts).hi.clamp(1, MAX_ELEMENTS);
                path.push((*var, LoopAxis::Loop(extent)));
                each_access(body, facts, path, visit);
                path.pop();
            }
            Stmt::Thread(ThreadLoop { var, extent, step, range, body }) => {
                let extent = i64::from(*extent).max(1);
                path.push((*var, LoopAxis::Threads { extent, step: *step, range: *range }));
                each_access(body, facts, path, visit);
                path.pop();
            }
            Stmt::If { body, .. } | Stmt::CpAsync { body } => each_access(body, facts, path, visit),
            Stmt::Store { tensor, index, value } | Stmt::Update { tensor, index, value, .. } => {
                *value = read(value, path, visit);
                *index = written(*tensor, index, path, visit);
            }
            Stmt::AllReduce { tensor, index, .. } => *index = written(*tensor, index, path, visit),
            _ => {}
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

//! Allocation of local tensors: scalar replacement (SROA) into vector registers where all indices
//! are constants after unrolling, else into the scratch memory of the thread.
//!
//! ```text
//! acc[4*i + j], i and j unrolled   =>   registers r0, r1, ...
//! tmp[i], i a counted loop         =>   scratch[start + 4*i]
//! ```
//!
//! Accumulators come first, then tensors of few vectors, as long as those that are live at one time fit
//! the register file. A tensor that is live through loops which hardly use it stays in memory: it would
//! take registers from these.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use super::affine::{Affine, Coef};
use super::tree::{Loop, LoopMode, Node, Tree};
use super::{Base, Reg};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Poly, VarId};

/// Alignment of tensors in scratch memory, in bytes: a cache line, and a vector.
const LINE_BYTES: i64 = 64;

/// Uses of a register for each statement that runs while it is taken, at least; chosen by judgement: less
/// than in the largest register tile, more than of the statistics of a row while a product runs.
const MIN_USE: f64 = 1.0 / 64.0;

/// The storage of a local tensor.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Allocation {
    /// Vector registers, by the offset in elements of lane 0 or of the broadcast element.
    Registers,
    /// Memory, at an offset in bytes from a base.
    Memory(Base, Poly),
}

/// Storage of all local tensors, and the registers that hold their elements at this point.
#[derive(Debug, Default)]
pub(super) struct Allocations {
    allocations: BTreeMap<TensorId, Allocation>,
    scopes: BTreeMap<TensorId, Vec<VarId>>,
    scoped: BTreeMap<Option<VarId>, Vec<TensorId>>,
    registers: BTreeMap<(TensorId, i64), Reg>,
    /// The loops in which, or around which, a tensor in registers is live.
    live_in: BTreeMap<TensorId, BTreeSet<VarId>>,
    /// Bytes of scratch memory.
    pub(super) scratch: Poly,
}

/// A vectorized loop whose lanes would write one element, or need private memory: it is not
/// vectorizable.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LaneConflict(pub(super) VarId);

impl Allocations {
    pub(super) fn local(&self, tensor: TensorId) -> Option<&Allocation> {
        self.allocations.get(&tensor)
    }

    pub(super) fn in_registers(&self, tensor: TensorId) -> bool {
        self.allocations.get(&tensor) == Some(&Allocation::Registers)
    }

    /// Returns the loops around all accesses of a local tensor, outermost first: its live scope.
    pub(super) fn scope_loops(&self, tensor: TensorId) -> &[VarId] {
        self.scopes.get(&tensor).map_or(&[], Vec::as_slice)
    }

    /// Returns the register tensors whose live scope is one iteration of a loop; of `None`, a phase.
    pub(super) fn allocated_in(&self, var: Option<VarId>) -> Option<Vec<TensorId>> {
        self.scoped.get(&var).cloned()
    }

    /// Returns the registers of tensors that are live somewhere in a loop, or of `None` in the phase.
    pub(super) fn live_registers(&self, loop_: Option<VarId>) -> BTreeSet<Reg> {
        let is_live = |tensor: &TensorId| {
            loop_.is_none_or(|it| self.live_in.get(tensor).is_some_and(|loops| loops.contains(&it)))
        };
        self.registers.iter().filter(|((tensor, _), _)| is_live(tensor)).map(|it| *it.1).collect()
    }

    pub(super) fn reg(&self, tensor: TensorId, offset: i64) -> Option<Reg> {
        self.registers.get(&(tensor, offset)).copied()
    }

    pub(super) fn map(&mut self, tensor: TensorId, offset: i64, reg: Reg) {
        self.registers.insert((tensor, offset), reg);
    }

    pub(super) fn forget(&mut self, tensors: &[TensorId]) {
        if !tensors.is_empty() {
            self.registers.retain(|(tensor, _), _| !tensors.contains(tensor));
        }
    }
}

struct LocalAccess<'t> {
    /// The number of the statement, in program order.
    statement: usize,
    offset: &'t Affine,
    affine: bool,
    loops: Vec<&'t Loop>,
    accumulates: bool,
}

/// Allocates every local tensor.
pub(super) fn allocate(tree: &Tree<'_>) -> Result<Allocations, LaneConflict> {
    let mut allocations = Allocations::default();
    for phase in &tree.phases {
        allocate_phase(tree, phase, &mut allocations)?;
    }
    Ok(allocations)
}

fn allocate_phase(
    tree: &Tree<'_>,
    phase: &[Node],
    allocations: &mut Allocations,
) -> Result<(), LaneConflict> {
    let local_accesses = local_accesses(tree, phase);
    let (spans, runs) = (loop_spans(phase), statement_runs(tree, phase));
    let mut requests = Vec::new();
    for (tensor, local_accesses) in &local_accesses {
        let scope_loops = common_prefix(local_accesses);
        let n_vectors = match tree.is_of_words(*tensor) {
            true => None,
            false => n_vectors(tree, local_accesses, &scope_loops),
        };
        let accumulates = local_accesses.iter().any(|it| it.accumulates);
        requests.push((!accumulates, n_vectors.unwrap_or(usize::MAX), *tensor));
        allocations.scopes.insert(*tensor, scope_loops);
    }
    check_lane_conflicts(tree, phase, allocations)?;
    requests.sort_unstable();
    let n_registers = tree.simd.registers() as usize;
    let mut pressure: BTreeMap<usize, usize> = BTreeMap::new();
    let mut bytes = Poly::default();
    for (_, n_vectors, tensor) in requests {
        let depth = allocations.scope_loops(tensor).len();
        let live = live_range(&local_accesses[&tensor], depth, &spans);
        let most = live.clone().filter_map(|it| pressure.get(&it)).max().copied().unwrap_or(0);
        let uses: f64 = local_accesses[&tensor].iter().map(|it| runs[it.statement]).sum();
        let all: f64 = runs[live.clone()].iter().sum();
        let is_used = uses >= MIN_USE * all * n_vectors as f64;
        let place = if is_used && n_vectors <= n_registers - most {
            let is_live =
                |(first, last): (usize, usize)| first <= *live.end() && last >= *live.start();
            let loops = spans.iter().filter(|it| is_live(*it.1)).map(|it| *it.0).collect();
            allocations.live_in.insert(tensor, loops);
            live.for_each(|it| *pressure.entry(it).or_default() += n_vectors);
            let scope_loops = allocations.scope_loops(tensor).last().copied();
            allocations.scoped.entry(scope_loops).or_default().push(tensor);
            Allocation::Registers
        } else {
            let in_lanes = local_accesses[&tensor][0].loops.iter().find(|it| {
                matches!(it.kind, LoopMode::Vectorized(_))
                    && allocations.scope_loops(tensor).contains(&it.var)
            });
            if let Some(lanes) = in_lanes {
                return Err(LaneConflict(lanes.var));
            }
            let buffer = &tree.buffers[tensor.0 as usize];
            let at = bytes.clone();
            let size = buffer.size.clone() * buffer.dtype.bytes() as i64;
            bytes += size.ceil_div(LINE_BYTES, &tree.facts) * LINE_BYTES;
            Allocation::Memory(Base::Scratch, at)
        };
        allocations.allocations.insert(tensor, place);
    }
    allocations.scratch = allocations.scratch.greater(&bytes, &tree.facts);
    Ok(())
}

fn local_accesses<'t>(
    tree: &'t Tree<'_>,
    phase: &'t [Node],
) -> BTreeMap<TensorId, Vec<LocalAccess<'t>>> {
    let mut local_accesses: BTreeMap<TensorId, Vec<LocalAccess<'t>>> = BTreeMap::new();
    let mut statement = 0;
    Node::for_each_write(phase, &mut Vec::new(), &mut |write, path| {
        let loops: Vec<&Loop> = Node::loops(path).collect();
        let mut add = |access: &'t super::tree::Access, accumulates| {
            if tree.buffers[access.tensor.0 as usize].local {
                local_accesses.entry(access.tensor).or_default().push(LocalAccess {
                    statement,
                    offset: &access.offset,
                    affine: access.gather.is_empty(),
                    loops: loops.clone(),
                    accumulates,
                });
            }
        };
        add(&write.target, write.reducer.is_some());
        write.value.for_each_read(&mut |read| add(read, false));
        statement += 1;
    });
    local_accesses
}

/// Returns the first and the last statement of each loop of a phase.
fn loop_spans(phase: &[Node]) -> BTreeMap<VarId, (usize, usize)> {
    let mut spans: BTreeMap<VarId, (usize, usize)> = BTreeMap::new();
    let mut statement = 0;
    Node::for_each_write(phase, &mut Vec::new(), &mut |_, path| {
        for loop_ in Node::loops(path) {
            spans.entry(loop_.var).or_insert((statement, statement)).1 = statement;
        }
        statement += 1;
    });
    spans
}

/// Returns how often each statement of a phase runs at most, as vectors.
fn statement_runs(tree: &Tree<'_>, phase: &[Node]) -> Vec<f64> {
    let lanes = tree.simd.lanes() as f64;
    let trips = |it: &Loop| match it.kind {
        LoopMode::Vectorized(n) => (n as f64 / lanes).ceil(),
        LoopMode::Unrolled(n) => n as f64,
        LoopMode::Chosen => 1.0,
        LoopMode::Serial | LoopMode::Parallel => {
            tree.var(it.var).extent.interval(&tree.facts).hi.max(1) as f64
        }
    };
    let mut runs = Vec::new();
    Node::for_each_write(phase, &mut Vec::new(), &mut |_, path| {
        runs.push(Node::loops(path).map(trips).product());
    });
    runs
}

/// Returns the statements in which a tensor is live, within one iteration of the `depth` loops that are
/// its scope: from the first access to the last one, and all of a loop with an access in it.
fn live_range(
    accesses: &[LocalAccess<'_>],
    depth: usize,
    spans: &BTreeMap<VarId, (usize, usize)>,
) -> RangeInclusive<usize> {
    let (mut first, mut last) = (usize::MAX, 0);
    for it in accesses {
        let loop_ = it.loops.get(depth).and_then(|it| spans.get(&it.var));
        let (from, to) = loop_.copied().unwrap_or((it.statement, it.statement));
        (first, last) = (first.min(from), last.max(to));
    }
    first..=last
}

fn common_prefix(local_accesses: &[LocalAccess<'_>]) -> Vec<VarId> {
    let mut prefix: Vec<VarId> = local_accesses[0].loops.iter().map(|it| it.var).collect();
    for it in &local_accesses[1..] {
        let same = it.loops.iter().zip(&prefix).take_while(|(a, b)| a.var == **b).count();
        prefix.truncate(same);
    }
    prefix
}

/// Counts the vector registers of a tensor; `None` if it must be in memory.
///
/// All accesses must divide the tensor into the same vectors: vectors that overlap without being
/// equal would need shuffles.
fn n_vectors(
    tree: &Tree<'_>,
    local_accesses: &[LocalAccess<'_>],
    scope_loops: &[VarId],
) -> Option<usize> {
    let most = 2 * tree.simd.registers() as usize;
    let lanes = tree.simd.lanes();
    let mut widths: BTreeMap<i64, i64> = BTreeMap::new();
    let mut vectors = BTreeSet::new();
    for it in local_accesses {
        if !it.affine || !it.offset.dims.is_zero() {
            return None;
        }
        let mut bases = vec![(it.offset.constant, 1)];
        let mut is_vector = false;
        for (var, coefficient) in &it.offset.terms {
            let Coef::Const(step) = coefficient else { return None };
            let loop_ = it.loops.iter().find(|it| it.var == *var)?;
            if scope_loops.contains(var) || tree.var(*var).derived.is_some() {
                return None;
            }
            let next: Vec<(i64, i64)> = match loop_.kind {
                LoopMode::Unrolled(n) => (0..n).map(|at| (at * step, 0)).collect(),
                LoopMode::Vectorized(n) if *step == 1 => {
                    is_vector = true;
                    (0..n).step_by(lanes as usize).map(|at| (at, lanes.min(n - at))).collect()
                }
                _ => return None,
            };
            if bases.len() * next.len() > most {
                return None;
            }
            bases = bases
                .iter()
                .flat_map(|(base, width)| {
                    next.iter().map(move |(at, w)| (base + at, *width.max(w)))
                })
                .collect();
        }
        vectors.insert(is_vector);
        for (base, width) in bases {
            let entry = widths.entry(base).or_insert(width);
            *entry = width.max(*entry);
        }
    }
    let ends = widths.iter().map(|(base, width)| base + width);
    let apart = ends.zip(widths.keys().skip(1)).all(|(end, next)| end <= *next);
    (vectors.len() == 1 && apart).then_some(widths.len())
}

/// Rejects a vectorized loop whose lanes store to one element.
fn check_lane_conflicts(
    tree: &Tree<'_>,
    phase: &[Node],
    allocations: &Allocations,
) -> Result<(), LaneConflict> {
    let mut found = None;
    Node::for_each_write(phase, &mut Vec::new(), &mut |write, path| {
        for loop_ in Node::loops(path).filter(|it| matches!(it.kind, LoopMode::Vectorized(_))) {
            let own = allocations.scope_loops(write.target.tensor).contains(&loop_.var);
            let varies = tree.mentions(&write.target.offset, loop_.var);
            if !own && !varies && write.reducer.is_none() {
                found = Some(loop_.var);
            }
        }
    });
    found.map_or(Ok(()), |var| Err(LaneConflict(var)))
}

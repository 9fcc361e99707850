//! Tensorization by WGMMA instructions: four warps, operands in shared memory, the first one possibly
//! in registers.
//!
//! As MMA instructions (`mma`), over rows of four warps and as many columns as the accumulators have
//! room for:
//!
//! ```text
//! thread u in 0..4: thread g in 0..8: thread q in 0..4
//!   tensor j in 0..n: tensor h in 0..2: tensor p in 0..2: tensor k in 0..16
//!     acc[..] += a[16*u + 8*h + g, k] * b[8*j + 2*q + p, k]
//! ```
//!
//! The rows of a warp, or its warps, may have several modes: im2col rows are columns and rows of an
//! image. Unrolled loops around make one group of instructions, unrolled here: accumulators that a
//! loop of the compiler would move are out of reach until the group is done. Operands are read in
//! place, in rows of 32, 64 or 128 bytes with swizzled 16-byte chunks: a buffer with rows of that
//! length gets that swizzle. Its rows go along the reduction (K-major), or along the other dimension
//! (MN-major) in panels as wide as a row.
//!
//! `f32` are multiplied as TF32. The instruction ignores their lower bits, which rounds towards zero;
//! programs round to nearest. So they must be rounded before: by TMA, which can do that in flight.
//!
//! # Source
//!
//! PTX ISA, `wgmma.mma_async`: fragment layouts, matrix descriptors, swizzling modes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::fragment_layout::FragmentLayouts;
use super::mma::{self, Factor, Loop, Tile, is_uniform, operands, read};
use super::{
    Accumulators, Buffer, FirstOperand, Kernel, MemoryScope, RegisterOperand, Released,
    SharedOperand, Statement, Stmt, ThreadVar, WARP, WARPGROUP,
};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{DType, TensorId};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Access, Guard, accesses, any};

/// Threads of a row.
const LINE: u32 = 4;
/// Rows of one instruction.
const ROWS: i64 = 64;
/// The most columns of one instruction.
const MAX_COLUMNS: i64 = 256;
/// Rows after which the swizzle repeats.
const PERIOD: i64 = 8;

/// Replaces loops by WGMMA instructions, and swizzles the buffers they read.
pub(super) fn find(kernel: &mut Kernel, buffers: &mut [Buffer], layouts: &FragmentLayouts) {
    let columns = kernel.thread_vars.iter().find(|it| (it.step, it.range) == (1, LINE));
    let Some(q) = columns.map(|it| it.var) else { return };
    let threads = kernel.thread_vars.clone();
    let tma_targets = read_once(kernel);
    let mut search = Matcher { buffers, layouts, q, threads, tma_targets, bounded: Vec::new() };
    let mut body = std::mem::take(&mut kernel.body);
    search.block(&mut body);
    kernel.body = overlapped(body, false);
    if is_written(kernel, buffers) {
        kernel.body = fenced(std::mem::take(&mut kernel.body));
    }
}

/// Returns the destinations of TMA loads that one statement reads.
fn read_once(kernel: &Kernel) -> BTreeSet<TensorId> {
    let mut n_reads: BTreeMap<TensorId, usize> =
        kernel.tensor_maps.iter().map(|it| (it.to, 0)).collect();
    accesses(&kernel.body, &mut |it| {
        if let Access::Read(tensor, _) = it {
            n_reads.entry(tensor).and_modify(|it| *it += 1);
        }
    });
    n_reads.into_iter().filter(|it| it.1 == 1).map(|it| it.0).collect()
}

struct Matcher<'a> {
    buffers: &'a mut [Buffer],
    /// First operands that are in registers.
    layouts: &'a FragmentLayouts,
    /// The position of a thread among the columns.
    q: VarId,
    threads: Vec<ThreadVar>,
    /// Destinations of TMA loads that one statement reads.
    tma_targets: BTreeSet<TensorId>,
    /// Guards around: variables below a constant.
    bounded: Vec<(VarId, i64)>,
}

/// The loops of an instruction.
struct Roles {
    /// Halves of a warp's rows.
    h: VarId,
    /// Pairs of columns.
    p: VarId,
    /// Steps of the reduction.
    k: VarId,
    /// Columns in eights: innermost first, one loop or two.
    columns: Vec<(VarId, i64)>,
}

impl Matcher<'_> {
    fn block(&mut self, body: &mut Vec<Stmt>) {
        for mut stmt in std::mem::take(body) {
            if let Some(stmts) = self.tile(&stmt) {
                body.extend(stmts);
                continue;
            }
            let n_bounded = self.bounded.len();
            let mut splits = false;
            if let Stmt::If { guards, .. } = &stmt {
                // Warpgroups must come to an instruction together.
                splits = !guards.iter().all(|it| is_uniform(it, &self.threads, WARPGROUP));
                let bound = |it: &Guard| Some((it.value.as_var()?, it.bound.as_constant()?));
                self.bounded.extend(guards.iter().filter_map(bound));
            }
            if let Some(body) = stmt.body_mut().filter(|_| !splits) {
                self.block(body);
            }
            self.bounded.truncate(n_bounded);
            body.push(stmt);
        }
    }

    /// Subtracts a position of threads that `threads.start` consecutive threads have in common, and
    /// that repeats after `threads.end`, from a position: one mode, or several that continue one another. Neighbors
    /// are `stride` apart.
    fn without(&self, at: &Poly, threads: Range<u32>, stride: i64) -> Option<Poly> {
        let (mut rest, mut known) = (at.clone(), threads.start);
        while known < threads.end {
            let is_mode = |it: &&ThreadVar| it.step == known && at.mentions(it.var);
            let mode = self.threads.iter().find(is_mode)?;
            let range = self.range(mode);
            let (by, without) = linear(&rest, mode.var)?;
            if range <= known
                || range > threads.end
                || by != stride * i64::from(known / threads.start)
            {
                return None;
            }
            (rest, known) = (without, range);
        }
        Some(rest)
    }

    /// Returns the threads after which a variable repeats, where guards around hold.
    fn range(&self, it: &ThreadVar) -> u32 {
        let of_bound = |(var, bound): &(VarId, i64)| {
            let range = u32::try_from(*bound).unwrap_or(u32::MAX).saturating_mul(it.step);
            (*var == it.var).then_some(range)
        };
        self.bounded.iter().filter_map(of_bound).fold(it.range, u32::min)
    }

    /// Returns whether a position is uniform in each warpgroup.
    fn is_of_warpgroup(&self, at: &Poly) -> bool {
        self.threads.iter().all(|it| it.step >= WARPGROUP || !at.mentions(it.var))
    }

    /// Forms the instructions of loops that, with all inside them, are some.
    fn tile(&mut self, stmt: &Stmt) -> Option<Vec<Stmt>> {
        let tile = read(stmt)?;
        let (tensor, outer): (Vec<&Loop>, Vec<&Loop>) =
            tile.loops.iter().partition(|it| it.is_tensor);
        let (a, b, dtype) = operands(tile.value, self.buffers)?;
        if dtype == DType::F32
            && ![a.tensor, b.tensor].iter().all(|it| self.tma_targets.contains(it))
        {
            return None;
        }
        // Either factor may have the rows.
        let factors = [[a, b], [b, a]];
        factors.into_iter().find_map(|it| self.group(&tile, &tensor, &outer, it, dtype))
    }

    /// Forms the instructions of a tile, if the first of these factors has the rows.
    fn group(
        &mut self,
        tile: &Tile<'_>,
        tensor: &[&Loop],
        outer: &[&Loop],
        [a, b]: [Factor<'_>; 2],
        dtype: DType,
    ) -> Option<Vec<Stmt>> {
        let roles = roles(tensor, tile, a, dtype, self.buffers)?;
        let accumulators = accumulators(tile, &roles)?;
        let (first, first_row) = self.first(a, &roles, dtype)?;
        let (second, second_row) = self.second(b, &roles, dtype)?;
        let columns = 8 * roles.columns.iter().map(|it| it.1).product::<i64>();
        let narrow = dtype.bytes() == 2;
        let shared = match &first {
            FirstOperand::Shared(it) => Some(it),
            FirstOperand::Registers(_) => None,
        };
        let transposed = second.transposed || shared.is_some_and(|it| it.transposed);
        if columns > MAX_COLUMNS || (!narrow && transposed) {
            return None;
        }
        for (operand, row) in
            shared.map(|it| (it, first_row)).into_iter().chain([(&second, second_row)])
        {
            self.swizzle(operand.tensor, row, dtype)?;
        }
        let sum = accumulators.tensor;
        let multiply = |of: &Values| {
            let of = &|var: VarId| of.get(&var).cloned();
            let at = |it: &Poly| it.substitute_vars(of, &Facts::default());
            let base = at(&accumulators.base);
            let shared = |it: &SharedOperand| SharedOperand { base: at(&it.base), ..it.clone() };
            let first = match &first {
                FirstOperand::Shared(it) => FirstOperand::Shared(shared(it)),
                FirstOperand::Registers(it) => {
                    FirstOperand::Registers(RegisterOperand { base: at(&it.base), ..it.clone() })
                }
            };
            Stmt::Wgmma {
                accumulators: Box::new(Accumulators { base, ..accumulators }),
                columns: columns as u32,
                a: Box::new(first),
                b: Box::new(shared(&second)),
                dtype,
            }
        };
        let body = unrolled(outer, &multiply);
        Some(vec![Stmt::WgmmaGroup { body }, Stmt::WgmmaWait { groups: 0, sum }])
    }

    /// Returns the first operand, and the bytes of its rows if it is in memory.
    fn first(&self, a: Factor<'_>, roles: &Roles, dtype: DType) -> Option<(FirstOperand, i64)> {
        if self.buffers[a.tensor.0 as usize].scope == MemoryScope::Registers {
            return Some((FirstOperand::Registers(self.register_operand(a, roles)?), 0));
        }
        let at = self.position(a)?;
        let (half, rest) = linear(&at, roles.h)?;
        let row = half / PERIOD;
        let rest = self.without(&rest, LINE..WARP, row)?;
        let rest = self.without(&rest, WARP..WARPGROUP, 2 * half)?;
        let (step, base) = linear(&rest, roles.k)?;
        if half != PERIOD * row || !self.is_of_warpgroup(&base) {
            return None;
        }
        let operand = operand(a.tensor, base, row, step, None, dtype)?;
        // A panel has all rows of an instruction.
        let bytes = row_bytes(row, step, dtype)?;
        let fits = !operand.transposed || bytes == ROWS * dtype.bytes() as i64;
        fits.then_some((FirstOperand::Shared(operand), bytes))
    }

    /// Returns a first operand in registers.
    fn register_operand(
        &self,
        Factor { tensor, index }: Factor<'_>,
        roles: &Roles,
    ) -> Option<RegisterOperand> {
        let layout = self.layouts.get(roles.k).filter(|it| it.tensor == tensor)?;
        let index = affine(index)?;
        let [at] = index.as_slice() else { return None };
        let (half, rest) = linear(at, roles.h)?;
        let (far, rest) = linear(&rest, layout.far)?;
        let (pair, base) = linear(&rest, layout.pair)?;
        Some(RegisterOperand { tensor, base, half, far, pair })
    }

    /// Returns the second operand, and the bytes of its rows in memory.
    fn second(&self, b: Factor<'_>, roles: &Roles, dtype: DType) -> Option<(SharedOperand, i64)> {
        let at = self.position(b)?;
        let (row, rest) = linear(&at, roles.p)?;
        let (pairs, rest) = linear(&rest, self.q)?;
        let (eights, mut rest) = linear(&rest, roles.columns[0].0)?;
        if pairs != 2 * row || eights != PERIOD * row {
            return None;
        }
        let mut panel = None;
        if let Some((var, _)) = roles.columns.get(1) {
            let (stride, without) = linear(&rest, *var)?;
            rest = without;
            panel = Some(stride);
        }
        let (step, base) = linear(&rest, roles.k)?;
        if !self.is_of_warpgroup(&base) {
            return None;
        }
        let bytes = row_bytes(row, step, dtype)?;
        let inner = PERIOD * roles.columns[0].1;
        let fits = match panel {
            // Rows follow one another, or panels do.
            Some(stride) if row != 1 => stride == inner * row,
            Some(_) => inner * dtype.bytes() as i64 == bytes,
            None => row != 1 || inner * dtype.bytes() as i64 <= bytes,
        };
        let operand = operand(b.tensor, base, row, step, panel, dtype)?;
        fits.then_some((operand, bytes))
    }

    fn position(&self, Factor { tensor, index }: Factor<'_>) -> Option<Poly> {
        let buffer = &self.buffers[tensor.0 as usize];
        affine(index).filter(|_| buffer.scope.is_shared()).map(|it| buffer.position(&it))
    }

    /// Swizzles the rows of an operand, and has `f32` rounded on their way to it; `None` if it is
    /// swizzled otherwise.
    fn swizzle(&mut self, tensor: TensorId, row_bytes: i64, dtype: DType) -> Option<()> {
        let row_bytes = u32::try_from(row_bytes).ok()?;
        let MemoryScope::Shared(place) = &mut self.buffers[tensor.0 as usize].scope else {
            return None;
        };
        if place.swizzle.is_some_and(|it| it != row_bytes) {
            return None;
        }
        place.swizzle = Some(row_bytes);
        place.is_rounded = dtype == DType::F32;
        Some(())
    }
}

/// Splits a polynomial into the constant factor of a variable and the rest.
fn linear(poly: &Poly, var: VarId) -> Option<(i64, Poly)> {
    let (factor, rest) = poly.split_linear(var)?;
    Some((factor.as_constant()?, rest))
}

/// Returns the bytes of an operand's rows in memory: of one step of the reduction, if it is MN-major.
fn row_bytes(row: i64, step: i64, dtype: DType) -> Option<i64> {
    let elements = if row == 1 { step } else { row };
    let bytes = elements * dtype.bytes() as i64;
    ([32, 64, 128].contains(&bytes) && (row == 1 || step == 1)).then_some(bytes)
}

fn operand(
    tensor: TensorId,
    base: Poly,
    row: i64,
    step: i64,
    panel: Option<i64>,
    dtype: DType,
) -> Option<SharedOperand> {
    let bytes = row_bytes(row, step, dtype)?;
    let transposed = row == 1;
    let of_instruction = 32;
    // Instructions start at whole periods of rows, or at their part of a row.
    let starts = |by: i64| {
        let by = by * dtype.bytes() as i64;
        by % (PERIOD * bytes) == 0 || (!transposed && by % of_instruction == 0)
    };
    let aligned = base.terms().all(|(_, by)| starts(by));
    let panel = panel.filter(|_| transposed).unwrap_or(0);
    aligned.then_some(SharedOperand { tensor, base, transposed, panel })
}

/// Assigns the loops their roles.
fn roles(
    loops: &[&Loop],
    tile: &Tile<'_>,
    first: Factor<'_>,
    dtype: DType,
    buffers: &[Buffer],
) -> Option<Roles> {
    let depth = 32 / dtype.bytes() as i64;
    let mma::Roles { h, k, columns } = mma::roles(loops, tile, depth, first, buffers)?;
    let (last, others) = columns.split_last()?;
    let columns: Vec<_> = others.iter().rev().map(|it| (it.var, it.extent)).collect();
    let is_complete = last.extent == 2 && (1..=2).contains(&columns.len());
    is_complete.then_some(Roles { h, p: last.var, k, columns })
}

/// The values of loop variables in one iteration.
type Values = BTreeMap<VarId, Poly>;

/// Returns a statement for each iteration of some loops, the outermost first.
fn unrolled(loops: &[&Loop], stmt: &dyn Fn(&Values) -> Stmt) -> Vec<Stmt> {
    let count: i64 = loops.iter().map(|it| it.extent).product();
    let iteration = |n: i64| {
        let mut values = Values::new();
        let mut rest = n;
        for it in loops.iter().rev() {
            values.insert(it.var, Poly::constant(rest % it.extent));
            rest /= it.extent;
        }
        stmt(&values)
    };
    (0..count).map(iteration).collect()
}

/// Returns the accumulators of one thread.
fn accumulators(tile: &Tile<'_>, roles: &Roles) -> Option<Accumulators> {
    let [at] = tile.index else { return None };
    let (half, rest) = linear(at, roles.h)?;
    let (pair, rest) = linear(&rest, roles.p)?;
    let (eight, mut base) = linear(&rest, roles.columns[0].0)?;
    if let Some((var, _)) = roles.columns.get(1) {
        let (outer, rest) = linear(&base, *var)?;
        if outer != eight * roles.columns[0].1 {
            return None;
        }
        base = rest;
    }
    Some(Accumulators { tensor: tile.tensor, base, half, pair, eight })
}

/// Overlaps the WGMMA groups of warp-specialized loops with the next iteration:
///
/// ```text
/// for k                       for k
///   wait until stage full       wait until stage full
///   group(k)                    group(k)
///   wait for 0 pending    =>    wait for 1 pending
///   release stage               if 0 < k: release previous stage
///   next stage                  next stage
///                             wait for 0 pending; release previous stage
/// ```
///
/// The last stage is released only if the producer fills it again.
fn overlapped(body: Vec<Stmt>, is_repeated: bool) -> Vec<Stmt> {
    let mut stmts = Vec::new();
    for mut stmt in body {
        let repeats = is_repeated || matches!(stmt, Stmt::For { .. });
        if let Some(body) = stmt.body_mut() {
            *body = overlapped(std::mem::take(body), repeats);
        }
        let mut after = Vec::new();
        if let Stmt::For { var, extent, body, .. } = &mut stmt
            && let [
                Stmt::ConsumerWait { pipeline },
                Stmt::WgmmaGroup { .. },
                Stmt::WgmmaWait { groups, sum },
                release,
                Stmt::AdvanceStage { .. },
            ] = body.as_mut_slice()
        {
            *groups = 1;
            let before = Stmt::ConsumerRelease { pipeline: *pipeline, stage: Released::Previous };
            let guards = vec![Guard { value: Poly::default(), bound: Poly::var(*var) }];
            *release = Stmt::If { guards, body: vec![before.clone()] };
            after.push(Stmt::WgmmaWait { groups: 0, sum: *sum });
            match extent.as_constant() {
                _ if !is_repeated => {}
                Some(1..) => after.push(before),
                _ => {
                    let guards = vec![Guard { value: Poly::default(), bound: extent.clone() }];
                    after.push(Stmt::If { guards, body: vec![before] });
                }
            }
        }
        stmts.push(stmt);
        stmts.extend(after);
    }
    stmts
}

/// Inserts proxy fences before barriers, so that WGMMA sees stores of the threads before them.
fn fenced(body: Vec<Stmt>) -> Vec<Stmt> {
    let mut stmts = Vec::new();
    for mut stmt in body {
        if let Stmt::Barrier { .. } = stmt {
            stmts.push(Stmt::FenceProxyAsync);
        }
        if let Some(body) = stmt.body_mut() {
            *body = fenced(std::mem::take(body));
        }
        stmts.push(stmt);
    }
    stmts
}

/// Returns whether threads store to operands of WGMMA instructions.
fn is_written(kernel: &Kernel, buffers: &[Buffer]) -> bool {
    let is_swizzled = |it: TensorId| buffers[it.0 as usize].scope.swizzle().is_some();
    any(&kernel.body, &|it| matches!(it, Stmt::Store { tensor, .. } if is_swizzled(*tensor)))
}

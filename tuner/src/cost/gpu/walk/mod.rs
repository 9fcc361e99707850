//! Counts of a block: instructions, accesses, and waits; of a persistent block, for one tile.
//!
//! Every statement of a kernel is visited once. Loops that stay loops multiply their contents; of
//! unrolled loops, an access that does not depend on their variables happens once, and neighbors in
//! shared memory become one access of several elements, as the compiler does it. Addresses of lanes
//! are computed for some warps, which stand for the others.

mod tma;

use std::collections::BTreeSet;

use tvmtune_cuda::codegen::{self, Vectors};
use tvmtune_cuda::grid::{
    FirstOperand, Grid, Kernel, MemoryScope, Operand, OperandLoad, Stmt, Tiles,
};
use tvmtune_ir::dag::{DType, Expr, Reducer, Subscript, TensorId};
use tvmtune_ir::poly::{Atom, Poly, VarId};
use tvmtune_schedule::LoopKind;
use tvmtune_schedule::nest::{self, Guard, Statement};

use super::access::{Addresses, sectors, wavefronts};
use super::arithmetic::{self, Ops};
use super::machine::{
    AHEAD, BARRIER_LATENCY, GLOBAL_LATENCY, LANES, RESULT_LATENCY, SECTOR, SHARED_LATENCY,
    SHUFFLE_LATENCY, STORED_LINE, WARP_SHARE,
};
use super::stream_k::WorkUnits;
use super::value::Values;

/// Instructions of a division by a constant, and of what is left by one.
const DIVISION: f64 = 5.0;

/// The counts of one block for one tile.
#[derive(Clone, Debug, Default)]
pub(super) struct Block {
    /// Warp instructions by unit.
    pub(super) ops: Ops,
    /// Warp instructions of accesses, barriers, and loops.
    pub(super) others: f64,
    /// Cycles of shared memory and the first-level cache.
    pub(super) wavefronts: f64,
    /// Multiply-adds of MMA instructions.
    pub(super) tensor: f64,
    /// Cycles in which TMA copies boxes.
    pub(super) copies: f64,
    /// Cycles that its longest chain of waits takes.
    pub(super) latency: f64,
    /// The part of that which overlaps the tile before, if there is one.
    pub(super) ahead: f64,
    /// Its accesses of memory.
    pub(super) accesses: Vec<GlobalAccess>,
}

/// An access of memory that all blocks see.
#[derive(Clone, Debug)]
pub(super) struct GlobalAccess {
    pub(super) tensor: TensorId,
    pub(super) writes: bool,
    /// In each dimension; `None` where the data says.
    pub(super) index: Vec<Option<Poly>>,
    /// The loops around it, outermost first, with their extents.
    pub(super) loops: Vec<(VarId, i64)>,
    /// The number of those, outermost ones, that stay loops and are not unrolled.
    pub(super) n_serial: usize,
    /// Bytes of the sectors that one block asks for.
    pub(super) bytes: f64,
    /// Bytes that could be stored in the time that parts of lines take.
    pub(super) overhead: f64,
    /// Elements that one block accesses.
    pub(super) elements: f64,
}

/// Counts the work of one block of a kernel at given dimensions.
pub(super) fn block(grid: &Grid, kernel: &Kernel, dims: &[i64]) -> Block {
    let mut values = Values::new(dims);
    for it in kernel.tile_vars() {
        // One in the middle stands for all.
        let extent = values.of(&it.extent);
        values.set(it.var, extent.max(1) / 2);
    }
    if let Some(work_units) = &WorkUnits::new(kernel, &values) {
        work_units.stand_at_whole(&mut values);
    }
    let n_warps = kernel.threads.div_ceil(LANES) as usize;
    let last = kernel.threads % LANES;
    let mut masks = vec![u32::MAX; n_warps.min(64)];
    if let Some(it) = masks.last_mut().filter(|_| last > 0) {
        *it = (1 << last) - 1;
    }
    let work_unit_vars = kernel.tiles.iter().flat_map(Tiles::work_unit_vars);
    let mut counter = BlockCounter {
        grid,
        kernel,
        work_unit_vars: work_unit_vars.map(|it| it.0).collect(),
        values,
        open: Vec::new(),
        masks,
        n_guards: 0,
        repeats: 1.0,
        segment: Segment::default(),
        block: Block::default(),
    };
    counter.body(&kernel.producer);
    counter.body(&kernel.body);
    counter.end_segment();
    counter.block
}

/// Returns whether a loop stays one.
fn is_loop(kind: LoopKind) -> bool {
    !matches!(kind, LoopKind::Unrolled | LoopKind::Vectorized | LoopKind::Tensorized)
}

/// A loop around a statement.
#[derive(Clone, Debug)]
struct Open {
    var: VarId,
    extent: i64,
    kind: LoopKind,
    /// Its vector accesses.
    vectors: Option<Vectors>,
    /// Number of conditions around it.
    n_guards: usize,
}

/// Latencies since the last wait.
#[derive(Clone, Copy, Debug, Default)]
struct Segment {
    reads_global: bool,
    reads_shared: bool,
    chain: f64,
}

struct BlockCounter<'a> {
    grid: &'a Grid,
    kernel: &'a Kernel,
    /// The variables of the stream-K work unit.
    work_unit_vars: Vec<VarId>,
    values: Values,
    open: Vec<Open>,
    /// Of each warp, which lanes take part.
    masks: Vec<u32>,
    n_guards: usize,
    /// Executions of the current segment.
    repeats: f64,
    segment: Segment,
    block: Block,
}

impl BlockCounter<'_> {
    fn body(&mut self, body: &[Stmt]) {
        body.iter().for_each(|it| self.stmt(it));
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            // A tile stands for all.
            Stmt::For { var, body, .. } if self.is_tile_loop(*var) => self.body(body),
            Stmt::For { var, extent, kind, body, .. } => self.for_loop(*var, extent, *kind, body),
            Stmt::If { guards, body } => self.guarded(guards, body),
            Stmt::Store { tensor, index, value } => self.leaf(*tensor, index, value, None),
            Stmt::Update { tensor, index, reducer, value } => {
                self.leaf(*tensor, index, value, Some(*reducer));
            }
            Stmt::AllReduce { range, .. } => self.all_reduce(*range),
            Stmt::TransposeQuad { .. } => self.transpose_quad(),
            Stmt::Barrier { .. } => self.wait(BARRIER_LATENCY),
            Stmt::CpAsync { body } => {
                // Waits for these come later.
                let before = self.segment;
                self.body(body);
                self.segment = before;
            }
            // As many iterations run while a copy is on its way.
            Stmt::CpAsyncWait { groups } => self.wait(GLOBAL_LATENCY / (f64::from(*groups) + 1.0)),
            Stmt::LoadFragment { operand, .. } => self.load_fragment(operand),
            Stmt::Mma { dtype, .. } => self.mma(*dtype),
            Stmt::Wgmma { columns, a, dtype, .. } => self.wgmma(a, *columns, *dtype),
            Stmt::TmaLoad { tensor_map, coordinates, .. } => {
                self.tma_load(*tensor_map, coordinates);
            }
            Stmt::ConsumerWait { pipeline } => {
                // As many stages are in flight; all of them, during the epilogue of the tile before.
                let depth = f64::from(self.kernel.circular_buffers[*pipeline].n_stages);
                self.block.ahead += GLOBAL_LATENCY / depth * self.repeats.min(depth);
                self.wait(GLOBAL_LATENCY / depth);
            }
            other => self.body(other.body()),
        }
    }

    fn is_tile_loop(&self, var: VarId) -> bool {
        self.kernel.tiles.as_ref().is_some_and(|it| it.tile_loop == var)
    }

    /// Packs pairs, exchanges each of four registers once, and chooses before and after.
    fn transpose_quad(&mut self) {
        let n = self.times() * self.n_warps();
        self.block.others += 16.0 * n;
        self.block.wavefronts += 4.0 * n;
    }

    fn wgmma(&mut self, a: &FirstOperand, columns: u32, dtype: DType) {
        // From 32 bytes of each of 64 rows and of each column.
        let depth = (32 / dtype.bytes().max(1)) as f64;
        let groups = (self.n_warps() / 4.0).max(1.0);
        let n = self.times() * groups;
        let elements = 64.0 * f64::from(columns) * depth;
        // The machine's rate is that of single warps.
        self.block.tensor += elements * n * dtype.bytes() as f64 / 2.0 * WARP_SHARE;
        let rows = match a {
            FirstOperand::Shared(_) => 64,
            FirstOperand::Registers(_) => 0,
        };
        self.block.wavefronts += f64::from(rows + columns) * 32.0 / 128.0 * n;
        // Of operands in registers, pairs are packed.
        self.block.others += if rows == 0 { 20.0 } else { 4.0 } * n;
    }

    fn load_fragment(&mut self, operand: &Operand) {
        let matrices = if operand.is_first { 4.0 } else { 2.0 };
        let n = self.times() * self.n_warps();
        self.block.wavefronts += matrices * n;
        // One instruction, or two loads and a packing for each register; each of TF32 is rounded.
        let is_tf32 = self.grid.buffer(operand.tensor).dtype == DType::F32;
        let each = match operand.load {
            OperandLoad::Elements if is_tf32 => 2.0 * matrices,
            OperandLoad::Elements => 3.0 * matrices,
            OperandLoad::Ldmatrix { .. } if is_tf32 => 1.0 + matrices,
            OperandLoad::Ldmatrix { .. } => 1.0,
        };
        self.block.others += each * n;
        self.segment.reads_shared = true;
    }

    fn mma(&mut self, dtype: DType) {
        // 16 x 8 elements, each from 32 bytes of a row and a column.
        let depth = (32 / dtype.bytes().max(1)) as f64;
        let n = self.times() * self.n_warps();
        // Twice as many of half the size in a cycle.
        self.block.tensor += 16.0 * 8.0 * depth * n * dtype.bytes() as f64 / 2.0;
        self.block.others += n;
    }

    fn for_loop(&mut self, var: VarId, extent: &Poly, kind: LoopKind, body: &[Stmt]) {
        let n = self.values.of(extent);
        if n <= 0 {
            return;
        }
        let vectors = match (kind, body) {
            (LoopKind::Vectorized, [inner]) => codegen::vectors(self.grid, var, extent, inner),
            _ => None,
        };
        let is_loop = is_loop(kind);
        // Of a loop, an iteration in its middle stands for all.
        self.values.set(var, if is_loop { n / 2 } else { 0 });
        self.open.push(Open { var, extent: n, kind, vectors, n_guards: self.n_guards });
        let repeats = self.repeats;
        if is_loop {
            self.end_segment();
            let is_in_order = body.iter().any(Stmt::waits) || self.stores(body);
            // Without waits and stores, the loads of some iterations overlap.
            self.repeats *= if is_in_order { n as f64 } else { (n as f64 / AHEAD).max(1.0) };
            self.block.others += 2.0 * self.times() * self.n_warps();
        }
        self.body(body);
        if is_loop {
            self.end_segment();
        }
        self.repeats = repeats;
        self.open.pop();
        self.values.set(var, 0);
    }

    /// Returns whether statements store in memory that all blocks see: the compiler moves no loads across
    /// those.
    fn stores(&self, body: &[Stmt]) -> bool {
        let is_global = |it: TensorId| self.scope(it).is_some_and(MemoryScope::is_global);
        let stores = |it: &Stmt| it.write().is_some_and(|(tensor, ..)| is_global(tensor));
        nest::any(body, &stores)
    }

    /// Statements of the lanes for which conditions hold.
    fn guarded(&mut self, guards: &[Guard], body: &[Stmt]) {
        let before = self.masks.clone();
        self.indices(guards.iter().flat_map(|it| [&it.value, &it.bound]));
        for guard in guards {
            let n = self.times_of(&guard.value).max(self.times_of(&guard.bound));
            self.block.ops.add(Ops { integer: 1.0, ..Ops::default() }, n * self.n_warps());
            let depends =
                |poly: &Poly| self.kernel.thread_vars.iter().any(|it| poly.mentions(it.var));
            if !depends(&guard.value) && !depends(&guard.bound) {
                let of_work_unit =
                    |it: &VarId| guard.value.mentions(*it) || guard.bound.mentions(*it);
                let fails = self.values.of(&guard.value) >= self.values.of(&guard.bound);
                if fails && self.work_unit_vars.iter().any(of_work_unit) {
                    // The cost of work units is added later.
                    return;
                }
                continue;
            }
            for warp in 0..self.masks.len() {
                for lane in 0..LANES {
                    if self.masks[warp] & (1 << lane) != 0 {
                        self.stand_at(warp as u32 * LANES + lane);
                        if self.values.of(&guard.value) >= self.values.of(&guard.bound) {
                            self.masks[warp] &= !(1 << lane);
                        }
                    }
                }
            }
        }
        self.n_guards += 1;
        self.body(body);
        self.n_guards -= 1;
        self.masks = before;
    }

    /// Sets the variables that say which thread it is.
    fn stand_at(&mut self, thread: u32) {
        for it in &self.kernel.thread_vars {
            let place = thread % it.range.max(1) / it.step.max(1);
            self.values.set(it.var, place.into());
        }
    }

    fn n_warps(&self) -> f64 {
        self.masks.iter().filter(|it| **it != 0).count() as f64
    }

    /// Iterations of all open loops.
    fn times(&self) -> f64 {
        self.open.iter().map(|it| it.extent as f64).product()
    }

    /// Returns the executions of a computation that depends on a polynomial: outside of all other
    /// loops.
    fn times_of(&self, poly: &Poly) -> f64 {
        self.open.iter().filter(|it| poly.mentions(it.var)).map(|it| it.extent as f64).product()
    }

    /// Counts the divisions of indices, each once.
    fn indices<'p>(&mut self, polys: impl Iterator<Item = &'p Poly>) {
        let mut found = BTreeSet::new();
        polys.for_each(|it| divisions(it, &mut found));
        let times: f64 = found.iter().map(|it| self.times_of(it)).sum();
        self.block.ops.add(Ops { integer: DIVISION, ..Ops::default() }, times * self.n_warps());
    }

    /// The open loops that stay loops, and, inside them, unrolled ones.
    fn split(&self) -> (&[Open], &[Open]) {
        let n = self.open.iter().rposition(|it| is_loop(it.kind)).map_or(0, |it| it + 1);
        self.open.split_at(n)
    }

    fn all_reduce(&mut self, range: u32) {
        let steps = f64::from(range.clamp(2, LANES)).log2().ceil();
        let mut n = 2.0 * steps;
        self.wait(steps * SHUFFLE_LATENCY);
        if range > LANES {
            n += 2.0 * (n + 4.0);
            self.wait(2.0 * BARRIER_LATENCY + SHARED_LATENCY + 5.0 * SHUFFLE_LATENCY);
        }
        let all = n * self.times() * self.n_warps();
        self.block.others += all;
        self.block.wavefronts += all / 2.0;
    }

    /// Threads wait, for so long.
    fn wait(&mut self, latency: f64) {
        self.end_segment();
        self.block.latency += latency * self.repeats;
        self.block.others += self.times() * self.n_warps();
    }

    fn end_segment(&mut self) {
        let Segment { reads_global, reads_shared, chain } = std::mem::take(&mut self.segment);
        let global = if reads_global { GLOBAL_LATENCY } else { 0.0 };
        let shared = if reads_shared { SHARED_LATENCY } else { 0.0 };
        self.block.latency += (global + shared + chain) * self.repeats;
    }

    /// One statement, with its copies.
    fn leaf(&mut self, to: TensorId, index: &[Poly], value: &Expr, reducer: Option<Reducer>) {
        let ops = arithmetic::ops(self.grid, value, reducer);
        // A statement that only copies, copies vectors as a whole.
        let whole = self.open.last().and_then(|it| it.vectors.as_ref());
        let whole = whole.filter(|it| it.stores && reducer.is_none() && is_copy(value));
        let lanes = whole.map_or(1, |it| it.lanes);
        self.block.ops.add(ops, self.times() * self.n_warps() / lanes as f64);
        let mut reads: Vec<(TensorId, &[Subscript])> = Vec::new();
        value.for_each_read(&mut |tensor, index| {
            if !reads.contains(&(tensor, index)) {
                reads.push((tensor, index));
            }
        });
        let read = reads.iter().flat_map(|it| it.1).filter_map(Subscript::affine);
        let mut polys: Vec<&Poly> = index.iter().chain(read).collect();
        value.walk(&mut |it| {
            if let Expr::Compare(_, a, b) = it
                && let (Expr::Index(a), Expr::Index(b)) = (&**a, &**b)
            {
                polys.extend([a, b]);
                let n = self.times_of(a).max(self.times_of(b)) * self.n_warps();
                self.block.ops.add(Ops { integer: 1.0, ..Ops::default() }, n);
            }
        });
        self.indices(polys.into_iter());
        for (tensor, index) in reads {
            self.access(tensor, index.iter().map(|it| it.affine().cloned()).collect(), false);
        }
        let in_registers = self.scope(to) == Some(MemoryScope::Registers);
        let written: Vec<Option<Poly>> = index.iter().cloned().map(Some).collect();
        if reducer.is_some() && !in_registers {
            self.access(to, written.clone(), false);
        }
        self.access(to, written, true);
        // Updates of one element depend on each other.
        let again = |it: &&Open| !index.iter().any(|at| at.mentions(it.var));
        let chain: f64 = match reducer {
            Some(_) => self.split().1.iter().filter(again).map(|it| it.extent as f64).product(),
            None => 1.0,
        };
        self.segment.chain += chain * ops.issued().max(1.0) * RESULT_LATENCY;
    }

    fn scope(&self, tensor: TensorId) -> Option<MemoryScope> {
        self.grid.buffers.get(tensor.0 as usize).map(|it| it.scope)
    }

    /// One access of a statement, with its copies.
    fn access(&mut self, tensor: TensorId, index: Vec<Option<Poly>>, writes: bool) {
        let home = match self.scope(tensor) {
            Some(it) if it != MemoryScope::Registers && it != MemoryScope::Unused => it,
            _ => return,
        };
        let affine: Option<Vec<Poly>> = index.iter().cloned().collect();
        let position = affine.map(|it| self.grid.buffer(tensor).position(&it));
        let lanes = position.as_ref().map_or(1, |it| self.lanes(tensor, it, writes));
        let (loops, copies) = self.split();
        let mentions =
            |it: &&Open| index.iter().any(|at| at.as_ref().is_none_or(|at| at.mentions(it.var)));
        let distinct: f64 = copies.iter().filter(mentions).map(|it| it.extent as f64).product();
        let outer: f64 = loops.iter().map(|it| it.extent as f64).product();
        let n_warps = self.n_warps();
        let requests = outer * (distinct / lanes as f64).max(1.0) * n_warps;
        self.block.others += requests;
        self.block.ops.add(Ops { integer: 1.0, ..Ops::default() }, outer * n_warps);
        let bytes = self.grid.buffer(tensor).dtype.bytes() as i64;
        let patterns = self.patterns(home, position.or_else(|| self.row(tensor, &index)), bytes);
        let mean = |of: &dyn Fn(&Addresses) -> f64| {
            patterns.iter().map(of).sum::<f64>() / patterns.len().max(1) as f64
        };
        let width = bytes.saturating_mul(lanes);
        if home.is_shared() {
            self.segment.reads_shared |= !writes;
            self.block.wavefronts += requests * mean(&|it| wavefronts(it, width));
            return;
        }
        self.segment.reads_global |= !writes;
        self.block.wavefronts += requests * mean(&|it| sectors(it, width).1);
        let active: u32 = self.masks.iter().map(|it| it.count_ones()).sum();
        let elements = outer * distinct * f64::from(active);
        let bytes = requests * mean(&|it| sectors(it, width).0) * SECTOR as f64;
        let overhead = |it: &Addresses| {
            let (sectors, lines) = sectors(it, width);
            (STORED_LINE * lines - sectors).max(0.0)
        };
        let overhead = if writes { requests * mean(&overhead) * SECTOR as f64 } else { 0.0 };
        let loops = self.open.iter().map(|it| (it.var, it.extent)).collect();
        let n_serial = self.split().0.len();
        self.block.accesses.push(GlobalAccess {
            overhead,
            tensor,
            writes,
            index,
            loops,
            n_serial,
            bytes,
            elements,
        });
    }

    /// Elements of one access: what the printer says, or what the compiler makes of neighbors in
    /// shared memory whose alignment it knows.
    fn lanes(&self, tensor: TensorId, position: &Poly, writes: bool) -> i64 {
        if let Some(vectors) = self.open.last().and_then(|it| it.vectors.as_ref()) {
            let loads = |it: &codegen::Load| it.tensor == tensor && it.position == *position;
            let whole = if writes { vectors.stores } else { vectors.loads.iter().any(loads) };
            return if whole { vectors.lanes } else { 1 };
        }
        if !matches!(self.scope(tensor), Some(MemoryScope::Shared(_))) {
            return 1;
        }
        let widest = |it: &Open| {
            let fits = |lanes: &i64| {
                it.n_guards == self.n_guards
                    && it.extent % lanes == 0
                    && codegen::is_vector(self.grid, tensor, position, it.var, *lanes)
            };
            [16, 8, 4, 2].into_iter().find(fits).unwrap_or(1)
        };
        self.split().1.iter().map(widest).max().unwrap_or(1)
    }

    /// The position in one row, where the data says which row, and lanes go along it.
    fn row(&self, tensor: TensorId, index: &[Option<Poly>]) -> Option<Poly> {
        let known: Vec<Poly> = index.iter().map(|it| it.clone().unwrap_or_default()).collect();
        let position = self.grid.buffer(tensor).position(&known);
        let moves = self.kernel.thread_vars.iter().any(|it| position.mentions(it.var));
        moves.then_some(position)
    }

    /// Returns the addresses of lanes of some warps; where they depend on data, far from one another.
    fn patterns(
        &mut self,
        home: MemoryScope,
        position: Option<Poly>,
        bytes: i64,
    ) -> Vec<Addresses> {
        let first = home.shared().map_or(0, |it| i64::from(it.offset));
        let active: Vec<usize> = (0..self.masks.len()).filter(|it| self.masks[*it] != 0).collect();
        let Some(last) = active.len().checked_sub(1) else { return Vec::new() };
        let mut some = vec![active[0], active[last / 2], active[last]];
        some.dedup();
        let mut patterns = Vec::new();
        for warp in some {
            let mut addresses = Vec::new();
            let mask = self.masks[warp];
            for lane in (0..LANES).filter(|it| mask & (1 << it) != 0) {
                self.stand_at(warp as u32 * LANES + lane);
                let at = match &position {
                    Some(it) => self.values.of(it),
                    // An odd stride: no two in a sector, and none in another's bank.
                    None => i64::from(lane) * 129,
                };
                addresses.push(at.saturating_mul(bytes).saturating_add(first));
            }
            patterns.push(addresses);
        }
        patterns
    }
}

/// Returns whether a value is an element, or where a condition does not hold, a constant.
fn is_copy(value: &Expr) -> bool {
    match value {
        Expr::Read { .. } | Expr::Const(..) => true,
        Expr::Select { condition, then, otherwise } => {
            arithmetic::is_bound(condition) && is_copy(then) && is_copy(otherwise)
        }
        _ => false,
    }
}

/// Quotients and remainders in a polynomial, also those inside of others.
fn divisions(poly: &Poly, found: &mut BTreeSet<Poly>) {
    for atom in poly.terms().flat_map(|(atoms, _)| atoms) {
        match atom {
            Atom::Div(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                divisions(a, found);
                divisions(b, found);
                found.insert(Poly::atom(atom.clone()));
            }
            Atom::Dim(_) | Atom::Var(_) => {}
        }
    }
}

//! Tensorization by MMA instructions of a warp.
//!
//! Each thread of a warp has four accumulators of a tile of 16 x 8: of rows `g` and `g + 8`, and
//! columns `2q` and `2q + 1`, as thread `4g + q`. Its additions in 16 steps of the reduction (32 of
//! bytes, 8 of TF32) are its share of one instruction:
//!
//! ```text
//! thread g in 0..8: thread q in 0..4
//!   tensor h in 0..2: tensor b in 0..2: tensor k in 0..16
//!     acc[.. h, b] += a[8*h + g, k] * b[2*q + b, k]
//! ```
//!
//! So a schedule states the fragment layout by splits, and everything else (registers, epilogues,
//! barriers) is as for any loops. Unrolled loops around the tile share operands: those are loaded
//! first, each once.
//!
//! # Source
//!
//! Fragment layouts: PTX ISA, `mma.m16n8k16`, `mma.m16n8k32` and `mma.m16n8k8`.

use super::{
    Buffer, Fragment, Kernel, LoopKind, MemoryScope, Operand, OperandLoad, Statement, Stmt,
    ThreadLoops, ThreadVar, WARP,
};
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::dag::{BinaryOp, DType, Expr, Reducer, Subscript, TensorId, UnaryOp};
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::Guard;

/// Bytes of a row that the hardware exchanges at once.
const ROW_BYTES: i64 = 16;

/// Replaces loops by MMA instructions.
pub(super) fn find(kernel: &mut Kernel, buffers: &[Buffer]) {
    let position = |step: u32| {
        let of_warp = |it: &&ThreadVar| it.step == step && it.range >= 4 * step.max(8);
        kernel.thread_vars.iter().filter(of_warp).copied().collect::<Vec<_>>()
    };
    let columns = kernel.thread_vars.iter().find(|it| (it.step, it.range) == (1, 4));
    let Some(q) = columns.map(|it| it.var) else { return };
    let mut search = Matcher {
        buffers,
        rows: position(4),
        q,
        threads: kernel.thread_vars.clone(),
        bounded: Vec::new(),
        fragments: Vec::new(),
    };
    let mut body = std::mem::take(&mut kernel.body);
    search.block(&mut body);
    kernel.body = body;
    kernel.fragments = search.fragments;
}

struct Matcher<'a> {
    buffers: &'a [Buffer],
    /// Candidates for the row of a thread.
    rows: Vec<ThreadVar>,
    /// The column of a thread.
    q: VarId,
    threads: Vec<ThreadVar>,
    /// Guards around: variables below a constant.
    bounded: Vec<(VarId, i64)>,
    fragments: Vec<Fragment>,
}

/// A loop around a tile.
#[derive(Clone)]
pub(super) struct Loop {
    pub(super) var: VarId,
    name: String,
    pub(super) extent: i64,
    pub(super) is_tensor: bool,
}

/// The loops around one update, and the update.
pub(super) struct Tile<'s> {
    pub(super) loops: Vec<Loop>,
    pub(super) tensor: TensorId,
    pub(super) index: &'s [Poly],
    pub(super) value: &'s Expr,
}

impl Matcher<'_> {
    fn block(&mut self, body: &mut Vec<Stmt>) {
        for stmt in std::mem::take(body) {
            match self.tile(&stmt) {
                Some(stmts) => body.extend(stmts),
                None => body.push(self.inside(stmt)),
            }
        }
    }

    fn inside(&mut self, mut stmt: Stmt) -> Stmt {
        let n_bounded = self.bounded.len();
        if let Stmt::If { guards, .. } = &stmt {
            // The threads of a warp must come to an instruction together.
            if !guards.iter().all(|it| is_uniform(it, &self.threads, WARP)) {
                return stmt;
            }
            let bound = |it: &Guard| Some((it.value.as_var()?, it.bound.as_constant()?));
            self.bounded.extend(guards.iter().filter_map(bound));
        }
        if let Some(body) = stmt.body_mut() {
            self.block(body);
        }
        self.bounded.truncate(n_bounded);
        stmt
    }

    /// Returns the variable that is the row of a thread: below 8.
    fn row(&self) -> Option<VarId> {
        let is_row = |it: &&ThreadVar| {
            it.range == 32 || self.bounded.iter().any(|(var, bound)| *var == it.var && *bound == 8)
        };
        self.rows.iter().find(is_row).map(|it| it.var)
    }

    /// Forms the instructions of a loop that, with all inside it, is one tile.
    fn tile(&mut self, stmt: &Stmt) -> Option<Vec<Stmt>> {
        let tile = read(stmt)?;
        let along = |it: &&Loop| tile.index.iter().any(|at| at.mentions(it.var));
        let (tensor, outer): (Vec<&Loop>, Vec<&Loop>) =
            tile.loops.iter().partition(|it| it.is_tensor);
        if !outer.iter().all(along) {
            return None;
        }
        let (a, b, dtype) = operands(tile.value, self.buffers)?;
        let row = self.row()?;
        let depth = 32 / dtype.bytes() as i64;
        // Either factor may have the rows.
        [(a, b), (b, a)].into_iter().find_map(|(a, b)| {
            let Roles { h, k, columns } = roles(&tensor, &tile, depth, a, self.buffers)?;
            let [&Loop { var: b_var, extent: 2, .. }] = columns[..] else { return None };
            let first = Role { thread: row, other: self.q, own: h, k, is_first: true };
            let second = Role { thread: self.q, other: row, own: b_var, k, is_first: false };
            let operands = [self.operand(a, &first, dtype)?, self.operand(b, &second, dtype)?];
            Some(self.instructions(&tile, &outer, [h, b_var], operands, dtype))
        })
    }

    /// Returns an operand, if its elements have the fragment layout: the row depends on the thread and
    /// on one of the loops, and nothing on the other position of the thread.
    fn operand(&self, factor: Factor<'_>, role: &Role, dtype: DType) -> Option<Operand> {
        let Factor { tensor, index } = factor;
        let Role { thread, other, own, k, is_first } = *role;
        let buffer = &self.buffers[tensor.0 as usize];
        let position = buffer.position(&affine(index)?);
        let (thread_stride, rest) = position.split_linear(thread)?;
        let (own_stride, rest) = rest.split_linear(own)?;
        let (k_stride, base) = rest.split_linear(k)?;
        let strides = [thread_stride, own_stride, k_stride].map(|it| it.as_constant());
        let [Some(thread_stride), Some(own_stride), Some(k_stride)] = strides else { return None };
        // Rows `8h + g`; columns `2q + b`.
        let (row_stride, fits) = match is_first {
            true => (thread_stride, own_stride == 8 * thread_stride),
            false => (own_stride, thread_stride == 2 * own_stride),
        };
        if !fits
            || base.mentions(other)
            || row_stride == 0
            || buffer.scope == MemoryScope::Registers
        {
            return None;
        }
        let per_row = ROW_BYTES / dtype.bytes() as i64;
        let aligned = |it: &Poly| it.terms().all(|(_, by)| by % per_row == 0);
        let rows = (k_stride == 1 && row_stride % per_row == 0).then_some(false);
        let columns =
            (row_stride == 1 && k_stride % per_row == 0 && dtype.bytes() == 2).then_some(true);
        let load = match rows.or(columns) {
            Some(transposed) if buffer.scope.is_shared() && aligned(&base) => {
                OperandLoad::Ldmatrix { transposed }
            }
            _ => OperandLoad::Elements,
        };
        Some(Operand { tensor, base, row_stride, k_stride, is_first, load })
    }

    /// Returns the loads of all operands, then all instructions.
    fn instructions(
        &mut self,
        tile: &Tile<'_>,
        outer: &[&Loop],
        [h, b]: [VarId; 2],
        operands: [Operand; 2],
        dtype: DType,
    ) -> Vec<Stmt> {
        let mut stmts = Vec::new();
        let mut places = Vec::new();
        for operand in operands {
            let moving: Vec<&Loop> =
                outer.iter().copied().filter(|it| operand.base.mentions(it.var)).collect();
            let at =
                moving.iter().fold(Poly::default(), |at, it| at * it.extent + Poly::var(it.var));
            let name = format!("{}_part", self.buffers[operand.tensor.0 as usize].name);
            let registers = if operand.is_first { 4 } else { 2 };
            let count = moving.iter().map(|it| it.extent).product();
            self.fragments.push(Fragment { name, count, registers });
            let fragment = self.fragments.len() - 1;
            places.push((fragment, at.clone()));
            stmts.extend(around(&moving, Stmt::LoadFragment { fragment, at, operand }));
        }
        let accumulator = |row: i64, column: i64| -> Vec<Poly> {
            let of = |var: VarId| match var {
                it if it == h => Some(Poly::constant(row)),
                it if it == b => Some(Poly::constant(column)),
                _ => None,
            };
            tile.index.iter().map(|it| it.substitute_vars(&of, &Facts::default())).collect()
        };
        let index =
            Box::new([accumulator(0, 0), accumulator(0, 1), accumulator(1, 0), accumulator(1, 1)]);
        let (tensor, a, b) = (tile.tensor, places[0].clone(), places[1].clone());
        stmts.extend(around(outer, Stmt::Mma { tensor, index, a, b, dtype }));
        stmts
    }
}

/// Returns whether a guard is uniform in each group of so many threads.
pub(super) fn is_uniform(guard: &Guard, threads: &[ThreadVar], group: u32) -> bool {
    let is_inside = |it: &&ThreadVar| guard.value.mentions(it.var) || guard.bound.mentions(it.var);
    threads.iter().filter(is_inside).all(|it| {
        let is_whole = |n: i64| (n * i64::from(it.step)) % i64::from(group) == 0;
        let is_own = guard.value.as_var() == Some(it.var);
        is_whole(1) || (is_own && guard.bound.as_constant().is_some_and(is_whole))
    })
}

/// Reads a perfect loop nest around one sum.
pub(super) fn read<L: ThreadLoops>(stmt: &Stmt<L>) -> Option<Tile<'_>> {
    let mut loops = Vec::new();
    let mut inner = stmt;
    loop {
        match inner {
            Stmt::For {
                var,
                name,
                extent,
                kind: kind @ (LoopKind::Unrolled | LoopKind::Tensorized),
                body,
            } => {
                let [next] = body.as_slice() else { return None };
                let (name, extent) = (name.clone(), extent.as_constant()?);
                loops.push(Loop {
                    var: *var,
                    name,
                    extent,
                    is_tensor: *kind == LoopKind::Tensorized,
                });
                inner = next;
            }
            Stmt::Update { tensor, index, reducer: Reducer::Sum, value } if !loops.is_empty() => {
                return Some(Tile { loops, tensor: *tensor, index, value });
            }
            _ => return None,
        }
    }
}

/// A factor of a product: an element that is read.
#[derive(Clone, Copy)]
pub(super) struct Factor<'e> {
    pub(super) tensor: TensorId,
    pub(super) index: &'e [Subscript],
}

/// The variables of an operand.
struct Role {
    /// The position of a thread along its rows.
    thread: VarId,
    /// The other position of a thread.
    other: VarId,
    /// The loop over its rows.
    own: VarId,
    /// The loop over the reduction.
    k: VarId,
    is_first: bool,
}

/// Returns the factors of a product of narrow numbers that is accumulated in wide ones; `f32` count
/// as TF32.
pub(super) fn operands<'e>(
    value: &'e Expr,
    buffers: &[Buffer],
) -> Option<(Factor<'e>, Factor<'e>, DType)> {
    let Expr::Binary(BinaryOp::Mul, a, b) = value else { return None };
    let factor = |it: &'e Expr| {
        let (wide, is_tf32, inner) = match it {
            Expr::Cast(to, inner) => (*to, false, inner),
            Expr::Unary(UnaryOp::Tf32, inner) => (DType::F32, true, inner),
            _ => return None,
        };
        let Expr::Read { tensor, index } = &**inner else { return None };
        let narrow = buffers[tensor.0 as usize].dtype;
        ((narrow == DType::F32) == is_tf32).then_some((
            wide,
            narrow,
            Factor { tensor: *tensor, index },
        ))
    };
    let ((wide, narrow, a), (wide_b, narrow_b, b)) = (factor(a)?, factor(b)?);
    let known = matches!(
        (narrow, wide),
        (DType::F16 | DType::Bf16 | DType::F32, DType::F32) | (DType::I8, DType::I32)
    );
    (known && wide == wide_b && narrow == narrow_b).then_some((a, b, narrow))
}

/// The loops of an instruction.
pub(super) struct Roles<'l> {
    /// Halves of the rows.
    pub(super) h: VarId,
    /// The reduction.
    pub(super) k: VarId,
    /// All others, which are along the columns.
    pub(super) columns: Vec<&'l Loop>,
}

/// Assigns the loops their roles, if that factor has the rows.
pub(super) fn roles<'l>(
    loops: &[&'l Loop],
    tile: &Tile<'_>,
    depth: i64,
    first: Factor<'_>,
    buffers: &[Buffer],
) -> Option<Roles<'l>> {
    let position = buffers[first.tensor.0 as usize].position(&affine(first.index)?);
    let along = |it: &&&Loop| tile.index.iter().any(|at| at.mentions(it.var));
    let k = loops.iter().find(|it| !along(it) && it.extent == depth)?;
    let h = loops.iter().find(|it| along(it) && position.mentions(it.var) && it.extent == 2)?;
    let columns = loops.iter().filter(|it| along(it) && !position.mentions(it.var));
    let columns: Vec<&Loop> = columns.copied().collect();
    (loops.len() == columns.len() + 2).then_some(Roles { h: h.var, k: k.var, columns })
}

/// Wraps a statement in unrolled loops.
fn around(loops: &[&Loop], stmt: Stmt) -> Vec<Stmt> {
    loops.iter().rev().fold(vec![stmt], |body, it| {
        let (var, name, extent) = (it.var, it.name.clone(), Poly::constant(it.extent));
        vec![Stmt::For { var, name, extent, kind: LoopKind::Unrolled, body }]
    })
}

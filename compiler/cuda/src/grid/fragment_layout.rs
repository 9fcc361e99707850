//! Fragment layouts of register operands: the first operand of a WGMMA instruction may be the rounded
//! result of another one, which is in registers already.
//!
//! In a schedule each thread of a row reads all steps of an instruction. The instruction does not:
//! of 16 steps, a thread of a warpgroup holds those four that its neighbors do not,
//!
//! ```text
//! k = 8 * far + 2 * q + pair        far, pair in 0..2        -- q: the thread of the row, of four
//! ```
//!
//! which are the columns that it has of a result. So for `memory`, which decides by the elements
//! that each thread accesses, an access along `k` is one along these three. `far` and `pair` are
//! variables of no loop: they stand in the operand's index until `wgmma` has formed an instruction;
//! if it can't, `lowering` takes its other candidate, with the operand in shared memory.
//!
//! # Source
//!
//! PTX ISA, `wgmma.mma_async`: fragments of the first operand and of accumulators. FlashAttention-2
//! and -3 build on their equality.

use std::collections::BTreeMap;

use super::access_layout::{LoopAxis, Path};
use super::kernel::fresh;
use super::mma::{operands, read};
use super::{Buffer, MemoryScope, Statement, Stmt, unbound};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::dag::expr::affine;
use tvmtune_ir::poly::{Facts, Poly, VarId};
use tvmtune_schedule::nest::{Access, accesses};

/// Steps of the reduction in one instruction.
const STEPS: i64 = 16;
/// Steps that follow one another in one thread, and threads of a row.
const PAIR: i64 = 2;
const LINE: i64 = 4;

/// An operand along the steps of an instruction.
#[derive(Clone, Copy, Debug)]
pub(super) struct FragmentLayout {
    pub(super) tensor: TensorId,
    pub(super) far: VarId,
    pub(super) pair: VarId,
}

/// Operands that may stay in registers, by the loops over steps of their instructions.
#[derive(Default)]
pub(super) struct FragmentLayouts(BTreeMap<VarId, FragmentLayout>);

impl FragmentLayouts {
    /// The first operands of a kernel's products that its threads compute.
    pub(super) fn new(kernel: &unbound::Kernel, buffers: &[Buffer], n_vars: &mut u32) -> Self {
        let mut layouts = Self::default();
        layouts.collect(&kernel.body, buffers, n_vars);
        layouts
    }

    fn collect(&mut self, body: &[unbound::Stmt], buffers: &[Buffer], n_vars: &mut u32) {
        for stmt in body {
            let Some((steps, tensor)) = first_operand(stmt, buffers) else {
                self.collect(stmt.body(), buffers, n_vars);
                continue;
            };
            let (far, pair) = (fresh(n_vars), fresh(n_vars));
            self.0.insert(steps, FragmentLayout { tensor, far, pair });
        }
    }

    /// The operand that an instruction has along that loop.
    pub(super) fn get(&self, steps: VarId) -> Option<FragmentLayout> {
        self.0.get(&steps).copied()
    }

    /// An access of an operand as the threads of its instruction share it: where, and the loops
    /// around; `None` if it is no such access.
    pub(super) fn shared(
        &self,
        tensor: TensorId,
        index: &[Poly],
        path: &Path,
    ) -> Option<(Vec<Poly>, Path)> {
        let own = path.iter().find_map(|(var, _)| Some((*var, self.get(*var)?)));
        let (steps, layout) = own.filter(|it| it.1.tensor == tensor)?;
        let of_row = |runs: &LoopAxis| {
            *runs == LoopAxis::Threads { extent: LINE, step: 1, range: LINE as u32 }
        };
        let thread = path.iter().find(|it| of_row(&it.1))?.0;
        let step = Poly::var(layout.far) * (PAIR * LINE)
            + Poly::var(thread) * PAIR
            + Poly::var(layout.pair);
        let of = |var: VarId| (var == steps).then(|| step.clone());
        let index = index.iter().map(|it| it.substitute_vars(&of, &Facts::default())).collect();
        let inside = [layout.far, layout.pair].map(|it| (it, LoopAxis::Loop(2)));
        let path = path.iter().filter(|it| it.0 != steps).copied().chain(inside).collect();
        Some((index, path))
    }

    /// Returns whether an operand is in registers that no instruction reads.
    pub(super) fn any_left(&self, body: &[Stmt]) -> bool {
        let mut found = false;
        accesses(body, &mut |it| {
            let Access::Read(tensor, index) = it else { return };
            let is_along = |it: &FragmentLayout| {
                let index = affine(index).unwrap_or_default();
                it.tensor == tensor && index.iter().any(|at| at.mentions(it.far))
            };
            found |= self.0.values().any(is_along);
        });
        found
    }
}

/// If loops may be instructions of a warpgroup: the loop over their steps, and the first operand, if
/// it has a place of the block.
fn first_operand(stmt: &unbound::Stmt, buffers: &[Buffer]) -> Option<(VarId, TensorId)> {
    let tile = read(stmt)?;
    let (a, b, dtype) = operands(tile.value, buffers)?;
    let along = |var: VarId| tile.index.iter().any(|at| at.mentions(var));
    let tensor = || tile.loops.iter().filter(|it| it.is_tensor);
    let steps = tensor().find(|it| !along(it.var) && it.extent == STEPS)?.var;
    // Columns are one loop more than for a warp, the innermost of those along the result.
    let pairs = tensor().rfind(|it| along(it.var))?.var;
    let is_first = |index: &[Poly]| {
        let mentions = |var: VarId| index.iter().any(|at| at.mentions(var));
        mentions(steps) && !mentions(pairs)
    };
    let of_group = tensor().count() > 3 && dtype.bytes() == 2;
    let mut factors = [a, b].into_iter();
    let first = factors.find(|it| affine(it.index).is_some_and(|it| is_first(&it)))?.tensor;
    let is_local = buffers[first.0 as usize].scope == MemoryScope::Undecided;
    (of_group && is_local).then_some((steps, first))
}

//! State of lowering: bindings of loop variables, proven guards, lane predicates, open blocks.

use super::affine::{Affine, Coef, LANE, poly_divisor};
use super::allocate::Allocations;
use super::cse::{self, Budget, PendingStmt};
use super::numbering::{Interned, MaskRef, ValueGraph, ValueId};
use super::table::Table;
use super::tree::{DerivedOp, GuardId, Tree, Write};
use super::{Address, Count, DivOp, LaneStride, Reg, Simd, Stmt, Storage, Unsupported};
use super::{live_ranges, windows};
use tvmtune_ir::dag::TensorId;
use tvmtune_ir::poly::{Interval, Poly, VarId, gcd};

/// Statements beyond which a schedule is refused.
const MAX_STATEMENTS: usize = 30_000;

/// Multiples of a divisor that are added to a dividend which may be negative, at most; chosen by judgement.
const MAX_LIFTED: i64 = 8;

/// The value of a variable of the nest.
#[derive(Clone, Debug)]
pub(super) enum Binding {
    /// The loop is not entered.
    Unbound,
    /// One iteration.
    Const(i64),
    /// A form over variables of the vector code.
    Form(Affine),
    /// A constant plus the lane index.
    Lane(i64),
    /// `start / tile`, which is used in multiples of `tile` only.
    EdgeTile { start: Poly, tile: i64 },
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) graph: ValueGraph,
    pub(super) pending: Vec<PendingStmt>,
    pub(super) stmts: Vec<Stmt>,
    lets: Vec<Let>,
    pub(super) prefetched: Vec<Address>,
    /// The innermost counted loop around it.
    pub(super) innermost: Option<VarId>,
}

impl Block {
    fn new(simd: Simd) -> Self {
        let (pending, stmts, lets, prefetched, innermost) = Default::default();
        Self { graph: ValueGraph::new(simd), pending, stmts, lets, prefetched, innermost }
    }
}

/// A division that a block has computed: `var = value op by`.
#[derive(Debug)]
struct Let {
    op: DivOp,
    value: Affine,
    by: Count,
    var: VarId,
}

/// A predicate over lanes, and its origin.
#[derive(Clone, Debug)]
pub(super) struct Predicate {
    pub(super) limit: LaneCondition,
    pub(super) cause: PredicateCause,
}

/// The condition of active lanes. Blocks compute its value anew.
#[derive(Clone, Debug)]
pub(super) enum LaneCondition {
    First(Count),
    /// The form is negative.
    Negative(Affine),
    /// A node of the open block is true.
    True(ValueId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PredicateCause {
    /// The extent of the vectorized loop.
    Extent(VarId),
    /// A guard, and whether it may hold in no lane.
    Guard { id: GuardId, may_be_empty: bool },
    /// The condition of a select.
    Condition,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ElementRef {
    Register(Reg),
    Memory {
        tensor: TensorId,
        address: u32,
        lanes: LaneStride,
        storage: Storage,
    },
    /// A 64-bit integer in memory, by the addresses of its low word and its high one.
    Words {
        tensor: TensorId,
        words: [u32; 2],
        lanes: LaneStride,
    },
}

/// A reduction over lanes whose vectorized loop is being lowered.
#[derive(Debug)]
pub(super) struct LaneReduction<'t> {
    pub(super) write: &'t Write,
    pub(super) target: ElementRef,
    /// Partial results, combined when the loop ends.
    pub(super) accumulators: Vec<Reg>,
    pub(super) n_vectors: usize,
}

/// The live scope of tensors in registers: one iteration of a loop, or a phase.
#[derive(Debug)]
pub(super) struct RegisterScope {
    pub(super) tensors: Vec<TensorId>,
    pub(super) block: usize,
    pub(super) at: usize,
    /// Registers that may be read before they are assigned in all lanes.
    pub(super) maybe_undefined: Vec<Reg>,
}

/// The state of lowering. See the [module documentation](self).
#[derive(Debug)]
pub(super) struct Lowering<'t> {
    pub(super) tree: &'t Tree<'t>,
    pub(super) simd: Simd,
    pub(super) table: Table,
    pub(super) allocations: Allocations,
    pub(super) interned: Interned,
    /// Values of variables of the tree.
    pub(super) bindings: Vec<Binding>,
    /// Extents of loops shortened to an edge tile, by variable of the tree.
    pub(super) limits: Vec<Option<i64>>,
    pub(super) proven: Vec<bool>,
    /// Forms whose values are known to be in a range.
    pub(super) assumed: Vec<(Affine, Interval)>,
    /// Variables of the vector code: range, and depth of the block that defines it.
    vars: Vec<(Interval, usize)>,
    pub(super) blocks: Vec<Block>,
    pub(super) masks: Vec<Predicate>,
    /// Variable of the enclosing vectorized loop.
    pub(super) lane: Option<VarId>,
    /// Number of writes so far, by register and by buffer.
    pub(super) versions: Vec<u32>,
    pub(super) epochs: Vec<u32>,
    /// Open reductions over lanes, and the depth of their block.
    pub(super) lane_reductions: Vec<LaneReduction<'t>>,
    pub(super) lane_reduction_block: usize,
    /// Open scopes of register tensors, innermost last.
    pub(super) register_scopes: Vec<RegisterScope>,
    n_statements: usize,
}

impl<'t> Lowering<'t> {
    pub(super) fn new(tree: &'t Tree<'t>, table: Table, allocations: Allocations) -> Self {
        Self {
            tree,
            simd: tree.simd,
            table,
            allocations,
            interned: Interned::default(),
            bindings: vec![Binding::Unbound; tree.vars.len()],
            limits: vec![None; tree.vars.len()],
            proven: vec![false; tree.guards.len()],
            assumed: Vec::new(),
            vars: Vec::new(),
            blocks: vec![Block::new(tree.simd)],
            masks: Vec::new(),
            lane: None,
            versions: Vec::new(),
            epochs: vec![0; tree.buffers.len()],
            lane_reductions: Vec::new(),
            lane_reduction_block: 0,
            register_scopes: Vec::new(),
            n_statements: 0,
        }
    }

    pub(super) fn lanes(&self) -> i64 {
        self.simd.lanes()
    }

    pub(super) fn block(&mut self) -> &mut Block {
        self.blocks.last_mut().expect("there is always an open block")
    }

    pub(super) fn graph(&mut self) -> &mut ValueGraph {
        &mut self.block().graph
    }

    /// Adds a variable that the innermost block defines.
    pub(super) fn new_var(&mut self, range: Interval) -> VarId {
        self.vars.push((range, self.blocks.len() - 1));
        VarId((self.tree.vars.len() + self.vars.len()) as u32 - 1)
    }

    /// Adds a variable of the task grid, defined throughout the next phase.
    pub(super) fn new_task_var(&mut self, range: Interval) -> VarId {
        let var = self.new_var(range);
        self.vars.last_mut().expect("pushed above").1 += 1;
        var
    }

    pub(super) fn new_reg(&mut self) -> Reg {
        new_reg(&mut self.versions)
    }

    /// Returns the range of a variable, of the tree or of the vector code.
    pub(super) fn range(&self, var: VarId) -> Interval {
        if var == LANE {
            return Interval { lo: 0, hi: self.lanes() - 1 };
        }
        let at = var.0 as usize;
        match at.checked_sub(self.tree.vars.len()) {
            Some(at) => self.vars[at].0,
            None => match self.limits[at] {
                Some(limit) => Interval { lo: 0, hi: limit - 1 },
                None => self.tree.vars[at].range,
            },
        }
    }

    /// Returns the range of a variable of the vector code, and the number of the block where it holds.
    pub(super) fn known(&self, var: VarId) -> (Interval, usize) {
        self.vars[var.0 as usize - self.tree.vars.len()]
    }

    /// Sets the range of a variable of the vector code, and the block where it holds.
    pub(super) fn set_known(&mut self, var: VarId, known: (Interval, usize)) {
        let at = var.0 as usize - self.tree.vars.len();
        self.vars[at] = known;
    }

    pub(super) fn interval(&self, form: &Affine) -> Interval {
        let mut range = form.interval(&self.tree.facts, &|var| self.range(var));
        for (known, values) in &self.assumed {
            for sign in [1, -1] {
                let mut rest = form.clone();
                rest.add_scaled(known, &Coef::Const(-sign));
                if let Some(rest) = rest.as_constant() {
                    let found = values.times(Interval::point(sign)).plus(Interval::point(rest));
                    range.lo = range.lo.max(found.lo);
                    range.hi = range.hi.min(found.hi);
                }
            }
        }
        range
    }

    pub(super) fn is_bound(&self, var: VarId) -> bool {
        match &self.tree.var(var).derived {
            None => !matches!(self.bindings[var.0 as usize], Binding::Unbound),
            Some(it) => it.a.terms.iter().chain(&it.b.terms).all(|(part, _)| self.is_bound(*part)),
        }
    }

    /// Evaluates a form over the tree's variables; unbound variables stay.
    pub(super) fn eval(&mut self, form: &Affine) -> Result<Affine, Unsupported> {
        let mut out = Affine {
            constant: form.constant,
            dims: form.dims.clone(),
            terms: Vec::with_capacity(form.terms.len()),
        };
        for (var, coefficient) in &form.terms {
            if self.tree.var(*var).derived.is_some() {
                let value = self.derived(*var)?;
                out.add_scaled(&value, coefficient);
                continue;
            }
            match &self.bindings[var.0 as usize] {
                Binding::Const(0) => {}
                Binding::Const(value) => match coefficient {
                    Coef::Const(_) => out.add_scaled(&Affine::constant(*value), coefficient),
                    Coef::Dims(poly) => out.add_dims(poly.clone() * *value),
                },
                Binding::Unbound => out.add_term(*var, coefficient.clone()),
                Binding::Form(value) => out.add_scaled(value, coefficient),
                Binding::Lane(base) => {
                    out.add_scaled(&Affine::constant(*base), coefficient);
                    out.add_term(LANE, coefficient.clone());
                }
                Binding::EdgeTile { start, tile } => {
                    out.add_dims(coefficient.exact_div(*tile).to_poly() * start.clone());
                }
            }
        }
        Ok(out)
    }

    fn derived(&mut self, var: VarId) -> Result<Affine, Unsupported> {
        if !self.is_bound(var) {
            return Ok(Affine::var(var));
        }
        let tree = self.tree;
        let Some(derived) = &tree.var(var).derived else { return Err(Unsupported::Index) };
        let (a, b) = (self.eval(&derived.a)?, self.eval(&derived.b)?);
        let mut difference = a.clone();
        difference.add_scaled(&b, &Coef::Const(-1));
        let sign = self.interval(&difference);
        match derived.op {
            DerivedOp::Div => self.divide(DivOp::Div, a, b),
            DerivedOp::Mod => self.divide(DivOp::Mod, a, b),
            DerivedOp::Min if sign.hi <= 0 => Ok(a),
            DerivedOp::Min if sign.lo >= 0 => Ok(b),
            DerivedOp::Max if sign.lo >= 0 => Ok(a),
            DerivedOp::Max if sign.hi <= 0 => Ok(b),
            DerivedOp::Min | DerivedOp::Max => Err(Unsupported::Index),
        }
    }

    /// Computes a floor division or its remainder. Terms smaller than the common divisor of the
    /// other terms are split off, so that lanes that do not cross a multiple of the divisor share
    /// one quotient.
    fn divide(&mut self, op: DivOp, mut a: Affine, b: Affine) -> Result<Affine, Unsupported> {
        let range = self.interval(&a);
        if let (Some(a), Some(b)) = (a.as_dims(), b.as_dims()) {
            return Ok(self.divide_dims(op, &a, &b));
        }
        if range.lo >= 0 && range.hi < self.interval(&b).lo {
            return Ok(if op == DivOp::Div { Affine::default() } else { a });
        }
        let by = b.as_dims().ok_or(Unsupported::Index)?;
        let Some(divisor) = by.as_constant() else {
            // Divisions of vector code are unsigned.
            let (below, least) = (range.lo.min(0).saturating_neg(), self.interval(&b).lo.max(1));
            let lifted = below.saturating_add(least - 1) / least;
            if lifted > MAX_LIFTED || a.coefficient(LANE).is_some() {
                return Err(Unsupported::Index);
            }
            a.add_dims(by.clone() * lifted);
            let mut result = self.quotient(op, a, &by);
            result.constant -= if op == DivOp::Div { lifted } else { 0 };
            return Ok(result);
        };
        let fine = a.take(LANE);
        let grain = a.terms.iter().fold(divisor, |grain, (_, it)| gcd(grain, it.divisor()));
        let grain = gcd(grain, poly_divisor(&a.dims));
        let mut low = Affine::constant(a.constant.rem_euclid(grain));
        if let Some(step) = fine {
            low.add_term(LANE, step);
        }
        let low_range = self.interval(&low);
        if low_range.lo < 0 || low_range.hi >= grain {
            return Err(Unsupported::Index);
        }
        a.constant -= low.constant;
        let mut coarse = Affine::constant(a.constant / grain);
        coarse.add_dims(super::affine::exact_div(&a.dims, grain));
        for (var, it) in &a.terms {
            coarse.add_term(*var, it.exact_div(grain));
        }
        let by = divisor / grain;
        let least = self.interval(&coarse).lo;
        // Divisions of vector code are unsigned.
        let lifted = if least < 0 { (-least + by - 1) / by } else { 0 };
        coarse.constant += lifted * by;
        let coarse = match (by, op) {
            (1, DivOp::Div) => coarse,
            (1, DivOp::Mod) => Affine::default(),
            _ => self.divide_coarse(op, coarse, by)?,
        };
        Ok(match op {
            DivOp::Div => {
                let mut quotient = coarse;
                quotient.constant -= lifted;
                quotient
            }
            DivOp::Mod => {
                low.add_scaled(&coarse, &Coef::Const(grain));
                low
            }
        })
    }

    fn divide_coarse(&mut self, op: DivOp, value: Affine, by: i64) -> Result<Affine, Unsupported> {
        let range = self.interval(&value);
        if range.hi < by {
            return Ok(if op == DivOp::Div { Affine::default() } else { value });
        }
        if let Some(value) = value.as_dims() {
            return Ok(self.divide_dims(op, &value, &Poly::constant(by)));
        }
        Ok(self.quotient(op, value, &Poly::constant(by)))
    }

    fn divide_dims(&self, op: DivOp, value: &Poly, by: &Poly) -> Affine {
        let (quotient, remainder) = value.div_mod(by, &self.tree.facts);
        Affine::dims(if op == DivOp::Div { quotient } else { remainder })
    }

    /// Defines a variable `value op by` in the outermost block in which its operands are defined
    /// (loop-invariant code motion); reuses an equal one.
    fn quotient(&mut self, op: DivOp, value: Affine, by: &Poly) -> Affine {
        // Without assumptions, which hold in a branch, while the variable may be defined before it.
        let range = value.interval(&self.tree.facts, &|var| self.range(var));
        let divisor = by.interval(&self.tree.facts);
        let by = self.table.count(by);
        let lets = self.blocks.iter().flat_map(|it| &it.lets);
        for it in lets {
            if it.op == op && it.by == by && it.value == value {
                return Affine::var(it.var);
            }
        }
        let range = match op {
            DivOp::Div => Interval { lo: 0, hi: range.hi / divisor.lo.max(1) },
            DivOp::Mod => Interval { lo: 0, hi: (divisor.hi - 1).min(range.hi) },
        };
        let depth = value.terms.iter().map(|(var, _)| self.known(*var).1).max().unwrap_or(0);
        let var = self.new_var(range);
        let at = var.0 as usize - self.tree.vars.len();
        self.vars[at].1 = depth;
        let linear = self.table.linear(&value);
        let block = &mut self.blocks[depth];
        block.stmts.push(Stmt::Let { var, op, value: linear, by });
        block.lets.push(Let { op, value, by, var });
        Affine::var(var)
    }

    /// Emits the pending nodes of the innermost block as statements.
    pub(super) fn flush(&mut self) {
        let new = Block::new(self.simd);
        let mut block = std::mem::replace(self.block(), new);
        let registers = self.simd.registers() - 1;
        let live_through = self.allocations.live_registers(block.innermost);
        windows::reorder(&block.graph, &self.interned, registers, &mut block.pending);
        live_ranges::shorten(&block.graph, &self.interned, &mut block.pending);
        let live_within =
            live_ranges::of_block(&block.graph, &self.interned, &block.pending, &live_through);
        let live_through = live_through.len() as u32;
        let budget = Budget { registers, live_through, live_within: &live_within };
        cse::emit(
            &block.graph,
            &block.pending,
            &self.interned,
            budget,
            &mut || new_reg(&mut self.versions),
            &mut block.stmts,
        );
        block.pending.clear();
        block.graph = ValueGraph::new(self.simd);
        *self.block() = block;
    }

    pub(super) fn push(&mut self, pending: PendingStmt) -> Result<(), Unsupported> {
        self.n_statements += 1;
        if self.n_statements > MAX_STATEMENTS {
            return Err(Unsupported::TooLarge { statements: MAX_STATEMENTS });
        }
        self.block().pending.push(pending);
        Ok(())
    }

    /// Builds a nested block.
    pub(super) fn nested(
        &mut self,
        fill: &mut dyn FnMut(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<Vec<Stmt>, Unsupported> {
        self.flush();
        let innermost = self.block().innermost;
        self.blocks.push(Block { innermost, ..Block::new(self.simd) });
        let filled = fill(self);
        self.flush();
        let block = self.blocks.pop().expect("pushed above");
        filled.map(|()| block.stmts)
    }

    /// Assigns a register in the lanes of the mask.
    pub(super) fn set(
        &mut self,
        reg: Reg,
        value: ValueId,
        mask: MaskRef,
    ) -> Result<(), Unsupported> {
        self.push(PendingStmt::Set { reg, value, mask })?;
        self.versions[reg.0 as usize] += 1;
        Ok(())
    }
}

fn new_reg(versions: &mut Vec<u32>) -> Reg {
    versions.push(0);
    Reg(versions.len() as u32 - 1)
}

//! Instruction selection: the statements of a phase to machine IR.
//!
//! In: a [`Phase`]. Out: a [`MachineFunction`]. Next: [`super::regalloc`].
//!
//! `value.rs`, `memory.rs`, `mask.rs` and `convert.rs` select vector instructions for expressions;
//! `strided.rs` and `strided_bytes.rs` select loads of elements a few words or bytes apart, `uniform.rs` loads of
//! one element under a mask, `transpose.rs` four strided accesses at a time, and `bytes.rs` stores of bytes, which
//! `byte_values.rs` recognizes; `data.rs` loops of which data choose iterations; `pointer.rs` advances induction variables and makes memory operands; this file
//! selects statements.
//!
//! # Invariants
//!
//! - The last instruction of an expression writes its target, so that the expression may read the
//!   target's former value.
//! - Phase-invariant values are computed once, before the first task.

mod byte_values;
mod bytes;
mod convert;
mod data;
mod long;
mod mask;
mod memory;
mod pointer;
mod strided;
mod strided_bytes;
mod transpose;
mod uniform;
mod value;

#[cfg(test)]
mod tests_bytes;
#[cfg(test)]
mod tests_uniform;

use std::collections::BTreeMap;

use self::byte_values::Uses;
use super::encode::{Constants, Width};
use super::induction::{ActiveVars, InductionPlan, Trips};
use super::inst::{
    Argument, Inst, IntOperand, MachineFunction, Operand, RegClass, StackSlot, VectorInst, VirtReg,
};
use super::lane_ops::LaneOps;
use super::opcode::Opcode;
use crate::vector::{
    Count, DivOp, EntryId, Linear, Mask, Phase, Reg, ScalarBits, Simd, Stmt, Value, VectorCode,
    int_bits,
};
use tvmtune_ir::poly::VarId;
use tvmtune_ir::target::Isa;
use tvmtune_math::lane::Width as LaneWidth;

/// A phase-invariant value, computed before the first task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PhaseConstant {
    /// An integer: a parameter.
    Param(EntryId),
    /// An integer: the number of the first task.
    FirstTask,
    /// A vector: a run-time scalar in every lane.
    Scalar(EntryId, ScalarBits),
    /// A mask, or a vector of truth values: as many of the first lanes as a parameter says.
    First(EntryId),
    /// A mask, or a vector of truth values: a bit for each lane.
    Lanes(u16),
    /// A vector: multiples of the number of the lane.
    Strided(Count),
}

/// See the [module documentation](self).
struct Selector<'a> {
    simd: Simd,
    ops: &'static LaneOps,
    code: MachineFunction,
    constants: &'a mut Constants,
    /// Instructions before the first task.
    prologue: Vec<Inst>,
    phase_constants: BTreeMap<PhaseConstant, VirtReg>,
    /// Virtual registers of the registers of vector code.
    regs: Vec<VirtReg>,
    /// For each of these, whether it is a mask register.
    truth_values: Vec<bool>,
    /// For each of these, whether it has one number in all lanes.
    uniform: Vec<bool>,
    /// The uses of each of these.
    uses: Vec<Uses>,
    plan: InductionPlan,
    active: ActiveVars,
    n_scopes: usize,
    /// The register of each sum while its scope is open.
    sums: Vec<Option<VirtReg>>,
    /// Stack slots of scalarized accesses: elements, and the bits of a mask.
    copy_slots: Option<(StackSlot, StackSlot)>,
}

pub(super) fn select(
    kernel: &VectorCode,
    phase: &Phase,
    constants: &mut Constants,
) -> MachineFunction {
    let grid = Grid::of(phase);
    let plan = InductionPlan::new(kernel.simd(), grid.task, &grid.lets, &phase.body);
    let classes = vec![RegClass::Vector; kernel.n_regs as usize];
    let mut select = Selector {
        simd: kernel.simd(),
        ops: LaneOps::of(kernel.width),
        code: MachineFunction { insts: Vec::new(), classes, frame: Vec::new() },
        constants,
        prologue: Vec::new(),
        phase_constants: BTreeMap::new(),
        regs: (0..kernel.n_regs).map(VirtReg).collect(),
        truth_values: vec![false; kernel.n_regs as usize],
        uniform: vec![false; kernel.n_regs as usize],
        uses: vec![Uses::default(); kernel.n_regs as usize],
        sums: vec![None; plan.n_sums()],
        plan,
        active: ActiveVars::default(),
        n_scopes: 0,
        copy_slots: None,
    };
    select.find_truth_values(&phase.body);
    Uses::count(&phase.body, &mut select.uses);
    select.find_uniform(&phase.body);
    select.tasks(&grid, phase);
    let mut code = select.code;
    let body = std::mem::replace(&mut code.insts, select.prologue);
    code.insts.extend(body);
    code
}

/// The loop over tasks, with the delinearization of a task's number to grid coordinates.
struct Grid {
    /// The variable of the task's number.
    task: VarId,
    lets: Vec<Stmt>,
}

impl Grid {
    fn of(phase: &Phase) -> Self {
        // Variables count from 0, so these are free.
        let fresh = |n: usize| VarId(u32::MAX - n as u32);
        let [.., last] = phase.tasks.as_slice() else {
            return Self { task: fresh(0), lets: Vec::new() };
        };
        if phase.tasks.len() == 1 {
            return Self { task: last.0, lets: Vec::new() };
        }
        let mut lets = Vec::new();
        let mut rest = fresh(0);
        for (n, (var, count)) in phase.tasks.iter().enumerate().skip(1).rev() {
            let quotient = if n == 1 { phase.tasks[0].0 } else { fresh(n) };
            let value = Linear { strides: vec![(rest, Count::Const(1))], ..Linear::default() };
            for (var, op) in [(*var, DivOp::Mod), (quotient, DivOp::Div)] {
                lets.push(Stmt::Let { var, op, value: value.clone(), by: *count });
            }
            rest = quotient;
        }
        Self { task: fresh(0), lets }
    }
}

impl Selector<'_> {
    fn push(&mut self, inst: Inst) {
        self.code.insts.push(inst);
    }

    /// Runs `build` with the prologue as insertion point.
    fn in_prologue(&mut self, build: impl FnOnce(&mut Self)) {
        std::mem::swap(&mut self.code.insts, &mut self.prologue);
        build(self);
        std::mem::swap(&mut self.code.insts, &mut self.prologue);
    }

    fn new_vector(&mut self) -> VirtReg {
        self.code.new_virt_reg(RegClass::Vector)
    }

    fn new_int(&mut self) -> VirtReg {
        self.code.new_virt_reg(RegClass::Int)
    }

    fn is_avx512(&self) -> bool {
        self.simd.isa == Isa::Avx512
    }

    fn width(&self) -> Width {
        if self.is_avx512() { Width::W512 } else { Width::W256 }
    }

    /// A vector of constants, an integer for each lane.
    fn constant_lanes(&mut self, lane: impl Fn(i64) -> i64) -> u32 {
        let width = self.simd.width;
        let lanes = (0..self.simd.lanes()).map(|it| int_bits(lane(it), width));
        let words: Vec<u32> = lanes.flat_map(|it| words_of(it, width)).collect();
        self.constants.intern(&words)
    }

    /// A constant of one lane.
    fn constant_lane(&mut self, bits: u64) -> u32 {
        let words: Vec<u32> = words_of(bits, self.simd.width).collect();
        self.constants.intern(&words)
    }

    /// A vector of constant words, whatever the width of lanes.
    fn constant_words(&mut self, word: impl Fn(u32) -> u32) -> u32 {
        let words: Vec<u32> = (0..self.simd.isa.lanes()).map(word).collect();
        self.constants.intern(&words)
    }

    /// Makes an instruction of full width without optional operands.
    fn inst(&self, op: Opcode, dst: VirtReg, b: Operand) -> VectorInst {
        VectorInst { dst: Some(dst), b: Some(b), ..VectorInst::new(op, self.width()) }
    }

    /// `dst = op(b)`
    fn unary(&mut self, op: Opcode, dst: VirtReg, b: Operand) {
        let inst = self.inst(op, dst, b);
        self.push(Inst::Vector(inst));
    }

    /// `dst = op(a, b)`
    fn binary(&mut self, op: Opcode, dst: VirtReg, a: VirtReg, b: Operand) {
        let inst = VectorInst { a: Some(a), ..self.inst(op, dst, b) };
        self.push(Inst::Vector(inst));
    }

    /// `dst = op(b, imm)`
    fn immediate(&mut self, op: Opcode, dst: VirtReg, b: Operand, imm: u8) {
        let inst = VectorInst { imm: Some(imm), ..self.inst(op, dst, b) };
        self.push(Inst::Vector(inst));
    }

    fn tasks(&mut self, grid: &Grid, phase: &Phase) {
        let counter = self.new_int();
        let first = self.phase_constant(PhaseConstant::FirstTask);
        self.push(Inst::LoadArgument { dst: counter, argument: Argument::End });
        self.push(Inst::Sub { dst: counter, src: IntOperand::Reg(first) });
        let scope = self.enter(grid.task, Some(first));
        self.push(Inst::LoopBegin { counter, runs: false });
        self.stmts(&grid.lets);
        self.block(&phase.body);
        self.advance(scope);
        self.push(Inst::LoopEnd { counter });
    }

    fn block(&mut self, body: &[Stmt]) {
        let depth = self.active.len();
        self.stmts(body);
        self.active.truncate(depth);
    }

    fn stmts(&mut self, body: &[Stmt]) {
        let mut rest = body;
        while let Some((stmt, after)) = rest.split_first() {
            let together = self.transposed(rest);
            rest = match together.or_else(|| self.bytes(rest)) {
                Some(after) => after,
                None => {
                    self.stmt(stmt);
                    after
                }
            };
        }
    }

    fn stmt(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Loop { var, count, body } => self.counted(*var, *count, body),
            Stmt::If { value, bound, then, otherwise } => {
                self.branch(value, bound, then, otherwise);
            }
            Stmt::IfAny { condition, then } => self.branch_if_any(condition, then),
            Stmt::Choose { var, value, less, count, body } => {
                self.choose((*var, *count), value, less, body);
            }
            Stmt::Between { var, from, to, count, body } => {
                self.between((*var, *count), [from, to], body);
            }
            Stmt::Let { var, op, value, by } => self.define(*var, *op, value, *by),
            Stmt::Set { reg, value, mask } => self.set(*reg, value, mask.as_ref()),
            Stmt::Store { address, lanes, storage, value, mask } => {
                self.store(address, *lanes, *storage, value, mask.as_ref());
            }
            Stmt::Prefetch { address, hint } => {
                let place = self.mem_operand(address);
                self.push(Inst::Prefetch { place, hint: *hint });
            }
        }
    }

    fn counted(&mut self, var: VarId, count: Count, body: &[Stmt]) {
        let depth = self.active.len();
        match Trips::of(count) {
            Trips::Never => {}
            Trips::Once => {
                self.active.push(var, None);
                self.block(body);
            }
            Trips::Many => {
                let counter = self.new_int();
                let src = self.count(count);
                self.push(Inst::Copy { dst: counter, src });
                let scope = self.enter(var, None);
                let runs = matches!(count, Count::Const(_));
                self.push(Inst::LoopBegin { counter, runs });
                self.block(body);
                self.advance(scope);
                self.push(Inst::LoopEnd { counter });
            }
        }
        self.active.truncate(depth);
    }

    fn branch(&mut self, value: &Linear, bound: &Linear, then: &[Stmt], otherwise: &[Stmt]) {
        let (left, right) = (self.linear(value), self.linear(bound));
        // Both sides are selected even if the condition is constant, to keep the numbering of scopes.
        let (plus, right) = match right {
            IntOperand::Const(_) => (0, IntOperand::Const(bound.constant - value.constant)),
            right @ IntOperand::Reg(_) => (value.constant - bound.constant, right),
        };
        self.push(Inst::IfBegin { value: left, plus, bound: right });
        self.block(then);
        self.push(Inst::Else);
        self.block(otherwise);
        self.push(Inst::IfEnd);
    }

    fn branch_if_any(&mut self, condition: &Value, then: &[Stmt]) {
        let mask =
            if self.is_avx512() { self.condition(condition) } else { self.vector(condition) };
        self.push(Inst::IfAnyBegin { mask });
        self.block(then);
        self.push(Inst::Else);
        self.push(Inst::IfEnd);
    }

    fn define(&mut self, var: VarId, op: DivOp, value: &Linear, by: Count) {
        let value = self.linear_value(value);
        let by = self.count(by);
        let dst = self.new_int();
        self.push(Inst::Divide { dst, value, by, remainder: op == DivOp::Mod });
        self.enter_let(var, dst);
    }

    fn set(&mut self, reg: Reg, value: &Value, mask: Option<&Mask>) {
        let dst = self.regs[reg.0 as usize];
        if self.truth_values[reg.0 as usize] {
            return self.condition_into(value, dst);
        }
        if mask.is_none() && (self.combine_where(reg, value) || self.fma_where(reg, value)) {
            return;
        }
        let Some(mask) = self.lane_mask(mask) else {
            self.into(value, dst);
            return;
        };
        let b = self.operand(value);
        if self.is_avx512() {
            self.masked_move(dst, b, mask, true);
        } else {
            let inst = self.inst(self.ops.blend, dst, b);
            self.push(Inst::Vector(VectorInst { a: Some(dst), c: Some(mask), ..inst }));
        }
    }
}

/// Returns the words of a lane, low one first.
fn words_of(bits: u64, width: LaneWidth) -> impl Iterator<Item = u32> {
    let n = match width {
        LaneWidth::Bits32 => 1,
        LaneWidth::Bits64 => 2,
    };
    [bits as u32, (bits >> 32) as u32].into_iter().take(n)
}

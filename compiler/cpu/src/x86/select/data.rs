//! Loops of which data choose one iteration, or bound them.

use super::super::inst::{Inst, IntOperand, VirtReg};
use super::Selector;
use crate::vector::{Count, DataBound, LaneStride, Linear, Stmt, Storage, Value};
use tvmtune_ir::poly::VarId;

impl Selector<'_> {
    pub(super) fn choose(
        &mut self,
        (var, count): (VarId, Count),
        value: &Value,
        less: &Linear,
        body: &[Stmt],
    ) {
        let mut chosen = self.first_integer(value);
        // Selected even if it is 0, so that the numbering of sums agrees with the induction plan.
        let from = self.linear(less);
        if *less != Linear::default() {
            let dst = self.new_int();
            self.push(Inst::Copy { dst, src: IntOperand::Reg(chosen) });
            self.push(Inst::Sub { dst, src: from });
            self.push(Inst::Sub { dst, src: IntOperand::Const(less.constant) });
            chosen = dst;
        }
        let bound = IntOperand::Reg(chosen);
        self.push(Inst::IfBegin { value: IntOperand::Const(-1), plus: 0, bound });
        let bound = self.count(count);
        self.push(Inst::IfBegin { value: IntOperand::Reg(chosen), plus: 0, bound });
        let depth = self.active.len();
        self.enter_let(var, chosen);
        self.block(body);
        self.active.truncate(depth);
        for inst in [Inst::Else, Inst::IfEnd, Inst::Else, Inst::IfEnd] {
            self.push(inst);
        }
    }

    /// Loads or computes the integer in lane 0.
    fn first_integer(&mut self, value: &Value) -> VirtReg {
        match value {
            Value::Load { address, lanes: LaneStride::Uniform, storage, mask: None }
                if *storage == Storage::Long =>
            {
                let (dst, place) = (self.new_int(), self.mem_operand(address));
                self.push(Inst::LoadLong { dst, place });
                dst
            }
            value => self.first_lane(value),
        }
    }

    pub(super) fn between(
        &mut self,
        (var, count): (VarId, Count),
        [from, to]: [&[DataBound]; 2],
        body: &[Stmt],
    ) {
        let mut first = None;
        for bound in from {
            let other = self.data_bound(bound);
            match first {
                None => first = Some(other),
                Some(first) => self.at_least(first, IntOperand::Reg(other)),
            }
        }
        let (count, counter) = (self.count(count), self.new_int());
        self.push(Inst::Copy { dst: counter, src: count });
        for bound in to {
            let other = self.data_bound(bound);
            self.at_most(counter, IntOperand::Reg(other));
        }
        if let Some(first) = first {
            self.push(Inst::Sub { dst: counter, src: IntOperand::Reg(first) });
        }
        let depth = self.active.len();
        let scope = self.enter(var, first);
        self.push(Inst::LoopBegin { counter, runs: false });
        self.block(body);
        self.advance(scope);
        self.push(Inst::LoopEnd { counter });
        self.active.truncate(depth);
    }

    /// Computes a bound, which is not negative.
    fn data_bound(&mut self, bound: &DataBound) -> VirtReg {
        let (value, dst) = (self.first_integer(&bound.value), self.new_int());
        self.push(Inst::Copy { dst, src: IntOperand::Reg(value) });
        // So that the difference does not overflow.
        self.at_least(dst, IntOperand::Const(-1));
        self.at_most(dst, IntOperand::Const(i32::MAX.into()));
        let less = self.linear(&bound.less);
        self.push(Inst::Sub { dst, src: less });
        self.push(Inst::Sub { dst, src: IntOperand::Const(bound.less.constant) });
        self.at_least(dst, IntOperand::Const(0));
        if bound.by == 1 {
            return dst;
        }
        let quotient = self.new_int();
        let by = IntOperand::Const(bound.by);
        self.push(Inst::Divide { dst: quotient, value: dst, by, remainder: false });
        quotient
    }

    /// `dst = min(dst, bound)`
    fn at_most(&mut self, dst: VirtReg, bound: IntOperand) {
        self.push(Inst::IfBegin { value: bound, plus: 0, bound: IntOperand::Reg(dst) });
        self.replace(dst, bound);
    }

    /// `dst = max(dst, bound)`
    fn at_least(&mut self, dst: VirtReg, bound: IntOperand) {
        self.push(Inst::IfBegin { value: IntOperand::Reg(dst), plus: 0, bound });
        self.replace(dst, bound);
    }

    /// Ends a branch in which a register gets another value.
    fn replace(&mut self, dst: VirtReg, src: IntOperand) {
        for inst in [Inst::Copy { dst, src }, Inst::Else, Inst::IfEnd] {
            self.push(inst);
        }
    }
}

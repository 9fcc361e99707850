//! Induction variables in registers, and memory operands made of them.

use super::super::induction::SumId;
use super::super::inst::{Argument, Inst, IntOperand, MemBase, MemOperand, RegClass, VirtReg};
use super::{PhaseConstant, Selector};
use crate::vector::{Address, Base, Count, Linear};
use tvmtune_ir::poly::VarId;

impl Selector<'_> {
    /// Initializes the induction variables of a loop whose variable starts at `first`, or at 0.
    pub(super) fn enter(&mut self, var: VarId, first: Option<VirtReg>) -> usize {
        let scope = self.open_scope(var);
        for it in self.plan.induction_vars(scope).to_vec() {
            let dst = self.new_int();
            let src = self.sum(it.start);
            self.push(Inst::Copy { dst, src });
            if let Some(src) = first {
                let by = self.count(it.stride);
                self.push(Inst::MulAdd { dst, src, by });
            }
            self.sums[it.sum.0 as usize] = Some(dst);
        }
        scope
    }

    fn open_scope(&mut self, var: VarId) -> usize {
        let scope = self.n_scopes;
        self.n_scopes += 1;
        self.active.push(var, Some(scope));
        scope
    }

    pub(super) fn advance(&mut self, scope: usize) {
        for it in self.plan.induction_vars(scope).to_vec() {
            let src = self.count(it.stride);
            let dst = self.sums[it.sum.0 as usize].expect("the scope is entered");
            self.push(Inst::Add { dst, src });
        }
    }

    /// Computes the sums that depend on the variable of a `Let`.
    pub(super) fn enter_let(&mut self, var: VarId, value: VirtReg) {
        let scope = self.open_scope(var);
        for it in self.plan.induction_vars(scope).to_vec() {
            let start = self.sum(it.start);
            let same = start == IntOperand::Const(0) && it.stride == Count::Const(1);
            let sum = if same {
                value
            } else {
                let dst = self.new_int();
                self.push(Inst::Copy { dst, src: start });
                let by = self.count(it.stride);
                self.push(Inst::MulAdd { dst, src: value, by });
                dst
            };
            self.sums[it.sum.0 as usize] = Some(sum);
        }
    }

    /// Returns the register or constant of a sum.
    fn sum(&mut self, id: SumId) -> IntOperand {
        let sum = self.plan.sum(id);
        if sum.is_zero() {
            return IntOperand::Const(0);
        }
        if let Some(virt) = self.sums[id.0 as usize] {
            return IntOperand::Reg(virt);
        }
        let (base, param) = (sum.base, sum.param);
        let param = param.map(|entry| self.phase_constant(PhaseConstant::Param(entry)));
        let virt = match (base, param) {
            (None, Some(param)) => param,
            (base, param) => {
                let dst = self.new_int();
                self.in_prologue(|it| {
                    it.push(match base {
                        Some(Base::Table(entry)) => Inst::LoadEntry { dst, entry: entry.0 },
                        _ => Inst::LoadArgument { dst, argument: Argument::Scratch },
                    });
                    if let Some(param) = param {
                        it.push(Inst::Add { dst, src: IntOperand::Reg(param) });
                    }
                });
                dst
            }
        };
        self.sums[id.0 as usize] = Some(virt);
        IntOperand::Reg(virt)
    }

    /// Returns a linear form without its constant.
    pub(super) fn linear(&mut self, linear: &Linear) -> IntOperand {
        let sum = self.plan.linear(linear, &self.active);
        self.sum(sum)
    }

    /// Computes a linear form with its constant in a register.
    pub(super) fn linear_value(&mut self, linear: &Linear) -> VirtReg {
        match self.linear(linear) {
            IntOperand::Reg(virt) if linear.constant == 0 => virt,
            src => self.plus(src, linear.constant),
        }
    }

    fn plus(&mut self, src: IntOperand, constant: i64) -> VirtReg {
        let dst = self.new_int();
        self.push(Inst::Copy { dst, src });
        self.push(Inst::Add { dst, src: IntOperand::Const(constant) });
        dst
    }

    pub(super) fn count(&mut self, count: Count) -> IntOperand {
        match count {
            Count::Const(value) => IntOperand::Const(value),
            Count::Param(entry) => {
                IntOperand::Reg(self.phase_constant(PhaseConstant::Param(entry)))
            }
        }
    }

    /// Makes the memory operand of an access that may use an index register.
    pub(super) fn mem_operand(&mut self, address: &Address) -> MemOperand {
        let (sum, index) = self.plan.address(address, &self.active, true);
        let index = index.map(|entry| (self.phase_constant(PhaseConstant::Param(entry)), 1));
        self.mem_operand_of(sum, index, address.offset.constant)
    }

    /// Makes the memory operand of an access with that index register: a vector, or an integer from one.
    pub(super) fn gather_operand(&mut self, address: &Address, index: (VirtReg, u8)) -> MemOperand {
        let (sum, _) = self.plan.address(address, &self.active, false);
        self.mem_operand_of(sum, Some(index), address.offset.constant)
    }

    /// Makes the memory operand of an access that [`InductionPlan`] gives no index register.
    ///
    /// [`InductionPlan`]: super::super::induction::InductionPlan
    pub(super) fn unindexed_operand(&mut self, address: &Address) -> MemOperand {
        let (sum, _) = self.plan.address(address, &self.active, false);
        self.mem_operand_of(sum, None, address.offset.constant)
    }

    fn mem_operand_of(
        &mut self,
        sum: SumId,
        index: Option<(VirtReg, u8)>,
        constant: i64,
    ) -> MemOperand {
        let sum = self.sum(sum);
        // Scalarized accesses add lane offsets to the displacement: leave room for them.
        if let IntOperand::Reg(virt) = sum
            && constant.unsigned_abs() < 1 << 30
        {
            return MemOperand { base: MemBase::Int(virt), index, disp: constant as i32 };
        }
        MemOperand { base: MemBase::Int(self.plus(sum, constant)), index, disp: 0 }
    }

    /// Returns a phase-invariant value; computes it in the prologue on first use.
    pub(super) fn phase_constant(&mut self, constant: PhaseConstant) -> VirtReg {
        if let Some(virt) = self.phase_constants.get(&constant) {
            return *virt;
        }
        let class = match constant {
            PhaseConstant::Param(_) | PhaseConstant::FirstTask => RegClass::Int,
            PhaseConstant::First(_) | PhaseConstant::Lanes(_) if self.is_avx512() => RegClass::Mask,
            PhaseConstant::First(_)
            | PhaseConstant::Lanes(_)
            | PhaseConstant::Scalar(..)
            | PhaseConstant::Strided(_) => RegClass::Vector,
        };
        // Its operands must precede it, so it is built in a separate list.
        let dst = self.code.new_virt_reg(class);
        let body = std::mem::take(&mut self.code.insts);
        self.build_phase_constant(constant, dst);
        let built = std::mem::replace(&mut self.code.insts, body);
        self.prologue.extend(built);
        self.phase_constants.insert(constant, dst);
        dst
    }

    fn build_phase_constant(&mut self, constant: PhaseConstant, dst: VirtReg) {
        match constant {
            PhaseConstant::Param(entry) => self.push(Inst::LoadEntry { dst, entry: entry.0 }),
            PhaseConstant::FirstTask => {
                self.push(Inst::LoadArgument { dst, argument: Argument::First });
            }
            PhaseConstant::Scalar(entry, bits) => {
                self.push(Inst::SplatEntry { dst, entry: entry.0, bits });
            }
            PhaseConstant::First(entry) => self.first_lanes(entry, dst),
            PhaseConstant::Lanes(bits) => self.known_lanes(bits, dst),
            PhaseConstant::Strided(count) => self.multiples(count, dst),
        }
    }
}

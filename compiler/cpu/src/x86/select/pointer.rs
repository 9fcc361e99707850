//! Keeps sums of variables in registers that loops advance, and makes places in memory of them.

use super::super::address::KeyId;
use super::super::inst::{Argument, Class, Inst, IntOperand, Origin, Place, Virt};
use super::{Hoisted, Select};
use crate::kernel::{Address, Base, Count, Linear};
use tvmtune_ir::poly::VarId;

impl Select<'_> {
    /// Starts the sums that change with a loop's variable, which begins at `first`, or at 0.
    pub(super) fn enter(&mut self, var: VarId, first: Option<Virt>) -> usize {
        let scope = self.n_scopes;
        self.n_scopes += 1;
        self.active.push(var, Some(scope));
        for at in 0..self.plan.carried(scope).len() {
            let carried = self.plan.carried(scope)[at];
            let dst = self.int_virt();
            let src = self.sum(carried.start);
            self.push(Inst::Copy { dst, src });
            if let Some(src) = first {
                let by = self.count(carried.stride);
                self.push(Inst::MulAdd { dst, src, by });
            }
            self.sums[carried.key.0 as usize] = Some(dst);
        }
        scope
    }

    /// Takes the sums of a loop to its next iteration.
    pub(super) fn advance(&mut self, scope: usize) {
        for at in 0..self.plan.carried(scope).len() {
            let carried = self.plan.carried(scope)[at];
            let src = self.count(carried.stride);
            let dst = self.sums[carried.key.0 as usize].expect("the scope is entered");
            self.push(Inst::Add { dst, src });
        }
    }

    /// Computes the sums that change with a variable that has a value now.
    pub(super) fn enter_let(&mut self, var: VarId, value: Virt) {
        let scope = self.n_scopes;
        self.n_scopes += 1;
        self.active.push(var, Some(scope));
        for at in 0..self.plan.carried(scope).len() {
            let carried = self.plan.carried(scope)[at];
            let start = self.sum(carried.start);
            let same = start == IntOperand::Const(0) && carried.stride == Count::Const(1);
            let sum = if same {
                value
            } else {
                let dst = self.int_virt();
                self.push(Inst::Copy { dst, src: start });
                let by = self.count(carried.stride);
                self.push(Inst::MulAdd { dst, src: value, by });
                dst
            };
            self.sums[carried.key.0 as usize] = Some(sum);
        }
    }

    /// What holds a sum here.
    fn sum(&mut self, id: KeyId) -> IntOperand {
        let key = self.plan.key(id);
        if key.is_zero() {
            return IntOperand::Const(0);
        }
        if let Some(virt) = self.sums[id.0 as usize] {
            return IntOperand::Reg(virt);
        }
        let (base, param) = (key.base, key.param);
        let param = param.map(|slot| self.hoist(Hoisted::Param(slot)));
        let virt = match (base, param) {
            (None, Some(param)) => param,
            (base, param) => {
                let dst = self.int_virt();
                self.in_prologue(|it| {
                    it.push(match base {
                        Some(Base::Table(slot)) => Inst::LoadEntry { dst, entry: slot.0 },
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

    /// A linear form but for its constant.
    pub(super) fn linear(&mut self, linear: &Linear) -> IntOperand {
        let key = self.plan.linear(linear, &self.active);
        self.sum(key)
    }

    /// A linear form with its constant, in a register.
    pub(super) fn linear_value(&mut self, linear: &Linear) -> Virt {
        match self.linear(linear) {
            IntOperand::Reg(virt) if linear.constant == 0 => virt,
            src => self.plus(src, linear.constant),
        }
    }

    fn plus(&mut self, src: IntOperand, constant: i64) -> Virt {
        let dst = self.int_virt();
        self.push(Inst::Copy { dst, src });
        self.push(Inst::Add { dst, src: IntOperand::Const(constant) });
        dst
    }

    pub(super) fn count(&mut self, count: Count) -> IntOperand {
        match count {
            Count::Const(value) => IntOperand::Const(value),
            Count::Param(slot) => IntOperand::Reg(self.hoist(Hoisted::Param(slot))),
        }
    }

    /// Where an address is, for an access that can add an index register.
    pub(super) fn place(&mut self, address: &Address) -> Place {
        let (key, index) = self.plan.address(address, &self.active, true);
        let index = index.map(|slot| (self.hoist(Hoisted::Param(slot)), 1));
        self.place_of(key, index, address.offset.constant)
    }

    /// Where an address is, for an access whose index is a vector, of bytes times `scale`.
    pub(super) fn indexed_place(&mut self, address: &Address, index: (Virt, u8)) -> Place {
        let (key, _) = self.plan.address(address, &self.active, false);
        self.place_of(key, Some(index), address.offset.constant)
    }

    fn place_of(&mut self, key: KeyId, index: Option<(Virt, u8)>, constant: i64) -> Place {
        let sum = self.sum(key);
        // Room is left for the displacements that lane-by-lane copies add.
        if let IntOperand::Reg(virt) = sum
            && constant.unsigned_abs() < 1 << 30
        {
            return Place { origin: Origin::Int(virt), index, disp: constant as i32 };
        }
        Place { origin: Origin::Int(self.plus(sum, constant)), index, disp: 0 }
    }

    /// What is computed once in the phase, made on first use.
    pub(super) fn hoist(&mut self, what: Hoisted) -> Virt {
        if let Some(virt) = self.hoisted.get(&what) {
            return *virt;
        }
        let class = match what {
            Hoisted::Param(_) | Hoisted::FirstTask => Class::Int,
            Hoisted::First(_) if self.is_avx512() => Class::Mask,
            Hoisted::First(_) | Hoisted::Scalar(_) | Hoisted::Strided(_) => Class::Vector,
        };
        // What this one needs must come first, so it is built outside of the prologue's list.
        let dst = self.code.virt(class);
        let body = std::mem::take(&mut self.code.insts);
        self.build_hoisted(what, dst);
        let built = std::mem::replace(&mut self.code.insts, body);
        self.prologue.extend(built);
        self.hoisted.insert(what, dst);
        dst
    }

    fn build_hoisted(&mut self, what: Hoisted, dst: Virt) {
        match what {
            Hoisted::Param(slot) => self.push(Inst::LoadEntry { dst, entry: slot.0 }),
            Hoisted::FirstTask => {
                self.push(Inst::LoadArgument { dst, argument: Argument::First });
            }
            Hoisted::Scalar(slot) => self.push(Inst::SplatEntry { dst, entry: slot.0 }),
            Hoisted::First(count) => self.first_lanes(count, dst),
            Hoisted::Strided(count) => self.multiples(count, dst),
        }
    }
}

//! Loads of one element into all lanes under a mask, without mask registers.
//!
//! A gather takes a cycle or more for each lane, and reads the same element for all of them. If some lane is
//! known to be active, the element may be read in any case; if all lanes agree, the first one decides.

use super::super::encode::Width;
use super::super::induction::{ActiveLanes, is_gather};
use super::super::inst::{Inst, MemOperand, Operand, VectorInst, VirtReg};
use super::Selector;
use super::memory::Element;
use crate::vector::{LaneStride, Mask, Stmt, Value};

impl Selector<'_> {
    /// Finds the registers that are set once, to the same number in all lanes.
    pub(super) fn find_uniform(&mut self, body: &[Stmt]) {
        for stmt in body {
            if let Stmt::Set { reg, value, mask: None } = stmt {
                let n = reg.0 as usize;
                self.uniform[n] = self.uses[n].is_set_once() && self.is_uniform(value);
            }
            stmt.blocks().for_each(|it| self.find_uniform(it));
        }
    }

    /// Returns whether a value is the same in all lanes.
    fn is_uniform(&self, value: &Value) -> bool {
        match value {
            Value::Splat(_) | Value::Scalar(..) | Value::Reduce(..) => true,
            Value::Lanes(_) | Value::Gather { .. } | Value::LoadAt { .. } => false,
            Value::Reg(reg) => self.uniform[reg.0 as usize],
            Value::Index { step, .. } => *step == 0,
            Value::Load { lanes: LaneStride::Uniform, mask, .. } => match mask {
                None => true,
                Some(Mask::Where(it)) => self.is_uniform(it),
                Some(Mask::First(_)) => false,
            },
            Value::Load { .. } => false,
            Value::Unary(..)
            | Value::Binary(..)
            | Value::Fma(..)
            | Value::Compare(..)
            | Value::Select { .. } => value.operands().all(|it| self.is_uniform(it)),
        }
    }

    /// Selects the load of an element into the lanes of a mask, if no gather is needed.
    pub(super) fn broadcast_where(
        &mut self,
        element: Element<'_>,
        active: ActiveLanes<'_>,
        mask: VirtReg,
        dst: VirtReg,
    ) -> bool {
        let (storage, uniform) = (self.ops.storage, LaneStride::Uniform);
        match active {
            _ if !is_gather(self.simd, uniform, storage, active) => {
                let place = Operand::Mem(self.element_operand(element, storage));
                let all = self.new_vector();
                self.unary(self.ops.broadcast, all, place);
                self.binary(self.ops.and, dst, mask, Operand::Reg(all));
                true
            }
            ActiveLanes::Where(value) if element.index.is_none() && self.is_uniform(value) => {
                let place = self.unindexed_operand(element.address);
                self.broadcast_if(place, mask, dst);
                true
            }
            _ => false,
        }
    }

    /// Loads an element into all lanes if the mask has the first one, and else zeros.
    fn broadcast_if(&mut self, place: MemOperand, mask: VirtReg, dst: VirtReg) {
        let first = self.constant_lanes(|lane| if lane == 0 { -1 } else { 0 });
        let [first_lane, loaded] = [self.new_vector(), self.new_vector()];
        let insts = [
            (self.ops.and, first_lane, mask, MemOperand::pool(first)),
            (self.ops.masked_load, loaded, first_lane, place),
        ];
        for (op, dst, a, b) in insts {
            let (dst, a, b) = (Some(dst), Some(a), Some(Operand::Mem(b)));
            self.push(Inst::Vector(VectorInst { dst, a, b, ..VectorInst::new(op, Width::W128) }));
        }
        self.unary(self.ops.broadcast, dst, Operand::Reg(loaded));
    }
}

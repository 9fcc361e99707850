//! Execution of the statements of a task.

use crate::vector::{DataBound, DivOp, Phase, Reg, Stmt, Storage, Value, VectorCode};
use tvmtune_ir::poly::VarId;
use tvmtune_math::lane::Width;

use super::FaultKind;
use super::memory::Memory;

/// The bits of each lane; lanes beyond those of the vectors are unused.
pub(super) type Vector = [u64; 16];

/// The state of a running task.
pub(super) struct Task<'m, 'a> {
    pub(super) memory: &'m mut Memory<'a>,
    pub(super) lanes: usize,
    pub(super) width: Width,
    /// Values of registers; `None` before the first assignment.
    pub(super) regs: Vec<Option<Vector>>,
    vars: Vec<Option<i64>>,
}

impl<'m, 'a> Task<'m, 'a> {
    pub(super) fn new(kernel: &VectorCode, memory: &'m mut Memory<'a>) -> Self {
        let regs = vec![None; kernel.n_regs as usize];
        let (lanes, width) = (kernel.simd().lanes() as usize, kernel.width);
        Self { memory, lanes, width, regs, vars: Vec::new() }
    }

    pub(super) fn var(&self, var: VarId) -> Option<i64> {
        self.vars.get(var.0 as usize).copied().flatten()
    }

    fn assign(&mut self, var: VarId, value: Option<i64>) {
        let at = var.0 as usize;
        if self.vars.len() <= at {
            self.vars.resize(at + 1, None);
        }
        self.vars[at] = value;
    }

    /// Returns the number of tasks of a phase: the product of its grid.
    pub(super) fn number(&self, phase: &Phase) -> Result<i64, FaultKind> {
        let mut product = 1;
        for (_, count) in &phase.tasks {
            product *= self.count(*count)?.max(0);
        }
        Ok(product)
    }

    /// Assigns the coordinates of task `number` to the grid's variables.
    pub(super) fn place(&mut self, phase: &Phase, mut number: i64) -> Result<(), FaultKind> {
        for (var, count) in phase.tasks.iter().rev() {
            let count = self.count(*count)?;
            self.assign(*var, Some(number % count));
            number /= count;
        }
        Ok(())
    }

    pub(super) fn block(&mut self, body: &[Stmt]) -> Result<(), FaultKind> {
        for stmt in body {
            self.stmt(stmt)?;
        }
        for stmt in body {
            if let Stmt::Let { var, .. } = stmt {
                self.assign(*var, None);
            }
        }
        Ok(())
    }

    fn stmt(&mut self, stmt: &Stmt) -> Result<(), FaultKind> {
        match stmt {
            Stmt::Loop { var, count, body } => {
                for iteration in 0..self.count(*count)? {
                    self.assign(*var, Some(iteration));
                    self.block(body)?;
                }
                self.assign(*var, None);
            }
            Stmt::If { value, bound, then, otherwise } => {
                let holds = self.linear(value)? < self.linear(bound)?;
                self.block(if holds { then } else { otherwise })?;
            }
            Stmt::IfAny { condition, then } => {
                let holds = self.lanes_of(condition)? != 0;
                self.block(if holds { then } else { &[] })?;
            }
            Stmt::Choose { var, value, less, count, body } => {
                let chosen = self.first_integer(value)?.wrapping_sub(self.linear(less)?);
                if (0..self.count(*count)?).contains(&chosen) {
                    self.assign(*var, Some(chosen));
                    self.block(body)?;
                    self.assign(*var, None);
                }
            }
            Stmt::Between { var, from, to, count, body } => {
                let count = self.count(*count)?;
                let (mut first, mut end) = (0, count);
                for bound in from {
                    first = first.max(self.data_bound(bound)?);
                }
                for bound in to {
                    end = end.min(self.data_bound(bound)?);
                }
                for iteration in first..end {
                    self.assign(*var, Some(iteration));
                    self.block(body)?;
                }
                self.assign(*var, None);
            }
            Stmt::Let { var, op, value, by } => {
                let (value, by) = (self.linear(value)?, self.count(*by)?);
                if value < 0 || by < 1 {
                    return Err(FaultKind::BadDivision { value, by });
                }
                let result = match op {
                    DivOp::Div => value / by,
                    DivOp::Mod => value % by,
                };
                self.assign(*var, Some(result));
            }
            Stmt::Set { reg, value, mask } => {
                let active = self.mask(mask.as_ref())?;
                let value = self.value(value)?;
                self.set(*reg, value, mask.is_some().then_some(active))?;
            }
            Stmt::Store { address, lanes, storage, value, mask } => {
                let active = self.mask(mask.as_ref())?;
                let value = self.value(value)?;
                let lane_offsets = self.lane_offsets(address, *lanes, *storage)?;
                let width =
                    if *lanes == crate::vector::LaneStride::Uniform { 1 } else { self.lanes };
                for lane in (0..width).filter(|it| active >> it & 1 == 1) {
                    self.memory.store(address.base, lane_offsets[lane], *storage, value[lane])?;
                }
            }
            Stmt::Prefetch { .. } => {}
        }
        Ok(())
    }

    /// Evaluates the integer in lane 0.
    fn first_integer(&mut self, value: &Value) -> Result<i64, FaultKind> {
        let bits = self.value(value)?[0];
        let is_long = matches!(value, Value::Load { storage: Storage::Long, .. });
        Ok(match self.width {
            Width::Bits32 if !is_long => i64::from(bits as i32),
            _ => bits.cast_signed(),
        })
    }

    fn data_bound(&mut self, bound: &DataBound) -> Result<i64, FaultKind> {
        let value = self.first_integer(&bound.value)?.clamp(-1, i32::MAX.into());
        Ok((value - self.linear(&bound.less)?).max(0) / bound.by)
    }

    /// Assigns a register; under a mask it must be defined, as other lanes keep their values.
    fn set(&mut self, reg: Reg, value: Vector, active: Option<u32>) -> Result<(), FaultKind> {
        let target = self.regs.get_mut(reg.0 as usize).ok_or(FaultKind::Unassigned { reg })?;
        let Some(active) = active else {
            *target = Some(value);
            return Ok(());
        };
        let target = target.as_mut().ok_or(FaultKind::Unassigned { reg })?;
        for lane in (0..self.lanes).filter(|it| active >> it & 1 == 1) {
            target[lane] = value[lane];
        }
        Ok(())
    }
}

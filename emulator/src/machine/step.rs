//! The inner loop: instruction after instruction of one split, until it waits, branches or ends.

use super::warp::{Flow, State};
use super::{Machine, Result};
use crate::code::{BoolOp, Compare, Fence, Flag, Inst, Logic, Op};
use crate::fault::{Fault, FaultKind};
use crate::registers::{LANES, Register, Registers, first_lane, lanes_where};
use crate::space::{Space, space_of};

/// Instructions of one split before others get their turn.
const TURN: u32 = 1 << 16;

/// The continuation of a split's turn.
enum Turn {
    Goes,
    /// Another split may run before it.
    Ends,
    /// Other warps should run.
    Yields,
}

impl Machine<'_> {
    /// Runs a warp until it waits or its turn ends; returns whether it made progress.
    pub(super) fn run_warp(&mut self, warp: usize) -> Result<bool> {
        self.wake(warp);
        let mut progress = false;
        let mut left = TURN;
        while left > 0 {
            let Some(split) = self.warps[warp].next() else { break };
            progress = true;
            if self.run_split(warp, split, &mut left)? {
                // It polls.
                progress = false;
                break;
            }
        }
        if self.instructions > self.options.instruction_limit {
            let limit = self.options.instruction_limit;
            return Err(self.fault(
                FaultKind::InstructionLimit,
                0,
                format!("{limit} instructions"),
            ));
        }
        Ok(progress)
    }

    /// Wakes splits whose mbarriers may have changed.
    fn wake(&mut self, warp: usize) {
        for split in &mut self.warps[warp].splits {
            if let State::Mbarrier(.., seen) = split.state
                && seen != self.mbarrier_events
            {
                split.state = State::Ready;
            }
        }
    }

    /// Runs one split; returns whether its turn has ended.
    fn run_split(&mut self, warp: usize, split: usize, left: &mut u32) -> Result<bool> {
        let kernel = self.kernel;
        let code = kernel.code();
        let (mut pc, mask) = {
            let it = &self.warps[warp].splits[split];
            (it.pc, it.mask)
        };
        let stop = self.warps[warp].stop(split);
        let alone = self.warps[warp].splits.len() == 1;
        loop {
            let inst = &code[pc];
            *left = left.saturating_sub(1);
            self.instructions += 1;
            let registers = &mut self.warps[warp].registers;
            let active = guarded(inst, mask, registers);
            match &inst.op {
                Op::Lanewise(rows, slots) if active != 0 => rows(registers, active, slots),
                Op::Compare(compare) => compare.run(registers, active),
                Op::Logic(logic) => logic.run(registers, active),
                Op::Branch(target) | Op::UniformBranch(target) => {
                    if active == mask {
                        pc = *target;
                        if alone && *left > 0 {
                            continue;
                        }
                        self.warps[warp].splits[split].pc = pc;
                        return self.end_turn(warp, split, *left);
                    }
                    if active != 0 {
                        if matches!(inst.op, Op::UniformBranch(_)) {
                            self.at = (warp, pc);
                            let n = active.count_ones();
                            let message = format!(
                                "a branch by `.uni` that {n} of {} take",
                                mask.count_ones()
                            );
                            let kind = FaultKind::DivergentCollective;
                            return Err(self.fault(kind, first_lane(active), message));
                        }
                        self.warps[warp].splits[split].pc = pc + 1;
                        self.warps[warp].divide(split, active, *target);
                        return Ok(false);
                    }
                }
                op if active != 0 => {
                    self.at = (warp, pc);
                    self.warps[warp].splits[split].pc = pc;
                    match self.execute(warp, split, active, op)? {
                        Turn::Goes => {}
                        Turn::Ends => return Ok(false),
                        Turn::Yields => return Ok(true),
                    }
                }
                _ => {}
            }
            pc += 1;
            if pc >= stop || *left == 0 {
                self.warps[warp].splits[split].pc = pc;
                return self.end_turn(warp, split, *left);
            }
        }
    }

    /// Counts a turn that a split used up: other splits of its warp run first then.
    fn end_turn(&mut self, warp: usize, split: usize, left: u32) -> Result<bool> {
        if left == 0 {
            self.warps[warp].splits[split].turns += 1;
        }
        Ok(left == 0)
    }

    /// Executes an instruction that is not lane-wise.
    fn execute(&mut self, warp: usize, split: usize, active: u32, op: &Op) -> Result<Turn> {
        let at = &self.warps[warp].splits[split];
        if active != at.mask && op.may_wait() {
            // Lanes whose guard is false go on; the others wait in a split of their own.
            let next = at.pc + 1;
            let rest = at.mask & !active;
            self.warps[warp].divide(split, rest, next);
            return Ok(Turn::Ends);
        }
        let pc = at.pc;
        let flow = match op {
            Op::Load(load) => self.load(warp, active, load)?,
            Op::Store(store) => self.store(warp, active, store)?,
            Op::Atomic(atomic) => self.atomic(warp, active, atomic)?,
            Op::CpAsync(copy) => self.cp_async(warp, active, copy)?,
            Op::CpAsyncGroup(group) => self.cp_async_group(warp, active, *group)?,
            Op::CpAsyncArrive(arrive) => self.cp_async_arrive(warp, active, arrive)?,
            Op::LdStMatrix(matrix) => self.ld_st_matrix(warp, active, matrix)?,
            Op::Mma(mma) => self.mma(warp, active, mma)?,
            Op::Mbarrier(mbarrier) => self.mbarrier(warp, active, mbarrier)?,
            Op::Bulk(bulk) => self.bulk(warp, active, bulk)?,
            Op::BulkGroup(group) => self.bulk_group(warp, active, *group)?,
            Op::Wgmma(wgmma) => self.wgmma(warp, active, wgmma)?,
            Op::WgmmaGroup(group) => self.wgmma_group(warp, active, *group)?,
            Op::WgmmaAccess(op, accessed) => {
                self.check_wgmma_registers(warp, accessed)?;
                if !op.run_lanes(&mut self.warps[warp].registers, active) {
                    return self.execute(warp, split, active, op);
                }
                Flow::Next
            }
            Op::Warp(members, op) => self.collective(warp, split, *members, op)?,
            Op::Barrier(barrier) => self.barrier(warp, active, barrier)?,
            Op::SetRegisters(it) => self.set_registers(warp, active, *it)?,
            Op::Fence(fence) => self.fence(warp, active, *fence),
            Op::IsSpace(to, address, space) => self.is_space(warp, active, *to, *address, *space),
            Op::Clock(to) => self.clock(warp, active, *to),
            Op::BranchIndexed(index, targets) => {
                return self.branch_indexed(warp, split, active, *index, targets);
            }
            Op::Call { target, before, .. } => {
                self.copy_local(warp, active, before);
                self.call(warp, split, active, *target);
                return Ok(Turn::Ends);
            }
            Op::Return => return self.return_from_call(warp, split, active),
            Op::Exit => return self.exit(warp, split, active),
            Op::Trap => return Err(self.stop(active, "a trap")),
            Op::Assert => return Err(self.stop(active, "a failed assertion")),
            Op::Nop
            | Op::Lanewise(..)
            | Op::Compare(_)
            | Op::Logic(_)
            | Op::Branch(_)
            | Op::UniformBranch(_) => Flow::Next,
        };
        let at = &mut self.warps[warp].splits[split];
        match flow {
            Flow::Next => return Ok(Turn::Goes),
            Flow::Again(state) => at.state = state,
            Flow::Wait(state) => (at.pc, at.state) = (pc + 1, state),
            Flow::Yield => {
                at.pc = pc + 1;
                at.turns += 1;
                return Ok(Turn::Yields);
            }
        }
        Ok(Turn::Ends)
    }

    /// Returns the fault of threads that stop the kernel.
    fn stop(&self, active: u32, message: &str) -> Box<Fault> {
        self.fault(FaultKind::Assertion, first_lane(active), message)
    }

    /// Sends the active lanes of a split to a function; the others go on behind the call.
    fn call(&mut self, warp: usize, split: usize, active: u32, target: usize) {
        let at = &self.warps[warp].splits[split];
        let (pc, rest) = (at.pc, at.mask & !active);
        if rest != 0 {
            self.warps[warp].divide(split, rest, pc + 1);
        }
        let at = &mut self.warps[warp].splits[split];
        at.stack.push(pc);
        at.pc = target;
    }

    fn return_from_call(&mut self, warp: usize, split: usize, active: u32) -> Result<Turn> {
        let Some(call) = self.warps[warp].splits[split].stack.last().copied() else {
            return self.exit(warp, split, active);
        };
        let at = &self.warps[warp].splits[split];
        if active != at.mask {
            let (rest, next) = (at.mask & !active, at.pc + 1);
            self.warps[warp].divide(split, rest, next);
        }
        let kernel = self.kernel;
        if let Op::Call { after, .. } = &kernel.code()[call].op {
            self.copy_local(warp, active, after);
        }
        let at = &mut self.warps[warp].splits[split];
        at.stack.pop();
        at.pc = call + 1;
        Ok(Turn::Ends)
    }

    fn exit(&mut self, warp: usize, split: usize, active: u32) -> Result<Turn> {
        self.check_copies_waited(warp, active)?;
        if active == self.warps[warp].live {
            self.check_wgmma_waited(warp)?;
        }
        self.warps[warp].splits[split].pc += 1;
        self.warps[warp].end(split, active);
        self.check_remote_arrivals(warp)?;
        self.open_cluster_barrier();
        Ok(Turn::Ends)
    }

    fn branch_indexed(
        &mut self,
        warp: usize,
        split: usize,
        active: u32,
        index: u32,
        targets: &[usize],
    ) -> Result<Turn> {
        let row = self.warps[warp].registers.words[index as usize];
        let next = self.warps[warp].splits[split].pc + 1;
        let lane = first_lane(active);
        let Some(target) = targets.get(row[lane] as usize) else {
            let message = format!("a branch to entry {} of {}", row[lane], targets.len());
            return Err(self.fault(FaultKind::BadInstruction, lane, message));
        };
        let same = lanes_where(active, |it| row[it] == row[lane]);
        let mask = self.warps[warp].splits[split].mask;
        if mask & !active != 0 {
            self.warps[warp].divide(split, mask & !active, next);
        }
        if same == active {
            self.warps[warp].splits[split].pc = *target;
        } else {
            // The others execute this instruction again.
            self.warps[warp].divide(split, same, *target);
        }
        Ok(Turn::Ends)
    }

    fn fence(&mut self, warp: usize, active: u32, fence: Fence) -> Flow {
        if fence != Fence::Memory {
            self.fence_mbarrier_init(warp, active);
        }
        match (&mut self.race, fence) {
            (Some(race), Fence::ProxyAsync) => race.fence(warp, active),
            (Some(race), Fence::Memory | Fence::MbarrierInit) => race.memory_fence(warp, active),
            (None, _) => {}
        }
        Flow::Next
    }

    fn is_space(
        &mut self,
        warp: usize,
        active: u32,
        to: u32,
        address: Register,
        space: Space,
    ) -> Flow {
        let registers = &mut self.warps[warp].registers;
        let holds = lanes_where(active, |it| space_of(registers.get(address, it)).0 == space);
        registers.set_predicate(to, active, holds);
        Flow::Next
    }

    /// Reads the clock, which counts instructions.
    fn clock(&mut self, warp: usize, active: u32, to: Register) -> Flow {
        let now = self.instructions;
        self.warps[warp].registers.set_lanes(to, active, &[now; LANES]);
        Flow::Next
    }
}

/// Returns the active lanes of an instruction.
fn guarded(inst: &Inst, mask: u32, registers: &Registers) -> u32 {
    match inst.guard {
        None => mask,
        Some((slot, negated)) => mask & Flag { slot, negated }.lanes(registers),
    }
}

impl Op {
    /// Returns whether lanes may have to wait in the instruction.
    fn may_wait(&self) -> bool {
        match self {
            Op::WgmmaAccess(op, _) => op.may_wait(),
            Op::Warp(..)
            | Op::Barrier(_)
            | Op::SetRegisters(_)
            | Op::LdStMatrix(_)
            | Op::Mma(_)
            | Op::Mbarrier(_)
            | Op::Wgmma(_)
            | Op::WgmmaGroup(_) => true,
            _ => false,
        }
    }

    /// Runs a lane-wise instruction; returns whether it is one.
    fn run_lanes(&self, registers: &mut Registers, active: u32) -> bool {
        match self {
            Op::Lanewise(rows, slots) => rows(registers, active, slots),
            Op::Compare(compare) => compare.run(registers, active),
            _ => return false,
        }
        true
    }
}

impl Flag {
    /// Returns the lanes for which the predicate holds.
    pub(super) fn lanes(self, registers: &Registers) -> u32 {
        let value = registers.predicate(self.slot);
        if self.negated { !value } else { value }
    }
}

impl BoolOp {
    fn apply(self, a: u32, b: u32) -> u32 {
        match self {
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
        }
    }
}

impl Compare {
    fn run(&self, registers: &mut Registers, active: u32) {
        let holds = (self.relation)(registers, self.a, self.b);
        let with = self.with.map(|(op, flag)| (op, flag.lanes(registers)));
        let combined = |it| with.map_or(it, |(op, flag)| op.apply(it, flag));
        registers.set_predicate(self.to, active, combined(holds));
        if let Some(negated) = self.negated {
            registers.set_predicate(negated, active, combined(!holds));
        }
    }
}

impl Logic {
    fn run(self, registers: &mut Registers, active: u32) {
        let (to, value) = match self {
            Self::Copy(to, flag) => (to, flag.lanes(registers)),
            Self::Constant(to, value) => (to, if value { u32::MAX } else { 0 }),
            Self::Binary(to, op, a, b) => (to, op.apply(a.lanes(registers), b.lanes(registers))),
        };
        registers.set_predicate(to, active, value);
    }
}

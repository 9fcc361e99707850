//! `setmaxnreg`: warps of a CTA give registers to one another.
//!
//! A CTA has the registers that its threads were launched with. A warp that asks for more than others
//! have given back waits; if nobody will give any, it waits for ever.

use super::warp::{Flow, State};
use super::{Machine, Result};
use crate::code::SetRegisters;
use crate::fault::FaultKind;
use crate::registers::{LANES, first_lane};

impl Machine<'_> {
    /// Returns the registers of each thread at launch.
    pub(super) fn launched_registers(&self) -> u32 {
        let most = || self.kernel.most_registers(self.n_threads());
        self.options.registers.unwrap_or_else(most)
    }

    /// Changes the registers of a warp, all of whose lanes are active.
    pub(super) fn set_registers(
        &mut self,
        warp: usize,
        active: u32,
        it: SetRegisters,
    ) -> Result<Flow> {
        let SetRegisters { grows, registers } = it;
        let at = &self.warps[warp];
        if active != at.live {
            return Ok(Flow::Again(State::Collective));
        }
        let (cta, held) = (at.cta, at.n_registers);
        if registers != held && grows != (registers > held) {
            let verb = if grows { "grow" } else { "shrink" };
            let message = format!("{held} registers of a thread cannot {verb} to {registers}");
            return Err(self.fault(FaultKind::BadInstruction, first_lane(active), message));
        }
        let free = &mut self.ctas[cta].free_registers;
        let lanes = LANES as u32;
        if grows {
            let more = (registers - held) * lanes;
            if more > *free {
                return Ok(Flow::Again(State::Registers(registers)));
            }
            *free -= more;
        } else {
            *free += (held - registers) * lanes;
        }
        self.warps[warp].n_registers = registers;
        let own = self.warps.iter_mut().filter(|it| it.cta == cta);
        for split in own.flat_map(|it| &mut it.splits) {
            if matches!(split.state, State::Registers(_)) {
                split.state = State::Ready;
            }
        }
        Ok(Flow::Next)
    }
}

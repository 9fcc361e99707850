//! Warp-level collectives: shuffles, votes, matches, reductions.

use super::warp::{Flow, State};
use super::{Machine, Result};
use crate::code::{Flag, Shuffle, Vote, Warp};
use crate::fault::FaultKind;
use crate::registers::{FULL, LANES, Register, Registers, Slot, first_lane, lanes, lanes_where};

impl Machine<'_> {
    /// Executes an instruction for the lanes of its mask, once all of them have converged.
    pub(super) fn collective(
        &mut self,
        warp: usize,
        split: usize,
        members: Slot,
        op: &Warp,
    ) -> Result<Flow> {
        let mask = self.warps[warp].splits[split].mask;
        if let Warp::ActiveMask(to) = op {
            self.warps[warp].registers.write::<u32>(*to, mask, &[mask; LANES]);
            return Ok(Flow::Next);
        }
        let row = self.warps[warp].registers.words[members as usize];
        let mut left = mask;
        while left != 0 {
            let lane = first_lane(left);
            let group = row[lane];
            if group >> lane & 1 == 0 {
                let message = format!("a thread that is not in the mask {group:#x} it names");
                return Err(self.fault(FaultKind::DivergentCollective, lane, message));
            }
            let present = group & self.present(warp);
            if present & !self.warps[warp].live != 0 {
                let message = format!("the mask {group:#x} names threads that have ended");
                return Err(self.fault(FaultKind::DivergentCollective, lane, message));
            }
            if present & !mask != 0 {
                return Ok(Flow::Again(State::Collective));
            }
            if let Some(other) = lanes(present).find(|it| row[*it] != group) {
                let message = format!("masks {group:#x} and {:#x} in one instruction", row[other]);
                return Err(self.fault(FaultKind::DivergentCollective, other, message));
            }
            left &= !present;
        }
        let mut left = mask;
        while left != 0 {
            let group = row[first_lane(left)] & mask;
            if let (Some(race), Warp::Sync) = (&mut self.race, op) {
                race.sync_warp(warp, group);
            }
            self.execute_collective(warp, group, op);
            left &= !group;
        }
        Ok(Flow::Next)
    }

    /// Returns the lanes of a warp: the last one of a CTA may be smaller.
    fn present(&self, warp: usize) -> u32 {
        let n = self.n_threads() - self.warps[warp].number * LANES as u32;
        if n >= LANES as u32 { FULL } else { (1 << n) - 1 }
    }

    fn execute_collective(&mut self, warp: usize, group: u32, op: &Warp) {
        let registers = &mut self.warps[warp].registers;
        match op {
            Warp::Shuffle { mode, to, valid, from, lane, clamp } => {
                let rows = [*from, *lane, *clamp].map(|it| registers.words[it as usize]);
                let (out, found) = shuffle(*mode, group, &rows);
                registers.write::<u32>(*to, group, &out);
                if let Some(valid) = valid {
                    registers.set_predicate(*valid, group, found);
                }
            }
            Warp::Vote(vote, to, flag) => ballot(registers, group, *vote, *to, *flag),
            Warp::Match { to, all, value } => matching(registers, group, *to, *all, *value),
            Warp::Reduce { to, from, with } => {
                let row = registers.words[*from as usize];
                let result = lanes(group).map(|it| row[it]).reduce(with).unwrap_or(0);
                registers.write::<u32>(*to, group, &[result; LANES]);
            }
            Warp::Elect { leader, to } => {
                let lane = group.trailing_zeros();
                registers.write::<u32>(*leader, group, &[lane; LANES]);
                registers.set_predicate(*to, group, 1 << lane);
            }
            Warp::ActiveMask(_) | Warp::Sync => {}
        }
    }
}

/// Returns the values that lanes get, and the lanes whose source was in range.
fn shuffle(mode: Shuffle, group: u32, rows: &[[u32; LANES]; 3]) -> ([u32; LANES], u32) {
    let [values, by, clamp] = rows;
    let (mut out, mut found) = ([0; LANES], 0);
    for lane in lanes(group) {
        let here = lane as u32;
        let (by, clamp) = (by[lane] & 31, clamp[lane]);
        let segment = clamp >> 8 & 31;
        let (least, most) = (here & segment, here & segment | clamp & 31 & !segment);
        let from = match mode {
            Shuffle::Up => here.wrapping_sub(by),
            Shuffle::Down => here + by,
            Shuffle::Butterfly => here ^ by,
            Shuffle::Index => least | by & !segment,
        };
        let in_range = match mode {
            // The bound of `up` is the lowest lane.
            Shuffle::Up => (from as i32) >= most as i32,
            _ => from <= most,
        };
        let from = if in_range { from } else { here };
        out[lane] = values[from as usize & 31];
        found |= u32::from(in_range) << lane;
    }
    (out, found)
}

fn ballot(registers: &mut Registers, group: u32, vote: Vote, to: Register, flag: Flag) {
    let holds = flag.lanes(registers) & group;
    let result = match vote {
        Vote::Ballot => {
            registers.write::<u32>(to.slot, group, &[holds; LANES]);
            return;
        }
        Vote::All => holds == group,
        Vote::Any => holds != 0,
        Vote::Uniform => holds == group || holds == 0,
    };
    registers.set_lanes(to, group, &[u64::from(result); LANES]);
}

fn matching(
    registers: &mut Registers,
    group: u32,
    to: Slot,
    all: Option<Option<Slot>>,
    value: Register,
) {
    let values: [u64; LANES] = std::array::from_fn(|lane| registers.get(value, lane));
    let same = |lane: usize| lanes_where(group, |it| values[it] == values[lane]);
    match all {
        None => {
            let mut out = [0; LANES];
            lanes(group).for_each(|lane| out[lane] = same(lane));
            registers.write::<u32>(to, group, &out);
        }
        Some(valid) => {
            let agree = same(first_lane(group)) == group;
            let (mask, flag) = if agree { (group, FULL) } else { (0, 0) };
            registers.write::<u32>(to, group, &[mask; LANES]);
            if let Some(valid) = valid {
                registers.set_predicate(valid, group, flag);
            }
        }
    }
}

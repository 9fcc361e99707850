//! The machine's accesses as the race detector gets them, and its conflicts as faults.

use super::access::{Access, Located};
use super::{Machine, Result};
use crate::code::{Store, Strength};
use crate::fault::{Event, Fault, FaultKind};
use crate::race::{self, Actor, Conflict, ConflictKind};
use crate::registers::lanes;
use crate::space::Region;

impl Machine<'_> {
    /// Checks an access by lanes of a warp for races, if checking is on.
    pub(super) fn check_access(
        &mut self,
        warp: usize,
        located: &Located,
        bytes: u32,
        access: Access,
        strength: Strength,
    ) -> Result<()> {
        self.count_cost(located, bytes, access);
        self.check_lanes(warp, located, located.mask, bytes, (access, strength))
    }

    /// Checks a store for races: lanes that write the same value to the same address are one
    /// access.
    pub(super) fn check_store(
        &mut self,
        warp: usize,
        located: &Located,
        store: &Store,
    ) -> Result<()> {
        let bytes = u32::from(store.bytes) * store.from.len() as u32;
        self.count_cost(located, bytes, Access::Write);
        if self.race.is_none() {
            return Ok(());
        }
        let registers = &self.warps[warp].registers;
        let mut mask = located.mask;
        let mut before = None;
        for lane in lanes(located.mask) {
            let at = located.offsets[lane];
            // Ascending offsets are all different.
            if before.is_none_or(|it| it < at) {
                before = Some(at);
                continue;
            }
            let same = lanes(located.mask & ((1 << lane) - 1)).any(|other| {
                let value = |lane| store.from.iter().map(move |it| registers.get(*it, lane));
                located.offsets[other] == at && value(other).eq(value(lane))
            });
            if same {
                mask &= !(1 << lane);
            }
        }
        self.check_lanes(warp, located, mask, bytes, (Access::Write, store.strength))
    }

    /// Returns a weak read by an instruction of a warp, as the race detector gets it.
    pub(super) fn race_access(&self, warp: usize, actor: Actor, clock: u32) -> race::Access {
        let (location, cta) = (self.location(), self.linear_cta(self.warps[warp].cta));
        race::Access { actor, clock, write: false, atomic: false, location, warp, cta }
    }

    fn check_lanes(
        &mut self,
        warp: usize,
        located: &Located,
        mask: u32,
        bytes: u32,
        (access, strength): (Access, Strength),
    ) -> Result<()> {
        let access_made = race::Access {
            write: access != Access::Read,
            atomic: access == Access::Atomic || strength.strong,
            ..self.race_access(warp, Actor::Threads(warp), 0)
        };
        let Some(race) = &mut self.race else { return Ok(()) };
        let conflict = match located.region {
            Region::Shared(cta) => race.shared(cta, access_made, mask, &located.offsets, bytes),
            Region::Buffer(n) => race.global(n, access_made, mask, &located.offsets, bytes),
            _ => None,
        };
        if let Some(conflict) = conflict {
            return Err(self.conflict(located.region, access.name(), &conflict));
        }
        if access_made.atomic {
            self.synchronize(warp, located, mask, access, strength);
        }
        Ok(())
    }

    /// Synchronizes threads by strong accesses.
    fn synchronize(
        &mut self,
        warp: usize,
        located: &Located,
        mask: u32,
        access: Access,
        strength: Strength,
    ) {
        let cta = self.linear_cta(self.warps[warp].cta);
        let Some(race) = &mut self.race else { return };
        let (buffer, number) = match located.region {
            Region::Shared(cta) => (false, cta),
            Region::Buffer(n) => (true, n),
            _ => return,
        };
        for lane in lanes(mask) {
            let at = (buffer, number, located.offsets[lane]);
            if access != Access::Write {
                race.observe(warp, lane, cta, at);
            }
            if access != Access::Read {
                race.publish(warp, lane, cta, at, strength.release);
            }
        }
    }

    /// Returns the location of the instruction that runs.
    pub(super) fn location(&self) -> u32 {
        self.kernel.code()[self.at.1].location
    }

    /// Returns the linear index of a CTA of the cluster in the grid.
    pub(super) fn linear_cta(&self, cta: usize) -> u32 {
        let ([x, y, z], grid) = (self.ctas[cta].index, self.launch.grid);
        (z * grid[1] + y) * grid[0] + x
    }

    /// Converts a conflict to a fault.
    pub(super) fn conflict(&self, region: Region, action: &str, conflict: &Conflict) -> Box<Fault> {
        let location = match region {
            Region::Buffer(n) => format!("`{}`", self.memory.allocations[n].name),
            _ => "shared".to_owned(),
        };
        let kind = match conflict.kind {
            ConflictKind::Race => FaultKind::Race,
            ConflictKind::CrossCta => FaultKind::CrossCtaRace,
            ConflictKind::ProxyFence => FaultKind::MissingProxyFence,
            ConflictKind::Uninitialised => FaultKind::Uninitialised,
        };
        let mut fault =
            self.fault(kind, conflict.lane, format!("{action} of {location}+{}", conflict.offset));
        if kind == FaultKind::Uninitialised {
            return fault;
        }
        let did = if conflict.write { "write" } else { "read" };
        let source = &self.kernel.common.source;
        let event = |message: String| Event {
            message,
            location: source.location(conflict.location),
            ..Event::default()
        };
        let mut other = match (conflict.cta, conflict.actor) {
            (Some(cta), _) => {
                let cta = super::split_index(cta, self.launch.grid);
                Event { cta: Some(cta), ..event(did.to_owned()) }
            }
            (None, Actor::Threads(other)) => {
                self.event_at(other, conflict.other_lane, conflict.location, did.to_owned())
            }
            (None, Actor::Copies(other)) => {
                let message = format!("{did} of `cp.async`");
                self.event_at(other, conflict.other_lane, conflict.location, message)
            }
            (None, Actor::Bulk(other)) => {
                let message = format!("{did} of a bulk copy");
                self.event_at(other, conflict.other_lane, conflict.location, message)
            }
            (None, Actor::Agent(agent)) => {
                let name = self.race.as_ref().map_or("", |it| it.agent_name(agent));
                event(format!("{did} of {name}"))
            }
        };
        other.message = format!("not ordered after the {}", other.message);
        if kind == FaultKind::MissingProxyFence {
            other.message = other.message.replace("not ordered after", "not fenced since");
        }
        fault.others.push(other);
        fault
    }
}

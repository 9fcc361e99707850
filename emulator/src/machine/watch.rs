//! Accesses on their way to the race detector, and conflicts on their way back.

use super::access::{Access, Located, Region, get};
use super::warp::lanes;
use super::{Machine, Result};
use crate::code::{Store, Strength};
use crate::fault::{Event, Fault, FaultKind};
use crate::race::{self, Actor, Conflict, ConflictKind};

impl Machine<'_> {
    /// Looks for races of an access by lanes of a warp, where that was asked for.
    pub(super) fn watch(
        &mut self,
        warp: usize,
        located: &Located,
        bytes: u32,
        access: Access,
        strength: Strength,
    ) -> Result<()> {
        self.measure(located, bytes, access);
        self.watch_lanes(warp, located, located.mask, bytes, (access, strength))
    }

    /// The same for a store: lanes that write the same value to the same place are one.
    pub(super) fn watch_store(
        &mut self,
        warp: usize,
        located: &Located,
        store: &Store,
    ) -> Result<()> {
        let bytes = u32::from(store.bytes) * store.from.len() as u32;
        self.measure(located, bytes, Access::Write);
        if self.race.is_none() {
            return Ok(());
        }
        let registers = &self.warps[warp].registers;
        let mut mask = located.mask;
        let mut before = None;
        for lane in lanes(located.mask) {
            let at = located.offsets[lane];
            // In rising order nothing can be the same.
            if before.is_none_or(|it| it < at) {
                before = Some(at);
                continue;
            }
            let same = lanes(located.mask & ((1 << lane) - 1)).any(|other| {
                let value = |lane| store.from.iter().map(move |it| get(registers, *it, lane));
                located.offsets[other] == at && value(other).eq(value(lane))
            });
            if same {
                mask &= !(1 << lane);
            }
        }
        self.watch_lanes(warp, located, mask, bytes, (Access::Write, store.strength))
    }

    fn watch_lanes(
        &mut self,
        warp: usize,
        located: &Located,
        mask: u32,
        bytes: u32,
        (access, strength): (Access, Strength),
    ) -> Result<()> {
        let cta = self.linear_cta(self.warps[warp].cta);
        let place = self.place();
        let Some(race) = &mut self.race else { return Ok(()) };
        let watched = race::Access {
            actor: Actor::Threads(warp),
            clock: 0,
            write: access != Access::Read,
            atomic: access == Access::Atomic || strength.strong,
            place,
            warp,
            cta,
        };
        let conflict = match located.region {
            Region::Shared(cta) => race.shared(cta, watched, mask, &located.offsets, bytes),
            Region::Buffer(n) => race.global(n, watched, mask, &located.offsets, bytes),
            _ => None,
        };
        if let Some(conflict) = conflict {
            return Err(self.conflict(located.region, access.name(), &conflict));
        }
        if watched.atomic {
            self.order(warp, located, mask, access, strength);
        }
        Ok(())
    }

    /// What strong accesses order.
    fn order(
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

    /// The place of the instruction that runs.
    pub(super) fn place(&self) -> u32 {
        self.kernel.code()[self.at.1].place
    }

    /// The number of a CTA of the cluster in the grid.
    pub(super) fn linear_cta(&self, cta: usize) -> u32 {
        let ([x, y, z], grid) = (self.ctas[cta].index, self.launch.grid);
        (z * grid[1] + y) * grid[0] + x
    }

    /// The fault that a conflict is.
    pub(super) fn conflict(&self, region: Region, what: &str, conflict: &Conflict) -> Box<Fault> {
        let place = match region {
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
            self.fault(kind, conflict.lane, format!("{what} of {place}+{}", conflict.offset));
        if kind == FaultKind::Uninitialised {
            return fault;
        }
        let did = if conflict.write { "write" } else { "read" };
        let source = &self.kernel.common.source;
        let event =
            |what: String| Event { what, place: source.place(conflict.place), ..Event::default() };
        let mut other = match (conflict.cta, conflict.actor) {
            (Some(cta), _) => {
                let cta = super::split_index(cta, self.launch.grid);
                Event { cta: Some(cta), ..event(did.to_owned()) }
            }
            (None, Actor::Threads(other)) => {
                self.event_at(other, conflict.other_lane, conflict.place, did.to_owned())
            }
            (None, Actor::Copies(other)) => {
                let what = format!("{did} of `cp.async`");
                self.event_at(other, conflict.other_lane, conflict.place, what)
            }
            (None, Actor::Bulk(other)) => {
                let what = format!("{did} of a bulk copy");
                self.event_at(other, conflict.other_lane, conflict.place, what)
            }
            (None, Actor::Agent(agent)) => {
                let name = self.race.as_ref().map_or("", |it| it.agent_name(agent));
                event(format!("{did} of {name}"))
            }
        };
        other.what = format!("not ordered after the {}", other.what);
        if kind == FaultKind::MissingProxyFence {
            other.what = other.what.replace("not ordered after", "not fenced since");
        }
        fault.others.push(other);
        fault
    }
}

//! Bulk copies (`cp.async.bulk`, TMA) and their completion.

use super::access::{Access, Wanted};
use super::warp::Flow;
use super::{Machine, Result};
use crate::code::{Bulk, BulkCompletion, BulkGroup, BulkShape, BulkSpace};
use crate::fault::FaultKind;
use crate::launch::Completion;
use crate::number::{Rounding, to_tf32};
use crate::race::{self, Actor};
use crate::registers::{Slot, lanes};
use crate::space::{PARAMETER_WINDOW, Region, SHARED_BASE, Space};
use crate::tensor_map::{Element, Piece, Swizzle};
use half::{bf16, f16};

/// A bulk copy in flight.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    /// The warp, the lane and the instruction that issued it.
    issued: (usize, usize, usize),
    group: Option<u32>,
    buffer: Region,
    /// The CTA and the offset of the bytes in shared memory.
    shared: (usize, u32),
    bytes: u32,
    pieces: Vec<Piece>,
    swizzle: Swizzle,
    /// The element of a box; `None` for bytes.
    element: Option<Element>,
    direction: Direction,
}

#[derive(Clone, Debug)]
enum Direction {
    /// To shared memory of one or several CTAs; completes on the mbarrier at the same offset of
    /// each.
    GlobalToShared { targets: Vec<usize>, barrier: u32 },
    /// From shared memory; with an element, adds.
    SharedToGlobal { add: Option<Element> },
    /// To shared memory of another CTA of the cluster.
    SharedToCluster { to: (usize, u32), barrier: (usize, u32) },
}

impl Machine<'_> {
    pub(super) fn bulk(&mut self, warp: usize, active: u32, bulk: &Bulk) -> Result<Flow> {
        for lane in lanes(active) {
            let transfer = match &bulk.shape {
                BulkShape::Tensor { map, coordinates, shared } => {
                    let shared = self.shared_at(warp, lane, *shared, 0)?;
                    self.tensor_transfer(warp, lane, *map, coordinates, shared)?
                }
                BulkShape::Linear { to, from, bytes } => {
                    let bytes = self.warps[warp].registers.words[*bytes as usize][lane];
                    self.linear_transfer(warp, lane, bulk, (*to, *from), bytes)?
                }
            };
            let transfer = self.set_completion(warp, lane, bulk, transfer)?;
            self.check_transfer(warp, lane, &transfer)?;
            if self.options.completion == Completion::Eager {
                self.complete(&transfer)?;
            } else {
                self.transfers.push(transfer);
            }
        }
        Ok(Flow::Next)
    }

    /// Returns the CTA and offset of an address in shared memory.
    fn shared_at(
        &self,
        warp: usize,
        lane: usize,
        address: crate::code::Address,
        bytes: u32,
    ) -> Result<(usize, u32)> {
        let addresses = self.addresses(warp, address);
        let space = if addresses[lane] >> 32 == 0 { Space::Shared } else { Space::Generic };
        let wanted = Wanted { space, mask: 1 << lane, bytes, align: 1, access: Access::Write };
        let located = self.locate(warp, wanted, &addresses)?;
        let message = match located.first().map(|it| (it.region, it.offsets[lane])) {
            Some((Region::Shared(cta), offset)) => return Ok((cta, offset)),
            Some(_) => "an address that is not shared",
            None => "no address",
        };
        Err(self.fault(FaultKind::BadInstruction, lane, message))
    }

    /// Returns the copy of a box; its completion is set later.
    fn tensor_transfer(
        &mut self,
        warp: usize,
        lane: usize,
        map: Slot,
        coordinates: &[Slot],
        shared: (usize, u32),
    ) -> Result<Transfer> {
        let registers = &self.warps[warp].registers;
        let address = registers.doubles[map as usize][lane];
        let at: Vec<i32> =
            coordinates.iter().map(|it| registers.words[*it as usize][lane] as i32).collect();
        let offset = address.wrapping_sub(PARAMETER_WINDOW);
        let found = self.parameters.maps.iter().find(|it| u64::from(it.0) == offset);
        let Some((_, map)) = found else {
            let message = format!("no tensor map at {address:#x}");
            return Err(self.fault(FaultKind::BadInstruction, lane, message));
        };
        if map.dims.len() != at.len() {
            let message = format!("{} coordinates for a tensor of {}", at.len(), map.dims.len());
            return Err(self.fault(FaultKind::BadInstruction, lane, message));
        }
        if !(u64::from(shared.1) + SHARED_BASE).is_multiple_of(128) {
            let message = format!("a box at shared+{}; it must be a multiple of 128", shared.1);
            return Err(self.fault(FaultKind::Misaligned, lane, message));
        }
        let bytes = map.box_bytes();
        let size = self.ctas[shared.0].shared.len() as u64;
        if u64::from(shared.1) + u64::from(bytes) > size {
            let message = format!("a box of {bytes} bytes at shared+{} of {size}", shared.1);
            return Err(self.fault(FaultKind::OutOfBounds, lane, message));
        }
        Ok(Transfer {
            issued: (warp, lane, self.at.1),
            group: None,
            buffer: Region::Buffer(map.base.0.0),
            shared,
            bytes,
            pieces: map.pieces(&at),
            swizzle: map.swizzle,
            element: Some(map.element),
            direction: Direction::SharedToGlobal { add: None },
        })
    }

    /// Returns the copy of contiguous bytes; its completion is set later.
    fn linear_transfer(
        &mut self,
        warp: usize,
        lane: usize,
        bulk: &Bulk,
        (to, from): (crate::code::Address, crate::code::Address),
        bytes: u32,
    ) -> Result<Transfer> {
        if !bytes.is_multiple_of(16) {
            let message = format!("a bulk copy of {bytes} bytes; they must be a multiple of 16");
            return Err(self.fault(FaultKind::Misaligned, lane, message));
        }
        let mut buffer = Region::Parameters;
        let mut pieces = Vec::new();
        let mut direction = Direction::SharedToGlobal { add: None };
        let (near, far) = match bulk.to {
            BulkSpace::Shared => (to, from),
            BulkSpace::Global => (from, to),
        };
        let shared = if bulk.from == BulkSpace::Shared && bulk.to == BulkSpace::Shared {
            let to = self.shared_at(warp, lane, to, bytes)?;
            direction = Direction::SharedToCluster { to, barrier: (0, 0) };
            self.shared_at(warp, lane, from, bytes)?
        } else {
            let addresses = self.addresses(warp, far);
            let access = if bulk.to == BulkSpace::Global { Access::Write } else { Access::Read };
            let space = Space::Global;
            let wanted = Wanted { space, mask: 1 << lane, bytes, align: 16, access };
            if let Some(located) = self.locate(warp, wanted, &addresses)?.first() {
                buffer = located.region;
                let global = u64::from(located.offsets[lane]);
                pieces.push(Piece { shared: 0, global, bytes });
            }
            self.shared_at(warp, lane, near, bytes)?
        };
        if shared.1 % 16 != 0 {
            let message =
                format!("a bulk copy at shared+{}; it must be a multiple of 16", shared.1);
            return Err(self.fault(FaultKind::Misaligned, lane, message));
        }
        let (issued, group) = ((warp, lane, self.at.1), None);
        let (swizzle, element) = (Swizzle::None, None);
        Ok(Transfer { issued, group, buffer, shared, bytes, pieces, swizzle, element, direction })
    }

    /// Sets the completion mechanism of a copy: mbarriers, or the thread's group.
    fn set_completion(
        &mut self,
        warp: usize,
        lane: usize,
        bulk: &Bulk,
        mut transfer: Transfer,
    ) -> Result<Transfer> {
        match &bulk.completion {
            BulkCompletion::Group => {
                let groups = &mut self.warps[warp].copies.bulk;
                let group = groups.committed[lane] + 1;
                groups.last[lane] = group;
                transfer.group = Some(group);
                transfer.direction = Direction::SharedToGlobal {
                    add: bulk.add.and_then(|it| it.or(transfer.element)),
                };
            }
            BulkCompletion::Mbarrier { address, mask } => {
                let barrier = self.shared_at(warp, lane, *address, 8)?;
                if let Direction::SharedToCluster { to, .. } = transfer.direction {
                    self.require_fenced_mbarrier(lane, barrier)?;
                    transfer.direction = Direction::SharedToCluster { to, barrier };
                    return Ok(transfer);
                }
                let mut targets = vec![transfer.shared.0];
                if let Some(mask) = mask {
                    let mask = self.warps[warp].registers.words[*mask as usize][lane] & 0xFFFF;
                    targets = lanes(mask).collect();
                    if targets.last().is_none_or(|it| *it >= self.ctas.len()) {
                        let message =
                            format!("a copy to the CTAs {mask:#b} of {}", self.ctas.len());
                        return Err(self.fault(FaultKind::BadInstruction, lane, message));
                    }
                }
                for cta in &targets {
                    self.require_fenced_mbarrier(lane, (*cta, barrier.1))?;
                }
                transfer.direction = Direction::GlobalToShared { targets, barrier: barrier.1 };
            }
        }
        Ok(transfer)
    }

    /// Checks a copy for races, when it is issued.
    fn check_transfer(&mut self, warp: usize, lane: usize, transfer: &Transfer) -> Result<()> {
        if self.race.is_none() {
            return Ok(());
        }
        let (issuer, near) = ((warp, lane), (transfer.shared, transfer.bytes));
        match &transfer.direction {
            Direction::GlobalToShared { targets, barrier } => {
                for cta in targets {
                    let by = self.mbarrier_agent((*cta, *barrier));
                    let copied = ((*cta, transfer.shared.1), transfer.bytes);
                    self.check_transfer_shared(issuer, by, Access::Write, copied)?;
                    self.check_transfer_global(issuer, by, Access::Read, transfer)?;
                }
            }
            Direction::SharedToGlobal { .. } => {
                let by = (Actor::Bulk(warp), transfer.group.unwrap_or(0));
                self.check_transfer_shared(issuer, by, Access::Read, near)?;
                self.check_transfer_global(issuer, by, Access::Write, transfer)?;
            }
            Direction::SharedToCluster { to, barrier } => {
                let by = self.mbarrier_agent(*barrier);
                self.check_transfer_shared(issuer, by, Access::Read, near)?;
                self.check_transfer_shared(issuer, by, Access::Write, (*to, transfer.bytes))?;
            }
        }
        Ok(())
    }

    /// Returns the agent of an mbarrier's copies, and its clock: the phase.
    fn mbarrier_agent(&mut self, (cta, offset): (usize, u32)) -> (Actor, u32) {
        let state = self.ctas[cta].mbarriers.get_mut(&offset).expect("its existence was checked");
        let clock = state.phase as u32 + 1;
        let agent = match (state.agent, &mut self.race) {
            (Some(agent), _) => agent,
            (None, Some(race)) => {
                let name = format!("a bulk copy for the mbarrier at shared+{offset}");
                let agent = race.agent(name);
                state.agent = Some(agent);
                agent
            }
            (None, None) => 0,
        };
        (Actor::Agent(agent), clock)
    }

    fn check_transfer_shared(
        &mut self,
        (warp, lane): (usize, usize),
        (actor, clock): (Actor, u32),
        access: Access,
        ((cta, offset), bytes): ((usize, u32), u32),
    ) -> Result<()> {
        let made = self.race_access(warp, actor, clock);
        let made = race::Access { write: access == Access::Write, ..made };
        let Some(race) = &mut self.race else { return Ok(()) };
        match race.span(cta, made, (1 << lane, None), (offset, bytes)) {
            None => Ok(()),
            Some(conflict) => {
                let action = format!("{} of a bulk copy", access.name());
                Err(self.conflict(Region::Shared(cta), &action, &conflict))
            }
        }
    }

    fn check_transfer_global(
        &mut self,
        (warp, lane): (usize, usize),
        (actor, clock): (Actor, u32),
        access: Access,
        transfer: &Transfer,
    ) -> Result<()> {
        let made = self.race_access(warp, actor, clock);
        let Region::Buffer(buffer) = transfer.buffer else { return Ok(()) };
        let atomic = matches!(transfer.direction, Direction::SharedToGlobal { add: Some(_) });
        let made = race::Access { write: access == Access::Write, atomic, ..made };
        for piece in &transfer.pieces {
            let Some(race) = &mut self.race else { return Ok(()) };
            let (at, bytes) = (piece.global as u32, piece.bytes);
            if let Some(conflict) = race.global_span(buffer, made, 1 << lane, at, bytes) {
                let action = format!("{} of a bulk copy", access.name());
                return Err(self.conflict(transfer.buffer, &action, &conflict));
            }
        }
        Ok(())
    }

    pub(super) fn bulk_group(
        &mut self,
        warp: usize,
        active: u32,
        group: BulkGroup,
    ) -> Result<Flow> {
        let groups = &mut self.warps[warp].copies.bulk;
        let pending = match group {
            BulkGroup::Commit => {
                groups.commit(active);
                return Ok(Flow::Next);
            }
            BulkGroup::Wait(n) => n,
        };
        for lane in lanes(active) {
            let done = groups.wait(lane, pending);
            if let Some(race) = &mut self.race {
                race.bulk_done(warp, lane, done);
            }
        }
        let waited = groups.waited;
        self.complete_transfers(|it| {
            it.issued.0 == warp
                && active >> it.issued.1 & 1 == 1
                && it.group.is_some_and(|group| group <= waited[it.issued.1])
        })?;
        Ok(Flow::Next)
    }

    /// Completes the selected copies.
    fn complete_transfers(&mut self, mut wanted: impl FnMut(&Transfer) -> bool) -> Result<()> {
        let transfers = std::mem::take(&mut self.transfers);
        let (now, later): (Vec<_>, Vec<_>) = transfers.into_iter().partition(|it| wanted(it));
        self.transfers = later;
        now.iter().try_for_each(|it| self.complete(it))
    }

    /// Makes some copies, by rng.
    pub(super) fn complete_random_transfers(&mut self) -> Result<()> {
        let Some(mut rng) = self.completion_rng.take() else { return Ok(()) };
        let made = self.complete_transfers(|_| rng.below(2) == 0);
        self.completion_rng = Some(rng);
        made
    }

    /// Completes one copy in flight; returns whether there was one.
    pub(super) fn complete_one_transfer(&mut self) -> Result<bool> {
        if self.transfers.is_empty() {
            return Ok(false);
        }
        let n = self.completion_rng.as_mut().map_or(0, |rng| rng.below(self.transfers.len()));
        let transfer = self.transfers.remove(n);
        self.complete(&transfer)?;
        Ok(true)
    }

    fn complete(&mut self, transfer: &Transfer) -> Result<()> {
        let (warp, lane, pc) = transfer.issued;
        let ended = |cta: usize| !self.warps.iter().any(|it| it.cta == cta && it.live != 0);
        let touched = match &transfer.direction {
            Direction::GlobalToShared { targets, .. } => targets.iter().copied().any(ended),
            Direction::SharedToCluster { to, .. } => ended(to.0),
            Direction::SharedToGlobal { .. } => false,
        };
        if touched && self.options.check {
            self.at = (warp, pc);
            return Err(self.ended(lane, "a bulk copy into"));
        }
        match &transfer.direction {
            Direction::GlobalToShared { targets, barrier } => {
                let bytes = self.read_global(transfer);
                for cta in targets {
                    let shared = &mut self.ctas[*cta].shared;
                    for (chunk, from) in chunks(transfer).zip(bytes.chunks(16)) {
                        shared[chunk as usize..][..16].copy_from_slice(from);
                    }
                    self.complete_tx((*cta, *barrier), transfer.bytes);
                }
            }
            Direction::SharedToGlobal { add } => self.write_global(transfer, *add),
            Direction::SharedToCluster { to, barrier } => {
                let (from, n) = (transfer.shared.1 as usize, transfer.bytes as usize);
                let bytes = self.ctas[transfer.shared.0].shared[from..from + n].to_vec();
                self.ctas[to.0].shared[to.1 as usize..][..n].copy_from_slice(&bytes);
                self.complete_tx(*barrier, transfer.bytes);
            }
        }
        Ok(())
    }

    /// Reads a box from global memory, with zero fill outside of the tensor.
    fn read_global(&self, transfer: &Transfer) -> Vec<u8> {
        let mut bytes = vec![0; transfer.bytes as usize];
        let source = self.bytes(0, transfer.buffer);
        for piece in &transfer.pieces {
            let n = piece.bytes as usize;
            bytes[piece.shared as usize..][..n]
                .copy_from_slice(&source[piece.global as usize..][..n]);
        }
        if transfer.element == Some(Element::Tf32) {
            for word in bytes.as_chunks_mut::<4>().0 {
                let value = f32::from_le_bytes(*word);
                *word = to_tf32(value, Rounding::Nearest).to_le_bytes();
            }
        }
        bytes
    }

    fn write_global(&mut self, transfer: &Transfer, add: Option<Element>) {
        let mut bytes = Vec::with_capacity(transfer.bytes as usize);
        for chunk in chunks(transfer) {
            bytes.extend(&self.ctas[transfer.shared.0].shared[chunk as usize..][..16]);
        }
        let target = match transfer.buffer {
            Region::Buffer(n) => &mut self.memory.allocations[n].bytes,
            _ => &mut self.variables,
        };
        for piece in &transfer.pieces {
            let from = &bytes[piece.shared as usize..][..piece.bytes as usize];
            let to = &mut target[piece.global as usize..][..piece.bytes as usize];
            match add {
                None => to.copy_from_slice(from),
                Some(element) => {
                    let size = element.bytes() as usize;
                    for (to, from) in to.chunks_exact_mut(size).zip(from.chunks_exact(size)) {
                        add_element(element, to, from);
                    }
                }
            }
        }
    }
}

/// Returns the offsets in shared memory of the 16-byte chunks of a box.
fn chunks(transfer: &Transfer) -> impl Iterator<Item = u32> {
    let (start, swizzle) = (transfer.shared.1 + SHARED_BASE as u32, transfer.swizzle);
    (0..transfer.bytes).step_by(16).map(move |it| swizzle.apply(start + it) - SHARED_BASE as u32)
}

/// Adds one element to another.
fn add_element(element: Element, to: &mut [u8], from: &[u8]) {
    fn number<const N: usize>(bytes: &[u8]) -> [u8; N] {
        *bytes.first_chunk().expect("an element has as many bytes")
    }
    macro_rules! add {
        ($type:ty, $sum:expr) => {{
            let (a, b) = (<$type>::from_le_bytes(number(to)), <$type>::from_le_bytes(number(from)));
            to.copy_from_slice(&$sum(a, b).to_le_bytes());
        }};
    }
    match element {
        Element::U8 => add!(u8, u8::wrapping_add),
        Element::U16 => add!(u16, u16::wrapping_add),
        Element::U32 => add!(u32, u32::wrapping_add),
        Element::I32 => add!(i32, i32::wrapping_add),
        Element::U64 => add!(u64, u64::wrapping_add),
        Element::I64 => add!(i64, i64::wrapping_add),
        Element::F32 | Element::Tf32 => add!(f32, |a: f32, b: f32| a + b),
        Element::F64 => add!(f64, |a: f64, b: f64| a + b),
        Element::F16 => add!(f16, |a: f16, b: f16| f16::from_f32(a.to_f32() + b.to_f32())),
        Element::Bf16 => add!(bf16, |a: bf16, b: bf16| bf16::from_f32(a.to_f32() + b.to_f32())),
    }
}

//! Loads and stores of every space.

use super::warp::{Flow, Warp};
use super::{Machine, Result};
use crate::code::{Address, Load, Move, Store};
use crate::fault::{Fault, FaultKind};
use crate::registers::{Class, LANES, Registers, first_lane, lanes};
use crate::space::{MODULE_WINDOW, RANK_SHIFT, Region, SHARED_BASE, Space, WINDOW_BYTES, space_of};

/// Lanes whose addresses point into one region, with their offsets.
pub(super) struct Located {
    pub(super) region: Region,
    pub(super) mask: u32,
    pub(super) offsets: [u32; LANES],
}

/// An access of lanes, before its addresses are resolved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted {
    pub(super) space: Space,
    pub(super) mask: u32,
    pub(super) bytes: u32,
    /// The alignment of addresses, in bytes.
    pub(super) align: u32,
    pub(super) access: Access,
}

/// The kind of an access, for faults and checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
    Atomic,
}

impl Access {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Atomic => "atomic",
        }
    }
}

impl Machine<'_> {
    /// Returns the addresses of an access, lane by lane.
    pub(super) fn addresses(&self, warp: usize, address: Address) -> [u64; LANES] {
        let registers = &self.warps[warp].registers;
        match address.base.class {
            Class::Double => registers.doubles[address.base.slot as usize]
                .map(|it| it.wrapping_add_signed(address.offset)),
            _ => registers.words[address.base.slot as usize]
                .map(|it| u64::from(it.wrapping_add(address.offset as u32))),
        }
    }

    /// Resolves the addresses of some lanes, region by region, and checks bounds and alignment.
    pub(super) fn locate(
        &self,
        warp: usize,
        wanted: Wanted,
        addresses: &[u64; LANES],
    ) -> Result<Vec<Located>> {
        let Wanted { space, mask, bytes, align, access } = wanted;
        let mut found: Vec<Located> = Vec::with_capacity(1);
        // The region of the last lane, and the addresses that stay in it.
        let (mut within, mut at) = (0..0, 0u64);
        for lane in lanes(mask) {
            let address = addresses[lane];
            if !within.contains(&address) || address + u64::from(bytes) > within.end {
                let (region, range) = self
                    .region(warp, space, address, bytes)
                    .ok_or_else(|| self.out_of_bounds(warp, lane, wanted, address))?;
                (within, at) = (range.0..range.1, range.0);
                // The region that the lane is in comes last.
                match found.iter().position(|it| it.region == region) {
                    Some(n) => {
                        let again = found.remove(n);
                        found.push(again);
                    }
                    None => found.push(Located { region, mask: 0, offsets: [0; LANES] }),
                }
            }
            if !address.is_multiple_of(u64::from(align)) {
                let message = format!("{} of {align} bytes at {address:#x}", access.name());
                return Err(self.fault(FaultKind::Misaligned, lane, message));
            }
            let located = found.last_mut().expect("a region was found");
            located.mask |= 1 << lane;
            located.offsets[lane] = (address - at) as u32;
        }
        let stride = self.kernel.linked.local_bytes;
        for located in found.iter_mut().filter(|it| it.region == Region::Local) {
            for (lane, offset) in located.offsets.iter_mut().enumerate() {
                *offset += stride * lane as u32;
            }
        }
        Ok(found)
    }

    /// Returns the region of an address, and its range of addresses.
    fn region(
        &self,
        warp: usize,
        space: Space,
        address: u64,
        bytes: u32,
    ) -> Option<(Region, (u64, u64))> {
        let (region, start, end) = match space {
            Space::Generic => {
                let (space, inside) = space_of(address);
                let (region, (start, end)) = self.region(warp, space, inside, bytes)?;
                let window = address - inside;
                return Some((region, (start + window, end + window)));
            }
            Space::Shared => {
                let rank = (address >> RANK_SHIFT) as usize;
                let cta = if rank == 0 { self.warps[warp].cta } else { rank - 1 };
                let start = ((rank as u64) << RANK_SHIFT) + SHARED_BASE;
                let length = self.ctas.get(cta)?.shared.len() as u64;
                (Region::Shared(cta), start, start + length)
            }
            Space::Local => (Region::Local, 0, u64::from(self.kernel.linked.local_bytes)),
            Space::Parameter => (Region::Parameters, 0, self.parameters.bytes.len() as u64),
            Space::Global | Space::Constant => {
                if (MODULE_WINDOW..MODULE_WINDOW + WINDOW_BYTES).contains(&address) {
                    let end = MODULE_WINDOW + self.variables.len() as u64;
                    (Region::Variables, MODULE_WINDOW, end)
                } else {
                    let n = self.memory.before(address)?;
                    let it = &self.memory.allocations[n];
                    (Region::Buffer(n), it.base, it.base + it.bytes.len() as u64)
                }
            }
        };
        let inside = address >= start && address.checked_add(u64::from(bytes))? <= end;
        inside.then_some((region, (start, end)))
    }

    fn out_of_bounds(&self, warp: usize, lane: usize, wanted: Wanted, address: u64) -> Box<Fault> {
        let Wanted { space, bytes, access, .. } = wanted;
        let (space, inside) = match space {
            Space::Generic => space_of(address),
            _ => (space, address),
        };
        let of = match space {
            Space::Shared => {
                let size = self.ctas[self.warps[warp].cta].shared.len();
                let at = inside as i64 - SHARED_BASE as i64;
                format!("at shared{at:+} of {size}")
            }
            Space::Local => format!("at local+{inside} of {}", self.kernel.linked.local_bytes),
            Space::Parameter => format!("at parameters+{inside}"),
            _ => match self.memory.before(address) {
                Some(n) => {
                    let it = &self.memory.allocations[n];
                    format!("at `{}`+{} of {}", it.name, address - it.base, it.bytes.len())
                }
                None => format!("at {address:#x}, where no buffer is"),
            },
        };
        let message = format!("{} of {bytes} bytes {of}", access.name());
        self.fault(FaultKind::OutOfBounds, lane, message)
    }

    /// Returns the bytes of a region.
    pub(super) fn bytes(&self, warp: usize, region: Region) -> &[u8] {
        match region {
            Region::Shared(cta) => &self.ctas[cta].shared,
            Region::Buffer(n) => &self.memory.allocations[n].bytes,
            Region::Variables => &self.variables,
            Region::Local => &self.warps[warp].local,
            Region::Parameters => &self.parameters.bytes,
        }
    }

    pub(super) fn load(&mut self, warp: usize, active: u32, load: &Load) -> Result<Flow> {
        let addresses = self.addresses(warp, load.address);
        let bytes = u32::from(load.bytes) * load.to.len() as u32;
        let (space, align, access) = (load.space, load.align, Access::Read);
        let wanted = Wanted { space, mask: active, bytes, align, access };
        let found = self.locate(warp, wanted, &addresses)?;
        for located in &found {
            self.check_access(warp, located, bytes, access, load.strength)?;
            let Warp { registers, local, .. } = &mut self.warps[warp];
            let source = match located.region {
                Region::Shared(cta) => &self.ctas[cta].shared,
                Region::Buffer(n) => &self.memory.allocations[n].bytes,
                Region::Variables => &self.variables,
                Region::Local => local,
                Region::Parameters => &self.parameters.bytes,
            };
            read_rows(registers, load, located, source);
        }
        Ok(Flow::Next)
    }

    pub(super) fn store(&mut self, warp: usize, active: u32, store: &Store) -> Result<Flow> {
        let addresses = self.addresses(warp, store.address);
        let bytes = u32::from(store.bytes) * store.from.len() as u32;
        let (space, access) = (store.space, Access::Write);
        let wanted = Wanted { space, mask: active, bytes, align: bytes, access };
        let found = self.locate(warp, wanted, &addresses)?;
        for located in &found {
            self.check_store(warp, located, store)?;
            let at = &mut self.warps[warp];
            let target = match located.region {
                Region::Shared(cta) => &mut self.ctas[cta].shared,
                Region::Buffer(n) => &mut self.memory.allocations[n].bytes,
                Region::Variables => &mut self.variables,
                Region::Local => &mut at.local,
                Region::Parameters => {
                    let message = "a write to a parameter of the kernel";
                    return Err(self.fault(FaultKind::BadInstruction, first_lane(active), message));
                }
            };
            write_rows(&at.registers, store, located, target);
        }
        Ok(Flow::Next)
    }

    /// Copies parameters between the frames of functions.
    pub(super) fn copy_local(&mut self, warp: usize, active: u32, moves: &[Move]) {
        let stride = self.kernel.linked.local_bytes as usize;
        let local = &mut self.warps[warp].local;
        for lane in lanes(active) {
            for it in moves {
                let from = stride * lane + it.from as usize;
                local.copy_within(from..from + it.bytes as usize, stride * lane + it.to as usize);
            }
        }
    }
}

/// Loads elements into registers, one row after the other.
fn read_rows(registers: &mut Registers, load: &Load, located: &Located, source: &[u8]) {
    let size = usize::from(load.bytes);
    for (n, to) in load.to.iter().enumerate() {
        match (to.class, load.bytes) {
            (Class::Word, 4) => {
                let row = &mut registers.words[to.slot as usize];
                for lane in lanes(located.mask) {
                    let at = located.offsets[lane] as usize + n * 4;
                    row[lane] = u32::from_le_bytes(*source[at..].first_chunk().expect("in bounds"));
                }
            }
            _ => {
                for lane in lanes(located.mask) {
                    let at = located.offsets[lane] as usize + n * size;
                    let value = zero_or_sign_extend(&source[at..at + size], load.signed);
                    registers.set(*to, lane, value);
                }
            }
        }
    }
}

/// Extends a number in memory to 64 bits.
pub(super) fn zero_or_sign_extend(bytes: &[u8], signed: bool) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let value = u64::from_le_bytes(all);
    let shift = 64 - 8 * bytes.len() as u32;
    if signed { ((value << shift) as i64 >> shift) as u64 } else { value }
}

fn write_rows(registers: &Registers, store: &Store, located: &Located, target: &mut [u8]) {
    let size = usize::from(store.bytes);
    for (n, from) in store.from.iter().enumerate() {
        for lane in lanes(located.mask) {
            let at = located.offsets[lane] as usize + n * size;
            let value = registers.get(*from, lane).to_le_bytes();
            target[at..at + size].copy_from_slice(&value[..size]);
        }
    }
}

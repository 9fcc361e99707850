//! Atomic operations: lane after lane.

use super::access::{Access, Region, Wanted, get, number, set};
use super::step::{Flow, first};
use super::warp::lanes;
use super::{Machine, Result};
use crate::code::Atomic;
use crate::fault::FaultKind;

impl Machine<'_> {
    pub(super) fn atomic(&mut self, warp: usize, active: u32, atomic: &Atomic) -> Result<Flow> {
        let addresses = self.addresses(warp, atomic.address);
        let size = usize::from(atomic.bytes);
        let bytes = (size * atomic.from.len()) as u32;
        let found = self.locate(
            warp,
            Wanted {
                space: atomic.space,
                mask: active,
                bytes,
                align: bytes,
                access: Access::Atomic,
            },
            &addresses,
        )?;
        for located in &found {
            self.watch(warp, located, bytes, Access::Atomic, atomic.strength)?;
            let registers = &mut self.warps[warp].registers;
            let target = match located.region {
                Region::Shared(cta) => &mut self.ctas[cta].shared,
                Region::Buffer(n) => &mut self.memory.allocations[n].bytes,
                Region::Variables => &mut self.variables,
                _ => {
                    let what = "an atomic operation on local memory";
                    return Err(self.fault(FaultKind::BadInstruction, first(active), what));
                }
            };
            for lane in lanes(located.mask) {
                for (n, from) in atomic.from.iter().enumerate() {
                    let at = located.offsets[lane] as usize + n * size;
                    let old = number(&target[at..at + size], false);
                    let operand = number(&get(registers, *from, lane).to_le_bytes()[..size], false);
                    let new = match atomic.swap {
                        Some(_) if old != operand => old,
                        Some(swap) => get(registers, swap, lane),
                        None => (atomic.combine)(old, operand),
                    };
                    target[at..at + size].copy_from_slice(&new.to_le_bytes()[..size]);
                    if let Some(to) = atomic.to.get(n) {
                        set(registers, *to, lane, old);
                    }
                }
            }
        }
        Ok(Flow::Next)
    }
}

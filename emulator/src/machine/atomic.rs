//! Atomic operations: lane after lane.

use super::access::{Access, Wanted, zero_or_sign_extend};
use super::warp::Flow;
use super::{Machine, Result};
use crate::code::Atomic;
use crate::fault::FaultKind;
use crate::registers::{first_lane, lanes};
use crate::space::Region;

impl Machine<'_> {
    pub(super) fn atomic(&mut self, warp: usize, active: u32, atomic: &Atomic) -> Result<Flow> {
        let addresses = self.addresses(warp, atomic.address);
        let size = usize::from(atomic.bytes);
        let bytes = (size * atomic.from.len()) as u32;
        let (space, access) = (atomic.space, Access::Atomic);
        let wanted = Wanted { space, mask: active, bytes, align: bytes, access };
        let found = self.locate(warp, wanted, &addresses)?;
        for located in &found {
            self.check_access(warp, located, bytes, access, atomic.strength)?;
            let registers = &mut self.warps[warp].registers;
            let target = match located.region {
                Region::Shared(cta) => &mut self.ctas[cta].shared,
                Region::Buffer(n) => &mut self.memory.allocations[n].bytes,
                Region::Variables => &mut self.variables,
                _ => {
                    let message = "an atomic operation on local memory";
                    return Err(self.fault(FaultKind::BadInstruction, first_lane(active), message));
                }
            };
            for lane in lanes(located.mask) {
                for (n, from) in atomic.from.iter().enumerate() {
                    let at = located.offsets[lane] as usize + n * size;
                    let old = zero_or_sign_extend(&target[at..at + size], false);
                    let operand = registers.get(*from, lane).to_le_bytes();
                    let operand = zero_or_sign_extend(&operand[..size], false);
                    let new = match atomic.swap {
                        Some(_) if old != operand => old,
                        Some(swap) => registers.get(swap, lane),
                        None => (atomic.combine)(old, operand),
                    };
                    target[at..at + size].copy_from_slice(&new.to_le_bytes()[..size]);
                    if let Some(to) = atomic.to.get(n) {
                        registers.set(*to, lane, old);
                    }
                }
            }
        }
        Ok(Flow::Next)
    }
}

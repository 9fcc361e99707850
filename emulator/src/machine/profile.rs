//! The profile of accesses: bank conflicts of shared memory, and sectors of global memory.

use super::Machine;
use super::access::{Access, Located};
use crate::registers::{LANES, lanes};
use crate::report::{AccessCost, AccessedMemory};
use crate::space::Region;
use std::collections::{BTreeMap, BTreeSet};

/// Banks of shared memory, of four bytes each.
const BANKS: u32 = 32;

/// Bytes that global memory moves at once.
const SECTOR: u32 = 32;

/// Sums for one instruction's location, one memory, reads or writes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cost {
    requests: u64,
    transactions: u64,
    ideal: u64,
}

/// Costs so far: by location, memory, and whether it is written.
pub(super) type Costs = BTreeMap<(u32, AccessedMemory, bool), Cost>;

impl Machine<'_> {
    /// Counts an access of a warp, if profiling is on.
    pub(super) fn count_cost(&mut self, located: &Located, bytes: u32, access: Access) {
        let location = self.location();
        let Some(costs) = &mut self.costs else { return };
        let (memory, (transactions, ideal)) = match located.region {
            Region::Shared(_) => (AccessedMemory::Shared, wavefronts(located, bytes)),
            Region::Buffer(_) => (AccessedMemory::Global, sectors(located, bytes)),
            _ => return,
        };
        let cost = costs.entry((location, memory, access != Access::Read)).or_default();
        cost.requests += 1;
        cost.transactions += transactions;
        cost.ideal += ideal;
    }

    /// Returns all costs, by line.
    pub(super) fn accesses(&self) -> Vec<AccessCost> {
        let mut found: Vec<AccessCost> = Vec::new();
        for ((location, memory, write), cost) in self.costs.iter().flatten() {
            let location = self.kernel.common.source.location(*location);
            let same = |it: &&mut AccessCost| {
                it.location == location && it.memory == *memory && it.write == *write
            };
            if let Some(known) = found.iter_mut().find(same) {
                known.requests += cost.requests;
                known.transactions += cost.transactions;
                known.ideal += cost.ideal;
                continue;
            }
            found.push(AccessCost {
                location,
                memory: *memory,
                write: *write,
                requests: cost.requests,
                transactions: cost.transactions,
                ideal: cost.ideal,
            });
        }
        found
    }
}

/// Lanes take turns, as many at a time as 128 bytes allow; in each turn every bank serves its words
/// one after the other.
fn wavefronts(located: &Located, bytes: u32) -> (u64, u64) {
    let at_once = match bytes {
        0..=4 => LANES,
        5..=8 => LANES / 2,
        _ => LANES / 4,
    };
    let (mut took, mut ideal) = (0, 0);
    for first in (0..LANES).step_by(at_once) {
        let turn = lanes(located.mask).filter(|it| (first..first + at_once).contains(it));
        let words: BTreeSet<u32> = turn
            .flat_map(|lane| {
                let from = located.offsets[lane];
                from / 4..(from + bytes).div_ceil(4)
            })
            .collect();
        let mut of_bank = [0u64; BANKS as usize];
        words.iter().for_each(|it| of_bank[(it % BANKS) as usize] += 1);
        took += of_bank.iter().copied().max().unwrap_or(0);
        ideal += u64::from(!words.is_empty());
    }
    (took, ideal)
}

fn sectors(located: &Located, bytes: u32) -> (u64, u64) {
    let mut sectors = BTreeSet::new();
    let mut starts = BTreeSet::new();
    for lane in lanes(located.mask) {
        let from = located.offsets[lane];
        sectors.extend(from / SECTOR..(from + bytes).div_ceil(SECTOR));
        starts.insert(from);
    }
    let wanted = starts.len() as u64 * u64::from(bytes);
    (sectors.len() as u64, wanted.div_ceil(u64::from(SECTOR)))
}

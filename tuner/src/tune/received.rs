//! The transfers that a task received.

use std::collections::BTreeMap;

use tvmtune_ir::target::DeviceKey;
use tvmtune_plan::record::Ancestor;

use crate::space::Point;
use crate::transfer::Transfer;

/// The transfers that a task received so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Received {
    /// Rounds of the task.
    pub(super) n_rounds: u32,
    /// The number of sources at the last offer.
    pub(super) n_sources: usize,
    /// The transfers, by the points that they are in the space.
    pub(super) transfers: BTreeMap<Point, Transfer>,
}

impl Received {
    /// Returns the lineage entry of a point that is a transfer, in a record of `device`.
    pub(super) fn ancestor(&self, point: &Point, device: &DeviceKey) -> Option<Ancestor> {
        self.transfers.get(point).map(|it| it.ancestor(device))
    }
}
